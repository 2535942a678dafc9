"""What is known already in the shell: init --known, and tell --from by the study's own columns."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from tests.cli.test_study_commands import data_of, done, one_line, run

FRAME = pd.DataFrame(
    {
        "pupil": [f"{i:03}" for i in range(24)],
        "school": [f"{i % 6:02}" for i in range(24)],
        "county": [1 + i % 6 // 3 for i in range(24)],
        "x": [(7 * i) % 24 / 8 for i in range(24)],
        "score": [float(i) if i < 2 else None for i in range(24)],
    }
)
Y = pd.Series(range(24), dtype=float)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("data.csv", index=False)
    for by in ("school", "county", "pupil"):
        Y.groupby(FRAME[by]).sum().rename("total").to_csv(f"{by}.csv")
    return tmp_path


def test_init_takes_a_column_of_outputs_and_files_by_any_column(folder):
    pd.read_csv("school.csv", dtype=str).iloc[:1].to_csv("first.csv", index=False)
    pd.read_csv("pupil.csv", dtype=str).iloc[[20]].to_csv("late.csv", index=False)
    known = [f"--known={name}" for name in ("score", "county.csv", "first.csv", "late.csv")]
    made = data_of("init", "s.db", "data.csv", "--by", "school", "--id", "pupil", *known)
    assert (made["known"], made["sets"], made["inputs"]) == (6, 6, ["x"])
    with sw.open_study("s.db") as study:
        told = {answer.set_id: answer.y_bar for answer in study.answers}
        assert told == {
            ("pupil", "000"): 0,
            ("pupil", "001"): 1,
            ("pupil", "020"): 20,
            ("county", "1"): Y[FRAME.county == 1].sum(),
            ("county", "2"): Y[FRAME.county == 2].sum(),
            "00": Y[FRAME.school == "00"].sum(),
        }
        mean = pd.Series(study.predict().mean, study.sets.row_ids[:24])
        assert_allclose(mean[FRAME.pupil[FRAME.county == 2]].sum(), told["county", "2"])
    rows = json.loads(done("predict", "s.db", "--json").stdout)["rows"]
    assert len({row["id"] for row in rows}) == len(rows)


def test_the_same_from_parquet_and_by_one_of_several_columns(folder):
    FRAME.to_parquet("data.parquet")
    command = ("data.parquet", "--by", "county", "--by", "school")
    done("init", "s.db", *command, "--x", "x", "--known", "county.csv")
    with sw.open_study("s.db") as study:
        assert [answer.set_id for answer in study.answers] == [("county", 1), ("county", 2)]
        assert study.progress == (0, 6)


def test_tell_reads_the_columns_that_sets_were_made_by(folder):
    done("init", "s.db", "data.csv", "--by", "school", "--x", "x", "--known", "county.csv")
    assert data_of("tell", "s.db", "--from", "school.csv")["measured"] == 6
    assert data_of("tell", "s.db", "--from", "county.csv")["new"] == 0  # areas by theirs
    done("init", "t.db", "data.csv", "--by", "county", "--by", "school", "--x", "x")
    both = Y.groupby([FRAME.school, FRAME.county]).sum().rename("total")
    both.to_csv("both.csv")
    assert data_of("tell", "t.db", "--from", "both.csv")["new"] == 6
    with sw.open_study("t.db") as study:
        assert {a.set_id: a.y_bar for a in study.answers}["2", "03"] == both["03", 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("county,total\n9,3\n", "bad.csv, line 2: no county is called '9'; there is '"),
        ("county,total\n1,\n", "line 2: 'total' of set '1': it is missing"),
        ("county,total\n,4\n", "line 2: 'county' is missing"),
        ("pupil,total\n77,4\n", "line 2: no pupil is called '77'"),
        ("region,total\n1,4\n", "has no column 'set' (the set's id or as 'school')"),
        ("county,total\n1,4\n1,5\n", "('county', '1') is given twice"),
        ("county,total\n1,4\n", "no column 'scroe' (given as --known, which may also be a file)"),
    ],
)
def test_what_is_not_known_is_refused_and_nothing_is_made(folder, content, message):
    (folder / "bad.csv").write_text(content)
    known = "scroe" if "scroe" in message else "bad.csv"
    command = ("init", "s.db", "data.csv", "--by", "school", "--id", "pupil", "--known", known)
    result = run(*command)
    assert result.exit_code == 1
    assert message in one_line(result.stderr)
    assert not (folder / "s.db").exists()


def test_status_says_which_totals_contradict_each_other(folder):
    pd.DataFrame({"county": [1], "total": [1000]}).to_csv("bad.csv", index=False)
    known = ("--known", "school.csv", "--known", "bad.csv")
    done("init", "s.db", "data.csv", "--by", "school", "--x", "x", *known)
    found = data_of("status", "s.db")
    (wrong,) = found["contradictions"]
    assert (wrong["set"], wrong["others"]) == ("county / 1", ["00", "01", "02"])
    assert found["headline"][0].startswith("Totals contradict each other: county / 1 is 1000,")
