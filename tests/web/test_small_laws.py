"""Bounds, names and documents of the API, each looked at from both sides."""

from __future__ import annotations

import socket

import numpy as np
import pytest
from starlette.websockets import WebSocketDisconnect

import sumwise as sw
from sumwise.report.maps import SHOWS, map_panel
from sumwise.web import create_app, picture, tokens
from sumwise.web.addresses import share
from sumwise.web.server import Address
from sumwise.web.session import as_json
from tests.builders import random_sets
from tests.study.test_maps import begin, districts
from tests.web.apps import client_of, got
from tests.web.designs import sera

LINEAR = sw.AggregateRegressor("linear")


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    place = tmp_path_factory.mktemp("laws") / "a.db"
    sets = random_sets([3, 2, 2], np.random.default_rng(0))
    with sw.create_study(place, sets, model=LINEAR) as study:
        study.tell(study.ask().set_id, 5.0)
        yield create_app(study)


# --- what the document says -----------------------------------------------------------------------


def operations(app):
    for path, methods in app.openapi()["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def test_in_the_document_writes_and_only_writes_need_a_token(app):
    for method, path, operation in operations(app):
        assert bool(operation.get("security")) == (method != "get"), path


def test_statuses_of_success_follow_the_kind_of_request(app):
    """201 where a collection grows, 204 where nothing is given, 200 elsewhere."""
    for method, path, operation in operations(app):
        good = [status for status in operation["responses"] if status.startswith("2")]
        given = any("content" in operation["responses"][status] for status in good)
        grows = method == "post" and "{" not in path
        assert ("204" if not given else "201" if grows else "200") in good, path


FILES = {
    "/api/individuals.csv": "text/csv",
    "/api/individuals.parquet": "application/vnd.apache.parquet",
}


@pytest.mark.parametrize("path", FILES)
def test_a_file_is_of_the_type_that_the_document_says(app, path):
    known = {path: operation for method, path, operation in operations(app) if method == "get"}
    assert [*known[path]["responses"]["200"]["content"]] == [FILES[path]]
    sent = client_of(app).get(path)
    assert sent.headers["content-type"].split(";")[0] == FILES[path]
    assert f'{path.rpartition(".")[2]}"' in sent.headers["content-disposition"]


# --- bounds ---------------------------------------------------------------------------------------


def test_of_many_faults_five_are_said(app):
    found = got(client_of(app).post("/api/answers", json={f"x{n}": n for n in range(9)}), 422)
    assert found["detail"].count(";") == 4


@pytest.mark.parametrize("length", [1, 99, 100])
def test_a_name_may_have_a_hundred_characters(tmp_path, length, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with sw.create_study(
        tmp_path / "a.db", random_sets([1], np.random.default_rng(0)), model=LINEAR
    ):
        pass
    tokens.add_person(str(tmp_path / "a.db"), "n" * length)
    with pytest.raises(sw.SettingError, match="up to 100 printable characters"):
        tokens.add_person(str(tmp_path / "a.db"), "n" * 101)


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"),
        ("127.0.0.1", "127.0.0.1"), ("lab.example", "lab.example"),
    ],
)  # fmt: skip
def test_the_address_to_open_is_one_that_a_browser_can_reach(host, shown):
    with socket.socket() as any_one:
        assert Address(host, 8765, any_one).url("t") == f"http://{shown}:8765/#token=t"


@pytest.mark.parametrize(
    ("host", "places", "own"),
    [("127.0.0.1", 100, 100), ("::1", 7, 7), ("10.0.0.1", 100, 25), ("10.0.0.1", 3, 1)],
)
def test_an_address_has_a_quarter_of_the_places_and_this_machine_all(host, places, own):
    assert share(host, places) == own


# --- what questions say of who is in them ---------------------------------------------------------


def test_a_set_that_was_given_says_that_it_was_not_designed(app):
    asked = got(client_of(app).post("/api/questions", json={}), 201)["questions"][0]
    known = {key: asked[key] for key in ("designed", "members", "bound", "fraction")}
    assert known == {"designed": False, "members": None, "bound": None, "fraction": None}


def test_a_study_without_designs_says_no_number_of_them_and_one_with_them_all(app, tmp_path):
    assert got(client_of(app).get("/api/study"))["designing"] is None
    study, _ = sera(tmp_path / "s.db", n=12)
    with study:
        found = got(client_of(create_app(study)).get("/api/study"))["designing"]
    assert found == {
        "alone": True, "begun": 12, "candidates": 12, "used": 0, "aside": 0, "uses": 1,
        "smallest": 2, "largest": 8,
    }  # fmt: skip


# --- pictures -------------------------------------------------------------------------------------


def test_a_map_on_the_page_is_the_one_of_the_report(tmp_path):
    with begin(tmp_path, told=4, map=districts(), map_id="code") as study:
        web = client_of(create_app(study))
        for show in SHOWS:
            found = got(web.get("/api/picture", params={"kind": show}))
            assert found["chart"] == as_json(map_panel(study, show))["chart"]


def test_the_plane_of_more_individuals_than_are_drawn_is_that_of_all(tmp_path, monkeypatch):
    monkeypatch.setattr(picture, "MOST", 5)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 3)) @ np.array([[1.0, 0.5, 0.2], [0.0, 1.0, 0.4], [0.0, 0.0, 1.0]])
    sets = sw.Sets.from_arrays([*x.reshape(4, 15, 3)])
    with sw.create_study(tmp_path / "a.db", sets, model=LINEAR) as study:
        words = got(client_of(create_app(study)).get("/api/picture"))["words"][0]
    powers = np.linalg.eigvalsh(np.corrcoef(x.T))[::-1]
    assert f"{powers[:2].sum() / powers.sum():.0%} of their variance" in words


def named(chart):
    """Every field that a chart reads."""
    if isinstance(chart, dict):
        yield from [chart["field"]] if isinstance(chart.get("field"), str) else []
        yield from (field for each in chart.values() for field in named(each))
    elif isinstance(chart, list):
        yield from (field for each in chart for field in named(each))


def test_pictures_draw_and_say_fields_that_their_points_have(app):
    found = got(client_of(app).get("/api/picture"))["chart"]
    points = found["data"]["values"]
    assert {*named(found)} >= {"x", "y", "state", "set", "row", "predicted"}
    assert {*named(found)} <= points[0].keys()
    shown = [each["field"] for each in found["encoding"]["tooltip"]]
    assert shown == ["set", "state", "row", "predicted"]


def test_there_are_no_websockets(app):
    with (
        pytest.raises(WebSocketDisconnect) as caught,
        client_of(app).websocket_connect("/api/events"),
    ):
        pass
    assert caught.value.code == 1008
