"""A neural basis: φ is a network, trained by maximising the evidence (paper §5.4).

Given the network, a set is u_a = Σ_n θ_an φ(x_an), and with its t labelled sets

    C = [u_a / √s_a][u_b / √s_b]ᵀ / λ + I / β,     log p = −½ (log|C| + zᵀ C⁻¹ z) + …      Eq. 22

which is t×t work (the dual form; with more labels than features the K×K form is used). Adam climbs
it along the network's weights, log λ and log β together. The posterior and every prediction and
score that follow are the core's own; only the training is here. Where a total has a known noise
r_a, 1/β in its row of C becomes 1/β + r_a²/s_a.

Three things make training quick. Hidden activations are summed over a set before the last layer,
which is linear: u_a = W Σθh + b Σθ. All epochs are one compiled loop. And the instances of all
sets lie in one padded array (`training`); a set of the padding has a row of its own in C, 1 on the
diagonal, which adds exactly nothing.

Dropout networks are the competitors of the paper's §5.4 (DAMI and DAEnt): the same network φ with a
linear layer w on top, all of it fitted to the totals by Adam,

    −log p(D) = Σ_a ½ [ β (ȳ_a − Σ_n θ_an ŷ(x_an))² / s_a − log β ] + …

while units of the hidden layers and of φ are dropped at random: anew for every set at every epoch,
the same ones for all instances of a set, so that a set's total is that of one function. β is
learned too; λ has no meaning here. Afterwards L masks of dropped units, drawn once, make L equally
likely models: the basis maps x to their outputs [ŷ(x; w_1) … ŷ(x; w_L)]. With known noise, s_a/β
becomes s_a/β + r_a².
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sumwise.data.sets import Sets
from sumwise.model.basis.network import (
    Network,
    as_type,
    check,
    from_bytes,
    on_rows,
    to_bytes,
    user_network,
)
from sumwise.model.basis.neural_config import Neural
from sumwise.model.basis.training import (
    Labelled,
    climb,
    flat,
    on_device,
    own_settings,
    sum_by_owner,
)
from sumwise.util.shapes import Float, Int

LEAST_NOISE = 1e-13  # of C's largest diagonal entry; with less noise a factorisation is rounding


@dataclass(frozen=True, slots=True, eq=False)
class NeuralBasis:
    """A network with its present weights, and how it is trained further."""

    settings: Neural
    network: Any  # an Equinox module; a `Regressor` with dropout
    pool: Int[np.ndarray, " A"]  # sizes of all sets, the largest first
    masks: tuple[Float[np.ndarray, "L H"], ...] = ()  # of the L models of a dropout network
    seed: int = 0  # of the units that are dropped while training
    learns = True

    @property
    def committee(self) -> bool:
        """Whether features are equally likely models of the output, without coefficients."""
        return bool(self.masks)

    @classmethod
    def draw(cls, settings: Neural, sets: Sets, rng: np.random.Generator) -> NeuralBasis:
        pool = np.sort(sets.sizes)[::-1]
        with own_settings():
            if settings.dropout:
                regressor, keep = Regressor.draw(settings, sets.n_inputs, rng), 1 - settings.dropout
                masks = tuple(
                    (rng.random((settings.samples, len(bias))) < keep) / keep
                    for bias in regressor.network.biases
                )
                regressor = as_type(regressor, settings.dtype)
                return cls(settings, regressor, pool, masks, int(rng.integers(2**31)))
            own = user_network(settings) or Network.draw(settings, sets.n_inputs, rng)
            own = as_type(own, settings.dtype)
            check(own, sets.n_inputs, settings.dtype)
        return cls(settings, own, pool)

    def __call__(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N K"]:
        if not self.masks:
            return on_rows(_features, self.network, x, self.settings.dtype)
        with own_settings():
            masks = tuple(on_device(mask, self.settings.dtype) for mask in self.masks)
        return on_rows(_members, (self.network, masks), x, self.settings.dtype)

    def arrays(self) -> dict[str, np.ndarray]:
        """The weights as they are stored; masks follow from the seed of the settings."""
        return {"state": np.frombuffer(to_bytes(self.network), dtype=np.uint8)}

    def with_arrays(self, arrays: Mapping[str, np.ndarray]) -> NeuralBasis:
        return replace(self, network=from_bytes(self.network, arrays["state"].tobytes()))

    def train(
        self,
        sets: Sets,
        target: Float[np.ndarray, "t M"],
        log_precisions: Float[np.ndarray, "2"],
        *,
        pull: tuple[Float[np.ndarray, "2"], float] | None,
        fixed: bool,
        noise_std: Float[np.ndarray, " t"] | None = None,
    ) -> tuple[NeuralBasis, Float[np.ndarray, "2"]]:
        """The network, log λ and log β after `settings.epochs` on these totals.

        Args:
            target: ȳ in the model's units, a column per output.
            log_precisions: log λ and log β to begin with; a dropout network has no λ.
            pull: Centre and inverse variance of a Gaussian prior on both, if any.
            fixed: Keep both as they are.
            noise_std: Known noise of each total, in the model's units.
        """
        with own_settings():
            data = flat(sets, target, self.settings.dtype, self.pool, noise_std)
            start = (self.network, on_device(log_precisions))
            prior = (*(pull or (np.zeros(2), 0.0)), 0.0 if fixed else 1.0)
            extra: tuple[jax.Array, ...] = tuple(jnp.asarray(number) for number in prior)
            if self.masks:
                key = jax.random.fold_in(jax.random.key(self.seed), len(sets))
                keep = jnp.asarray(1 - self.settings.dropout, self.settings.dtype)
                extra = (*extra, key, keep)
            objective = dropout_objective if self.masks else _objective
            network, precisions = climb(objective, start, data, extra, self.settings)
            return replace(self, network=network), np.asarray(precisions, dtype=np.float64)


@eqx.filter_jit
def _features(network: Any, x: jax.Array) -> jax.Array:
    return jax.vmap(network)(x)


# --- evidence -------------------------------------------------------------------------------------


@jax.custom_vjp
def log_density(cov: jax.Array, z: jax.Array) -> jax.Array:
    """Σ over columns of −½ (log|C| + zᵀ C⁻¹ z), with a gradient cheaper than the traced one."""
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
    saved: tuple[jax.Array, jax.Array], g: jax.Array
) -> tuple[jax.Array, jax.Array]:
    inverse, solved = saved
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
    if data.known_noise is not None:
        noise = noise + data.known_noise
    noise = _at_least(noise, jnp.diag(gram))
    return log_density(gram + jnp.diag(jnp.where(data.real, noise, 1.0)), data.target)


def _primal(u: jax.Array, data: Labelled, prior: jax.Array, noise: jax.Array) -> jax.Array:
    """The same by K×K work: |C| and C⁻¹ through I + (prior/noise) UᵀU."""
    n_outputs = data.target.shape[1]
    if data.known_noise is not None:  # in units of its own noise, every total has noise 1
        noise = _at_least(noise + data.known_noise, prior * (u**2).sum(axis=0))
        root = jnp.where(data.real, jnp.sqrt(noise), 1.0)
        alike = data._replace(target=data.target / root[:, None], known_noise=None)
        value = _primal(u / root[:, None], alike, prior, jnp.ones(()))
        return value - n_outputs * jnp.log(root).sum()
    gram = prior * (u.T @ u)
    noise = _at_least(noise, jnp.diag(gram))
    lower = jnp.linalg.cholesky(gram / noise + jnp.eye(u.shape[1]))
    along = jax.scipy.linalg.solve_triangular(lower, u.T @ data.target, lower=True)
    log_det = 2 * jnp.log(jnp.diag(lower)).sum() + data.real.sum() * jnp.log(noise)
    power = ((data.target**2).sum() - prior / noise * (along**2).sum()) / noise
    return -0.5 * (n_outputs * log_det + power)


def _at_least(noise: jax.Array, diagonal: jax.Array) -> jax.Array:
    """The noise, raised to what a factorisation needs beside signals of this size."""
    return jnp.maximum(noise, LEAST_NOISE * jax.lax.stop_gradient(diagonal.max()))


def embeddings(network: Any, data: Labelled) -> jax.Array:
    """u_a of every set, in the network's own precision."""
    if isinstance(network, Network):
        sums = sum_by_owner(jax.vmap(network.hidden)(data.x), data)
        level = data.theta_sum.astype(sums.dtype)[:, None] * network.biases[-1]
        return sums @ network.weights[-1].T + level
    return sum_by_owner(jax.vmap(network)(data.x), data)


