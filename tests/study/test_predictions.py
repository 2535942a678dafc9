"""`Study`: its models, what they predict, and how much is left to learn."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from tests.builders import random_sets
from tests.oracles import joint, total_covariance, total_noise
from tests.studies import NETWORK, play


def test_known_noise_is_that_of_the_model(problem, study):
    sets, answers = problem
    blur = [0.5, 0.0, 3.0, None]
    for set_id, noise in zip(sets.ids, blur, strict=False):
        study.tell(set_id, answers[set_id], noise_std=noise)
    fitted = study.model.fitted()
    lam, beta = fitted.posterior.hyper.prior_precision, fitted.posterior.hyper.noise_precision
    scale, offset = fitted.posterior.output_scale[0], fitted.offset[0]
    seen, phi = sets[:4], fitted.basis(sets.x)
    rows = phi[: len(seen.x)]
    model = joint(seen, rows, lam, beta)
    inner = np.array([n or 0.0 for n in blur]) / scale
    cov = total_covariance(model) + np.diag(inner**2)
    level = np.add.reduceat(seen.theta, seen.starts[:-1]) * offset
    y_bar = (np.array([answers[i] for i in seen.ids]) - level) / scale
    cross = phi @ rows.T / lam @ model.sums.T
    expected = offset + scale * (cross @ np.linalg.solve(cov, y_bar))
    assert_allclose(study.model.predict(sets.x), expected, rtol=1e-7, atol=1e-9)
    assert study.ask().information > 0


def test_networks_take_known_noise_and_none_is_none(problem, tmp_path):
    model = sw.AggregateRegressor(NETWORK)
    with sw.create_study(tmp_path / "a.db", problem[0], model=model) as study:
        study.tell("set 1", 1.0, noise_std=0.5)
        study.tell("set 2", 1.0, noise_std=0)
        assert [answer.noise_std for answer in study.answers] == [0.5, None]
        noisy = study.predict().mean
        study.amend("set 1", 1.0, noise_std=0)
        assert abs(study.predict().mean - noisy).max() > 1e-6


def test_every_individual_of_the_pool_is_predicted(problem, study):
    sets, answers = problem
    play(study, answers, 5)
    predicted = study.predict(level=0.5)
    names = np.repeat(sets.ids, sets.sizes).tolist()
    mean, std = study.model.predict(sets.x, return_std=True, groups=names)
    assert_allclose(predicted.mean, mean)
    assert_allclose(predicted.std, std)
    assert_allclose(predicted.upper - predicted.mean, 0.6744897501960817 * std)
    assert_allclose(predicted.mean - predicted.lower, 0.6744897501960817 * std)
    assert predicted.ids == tuple(np.repeat(sets.ids, sets.sizes).tolist())
    table = predicted.to_arrow()
    inputs = [f"x{d}" for d in range(sets.n_inputs)]
    assert table.column_names == ["set", "row", *inputs, "mean", "std", "lower", "upper"]
    assert table["row"].to_pylist() == [n + 1 for size in sets.sizes for n in range(size)]
    assert_allclose(np.column_stack([table[name] for name in inputs]), sets.x)
    assert table.num_rows == len(predicted) == len(sets.x)
    assert repr(predicted) == f"Predictions: {len(sets.x)} rows with intervals of 50 %"


def test_totals_of_all_sets_are_predicted(problem, study):
    sets, answers = problem
    play(study, answers, 5)
    predicted = study.predict_sets()
    mean, std = study.model.predict_sets(sets, return_std=True)
    assert predicted.ids == sets.ids
    assert_allclose(predicted.mean, mean)
    assert_allclose(predicted.upper, mean + 1.6448536269514722 * std)
    table = predicted.to_arrow()
    told = {answer.set_id: answer.y_bar for answer in study.answers}
    assert len(told) == 5
    assert table["measured"].to_pylist() == [told.get(name) for name in sets.ids]


def test_a_new_table_is_predicted_by_column_name(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"g": list("aabbcc"), "u": rng.normal(size=6), "v": rng.normal(size=6)})
    sets = sw.Sets.from_frame(frame, by="g", x=["u", "v"])
    with sw.create_study(tmp_path / "a.db", sets) as study:
        study.tell("a", 3.0)
        new = study.predict(frame[["v", "u"]])
        assert new.ids is None
        assert_allclose(new.mean, study.predict().mean)
        assert new.to_arrow().column_names == ["v", "u", "mean", "std", "lower", "upper"]
        with pytest.raises(sw.InvalidSetError, match="'u'"):
            study.predict(frame[["v"]])


def test_ids_of_several_kinds_become_text(tmp_path):
    sets = random_sets([1, 2], np.random.default_rng(0), ids=["a", ("b", 2.5)])
    with sw.create_study(tmp_path / "a.db", sets) as study:
        table = study.predict_sets().to_arrow()
        assert table["set"].to_pylist() == ["a", "b / 2.5"]


@pytest.mark.parametrize("level", [0, 1, -0.5, 90, "0.9", True, math.nan])
def test_a_level_is_between_0_and_1(study, level):
    with pytest.raises(sw.SettingError, match="level is"):
        study.predict(level=level)


def test_status_counts_and_knows_what_is_left(problem, study):
    sets, answers = problem
    play(study, answers, 4)
    study.ask(2)
    status = study.status()
    counts = (status.sets, status.answers, status.open_claims, status.questions)
    assert counts == (40, 4, 2, 6)
    model = study.model.fitted()
    hyper, unit = model.posterior.hyper, model.posterior.output_scale[0] ** 2
    phi = model.basis(sets.x)
    dense = joint(sets, phi, hyper.prior_precision, hyper.noise_precision)
    told = [answer.position for answer in study.answers]
    rest = [a for a in range(40) if a not in told]
    cov, noise = total_covariance(dense), total_noise(dense)
    prior = np.linalg.slogdet(cov)[1] - np.linalg.slogdet(cov[np.ix_(told, told)])[1]
    expected = 0.5 * (prior - np.log(noise[rest]).sum())
    assert_allclose(status.information_left, expected, rtol=1e-6)
    assert_allclose(status.noise_variance, unit / hyper.noise_precision)

    def mean_variance(seen):
        cross = dense.latent @ dense.sums[seen].T
        explained = cross @ np.linalg.solve(cov[np.ix_(seen, seen)], cross.T)
        return unit * np.diag(dense.latent - explained).mean()

    assert_allclose(status.mean_variance, mean_variance(told), rtol=1e-6)
    coming = [sets.position(question.set_id) for question in study.ask(5)]
    waiting = [claim.position for claim in study.claims]
    assert set(coming) <= set(waiting)
    assert_allclose(status.mean_variance_after, mean_variance(told + waiting), rtol=1e-6)
    assert status.mean_variance_after < status.mean_variance
    assert status.next_questions == 5
