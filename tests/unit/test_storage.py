"""Databases: what is kept, what is refused in words, versions, and secrets."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

import sumwise as sw
from sumwise.storage import database as databases
from sumwise.storage.database import Database, upgrade
from sumwise.storage.schema import VERSION, metadata
from tests.builders import random_sets
from tests.first_database import FIRST, QUESTIONS

SETS = random_sets([1, 2, 3, 2], np.random.default_rng(0))
LINEAR = sw.AggregateRegressor("linear")


@pytest.fixture
def path(tmp_path):
    """A small study, closed."""
    with sw.create_study(tmp_path / "a.db", SETS, model=LINEAR) as study:
        study.tell(1, 5.0)
    return tmp_path / "a.db"


def change(path, statement, *values):
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


# --- several studies ------------------------------------------------------------------------------


def test_several_studies_live_in_one_database(path):
    with sw.create_study(path, SETS, model=LINEAR, name="zwei") as other:
        assert other.answers == ()
    with pytest.raises(sw.DataError, match=r"holds 2 studies: 'study', 'zwei'\. Say which"):
        sw.open_study(path)
    with sw.open_study(path, "study") as study:
        assert len(study.answers) == 1
        assert study.name == "study"
    with pytest.raises(sw.DataError, match="holds no study called 'drei'; there is 'study', 'zw"):
        sw.open_study(path, "drei")
    with pytest.raises(sw.SettingError, match="there is a study called 'zwei' already"):
        sw.create_study(path, SETS, model=LINEAR, name="zwei")


def test_a_hostile_name_is_only_a_name(tmp_path):
    name = "'; DROP TABLE sumwise_studies; --\n\u202e<script>"
    with sw.create_study(tmp_path / "a.db", SETS, model=LINEAR, name=name) as study:
        study.tell(0, 1.0, by=name, note=name)
        study.ask(by=name)
    with sw.open_study(tmp_path / "a.db", name) as study:
        assert study.answers[0].note == name
        assert study.claims[0].by == name


@pytest.mark.parametrize(
    "name", ["file:x?mode=memory", "a b'\"?&%41.db", "-rf", "ü\n.db", b"\xff.db", "..db", "x;y|z"]
)
def test_a_hostile_file_name_is_only_a_file_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    file = Path(os.fsdecode(name))
    with sw.create_study(file, SETS, model=LINEAR) as study:
        study.tell(0, 1.0)
    assert os.fsencode(file.name) in os.listdir(os.fsencode(tmp_path))
    with sw.open_study(os.fspath(file)) as study:
        assert len(study.answers) == 1


def test_an_sqlite_url_is_a_path(path):
    with sw.open_study(f"sqlite:///{path}") as study:
        assert len(study.answers) == 1


# --- refused in words -----------------------------------------------------------------------------


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
        with pytest.raises(sw.DataError, match=r"schools.csv' is no SQLite database"):
            call(file)
    assert file.read_bytes() == content


def test_a_folder_is_no_database(tmp_path):
    with pytest.raises(sw.SumwiseError):
        sw.open_study(tmp_path)


def test_an_empty_file_and_somebody_elses_database_hold_no_studies(tmp_path):
    (tmp_path / "empty.db").touch()
    with pytest.raises(sw.DataError, match="holds no studies"):
        sw.open_study(tmp_path / "empty.db")
    change(tmp_path / "other.db", "CREATE TABLE people (name TEXT)")
    with pytest.raises(sw.DataError, match="holds no studies"):
        sw.open_study(tmp_path / "other.db")
    with pytest.raises(sw.DataError, match="holds no studies; there is nothing to upgrade"):
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
        ("UPDATE sumwise_studies SET strategy = 'os.system'", "incomplete"),
        ("UPDATE sumwise_studies SET config = '{}'", "model settings cannot be read"),
        ("UPDATE sumwise_answers SET position = 99", "a set that it does not have"),
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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to everything")
def test_a_read_only_file_is_refused_in_words(path):
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        with pytest.raises(sw.StorageError, match=r"cannot be written|refused"):
            sw.open_study(path).tell(2, 1.0)
    finally:
        path.parent.chmod(0o755)


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


# --- settings of SQLite ---------------------------------------------------------------------------


def test_sqlite_is_durable_and_in_wal_mode(path):
    database = Database(path)
    with database.read() as connection:
        for pragma, value in (("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1)):
            assert connection.exec_driver_sql(f"PRAGMA {pragma}").scalar() == value
        with pytest.raises(sa.exc.IntegrityError):
            connection.exec_driver_sql("INSERT INTO sumwise_files VALUES (99, 'x', x'00', '')")
    database.close()
    database.close()


def test_a_write_that_raises_leaves_nothing(path):
    database = Database(path)

    def fail():
        with database.write() as connection:
            connection.exec_driver_sql("DELETE FROM sumwise_answers")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with sw.open_study(path) as study:
        assert len(study.answers) == 1
    database.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_connection_is_not_shared_with_a_fork(path, monkeypatch):
    database = Database(path)
    first = database.engine
    assert database.engine is first
    monkeypatch.setattr(databases.os, "getpid", lambda: -1)
    assert database.engine is not first
    database.close()
    first.dispose()


# --- versions -------------------------------------------------------------------------------------


def test_a_newer_schema_is_refused(path):
    change(path, "UPDATE sumwise_version SET version_num = '0999'")
    for call in (sw.open_study, upgrade, lambda url: sw.create_study(url, SETS, name="b")):
        with pytest.raises(sw.DataError, match=r"a newer sumwise .schema 0999.* pip install --upg"):
            call(path)


def test_an_older_schema_says_how_to_upgrade(path):
    change(path, "UPDATE sumwise_version SET version_num = '0000'")
    with pytest.raises(sw.DataError, match=r"older sumwise .* sumwise storage upgrade"):
        sw.open_study(path)


def test_upgrading_what_is_new_already_changes_nothing(path):
    upgrade(path)
    with sw.open_study(path) as study:
        assert len(study.answers) == 1


def test_the_migrations_make_the_tables_that_the_code_describes(place):
    """From nothing, step by step, and in one go: the same tables."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from sumwise.storage.migrations import migrate

    database = Database(place)
    with database.write() as connection:
        migrate(connection)
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = [
            d for d in compare_metadata(context, metadata) if "sumwise_version" not in str(d)
        ]
    assert differences == []
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT * FROM sumwise_version").scalar() == VERSION
    with sw.create_study(place, SETS, model=LINEAR) as study:
        study.tell(1, 2.0)
        assert study.ask().set_id != 1
    database.close()


