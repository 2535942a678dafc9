"""Bad values and bad files: each is refused in words that name it, and nothing is stored."""

from __future__ import annotations

import math
import shutil
import sqlite3
from contextlib import closing, contextmanager

import numpy as np
import pytest

import sumwise as sw
from sumwise.study.storage import blobs
from sumwise.study.storage.database import upgrade
from tests.builders import random_sets
from tests.reliability import invariants
from tests.reliability.scale import sized
from tests.studies import LINEAR, SETS, change, small_study

BAD = {
    "nan": (math.nan, "is nan"),
    "infinity": (math.inf, "is inf"),
    "minus infinity": (-math.inf, "is -inf"),
    "text": ("many", "is 'many'"),
    "a number as text": ("5", "is '5'"),
    "with a comma": ("1,234.5", "is '1,234.5'"),
    "nothing": (None, "is None"),
    "a list": ([1.0], r"is \[1.0\]"),
    "complex": (1j, "is 1j"),
    "too large": (1e200, "is 1e\\+200"),
}


@contextmanager
def left_alone(place, name="study"):
    """Whatever is refused here must leave no trace."""
    before = invariants.check(place, name)
    yield
    after = invariants.check(place, name)
    assert (after.events, after.changes) == (before.events, before.changes)


@pytest.fixture
def small(place):
    small_study(place)
    with sw.open_study(place) as study:
        yield study


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_total_is_named(small, place, kind):
    value, words = BAD[kind]
    with left_alone(place):
        with pytest.raises(sw.LabelError, match=f"total of set 2 {words}"):
            small.tell(2, value)
        with pytest.raises(sw.LabelError, match="total of set 1"):
            small.amend(1, value)
        with pytest.raises(sw.LabelError, match=f"row 1: total of set 3 {words}.*Nothing was st"):
            small.tell_many([2, 3, 0], [1.0, value, 2.0])
        if value is not None:
            with pytest.raises(sw.LabelError, match="row 2: noise_std of set 0 is"):
                small.tell_many([2, 3, 0], [1.0, 2.0, 3.0], noise_std=[0.1, 0.2, value])


@pytest.mark.parametrize("unknown", ["nowhere", 4, -1, 1.5, None, math.nan, "1", (1,)])
def test_an_unknown_set_is_named(small, place, unknown):
    shown = repr(unknown).replace("(", r"\(").replace(")", r"\)")
    with left_alone(place):
        with pytest.raises(sw.UnknownSetError, match=shown):
            small.tell(unknown, 1.0)
        with pytest.raises(sw.UnknownSetError, match=rf"row 1: .*{shown}.*Nothing was stored"):
            small.tell_many([2, unknown], [1.0, 2.0])


@pytest.mark.parametrize(
    ("ids", "totals", "words"),
    [
        ([], [], "no answers were given"),
        ((), np.array([]), "no answers were given"),
        ([2, 3], [1.0], "y_bar has 1 values for 2 sets"),
        ([2], [1.0, 2.0], "y_bar has 2 values for 1 sets"),
        ([2, 3], 1.0, "y_bar"),
        (2, [1.0], "set_ids"),
        ([2, 3], None, "y_bar"),
        ([2, 3, 2], [1.0, 2.0, 3.0], "row 2: set 2 is there twice, with 1 and with 3"),
        ([2, 1], [1.0, 6.0], r"row 1: set 1 is measured already \(5 at"),
    ],
)
def test_rows_that_do_not_fit_together_are_named(small, place, ids, totals, words):
    with left_alone(place), pytest.raises(sw.SumwiseError, match=words):
        small.tell_many(ids, totals)


def test_one_bad_row_in_ten_thousand_is_named_and_nothing_is_stored(place):
    n, bad = 10_000, 8_765
    sets = random_sets([1] * n, np.random.default_rng(0), n_inputs=2)
    with sw.create_study(place, sets, model=LINEAR) as study:
        study.tell(bad, -1.0, by="ann")
        with left_alone(place):
            for set_id, total, words in (
                (bad, math.nan, f"row {bad}: total of set {bad} is nan"),
                (bad, "1,234.5", f"row {bad}: total of set {bad} is '1,234.5'"),
                ("nowhere", 1.0, f"row {bad}: .*'nowhere'"),
                (bad, 1.0, rf"row {bad}: set {bad} is measured already \(-1 by 'ann'"),
            ):
                ids, totals = list(range(n)), [float(a) for a in range(n)]
                ids[bad], totals[bad] = set_id, total
                with pytest.raises(sw.SumwiseError, match=words):
                    study.tell_many(ids, totals)
        ids[bad], totals[bad] = bad, -1.0
        assert study.tell_many(ids, totals) == n - 1
        assert len(study.answers) == n
    invariants.check(place)


# --- files ----------------------------------------------------------------------------------------


