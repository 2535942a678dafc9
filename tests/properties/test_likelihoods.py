"""The likelihoods of totals, and the posterior of w, against what they must be by definition."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, nbinom, poisson

from sumwise.model.generalised import laplace
from sumwise.model.generalised.likelihoods import LIKELIHOODS, Measured
from tests.builders import seeds
from tests.model.generalised.truth import Problem, log_posterior, poisson_binomial

KINDS = tuple(LIKELIHOODS)
kinds = st.sampled_from(KINDS)
dispersions = st.sampled_from((0.0, 1e-9, 3e-5, 0.01, 0.3, 2.0))
sizes_of_sets = st.lists(st.integers(1, 7), min_size=1, max_size=6)


def random_totals(kind, sizes, rng, n_features=3, alpha=0.3, kappa=0.1):
    """Measured sets with outputs around 1 per exposure, and predictors to look at them from."""
    n, starts = sum(sizes), np.concatenate([[0], np.cumsum(sizes)])
    between = np.repeat(rng.normal(size=(len(sizes), n_features)), sizes, axis=0)
    phi = 0.8 * between + 0.6 * rng.normal(size=(n, n_features))
    eta = rng.normal(size=(1, n))
    exposure = rng.lognormal(1.0, 1.0, n)
    b = math.sqrt(kappa) * rng.normal(size=len(sizes))
    mean = np.exp(phi @ rng.normal(size=n_features) * 0.5 + np.repeat(b, sizes))
    own = rng.gamma(1 / alpha, alpha, n) if alpha else np.ones(n)
    if kind == "shares":
        exposure = rng.integers(1, 9, n).astype(float)
        y = rng.binomial(exposure.astype(int), mean / (1 + mean)).astype(float)
    else:
        y = exposure * mean * own
        y = rng.poisson(y).astype(float) if kind == "counts" else y
    return Measured(phi, exposure, starts, np.add.reduceat(y, starts[:-1])), eta


def at(kind, measured, eta, alpha):
    return LIKELIHOODS[kind].local(measured, np.atleast_2d(eta), np.array([alpha]))


@given(kinds, dispersions, sizes_of_sets, seeds)
def test_pulls_are_derivatives(kind, alpha, sizes, seed):
    measured, eta = random_totals(kind, sizes, np.random.default_rng(seed))
    if kind == "amounts":
        alpha = max(alpha, 0.01)  # else densities are too narrow for differences
    step, found = 1e-5, at(kind, measured, eta, alpha)
    moved = step * np.eye(eta.shape[1])
    alphas = np.full(len(moved), alpha)
    above, below = (
        LIKELIHOODS[kind].local(measured, eta + s * moved, alphas).log_density.sum(axis=1)
        for s in (1, -1)
    )
    size = 1 + np.abs(found.pull).max()
    np.testing.assert_allclose(found.pull[0], (above - below) / (2 * step), atol=1e-5 * size)


@given(st.sampled_from(("counts", "shares")), dispersions, seeds)
def test_information_of_one_individual_is_that_of_its_distribution(kind, alpha, seed):
    """Σ_y p(y) (∂ log p)², from SciPy's distributions; shares for α = 0."""
    rng = np.random.default_rng(seed)
    eta, e = rng.normal(), float(rng.integers(1, 12))
    one = Measured(np.ones((1, 1)), np.array([e]), np.array([0, 1]), np.zeros(1))
    if kind == "shares":
        alpha, y, p = 0.0, np.arange(e + 1), 1 / (1 + math.exp(-eta))
        pmf = binom(e, p).pmf(y)
    else:
        mean, y = e * math.exp(eta), np.arange(4000.0)
        many = poisson(mean) if alpha < 1e-8 else nbinom(1 / alpha, 1 / (1 + alpha * mean))
        pmf = many.pmf(y)
    local = [at(kind, replace(one, totals=np.array([v])), [eta], alpha) for v in y[pmf > 1e-14]]
    pulls = np.array([found.pull[0, 0] for found in local])
    logs = np.array([found.log_density[0, 0] for found in local])
    np.testing.assert_allclose(np.exp(logs), pmf[pmf > 1e-14], rtol=1e-5)
    expected = pmf[pmf > 1e-14] @ pulls**2
    np.testing.assert_allclose(local[0].information[0, 0], expected, rtol=1e-4)


