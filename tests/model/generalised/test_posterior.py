"""Posteriors and questions against sampling, which shares no step with them (`sample.py`)."""

from __future__ import annotations

import numpy as np
import pytest

from sumwise.acquisition.strategies import ACQUISITIONS
from tests.model.generalised.models import pool_of, solved
from tests.model.generalised.truth import FAMILIES, draws, kept, problem
from tests.model.generalised.worth import candidates, worth

KEPT = kept()
ALL = [(family, number) for family in FAMILIES for number in range(6)]


def known_and_sampled(family, number):
    known, found = problem(family, number), KEPT[f"{family} {number}"]
    assert known.checksum == pytest.approx(found["checksum"], rel=1e-12)  # the same problem
    return known, found


@pytest.mark.parametrize(("family", "number"), ALL)
def test_posterior_means_and_deviations_are_those_of_long_runs(family, number):
    known, found = known_and_sampled(family, number)
    sd, ours = np.sqrt(np.diag(found["covariance"])), solved(known)
    assert found["error of the mean, in sd"] < 0.01
    assert found["ensemble's mean off by sd"] < 0.06  # its own error, which is larger
    assert found["ensemble's sd off by"] < 0.04
    assert (np.abs(ours.mean[0] - found["mean"]) < 0.06 * sd).all()
    np.testing.assert_allclose(np.sqrt(ours.variance(0, np.eye(len(sd)))), sd, rtol=0.12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("strategy", "within"), [("AggMI", 0.06), ("IVR", 0.15)])
def test_scores_of_questions_are_those_of_brute_force(family, strategy, within):
    """Of 48 choices, 47 are the best; one, of IVR after ten totals of shares, keeps 91 % of it."""
    off, kept_of_best = [], []
    for number in range(6):
        known, found = known_and_sampled(family, number)
        pool, posterior = pool_of(known, candidates(known, number))
        ours = ACQUISITIONS[strategy](pool, posterior, np.random.default_rng(0))
        best = np.array(found[strategy])
        off.append(np.abs(ours / best - 1))
        kept_of_best.append(best[ours.argmax()] / best.max())
    assert np.median(off) < within
    assert np.sort(kept_of_best)[1] >= 0.99
    assert min(kept_of_best) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("family", "number"), ALL)
def test_what_is_kept_is_the_posterior(family, number):
    """Importance weights around what is kept are nearly even, and give it back."""
    known, found = known_and_sampled(family, number)
    w, weight = draws(known, found, 4000)
    mean, sd = np.array(found["mean"]), np.sqrt(np.diag(found["covariance"]))
    assert 1 / (weight**2).sum() > 0.5 * len(w)
    assert (np.abs(weight @ w - mean) < 0.09 * sd).all()
    np.testing.assert_allclose(np.sqrt(weight @ (w - mean) ** 2), sd, rtol=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_kept_of_questions_is_brute_force(family):
    known, found = known_and_sampled(family, 0)
    for name, values in worth(known, 0, found).items():
        np.testing.assert_allclose(values, found[name], rtol=1e-4)
