"""Runs with pools by design: what they are told, what they ask for, and `reproduce pools`."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from click.testing import CliRunner

import sumwise as sw
from sumwise.cli import main
from sumwise.data.pool_rules import PoolRules
from sumwise.data.sets import Sets
from sumwise.experiments import designed, pools, protocol
from sumwise.experiments.datasets import Dataset
from sumwise.experiments.protocol import ALONE, DESIGNED, GIVEN, POOLS, Curve, Method, make_split
from tests.datasets import data_folder

QUERIES = 4


def data(n=60, groups=None):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, 2))
    y = 5 + 2 * x[:, 0] + np.sin(2 * x[:, 1]) + 0.2 * rng.normal(size=n)
    group = None if groups is None else np.sort(np.arange(n) % groups)
    if group is not None:
        y += rng.normal(size=groups)[group]
    return Dataset("made up", x, y, group)


def as_sets(split, chosen, *, mean=False):
    """Measured pools as sets, made here from rows alone."""
    theta = [np.full(len(each), 1 / len(each) if mean else 1.0) for each in chosen]
    rows, sets = np.concatenate(chosen), split.sets
    starts = np.concatenate([[0], np.cumsum([len(each) for each in chosen])])
    owner = np.repeat(np.arange(len(sets)), sets.sizes) if split.natural else np.arange(len(sets.x))
    ids = tuple(f"pool {number}" for number in range(len(chosen)))
    return Sets(ids, sets.x[rows], np.concatenate(theta), starts, None, rows, owner[rows])


NOISY = PoolRules((2, 5), uses=1, noise_std=0.5, noise_std_per_member=0.3)
OF_MEANS = PoolRules((1, 4), mean=True, noise_std=0.2, noise_std_per_member=0.3)
OTHERS = NOISY, PoolRules((1, 6))


@pytest.mark.parametrize(
    ("groups", "rules"),
    [
        (15, OF_MEANS),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in product((None, 15), OTHERS)),
    ],
)
def test_a_run_is_what_design_pools_and_fit_give_question_by_question(groups, rules):
    split = make_split(data(groups=groups), 0)
    config = protocol.auto_model("made up", 0)
    alone = designed.singles(split.sets, natural=split.natural)
    luck = np.random.default_rng(7).standard_normal(QUERIES)
    settings = "IVR", QUERIES, rules, np.random.default_rng(7)
    (errors, *_), _ = designed.errors_of_pools(config, alone, split.y, split, *settings)
    people = split.sets if split.natural else split.sets.x
    everyone = as_sets(split, [np.array([row]) for row in range(len(split.y))])
    model = sw.AggregateRegressor.from_config(config).fit(everyone[:0], [], pool=everyone)
    about = {name: getattr(rules, name) for name in ("uses", "noise_std", "noise_std_per_member")}
    about["weights"] = "mean" if rules.mean else "sum"
    chosen, totals, noise = [], [], []
    for query in range(QUERIES):
        (rows,) = sw.design_pools(people, model, size=rules.size, **about).rows
        chosen.append(rows)
        times = 1 / len(rows) if rules.mean else 1.0
        each = len(rows) * (times * rules.noise_std_per_member) ** 2
        noise.append(np.sqrt(rules.noise_std**2 + each))
        totals.append(times * sum(split.y[row] for row in rows) + noise[-1] * luck[query])
        told = as_sets(split, chosen, mean=rules.mean)
        model.fit(told, totals, pool=everyone, noise_std=noise if any(noise) else None)
        off = model.predict(split.x_test) - split.y_test
        assert errors[query] == pytest.approx(np.mean(off**2), rel=1e-6)
    if rules.uses:
        assert len(np.unique(np.concatenate(chosen))) == sum(map(len, chosen))


@pytest.mark.parametrize("groups", [None, 8])
def test_individuals_measured_alone_are_each_asked_once(groups):
    """With as many questions as individuals, the last error is that of knowing all of them."""
    split = make_split(data(20, groups), 0)
    config, n = protocol.auto_model("made up", 0), len(split.y)
    method = Method("alone", "IVR", protocol.auto_model, measures="individuals")
    plan = replace(POOLS, methods=(method,), queries=n)
    (curve,) = protocol.run_split(plan, "made up", 0, split)
    everyone = designed.singles(split.sets, natural=split.natural)
    model = sw.AggregateRegressor.from_config(config).fit(everyone, split.y)
    off = model.predict(split.x_test) - split.y_test
    assert curve.mse[-1] == pytest.approx(np.mean(off**2), rel=1e-6)


def test_random_pools_have_sizes_and_members_by_chance_and_keep_to_the_rules():
    rng, rules = np.random.default_rng(0), PoolRules((2, 5), uses=2)
    used, sizes = np.zeros(12, dtype=int), []
    for _ in range(5):
        rows = designed.drawn(rules, used, rng)
        assert len(set(rows.tolist())) == len(rows)
        used[rows] += 1
        sizes.append(len(rows))
    assert used.max() == 2
    sizes = [len(designed.drawn(rules, np.zeros(12, dtype=int), rng)) for _ in range(400)]
    assert {*sizes} == {2, 3, 4, 5}
    counts = np.bincount(sizes)[2:]
    assert abs(counts - 100).max() < 5 * np.sqrt(75)  # 75: variance of each
    members = np.concatenate([designed.drawn(rules, used * 0, rng) for _ in range(400)])
    share = np.bincount(members, minlength=12) / 400
    assert abs(share - 3.5 / 12).max() < 5 * np.sqrt(0.25 / 400)
    few = np.array([2] * 9 + [0, 1, 0])
    assert {*designed.drawn(rules, few, rng).tolist()} <= {9, 10, 11}


def test_a_random_pool_tells_the_sum_of_its_members():
    """Without noise, random pools as large as the data tell the sum over all of them."""
    split = make_split(data(20), 0)
    n, config = len(split.y), protocol.auto_model("made up", 0)
    alone, rules = designed.singles(split.sets, natural=False), PoolRules((n, n))
    (errors, *_), _ = designed.errors_of_pools(config, alone, split.y, split, None, 1, rules)
    all_rows = as_sets(split, [np.arange(n)])
    model = sw.AggregateRegressor.from_config(config).fit(all_rows, [split.y.sum()], pool=alone)
    off = model.predict(split.x_test) - split.y_test
    assert errors[0] == pytest.approx(np.mean(off**2), rel=1e-6)


# --- the command ----------------------------------------------------------------------------------


def command(out, *options):
    arguments = ["reproduce", "pools", "--data", str(data_folder()), "--out", str(out)]
    few = ("--datasets", "housing", "--splits", "1", "--queries", "2", "--jobs", "1")
    return CliRunner().invoke(main, [*arguments, *few, *options])


@pytest.fixture(scope="module")
def housing(tmp_path_factory):
    out = tmp_path_factory.mktemp("pools") / "out"
    return command(out), out


def test_it_says_how_designed_pools_compare_and_writes_a_table_and_a_figure(housing):
    result, out = housing
    assert result.exit_code == 0, result.output
    text = (out / "table.md").read_text()
    assert "The error of designed IVR after 2 questions is" in text
    assert "| Housing |" in text
    assert (out / "error-per-query.svg").stat().st_size > 1000
    (row,) = csv.DictReader((out / "table.csv").read_text().splitlines())
    runs = list(csv.DictReader((out / "runs.csv").read_text().splitlines()))
    for method in POOLS.columns:
        mse = [float(run["mse"]) for run in runs if run["method"] == method]
        assert float(row[method]) == pytest.approx(np.mean(mse), rel=1e-5)
        assert float(row[f"{method} after 2"]) == pytest.approx(mse[1], rel=1e-5)


def test_a_second_call_runs_only_what_is_missing_and_prints_json(housing, tmp_path):
    _, out = housing
    whole = (out / "runs.csv").read_text()
    lines = whole.splitlines(keepends=True)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "settings.json").write_text((out / "settings.json").read_text())
    (copy / "runs.csv").write_text("".join(lines[:4]))  # a run, and half of another
    result = command(copy, "--json")
    assert result.exit_code == 0, result.output
    again = (copy / "runs.csv").read_text().splitlines(keepends=True)
    assert again[:3] == lines[:3]
    assert sorted(map(figures, again)) == sorted(map(figures, lines))
    (row,) = json.loads(result.stdout)
    assert set(row) == {"dataset", *POOLS.columns}


def figures(line):
    """A line of runs.csv without its last cell, which is a time."""
    return line.rsplit(",", 1)[0]


def made(dataset, **errors):
    names = {"designed": DESIGNED, "given": GIVEN, "alone": ALONE}
    return [
        Curve(dataset, names[k], 0, np.linspace(2, 1, 30) * v, np.zeros(30))
        for k, v in errors.items()
    ]


def test_findings_are_the_geometric_mean_and_how_often_lower():
    runs = [*made("A", designed=1, given=4, alone=2), *made("B", designed=2, given=2, alone=1)]
    for run in runs:
        run.mse[20:] = 0.0  # after question 20 nothing counts
    said = pools.findings(pools.after(runs), runs)[0]
    assert (
        "after 20 questions is 0.500 of that of given IVR in geometric mean, lower on 1 of 2"
        in (said)
    )
    assert "it is 1.000 of that of individual IVR, lower on 1 of 2." in said
