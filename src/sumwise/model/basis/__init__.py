"""Basis functions φ: what the model's individual output is linear in (Eq. 5).

A basis is anything that maps an (N, D) array of inputs to an (N, K) array of features, row by
row. Names in `BASES` are drawn for the data at hand; a user may pass any callable of that shape,
an Equinox module, or `Neural`, which is trained.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from sumwise.data.input_stats import Inputs
from sumwise.data.sets import Sets
from sumwise.errors import SettingError
from sumwise.model.basis.auto import Auto
from sumwise.model.basis.fixed import Linear, Polynomial, RandomFourierFeatures, Scaled
from sumwise.model.basis.neural_config import Neural, with_dropout
from sumwise.util.shapes import Float

__all__ = [
    "BASES",
    "Auto",
    "Basis",
    "Linear",
    "Neural",
    "Polynomial",
    "RandomFourierFeatures",
    "Scaled",
    "Trainable",
    "draw",
    "with_dropout",
]


@runtime_checkable
class Basis(Protocol):
    """φ: a row of features for a row of inputs. Pure: the same inputs give the same features."""

    def __call__(self, x: Float[np.ndarray, "N D"], /) -> Float[np.ndarray, "N K"]: ...


@runtime_checkable
class Trainable(Basis, Protocol):
    """A basis that learns from totals. Pure too: training gives a new one."""

    committee: bool  # features are equally likely models of the output, and not to be weighed

    def train(
        self,
        sets: Sets,
        target: Float[np.ndarray, "t M"],
        log_precisions: Float[np.ndarray, "2"],
        *,
        pull: tuple[Float[np.ndarray, "2"], float] | None,
        fixed: bool,
        noise_std: Float[np.ndarray, " t"] | None = None,
    ) -> tuple[Trainable, Float[np.ndarray, "2"]]: ...

    def state(self) -> bytes: ...

    def restored(self, state: bytes) -> Trainable: ...


# name -> (sets, n_basis, lengthscale, degree, rng) -> Basis
BASES: Final[Mapping[str, Callable[[Sets, int, float, int, np.random.Generator], Basis]]] = {
    "linear": lambda sets, n_basis, lengthscale, degree, rng: Linear(),
    "polynomial": lambda sets, n_basis, lengthscale, degree, rng: Polynomial.of(
        degree, sets.n_inputs
    ),
    "fourier": lambda sets, n_basis, lengthscale, degree, rng: RandomFourierFeatures.draw(
        n_basis, sets.n_inputs, lengthscale, rng
    ),
    "auto": lambda sets, n_basis, lengthscale, degree, rng: Auto.draw(
        Inputs.of(sets.x), n_basis, lengthscale, rng
    ),
    "neural": lambda sets, n_basis, lengthscale, degree, rng: Neural(n_basis=n_basis).draw(
        sets, rng
    ),
}


def draw(
    basis: str | Basis | Neural,
    sets: Sets,
    *,
    n_basis: int,
    lengthscale: float,
    degree: int,
    rng: np.random.Generator,
) -> Basis:
    """The basis with this name for sets like these; a user's own object comes back as it is."""
    if isinstance(basis, str):
        if basis not in BASES:
            raise SettingError(f"no basis is called {basis!r}; there are {', '.join(BASES)}")
        return BASES[basis](sets, n_basis, lengthscale, degree, rng)
    if _is_equinox_module(basis):
        basis = Neural(network=basis)
    if isinstance(basis, Neural):
        return basis.draw(sets, rng)
    if not callable(basis):
        raise SettingError(
            f"basis is {basis!r}; give one of {', '.join(BASES)} or a function from an "
            "(N, D) array to an (N, K) array"
        )
    return basis


def _is_equinox_module(basis: Any) -> bool:
    equinox = sys.modules.get("equinox")  # whoever has a module has loaded it
    return equinox is not None and isinstance(basis, equinox.Module)
