"""The chart and the table of predicted sets."""

from __future__ import annotations

import numpy as np
import pytest

import sumwise as sw
from sumwise.learning.status import Status
from sumwise.model.predict import Predictions
from sumwise.report import groups, study_page
from tests.report.test_page import charts_in
from tests.studies import GIVEN, with_wrong_total

STATUS = Status("s", "IVR", 5, 2, 0, 0, 2, 1.0, 1.0, 1.0, 5, 1.0)


def predictions(n, measured=()):
    rng = np.random.default_rng(0)
    told = np.ma.masked_all(n)
    told[list(measured)] = 7.0
    ids = tuple(f"set {a}" for a in range(n))
    return Predictions(rng.normal(size=n), np.ones(n), 0.9, ids=ids, beside={"measured": told})


def test_sets_are_sorted_by_what_is_drawn_and_not_by_totals(tmp_path):
    with with_wrong_total(tmp_path / "a.db") as study:
        found, sizes = study.predict_sets(), study.sets.sizes
        chart = next(
            c for c in charts_in(study_page.page_of(study)) if "highest" in c["title"]["text"]
        )
    rows = chart["data"]["values"]
    means = found.mean / sizes
    order = np.argsort(-means)
    assert [row["set"] for row in rows] == [f"{k + 1}. set {a}" for k, a in enumerate(order)]
    assert [row["mean"] for row in rows] == pytest.approx(means[order])
    assert [row["lower"] for row in rows] == pytest.approx((found.lower / sizes)[order])
    assert [row["upper"] for row in rows] == pytest.approx((found.upper / sizes)[order])
    assert [row["kind"] == "measured" for row in rows] == [a < 3 for a in order]
    assert chart["layer"][0]["encoding"]["y"]["sort"] == [row["set"] for row in rows]


def test_of_many_sets_both_ends_and_even_steps_are_drawn_and_it_is_said():
    found = predictions(1000)
    section = groups.by_set(found, np.ones(1000), STATUS)
    rows = section.charts[0].to_dict()["data"]["values"]
    means = [row["mean"] for row in rows]
    best = np.sort(found.mean)[::-1]
    assert len(rows) == groups.MOST
    assert means == sorted(means, reverse=True)
    assert means[:10] + means[-10:] == pytest.approx([*best[:10], *best[-10:]])
    assert section.words[0].startswith("Of 1,000 sets the 10 highest, the 10 lowest and 20 at even")


def test_sets_that_are_all_known_to_be_the_same_have_an_axis_around_them():
    found = Predictions(np.full(2, 5.0), np.zeros(2), 0.9, ids=("a", "b"), beside={})
    found.beside["measured"] = np.ma.array([5.0, 5.0])
    section = groups.by_set(found, np.ones(2), STATUS)
    low, high = section.charts[0].to_dict()["layer"][1]["encoding"]["x"]["scale"]["domain"]
    assert low < 5 < high


def test_weights_that_add_up_to_nothing_leave_totals():
    found, weight = predictions(4, measured=[1]), np.array([1.0, 0.0, 2.0, -1.0])
    assert (groups.per_individual(found, weight)[0] == found.mean).all()
    table = groups.table(found, weight, STATUS).table
    assert table.columns == ("set", "total", "90 % interval", "total, measured")
    assert [row[-1] for row in table.rows if row[0] == "set 1"] == ["7"]


def test_the_table_has_both_ends_of_many_sets():
    table = groups.table(predictions(1200), np.full(1200, 2.0), STATUS).table
    assert len(table.rows) == 1000
    assert table.caption == "Of 1,200 sets, the 500 highest and the 500 lowest."


def test_what_is_drawn_is_named_with_its_outcome():
    sets = sw.Sets.from_arrays([np.ones((2, 1)), np.ones((3, 1))])
    options = {"outcome": "harvest", "unit": "kg", "model": sw.AggregateRegressor(**GIVEN)}
    learner = sw.ActiveLearner(sets, **options)
    learner.tell(0, 3.0)
    found = groups.by_set(learner.predict_sets(), np.array([2.0, 3.0]), learner.status())
    spec = found.charts[0].to_dict()
    assert spec["title"]["text"] == "Predicted mean harvest, highest first"
    assert spec["layer"][1]["encoding"]["x"]["title"] == "mean harvest (kg)"
