"""Tables in files: what is read, what is refused with its place, and files written whole."""

from __future__ import annotations

import contextlib
import csv
import math
import os
import tempfile
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pyarrow import parquet

import sumwise as sw
from sumwise.data.dialect import Dialect, Reading, place
from sumwise.data.frames import no_column
from sumwise.data.individuals import read_individuals
from sumwise.data.tables import check_output, read_table, write_table
from sumwise.data.totals import number
from sumwise.errors import DataError, LabelError, SettingError
from sumwise.outofcore import predict_parquet

TABLE = pa.table({"name": ["a", 'b "and", c', "d\ne"], "value": [1.5, -2.0, 1 / 3]})


def text(*names):
    return set(names).__contains__


def columns_of(table):
    return table.frame.to_dict(as_series=False)


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "value"),
    [("843", 843), (" -12.5\n", -12.5), ("+.5", 0.5), ("5.", 5), ("1e-3", 0.001), ("-0", 0)],
)
def test_a_number_is_read_as_it_is_written(written, value):
    assert number(written) == value


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("1,234.5", "write 1234.5$"),
        ("-1,234,567.", "write -1234567.$"),
        ("1,234", "with a point for decimals"),
        ("1234,5", "with a point for decimals"),
        ("nan", "give a finite number"),
        ("-Infinity", "give a finite number"),
        ("1e999", "too large"),
        ("12 kg", "no unit"),
        ("1_000", "digits alone"),
        ("\u0661\u0662", "digits alone"),
        ("\u22125", "digits alone"),
        ("0x10", "digits alone"),
        ("", "give a number"),
        (" \t", "give a number"),
        ("1e", "digits alone"),
        (".", "digits alone"),
    ],
)
def test_what_is_no_number_is_refused_with_what_to_write(written, hint):
    with pytest.raises(LabelError, match=hint):
        number(written)


def test_a_long_text_is_not_repeated_in_full():
    with pytest.raises(LabelError) as refusal:
        number("x" * 10_000)
    assert len(str(refusal.value)) < 300


# --- reading --------------------------------------------------------------------------------------


