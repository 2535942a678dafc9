"""Adam on a network, all epochs in one compiled loop, over labelled sets in flat arrays.

The instances of all sets lie in one array. It is padded with instances of weight zero to one of a
few sizes, so that a new label seldom needs a new compilation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from sumwise.data.sets import Sets
from sumwise.errors import SumwiseError
from sumwise.model.basis.neural_config import Neural
from sumwise.util.progress import Slow
from sumwise.util.shapes import Float, Int

EPOCHS_AT_ONCE = 100  # before the loss is checked and progress is reported
FIRST_SETS = 4  # labels that the first compilation is for; the second is for 32
MANY_TIMES = 3  # the first labels are allowed this multiple of the pool's mean set size
MARGIN = 1.15  # instances expected beyond the average of the first labels


@contextmanager
def own_settings() -> Iterator[None]:
    """Use double precision and NumPy's promotions here, whatever the user has set for JAX."""
    with (
        jax.enable_x64(True),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):
        yield


def on_device(values: Any, dtype: str | None = None) -> jax.Array:
    """Numbers as an array of JAX; `jnp.asarray` compiles a program for each shape to do that."""
    return jax.device_put(np.asarray(values, dtype))


# --- padding --------------------------------------------------------------------------------------


def padded_size(sets: Sets, pool: Int[np.ndarray, " A"]) -> tuple[int, int]:
    """Numbers of sets and instances to compile for, given the labelled `sets`.

    Sets come in steps of 4, 32, 48, 64, 96 …; instances in as many as those sets are likely to
    have, judged by the pool and then by the first labels, and at most what its largest sets have.

    Args:
        pool: The sizes of all sets, the largest first.
    """
    mean = float(pool.mean()) if len(pool) else 1.0
    if len(sets) <= FIRST_SETS:
        n_sets, expected = FIRST_SETS, MANY_TIMES * FIRST_SETS * mean
    else:
        n_sets = max(32, step_up(len(sets), steps=2))
        typical = max(mean, float(sets.sizes[:FIRST_SETS].mean()))
        expected = MARGIN * n_sets * typical
    if len(pool):
        expected = min(expected, float(pool[:n_sets].sum()))
    return n_sets, step_up(max(len(sets.x), math.ceil(expected)))


def step_up(number: int, steps: int = 8, least: int = 16) -> int:
    """The next larger size, of which there are `steps` to each doubling."""
    number = max(number, least)
    step = 2 ** max(math.floor(math.log2(number)), 0) // steps
    return -(-number // step) * step


# --- data and steps -------------------------------------------------------------------------------


class Labelled(NamedTuple):
    """The labelled sets in flat arrays, padded."""

    x: jax.Array  # instances; the padding repeats the first
    theta: jax.Array  # their weights; 0 in the padding
    owner: jax.Array  # the set of each instance
    theta_sum: jax.Array
    root_scale: jax.Array  # √s_a; 1 in the padding
    target: jax.Array  # ȳ/√s; 0 in the padding
    real: jax.Array  # False for sets of the padding
    known_noise: jax.Array | None = None  # r²/s, 0 in the padding; None if there is none


def flat(
    sets: Sets,
    target: Float[np.ndarray, "t M"],
    dtype: str,
    pool: Int[np.ndarray, " A"],
    noise_std: Float[np.ndarray, " t"] | None = None,
) -> Labelled:
    """Labelled sets with standardised inputs, padded to a size that is compiled once."""
    n_sets, n_rows = padded_size(sets, pool)
    first, owner = sets.starts[:-1], np.repeat(np.arange(len(sets), dtype=np.int32), sets.sizes)
    root_scale = np.sqrt(np.add.reduceat(sets.theta**2, first))
    known_noise = None
    if noise_std is not None:
        known_noise = _padded((noise_std / root_scale) ** 2, n_sets)
    return Labelled(
        # padded with a row that exists: a user's network need not be defined elsewhere
        x=_padded(sets.x.astype(dtype), n_rows, sets.x[0]),
        theta=_padded(sets.theta.astype(dtype), n_rows),
        owner=_padded(owner, n_rows, n_sets - 1),
        theta_sum=_padded(np.add.reduceat(sets.theta, first), n_sets),
        root_scale=_padded(root_scale, n_sets, 1.0),
        target=_padded(target / root_scale[:, None], n_sets),
        real=on_device(np.arange(n_sets) < len(sets)),
        known_noise=known_noise,
    )


def _padded(rows: np.ndarray, size: int, fill: Any = 0.0) -> jax.Array:
    more = np.full((size - len(rows), *rows.shape[1:]), fill, rows.dtype)
    return on_device(np.concatenate([rows, more]))


def sum_by_owner(rows: jax.Array, data: Labelled) -> jax.Array:
    """The rows summed over each set with weights θ."""
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
    zeros = jax.eval_shape(optax.scale_by_adam().init, arrays)  # Adam starts with nothing else
    moments = jax.tree.map(lambda leaf: on_device(np.zeros(leaf.shape, leaf.dtype)), zeros)
    rate = jnp.asarray(float(settings.learning_rate))
    with Slow("training", settings.epochs) as progress:
        for first in range(0, settings.epochs, EPOCHS_AT_ONCE):
            stop = min(first + EPOCHS_AT_ONCE, settings.epochs)
            now = arrays, rest, moments, data, extra, on_device([first, stop]), rate
            arrays, moments, bad = _epochs(objective, *now)
            if int(bad) >= 0:
                raise _not_finite(int(bad) + 1, settings)
            progress.at(stop)
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(arrays)):
        raise _not_finite(settings.epochs, settings)  # because of the last step
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


def _not_finite(epoch: int, settings: Neural) -> SumwiseError:
    return SumwiseError(
        f"training the network went wrong at epoch {epoch} of {settings.epochs}: the loss is not a "
        f"finite number. Try a smaller learning_rate (it is {settings.learning_rate:g}), "
        "standardize=True, or dtype='float64'; look for an input, weight or total far from the "
        "others."
    )
