"""Costs, budgets, known noise, targets and when to stop, in batches and in studies."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.data.sets import Sets
from sumwise.errors import PoolExhaustedError, SettingError, SumwiseError
from sumwise.report import study_page
from tests import oracles
from tests.builders import precisions, random_sets, seeds, set_sizes, smooth_problem, totals
from tests.studies import LINEAR


def linear_model(sets, n_seen, lam=1.0, beta=1.0, noise_std=None, seed=0):
    model = sw.AggregateRegressor("linear", hyperparameters=(lam, beta), standardize=False)
    y_bar = np.random.default_rng(seed).normal(size=n_seen)
    return model.fit(sets[:n_seen], y_bar, pool=sets, noise_std=noise_std)


# --- known noise ----------------------------------------------------------------------------------


@given(set_sizes, precisions, precisions, seeds)
def test_known_noise_enters_models_and_scores_as_in_the_joint_gaussian(sizes, lam, beta, seed):
    rng = np.random.default_rng(seed)
    sets, n_seen = random_sets(sizes, rng), len(sizes) // 2
    noise = rng.uniform(0, 3, len(sets))
    model = linear_model(sets, n_seen, lam, beta, noise[:n_seen], seed)
    phi = np.column_stack([sets.x, np.ones(len(sets.x))])
    joint = oracles.joint(sets, phi, lam, beta)
    covariance = oracles.total_covariance(joint) + np.diag(noise**2)
    signal = joint.sums @ joint.latent @ joint.sums.T
    inside = covariance[:n_seen, :n_seen]
    variance = np.diag(signal).copy()
    if n_seen:
        variance -= np.diag(signal[:, :n_seen] @ np.linalg.solve(inside, signal[:n_seen]))
    own = oracles.total_noise(joint) + noise**2
    expected = 0.5 * np.log1p(np.maximum(variance, 0) / own)
    got = sw.score(sets, model, "AggMI", noise_std=noise)
    assert_allclose(got, expected, rtol=1e-6, atol=1e-8)
    y_bar = np.random.default_rng(seed).normal(size=n_seen)
    mean = signal[:, :n_seen] @ np.linalg.solve(inside, y_bar) if n_seen else np.zeros(len(sets))
    assert_allclose(model.predict_sets(sets, include_noise=False), mean, rtol=1e-6, atol=1e-8)


def test_noise_may_be_one_number_a_dict_or_a_function():
    sets = random_sets([2, 3, 1], np.random.default_rng(0))
    model = linear_model(sets, 0)
    expected = sw.score(sets, model, "AggMI", noise_std=[2.0, 2.0, 2.0])
    for said in (2, dict.fromkeys(sets.ids, 2.0), lambda sets: np.full(len(sets), 2.0)):
        assert_allclose(sw.score(sets, model, "AggMI", noise_std=said), expected)
    assert (expected < sw.score(sets, model, "AggMI")).all()


# --- costs ----------------------------------------------------------------------------------------


@given(set_sizes, seeds, st.sampled_from(["AggMI", "IVR", "EPIG"]))
def test_the_first_pick_gains_most_per_cost(sizes, seed, strategy):
    rng = np.random.default_rng(seed)
    sets = random_sets(sizes, rng)
    cost = rng.uniform(0.1, 10, len(sets))
    model = linear_model(sets, 1)
    gains = sw.score(sets, model, strategy)
    (picked,) = sw.select(sets, model, strategy, cost=cost)
    assert (gains / cost)[sets.position(picked)] >= (gains / cost).max() * (1 - 1e-9)


@given(set_sizes, seeds, st.floats(0.2, 30))
def test_a_budget_is_never_overdrawn_and_leaves_nothing_that_it_pays_for(sizes, seed, budget):
    rng = np.random.default_rng(seed)
    sets = random_sets(sizes, rng)
    cost = dict(zip(sets.ids, rng.uniform(0.1, 10, len(sets)).tolist(), strict=True))
    model = linear_model(sets, 1)
    if min(cost.values()) > budget:
        with pytest.raises(PoolExhaustedError, match="pays for no set"):
            sw.select(sets, model, cost=cost, budget=budget)
        return
    picked = sw.select(sets, model, cost=cost, budget=budget)
    left = budget - sum(cost[a] for a in picked)
    assert len(set(picked)) == len(picked)
    assert left >= -1e-9
    assert all(cost[a] > left for a in sets.ids if a not in picked)


def test_equal_costs_change_nothing():
    sets = random_sets([3, 1, 4, 2, 5], np.random.default_rng(0))
    model = linear_model(sets, 1)
    for strategy in ("AggMI", "IVR", "EPIG"):
        plain = sw.select(sets, model, strategy, n=4)
        assert sw.select(sets, model, strategy, n=4, cost=7.0) == plain


def test_an_unknown_option_is_refused_with_the_name_of_the_function(tmp_path):
    sets = random_sets([2, 3, 1], np.random.default_rng(0))
    with pytest.raises(TypeError, match=r"select\(\) got an unexpected keyword argument 'enough'"):
        sw.select(sets, linear_model(sets, 0), enough=1.0)
    with pytest.raises(TypeError, match=r"ActiveLearner\(\) got an unexpected .* 'costs'"):
        sw.ActiveLearner(sets, costs=1.0)
    with pytest.raises(TypeError, match=r"create_study\(\) got an unexpected .* 'costs'"):
        sw.create_study(tmp_path / "a.db", sets, costs=1.0)
    assert not (tmp_path / "a.db").exists()


def test_a_series_is_read_by_id_as_a_dict_is():
    sets = random_sets([2, 3, 1], np.random.default_rng(0))
    model, cost = linear_model(sets, 0), {2: 1.0, 0: 50.0, 1: 7.0}
    by_dict = sw.select(sets, model, n=3, cost=cost)
    assert sw.select(sets, model, n=3, cost=pd.Series(cost)) == by_dict
    assert sw.select(sets, model, n=3, cost=pd.Series([50.0, 7.0, 1.0])) == by_dict  # in order


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"cost": [1.0, 2.0]}, "give one for each of 3 sets"),
        ({"cost": [1.0, 0.0, 2.0]}, r"cost of set 1 is 0; it must be above 0"),
        ({"cost": {0: 1.0}}, "has no number for set 1"),
        ({"cost": pd.Series([1.0, 2.0, 3.0], index=[2, 0, 3])}, "cost name 3, and no set"),
        ({"cost": pd.Series([1.0, 2.0, 3.0], index=[2, 0, 0])}, "name set .* twice"),
        ({"cost": [1.0, np.nan, 2.0]}, "cost of set 1 is nan"),
        ({"cost": ["a", "b", "c"]}, "cost"),
        ({"noise_std": -1.0}, "noise_std of set 0 is -1; it must be at least 0"),
        ({"budget": 3.0}, "a budget needs costs"),
        ({"cost": 1.0, "budget": 0}, "above 0"),
        ({"cost": 1.0, "budget": "3"}, "above 0"),
        ({"cost": 1.0, "budget": 10**400}, "budget is 1000"),
        ({"cost": [1.0, 1e-310, 2.0]}, "cost of set 1 is 1e-310.* between 1e-100 and"),
        ({"cost": [1.0, 1.0, 1e308]}, r"cost of set 2 is 1e\+308.* between 1e-100 and"),
        ({"cost": 1.0, "strategy": "AggEnt"}, "AggEnt.*not gains.*use one of AggMI, MI"),
        ({"cost": 1.0, "strategy": lambda p, m, r: -np.ones(3)}, "not gains"),
    ],
)
def test_what_makes_no_sense_is_refused(given_, said):
    sets = random_sets([2, 3, 1], np.random.default_rng(0))
    with pytest.raises(SettingError, match=said):
        sw.select(sets, linear_model(sets, 0), **given_)


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ([[1.0, 2.0]], r"targets has shape \(1, 2\)"),
        ([[1.0, np.nan, 2.0]], "targets has nan in row 0, input 1"),
        ("all", "targets must be an array of numbers"),
        (np.empty((0, 3)), "targets has no rows"),
    ],
)
def test_targets_are_refused_by_that_name(targets, said):
    sets = random_sets([2, 3, 1], np.random.default_rng(0))
    with pytest.raises(SumwiseError, match=said):
        sw.score(sets, linear_model(sets, 0), "IVR", targets=targets)


@pytest.mark.parametrize("noise", [1e160, 1e308])
@pytest.mark.parametrize("strategy", ["IVR", "EPIG", "AggMI", "AggEnt"])
def test_noise_beyond_all_measure_makes_a_set_worthless(noise, strategy):
    sets = random_sets([2, 3, 1], np.random.default_rng(0))
    model = linear_model(sets, 1)
    plain = sw.score(sets, model, strategy)
    got = sw.score(sets, model, strategy, noise_std=[0.0, noise, 0.0])
    assert np.isfinite(got).all()
    assert_allclose(got[[0, 2]], plain[[0, 2]])
    if strategy != "AggEnt":
        assert 0 <= got[1] < 1e-100
    assert sw.select(sets, model, strategy, 3, noise_std=noise)


def test_several_outputs_know_no_noise_and_none_is_no_trouble():
    sets = random_sets([2, 3, 1], np.random.default_rng(0))
    model = sw.AggregateRegressor().fit(sets[:2], [[1.0, 2.0], [3.0, 5.0]], pool=sets)
    assert_allclose(sw.score(sets, model, noise_std=0.0), sw.score(sets, model))
    with pytest.raises(SettingError, match="one output, and the model has 2; score with"):
        sw.score(sets, model, noise_std=1.0)


# --- studies --------------------------------------------------------------------------------------


def kept_study(tmp_path, **options):
    sets, y, y_bar = smooth_problem()
    model = sw.AggregateRegressor("auto", n_basis=16)
    study = sw.create_study(tmp_path / "s.db", sets, model=model, strategy="IVR", **options)
    return study, sets, y, y_bar


def test_a_study_asks_within_a_budget_and_counts_what_was_spent(tmp_path):
    sets, _, _ = smooth_problem()
    cost = 1.0 + sets.sizes
    study, sets, _, y_bar = kept_study(tmp_path, cost=cost)
    asked = study.ask(budget=20, by="ann")
    spent = sum(cost[sets.position(question.set_id)] for question in asked)
    assert len(asked) > 1
    assert spent <= 20
    assert "It costs" in asked[0].why
    for question in asked:
        study.tell(question.set_id, float(y_bar[sets.position(question.set_id)]))
    study.close()
    with sw.open_study(tmp_path / "s.db") as again:
        status = again.status()
        assert status.spent == pytest.approx(spent)
        assert status.next_cost > 0
        assert any("Answers so far have cost" in line for line in status.words)
        assert not isinstance(again.ask(), list)
        with pytest.raises(PoolExhaustedError, match=r"budget of 0.5 pays for no set"):
            again.ask(budget=0.5)
        page = study_page.page_of(again)
        assert "What the money has bought" in page
        assert f"{spent:.1f}" in page
        assert "The model" in page
        folder = again.export(tmp_path / "out")
        with sw.import_study(folder, tmp_path / "other.db") as other:
            assert other.status().spent == status.spent
            assert [q.set_id for q in other.propose(3)] == [q.set_id for q in again.propose(3)]


def test_a_study_without_costs_takes_no_budget_and_a_strategy_must_be_a_gain(tmp_path):
    study, sets, _, _ = kept_study(tmp_path)
    with pytest.raises(SettingError, match="a budget needs costs"):
        study.ask(budget=3)
    assert study.status().spent is None
    study.close()
    with pytest.raises(SettingError, match="not gains"):
        sw.create_study(tmp_path / "t.db", sets, strategy="MaxN", cost=1.0)
    with pytest.raises(SettingError, match="enough is -1"):
        sw.create_study(tmp_path / "t.db", sets, enough=-1)


def test_targets_and_noise_are_kept_and_change_what_is_asked(tmp_path):
    sets, _, _ = smooth_problem()
    noise = np.where(np.arange(len(sets)) % 2, 1e6, 0.0)  # of a unit that the model learns
    care = (sets.x[:, 0] > np.quantile(sets.x[:, 0], 0.9)).astype(float)
    study, sets, _, y_bar = kept_study(tmp_path, noise_std=noise, target_weights=care)
    first = study.ask().set_id
    study.tell(first, float(y_bar[sets.position(first)]))
    asked = [sets.position(question.set_id) for question in study.propose(5)]
    assert all(a % 2 == 0 for a in asked)
    assert (study.predict_sets().std[1::2] > 9e5).all()
    before = study.status()
    assert "A typical individual among the targets is known to within ±" in " ".join(before.words)
    folder = study.export(tmp_path / "out")
    with sw.import_study(folder, tmp_path / "other.db") as other:
        assert other.status() == before
    study.close()


def test_it_says_stop_when_more_questions_no_longer_pay(tmp_path):
    """The truth is known: after the stop five more answers change little, before it they do."""
    study, sets, y, y_bar = kept_study(tmp_path, enough=0.5)
    truth = 300 + 10 * np.sin(sets.x[:, 0] / 2) + 4 * sets.x[:, 1]
    errors, stops = {}, []
    for number in range(40):
        asked = study.ask().set_id
        study.tell(asked, float(y_bar[sets.position(asked)]))
        stops.append(study.status().stop)
        since = number - stops.index(True) if True in stops else None
        if number == 0 or since in (0, 5):
            errors[number] = float(np.sqrt(np.mean((study.predict().mean - truth) ** 2)))
        if since == 5:
            break
    assert stops[0] is False
    assert stops[-1] is True
    at = stops.index(True)
    assert errors[0] - errors[at] > 5 * 0.5  # it was worth going on until then
    assert errors[at] - errors[at + 5] < 2 * 0.5  # and hardly any more
    assert any("You may stop" in line for line in study.status().words)
    study.close()
    assert len(y) == len(truth)


def test_the_advice_says_whose_uncertainty_falls_and_in_which_unit(tmp_path):
    """The sentence before it gives that with noise, which falls by another number."""
    sets, _, y_bar = smooth_problem()
    said = {"unit": "points", "individual": "school", "strategy": "IVR"}
    with sw.create_study(tmp_path / "s.db", sets, enough=0.5, **said) as study:
        asked = study.ask().set_id
        study.tell(asked, float(y_bar[sets.position(asked)]))
        advice = study.status().advice
    whose = "the uncertainty of a typical school, apart from its own noise, by"
    assert re.search(rf"{whose} (only )?[\d.]+ points \(your threshold: 0.500 points\)", advice)


def test_without_a_threshold_or_an_answer_nothing_is_said_of_stopping(tmp_path):
    study, sets, _, y_bar = kept_study(tmp_path, enough=0.5)
    assert study.status().stop is None
    assert not any("stop" in line for line in study.status().words)
    study.close()
    assert totals(sets, np.ones(len(sets.x))).shape == y_bar.shape
    assert isinstance(sets, Sets)


# --- a learner in memory --------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["AggMI", "IVR", "EPIG"])
@pytest.mark.parametrize("basis", ["auto", "fourier"])
def test_a_learner_asks_what_select_would(strategy, basis):
    sets, _, y_bar = smooth_problem()
    rng = np.random.default_rng(3)
    cost, noise = rng.uniform(1, 5, len(sets)), rng.uniform(0, 20, len(sets))
    targets, care = sets.x[::3], rng.uniform(0, 1, len(sets.x[::3]))
    said = {"targets": targets, "target_weights": care}
    model = sw.AggregateRegressor(basis, n_basis=16)
    learner = sw.ActiveLearner(sets, model, strategy, cost=cost, noise_std=noise, **said)
    left = np.ones(len(sets), dtype=bool)
    for step in range(6):
        asked = learner.ask()
        at = np.flatnonzero(left)
        rest = sets[[sets.ids[a] for a in at]]
        expected = sw.select(
            rest, learner.model, strategy, cost=cost[at], noise_std=noise[at], **said
        )
        assert [asked.set_id] == expected
        here = sets.position(asked.set_id)
        assert asked.cost == cost[here]
        assert "gain per unit of cost" in asked.why
        left[here] = False
        own = 5.0 if step % 2 else None
        learner.tell(asked.set_id, float(y_bar[here]), noise_std=own)
        assert learner.history[-1].noise_std == own


def test_known_noise_of_answers_enters_the_model_of_a_learner():
    sets, _, y_bar = smooth_problem()
    learner = sw.ActiveLearner(sets, sw.AggregateRegressor("linear"))
    noise = np.array([0.0, 30.0, 0.0, 5.0, 80.0])
    for a in range(5):
        learner.tell(sets.ids[a], float(y_bar[a]), noise_std=float(noise[a]))
    expected = sw.AggregateRegressor("linear")
    expected.fit(sets[:5], y_bar[:5], pool=sets, noise_std=noise)
    assert_allclose(learner.model.predict(sets.x), expected.predict(sets.x), rtol=1e-9)
    plain = sw.ActiveLearner(sets, sw.AggregateRegressor("linear"))
    for a in range(5):
        plain.tell(sets.ids[a], float(y_bar[a]))
    assert abs(plain.model.predict(sets.x) - expected.predict(sets.x)).max() > 1e-3


def test_a_learner_of_very_many_sets_asks_what_select_would_with_known_noise(monkeypatch):
    """Bounds of an earlier question do not hold where noise moves with β: they are not used."""
    monkeypatch.setattr("sumwise.acquisition.screening.SCREENED_FROM", 8)
    sets, _, y_bar = smooth_problem()
    noise = np.random.default_rng(0).uniform(0, 200, len(sets))
    learner = sw.ActiveLearner(sets, sw.AggregateRegressor(n_basis=16), noise_std=noise)
    left = list(sets.ids)
    for _ in range(8):
        at = [sets.position(a) for a in left]
        (expected,) = sw.select(sets[left], learner.model, noise_std=noise[at])
        assert learner.ask().set_id == expected
        here = sets.position(expected)
        learner.tell(expected, float(y_bar[here]), noise_std=float(noise[here]))
        left.remove(expected)


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"cost": 0}, "cost of set 0 is 0; it must be above 0"),
        ({"cost": 1, "strategy": "MaxN"}, "not gains"),
        ({"noise_std": -1}, "at least 0"),
        ({"target_weights": [1.0]}, "one number for each"),
    ],
)
def test_a_learner_refuses_what_makes_no_sense(given_, said):
    sets = random_sets([2, 3, 1], np.random.default_rng(0))
    with pytest.raises(SettingError, match=said):
        sw.ActiveLearner(sets, **given_)
    learner = sw.ActiveLearner(sets)
    with pytest.raises(sw.LabelError, match="noise_std of set 0 is -1"):
        learner.tell(0, 1.0, noise_std=-1)
    assert learner.labels == {}


def test_a_budget_is_paid_to_the_last_cent():
    sets = random_sets([2, 3, 1], np.random.default_rng(0))
    assert len(sw.select(sets, linear_model(sets, 0), cost=0.1, budget=0.3)) == 3
    with pytest.raises(SettingError, match="budget is inf"):
        sw.select(sets, linear_model(sets, 0), cost=0.1, budget=float("inf"))


def test_questions_within_a_budget_say_of_how_many(tmp_path):
    sets = random_sets([2, 3, 1, 4], np.random.default_rng(0))
    cost = [1.0, 2.0, 1.0, 50.0]
    with sw.create_study(tmp_path / "s.db", sets, model=LINEAR, cost=cost) as study:
        asked = study.ask(budget=4)
        assert "Best of 3 affordable sets" in asked[0].why
        assert "The only affordable set" in asked[2].why
        assert [q.score_per_cost for q in asked] == [q.score / q.cost for q in asked]
        assert asked[0].runner_up_cost in cost
        assert asked[0].runner_up_score_per_cost <= asked[0].score_per_cost


def test_a_set_chosen_by_hand_says_its_cost_and_not_that_it_gains_most(tmp_path):
    sets = random_sets([2, 3, 1, 4], np.random.default_rng(0))
    cost = [1.0, 2.0, 1.0, 5000.0]
    with sw.create_study(tmp_path / "s.db", sets, model=LINEAR, cost=cost) as study:
        asked = study.claim(3)
    assert asked.cost == 5000
    assert "chosen by hand" in asked.why
    assert "It costs 5000. " in asked.why
    assert "highest" not in asked.why


@pytest.mark.parametrize("basis", ["linear", "auto"])
def test_progress_and_status_are_of_the_same_individuals(tmp_path, basis):
    sets, _, y_bar = smooth_problem()
    model = sw.AggregateRegressor(basis, random_state=0)
    care = (sets.x[:, 0] > 0.5).astype(float)
    with sw.create_study(tmp_path / "a.db", sets, model=model, target_weights=care) as study:
        study.tell_many(sets.ids[:6], y_bar[:6])
        steps, status = study.insight().steps, study.status()
        assert_allclose(steps[-1].individual_std, status.mean_variance**0.5, rtol=1e-8)
