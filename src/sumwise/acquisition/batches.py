"""Joint batches from very many sets, without scoring each in full for every pick.

A set never teaches more once others are known, so bounds on scores stay valid while a batch grows.
Sets are picked from a shortlist until its best falls to the bound on all other sets; then a pass
over all sets takes the picked ones into account, and makes the next shortlist.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sumwise.acquisition.bounds import key_between, known_rows, squared_projections
from sumwise.acquisition.screening import MARGIN
from sumwise.acquisition.strategies import TIE, Strategy
from sumwise.model.design import Design, Pool
from sumwise.model.posterior import Posterior
from sumwise.util.shapes import Bool, Float, Int

SHORTLIST: Final = 1024  # sets at least


@dataclass(frozen=True, slots=True, eq=False)
class Shortlist:
    """Some sets, and a bound on the key of all that were left out."""

    positions: Int[np.ndarray, " c"]
    rows: Design
    rest: float


def shortlist(
    design: Design, high: Float[np.ndarray, " A"], allowed: Bool[np.ndarray, " A"], size: int
) -> Shortlist:
    """The `size` allowed sets with the highest bounds, in order of position."""
    high = np.where(allowed, high, -np.inf)
    others = len(high) - min(size, int(allowed.sum()))
    order = np.argpartition(high, min(others, len(high) - 1))
    positions = np.sort(order[others:])
    rest = float(high[order[:others]].max()) if others else -np.inf
    return Shortlist(positions, design.rows(positions), rest)


def greedy(
    strategy: Strategy,
    pool: Pool,
    found: Shortlist,
    root: Float[np.ndarray, "K K"],
    posterior: Posterior,
    n: int,
) -> tuple[list[int], Float[np.ndarray, "p K"], Float[np.ndarray, "K K"]]:
    """Up to `n` of a shortlist, one after another, each as if those before it were answered.

    Stops where a set that was left out could be better. With S = M Mᵀ and z = Mᵀ u_p / √s_p,
    knowing set p takes S to S − w wᵀ, w = M z √(β / (1 + β‖z‖²)), and M to M (I − α z zᵀ) with
    α = (1 − (1 + β‖z‖²)^−½) / ‖z‖². Differences of u_aᵀ S u_a only say who is worth a full look.

    Args:
        root: M, of what is known so far; `posterior` need not know of sets picked before.

    Returns:
        Positions, the w of each, and the last M.
    """
    rows, beta = found.rows, posterior.noise_precision
    u = rows.u.astype(np.float64, copy=False)
    key = strategy.key
    assert key is not None  # strategies without one are not screened
    signal = np.einsum("ak,ak->a", along := u @ root, along)
    fuzz = 1e-10 * signal
    left = np.ones(len(u), dtype=bool)
    picked, changes = [], [np.empty((0, root.shape[1]))]
    for _ in range(min(n, len(u))):
        high = np.where(left, key(signal + fuzz, rows.noise_scale, beta), -np.inf)
        low = np.where(left, key(signal - fuzz, rows.noise_scale, beta), -np.inf)
        top = low.max()
        near = np.flatnonzero(high >= top - MARGIN * abs(top))
        exact = np.einsum("ak,ak->a", along := u[near] @ root, along)
        some = replace(pool, design=rows.rows(near), signal=exact, square=None)
        scores = strategy(some, posterior, np.random.default_rng(0))
        at = int(np.flatnonzero(scores >= scores.max() - TIE * abs(scores.max()))[0])
        chosen, best = int(near[at]), float(key(exact[at], rows.noise_scale[near[at]], beta))
        if best - MARGIN * abs(best) <= found.rest:
            break
        picked.append(int(found.positions[chosen]))
        left[chosen] = False
        z = root.T @ u[chosen] / np.sqrt(rows.noise_scale[chosen])
        length = float(z @ z)
        forward = root @ z
        change = forward * np.sqrt(beta / (1 + beta * length))
        changes.append(change[None])
        signal -= (u @ change) ** 2
        if length > 0:
            root = root - np.outer((1 - (1 + beta * length) ** -0.5) / length * forward, z)
    return picked, np.concatenate(changes), root


def joint(
    strategy: Strategy,
    pool: Pool,
    posterior: Posterior,
    allowed: Bool[np.ndarray, " A"],
    n: int,
) -> list[int]:
    """Positions of a joint batch, the same as picking one after another from all."""
    assert strategy.key is not None
    design, free = pool.design, allowed.copy()
    lam, amplitude = posterior.hyper.prior_precision, posterior.amplitude
    root = posterior.root_times(np.eye(design.u.shape[1]))
    weighted = known_rows(posterior)
    (known,), power = squared_projections(pool, posterior, weighted)
    size = max(SHORTLIST, len(design) // 8)
    picked: list[int] = []
    while True:
        high = key_between(strategy.key, design, power, known, weighted, posterior)[1]
        found = shortlist(design, high, free, size)
        new, changes, root = greedy(strategy, pool, found, root, posterior, n - len(picked))
        picked += new
        if len(picked) == n:
            return picked
        free[new] = False
        changes *= lam**0.5
        if amplitude is not None:  # where it is 0, nothing changes
            changes = np.divide(changes, amplitude, out=np.zeros_like(changes), where=amplitude > 0)
        known += squared_projections(pool, posterior, changes)[0][0]
        weighted = np.concatenate([weighted, changes])
        if not new:
            size *= 4  # many sets are nearly as good
