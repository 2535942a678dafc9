"""Counts, shares and amounts given all others, beside fits that never saw them."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import sumwise as sw
from sumwise.model.generalised.laplace import solve
from sumwise.model.generalised.leave_one_out import apart, chances, left
from sumwise.model.generalised.likelihoods import LIKELIHOODS, Measured
from sumwise.model.generalised.predict import Predictor, Total, outputs_of
from sumwise.model.leave_one_out import leave_one_out
from sumwise.model.predict import predict_sets

KINDS = tuple(LIKELIHOODS)


def drawn(kind, seed, n_sets, variance=0.25, alpha=0.3, times=1):
    """Sets and totals from the model itself, with one trial or more each."""
    rng = np.random.default_rng([seed, 17])
    sizes = rng.integers(1, 8, n_sets)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    n = starts[-1]
    x, e = rng.normal(size=(n, 3)), times * rng.integers(1, 30, n).astype(float)
    eta = -1 + x @ rng.normal(size=3) * np.sqrt(variance)
    if kind == "counts":
        y = rng.poisson(e * np.exp(eta) * rng.gamma(1 / alpha, alpha, n))
    elif kind == "shares":
        own = np.sqrt(alpha) * rng.normal(size=n) * (e > 1)
        y = rng.binomial(e.astype(int), 1 / (1 + np.exp(-eta - own)))
    else:
        spread = np.log1p(alpha)
        y = e * np.exp(eta + np.sqrt(spread) * rng.normal(size=n) - 0.5 * spread)
    cut = [slice(*ends) for ends in pairwise(starts)]
    sets = sw.Sets.from_arrays([x[at] for at in cut], weights=[e[at] for at in cut])
    return sets, np.add.reduceat(y, starts[:-1]).astype(float)


def linear(x):
    return np.column_stack([x, np.ones(len(x))])


def fitted(kind, sets, totals, **settings):
    return sw.AggregateRegressor(outputs=kind, **settings).fit(sets, totals).fitted()


@pytest.mark.parametrize("kind", KINDS)
def test_a_total_left_out_is_predicted_as_by_a_fit_without_it(kind):
    sets, totals = drawn(kind, 1, 24)
    settings = {"basis": linear, "hyperparameters": (4.0, 1 / 0.3)}
    model = fitted(kind, sets, totals, **settings)
    mean, std = leave_one_out(model, model.labelled.design, totals[:, None])
    again = np.empty((len(totals), 2))
    for a in range(len(totals)):
        others = np.delete(np.arange(len(totals)), a)
        other = fitted(kind, sets.take(others), totals[others], **settings)
        design = other.pool(sets.take([a])).design
        again[a] = np.ravel(predict_sets(other, design, include_noise=True))
    for found, expected in zip((mean[:, 0], std[:, 0]), again.T, strict=True):
        off = np.abs(found / expected - 1)
        assert np.median(off) < 0.02
        assert off.max() < 0.12
    seen, _ = predict_sets(model, model.labelled.design, include_noise=True)
    off, before = (np.log(each[:, 0] / again[:, 0]).std() for each in (mean, seen))
    assert off < 0.4 * before  # nearer than predictions that know the total


@pytest.mark.parametrize("kind", ["counts", "amounts"])
def test_predictions_left_out_are_not_biased_where_the_prior_is_wide(kind):
    """There the mode of a rate is above its mean, by a tenth and more."""
    sets, totals = drawn(kind, 6, 20)
    model = fitted(kind, sets, totals, hyperparameters=(20.0, 2.0))
    mean, _ = leave_one_out(model, model.labelled.design, totals[:, None])
    ratios = []
    for a in range(0, len(totals), 2):
        others = np.delete(np.arange(len(totals)), a)
        other = fitted(kind, sets.take(others), totals[others], hyperparameters=(20.0, 2.0))
        expected, _ = predict_sets(other, other.pool(sets.take([a])).design, include_noise=True)
        ratios.append(mean[a, 0] / expected[0, 0])
    assert abs(np.median(ratios) - 1) < 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_total_does_not_speak_for_the_dispersion_that_it_is_judged_by(kind):
    sets, totals = drawn(kind, 5, 30)
    bad = int(np.argmax(sets.sizes))
    totals[bad] *= 20
    if kind == "shares":
        totals[bad] = sets.theta[slice(*sets.starts[bad : bad + 2])].sum()
    known = fitted(kind, sets, totals).generalised
    among = known.probability @ known.posteriors.own
    assert left(known).own[bad] < 0.95 * among[bad]


@pytest.mark.parametrize("kind", KINDS)
def test_hypotheses_lose_what_the_total_was_worth_to_them(kind):
    """The density of a total given others is a ratio of evidences, by a fit without it."""
    sets, totals = drawn(kind, 2, 12)
    known = fitted(kind, sets, totals).generalised
    _, variance, density = apart(known.posteriors)
    whole, a = known.measured, 4
    rows = np.repeat(np.arange(12) != a, sets.sizes)
    starts = np.concatenate([[0], np.cumsum(np.delete(sets.sizes, a))])
    others = Measured(whole.phi[rows], whole.exposure[rows], starts, np.delete(whole.totals, a))
    less = solve(known.likelihood, others, known.level, known.posteriors.priors)
    ratio = known.posteriors.log_evidence - less.log_evidence
    assert np.abs(density[:, a] - ratio).max() < 0.15
    centred = known.posteriors.rows[:, a]
    exact = np.array([less.variance(h, centred[[h]])[0] for h in range(len(ratio))])
    exact = exact + known.posteriors.priors.effect
    np.testing.assert_allclose(variance[:, a], exact, rtol=0.25)


@pytest.mark.parametrize("kind", KINDS)
def test_randomised_positions_of_drawn_totals_are_uniform(kind):
    scores = []
    for seed in range(25):
        sets, totals = drawn(kind, seed + 10, 40)
        model = fitted(kind, sets, totals, basis=linear, hyperparameters=(4.0, 1 / 0.3))
        known = model.generalised
        scores.append(chances(known.likelihood, left(known), totals).scores())
    u = stats.norm.cdf(np.concatenate(scores))
    assert len(u) == 1000
    assert stats.kstest(u, "uniform").pvalue > 0.01
    assert stats.kstest(u**0.8, "uniform").pvalue < 0.01  # it would notice


def _sure(rate, own, exposure):
    one = np.ones(1)
    return Total(Predictor(np.log(rate) * one, 0 * one), own * one, exposure * one, one)


@pytest.mark.parametrize("y", [0.0, 3.0, 40.0, 400.0])
def test_tails_are_those_of_the_negative_binomial_with_all_digits(y):
    found = chances(LIKELIHOODS["counts"], _sure(0.5, 0.2, 20.0), np.array([y]))
    exact = stats.nbinom(5, 5 / (5 + 10.0))
    expected = [exact.cdf(y - 1), exact.cdf(y), exact.sf(y), exact.sf(y - 1)]
    np.testing.assert_allclose(np.ravel(found), expected, rtol=1e-9)
    poisson = chances(LIKELIHOODS["counts"], _sure(0.5, 0.0, 20.0), np.array([y]))
    np.testing.assert_allclose(poisson.from_it, stats.poisson(10.0).sf(y - 1), rtol=1e-8)


@pytest.mark.parametrize("y", [0.0, 3.0, 19.0, 20.0])
def test_tails_of_shares_are_binomial_and_end_at_the_trials(y):
    eta = Predictor(np.zeros(1) - 1, np.zeros(1))
    logit = Total(eta, np.zeros(1), np.full(1, 20.0), np.ones(1))
    found = chances(LIKELIHOODS["shares"], logit, np.array([y]))
    exact = stats.binom(20, 1 / (1 + np.e))
    expected = [exact.cdf(y - 1), exact.cdf(y), exact.sf(y), exact.sf(y - 1)]
    np.testing.assert_allclose(np.ravel(found), expected, rtol=1e-9, atol=1e-300)


def test_intervals_of_large_counts_do_not_jump_between_nodes():
    """Counts of tens of thousands hardly scatter around their rates, whose quantiles they have."""
    total = replace_variance(_sure(1.0, 1e-4, 50_000.0), 0.09)
    for level in (0.5, 0.8, 0.9, 0.95):
        *_, ends = outputs_of(LIKELIHOODS["counts"], total, level)
        exact = stats.lognorm(0.3, scale=50_000).ppf([0.5 - level / 2, 0.5 + level / 2])
        np.testing.assert_allclose(ends[:, 0], exact, rtol=0.03)


def replace_variance(total, variance):
    return total._replace(eta=replace(total.eta, variance=np.full(1, variance)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_set_is_expected_to_have_what_its_members_are(kind):
    """Effects of sets and dispersion move means of individuals and of totals alike."""
    sets, totals = drawn(kind, 3, 30)
    model = sw.AggregateRegressor(outputs=kind).fit(sets.take(range(20)), totals[:20])
    rest = sets.take(range(20, 30))
    whole, _ = predict_sets(model.fitted(), model.fitted().pool(rest).design, include_noise=True)
    each = model.predict(rest.x, exposure=rest.theta)
    added = np.add.reduceat(np.ravel(each), rest.starts[:-1])
    assert model.fitted().generalised.effect > 0.005
    alone = rest.sizes == 1
    assert alone.any()
    np.testing.assert_allclose(whole[alone, 0], added[alone], rtol=1e-6)
    np.testing.assert_allclose(whole[:, 0], added, rtol=0.15)


def test_amounts_may_be_in_any_unit():
    sets, totals = drawn("amounts", 4, 12)
    found = []
    for unit in (1.0, 1e-6, 1e6):
        model = fitted("amounts", sets, unit * totals)
        found.append(leave_one_out(model, model.labelled.design, unit * totals[:, None])[0] / unit)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-6)
