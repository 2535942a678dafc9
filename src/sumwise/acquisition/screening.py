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

from sumwise.acquisition.bounds import HUGE, Between, bounds, signal_to_noise, squares
from sumwise.acquisition.strategies import (
    TIE,
    Acquisition,
    Strategy,
    named,
    per_cost,
    refuse_non_finite,
    scores_of,
)
from sumwise.errors import PoolExhaustedError
from sumwise.model.design import Pool
from sumwise.model.posterior import Posterior
from sumwise.util.shapes import Bool, Float, Int

SCREENED_FROM: Final = 4096  # sets; fewer are cheap to score in full
SAMPLE: Final = 256  # sets with the highest bounds, scored first to find a good cut
FEW: Final = 16  # up to one set in 16 is scored in full without a new pass
# scores that tie are logarithms of up to 1,400, so their keys differ by less than this
MARGIN: Final = 4e-6


@dataclass(frozen=True, slots=True, eq=False)
class Ceiling:
    """Upper bounds on β u_aᵀ S u_a / s_a, for β/λ times squared amplitudes equal to `prior`.

    They hold when more is known: β S = (diag(1/prior) + Σ u uᵀ/s)⁻¹ falls with every label, and
    where no entry of `prior` rises by more than a factor, neither does β S.
    """

    high: Float[np.ndarray, " A"]
    prior: Float[np.ndarray, " K"]

    def under(self, posterior: Posterior) -> Float[np.ndarray, " A"] | None:
        """The bounds for another prior; None if that has features which this one had not."""
        new = _prior(posterior)
        if (new[self.prior == 0] > 0).any():
            return None
        ratio = np.divide(new, self.prior, out=np.ones_like(new), where=self.prior > 0)
        return self.high * max(1.0, float(ratio.max()))


