"""The best of very many sets, without scoring each in full.

A pass in single precision bounds every score (`sumwise.acquisition.bounds`). The strategy itself
scores, in double precision, the sets that could be among the best by these bounds, so chosen sets
and their scores are those of scoring everything.

Under a fixed prior a set never teaches more after another one is answered, so bounds stay valid. A
learner keeps one number per set from question to question (`Ceiling`), which mostly saves the pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.random import Generator

from sumwise.acquisition.bounds import HUGE, bounds, signal_to_noise, squares
from sumwise.acquisition.strategies import (
    TIE,
    Acquisition,
    Strategy,
    named,
    per_cost,
    refuse_non_finite,
    scores_of,
)
from sumwise.model.design import Pool
from sumwise.model.posterior import Posterior
from sumwise.model.rounded import RoundedDesign
from sumwise.util.shapes import Float, Int, Mask, PerSet

SCREENED_FROM: Final = 4096  # sets; fewer are cheap to score in full
SAMPLE: Final = 256  # sets with the highest bounds, scored first to find a good cut
SAMPLE_READ: Final = 32  # the same where their rows are read first
FEW: Final = 16  # up to one set in 16 is scored in full without a new pass
LOOK_FROM: Final = 2**15  # sets; for fewer, a first look saves no time
# scores that tie are logarithms of up to 1,400, so their keys differ by less than this
MARGIN: Final = 4e-6


@dataclass(frozen=True, slots=True, eq=False)
class Ceiling:
    """Upper bounds on β u_aᵀ S u_a / s_a, for β/λ equal to `prior`.

    They hold when more is known: β S = (I λ/β + Σ u uᵀ/s)⁻¹ falls with every label, and where β/λ
    rises by a factor, β S rises by no more.
    """

    high: PerSet
    prior: float

    def under(self, posterior: Posterior) -> PerSet:
        """The bounds for another prior."""
        return self.high * max(1.0, _prior(posterior) / self.prior)


def _prior(posterior: Posterior) -> float:
    return posterior.hyper.noise_precision / posterior.hyper.prior_precision


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Sets that may be among the best, in order of position, with their scores."""

    positions: Int[np.ndarray, " c"]
    scores: Float[np.ndarray, " c"]
    ranked: Float[np.ndarray, " c"]  # what decides: scores, or gains per cost
    ceiling: Ceiling | None = None  # for the next question, if one is kept

    def best(self, but: int | None = None) -> int:
        """Position of the best set, the first of those that tie; `but` is left out."""
        left = self.positions != but
        ranked = self.ranked[left]
        top = ranked.max()
        return int(self.positions[left][ranked >= top - TIE * abs(top)][0])

    def score(self, position: int) -> float:
        return float(self.scores[np.searchsorted(self.positions, position)])


def screens(strategy: Strategy, pool: Pool, posterior: Posterior) -> bool:
    """Whether bounds exist and save work."""
    return (
        (strategy.key is not None or strategy.bounds is not None)
        and pool.design.nonlinear is None  # bounds are those of linear totals
        and len(pool.design) >= SCREENED_FROM
        and bool(squares(pool).max() < HUGE)
    )


