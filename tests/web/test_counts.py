"""The API of a study of counts: what it asks for, what it refuses, and what it predicts."""

from __future__ import annotations

import pytest

import sumwise as sw
from sumwise.web.app import create_app
from tests.study.test_counts_study import areas, sets_of, totals_of
from tests.web.apps import client_of, got


@pytest.fixture
def web(tmp_path):
    frame = areas()
    about = {"outputs": "counts", "outcome": "deaths"}
    with sw.create_study(tmp_path / "a.db", sets_of(frame), **about) as study:
        study.tell_many(dict(list(totals_of(frame).items())[:6]))
        yield client_of(create_app(study)), study, frame


def test_the_study_says_that_counts_are_measured(web):
    client, _, frame = web
    about = got(client.get("/api/study"))["about"]
    assert (about["outputs"], about["word"], about["title"]) == (
        "counts", "count", "count of deaths",
    )  # fmt: skip
    first = got(client.get("/api/next"))["questions"][0]
    assert first["exposure"] == frame.people[frame.county == first["id"]].sum()
    assert (first["low"], first["high"]) == (0, None)
    assert first["lower"] == int(first["lower"])


def test_individuals_come_with_their_rates(web):
    client, study, frame = web
    rows = got(client.get("/api/individuals?size=200"))["rows"]
    found = study.predict().to_pandas()
    assert [row["mean"] for row in rows] == pytest.approx(found["mean"].tolist(), rel=1e-9)
    assert [row["lower"] for row in rows] == found.lower.tolist()
    assert [row["rate"] for row in rows] == pytest.approx(
        (found["mean"] / frame.people).tolist(), rel=1e-9
    )
    assert {row["extrapolates"] for row in rows} <= {True, False}
    file = client.get("/api/individuals.csv").text.splitlines()[0]
    assert file.endswith('"upper","rate","extrapolates"')


@pytest.mark.parametrize("sure", [False, True])
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"total": 2.5}, "give the count, not the rate"),
        ({"total": -1e6}, "a count is at least 0"),
        ({"total": 3, "noise_std": 1.0}, "noise of plain numbers"),
        ({"total": 3, "covers": 0.5}, "name the members that were"),
    ],
)
def test_nobody_is_asked_to_be_sure_of_what_cannot_be(web, more, words, sure):
    client, study, _ = web
    answer = client.post("/api/answers", json={"set": "c9", "sure": sure, **more})
    assert answer.status_code in (409, 422)
    assert words in answer.json()["detail"]
    assert len(study.answers) == 6


def test_an_answer_is_amended_and_an_unlikely_one_is_questioned(web):
    client, study, frame = web
    total = totals_of(frame)["c1"]
    unlikely = client.patch("/api/answers/1", json={"total": 40 * total + 4000})
    assert unlikely.json()["code"] == "unlikely"
    assert got(client.patch("/api/answers/1", json={"total": total + 1}))["total"] == total + 1
    assert study.answers[1].y_bar == total + 1
    one = got(client.get("/api/sets/1"))
    sums = sum(row["mean"] for row in one["individuals"]["rows"])
    assert sums == pytest.approx(total + 1)
    assert one["exposure"] == frame.people[frame.county == "c1"].sum()
