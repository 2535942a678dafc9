"""Dropout networks, the competitors of the paper's §5.4 (DAMI and DAEnt).

The same network φ with a linear layer w on top, all of it fitted to the totals by Adam,

    −log p(D) = Σ_a ½ [ β (ȳ_a − Σ_n θ_an ŷ(x_an))² / s_a − log β ] + …

while units are dropped at random: anew for every set at every epoch, the same ones for all
instances of a set, so that a set's total is that of one function. β is learned too; λ has no
meaning here. Afterwards L masks of dropped units, drawn once, make L models: the basis maps x to
their outputs [ŷ(x; w_1) … ŷ(x; w_L)]. Units are dropped from the hidden layers and from φ.
Where a total has a known noise r_a, its noise variance s_a/β becomes s_a/β + r_a².
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sumwise.model.basis.network import Network, as_type
from sumwise.model.basis.neural_config import Neural
from sumwise.model.basis.training import Labelled, sum_by_owner
from sumwise.util.shapes import Float


class Regressor(eqx.Module):
    """ŷ(x) = wᵀ φ(x) + b."""

    network: Network
    readout: jax.Array
    level: jax.Array


def draw(
    settings: Neural, n_inputs: int, rng: np.random.Generator
) -> tuple[Regressor, tuple[Float[np.ndarray, "L H"], ...]]:
    """Random weights, and masks of L models: 0 or 1/(1 − dropout) for the units of each layer."""
    network = Network.draw(settings, n_inputs, rng)
    reach = settings.n_basis**-0.5
    readout = jnp.asarray(rng.uniform(-reach, reach, settings.n_basis))
    level = jnp.asarray(rng.uniform(-reach, reach))
    keep = 1 - settings.dropout
    masks = tuple(
        (rng.random((settings.samples, len(bias))) < keep) / keep for bias in network.biases
    )
    return as_type(Regressor(network, readout, level), settings.dtype), masks


def totals(network: Regressor, data: Labelled, masks: tuple[jax.Array, ...]) -> jax.Array:
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


def objective(
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
    misfit = (data.target[:, 0] - totals(network, data, masks) / data.root_scale) ** 2
    if data.known_noise is None:
        each = 0.5 * (jnp.exp(free) * misfit - free)
    else:
        variance = jnp.exp(-free) + data.known_noise
        each = 0.5 * (misfit / variance + jnp.log(variance))
    return jnp.where(data.real, each, 0.0).sum() + 0.5 * stiffness * (free - centre) ** 2


@eqx.filter_jit
def outputs(given: tuple[Regressor, tuple[Any, ...]], x: jax.Array) -> jax.Array:
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
