"""Answers of a part of a set, bounds of totals, known extras, and tables of a size: over HTTP."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sumwise as sw
from sumwise.web import create_app
from sumwise.web.security import LARGEST_BODY, LARGEST_TABLE
from tests.web.apps import client_of, got

LINEAR = sw.AggregateRegressor("linear")


def table(n_sets: int = 12, size: int = 5) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = n_sets * size
    frame = pd.DataFrame(
        {
            "district": np.repeat([f"d{a}" for a in range(n_sets)], size),
            "county": np.repeat([f"c{a % 3}" for a in range(n_sets)], size),
            "pupil": [f"p{n}" for n in range(n)],
            "x": rng.normal(size=n),
        }
    )
    return frame.assign(y=50 + 10 * frame.x + rng.normal(size=n))


def served(tmp_path, *, known=None, weights=None, model=LINEAR, **about):
    frame = table()
    sets = sw.Sets.from_frame(
        frame, by="district", x=["x"], id="pupil", areas=["county"], weights=weights
    )
    study = sw.create_study(tmp_path / "a.db", sets, model=model, known=known, **about)
    return client_of(create_app(study)), study, frame


def test_a_share_and_members_come_back_as_they_were_told(tmp_path):
    web, _, _ = served(tmp_path)
    share = got(web.post("/api/answers", json={"position": 0, "total": 200, "covers": 0.8}), 201)
    assert (share["total"], share["covers"], share["of"]) == (250.0, 0.8, None)
    some = {"position": 1, "total": 150, "of": ["p5", "p7", "p9"]}
    told = got(web.post("/api/answers", json=some), 201)
    assert (told["of"], told["covers"], told["part"]) == (
        ["p5", "p7", "p9"],
        None,
        "3 of 5 individuals",
    )
    assert got(web.get("/api/sets/1"))["answer"] == told


def test_what_an_answer_covers_can_be_corrected(tmp_path):
    web, _, _ = served(tmp_path)
    got(web.post("/api/answers", json={"position": 0, "total": 200, "covers": 0.8}), 201)
    unsaid = got(web.patch("/api/answers/0", json={"total": 210}), 422)
    assert (unsaid["code"], "scaled up" in unsaid["detail"]) == ("setting", True)
    again = got(web.patch("/api/answers/0", json={"total": 210, "covers": 0.5}))
    assert (again["total"], again["covers"]) == (420.0, 0.5)
    members = got(web.patch("/api/answers/0", json={"total": 90, "of": ["p0", "p1"]}))
    assert (members["total"], members["of"], members["covers"]) == (90.0, ["p0", "p1"], None)
    whole = got(web.patch("/api/answers/0", json={"total": 240, "covers": 1}))
    assert (whole["total"], whole["of"], whole["covers"], whole["part"]) == (240.0, *[None] * 3)


def test_wrong_members_and_impossible_totals_have_codes_of_their_own(tmp_path):
    web, _, _ = served(tmp_path, low=0, high=100)
    body = {"position": 0, "total": 100}
    strange = got(web.post("/api/answers", json={**body, "of": ["p0", "p5"]}), 422)
    assert strange["code"] == "of"
    assert "'p5', number 2 of those named, is not a member of set 'd0'" in strange["detail"]
    much = got(web.post("/api/answers", json={**body, "total": 501}), 422)
    assert (much["code"], "from 0 to 500" in much["detail"]) == ("total", True)
    got(web.post("/api/answers", json=body), 201)
    amended = got(web.patch("/api/answers/0", json={"total": 501}), 422)
    assert (amended["code"], "impossible" in amended["detail"]) == ("total", True)
    assert got(web.patch("/api/answers/1", json={"total": 50}), 409)["code"] == "not_answered"


def test_sets_say_what_their_totals_can_be(tmp_path):
    web, _, _ = served(tmp_path, low=0, high=100)
    rows = [*got(web.get("/api/next"))["questions"], *got(web.get("/api/sets"))["rows"]]
    assert {(row["low"], row["high"]) for row in rows} == {(0.0, 500.0)}


def test_an_impossible_total_is_refused_before_anybody_is_asked_to_be_sure(tmp_path):
    web, study, frame = served(tmp_path, low=0, high=100)
    totals = frame.groupby("district").y.sum()
    for name in study.ids[:4]:
        study.tell(name, float(totals[name]))
    assert (
        got(web.post("/api/answers", json={"position": 5, "total": 1}), 409)["code"] == "unlikely"
    )
    assert got(web.post("/api/answers", json={"position": 5, "total": -1}), 422)["code"] == "total"
    assert got(web.patch("/api/answers/1", json={"total": 501}), 422)["code"] == "total"


def test_without_bounds_and_with_one_nothing_is_made_up(tmp_path):
    web, _, _ = served(tmp_path, weights="mean", low=0)
    row = got(web.get("/api/sets/0"))
    assert (row["low"], row["high"]) == (0.0, None)
    free = served_free(tmp_path)
    assert got(free.get("/api/sets/0"))["low"] is None


def served_free(tmp_path):
    (tmp_path / "free").mkdir()
    return served(tmp_path / "free")[0]


def test_what_was_known_from_the_start_is_no_set_to_measure(tmp_path):
    frame = table()
    county = frame.groupby("county", as_index=False).y.sum().iloc[:1]
    web, study, _ = served(tmp_path, known=[frame.iloc[[0, 7]][["pupil", "y"]], county])
    about = got(web.get("/api/study"))
    assert (about["sets"], about["answers"], about["known"]) == (12, 0, 3)
    listed = got(web.get("/api/sets"))
    assert listed["total"] == 12
    assert {row["id"] for row in listed["rows"]} == {*frame.district}
    study.retract(study.answers[0].set_id)  # which skips what is not to be asked for
    assert got(web.get("/api/skips"))["total"] == 0
    assert got(web.get("/api/study"))["known"] == 2


def test_columns_of_the_table_are_known(tmp_path):
    web, _, _ = served(tmp_path)
    about = got(web.get("/api/study"))
    assert (about["set_columns"], about["id_column"]) == (["district"], "pupil")
    assert about["members_by"] == "id"


# --- what is expected of an answer ----------------------------------------------------------------


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    """A study with the default model and 11 answers, of which its model knows ten."""
    web, study, frame = served(tmp_path_factory.mktemp("mixture"), model=None)
    totals = frame.groupby("district").y.sum()
    for name in study.ids[:10]:
        study.tell(name, float(totals[name]))
    got(web.get("/api/next"))
    got(web.post("/api/answers", json={"set": "d10", "total": float(totals["d10"])}), 201)
    return web, study


def test_an_unlikely_total_comes_with_the_interval_of_the_mixture(mixture):
    web, study = mixture
    refused = got(web.post("/api/answers", json={"set": "d11", "total": 1e6}), 409)
    position, fit = study.ids.index("d11"), study.state.recent_fit(10)
    expected = fit.intervals(0.9, [position])
    assert (refused["lower"], refused["upper"]) == pytest.approx(
        (expected.lower[0], expected.upper[0])
    )
    gaussian = refused["expected"] - 1.6449 * refused["std"]
    assert abs(refused["lower"] - gaussian) > 1e-3 * refused["std"]


@pytest.mark.parametrize("name", ["d3", "d10"])  # one that the model knows, and the latest
def test_a_correction_is_judged_by_a_model_that_misses_the_latest_answer(mixture, name):
    web, study = mixture
    position = study.ids.index(name)
    refused = got(web.patch(f"/api/answers/{position}", json={"total": 1e6}), 409)
    assert refused["code"] == "unlikely"
    assert refused["lower"] < refused["expected"] < refused["upper"]


# --- tables ---------------------------------------------------------------------------------------


def csv(n_bytes: int) -> str:
    lines, n = ["district,pupil,x"], 100_000
    while 19 * len(lines) < n_bytes:
        lines.append(f"d{n % 12:02d},q{n + len(lines):06d},0.125")
    return "\n".join(lines) + "\n"


def test_a_table_may_be_larger_than_other_bodies(tmp_path):
    web, _, _ = served(tmp_path)
    names = {"set": ["district"], "id": "pupil"}
    body = {"change": "add", "csv": csv(2 * LARGEST_BODY), **names}
    done = got(web.post("/api/pool", json=body), 201)
    assert "individuals joined" in done["words"]
    body["csv"] = "x" * LARGEST_TABLE
    refused = got(web.post("/api/pool", json=body), 413)
    assert refused["detail"] == "the body is larger than 4 MB; use sumwise pool in the shell"
    for path in ("/api/pools", "/api/pool/", "/api/answers", "//api/pool"):
        padded = web.post(path, json={"csv": "x" * LARGEST_BODY})
        assert got(padded, 413)["detail"] == "the body is larger than 64 kB"
    got(web.post("/api/pool", json=body, headers={"Authorization": ""}), 401)
