"""`sumwise init --design` and what follows: whom to measure together, from the shell."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import sumwise as sw
from sumwise.cli import main

TABLE = "sample,home,plate,age,bmi\n" + "".join(
    f"S{n},H{n // 2},P{n % 2},{20 + (7 * n) % 50},{18 + (11 * n) % 17}\n" for n in range(24)
)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    Path("t.csv").write_text(TABLE)

    def run(*words, code=0):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == code, done.output
        return " ".join(done.output.replace("│", "").split())

    return run


def as_json(*words):
    return json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)


BEGIN = ("init", "a.db", "t.csv", "--design", "--id", "sample", "--basis", "linear")


def test_pools_are_designed_measured_and_listed(run):
    said = run(*BEGIN, "--size", "2-4", "--uses", "1", "--apart", "home", "--weights", "mean")
    assert "24 individuals, 3 inputs" in said
    assert (
        "Pools have 2 to 4 individuals, each individual in at most 1 pool, at most one of each home"
        in said
    )
    (ask,) = as_json("ask", "a.db", "--by", "ann")["questions"]
    members = [each["id"] for each in ask["members"]]
    assert ask["set"] == "pool 1"
    assert {each["weight"] for each in ask["members"]} == {1 / len(members)}
    assert len({int(name[1:]) // 2 for name in members}) == len(members)  # one of each home
    assert ask["score"] <= ask["bound"]
    shown = run("ask", "a.db")
    assert "pool 2 Together: S" in shown
    assert "1 pool measured. " in run("tell", "a.db", "pool 1", "31.5") + " "
    assert "1 pool measured, 1 being measured" in run("status", "a.db")
    listed = as_json("pools", "a.db")["pools"]
    assert [pool["state"] for pool in listed] == ["measured", "open"]
    assert [each["id"] for each in listed[0]["members"]] == members
    run("pools", "a.db", "--open", "-o", "mix.csv")
    rows = list(csv.DictReader(Path("mix.csv").read_text().splitlines()))
    assert {row["set"] for row in rows} == {"pool 2"}
    assert [row["member"] for row in rows] == [each["id"] for each in listed[1]["members"]]


def test_a_lost_sample_of_an_open_pool_is_pointed_out_and_totals_may_be_of_the_others(run):
    run(*BEGIN, "--size", "3", "--uses", "1")
    members = [each["id"] for each in as_json("ask", "a.db")["questions"][0]["members"]]
    assert "a member of pool 1, which is being measured" in run("skip", "a.db", members[0])
    Path("of.csv").write_text("sample\n" + "\n".join(members[1:]) + "\n")
    assert "2 of 3 individuals" in run("tell", "a.db", "pool 1", "7.5", "--of", "of.csv")


def test_a_pool_of_a_preview_is_claimed_by_its_name(run):
    run(*BEGIN)
    preview = as_json("ask", "a.db", "--preview", "-n", "2")["questions"]
    assert "Nothing is claimed" in run("ask", "a.db", "--preview", "-n", "2")
    (claimed,) = as_json("claim", "a.db", "pool 2", "--by", "bob")["questions"]
    assert claimed["members"] == preview[1]["members"]
    assert "no set is called 'pool 9'" in run("claim", "a.db", "pool 9", code=1)


def test_labels_are_no_inputs_unless_asked_for_and_individuals_may_have_numbers(run):
    made = ("init", "b.db", "t.csv", "--design", "--not", "sample", "--within", "plate")
    said = run(*made, "--strata", "home", "--size", "12", code=0)
    assert "Individuals are numbered from 1; inputs age, bmi." in said
    with sw.open_study("b.db") as study:
        assert study.state.record.designing.names[:3] == (1, 2, 3)
        assert study.state.record.sets.input_names == ("age", "bmi")
    said = run("init", "c.db", "t.csv", "--design", "--x", "age,plate", "--within", "plate")
    assert "inputs age, plate." in said


def test_given_sets_and_pools_compete_by_gain_per_cost(run):
    prices = ("--cost", "3", "--pool-cost", "1", "--pool-cost-per-member", "0.5")
    run("init", "a.db", "t.csv", "--by", "home", "--design", "--id", "sample", *prices)
    bought = as_json("ask", "a.db", "--budget", "10")
    assert bought["cost"] <= 10
    assert all(question["cost"] is not None for question in bought["questions"])
    said = run("init", "b.db", "t.csv", "--by", "home", "--design", "--pool-cost", "1", code=1)
    assert "either both cost something or neither" in said


def test_neighbours_are_pairs_of_ids_in_a_table(run):
    pairs = "a,b\n" + "".join(f"S{n},S{n + 1}\n" for n in range(23))
    Path("pairs.csv").write_text(pairs)
    run(*BEGIN, "--size", "3", "--neighbours", "pairs.csv")
    members = as_json("ask", "a.db")["questions"][0]["members"]
    numbers = sorted(int(each["id"][1:]) for each in members)
    assert numbers[2] - numbers[0] == 2
    Path("pairs.csv").write_text("a,b\nS1,S99\n")
    said = run("init", "b.db", *BEGIN[2:], "--neighbours", "pairs.csv", code=1)
    assert "pairs.csv, line 2: 'S99' is not an individual of the study" in said


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--size", "9-2"), 1, "give the fewest and the most members"),
        (("--size", "x"), 2, "--size 'x' is not a size of pools; write 2-10, or 8"),
        (("--apart", "nope"), 1, "'nope'"),
        (("--neighbours", "geometry"), 1, "t.csv has no geometries"),
        (("--weight-range", "2"), 2, "is not a range; write 0,2"),
        (("--weight-range", "0,2", "--weights", "mean"), 2, "excludes --weights mean"),
        (("--weights", "age"), 1, "leave a column of weights out"),
        (("--pool-noise-std", "-1"), 1, "noise_std is -1"),
        (("--strategy", "QBC"), 1, "pools are designed by AggMI, IVR, EPIG"),
        (("--outputs", "counts"), 1, "plain numbers"),
        (("--uses", "0"), 2, "not in the range"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_made(run, more, code, said):
    assert said in run(*BEGIN, *more, code=code)
    with pytest.raises(sw.DataError, match=r"no file|holds no studies"):
        sw.open_study("a.db")


def test_options_of_pools_go_with_design_and_sets_need_a_column(run):
    assert "add --design" in run("init", "a.db", "t.csv", "--by", "home", "--uses", "1", code=2)
    assert "name the column of the sets with --by" in run("init", "a.db", "t.csv", code=2)


def test_two_individuals_with_one_id_are_refused(run):
    said = run("init", "a.db", "t.csv", "--design", "--id", "home", code=1)
    assert "line 3, set 'H0' is the id of an earlier row, too" in said


def test_studies_of_given_sets_have_no_pools(run):
    run("init", "a.db", "t.csv", "--by", "home", "--not", "sample")
    assert "the sets of this study were given" in run("pools", "a.db", code=1)
