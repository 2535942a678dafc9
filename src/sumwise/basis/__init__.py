"""Basis functions φ: what the model's individual output is linear in (Eq. 5).

A basis is anything that maps an (N, D) array of inputs to an (N, K) array of features, row by
row. Names in `BASES` are drawn for the data at hand; a user may pass any callable of that shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, runtime_checkable

import numpy as np

from sumwise.basis.fixed import Linear, Polynomial, RandomFourierFeatures, Scaled
from sumwise.errors import SettingError
from sumwise.shapes import Float

__all__ = ["BASES", "Basis", "Linear", "Polynomial", "RandomFourierFeatures", "Scaled", "draw"]


@runtime_checkable
class Basis(Protocol):
    """φ: a row of features for a row of inputs. Pure: the same inputs give the same features."""

    def __call__(self, x: Float[np.ndarray, "N D"], /) -> Float[np.ndarray, "N K"]: ...


# name -> (n_inputs, n_basis, lengthscale, degree, rng) -> Basis
BASES: Final[Mapping[str, Callable[[int, int, float, int, np.random.Generator], Basis]]] = {
    "linear": lambda n_inputs, n_basis, lengthscale, degree, rng: Linear(),
    "polynomial": lambda n_inputs, n_basis, lengthscale, degree, rng: Polynomial.of(
        degree, n_inputs
    ),
    "fourier": lambda n_inputs, n_basis, lengthscale, degree, rng: RandomFourierFeatures.draw(
        n_basis, n_inputs, lengthscale, rng
    ),
}


def draw(
    basis: str | Basis,
    n_inputs: int,
    *,
    n_basis: int,
    lengthscale: float,
    degree: int,
    rng: np.random.Generator,
) -> Basis:
    """The basis with this name for `n_inputs` inputs; a user's own object comes back as it is."""
    if not isinstance(basis, str):
        if not callable(basis):
            raise SettingError(
                f"basis is {basis!r}; give one of {', '.join(BASES)} or a function from an "
                "(N, D) array to an (N, K) array"
            )
        return basis
    if basis not in BASES:
        raise SettingError(f"no basis is called {basis!r}; there are {', '.join(BASES)}")
    return BASES[basis](n_inputs, n_basis, lengthscale, degree, rng)
