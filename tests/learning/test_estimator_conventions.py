"""`AggregateRegressor`: scikit-learn's conventions, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import sumwise as sw
from sumwise.model.evidence import terms_of, view_at
from sumwise.model.posterior import decompose
from tests.builders import linear_pool, random_sets, smooth_problem


@pytest.fixture
def problem():
    return smooth_problem()


def test_it_follows_the_conventions_of_scikit_learn(problem):
    sets, y, y_bar = problem
    model = sw.AggregateRegressor("polynomial", degree=3)
    assert model.get_params()["degree"] == 3
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    assert model.set_params(degree=2) is model
    assert repr(model) == "AggregateRegressor(basis='polynomial')"
    with pytest.raises(sw.SettingError, match="no setting is called 'deg'"):
        model.set_params(deg=2)
    assert is_regressor(model)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    for call in (
        lambda: model.predict(sets.x),
        lambda: model.predict_sets(sets),
        lambda: model.log_evidence_,
        lambda: sw.score(sets, model),
    ):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call()
    assert model.fit(sets, y_bar) is model
    check_is_fitted(model)
    assert not hasattr(clone(model), "fitted_")
    assert model.n_features_in_ == 2
    pipe = Pipeline([("model", clone(model))]).fit(sets, y_bar)
    assert pipe.score(sets.x, y) == pytest.approx(model.score(sets.x, y))


def test_refitting_forgets_the_columns_of_the_last_fit(problem):
    sets, _, y_bar = problem
    named = sw.Sets(sets.ids, sets.x, sets.theta, sets.starts, ("a", "b"))
    model = sw.AggregateRegressor("linear").fit(named, y_bar)
    assert not hasattr(model.fit(sets, y_bar), "feature_names_in_")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hyperparameters": "guess"}, "hyperparameters is 'guess'"),
        ({"hyperparameters": (1.0,)}, "hyperparameters is .1.0,."),
        ({"hyperparameters": None}, "hyperparameters is None"),
        ({"hyperparameters": (1.0, -2.0)}, "β is -2.0; give a number from 1e-100 to 1e"),
        ({"hyperparameters": (float("nan"), 1.0)}, "λ is nan"),
        ({"basis": "cubic"}, "no basis is called 'cubic'"),
        ({"random_state": -1}, "random_state is -1; give a whole number"),
        ({"random_state": "a"}, "random_state is 'a'"),
    ],
)
def test_bad_settings_are_refused_at_fit(problem, options, message):
    sets, _, y_bar = problem
    with pytest.raises(sw.SettingError, match=message):
        sw.AggregateRegressor(**options).fit(sets, y_bar)


@pytest.mark.parametrize(
    ("y_bar", "message"),
    [
        ([1.0], r"totals have shape \(1,\); give one for each of 2 sets"),
        ([1.0, float("nan")], "total of set 'b' is nan"),
        ([1.0, float("inf")], "total of set 'b' is inf"),
        ([[1.0, 2.0], [3.0, float("-inf")]], "total of set 'b' is -inf"),
        (["1", "2"], "totals must be an array of numbers"),
        ([1.0, "2"], "totals must be an array of numbers"),
        ([1.0, None], "total of set 'b' is nan|totals must be an array of numbers"),
        ([[1.0], [2.0, 3.0]], "totals must be an array of numbers"),
        (3.0, r"totals have shape \(\)"),
    ],
)
def test_bad_totals_are_refused_naming_the_set(y_bar, message):
    sets = sw.Sets.from_arrays([[[1.0]], [[2.0]]], ids=["a", "b"])
    with pytest.raises(sw.LabelError, match=message):
        sw.AggregateRegressor().fit(sets, y_bar)


def test_bad_inputs_are_refused(problem):
    sets, _, y_bar = problem
    model = sw.AggregateRegressor("linear").fit(sets, y_bar)
    with pytest.raises(sw.InvalidSetError, match=r"X has shape \(1, 3\); .* 2 inputs"):
        model.predict([[1.0, 2.0, 3.0]])
    with pytest.raises(sw.InvalidSetError, match="X has nan in row 1, input 0"):
        model.predict([[1.0, 2.0], [float("nan"), 0.0]])
    with pytest.raises(sw.InvalidSetError, match="X must be an array of numbers"):
        model.predict([["a", "b"]])
    with pytest.raises(sw.InvalidSetError, match=r"X has shape \(1, 1, 1\).* Sets.from_arrays"):
        sw.AggregateRegressor().fit([[[1.0]]], [1.0])
    with pytest.raises(sw.InvalidSetError, match="the sets have 1 inputs; the model knows 2"):
        model.predict_sets(sw.Sets.from_arrays([[[1.0]]]))
    with pytest.raises(sw.InvalidSetError, match="the sets have 2 inputs; the model knows 1"):
        model.fit(sets, y_bar, pool=sw.Sets.from_arrays([[[1.0]]]))
    with pytest.raises(sw.SettingError, match="not both"):
        model.predict(sets.x, return_std=True, return_cov=True)
    assert model.predict(np.empty((0, 2))).shape == (0,)


def test_the_weak_prior_is_on_by_default_and_can_be_switched_off():
    rng = np.random.default_rng(3)
    sets = random_sets([2, 3, 4], rng)
    y_bar = rng.normal(size=3)
    weighed = sw.AggregateRegressor("linear", standardize=False).fit(sets, y_bar)
    plain = sw.AggregateRegressor("linear", standardize=False, evidence_prior=False)
    assert plain.fit(sets, y_bar).log_evidence_ > weighed.log_evidence_
    pool = linear_pool(sets)
    at = np.log([plain.prior_precision_, plain.noise_precision_])
    view = view_at(at, terms_of(decompose(pool.design, y_bar[:, None])))
    assert min(view.gradient) > -1e-3  # at a maximum, or pressed against the upper bound


def test_weights_need_groups_in_a_score():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 2)), rng.normal(size=12)
    model = sw.AggregateRegressor("linear").fit(x, y)
    assert np.isfinite(model.score(x, y))
    with pytest.raises(sw.SettingError, match="group of each row"):
        model.score(x, y, weights="mean")
