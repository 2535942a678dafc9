"""Files that are replaced, linked or edited under a study, and rows nobody of ours has written."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3

import pandas as pd
import pytest
import sqlalchemy as sa

import sumwise as sw
from sumwise.study.storage.database import Database
from tests.studies import copy_of

IDS = ["A", "B", "C"]
SETS = sw.Sets.from_arrays([[[0.0]], [[1.0]], [[2.0], [3.0]]], ids=IDS)


def made(path):
    with sw.create_study(path, SETS) as study:
        study.tell("A", 1.0, noise_std=0.5)
        study.skip("C")
        study.ask()


@pytest.fixture
def path(tmp_path):
    return copy_of(made, tmp_path / "s.db")


def edit(path, statement, *values):
    with sqlite3.connect(path) as connection:
        assert connection.execute(statement, values).rowcount >= 1
    connection.close()


# --- the file ---------------------------------------------------------------------------------


def test_what_is_told_to_a_file_that_was_removed_is_not_acknowledged(path):
    with sw.open_study(path) as study:
        assert len(study.answers) == 1
        for end in ("", "-wal", "-shm"):
            if os.path.exists(f"{path}{end}"):
                os.unlink(f"{path}{end}")
        with pytest.raises(sw.StorageError, match="removed or replaced by another file"):
            study.tell("B", 2.0)
        with pytest.raises(sw.StorageError, match="open it again"):
            study.history()
    assert not path.exists()


def test_a_file_that_goes_while_something_is_written_is_noticed_afterwards(path):
    database = Database(path)
    database.require()

    def write():
        with database.write() as connection:
            connection.execute(sa.text("UPDATE sumwise_answers SET note = 'x'"))
            os.unlink(path)

    with pytest.raises(sw.StorageError, match="removed or replaced"):
        write()
    database.close()


def test_a_copy_that_is_put_back_under_an_open_study_stays_as_it_is(path, tmp_path):
    shutil.copy(path, tmp_path / "copy.db")
    with sw.open_study(path) as study:
        study.retract("A")
        for end in ("-wal", "-shm"):  # as the docs say; SQLite would take it for the copy's
            os.unlink(f"{path}{end}")
        os.replace(tmp_path / "copy.db", path)
        with pytest.raises(sw.StorageError, match="Nothing was stored"):
            study.tell("B", 2.0)
    with sw.open_study(path) as study:
        assert [answer.set_id for answer in study.answers] == ["A"]
        study.tell("B", 2.0)


def test_a_link_shows_what_is_still_in_the_log_beside_the_file(path, tmp_path):
    links = tmp_path / "links"
    links.mkdir()
    (links / "l.db").symlink_to(path)
    with sw.open_study(path) as study:
        study.tell("B", 2.0)
        assert os.path.exists(f"{path}-wal")
        with sw.open_study(links / "l.db") as linked:
            assert len(linked.answers) == 2
            linked.tell("C", 3.0)
        assert len(study.answers) == 3
    assert os.listdir(links) == ["l.db"]


# --- rows -------------------------------------------------------------------------------------

WRONG = {
    "text for a total": ("UPDATE sumwise_answers SET y_bar = ?", "abc"),
    "bytes for a total": ("UPDATE sumwise_answers SET y_bar = ?", b"1"),
    "a total that overflows": ("UPDATE sumwise_answers SET y_bar = ?", 1e300),
    "text for noise": ("UPDATE sumwise_answers SET noise_std = ?", "abc"),
    "an answer for no set": ("UPDATE sumwise_answers SET position = ?", 99),
    "an answer before the first set": ("UPDATE sumwise_answers SET position = ?", -1),
    "an answer between sets": ("UPDATE sumwise_answers SET position = ?", 0.5),
    "a claim before the first set": ("UPDATE sumwise_claims SET position = ?", -1),
    "a skip before the first set": ("UPDATE sumwise_skips SET position = ?", -1),
    "a negative count": ("UPDATE sumwise_studies SET questions = ?", -5),
    "text for a count": ("UPDATE sumwise_studies SET questions = ?", "x"),
    "a count without room": ("UPDATE sumwise_studies SET questions = ?", 2**63 - 1),
    "a negative seed": ("UPDATE sumwise_studies SET seed = ?", "-3"),
    "text for a seed": ("UPDATE sumwise_studies SET seed = ?", "x"),
    "text for days": ("UPDATE sumwise_studies SET claim_days = ?", "x"),
    "days without end": ("UPDATE sumwise_studies SET claim_days = ?", 1e300),
    "settings without bottom": ("UPDATE sumwise_studies SET config = ?", "[" * 100_000),
}


@pytest.mark.parametrize("case", WRONG)
def test_rows_that_were_changed_are_refused_in_words(path, case):
    edit(path, *WRONG[case])
    with (
        pytest.raises(sw.DataError, match=r"restore the database from a copy|cannot be read"),
        sw.open_study(path) as study,
    ):
        study.status()


@pytest.mark.parametrize(
    ("column", "value"),
    [("question", "{"), ("question", "[]"), ("question", "{}"), ("position", 99)],
)
def test_history_that_was_changed_is_refused_in_words(path, column, value):
    edit(path, f"UPDATE sumwise_events SET {column} = ? WHERE what = 'asked'", value)
    with sw.open_study(path) as study:
        with pytest.raises(sw.DataError, match=r"restore the database from a copy|no name"):
            study.history()
        assert len(study.answers) == 1


# --- files beside the database ----------------------------------------------------------------


@pytest.fixture
def beside(tmp_path):
    sw.create_study(tmp_path / "f.db", SETS, sets_file=str(tmp_path / "sets.parquet")).close()
    return tmp_path / "f.db"


def refer(database, **changes):
    """Another reference to the sets' file, with a checksum of its own that fits."""
    with sqlite3.connect(database) as connection:
        (text,) = connection.execute(
            "SELECT content FROM sumwise_files WHERE name = 'sets_file'"
        ).fetchone()
        known = {**json.loads(text), **changes}
        left = {name: value for name, value in known.items() if value is not ...}
        content = json.dumps(left).encode()
        connection.execute(
            "UPDATE sumwise_files SET content = ?, sha256 = ? WHERE name = 'sets_file'",
            (content, hashlib.sha256(content).hexdigest()),
        )
    connection.close()


