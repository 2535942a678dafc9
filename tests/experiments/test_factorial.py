"""`sumwise reproduce factorial`: its readings, its starts, and how distances are counted."""

from __future__ import annotations

import csv
import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal

from sumwise.cli import main
from sumwise.errors import DataError
from sumwise.experiments import datasets, factorial, protocol
from sumwise.experiments.protocol import FACTORIAL, RFF, STARTS, Curve
from sumwise.experiments.readings import READINGS
from sumwise.model.design import Design, features
from sumwise.model.evidence import adam
from sumwise.model.posterior import Hyperparameters, condition, decompose
from tests import oracles
from tests.builders import linear_pool, phi_of, random_sets
from tests.datasets import data_folder


def test_the_readings_are_those_of_the_joint_gaussian():
    lam, beta, seen = 0.7, 3.0, np.arange(2)
    rng = np.random.default_rng(5)
    pool = linear_pool(random_sets([3, 1, 4, 2], rng))
    sets = pool.sets
    posterior = condition(
        decompose(pool.design.rows(seen), np.ones((2, 1))), Hyperparameters(lam, beta)
    )
    latent = oracles.individual_variance_given(sets, phi_of(pool), seen, lam, beta)
    information, entropy, spread = [], [], []
    for low, high in itertools.pairwise(sets.starts):
        weights, centre = sets.theta[low:high], sets.x[low:high].mean(axis=0)
        information.append(sum(0.5 * np.log(1 + beta * v) for v in latent[low:high]))
        variance = sum(
            w**2 * (v + 1 / beta) for w, v in zip(weights, latent[low:high], strict=True)
        )
        entropy.append(0.5 * np.log(2 * np.pi * np.e * variance))
        spread.append(np.mean([np.sum((x - centre) ** 2) for x in sets.x[low:high]]))
    assert_allclose(READINGS["MI sum"](pool, posterior, rng), information, rtol=1e-9)
    assert_allclose(READINGS["Ent diagonal"](pool, posterior, rng), entropy, rtol=1e-9)
    assert_allclose(READINGS["Var N"](pool, posterior, rng), spread, rtol=1e-9)


@pytest.fixture(scope="module")
def housing():
    return protocol.make_split(datasets.load("Housing", data_folder()), 1)


def test_from_the_drawn_start_the_runs_are_those_of_the_papers_table(housing):
    names = ["AggMI", "MI", "Ent", "Var", "Rand"]
    ours = [f"{name} drawn" for name in ("MI diagonal", "Ent sum", "Var N-1", "Rand", "AggMI")]
    curves = protocol.run_split(replace(FACTORIAL.only(ours), queries=4), "Housing", 1, housing)
    table = protocol.run_split(replace(RFF.only(names), queries=4), "Housing", 1, housing)
    expected = {curve.method: curve.mse for curve in table}
    assert len(curves) == 5
    for curve in curves:
        assert_array_equal(curve.mse, expected[curve.method.split()[0]])


@pytest.mark.parametrize("start", ["ones", "uniform"])
def test_adam_begins_where_the_start_says(housing, start):
    """By hand: the largest sets, Adam on their totals, and ridge regression."""
    experiment = replace(FACTORIAL.only([f"MaxN {start}"]), queries=3)
    (curve,) = protocol.run_split(experiment, "Housing", 1, housing)
    hyper, sets = STARTS[start]("Housing", 1), housing.sets
    assert max(hyper.prior_precision, hyper.noise_precision) <= 1
    basis = protocol.paper_model("Housing", 1).prepare(sets).basis
    phi = features(basis, sets.x)
    order = np.argsort(-sets.sizes, kind="stable")
    u = np.array([phi[sets.starts[a] : sets.starts[a + 1]].sum(axis=0) for a in order[:3]])
    size, y_bar = sets.sizes[order[:3]].astype(float), housing.y_bar[order[:3]]
    for n in range(1, 4):
        hyper = adam(decompose(Design(u[:n], size[:n], size[:n]), y_bar[:n, None]), hyper)
        ridge = hyper.prior_precision * np.eye(u.shape[1])
        ridge += hyper.noise_precision * (u[:n].T / size[:n]) @ u[:n]
        mean = np.linalg.solve(ridge, hyper.noise_precision * (u[:n].T / size[:n]) @ y_bar[:n])
        error = features(basis, housing.x_test) @ mean - housing.y_test
        assert_allclose(curve.mse[n - 1], np.mean(error**2), rtol=1e-8)


