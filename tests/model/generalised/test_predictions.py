"""Predictions of counts, shares and amounts: what adds up, what is bounded, how sure they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, hypergeom, nbinom, norm, poisson

import sumwise as sw
from sumwise.model.generalised.likelihoods import LIKELIHOODS
from sumwise.model.generalised.predict import Predictor, extrapolates, outputs, predictor
from tests.model.generalised.models import model_of
from tests.model.generalised.truth import kept, problem
from tests.model.generalised.worth import candidates

KINDS = tuple(LIKELIHOODS)
POISSON = 1e12  # β: no dispersion


def simulated(kind, seed, beta=4.0, size=5.0, n_sets=24, largest=6, lam=2.0):
    """Outputs of individuals drawn from the model: their inputs, exposures, outputs and sizes."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, n_sets)
    sizes[:2] = 1, largest
    n, alpha = sizes.sum(), 1 / beta
    x, w = rng.normal(size=(n, 2)), rng.normal(size=3) / math.sqrt(lam)
    eta = x @ w[:2] + w[2]
    if kind == "shares":
        e = rng.integers(1, round(2 * size), n).astype(float)
        eta = eta + np.sqrt(alpha * (1 - 1 / e)) * rng.normal(size=n)
        return x, e, rng.binomial(e.astype(int), 1 / (1 + np.exp(-eta))).astype(float), sizes
    e = size * rng.lognormal(0, 0.6, n)
    if kind == "counts":
        return x, e, rng.poisson(e * np.exp(eta) * rng.gamma(1 / alpha, alpha, n)) * 1.0, sizes
    v = math.log1p(alpha)
    return x, e, e * np.exp(eta - 0.5 * v + math.sqrt(v) * rng.normal(size=n)), sizes


def fitted(kind, x, e, totals, sizes, beta=4.0, **settings):
    """A model of the first sets, as many as there are totals, and the ids of all rows' sets."""
    ends = np.cumsum(sizes)[:-1]
    sets = sw.Sets.from_arrays(np.split(x, ends), np.split(e, ends))
    settings = {"basis": "linear", "hyperparameters": (2.0, beta), "standardize": False, **settings}
    model = sw.AggregateRegressor(outputs=kind, **settings)
    return model.fit(sets.take(np.arange(len(totals))), totals), np.repeat(sets.ids, sizes)


def sums(y, sizes):
    return np.add.reduceat(y, np.concatenate([[0], np.cumsum(sizes)[:-1]]))


def changed(kind, totals, exposure, how):
    """Totals as they came, none at all, or far from what is expected."""
    if how == "as drawn":
        return totals
    if how == "none":
        return 0 * totals + (1e-6 if kind == "amounts" else 0.0)
    if kind == "shares":
        return exposure if how == "far above" else np.minimum(totals, 1.0)
    factor = np.where(np.arange(len(totals)) % 3 == 1, 1e4 if how == "far above" else 1e-4, 1.0)
    return factor * totals if kind == "amounts" else np.rint(factor * totals)


@pytest.mark.parametrize("beta", [POISSON, 4.0])
@pytest.mark.parametrize("how", ["as drawn", "none", "far above", "far below"])
@pytest.mark.parametrize("kind", KINDS)
def test_members_add_up_and_stay_within_bounds(kind, how, beta):
    beta = 100.0 if kind == "amounts" and beta == POISSON else beta
    x, e, y, sizes = simulated(kind, 3, beta)
    totals = changed(kind, sums(y, sizes), sums(e, sizes), how)
    model, groups = fitted(kind, x, e, totals, sizes, beta)
    mean, std = model.predict(x, return_std=True, exposure=e, groups=groups)
    np.testing.assert_allclose(sums(mean, sizes), totals, rtol=1e-9, atol=1e-9)
    whole, alone = np.repeat(totals, sizes), np.repeat(sizes, sizes) == 1
    np.testing.assert_array_equal(mean[alone], whole[alone])  # as measured, and certain
    assert not std[alone].any()
    left = whole - mean if kind != "shares" else np.minimum(whole, e) - mean
    assert (std[~alone & (mean > 1e-3) & (left > 1e-3)] > 0).all()
    found = model.intervals(x, exposure=e, groups=groups)
    for ends in (found, model.intervals(x, exposure=e)):
        assert (ends.lower >= 0).all()
        assert (ends.lower <= ends.upper).all()
        assert kind == "amounts" or not (ends.lower % 1).any() | (ends.upper % 1).any()
        assert kind != "shares" or (ends.upper <= e).all()
    assert (found.upper <= whole * (1 + 1e-12)).all()
    assert (found.lower[alone] == whole[alone]).all()
    rate = model.predict(x, groups=groups)
    np.testing.assert_allclose(sums(e * rate, sizes), totals, rtol=1e-9, atol=1e-9)


