"""What individuals and sets have of their own a priori, on the scale of the predictor."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.learning import algorithm
from sumwise.model.fit import ModelConfig
from sumwise.model.generalised.averaging import SCALES, TYPICAL, Hypothetical


def prepared_for(**settings):
    rng = np.random.default_rng(0)
    sets = sw.Sets.from_arrays([rng.normal(size=(n, 3)) for n in (3, 4, 5)])
    return algorithm.begin(ModelConfig(**settings), sets).prepared


@pytest.mark.parametrize("kind", ["counts", "shares", "amounts"])
def test_dispersion_is_relative_where_means_are_multiplied(kind):
    rng = np.random.default_rng(0)
    prepared = prepared_for(outputs=kind)
    known, h = prepared.basis.basis.hypotheses, np.array([0, 7, 30])
    found = Hypothetical.of(prepared, kind).take(h, np.array([0, 3, 6]))
    own = SCALES[[0, 3, 6]] * known.noise[h] * (1 - known.correlation[h])
    if kind == "shares":
        assert_allclose(found.dispersion, own, rtol=1e-12)
    else:  # the variance of a log-normal variable with mean 1
        draws = np.exp(np.sqrt(own) * rng.normal(size=(400_000, 3)) - 0.5 * own)
        error = np.sqrt(np.var((draws - 1) ** 2, axis=0) / len(draws))
        assert (abs(found.dispersion - np.mean((draws - 1) ** 2, axis=0)) < 5 * error).all()
    assert_allclose(found.effect, SCALES[[0, 3, 6]] * known.noise[h] * known.correlation[h])


@pytest.mark.parametrize("kind", TYPICAL)
def test_the_scale_has_its_median_where_it_is_typical(kind):
    prior = np.exp(Hypothetical.of(prepared_for(outputs=kind), kind).log_prior)
    nearest = SCALES[prior.argmax()]
    assert abs(np.log(nearest / TYPICAL[kind])) < 0.5 * np.log(SCALES[1] / SCALES[0])


def test_given_precisions_are_taken_as_they_are():
    prepared = prepared_for(outputs="counts", hyperparameters=(2.0, 4.0))
    found = Hypothetical.of(prepared, "counts").take(np.zeros(1, int), np.zeros(1, int))
    assert found.dispersion == [0.25]
    assert_allclose(found.variances, 0.5)