def _objective(
    state: tuple[Any, jax.Array], data: Labelled, extra: tuple[jax.Array, ...], epoch: jax.Array
) -> jax.Array:
    del epoch
    network, log_precisions = state
    centre, stiffness, held = extra
    free = log_precisions * held + jax.lax.stop_gradient(log_precisions) * (1 - held)
    away = free - centre
    return 0.5 * stiffness * (away**2).sum() - log_evidence(network, free, data)


# --- dropout --------------------------------------------------------------------------------------


class Regressor(eqx.Module):
    """ŷ(x) = wᵀ φ(x) + b, a network with a linear layer on top."""

    network: Network
    readout: jax.Array
    level: jax.Array

    @classmethod
    def draw(cls, settings: Neural, n_inputs: int, rng: np.random.Generator) -> Regressor:
        network = Network.draw(settings, n_inputs, rng)
        reach = settings.n_basis**-0.5
        readout = on_device(rng.uniform(-reach, reach, settings.n_basis))
        return cls(network, readout, jnp.asarray(rng.uniform(-reach, reach)))


def dropout_totals(network: Regressor, data: Labelled, masks: tuple[jax.Array, ...]) -> jax.Array:
    """Σ_n θ_an ŷ(x_an) of every set, each with units dropped by its own row of `masks`."""
    layers = network.network
    *hidden_masks, last = masks
    rows = data.x
    for weight, bias, mask in zip(layers.weights, layers.biases, hidden_masks, strict=False):
        rows = getattr(jax.nn, layers.activation)(rows @ weight.T + bias) * mask[data.owner]
    # all that follows is linear, so it is computed once per set instead of per instance
    readout = last * network.readout
    sums = (sum_by_owner(rows, data) * (readout @ layers.weights[-1])).sum(axis=1)
    level = readout @ layers.biases[-1] + network.level
    return sums + data.theta_sum * level