def candidates(
    strategy: str | Acquisition,
    pool: Pool,
    posterior: Posterior,
    rng: Generator,
    allowed: Mask,
    n: int = 1,
    also: int | None = None,
    ceiling: Ceiling | None = None,
    cost: PerSet | None = None,
) -> Candidates:
    """All allowed sets that could be among the best `n`, and the set `also`, scored in full.

    Args:
        ceiling: Of an earlier question on the same pool, since when labels were only added; it may
            save the pass over all sets.
        allowed: At least one set.
        cost: Of measuring each set: the best are those that gain most for it.
    """
    strategy, n, pool = named(strategy), min(n, int(allowed.sum())), with_squares(pool)
    chosen = high = None
    keeps = strategy.key is signal_to_noise and cost is None
    if screens(strategy, pool, posterior):
        if ceiling is not None and keeps:
            high = ceiling.under(posterior)
            chosen = _under_ceiling(pool, posterior, high, allowed, n)
        given = strategy, pool, posterior, rng, allowed, n, cost
        if chosen is None and strategy.below is not None and len(allowed) >= LOOK_FROM:
            chosen, high = _within_bounds(*given, first=True)
            if chosen is not None and chosen.sum() > len(chosen) // FEW:
                chosen = None
            elif chosen is not None and chosen.sum() > max(n, SCREENED_FROM // FEW):
                chosen[chosen] = _again(strategy, pool, posterior, rng, chosen, n, cost)
        if chosen is None:
            chosen, high = _within_bounds(*given)
    if chosen is None or high is None:  # nothing was screened: a strategy may look at all sets
        positions = np.flatnonzero(allowed)
        scores = scores_of(strategy, pool, posterior, rng)[positions]
    else:
        if also is not None and allowed[also]:
            chosen[also] = True
        positions = np.flatnonzero(chosen)
        signal, scores = _scored(strategy, pool, posterior, rng, positions)
        if keeps:
            exact = signal / posterior.noise(pool.design)[positions]
            high[positions] = exact * (1 + MARGIN)
    refuse_non_finite(scores, positions, pool)
    ranked = per_cost(strategy, scores, None if cost is None else cost[positions])
    kept = Ceiling(high, _prior(posterior)) if keeps and high is not None else None
    return Candidates(positions, scores, ranked, kept)


def _within_bounds(
    strategy: Strategy,
    pool: Pool,
    posterior: Posterior,
    rng: Generator,
    allowed: Mask,
    n: int,
    cost: PerSet | None,
    first: bool = False,
) -> tuple[Mask, PerSet] | tuple[None, None]:
    """Sets that may be among the best, and bounds for a `Ceiling`; None if there are no bounds.

    Args:
        first: Whether to take few rows, which takes less time and leaves more sets.
    """
    low: PerSet | None = None
    high: PerSet | None = None
    if first and strategy.below is not None:
        high = strategy.below(pool, posterior)
    elif strategy.bounds is not None:
        low, high = strategy.bounds(pool, posterior) or (None, None)
    elif strategy.key is not None:
        low, high = bounds(strategy.key, pool, posterior)
    if high is None:
        return None, None
    if cost is not None:
        if strategy.key is signal_to_noise and low is not None:
            # the score is ½ log(1 + β key), for each output
            low, high = (np.log1p(posterior.noise_precision * key) for key in (low, high))
        low = None if low is None else per_cost(strategy, low, cost)
        high = per_cost(strategy, high, cost)
    cut = 0.0  # gains are not negative
    if low is not None:
        low[~allowed] = -np.inf
        cut = _nth_largest(low, n)
    if strategy.bounds is not None:  # these are wide where there is little noise
        high[~allowed] = -np.inf
        sample = SAMPLE_READ if isinstance(pool.design, RoundedDesign) else SAMPLE
        some = min(max(sample, n), int(allowed.sum()))
        top = np.argpartition(high, -some)[-some:]
        _, scores = _scored(strategy, pool, posterior, rng, top)
        ranked = per_cost(strategy, scores, None if cost is None else cost[top])
        cut = max(cut, _nth_largest(ranked, n))
    chosen = allowed & (high >= cut - MARGIN * abs(cut))
    if strategy.key is signal_to_noise:
        high = posterior.noise_precision * high
    return chosen, high


def _again(
    strategy: Strategy,
    pool: Pool,
    posterior: Posterior,
    rng: Generator,
    chosen: Mask,
    n: int,
    cost: PerSet | None,
) -> Mask:
    """Which of the chosen sets may be among the best by bounds from all rows."""
    some = replace(pool, design=pool.design.part(chosen), square=squares(pool)[chosen])
    everyone = np.ones(len(some.design), dtype=bool)
    own = None if cost is None else cost[chosen]
    finer, _ = _within_bounds(strategy, some, posterior, rng, everyone, n, own)
    return everyone if finer is None else finer


def _under_ceiling(
    pool: Pool, posterior: Posterior, high: PerSet, allowed: Mask, n: int
) -> Mask | None:
    """Sets that may be among the best, by earlier bounds and exact keys of the highest of them.

    None where a new pass over all sets is worth it.
    """
    free = np.where(allowed, high, -np.inf)
    some = min(max(SAMPLE, n), int(allowed.sum()))
    top = np.argpartition(free, len(free) - some)[len(free) - some :]
    rows = pool.design.rows(top)
    exact = posterior.variance_along(rows.u) / posterior.noise(rows)
    chosen = free >= _nth_largest(exact, n) * (1 - MARGIN)
    broken = (exact > free[top]).any()  # so little is left to learn that rounding is all there is
    return None if broken or chosen.sum() > len(chosen) // FEW else chosen


def _scored(
    strategy: Strategy,
    pool: Pool,
    posterior: Posterior,
    rng: Generator,
    positions: Int[np.ndarray, " c"],
) -> tuple[Float[np.ndarray, " c"], Float[np.ndarray, " c"]]:
    """u_aᵀ S u_a and scores of some sets, by the strategy itself."""
    rows = pool.design.rows(positions)
    signal = posterior.variance_along(rows.u)
    some = replace(pool, design=rows, signal=signal, square=None)
    return signal, strategy(some, posterior, rng)


def with_squares(pool: Pool) -> Pool:
    """The pool with ‖u_a‖² computed once, if it is large enough to be screened."""
    return replace(pool, square=squares(pool)) if len(pool.design) >= SCREENED_FROM else pool


def _nth_largest(values: PerSet, n: int) -> float:
    if n == 1:
        return float(values.max())  # which is faster
    return float(np.partition(values, -n)[-n])
