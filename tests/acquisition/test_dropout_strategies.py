"""DAMI and DAEnt, and batches from dropout networks."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import digamma

import sumwise as sw
from sumwise import Sets
from sumwise.acquisition.baselines import dropout_mutual_information
from sumwise.acquisition.information import aggregated_mutual_information
from sumwise.model import posterior
from sumwise.model.design import Design, embed
from sumwise.model.posterior import Hyperparameters
from tests.builders import precisions, seeds
from tests.marks import slow
from tests.thinned import (
    SETS,
    THINNED,
    Y_BAR,
    fit,
    outputs_by_hand,
    summed,
)


@pytest.fixture(scope="module")
def model():
    return fit()


# --- DAMI and DAEnt -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, *slow(7)])
def test_scores_are_those_of_the_paper(model, seed):
    """Eqs. 25–27 in the user's units, with noise of standard deviation β^(−½) and our draws."""
    totals = summed(SETS, outputs_by_hand(model, SETS.x))
    epsilon = np.random.default_rng(seed).standard_normal(totals.shape)
    for a in range(len(SETS)):
        noise = np.sum(SETS[a].theta ** 2) / model.noise_precision_
        v = [total + math.sqrt(noise) * e for total, e in zip(totals[a], epsilon[a], strict=True)]
        variance = sum(each**2 for each in v) / 8 - (sum(v) / 8) ** 2  # Eq. 25
        entropy = 0.5 * (math.log(variance) + math.log(2 * math.pi) + 1)  # Eq. 26
        information = 0.5 * (math.log(variance) - math.log(noise))  # Eq. 27
        found = [sw.score(SETS, model, name, seed=seed)[a] for name in ("DAEnt", "DAMI")]
        assert_allclose(found, [entropy, information], rtol=0, atol=1e-3)


def expected_log_chi_square(freedom, shift):
    """E log of a non-central χ²: a Poisson mixture of central ones."""
    most = int(shift + 20 * math.sqrt(shift + 1) + 50)
    j = np.arange(most)
    return float(stats.poisson.pmf(j, shift / 2) @ (digamma(freedom / 2 + j) + math.log(2)))


@pytest.mark.parametrize("n_members", [8, *slow(400)])
def test_over_many_draws_dami_comes_near_aggmi(n_members):
    """L σ²/noise is a non-central χ² of L − 1 degrees, so the mean of DAMI is known exactly. It is
    below AggMI, by no more than for a set that teaches nothing."""
    settings = replace(THINNED, samples=n_members)
    begun = sw.AggregateRegressor(settings, hyperparameters=(1.0, 30.0))
    fitted = begun.fit(SETS[:0], [], pool=SETS).fitted()
    pool, rng = SETS.pool(fitted), np.random.default_rng(0)
    draws = np.array([dropout_mutual_information(pool, fitted.posterior, rng) for _ in range(1500)])
    mean, error = draws.mean(axis=0), draws.std(axis=0) / math.sqrt(1500)
    exact = np.empty(len(SETS))
    for a in range(len(SETS)):
        noise = np.sum(SETS[a].theta ** 2) / fitted.posterior.noise_precision
        shift = n_members * pool.design.u[a].var() / noise
        log_mean = expected_log_chi_square(n_members - 1, shift) - math.log(n_members)
        exact[a] = 0.5 * log_mean
    assert (abs(mean - exact) < 5 * error).all()
    aggregated = aggregated_mutual_information(pool, fitted.posterior, rng)
    most = -0.5 * (digamma((n_members - 1) / 2) + math.log(2 / n_members))
    assert most < 1.5 / n_members  # of order 1/L
    assert (exact < aggregated).all()
    assert (exact > aggregated - most).all()
    assert np.ptp(aggregated) > 0.3  # sets that teach little, and much


def test_entropies_are_in_the_users_units_and_information_has_none(model):
    larger = fit(y_bar=8 * Y_BAR)  # a power of two: nothing else changes, not even by rounding
    shifts = {"DAMI": 0.0, "DAEnt": math.log(8), "AggMI": 0.0, "AggEnt": math.log(8)}
    for name, shift in shifts.items():
        before, after = (sw.score(SETS, m, name) for m in (model, larger))
        assert_allclose(after, before + shift, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["DAMI", "DAEnt"])
def test_scores_by_dropout_are_refused_without_a_dropout_network(name):
    linear = sw.AggregateRegressor("linear").fit(SETS, Y_BAR)
    plain = sw.AggregateRegressor(replace(THINNED, dropout=0.0)).fit(SETS[:0], [], pool=SETS)
    for model in (linear, plain):
        with pytest.raises(sw.SettingError, match=r"this model has none.*Neural\(dropout=0\.1\)"):
            sw.score(SETS, model, name)
    for basis in ("fourier", "linear", lambda x: x):
        with pytest.raises(sw.SettingError, match="a dropout network, and this model has none"):
            sw.ActiveLearner(SETS, sw.AggregateRegressor(basis), name)
    with pytest.raises(sw.SettingError, match="need a dropout network"):
        sw.ActiveLearner(SETS, strategy=name)