def test_poisson_members_are_thinned_in_proportion_to_their_means():
    x, e, y, sizes = simulated("counts", 5, POISSON)
    totals = sums(y, sizes)
    model, groups = fitted("counts", x, e, totals, sizes, POISSON)
    mean, std = model.predict(x, return_std=True, exposure=e, groups=groups)
    plain = model.predict(x, exposure=e)
    share = plain / np.repeat(sums(plain, sizes), sizes)
    np.testing.assert_allclose(mean, np.repeat(totals, sizes) * share, rtol=1e-6)
    thinned = np.sqrt(np.repeat(totals, sizes) * share * (1 - share))  # with w known
    assert (std >= thinned * (1 - 1e-6) - 1e-9).all()
    assert (std <= thinned + np.repeat(totals, sizes) * 0.2).all()


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_tilted_counts_are_close_to_those_given_the_total(alpha):
    """Two members, by enumeration; w is known almost for certain."""
    x, e = np.array([[0.0], [0.0]]), np.array([3.0, 12.0])
    sets = sw.Sets.from_arrays([x], [e], ids=["a"])
    settings = {"basis": "linear", "hyperparameters": (1e6, 1 / alpha), "standardize": False}
    for total in (3.0, 15.0, 40.0):
        model = sw.AggregateRegressor(outputs="counts", **settings).fit(sets, [total])
        k = np.arange(total + 1)
        size, chance = 1 / alpha, 1 / (1 + alpha * e)
        p = nbinom.pmf(k, size, chance[0]) * nbinom.pmf(total - k, size, chance[1])
        p = p / p.sum()
        mean, std = model.predict(x, return_std=True, exposure=e, groups=["a", "a"])
        assert mean[0] == pytest.approx(p @ k, rel=0.12)
        exact = math.sqrt(p @ (k - p @ k) ** 2)
        assert std[0] == pytest.approx(exact, rel=0.3)


def test_members_with_equal_chances_share_successes_as_cards_are_drawn():
    """A hypergeometric distribution, where w is known almost for certain."""
    x, e = np.zeros((3, 1)), np.array([12.0, 20.0, 8.0])
    sets = sw.Sets.from_arrays([x], [e], ids=["a"])
    settings = {"basis": "linear", "hyperparameters": (1e6, 1e6), "standardize": False}
    for total in (1.0, 13.0, 30.0):
        model = sw.AggregateRegressor(outputs="shares", **settings).fit(sets, [total])
        found = model.intervals(x, exposure=e, groups=["a"] * 3)
        exact = hypergeom(40, e.astype(int), int(total))
        np.testing.assert_allclose(found.mean, exact.mean(), rtol=1e-3)
        np.testing.assert_allclose(found.std, exact.std(), rtol=0.03)
        assert (np.abs(found.lower - exact.ppf(0.05)) <= 1).all()
        assert (np.abs(found.upper - exact.ppf(0.95)) <= 1).all()


def brute_quantiles(kind, mean, variance, alpha, e, level):
    """By summation of the probabilities of all whole numbers, over a fine grid of predictors."""
    z = np.linspace(-8, 8, 1601)
    g = norm.pdf(z) / norm.pdf(z).sum()
    if kind == "shares":
        variance = variance + alpha * max(1 - 1 / e, 0)
    eta = mean + math.sqrt(variance) * z
    k = np.arange(400.0)
    if kind == "shares":
        each = binom.pmf(k[:, None], e, 1 / (1 + np.exp(-eta)))
    elif alpha:
        each = nbinom.pmf(k[:, None], 1 / alpha, 1 / (1 + alpha * e * np.exp(eta)))
    else:
        each = poisson.pmf(k[:, None], e * np.exp(eta))
    cumulative = np.cumsum(each @ g)
    return [int((cumulative < q).sum()) for q in (0.5 - level / 2, 0.5 + level / 2)]


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["counts", "shares"])
def test_quantiles_are_those_of_the_mixture(kind, alpha):
    for e, variance, level in ((1, 0.1, 0.9), (30, 0.02, 0.8), (30, 0.3, 0.9), (90, 0.3, 0.5)):
        centre = 0.2 if kind == "counts" else -1.0
        eta = Predictor(np.array([centre]), np.array([variance]))
        known, ones = LIKELIHOODS[kind], np.ones(1)
        ends = outputs(known, eta, alpha * ones, e * ones, level)[2]
        want = np.array(brute_quantiles(kind, centre, variance, alpha, e, level))
        assert (np.abs(ends[:, 0] - want) <= np.maximum(0.015 * want, 0)).all() or (
            np.abs(ends[:, 0] - want) <= 1
        ).all()


def test_quantiles_of_large_counts_are_no_comb_of_nodes():
    """Means of a million: the ends are those of the predictor."""
    for kind, back in (("counts", np.exp), ("shares", lambda eta: 1 / (1 + np.exp(-eta)))):
        for level in (0.5, 0.8, 0.9, 0.99):
            eta, one = Predictor(np.zeros(1), np.full(1, 0.25)), np.ones(1)
            ends = outputs(LIKELIHOODS[kind], eta, 0 * one, 1e6 * one, level)[2][:, 0]
            reach = norm.ppf(0.5 + level / 2) * 0.5
            np.testing.assert_allclose(ends, 1e6 * back(np.array([-reach, reach])), rtol=1e-3)


