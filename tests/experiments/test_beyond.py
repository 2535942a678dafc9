"""`sumwise reproduce beyond`: its numbers are the loop's own, kept and read back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from sumwise.cli import main
from sumwise.errors import DataError
from sumwise.experiments import beyond, datasets, protocol, results
from sumwise.experiments.protocol import BEYOND, OURS, PAPER, RANDOM, RFF, Curve
from tests.datasets import data_folder

LINES = BEYOND.columns


def command(out, *options):
    arguments = ["reproduce", "beyond", "--data", str(data_folder()), "--out", str(out)]
    return CliRunner().invoke(main, [*arguments, "--jobs", "1", *options])


@pytest.fixture(scope="module")
def housing(tmp_path_factory):
    out = tmp_path_factory.mktemp("beyond") / "out"
    return command(out, "--datasets", "housing", "--splits", "1"), out


def test_it_says_who_is_better_and_whether_intervals_hold(housing):
    result, out = housing
    assert result.exit_code == 0, result.output
    assert "lower error than the paper's model with AggMI on 1 of 1 data" in result.output
    text = (out / "table.md").read_text()
    assert "| Housing |" in text
    assert "90 % intervals of auto IVR hold" in text
    assert (out / "table.csv").read_text().startswith("dataset,paper,auto IVR")


def test_the_papers_line_is_that_of_the_papers_table(housing):
    _, out = housing
    kept = {run.method: run for run in results.read(results.open_results(out, BEYOND, {}))}
    assert tuple(kept) == LINES
    split = protocol.make_split(datasets.load("Housing", data_folder()), 0)
    (curve,) = protocol.run_split(RFF.only(["AggMI"]), "Housing", 0, split)
    np.testing.assert_allclose(kept[PAPER].mse, curve.mse, rtol=1e-9)
    assert 0.5 < kept[OURS].inside.min() <= kept[OURS].inside.max() <= 1


def test_a_second_call_goes_on_and_prints_json(housing):
    _, out = housing
    before = (out / "runs.csv").read_text()
    result = command(out, "--datasets", "Housing", "--splits", "1", "--json")
    assert (out / "runs.csv").read_text() == before
    (row,) = json.loads(result.stdout)
    assert set(row) == {"dataset", *LINES}


def test_names_that_do_not_exist_are_refused(tmp_path):
    assert "no data set is called 'mars'" in command(tmp_path, "--datasets", "mars").output


def made(dataset, **errors):
    names = dict(zip(("paper", "ours", "epig", "aggmi", "random"), LINES, strict=True))
    each = np.full(3, 0.9)
    return [Curve(dataset, names[k], 0, np.full(30, v), each, each) for k, v in errors.items()]


def test_findings_count_what_the_bar_asks_for():
    runs = [
        *made("A", paper=1.0, ours=0.25, epig=1.0, aggmi=1.0, random=0.5),
        *made("B", paper=1.0, ours=1.0, epig=1.0, aggmi=1.0, random=0.5),
    ]
    rows = beyond.average(runs)
    said = " ".join(beyond.findings(rows, runs))
    assert (
        "on 1 of 2 data sets; the geometric mean of the ratio is 0.500, at worst 1.00 (B)" in said
    )
    assert "Random with our own model on 1 of 2" in said
    assert "auto IVR hold 90.0 %, 90.0 %, 90.0 %" in said
    assert beyond.error_grid(rows).bold == {(0, 2), (1, 5)}
    assert LINES[-1] == RANDOM


def test_damaged_and_foreign_results_are_refused(tmp_path):
    kept = results.open_results(tmp_path, BEYOND, {"Housing": "x"})
    assert results.read(kept) == []
    results.append(kept, made("Housing", paper=1.0, ours=0.5))
    whole = kept.runs.read_text()
    with kept.runs.open("a") as file:
        file.write("Housing,auto IVR,1,x,0.9")  # cut off by a crash
    assert len(results.read(kept)) == 2
    with pytest.raises(DataError, match="its data have changed"):
        results.open_results(tmp_path, BEYOND, {"Housing": "y"})
    results.open_results(tmp_path, BEYOND, {"Housing": "x"})
    assert kept.runs.read_text() == whole
    kept.runs.write_text(whole + "Housing,auto IVR,1,x,0.9\n")
    with pytest.raises(DataError, match="line 4 is damaged"):
        results.open_results(tmp_path, BEYOND, {})
    kept.runs.write_text("something else\n")
    with pytest.raises(DataError, match="does not begin with dataset,line"):
        results.open_results(tmp_path, BEYOND, {})


@pytest.mark.slow  # going on by itself is quick
def test_results_of_the_former_version_are_gone_on_with(housing, tmp_path):
    """It wrote no settings.json, and a folder may lack the last lines."""
    _, out = housing
    whole = (out / "runs.csv").read_text()
    (tmp_path / "runs.csv").write_text("".join(whole.splitlines(keepends=True)[:-2]))
    result = command(tmp_path, "--datasets", "housing", "--splits", "1")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "runs.csv").read_text() == whole
