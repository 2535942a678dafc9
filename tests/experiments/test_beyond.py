"""`sumwise reproduce beyond`: its numbers are the loop's own, kept and read back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from sumwise.cli import main
from sumwise.errors import DataError
from sumwise.experiments import beyond, datasets, protocol
from sumwise.experiments.beyond import LINES, OURS, PAPER, RANDOM, Run
from tests.datasets import data_folder


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
    kept = {run.line: run for run in beyond.read(out / "runs.csv")}
    assert tuple(kept) == LINES
    split = protocol.make_split(datasets.load("Housing", data_folder()), 0)
    config = protocol.paper_model("Housing", 0)
    curve = protocol.run_split("Housing", 0, split, config, ("AggMI",), 30)[0]
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
    return [Run(dataset, names[k], 0, "x", each, np.full(30, v)) for k, v in errors.items()]


def test_findings_count_what_the_bar_asks_for():
    runs = [
        *made("A", paper=1.0, ours=0.25, epig=1.0, aggmi=1.0, random=0.5),
        *made("B", paper=1.0, ours=1.0, epig=1.0, aggmi=1.0, random=0.5),
    ]
    rows = beyond.standings(runs)
    assert [row.earned for row in rows] == [True, False]
    said = " ".join(beyond.findings(rows, runs))
    assert (
        "on 1 of 2 data sets; the geometric mean of the ratio is 0.500, at worst 1.00 (B)" in said
    )
    assert "Random with our own model on 1 of 2" in said
    assert "auto IVR hold 90.0 %, 90.0 %, 90.0 %" in said
    assert beyond.grid(rows).bold == {(0, 2), (1, 5)}
    assert LINES[-1] == RANDOM


def test_damaged_and_foreign_results_are_refused(tmp_path):
    kept = tmp_path / "runs.csv"
    assert beyond.read(kept) == []
    runs = made("Housing", paper=1.0, ours=0.5)
    beyond.append(kept, runs)
    with kept.open("a") as file:
        file.write("Housing,auto IVR,1,x,0.9")  # cut off by a crash
    assert len(beyond.read(kept)) == 2
    with pytest.raises(DataError, match="its data have changed"):
        beyond.run(("Housing",), 1, data_folder(), kept, 1)
    kept.write_text(kept.read_text() + "\n")
    with pytest.raises(DataError, match="line 4 is damaged"):
        beyond.read(kept)
    kept.write_text("something else\n")
    with pytest.raises(DataError, match="not written by this program"):
        beyond.read(kept)