@pytest.mark.parametrize(("kind", "size"), [("counts", 50.0), ("shares", 40.0), ("amounts", 5.0)])
def test_intervals_cover_what_is_drawn_from_the_model(kind, size):
    """Individuals of other sets and members of measured ones; whole numbers cover somewhat more."""
    inside = {"new": [], "members": []}
    for seed in range(12):
        x, e, y, sizes = simulated(kind, seed, size=size)
        model, groups = fitted(kind, x, e, sums(y, sizes)[:12], sizes)
        found = model.intervals(x, exposure=e, groups=groups, level=0.8)
        covered, seen = (y >= found.lower) & (y <= found.upper), sizes[:12].sum()
        several = np.repeat(sizes, sizes)[:seen] > 1
        inside["members"] += covered[:seen][several].tolist()
        inside["new"] += covered[seen:].tolist()
    assert 0.75 < np.mean(inside["new"]) < 0.88
    assert 0.75 < np.mean(inside["members"]) < 0.93


@pytest.mark.parametrize("kind", KINDS)
def test_deviations_are_as_large_as_errors(kind):
    """Mean squares, of individuals in other sets, of members of measured sets, and of totals."""
    off = {"new": [], "members": [], "totals": []}
    for seed in range(12):
        x, e, y, sizes = simulated(kind, seed, size=20.0, n_sets=30)
        model, groups = fitted(kind, x, e, sums(y, sizes)[:15], sizes)
        mean, std = model.predict(x, return_std=True, exposure=e, groups=groups)
        seen, several = sizes[:15].sum(), np.repeat(sizes, sizes) > 1
        z = np.where(std > 0, (y - mean) / np.where(std > 0, std, 1.0), 0.0)
        off["members"] += (z[:seen][several[:seen]] ** 2).tolist()
        off["new"] += (z[seen:] ** 2).tolist()
        parts = (np.split(rows, np.cumsum(sizes)[:-1])[15:] for rows in (x, e))
        total, spread = model.predict_sets(sw.Sets.from_arrays(*parts), return_std=True)
        off["totals"] += (((sums(y, sizes)[15:] - total) / spread) ** 2).tolist()
    for name, squares in off.items():
        assert 0.7 < np.mean(np.minimum(squares, 16.0)) < 1.35, name


@pytest.mark.parametrize("kind", KINDS)
def test_totals_without_noise_are_as_sure_as_the_model(kind):
    """Standard deviations of expected totals, by draws of w from the posterior."""
    x, e, y, sizes = simulated(kind, 2, beta=50.0, size=30.0)
    model, _ = fitted(kind, x, e, sums(y, sizes)[:20], sizes, 50.0)
    parts = np.split(x, np.cumsum(sizes)[:-1])[20:], np.split(e, np.cumsum(sizes)[:-1])[20:]
    std = model.predict_sets(sw.Sets.from_arrays(*parts), return_std=True, include_noise=False)[1]
    found = model.fitted_.generalised
    rng = np.random.default_rng(0)
    w = rng.multivariate_normal(found.mean, found.covariance, 4000)
    for a, (rows, exposure) in enumerate(zip(*parts, strict=True)):
        eta = w @ np.column_stack([rows, np.ones(len(rows))]).T
        mean = 1 / (1 + np.exp(-eta)) if kind == "shares" else np.exp(eta)
        assert std[a] == pytest.approx((mean @ exposure).std(), rel=0.12)


def test_rows_far_beyond_what_was_seen_are_known_as_such():
    x, e, y, sizes = simulated("counts", 2)
    model, _ = fitted("counts", x, e, sums(y, sizes), sizes)
    found = model.fitted_.generalised
    rows = np.array([[0.0, 0.0, 1.0], *(30 * np.sign(found.mean)[None])])
    assert extrapolates(found, predictor(found, rows, None)).tolist() == [False, True]


@pytest.mark.parametrize("family", ["poisson", "counts", "shares", "amounts"])
def test_effects_of_sets_that_were_not_measured_are_not_known(family):
    """Predictors of individuals elsewhere: the sampled variance, and κ."""
    known = problem(family, 4)
    sampled = kept()[f"{family} 4"]
    phi = candidates(known, 4).phi
    found = predictor(model_of(known), phi, None)
    expected = np.einsum("nk,kl,nl->n", phi, np.array(sampled["covariance"]), phi) + known.kappa
    np.testing.assert_allclose(found.variance, expected, rtol=0.15)
    np.testing.assert_allclose(
        found.mean, known.level + phi @ sampled["mean"], atol=0.1 * math.sqrt(expected.min())
    )
