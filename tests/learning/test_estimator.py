"""`AggregateRegressor`: units, conventions, hard cases."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import BayesianRidge

import sumwise as sw
from tests import oracles
from tests.builders import linear_pool, random_sets, smooth_problem, totals


@pytest.fixture
def problem():
    return smooth_problem()


def test_it_learns_individuals_from_totals_alone(problem):
    sets, y, y_bar = problem
    model = sw.AggregateRegressor().fit(sets, y_bar)
    assert model.score(sets.x, y) > 0.98
    assert 0.3 < 1 / np.sqrt(model.noise_precision_) < 0.8  # truly 0.5
    mean, std = model.predict(sets.x, return_std=True)
    covered = (abs(mean - y) < 1.645 * std).mean()
    assert 0.85 < covered < 0.95


def test_predictions_match_the_joint_gaussian_in_the_users_units():
    rng = np.random.default_rng(1)
    sets = random_sets([2, 3, 1, 4, 2], rng)
    y_bar = rng.normal(size=5) * 50
    lam, beta = 0.02, 0.3
    model = sw.AggregateRegressor("linear", hyperparameters=(lam, beta), standardize=False)
    model.fit(sets, y_bar)
    phi = np.column_stack([sets.x, np.ones(len(sets.x))])
    joint = oracles.joint(sets, phi, lam, beta)
    seen = np.arange(5)
    mean, latent = oracles.given_totals(joint, seen, y_bar, phi, lam, phi)
    found, std = model.predict(sets.x, return_std=True)
    assert_allclose(found, mean, rtol=1e-9)
    assert_allclose(std, np.sqrt(np.diag(latent) + 1 / beta), rtol=1e-9)
    _, latent_std = model.predict(sets.x, return_std=True, include_noise=False)
    assert_allclose(latent_std, np.sqrt(np.diag(latent)), rtol=1e-8)
    _, covariance = model.predict(sets.x, return_cov=True)
    assert_allclose(covariance, latent + np.eye(len(phi)) / beta, rtol=1e-8, atol=1e-10)
    _, latent_cov = model.predict(sets.x, return_cov=True, include_noise=False)
    assert_allclose(latent_cov, latent, rtol=1e-8, atol=1e-10)
    assert_allclose(model.log_evidence_, oracles.log_density(joint, seen, y_bar), rtol=1e-10)
    assert_allclose(model.predict_sets(sets), y_bar, rtol=1e-9)  # as they were measured
    set_mean, quiet = model.predict_sets(sets, return_std=True, include_noise=False)
    assert_allclose(set_mean, totals(sets, mean), rtol=1e-9)
    left = oracles.total_variance_given(joint, seen) - oracles.total_noise(joint)
    assert_allclose(quiet**2, left, rtol=1e-7)


def test_predicted_totals_are_the_sums_of_predicted_individuals_and_their_covariance(problem):
    sets, _, y_bar = problem
    model = sw.AggregateRegressor().fit(sets[:50], y_bar[:50], pool=sets)
    one = sets[60:61]
    mean, covariance = model.predict(one.x, return_cov=True, include_noise=False)
    set_mean, set_std = model.predict_sets(one, return_std=True, include_noise=False)
    assert_allclose(set_mean[0], mean.sum(), rtol=1e-10)
    assert_allclose(set_std[0] ** 2, covariance.sum(), rtol=1e-8)


@pytest.mark.parametrize("basis", ["fourier", "linear", "polynomial"])
@pytest.mark.parametrize("hyperparameters", ["evidence", "adam"])
def test_changing_units_changes_nothing_but_units(problem, basis, hyperparameters):
    sets, _, y_bar = problem
    sets, y_bar = sets[:25], y_bar[:25]
    plain = sw.AggregateRegressor(basis, hyperparameters=hyperparameters).fit(sets, y_bar)
    for x_scale, y_scale, shift in ((1e-6, 1e9, 7.0), (1e6, 1e-9, -3e-8)):
        shift *= (
            hyperparameters != "adam"
        )  # there, as in the paper, the level is part of the signal
        moved = sw.Sets(sets.ids, sets.x * x_scale, sets.theta, sets.starts)
        y_moved = y_scale * y_bar + shift * np.add.reduceat(sets.theta, sets.starts[:-1])
        other = sw.AggregateRegressor(basis, hyperparameters=hyperparameters).fit(moved, y_moved)
        mean, std = plain.predict(sets.x, return_std=True)
        mean_moved, std_moved = other.predict(moved.x, return_std=True)
        assert_allclose(mean_moved, y_scale * mean + shift, rtol=1e-5)
        assert_allclose(std_moved, y_scale * std, rtol=1e-4)
        assert_allclose(other.noise_precision_, plain.noise_precision_ / y_scale**2, rtol=1e-4)
        for name in ("AggMI", "AggEnt", "MI", "QBC", "Var"):
            before, after = sw.score(sets, plain, name), sw.score(moved, other, name)
            assert np.argmax(before) == np.argmax(after)
        information = sw.score(moved, other, "AggMI"), sw.score(sets, plain, "AggMI")
        assert_allclose(*information, rtol=1e-4)


def test_entropy_is_that_of_totals_in_the_users_units(problem):
    sets, _, y_bar = problem
    model = sw.AggregateRegressor().fit(sets[:30], y_bar[:30], pool=sets)
    _, std = model.predict_sets(sets, return_std=True)
    expected = np.log(std) + 0.5 * np.log(2 * np.pi * np.e)
    found = sw.score(sets, model, "AggEnt")
    assert_allclose(found[30:], expected[30:], rtol=1e-10)  # the others are measured


def test_evidence_agrees_with_bayesian_ridge():
    """Rows u/√s and ȳ/√s make it ordinary Bayesian ridge regression."""
    rng = np.random.default_rng(4)
    pool = linear_pool(random_sets(rng.integers(1, 6, 60).tolist(), rng))
    root = np.sqrt(pool.design.noise_scale)
    y_bar = pool.design.u @ [1.0, -2.0, 0.5, 3.0] + 0.3 * root * rng.normal(size=60)
    rows = pool.design.u / root[:, None]
    ridge = BayesianRidge(
        alpha_1=0,
        alpha_2=0,
        lambda_1=0,
        lambda_2=0,
        fit_intercept=False,
        tol=1e-12,
        max_iter=10_000,
    ).fit(rows, y_bar / root)
    plain = sw.AggregateRegressor("linear", evidence_prior=False, standardize=False)
    plain.fit(pool.sets, y_bar)
    assert_allclose(plain.prior_precision_, ridge.lambda_, rtol=1e-4)
    assert_allclose(plain.noise_precision_, ridge.alpha_, rtol=1e-5)
    mean, std = ridge.predict(rows, return_std=True)
    found, quiet = plain.predict_sets(pool.sets, return_std=True, include_noise=False)
    assert_allclose(found / root, mean, rtol=1e-5)
    assert_allclose(np.sqrt((quiet / root) ** 2 + 1 / ridge.alpha_), std, rtol=1e-5)
    given = sw.AggregateRegressor(
        "linear", hyperparameters=(ridge.lambda_, ridge.alpha_), standardize=False
    ).fit(pool.sets, y_bar)
    latent = std**2 - 1 / ridge.alpha_
    expected = 0.5 * np.log1p(ridge.alpha_ * latent)
    assert_allclose(sw.score(pool.sets, given, "AggMI"), expected, rtol=1e-8)


def test_no_labels_give_the_prior():
    sets = random_sets([2, 1, 3], np.random.default_rng(0))
    model = sw.AggregateRegressor("fourier", hyperparameters=(4.0, 25.0)).fit(sets[:0], [])
    mean, std = model.predict(sets.x, return_std=True)
    phi = model.fitted_.basis(sets.x)
    assert_allclose(mean, 0)
    assert_allclose(std**2, (phi**2).sum(axis=1) / 4 + 1 / 25)
    assert model.log_evidence_ == 0


@pytest.mark.parametrize("hyperparameters", ["evidence", "adam", (1.0, 10.0)])
@pytest.mark.parametrize("n_labels", [0, 1, 2, 40])
@pytest.mark.parametrize("n_basis", [1, 8])
def test_any_number_of_labels_and_features_works(hyperparameters, n_labels, n_basis):
    rng = np.random.default_rng(n_labels)
    sizes = [51, 1, 1, 7, *[2] * 36]
    sets = random_sets(sizes, rng)
    y_bar = rng.normal(size=n_labels)
    model = sw.AggregateRegressor("fourier", n_basis=n_basis, hyperparameters=hyperparameters)
    model.fit(sets[:n_labels], y_bar, pool=sets)
    mean, std = model.predict(sets.x, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert np.isfinite(model.log_evidence_)


@pytest.mark.parametrize("evidence_prior", [True, False])
@pytest.mark.parametrize(
    "y_bar",
    [np.zeros(6), np.ones(6), 5e8 * np.ones(6), np.array([1e9, 1e9, 1e9, 1e9, 1e9, 1e9 + 1])],
    ids=["zero", "one", "large", "nearly-constant"],
)
def test_constant_totals_are_no_problem(y_bar, evidence_prior):
    sets = random_sets([1, 1, 2, 2, 3, 3], np.random.default_rng(0))
    model = sw.AggregateRegressor(evidence_prior=evidence_prior).fit(sets, y_bar)
    mean, std = model.predict(sets.x, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert np.isfinite(model.log_evidence_)


def test_collinear_and_constant_inputs_are_no_problem():
    rng = np.random.default_rng(0)
    z = rng.normal(size=60)
    x = np.column_stack([z, 2 * z, np.full(60, 3.0), 1e6 + 0 * z])
    sets = sw.Sets.from_members(x, np.arange(60).reshape(20, 3))
    y_bar = totals(sets, np.tile(0.0, 60) + x[np.arange(60), 0])
    for basis in ("linear", "polynomial", "fourier"):
        model = sw.AggregateRegressor(basis).fit(sets, y_bar)
        assert model.score(x, x[:, 0]) > 0.95


def test_weights_that_cancel_leave_the_offset_alone():
    """Differences say nothing about the level; the model must not invent one."""
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=(2, 1)) for _ in range(30)]
    sets = sw.Sets.from_arrays(blocks, weights=[[1.0, -1.0]] * 30)
    y_bar = [3 * (b[0, 0] - b[1, 0]) for b in blocks]
    model = sw.AggregateRegressor("linear").fit(sets, y_bar)
    centre = sets.x.mean()
    assert abs(model.predict([[centre]])[0]) < 1e-6
    assert_allclose(model.predict([[1.0]])[0] - model.predict([[0.0]])[0], 3, rtol=1e-2)


def test_means_and_sums_say_the_same():
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=(rng.integers(1, 6), 2)) for _ in range(40)]
    sizes = np.array([len(b) for b in blocks])
    y_bar = np.array([b.sum() + 5 * len(b) for b in blocks]) + rng.normal(size=40)
    sums = sw.AggregateRegressor().fit(sw.Sets.from_arrays(blocks), y_bar)
    means = sw.AggregateRegressor().fit(sw.Sets.from_arrays(blocks, "mean"), y_bar / sizes)
    x = np.concatenate(blocks)
    assert_allclose(sums.predict(x), means.predict(x), rtol=1e-6)
    assert_allclose(sums.noise_precision_, means.noise_precision_, rtol=1e-5)


def test_several_outputs_of_one_kind_are_several_models_with_shared_precisions(problem):
    sets, _, y_bar = problem
    both = np.column_stack([y_bar, y_bar * 1e-3 + 4 * sets.sizes])
    model = sw.AggregateRegressor().fit(sets, both)
    mean, std = model.predict(sets.x, return_std=True)
    assert mean.shape == std.shape == (len(sets.x), 2)
    assert_allclose(mean[:, 1], mean[:, 0] * 1e-3 + 4, rtol=1e-6)
    assert_allclose(std[:, 1], std[:, 0] * 1e-3, rtol=1e-6)
    alone = sw.AggregateRegressor().fit(sets, y_bar)
    assert_allclose(mean[:, 0], alone.predict(sets.x), rtol=1e-2)
    assert model.noise_precision_.shape == (2,)
    assert_allclose(model.noise_precision_[1], 1e6 * model.noise_precision_[0])
    assert model.predict_sets(sets).shape == (200, 2)
    assert model.sample_y(sets.x[:3], 5).shape == (3, 2, 5)
    assert model.predict(sets.x[:3], return_cov=True)[1].shape == (3, 3, 2)


def test_a_column_of_totals_keeps_its_shape(problem):
    sets, _, y_bar = problem
    model = sw.AggregateRegressor("linear").fit(sets, y_bar[:, None])
    assert model.predict(sets.x).shape == (len(sets.x), 1)


def test_draws_have_the_predictive_mean_and_covariance(problem):
    sets, _, y_bar = problem
    model = sw.AggregateRegressor("linear").fit(sets[:9], y_bar[:9])
    x = sets.x[:3]
    draws = model.sample_y(x, 40_000)
    mean, covariance = model.predict(x, return_cov=True)
    variance = np.diag(covariance)
    assert (abs(draws.mean(axis=1) - mean) < 5 * np.sqrt(variance / 40_000)).all()
    error = np.sqrt(2 * np.outer(variance, variance) / 40_000)
    assert (abs(np.cov(draws) - covariance) < 5 * error).all()
    quiet = model.sample_y(x, 40_000, include_noise=False)
    assert (quiet.var(axis=1) < draws.var(axis=1)).all()


def test_a_users_own_function_is_a_basis(problem):
    sets, y, y_bar = problem

    def waves(x):
        return np.column_stack([np.sin(x[:, 0] / 2), x[:, 1], np.ones(len(x))])

    model = sw.AggregateRegressor(waves, standardize=False).fit(sets, y_bar)
    assert model.score(sets.x, y) > 0.99


def test_frames_are_read_by_column_name(problem):
    sets, _, y_bar = problem
    group = np.repeat(np.arange(200), sets.sizes)
    frame = pd.DataFrame({"a": sets.x[:, 0], "b": sets.x[:, 1], "group": group})
    model = sw.AggregateRegressor().fit(sw.Sets.from_frame(frame, by="group", x=["a", "b"]), y_bar)
    assert list(model.feature_names_in_) == ["a", "b"]
    expected = model.predict(sets.x[:5])
    assert_allclose(model.predict(frame[["b", "group", "a"]].head()), expected)
    assert_allclose(model.predict(pl.from_pandas(frame).head(5)), expected)
    with pytest.raises(sw.InvalidSetError, match="no column 'a'"):
        model.predict(frame[["b"]])
    plain = sw.AggregateRegressor().fit(sets, y_bar)
    assert_allclose(plain.predict(frame[["a", "b"]].head()), expected)


def test_totals_named_by_id_are_read_by_id():
    sets = sw.Sets.from_arrays([[[1.0]], [[2.0]], [[5.0]]], ids=["b", "a", "c"])
    plain = sw.AggregateRegressor("linear").fit(sets, [1.0, 2.0, 4.0]).predict([[3.0]])
    series = pd.Series([2.0, 1.0, 4.0], index=["a", "b", "c"])
    for named in (series, series.to_dict()):
        assert_allclose(sw.AggregateRegressor("linear").fit(sets, named).predict([[3.0]]), plain)
    two = sw.AggregateRegressor("linear").fit(sets, pd.DataFrame({"y": series, "z": 2 * series}))
    assert_allclose(two.predict([[3.0]])[0, 0], plain[0], rtol=1e-2)
    in_order = pd.Series([1.0, 2.0, 4.0])  # rows that nobody named are in order
    assert_allclose(sw.AggregateRegressor("linear").fit(sets, in_order).predict([[3.0]]), plain)
    for wrong in (series.rename({"c": "d"}), series.iloc[[0, 1, 1]]):
        with pytest.raises(sw.LabelError, match=r"name 'd', and no set|name set 'b' twice"):
            sw.AggregateRegressor("linear").fit(sets, wrong)


@pytest.mark.parametrize("total", [50.1, 12.3, 0.1, -7.7, 1e-7])
def test_one_measured_mean_does_not_make_the_model_certain(total):
    """The offset explains a single total up to rounding, which must not pass for its scale."""
    sets = sw.Sets.from_arrays([[[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0], [3.0]]], "mean")
    model = sw.AggregateRegressor().fit(sets[:1], [total], pool=sets)
    mean, std = model.predict([[0.5]], return_std=True)
    assert_allclose(mean, total)
    assert std[0] > 0.1 * abs(total)
    twice = sw.AggregateRegressor().fit(sets, [total, total])
    assert twice.predict([[0.5]], return_std=True)[1][0] > 0.1 * abs(total)


def test_predicting_sets_as_if_they_were_individuals_is_refused(problem):
    sets, _, y_bar = problem
    model = sw.AggregateRegressor("linear").fit(sets, y_bar)
    with pytest.raises(sw.InvalidSetError, match=r"use predict\(sets.x\), or predict_sets"):
        model.predict(sets)
