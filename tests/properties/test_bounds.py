"""Means within bounds that keep totals of overlapping sets, against all ways to be at a bound."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space

from sumwise.model.bounded import within
from sumwise.model.predict import Predictions

LOW, HIGH = 0.0, 1.0


def nearest(mean, variance, theta, wanted):
    """The least Σ (m' − m)² / v within bounds with Θ m' = wanted: every choice of those at a bound
    gives a linear system for the others, and the best that is within bounds is it."""
    best, found = np.inf, None
    for choice in itertools.product((LOW, HIGH, None), repeat=len(mean)):
        free = np.array([each is None for each in choice])
        out = np.array([0.0 if each is None else each for each in choice])
        if free.any():
            rest = wanted - theta[:, ~free] @ out[~free]
            own, std = theta[:, free], np.sqrt(variance[free])
            shift = np.linalg.lstsq(own * std, rest - own @ mean[free], rcond=1e-10)[0]
            out[free] = mean[free] + std * shift  # the shortest, in units of standard deviations
        if abs(theta @ out - wanted).max() > 1e-9 or (out < LOW - 1e-9).any():
            continue
        length = ((out - mean) ** 2 / variance).sum()
        if (out <= HIGH + 1e-9).all() and length < best:
            best, found = length, out
    return found


@st.composite
def measured(draw):
    """Means that add up to totals which outputs within bounds have, as those of a model do."""
    n, seed = draw(st.integers(2, 5)), draw(st.integers(0, 2**32 - 1))
    rng, t = np.random.default_rng(seed), draw(st.integers(1, 3))
    theta = rng.choice([0.0, 0.0, 1.0, 1.0, 0.5, -1.0, 2.0], size=(t, n))
    theta = theta[(theta != 0).any(axis=1)]
    y = np.clip(rng.uniform(-0.3, 1.3, n), LOW, HIGH)
    free = null_space(theta) if len(theta) else np.eye(n)
    mean = y + free @ rng.normal(0, draw(st.sampled_from([0.01, 0.5, 3.0])), free.shape[1])
    return theta, mean, rng.uniform(0.05, 2, n) ** 2


@given(measured())
@settings(max_examples=30, deadline=None)
def test_means_are_the_nearest_within_bounds_that_keep_all_totals(given_):
    theta, mean, variance = given_
    totals = [(np.flatnonzero(row), row[row != 0]) for row in theta]
    found = within(Predictions(mean, np.sqrt(variance), 0.9), LOW, HIGH, totals).mean
    assert ((found >= LOW) & (found <= HIGH)).all()
    np.testing.assert_allclose(theta @ found, theta @ mean, atol=1e-9)
    np.testing.assert_allclose(found, nearest(mean, variance, theta, theta @ mean), atol=1e-6)
    if ((mean >= LOW) & (mean <= HIGH)).all():
        np.testing.assert_array_equal(found, mean)


def test_thousands_of_overlapping_totals_are_kept_at_once():
    rng = np.random.default_rng(0)
    n, y = 3000, rng.uniform(0, 1, 3000)
    rows = [*np.split(np.arange(n), 300), *np.split(rng.permutation(n), 100), np.arange(n)]
    rows += [np.array([i]) for i in range(0, n, 10)]
    theta = np.zeros((len(rows), n))
    for a, some in enumerate(rows):
        theta[a, some] = 1.0
    noise = rng.normal(0, 0.5, n)
    noise -= theta.T @ np.linalg.lstsq(theta.T, noise, rcond=None)[0]
    found = within(
        Predictions(y + noise, np.full(n, 0.3), 0.9),
        0.0,
        1.0,
        [(some, np.ones(len(some))) for some in rows],
    ).mean
    assert ((found >= 0) & (found <= 1)).all()
    np.testing.assert_allclose(theta @ found, theta @ y, atol=1e-8)
