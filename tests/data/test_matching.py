"""Totals, noise and costs are matched to sets by id, or refused; a wrong order is never taken."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.data.matching import match

ROWS = {
    "state": ["MI", "MI", "OH", "OH", "MI", "IN"],
    "year": [2, 2, 1, 1, 1, 1],
    "x": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
    "y": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
}
FRAME = pd.DataFrame(ROWS)
SETS = sw.Sets.from_frame(FRAME, by="state", x="x")  # MI, OH, IN
BOTH = sw.Sets.from_frame(FRAME, by=["state", "year"], x="x")
TOTALS = {"MI": 8.0, "OH": 7.0, "IN": 6.0}


def _matched(values, sets=SETS):
    at, numbers = match(values, sets, "totals", sw.LabelError)
    return {sets.ids[a]: number for a, number in zip(at, numbers.tolist(), strict=True)}


@given(st.permutations(range(3)))
def test_all_ways_to_name_ids_give_the_same_totals_in_any_order(order):
    ids, values = [list(TOTALS)[i] for i in order], [list(TOTALS.values())[i] for i in order]
    columns = {"total": values, "state": ids}
    for named in (
        dict(zip(ids, values, strict=True)),
        pd.Series(values, ids),
        pd.DataFrame(columns),
        pd.DataFrame(columns).set_index("state"),
        pl.DataFrame(columns),
        pl.LazyFrame(columns),
        pa.table(columns),
        pl.DataFrame({"set": ids, "anything": values}),
        pd.DataFrame({"id": ids, "y": values}, index=[7, 8, 9]),
    ):
        assert _matched(named) == TOTALS


def test_group_by_gives_totals_that_fit_as_they_are():
    expected = sw.AggregateRegressor("linear").fit(SETS, [8.0, 7.0, 6.0]).predict([[3.0]])
    for totals in (
        FRAME.groupby("state")["y"].sum(),
        FRAME.groupby("state", as_index=False)["y"].sum(),
        pl.DataFrame(ROWS).group_by("state").agg(pl.col("y").sum()),
        pa.table(ROWS).group_by("state").aggregate([("y", "sum")]),
    ):
        fitted = sw.AggregateRegressor("linear").fit(SETS, totals)
        assert_allclose(fitted.predict([[3.0]]), expected)
        assert fitted.predict([[3.0]]).shape == (1,)  # one output, not two


@given(st.permutations([0, 1, 2, 3]), st.sampled_from([0, 7]), st.booleans())
def test_numbers_of_groups_are_ids_wherever_the_index_names_them(order, first, named):
    """What groupby gives is sorted by group, and sets are in the order of the table."""
    ids = [first + group for group in order]
    frame = pd.DataFrame({"g": np.repeat(ids, 2), "x": np.arange(8.0), "y": np.arange(8.0) ** 2})
    sets = sw.Sets.from_frame(frame, by="g", x="x")
    expected = dict(zip(ids, [1.0, 13.0, 41.0, 85.0], strict=True))
    series = frame.groupby("g")["y"].sum()
    for totals in (
        series if named else series.rename_axis(None),
        pd.Series(series.to_list(), pd.RangeIndex(first, first + 4, name="g")),
        series.to_frame() if named else series.to_frame().rename_axis(None),
        series.reset_index(),
        frame.groupby("g", as_index=False)[["y"]].sum(),
        pl.DataFrame(frame).group_by("g").agg(pl.col("y").sum()),
        pa.table(frame.to_dict("list")).group_by("g").aggregate([("y", "sum")]),
    ):
        assert _matched(totals, sets) == expected
        assert _cost(totals, sets) == list(expected.values())
    bare = series.reset_index(drop=True)
    if ids == [0, 1, 2, 3]:
        assert _matched(bare, sets) == expected
        assert _matched(bare[:2], sets) == {0: 1.0, 1: 13.0}
    else:
        with pytest.raises(sw.LabelError, match=r"numbered 0, 1, 2, …, and ids are other numbers"):
            _matched(bare, sets)


def _cost(totals, sets):
    return sw.ActiveLearner(sets, sw.AggregateRegressor("linear"), cost=totals).aims.cost.tolist()


def test_totals_in_another_order_are_never_learned_from():
    """By position they would give R² 0.24 in place of 0.98."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"g": rng.permutation(np.arange(40).repeat(4)), "x": rng.normal(size=160)})
    frame["y"] = 3 + 2 * frame["x"] + 0.3 * rng.normal(size=160)
    sets, totals = sw.Sets.from_frame(frame, by="g", x="x"), frame.groupby("g")["y"].sum()
    for given_ in (totals, totals.rename_axis(None), totals.to_dict(), totals.reset_index()):
        model = sw.AggregateRegressor("linear").fit(sets, given_)
        assert model.score(frame[["x"]], frame["y"]) > 0.95