@pytest.mark.parametrize("name", ["DAMI", *slow("DAEnt")])
def test_a_learner_by_dropout_gives_a_network_dropout_if_it_has_none(name):
    given = sw.AggregateRegressor("neural", n_basis=20)
    learner = sw.ActiveLearner(SETS, given, name)
    assert repr(learner.model.basis) == "Neural(n_basis=20, dropout=0.1)"
    assert [mask.shape for mask in learner.model.fitted().basis.basis.masks] == [
        (50, 32),
        (50, 32),
        (50, 32),
        (50, 20),
    ]
    assert given.basis == "neural"  # the caller's stays theirs
    tiny = sw.ActiveLearner(SETS, sw.AggregateRegressor(replace(THINNED, dropout=0.0)), name)
    assert repr(tiny.model.basis) == repr(replace(THINNED, dropout=0.1))
    own = replace(THINNED, dropout=0.3)
    learner = sw.ActiveLearner(SETS, sw.AggregateRegressor(own), name)
    assert learner.model.basis is own
    why = learner.ask().why
    assert "by dropout" in why


def test_other_strategies_leave_a_network_without_dropout():
    plain = replace(THINNED, dropout=0.0)
    learner = sw.ActiveLearner(SETS, sw.AggregateRegressor(plain), "AggMI")
    assert learner.model.basis is plain
    assert learner.model.fitted().basis.basis(SETS.x).shape == (len(SETS.x), 6)


# --- batches; tests/properties/test_committee.py has the formulas of committees -------------------


@given(st.integers(1, 6), st.integers(0, 8), precisions, precisions, seeds)
def test_an_ordinary_posterior_is_conditioned_as_ever(n_basis, n_pending, lam, beta, seed):
    rng = np.random.default_rng(seed)
    u, scale = rng.normal(size=(10, n_basis)), rng.uniform(0.3, 3.0, 10)
    design = Design(u, scale, np.ones(10))
    spectrum = posterior.decompose(design.rows([0, 1]), rng.normal(size=(2, 1)))
    before = posterior.condition(spectrum, Hyperparameters(lam, beta))
    pending = range(2, 2 + n_pending)
    found = before.condition_on(design.rows(list(pending)))
    precision = lam * np.eye(n_basis)
    for a in (0, 1, *pending):
        precision = precision + beta * np.outer(u[a], u[a]) / scale[a]
    expected = u @ np.linalg.inv(precision) @ u.T
    assert_allclose(found.covariance_along(u), expected, rtol=1e-7, atol=1e-9)
    assert_allclose(found.variance_along(u), np.diag(expected), rtol=1e-7, atol=1e-9)
    assert_array_equal(found.mean, before.mean)
    assert np.isfinite(found.values).all()


def twins_and_others(model, strategy):
    """The set that comes first, three times over, and the others."""
    first = int(np.argmax(sw.score(SETS, model, strategy)))
    others = [a for a in range(len(SETS)) if a != first]
    order = [first, first, first, *others]
    ids = ["twin 1", "twin 2", "twin 3", *(f"other {a}" for a in others)]
    return Sets.from_arrays([SETS[a].x for a in order], [SETS[a].theta for a in order], ids)


@pytest.mark.parametrize("strategy", ["DAMI", *slow("AggMI", "AggEnt", "DAEnt")])
def test_a_batch_does_not_ask_for_a_set_and_its_twin(strategy):
    """With little noise a twin has nothing left to say, and others have."""
    sure = fit(hyperparameters=(1.0, 1e6))
    sets = twins_and_others(sure, strategy)
    best = sets.ids[int(np.argmax(sw.score(sets, sure, strategy)))]
    assert best.startswith("twin")
    picked = sw.select(sets, sure, strategy, n=3)
    assert picked[0].startswith("twin")
    assert all(set_id.startswith("other") for set_id in picked[1:])


@pytest.mark.parametrize("strategy", ["DAMI", *slow("AggMI")])
def test_with_twins_pending_the_rest_is_chosen_as_with_one_of_them(strategy):
    """With little noise a second measurement of the same set teaches nothing."""
    sure = fit(hyperparameters=(1.0, 1e6))
    sets = twins_and_others(sure, strategy)
    fitted = sure.fitted()
    pool = sets.pool(fitted)
    one, two = (fitted.posterior.condition_on(pool.design.rows(p)) for p in ([0], [0, 1]))
    score = {"AggMI": aggregated_mutual_information, "DAMI": dropout_mutual_information}[strategy]
    scores = [score(pool, given, np.random.default_rng(0))[3:] for given in (one, two)]
    assert_allclose(scores[1], scores[0], rtol=1e-3, atol=1e-3)


def test_a_committee_of_many_can_be_drawn_from(model):
    """Draws of w, which QBC and EMCM are made of, add up to one and spread as the members do."""
    drawn = model.fitted().posterior.sample(20_000, np.random.default_rng(0))[:, :, 0]
    assert_allclose(drawn.sum(axis=1), 1.0, atol=1e-9)
    u = embed(SETS, model.fitted().basis).u
    totals = drawn @ u.T
    error = u.std(axis=1) / math.sqrt(20_000)
    assert (abs(totals.mean(axis=0) - u.mean(axis=1)) < 5 * error).all()
    assert_allclose(totals.std(axis=0), u.std(axis=1), rtol=5 / math.sqrt(2 * 20_000))


def test_sets_of_one_have_the_scores_of_individuals(model):
    """For AggMI of one-instance sets with θ = 1: ½ log(1 + β var_l ŷ(x; w_l))."""
    rng = np.random.default_rng(0)
    singles = Sets.from_arrays(rng.normal(size=(9, 1, 3)))
    _, std = model.predict(singles.x, return_std=True, include_noise=False)
    expected = 0.5 * np.log1p(model.noise_precision_ * std**2)
    for name in ("AggMI", "MI"):
        assert_allclose(sw.score(singles, model, name), expected, rtol=1e-9)
