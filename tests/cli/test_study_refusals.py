"""Bad values from the shell: refused in words, with nothing stored."""

from __future__ import annotations

import os
import sqlite3

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import sumwise as sw
from sumwise.cli import main
from tests.studies import copy_of
from tests.tables import write_csv


def run(*arguments):
    runner = CliRunner(env={"COLUMNS": "400", "SUMWISE_USER": None})
    return runner.invoke(main, [str(a) for a in arguments])


def refusal(*arguments, code=1):
    """What is said when this is refused."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.replace("│", " ").split())


def made(path):
    data = write_csv(path.parent / "data.csv")
    words = ("--by", "g", "--x", "a", "--x", "b", "--basis", "linear", "--strategy", "AggMI")
    assert run("init", path, data, *words).exit_code == 0


@pytest.fixture
def url(tmp_path):
    """A small study with sets 000 to 011."""
    write_csv(tmp_path / "data.csv")
    return str(copy_of(made, tmp_path / "s.db"))


@pytest.fixture
def nothing_stored(url):
    """Fails if the study has changed when the test ends."""
    before = events(url)
    yield
    assert events(url) == before


def events(url):
    with sw.open_study(url) as study:
        return study.history(), study.answers, study.claims


# --- totals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["tell", "amend"])
@pytest.mark.parametrize(
    ("total", "words"),
    [
        ("nan", "'nan' is not a number here; give a finite number"),
        ("NaN", "give a finite number"),
        ("inf", "give a finite number"),
        ("-inf", "give a finite number"),
        ("1,234.5", "'1,234.5' is not a number here; write 1234.5"),
        ("-1,234.5", "write -1234.5"),
        ("12 kg", "'12 kg' is not a number here; write digits alone"),
        ("much", "'much' is not a number"),
        ("", "'' is not a number here; give a number such as 1234.5"),
        ("1e999", "too large"),
        ("1e200", "is it mistyped? Rescale it"),
        ("-5h", "'-5h' is not a number"),
        ("\x1b[31m5", r"'\x1b[31m5' is not a number"),
    ],
)
@pytest.mark.usefixtures("nothing_stored")
def test_a_total_that_is_no_number_is_refused(url, command, total, words):
    where = ("--",) if total == "-inf" else ()
    said = refusal(command, url, *where, "001", total)
    assert words in said
    assert "001" in said


@pytest.mark.parametrize(
    "words",
    [("tell", "5"), ("amend", "5"), ("retract",), ("release",), ("renew",), ("skip",), ("claim",)],
)
@pytest.mark.usefixtures("nothing_stored")
def test_an_unknown_set_is_refused_with_its_neighbours(url, words):
    command, *total = words
    assert "no set is called '0011'; there is '011', '001'" in refusal(
        command, url, "0011", *total
    ).replace("'001', '011'", "'011', '001'")


@pytest.mark.usefixtures("nothing_stored")
def test_what_is_not_measured_or_not_held_cannot_be_changed(url):
    assert "is not measured yet" in refusal("amend", url, "001", 5)
    assert "is not measured yet" in refusal("retract", url, "001")
    assert "set '001' is not claimed" in refusal("release", url, "001")
    assert "set '001' is not claimed" in refusal("renew", url, "001")
    assert "is not skipped" in refusal("unskip", url, "001")


def test_another_total_is_refused_and_the_first_one_kept(url):
    run("tell", url, "001", 5, "--by", "ann")
    before = events(url)
    said = refusal("tell", url, "001", 6)
    assert "measured already (5 by 'ann'" in said
    assert "use amend" in said
    assert run("tell", url, "001", 5).exit_code == 0  # the same once more does no harm
    assert events(url) == before


@pytest.mark.parametrize("noise", ["-1", "nan", "a little"])
@pytest.mark.usefixtures("nothing_stored")
def test_noise_that_makes_no_sense_is_refused(url, noise):
    said = refusal("tell", url, "001", 5, "--noise-std", noise)
    assert "noise" in said


@pytest.mark.parametrize("days", ["0", "-3", "nan", "soon", "1e9"])
def test_days_that_make_no_sense_are_refused(url, days):
    run("claim", url, "001")
    before = events(url)
    assert "days" in refusal("renew", url, "001", "--days", days)
    assert events(url) == before


@pytest.mark.parametrize(
    "words",
    [
        ("tell", "001"),
        ("tell",),
        ("tell", "001", "5", "--from", "t.csv"),
        ("tell", "001", "--from", "t.csv"),
        ("tell", "--from", "t.csv", "--note", "x"),
        ("tell", "--from", "t.csv", "--noise-std", "1"),
        ("tell", "001", "5", "6"),
        ("tell", "001", "5", "--nte", "x"),
        ("ask", "-n", "0"),
        ("ask", "-n", "x"),
        ("predict", "x.csv", "--sets"),
        ("history", "--last", "0"),
        ("amend", "001"),
    ],
)
@pytest.mark.usefixtures("nothing_stored")
def test_misuse_has_an_exit_code_of_its_own(url, words):
    refusal(words[0], url, *words[1:], code=2)


# --- files of totals ------------------------------------------------------------------------------

FILES = {
    "empty": ("", "t.csv is empty"),
    "a heading alone": ("set,total\n", "has a heading and no rows"),
    "no total": ("set,value,n\n001,5,3\n", "has no column 'total' (the measured total; y_bar is"),
    "no set": ("id,total\n001,5\n", "has no column 'set' (the set's id or as "),
    "both totals": ("set,total,y_bar\n001,5,5\n", "columns 'total' and 'y_bar'; leave one"),
    "text": ("set,total\n001,5\n002,much\n", "t.csv, line 3: 'total' of set '002': 'much' is not"),
    "thousands": ('set,total\n001,"1,234.5"\n', "line 2: 'total' is '1,234.5', and numbers are"),
    "nan": ("set,total\n001,NaN\n", "line 2: 'total' of set '001': 'NaN' is not a number here"),
    "infinity": ("set,total\n001,inf\n", "give a finite number"),
    "missing": ("set,total\n001,5\n002,\n", "line 3: 'total' of set '002': it is missing"),
    "no name": ("set,total\n001,5\n,6\n", "line 3: 'set' is missing"),
    "unknown": ("set,total\n001,5\n0011,6\n", "line 3: no set is called '0011'; there is '0"),
    "twice": ("set,total\n001,5\n002,1\n001,6\n", "line 4: set '001' is there twice, with 5 and"),
    "twice with other noise": (
        "set,total,noise_std\n001,5,1\n001,5,2\n",
        "line 3: set '001' is there twice",
    ),
    "noise": ("set,total,noise_std\n001,5,-1\n", "line 2: noise_std of set '001' is -1.0; give a"),
    "noise in words": (
        "set,total,noise_std\n001,5,few\n",
        "'noise_std' of set '001': 'few' is not",
    ),
    "a short line": ("set,total\n001\n", "line 2: there are 1 cells and the heading has 2"),
    "colons": ("set:total\n001:5\n", "has no column 'set'"),
    "another encoding": (b"set,total\n\x81,5\n", "neither UTF-8 nor"),
    "no table": (b"\x89PNG\r\n\x1a\n\0\xff\xfe", "t.csv"),
}


@pytest.mark.parametrize("case", FILES)
@pytest.mark.usefixtures("nothing_stored")
def test_a_file_that_cannot_be_told_is_refused_with_its_place(url, tmp_path, case):
    content, words = FILES[case]
    file = tmp_path / "t.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    said = refusal("tell", url, "--from", file)
    assert words in said
    assert "t.csv" in said


@pytest.mark.usefixtures("nothing_stored")
def test_a_folder_or_a_missing_file_of_totals_is_refused(url, tmp_path):
    assert "is a folder; name a CSV or Parquet file" in refusal("tell", url, "--from", tmp_path)
    assert "there is no file" in refusal("tell", url, "--from", tmp_path / "nowhere.csv")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
@pytest.mark.usefixtures("nothing_stored")
def test_bad_numbers_in_parquet_are_refused_with_their_row(url, tmp_path, value):
    table = pa.table({"set": ["001", "002"], "total": [1.0, value]})
    parquet.write_table(table, tmp_path / "t.parquet")
    assert "t.parquet, row 2: " in refusal("tell", url, "--from", tmp_path / "t.parquet")


def test_one_bad_row_in_ten_thousand_is_named_and_nothing_is_stored(tmp_path):
    rows = [f"s{i},{i % 17}" for i in range(10_000)]
    (tmp_path / "d.csv").write_text("\n".join(["g,a", *rows]))
    url = tmp_path / "s.db"
    run("init", url, tmp_path / "d.csv", "--by", "g", "--basis", "linear")
    rows[7_654] = "s7654,12 kg"
    (tmp_path / "t.csv").write_text("\n".join(["set,total", *rows]))
    said = refusal("tell", url, "--from", tmp_path / "t.csv")
    assert "t.csv, line 7656: 'total' of set 's7654': '12 kg' is not a number" in said
    assert "Nothing was stored." in said
    rows[7_654] = "s7655,12"  # also in the next row, with another total
    (tmp_path / "t.csv").write_text("\n".join(["set,total", *rows]))
    assert "t.csv, line 7657: set 's7655' is there twice" in refusal(
        "tell", url, "--from", tmp_path / "t.csv"
    )
    with sw.open_study(url) as study:
        assert study.answers == ()


# --- databases ------------------------------------------------------------------------------------

ON_A_STUDY = [
    ("ask",),
    ("tell", "001", "5"),
    ("amend", "001", "5"),
    ("retract", "001"),
    ("release", "001"),
    ("renew", "001"),
    ("skip", "001"),
    ("status",),
    ("history",),
    ("predict",),
    ("export", "folder"),
    ("report", "-o", "r.html"),
]


@pytest.mark.parametrize("words", ON_A_STUDY, ids=lambda words: words[0])
def test_a_study_that_is_not_there_is_refused(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    command, *rest = words
    (tmp_path / "note.db").write_text("not a database, but quite long enough to look like one")
    said = refusal(command, "nowhere.db", *rest)
    assert "there is no file" in said
    assert "check the path, or begin a study with" in said
    assert "is not an SQLite database" in refusal(command, "note.db", *rest)
    assert "is a folder" in refusal(command, ".", *rest)
    assert os.listdir(tmp_path) == ["note.db"]


def test_a_database_of_a_newer_sumwise_is_refused_and_left_alone(url):
    connection = sqlite3.connect(url)
    with connection:
        connection.execute("UPDATE sumwise_version SET version_num = '9999'")
    connection.close()
    for words in (("ask",), ("tell", "001", "5"), ("status",)):
        said = refusal(words[0], url, *words[1:])
        assert "made by a newer sumwise (schema 9999" in said
        assert "pip install --upgrade sumwise" in said
    assert "newer sumwise" in refusal("storage", "upgrade", url)
    assert "newer sumwise" in refusal("storage", "studies", url)


def test_a_study_is_not_made_over_another(url, tmp_path):
    before = events(url)
    said = refusal_with_talk("init", url, tmp_path / "data.csv", "--by", "g", "--x", "a")
    assert "there is a study called 'study' already; open it, or give another name (--name" in said
    assert events(url) == before
    assert "holds no study called 'x'; there is 'study'" in refusal("ask", url, "--study", "x")


def refusal_with_talk(*arguments):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    return " ".join(result.stderr.replace("│", " ").split())


# --- init -----------------------------------------------------------------------------------------

DATA = {
    "empty": (b"", (), "is empty"),
    "a heading alone": (b"g,a\n", (), "a heading and no rows"),
    "no group": (b"h,a\n1,2\n", (), "no column 'g' (given as --by); it has 'h', 'a'"),
    "no input": (b"g,a\n1,2\n", ("--x", "b"), "no column 'b' (given as --x)"),
    "no weights": (b"g,a\n1,2\n", ("--weights", "w"), "no column 'w' (given as --weights, which"),
    "no values": (b"g,a\n1,\n", (), "has no input columns"),
    "text in an input": (b"g,a\n1,2\n1,x\n", ("--x", "a"), "line 3: 'a' is 'x', not a number"),
    "an empty input": (b"g,a\n1,\n1,\n", ("--x", "a"), "has no value in any row"),
    "a missing group": (b"g,a\n1,2\n,3\n", (), "line 3: 'g' is missing"),
    "an infinite input": (b"g,a\n1,2\n1,inf\n", (), "line 3: 'a' is inf"),
    "a group that is an input": (b"g,a\n1,2\nx,3\n", ("--x", "g"), "line 3: 'g' is 'x', not a num"),
    "weights of nothing": (b"g,a,w\n1,2,0\n", ("--weights", "w"), "'1'"),
}


@pytest.mark.parametrize("case", DATA)
def test_a_table_that_cannot_be_used_is_refused_and_no_study_made(tmp_path, case):
    content, words, message = DATA[case]
    (tmp_path / "d.csv").write_bytes(content)
    said = refusal("init", tmp_path / "s.db", tmp_path / "d.csv", "--by", "g", *words)
    assert message in said
    assert os.listdir(tmp_path) == ["d.csv"]


def test_lists_cannot_name_sets(tmp_path):
    parquet.write_table(pa.table({"g": [[1], [2]], "a": [1, 2]}), tmp_path / "d.parquet")
    said = refusal("init", tmp_path / "s.db", tmp_path / "d.parquet", "--by", "g")
    assert "which cannot name a group" in said


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--by", "g", "--strategy", "Best"), 2),
        (("--by", "g", "--basis", "magic"), 2),
        (("--by", "g", "--seed", "x"), 2),
        ((), 2),
        (("--by", "g", "--seed", "-1"), 1),
        (("--by", "g", "--claim-days", "0"), 1),
        (("--by", "g", "--claim-days", "nan"), 1),
        (("--by", "g", "--name", " "), 1),
    ],
)
def test_settings_that_make_no_sense_are_refused_and_no_study_made(tmp_path, words, code):
    data = write_csv(tmp_path / "d.csv")
    result = run("init", tmp_path / "s.db", data, *words)
    assert (result.exit_code, result.stdout) == (code, "")
    assert os.listdir(tmp_path) == ["d.csv"]


# --- files that are written -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out.txt", "out", "."])
def test_predictions_and_history_are_written_to_csv_or_parquet_only(url, tmp_path, name):
    for command in ("predict", "history"):
        assert "does not end in .csv or .parquet" in refusal(command, url, "-o", tmp_path / name)
        early = refusal(command, "nowhere.db", "-o", tmp_path / name)
        assert "does not end in .csv or .parquet" in early  # before the study is opened


@pytest.mark.parametrize("level", ["0", "1", "-1", "nan", "90"])
def test_a_level_is_a_share(url, level):
    assert "give a number between 0 and 1" in refusal("predict", url, "--level", level)


def test_a_new_table_must_have_the_inputs(url, tmp_path):
    for content, message in (
        ("a,c\n1,2\n", "no column 'b' (an input of the study)"),
        ("a,b\n1,x\n", "line 2: 'b' is 'x', not a number"),
        ("a,b\n1,\n", "line 2: 'b' is missing"),
        ("a,b\n", "has a heading and no rows"),
    ):
        (tmp_path / "new.csv").write_text(content)
        assert message in refusal("predict", url, tmp_path / "new.csv")


def test_a_folder_that_is_no_export_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "nowhere"):
        refusal("import", tmp_path / folder, tmp_path / "s.db")
    assert os.listdir(tmp_path) == ["empty"]
