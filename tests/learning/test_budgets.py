"""Budgets: by gain per cost, by gain, or the best set first, whichever gains most in all."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import sumwise as sw
from sumwise.cli import main
from sumwise.errors import PoolExhaustedError
from tests import oracles
from tests.builders import precisions, random_sets, seeds

MODEL = sw.AggregateRegressor("linear", hyperparameters=(1.0, 1.0), standardize=False)
BOUND = (1 - 1 / np.e) / 2  # of the best purchase, where gains are submodular
BY_GAIN = "The budget of 10 is spent by gain: this purchase gains"
BEST_FIRST = "is spent on the set that gains most, and then by gain per unit of cost: this purchase"
PER_COST = "its gain per unit of cost is the highest"


def apart(gains):
    """Sets whose totals say nothing of one another, with these AggMI under `MODEL`.

    Each is a difference of two individuals along an input of its own, so that u is 2x along this
    input and 0 for the constant: the gain is ½ log(1 + 2x²).
    """
    far = np.sqrt(np.expm1(2 * np.asarray(gains)) / 2)
    blocks = [np.outer([x, -x], row) for x, row in zip(far, np.eye(len(far)), strict=True)]
    return sw.Sets.from_arrays(blocks, [[1.0, -1.0]] * len(far), [f"s{a}" for a in range(len(far))])


def empty_model(sets, lam=1.0, beta=1.0):
    model = sw.AggregateRegressor("linear", hyperparameters=(lam, beta), standardize=False)
    return model.fit(sets[:0], [], pool=sets)


def select(gains, cost, budget, n=None):
    """By a strategy of fixed gains."""
    sets = apart(gains)
    fixed = np.asarray(gains, dtype=float)
    picked = sw.select(
        sets, empty_model(sets), lambda *_: fixed.copy(), n, cost=cost, budget=budget
    )
    return [int(name[1:]) for name in picked]


# --- the three ways -------------------------------------------------------------------------------


def test_a_cheap_set_does_not_keep_a_budget_from_the_set_with_most_of_the_gain():
    sets, cost = apart([0.35, 2.65]), [1.0, 10.0]
    model = empty_model(sets)
    np.testing.assert_allclose(sw.score(sets, model, "AggMI"), [0.35, 2.65])
    pick = {"strategy": "AggMI", "cost": cost}
    assert sw.select(sets, model, **pick, budget=10) == ["s1"]
    assert sw.select(sets, model, **pick, budget=9.9) == ["s0"]
    assert sw.select(sets, model, **pick, budget=11) == ["s0", "s1"]  # both: by gain per cost
    assert sw.select(sets, model, **pick) == ["s0"]  # without a budget nothing is kept from it


def test_each_of_the_three_ways_can_be_the_best():
    cheap = [1.0] * 8
    assert select([*cheap, 3.0, 4.5], [*[1] * 8, 4, 6], 10) == [9, 0, 1, 2, 3]  # 8.5, not 8 or 7.5
    assert select([*cheap, 6.0, 4.5], [*[1] * 8, 8, 6], 10) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert select([1.0, 3.0, 2.9], [1, 5, 5], 10) == [1, 2]


def test_a_number_of_sets_limits_all_three_ways():
    cheap = [1.0] * 8
    cost = [*[1] * 8, 4, 6]
    assert select([*cheap, 3.0, 4.5], cost, 10, n=2) == [9, 8]
    assert select([*cheap, 3.0, 4.5], cost, 10, n=1) == [9]
    assert select([*cheap, 3.0, 4.5], cost, 5, n=2) == [8, 0]
    assert len(select([*cheap, 3.0, 4.5], cost, 10, n=7)) == 5


def test_a_budget_for_everything_buys_everything_by_gain_per_cost():
    assert select([1.0, 3.0, 2.9], [1, 5, 4], 10) == [0, 2, 1]
    assert select([1.0, 3.0, 2.9], [1, 5, 4], 1000) == [0, 2, 1]
    assert select([1.0, 3.0, 2.9, 9.0], [1, 5, 4, 2000], 1000) == [0, 2, 1]


def test_a_budget_for_nothing_is_refused():
    with pytest.raises(PoolExhaustedError, match=r"budget of 0\.9 pays for no set: the cheapest"):
        select([1.0, 3.0], [1, 5], 0.9)


def test_ways_that_gain_the_same_leave_gain_per_cost():
    assert select([1.0, 1.0, 2.0], [1, 1, 2], 2) == [0, 1]


# --- against every purchase -----------------------------------------------------------------------


def joint_gain(strategy, sets, lam, beta):
    """What a batch gains in all, from the joint Gaussian of all outputs."""
    phi = np.column_stack([sets.x, np.ones(len(sets.x))])
    model = oracles.joint(sets, phi, lam, beta)
    covariance, noise = oracles.total_covariance(model), oracles.total_noise(model)
    before = np.diag(model.latent)

    def gain(batch):
        batch = list(batch)
        if strategy == "AggMI":
            inside = np.linalg.slogdet(covariance[np.ix_(batch, batch)])[1]
            return 0.5 * (inside - np.log(noise[batch]).sum())
        seen = batch, np.zeros(len(batch)), phi, lam, phi
        after = np.diag(oracles.given_totals(model, *seen)[1])
        if strategy == "IVR":
            return (before - after).mean()
        return 0.5 * np.log((before + model.noise) / (after + model.noise)).mean()

    return gain


def greedy(gain, cost, budget, n, by_gain):
    """The first `by_gain` sets by gain, the others by gain per cost; its gain in all."""
    picked = []
    while len(picked) < n:
        left = budget - cost[picked].sum()
        free = [a for a in range(len(cost)) if a not in picked and cost[a] <= left]
        if not free:
            break
        base = gain(picked) if picked else 0.0
        unit = np.ones(len(cost)) if len(picked) < by_gain else cost
        picked.append(max(free, key=lambda a: (gain([*picked, a]) - base) / unit[a]))
    return gain(picked)


@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=7),
    precisions,
    precisions,
    seeds,
    st.floats(0.1, 0.9),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from(["AggMI", "IVR", "EPIG"]),
)
def test_a_purchase_is_the_best_of_three_and_near_the_best_of_all(
    sizes, lam, beta, seed, share, n, strategy
):
    rng = np.random.default_rng(seed)
    sets = random_sets(sizes, rng)
    cost = np.exp(rng.normal(0, 1.5, len(sets)))
    budget = float(cost.min() + share * (cost.sum() - cost.min()))
    gain, most = joint_gain(strategy, sets, lam, beta), n or len(sets)
    options = {"n": n, "cost": cost, "budget": budget, "targets": sets.x}
    picked = sw.select(sets, empty_model(sets, lam, beta), strategy, **options)
    places = [sets.position(name) for name in picked]
    assert len(set(places)) == len(places) <= most
    assert cost[places].sum() <= budget * (1 + 1e-9)
    ways = [greedy(gain, cost, budget, most, by_gain) for by_gain in (0, len(sets), 1)]
    single = max(gain([a]) for a in range(len(sets)) if cost[a] <= budget)
    assert gain(places) == pytest.approx(max(ways), rel=1e-6)
    assert gain(places) >= single * (1 - 1e-6)
    affordable = [
        batch
        for size in range(1, most + 1)
        for batch in combinations(range(len(sets)), size)
        if cost[list(batch)].sum() <= budget
    ]
    best = max(gain(batch) for batch in affordable)
    assert gain(places) <= best * (1 + 1e-6)
    if strategy == "AggMI" and n is None:
        assert gain(places) >= BOUND * best


@pytest.mark.parametrize("strategy", [pytest.param("AggMI", marks=pytest.mark.slow), "IVR"])
def test_a_pool_that_is_screened_spends_a_budget_in_the_same_way(strategy, monkeypatch):
    rng = np.random.default_rng(5)
    sets = random_sets(rng.integers(1, 5, 40).tolist(), rng)
    model, batches = empty_model(sets), []
    for limit in (4096, 8):
        monkeypatch.setattr("sumwise.acquisition.screening.SCREENED_FROM", limit)
        batches.append([])
        for seed in range(6):
            cost = np.exp(np.random.default_rng(seed).normal(0, 2.0, 40))
            batches[-1].append(sw.select(sets, model, strategy, cost=cost, budget=3.0))
    assert batches[0] == batches[1]


# --- draws and work -------------------------------------------------------------------------------


def test_all_ways_draw_the_same_for_a_question_and_there_are_at_most_three():
    sets = apart([1.0] * 8)
    model, cost = empty_model(sets), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    drawn = []

    def strategy(pool, posterior, rng):
        drawn.append(rng.uniform())
        return np.ones(8)

    sw.select(sets, model, strategy, n=3, cost=cost)
    usual = drawn.copy()
    assert len(set(usual)) == 3
    drawn.clear()
    sw.select(sets, model, strategy, n=3, cost=cost, budget=30)
    assert drawn == 3 * usual
    drawn.clear()
    sw.select(sets, model, strategy, n=3, cost=7.0, budget=30)  # alike: every way is the same
    assert drawn == usual
    drawn.clear()
    assert len(sw.select(sets, model, strategy, cost=cost, budget=36)) == 8  # all that there are
    assert len(drawn) == 8
    drawn.clear()
    sw.select(sets, model, strategy, n=1, cost=cost, budget=36)  # by gain is the best set first
    assert drawn == 2 * usual[:1]


@pytest.mark.parametrize("strategy", ["QBC", "EMCM"])
def test_strategies_that_draw_spend_a_budget_in_the_same_way_again(strategy):
    rng = np.random.default_rng(0)
    sets = random_sets(rng.integers(1, 5, 12).tolist(), rng)
    model = empty_model(sets)
    options = {"cost": np.exp(rng.normal(0, 1.5, 12)), "budget": 4.0, "seed": 3}
    assert sw.select(sets, model, strategy, **options) == sw.select(
        sets, model, strategy, **options
    )


# --- studies and the shell ------------------------------------------------------------------------


def made(place, gains, cost):
    return sw.create_study(place, apart(gains), model=MODEL, strategy="AggMI", cost=cost)


def test_a_study_says_that_it_buys_by_gain_and_what_that_is_worth(tmp_path):
    with made(tmp_path / "a.db", [0.35, 2.65, 0.2], [1.0, 10.0, 1.0]) as study:
        (asked,) = study.ask(budget=10)
        assert (asked.set_id, asked.cost, asked.number) == ("s1", 10, 0)
        assert asked.score == pytest.approx(2.65)
        assert f"{BY_GAIN} 382 % more than by gain per unit of cost alone." in asked.why
        assert "It costs 10. " in asked.why
        assert "Best of 3 available sets (2 individuals)" in asked.why
        assert "highest" not in asked.why
        assert study.propose(1)[0].set_id == "s0"  # without a budget by gain per cost
        assert PER_COST in study.propose(1)[0].why


def test_a_study_says_that_it_buys_the_best_set_first(tmp_path):
    with made(tmp_path / "a.db", [*[1.0] * 8, 3.0, 4.5], [*[1.0] * 8, 4.0, 6.0]) as study:
        asked = study.ask(budget=10, by="ann")
        assert [q.set_id for q in asked] == ["s9", "s0", "s1", "s2", "s3"]
        assert [q.number for q in asked] == [0, 1, 2, 3, 4]
        assert all(f"{BEST_FIRST} gains 6.25 % more than" in q.why for q in asked)
        assert [PER_COST in q.why for q in asked] == [False, True, True, True, True]
        again = study.ask(2, budget=4)  # what was bought before is open
        assert [q.set_id for q in again] == ["s8"]
        assert "allowing for 5 open questions" in again[0].why


def test_a_purchase_by_gain_per_cost_says_what_it_said_before(tmp_path):
    with made(tmp_path / "a.db", [0.35, 2.65], [1.0, 10.0]) as study:
        asked = study.ask(budget=11)
        assert [PER_COST in q.why for q in asked] == [True, True]
        assert not any("is spent" in q.why for q in asked)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("strategy", ["AggMI", "IVR", "EPIG"])
def test_what_a_question_says_of_its_rank_is_true(tmp_path, seed, strategy):
    rng = np.random.default_rng(seed)
    sets = random_sets(rng.integers(1, 5, 12).tolist(), rng)
    cost = np.exp(rng.normal(0, 1.5, 12))
    aims = {"cost": cost, "targets": sets.x}  # others like these: members are no part of it
    with sw.create_study(tmp_path / "a.db", sets, model=MODEL, strategy=strategy, **aims) as study:
        asked = study.ask(budget=4.0)
    for q in asked:
        if q.runner_up is None:
            continue
        if PER_COST in q.why:
            assert q.score_per_cost >= q.runner_up_score_per_cost * (1 - 1e-9)
        else:
            assert q.score >= q.runner_up_score * (1 - 1e-9)
    batch = [sets.position(q.set_id) for q in asked]
    gained = joint_gain(strategy, sets, 1.0, 1.0)(batch)
    assert sum(q.score for q in asked) == pytest.approx(gained)
    assert batch == sw.select(sets, empty_model(sets), strategy, budget=4.0, **aims)


def test_the_shell_buys_what_gains_most_and_says_so(tmp_path):
    url = str(tmp_path / "a.db")
    made(url, [0.35, 2.65, 0.2], [1.0, 10.0, 1.0]).close()
    run = CliRunner(env={"COLUMNS": "80"}).invoke
    shown = " ".join(run(main, ["ask", url, "--budget", "10"]).stdout.split())
    assert shown.startswith("s1 ")
    assert f"{BY_GAIN} 382 % more than by gain per unit of cost alone." in shown
    assert "Next best: s0." in shown
    assert "It costs 10 of the budget of 10." in shown
    (question,) = json.loads(run(main, ["ask", url, "--budget", "10", "-n", "1", "--json"]).stdout)[
        "questions"
    ]
    assert question["set"] == "s0"