def test_ids_of_several_columns_are_matched_whatever_their_order():
    expected = {("MI", 2): 3.0, ("OH", 1): 7.0, ("MI", 1): 5.0, ("IN", 1): 6.0}
    for by in (["state", "year"], ["year", "state"]):
        assert _matched(FRAME.groupby(by)["y"].sum(), BOTH) == expected
        assert _matched(FRAME.groupby(by)[["y"]].sum(), BOTH) == expected
        assert _matched(pl.DataFrame(ROWS).group_by(by).agg(pl.col("y").sum()), BOTH) == expected


def test_several_outputs_come_in_columns_beside_the_id():
    two = pl.DataFrame({"state": ["IN", "MI", "OH"], "maths": [6.0, 8, 7], "art": [1.0, 2, 3]})
    assert _matched(two) == {"IN": [6, 1], "MI": [8, 2], "OH": [7, 3]}
    assert sw.AggregateRegressor("linear").fit(SETS, two).predict([[3.0]]).shape == (1, 2)


def test_totals_of_some_sets_fit_on_those_with_the_inputs_of_all():
    some = sw.AggregateRegressor().fit(SETS, {"IN": 6.0, "MI": 8.0}, noise_std={"IN": 1, "MI": 2})
    same = sw.AggregateRegressor().fit(
        SETS[["IN", "MI"]], [6.0, 8.0], pool=SETS, noise_std=[1.0, 2.0]
    )
    assert_allclose(some.predict([[3.0]]), same.predict([[3.0]]))
    array = sw.AggregateRegressor().fit(SETS, {"IN": 6.0, "MI": 8.0}, noise_std=[2.0, 9.0, 1.0])
    assert_allclose(array.predict([[3.0]]), same.predict([[3.0]]))
    with pytest.raises(sw.SettingError, match="noise_std has no number for set 'MI'"):
        sw.AggregateRegressor().fit(SETS, {"IN": 6.0, "MI": 8.0}, noise_std={"IN": 1.0})


NUMBERED = sw.Sets.from_arrays([[[1.0]], [[2.0]], [[3.0]]], ids=[3, 1, 2])
COUNTED = sw.Sets.from_arrays([[[1.0]], [[2.0]], [[3.0]]])  # 0, 1, 2
TEXTS = sw.Sets.from_arrays([[[1.0]], [[2.0]], [[3.0]]], ids=["2", "0", "1"])


