"""Basis functions φ: what the model's individual output is linear in (Eq. 5).

A basis is anything that maps an (N, D) array of inputs to an (N, K) array of features, row by
row. Names in `BASES` are drawn for the data at hand; a user may pass any callable of that shape,
an Equinox module, or `Neural`, which is trained.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import numpy as np

from sumwise.data.sets import Sets
from sumwise.data.targets import Inputs
from sumwise.errors import SettingError
from sumwise.model.basis import spatial
from sumwise.model.basis.auto import Auto, prior_correlation
from sumwise.model.basis.fixed import Linear, Polynomial, RandomFourierFeatures, Scaled
from sumwise.model.basis.neural_config import Neural, with_dropout
from sumwise.util.shapes import Float

if TYPE_CHECKING:
    from sumwise.model.fit import ModelConfig

__all__ = [
    "BASES",
    "Auto",
    "Basis",
    "Linear",
    "Neural",
    "Polynomial",
    "RandomFourierFeatures",
    "Scaled",
    "draw",
    "with_dropout",
]


@runtime_checkable
class Basis(Protocol):
    """φ: a row of features for a row of inputs. Pure: the same inputs give the same features."""

    def __call__(self, x: Float[np.ndarray, "N D"], /) -> Float[np.ndarray, "N K"]: ...


# name -> (settings, sets, inputs, rng) -> Basis
BASES: Final[Mapping[str, Callable[[ModelConfig, Sets, Inputs, np.random.Generator], Basis]]] = {
    "linear": lambda config, sets, inputs, rng: Linear(),
    "polynomial": lambda config, sets, inputs, rng: Polynomial.of(config.degree, sets.n_inputs),
    "fourier": lambda config, sets, inputs, rng: RandomFourierFeatures.draw(
        config.n_basis, sets.n_inputs, config.lengthscale, rng
    ),
    "auto": lambda config, sets, inputs, rng: Auto.draw(
        inputs,
        config.n_basis,
        config.lengthscale,
        rng,
        prior_correlation(sets.sizes, inputs),
        spatial.find(config.spatial, sets.input_names, inputs),
    ),
    "neural": lambda config, sets, inputs, rng: Neural(n_basis=config.n_basis).draw(sets, rng),
}


def draw(config: ModelConfig, sets: Sets, inputs: Inputs, rng: np.random.Generator) -> Basis:
    """The basis that `config` names, for sets and inputs like these; a user's function as it is."""
    basis = config.basis
    if isinstance(basis, str) and basis in BASES:
        return BASES[basis](config, sets, inputs, rng)
    equinox = sys.modules.get("equinox")  # a module exists only if Equinox is loaded
    if equinox is not None and isinstance(basis, equinox.Module):
        basis = Neural(network=basis)
    if isinstance(basis, Neural):
        return basis.draw(sets, rng)
    if not callable(basis):
        function = "a function from an (N, D) array to an (N, K) array"
        raise SettingError(f"no basis is called {basis!r}; give {', '.join(BASES)} or {function}")
    return basis
