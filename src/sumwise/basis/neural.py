"""A neural basis: φ is a network, trained by maximising the evidence (paper §5.4).

Given the network, a set is u_a = Σ_n θ_an φ(x_an), and with its t labelled sets

    C = [u_a / √s_a][u_b / √s_b]ᵀ / λ + I / β,     log p = −½ (log|C| + zᵀ C⁻¹ z) + …      Eq. 22

which is t×t work (the dual form; with more labels than features the K×K form is used). Adam climbs
it along the network's weights, log λ and log β together. What comes after, the posterior and every
prediction and score, is the core's own: here is only the training.

Three things make it quick. Hidden activations are summed over a set before the last layer, which
is linear: u_a = W Σθh + b Σθ. All epochs are one compiled loop. And instances of all sets lie in
one flat array that is filled up to one of a few sizes, with weight zero, so that a new label
does not mean a new compilation; sets that fill up have a row of their own in C, 1 on the diagonal,
which adds exactly nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from sumwise.basis.rooms import Room, room_for, step_up
from sumwise.basis.settings import Neural
from sumwise.errors import SettingError, SumwiseError
from sumwise.progress import Slow
from sumwise.sets import Sets
from sumwise.shapes import Float

EPOCHS_AT_ONCE = 100  # then the loss is looked at, and somebody waiting is told how far it is
LEAST_NOISE = 1e-13  # of C's largest diagonal: below it a factorisation is rounding


class Network(eqx.Module):
    """Layers of weights with an activation between them; the last layer is linear."""

    weights: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]
    activation: str = eqx.field(static=True)

    @classmethod
    def draw(cls, settings: Neural, n_inputs: int, rng: np.random.Generator) -> Network:
        """Uniform within ±1/√(units feeding in), drawn by NumPy: the same with any JAX."""
        hidden = [settings.width] * (settings.depth - 1)
        sizes = [n_inputs, *hidden, settings.n_basis]
        weights, biases = [], []
        for units_in, units_out in itertools.pairwise(sizes):
            reach = 1 / math.sqrt(max(units_in, 1))
            weights.append(jnp.asarray(rng.uniform(-reach, reach, (units_out, units_in))))
            biases.append(jnp.asarray(rng.uniform(-reach, reach, units_out)))
        return cls(tuple(weights), tuple(biases), settings.activation)

    def hidden(self, row: jax.Array) -> jax.Array:
        """What the last layer is given."""
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            row = getattr(jax.nn, self.activation)(weight @ row + bias)
        return row

    def __call__(self, row: jax.Array) -> jax.Array:
        return self.weights[-1] @ self.hidden(row) + self.biases[-1]


class FunctionWithParameters(eqx.Module):
    """A user's function of (parameters, row) as a module."""

    parameters: Any
    function: Callable[[Any, jax.Array], jax.Array] = eqx.field(static=True)

    def __call__(self, row: jax.Array) -> jax.Array:
        return self.function(self.parameters, row)


class Labelled(NamedTuple):
    """The labelled sets in one flat array each, filled up."""

    x: jax.Array  # instances, then rows of zero
    theta: jax.Array  # their weights; 0 where filled up
    owner: jax.Array  # the set each belongs to
    theta_sum: jax.Array
    root_scale: jax.Array  # √s_a; 1 where filled up
    target: jax.Array  # ȳ/√s; 0 where filled up
    real: jax.Array  # whether there is such a set


class Pull(NamedTuple):
    """A Gaussian on (log λ, log β); with no stiffness, none."""

    centre: Float[np.ndarray, "2"]
    stiffness: float


