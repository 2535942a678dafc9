"""Networks as values: ours, a user's own, and how their weights are stored without pickle."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sumwise.errors import DataError, SettingError
from sumwise.model import serialize
from sumwise.model.basis.neural_config import Neural
from sumwise.model.basis.training import on_device, own_settings, step_up
from sumwise.util.shapes import Float

FEWEST_ROWS = 512  # evaluated at once, so that few numbers of rows are compiled for


class Network(eqx.Module):
    """Layers of weights with an activation between them; the last layer is linear."""

    weights: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]
    activation: str = eqx.field(static=True)

    @classmethod
    def draw(cls, settings: Neural, n_inputs: int, rng: np.random.Generator) -> Network:
        """Uniform within ±1/√(units feeding in), drawn by NumPy: the same with any JAX."""
        sizes = [n_inputs, *[settings.width] * (settings.depth - 1), settings.n_basis]
        weights, biases = [], []
        for units_in, units_out in itertools.pairwise(sizes):
            reach = 1 / math.sqrt(max(units_in, 1))
            weights.append(on_device(rng.uniform(-reach, reach, (units_out, units_in))))
            biases.append(on_device(rng.uniform(-reach, reach, units_out)))
        return cls(tuple(weights), tuple(biases), settings.activation)

    def hidden(self, row: jax.Array) -> jax.Array:
        """The inputs of the last layer."""
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            row = getattr(jax.nn, self.activation)(weight @ row + bias)
        return row

    def __call__(self, row: jax.Array) -> jax.Array:
        return self.weights[-1] @ self.hidden(row) + self.biases[-1]


# --- a user's own ---------------------------------------------------------------------------------


def user_network(settings: Neural) -> Any:
    """The user's own network as a module; None if the settings have none."""
    if settings.network is None:
        return None
    if settings.parameters is not None:
        numbers = jax.tree.map(_number, settings.parameters)
        network: Any = eqx.Partial(settings.network, numbers)
    elif isinstance(settings.network, eqx.Module):
        network = jax.tree.map(
            lambda leaf: _number(leaf) if isinstance(leaf, np.ndarray | jax.Array) else leaf,
            settings.network,
        )
    else:
        raise SettingError(
            "network is a function without parameters: there is nothing to train. Give "
            "parameters=..., or pass the function itself as the basis."
        )
    if not jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)):
        raise SettingError(
            "the network has no real numbers that could be trained; make its parameters arrays of "
            "floats"
        )
    return network


def _number(leaf: Any) -> Any:
    """An array that JAX can hold; random keys and the like stay as they are."""
    if isinstance(leaf, jax.Array) and not jnp.issubdtype(leaf.dtype, jnp.complexfloating):
        return leaf
    array = np.asarray(leaf)
    if array.dtype.kind == "f":
        array = array.astype(np.float64)  # JAX has nothing wider
    if array.dtype.kind not in "biuf":
        raise SettingError(
            f"the parameters of the network are not all real numbers: {leaf!r:.60}; give arrays"
        )
    return on_device(array)


def check(network: Any, n_inputs: int, dtype: str) -> None:
    """A user's network gives one row of features for one row of inputs."""
    try:
        out = jax.eval_shape(network, jnp.zeros(n_inputs, dtype))
    except Exception as error:
        first_line = f"{type(error).__name__}: {error}".splitlines()[0]
        raise SettingError(
            f"the network fails on a row of {n_inputs} inputs: {first_line}"
        ) from error
    shape, kind = getattr(out, "shape", None), getattr(out, "dtype", np.dtype(object)).kind
    if shape is None or len(shape) != 1 or shape[0] < 1 or kind not in "f":
        raise SettingError(
            f"the network gives {out} for a row of {n_inputs} inputs; it must give a row of real "
            "features, shape (K,)"
        )


# --- evaluating and storing -----------------------------------------------------------------------


def on_rows(
    function: Callable[[Any, jax.Array], jax.Array],
    network: Any,
    x: Float[np.ndarray, "N D"],
    dtype: str,
) -> Float[np.ndarray, "N K"]:
    """`function(network, rows)`, compiled for a few numbers of rows only."""
    with own_settings():
        rows = np.zeros((step_up(len(x), steps=1, least=FEWEST_ROWS), x.shape[1]), dtype)
        rows[: len(x)] = x
        return np.asarray(function(network, on_device(rows)), dtype=np.float64)[: len(x)]


def as_type(network: Any, dtype: str) -> Any:
    """The network with all its real numbers in this precision."""
    return jax.tree.map(
        lambda leaf: on_device(leaf, dtype) if eqx.is_inexact_array(leaf) else leaf, network
    )


def to_bytes(network: Any) -> bytes:
    """The weights as an archive of arrays."""
    leaves = jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array))
    return serialize.to_bytes({f"leaf{i}": leaf for i, leaf in enumerate(leaves)})


def from_bytes(network: Any, packed: bytes) -> Any:
    """`network` with the weights that `to_bytes` packed; it must be of the same shape."""
    arrays, rest = eqx.partition(network, eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(arrays)
    by_name = serialize.from_bytes(packed, "the weights of a network")
    found = [by_name.get(f"leaf{i}", np.empty(0)) for i in range(len(by_name))]
    if [(a.shape, a.dtype) for a in found] != [(a.shape, a.dtype) for a in leaves]:
        raise DataError("the weights are of another network: their shapes or precision differ")
    with own_settings():
        return eqx.combine(jax.tree.unflatten(tree, map(on_device, found)), rest)
