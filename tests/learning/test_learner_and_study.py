"""A learner and a study are told the same in the same words, and say and refuse the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import sumwise as sw
from tests.studies import GIVEN

SIZES = (3, 4, 2, 5, 4, 1)
IDS = [*"abcdef"]


def pool(weights="sum"):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(sum(SIZES), 2)), columns=["u", "v"])
    rows["town"], rows["who"] = np.repeat(IDS, SIZES), [f"p{n}" for n in range(len(rows))]
    return sw.Sets.from_frame(rows, by="town", x=["u", "v"], id="who", weights=weights)


@pytest.fixture
def both(tmp_path):
    def made(weights="sum", **options):
        options = {"model": sw.AggregateRegressor(**GIVEN), "seed": 3} | options
        study = sw.create_study(tmp_path / "a.db", pool(weights), **options)
        return study, sw.ActiveLearner(pool(weights), **options)

    return made


def told(one):
    return [
        (each.number, each.set_id, each.y_bar, each.noise_std, each.of, each.covers, each.note)
        for each in one.answers
    ]


def assert_same(study, learner):
    assert told(learner) == told(study)
    for predict in ("predict", "predict_sets"):
        found, other = getattr(learner, predict)(), getattr(study, predict)()
        for name in ("mean", "lower", "upper"):
            np.testing.assert_allclose(getattr(found, name), getattr(other, name), rtol=1e-9)
    one, two = learner.status(), study.status()
    assert (one.about, one.headline, one.known) == (two.about, two.headline, two.known)
    asked = [(a.set_id, a.why, a.expected) for a in learner.propose(3)]
    assert asked == [(a.set_id, a.why, a.expected) for a in study.propose(3)]


@pytest.mark.parametrize("weights", ["sum", "mean"])
def test_the_same_is_told_and_the_same_is_said(both, weights):
    known = [{"f": 0.5}, pd.DataFrame({"who": ["p1"], "y": [0.9]})]
    options = {"outcome": "share", "unit": "of 1", "low": 0, "high": 1, "known": known}
    study, learner = both(weights, **options)
    assert_same(study, learner)
    for one in (study, learner):
        assert one.about.title == ("total share" if weights == "sum" else "mean share")
        one.tell("a", 0.8, of=["p0", "p2"])
        one.tell("b", 0.6, covers=0.75, noise_std=0.1)
        one.tell("b", 0.6, covers=0.75, noise_std=0.1)  # again
        assert one.tell_many({"c": 0.4}) == 1
        assert one.tell_many(pl.DataFrame({"town": ["d", "c"], "y": [0.7, 0.4]})) == 1
    assert_same(study, learner)
    assert (learner.answers[2].of, learner.answers[3].covers) == ((1, 3), 0.75)
    for own, of in (("d", None), ("e", ["p14"]), ("a", ["p1"])):
        assert learner.expected(own, of) == pytest.approx(study.expected(own, of), rel=1e-9)
    for one in (study, learner):
        one.amend("a", 0.9)  # of the same members
        one.amend("b", 0.7, of=["p3"])  # without the noise of a share
        one.amend("c", 0.5, covers=0.5)
    assert_same(study, learner)
    assert learner.answers[3].noise_std is None
    found = learner.predict()
    assert found.mean.min() >= 0
    assert found.upper.max() <= 1


def test_parts_and_shares_of_many_answers_do_not_depend_on_their_order(both):
    study, learner = both()
    of = [["p0"], None, None]
    study.tell_many([*"abd"], [1.0, 2.0, 3.0], of=of, covers=[None, 0.5, 0.8])
    assert learner.tell_many([*"dba"], [3.0, 2.0, 1.0], of=of[::-1], covers=[0.8, 0.5, None]) == 3
    by_set = {each.set_id: each for each in learner.answers}
    for each in study.answers:
        other = by_set[each.set_id]
        assert (each.y_bar, each.of, each.covers) == (other.y_bar, other.of, other.covers)
        if each.covers:
            assert other.noise_std == pytest.approx(each.noise_std, rel=1e-9)
    assert by_set["b"].y_bar == 4.0


def test_a_budget_buys_the_same_and_a_preview_changes_nothing(both):
    study, learner = both(cost=[3.0, 1, 2, 5, 1, 1])
    seen = [(a.set_id, a.cost) for a in learner.propose(9, budget=5)]
    assert seen == [(a.set_id, a.cost) for a in study.propose(9, budget=5)]
    assert learner.status().questions == 0
    bought = learner.ask(budget=5)
    assert [a.set_id for a in bought] == [a.set_id for a in study.ask(budget=5)]
    assert sum(a.cost for a in bought) <= 5
    assert learner.ask(budget=5) == bought  # spent anew, on the same
    assert learner.status().questions == len(bought)
    assert len(learner.ask(n=2, budget=5)) == 2
    assert learner.ask(n=1, budget=1).cost == 1
    assert learner.propose(9)[0].set_id not in {a.set_id for a in learner._progress.open}
    with pytest.raises(sw.SettingError, match="a budget needs costs"):
        sw.ActiveLearner(pool()).ask(budget=1)


REFUSED = [
    ("tell", ("a", 9.0), {}, "which is impossible"),
    ("tell", ("a", 1.0), {"of": ["p9"]}, "'p9', number 1 of those named, is not a member of set"),
    ("tell", ("a", 1.0), {"of": ["p0"], "covers": 0.5}, "not both"),
    ("tell", ("a", 1.0), {"covers": 1.5}, "give a share above 0, up to 1"),
    ("tell", ("f", 1.0), {"covers": 0.5}, "set 'f' has one individual"),
    ("tell", ("b", 2.0), {}, "set 'b' is measured already"),
    ("amend", ("b", 2.0), {}, "scaled up from a share of 0.5"),
    ("amend", ("a", 1.0), {}, "set 'a' is not measured yet"),
    ("tell_many", ({"a": 1.0, "x": 2.0},), {}, "row 1: .*'x'"),
    ("tell_many", ({"a": 9.0},), {}, "row 0: .*impossible.*Nothing was stored"),
    ("tell_many", ({"a": float("nan")},), {}, "row 0: total of set 'a' is nan"),
    ("tell_many", (["a", "a"], [1.0, 2.0]), {}, "row 1: set 'a' is there twice, with 1 and with 2"),
    ("tell_many", (["a"], [1.0]), {"covers": [0.5, 0.5]}, "covers has 2 values for 1 sets"),
    ("tell_many", (["a"],), {}, "totals are missing"),
    ("tell_many", (pl.DataFrame({"town": ["a"], "y": [1.0], "z": [2.0]}),), {}, "2 columns"),
    ("tell_many", (pl.Series([1.0]),), {}, "polars Series, which has no ids"),
]


def test_the_same_is_refused_and_changes_nothing(both):
    study, learner = both(low=0, high=1)
    for one in (study, learner):
        one.tell("b", 1.0, covers=0.5)
        before = one.answers
        for act, given, options, said in REFUSED:
            with pytest.raises(sw.SumwiseError, match=said):
                getattr(one, act)(*given, **options)
            assert one.answers == before
    for options, said in (
        ({"low": 2, "high": 1}, "low that is below high"),
        ({"unit": ""}, "unit"),
    ):
        with pytest.raises(sw.SettingError, match=said):
            sw.ActiveLearner(pool(), **options)
    with pytest.raises(sw.LabelError, match="impossible"):
        sw.ActiveLearner(pool(), known={"a": 9.0}, high=1)
    with pytest.raises(TypeError, match=r"ActiveLearner\(\) got an unexpected .* 'lo'"):
        sw.ActiveLearner(pool(), lo=1)


def test_a_design_on_disk_knows_shares_and_no_members(tmp_path):
    frame = pd.DataFrame({"town": np.repeat([*"abc"], 4), "u": np.arange(12.0) % 5})
    frame.to_parquet(tmp_path / "people.parquet")
    scan = sw.Sets.scan_parquet(tmp_path / "people.parquet", by="town", x=["u"])
    model = sw.AggregateRegressor(**GIVEN)
    learner = sw.ActiveLearner(model.embed(scan, tmp_path / "design"), model=model, low=0)
    learner.tell("a", 3.0, covers=0.5)
    assert learner.answers[0].y_bar == 6.0
    with pytest.raises(sw.SettingError, match=r"stay in their files.*give the share"):
        learner.tell("b", 3.0, of=[1])


def test_adam_goes_on_from_one_of_many_answers_to_the_next():
    paper = {"model": sw.AggregateRegressor("linear", hyperparameters="adam"), "strategy": "AggMI"}
    one, many = sw.ActiveLearner(pool(), **paper), sw.ActiveLearner(pool(), **paper)
    for own, total in zip("abc", (1.0, 2.0, 3.0), strict=True):
        one.tell(own, total)
    many.tell_many([*"abc"], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(one.predict().mean, many.predict().mean)