def test_amounts_are_log_normal_with_the_mean_and_variance_of_a_sum():
    measured, eta = random_totals("amounts", [4], np.random.default_rng(1))
    means = measured.exposure * np.exp(eta[0])
    log_y = np.linspace(-12, 12, 20_001) + math.log(means.sum())
    many = Measured(
        np.tile(measured.phi, (len(log_y), 1)),
        np.tile(measured.exposure, len(log_y)),
        np.arange(len(log_y) + 1) * 4,
        np.exp(log_y),
    )
    density = np.exp(at("amounts", many, np.tile(eta, len(log_y)), 0.4).log_density[0])
    weight = density * np.exp(log_y) * (log_y[1] - log_y[0])
    mean = weight @ np.exp(log_y)
    assert weight.sum() == pytest.approx(1, abs=1e-6)
    assert mean == pytest.approx(means.sum(), rel=1e-6)
    assert weight @ (np.exp(log_y) - mean) ** 2 == pytest.approx(0.4 * (means**2).sum(), rel=1e-5)


@given(seeds, st.integers(1, 8), st.booleans())
def test_saddlepoints_are_exact_for_equal_chances_and_close_for_others(seed, n, equal):
    """Others within 0.06 nats for logits with a standard deviation of 1.5; the ends are exact."""
    rng = np.random.default_rng(seed)
    trials = rng.integers(1, 4, n).astype(float)
    eta = np.full(n, rng.normal()) if equal else 1.5 * rng.normal(size=n)
    y = np.arange(trials.sum() + 1)
    copies = len(y)
    many = Measured(np.ones((n * copies, 1)), np.tile(trials, copies), np.arange(copies + 1) * n, y)
    found = at("shares", many, np.tile(eta, copies), 0.0).log_density[0]
    chance = np.repeat(1 / (1 + np.exp(-eta)), trials.astype(int))
    exact = np.log(poisson_binomial(chance[None], len(y) - 1)[0])
    np.testing.assert_allclose(found, exact, atol=1e-8 if equal else 0.06)
    np.testing.assert_allclose(found[[0, -1]], exact[[0, -1]], atol=1e-8)


# --- posteriors -----------------------------------------------------------------------------------


def priors_of(variances, alpha=0.0, kappa=0.0):
    one = np.ones(1)
    return laplace.Priors(np.asarray(variances, dtype=float)[None], alpha * one, kappa * one)


def posterior(kind, measured, level=0.0, alpha=0.0, kappa=0.0, variances=None):
    variances = np.full(measured.phi.shape[1], 0.5) if variances is None else variances
    priors = priors_of(variances, alpha, kappa)
    return laplace.solve(LIKELIHOODS[kind], measured, level, priors)


def everything(found):
    """Mean, variances and evidence."""
    k = found.mean.shape[1]
    return np.concatenate(
        [found.mean[0], found.variance(0, np.eye(k)), found.log_evidence, found.effects[0]]
    )


SETTINGS = [(0.0, 0.0), (0.0, 0.2), (0.3, 0.0), (0.3, 0.2)]  # α and κ


def off_quadrature(kind, alpha, kappa, seed):
    """How far mean (in sd), sd (as a share) and evidence are from quadrature, for K = 1."""
    rng = np.random.default_rng(seed)
    sizes = [3, 4, 5, 2, 6, *rng.integers(1, 7, 3)]
    alpha = 0.0 if kind == "shares" else max(alpha, 0.05 if kind == "amounts" else 0.0)
    measured, _ = random_totals(kind, sizes, rng, 1, alpha, kappa)
    ours = posterior(kind, measured, 0.0, alpha, kappa)
    family = "poisson" if kind == "counts" and not alpha else kind
    parts = (measured.phi, measured.exposure, measured.starts, measured.totals)
    known = Problem(family, *parts, 0.0, np.array([0.5]), alpha, kappa)
    mean, sd = ours.mean[0, 0], math.sqrt(ours.variance(0, np.ones((1, 1)))[0])
    w = np.linspace(mean - 8 * sd, mean + 8 * sd, 101)
    logs = log_posterior(known, w[:, None])
    p, width = np.exp(logs - logs.max()), w[1] - w[0]
    exact = p @ w / p.sum()
    exact_sd = math.sqrt(p @ (w - exact) ** 2 / p.sum())
    evidence = logs.max() + math.log(p.sum() * width)
    off = (mean - exact) / exact_sd, sd / exact_sd - 1, ours.log_evidence[0] - evidence
    return np.abs(off)


