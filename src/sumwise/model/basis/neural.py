"""A neural basis: φ is a network, trained by maximising the evidence (paper §5.4).

Given the network, a set is u_a = Σ_n θ_an φ(x_an), and with its t labelled sets

    C = [u_a / √s_a][u_b / √s_b]ᵀ / λ + I / β,     log p = −½ (log|C| + zᵀ C⁻¹ z) + …      Eq. 22

which is t×t work (the dual form; with more labels than features the K×K form is used). Adam climbs
it along the network's weights, log λ and log β together. What comes after, the posterior and every
prediction and score, is the core's own: here is only the training. Where an answer has a known
noise r_a of its own, 1/β in its row of C becomes 1/β + r_a²/s_a.

Three things make it quick. Hidden activations are summed over a set before the last layer, which
is linear: u_a = W Σθh + b Σθ. All epochs are one compiled loop. And instances of all sets lie in
one flat array that is filled up to one of a few sizes, with weight zero, so that a new label
does not mean a new compilation; sets that fill up have a row of their own in C, 1 on the diagonal,
which adds exactly nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
    given,
    on_rows,
    own_settings,
    to_bytes,
)
from sumwise.model.basis.neural_config import Neural
from sumwise.model.basis.padding import Room
from sumwise.model.basis.training import Labelled, climb, flat, sum_by_owner
from sumwise.util.shapes import Float

LEAST_NOISE = 1e-13  # of C's largest diagonal: below it a factorisation is rounding


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
        with own_settings():
            network = given(settings)
            if network is None:
                network = Network.draw(settings, sets.n_inputs, rng)
            network = as_type(network, settings.dtype)
            check(network, sets.n_inputs, settings.dtype)
        return cls(settings, network, Room.of(sets))

    def __call__(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N K"]:
        return on_rows(_features, self.network, x, self.settings.dtype)

    def state(self) -> bytes:
        """The weights, to be kept; `restored` takes them back."""
        return to_bytes(self.network)

    def restored(self, state: bytes) -> NeuralBasis:
        return replace(self, network=from_bytes(self.network, state))

    def train(
        self,
        sets: Sets,
        target: Float[np.ndarray, "t M"],
        log_precisions: Float[np.ndarray, "2"],
        *,
        pull: Pull | None,
        fixed: bool,
        noise_std: Float[np.ndarray, " t"] | None = None,
    ) -> tuple[NeuralBasis, Float[np.ndarray, "2"]]:
        """The network, log λ and log β after so many epochs on these totals.

        Args:
            target: ȳ in the model's units, a column per output.
            log_precisions: log λ and log β to begin with.
            pull: Weak prior on them, if any.
            fixed: Leave them as they are.
            noise_std: Known noise of each answer, in the model's units too.
        """
        with own_settings():
            data = flat(sets, target, self.settings.dtype, self.room, noise_std)
            start = (self.network, jnp.asarray(log_precisions))
            held = jnp.asarray(0.0 if fixed else 1.0)
            centre, stiffness = pull or Pull(np.zeros(2), 0.0)
            extra = (jnp.asarray(centre), jnp.asarray(stiffness), held)
            network, precisions = climb(_objective, start, data, extra, self.settings)
            return replace(self, network=network), np.asarray(precisions, dtype=np.float64)


@eqx.filter_jit
def _features(network: Any, x: jax.Array) -> jax.Array:
    return jax.vmap(network)(x)


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
    if data.blur is not None:
        noise = noise + data.blur
    noise = _at_least(noise, jnp.diag(gram))
    return log_density(gram + jnp.diag(jnp.where(data.real, noise, 1.0)), data.target)


def _primal(u: jax.Array, data: Labelled, prior: jax.Array, noise: jax.Array) -> jax.Array:
    """The same by K×K work: |C| and C⁻¹ through I + (prior/noise) UᵀU."""
    n_outputs = data.target.shape[1]
    if data.blur is not None:  # in units of its own noise, every answer has noise 1
        noise = _at_least(noise + data.blur, prior * (u**2).sum(axis=0))
        root = jnp.where(data.real, jnp.sqrt(noise), 1.0)
        alike = data._replace(target=data.target / root[:, None], blur=None)
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
    """The noise, or what a factorisation needs beside signals of this size."""
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
