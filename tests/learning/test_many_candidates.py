"""Pools of more candidates than fit on a board, and pools of hundreds."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.acquisition.known_noise import given_answers
from sumwise.acquisition.strategies import scores_of
from sumwise.data.sets import Sets
from sumwise.data.targets import Targets, subsample
from sumwise.learning.pools import candidates_of
from tests.marks import each_with_one

STRATEGIES = ("AggMI", "IVR", "EPIG")


def drawn(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3))


def model_of(kind="fourier", seed=1):
    x = [drawn(5, seed + a) for a in range(8)]
    return sw.AggregateRegressor(kind, n_basis=32).fit(
        Sets.from_arrays(x), [float(np.sum(np.sin(b[:, 0]) + b[:, 1])) for b in x]
    )


def scored(pools, model, x, strategy, everyone):
    """`sw.score` of pools, where predictions of all candidates count."""
    fitted, (rows, share) = model.fitted(), subsample(len(x))
    pool = replace(fitted.pool(pools), targets=Targets(np.array(x[rows]), share, everyone))
    pool = given_answers(pool, fitted)
    return scores_of(strategy, pool, fitted.posterior, np.random.default_rng(0))


def as_pools(candidates, rows):
    """Sets of some rows of these candidates."""
    own, flat = candidates_of(candidates), np.concatenate(rows)
    starts = np.concatenate([[0], np.cumsum([len(each) for each in rows])])
    known = tuple(range(len(rows))), own.x[flat], np.ones(len(flat)), starts
    return Sets(*known, None, own.members[flat], own.effects[flat])


@pytest.mark.parametrize(
    ("size", "strategy"), each_with_one([(1, 20), (60, 80), (700, 900), (1, 1500)], STRATEGIES)
)
def test_pools_keep_to_their_size_are_worth_what_is_said_and_beat_pools_at_random(strategy, size):
    x, model = drawn(1500), model_of()
    pools = sw.design_pools(x, model, size=size, strategy=strategy)
    said, everyone = pools.certificates[0], 0 if strategy == "EPIG" else len(x)
    assert size[0] <= pools.sizes[0] <= size[1]
    assert len(np.unique(pools.members)) == pools.sizes[0]
    assert_allclose(scored(pools, model, x, strategy, everyone), said.value, rtol=1e-9)
    assert said.bound >= said.value
    rng, m = np.random.default_rng(2), int(pools.sizes[0])
    others = as_pools(Sets.from_arrays(x[:, None]), [rng.permutation(1500)[:m] for _ in range(20)])
    assert (scored(others, model, x, strategy, everyone) < said.value).all()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("measured", [False, True])
def test_members_of_given_sets_keep_the_effect_that_they_share(strategy, measured):
    x, rng = drawn(200), np.random.default_rng(3)
    homes = Sets.from_members(x, [*np.arange(200).reshape(40, 5), [0, 7, 12]])
    totals = np.add.reduceat(np.sin(homes.x[:, 0]), homes.starts[:-1]) + rng.normal(size=41)
    seen = homes.take([3, 8, 40] if measured else [])
    model = sw.AggregateRegressor(n_basis=16).fit(seen, totals[[3, 8, 40]][: len(seen)], pool=homes)
    pools = sw.design_pools(homes, model, size=(3, 12), strategy=strategy)
    value = scored(pools, model, x, strategy, 0 if strategy == "EPIG" else len(x))
    assert_allclose(value, pools.certificates[0].value, rtol=1e-8)


def test_a_pool_of_thousands_takes_no_square_of_the_candidates():
    x, model = drawn(4000), model_of()
    sw.design_pools(x[:300], model)
    tracemalloc.start()
    try:
        pools = sw.design_pools(x, model, size=(2500, 3500))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert pools.sizes[0] >= 2500
    assert peak < 0.5 * 8 * len(x) ** 2


@pytest.mark.slow
def test_a_batch_does_not_copy_all_candidates_for_each_pool():
    x, model, peaks = drawn(10_000), model_of(), []
    sw.design_pools(x[:300], model, 2)
    for n in (1, 4):
        tracemalloc.start()
        try:
            sw.design_pools(x, model, n)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] - peaks[0] < 0.5 * 8 * 32 * len(x)  # of all features


def test_a_batch_of_many_candidates_is_one_pool_after_another():
    x, model = drawn(800), model_of("auto")
    batch, pending = sw.design_pools(x, model, 3, uses=1), None
    for number in range(3):
        alone = sw.design_pools(x, model, uses=1, pending=pending)
        assert alone.rows[0].tolist() == batch.rows[number].tolist()
        assert alone.certificates[0] == batch.certificates[number]
        pending = batch.take(range(number + 1))
