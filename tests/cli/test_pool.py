"""`sumwise pool`: who is in the sets changes, and each line says what has changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import sumwise as sw
from sumwise.cli import main

TABLE = "school,pupil,ses,kind\n" + "".join(
    f"s{a},{10 * a + n},{(7 * a + 3 * n) % 5},{'ab'[n % 2]}\n" for a in range(4) for n in range(3)
)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")

    def run(*words, table=None, code=0):
        if table is not None:
            Path("new.csv").write_text(table)
        done = CliRunner().invoke(main, words)
        assert done.exit_code == code, done.output
        return " ".join(done.output.replace("│", "").split())

    made = ("--by", "school", "--x", "ses,kind", "--id", "pupil", "--weights", "mean")
    Path("t.csv").write_text(TABLE)
    run("init", "a.db", "t.csv", *made)
    run("tell", "a.db", "s0", "2.5")
    return run


def test_columns_are_found_by_the_names_that_the_study_was_made_with(run):
    joining = "school,pupil,ses,kind\ns0,90,1,a\ns9,91,2,zz\n"
    said = run("pool", "add", "a.db", "new.csv", "--by", "ann", table=joining)
    assert "2 individuals joined 2 sets, 1 set new, means of former members kept as 's0 (" in said
    now = "The pool has 5 sets of 14 individuals now, beside 1 former set still measured."
    assert f"new in 'kind': 'zz'. {now}" in said
    assert "1 of 6 sets measured" in run("status", "a.db")
    refused = run("amend", "a.db", "s0", "3", code=1)
    assert "'s0' is not measured yet; 's0 (until " in refused
    moving = "pupil,school\n10,s2\n11,s2\n12,s2\n30,s3 north\n"
    said = run("pool", "correct", "a.db", "new.csv", table=moving)
    assert "4 individuals moved to 2 sets, 1 set new, 1 set gone." in said
    assert "1 individual left 1 set" in run("pool", "drop", "a.db", "new.csv", table="pupil\n91\n")
    with sw.open_study("a.db") as study:
        assert study.ids == ("s2", "s3", "s0", "s3 north")
        assert study.sets["s2"].row_ids.tolist() == ["20", "21", "22", "10", "11", "12"]
    run("export", "a.db", "out")
    run("import", "out", "b.db")
    shown = [json.loads(_output("answers", name, "--json")) for name in ("a.db", "b.db")]
    assert shown[0] == shown[1]


def _output(*words):
    return CliRunner().invoke(main, words).stdout


def test_other_columns_are_named_and_predictions_say_who_is_meant(run):
    named = ("--set", "where", "--id", "who")
    fixed = "who,where,kind\n20,s2,b\n21,s3,b\n"
    said = run("pool", "correct", "a.db", "new.csv", *named, table=fixed)
    assert "1 individual moved to 1 set, 1 corrected." in said
    run("predict", "a.db", "-o", "rows.csv")
    head, *lines = Path("rows.csv").read_text().splitlines()
    rows = "\n".join([head, *(line for line in lines if line.startswith('"s1"'))])
    said = run("pool", "drop", "a.db", "new.csv", table=rows)
    assert "3 individuals left 1 set, 1 set gone. The pool has 3 sets" in said


@pytest.mark.parametrize(
    ("kind", "table", "said"),
    [
        ("drop", "pupil\n77\n", "new.csv, line 2: no individual in the pool has the id '77'"),
        ("drop", "name\n77\n", "no column 'id' (the id of each individual); it has 'name'"),
        ("add", "school,pupil,ses,kind\ns0,10,1,a\n", "an individual with the id '10' already"),
        ("add", "school,pupil,ses,kind\ns0,90,1,\n", "line 2: 'kind' is missing. Fill it in"),
        ("add", "school,pupil,ses,kind\ns0,90,x,a\n", "line 2: 'ses' is 'x', not a number"),
        ("correct", "pupil,ses\n10,2\n", "nothing would change"),
    ],
)
def test_refusals_say_where_and_what_to_do(run, kind, table, said):
    assert said in run("pool", kind, "a.db", "new.csv", table=table, code=1)