def test_a_pipe_is_no_file_of_sets(beside, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    refer(beside, path="fifo")
    with pytest.raises(sw.DataError, match="no such file"):
        sw.open_study(beside)  # and does not wait for somebody to write to it


@pytest.mark.parametrize(
    "changes",
    [{"sha256": ...}, {"bytes": ...}, {"path": ...}, {"path": "a\0b"}, {"path": "\ud800"},
     {"path": 5}, {"bytes": "5"}, {"sha256": 5}],
)  # fmt: skip
def test_a_reference_that_was_changed_is_refused_in_words(beside, changes):
    refer(beside, **changes)
    with pytest.raises(sw.DataError, match=r"cannot be read|no such file|has changed since"):
        sw.open_study(beside)


def test_a_file_of_another_length_is_not_read(beside, tmp_path):
    (tmp_path / "large").write_bytes(b"x" * 10_000)
    refer(beside, path="large")
    with pytest.raises(sw.DataError, match="has changed since"):
        sw.open_study(beside)


def test_a_sets_file_that_exists_leaves_no_database_behind(tmp_path):
    (tmp_path / "there.parquet").touch()
    with pytest.raises(sw.SettingError, match="exists; name another file"):
        sw.create_study(tmp_path / "n.db", SETS, sets_file=str(tmp_path / "there.parquet"))
    assert not (tmp_path / "n.db").exists()


# --- ids and arguments ------------------------------------------------------------------------


def test_ids_that_cannot_be_kept_exactly_are_refused_before_anything_is_made(tmp_path):
    times = pd.to_datetime([1, 2, 3], unit="ns")
    sets = sw.Sets.from_arrays([[[0.0]], [[1.0]], [[2.0]]], ids=list(times))
    with pytest.raises(sw.InvalidSetError, match="nanoseconds"):
        sw.create_study(tmp_path / "t.db", sets)
    assert not (tmp_path / "t.db").exists()


def test_small_slips_of_arguments_are_refused_in_words(path):
    with sw.open_study(path) as study:
        for n in ("x", 2.5, True, 0):
            with pytest.raises(sw.SettingError, match="n is"):
                study.propose(n)
        with pytest.raises(sw.SettingError, match="level is"):
            study.predict(level=1 - 1e-16)
        with pytest.raises(sw.LabelError, match="give one finite number"):
            study.tell("B", True)
