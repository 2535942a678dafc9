"""Plain numbers to objects, for tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from sumwise.data.sets import Sets
from sumwise.model.basis import Linear, Scaled
from sumwise.model.design import Pool, embed
from sumwise.model.scaling import Standardised

set_sizes = st.lists(st.integers(1, 6), min_size=2, max_size=9)
precisions = st.floats(-3.0, 3.0).map(lambda exponent: float(np.exp(exponent)))
seeds = st.integers(0, 2**32 - 1)


def random_sets(sizes, rng, n_inputs=3, ids=None) -> Sets:
    """θ is neither 1 nor always positive: either would hide bugs."""
    blocks = [rng.normal(size=(n, n_inputs)) for n in sizes]
    weights = [rng.uniform(0.3, 2.0, n) * rng.choice([-1.0, 1.0], n) for n in sizes]
    return Sets.from_arrays(blocks, weights, ids)


def unscaled(basis, n_inputs=3) -> Scaled:
    return Scaled(basis, np.zeros(n_inputs), np.ones(n_inputs))


def linear_pool(sets) -> Pool:
    basis = unscaled(Linear(), sets.n_inputs)
    return Pool(sets, basis, embed(sets, basis))


def phi_of(pool) -> np.ndarray:
    return np.column_stack([pool.sets.x, np.ones(len(pool.sets.x))])


def plain(design, y_bar, noise_std=None) -> Standardised:
    """Totals that are in the model's units already."""
    return Standardised(design, y_bar, noise_std, np.zeros(1), np.ones(1), 1.0)


def totals(sets, y) -> np.ndarray:
    return np.add.reduceat(sets.theta * y, sets.starts[:-1])


def smooth_problem():
    """Two hundred sets of a smooth function, in units far from 1: sets, outputs, totals."""
    rng = np.random.default_rng(0)
    sets = Sets.from_arrays([rng.normal(5, 3, size=(rng.integers(1, 9), 2)) for _ in range(200)])
    y = 300 + 10 * np.sin(sets.x[:, 0] / 2) + 4 * sets.x[:, 1] + rng.normal(0, 0.5, len(sets.x))
    return sets, y, totals(sets, y)


def former_auto(scaled, x, n_waves, n_hypotheses=5):
    """Arrays of basis="auto" as it was without curves, and its features: waves are not centred."""
    rng = np.random.default_rng(9)
    z = (x - scaled.shift) / scaled.scale
    n_inputs, low, high = x.shape[1], z.min(axis=0), z.max(axis=0)
    squashed = 2 * np.tanh(z / 2)
    varies = high > low
    shift = np.stack([(low + high) / 2, squashed.mean(axis=0)])
    scale = np.stack([(high - low) / 4, squashed.std(axis=0)])
    scale = np.where(varies, scale, 1.0)
    frequencies, phases = rng.normal(size=(n_waves, n_inputs)), rng.uniform(0, 6.28, n_waves)
    both = [(z - shift[0]) / scale[0], (squashed - shift[1]) / scale[1]]
    centre = np.stack([part.mean(axis=0) for part in both])
    parts = [part - part.mean(axis=0) for part in both]
    for part in both:
        for length in (0.5, 1.0, 2.0):
            turns = part @ frequencies.T / (length * np.sqrt(n_inputs))
            parts.append(np.sqrt(2 / n_waves) * np.cos(phases - turns))
    parts.append(np.ones((len(x), 1)))
    size = np.array([np.sqrt((part**2).sum(axis=1).mean()) for part in parts])
    features = [part / own for part, own in zip(parts, size, strict=True)]
    arrays = {
        "frequencies": frequencies,
        "phases": phases,
        "shift": shift,
        "scale": scale,
        "centre": centre,
        "size": size,
        "variances": rng.gamma(1.0, size=(n_hypotheses, 2 * n_inputs + 7)),
        "noise": rng.uniform(0.1, 1.0, n_hypotheses),
        "correlation": rng.uniform(0.0, 0.5, n_hypotheses),
        "power": np.stack([(part**2).mean(axis=0) for part in features[:2]]),
    }
    return {f"auto_{name}": array for name, array in arrays.items()}, np.hstack(features)
