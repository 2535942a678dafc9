"""Simulations with costs, and what they say of group means and of intervals."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import sumwise as sw
from sumwise.cli import main
from sumwise.experiments import scores
from sumwise.experiments import simulate as experiment
from sumwise.experiments.datasets import labelled_frame, read_labelled
from sumwise.experiments.protocol import make_split, seed_of
from sumwise.experiments.simulation_page import caveats


def cli(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done


WAY = {"by": "town", "y": "income", "x": ["age"], "splits": 2, "queries": 5}


def towns(n_towns=20, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"town": np.repeat(np.arange(n_towns), rng.integers(2, 6, n_towns))})
    frame["age"] = rng.uniform(20, 60, len(frame))
    frame["income"] = 2 * frame["age"] + noise * rng.normal(size=len(frame))
    frame["hours"] = np.round(rng.uniform(1, 9, n_towns), 1)[frame["town"]]
    return frame.sample(frac=1.0, random_state=1, ignore_index=True)


@pytest.fixture(scope="module")
def frame():
    return towns()


@pytest.fixture(scope="module")
def found(frame):
    return sw.simulate(frame, methods=["IVR", "MaxN"], cost="hours", **WAY)


def test_gains_are_weighed_against_costs_as_a_learner_with_costs_does(frame, found):
    table = labelled_frame(frame, "town", "income", ["age"], cost="hours")
    for curve in found.simulation.curves:
        if curve.method != "IVR":
            continue
        split = make_split(table.data, curve.split)
        model = sw.AggregateRegressor(random_state=seed_of("simulate", "basis", curve.split))
        learner = sw.ActiveLearner(
            split.sets,
            model=model,
            strategy="IVR",
            seed=seed_of("simulate", "IVR", curve.split),
            cost=split.cost,
        )
        for position in curve.chosen:
            assert learner.ask().set_id == position
            learner.tell(position, float(split.y_bar[split.sets.position(position)]))


def test_errors_are_those_that_so_much_money_buys(frame, found):
    """Column by column with a loop; the costs are read from the frame."""
    simulation, budget = found.simulation, found.plan.budget
    hours = frame.groupby("town")["hours"].first()
    assert budget == pytest.approx(5 * hours.mean())
    table = labelled_frame(frame, "town", "income", ["age"], cost="hours")
    for curve in simulation.curves:
        members = make_split(table.data, curve.split).sets
        spent, errors = 0.0, [(0.0, curve.guess_mse)]
        for position, mse in zip(curve.chosen, curve.mse, strict=True):
            age = members.x[members.starts[members.position(position)], 0]
            spent += hours[frame.loc[np.isclose(frame["age"], age), "town"].iloc[0]]
            errors.append((spent, mse))
        assert spent <= budget
        for column in range(5):
            money = budget * (column + 1) / 5
            last = [mse for paid, mse in errors if paid <= money + 1e-9][-1]
            got = simulation.errors[curve.method][curve.split, column]
            assert got == pytest.approx(np.sqrt(last), rel=1e-12)


def test_another_currency_changes_amounts_only(frame, found):
    cents = frame.assign(hours=100 * frame["hours"])
    other = sw.simulate(cents, methods=["IVR", "MaxN"], cost="hours", **WAY)
    for method, errors in found.simulation.errors.items():
        np.testing.assert_array_equal(other.simulation.errors[method], errors)
    assert other.simulation.scale.step == pytest.approx(100 * found.simulation.scale.step)
    assert "Averaged up to a cost of" in repr(found)


def test_means_of_groups_and_intervals_are_those_of_the_last_model(frame):
    result = sw.simulate(frame, methods=["IVR"], **WAY).simulation
    table = labelled_frame(frame, "town", "income", ["age"])
    errors, covered = [], []
    for curve in (each for each in result.curves if each.method == "IVR"):
        split = make_split(table.data, curve.split)
        config = sw.AggregateRegressor(random_state=seed_of("simulate", "basis", curve.split))
        chosen = [split.sets.position(each) for each in curve.chosen]
        model = config.fit(split.sets.take(chosen), split.y_bar[chosen], pool=split.sets)
        ends = model.intervals(split.x_test, 0.9)
        covered.append(np.mean((ends.lower <= split.y_test) & (split.y_test <= ends.upper)))
        off = model.predict(split.x_test) - split.y_test
        squares = [off[split.group == g].mean() ** 2 for g in set(split.group.tolist())]
        errors.append(np.sqrt(np.mean(squares)))
        members = [np.flatnonzero(split.group == g) for g in sorted(set(split.group.tolist()))]
        theta = [np.full(len(rows), 1 / len(rows)) for rows in members]
        means, truth = scores.group_means(model.fitted(), split)
        tested = sw.Sets.from_members(split.x_test, members, theta)
        np.testing.assert_allclose(means.mean, model.predict_sets(tested), rtol=1e-9)
        np.testing.assert_allclose(truth, [split.y_test[rows].mean() for rows in members])
        within = (means.lower <= truth) & (truth <= means.upper)
        assert curve.covered[1] == pytest.approx(within.mean())
    end = result.in_the_end["IVR"]
    assert end.group_error == pytest.approx(np.mean(errors), rel=1e-6)
    assert end.covered == pytest.approx(np.mean(covered))
    assert end.measurements == 5


@pytest.mark.slow
def test_intervals_hold_what_they_promise_where_the_model_is_true():
    """60 groups of the test in each of two splits, by two strategies; 90 %, but for luck."""
    frame = towns(300, noise=20.0)
    way = {**WAY, "queries": 40}
    ends = sw.simulate(frame, methods=["IVR"], **way).simulation.in_the_end.values()
    assert 0.85 < np.mean([end.covered for end in ends]) < 0.95
    assert 0.85 < np.mean([end.group_covered for end in ends]) < 0.95


@pytest.mark.parametrize(
    ("hours", "said"),
    [
        ([1.0, 2.0], "in the first row of its group"),
        ([0.0, 0.0], "is 0; a cost is a number above 0, from 1e-100 to 1e\\+100. Correct it"),
        ([1e308, 1e308], "is 1e\\+308; a cost is a number above 0"),
        ([np.inf, np.inf], "above 0|number"),
    ],
)
def test_costs_that_cannot_be_are_refused(frame, hours, said):
    bad = frame.copy()
    bad.loc[bad.index[bad["town"] == 3][:2], "hours"] = hours
    with pytest.raises(sw.SumwiseError, match=said):
        sw.simulate(bad, cost="hours", methods=["IVR"], **WAY)


def test_a_model_that_hardly_learns_is_not_said_to_have_one_totals(frame):
    noise = frame.assign(income=np.random.default_rng(0).normal(size=len(frame)))
    found = sw.simulate(noise, methods=["IVR"], cost="hours", **{**WAY, "queries": 1})
    said = caveats(found.data, found.plan, found.simulation)
    assert "or these totals are too few; who wins then means little." in said[0]


def test_a_bad_cost_in_a_file_is_refused_with_its_line(frame, tmp_path):
    bad = frame.sample(frac=1.0, random_state=0).reset_index(drop=True)
    bad.loc[7, "hours"] = -1.0
    bad.to_csv(tmp_path / "towns.csv", index=False)
    with pytest.raises(
        sw.SumwiseError, match=rf"line 9, set '{bad.loc[7, 'town']}': 'hours' is -1"
    ):
        read_labelled(tmp_path / "towns.csv", ["town"], WAY["y"], cost="hours")


def test_costs_do_not_go_with_designed_pools(frame):
    with pytest.raises(sw.SumwiseError, match="a cost is of the groups of the table"):
        sw.simulate(frame, cost="hours", design=True, **WAY)


def test_designed_pools_are_judged_by_group_means_as_well(frame):
    result = sw.simulate(frame, design=True, **{**WAY, "queries": 3}).simulation
    ends = result.in_the_end
    assert set(ends) == set(result.errors)
    assert all(end.group_error > 0 and 0 <= end.covered <= 1 for end in ends.values())


def test_the_shell_says_what_the_money_bought(frame, tmp_path):
    frame.to_csv(tmp_path / "towns.csv", index=False)
    words = ["simulate", tmp_path / "towns.csv", "--by", "town", "--y", "income", "--x", "age"]
    words += ["--methods", "IVR", "--cost", "hours", "--splits", "2", "--queries", "5"]
    said = cli(*words, "--out", tmp_path / "a.html")
    assert "Averaged up to a cost of" in said.stdout
    assert "Means of groups, and what 90 % intervals cover" in said.stdout
    told = json.loads(cli(*words, "--json", "--out", tmp_path / "b.html").stdout)
    table = read_labelled(tmp_path / "towns.csv", ["town"], "income", ["age"], cost="hours")
    plan = experiment.experiment(table, ["IVR"], 2, 5)
    assert told["plan"]["budget"] == pytest.approx(plan.budget)
    assert told["in_the_end"]["IVR"]["measurements"] > 0
    assert "cost of all measurements so far" in (tmp_path / "a.html").read_text()
