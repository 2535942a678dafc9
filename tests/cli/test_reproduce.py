"""`sumwise reproduce rff`, as a user runs it."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from sumwise.cli import main
from tests.datasets import data_folder


def rff(out, *options, data=None):
    folder = data_folder() if data is None else data
    arguments = ["reproduce", "rff", "--data", str(folder), "--out", str(out), "--jobs", "1"]
    return CliRunner().invoke(main, [*arguments, *options])


SMALL = ("--datasets", "Housing,MAT", "--methods", "AggMI,Rand", "--splits", "2", "--queries", "3")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    out = tmp_path_factory.mktemp("small") / "out"
    return rff(out, *SMALL, "--no-figures"), out


def rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_it_writes_runs_tables_and_a_report(small):
    result, out = small
    assert result.exit_code == 0, result.output
    runs = rows(out / "runs.csv")
    assert len(runs) == 2 * 2 * 2 * 3
    assert list(runs[0]) == ["dataset", "method", "split", "query", "mse", "seconds"]
    table = rows(out / "table.csv")
    assert {(row["dataset"], row["method"]) for row in table} == {
        (d, m) for d in ("Housing", "MAT") for m in ("AggMI", "Rand")
    }
    for row in table:
        errors = [
            float(run["mse"])
            for run in runs
            if (run["dataset"], run["method"]) == (row["dataset"], row["method"])
        ]
        assert float(row["mean"]) == pytest.approx(sum(errors) / len(errors), rel=1e-5)
    text = (out / "table.md").read_text()
    assert "| # best |" in text
    html = (out / "report.html").read_text()
    assert "Housing" in html
    assert "Best, or not significantly worse than the best" in result.output


def test_a_second_call_runs_nothing_twice_and_more_splits_go_on(small, tmp_path):
    _, out = small
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(out), str(copy)], check=True)
    before = (copy / "runs.csv").read_text()
    assert rff(copy, *SMALL, "--no-figures").exit_code == 0
    assert (copy / "runs.csv").read_text() == before
    assert rff(copy, *SMALL[:-4], "--splits", "3", "--queries", "3", "--no-figures").exit_code == 0
    after = (copy / "runs.csv").read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) == len(before.splitlines()) + 12


def test_one_cell_alone_and_two_jobs_give_the_same_figures(small, tmp_path):
    _, out = small
    alone = ("--datasets", "MAT", "--methods", "Rand", "--splits", "2", "--queries", "3")
    assert rff(tmp_path / "alone", *alone, "--no-figures").exit_code == 0
    two = rff(tmp_path / "two", *SMALL, "--no-figures", "--jobs", "2")
    assert two.exit_code == 0, two.output

    def errors(folder):
        found = rows(folder / "runs.csv")
        return {(r["dataset"], r["method"], r["split"], r["query"]): r["mse"] for r in found}

    assert errors(tmp_path / "two") == errors(out)
    assert errors(tmp_path / "alone").items() <= errors(out).items()


def test_a_narrower_call_keeps_the_whole_table_and_names_may_be_in_any_case(small, tmp_path):
    _, out = small
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(out), str(copy)], check=True)
    narrow = ("--datasets", "mat", "--methods", "rand", "--splits", "1", "--queries", "3")
    result = rff(copy, *narrow, "--no-figures")
    assert result.exit_code == 0, result.output
    assert len(rows(copy / "table.csv")) == 4
    assert "a t-test finds few differences" in result.output


def test_json_is_the_table(tmp_path):
    result = rff(tmp_path / "out", *SMALL, "--no-figures", "--json")
    table = json.loads(result.stdout)
    assert {cell["method"] for cell in table} == {"AggMI", "Rand"}


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (signal.SIGKILL, -signal.SIGKILL),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow),
    ],
)
def test_stopped_in_the_middle_it_goes_on(tmp_path, sent, code):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "sumwise", "reproduce", "rff", "--data", str(data_folder())]
    command += ["--out", str(out), "--datasets", "Mg", "--methods", "AggMI,Rand", "--splits", "40"]
    command += ["--queries", "10", "--jobs", "1", "--no-figures"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (
        (out / "runs.csv").exists() and len((out / "runs.csv").read_text().splitlines()) > 41
    ):
        time.sleep(0.01)
    process.send_signal(sent)
    talk = " ".join(process.communicate()[1].decode().split())  # lines are wrapped
    assert process.returncode == code
    assert ("the same command continues" in talk) == (sent == signal.SIGINT)
    before = (out / "runs.csv").read_text().splitlines()
    assert 41 < len(before) < 1 + 40 * 2 * 10
    again = CliRunner().invoke(main, command[3:])
    assert again.exit_code == 0, again.output
    after = (out / "runs.csv").read_text().splitlines()
    assert len(after) == 1 + 40 * 2 * 10
    assert after[:41] == before[:41]


@pytest.mark.slow
def test_with_figures_the_pictures_and_the_training_times_are_there(tmp_path):
    out = tmp_path / "out"
    options = ("--datasets", "Abalone,MAT", "--methods", "AggMI,Rand", "--splits", "2")
    result = rff(out, *options, "--queries", "3")
    assert result.exit_code == 0, result.output
    for stem in ("error-per-query", "error-per-query-others", "chosen-sets"):
        for suffix in (".png", ".svg", ".html"):
            assert (out / f"{stem}{suffix}").stat().st_size > 1000
    html = (out / "report.html").read_text()
    assert "Training time on Abalone" in html
    assert "averaged over all queries, is" in html  # the title of a chart


def test_published_figures_stand_beside_ours(tmp_path):
    published = tmp_path / "published_mse_rff.csv"
    published.write_text("dataset,method,mse,bold\nHousing,AggMI,0.119,1\n")
    (tmp_path / "published_seconds_abalone.csv").write_text("method,seconds\nAggMI,2599.8\n")
    options = ("--datasets", "Housing", "--methods", "AggMI", "--splits", "1", "--queries", "2")
    out = tmp_path / "out"
    result = rff(out, *options, "--no-figures", "--published", str(published))
    assert result.exit_code == 0, result.output
    assert "## Ours less published" in (out / "table.md").read_text()
    assert rows(out / "table.csv")[0]["published"] == "0.119"
    (tmp_path / "published_seconds_abalone.csv").write_text("nonsense\n1\n")
    result = rff(tmp_path / "other", *options, "--published", str(published))
    assert result.exit_code == 1
    assert not (tmp_path / "other").exists()


def test_without_published_figures_it_says_so(tmp_path):
    data = tmp_path / "data"
    (data / "libsvm").mkdir(parents=True)
    source = data_folder() / "libsvm" / "housing"
    (data / "libsvm" / "housing").write_bytes(source.read_bytes())
    options = ("--datasets", "Housing", "--methods", "Rand", "--splits", "1", "--queries", "2")
    result = rff(tmp_path / "out", *options, "--no-figures", data=data)
    assert result.exit_code == 0
    assert "The published figures are not at hand" in result.output
    assert "## Published" not in (tmp_path / "out" / "table.md").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--datasets", "Abalonee"), "no data set is called 'Abalonee'"),
        (("--methods", "AggMI,XYZ"), "no method is called 'XYZ'"),
        (
            ("--datasets", "Housing", "--queries", "400"),
            "400 queries were wanted; give 1 to 33, the sets of Housing",
        ),
        (("--datasets", "Housing", "--queries", "38"), "38 queries were wanted; give 1 to 33"),
        (("--datasets", ""), "no name was given"),
        (("--methods", " , "), "no name was given"),
        (("--published", "absent.csv"), "not a table of published figures"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_written(tmp_path, options, message):
    result = rff(tmp_path / "out", *options)
    assert result.exit_code == 1
    assert message in " ".join(result.output.replace("│", "").split())
    assert not (tmp_path / "out").exists()


def test_a_missing_data_folder_is_said(tmp_path):
    result = rff(tmp_path / "out", "--datasets", "Mg", data=tmp_path / "nowhere")
    assert result.exit_code == 1
    assert "there is no file" in " ".join(result.output.replace("│", "").split())


def test_results_of_other_settings_are_left_alone(small, tmp_path):
    _, out = small
    before = (out / "runs.csv").read_text()
    result = rff(out, *SMALL[:-2], "--queries", "5")
    assert result.exit_code == 1
    assert "are of queries 3, not 5" in " ".join(result.output.replace("│", "").split())
    assert (out / "runs.csv").read_text() == before
