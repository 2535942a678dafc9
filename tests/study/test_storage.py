"""Databases: what is kept, versions, and secrets."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

import sumwise as sw
from sumwise.study.storage import database as databases
from sumwise.study.storage.database import Database, upgrade
from sumwise.study.storage.schema import VERSION, metadata
from tests.first_database import FIRST, QUESTIONS
from tests.studies import LINEAR, SETS, change, small_study


@pytest.fixture
def path(tmp_path):
    return small_study(tmp_path / "a.db")


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

    from sumwise.study.storage.migrations import migrate

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

    program = "import sys, sumwise.study.study; print('alembic' in sys.modules)"
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