@dataclass(frozen=True, slots=True, eq=False)
class NeuralBasis:
    """φ as it stands: a network with its weights, and how it is trained further."""

    settings: Neural
    network: Any  # an Equinox module
    room: Room
    committee = False  # features have coefficients of their own, which are random

    @classmethod
    def draw(cls, settings: Neural, sets: Sets, rng: np.random.Generator) -> NeuralBasis:
        with jax.enable_x64(True):
            network = _given(settings)
            if network is None:
                network = Network.draw(settings, sets.n_inputs, rng)
            network = as_type(network, settings.dtype)
            _check(network, sets.n_inputs, settings.dtype)
        return cls(settings, network, Room.of(sets))

    def __call__(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N K"]:
        return on_rows(_features, self.network, x, self.settings.dtype)

    def train(
        self,
        sets: Sets,
        target: Float[np.ndarray, "t M"],
        log_precisions: Float[np.ndarray, "2"],
        *,
        pull: Pull | None,
        fixed: bool,
    ) -> tuple[NeuralBasis, Float[np.ndarray, "2"]]:
        """The network, log λ and log β after so many epochs on these totals.

        Args:
            target: ȳ in the model's units, a column per output.
            log_precisions: log λ and log β to begin with.
            pull: Weak prior on them, if any.
            fixed: Leave them as they are.
        """
        with jax.enable_x64(True):
            data = flat(sets, target, self.settings.dtype, self.room)
            start = (self.network, jnp.asarray(log_precisions))
            held = jnp.asarray(0.0 if fixed else 1.0)
            centre, stiffness = pull or Pull(np.zeros(2), 0.0)
            extra = (jnp.asarray(centre), jnp.asarray(stiffness), held)
            network, precisions = climb(_objective, start, data, extra, self.settings)
            return replace(self, network=network), np.asarray(precisions, dtype=np.float64)


# --- evidence -------------------------------------------------------------------------------------


@jax.custom_vjp
def log_density(cov: jax.Array, z: jax.Array) -> jax.Array:
    """Σ over columns of −½ (log|C| + zᵀ C⁻¹ z): its gradient is known, and cheaper than traced."""
    return _log_density(cov, z)[0]


def _log_density(cov: jax.Array, z: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    lower = jnp.linalg.cholesky(cov)
    identity = jnp.eye(len(cov), dtype=cov.dtype)
    half = jax.scipy.linalg.solve_triangular(lower, identity, lower=True)
    inverse = half.T @ half
    solved = inverse @ z
    log_det = 2 * jnp.log(jnp.diag(lower)).sum()
    return -0.5 * (z.shape[1] * log_det + (z * solved).sum()), (inverse, solved)


def _log_density_back(
    kept: tuple[jax.Array, jax.Array], g: jax.Array
) -> tuple[jax.Array, jax.Array]:
    inverse, solved = kept
    return 0.5 * g * (solved @ solved.T - solved.shape[1] * inverse), -g * solved


log_density.defvjp(_log_density, _log_density_back)


def log_evidence(network: Any, log_precisions: jax.Array, data: Labelled) -> jax.Array:
    """Eq. 22, summed over outputs, of the labelled sets in `data`."""
    u = embeddings(network, data).astype(jnp.float64) / data.root_scale[:, None]
    prior, noise = jnp.exp(-log_precisions)
    n_sets, n_basis = u.shape
    n_outputs = data.target.shape[1]
    value = _dual(u, data, prior, noise) if n_sets <= n_basis else _primal(u, data, prior, noise)
    log_scale = jnp.log(data.root_scale).sum() + 0.5 * math.log(2 * math.pi) * data.real.sum()
    return value - n_outputs * log_scale


def _dual(u: jax.Array, data: Labelled, prior: jax.Array, noise: jax.Array) -> jax.Array:
    gram = prior * (u @ u.T)
    noise = jnp.maximum(noise, LEAST_NOISE * jax.lax.stop_gradient(jnp.diag(gram).max()))
    return log_density(gram + jnp.diag(jnp.where(data.real, noise, 1.0)), data.target)


def _primal(u: jax.Array, data: Labelled, prior: jax.Array, noise: jax.Array) -> jax.Array:
    """The same by K×K work: |C| and C⁻¹ through I + (prior/noise) UᵀU."""
    n_outputs = data.target.shape[1]
    gram = prior * (u.T @ u)
    noise = jnp.maximum(noise, LEAST_NOISE * jax.lax.stop_gradient(jnp.diag(gram).max()))
    lower = jnp.linalg.cholesky(gram / noise + jnp.eye(u.shape[1]))
    along = jax.scipy.linalg.solve_triangular(lower, u.T @ data.target, lower=True)
    log_det = 2 * jnp.log(jnp.diag(lower)).sum() + data.real.sum() * jnp.log(noise)
    power = ((data.target**2).sum() - prior / noise * (along**2).sum()) / noise
    return -0.5 * (n_outputs * log_det + power)


def embeddings(network: Any, data: Labelled) -> jax.Array:
    """u_a of every set, in the network's own precision."""
    if isinstance(network, Network):
        sums = sum_by_owner(jax.vmap(network.hidden)(data.x), data)
        level = data.theta_sum.astype(sums.dtype)[:, None] * network.biases[-1]
        return sums @ network.weights[-1].T + level
    return sum_by_owner(jax.vmap(network)(data.x), data)


def sum_by_owner(rows: jax.Array, data: Labelled) -> jax.Array:
    """Σ_n θ_an of every row, a row per set."""
    weighted = rows * data.theta[:, None]
    return jax.ops.segment_sum(weighted, data.owner, len(data.real), indices_are_sorted=True)


def _objective(
    state: tuple[Any, jax.Array], data: Labelled, extra: tuple[jax.Array, ...], epoch: jax.Array
) -> jax.Array:
    del epoch
    network, log_precisions = state
    centre, stiffness, held = extra
    free = log_precisions * held + jax.lax.stop_gradient(log_precisions) * (1 - held)
    away = free - centre
    return 0.5 * stiffness * (away**2).sum() - log_evidence(network, free, data)


# --- training -------------------------------------------------------------------------------------


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
            bounds = jnp.asarray([epoch, stop]), jnp.asarray(settings.learning_rate)
            arrays, moments, bad = _epochs(objective, arrays, rest, moments, data, extra, *bounds)
            if int(bad) >= 0:
                raise SumwiseError(_not_finite(int(bad) + 1, settings))
            epoch = stop
            progress.at(epoch)
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
        "standardize=True, or dtype='float64'; look for an input or total far from the others."
    )


# --- arrays ---------------------------------------------------------------------------------------


def flat(sets: Sets, target: Float[np.ndarray, "t M"], dtype: str, room: Room) -> Labelled:
    """Labelled sets with standardised inputs, filled up to a size that is compiled once."""
    n_sets, n_rows = len(sets), len(sets.x)
    most_sets, most_rows = room_for(sets, room)
    x = np.zeros((most_rows, sets.n_inputs), dtype)
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
    return Labelled(*map(jnp.asarray, arrays))


def on_rows(
    function: Callable[[Any, jax.Array], jax.Array],
    network: Any,
    x: Float[np.ndarray, "N D"],
    dtype: str,
) -> Float[np.ndarray, "N K"]:
    """`function(network, rows)`, compiled for a few numbers of rows only."""
    with jax.enable_x64(True):
        rows = np.zeros((step_up(len(x), steps=1, least=64), x.shape[1]), dtype)
        rows[: len(x)] = x
        return np.asarray(function(network, jnp.asarray(rows)), dtype=np.float64)[: len(x)]


@eqx.filter_jit
def _features(network: Any, x: jax.Array) -> jax.Array:
    return jax.vmap(network)(x)


def as_type(network: Any, dtype: str) -> Any:
    """With all its real numbers in this precision."""
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf, dtype) if eqx.is_inexact_array(leaf) else leaf, network
    )


