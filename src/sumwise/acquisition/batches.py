"""Joint batches from very many sets, without scoring each in full for every pick.

A set never teaches more once others are known, so bounds on scores stay valid while a batch grows.
Sets are picked from a shortlist until its best falls to the bound on all other sets; then a pass
over all sets takes the picked ones into account, and makes the next shortlist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from sumwise.acquisition.bounds import bounds
from sumwise.acquisition.screening import MARGIN
from sumwise.acquisition.strategies import TIE, Strategy
from sumwise.model.design import Design, Pool
from sumwise.model.posterior import Posterior
from sumwise.model.spread import each_part
from sumwise.util.shapes import Int, Mask

SHORTLIST: Final = 1024  # sets at least
FROM_A_PART: Final = 128  # sets that a part gives back at first, where there are parts


@dataclass(frozen=True, slots=True, eq=False)
class Shortlist:
    """Some sets, and a bound on the key of all that were left out."""

    positions: Int[np.ndarray, " c"]
    rows: Design
    rest: float


def shortlist(
    strategy: Strategy, posterior: Posterior, size: int, pool: Pool, allowed: Mask
) -> Shortlist:
    """The `size` allowed sets with the highest bounds, in order of position."""
    assert strategy.key is not None  # strategies without one are not screened
    high = bounds(strategy.key, pool, posterior)[1]
    high[~allowed] = -np.inf
    others = len(high) - min(size, int(allowed.sum()))
    order = np.argpartition(high, min(others, len(high) - 1))
    positions = np.sort(order[others:])
    rest = float(high[order[:others]].max()) if others else -np.inf
    return Shortlist(positions, pool.design.rows(positions), rest)


def greedy(
    strategy: Strategy, pool: Pool, found: Shortlist, posterior: Posterior, n: int
) -> list[int]:
    """Up to `n` places in a shortlist, each picked as if those before it were answered.

    Stops where a set that was left out could be better. With S = M Mᵀ and z = Mᵀ u_p / √s_p,
    knowing set p takes S to S − w wᵀ, w = M z √(β / (1 + β‖z‖²)), and M to M (I − α z zᵀ) with
    α = (1 − (1 + β‖z‖²)^−½) / ‖z‖². Differences of u_aᵀ S u_a only say which sets to score in full.
    """
    rows, beta, key = found.rows, posterior.noise_precision, strategy.key
    noise = posterior.noise_scale(rows)
    assert key is not None  # strategies without one are not screened
    u = rows.u.astype(np.float64, copy=False)
    root = posterior.root_times(np.eye(u.shape[1]))
    signal = np.einsum("ak,ak->a", along := u @ root, along)
    fuzz = 1e-10 * signal
    left = np.ones(len(u), dtype=bool)
    picked: list[int] = []
    for _ in range(min(n, len(u))):
        high = np.where(left, key(signal + fuzz, noise, beta), -np.inf)
        low = np.where(left, key(signal - fuzz, noise, beta), -np.inf)
        top = low.max()
        near = np.flatnonzero(high >= top - MARGIN * abs(top))
        exact = np.einsum("ak,ak->a", along := u[near] @ root, along)
        some = replace(pool, design=rows.rows(near), signal=exact, square=None)
        scores = strategy(some, posterior, np.random.default_rng(0))
        at = int(np.flatnonzero(scores >= scores.max() - TIE * abs(scores.max()))[0])
        chosen, best = int(near[at]), float(key(exact[at], noise[near[at]], beta))
        if best - MARGIN * abs(best) <= found.rest:
            break
        picked.append(chosen)
        left[chosen] = False
        z = root.T @ u[chosen] / np.sqrt(noise[chosen])
        length, forward = float(z @ z), root @ z
        signal -= (u @ forward) ** 2 * (beta / (1 + beta * length))
        if length > 0:
            root = root - np.outer((1 - (1 + beta * length) ** -0.5) / length * forward, z)
    return picked


def grow(
    strategy: Strategy,
    pool: Pool,
    posterior: Posterior,
    n: int,
    size: int,
    list_best: Callable[[Posterior, Sequence[int], int], Shortlist],
) -> list[int]:
    """Positions of a joint batch, from one shortlist after another.

    Args:
        size: Of the first shortlist.
        list_best: Gives a shortlist of this size, without the sets at some positions.
    """
    picked: list[int] = []
    while True:
        found = list_best(posterior, picked, size)
        new = greedy(strategy, pool, found, posterior, n - len(picked))
        picked += found.positions[new].tolist()
        if len(picked) == n:
            return picked
        if new:
            posterior = posterior.condition_on(found.rows.rows(new))
        else:
            size *= 4  # many sets are nearly as good


def joint(strategy: Strategy, pool: Pool, posterior: Posterior, allowed: Mask, n: int) -> list[int]:
    """Positions of a joint batch, the same as picking one after another from all."""

    def list_best(posterior: Posterior, picked: Sequence[int], size: int) -> Shortlist:
        free = allowed.copy()
        free[list(picked)] = False
        return _together(each_part(pool, partial(_of_part, strategy, posterior, size), free))

    whole = pool.spread is None
    size = max(SHORTLIST, len(pool.design) // 8) if whole else FROM_A_PART
    return grow(strategy, pool, posterior, n, size, list_best)


def _of_part(
    strategy: Strategy, posterior: Posterior, size: int, first: int, pool: Pool, allowed: Mask
) -> Shortlist:
    found = shortlist(strategy, posterior, size, pool, allowed)
    return replace(found, positions=first + found.positions)


def _together(found: Sequence[Shortlist]) -> Shortlist:
    if len(found) == 1:
        return found[0]
    rows = [(one.rows.u, one.rows.noise_scale, one.rows.theta_sum) for one in found]
    u, noise_scale, theta_sum = map(np.concatenate, zip(*rows, strict=True))
    design = Design(u, noise_scale, theta_sum)
    at = np.concatenate([one.positions for one in found])
    return Shortlist(at, design, max(one.rest for one in found))