def test_starts_are_drawn_anew_for_every_split():
    first, second = (protocol.uniform("Cpu", n) for n in (0, 1))
    assert first != second
    assert first == protocol.uniform("Cpu", 0)


def made_up(factors):
    """Our errors are the published ones times a factor, by reading and data set, from any start."""
    published = {
        (name, reading.split()[0]): (0.1 * (2 + at), False)
        for name in ("Cpu", "Mg")
        for at, reading in enumerate(("MaxN", "Rand", "AggMI", "Var N", "Ent sum", "MI sum"))
    }
    curves = [
        Curve(
            name,
            column,
            split,
            np.full(2, published[name, column.split()[0]][0] * factor),
            np.zeros(2),
        )
        for column in FACTORIAL.columns
        for name, factor in zip(
            ("Cpu", "Mg"), factors.get(column.rsplit(" ", 1)[0], (1, 1)), strict=True
        )
        for split in range(2)
    ]
    return curves, published


def test_distances_are_mean_logs_and_sides_of_random_and_maxn():
    factors = {"MI sum": (0.25, 0.5), "MI diagonal": (2.0, 1.25), "Rand": (2.0, 2.0)}
    curves, published = made_up(factors)
    table = factorial.cells(curves, published)
    found = {(each.reading, each.start): each for each in factorial.distances(table)}
    assert len(found) == len(FACTORIAL.columns)
    mi, diagonal = found["MI sum", "ones"], found["MI diagonal", "ones"]
    assert mi.absolute == pytest.approx(np.log(8) / 2)
    assert mi.relative == pytest.approx((np.log(8) + np.log(4)) / 2)
    assert diagonal.absolute == pytest.approx(np.log(2.5) / 2)
    assert diagonal.relative == pytest.approx((0 + np.log(1.6)) / 2)
    assert (mi.nearest, diagonal.nearest) == (0, 2)
    assert (mi.above, mi.published_above) == ((1, 0), (2, 2))  # 0.175, 0.35 of 0.2 and 0.6
    assert found["Var N", "drawn"].nearest == found["Var N-1", "drawn"].nearest == 2
    said = " ".join(factorial.findings(list(found.values())))
    assert "MI diagonal is nearer to the paper's MI (mean over starts: MI sum 1.040" in said
    grid = factorial.distance_grid(list(found.values()))
    bold = {(*grid.rows[row][:2], column) for row, column in grid.bold}
    assert ("MI diagonal", "ones", 2) in bold
    assert not any(reading == "MI sum" for reading, _, _ in bold)
    assert not any(reading == "Rand" for reading, _, _ in bold)


def test_a_figure_that_is_not_published_is_named():
    curves, published = made_up({})
    del published["Mg", "Ent"]
    with pytest.raises(DataError, match="published figure of Ent on Mg is missing; --published"):
        factorial.cells(curves, published)


def test_the_command_writes_both_tables_and_goes_on(tmp_path):
    paper = tmp_path / "published.csv"
    names = dict.fromkeys(reading.split()[0] for reading in READINGS)
    paper.write_text(
        "dataset,method,mse,bold\n" + "".join(f"Housing,{name},0.125,0\n" for name in names)
    )
    out = tmp_path / "out"
    given = ["reproduce", "factorial", "--data", str(data_folder()), "--out", str(out)]
    given += ["--datasets", "housing", "--splits", "1", "--jobs", "1", "--published", str(paper)]
    first = CliRunner().invoke(main, given)
    assert first.exit_code == 0, first.output
    assert "Mean distance of all readings by start: drawn" in first.output
    text = (out / "table.md").read_text()
    assert "| MI diagonal | uniform |" in text
    assert "(0.125)" in text
    with (out / "table.csv").open() as file:
        table = {row["method"]: row for row in csv.DictReader(file)}
    assert tuple(table) == FACTORIAL.columns
    before = (out / "runs.csv").read_text()
    again = CliRunner().invoke(main, [*given, "--json"])
    assert (out / "runs.csv").read_text() == before
    rows = json.loads(again.stdout)
    assert [row["method"] for row in rows] == list(FACTORIAL.columns)
    assert rows[0]["mean"] == pytest.approx(float(table["MI sum drawn"]["mean"]), rel=1e-5)


def test_other_data_sets_are_refused(tmp_path):
    given = ["reproduce", "factorial", "--data", str(data_folder()), "--out", str(tmp_path)]
    result = CliRunner().invoke(main, [*given, "--datasets", "MAT"])
    assert "no data set of LIBSVM is called 'MAT'" in result.output
