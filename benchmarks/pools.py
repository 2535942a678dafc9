"""Synthetic pools: everything in [-1, 1], as the paper scales its data."""

from __future__ import annotations

import numpy as np

import sumwise as sw
from sumwise.model.design import Design

ABALONE = 3341  # instances of the paper's Abalone pool; sets of 1 to 20 make about 320 of them
N_INPUTS = 8
LARGEST_SET = 20


def ragged(n_instances: int, seed: int = 0) -> tuple[sw.Sets, np.ndarray]:
    """Sets of 1 to 20 instances, and the total of each."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, LARGEST_SET + 1, n_instances)  # more than enough
    ends = np.cumsum(sizes)
    starts = np.concatenate([[0], ends[ends < n_instances], [n_instances]])
    x = rng.uniform(-1, 1, (n_instances, N_INPUTS))
    latent = np.tanh(x @ rng.standard_normal(N_INPUTS)) + 0.1 * rng.standard_normal(n_instances)
    y = 2 * (latent - latent.min()) / np.ptp(latent) - 1
    sets = sw.Sets.from_arrays(np.split(x, starts[1:-1]))
    return sets, np.add.reduceat(y, starts[:-1])


def equal(n_instances: int, set_size: int, seed: int = 0) -> sw.Sets:
    """Sets of one size, with θ of both signs."""
    rng = np.random.default_rng(seed)
    x = rng.random((n_instances, N_INPUTS))
    theta = rng.standard_normal(n_instances)
    starts = np.arange(0, n_instances + 1, set_size)
    return sw.Sets(tuple(range(len(starts) - 1)), x, theta, starts)


def rows_for_ridge(design: Design, y_bar: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(u/√s, ȳ/√s): on these, Bayesian ridge regression is our model."""
    root = np.sqrt(design.noise_scale)
    return design.u / root[:, None], y_bar / root
