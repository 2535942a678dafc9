"""A study from the shell, from the first table to the last file, on both databases."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from datetime import date
from math import inf, nan
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import csv as arrow_csv
from pyarrow import parquet

import sumwise as sw
from sumwise.cli import main
from sumwise.data.about import About
from sumwise.learning.status import Status
from tests.studies import with_wrong_total
from tests.tables import write_csv

CONSOLE_SCRIPT = str(Path(sys.executable).with_name("sumwise"))

LINEAR = ("--basis", "linear", "--strategy", "AggMI")


def run(*arguments, **env):
    """The command in this process, 80 columns wide and without a terminal."""
    runner = CliRunner(env={"COLUMNS": "80", "SUMWISE_USER": None, **env})
    return runner.invoke(main, [str(a) for a in arguments])


def done(*arguments, **env):
    result = run(*arguments, **env)
    assert result.exit_code == 0, result.output
    return result


def data_of(*arguments, **env):
    return json.loads(done(*arguments, "--json", **env).stdout)


def one_line(text):
    return " ".join(text.replace("│", " ").split())


@pytest.fixture
def data(tmp_path):
    return write_csv(tmp_path / "data.csv")  # 12 groups, 000 to 011; inputs a and b


@pytest.fixture
def url(data, tmp_path):
    """A small study."""
    path = str(tmp_path / "s.db")
    done("init", path, data, "--by", "g", "--x", "a", "--x", "b", *LINEAR)
    return path


# --- the story ------------------------------------------------------------------------------------


def test_the_whole_story(place, data, tmp_path):
    made = done("init", place, data, "--by", "g", "--x", "a", "--x", "b", *LINEAR)
    assert "12 sets of 1 to 4 individuals" in one_line(made.stdout)
    assert "2 inputs, strategy AggMI" in one_line(made.stdout)
    assert "sumwise ask " in made.stderr

    asked = done("ask", place, "-n", 3, "--by", "ann")
    assert asked.stdout.count("Held by ann until ") == 3
    assert "sumwise tell " in asked.stderr
    held = [claim["set"] for claim in data_of("status", place)["claims"]]
    assert [line[3:] for line in asked.stdout.splitlines() if line[:1].isdigit()] == held

    for set_id in held:
        told = done("tell", place, set_id, "10.5", "--by", "ann", "--note", "visit")
    assert "3 of 12 sets measured" in told.stdout
    next_one = data_of("ask", place)["questions"][0]
    assert re.search(rf"^{next_one['set']}\b", done("ask", place).stdout) is None  # it is held

    out = tmp_path / "predictions.parquet"
    assert f"rows written to {out}" in one_line(done("predict", place, "-o", out).stdout)
    table = parquet.read_table(out)
    assert table.column_names == ["set", "row", "a", "b", "mean", "std", "lower", "upper"]
    with sw.open_study(place) as study:
        expected = study.predict()
        np.testing.assert_allclose(table["mean"], expected.mean, rtol=1e-12)
        np.testing.assert_allclose(table["upper"], expected.upper, rtol=1e-12)
        assert table["set"].to_pylist() == list(expected.ids)

    status = one_line(done("status", place).stdout)
    assert "3 of 12 sets measured, 2 being measured, 7 free." in status
    history = [line["what"] for line in data_of("history", place)]
    assert history == ["created", *["asked"] * 3, *["told"] * 3, *["asked"] * 2]

    page = tmp_path / "report.html"
    assert f"Report: {page}" in done("report", place, "-o", page).stdout
    assert page.stat().st_size > 10_000

    folder = tmp_path / "exported"
    done("export", place, folder)
    other = tmp_path / "other.db"
    again = done("import", folder, other, "--name", "copy")
    assert "Study 'copy'" in again.stdout
    assert [line["what"] for line in data_of("history", other)][: len(history)] == history
    here, there = (data_of("ask", where)["questions"][0] for where in (place, other))
    assert (here["set"], here["why"]) == (there["set"], there["why"])


def test_the_report_is_written_once_unless_forced(url, tmp_path):
    done("tell", url, "003", 12)
    out = tmp_path / "report.html"
    assert f"Report: {out}" in done("report", url, "-o", out).stdout
    assert out.read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    out.write_text("mine")
    refused = run("report", url, "-o", out)
    assert refused.exit_code == 1
    assert "exists; name another file, or pass --force" in one_line(refused.stderr)
    assert out.read_text() == "mine"
    assert data_of("report", url, "-o", out, "--force") == {"file": str(out)}
    assert out.read_text(encoding="utf-8") != "mine"


# --- init -----------------------------------------------------------------------------------------


def test_init_says_which_columns_it_took_and_which_not(data, tmp_path):
    made = done("init", tmp_path / "s.db", data, "--by", "g")
    talk = one_line(made.stderr)
    assert "Sets by g; inputs y, a, b." in talk
    assert "Left out: note (it is the same in every row)." in talk
    made = done("init", tmp_path / "t.db", data, "--by", "g", "--not", "note")
    assert "Left out: note (it is not wanted)." in one_line(made.stderr)


def test_init_as_json_is_one_document(data, tmp_path):
    made = data_of("init", tmp_path / "s.db", data, "--by", "g", "--name", "soil", "--seed", 4)
    assert made == {
        "study": "soil", "sets": 12, "individuals": 35, "by": ["g"],
        "inputs": ["y", "a", "b"],
        "left_out": ["note"], "weights": "sum", "strategy": "IVR", "basis": "auto", "seed": 4,
        "preset": None, "claim_days": 7.0, "cost": None, "noise_std": None, "targets": None,
        "target_weights": None, "enough": None,
        "outcome": None, "unit": None, "individual": None, "low": None, "high": None,
        "known": 0, "outputs": "numbers",
    }  # fmt: skip
    with sw.open_study(tmp_path / "s.db") as study:
        assert (study.name, study.seed) == ("soil", 4)


def test_codes_of_groups_stay_text_even_where_they_are_inputs(tmp_path):
    (tmp_path / "d.csv").write_text("g,a\n007,1\n7,2\n007,3\n")
    done("init", tmp_path / "s.db", tmp_path / "d.csv", "--by", "g", "--x", "g", "--x", "a")
    with sw.open_study(tmp_path / "s.db") as study:
        assert study.ids == ("007", "7")
        assert study.sets.x.tolist() == [[7, 1], [7, 3], [7, 2]]


def test_several_columns_name_a_set_that_can_be_told(tmp_path):
    rows = {"s": ["MI", "OH", "MI", "MI"], "year": [1, 1, 2, 1]}  # rows of a set lie apart
    rows |= {"a": [1.0, 2.0, 3.0, 4.0], "w": [2, 0.5, 1, 4]}
    parquet.write_table(pa.table(rows), tmp_path / "d.parquet")
    url = tmp_path / "s.db"
    words = ("--by", "s", "--by", "year", "--weights", "w", "--basis", "linear")
    made = done("init", url, tmp_path / "d.parquet", *words)
    assert "inputs a." in made.stderr
    assert "a sum weighted by w" in one_line(made.stdout).replace("its sum", "a sum")
    done("tell", url, "MI / 2", 5)
    with sw.open_study(url) as study:
        assert study.answers[0].set_id == ("MI", 2)
        assert study.sets.theta.tolist() == [2, 4, 0.5, 1]
        assert study.sets.x[:, 0].tolist() == [1, 4, 2, 3]


def test_settings_reach_the_study(data, tmp_path):
    words = ("--by", "g", "--x", "a", "--weights", "mean", "--strategy", "maxn", "--claim-days", 2)
    done("init", tmp_path / "s.db", data, *words, "--sets-file", tmp_path / "sets.parquet")
    assert (tmp_path / "sets.parquet").exists()
    asked = data_of("ask", tmp_path / "s.db")["questions"][0]
    assert "it has the most individuals" in asked["why"]
    with sw.open_study(tmp_path / "s.db") as study:
        assert study.sets.theta.max() == 1.0
        assert study.sets.theta.min() == 0.25
        claim = study.claims[0]
    assert claim.expires[:10] > claim.asked[:10]
    shown = done("ask", tmp_path / "s.db").stdout
    assert "This mean should reduce the uncertainty of a typical individual" in shown


def test_the_preset_of_the_paper_brings_its_own_model(data, tmp_path):
    words = ("--by", "g", "--x", "a", "--preset", "paper")
    done("init", tmp_path / "s.db", data, *words)
    with sw.open_study(tmp_path / "s.db") as study:
        assert study.model.hyperparameters == "adam"
    refused = run("init", tmp_path / "t.db", data, *words, "--basis", "linear")
    assert refused.exit_code == 1
    assert "a preset brings its own model" in one_line(refused.stderr)


# --- asking and telling ---------------------------------------------------------------------------


def test_ask_prints_what_is_expected_once_something_is_known(url):
    assert "expected total" not in done("ask", url).stdout
    done("tell", url, "003", 40)
    asked = done("ask", url, "--by", "ben")
    assert re.match(r"\d{3}   expected total -?[\d.]+ ± [\d.]+\n", asked.stdout)
    for words in (
        "This total should bring a typical individual from ±",
        "Next best: ",
        "Held by ben",
    ):
        assert words in one_line(asked.stdout)


def test_ask_as_json_says_everything(url):
    done("tell", url, "003", 40)
    found = data_of("ask", url, "-n", 2, SUMWISE_USER="cleo")["questions"]
    with sw.open_study(url) as study:
        claims = study.claims
    assert [question["set"] for question in found] == [claim.set_id for claim in claims]
    assert {question["by"] for question in found} == {"cleo"}
    assert found[0]["information"] == pytest.approx(found[0]["score"])
    assert found[0]["runner_up"] in study.ids
    assert found[0]["runner_up_score"] <= found[0]["score"]
    assert [question["number"] for question in found] == [0, 1]
    assert found[0]["expires"] == claims[0].expires


def test_who_it_was_is_taken_from_the_environment_unless_it_is_said(url):
    done("tell", url, "001", 1, SUMWISE_USER="ann")
    done("tell", url, "002", 2, "--by", "ben", SUMWISE_USER="ann")
    done("tell", url, "003", 3, SUMWISE_USER="")
    with sw.open_study(url) as study:
        assert [answer.by for answer in study.answers] == ["ann", "ben", None]


@pytest.mark.parametrize("words", [("-5",), ("-.5e1",), ("--", "-5")])
def test_negative_totals_are_numbers_and_not_options(url, words):
    done("tell", url, "001", *words)
    with sw.open_study(url) as study:
        assert study.answers[0].y_bar == -5


def test_a_set_that_looks_like_a_negative_number_is_found(tmp_path):
    (tmp_path / "d.csv").write_text("g,a\n-5,1\n-x,2\n")
    url = tmp_path / "s.db"
    done("init", url, tmp_path / "d.csv", "--by", "g")
    done("tell", url, "-5", "7", "--note", "-3")
    done("tell", url, "--", "-x", "-8")
    done("amend", url, "-5", "-7")
    with sw.open_study(url) as study:
        assert [(a.set_id, a.y_bar) for a in study.answers] == [("-5", -7), ("-x", -8)]
        assert study.history()[1].note == "-3"


def test_answers_are_corrected_and_taken_back(url):
    done("tell", url, "001", 5, "--noise-std", "0.5")
    assert "001 is -6." in done("amend", url, "001", "-6", "--by", "ann").stdout
    with sw.open_study(url) as study:
        assert (study.answers[0].y_bar, study.answers[0].noise_std) == (-6, 0.5)
    assert data_of("amend", url, "001", 7, "--noise-std", 0) == {"set": "001", "total": 7.0}
    assert data_of("retract", url, "001", "--note", "wrong") == {"retracted": "001"}
    done("tell", url, "001", 8)
    assert "Withdrawn: 001" in done("retract", url, "001").stdout
    with sw.open_study(url) as study:
        assert study.answers == ()
        assert [e.what for e in study.history()[1:]] == [
            "told", "amended", "amended", "retracted", "told", "retracted"
        ]  # fmt: skip


def test_claims_are_released_and_renewed(url):
    held = data_of("ask", url)["questions"][0]
    later = data_of("renew", url, held["set"], "--days", "30")
    assert later["expires"] > held["expires"]
    assert "is held until" in done("renew", url, held["set"]).stdout
    assert "is free again" in done("release", url, held["set"], "--by", "ann").stdout
    with sw.open_study(url) as study:
        assert study.claims == ()
    assert re.search(r"renewed +\d{3} .* until 20", done("history", url, COLUMNS="200").stdout)
    other = data_of("ask", url)["questions"][0]["set"]
    assert data_of("release", url, other) == {"released": other}


def test_a_set_of_ones_own_choice_is_held_and_one_that_cannot_be_measured_set_aside(url):
    done("tell", url, "003", 40)
    held = data_of("claim", url, "005", "--by", "ann")["questions"][0]
    assert (held["set"], held["by"]) == ("005", "ann")
    assert re.match(r"006   expected total ", done("claim", url, "006").stdout)
    assert "is skipped" in done("skip", url, "006", "--note", "closed", "--by", "ben").stdout
    assert data_of("skip", url, "007") == {"skipped": "007"}
    found = data_of("status", url)
    assert [claim["set"] for claim in found["claims"]] == ["005"]
    assert [(skip["set"], skip["by"], skip["note"]) for skip in found["skips"]] == [
        ("006", "ben", "closed"), ("007", None, None)
    ]  # fmt: skip
    assert re.search(r"^006 +ben +20.* closed *$", done("status", url).stdout, re.M)
    assert "may be asked for again" in done("unskip", url, "006").stdout
    assert data_of("unskip", url, "007") == {"unskipped": "007"}


# --- telling from a file --------------------------------------------------------------------------


def test_totals_from_a_file_with_names_notes_and_noise(url, tmp_path):
    file = tmp_path / "totals.csv"
    file.write_text("set,y_bar,by,note,noise_std,day\n001,-1.5,ann,,,Mon\n002,2,,dry,0.5,Tue\n")
    told = done("tell", url, "--from", file, "--by", "ben")
    assert "2 new totals recorded from 2 rows. 2 of 12 sets measured." in one_line(told.stdout)
    assert "Ignored columns: day." in told.stderr
    with sw.open_study(url) as study:
        found = [(a.set_id, a.y_bar, a.by, a.note, a.noise_std) for a in study.answers]
    assert found == [("001", -1.5, "ann", None, None), ("002", 2.0, "ben", "dry", 0.5)]
    again = done("tell", url, "--from", file)
    assert "0 new totals recorded from 2 rows, 2 already recorded." in one_line(again.stdout)
    assert data_of("tell", url, "--from", file) == {"rows": 2, "new": 0, "measured": 2}


def test_the_only_other_column_of_a_file_holds_totals_whatever_its_name(url, tmp_path):
    told = tmp_path / "told.csv"
    told.write_text("set;maths\n001;12,5\n002;7,25\n")
    said = one_line(done("tell", url, "--from", told).stderr)
    assert "told.csv: totals are in the column 'maths'." in said
    assert said.count("decimal commas") == said.count("read with") == 1
    with sw.open_study(url) as study:
        assert [a.y_bar for a in study.answers] == [12.5, 7.25]


def test_several_other_columns_of_a_file_are_not_guessed_among(url, tmp_path):
    told = tmp_path / "told.csv"
    told.write_text("set,maths,pupils\n001,12.5,30\n")
    result = run("tell", url, "--from", told)
    assert result.exit_code == 1
    assert "has no column 'total'" in one_line(result.stderr)


def test_totals_from_parquet_and_sets_that_are_numbers(tmp_path):
    parquet.write_table(pa.table({"g": [7, 8, 9], "a": [1.0, 2.0, 3.0]}), tmp_path / "d.parquet")
    url = tmp_path / "s.db"
    done("init", url, tmp_path / "d.parquet", "--by", "g")
    totals = pa.table({"set": ["7", "8"], "total": [1.5, 2.5], "noise_std": [None, 0.1]})
    parquet.write_table(totals, tmp_path / "t.parquet")
    done("tell", url, "--from", tmp_path / "t.parquet")
    parquet.write_table(pa.table({"set": [9], "total": ["3"]}), tmp_path / "u.parquet")
    done("tell", url, "--from", tmp_path / "u.parquet")
    with sw.open_study(url) as study:
        assert [(a.set_id, a.y_bar, a.noise_std) for a in study.answers] == [
            (7, 1.5, None), (8, 2.5, 0.1), (9, 3.0, None)
        ]  # fmt: skip


@pytest.mark.slow  # large
def test_ten_thousand_totals_take_less_than_two_seconds(tmp_path):
    rows = "".join(f"s{i},{i % 17},{i % 5}\n" for i in range(10_000))
    (tmp_path / "d.csv").write_text("g,a,b\n" + rows)
    (tmp_path / "t.csv").write_text("set,total,note\n" + rows)
    url = str(tmp_path / "s.db")
    done("init", url, tmp_path / "d.csv", "--by", "g", "--basis", "linear")
    command = [CONSOLE_SCRIPT, "tell", url, "--from", str(tmp_path / "t.csv"), "--json"]
    before = os.times()
    begun = time.monotonic()
    shell = subprocess.run(command, capture_output=True, text=True, check=True)
    elapsed, after = time.monotonic() - begun, os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    assert json.loads(shell.stdout)["new"] == 10_000
    assert min(elapsed, cpu) < 2  # other tests may be running beside this one


# --- predicting -----------------------------------------------------------------------------------


def test_predictions_without_a_file_are_the_first_rows_and_how_to_get_all(url):
    done("tell", url, "003", 40)
    shown = done("predict", url)
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["set", "row", "a", "b", "mean", "std", "lower", "upper"]
    assert lines[2].split()[:2] == ["000", "1"]
    assert "The first 10 of 35; lower to upper should hold 90 %" in one_line(shown.stdout)
    assert f"sumwise predict {url} -o predictions.csv" in shown.stderr


def test_predictions_as_json_are_all_rows(url):
    done("tell", url, "003", 40)
    found = data_of("predict", url, "--level", 0.5)
    assert len(found["rows"]) == 35
    with sw.open_study(url) as study:
        expected = study.predict(level=0.5)
    assert [row["lower"] for row in found["rows"]] == pytest.approx(expected.lower.tolist())


def test_many_individuals_are_predicted_block_by_block(url, monkeypatch):
    done("tell", url, "003", 40)
    whole = data_of("predict", url)["rows"]
    monkeypatch.setattr("sumwise.model.design.BLOCK_NUMBERS", 8)
    for row, again in zip(whole, data_of("predict", url)["rows"], strict=True):
        assert again["mean"] == pytest.approx(row["mean"], rel=1e-12)
        assert again["std"] == pytest.approx(row["std"], rel=1e-12)


def test_rows_are_counted_within_their_set(url):
    found = data_of("predict", url)["rows"]
    with sw.open_study(url) as study:
        sets = study.sets
    for a, set_id in enumerate(sets.ids):
        mine = [row for row in found if row["set"] == set_id]
        assert [row["row"] for row in mine] == list(range(1, sets.sizes[a] + 1))
        rows = sets.x[sets.starts[a] : sets.starts[a + 1]].tolist()
        assert [[row["a"], row["b"]] for row in mine] == rows


def test_predictions_of_a_new_table_keep_its_columns_as_they_are(data, tmp_path):
    url = tmp_path / "other-order.db"
    done("init", url, data, "--by", "g", "--x", "b", "--x", "a", "--basis", "linear")
    done("tell", url, "003", 40)
    (tmp_path / "new.csv").write_text("code,b,a\n007,1,2.5\n008,-1,0\n")
    out = tmp_path / "out.csv"
    done("predict", url, tmp_path / "new.csv", "-o", out)
    kinds = arrow_csv.ConvertOptions(column_types={"code": pa.string()})
    found = arrow_csv.read_csv(out, convert_options=kinds)
    assert found.column_names == ["code", "b", "a", "mean", "std", "lower", "upper"]
    assert found["code"].to_pylist() == ["007", "008"]
    with sw.open_study(url) as study:
        expected = study.predict(np.array([[1.0, 2.5], [-1.0, 0.0]]))
    np.testing.assert_allclose(found["mean"], expected.mean)
    np.testing.assert_allclose(found["std"], expected.std)
    assert "The first 2 of 2" in done("predict", url, tmp_path / "new.csv").stdout


def test_members_of_a_measured_set_add_up_in_a_table_that_names_sets(data, tmp_path):
    url = tmp_path / "adds-up.db"
    done("init", url, data, "--by", "g", "--x", "a", "--x", "b", "--basis", "linear")
    done("tell", url, "003", 40)
    shown = done("predict", url, data, "-o", tmp_path / "out.csv")
    assert "given their totals, by g." in one_line(shown.stderr)
    frame = pd.read_csv(tmp_path / "out.csv", dtype={"g": str})
    assert frame["mean"][frame["g"] == "003"].sum() == pytest.approx(40)
    (tmp_path / "none.csv").write_text("a,b\n1,2\n")
    assert "totals, by" not in done("predict", url, tmp_path / "none.csv").stderr
    (tmp_path / "gap.csv").write_text("g,a,b\n,1,2\n")
    rows = [data_of("predict", url, tmp_path / f"{name}.csv")["rows"] for name in ("none", "gap")]
    assert rows[0][0]["mean"] == rows[1][0]["mean"]


def test_our_columns_step_back_where_a_name_is_taken(url, tmp_path):
    (tmp_path / "new.csv").write_text("mean,b,a\nx,1,2.5\n")
    row = data_of("predict", url, tmp_path / "new.csv")["rows"][0]
    assert list(row)[:4] == ["mean", "b", "a", "sumwise_mean"]
    assert row["mean"] == "x"
    (tmp_path / "new.csv").write_text("mean,sumwise_std,b,a\nx,1,1,2.5\n")
    refused = run("predict", url, tmp_path / "new.csv")
    assert refused.exit_code == 1
    assert "there is a column 'sumwise_std' already" in one_line(refused.stderr)


def test_dates_and_gaps_of_a_table_are_no_trouble_to_json(url, tmp_path):
    rows = {"a": [1.0, 2.0], "b": [3, 4], "day": [date(2026, 1, 2), None], "z": [nan, inf]}
    parquet.write_table(pa.table(rows), tmp_path / "new.parquet")
    first, second = data_of("predict", url, tmp_path / "new.parquet")["rows"]
    assert (first["day"], first["z"], first["b"]) == ("2026-01-02", None, 3)
    assert (second["day"], second["z"]) == (None, None)


def test_a_study_whose_inputs_have_no_names_is_predicted_without_a_table(tmp_path):
    sets = sw.Sets.from_arrays([[[0.0, 1.0]], [[2.0, 3.0], [4.0, 5.0]]], ids=[(1, "a"), (2, "b")])
    url = tmp_path / "s.db"
    with sw.create_study(url, sets, model=sw.AggregateRegressor("linear")):
        pass
    rows = data_of("predict", url)["rows"]
    assert list(rows[2])[:4] == ["set", "row", "x0", "x1"]
    assert (rows[2]["set"], rows[2]["row"]) == ("2 / b", 2)
    (tmp_path / "new.csv").write_text("x0,x1\n1,2\n")
    refused = run("predict", url, tmp_path / "new.csv")
    assert refused.exit_code == 1
    assert "the inputs of this study have no names" in one_line(refused.stderr)


def test_totals_of_sets_stand_beside_those_measured(url, tmp_path):
    done("tell", url, "003", 40)
    done("predict", url, "--sets", "-o", tmp_path / "sets.parquet")
    found = parquet.read_table(tmp_path / "sets.parquet")
    assert found.column_names == ["set", "measured", "mean", "std", "lower", "upper"]
    assert found["measured"].to_pylist() == [None] * 3 + [40.0] + [None] * 8
    with sw.open_study(url) as study:
        np.testing.assert_allclose(found["mean"], study.predict_sets().mean)


def test_predictions_before_the_first_answer_come_with_a_warning(url):
    assert "Nothing is measured yet" in one_line(done("predict", url).stderr)
    done("tell", url, "003", 40)
    assert "Nothing is measured yet" not in one_line(done("predict", url).stderr)


def test_a_file_of_predictions_is_not_overwritten(url, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("mine")
    refused = run("predict", url, "-o", out)
    assert refused.exit_code == 1
    assert out.read_text() == "mine"
    assert data_of("predict", url, "-o", out, "--force")["rows"] == 35
    assert out.read_text() != "mine"


# --- looking --------------------------------------------------------------------------------------


def test_status_lists_who_holds_what_and_what_to_type_next(url):
    held = data_of("ask", url, "--by", "ann")["questions"][0]["set"]
    shown = done("status", url)
    assert re.search(rf"^{held} +ann +20\d\d-\d\d-\d\d \d\d:\d\d UTC +20", shown.stdout, re.M)
    assert f"sumwise ask {url}" in shown.stderr
    for set_id in [f"{n:03}" for n in range(12) if f"{n:03}" != held]:
        done("tell", url, set_id, 5)
    assert f"sumwise tell {url} {held} TOTAL" in done("status", url).stderr
    done("tell", url, held, 5)
    last = done("status", url)
    assert "Nothing is left to ask." in last.stdout
    assert "sumwise ask" not in last.stderr


def test_status_as_json_has_the_sentences_and_the_figures(url):
    done("tell", url, "003", 40)
    found = data_of("status", url)
    with sw.open_study(url) as study:
        status = study.status()
    assert found["words"] == list(status.words)
    assert found["information_left"] == status.information_left
    assert (found["answers"], found["sets"], found["claims"]) == (1, 12, [])


def test_status_says_first_which_answer_to_check_and_how_to_correct_it(tmp_path):
    place = str(tmp_path / "wrong.db")
    with with_wrong_total(place) as study:
        status, right = study.status(), study.answers[1].y_bar / 10
    shown = done("status", place)
    assert shown.stdout.splitlines()[1].startswith("Check set 1 first: it is ")
    assert status.to_check in one_line(shown.stdout)
    assert f"sumwise amend {place} 'set 1' TOTAL" in shown.stderr
    found = data_of("status", place)
    assert found["headline"] == [status.to_check] == found["words"][:1]
    first, suspect = found["suspects"][0], status.suspects[0]
    known = {name: getattr(suspect, name) for name in ("total", "expected", "std", "z", "moves")}
    assert first == {"set": "set 1", **known}
    assert found["typical_error"] == status.typical_error
    done("amend", place, "set 1", right)
    after = done("status", place)
    assert data_of("status", place)["suspects"] == []
    assert "Check" not in after.stdout
    assert "amend" not in after.stderr


def test_sentences_of_a_status_speak_in_units_and_per_cent():
    def said(**known):
        counts = {"sets": 10, "answers": 4, "open_claims": 0, "skipped": 0}
        counts |= {"questions": 9, "next_questions": 5}
        rest = {"information_left": 40.321, "mean_variance": 88.8, "mean_variance_after": 49.6}
        rest |= {"individual_std": 14.6, "individual_std_after": 13.2, "individual_std_all": 12.0}
        rest |= {"set_std": 9.4, "set_std_after": 7.0, "guess_std": 20.0, "typical_error": 1.0}
        kept = {**counts, **rest, "noise_variance": 125.9, **known}
        return " ".join(Status("s", "AggMI", **kept).words)

    text = said()
    assert "4 of 10 sets measured, 0 being measured, 6 free." in text
    assert "A typical individual is known to within ±14.6" in text
    assert (
        ", and the mean of a typical set to within ±9.40 (one standard deviation; a rough" in text
    )
    assert "off by ±20.0: the model explains 47 % of what varies from individual to" in text
    assert "The next 5 answers should bring a typical individual from ±14.6 to ±13.2, and " in text
    assert "and means of sets from ±9.40 to ±7.00; measuring all sets that are left would" in text
    assert "Every individual has noise of its own, estimated at ±11.2" in text
    weighed = said(about=About(unit="kg"))
    assert "and the mean of a typical set to within ±9.40 kg (one standard" in weighed
    assert "and means of sets from ±9.40 to ±7.00 kg; measuring all" in weighed
    tiny = said(individual_std=3.2e-7, individual_std_after=1e-7)
    assert "known to within ±3.2e-07, and" in tiny
    assert "bring a typical individual from ±3.2e-07 to ±1e-07, and" in tiny
    assert "Going on helps: the next 5 answers should reduce the uncertainty of a typical" in text
    assert "hardly helps: the next 5 answers should reduce" in said(individual_std_after=14.59)
    assert "typical individual by less than 1 %." in said(individual_std_after=14.59)
    assert "Going on helps little: " in said(individual_std_after=14.1)
    assert "nats" not in text
    waiting = said(open_claims=2)
    assert "answers to 2 open questions and the next 5 should" in waiting
    assert "answers to 1 open question should" in said(open_claims=1, next_questions=0)
    assert "1 open question and the next should" in said(open_claims=1, next_questions=1)
    assert "the next answer should" in said(next_questions=1)
    begun = said(answers=0)
    assert "Nothing is measured yet, so uncertainty has no unit" in begun
    assert "±" not in begun
    assert "no unit." in said(answers=0, skipped=10, next_questions=0)
    assert "2 free, 4 skipped." in said(skipped=4)
    ended = said(answers=9, skipped=1, next_questions=0)
    assert "Nothing is left to ask." in ended
    assert "answers to" not in ended
    assert "Going on" not in ended


def test_history_is_shown_in_part_and_written_in_full(url, tmp_path):
    for number in range(12):
        held = data_of("ask", url)["questions"][0]["set"]
        done("tell", url, held, number, "--by", "ann")
    shown = done("history", url)
    assert len(shown.stdout.splitlines()) == 22
    assert "20 of 25 lines" in shown.stderr
    assert len(done("history", url, "--last", 3).stdout.splitlines()) == 5
    assert len(data_of("history", url, "--last", 3)) == 3
    assert "25 lines written" in done("history", url, "-o", tmp_path / "h.csv").stdout
    found = data_of("history", url, "-o", tmp_path / "h.parquet")
    assert found["rows"] == 25
    table = parquet.read_table(tmp_path / "h.parquet")
    assert table.column("number").to_pylist() == list(range(1, 26))
    assert [line["number"] for line in data_of("history", url, "--last", 3)] == [23, 24, 25]
    told = [row for row in table.to_pylist() if row["what"] == "told"]
    assert [row["total"] for row in told] == list(range(12))
    asked = [row for row in table.to_pylist() if row["what"] == "asked"]
    assert "Best of" in asked[0]["why"]
    assert arrow_csv.read_csv(tmp_path / "h.csv").num_rows == 25


# --- several studies, other databases -------------------------------------------------------------


def test_several_studies_in_one_database_are_told_apart(place, data):
    for name in ("north", "south"):
        done("init", place, data, "--by", "g", "--x", "a", "--name", name)
    refused = run("ask", place)
    assert refused.exit_code == 1
    assert "holds 2 studies: 'north', 'south'. Say which (--study" in one_line(refused.stderr)
    asked = done("ask", place, "--study", "south", "--by", "ann")
    assert "--study south" in asked.stderr
    asked_other = not asked.stdout.startswith("003")
    done("tell", place, "--study", "south", "003", "-4")
    found = data_of("storage", "studies", place)
    assert [line["study"] for line in found] == ["north", "south"]
    assert [line["measured"] for line in found] == [0, 1]
    assert [line["being_measured"] for line in found] == [0, int(asked_other)]
    assert [line["asked"] for line in found] == [0, 1]
    shown = done("storage", "studies", place).stdout
    assert re.search(r"^south +IVR +1 ", shown, re.M)


def test_a_database_is_brought_to_the_present_schema(url):
    assert "has the current schema" in one_line(done("storage", "upgrade", url).stdout)
    assert list(data_of("storage", "upgrade", url)) == ["schema"]


def test_a_database_is_copied_and_put_back(url, tmp_path):
    if "://" in url:
        assert "pg_dump" in one_line(run("storage", "backup", url, tmp_path / "c.db").stderr)
        return
    copy = str(tmp_path / "copy.db")
    assert "storage restore" in one_line(done("storage", "backup", url, copy).stderr)
    assert "--force" in one_line(run("storage", "backup", url, copy).stderr)
    done("storage", "backup", url, copy, "--force")
    found = data_of("storage", "restore", url, copy)
    assert os.path.exists(found["former"])
    assert len(found["studies"]) == 1
    assert "open it again" in one_line(done("storage", "restore", url, copy).stderr)