@pytest.mark.parametrize(
    ("sets", "values", "message"),
    [
        (SETS, pl.Series([8.0, 7.0, 6.0]), "polars Series, which has no ids.*with its id column"),
        (SETS, pa.array([8.0, 7.0, 6.0]), "pyarrow .*Array, which has no ids"),
        (SETS, pl.DataFrame({"s": ["MI"], "y": [1.0]}), "none of them names.*column 'state'"),
        (BOTH, pl.DataFrame({"s": ["MI"], "y": [1.0]}), "the id column 'state' and 'year'"),
        (NUMBERED, pl.DataFrame({"s": [1], "y": [1.0]}), "Name the id column 'set'"),
        (SETS, pd.DataFrame({"y": [8.0, 7.0, 6.0]}), "none of them names the sets"),
        (SETS, {"MI": 8.0, "mi": 1.0}, "name 'mi', and no set has that id; ids are 'MI', 'OH'"),
        (NUMBERED, {"1": 8.0}, "name '1', and no set has that id; ids are numbers here: write 1"),
        (BOTH, {("MI", "2"): 8.0}, r"of another type here: write \('MI', 2\)"),
        (NUMBERED, pd.Series([1.0, 2.0, 3.0]), "ids are other numbers .3, 1, 2, …."),
        (SETS, pd.Series([1.0, 2.0], ["MI", "MI"]), "name set 'MI' twice"),
        (SETS, pl.DataFrame({"set": ["MI", "MI"], "y": [1.0, 1.0]}), "name set 'MI' twice"),
        (SETS, pd.Series([1.0, None], ["MI", "OH"]), "set 'OH': 'value' is missing"),
        (SETS, pl.DataFrame({"set": ["OH"], "y": [None]}), "'OH': 'y' is missing|no numbers"),
        (SETS, pl.DataFrame({"set": [None, "OH"], "y": [1, 2]}), "row 0: 'set' is missing"),
        (SETS, pd.Series(["8"], ["MI"]), "set 'MI': 'value' is '8', not a number"),
        (SETS, pd.Series([np.inf], ["MI"]), "set 'MI': 'value' is inf"),
        (SETS, pl.DataFrame({"set": ["MI"], "y": [1], "who": ["a"]}), "'who' holds no numbers"),
        (SETS, pl.DataFrame({"set": ["MI"], "total": [1], "n": [2]}), "one of 'total', 'n'"),
        (SETS, pl.DataFrame({"set": ["MI"], "id": [1], "y": [2]}), "columns 'set' and 'id'"),
        (SETS, pl.DataFrame({"set": ["MI"]}), "there is no other column"),
        (SETS, pd.Series([8.0, 7.0]), "2 numbers without ids; give one for each of 3 sets"),
        (SETS, pd.Series([8.0, 7.0, 6.0], pd.RangeIndex(3, name="row")), "name 0, and no set has"),
        (SETS, pd.Series([8.0, 7.0, 6.0], [0, 1, 2]), "name 0, and no set has that id"),
        (TEXTS, pd.Series([8.0, 7.0, 6.0]), "ids are other numbers .'2', '0', '1'"),
        (TEXTS, pd.Series([8.0, 7.0, 6.0], [2, 0, 1]), "ids are text here: write '2'"),
        (NUMBERED, pd.Series([1.0], ["1"]), "ids are numbers here: write 1"),
        (COUNTED, pd.DataFrame({"g": [2, 0, 1], "y": [1.0, 2, 3]}), "none of them names the sets"),
        (COUNTED, pd.DataFrame({"g": [2, 0], "y": [1.0, 2]}, [0, 2]), "none of them names"),
        (COUNTED, pd.Series([1.0, 2, 3, 4]), "name 3, and no set has that id"),
        (SETS, {"MI": float("nan")}, "total of set 'MI' is nan"),
        (SETS, [8.0, float("nan"), 6.0], "total of set 'OH' is nan"),
        (SETS, [8.0, 7.0], "give one for each of 3 sets"),
        (SETS, [[8.0, 7.0, 6.0]], "give one for each of 3 sets"),
        (SETS, 8.0, "give one for each of 3 sets"),
    ],
)
def test_what_cannot_be_matched_is_refused_with_what_to_do(sets, values, message):
    with pytest.raises(sw.LabelError, match=message):
        sw.AggregateRegressor("linear").fit(sets, values)


def test_costs_and_noise_are_matched_in_the_same_way():
    for cost in (
        {"OH": 2.0, "IN": 3.0, "MI": 1.0},
        pl.DataFrame({"state": ["OH", "IN", "MI"], "price": [2.0, 3.0, 1.0]}),
    ):
        learner = sw.ActiveLearner(SETS, cost=cost, noise_std=cost)
        assert learner._progress.objective.cost.tolist() == [1, 2, 3]
        assert learner._progress.objective.noise_std.tolist() == [1, 2, 3]
    for cost, message in (
        (pl.Series([1.0, 2.0, 3.0]), "polars Series, which has no ids"),
        ({"OH": 2.0, "IN": 3.0}, "cost has no number for set 'MI'"),
        ({"OH": 2.0, "IN": 3.0, "MI": 1.0, "XX": 2.0}, "cost name 'XX'"),
    ):
        with pytest.raises(sw.SettingError, match=message):
            sw.ActiveLearner(SETS, cost=cost)


def test_groups_of_another_type_are_refused_when_predicting():
    model = sw.AggregateRegressor("linear").fit(NUMBERED, {1: 5.0, 2: 6.0})
    assert model.predict([[2.0]], groups=[1]).shape == (1,)
    assert model.predict([[2.0]], groups=["elsewhere"]).shape == (1,)
    with pytest.raises(sw.SettingError, match=r"names '1'.*of another type here: write 1"):
        model.predict([[2.0]], groups=["1"])
