"""Equally likely models of the output: their mean, their covariance, and what measuring leaves."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sumwise.model.design import Design
from sumwise.model.posterior import committee
from tests.builders import precisions, seeds

numbers_of_models = st.integers(2, 9)
numbers_of_sets = st.integers(1, 12)


def design_of(totals, noise_scale) -> Design:
    return Design(totals.copy(), noise_scale.copy(), np.ones(len(totals)))


def drawn(n_models, n_sets, seed):
    """Totals of sets under each model, far from zero, and s."""
    rng = np.random.default_rng(seed)
    return rng.normal(5, 1, size=(n_sets, n_models)), rng.uniform(0.3, 4.0, n_sets)


def left_over(measured, noise, others):
    """Cov(others | noisy totals measured), the textbook formula."""
    everything = np.cov(np.vstack([measured, others]), bias=True)
    n = len(measured)
    inside = everything[:n, :n] + np.diag(noise)
    return everything[n:, n:] - everything[n:, :n] @ np.linalg.solve(inside, everything[:n, n:])


def agrees(posterior, others, expected):
    assert_allclose(posterior.covariance_along(others), expected, rtol=1e-8, atol=1e-10)
    assert_allclose(posterior.variance_along(others), np.diag(expected), rtol=1e-8, atol=1e-10)
    half = posterior.root_times(others)
    assert_allclose(half @ half.T, expected, rtol=1e-8, atol=1e-10)


@given(numbers_of_models, numbers_of_sets, precisions, seeds)
def test_a_committee_has_the_mean_and_the_covariance_of_its_models(n_models, n_sets, beta, seed):
    totals, _ = drawn(n_models, n_sets + 1, seed)
    posterior = committee(n_models, beta, np.ones(1))
    assert_allclose(totals @ posterior.mean[:, 0], totals.mean(axis=1), rtol=1e-12)
    agrees(posterior, totals, np.cov(totals, bias=True))
    assert posterior.noise_precision == beta


@given(numbers_of_models, st.integers(1, 8), precisions, seeds)
def test_measuring_fewer_sets_than_models_leaves_what_the_formula_says(
    n_models, n_sets, beta, seed
):
    n_sets = min(n_sets, n_models - 1)
    totals, s = drawn(n_models, n_sets + 2, seed)
    measured, others = totals[:n_sets], totals[n_sets:]
    posterior = committee(n_models, beta, np.ones(1)).condition_on(design_of(measured, s[:n_sets]))
    agrees(posterior, others, left_over(measured, s[:n_sets] / beta, others))
    assert_allclose(posterior.mean, 1 / n_models)  # as S knows them and m does not


@given(numbers_of_models, st.integers(1, 8), precisions, seeds)
def test_measuring_one_by_one_is_measuring_together(n_models, n_sets, beta, seed):
    n_sets = min(n_sets, n_models - 1)
    totals, s = drawn(n_models, n_sets + 2, seed)
    measured, others = totals[:n_sets], totals[n_sets:]
    posterior = committee(n_models, beta, np.ones(1))
    for a in range(n_sets):
        posterior = posterior.condition_on(design_of(measured[[a]], s[[a]]))
    agrees(posterior, others, left_over(measured, s[:n_sets] / beta, others))


# Where the measured rows depend on each other (more of them than L − 1, copies, or a set that all
# models agree about) singular values are 0, and their vectors need not be at right angles to the
# direction that is known for certain.
@given(numbers_of_models, numbers_of_sets, precisions, seeds)
def test_measuring_more_sets_than_there_are_models(n_models, n_more, beta, seed):
    n_sets = n_models - 1 + n_more
    totals, s = drawn(n_models, n_sets + 2, seed)
    measured, others = totals[:n_sets], totals[n_sets:]
    posterior = committee(n_models, beta, np.ones(1)).condition_on(design_of(measured, s[:n_sets]))
    agrees(posterior, others, left_over(measured, s[:n_sets] / beta, others))


@given(numbers_of_models, precisions, seeds)
def test_measuring_a_set_and_its_copy(n_models, beta, seed):
    totals, s = drawn(n_models, 3, seed)
    measured, noise_scale = totals[[0, 0]], s[[0, 0]]
    posterior = committee(n_models, beta, np.ones(1)).condition_on(design_of(measured, noise_scale))
    agrees(posterior, totals, left_over(measured, noise_scale / beta, totals))


@given(numbers_of_models, precisions, seeds)
def test_measuring_a_set_that_all_models_agree_about(n_models, beta, seed):
    totals, s = drawn(n_models, 3, seed)
    totals[0] = 5.0
    posterior = committee(n_models, beta, np.ones(1)).condition_on(design_of(totals[:1], s[:1]))
    agrees(posterior, totals[1:], np.cov(totals[1:], bias=True))
