"""Copies of a database: made and put back by `sumwise storage`, or by `cp` under an open study."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

import sumwise as sw
from sumwise.study.storage import main_file
from sumwise.study.storage.backup import backup, restore
from sumwise.study.storage.database import Database
from tests.studies import LINEAR, copy_of

SETS = sw.Sets.from_arrays([[[float(a)]] for a in range(60)])


@pytest.fixture(autouse=True)
def short_logs(monkeypatch):
    monkeypatch.setattr(main_file, "LOG_BYTES", 200_000)


def made(path):
    with sw.create_study(path, SETS, model=LINEAR) as study:
        study.tell_many(range(10), [float(a) for a in range(10)])


@pytest.fixture
def path(tmp_path):
    return str(copy_of(made, tmp_path / "s.db"))


def copied(path):
    """By `cp`, while no one has the file open."""
    return shutil.copyfile(path, path + ".copy")


def by_sqlite(path):
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(path + ".copy")) as copy:
        source.backup(copy)
    return path + ".copy"


def packed_again(path):
    with closing(sqlite3.connect(path)) as source:
        source.execute("VACUUM INTO ?", (path + ".copy",))
    return path + ".copy"


def by_us(path):
    backup(path, path + ".copy")
    return path + ".copy"


def cp(copy, path):
    shutil.copyfile(copy, path)


def cp_and_rm(copy, path):
    shutil.copyfile(copy, path)
    for end in ("-wal", "-shm"):
        os.unlink(path + end)


def in_place(copy, path):
    """As `rsync --inplace` writes."""
    with open(copy, "rb") as source, open(path, "r+b") as file:
        file.write(source.read())
        file.truncate()


def half(copy, path):
    """A copy that is still being written."""
    with open(copy, "rb") as source, open(path, "wb") as file:
        file.write(source.read(8192))


def grow(study, n):
    """Write until SQLite's log was moved into the file."""
    for a in range(n):
        study.amend(0, float(a), note="x" * 9_000)


def told_in(path, copy):
    """What is there afterwards; if the file is refused, once the copy is restored."""
    with suppress(sw.StorageError), sw.open_study(path) as study:
        return {answer.set_id for answer in study.answers}
    restore(path, copy)
    with sw.open_study(path) as study:
        return {answer.set_id for answer in study.answers}


@pytest.mark.parametrize("puts", [cp, cp_and_rm, in_place, half])
@pytest.mark.parametrize("makes", [copied, by_sqlite, packed_again, by_us])
@pytest.mark.parametrize("since", [0, 5, 40])
def test_a_copy_that_is_written_over_an_open_study_is_noticed(path, makes, puts, since):
    copy = makes(path)
    study = sw.open_study(path)
    study.tell_many(range(10, 20), [1.0] * 10)
    grow(study, since)
    puts(copy, path)
    with pytest.raises(sw.StorageError, match="changed by another program"):
        study.tell(30, 1.0)
    with pytest.raises(sw.StorageError, match="storage restore"):
        study.history()
    study.close()
    restore(path, copy) if puts is half else None
    told = told_in(path, copy)
    assert told in ({*range(10)}, {*range(20)})
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_program_that_comes_later_notices_a_copy_under_a_log(path):
    copy = by_us(path)
    with sw.open_study(path) as study:
        study.tell(30, 1.0)
        cp(copy, path)
        with pytest.raises(sw.StorageError, match="changed by another program"):
            sw.open_study(path)


def test_the_log_goes_into_the_file_and_stays_short(path):
    with sw.open_study(path) as study:
        grow(study, 40)
        assert os.path.getsize(path + "-wal") < 2 * main_file.LOG_BYTES
        assert main_file.on_disk(path).version > 3
        assert os.path.getsize(path) > main_file.LOG_BYTES
        with sw.open_study(path) as other:
            other.tell(20, 1.0)
        study.tell(21, 1.0)
    assert not os.path.exists(path + "-wal")


def test_a_file_of_before_is_marked_and_then_watched(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id = 0")
        connection.execute("PRAGMA user_version = 0")
    copy = copied(path)
    with sw.open_study(path) as study:
        study.tell(30, 1.0)
        grow(study, 40)
        cp(copy, path)
        with pytest.raises(sw.StorageError, match="changed by another program"):
            study.tell(31, 1.0)


def test_a_backup_is_of_one_moment_and_can_be_put_back(path, tmp_path):
    with sw.open_study(path) as study:
        study.tell(10, 7.0)
        assert backup(path, tmp_path / "copy.db") == ["study"]
        study.tell(11, 8.0)
        kept, found = restore(path, tmp_path / "copy.db")
        assert found == ["study"]
        with pytest.raises(sw.StorageError, match="open it again"):
            study.tell(12, 9.0)
    with sw.open_study(path) as study:
        assert [answer.set_id for answer in study.answers] == [*range(11)]
        study.tell(12, 9.0)
    with sw.open_study(kept) as former:
        assert [answer.set_id for answer in former.answers] == [*range(12)]
    assert sorted(os.listdir(tmp_path)) == sorted(["s.db", "copy.db", os.path.basename(kept)])


def test_a_damaged_database_can_be_replaced_by_a_copy(path, tmp_path):
    backup(path, tmp_path / "copy.db")
    with open(path, "r+b") as file:
        file.truncate(5000)
    kept, _ = restore(path, tmp_path / "copy.db")
    assert os.path.getsize(kept) == 5000
    sw.open_study(path).close()


def test_a_copy_that_is_damaged_is_not_put_in_place(path, tmp_path):
    copy = by_us(path)
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("UPDATE sumwise_files SET content = x'00' WHERE name = 'basis'")
    before = Path(path).read_bytes()
    with pytest.raises(sw.DataError, match="is damaged"):
        restore(path, copy)
    with pytest.raises(sw.DataError, match="no file"):
        restore(path, tmp_path / "none.db")
    with pytest.raises(sw.SettingError, match="itself"):
        restore(path, path)
    with pytest.raises(sw.SettingError, match="exists"):
        backup(path, copy)
    with pytest.raises(sw.SettingError, match="pg_dump"):
        backup("postgresql://ann@nowhere/lab", copy)
    assert Path(path).read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["s.db", "s.db.copy"]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER more AFTER INSERT ON sumwise_answers "
        "BEGIN UPDATE sumwise_answers SET y_bar = 1000 * y_bar; END",
        "CREATE VIEW more AS SELECT * FROM sumwise_answers",
    ],
)
def test_programs_in_a_database_are_refused_before_and_after_it_is_opened(path, statement):
    copy = by_us(path)
    with sw.open_study(path) as study:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)
        with pytest.raises(sw.DataError, match="'more', which sumwise has not made"):
            study.tell(30, 5.0)
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute(statement)
    refused = pytest.raises(sw.DataError, match="'more', which sumwise has not made")
    for use in (
        lambda: sw.open_study(copy),
        lambda: restore(path, copy),
        lambda: backup(copy, copy + "2"),
        lambda: sw.create_study(copy, SETS, name="second"),
        lambda: Database(copy).require(older=True),
    ):
        with refused:
            use()


@pytest.mark.parametrize("anew", [False, True])
def test_a_log_that_is_removed_under_an_open_study_is_noticed(path, anew):
    with sw.open_study(path) as study:
        study.tell(30, 1.0)
        for end in ("-wal", "-shm"):
            os.rename(path + end, path + end + ".former")
        if anew:  # as a program makes it that comes later
            Path(path + "-wal").touch()
        with pytest.raises(sw.StorageError, match="changed by another program"):
            study.tell(31, 1.0)
