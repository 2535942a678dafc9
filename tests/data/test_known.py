"""What is known already becomes sets of the same individuals, which are never asked for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.data.known import with_known

RNG = np.random.default_rng(0)
N = 40
FRAME = pd.DataFrame(
    {
        "pupil": [f"p{i:02}" for i in range(N)],
        "school": [f"s{i}" for i in RNG.integers(0, 8, N)],
        "kind": RNG.choice(["day", "night"], N),
        "x": RNG.normal(size=N),
        "z": RNG.normal(size=N).round(3),
    }
)
FRAME["county"] = FRAME["school"].str[1:].astype(int) // 3  # some have one school fewer
FRAME["y"] = 3 * FRAME["x"] + 10 + RNG.normal(size=N)
INPUTS = ["x", "z"]


def _sets(**options):
    return sw.Sets.from_frame(
        FRAME, by="school", x=INPUTS, id="pupil", areas=["county", "kind"], **options
    )


SETS = _sets()
TOTALS = FRAME.groupby("school")["y"].sum()
OWN = np.array([FRAME.index[FRAME.pupil == p][0] for p in SETS.row_ids])  # rows of FRAME in order


def _linear():
    return sw.AggregateRegressor("linear", hyperparameters=(0.1, 2.0), standardize=False)


@given(
    st.sets(st.integers(0, N - 1), max_size=6),
    st.sets(st.sampled_from(sorted(FRAME.county.unique())), max_size=3),
    st.sets(st.sampled_from(SETS.ids), max_size=4),
    st.sampled_from(["sum", "mean"]),
)
def test_a_fit_with_what_is_known_is_that_of_overlapping_sets(pupils, counties, schools, weights):
    sets, measure = _sets(weights=weights), "sum" if weights == "sum" else "mean"
    people = FRAME.iloc[sorted(pupils)][["pupil", "y"]]
    areas = FRAME[FRAME.county.isin(counties)].groupby("county")["y"].agg(measure)
    totals = FRAME.groupby("school")["y"].agg(measure)
    told = {name: totals[name] for name in schools}
    model = _linear().fit(sets, told, known=[people, areas])

    rows = [np.flatnonzero(FRAME.school[OWN] == name) for name in sorted(told)]
    rows += [np.flatnonzero(FRAME.pupil[OWN] == name) for name in people.pupil]
    rows += [np.flatnonzero(FRAME.county[OWN] == name) for name in areas.index]
    y_bar = [*(told[name] for name in sorted(told)), *people.y, *areas]
    everyone = np.arange(N)  # so that all individuals are known to the other model, too
    same = sw.Sets.from_members(sets.x, [*rows, everyone, everyone], measure)
    other = _linear().fit(same, dict(enumerate(y_bar)))
    groups = np.repeat(np.array(sets.ids, dtype=object), sets.sizes)
    mean, std = model.predict(sets.x, return_std=True, groups=groups)
    expected = other.predict(sets.x, return_std=True, groups=[len(rows)] * N)
    if rows:
        assert_allclose(mean, expected[0], rtol=1e-6, atol=1e-6)
        assert_allclose(std, expected[1], rtol=1e-6, atol=1e-6)
    found = pd.Series(mean, sets.row_ids)
    assert_allclose(found[people.pupil], people.y, atol=1e-6)  # who is known is known
    by_county = found[FRAME.pupil].groupby(FRAME.county.to_numpy()).agg(measure)
    assert_allclose(by_county[areas.index], areas, rtol=1e-8)  # and areas add up


@given(
    st.sets(st.integers(0, N - 1), max_size=4),
    st.sets(st.sampled_from(sorted(FRAME.county.unique())), min_size=1, max_size=2),
    st.sampled_from(SETS.ids),
    st.sampled_from(["sum", "mean"]),
)
def test_totals_of_sets_are_those_of_their_members(pupils, counties, school, weights):
    sets = _sets(weights=weights)
    people = FRAME.iloc[sorted(pupils)][["pupil", "y"]]
    areas = FRAME[FRAME.county.isin(counties)].groupby("county")["y"].agg(weights)
    told = {school: FRAME.groupby("school")["y"].agg(weights)[school]}
    model = _linear().fit(sets, told, known=[people, areas])
    each = model.predict(FRAME[INPUTS], groups=FRAME.school)
    expected = pd.Series(each).groupby(FRAME.school).agg(weights)
    mean, std = model.predict_sets(sets, return_std=True)
    assert_allclose(mean, expected[list(sets.ids)])
    assert_allclose(mean[sets.position(school)], told[school])
    assert_allclose(std[sets.position(school)], 0, atol=1e-5)
    moved = sw.Sets.from_arrays([sets[school].x + 1], ids=[school])  # others of the same name
    prior = model.predict_sets(moved, return_std=True, include_noise=True)
    assert prior[1][0] > 0.1


def _ids(known, sets=SETS):
    return [each.set_id for each in with_known(sets, known)[1]]


def test_tables_say_whose_totals_they_hold_by_their_columns():
    one = FRAME.iloc[[3]]
    name = one.pupil.item()
    assert _ids(TOTALS[["s1", "s2"]]) == ["s1", "s2"]
    assert _ids({"s1": 2.0}) == ["s1"]
    assert _ids(pl.DataFrame({"set": ["s2"], "total": [1.0]})) == ["s2"]
    for table in (one[["pupil", "y"]], one[["x", "z", "y"]], one.drop(columns="pupil"), one):
        assert _ids(table) == [("pupil", name)]
    assert _ids(FRAME.groupby("county")["y"].sum()) == [("county", c) for c in range(3)]
    both = FRAME.groupby(["kind", "county"], as_index=False)["y"].sum()
    assert ("county, kind", 0, "day") in _ids(pl.from_pandas(both))
    district = FRAME[["school", "kind", "y"]].iloc[:1]  # a set, whatever else the table says
    assert _ids(district) == [FRAME.school[0]]
    nameless = sw.Sets.from_frame(FRAME, by=["county", "school"], x=INPUTS)
    assert _ids(one[["x", "z", "y"]], nameless)[0][2].startswith("individual ")
    assert _ids(FRAME.groupby("county")["y"].sum(), nameless) == [("county", c) for c in range(3)]


def test_sets_that_are_only_told_of_stay_as_they_are():
    assert with_known(SETS, None) == (SETS, ())
    assert with_known(SETS, {"s1": 2.0})[0] is SETS
    more, known = with_known(SETS, FRAME[["pupil", "y"]].iloc[:2])
    assert more.ids == (*SETS.ids, *(each.set_id for each in known))
    assert (more.n_asked, len(more.own_x), len(more.x)) == (len(SETS), N, N + 2)
    assert more.take(range(3)).origin.extra == 0


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (pl.Series([1.0]), "polars Series, which has no ids"),
        ([1.0, 2.0], r"known is 1.0; give a dict of totals by id"),
        ({"s99": 1.0}, "known totals name 's99', and no set has that id"),
        (pl.DataFrame({"region": ["a"], "y": [1.0]}), "none of them says whose totals.*'county'"),
        (pl.DataFrame({"county": ["1"], "y": [1.0]}), "names 'county' '1', .* write 1"),
        (pl.DataFrame({"pupil": ["p99"], "y": [1.0]}), "names 'pupil' 'p99', .* there is 'p"),
        (pl.DataFrame({"pupil": ["p01"], "a": [1], "b": [2]}), "one column of .* it has 'a', 'b'"),
        (pl.DataFrame({"pupil": ["p01"]}), "it has none. Select the columns"),
        (pl.DataFrame({"pupil": ["p01", "p02"], "y": [1.0, None]}), "row 1: 'y' is missing"),
        (pl.DataFrame({"x": [9.0], "z": [9.0], "y": [1.0]}), "row 0: no individuals have these"),
        (pl.DataFrame({"pupil": ["p01"] * 2, "y": [1.0, 2.0]}), "'p01'.* is given twice"),
        ([{"s1": 1.0}, {"s1": 1.0}], "of 's1' is given twice"),
        (pl.DataFrame({"county": [1], "y": [1.0], "noise_std": [-1.0]}), "noise_std of set"),
        (pl.DataFrame({"county": [1], "y": [1e200]}), "is it mistyped"),
    ],
)
def test_what_cannot_be_known_is_refused_with_what_to_do(known, message):
    with pytest.raises(sw.LabelError, match=message):
        sw.AggregateRegressor("linear").fit(SETS, None, known=known)


def test_a_total_that_is_told_twice_and_several_outputs_are_refused():
    with pytest.raises(sw.LabelError, match="total of 's1' is in known too"):
        sw.AggregateRegressor("linear").fit(SETS, {"s1": 1.0}, known={"s1": 1.0})
    with pytest.raises(sw.SettingError, match="known works with one output"):
        sw.AggregateRegressor("linear").fit(SETS, np.ones((len(SETS), 2)), known={"s1": 1.0})
    twins = sw.Sets.from_arrays([[[1.0], [1.0]], [[2.0]]])
    twins = sw.Sets.from_frame(pl.DataFrame({"s": [1, 1, 2], "x": [1.0, 1.0, 2.0]}), by="s", x="x")
    with pytest.raises(sw.LabelError, match="2 individuals have these inputs; name them by their"):
        with_known(twins, pl.DataFrame({"x": [1.0], "y": [3.0]}))


def test_known_noise_of_an_area_lets_it_be_wrong():
    exact = pd.DataFrame({"county": [0], "total": [1000.0]})
    noisy = exact.assign(noise_std=1e4)
    found = [
        _linear().fit(SETS, TOTALS, known=known).predict(SETS.x) for known in (None, noisy, exact)
    ]
    assert_allclose(found[1], found[0], rtol=0.02)
    assert_allclose(found[2], found[0])  # it follows from the sets, which came first


def test_a_learner_begins_with_what_is_known_and_never_asks_for_it():
    known = [TOTALS[["s1"]], FRAME[["pupil", "y"]].iloc[:3]]
    learner = sw.ActiveLearner(SETS, known=known, cost=dict.fromkeys(SETS.ids, 2.0))
    assert [answer.set_id for answer in learner.history][:2] == ["s1", ("pupil", "p00")]
    assert {answer.note for answer in learner.history} == {"known from the start"}
    asked = []
    for _ in range(len(SETS) - 1):
        question = learner.ask()
        asked.append(question.set_id)
        learner.tell(question.set_id, TOTALS[question.set_id])
    assert sorted(asked) == sorted({*SETS.ids} - {"s1"})
    with pytest.raises(sw.PoolExhaustedError):
        learner.ask()


def test_predicted_totals_are_of_sets_to_ask_for_with_their_own_ids():
    people = FRAME.assign(school=FRAME.school.str[1:].astype(int))
    sets = sw.Sets.from_frame(people, by="school", x=INPUTS, id="pupil", areas=["county"])
    known = [people[["pupil", "y"]].iloc[:2], people.groupby("county")["y"].sum()]
    learner = sw.ActiveLearner(sets, model=_linear(), known=known)
    found = learner.predict_sets()
    assert found.ids == sets.ids
    assert found.to_pandas()["set"].tolist() == list(sets.ids)