def _given(settings: Neural) -> Any:
    """The user's own network as a module, if there is one."""
    if settings.network is None:
        return None
    if settings.parameters is not None:
        numbers = jax.tree.map(jnp.asarray, settings.parameters)
        return FunctionWithParameters(numbers, settings.network)
    if not isinstance(settings.network, eqx.Module):
        raise SettingError(
            "network is a function without parameters: there is nothing to train. Give "
            "parameters=..., or pass the function itself as the basis."
        )
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf) if _is_array(leaf) else leaf, settings.network
    )


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | jax.Array)


def _check(network: Any, n_inputs: int, dtype: str) -> None:
    """A user's network gives one row of features for one row of inputs."""
    try:
        out = jax.eval_shape(network, jax.ShapeDtypeStruct((n_inputs,), dtype))
    except Exception as error:
        raise SettingError(
            f"the network fails on a row of {n_inputs} inputs: {error}".splitlines()[0]
        ) from error
    shape, kind = getattr(out, "shape", None), getattr(out, "dtype", np.dtype(object)).kind
    if shape is None or len(shape) != 1 or shape[0] < 1 or kind not in "f":
        raise SettingError(
            f"the network gives {out} for a row of {n_inputs} inputs; it must give a row of real "
            "features, shape (K,)"
        )