@pytest.mark.parametrize("kind", KINDS)
def test_one_feature_is_what_quadrature_gives(kind):
    off = np.array([off_quadrature(kind, *own, seed) for own in SETTINGS for seed in range(5)])
    assert (np.median(off, axis=0) < (0.02, 0.06, 0.1)).all()
    assert (off.max(axis=0) < (0.1, 0.25, 0.5)).all()


@pytest.fixture
def at_mode(monkeypatch):
    """Modes in place of means, which textbooks have."""
    monkeypatch.setattr(laplace, "_at_mean", lambda likelihood, measured, mode, eta: mode)


@pytest.mark.usefixtures("at_mode")
@pytest.mark.parametrize("kind", KINDS)
def test_modes_are_where_nothing_pulls(kind):
    """Also of amounts with hardly any noise, which are far from their mode at first."""
    for seed in range(4):
        for alpha, kappa in ((1e-4, 0.2), (1e-4, 0.0), (0.5, 0.1)):
            rng = np.random.default_rng(seed)
            sizes = rng.integers(1, 9, rng.integers(2, 12)).tolist()
            measured, _ = random_totals(kind, sizes, rng, 4, max(alpha, 0.01), kappa)
            found = posterior(kind, measured, 0.0, alpha, kappa)
            w, b = found.mean[0], found.effects[0]
            eta = measured.phi @ w + np.repeat(b, sizes)
            pull = at(kind, measured, eta, alpha).pull
            left = pull[0] @ measured.phi - w / 0.5
            known = found.white[0] @ (0.5 * found.rows[0])
            assert left @ (0.5 * left) - ((known @ left) ** 2).sum() < 1e-4  # in sd, squared
            assert not kappa or np.abs(kappa * measured.sums(pull)[0] - b).max() < 1e-3


def singles(kind, rng, n=60):
    phi = rng.normal(size=(n, 3))
    exposure = rng.integers(1, 6, n).astype(float)
    y = rng.poisson(exposure * np.exp(phi @ [0.5, -0.3, 0.1])).astype(float)
    y = np.minimum(y, exposure) if kind == "shares" else y + (kind == "amounts")
    return Measured(phi, exposure, np.arange(n + 1), y)


