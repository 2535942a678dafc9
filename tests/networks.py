"""Networks by hand: layers in NumPy, one row at a time, and what the tests of them share."""

from __future__ import annotations

import math

import numpy as np

from sumwise import Neural
from tests.builders import random_sets, totals

TINY = Neural(width=4, depth=2, n_basis=6, epochs=30)  # compiled once for all tests that use it
UP_TO_SIX = np.full(100, 6)  # sizes of the pool: compiled for 4 and for 32 sets only

ACTIVATIONS = {
    "relu": lambda v: max(v, 0.0),
    "tanh": math.tanh,
    "gelu": lambda v: v / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
    "silu": lambda v: v / (1 + math.exp(-v)),
    "softplus": lambda v: math.log(1 + math.exp(v)),
    "elu": lambda v: v if v > 0 else math.exp(v) - 1,
}


def largest_first(sets) -> np.ndarray:
    """The sizes of a pool's sets, as `training.padded_size` takes them."""
    return np.sort(sets.sizes)[::-1]


def state_of(basis) -> bytes:
    """What is stored of a network's weights."""
    return basis.arrays()["state"].tobytes()


def restored(basis, state: bytes):
    return basis.with_arrays({"state": np.frombuffer(state, dtype=np.uint8)})


def layers_of(network) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases in double precision."""
    pairs = zip(network.weights, network.biases, strict=True)
    return [(np.array(weight, dtype=float), np.array(bias, dtype=float)) for weight, bias in pairs]


def run(layers, row, activation="relu", masks=None) -> np.ndarray:
    """The outputs for one row; `masks`, one per layer, multiply the units of that layer."""
    for i, (weight, bias) in enumerate(layers):
        row = weight @ row + bias
        if i < len(layers) - 1:
            row = np.array([ACTIVATIONS[activation](v) for v in row])
        if masks is not None:
            row = row * masks[i]
    return row


def phi_by_hand(network, x) -> np.ndarray:
    layers = layers_of(network)
    return np.array([run(layers, row, network.activation) for row in x])


def literal_adam(loss, start, epochs, rate, step=1e-5) -> np.ndarray:
    """Adam (decay 0.9 and 0.999, ε = 1e-8) along slopes from finite differences."""
    at, first, second = np.array(start, dtype=float), np.zeros(len(start)), np.zeros(len(start))
    for epoch in range(1, epochs + 1):
        slope = np.array([_slope(loss, at, i, step) for i in range(len(at))])
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        unbiased = first / (1 - 0.9**epoch), second / (1 - 0.999**epoch)
        at = at - rate * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
    return at


def _slope(loss, at, i, step) -> float:
    up, down = at.copy(), at.copy()
    up[i] += step
    down[i] -= step
    return (loss(up) - loss(down)) / (2 * step)


def flat_numbers(layers) -> np.ndarray:
    return np.concatenate([part.ravel() for pair in layers for part in pair])


def unflat(numbers, like) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Layers shaped as in `like` from the first numbers, and the numbers that are left."""
    out = []
    for pair in like:
        parts = []
        for part in pair:
            parts.append(numbers[: part.size].reshape(part.shape))
            numbers = numbers[part.size :]
        out.append(tuple(parts))
    return out, numbers


def problem():
    """Twelve sets with weights of both signs, and totals of a smooth function."""
    rng = np.random.default_rng(0)
    sets = random_sets([3, 1, 4, 2, 5, 1, 2, 3, 1, 2, 4, 2], rng)
    y = 3 + np.sin(2 * sets.x[:, 0]) + sets.x[:, 1] + 0.1 * rng.normal(size=len(sets.x))
    return sets, totals(sets, y)
