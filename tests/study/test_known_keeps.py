"""What is known from the start goes with bounds, geometries, parts of sets and learners."""

import numpy as np
import pandas as pd
import pytest

import sumwise as sw
from sumwise.errors import LabelError
from sumwise.web.app import create_app
from tests.web.apps import client_of, got

SIZES = (4, 3, 5, 2, 6, 3)
COUNTIES = pd.DataFrame({"county": ["east"], "total": [5.5]})
PEOPLE = pd.DataFrame({"id": [105, 113], "total": [0.9, 0.1]})


def table():
    n = sum(SIZES)
    names = np.repeat([f"s{a}" for a in range(len(SIZES))], SIZES)
    size = np.random.default_rng(0).normal(size=n)
    county = np.where(np.arange(n) < 12, "east", "west")
    return pd.DataFrame(
        {"set": names, "id": np.arange(100, 100 + n), "size": size, "county": county}
    )


def begin(tmp_path, known=(COUNTIES, PEOPLE), **options):
    sets = sw.Sets.from_frame(table(), by="set", x=["size"], id="id", areas="county")
    return sw.create_study(tmp_path / "a.db", sets, seed=3, known=list(known), **options)


def test_predictions_keep_within_bounds_and_to_what_is_known(tmp_path):
    study = begin(tmp_path, low=0, high=1)
    study.tell("s0", 0.2)
    found = study.predict()
    means = dict(zip(study.sets.row_ids[: len(found)].tolist(), found.mean.tolist(), strict=True))
    assert len(found) == sum(SIZES)
    assert 0 <= min(means.values()) <= max(means.values()) <= 1
    assert (means[105], means[113]) == pytest.approx((0.9, 0.1))
    assert sum(means[i] for i in range(100, 104)) == pytest.approx(0.2)
    assert sum(means[i] for i in range(100, 112)) == pytest.approx(5.5)
    client = client_of(create_app(study))
    rows = got(client.get("/api/individuals?size=100"))["rows"]
    assert {int(row["id"]): row["mean"] for row in rows} == pytest.approx(means)
    area = study.state.record.sets.ids.index(("county", "east"))
    rows = got(client.get(f"/api/sets/{area}?size=100"))["individuals"]["rows"]
    assert [row["mean"] for row in rows] == pytest.approx([means[i] for i in range(100, 112)])
    counts = got(client.get("/api/study"))
    assert (counts["sets"], counts["answers"], counts["individuals"]) == (6, 1, sum(SIZES))


def test_what_is_known_and_impossible_is_refused(tmp_path):
    with pytest.raises(LabelError, match="impossible"):
        begin(tmp_path, low=0, high=0.4)
    assert not list(tmp_path.glob("*.db"))


def test_geometries_are_those_of_individuals_and_come_back(tmp_path):
    shapes = tuple(f"shape {i}".encode() for i in table()["id"])
    study = begin(tmp_path, geometry=shapes)
    assert study.geometry == shapes
    study.export(tmp_path / "out")
    with sw.import_study(tmp_path / "out", tmp_path / "b.db") as again:
        assert again.geometry == shapes
        assert again.progress == study.progress == (0, 6)


def test_totals_of_some_members_contradict_nobody_they_do_not_cover(tmp_path):
    study = begin(tmp_path, known=[PEOPLE])
    study.tell("s3", 7.0, of=[112])  # 113 is known
    assert study.status().contradictions == ()
    study.amend("s3", 7.0, of=[113])
    (found,) = study.status().contradictions
    assert (found.total, found.expected) == (7.0, pytest.approx(0.1))


def test_a_learner_counts_and_withdraws_what_was_known(tmp_path):
    sets = sw.Sets.from_frame(table(), by="set", x=["size"], id="id", areas="county")
    learner = sw.ActiveLearner(sets, known=[COUNTIES, PEOPLE])
    learner.tell("s0", 0.2)
    status = learner.status()
    assert (status.sets, status.answers, status.known) == (6, 1, 3)
    assert repr(learner).startswith("ActiveLearner: 1 of 6 sets measured")
    assert len(learner.predict()) == sum(SIZES)
    learner.retract(("county", "east"))
    assert {ask.set_id for ask in learner.ask(5)} == {"s1", "s2", "s3", "s4", "s5"}
    status = learner.status()
    assert (status.known, status.skipped) == (2, 0)
    assert "individuals are predicted" in learner.report(tmp_path / "l.html").read_text()
