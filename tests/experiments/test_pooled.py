"""`simulate` with designed pools: what runs, the verdict on made-up curves, and the report."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import sumwise as sw
from sumwise.data.pool_rules import PoolRules
from sumwise.errors import SettingError
from sumwise.experiments import pooled, simulate
from sumwise.experiments.datasets import read_labelled
from sumwise.experiments.pooled import DESIGNED, verdict
from sumwise.experiments.simulation_page import simulation_page
from tests.tables import made_up, write_csv

RULES = PoolRules((1, 3), uses=2, noise_std=0.5)
FAR = np.full(8, 1e3)  # error of guessing, which all models beat


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return read_labelled(write_csv(tmp_path_factory.mktemp("data") / "data.csv"), ["g"], "y")


@pytest.fixture(scope="module")
def small(table):
    plan = simulate.experiment(table, splits=2, queries=3, rules=RULES)
    return plan, simulate.run(plan, simulate.splits_of(table))


# --- running --------------------------------------------------------------------------------------


def test_given_groups_are_what_a_simulation_of_ivr_measures(table, small):
    plan, result = small
    assert plan.columns == (DESIGNED, *pooled.OTHERS)
    usual = simulate.experiment(table, ["IVR"], splits=2, queries=3)
    expected = simulate.run(usual, simulate.splits_of(table)).errors["IVR"]
    np.testing.assert_array_equal(result.errors["given groups"], expected)


def test_noise_of_pooling_reaches_pools_and_nothing_else(table, small):
    quiet = PoolRules((1, 3), uses=2)
    plan = simulate.experiment(table, splits=2, queries=3, rules=quiet)
    without = simulate.run(plan, simulate.splits_of(table)).errors
    for method, errors in small[1].errors.items():
        assert (errors == without[method]).all() == (method in ("given groups", "individuals"))


def test_means_that_are_told_teach_what_totals_do(table):
    """Pools of two without noise, where what is told is the total or half of it."""
    plans = [
        simulate.experiment(table, None, 1, 3, weights, rules=PoolRules((2, 2)))
        for weights in simulate.WEIGHTS
    ]
    sums, means = (simulate.run(plan, simulate.splits_of(table)) for plan in plans)
    for method in (DESIGNED, "random pools", "individuals"):
        np.testing.assert_allclose(means.errors[method], sums.errors[method], rtol=1e-5)
    np.testing.assert_array_equal(means.guess_errors, sums.guess_errors)


# --- the verdict ----------------------------------------------------------------------------------


def curves(designed=0.0, given=0.0, random=0.0, alone=0.0, **more):
    levels = {DESIGNED: designed, "given groups": given, "random pools": random}
    return made_up({**levels, "individuals": alone}, **more)


def test_pools_that_pay_reach_the_error_of_the_best_other_way_sooner():
    errors = curves(-1.0, 0.0, 2.0, 1.0)
    found = verdict(errors, FAR)
    assert (found.outcome, found.best, found.best_is_clear) == ("wins", DESIGNED, True)
    assert found.headline == (
        "Designed pools reach the error of 6 measured groups after 4 measurements"
    )
    assert (
        "is 1.00 below that of given groups (95 % interval for three comparisons: −1."
        in (found.sentences[0])
    )
    assert found.sentences[1] == (
        "Of designed pools, it takes 4 for the error of 6 measured groups, 1 for the error of 6 "
        "random pools and 1 for the error of 6 individuals."
    )


def test_the_headline_is_about_the_best_other_way():
    found = verdict(curves(-1.0, 2.0, 2.0, 0.0), FAR)
    assert found.headline.startswith("Designed pools reach the error of 6 individuals after 4")


def test_pools_that_are_worse_than_one_other_way_do_not_pay():
    found = verdict(curves(0.0, 1.0, 2.0, -1.0), FAR)
    assert (found.outcome, found.best, found.best_is_clear) == ("loses", "individuals", False)
    assert found.headline == "Designed pools do not pay here: individuals are better"
    assert "below that of given groups" in found.sentences[0]
    assert "1.00 above that of individuals" in found.sentences[0]
    assert found.sentences[-1] == ("6 designed pools do not reach the error of 6 individuals.")


def test_a_lead_that_is_made_up_for_in_the_end_saves_nothing():
    errors = curves(-1.0, 0.0, 3.0, 3.0)
    errors[DESIGNED][:, -1] += 1.5
    found = verdict(errors, FAR)
    assert found.outcome == "wins"
    assert found.headline == (
        "Designed pools learn sooner than given groups, which catch up in the end"
    )


def test_no_clear_difference_is_called_that():
    noisy = {"noise": 1.0, "seed": 3}
    few = verdict(curves(0.0, 0.0, 3.0, 3.0, **noisy), FAR)
    assert few.outcome == "even"
    assert few.headline == (
        "Designed pools and given groups cannot be told apart with so few splits"
    )
    many = verdict(curves(0.0, 0.0, 3.0, 3.0, splits=12, **noisy), np.full(12, 1e3))
    assert many.headline == "No clear difference between designed pools and given groups"
    one = verdict(curves(-1.0, splits=1), FAR[:1])
    assert (one.outcome, one.headline) == ("unknown", "One split gives no verdict")


def test_a_model_that_learns_nothing_is_admitted():
    found = verdict(curves(-1.0, 0.0, 1.0, 1.0), np.zeros(8))
    assert found.headline.endswith("; the model is worse than guessing the mean")


def test_intervals_allow_for_three_comparisons():
    errors = curves(-0.3, 0.0, 0.1, 0.2, noise=0.2)
    each = (errors[DESIGNED] - errors["individuals"]).mean(axis=1)
    wide = stats.ttest_1samp(each, 0.0).confidence_interval(1 - 0.05 / 3)
    (way,) = (way for way in pooled.ways(errors) if way.method == "individuals")
    assert (way.difference.low, way.difference.high) == pytest.approx((wide.low, wide.high))
    assert pooled.ways(errors)[0].method == DESIGNED


# --- the report -----------------------------------------------------------------------------------


def test_the_report_says_what_was_measured_and_what_to_weigh(table, small):
    text = simulation_page(table, *small)
    assert f"<h1>Simulation on data.csv: {small[1].verdict.headline}</h1>" in text
    for words in (
        "1 to 3 members, each individual in 2 pools at most; noise of pooling 0.5 for a pool",
        "the members of a designed pool have to be brought together",
        "On the way",
        "random sizes within the limits",
    ):
        assert words in text
    assert "--uses" not in text
    assert "Compared with Random" not in text
    free = simulate.experiment(table, splits=2, queries=3, rules=PoolRules())
    text = simulation_page(table, free, small[1])
    assert "say in how many it may be with --uses" in text
    assert "say how much with --pool-noise-std" in text


# --- in Python ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"town": rng.integers(0, 8, 60), "age": rng.uniform(20, 60, 60)})
    frame["income"] = 2 * frame["age"] + rng.normal(size=60)
    return frame


WAY = {"by": "town", "y": "income", "splits": 2, "queries": 3, "design": True}


def test_a_frame_is_simulated_with_designed_pools(frame, tmp_path):
    found = sw.simulate(frame, **WAY, size=(2, 4), uses=1, noise_std=3.0)
    assert {row["measured"] for row in found.table} == {DESIGNED, *pooled.OTHERS}
    (own,) = (row for row in found.table if row["measured"] == DESIGNED)
    for row in found.table:
        gap = own["average_error"] - row["average_error"]
        assert gap == pytest.approx(row["designed_less_it"] or 0.0)
    assert found.plan.rules.size == (2, 4)
    assert found.verdict.headline in repr(found)
    assert isinstance(found.plot(), alt.TopLevelMixin)
    assert "Ways to measure" in found._repr_mimebundle_()["text/html"]
    assert DESIGNED in found.report(tmp_path / "simulation.html").read_text()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"outputs": "counts"}, "designed for plain numbers; leave outputs 'counts' out"),
        ({"methods": ["IVR"]}, "leave methods out"),
        ({"design": False, "size": 3}, "size is about designed pools; give design=True"),
        ({"design": "yes"}, "design is 'yes'; give True or False"),
        ({"size": (3, 2)}, r"size is \(3, 2\)"),
        ({"noise_std": -1.0}, "noise_std is -1.0"),
        ({"size": (60, 70)}, "3 pools of 60 to 70 individuals can need more than the"),
        ({"size": (9, 20), "uses": 1}, "each in at most 1 pool, can need more than the"),
        ({"queries": 100}, "100"),
    ],
)
def test_bad_wishes_are_refused(frame, change, said):
    with pytest.raises(SettingError, match=said):
        sw.simulate(frame, **{**WAY, **change})
