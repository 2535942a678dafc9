"""Runs in which the pools to measure are made question by question, by design or at random."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from sumwise.data.pool_rules import PoolRules
from sumwise.data.sets import Sets
from sumwise.experiments import scores
from sumwise.learning.pools import candidates_of, design, pools_of
from sumwise.model import fit as core
from sumwise.model.design import features
from sumwise.model.overlap import Overlap
from sumwise.util.shapes import Float, Int

if TYPE_CHECKING:
    from sumwise.experiments.protocol import Split

RULES: Final = PoolRules(size=(1, 20))  # as large as the paper's sets


def singles(sets: Sets, *, natural: bool) -> Sets:
    """Every individual as a set of its own.

    Args:
        natural: Whether the sets exist in the world, so that their members keep what they share.
    """
    if natural:
        return candidates_of(sets)
    n = len(sets.x)
    one_each = tuple(range(n)), sets.x, np.ones(n), np.arange(n + 1), sets.input_names
    return replace(Sets(*one_each), recipe=sets.recipe)


def errors_of_pools(
    config: core.ModelConfig,
    alone: Sets,
    y: Float[np.ndarray, " N"],
    test: Split,
    strategy: str | None,
    queries: int,
    rules: PoolRules = RULES,
    rng: np.random.Generator | None = None,
) -> tuple[Float[np.ndarray, "3 T"], core.Model]:
    """Mean squared errors of test individuals after each pool, seconds, mean squared errors of the
    means of their groups, if they have some; and the last model.

    Args:
        alone: The individuals that may be in pools, from `singles`.
        y: The output of each, of which only sums or means over pools are told.
        test: Of which the individuals of the test are taken.
        strategy: That pools are designed by; None: members and sizes are drawn.
        rules: What pools may be, and whether their totals are told or their means.
        rng: Draws the noise of pooling, if rules have some, and then random pools.
    """
    people, rng = candidates_of(alone), rng or np.random.default_rng(0)
    prepared, luck = people.prepare(config), rng.standard_normal(queries)
    phi = features(prepared.basis, test.x_test)
    used, measured = np.zeros(len(people), dtype=int), []
    totals, noise = np.empty((queries, 1)), np.empty(queries)
    found = np.full((3, queries), np.nan)
    empty = people.take([])
    model = core.fit(prepared, empty, empty.pool(prepared).design, totals[:0])
    for query in range(queries):
        start = time.perf_counter()
        if strategy is None:
            rows = drawn(rules, used, rng)
        else:
            rows = np.array(design(people, model, strategy, rules, used=used)[0].rows)
        theta = np.full(len(rows), 1 / len(rows) if rules.mean else 1.0)
        measured.append((rows, theta))
        used[rows] += 1
        noise[query] = rules.noise_of(len(rows))
        totals[query] = theta @ y[rows] + noise[query] * luck[query]
        now = slice(query + 1)
        pools = pools_of(people, measured, range(len(measured)), effect=rules.effect)
        known, seen = Overlap.of(people, pools, noise[now]), pools.pool(prepared).design
        model = core.fit(prepared, pools, seen, totals[now], noise_std=noise[now], overlap=known)
        found[1, query] = time.perf_counter() - start
        scale, coefficients = model.posterior.output_scale[0], model.posterior.mean[:, 0]
        error = model.offset[0] + scale * (phi @ coefficients) - test.y_test
        found[0, query] = np.mean(error**2)
        if test.group is not None:
            found[2, query] = np.mean(scores.by_group(error, test.group) ** 2)
    return found, model


def drawn(
    rules: PoolRules, used: Int[np.ndarray, " N"], rng: np.random.Generator
) -> Int[np.ndarray, " m"]:
    """Members of a random pool: the size is drawn first, then so many individuals that are free."""
    free = np.flatnonzero(used < (rules.uses or np.inf))
    size = int(rng.integers(rules.size[0], min(rules.size[1], len(free)) + 1))
    return np.sort(rng.permutation(free)[:size])
