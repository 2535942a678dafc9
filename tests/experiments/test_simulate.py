"""Small real simulations, the numbers read off them, and the report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sumwise.errors import SettingError
from sumwise.experiments import comparison, simulate
from sumwise.experiments.comparison import verdict
from sumwise.experiments.datasets import read_labelled
from sumwise.experiments.protocol import averaged, make_split, seed_of
from sumwise.experiments.simulation_page import caveats, simulation_page
from sumwise.learning.estimator import AggregateRegressor
from sumwise.learning.learner import ActiveLearner
from tests.tables import made_up, write_csv

WICKED = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return read_labelled(write_csv(tmp_path_factory.mktemp("data") / "data.csv"), ["g"], "y")


@pytest.fixture(scope="module")
def small(table):
    plan = simulate.experiment(table, ["AggMI", "MaxN"], splits=3, queries=4)
    return plan, simulate.run(plan, simulate.splits_of(table))


# --- running --------------------------------------------------------------------------------------


def test_by_default_all_strategies_ask_for_as_many_groups_as_there_are(table):
    plan = simulate.experiment(table)
    assert plan.columns == simulate.STRATEGIES
    assert (plan.splits, plan.queries, plan.weights) == (20, 10, "sum")


def test_random_is_always_there(small):
    plan, result = small
    assert plan.columns == ("AggMI", "MaxN", "Rand")
    assert {name: runs.shape for name, runs in result.errors.items()} == dict.fromkeys(
        plan.columns, (3, 4)
    )


def test_the_errors_are_those_of_an_active_learner(table, small):
    _, result = small
    split = make_split(table.data, 1)
    model = AggregateRegressor(random_state=seed_of("simulate", "basis", 1))
    learner = ActiveLearner(
        split.sets, model=model, strategy="AggMI", seed=seed_of("simulate", "AggMI", 1)
    )
    for error in result.errors["AggMI"][1]:
        chosen = learner.ask().set_id
        learner.tell(chosen, float(split.y_bar[split.sets.position(chosen)]))
        off = learner.model.predict(split.x_test) - split.y_test
        assert error == pytest.approx(np.sqrt(np.mean(off**2)), rel=1e-9)


def test_the_guess_is_the_mean_of_the_individuals_to_learn_from(table, small):
    off = []
    for number in range(3):
        split = make_split(table.data, number)
        mean = split.y_bar.sum() / len(split.sets.x)
        off.append(np.sqrt(np.mean((split.y_test - mean) ** 2)))
    assert small[1].guess_errors == pytest.approx(off)
    assert small[1].guess_error == pytest.approx(np.mean(off))


def test_two_jobs_give_exactly_what_one_gives(table, small):
    plan, alone = small
    seen = []
    splits = simulate.splits_of(table)
    together = simulate.run(plan, splits, 2, lambda done, total: seen.append((done, total)))
    for method in plan.columns:
        np.testing.assert_array_equal(together.errors[method], alone.errors[method])
    assert together.guess_error == alone.guess_error
    assert seen == [(0, 9), (3, 9), (6, 9), (9, 9)]  # three strategies on three splits


def test_a_mean_told_in_place_of_a_sum_is_a_mean_of_the_same_group(table):
    split = make_split(table.data, 0)
    mean = averaged(split)
    np.testing.assert_allclose(mean.y_bar * mean.sets.sizes, split.y_bar)
    np.testing.assert_allclose(np.add.reduceat(mean.sets.theta, mean.sets.starts[:-1]), 1.0)


def test_a_mean_and_a_sum_of_the_same_groups_teach_the_same(table):
    """MaxN asks for the same groups either way, and the model learns as much from them."""
    plan = simulate.experiment(table, ["MaxN"], splits=1, queries=3)
    told_sums, told_means = (
        simulate.run(replace(plan, weights=weights), simulate.splits_of(table))
        for weights in simulate.WEIGHTS
    )
    np.testing.assert_allclose(told_means.errors["MaxN"], told_sums.errors["MaxN"], rtol=1e-5)


# --- reading the numbers --------------------------------------------------------------------------


def test_the_interval_is_students_for_paired_splits():
    errors = made_up({"AggMI": -0.3, "Rand": 0.0}, noise=0.2)
    each = errors["AggMI"].mean(axis=1) - errors["Rand"].mean(axis=1)
    expected = stats.ttest_1samp(each, 0.0).confidence_interval(0.95)
    found = comparison.difference(errors, "AggMI", "Rand")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    widened = comparison.difference(errors, "AggMI", "Rand", comparisons=9)
    wide = stats.ttest_1samp(each, 0.0).confidence_interval(1 - 0.05 / 9)
    assert (widened.low, widened.high) == pytest.approx((wide.low, wide.high))


def test_standings_put_the_lowest_average_first():
    lines = comparison.standings(made_up({"AggMI": 1.0, "MaxN": -1.0, "Rand": 0.0}))
    assert [line.method for line in lines] == ["MaxN", "Rand", "AggMI"]
    assert [line.random_needs for line in lines][::2] == [None, 4]
    assert lines[1].difference is None
    assert lines[0].difference.sign == -1
    assert lines[2].difference.sign == 1


def test_random_is_credited_with_its_first_moment_and_a_strategy_with_its_last():
    curve = np.array([5.0, 2.0, 4.0, 3.0])
    assert comparison.reaches(curve, 3.5) == 2
    assert comparison.settles(curve, 3.5) == 4
    assert comparison.settles(curve, 9.0) == 1
    assert comparison.reaches(curve, 1.0) is None
    assert comparison.settles(curve, 1.0) is None


def test_savings_are_counted_after_a_few_queries_and_the_last():
    errors = {"AggMI": np.array([[4.0, 3.0, 2.0, 2.0, 2.0, 1.0, 0.0]])}
    errors["Rand"] = errors["AggMI"] + 1.0
    found = [(s.query, s.error, s.random_needs) for s in comparison.savings(errors, "AggMI")]
    assert found == [(5, 2.0, 6), (7, 0.0, None)]


# --- caveats and the report -----------------------------------------------------------------------


def test_few_groups_few_splits_and_a_poor_model_are_admitted(table, small):
    plan, result = small
    poor = replace(result, guess_errors=np.zeros(3))
    text = " ".join(caveats(table, replace(plan, queries=9), poor))
    for words in (
        "and the same mean for everyone by 0.000. The inputs tell little",
        "3 splits only",
        "12 groups only: 10 to learn from and 2 to be tested on",
        "9 of 10 groups are measured in the end",
        "Measurements are counted, not what they cost",
    ):
        assert words in text


def test_many_groups_and_splits_leave_the_caveats_that_always_hold(table, small):
    groups = np.arange(len(table.data.y))  # one for each individual
    many = replace(table, data=replace(table.data, group=groups))
    plan = replace(small[0], splits=20)
    fine = replace(small[1], guess_errors=np.full(3, 1e3))
    assert len(groups) > 25
    assert len(caveats(many, plan, fine)) == 2


def test_the_report_says_the_verdict_and_what_was_done(table, small):
    text = simulation_page(table, *small)
    assert f"<h1>Simulation on data.csv: {small[1].verdict.headline}</h1>" in text
    useless = replace(small[1], guess_errors=small[1].errors["AggMI"][:, -1] - 1.0)
    said = verdict(useless.errors, guess=useless.guess_errors).headline
    assert said.endswith("; the model is worse than guessing the mean")
    assert f"<h1>Simulation on data.csv: {said}</h1>" in simulation_page(table, small[0], useless)
    for words in ("inputs</td><td>a, b", "12 groups", "note", "3 splits", "NumPy", "the largest"):
        assert words in text
    assert text == simulation_page(table, *small)  # nothing of the day or the machine


def test_a_report_of_one_split_of_two_strategies_can_be_made(table):
    plan = simulate.experiment(table, ["MinN"], splits=1, queries=1, weights="mean")
    text = simulation_page(table, plan, simulate.run(plan, simulate.splits_of(table)))
    assert "One split gives no verdict" in text
    assert "the mean of the target over a group" in text


def test_wicked_names_stay_text_in_the_report(tmp_path):
    table = read_labelled(write_csv(tmp_path / "d<b>.csv", name=WICKED), ["g"], WICKED)
    plan = simulate.experiment(table, ["AggMI"], splits=2, queries=2)
    text = simulation_page(table, plan, simulate.run(plan, simulate.splits_of(table)))
    assert "<img src=x" not in text
    assert "d<b>" not in text
    assert "&lt;/script&gt;&lt;img src=x" in text


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"methods": ["Rand"]}, "besides Rand"),
        ({"queries": 11}, "11 queries were wanted; give 1 to 10"),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused(table, settings, message):
    with pytest.raises(SettingError, match=message):
        simulate.experiment(table, **settings)
