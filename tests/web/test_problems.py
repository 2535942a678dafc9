"""What happens to a server when its database is taken away, locked or written to by many."""

from __future__ import annotations

import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

import sumwise as sw
from sumwise.study.storage.database import Database
from sumwise.web import create_app, session
from tests.studies import NETWORK, SETS
from tests.web.apps import client_of, got


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.db"
    sw.create_study(path, SETS, model=sw.AggregateRegressor("linear")).close()
    return path


@pytest.fixture
def web(path, monkeypatch):
    monkeypatch.setattr(session, "PATIENCE", 0.3)
    app = create_app(path)
    with client_of(app) as client:  # one event loop for all threads, as in a server
        yield client
    app.state.served.session.study.close()


# --- files that go --------------------------------------------------------------------------------


def test_nothing_is_acknowledged_into_a_file_that_was_deleted(web, path):
    got(web.post("/api/answers", json={"position": 1, "total": 5}), 201)
    path.unlink()
    for send in (
        lambda: web.post("/api/answers", json={"position": 2, "total": 5}),
        lambda: web.post("/api/questions"),
        lambda: web.post("/api/claims", json={"position": 2}),
        lambda: web.post("/api/skips", json={"position": 2}),
        lambda: web.patch("/api/answers/1", json={"total": 6}),
        lambda: web.post("/api/answers/1/retract"),
        lambda: web.get("/api/study"),
        lambda: web.get("/api/history"),
        lambda: web.get("/api/sets"),
    ):
        refused = got(send(), 503)
        assert refused["code"] == "storage"
        assert "was removed or replaced by another file" in refused["detail"]


def test_a_file_that_comes_back_is_served_again(web, path, tmp_path):
    os.rename(path, tmp_path / "away.db")
    got(web.post("/api/answers", json={"position": 2, "total": 5}), 503)
    os.rename(tmp_path / "away.db", path)
    got(web.post("/api/answers", json={"position": 2, "total": 5}), 201)


def test_another_file_in_its_place_is_not_written_to(web, path, tmp_path):
    shutil.copy(path, tmp_path / "copy.db")
    os.replace(tmp_path / "copy.db", path)
    got(web.post("/api/answers", json={"position": 2, "total": 5}), 503)
    with sw.open_study(path) as study:
        assert study.answers == ()


def test_a_file_that_is_deleted_during_a_write_is_noticed(web, path, monkeypatch):
    """Between the check and the end of the transaction."""
    write = Database.write

    def late(self):
        path.unlink(missing_ok=True)
        return write(self)

    monkeypatch.setattr(Database, "write", late)
    got(web.post("/api/answers", json={"position": 2, "total": 5}), 503)


# --- locks ----------------------------------------------------------------------------------------


def test_a_locked_database_is_said_and_reading_goes_on(web, path):
    got(web.get("/api/study"))
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    try:
        refused = got(web.post("/api/answers", json={"position": 2, "total": 5}), 503)
        assert "was in use by others" in refused["detail"]
        got(web.get("/api/study"))
        got(web.get("/api/sets"))
    finally:
        lock.execute("ROLLBACK")
        lock.close()
    got(web.post("/api/answers", json={"position": 2, "total": 5}), 201)


def test_a_damaged_database_is_said(web, path):
    got(web.get("/api/study"))
    with path.open("r+b") as file:
        file.write(b"\0" * 200)
    refused = web.get("/api/answers")
    assert refused.status_code in (200, 503)
    if refused.status_code == 503:
        assert set(refused.json()) == {"code", "detail"}


def test_a_study_that_is_removed_is_said(web, path):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA foreign_keys = OFF")
    with connection:
        connection.execute("DELETE FROM sumwise_studies")
    connection.close()
    assert "no longer there" in got(web.get("/api/study"), 503)["detail"]
    assert got(web.post("/api/answers", json={"position": 2, "total": 5}), 503)["code"] == "data"


# --- many at once ---------------------------------------------------------------------------------


def test_the_same_answer_from_many_at_once_is_kept_once(place, problem):
    with sw.create_study(place, problem[0], model=sw.AggregateRegressor("linear")) as study:

        def tell(i):
            body = {"position": i % 4, "total": float(i % 4), "by": f"person {i}", "sure": True}
            return web.post("/api/answers", json=body).status_code

        with client_of(create_app(study)) as web, ThreadPoolExecutor(8) as threads:
            statuses = list(threads.map(tell, range(32)))
        assert sorted(statuses) == [200] * 28 + [201] * 4
        assert sorted(told.position for told in study.answers) == [0, 1, 2, 3]
        assert sum(event.what == "told" for event in study.history()) == 4


def test_of_different_answers_at_once_one_is_kept_and_the_others_are_told(web, path):
    def tell(i):
        body = {"position": 2, "total": float(i)}
        response = web.post("/api/answers", json=body)
        return response.status_code, response.json()

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(tell, range(8)))
    kept = [body["total"] for status, body in answers if status == 201]
    assert len(kept) == 1
    for status, body in answers:
        if status != 201:
            assert (status, body["code"], body["answer"]["total"]) == (409, "answered", kept[0])


def test_reading_is_not_held_up_by_many_who_wait_to_write(web, path):
    """More wait for a lock than there are threads for writing, and reading still works."""
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    try:
        with ThreadPoolExecutor(30) as threads:
            body = {"position": 2, "total": 5}
            waiting = [threads.submit(web.post, "/api/answers", json=body) for _ in range(20)]
            for _ in range(5):
                got(web.get("/api/study"))
            assert not all(each.done() for each in waiting)
            assert {each.result().status_code for each in waiting} == {503}
    finally:
        lock.execute("ROLLBACK")
        lock.close()


# --- models that take long ------------------------------------------------------------------------


def test_telling_does_not_wait_for_a_network_to_be_trained(tmp_path, monkeypatch):
    model = sw.AggregateRegressor(NETWORK, hyperparameters=(1.0, 10.0))
    with sw.create_study(tmp_path / "a.db", SETS, model=model) as study:
        web = client_of(create_app(study))

        def never(*arguments, **options):
            raise AssertionError("a network is trained")

        monkeypatch.setattr(study.state.models, "after", never)
        for position in range(4):
            got(web.post("/api/answers", json={"position": position, "total": 10.0**position}), 201)
        assert len(study.answers) == 4
