"""`Neural`: the settings of a network, which need no JAX."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sumwise.errors import SettingError, needs_extra
from sumwise.model.basis.fixed import check_number

if TYPE_CHECKING:
    from sumwise.data.sets import Sets
    from sumwise.model.basis.neural import NeuralBasis

ACTIVATIONS: Final = ("relu", "tanh", "gelu", "silu", "softplus", "elu")
USUAL_DROPOUT: Final = 0.1
LARGEST: Final = 100_000  # of width, outputs and samples: beyond it, memory and not learning


@dataclass(frozen=True, slots=True, eq=False)
class Neural:
    """A basis that is learned: φ is a neural network, trained with λ and β by Equation 22.

    Its predictions can be better than those of fixed bases, but its intervals are far too narrow:
    docs/neural.md has the figures.

    Args:
        width: Units of each hidden layer.
        depth: Layers of weights: with 4 there are three of hidden units, and the outputs.
        n_basis: K, outputs of the network.
        activation: relu, tanh, gelu, silu, softplus or elu.
        epochs: Steps of Adam after each answer, from where the previous answer left the network.
        learning_rate: Of Adam.
        dtype: Of the network, `"float32"` or `"float64"`. The evidence is computed in double
            precision either way.
        dropout: Above 0, a dropout network instead: no coefficient is random, and uncertainty
            comes from units dropped at random, each with this probability. DAMI and DAEnt
            need one.
        samples: L, how many such draws predictions and scores are made of.
        network: Your own network instead of `width`, `depth`, `n_basis` and `activation`: an
            Equinox module that maps a row of inputs to a row of features, or a JAX function of
            (parameters, row).
        parameters: Of that function, any nest of arrays.

    >>> Neural(width=16, epochs=300)
    Neural(width=16, epochs=300)
    """

    width: int = 32
    depth: int = 4
    n_basis: int = 128
    activation: str = "relu"
    epochs: int = 1000
    learning_rate: float = 1e-3
    dtype: str = "float32"
    dropout: float = 0.0
    samples: int = 50
    network: Any = None
    parameters: Any = None

    def __post_init__(self) -> None:
        for name, least, most in (
            ("width", 1, LARGEST),
            ("depth", 1, 100),
            ("n_basis", 1, LARGEST),
            ("epochs", 0, 10**9),
            ("samples", 2, LARGEST),
        ):
            check_number(getattr(self, name), name, least, most, whole=True)
        check_number(self.learning_rate, "learning_rate", 1e-30, 10)
        check_number(self.dropout, "dropout", 0, 0.95)
        for name, known in (("activation", ACTIVATIONS), ("dtype", ("float32", "float64"))):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in known:
                raise SettingError(f"{name} is {value!r}; give {', '.join(known)}")
        if self.network is not None and not callable(self.network):
            raise SettingError(
                f"network is {self.network!r}; give an Equinox module, or a function of "
                "(parameters, row)"
            )
        if self.parameters is not None and self.network is None:
            raise SettingError("parameters were given without the network they belong to")
        if self.network is not None and self.dropout:
            raise SettingError("dropout is built into our own network only; leave network out")

    def __repr__(self) -> str:
        changed = (
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if repr(getattr(self, field.name)) != repr(field.default)
        )
        return f"Neural({', '.join(changed)})"

    def draw(self, sets: Sets, rng: np.random.Generator) -> NeuralBasis:
        """A network with random weights, for sets like these."""
        self.require()
        from sumwise.model.basis.neural import NeuralBasis

        return NeuralBasis.draw(self, sets, rng)

    @staticmethod
    def require() -> None:
        """Raise an error if JAX, Equinox or Optax is missing."""
        with needs_extra("a neural basis", "neural"):
            importlib.import_module("sumwise.model.basis.neural")


def with_dropout(basis: Any, n_basis: int) -> Neural:
    """The same network with dropout, which DAMI and DAEnt are defined for."""
    if isinstance(basis, str) and basis == "neural":
        basis = Neural(n_basis=n_basis)
    if not isinstance(basis, Neural) or basis.network is not None:
        raise SettingError(
            "DAMI and DAEnt need a dropout network, and this model has none. Give it "
            f"basis=sumwise.Neural(dropout={USUAL_DROPOUT}), or choose AggMI or AggEnt."
        )
    return basis if basis.dropout else replace(basis, dropout=USUAL_DROPOUT)
