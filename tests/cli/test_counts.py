"""Counts, shares and amounts in the shell: options, refusals, predictions and files."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from click.testing import CliRunner

import sumwise as sw
from sumwise.cli import main
from tests.study.test_counts_study import areas, totals_of

MADE = ("init", "a.db", "areas.csv", "--by", "county", "--id", "area", "--not", "deaths")
COUNTS = ("--outputs", "counts", "--exposure", "people", "--outcome", "deaths")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = areas()
    frame.to_csv("areas.csv", index=False)
    totals = pd.Series(totals_of(frame), name="total").rename_axis("set")
    totals.head(6).to_csv("totals.csv")

    def run(*words, code=0):
        done = CliRunner(env={"COLUMNS": "200"}).invoke(main, words)
        assert done.exit_code == code, done.output
        return " ".join(done.output.replace("│", "").split())

    return run


def test_a_study_of_counts_is_made_told_and_predicted(run):
    said = run(*MADE, *COUNTS)
    assert "Measuring a set gives its count of deaths; exposure by people." in said
    assert "inputs age." in said
    assert "6 new counts recorded" in run("tell", "a.db", "--from", "totals.csv")
    assert "expected count of deaths" in run("ask", "a.db")
    run("predict", "a.db", "-o", "p.parquet")
    run("predict", "a.db", "-o", "p.csv")
    found = pd.read_csv("p.csv", dtype={"id": str})
    pd.testing.assert_frame_equal(pd.read_parquet("p.parquet"), found, check_dtype=False)
    assert list(found.columns[-3:]) == ["upper", "rate", "extrapolates"]
    with sw.open_study("a.db") as study:
        pd.testing.assert_frame_equal(study.predict().to_pandas(), found, check_dtype=False)
    run("predict", "a.db", "areas.csv", "-o", "q.csv")  # whose own column has the exposures
    assert pd.read_csv("q.csv")["mean"].tolist() == pytest.approx(found["mean"].tolist())
    pd.read_csv("areas.csv").drop(columns="people").to_csv("bare.csv", index=False)
    said = run("predict", "a.db", "bare.csv")
    assert "bare.csv has no column people, so mean, std, lower and upper are per unit of" in said
    assert "Predicted deaths" not in said
    assert "Predicted deaths" in run("predict", "a.db", "areas.csv")
    run("predict", "a.db", "bare.csv", "-o", "r.csv")
    assert pd.read_csv("r.csv")["mean"].tolist() == pytest.approx(found.rate.tolist())
    sets = json.loads(run("predict", "a.db", "--sets", "--json"))["rows"]
    assert all(row["lower"] == int(row["lower"]) for row in sets)
    first = run("predict", "a.db", "--sets").split("Predicted")[0]
    assert f" {sets[0]['lower']:.0f} {sets[0]['upper']:.0f} " in f" {first} "


def test_rows_that_are_extrapolated_are_counted_on_stderr(run):
    run(*MADE, *COUNTS, "--basis", "linear")
    run("tell", "a.db", "--from", "totals.csv")
    pd.DataFrame({"age": [0.5, 9.0], "people": [10, 10]}).to_csv("far.csv", index=False)
    done = CliRunner().invoke(main, ["predict", "a.db", "far.csv", "-o", "out.csv"])
    assert "1 row of 2 has a rate more than 10 times above" in " ".join(done.stderr.split())
    assert pd.read_csv("out.csv").extrapolates.tolist() == [False, True]
    pd.DataFrame({"age": [0.5]}).to_csv("near.csv", index=False)
    assert "extrapolates there" not in run("predict", "a.db", "near.csv")


@pytest.mark.usefixtures("run")
def test_json_of_init_says_what_is_measured():
    done = CliRunner().invoke(main, [*MADE, *COUNTS, "--json"])
    found = json.loads(done.stdout)
    assert found["outputs"] == "counts"
    assert found["weights"] == "people"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tell", "a.db", "c9", "2.5"), "give the count, not the rate"),
        (("tell", "a.db", "c9", "-2"), "a count is at least 0"),
        (("tell", "a.db", "c9", "2", "--noise-std", "1"), "noise of plain numbers"),
        (("tell", "a.db", "c9", "2", "--covers", "0.5"), "name the members that were"),
    ],
)
def test_odd_counts_are_refused(run, words, said):
    run(*MADE, *COUNTS)
    assert said in run(*words, code=1)
    with sw.open_study("a.db") as study:
        assert study.answers == ()


def test_files_of_totals_are_refused_by_row_and_as_a_whole(run):
    run(*MADE, *COUNTS)
    (totals := pd.read_csv("totals.csv").astype({"total": float})).loc[2, "total"] = 0.5
    totals.to_csv("bad.csv", index=False)
    said = run("tell", "a.db", "--from", "bad.csv", code=1)
    assert "give the count, not the rate" in said
    assert "bad.csv, line 4" in said
    assert "Nothing was stored" in said
    with sw.open_study("a.db") as study:
        assert study.answers == ()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--weights", "mean", "--exposure", "people"), 2, "mean the same; give one of them"),
        (("--trials", "people", "--exposure", "people"), 2, "mean the same; give one of them"),
        (("--exposure", "mean"), 2, "could also mean --weights"),
        (("--exposure", "persons"), 1, "persons"),
        (("--weights", "mean"), 1, "takes the count of a set, not a mean"),
        (("--min", "0"), 1, "a count is at least 0. Leave low and high (--min, --max) out"),
        (("--preset", "paper"), 1, "is for plain numbers, not for counts"),
        (("--basis", "neural"), 1, "a neural basis learns from numbers, not from counts"),
        (("--noise-std", "2"), 1, "counts have noise of their own"),
        (("--known", "deaths"), 1, "would overlap"),
        (("--outputs", "ranks"), 2, "ranks"),
    ],
)
def test_options_that_contradict_counts_are_refused(run, words, code, said, tmp_path):
    assert said in run(*MADE, "--outputs", "counts", *words, code=code)
    assert not (tmp_path / "a.db").exists()


def test_shares_are_told_as_successes_of_trials(run):
    said = run(*MADE, "--outputs", "shares", "--trials", "people")
    assert "its count of successes; trials by people." in said
    most = areas().groupby("county").people.sum()["c9"]
    assert "more successes than trials" in run("tell", "a.db", "c9", str(most + 1), code=1)
    run("tell", "a.db", "c9", str(most))
    rows = json.loads(run("predict", "a.db", "--json"))["rows"]
    assert all(row["share"] <= 1 for row in rows)
    assert "count" in run("answers", "a.db").split("c9")[0]  # heads its column


def test_a_pool_of_counts_grows_by_the_column_of_its_exposures(run):
    run(*MADE, *COUNTS)
    new = pd.DataFrame({"county": ["c1", "n"], "area": [90, 91], "age": [0.1, 0.2]})
    new.assign(people=[5, 7]).to_csv("new.csv", index=False)
    assert "2 individuals joined" in run("pool", "add", "a.db", "new.csv")
    with sw.open_study("a.db") as study:
        assert study.sets.theta.sum() == areas().people.sum() + 12
    new.assign(area=[92, 93]).to_csv("less.csv", index=False)
    assert "name the column" in run("pool", "add", "a.db", "less.csv", code=1)
