"""Individuals far outside the range of the data have means within reason, and are flagged."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.model.generalised.likelihoods import LIKELIHOODS
from sumwise.model.generalised.predict import Predictor, extrapolates, outputs


@pytest.mark.parametrize("kind", ["counts", "amounts"])
def test_moments_take_the_variance_of_a_predictor_for_at_most_one_and_quantiles_as_it_is(kind):
    eta = Predictor(np.zeros(2), np.array([0.5, 50.0]))
    mean, std, ends = outputs(LIKELIHOODS[kind], eta, np.zeros(2), None, 0.9)
    assert_allclose(mean, np.exp([0.25, 0.5]))
    assert_allclose(std, mean * np.sqrt(np.expm1([0.5, 1.0])))
    assert_allclose(np.log(ends[1]), 1.6448536269514722 * np.sqrt([0.5, 50.0]))


def test_rows_whose_rates_are_uncertain_by_a_large_factor_are_flagged():
    rng = np.random.default_rng(0)
    sets = sw.Sets.from_arrays([rng.normal(size=(4, 1)) for _ in range(8)])
    model = sw.AggregateRegressor("linear", outputs="counts").fit(
        sets, [9, 12, 7, 15, 8, 11, 14, 6]
    )
    known = model.fitted().generalised
    middle = np.full(3, known.level - 1)  # so that no mean is ten times the highest rate
    assert extrapolates(known, Predictor(middle, np.array([0.1, 3.9, 4.1]))).tolist() == [
        False,
        False,
        True,
    ]
    assert extrapolates(known, Predictor(middle + 5, np.full(3, 0.1))).all()
