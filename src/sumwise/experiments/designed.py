"""Runs in which the pools to measure are designed, question by question."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

import numpy as np

from sumwise.data.pool_rules import PoolRules
from sumwise.data.sets import Sets
from sumwise.learning.pools import candidates_of, design, pools_of
from sumwise.model import fit as core
from sumwise.model.design import features
from sumwise.model.overlap import Overlap
from sumwise.util.shapes import Float

RULES: Final = PoolRules(size=(1, 20))  # as large as the paper's sets


def singles(sets: Sets) -> Sets:
    """Every individual as a set of its own."""
    n = len(sets.x)
    one_each = tuple(range(n)), sets.x, np.ones(n), np.arange(n + 1), sets.input_names
    return replace(Sets(*one_each), recipe=sets.recipe)


def errors_of_designed(
    config: core.ModelConfig,
    sets: Sets,
    y: Float[np.ndarray, " N"],
    test: tuple[Float[np.ndarray, "M D"], Float[np.ndarray, " M"]],
    strategy: str,
    queries: int,
    rules: PoolRules = RULES,
) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"]]:
    """Mean squared errors of test individuals after each designed pool, and seconds.

    Args:
        y: Output of every individual, of which only sums over pools are told.
        test: Inputs and outputs.
    """
    people = candidates_of(singles(sets), natural=False)
    prepared = people.prepare(config)
    phi = features(prepared.basis, test[0])
    used, measured, totals = np.zeros(len(people), dtype=int), [], np.empty((0, 1))
    mse, seconds = np.empty((2, queries))
    empty = people.take([])
    model = core.fit(prepared, empty, empty.pool(prepared).design, totals)
    for query in range(queries):
        start = time.perf_counter()
        (found,) = design(people, model, strategy, rules, used=used)
        rows, theta = np.array(found.rows), np.array(found.theta)
        used[rows] += 1
        measured.append((rows, theta))
        totals = np.append(totals, [[float(theta @ y[rows])]], axis=0)
        pools = pools_of(people, measured, range(len(measured)), effect=rules.effect)
        known = Overlap.of(people, pools, None)
        seen = pools.pool(prepared).design
        model = core.fit(prepared, pools, seen, totals, overlap=known)
        seconds[query] = time.perf_counter() - start
        scale, coefficients = model.posterior.output_scale[0], model.posterior.mean[:, 0]
        mse[query] = np.mean((model.offset[0] + scale * (phi @ coefficients) - test[1]) ** 2)
    return mse, seconds