def dropout_objective(
    state: tuple[Regressor, jax.Array],
    data: Labelled,
    extra: tuple[jax.Array, ...],
    epoch: jax.Array,
) -> jax.Array:
    """Minus the log-likelihood of the totals, with units dropped anew at every epoch."""
    network, (_, log_noise) = state
    (_, centre), stiffness, held, key, keep = extra
    keys = jax.random.split(jax.random.fold_in(key, epoch), len(network.network.biases))
    masks = tuple(
        jax.random.bernoulli(k, keep, (len(data.real), len(bias))).astype(keep.dtype) / keep
        for k, bias in zip(keys, network.network.biases, strict=True)
    )
    free = log_noise * held + jax.lax.stop_gradient(log_noise) * (1 - held)
    misfit = (data.target[:, 0] - dropout_totals(network, data, masks) / data.root_scale) ** 2
    if data.known_noise is None:
        each = 0.5 * (jnp.exp(free) * misfit - free)
    else:
        variance = jnp.exp(-free) + data.known_noise
        each = 0.5 * (misfit / variance + jnp.log(variance))
    return jnp.where(data.real, each, 0.0).sum() + 0.5 * stiffness * (free - centre) ** 2


@eqx.filter_jit
def _members(given: tuple[Regressor, tuple[Any, ...]], x: jax.Array) -> jax.Array:
    """The outputs of the L models for each row."""
    network, masks = given
    layers = network.network

    def one(masks: tuple[jax.Array, ...]) -> jax.Array:
        columns = x.T
        *hidden_masks, last = masks
        for weight, bias, mask in zip(layers.weights, layers.biases, hidden_masks, strict=False):
            columns = getattr(jax.nn, layers.activation)(weight @ columns + bias[:, None])
            columns = columns * mask[:, None]
        readout = last * network.readout
        level = readout @ layers.biases[-1] + network.level
        return (readout @ layers.weights[-1]) @ columns + level

    return jax.vmap(one)(masks).T
