"""Input that tries to break it: refused in words, or answered right."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose

import sumwise as sw

R = sw.AggregateRegressor


SETS = sw.Sets.from_arrays([[[0.0, 1.0]], [[2.0, 3.0]], [[4.0, 7.0], [1.0, 1.0]]], ids="abc")


# --- names and types ----------------------------------------------------------------------------


def test_sets_with_other_columns_are_refused():
    frame = pd.DataFrame({"g": [1, 2], "a": [0.0, 1.0], "b": [5.0, 3.0]})
    one = sw.Sets.from_frame(frame, by="g", x=["a", "b"])
    other = sw.Sets.from_frame(frame, by="g", x=["b", "a"])
    model = R("linear").fit(one, [1.0, 2.0])
    for call in (lambda: model.predict_sets(other), lambda: sw.score(other, model)):
        with pytest.raises(sw.InvalidSetError, match=r"inputs \('b', 'a'\)"):
            call()
    with pytest.raises(sw.InvalidSetError, match=r"the model knows \('b', 'a'\)"):
        R().fit(one, [1.0, 2.0], pool=other)


@pytest.mark.parametrize(
    "column",
    [
        pd.array([1, None, 2], dtype="Int64"),
        pd.array(["a", None, "b"], dtype="string"),
        pd.Series(["a", pd.NA, "b"], dtype=object),
        pd.to_datetime(["2020-01-01", None, "2020-01-02"]),
    ],
)
def test_missing_groups_are_refused_in_every_dialect(column):
    frame = pd.DataFrame({"g": column, "x": [1.0, 2.0, 3.0]})
    with pytest.raises(sw.InvalidSetError, match="row 1: 'g' is missing"):
        sw.Sets.from_frame(frame, by="g", x="x")
    with pytest.raises(sw.InvalidSetError, match="give every set a name"):
        sw.Sets.from_arrays([[[1.0]]], ids=[pd.NA])


def test_odd_column_names_work_or_are_refused():
    numbered = pd.DataFrame([[1, 2.0, 3.0], [2, 4.0, 5.0]])
    sets = sw.Sets.from_frame(numbered, by=0, x=[1, 2])
    assert "2 inputs (1, 2)" in repr(sets)
    assert R("linear").fit(sets, [1.0, 2.0]).predict(numbered).shape == (2,)
    twice = pd.DataFrame([[1, 2.0, 3.0]], columns=["g", "x", "x"])
    with pytest.raises(sw.InvalidSetError, match="column names must be unique"):
        sw.Sets.from_frame(twice, by="g", x="x")
    with pytest.raises(sw.SettingError, match="at least one"):
        sw.Sets.from_frame(numbered, by=None, x=[1])


def test_whole_numbers_beyond_doubles_are_rounded():
    big = 2**53 + 1
    for make in (pa.table, pl.DataFrame, pd.DataFrame):
        sets = sw.Sets.from_frame(make({"g": [1, 2], "x": [big, 5]}), by="g", x="x")
        assert sets.x[0, 0] == float(big)


def test_masked_and_huge_numbers_are_refused():
    hidden = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
    with pytest.raises(sw.LabelError, match="masked"):
        R().fit(SETS, hidden)
    with pytest.raises(sw.InvalidSetError, match="masked"):
        sw.Sets.from_arrays([hidden[:, None]])
    with pytest.raises(sw.LabelError, match="array of numbers"):
        R().fit(SETS, [10**400, 1, 2])
    with pytest.raises(sw.LabelError, match="give one finite number"):
        sw.ActiveLearner(SETS).tell("a", 10**400)
    with pytest.raises(sw.InvalidSetError, match="text"):
        sw.Sets.from_arrays([np.array([[b"1"]], dtype=object)])


@pytest.mark.parametrize(
    ("hyperparameters", "message"),
    [
        ({1, 2}, "two numbers"),
        ({1: 2, 3: 4}, "two numbers"),
        (("1", "2"), "is '1'; give a number"),
        ((1.0, 2.0, 3.0), "two numbers"),
        ((1.0, 1e308), "β is 1e[+]308"),
        ((1e-320, 1.0), "λ is"),
    ],
)
def test_odd_hyperparameters_are_refused(hyperparameters, message):
    with pytest.raises(sw.SettingError, match=message):
        R(hyperparameters=hyperparameters).fit(SETS, [1, 2, 3])


def test_hyperparameters_may_be_an_array():
    model = R(hyperparameters=np.array([1.0, 2.0]))
    assert "array([1., 2.])" in repr(model)
    assert model.fit(SETS, [1, 2, 3]).noise_precision_ == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: R().fit(None, []), "sets is a NoneType"),
        (lambda: sw.score(SETS, None), "model is a NoneType"),
        (lambda: sw.Sets.from_arrays(None), "arrays is None; give a list"),
        (lambda: sw.Sets.from_arrays([[[1.0]]], ids=5), "ids is 5; give a list"),
        (lambda: sw.Sets.from_arrays([[[1.0]]], weights=3), "weights is 3; give a list"),
        (lambda: sw.Sets.from_members([[1.0]], None), "members is None"),
        (lambda: sw.Sets.from_members([[1.0]], [[0, [1]]]), "members of set 0 are"),
        (lambda: SETS.take([99]), "no position 99; 3 sets"),
        (lambda: SETS.take([1.5]), "no position 1.5"),
        (lambda: SETS.take([True, False]), "no position True"),
        (lambda: SETS.take(None), "positions is None"),
        (lambda: SETS["a":"c"], "is not a slice of positions"),
        (lambda: SETS[::0], "is not a slice of positions"),
        (lambda: sw.Sets.from_integrals([[[0, 1]] * 4], bins=1000), "give fewer bins"),
        (lambda: sw.Sets.from_integrals([[[0, 1]]], bins=[1, 2]), "one for each of 1 inputs"),
        (lambda: sw.Sets.from_integrals([[[0, 1]]], weight="sum"), "give a function"),
        (lambda: sw.Sets.from_integrals([[[-1.7e308, 1.7e308]]]), "both finite"),
        (lambda: R(n_basis=10**12).fit(SETS, [1, 2, 3]), "n_basis is 1000000000000"),
        (lambda: R(lengthscale=10**400).fit(SETS, [1, 2, 3]), "lengthscale is"),
        (lambda: R(lengthscale=1 + 0j).fit(SETS, [1, 2, 3]), "lengthscale is"),
        (lambda: fitted().sample_y(SETS.x, n_samples=-1), "n_samples is -1"),
        (lambda: fitted().sample_y(SETS.x, random_state=1.5), "random_state is 1.5"),
        (lambda: fitted().score(SETS.x, [1.0]), r"y has shape \(1,\)"),
        (lambda: fitted().score(SETS.x, [1.0, 2.0, 3.0, float("nan")]), "a finite number"),
    ],
)
def test_wrong_arguments_are_refused_in_words(call, message):
    with pytest.raises(sw.SumwiseError, match=message):
        call()


def fitted():
    return R("linear").fit(SETS, [1.0, 2.0, 3.0])


def test_membership_and_zero_dimensional_keys_do_not_raise():
    assert [1] not in SETS
    assert SETS[np.array("a")].ids == ("a",)
    assert sw.select(SETS, fitted(), pending=None)


@pytest.mark.parametrize(
    "strategy",
    [
        lambda pool, posterior, rng: ["1", "2", "3"],
        lambda pool, posterior, rng: [1j, 2, 3],
        lambda pool, posterior, rng: [[1], [2, 3]],
        lambda pool, posterior, rng: 10**400,
        lambda pool, posterior, rng: None,
    ],
)
def test_a_strategy_must_return_numbers(strategy):
    with pytest.raises(sw.SumwiseError):
        sw.ActiveLearner(SETS, strategy=strategy).ask()


def test_score_refuses_what_is_not_finite():
    with pytest.raises(sw.NonFiniteScoreError, match="scored set 'b' with nan"):
        sw.score(SETS, fitted(), lambda pool, posterior, rng: [1.0, float("nan"), 2.0])


def test_a_basis_must_keep_its_shape():
    calls = []

    def growing(x):
        calls.append(1)
        return np.ones((len(x), len(calls)))

    with pytest.raises(sw.SettingError, match="the basis gave"):
        R(growing).fit(SETS, [1, 2, 3]).predict(SETS.x)
    with pytest.raises(sw.SettingError, match="the basis fails"):
        R(lambda x: [[1.0], [1.0, 2.0]] * len(x)).fit(SETS, [1, 2, 3])


# --- whose memory is it ---------------------------------------------------------------------------


def test_nobody_can_write_into_the_model():
    def vandal(pool, posterior, rng):
        pool.design.u[:] = 0
        return pool.sets.sizes

    with pytest.raises(ValueError, match="read-only"):
        sw.ActiveLearner(SETS, strategy=vandal).ask()
    learner = sw.ActiveLearner(SETS)
    with pytest.raises(ValueError, match="read-only"):
        learner.model.fitted_.posterior.mean[:] = 7


def test_a_weight_function_cannot_move_the_points():
    def mover(x):
        x *= 100
        return x[:, 0]

    sets = sw.Sets.from_integrals([[[0.0, 1.0]]], weight=mover, bins=3)
    assert_allclose(sets.x[:, 0], [1 / 6, 1 / 2, 5 / 6])


def test_the_callers_estimator_stays_theirs():
    model = R(lengthscale=2.0)
    learner = sw.ActiveLearner(SETS, model=model)
    model.set_params(lengthscale=9.0)
    assert learner.model.lengthscale == 2.0
    assert not hasattr(model, "fitted_")


def test_history_holds_the_users_ids():
    sets = sw.Sets.from_arrays([[[1.0]], [[2.0]]], ids=[3, 4])
    learner = sw.ActiveLearner(sets)
    learner.tell(np.int64(3), 1.0)
    learner.tell(4.0, 2.0)
    assert [type(answer.set_id) for answer in learner.history] == [int, int]


def test_models_and_sets_survive_copying():
    model = fitted()
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301 - our own
        assert_allclose(twin.predict(SETS.x), model.predict(SETS.x))
    assert pickle.loads(pickle.dumps(SETS)).ids == SETS.ids  # noqa: S301


def test_a_bare_text_is_no_list_of_members():
    sets = sw.Sets.from_frame(
        pd.DataFrame({"set": ["s", "s", "s"], "id": list("abc"), "x": [0.0, 1, 2]}),
        by="set",
        x="x",
        id="id",
    )
    learner = sw.ActiveLearner(sets)
    with pytest.raises(sw.LabelError, match=r"of is 'ab'; give a list of members"):
        learner.tell("s", 1.0, of="ab")
    learner.tell("s", 1.0, of=["a", "b"])


def test_no_rows_of_text_have_no_predictions():
    frame = pd.DataFrame({"x": [1.0, 2, 3, 4], "kind": list("uvuv")})
    model = sw.AggregateRegressor("linear").fit(frame, [1.0, 2, 3, 4])
    assert [part.shape for part in model.predict(frame[:0], return_std=True)] == [(0,), (0,)]
    assert len(model.intervals(frame[:0])) == 0


@pytest.mark.parametrize("value", [np.datetime64("2020-01-01"), np.timedelta64(3, "D")])
def test_a_date_is_no_total(value):
    sets = sw.Sets.from_arrays([[[0.0]], [[1.0]]])
    with pytest.raises(sw.LabelError, match="must be an array of numbers"):
        sw.AggregateRegressor("linear").fit(sets, {0: value, 1: 2})
