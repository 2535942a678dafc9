"""Databases: what is refused in words, and left alone."""

from __future__ import annotations

import sqlite3

import pytest
import sqlalchemy as sa

import sumwise as sw
from sumwise.study.storage import database as databases
from sumwise.study.storage import sqlite
from sumwise.study.storage.database import Database, upgrade
from tests.studies import SETS, change, small_study


@pytest.fixture
def path(tmp_path):
    return small_study(tmp_path / "a.db")


def test_a_missing_file_is_not_made(tmp_path):
    with pytest.raises(sw.DataError, match=r"there is no file .*nowhere.db"):
        sw.open_study(tmp_path / "nowhere.db")
    with pytest.raises(sw.DataError, match="there is no file"):
        upgrade(tmp_path / "nowhere.db")
    with pytest.raises(sw.DataError, match="there is no folder"):
        sw.create_study(tmp_path / "no" / "a.db", SETS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"district,math4\nAnn Arbor,843\n" * 100, b"\0" * 5000])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path, content):
    file = tmp_path / "schools.csv"
    file.write_bytes(content)
    for call in (sw.open_study, upgrade, lambda url: sw.create_study(url, SETS)):
        with pytest.raises(sw.DataError, match=r"schools.csv' is not an SQLite database"):
            call(file)
    assert file.read_bytes() == content


def test_a_folder_is_no_database(tmp_path):
    for call in (sw.open_study, upgrade, lambda url: sw.create_study(url, SETS)):
        with pytest.raises(sw.DataError, match="is a folder; give the path of a file in it"):
            call(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_and_somebody_elses_database_hold_no_studies(tmp_path):
    (tmp_path / "empty.db").touch()
    with pytest.raises(sw.DataError, match="holds no studies"):
        sw.open_study(tmp_path / "empty.db")
    change(tmp_path / "other.db", "CREATE TABLE people (name TEXT)")
    with pytest.raises(sw.DataError, match="holds no studies"):
        sw.open_study(tmp_path / "other.db")
    with pytest.raises(sw.DataError, match="holds no studies"):
        upgrade(tmp_path / "other.db")
    with pytest.raises(sw.DataError, match="of something else \\(it has a table 'people'\\)"):
        sw.create_study(tmp_path / "other.db", SETS)


@pytest.mark.parametrize("url", ["", ":memory:", "a\0b", "mysql://me:secret@host/db", 5, None])
def test_other_places_are_refused(url):
    with pytest.raises(sw.DataError) as caught:
        sw.open_study(url)
    assert "secret" not in str(caught.value)


def test_sets_that_were_changed_are_refused(path):
    change(path, "UPDATE sumwise_files SET content = zeroblob(99) WHERE name = 'sets'")
    with pytest.raises(sw.DataError, match=r"the sets of study 'study' .* checksum differs"):
        sw.open_study(path)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM sumwise_files WHERE name = 'basis'", "incomplete"),
        ("UPDATE sumwise_files SET content = 'text'", "checksum differs"),
        ("UPDATE sumwise_studies SET strategy = 'os.system'", "does not know"),
        ("UPDATE sumwise_studies SET config = '{}'", "model settings cannot be read"),
        ("UPDATE sumwise_answers SET position = 99", "no set at 99"),
        ("DELETE FROM sumwise_answers; ", None),
    ],
)
def test_a_study_that_was_tampered_with_is_refused(path, statement, words):
    change(path, statement)
    if words is None:
        with sw.open_study(path) as study:
            assert study.answers == ()
        return
    with pytest.raises(sw.DataError, match=words):
        _ = sw.open_study(path).answers


def test_a_study_that_was_deleted_under_us_says_so(path):
    with sw.open_study(path) as study:
        change(path, "PRAGMA foreign_keys = OFF")
        change(path, "DELETE FROM sumwise_studies")
        with pytest.raises(sw.DataError, match="no longer there"):
            study.tell(2, 1.0)
    with pytest.raises(sw.DataError, match="holds no studies"):
        sw.open_study(path)


def test_a_long_wait_ends_in_words(path, monkeypatch):
    monkeypatch.setattr(databases, "PATIENCE", 0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    database = Database(path, patience=0.05)
    with pytest.raises(sw.StorageError, match=r"in use by others .* try again"), database.write():
        pass
    with database.read() as connection:  # readers do not wait
        assert connection.execute(sa.text("SELECT count(*) FROM sumwise_answers")).scalar() == 1
    holder.execute("ROLLBACK")
    holder.close()
    database.close()


def test_a_file_that_changes_while_it_is_read_without_a_lock_is_read_again(path, monkeypatch):
    """In our eyes nobody may write here, and somebody does."""
    monkeypatch.setattr(sqlite, "only_readable", lambda path: True)
    database = Database(path)
    with database.read():
        pass
    with pytest.raises(sw.StorageError, match="changed while it was being read"), database.read():
        change(path, "UPDATE sumwise_answers SET y_bar = 6")
    database.close()


@pytest.mark.parametrize(
    ("message", "kind", "words"),
    [
        ("attempt to write a readonly database", sw.StorageError, "check the permissions"),
        ("database or disk is full", sw.StorageError, "make room and try again"),
        ("disk I/O error", sw.StorageError, "make room"),
        ("database disk image is malformed", sw.DataError, "restore it from a copy"),
        ("database is locked", sw.StorageError, "in use by others"),
        ("something new", sw.StorageError, "refused: something new"),
    ],
)
def test_what_a_database_says_is_turned_into_words(path, message, kind, words):
    database = Database(path)
    with pytest.raises(kind, match=words) as caught, database.write():
        raise sqlite3.OperationalError(message)
    assert "locked" not in str(caught.value)
    database.close()


def test_a_full_disk_leaves_what_was_there(path):
    """SQLite's own limit on pages stands for a disk without room."""
    with sw.open_study(path) as study:
        with study._database.engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

        def fill():
            for _ in range(200):
                study.tell(2, 1.0, note="x" * 9000)
                study.retract(2)

        with pytest.raises(sw.StorageError, match="everything that was stored before is intact"):
            fill()
    with sw.open_study(path) as study:
        assert study.answers[0].y_bar == 5.0
        study.tell(3, 1.0)
        told = {"told": 1, "retracted": -1}
        last = sum(told.get(event.what, 0) for event in study.history())
        assert last == len(study.answers)