@pytest.mark.usefixtures("at_mode")
def test_single_individuals_are_poisson_regression():
    from sklearn.linear_model import PoissonRegressor

    measured = singles("counts", np.random.default_rng(3))
    lam = 2.0
    textbook = PoissonRegressor(
        alpha=lam / measured.exposure.sum(), fit_intercept=False, tol=1e-10, max_iter=1000
    )
    rate = measured.totals / measured.exposure
    textbook.fit(measured.phi, rate, sample_weight=measured.exposure)
    ours = posterior("counts", measured, variances=np.full(3, 1 / lam))
    np.testing.assert_allclose(ours.mean[0], textbook.coef_, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("at_mode")
def test_single_individuals_are_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    measured = singles("shares", np.random.default_rng(4))
    lam, fails = 2.0, measured.exposure - measured.totals
    textbook = LogisticRegression(C=1 / lam, fit_intercept=False, tol=1e-10, max_iter=1000)
    y = np.repeat([1, 0], len(measured))
    weight = np.concatenate([measured.totals, fails])
    textbook.fit(np.vstack([measured.phi] * 2), y, sample_weight=weight)
    ours = posterior("shares", measured, variances=np.full(3, 1 / lam))
    np.testing.assert_allclose(ours.mean[0], textbook.coef_[0], rtol=1e-4, atol=1e-6)


def test_single_amounts_are_ridge_regression_on_logarithms():
    """Exactly: there the posterior is Gaussian."""
    measured = singles("amounts", np.random.default_rng(5))
    lam, alpha, v = 2.0, 0.3, math.log1p(0.3)
    z = np.log(measured.totals / measured.exposure) + 0.5 * v
    precision = measured.phi.T @ measured.phi / v + lam * np.eye(3)
    ours = posterior("amounts", measured, alpha=alpha, variances=np.full(3, 1 / lam))
    np.testing.assert_allclose(ours.mean[0], np.linalg.solve(precision, measured.phi.T @ z / v))
    np.testing.assert_allclose(ours.variance(0, np.eye(3)), np.diag(np.linalg.inv(precision)))


def test_identical_members_are_one_individual_with_all_the_exposure():
    rng = np.random.default_rng(6)
    phi, sizes = rng.normal(size=(8, 3)), rng.integers(1, 6, 8)
    totals = rng.poisson(4.0, 8).astype(float)
    each = Measured(
        np.repeat(phi, sizes, axis=0),
        np.full(sizes.sum(), 1.5),
        np.concatenate([[0], np.cumsum(sizes)]),
        totals,
    )
    whole = Measured(phi, 1.5 * sizes, np.arange(9), totals)
    a, b = posterior("counts", each, kappa=0.1), posterior("counts", whole, kappa=0.1)
    np.testing.assert_allclose(everything(a), everything(b), rtol=1e-7, atol=1e-8)


@given(seeds, sizes_of_sets)
def test_splitting_an_exposure_in_two_changes_nothing_for_poisson_counts(seed, sizes):
    rng = np.random.default_rng(seed)
    measured, _ = random_totals("counts", sizes, rng)
    part = rng.uniform(0.1, 0.9, len(measured.phi))
    exposure = np.column_stack([part, 1 - part]) * measured.exposure[:, None]
    phi = np.repeat(measured.phi, 2, axis=0)
    split = Measured(phi, exposure.ravel(), 2 * measured.starts, measured.totals)
    a, b = posterior("counts", measured, kappa=0.1), posterior("counts", split, kappa=0.1)
    np.testing.assert_allclose(everything(a), everything(b), rtol=1e-6, atol=1e-7)


@given(kinds, seeds, sizes_of_sets)
def test_order_of_individuals_sets_and_columns_does_not_matter(kind, seed, sizes):
    rng = np.random.default_rng(seed)
    measured, _ = random_totals(kind, sizes, rng)
    order, columns = rng.permutation(len(sizes)), rng.permutation(3)
    rows = [rng.permutation(np.arange(*measured.starts[a : a + 2])) for a in order]
    at_rows = np.concatenate(rows)
    other = Measured(
        measured.phi[at_rows][:, columns],
        measured.exposure[at_rows],
        np.concatenate([[0], np.cumsum([len(r) for r in rows])]),
        measured.totals[order],
    )
    a = posterior(kind, measured, alpha=0.3, kappa=0.1, variances=np.array([0.3, 0.5, 0.7]))
    b = posterior(kind, other, alpha=0.3, kappa=0.1, variances=np.array([0.3, 0.5, 0.7])[columns])
    np.testing.assert_allclose(b.mean[0], a.mean[0][columns], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(b.effects[0], a.effects[0][order], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(b.log_evidence, a.log_evidence, rtol=1e-7, atol=1e-7)


@given(st.sampled_from(("counts", "amounts")), seeds, st.sampled_from((1e-9, 1e-3, 40.0, 1e9)))
def test_scaling_exposures_shifts_the_level_only(kind, seed, by):
    measured, _ = random_totals(kind, [3, 1, 5, 2], np.random.default_rng(seed))
    scaled = replace(measured, exposure=by * measured.exposure)
    a = posterior(kind, measured, 0.4, alpha=0.3, kappa=0.1)
    b = posterior(kind, scaled, 0.4 - math.log(by), alpha=0.3, kappa=0.1)
    np.testing.assert_allclose(everything(a), everything(b), rtol=1e-6, atol=1e-6)


def test_without_totals_the_posterior_is_the_prior():
    empty = Measured(np.empty((0, 3)), np.empty(0), np.zeros(1, dtype=int), np.empty(0))
    for kind in KINDS:
        found = posterior(kind, empty, alpha=0.3, kappa=0.1)
        assert not found.mean.any()
        np.testing.assert_allclose(found.variance(0, np.eye(3)), 0.5)
        assert found.log_evidence == 0


def test_hypotheses_solved_together_are_those_solved_one_by_one():
    for kind in KINDS:
        measured, _ = random_totals(kind, [3, 1, 5, 2], np.random.default_rng(2))
        variances = np.array([[0.5, 0.1, 2.0], [0.01, 0.3, 0.3], [4.0, 4.0, 4.0]])
        alpha, kappa = np.array([0.1, 0.5, 0.02]), np.array([0.2, 0.0, 0.4])
        both = laplace.Priors(variances, alpha, kappa)
        together = laplace.solve(LIKELIHOODS[kind], measured, 0.2, both)
        for h in range(3):
            one = posterior(kind, measured, 0.2, alpha[h], kappa[h], variances[h])
            some = everything(together.take(np.array([h])))
            np.testing.assert_allclose(some, everything(one), rtol=1e-6, atol=1e-6)