def everything(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def new_study(path):
    sw.create_study(path, SETS, name="new").close()


def check_refused(path, words, calls=(sw.open_study, upgrade, new_study)):
    """Refused by every way in, with the file named, and not a byte of it changed."""
    before = everything(path.parent)
    for call in calls:
        with pytest.raises(sw.DataError, match=words) as caught:
            call(path)
        assert path.name in str(caught.value)
        assert everything(path.parent) == before


@pytest.mark.parametrize("content", [b"set,total\na,1\n" * 99, b"\0" * 5000, b"PK\3\4" + b"x" * 50])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path, content):
    (tmp_path / "totals.csv").write_bytes(content)
    check_refused(tmp_path / "totals.csv", "is not an SQLite database")


def test_an_empty_file_is_refused_and_stays_empty(tmp_path):
    (tmp_path / "empty.db").touch()
    check_refused(tmp_path / "empty.db", "holds no studies", (sw.open_study, upgrade))
    new_study(tmp_path / "empty.db")  # a place for one is all it is
    invariants.check(tmp_path / "empty.db", "new")


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_somebody_elses_database_is_refused_and_left_alone(tmp_path, mode):
    path = tmp_path / "people.db"
    change(path, f"PRAGMA journal_mode = {mode}")
    change(path, "CREATE TABLE people (name TEXT)")
    check_refused(path, "holds no studies", (sw.open_study, upgrade))
    check_refused(path, r"of something else \(it has a table 'people'\)", (new_study,))


def test_a_truncated_database_is_refused_or_whole(tmp_path):
    """Wherever it is cut off: never fewer answers, and never a stack trace."""
    whole = tmp_path / "whole.db"
    with sw.create_study(whole, random_sets([1] * 300, np.random.default_rng(0))) as study:
        study.tell_many(range(200), np.arange(200.0), note="n" * 200)
    content = whole.read_bytes()
    rng, folder = np.random.default_rng(6), tmp_path / "cut"
    cuts = {2, 15, 16, 99, 100, 512, 4095, 4096, 8192, len(content) - 4096, len(content) - 1}
    for cut in sorted(cuts | set(rng.integers(2, len(content), sized(25)).tolist())):
        folder.mkdir()
        (folder / "cut.db").write_bytes(content[:cut])
        check_refused(folder / "cut.db", "is not an SQLite database, or is damaged")
        shutil.rmtree(folder)


def test_a_log_that_was_cut_off_gives_an_earlier_moment(tmp_path):
    """As after a loss of power: what SQLite had not yet copied from its log to the file."""
    path, folder = tmp_path / "a.db", tmp_path / "cut"
    with sw.create_study(path, random_sets([1] * 100, np.random.default_rng(0))) as study:
        for a in range(20):
            study.tell(a, float(a))
            study.ask(2)
        whole, log = path.read_bytes(), (tmp_path / "a.db-wal").read_bytes()
    seen, rng = set(), np.random.default_rng(7)
    for cut in [*rng.integers(0, len(log), sized(25)).tolist(), len(log)]:
        folder.mkdir()
        (folder / "a.db").write_bytes(whole)
        (folder / "a.db-wal").write_bytes(log[:cut] + rng.bytes(int(rng.integers(0, 9000))))
        if invariants.names(folder / "a.db"):
            replay = invariants.check(folder / "a.db")
            assert sorted(replay.answers) == list(range(len(replay.answers)))
            seen.add(len(replay.answers))
        shutil.rmtree(folder)
    assert len(seen) > 5
    assert max(seen) == 20


@pytest.mark.parametrize("large", [False, True])
def test_a_changed_piece_of_a_study_is_named(tmp_path, monkeypatch, large):
    """One bit of the Parquet table, or of anything else that must stay as it was made."""
    if large:
        monkeypatch.setattr(blobs, "LARGE", 1)
    path, rng = small_study(tmp_path / "a.db"), np.random.default_rng(8)
    with closing(sqlite3.connect(path)) as connection:
        pieces = connection.execute("SELECT name, content FROM sumwise_files").fetchall()
    assert len(pieces) == (7 if large else 3)
    for name, content in pieces:
        for _ in range(3):
            spoilt = bytearray(content)
            spoilt[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
            statement = "UPDATE sumwise_files SET content = ? WHERE name = ?"
            change(path, statement, bytes(spoilt), name)
            with pytest.raises(sw.DataError, match=f"{name} .*checksum differs"):
                use_everything(path)
            change(path, statement, content, name)
    use_everything(path)


def use_everything(path):
    with sw.open_study(path) as study:
        study.status()
        return study.sets.x, study.propose(1), study.predict()


@pytest.mark.parametrize(
    ("found", "words"), [("0999", r"newer sumwise .schema 0999"), ("0000", r"older sumwise")]
)
def test_other_schemas_are_refused_on_both_databases(place, found, words):
    from sumwise.study.storage.database import Database

    small_study(place)
    database = Database(place)
    with database.write() as connection:
        connection.exec_driver_sql(f"UPDATE sumwise_version SET version_num = '{found}'")
    for call in (sw.open_study, new_study):
        with pytest.raises(sw.DataError, match=words):
            call(place)
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM sumwise_studies").scalar() == 1
    database.close()
