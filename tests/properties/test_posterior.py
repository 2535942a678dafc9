"""Posterior and predictions against the joint Gaussian of all outputs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sumwise.model.design import Design
from sumwise.model.posterior import Hyperparameters, condition, decompose
from tests import oracles
from tests.builders import linear_pool, phi_of, precisions, random_sets, seeds, set_sizes


def learned(sizes, n_seen, lam, beta, seed):
    rng = np.random.default_rng(seed)
    pool = linear_pool(random_sets(sizes, rng))
    seen = np.arange(min(n_seen, len(sizes)))
    y_bar = rng.normal(size=len(seen))
    spectrum = decompose(pool.design.rows(seen), y_bar[:, None])
    return pool, seen, y_bar, spectrum, condition(spectrum, Hyperparameters(lam, beta))


n_labels = st.integers(0, 9)  # none, one, fewer and more than the four features


@given(set_sizes, n_labels, precisions, precisions, seeds)
def test_individual_predictions_match_the_joint_gaussian(sizes, n_seen, lam, beta, seed):
    pool, seen, y_bar, _, posterior = learned(sizes, n_seen, lam, beta, seed)
    phi = phi_of(pool)
    model = oracles.joint(pool.sets, phi, lam, beta)
    mean, covariance = oracles.given_totals(model, seen, y_bar, phi, lam, phi)
    assert_allclose(phi @ posterior.mean[:, 0], mean, rtol=1e-7, atol=1e-8)
    assert_allclose(posterior.covariance_along(phi), covariance, rtol=1e-7, atol=1e-8)
    assert_allclose(posterior.variance_along(phi), np.diag(covariance), rtol=1e-7, atol=1e-8)


@given(set_sizes, n_labels, precisions, precisions, seeds)
def test_predicted_totals_match_the_joint_gaussian(sizes, n_seen, lam, beta, seed):
    pool, seen, _, _, posterior = learned(sizes, n_seen, lam, beta, seed)
    variance = posterior.variance_along(pool.design.u) + pool.design.noise_scale / beta
    model = oracles.joint(pool.sets, phi_of(pool), lam, beta)
    assert_allclose(variance, oracles.total_variance_given(model, seen), rtol=1e-7)


@given(set_sizes, n_labels, precisions, precisions, seeds)
def test_spectral_form_equals_the_primal_and_the_dual_form(sizes, n_seen, lam, beta, seed):
    pool, seen, y_bar, _, posterior = learned(sizes, n_seen, lam, beta, seed)
    u, s = pool.design.u[seen], pool.design.noise_scale[seen]
    precision = lam * np.eye(u.shape[1]) + beta * (u / s[:, None]).T @ u  # Eq. 12
    primal_s = np.linalg.inv(precision)
    primal_m = beta * primal_s @ (u / s[:, None]).T @ y_bar  # Eq. 11
    inside = u @ u.T / lam + np.diag(s) / beta  # t×t, by Woodbury's identity
    dual_s = np.eye(u.shape[1]) / lam - u.T @ np.linalg.solve(inside, u) / lam**2
    dual_m = u.T @ np.linalg.solve(inside, y_bar) / lam
    spectral_s = posterior.covariance_along(np.eye(u.shape[1]))
    for mean, covariance in ((primal_m, primal_s), (dual_m, dual_s)):
        assert_allclose(posterior.mean[:, 0], mean, rtol=1e-10, atol=1e-10 * abs(mean).max())
        scale = abs(covariance).max()
        assert_allclose(spectral_s, covariance, rtol=1e-10, atol=1e-10 * scale)


@given(set_sizes, n_labels, precisions, precisions, seeds)
def test_conditioning_on_open_questions_gives_the_variances_of_answered_ones(
    sizes, n_seen, lam, beta, seed
):
    pool, seen, y_bar, _, _ = learned(sizes, n_seen, lam, beta, seed)
    hyper, half = Hyperparameters(lam, beta), len(seen) // 2
    asked = decompose(pool.design.rows(seen[:half]), y_bar[:half, None])
    waiting = condition(asked, hyper).condition_on(pool.design.rows(seen[half:]))
    answered = condition(decompose(pool.design.rows(seen), y_bar[:, None]), hyper)
    assert_allclose(
        waiting.variance_along(pool.design.u),
        answered.variance_along(pool.design.u),
        rtol=1e-8,
        atol=1e-12,
    )


@given(set_sizes, n_labels, precisions, precisions, seeds)
def test_several_outputs_are_separate_fits_with_one_covariance(sizes, n_seen, lam, beta, seed):
    rng = np.random.default_rng(seed)
    pool = linear_pool(random_sets(sizes, rng))
    seen, hyper = np.arange(min(n_seen, len(sizes))), Hyperparameters(lam, beta)
    y_bar = rng.normal(size=(len(seen), 3))
    together = condition(decompose(pool.design.rows(seen), y_bar), hyper)
    for m in range(3):
        alone = condition(decompose(pool.design.rows(seen), y_bar[:, [m]]), hyper)
        assert_allclose(together.mean[:, [m]], alone.mean, rtol=1e-12, atol=1e-14)
        assert_allclose(together.variance_along(pool.design.u), alone.variance_along(pool.design.u))


def test_variances_are_the_same_in_small_blocks(monkeypatch):
    pool, _, _, _, posterior = learned([2, 3, 1, 4, 2, 1, 5, 3], 3, 0.7, 2.0, 5)
    whole = posterior.variance_along(pool.design.u)
    monkeypatch.setattr("sumwise.model.posterior.BLOCK", 3)
    assert_allclose(posterior.variance_along(pool.design.u), whole, rtol=1e-12)


def test_samples_have_the_posterior_mean_and_covariance():
    _, _, _, _, posterior = learned([3, 1, 4, 2], 3, 0.7, 2.0, 5)
    draws = posterior.sample(40_000, np.random.default_rng(0))[:, :, 0]
    covariance = posterior.covariance_along(np.eye(4))
    error = np.sqrt(np.diag(covariance) / len(draws))
    assert (abs(draws.mean(axis=0) - posterior.mean[:, 0]) < 5 * error).all()
    spread = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)) * 2 / len(draws))
    assert (abs(np.cov(draws.T) - covariance) < 5 * spread).all()


def test_samples_of_several_outputs_are_independent():
    rng = np.random.default_rng(3)
    pool = linear_pool(random_sets([3, 1, 4, 2], rng))
    spectrum = decompose(pool.design, rng.normal(size=(4, 2)))
    posterior = condition(spectrum, Hyperparameters(0.7, 2.0))
    draws = posterior.sample(20_000, rng) - posterior.mean
    variance = posterior.variance_along(np.eye(4))
    cross = (draws[:, :, 0] * draws[:, :, 1]).mean(axis=0)
    assert (abs(cross) < 5 * variance / np.sqrt(len(draws))).all()
    assert_allclose(draws.var(axis=0), variance[:, None] * np.ones(2), rtol=0.1)


def test_a_prior_beyond_single_precision_leaves_rows_in_single_precision_finite():
    """Every direction is known, and 0 / λ would be 0 / 0 in the rows' own precision."""
    rng = np.random.default_rng(0)
    design = Design(rng.normal(size=(6, 3)), np.ones(6), np.ones(6))
    found = condition(decompose(design, rng.normal(size=(6, 1))), Hyperparameters(1e-60, 1.0))
    rows = rng.normal(size=(4, 3)).astype(np.float32)
    variance = found.variance_along(rows)
    assert_allclose(variance, found.variance_along(rows.astype(np.float64)), rtol=1e-5)
