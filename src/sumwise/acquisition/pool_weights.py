"""Pools whose weights are free: a laboratory that can dilute, an index that is to be formed.

Without bounds and without a largest size the best weights are an eigenvector of the relaxation.
With a largest size, the eigenvector of the members' own problem is found for members that are
chosen by its size (the truncated power method of Yuan and Zhang 2013); bounds are kept by a
quasi-Newton method from there.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from sumwise.acquisition.pool_bound import Relaxed, gradient, relax
from sumwise.acquisition.pool_rows import Candidates, Some, top
from sumwise.acquisition.pool_value import Valued
from sumwise.data.pool_rules import PoolRules
from sumwise.util.shapes import Float, Int, Mask

SWEEPS: Final = 8
DIRECTIONS: Final = 3  # that searches between bounds start from
VANISHING: Final = 1e-9  # of the largest weight: below, a candidate is not in the pool

Weighted = tuple[Some, np.ndarray]  # candidates, and their weights
Ends = tuple[float, float]  # bounds of weights


def free_weights(
    valued: Valued,
    rules: PoolRules,
    allowed: Mask,
    most: int,
    relaxed: Relaxed,
    alike: Weighted,
) -> Weighted | None:
    """Candidates and weights of the best pool that is found.

    Args:
        alike: The best pool with equal weights. Where rules say who may be with whom, its members
            are kept, and only their weights are chosen.
    """
    assert rules.weights is not None
    n, ends = int(allowed.sum()), rules.weights
    exact = np.isinf(ends).all() and not (valued.pooling.per_member or valued.pooling.fixed)
    ruled = (rules.together, rules.apart, rules.strata, rules.within, rules.neighbours)
    found = [_within(valued, *alike, ends)]
    if ends[0] <= 1 <= ends[1]:
        found.append(alike)
    if any(rule is not None for rule in ruled):
        found = [each for each in found if len(each[1]) == len(alike[1])]
    elif most >= n and exact and valued.curve is None and rules.cost is None:
        weight = valued.people.along(relaxed.directions[:, :1])[:, 0]
        rows, theta = _scaled(np.flatnonzero(allowed), weight[allowed], ends[1])
        return valued.people.some(rows), theta
    else:
        some = relaxed.directions[:, : DIRECTIONS if np.isfinite(ends).any() else None]
        found += _truncated(valued, allowed, np.hstack([some, -some]), most, ends)
    best = [each for each in found if len(each[1]) >= rules.size[0]]

    def rank(each: Weighted) -> float:
        return valued.score(*each) / (rules.cost_of(len(each[1])) or 1.0)

    return max(best, key=rank, default=None)


def _truncated(
    valued: Valued, allowed: Mask, directions: Float[np.ndarray, "P L"], most: int, ends: Ends
) -> list[Weighted]:
    """The best weights found for at most so many members, from each first guess."""
    best: dict[int, Weighted] = {}
    values, active, people = dict[int, float](), [*range(directions.shape[1])], valued.people
    for _ in range(SWEEPS):
        if not active:
            break
        guesses, people = _largest(people, allowed, directions, most, ends)
        kept, ahead = list[int](), list[Any]()
        for start, guess in zip(active, guesses, strict=True):
            some, theta = _within(valued, *guess, ends)
            score = valued.score(some, theta)
            if score > values.get(start, -np.inf) * (1 + 1e-10):
                best[start], values[start] = (some, theta), score
                kept.append(start)
                ahead.append(gradient(valued, (theta @ some.p)[None], (theta @ theta)[None])[0])
        active, directions = kept, np.array(ahead).T
    return [*best.values()]


def _largest(
    people: Candidates, allowed: Mask, directions: Float[np.ndarray, "P L"], most: int, ends: Ends
) -> tuple[list[Weighted], Candidates]:
    """The largest weights along each direction; and the same candidates, with these held."""
    signs = [1] if ends[0] >= 0 else [1, -1]
    found, people = people.tops(np.hstack([s * directions for s in signs]), most, allowed)
    out, n = [], directions.shape[1]
    for at, direction in enumerate(directions.T):
        some = people.some(np.unique(np.concatenate(found[at::n])))
        weight = some.p @ direction
        kept = np.sort(top(weight if ends[0] >= 0 else abs(weight), most))
        out.append((some.part(kept), weight[kept]))
    return out, people


def _within(valued: Valued, some: Some, guess: Any, ends: Ends) -> Weighted:
    """The best weights of these members between bounds."""
    own = relax(valued, some.p.T @ some.p, len(guess), 1).directions
    weight = some.p @ own[:, 0] if own.shape[1] else np.asarray(guess)
    if weight @ guess < 0:
        weight = -weight
    every, (low, high) = np.arange(len(guess)), ends
    at, fits = _scaled(every, weight, high)
    if np.isinf(ends).all() and not (valued.pooling.fixed or valued.curve is not None):
        return some.part(at), fits
    start = np.zeros(len(guess))
    start[at] = fits
    start = np.clip(start, max(low, -1e6), min(high, 1e6))
    weight = _climbed(valued, some, start, ends)
    kept = abs(weight) > VANISHING * abs(weight).max()
    return some.part(kept), weight[kept]


def _climbed(
    valued: Valued, some: Some, start: Float[np.ndarray, " m"], ends: Ends
) -> Float[np.ndarray, " m"]:
    """The best weights near `start`, by L-BFGS-B."""
    from scipy.optimize import minimize

    def loss(theta: Any) -> float:
        return -valued.score(some, theta) if theta.any() else 0.0

    unit = abs(loss(start)) or 1.0
    bounds = [tuple(None if np.isinf(end) else end for end in ends)] * len(start)
    found = minimize(lambda theta: loss(theta) / unit, start, bounds=bounds, method="L-BFGS-B")
    return found.x if found.fun < loss(start) / unit else start


def _scaled(
    rows: Int[np.ndarray, " m"], weight: Any, high: float
) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Weights as large as the bounds let them be, or up to 1; members that have none are left out.

    A pool teaches the same whatever its weights are multiplied by; their sum is made positive.
    """
    weight = weight if weight.sum() >= 0 else -weight
    kept = abs(weight) > VANISHING * abs(weight).max(initial=1e-300)
    rows, weight = rows[kept], weight[kept]
    size = high if 0 < high < np.inf else 1.0
    return rows, weight * (size / abs(weight).max())
