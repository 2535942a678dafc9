"""A labelled table from CSV and Parquet, and refusals that name the place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from sumwise.errors import DataError
from sumwise.experiments.datasets import read_labelled
from tests.tables import write_csv


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return read_labelled(write_csv(tmp_path_factory.mktemp("data") / "data.csv"), ["g"], "y")


# --- reading --------------------------------------------------------------------------------------


def test_all_other_columns_are_inputs(table):
    assert table.x == ("a", "b")
    assert table.left_out == {"note": "it is the same in every row"}
    assert table.n_groups == 12
    assert table.data.x.shape == (len(table.data.y), 2)


def test_inputs_are_those_that_were_named_in_that_order(tmp_path):
    table = read_labelled(write_csv(tmp_path / "d.csv"), ["g"], "y", ["b", "a", "b"])
    other = read_labelled(tmp_path / "d.csv", ["g"], "y")
    assert table.x == ("b", "a")
    assert table.left_out == {}
    np.testing.assert_array_equal(table.data.x, other.data.x[:, 1::-1])


def test_rows_of_a_group_need_not_stand_together_and_007_is_not_7(tmp_path):
    (tmp_path / "d.csv").write_text("g,y,a\n007,1,1\n7,2,2\nNA,3,3\n007,4,4\n")
    table = read_labelled(tmp_path / "d.csv", ["g"], "y")
    assert table.data.group.tolist() == [0, 1, 2, 0]


def test_several_columns_together_name_the_group(tmp_path):
    (tmp_path / "d.csv").write_text("g,year,y,a\na,1,1,1\na,2,2,2\nb,1,3,3\na,1,4,4\n")
    table = read_labelled(tmp_path / "d.csv", ["g", "year"], "y")
    assert table.data.group.tolist() == [0, 1, 2, 0]
    assert table.x == ("a",)


def test_a_column_may_be_group_and_input_where_that_is_said(tmp_path):
    (tmp_path / "d.csv").write_text("year,y\n2001,1\n2002,2\n2003,3\n")
    table = read_labelled(tmp_path / "d.csv", ["year"], "y", ["year"])
    assert table.data.x[:, 0].tolist() == [2001, 2002, 2003]


def test_parquet_gives_the_same_as_csv(tmp_path, table):
    rows = {"g": table.data.group, "y": table.data.y, "a": table.data.x[:, 0]}
    rows |= {"b": table.data.x[:, 1], "flag": table.data.y > 10}
    parquet.write_table(pyarrow.table(rows), tmp_path / "d.parquet")
    again = read_labelled(tmp_path / "d.parquet", ["g"], "y")
    assert again.x == ("a", "b", "flag")
    np.testing.assert_array_equal(again.data.x[:, :2], table.data.x[:, :2])
    np.testing.assert_array_equal(again.data.group, table.data.group)


# --- refusals -------------------------------------------------------------------------------------

REFUSED = {
    "an empty file": (b"", "is empty"),
    "a heading alone": (b"g,y,a\n", "has a heading and no rows"),
    "no table": (
        b"\x89PNG\r\n\x1a\n\0\xff",
        "holds a zero byte, which no text has",
    ),
    "another encoding": (b"g,y,a\n\x81,1,1\n", "line 2: .* neither UTF-8 nor Windows-1252"),
    "a short line": (b"g,y,a\na,1,1\n\nb,2\n", r"line 4: there are 2 cells .* heading has 3"),
    "two columns of one name": (b"g,y,a,a\n1,2,3,4\n", "two columns called 'a'"),
    "no group column": (b"group,y,a\n1,2,3\n", r"no column 'g' \(given as --by\); .* 'group', 'y'"),
    "no target column": (b"g,z,a\n1,2,3\n", r"no column 'y' \(given as --y\)"),
    "colons": (b"g:y:a\n1:2:3\n", r"has 'g:y:a'"),
    "no inputs": (b"g,y,t\n1,2,\n", "has no input columns"),
    "text in the target": (
        b'g,y,a\n"1\n1",2,3\n\n2,much,4\n',
        "line 5, .*: 'y' is 'much'",
    ),
    "a missing target": (b"g,y,a\n1,2,3\n2,,4\n", "line 3, set '2': 'y' is missing"),
    "a mistyped input": (b"g,y,a\n1,2,3\n2,1,4O\n", "line 3: 'a' is '4O', not a number"),
    "an infinite input": (b"g,y,a\n1,2,inf\n2,3,1\n", "line 2: 'a' is inf; give a finite number"),
    "a missing group": (b"g,y,a\n1,2,3\n,3,3\n", "line 3: 'g' is missing"),
    "a constant target": (
        b"g,y,a\n1,2,3\n2,2,4\n3,2,4\n",
        "'y' goes from 2 to 2; a target must vary",
    ),
    "a target out of range": (
        b"g,y,a\n1,1e200,3\n2,2,4\n3,2,4\n",
        "goes from 2 to 1e.200; .* less than 1e100",
    ),
    "one group": (b"g,y,a\n1,2,3\n1,3,4\n", "has 1 group by 'g'; at least 3"),
    "two groups": (b"g,y,a\n1,2,3\n2,3,4\n", "has 2 groups by 'g'; at least 3"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_with_its_place(case, tmp_path):
    content, message = REFUSED[case]
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as refusal:
        read_labelled(path, ["g"], "y")
    assert str(path) in str(refusal.value)


def test_text_in_the_target_is_refused_with_its_line(tmp_path):
    path = write_csv(tmp_path / "d.csv")
    with pytest.raises(DataError, match=r"line 2.*: 'note' is 'text', not a number"):
        read_labelled(path, ["g"], "note", ["a"])


def test_numbers_kept_as_text_are_refused(tmp_path):
    columns = {"g": ["a", "b", "c"], "y": ["1", "2", "3"], "a": [1, 2, 3]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "d.parquet")
    with pytest.raises(DataError, match=r"row 1, set 'a': 'y' is '1', not a number"):
        read_labelled(tmp_path / "d.parquet", ["g"], "y")


def test_lists_cannot_name_groups(tmp_path):
    columns = {"g": [[1], [2], [3]], "y": [1, 2, 3], "a": [1, 2, 3]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "d.parquet")
    with pytest.raises(DataError, match="which cannot name a group"):
        read_labelled(tmp_path / "d.parquet", ["g"], "y")


def test_a_missing_file_a_folder_and_a_false_parquet_are_refused(tmp_path):
    (tmp_path / "d.parquet").write_text("g,y\n1,2\n")
    for path, message in (
        (Path("nowhere.csv"), "there is no file nowhere.csv"),
        (tmp_path, "is a folder"),
        (tmp_path / "d.parquet", "d.parquet cannot be read as Parquet"),
    ):
        with pytest.raises(DataError, match=message):
            read_labelled(path, ["g"], "y")


@pytest.mark.parametrize(
    ("by", "y", "x", "message"),
    [
        (["y"], "y", [], "given as --y and as --by"),
        (["g"], "y", ["a", "y"], "given as --y and as --x"),
    ],
)
def test_a_target_cannot_play_two_parts(by, y, x, message):
    with pytest.raises(DataError, match=message):
        read_labelled(Path("never-opened.csv"), by, y, x)
