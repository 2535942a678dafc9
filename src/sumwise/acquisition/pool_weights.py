"""Pools whose weights are free: a laboratory that can dilute, an index that is to be formed.

Without bounds and without a largest size the best weights are an eigenvector of the relaxation.
With a largest size, the eigenvector of the members' own problem is found for members that are
chosen by its size (the truncated power method of Yuan and Zhang 2013); bounds are kept by a
quasi-Newton method from there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from sumwise.acquisition.pool_bound import Relaxed, gradient, relax
from sumwise.acquisition.pool_value import Valued
from sumwise.data.pool_rules import PoolRules
from sumwise.util.shapes import Float, Int, Mask

SWEEPS: Final = 8
DIRECTIONS: Final = 3  # that searches between bounds start from
VANISHING: Final = 1e-9  # of the largest weight: below, a candidate is not in the pool

Weighted = tuple[np.ndarray, np.ndarray]  # rows of candidates, and their weights


def free_weights(
    valued: Valued,
    rules: PoolRules,
    allowed: Mask,
    most: int,
    relaxed: Relaxed,
    alike: Weighted,
) -> Weighted | None:
    """Rows and weights of the best pool that is found.

    Args:
        alike: The best pool with equal weights. Where rules say who may be with whom, its members
            are kept, and only their weights are chosen.
    """
    assert rules.weights is not None
    at, ends = np.flatnonzero(allowed), rules.weights
    exact = np.isinf(ends).all() and not (valued.pooling.per_member or valued.pooling.fixed)
    ruled = (rules.together, rules.apart, rules.strata, rules.within, rules.neighbours)
    found = [_within(valued, alike[0], alike[1], ends)]
    if ends[0] <= 1 <= ends[1]:
        found.append(alike)
    if any(rule is not None for rule in ruled):
        found = [each for each in found if len(each[0]) == len(alike[0])]
    elif most >= len(at) and exact and valued.curve is None and rules.cost is None:
        return _scaled(at, valued.p[at] @ relaxed.directions[:, 0], ends[1])
    else:
        for direction in relaxed.directions.T[: DIRECTIONS if np.isfinite(ends).any() else None]:
            weight = valued.p[at] @ direction
            found += [_truncated(valued, at, sign * weight, most, ends) for sign in (1, -1)]
    best = [each for each in found if len(each[0]) >= rules.size[0]]
    cost = 0.0 if rules.cost is None else rules.cost

    def rank(each: Weighted) -> float:
        score = valued.score(*each)
        return (
            score if rules.cost is None else score / (cost + rules.cost_per_member * len(each[0]))
        )

    return max(best, key=rank, default=None)


def _truncated(
    valued: Valued, at: Int[np.ndarray, " c"], weight: Any, most: int, ends: tuple[float, float]
) -> Weighted:
    """The best weights found for at most so many members, from a first guess."""
    best: Weighted | None = None
    value = -np.inf
    for _ in range(SWEEPS):
        size = np.where(weight > 0, weight, 0.0) if ends[0] >= 0 else abs(weight)
        some = np.sort(np.argsort(-size, kind="stable")[:most])
        found = _within(valued, at[some], weight[some], ends)
        score = valued.score(*found)
        if not score > value * (1 + 1e-10):
            break
        best, value = found, score
        along = found[1] @ valued.p[found[0]]
        weight = valued.p[at] @ gradient(valued, along[None], found[1] @ found[1][:, None])[0]
    assert best is not None  # the first is better than nothing
    return best


def _within(
    valued: Valued, rows: Int[np.ndarray, " m"], guess: Any, ends: tuple[float, float]
) -> Weighted:
    """The best weights of these members between bounds."""
    everyone = np.zeros(len(valued.p), dtype=bool)
    everyone[rows] = True
    own = relax(valued, everyone, len(rows), 1).directions
    weight = valued.p[rows] @ own[:, 0] if own.shape[1] else np.asarray(guess)
    if weight @ guess < 0:
        weight = -weight
    fits = _scaled(rows, weight, ends[1])
    low, high = ends
    if np.isinf(ends).all() and not (valued.pooling.fixed or valued.curve is not None):
        return fits
    return _climbed(valued, rows, np.clip(_full(fits, rows), max(low, -1e6), min(high, 1e6)), ends)


def _climbed(valued: Valued, rows: Any, start: Any, ends: tuple[float, float]) -> Weighted:
    """The best weights near `start`, by L-BFGS-B."""
    from scipy.optimize import minimize

    few = replace(valued, p=valued.p[rows], effects=valued.effects[rows])
    every = np.arange(len(rows))

    def loss(theta: Any) -> float:
        return -few.score(every, theta) if theta.any() else 0.0

    unit = abs(loss(start)) or 1.0
    bounds = [tuple(None if np.isinf(end) else end for end in ends)] * len(rows)
    found = minimize(lambda theta: loss(theta) / unit, start, bounds=bounds, method="L-BFGS-B")
    weight = found.x if found.fun < loss(start) / unit else start
    kept = abs(weight) > VANISHING * abs(weight).max()
    return rows[kept], weight[kept]


def _full(found: Weighted, rows: Int[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    weight = np.zeros(len(rows))
    weight[np.searchsorted(rows, found[0])] = found[1]
    return weight


def _scaled(rows: Int[np.ndarray, " m"], weight: Any, high: float) -> Weighted:
    """Weights as large as the bounds let them be, or up to 1; members that have none are left out.

    A pool teaches the same whatever its weights are multiplied by; their sum is made positive.
    """
    weight = weight if weight.sum() >= 0 else -weight
    kept = abs(weight) > VANISHING * abs(weight).max(initial=1e-300)
    rows, weight = rows[kept], weight[kept]
    size = high if 0 < high < np.inf else 1.0
    return rows, weight * (size / abs(weight).max())
