"""Loops that are compiled with numba (`pip install 'sumwise[fast]'`), and what calls them.

`sum_waves` adds up cosines (Eq. 24) over sets without ever holding φ: the features of one instance
stay in cache and are added to their set at once. Most of its time is the cosine, a polynomial that
vectorises. In double precision cos v = 1 − 2 sin² h with h = v/2 − qπ in [−π/2, π/2], and sin h by
its Taylor series to h²¹ (remainder 1e-18). In single precision, for designs that are stored so, it
is three times as fast and right to about 1e-6 of a feature; angles are then in turns.

    Fourier features    one family of waves of the standardised inputs
    `"auto"`            one family for each of its scalings, with its length-scales side by side,
                        and linear parts, which need no kernel; one more of a position

`adam` is the paper's search for λ and β on a spectrum. NumPy does the same as both, to rounding, in
`design` and `evidence`; it embeds all other bases, and inputs too large for the kernels. Importing
this module imports numba.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numba import njit, types
from numba.extending import overload

from sumwise.model.basis import Scaled
from sumwise.util.shapes import Float, Int

LARGEST_ANGLE: Final = 1e6  # up to which the range reduction of the cosine is exact
LARGEST_SINGLE_ANGLE: Final = 500.0  # up to which single precision has the cosine to 1e-5

# q = round(v / 2π) by adding 1.5 · 2⁵², which leaves no bits for a fraction
_ROUND = 6755399441055744.0
_INV_TWO_PI = 1.0 / (2.0 * math.pi)
# π in two parts; the first ends in 20 zero bits, so q times it is exact for |q| < 2²⁰, which
# `LARGEST_ANGLE` keeps well inside of
_PI_HIGH = 3.14159265346825122833
_PI_LOW = 1.21542010130123844986e-10

_S3, _S5, _S7, _S9, _S11, _S13, _S15, _S17, _S19, _S21 = (
    (-1.0) ** (n // 2) / math.factorial(n) for n in range(3, 22, 2)
)


# in single precision cos 2πv = 1 − 2 sin² πh with h = v − round(v), sin πh to h¹³
_ROUND_SINGLE = np.float32(1.5 * 2.0**23)
_P1, _P3, _P5, _P7, _P9, _P11, _P13 = (
    np.float32((-1.0) ** (n // 2) * math.pi**n / math.factorial(n)) for n in range(1, 14, 2)
)
_ONE, _TWO = np.float32(1.0), np.float32(2.0)
_ROWS_SINGLE = 64  # summed in single precision before they go to a sum in double


def _cosine(v: Any) -> Any:
    """Of radians in double precision, of turns in single; compiled code calls what follows."""


@overload(_cosine, inline="always")
def _cosine_for(v):  # type: ignore[no-untyped-def]
    if v == types.float32:
        return _cosine_of_turns
    return _cosine_of_radians


def _cosine_of_turns(v):  # type: ignore[no-untyped-def]
    h = v - ((v + _ROUND_SINGLE) - _ROUND_SINGLE)
    y = h * h
    sine = h * (_P1 + y * (_P3 + y * (_P5 + y * (_P7 + y * (_P9 + y * (_P11 + y * _P13))))))
    return _ONE - _TWO * sine * sine


def _cosine_of_radians(v):  # type: ignore[no-untyped-def]
    q = (v * _INV_TWO_PI + _ROUND) - _ROUND
    h = (0.5 * v - q * _PI_HIGH) - q * _PI_LOW
    z = h * h
    tail = _S15 + z * (_S17 + z * (_S19 + z * _S21))
    sine = h + h * z * (
        _S3 + z * (_S5 + z * (_S7 + z * (_S9 + z * (_S11 + z * (_S13 + z * tail)))))
    )
    return 1.0 - 2.0 * sine * sine


@njit(cache=True, nogil=True, fastmath={"contract"})
def sum_waves(inputs, theta, starts, frequencies, phases, amplitude, centre, rows, out, first):  # type: ignore[no-untyped-def]
    """Write u_a into W + 1 columns of `out` from `first` on, Σθ last, in the precision of `phases`.

    `inputs` is (D, N), standardised; `frequencies` is (D, W), so W is contiguous. In single
    precision both are in turns. After every `rows` instances the sum so far is added to one in
    double precision: over a large set, single precision would round each cosine in the same
    direction.
    """
    waves, n_inputs = phases.shape[0], inputs.shape[0]
    width = (waves + 31) // 32 * 32  # whole vectors: the rest of a loop would run one by one
    depth = (n_inputs + 3) // 4 * 4  # inputs go four at a time: fewer loads and stores of angles
    b, c = np.zeros((depth, width), phases.dtype), np.zeros(width, phases.dtype)
    b[:n_inputs, :waves], c[:waves] = frequencies, phases
    z, weight = np.zeros(depth, phases.dtype), np.zeros(1, phases.dtype)
    angle, total, whole = np.zeros(width, c.dtype), np.zeros(width, c.dtype), np.zeros(width)
    for a in range(starts.shape[0] - 1):
        total[:] = 0.0
        whole[:] = 0.0
        bias, left = 0.0, rows
        for n in range(starts[a], starts[a + 1]):
            for d in range(n_inputs):
                z[d] = inputs[d, n]
            z0, z1, z2, z3 = z[0], z[1], z[2], z[3]
            for k in range(width):
                angle[k] = c[k] - z0 * b[0, k] - z1 * b[1, k] - z2 * b[2, k] - z3 * b[3, k]
            for d in range(4, depth, 4):
                z0, z1, z2, z3 = z[d], z[d + 1], z[d + 2], z[d + 3]
                for k in range(width):
                    angle[k] -= (
                        z0 * b[d, k] + z1 * b[d + 1, k] + z2 * b[d + 2, k] + z3 * b[d + 3, k]
                    )
            weight[0] = theta[n]
            w = weight[0]
            for k in range(width):
                total[k] += w * _cosine(angle[k])
            bias += theta[n]
            left -= 1
            if left == 0:
                left = rows
                for k in range(width):
                    whole[k] += total[k]
                    total[k] = 0.0
        for k in range(waves):
            out[a, first + k] = amplitude[k] * (whole[k] + total[k]) - centre[k] * bias
        out[a, first + waves] = bias


def sum_runs(
    inputs: Float[np.ndarray, "D n"],
    theta: Float[np.ndarray, " n"],
    bounds: Int[np.ndarray, " r1"],
    basis: Scaled,
    dtype: np.dtype[Any],
) -> Float[np.ndarray, "r K"] | None:
    """u of every run `bounds[a]:bounds[a + 1]`; None where angles are too large for the kernel.

    Single precision is used if `dtype` asks for it and angles allow it.
    """
    found = summing(inputs, basis, dtype)
    return None if found is None else found(inputs, theta, bounds)


def summing(
    inputs: Float[np.ndarray, "D n"], basis: Scaled, dtype: np.dtype[Any]
) -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None:
    """What gives u of runs of these inputs, or of some of them: the rest of `sum_runs`."""
    waves = basis.waves
    ends = np.stack([inputs.min(axis=1), inputs.max(axis=1)]).astype(np.float64)
    with np.errstate(all="ignore"):
        views = basis.views((ends - basis.shift) / basis.scale)
        angles = [
            float((abs(family.frequencies) @ most).max(initial=0.0)) + 2 * np.pi
            for family, z in zip(waves, views, strict=True)
            for most in [np.maximum(abs(z).max(axis=0), family.farthest)]
        ]
    if not max(angles) < LARGEST_ANGLE:
        return None
    single = dtype == np.float32 and max(angles) < LARGEST_SINGLE_ANGLE
    kind, unit = (np.float32, 2 * np.pi) if single else (np.float64, 1.0)
    families = [
        (
            np.ascontiguousarray(family.frequencies.T / unit, dtype=kind),
            (family.phases / unit).astype(kind),
            family.amplitude.astype(kind),
            family.centre,
            _ROWS_SINGLE if single else 2**62,
        )
        for family in waves
    ]

    def sums(x: np.ndarray, theta: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        standard = np.empty(x.shape, np.float64 if len(waves) > 1 else kind)
        for d, column in enumerate(x):  # in double precision, whatever the file holds
            np.divide(column - basis.shift[d], basis.scale[d], out=standard[d], casting="same_kind")
        u = np.empty((len(bounds) - 1, waves[-1].stop + 1), kind)
        weights = theta.view()
        weights.flags.writeable = False  # whatever is given: one type is compiled, once
        for family, known, z in zip(waves, families, basis.views(standard.T), strict=True):
            own = np.ascontiguousarray(z.T, kind)
            sum_waves(
                own, weights, bounds, *known, u, family.first
            )  # the bias of the last one stays
            if family.linear is not None:
                columns, centre, size = family.linear
                linear = theta[:, None] * ((z - centre) / size)
                u[:, columns] = np.add.reduceat(linear, bounds[:-1])
        return u.astype(dtype, copy=False)

    return sums


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})
def adam(values, power, count, point, epochs, rate):  # type: ignore[no-untyped-def]
    """Move `point`, log λ and log β, by `epochs` Adam steps; see `evidence.adam`."""
    slope, first, second = np.zeros(2), np.zeros(2), np.zeros(2)
    decay_first = decay_second = 1.0
    for _ in range(epochs):
        inverse_prior, inverse_noise = math.exp(-point[0]), math.exp(-point[1])
        by_prior = by_noise = 0.0
        for i in range(values.shape[0]):
            signal = values[i] * inverse_prior
            inverse = 1.0 / (signal + inverse_noise)
            pull = (count[i] - power[i] * inverse) * inverse
            by_prior += pull * signal
            by_noise += pull
        slope[0], slope[1] = -0.5 * by_prior, -0.5 * inverse_noise * by_noise  # of −log p
        decay_first *= 0.9
        decay_second *= 0.999
        step, root = rate / (1.0 - decay_first), math.sqrt(1.0 - decay_second)
        for j in range(2):
            first[j] = 0.9 * first[j] + 0.1 * slope[j]
            second[j] = 0.999 * second[j] + 0.001 * slope[j] * slope[j]
            point[j] -= step * first[j] / (math.sqrt(second[j]) / root + 1e-8)
