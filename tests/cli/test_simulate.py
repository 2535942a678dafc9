"""`sumwise simulate` as a user types it: what is printed where, the report, exit codes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from sumwise.cli import Main
from sumwise.cli.simulate import simulate
from tests.tables import write_csv

# where numbers do not matter
TINY = ("--splits", 1, "--queries", 1, "--jobs", 1, "--methods", "IVR")
SHORT = ("--splits", 3, "--queries", 4, "--jobs", 1, "--methods", "IVR", "--methods", "MaxN")


def run(*arguments):
    """The command in this process, 80 columns wide and without a terminal."""
    main = Main("sumwise", commands={"simulate": simulate})
    words = ["simulate", *map(str, arguments)]
    return CliRunner(env={"COLUMNS": "80"}).invoke(main, words)


def one_line(text):
    """Text as if it had been neither wrapped nor framed."""
    return " ".join(text.replace("│", " ").split())


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulate")
    data = write_csv(folder / "data.csv")
    out = folder / "new" / "report.html"
    return run(data, "--by", "g", "--y", "y", *SHORT, "--out", out), out


# --- what it prints -------------------------------------------------------------------------------


def test_it_says_first_what_it_does_and_with_which_columns(shown):
    result, _ = shown
    assert result.exit_code == 0
    talk = one_line(result.stderr)
    assert "12 groups by g; target y; inputs a, b." in talk
    assert "In each of 3 splits, 3 strategies measure 4 of 10 groups" in talk
    assert "9/9" in talk


def test_the_headline_says_that_noise_cannot_be_predicted(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{group},{rng.normal():.3f},{rng.normal():.3f}" for group in range(20) for _ in "ab"]
    (tmp_path / "noise.csv").write_text("\n".join(["g,y,a", *rows]) + "\n")
    words = (tmp_path / "noise.csv", "--by", "g", "--y", "y", *SHORT)
    shown = one_line(run(*words, "--out", tmp_path / "a.html").stdout)
    found = json.loads(run(*words, "--out", tmp_path / "b.html", "--json").stdout)["verdict"]
    assert found["no_better"].endswith("guessing the mean")
    assert found["headline"].endswith(f"; {found['no_better']}")
    assert f"{found['headline']}. Averaged over 4 measurements" in shown


def test_it_prints_the_table_the_verdict_and_the_caveats(shown):
    result, _ = shown
    text = one_line(result.stdout)
    for words in (
        "Error of y (root mean square), lowest average first",
        "IVR",
        "MaxN",
        "Rand",
        " ± ",
        "predicting the mean for everyone is off by",
        "Averaged over 4 measurements, the error of IVR is",
        "3 splits only",
        "12 groups only",
    ):
        assert words in text


def test_it_writes_the_report_and_says_where(shown):
    result, out = shown
    assert f"Report: {out}" in result.stdout  # in one piece, so that it can be copied
    assert "<h1>Simulation on data.csv: " in out.read_text(encoding="utf-8")
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]


def test_it_fits_80_columns(shown):
    result, _ = shown
    lines = (result.stdout + result.stderr).splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith("Report: "))


def test_strategies_beyond_the_papers_can_be_compared(tmp_path):
    data, out = write_csv(tmp_path / "data.csv"), tmp_path / "report.html"
    words = ("--splits", 2, "--queries", 3, "--jobs", 1, "--methods", "IVR", "--methods", "EPIG")
    result = run(data, "--by", "g", "--y", "y", "--x", "a", *words, "--out", out, "--json")
    found = json.loads(result.stdout)
    assert found["plan"]["methods"] == ["Rand", "IVR", "EPIG"]
    assert np.isfinite(list(found["errors"].values())).all()
    assert "make predictions most certain" in out.read_text(encoding="utf-8")


def test_json_on_stdout_is_the_whole_result(tmp_path):
    data = write_csv(tmp_path / "data.csv")
    out = tmp_path / "report.html"
    result = run(data, "--by", "g", "--y", "y", "--x", "a", *SHORT, "--out", out, "--json")
    found = json.loads(result.stdout)
    assert "12 groups" in result.stderr
    assert (found["data"], found["by"], found["y"], found["x"]) == ("data.csv", ["g"], "y", ["a"])
    assert (found["groups"], found["training_groups"]) == (12, 10)
    assert found["plan"] == {
        "methods": ["MaxN", "Rand", "IVR"], "splits": 3, "queries": 4, "weights": "sum",
        "outputs": "numbers", "budget": None,
    }  # fmt: skip
    assert np.shape(found["errors"]["IVR"]) == (3, 4)
    best = found["strategies"][0]
    assert best["average"] == pytest.approx(np.mean(found["errors"][best["method"]]))
    assert found["verdict"]["outcome"] in ("wins", "even", "loses")
    assert found["savings"]["table"][-1]["query"] == 4
    assert found["report"] == str(out)
    assert out.exists()


def test_one_split_is_printed_without_intervals(tmp_path):
    data = write_csv(tmp_path / "data.csv")
    words = ("--by", "g", "--y", "y", "--splits", 1, "--queries", 1, "--methods", "MinN")
    result = run(data, *words, "--weights", "mean", "--out", tmp_path / "r.html")
    assert result.exit_code == 0
    assert "±" not in result.stdout
    assert "One split gives no verdict" in one_line(result.stdout)


def test_brackets_in_names_are_printed_as_they_are(tmp_path):
    data = write_csv(tmp_path / "data.csv", name="[red]y[/red]")
    out = tmp_path / "[bold]r.html"
    result = run(data, "--by", "g", "--y", "[red]y[/red]", *TINY, "--out", out)
    assert "target [red]y[/red]" in one_line(result.stderr)
    assert "Error of [red]y[/red]" in result.stdout
    assert f"Report: {out}" in result.stdout


def test_names_of_columns_and_files_cannot_act_on_the_terminal(tmp_path):
    data = write_csv(tmp_path / "data.csv", name="\x1b[2J")
    out = tmp_path / "\x1b[31m.html"
    result = run(data, "--by", "g", "--y", "\x1b[2J", *TINY, "--out", out)
    assert result.exit_code == 0
    assert all(c.isprintable() or c == "\n" for c in result.output)
    assert r"target \x1b[2J; inputs a, b." in one_line(result.stderr)
    assert r"\x1b[31m.html" in result.stdout


def test_help_teaches_with_an_example():
    result = run("--help")
    assert result.exit_code == 0
    assert "sumwise simulate schools.csv --by district --y math4" in result.stdout


# --- refusals -------------------------------------------------------------------------------------


def test_an_existing_file_is_not_overwritten_unless_told_to(tmp_path):
    data = write_csv(tmp_path / "data.csv")
    out = tmp_path / "report.html"
    out.write_text("mine")
    words = (data, "--by", "g", "--y", "y", *SHORT, "--out", out)
    refused = run(*words)
    assert refused.exit_code == 1
    assert "exists; name another file with --out, or pass --force" in one_line(refused.stderr)
    assert refused.stdout == ""
    assert out.read_text() == "mine"
    assert run(*words, "--force").exit_code == 0
    assert "Simulation on data.csv" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        (None, (), "there is no file"),
        ("", (), "is empty"),
        ("g,y,a\n1,2,3\n1,3,4\n", (), "has 1 group by 'g'"),
        ("g,y,a\n1,2,3\n2,2,4\n3,2,5\n", (), "a target must vary"),
        ("g,z,a\n1,2,3\n", (), "has no column 'y' (given as --y)"),
        ("g,y,a\n1,2,3\n2,x,4\n3,2,5\n", (), "line 3, set '2': 'y' is 'x', not a number"),
        (
            "g,y,a\n1,2,3\n2,1,4\n3,2,5\n",
            ("--queries", 3),
            "3 queries were wanted; give 1 to 2",
        ),
        ("g,y,a\n1,2,3\n2,1,4\n3,2,5\n", ("--methods", "Rand"), "besides Rand"),
    ],
)
def test_bad_input_is_refused_in_words_and_nothing_is_written(tmp_path, content, words, message):
    data = tmp_path / "data.csv"
    if content is not None:
        data.write_text(content)
    result = run(data, "--by", "g", "--y", "y", *words, "--out", tmp_path / "new" / "r.html")
    assert result.exit_code == 1
    assert message in one_line(result.stderr)
    assert result.stdout == ""
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--by", "g"),
        ("--y", "y"),
        ("--by", "g", "--y", "y", "--methods", "Best"),
        ("--by", "g", "--y", "y", "--splits", 0),
        ("--by", "g", "--y", "y", "--weights", "max"),
        ("--by", "g", "--y", "y", "--out", "/"),
    ],
)
def test_options_that_make_no_sense_are_misuse(words):
    assert run("data.csv", *words).exit_code == 2


def test_a_place_below_a_file_is_refused_before_any_work(tmp_path):
    data = write_csv(tmp_path / "data.csv")
    result = run(data, "--by", "g", "--y", "y", "--out", data / "report.html")
    assert result.exit_code == 1
    assert "name a folder" in one_line(result.stderr)
    assert "12 groups" not in result.stderr


def test_the_data_themselves_are_never_overwritten(tmp_path):
    data = write_csv(tmp_path / "data.csv")
    before = data.read_bytes()
    result = run(data, "--by", "g", "--y", "y", *SHORT, "--out", data, "--force")
    assert result.exit_code == 1
    assert "is the input file itself" in one_line(result.stderr)
    assert data.read_bytes() == before
