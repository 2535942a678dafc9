"""Adam on a network, all epochs in one compiled loop, over labelled sets in flat arrays.

Instances of all sets lie in one array that is filled up to one of a few sizes with weight zero, so
that a new label does not mean a new compilation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from sumwise.data.sets import Sets
from sumwise.errors import SumwiseError
from sumwise.model.basis.neural_config import Neural
from sumwise.model.basis.padding import Room, room_for
from sumwise.util.progress import Slow
from sumwise.util.shapes import Float

EPOCHS_AT_ONCE = 100  # then the loss is looked at, and somebody waiting is told how far it is


class Labelled(NamedTuple):
    """The labelled sets in one flat array each, filled up."""

    x: jax.Array  # instances, then copies of the first
    theta: jax.Array  # their weights; 0 where filled up
    owner: jax.Array  # the set each belongs to
    theta_sum: jax.Array
    root_scale: jax.Array  # √s_a; 1 where filled up
    target: jax.Array  # ȳ/√s; 0 where filled up
    real: jax.Array  # whether there is such a set
    blur: jax.Array | None = None  # r²/s of known noise, 0 where filled up; None compiles without


def flat(
    sets: Sets,
    target: Float[np.ndarray, "t M"],
    dtype: str,
    room: Room,
    noise_std: Float[np.ndarray, " t"] | None = None,
) -> Labelled:
    """Labelled sets with standardised inputs, filled up to a size that is compiled once."""
    n_sets, n_rows = len(sets), len(sets.x)
    most_sets, most_rows = room_for(sets, room)
    # filled up with a row that exists: a user's network need not be defined elsewhere
    x = np.repeat(sets.x[:1].astype(dtype), most_rows, axis=0)
    theta = np.zeros(most_rows, dtype)
    owner = np.full(most_rows, most_sets - 1, np.int32)
    x[:n_rows], theta[:n_rows] = sets.x, sets.theta
    owner[:n_rows] = np.repeat(np.arange(n_sets, dtype=np.int32), sets.sizes)
    theta_sum, root_scale = np.zeros(most_sets), np.ones(most_sets)
    theta_sum[:n_sets] = np.add.reduceat(sets.theta, sets.starts[:-1])
    root_scale[:n_sets] = np.sqrt(np.add.reduceat(sets.theta**2, sets.starts[:-1]))
    z = np.zeros((most_sets, target.shape[1]))
    z[:n_sets] = target / root_scale[:n_sets, None]
    arrays = (x, theta, owner, theta_sum, root_scale, z, np.arange(most_sets) < n_sets)
    if noise_std is None:
        return Labelled(*map(jnp.asarray, arrays))
    blur = np.zeros(most_sets)
    blur[:n_sets] = (noise_std / root_scale[:n_sets]) ** 2
    return Labelled(*map(jnp.asarray, (*arrays, blur)))


def sum_by_owner(rows: jax.Array, data: Labelled) -> jax.Array:
    """Σ_n θ_an of every row, a row per set."""
    weighted = rows * data.theta[:, None]
    return jax.ops.segment_sum(weighted, data.owner, len(data.real), indices_are_sorted=True)


def climb(
    objective: Callable[..., jax.Array],
    start: Any,
    data: Labelled,
    extra: Any,
    settings: Neural,
) -> Any:
    """`start` after all epochs of Adam on `objective`."""
    arrays, rest = eqx.partition(start, eqx.is_inexact_array)
    moments = optax.scale_by_adam().init(arrays)
    epoch = 0
    with Slow("training", settings.epochs) as progress:
        while epoch < settings.epochs:
            stop = min(epoch + EPOCHS_AT_ONCE, settings.epochs)
            bounds = jnp.asarray([epoch, stop]), jnp.asarray(float(settings.learning_rate))
            arrays, moments, bad = _epochs(objective, arrays, rest, moments, data, extra, *bounds)
            if int(bad) >= 0:
                raise SumwiseError(_not_finite(int(bad) + 1, settings))
            epoch = stop
            progress.at(epoch)
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(arrays)):
        raise SumwiseError(_not_finite(epoch, settings))  # by the last step of all
    return eqx.combine(arrays, rest)


@eqx.filter_jit
def _epochs(
    objective: Callable[..., jax.Array],
    arrays: Any,
    rest: Any,
    moments: Any,
    data: Labelled,
    extra: Any,
    bounds: jax.Array,
    rate: jax.Array,
) -> tuple[Any, Any, jax.Array]:
    """Epochs from bounds[0] to bounds[1], and the first whose loss was not finite, or −1."""
    adam = optax.scale_by_adam()

    def loss(arrays: Any, epoch: jax.Array) -> jax.Array:
        return objective(eqx.combine(arrays, rest), data, extra, epoch)

    def step(epoch: jax.Array, carry: tuple[Any, Any, jax.Array]) -> tuple[Any, Any, jax.Array]:
        arrays, moments, bad = carry
        value, slope = jax.value_and_grad(loss)(arrays, epoch)
        change, moments = adam.update(slope, moments)
        moved = jax.tree.map(lambda a, c: (a - rate * c).astype(a.dtype), arrays, change)
        return moved, moments, jnp.where((bad < 0) & ~jnp.isfinite(value), epoch, bad)

    begin = (arrays, moments, jnp.asarray(-1, dtype=bounds.dtype))
    return jax.lax.fori_loop(bounds[0], bounds[1], step, begin)


def _not_finite(epoch: int, settings: Neural) -> str:
    return (
        f"training the network went wrong at epoch {epoch} of {settings.epochs}: the loss is not a "
        f"finite number. Try a smaller learning_rate (it is {settings.learning_rate:g}), "
        "standardize=True, or dtype='float64'; look for an input, weight or total far from the "
        "others."
    )
