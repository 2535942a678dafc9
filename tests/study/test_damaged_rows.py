"""Any value in any column of any table: each way of reading works, or refuses in words."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress

import pytest

import sumwise as sw
from sumwise.study.storage import records
from tests.studies import change

VALUES = [
    *(None, "", "abc", b"1", b"\xff", -1, 0, 0.5, 10**18, -(2**63), 1e300, float("inf")),
    *("[", "{}", "null", '"\\ud800"', "[" * 3000, "-5", "1e400", "[99]", "[1, 1]", "x\0y"),
]
SETS = sw.Sets.from_arrays([[[0.0], [1.0]], [[1.0]], [[2.0], [3.0]], [[4.0]]], ids=list("ABCD"))
MODEL = sw.AggregateRegressor("linear", hyperparameters="adam")
COLUMNS = [(table.name, column.name) for table in records.KINDS for column in table.columns]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "s.db"
    with sw.create_study(path, SETS, model=MODEL) as study:
        study.tell("A", 1.0, noise_std=0.5, note="n", by="ann")
        study.tell("B", 2.0)
        study.amend("B", 3.0)
        study.skip("C", by="bob", note="far")
        study.ask(by="cleo")
        study.predict()
    return path


def reads(path, folder):
    yield lambda: records.overview(path)
    with sw.open_study(path) as study:
        yield study.status
        yield study.predict
        yield lambda: [str(line) for line in study.history()]
        yield lambda: (repr(study), study.answers, study.claims, study.skips)
        yield lambda: study.propose(1)
        yield lambda: study.export(folder)
    shutil.rmtree(folder, ignore_errors=True)


def check(whole, folder, table, column, values):
    for value in values:
        path = shutil.copy(whole, folder / "d.db")
        try:
            change(path, f'UPDATE {table} SET "{column}" = ?', value)
        except sqlite3.IntegrityError:
            continue
        with suppress(sw.SumwiseError):  # it cannot be opened
            for read in reads(path, folder / "e"):
                with suppress(sw.SumwiseError):
                    read()


@pytest.mark.slow
@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_whatever_a_row_holds_is_read_or_refused_in_words(whole, tmp_path, table, column):
    check(whole, tmp_path, table, column, VALUES)


@pytest.mark.parametrize(
    ("table", "column"),
    [("claims", "expires"), ("events", "position"), ("skips", "position"), ("studies", "name")],
)
def test_what_once_ended_in_a_traceback_is_refused_in_words(whole, tmp_path, table, column):
    check(whole, tmp_path, f"sumwise_{table}", column, [b"1", "", 10**18])


@pytest.mark.parametrize("value", [b"0005", 5, "", "abc"])
def test_a_version_that_is_none_is_refused_in_words(whole, tmp_path, value):
    path = shutil.copy(whole, tmp_path / "d.db")
    change(path, "UPDATE sumwise_version SET version_num = ?", value)
    with pytest.raises(sw.DataError, match="schema"):
        sw.open_study(path)


def test_people_and_notes_are_text_in_the_shell(whole, tmp_path):
    for table in ("claims", "skips", "answers"):
        path = shutil.copy(whole, tmp_path / "d.db")
        change(path, f'UPDATE sumwise_{table} SET "by" = ?', b"1")
        with (
            pytest.raises(sw.DataError, match="not as sumwise wrote them"),
            closing(sw.open_study(path)) as study,
        ):
            study.status()
