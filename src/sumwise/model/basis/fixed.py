"""Bases that are fixed once drawn: linear, polynomial, random Fourier features.

    φ(x) = [ √(2/(K−1)) cos(c − B x / ℓ), 1 ],   b_kd ~ N(0, 1),  c_k ~ U(0, 2π)     Eq. 24

With length-scale ℓ the first K−1 features approximate a Gaussian process with kernel
exp(−‖x − x′‖² / 2ℓ²); the last one is a bias. Every basis here ends with that bias.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from sumwise.errors import SettingError
from sumwise.util.shapes import Float

T = TypeVar("T")
MOST_WAVES = 1_000_000
MOST_MONOMIALS = 20_000  # beyond this a row of features is larger than any sensible input row


def check_number(
    value: Any, name: str, least: float, most: float = math.inf, *, whole: bool = False
) -> None:
    """Refuse a setting that is not a number, or not one from `least` to `most`."""
    kinds = int | np.integer if whole else int | float | np.integer | np.floating
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        span = f"from {least} to {most}" if most < math.inf else f"of at least {least}"
        what = "whole number" if whole else "number"
        raise SettingError(f"{name} is {value!r:.60}; give a {what} {span}")


@dataclass(frozen=True, slots=True, eq=False)
class Waves:
    """Features amplitude · cos(phase − frequency · z) − centre of the same inputs z."""

    first: int  # column of the first
    frequencies: Float[np.ndarray, "W D"]
    phases: Float[np.ndarray, " W"]
    amplitude: Float[np.ndarray, " W"]
    centre: Float[np.ndarray, " W"]
    linear: tuple[slice, Any, Any] | None = None  # columns of (z − centre) / size, centre, size
    farthest: float = 0.0  # largest |z|, where it need not be at the ends of the inputs

    @property
    def stop(self) -> int:
        """The column after the last; after the last family, the bias is there."""
        return self.first + len(self.phases)


@dataclass(frozen=True, slots=True)
class Linear:
    """φ(x) = [x, 1]."""

    def __call__(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N K"]:
        return np.column_stack([x, np.ones(len(x))])


@dataclass(frozen=True, slots=True)
class Polynomial:
    """All monomials of the inputs up to a total degree, the bias last."""

    factors: tuple[tuple[int, ...], ...]  # columns multiplied in each monomial

    @classmethod
    def of(cls, degree: int, n_inputs: int) -> Polynomial:
        check_number(degree, "degree", 0, whole=True)
        count = math.comb(n_inputs + degree, degree)
        if count > MOST_MONOMIALS:
            raise SettingError(
                f"degree {degree} with {n_inputs} inputs makes {count} monomials, more than "
                f"{MOST_MONOMIALS}. Lower the degree, or use basis='fourier'."
            )
        choices = itertools.combinations_with_replacement
        orders = range(degree, -1, -1)
        return cls(tuple(chosen for n in orders for chosen in choices(range(n_inputs), n)))

    def __call__(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N K"]:
        out = np.ones((len(x), len(self.factors)))
        for k, columns in enumerate(self.factors):
            for column in columns:
                out[:, k] *= x[:, column]
        return out


@dataclass(frozen=True, slots=True, eq=False)
class RandomFourierFeatures:
    """Eq. 24, with frequencies and phases drawn once, so that calling it is deterministic."""

    frequencies: Float[np.ndarray, "W D"]  # B / ℓ, with W = K − 1
    phases: Float[np.ndarray, " W"]  # c

    @classmethod
    def draw(
        cls, n_basis: int, n_inputs: int, lengthscale: float, rng: np.random.Generator
    ) -> RandomFourierFeatures:
        check_number(n_basis, "n_basis", 1, MOST_WAVES, whole=True)
        check_number(lengthscale, "lengthscale", 1e-100, 1e100)
        waves = int(n_basis) - 1  # the last feature is the bias
        frequencies = rng.standard_normal((waves, n_inputs)) / float(lengthscale)
        return cls(frequencies, rng.uniform(0, 2 * np.pi, waves))

    @property
    def waves(self) -> tuple[Waves, ...]:
        count = len(self.phases)
        amplitude = np.full(count, math.sqrt(2 / max(count, 1)))
        return (Waves(0, self.frequencies, self.phases, amplitude, np.zeros(count)),)

    def __call__(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N K"]:
        (waves,) = self.waves
        out = np.ones((len(x), waves.stop + 1))
        angles = waves.phases - x @ waves.frequencies.T
        np.multiply(np.cos(angles, out=angles), waves.amplitude, out=out[:, :-1])
        return out

    def arrays(self) -> dict[str, np.ndarray]:
        """What was drawn, by the names it is stored under."""
        return {"frequencies": self.frequencies, "phases": self.phases}

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> RandomFourierFeatures:
        return RandomFourierFeatures(arrays["frequencies"], arrays["phases"])


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """A basis on standardised inputs: φ((x − shift) / scale).

    A user's basis is a function. What else the program asks of a basis is answered here: by the
    basis itself if it is one of ours, otherwise by a default.
    """

    basis: Callable[[Float[np.ndarray, "N D"]], Float[np.ndarray, "N K"]]
    shift: Float[np.ndarray, " D"]
    scale: Float[np.ndarray, " D"]

    def __call__(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N K"]:
        return self.basis((x - self.shift) / self.scale)

    def _own(self, name: str, default: T) -> T:
        return getattr(self.basis, name, default) if self.built_in else default

    @property
    def built_in(self) -> bool:
        """Whether the basis is one of ours."""
        return type(self.basis).__module__.startswith("sumwise.")

    @property
    def learns(self) -> bool:
        """Whether the basis changes with the totals."""
        return self._own("learns", False)

    @property
    def averages(self) -> bool:
        """Whether features are those of several candidate models (`averaging`)."""
        return self._own("averages", False)

    @property
    def committee(self) -> bool:
        """Whether features are equally likely models of the output, without coefficients."""
        return self._own("committee", False)

    @property
    def waves(self) -> tuple[Waves, ...]:
        """The cosines of the basis, one entry for each scaling of inputs; none in most bases."""
        return self._own("waves", ())

    @property
    def tangent(self) -> Any:
        """The basis itself, where it is the derivative of outputs that are not linear in w."""
        return self.basis if self._own("is_tangent", False) else None

    def views(self, standard: Float[np.ndarray, "N D"]) -> list[Float[np.ndarray, "N D"]]:
        """Standardised inputs as each entry of `waves` takes them."""
        return self._own("scaled", lambda z: [z])(standard)

    def arrays(self) -> dict[str, np.ndarray]:
        """All that was drawn or learned, by the names it is stored under."""
        return {"shift": self.shift, "scale": self.scale, **self._own("arrays", dict)()}

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> Scaled:
        """The basis of this kind with these `arrays`."""
        basis = self._own("with_arrays", lambda _: self.basis)(arrays)
        return Scaled(basis, arrays["shift"], arrays["scale"])

    def state(self) -> bytes | None:
        """What the basis has learned; None if it does not learn."""
        state = self.arrays().get("state")
        return None if state is None else state.tobytes()

    def restored(self, state: bytes | None) -> Scaled:
        """The basis that has learned `state`."""
        if state is None:
            return self
        return self.with_arrays({**self.arrays(), "state": np.frombuffer(state, np.uint8)})

    def same_as(self, other: Scaled) -> bool:
        """Whether both give the same features."""
        mine, theirs = self.arrays(), other.arrays()
        return self is other or (
            type(self.basis) is type(other.basis)
            and mine.keys() == theirs.keys()
            and all(np.array_equal(mine[name], theirs[name]) for name in mine)
            and (len(mine) > 2 or self.basis == other.basis)
        )