def test_opening_a_study_does_not_import_alembic():
    import subprocess

    program = "import sys, sumwise.study; print('alembic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_a_database_of_the_first_version_is_opened_and_goes_on(tmp_path):
    """Made by `python -m tests.first_database` when 0001 was released, and never again."""
    shutil.copy(FIRST, tmp_path / "first.db")
    upgrade(tmp_path / "first.db")
    for name, asked in QUESTIONS.items():
        with sw.open_study(tmp_path / "first.db", name) as study:
            assert len(study.answers) == 3
            assert [event.what for event in study.history()[:2]] == ["created", "asked"]
            assert study.answers[0].noise_std == (2.5 if name == "evidence" else None)
            assert study.claims == ()  # long expired
            assert study.ask(2)[0].set_id == asked


# --- secrets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2@127.0.0.1:1/db",
        "postgres://me@127.0.0.1:1/db?password=hunter2",
        "postgresql://me:hunter2@127.0.0.1:1/db?connect_timeout=2&sslpassword=hunter2",
    ],
)
def test_passwords_are_never_shown(url):
    pytest.importorskip("psycopg")
    with pytest.raises(sw.StorageError, match=r"127\.0\.0\.1") as caught:
        sw.open_study(url)
    error = caught.value
    assert "hunter2" not in str(error)
    assert "***" in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_a_url_that_cannot_be_read_is_not_repeated():
    with pytest.raises(sw.DataError, match="cannot be read") as caught:
        sw.open_study("postgresql://me:hunter2@[host:port/db")
    assert "hunter2" not in str(caught.value)


def test_without_psycopg_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(sw.MissingExtraError, match=r"pip install 'sumwise\[postgres\]'"):
        sw.open_study("postgresql://me@127.0.0.1:1/db")


def test_only_public_names_are_offered():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sw.nothing