def test_columns_that_are_text_keep_their_zeros_and_the_rest_is_recognised(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("\ufeffcode,value,name\n007,1.5,NA\n7,2,\n", encoding="utf-8")
    assert columns_of(read_table(path, text("code", "name"))) == {
        "code": ["007", "7"],
        "value": [1.5, 2.0],
        "name": ["NA", ""],
    }
    assert columns_of(read_table(path, text()))["code"] == [7, 7]


def test_parquet_is_known_by_its_suffix_and_brings_no_columns_from_its_folder(tmp_path):
    path = tmp_path / "year=2026" / "d.PARQUET"
    path.parent.mkdir()
    parquet.write_table(TABLE, path)
    table = read_table(path, text())
    assert table.frame.columns == ["name", "value"]
    assert table.where(2) == f"{path}, row 3"


def test_string_views_name_groups_and_long_decimals_are_inputs_and_weights(tmp_path):
    numbers = pa.array([1, 2, 3]).cast(pa.decimal256(40, 2))
    groups = pa.array(["a", "b", "a"]).cast(pa.string_view())
    parquet.write_table(pa.table({"g": groups, "x": numbers, "w": numbers}), tmp_path / "d.parquet")
    sets = read_individuals(tmp_path / "d.parquet", ["g"], [], "w").sets
    assert sets.ids == ("a", "b")
    assert sets.x.ravel().tolist() == sets.theta.tolist() == [1, 3, 2]


def test_a_row_is_placed_as_an_editor_counts_lines(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text('a,b\n1,"two\nlines"\n\n2,x\n')
    assert place(path, Dialect())(0) == f"{path}, line 3"  # where the row ends
    assert place(path, Dialect())(1) == f"{path}, line 5"


def test_a_row_is_placed_even_beside_a_cell_that_is_longer_than_a_book(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("a,b\n" + "x" * 200_000 + ",1\n2,oops\n")
    table = read_table(path, text("a"))
    with pytest.raises(DataError, match=r"row 2: 'b' is 'oops', not a number"):
        table.numbers("b")


def test_a_missing_column_is_named_with_what_it_was_wanted_for(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"d\.csv has no column 'z' \(the total\); it has 'a', 'b'"):
        read_table(path, text()).require(["z"], "the total")


def test_a_table_of_many_columns_is_not_listed_in_full():
    refusal = no_column([f"c{d}" for d in range(500)], "z", "x", "the table")
    assert "'c19', …. Check" in refusal
    assert "c20" not in refusal


def test_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("a,a\n1,2\n")
    with pytest.raises(DataError, match="two columns called 'a'"):
        read_table(path, text())


# --- writing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".CSV"])
def test_what_is_written_can_be_read_back(tmp_path, suffix):
    path = tmp_path / "new" / f"out{suffix}"
    assert write_table(TABLE, path) == path
    assert columns_of(read_table(path, text("name"))) == TABLE.to_pydict()
    assert os.listdir(path.parent) == [path.name]  # nothing is left beside it


def test_a_csv_file_is_open_to_whoever_may_read_the_folder(tmp_path):
    path = write_table(TABLE, tmp_path / "out.csv")
    (tmp_path / "plain").write_text("")
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_nothing_is_overwritten_unless_that_is_said(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("mine")
    with pytest.raises(SettingError, match=r"out\.csv exists; name another file, or pass --force"):
        write_table(TABLE, path)
    assert path.read_text() == "mine"
    write_table(TABLE, path, force=True)
    assert path.read_text().startswith('"name","value"')


@pytest.mark.parametrize("name", ["out", "out.txt", "out.csv.gz", ".csv"])
def test_other_formats_are_refused_before_anything_is_written(tmp_path, name):
    with pytest.raises(SettingError, match=r"does not end in \.csv or \.parquet"):
        write_table(TABLE, tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_a_folder_in_place_of_the_file_is_refused(tmp_path):
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(SettingError, match="is a folder"):
        check_output(tmp_path / "out.csv", force=True)


def test_a_table_that_a_format_cannot_hold_leaves_the_old_file_as_it_was(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("mine")
    with pytest.raises(DataError, match=r"cannot hold this table .* \.parquet holds more"):
        write_table(pa.table({"a": [[1], [2]]}), path, force=True)
    assert path.read_text() == "mine"
    assert os.listdir(tmp_path) == ["out.csv"]


def test_a_place_that_cannot_be_written_is_refused_in_words(tmp_path):
    (tmp_path / "note").write_text("")
    with pytest.raises(SettingError, match=r"cannot be written \((Not a directory|File exists)\)"):
        write_table(TABLE, tmp_path / "note" / "out.csv")


def test_a_reader_never_sees_half_a_file(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("mine")
    with path.open() as reader:
        write_table(TABLE, path, force=True)
        assert reader.read() == "mine"  # the file that was opened, which has lost its name


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    monkeypatch.setattr(os, "fsync", lambda number: path.write_text("theirs"))
    with pytest.raises(SettingError, match="exists"):
        write_table(TABLE, path)
    assert path.read_text() == "theirs"
    assert os.listdir(tmp_path) == ["out.csv"]


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SettingError, match=r"cannot be written \(No space left"):
        write_table(TABLE, tmp_path / "out.parquet")
    assert os.listdir(tmp_path) == []


def test_the_text_among_truths_is_named_and_not_the_first_truth(tmp_path):
    (tmp_path / "a.csv").write_text("id,small\n1,False\n2,maybe\n")
    with pytest.raises(DataError, match="line 3: 'small' is 'maybe', not a number"):
        read_table(tmp_path / "a.csv", lambda name: False).numbers("small")


# --- formulas -------------------------------------------------------------------------------------

ODD_TEXT = st.text("=+-@\t\r\n'5.e;a", min_size=1, max_size=6)


def is_harmless(cell):
    """Whether a spreadsheet shows this as it is, or as a number."""
    with contextlib.suppress(ValueError):
        return math.isfinite(float(cell))
    return cell[:1] not in tuple("=+-@\t\r\n")


@given(st.lists(ODD_TEXT, min_size=1, max_size=5), st.lists(ODD_TEXT, min_size=2, max_size=2))
def test_text_that_looks_like_a_formula_is_harmless_in_csv_and_read_back_as_it_was(texts, names):
    assume(names[0] != names[1])
    values = [-1.5 * n for n in range(len(texts))]
    columns = {names[0]: texts, names[1]: values}
    kinds = (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))
    for kind in kinds:
        written = pa.table([pa.array(texts).cast(kind), pa.array(values)], names=names)
        with tempfile.TemporaryDirectory() as folder:
            path = write_table(written, Path(folder, "t.csv"))
            with path.open(newline="", encoding="utf-8") as file:
                cells = [cell for row in csv.reader(file) for cell in row]
            assert all(map(is_harmless, cells)), cells
            reading = Reading(sep=",", decimal=".")
            assert columns_of(read_table(path, text(names[0]), reading)) == columns


def test_a_table_that_another_program_wrote_is_read_as_it_is_written(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("name,value\n=a,1\n'=a,2\n'-5,3\n")
    assert columns_of(read_table(file, text("name")))["name"] == ["=a", "'=a", "'-5"]


@pytest.mark.parametrize("by", ["set", "a\ud800"])
def test_a_column_name_that_no_file_can_hold_is_refused(by):
    table = pd.DataFrame({"set": ["a", "b"], "x": [1.0, 2.0], "third": ["a", "b"]})
    table.columns = pd.Index(["set", "x", "a\ud800"], dtype=object)
    with pytest.raises(sw.InvalidSetError, match="not valid Unicode; correct its name"):
        sw.Sets.from_frame(table, by=by, x=["x"])


def test_streamed_predictions_mark_formulas_too(tmp_path):
    table = pa.table({"set": ["=1+1", "=1+1", "b"], "x": [0.0, 1.0, 2.0]})
    parquet.write_table(table, tmp_path / "a.parquet")
    scan = sw.Sets.scan_parquet(tmp_path / "a.parquet", by="set", x=["x"])
    model = sw.AggregateRegressor("linear")
    design = model.embed(scan, tmp_path / "a.design")
    with sw.create_study(tmp_path / "a.db", design, model=model) as study:
        study.tell("b", 1.0)
        fitted = study.model.fitted()
    predict_parquet.predict(fitted, scan, str(tmp_path / "p.csv"), 0.9, map)
    with (tmp_path / "p.csv").open(newline="") as file:
        assert [row["set"] for row in csv.DictReader(file)] == ["'=1+1", "'=1+1", "b"]
