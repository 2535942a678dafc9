"""Scores and questions of a pool whose parts may lie elsewhere: the same functions on each part.

A part gives back its sets that may be the best of all, or all its scores. Strategies that draw
models draw the same ones for every part. Those that draw for each set, that read individuals, or
that are a user's own function look at the pool as a whole, in the process that asks.
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial

import numpy as np
from numpy.random import Generator

from sumwise.acquisition import screening
from sumwise.acquisition.screening import Candidates, Ceiling
from sumwise.acquisition.strategies import TIE, Acquisition, Strategy, named, scores_of
from sumwise.model.design import Pool
from sumwise.model.posterior import Posterior
from sumwise.model.spread import each_part, joined, whole
from sumwise.util.shapes import Mask, PerSet


def scores(strategy: str | Acquisition, pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """One number per set."""
    if not named(strategy).in_parts:
        pool = whole(pool)
    return joined(each_part(pool, partial(_scores, strategy, posterior, rng)))


def _scores(
    strategy: str | Acquisition, posterior: Posterior, rng: Generator, first: int, pool: Pool
) -> PerSet:
    del first
    return scores_of(strategy, pool, posterior, deepcopy(rng))


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
    """All allowed sets that could be among the best `n`, as in `screening.candidates`.

    In parts, bounds from an earlier question are neither used nor given.
    """
    record = named(strategy)
    if pool.spread is None or not record.in_parts:
        given = record, whole(pool), posterior, rng, allowed, n
        return screening.candidates(*given, also=also, ceiling=ceiling, cost=cost)
    job = partial(_candidates, record, posterior, rng, n, also)
    found = each_part(pool, job, allowed, cost)
    parts = ([getattr(one, name) for one in found] for name in ("positions", "scores", "ranked"))
    return Candidates(*map(joined, parts))


def _candidates(
    strategy: Strategy,
    posterior: Posterior,
    rng: Generator,
    n: int,
    also: int | None,
    first: int,
    pool: Pool,
    allowed: Mask,
    cost: PerSet | None,
) -> Candidates:
    """Those of a part, at their positions in the whole pool, and no others than they."""
    if not allowed.any():
        return Candidates(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0))
    inside = None if also is None or not 0 <= also - first < len(allowed) else also - first
    given = strategy, pool, posterior, deepcopy(rng), allowed, n
    found = screening.candidates(*given, also=inside, cost=cost)
    least = np.sort(found.ranked)[-min(n, len(found.ranked))]
    kept = (found.ranked >= least - TIE * abs(least)) | (found.positions == inside)
    return Candidates(first + found.positions[kept], found.scores[kept], found.ranked[kept])