def _prior(posterior: Posterior) -> Float[np.ndarray, " K"]:
    ratio = posterior.hyper.noise_precision / posterior.hyper.prior_precision
    amplitude = np.ones(1) if posterior.amplitude is None else posterior.amplitude
    return ratio * amplitude**2


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Sets that may be among the best, in order of position, with their scores."""

    positions: Int[np.ndarray, " c"]
    scores: Float[np.ndarray, " c"]
    ceiling: Ceiling | None = None  # for the next question
    per_cost: Float[np.ndarray, " c"] | None = None  # what ranks them, where measuring costs

    def best(self, but: int | None = None) -> int:
        """Position of the best set, the first of those that tie; `but` is left out."""
        left = self.positions != but
        ranked = (self.scores if self.per_cost is None else self.per_cost)[left]
        top = ranked.max()
        return int(self.positions[left][ranked >= top - TIE * abs(top)][0])

    def score(self, position: int) -> float:
        return float(self.scores[np.searchsorted(self.positions, position)])


def screens(strategy: Strategy, pool: Pool, posterior: Posterior) -> bool:
    """Whether bounds exist and save work."""
    largest = 1.0 if posterior.amplitude is None else float((posterior.amplitude**2).max())
    return (
        (strategy.key is not None or strategy.bounds is not None)
        and len(pool.design) >= SCREENED_FROM
        and bool(squares(pool).max() * max(largest, 1.0) < HUGE)
    )


def candidates(
    strategy: str | Acquisition,
    pool: Pool,
    posterior: Posterior,
    rng: np.random.Generator,
    allowed: Bool[np.ndarray, " A"],
    n: int = 1,
    also: int | None = None,
    ceiling: Ceiling | None = None,
    cost: Float[np.ndarray, " A"] | None = None,
) -> Candidates:
    """All allowed sets that could be among the best `n`, and the set `also`, scored in full.

    Args:
        ceiling: Of an earlier question on the same pool, since when labels were only added; it may
            save the pass over all sets.
        cost: Of measuring each set: the best are those that gain most for it.
    """
    count = int(allowed.sum())
    if not count:
        raise PoolExhaustedError("every set is measured already; nothing is left to ask")
    strategy = named(strategy)
    if not screens(strategy, pool, posterior):
        return _everything(strategy, pool, posterior, rng, allowed, cost)
    n = min(n, count)
    keeps = strategy.key is signal_to_noise and cost is None
    high: Float[np.ndarray, " A"] | None = None
    if ceiling is not None and keeps:
        high = ceiling.under(posterior)
    if high is not None:
        chosen = _under_ceiling(pool, posterior, high, allowed, n)
    if high is None or chosen.sum() > len(chosen) // FEW:
        between = _ranked_between(strategy, pool, posterior, cost)
        if between is None:
            return _everything(strategy, pool, posterior, rng, allowed, cost)
        low, high = between
        low[~allowed] = -np.inf
        cut = _nth_largest(low, n)
        if strategy.bounds is not None:  # these are wide where there is little noise
            top = np.argsort(np.where(allowed, high, -np.inf))[-min(max(SAMPLE, n), count) :]
            _, gains = _scored(strategy, pool, posterior, rng, top)
            cut = max(cut, _nth_largest(gains if cost is None else gains / cost[top], n))
        chosen = allowed & (high >= cut - MARGIN * abs(cut))
        high *= posterior.noise_precision
    if also is not None and allowed[also]:
        chosen[also] = True
    positions = np.flatnonzero(chosen)
    signal, scores = _scored(strategy, pool, posterior, rng, positions)
    refuse_non_finite(scores, positions, pool)
    kept = None
    if keeps:
        exact = posterior.noise_precision * signal / pool.design.noise_scale[positions]
        high[positions] = exact * (1 + MARGIN)
        kept = Ceiling(high, _prior(posterior))
    ranked = None if cost is None else per_cost(strategy, scores, cost[positions])
    return Candidates(positions, scores, kept, ranked)


def _scored(
    strategy: Strategy,
    pool: Pool,
    posterior: Posterior,
    rng: np.random.Generator,
    positions: Int[np.ndarray, " c"],
) -> tuple[Float[np.ndarray, " c"], Float[np.ndarray, " c"]]:
    """u_aᵀ S u_a and scores of some sets, by the strategy itself."""
    rows = pool.design.rows(positions)
    signal = posterior.variance_along(rows.u)
    some = replace(pool, design=rows, signal=signal, square=None)
    return signal, strategy(some, posterior, rng)


def _everything(
    strategy: Strategy,
    pool: Pool,
    posterior: Posterior,
    rng: np.random.Generator,
    allowed: Bool[np.ndarray, " A"],
    cost: Float[np.ndarray, " A"] | None,
) -> Candidates:
    """All allowed sets, scored in full."""
    positions = np.flatnonzero(allowed)
    scores = scores_of(strategy, pool, posterior, rng)[positions]
    refuse_non_finite(scores, positions, pool)
    ranked = None if cost is None else per_cost(strategy, scores, cost[positions])
    return Candidates(positions, scores, per_cost=ranked)


def _ranked_between(
    strategy: Strategy, pool: Pool, posterior: Posterior, cost: Float[np.ndarray, " A"] | None
) -> Between | None:
    """Bounds on the key or score that ranks sets, or on the gain per cost."""
    found: Between | None = None
    if strategy.bounds is not None:
        found = strategy.bounds(pool, posterior)
    elif strategy.key is not None:
        found = bounds(strategy.key, pool, posterior)
    if found is None or cost is None:
        return found
    if strategy.key is signal_to_noise:  # the score is ½ log(1 + β key), for each output
        beta = posterior.noise_precision
        found = np.log1p(beta * found[0]), np.log1p(beta * found[1])
    return per_cost(strategy, found[0], cost), per_cost(strategy, found[1], cost)


def _under_ceiling(
    pool: Pool,
    posterior: Posterior,
    high: Float[np.ndarray, " A"],
    allowed: Bool[np.ndarray, " A"],
    n: int,
) -> Bool[np.ndarray, " A"]:
    """Sets that may be among the best, by earlier bounds and exact keys of the highest of them."""
    free = np.where(allowed, high, -np.inf)
    some = min(max(SAMPLE, n), int(allowed.sum()))
    top = np.argpartition(free, len(free) - some)[len(free) - some :]
    rows = pool.design.rows(top)
    exact = posterior.noise_precision * posterior.variance_along(rows.u) / rows.noise_scale
    if (exact > free[top]).any():  # so little is left to learn that rounding is all there is
        return allowed.copy()
    cut = _nth_largest(exact, min(n, some))
    return free >= cut * (1 - MARGIN)


def with_squares(pool: Pool) -> Pool:
    """The pool with ‖u_a‖² computed once, if it is large enough to be screened."""
    return replace(pool, square=squares(pool)) if len(pool.design) >= SCREENED_FROM else pool


def _nth_largest(values: Float[np.ndarray, " A"], n: int) -> float:
    if n == 1:
        return float(values.max())
    return float(np.partition(values, -n)[-n])
