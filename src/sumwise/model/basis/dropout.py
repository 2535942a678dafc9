"""Dropout networks, the competitors of the paper's §5.4 (DAMI and DAEnt).

The same network φ with a linear layer w on top, all of it fitted to the totals by Adam,

    −log p(D) = Σ_a ½ [ β (ȳ_a − Σ_n θ_an ŷ(x_an))² / s_a − log β ] + …

while units are left out at random: anew for every set at every epoch, the same ones for all
instances of a set, so that a set's total is that of one function. β is learned along; λ has no
meaning here. Afterwards L such draws of left-out units, made once, are L models: the basis maps
x to their outputs [ŷ(x; w_1) … ŷ(x; w_L)]. Units are left out of the hidden layers and of φ.
Where an answer has a known noise r_a of its own, its noise variance s_a/β becomes s_a/β + r_a².
"""

from __future__ import annotations

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
    from_bytes,
    on_rows,
    own_settings,
    to_bytes,
)
from sumwise.model.basis.neural import Pull
from sumwise.model.basis.neural_config import Neural
from sumwise.model.basis.padding import Room
from sumwise.model.basis.training import Labelled, climb, flat, sum_by_owner
from sumwise.util.shapes import Float


class Regressor(eqx.Module):
    """ŷ(x) = wᵀ φ(x) + b."""

    network: Network
    readout: jax.Array
    level: jax.Array


@dataclass(frozen=True, slots=True, eq=False)
class DropoutNetwork:
    """L thinned networks; as features, what each of them predicts."""

    settings: Neural
    network: Regressor
    masks: tuple[Float[np.ndarray, "L H"], ...]  # 0, or 1/(1 − dropout), of each hidden layer and φ
    seed: int  # of what is left out while training
    room: Room
    committee = True  # features are equally likely models of the output itself

    @classmethod
    def draw(cls, settings: Neural, sets: Sets, rng: np.random.Generator) -> DropoutNetwork:
        with own_settings():
            network = Network.draw(settings, sets.n_inputs, rng)
            reach = settings.n_basis**-0.5
            readout = jnp.asarray(rng.uniform(-reach, reach, settings.n_basis))
            level = jnp.asarray(rng.uniform(-reach, reach))
            whole = as_type(Regressor(network, readout, level), settings.dtype)
        keep = 1 - settings.dropout
        masks = tuple(
            (rng.random((settings.samples, len(bias))) < keep) / keep for bias in network.biases
        )
        return cls(settings, whole, masks, int(rng.integers(2**31)), Room.of(sets))

    def __call__(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N L"]:
        with own_settings():
            masks = tuple(jnp.asarray(mask, self.settings.dtype) for mask in self.masks)
        return on_rows(_outputs, (self.network, masks), x, self.settings.dtype)

    def state(self) -> bytes:
        """The weights, to be kept; what is left out follows from the seed."""
        return to_bytes(self.network)

    def restored(self, state: bytes) -> DropoutNetwork:
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
    ) -> tuple[DropoutNetwork, Float[np.ndarray, "2"]]:
        """The network and log β after so many epochs; see `NeuralBasis.train`."""
        with own_settings():
            data = flat(sets, target, self.settings.dtype, self.room, noise_std)
            start = (self.network, jnp.asarray(log_precisions[1]))
            centre, stiffness = pull or Pull(np.zeros(2), 0.0)
            key = jax.random.fold_in(jax.random.key(self.seed), len(sets))
            extra = (
                key,
                jnp.asarray(1 - self.settings.dropout, self.settings.dtype),
                jnp.asarray(centre[1]),
                jnp.asarray(stiffness),
                jnp.asarray(0.0 if fixed else 1.0),
            )
            network, log_noise = climb(_objective, start, data, extra, self.settings)
            return replace(self, network=network), np.array([log_precisions[0], float(log_noise)])


def totals(network: Regressor, data: Labelled, masks: tuple[jax.Array, ...]) -> jax.Array:
    """Σ_n θ_an ŷ(x_an) of every set, each with units left out by its own row of `masks`."""
    layers = network.network
    *hidden_masks, last = masks
    rows = data.x
    for weight, bias, mask in zip(layers.weights, layers.biases, hidden_masks, strict=False):
        rows = getattr(jax.nn, layers.activation)(rows @ weight.T + bias) * mask[data.owner]
    # all that follows is linear, so it is done once for a set instead of for each instance
    readout = last * network.readout
    sums = (sum_by_owner(rows, data) * (readout @ layers.weights[-1])).sum(axis=1)
    level = readout @ layers.biases[-1] + network.level
    return sums + data.theta_sum * level


def _objective(
    state: tuple[Regressor, jax.Array],
    data: Labelled,
    extra: tuple[jax.Array, ...],
    epoch: jax.Array,
) -> jax.Array:
    network, log_noise = state
    key, keep, centre, stiffness, held = extra
    keys = jax.random.split(jax.random.fold_in(key, epoch), len(network.network.biases))
    masks = tuple(
        jax.random.bernoulli(k, keep, (len(data.real), len(bias))).astype(keep.dtype) / keep
        for k, bias in zip(keys, network.network.biases, strict=True)
    )
    free = log_noise * held + jax.lax.stop_gradient(log_noise) * (1 - held)
    misfit = (data.target[:, 0] - totals(network, data, masks) / data.root_scale) ** 2
    if data.blur is None:
        each = 0.5 * (jnp.exp(free) * misfit - free)
    else:
        variance = jnp.exp(-free) + data.blur
        each = 0.5 * (misfit / variance + jnp.log(variance))
    return jnp.where(data.real, each, 0.0).sum() + 0.5 * stiffness * (free - centre) ** 2


@eqx.filter_jit
def _outputs(given: tuple[Regressor, tuple[Any, ...]], x: jax.Array) -> jax.Array:
    """What each of the L thinned networks gives for each row."""
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
