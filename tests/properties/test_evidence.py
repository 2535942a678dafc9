"""Eq. 22, its gradient and its maximisers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sumwise.model import evidence
from sumwise.model.evidence import WeakPrior, adam, log_evidence, maximise, terms_of, view_at
from sumwise.model.posterior import Hyperparameters, condition, decompose
from tests import oracles
from tests.builders import linear_pool, phi_of, precisions, random_sets, seeds, set_sizes

n_labels = st.integers(0, 9)
CENTRE, FLAT = WeakPrior(0.0, 1.0), WeakPrior(0.0, 1.0, math.inf)


def labelled(sizes, n_seen, seed, n_outputs=1):
    rng = np.random.default_rng(seed)
    pool = linear_pool(random_sets(sizes, rng))
    seen = np.arange(min(n_seen, len(sizes)))
    y_bar = rng.normal(size=(len(seen), n_outputs)) * 2
    return pool, seen, y_bar, decompose(pool.design.rows(seen), y_bar)


@given(set_sizes, n_labels, precisions, precisions, seeds)
def test_evidence_is_the_normal_density_of_the_totals(sizes, n_seen, lam, beta, seed):
    pool, seen, y_bar, spectrum = labelled(sizes, n_seen, seed, n_outputs=2)
    model = oracles.joint(pool.sets, phi_of(pool), lam, beta)
    expected = sum(oracles.log_density(model, seen, y_bar[:, m]) for m in range(2))
    assert_allclose(log_evidence(spectrum, Hyperparameters(lam, beta)), expected, rtol=1e-8)


@given(set_sizes, n_labels, precisions, precisions, seeds)
def test_gradient_passes_finite_differences(sizes, n_seen, lam, beta, seed):
    _, _, _, spectrum = labelled(sizes, n_seen, seed)
    view = view_at(np.log([lam, beta]), terms_of(spectrum))
    assert view.value == log_evidence(spectrum, Hyperparameters(lam, beta))
    for d, (up_lam, up_beta) in enumerate(((1e-5, 0.0), (0.0, 1e-5))):
        up = Hyperparameters(lam * math.exp(up_lam), beta * math.exp(up_beta))
        down = Hyperparameters(lam * math.exp(-up_lam), beta * math.exp(-up_beta))
        slope = (log_evidence(spectrum, up) - log_evidence(spectrum, down)) / 2e-5
        assert_allclose(view.gradient[d], slope, rtol=1e-5, atol=1e-5)


@given(set_sizes, st.integers(1, 9), seeds)
def test_no_point_of_a_grid_beats_the_maximum(sizes, n_seen, seed):
    _, _, _, spectrum = labelled(sizes, n_seen, seed)

    def weighed(hyper):
        away = (
            math.log(hyper.prior_precision) - CENTRE.log_prior_precision,
            math.log(hyper.noise_precision) - CENTRE.log_noise_precision,
        )
        return log_evidence(spectrum, hyper) - 0.5 * (away[0] ** 2 + away[1] ** 2) / CENTRE.std**2

    top = weighed(maximise(spectrum, CENTRE))
    for log_lam in np.linspace(-8, 8, 17):
        for log_beta in np.linspace(-8, 8, 17):
            assert weighed(Hyperparameters(math.exp(log_lam), math.exp(log_beta))) <= top + 1e-9


@given(set_sizes, st.integers(1, 9), seeds)
def test_gradient_is_zero_at_the_maximum_or_it_lies_on_the_bound(sizes, n_seen, seed):
    _, _, _, spectrum = labelled(sizes, n_seen, seed)
    found = maximise(spectrum, FLAT)
    at = np.log([found.prior_precision, found.noise_precision])
    gradient = np.array(view_at(at, terms_of(spectrum)).gradient)
    centre = [CENTRE.log_prior_precision, CENTRE.log_noise_precision]
    inside = abs(at - centre) < evidence.REACH * (1 - 1e-12)
    assert (abs(gradient[inside]) < 1e-4).all()


def test_without_labels_the_maximum_is_the_centre_of_the_prior():
    _, _, _, spectrum = labelled([2, 3], 0, 0)
    found = maximise(spectrum, WeakPrior(math.log(3.0), math.log(5.0)))
    assert_allclose([found.prior_precision, found.noise_precision], [3.0, 5.0])


def test_the_plain_maximum_runs_away_with_two_labels_and_the_prior_prevents_it():
    def ran_away(prior):
        for seed in range(20):
            _, _, _, spectrum = labelled([2, 3, 4], 2, seed)
            found = maximise(spectrum, prior)
            yield max(found.prior_precision, found.noise_precision) > 1e6

    assert sum(ran_away(FLAT)) > 10  # more often than not
    assert sum(ran_away(CENTRE)) == 0


def test_with_many_labels_the_prior_changes_nothing():
    """2,000 totals of a known model: both find the true λ and β, and each other."""
    rng = np.random.default_rng(0)
    pool = linear_pool(random_sets(rng.integers(1, 9, 2000).tolist(), rng, n_inputs=40))
    w = rng.normal(size=41) / math.sqrt(2.0)
    noise = rng.normal(size=2000) * np.sqrt(pool.design.noise_scale / 9.0)
    spectrum = decompose(pool.design, (pool.design.u @ w + noise)[:, None])
    far = WeakPrior(math.log(20.0), math.log(0.9))  # centred a factor of ten off, both
    flat = WeakPrior(math.log(20.0), math.log(0.9), math.inf)
    weighed, plain = maximise(spectrum, far), maximise(spectrum, flat)
    assert_allclose(weighed.noise_precision, plain.noise_precision, rtol=2e-3)
    assert_allclose(weighed.prior_precision, plain.prior_precision, rtol=5e-2)
    assert_allclose(plain.noise_precision, 9.0, rtol=0.15)
    # predictions differ by far less than their own uncertainty
    a, b = condition(spectrum, weighed), condition(spectrum, plain)
    std = np.sqrt(b.variance_along(pool.design.u))
    assert (abs(pool.design.u @ (a.mean - b.mean))[:, 0] < 0.01 * std).all()


def literal_adam(u, s, y_bar, log_lam, log_beta, epochs):
    """The paper's procedure: Eq. 22 with a K×K Cholesky factor in each epoch, and Adam."""
    first, second = np.zeros(2), np.zeros(2)
    at = np.array([log_lam, log_beta])
    for epoch in range(1, epochs + 1):
        lam, beta = np.exp(at)
        gram = sum(np.outer(row, row) / scale for row, scale in zip(u, s, strict=True))
        root = np.linalg.inv(np.linalg.cholesky(lam * np.eye(u.shape[1]) + beta * gram))
        cov = root.T @ root
        mean = beta * cov @ sum(y * row / n for y, row, n in zip(y_bar, u, s, strict=True))
        misfit = sum((y - mean @ row) ** 2 / n for y, row, n in zip(y_bar, u, s, strict=True))
        by_lam = u.shape[1] / (2 * lam) - 0.5 * np.trace(cov) - 0.5 * mean @ mean
        by_beta = len(u) / (2 * beta) - 0.5 * np.trace(cov @ gram) - 0.5 * misfit
        loss_slope = -np.array([lam * by_lam, beta * by_beta])
        first = 0.9 * first + (1 - 0.9) * loss_slope
        second = 0.999 * second + (1 - 0.999) * loss_slope**2
        unbiased = first / (1 - 0.9**epoch), second / (1 - 0.999**epoch)
        at = at - 1e-3 * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
    return np.exp(at)


@pytest.mark.parametrize("n_seen", [1, 3, 8])
@pytest.mark.parametrize("compiled", [True, False])
def test_adam_gives_the_numbers_of_the_papers_procedure(n_seen, compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(evidence, "find_spec", lambda name: None)
    pool, seen, y_bar, spectrum = labelled([3, 1, 2, 5, 1, 1, 2, 4], n_seen, 11)
    found = adam(spectrum, Hyperparameters(0.6, 1.9))
    u, s = pool.design.u[seen], pool.design.noise_scale[seen]
    expected = literal_adam(u, s, y_bar[:, 0], math.log(0.6), math.log(1.9), 1000)
    assert_allclose([found.prior_precision, found.noise_precision], expected, rtol=1e-8)


def test_adam_without_labels_stays_where_it_starts():
    _, _, _, spectrum = labelled([2, 3], 0, 0)
    assert adam(spectrum, Hyperparameters(0.6, 1.9)) == Hyperparameters(0.6, 1.9)
