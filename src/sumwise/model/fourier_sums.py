"""Sums over sets by the compiled kernels, for bases that are made of cosines.

    Fourier features    one family of waves of the standardised inputs
    `"auto"`            one family for each of its scalings, with three length-scales side by side,
                        and linear parts, which need no kernel

All other bases, and inputs so large that a kernel's range reduction would fail, are for NumPy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from sumwise.model.basis import Auto, RandomFourierFeatures, Scaled
from sumwise.model.basis.auto import LENGTHSCALES
from sumwise.util.shapes import Float, Int

COMPILED_FROM: Final = 2**25  # features; below this, loading numba costs more than it saves
LARGEST_ANGLE: Final = 1e6  # of a cosine the kernel's range reduction is exact for
LARGEST_SINGLE_ANGLE: Final = 500.0  # whose cosine single precision still has to 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Waves amplitude · cos(phase − frequency · z) that see the inputs in the same way."""

    first: int  # column of the first
    frequencies: Float[np.ndarray, "W D"]
    phases: Float[np.ndarray, " W"]
    amplitude: Float[np.ndarray, " W"]


def families(basis: Scaled) -> tuple[Family, ...]:
    """The waves of a basis; none if it is not made of them."""
    drawn = basis.basis
    if isinstance(drawn, RandomFourierFeatures):
        amplitude = np.full(len(drawn.phases), drawn.amplitude)
        return (Family(0, drawn.frequencies, drawn.phases, amplitude),)
    if not isinstance(drawn, Auto):
        return ()
    n_waves, n_inputs = drawn.frequencies.shape
    count = len(LENGTHSCALES)
    far = math.sqrt(n_inputs)
    turns = np.concatenate([drawn.frequencies / (length * far) for length in LENGTHSCALES])
    sizes = drawn.size[2 : 2 + 2 * count].reshape(2, count)
    return tuple(
        Family(
            2 * n_inputs + i * count * n_waves,
            turns,
            np.tile(drawn.phases, count),
            np.repeat(math.sqrt(2 / n_waves) / own, n_waves),
        )
        for i, own in enumerate(sizes)
    )


def n_features(basis: Scaled) -> int:
    """Of a basis that is made of waves."""
    last = families(basis)[-1]
    return last.first + len(last.phases) + 1


def worth_compiling(n_individuals: int, basis: Scaled, numba_anyway: bool = False) -> bool:
    return (
        bool(families(basis))
        and (numba_anyway or n_individuals * n_features(basis) >= COMPILED_FROM)
        and find_spec("numba") is not None
    )


def summed(
    inputs: Float[np.ndarray, "D n"],
    theta: Float[np.ndarray, " n"],
    bounds: Int[np.ndarray, " r1"],
    basis: Scaled,
    dtype: np.dtype[Any],
) -> Float[np.ndarray, "r K"] | None:
    """u of every run `bounds[a]:bounds[a + 1]`; None where angles are too large for that.

    Single precision is used where it is wanted and good enough.
    """
    waves = families(basis)
    ends = np.stack([inputs.min(axis=1), inputs.max(axis=1)]).astype(np.float64)
    with np.errstate(all="ignore"):
        seen = _seen(basis, (ends - basis.shift) / basis.scale)
        angles = [
            float((abs(family.frequencies) @ abs(z).max(axis=0)).max(initial=0.0)) + 2 * np.pi
            for family, z in zip(waves, seen, strict=True)
        ]
    if not max(angles) < LARGEST_ANGLE:
        return None
    single = dtype == np.float32 and max(angles) < LARGEST_SINGLE_ANGLE
    kind = np.float32 if single else np.float64
    standard = np.empty(inputs.shape, np.float64 if len(waves) > 1 else kind)
    for d, column in enumerate(inputs):  # in double precision, whatever the file holds
        np.divide(column - basis.shift[d], basis.scale[d], out=standard[d], casting="same_kind")
    u = np.empty((len(bounds) - 1, n_features(basis)), kind)
    seen = _seen(basis, standard.T)
    for family, z in zip(waves, seen, strict=True):
        # the kernel writes a bias after its waves: it stays after the last family
        out = u if len(waves) == 1 else u[:, family.first : family.first + len(family.phases) + 1]
        _sum(family, z, theta, bounds, out)
    drawn = basis.basis
    if isinstance(drawn, Auto):
        for i, z in enumerate(seen):
            linear = theta[:, None] * ((z - drawn.centre[i]) / drawn.size[i])
            u[:, drawn.columns[i]] = np.add.reduceat(linear, bounds[:-1])
    return u.astype(dtype, copy=False)


def _seen(basis: Scaled, standard: Float[np.ndarray, "n D"]) -> list[Float[np.ndarray, "n D"]]:
    """Standardised inputs as each family sees them."""
    drawn = basis.basis
    return drawn.scaled(standard) if isinstance(drawn, Auto) else [standard]


def _sum(
    family: Family,
    z: Float[np.ndarray, "n D"],
    theta: Float[np.ndarray, " n"],
    bounds: Int[np.ndarray, " r1"],
    out: Float[np.ndarray, "r W1"],
) -> None:
    from sumwise.model import kernels

    if out.dtype == np.float32:
        turns = np.ascontiguousarray(family.frequencies.T / (2 * np.pi), dtype=np.float32)
        phases = (family.phases / (2 * np.pi)).astype(np.float32)
        inputs = np.ascontiguousarray(z.T, dtype=np.float32)
        amplitude = family.amplitude.astype(np.float32)
        kernels.sum_waves_single(inputs, theta, bounds, turns, phases, amplitude, out)
        return
    plain = np.zeros(z.shape[1]), np.ones(z.shape[1])  # z is scaled already
    turns = np.ascontiguousarray(family.frequencies.T)
    x = np.ascontiguousarray(z)
    kernels.sum_waves(x, theta, bounds, *plain, turns, family.phases, family.amplitude, out)
