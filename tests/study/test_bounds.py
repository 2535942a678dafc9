"""Bounds of an output: impossible totals are refused, and predictions keep within them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sumwise as sw
from sumwise.data.about import About
from sumwise.model.bounded import within
from sumwise.model.predict import Predictions
from sumwise.study.storage import blobs
from tests.studies import GIVEN as LINEAR
from tests.web.apps import client_of, got

GIVEN = {"outcome": "turnout", "unit": "voters", "low": 0, "high": 1}


def pool(weights="sum"):
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=(n, 2)) for n in (4, 5, 3, 6, 2, 5)]
    return sw.Sets.from_arrays(blocks, ids=[*"abcdef"], weights=weights)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_total_is_possible_if_and_only_if_outputs_within_the_bounds_give_it(data):
    theta = data.draw(
        st.lists(st.sampled_from([-2.0, -0.5, 0.5, 1.0, 3.0]), min_size=1, max_size=6)
    )
    low = data.draw(st.floats(-5, 5))
    high = low + data.draw(st.floats(0.1, 10))
    share = np.array(data.draw(st.lists(st.floats(0, 1), min_size=len(theta), max_size=len(theta))))
    one = sw.Sets.from_arrays([np.zeros((len(theta), 1))], weights=[theta])
    about = About(weights="weighted", low=low, high=high)
    about.check(float(theta @ (low + share * (high - low))), None, one)
    (least,), (most,) = about.ranges(one)
    for total in (least - 0.1, most + 0.1):
        with pytest.raises(sw.LabelError, match="which is impossible"):
            about.check(total, None, one)
        about.check(total, 0.03, one)  # noise may carry it there


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_means_move_within_bounds_and_totals_stay(data):
    n = data.draw(st.integers(1, 6))
    numbers = st.lists(st.floats(-3, 4), min_size=n, max_size=n)
    mean = np.array(data.draw(numbers))
    theta = np.array(data.draw(st.lists(st.sampled_from([-1.0, 0.5, 2.0]), min_size=n, max_size=n)))
    std = np.array(data.draw(st.lists(st.floats(0.1, 3), min_size=n, max_size=n)))
    possible = About(weights="weighted", low=0, high=1).ranges(
        sw.Sets.from_arrays([np.zeros((n, 1))], weights=[theta])
    )[:, 0]
    total = np.clip(theta @ mean, *possible)
    before = Predictions(mean, std, 0.9)
    found = within(before, 0.0, 1.0, [(np.arange(n), theta)])
    assert theta @ found.mean == pytest.approx(total, abs=1e-9)
    assert ((found.mean >= 0) & (found.mean <= 1)).all()
    assert (found.lower <= found.mean).all()
    assert (found.mean <= found.upper).all()
    inside = np.clip([before.lower, before.upper], 0.0, 1.0)
    assert (found.lower <= inside[0]).all()  # nothing possible is cut off
    assert (found.upper >= inside[1]).all()
    if (mean >= 0).all() and (mean <= 1).all():
        np.testing.assert_allclose(found.mean, mean, atol=1e-12)


@pytest.mark.parametrize("weights", ["sum", "mean"])
def test_a_study_keeps_its_bounds_wherever_it_is(place, tmp_path, weights):
    sets = pool(weights)
    y = 1 / (1 + np.exp(-4 * sets.x[:, 0]))
    totals = np.add.reduceat(sets.theta * y, sets.starts[:-1])
    with sw.create_study(place, sets, **GIVEN) as study:
        word = "total" if weights == "sum" else "mean"
        assert (study.about.word, study.about.quantity("1")) == (word, "1 voters")
        most = 5 if weights == "sum" else 1
        with pytest.raises(sw.LabelError, match=f"the {word} is from 0 to {most}"):
            study.tell("b", most + 0.5)
        with pytest.raises(sw.LabelError, match=r"row 1: .* impossible.*Nothing was stored"):
            study.tell_many(["a", "b"], [totals[0], most + 0.5])
        assert study.answers == ()
        study.tell_many([*"abcd"], totals[:4])
        with pytest.raises(sw.LabelError, match="impossible"):
            study.amend("b", -0.5)
        found, of_sets = study.predict(), study.predict_sets()
        assert min(found.mean.min(), found.lower.min()) >= 0
        assert max(found.mean.max(), found.upper.max()) <= 1
        sums = np.add.reduceat(sets.theta * found.mean, sets.starts[:-1])
        np.testing.assert_allclose(sums[:4], totals[:4], rtol=1e-9)
        assert (of_sets.lower >= 0).all()
        assert (of_sets.upper <= study.about.ranges(sets)[1]).all()
        assert 0 <= study.propose(1)[0].expected <= most
        folder = study.export(tmp_path / "out")
    assert json.loads((folder / "study.json").read_text())["about"]["outcome"] == "turnout"
    with sw.import_study(folder, tmp_path / "b.db") as again:
        assert again.about == study.about
        np.testing.assert_array_equal(again.predict().upper, found.upper)


def test_the_page_knows_bounds_words_and_parts(tmp_path):
    from sumwise.web import create_app

    sets = pool("mean")
    with sw.create_study(tmp_path / "a.db", sets, **GIVEN) as study:
        client = client_of(create_app(study))
        about = got(client.get("/api/study"))["about"]
        assert about == {
            **GIVEN,
            "word": "mean",
            "title": "mean turnout",
            "outputs": "numbers",
            "individual": None,
        }
        refused = client.post("/api/answers", json={"set": "a", "total": 1.5})
        assert refused.status_code == 422
        assert "the mean is from 0 to 1" in refused.json()["detail"]
        told = {"set": "b", "total": 0.4, "of": [1, 3], "sure": True}
        assert got(client.post("/api/answers", json=told), 201)["part"] == "2 of 5 individuals"
        for name in "acd":
            got(client.post("/api/answers", json={"set": name, "total": 0.9, "sure": True}), 201)
        rows = got(client.get("/api/individuals?size=100"))["rows"]
        found = study.predict()
        np.testing.assert_allclose([row["mean"] for row in rows], found.mean, atol=1e-9)
        np.testing.assert_allclose([row["upper"] for row in rows], found.upper, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"low": 1, "high": 0}, "give a low that is below high"),
        ({"low": float("nan")}, "low is nan; give a finite number"),
        ({"outcome": " "}, "outcome is ' '"),
        ({"unit": "a\nb"}, "unit is"),
        ({"unit": "x" * 81}, "unit has 81 characters"),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path, options, said):
    with pytest.raises(sw.SettingError, match=said):
        sw.create_study(tmp_path / "a.db", pool(), **options)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("weights", ["sum", "mean", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
def test_a_study_from_before_names_and_bounds_weighs_its_sets_as_it_did(
    tmp_path, weights, large, monkeypatch
):
    """A mean of a share is not scaled up, and a sum is."""
    if large:
        monkeypatch.setattr(blobs, "LARGE", 1)
    monkeypatch.setattr(blobs, "origin_json", lambda origin: {})
    frame = pd.DataFrame({"town": [*"aaabbb"], "x": np.arange(6.0)})
    if not isinstance(weights, str):
        frame["w"], weights = weights, "w"
    sets = sw.Sets.from_frame(frame, by="town", x="x", weights=weights)
    model = sw.AggregateRegressor(**LINEAR)
    sw.create_study(tmp_path / "a.db", sets, model=model).close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
        connection.execute("DELETE FROM sumwise_files WHERE name = 'about'")
    with sw.open_study(tmp_path / "a.db") as study:
        assert study.about.weights == ("weighted" if weights == "w" else weights)
        study.tell("a", 3.0, covers=0.5)
        assert study.answers[0].y_bar == (3.0 if weights == "mean" else 6.0)
        folder, known = study.export(tmp_path / "out"), study.about
    head = json.loads((folder / "study.json").read_text())
    head.pop("about", None)
    (folder / "study.json").write_text(json.dumps(head))
    with sw.import_study(folder, tmp_path / "b.db") as again:
        assert again.about == known


@given(st.data())
def test_totals_of_overlapping_sets_agree_with_their_members_and_can_be(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    members = [rng.choice(6, rng.integers(1, 5), replace=False) for _ in range(4)]
    sets = sw.Sets.from_members(rng.normal(size=(6, 1)), [*members, range(6)])
    y = rng.integers(0, 2, 6).astype(float)
    truth = [y[list(rows)].sum() for rows in [*members, range(6)]]
    model = sw.AggregateRegressor("linear", hyperparameters=(0.1, 2.0))
    learner = sw.ActiveLearner(sets, model, low=0, high=1)
    told = data.draw(st.sets(st.integers(0, 4), min_size=1))
    learner.tell_many({at: truth[at] for at in sorted(told)})
    found, each = learner.predict_sets(), learner.predict()
    by_set = pd.Series(each.mean).groupby(np.array(each.ids)).sum()
    np.testing.assert_allclose(found.mean, by_set[list(sets.ids)], atol=1e-9)
    every = np.array(list(product([0.0, 1.0], repeat=6)))  # a corner has each exact end here
    fits = [
        abs(every[:, list(rows)].sum(axis=1) - truth[at]) < 1e-9
        for at, rows in enumerate([*members, range(6)])
        if at in told
    ]
    can = every[np.all(fits, axis=0)]
    for at, rows in enumerate([*members, range(6)]):
        sums = can[:, list(rows)].sum(axis=1)
        assert found.lower[at] <= sums.max() + 1e-6
        assert found.upper[at] >= sums.min() - 1e-6
    assert not learner.status().contradictions


def test_a_total_that_others_leave_no_room_for_is_said():
    x = np.random.default_rng(0).normal(size=(6, 1))
    sets = sw.Sets.from_members(x, [[0, 1, 2], [2, 3, 4], range(6)], ids=list("ABC"))
    learner = sw.ActiveLearner(sets, low=0, high=1)
    learner.tell_many({"A": 3.0, "C": 3.0})
    found = learner.predict_sets()
    np.testing.assert_allclose([found.mean[1], found.lower[1], found.upper[1]], 1, atol=1e-6)
    assert not learner.status().headline
    learner.tell("B", 0.0)
    assert "B is 0, and A and C make it at least 1" in learner.status().headline[0]
