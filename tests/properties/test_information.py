"""Strategies against the joint Gaussian, and the laws they obey."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sumwise.acquisition.strategies import ACQUISITIONS
from sumwise.data.sets import Sets
from sumwise.model.design import features
from sumwise.model.posterior import Hyperparameters, condition, decompose
from tests import oracles
from tests.builders import linear_pool, phi_of, precisions, random_sets, seeds, set_sizes

OF_ANY_BASIS = sorted(s.name for s in ACQUISITIONS.values() if not s.needs_dropout)


def scores(name, pool, n_seen, lam, beta, seed=0, effect=0.0):
    rng = np.random.default_rng(seed)
    y_bar = rng.normal(size=(n_seen, 1))
    spectrum = decompose(pool.design.rows(np.arange(n_seen)), y_bar)
    posterior = replace(condition(spectrum, Hyperparameters(lam, beta)), effect=effect)
    return ACQUISITIONS[name](pool, posterior, rng)


@given(set_sizes, precisions, precisions, seeds)
def test_aggregated_mutual_information_matches_brute_force(sizes, lam, beta, seed):
    pool, n_seen = linear_pool(random_sets(sizes, np.random.default_rng(seed))), len(sizes) // 2
    model = oracles.joint(pool.sets, phi_of(pool), lam, beta)
    expected = oracles.mutual_information(model, np.arange(n_seen))
    assert_allclose(scores("AggMI", pool, n_seen, lam, beta), expected, rtol=1e-6, atol=1e-9)


@given(set_sizes, precisions, precisions, seeds)
def test_aggregated_entropy_matches_brute_force(sizes, lam, beta, seed):
    pool, n_seen = linear_pool(random_sets(sizes, np.random.default_rng(seed))), len(sizes) // 2
    model = oracles.joint(pool.sets, phi_of(pool), lam, beta)
    variance = oracles.total_variance_given(model, np.arange(n_seen))
    expected = [0.5 * (np.log(v) + np.log(2 * np.pi) + 1) for v in variance]
    assert_allclose(scores("AggEnt", pool, n_seen, lam, beta), expected, rtol=1e-6, atol=1e-9)


@given(set_sizes, precisions, precisions, seeds, st.sampled_from([0.0, 0.3, 20.0]))
def test_information_and_entropy_of_individuals_match_brute_force(sizes, lam, beta, seed, effect):
    """MI: of a total whose individuals are unrelated given D. Ent: a sum over individuals.

    The effect of a set is noise that its individuals share.
    """
    pool, n_seen = linear_pool(random_sets(sizes, np.random.default_rng(seed))), len(sizes) // 2
    latent = oracles.individual_variance_given(
        pool.sets, phi_of(pool), np.arange(n_seen), lam, beta
    )
    mi, ent = np.zeros(len(sizes)), np.zeros(len(sizes))
    for a, (low, high) in enumerate(itertools.pairwise(pool.sets.starts)):
        noise = sum(pool.sets.theta[n] ** 2 / beta for n in range(low, high))
        noise += sum(pool.sets.theta[low:high]) ** 2 * effect / beta
        total = noise + sum(pool.sets.theta[n] ** 2 * latent[n] for n in range(low, high))
        mi[a] = 0.5 * np.log(total / noise)
        each = latent[low:high] + (1 + effect) / beta
        ent[a] = sum(0.5 * np.log(2 * np.pi * np.e * v) for v in each)
    for name, expected in (("MI", mi), ("Ent", ent)):
        got = scores(name, pool, n_seen, lam, beta, effect=effect)
        assert_allclose(got, expected, rtol=1e-6, atol=1e-9)


@given(set_sizes, precisions, precisions, seeds)
def test_scaling_the_weights_of_sets_leaves_information_alone(sizes, lam, beta, seed):
    rng = np.random.default_rng(seed)
    sets = random_sets(sizes, rng)
    factor = np.repeat(rng.uniform(0.1, 10.0, len(sizes)) * rng.choice([-1, 1]), sizes)
    scaled = Sets(sets.ids, sets.x, sets.theta * factor, sets.starts)
    for name in ("AggMI", "MI"):
        before = scores(name, linear_pool(sets), 1, lam, beta)
        assert_allclose(scores(name, linear_pool(scaled), 1, lam, beta), before, rtol=1e-8)


@given(set_sizes, precisions, precisions, seeds)
def test_the_order_of_instances_is_irrelevant(sizes, lam, beta, seed):
    rng = np.random.default_rng(seed)
    sets = random_sets(sizes, rng)
    order = np.concatenate(
        [low + rng.permutation(n) for low, n in zip(sets.starts[:-1], sizes, strict=True)]
    )
    shuffled = Sets(sets.ids, sets.x[order], sets.theta[order], sets.starts)
    for name in OF_ANY_BASIS:
        before = scores(name, linear_pool(sets), 1, lam, beta)
        assert_allclose(
            scores(name, linear_pool(shuffled), 1, lam, beta), before, rtol=1e-8, atol=1e-12
        )


@given(set_sizes, precisions, precisions, seeds)
def test_for_sets_of_one_instance_aggregated_and_individual_agree(sizes, lam, beta, seed):
    pool = linear_pool(
        Sets.from_arrays([np.random.default_rng([seed, a]).normal(size=(1, 3)) for a in sizes])
    )
    for aggregated, individual in (("AggMI", "MI"), ("AggEnt", "Ent")):
        assert_allclose(
            scores(aggregated, pool, 1, lam, beta), scores(individual, pool, 1, lam, beta)
        )


@given(set_sizes, precisions, precisions, seeds)
def test_labelling_one_set_never_raises_the_information_in_another(sizes, lam, beta, seed):
    pool = linear_pool(random_sets(sizes, np.random.default_rng(seed)))
    before = scores("AggMI", pool, 0, lam, beta)
    for n_seen in range(1, len(sizes) + 1):
        after = scores("AggMI", pool, n_seen, lam, beta)
        assert (after <= before * (1 + 1e-9) + 1e-12).all()
        before = after


@given(set_sizes, precisions, precisions, seeds)
def test_rows_split_into_duplicates_of_half_weight_halve_the_noise(sizes, lam, beta, seed):
    """u stays, s is halved: the same information as with noise of twice the precision."""
    sets = random_sets(sizes, np.random.default_rng(seed))
    twice = Sets(
        sets.ids, np.repeat(sets.x, 2, axis=0), np.repeat(sets.theta / 2, 2), 2 * sets.starts
    )
    split = scores("AggMI", linear_pool(twice), 1, lam, beta)
    assert_allclose(split, scores("AggMI", linear_pool(sets), 1, lam, 2 * beta), rtol=1e-7)


def test_information_survives_sets_that_teach_almost_nothing():
    sets = Sets.from_arrays([[[1e-9, 0.0, 0.0]], [[1.0, 0.0, 0.0]]])
    pool = linear_pool(sets)
    no_bias = type(pool.design)(pool.design.u * [1, 1, 1, 0], *(np.ones(2),) * 2)
    pool = type(pool)(sets, pool.basis, no_bias)
    assert_allclose(scores("AggMI", pool, 0, 1.0, 1.0)[0], 0.5e-18, rtol=1e-12)


@pytest.mark.parametrize("name", OF_ANY_BASIS)
def test_a_strategy_is_finite_pure_and_leaves_its_inputs_alone(name):
    pool = linear_pool(random_sets([1, 51, 1, 3, 7], np.random.default_rng(1)))
    for array in (pool.design.u, pool.design.noise_scale, pool.design.theta_sum):
        array.setflags(write=False)
    first, second = (scores(name, pool, 2, 0.5, 3.0, seed=4) for _ in range(2))
    assert np.isfinite(first).all()
    assert first.shape == (5,)
    assert (first == second).all()


def test_several_outputs_teach_as_much_as_each_by_itself():
    rng = np.random.default_rng(2)
    pool = linear_pool(random_sets([2, 3, 1], rng))
    hyper = Hyperparameters(0.5, 3.0)
    one = condition(decompose(pool.design.rows([0]), np.ones((1, 1))), hyper)
    three = condition(decompose(pool.design.rows([0]), np.ones((1, 3))), hyper)
    for name in ("AggMI", "MI", "AggEnt", "Ent"):
        strategy = ACQUISITIONS[name]
        assert_allclose(strategy(pool, three, rng), 3 * strategy(pool, one, rng))


def test_a_large_committee_disagrees_by_the_variance_of_the_total(monkeypatch):
    monkeypatch.setattr("sumwise.acquisition.baselines.COMMITTEE_SIZE", 40_000)
    pool = linear_pool(random_sets([2, 3, 1, 5], np.random.default_rng(2)))
    posterior = condition(
        decompose(pool.design.rows([0]), np.ones((1, 1))), Hyperparameters(1.0, 2.0)
    )
    variance = posterior.variance_along(pool.design.u)
    rng = np.random.default_rng(0)
    assert_allclose(ACQUISITIONS["QBC"](pool, posterior, rng), variance, rtol=5 * (2 / 4e4) ** 0.5)
    # E|N(0, v)| = √(2v/π), times ‖u‖
    change = np.sqrt(2 * variance / np.pi) * np.linalg.norm(pool.design.u, axis=1)
    assert_allclose(ACQUISITIONS["EMCM"](pool, posterior, rng), change, rtol=5 * 0.76 / 200)


def test_geometry_strategies_measure_what_they_say():
    sets = Sets.from_arrays([[[0.0, 0.0], [2.0, 0.0]], [[5.0, 5.0]], [[1.0, 1.0]] * 3])
    pool = linear_pool(sets)
    assert_allclose(scores("Var", pool, 0, 1.0, 1.0), [2.0, 0.0, 0.0])
    assert_allclose(scores("MaxN", pool, 0, 1.0, 1.0), [2, 1, 3])
    assert_allclose(scores("MinN", pool, 0, 1.0, 1.0), [-2, -1, -3])
    assert len(set(scores("Rand", pool, 0, 1.0, 1.0))) == 3


def test_individual_scores_are_the_same_in_small_blocks(monkeypatch):
    pool = linear_pool(random_sets([1, 51, 1, 3, 7], np.random.default_rng(1)))
    whole = {name: scores(name, pool, 2, 0.5, 3.0) for name in ("MI", "Ent")}
    monkeypatch.setattr("sumwise.model.design.BLOCK_NUMBERS", 20)  # five rows of four features
    for name, expected in whole.items():
        assert_allclose(scores(name, pool, 2, 0.5, 3.0), expected, rtol=1e-12)
    assert features(pool.basis, pool.sets.x[:1]).shape == (1, 4)
