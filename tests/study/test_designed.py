"""Studies that design their sets: pools are made by questions, and kept."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest

import sumwise as sw
from sumwise.data.pool_rules import read_rules
from sumwise.learning.designed import with_asked
from sumwise.learning.pools import design_among
from tests.marks import slow
from tests.properties.test_design_pools import world_of
from tests.reliability import invariants
from tests.studies import change
from tests.workers import processes, tell_until_killed, value_of

N = 36
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 3))
Y = 5 + X @ [2.0, -1.0, 0.5] + 0.2 * RNG.normal(size=N)
PEOPLE = sw.Sets.from_arrays([row[None] for row in X], ids=[f"S{n}" for n in range(N)])
ROW = {f"S{n}": n for n in range(N)}
LINEAR = sw.AggregateRegressor("linear")
RULES = {"size": (2, 5), "uses": 1}


def begin(place, rules=RULES, sets=PEOPLE, model=LINEAR, **options):
    return sw.create_study(place, sets, model=model, design=rules, **options)


def total(ask, mean=False):
    values = [Y[ROW[name]] for name in ask.members]
    return float(np.mean(values) if mean else np.sum(values))


def play(study, n, **kwargs):
    """Ask and tell; gives who was asked for."""
    asked = []
    for _ in range(n):
        ask = study.ask()
        study.tell(ask.set_id, total(ask, **kwargs))
        asked.append((ask.set_id, ask.members))
    return asked


# --- questions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", [LINEAR, *slow(sw.AggregateRegressor(), sw.AggregateRegressor("fourier", n_basis=16))]
)
def test_a_restart_after_every_answer_changes_no_question(place, model):
    with begin(place, name="in one go", model=model) as study:
        expected = play(study, 5)
    with begin(place, name="restarted", model=model) as study:
        found = play(study, 1)
    for _ in range(4):
        with sw.open_study(place, "restarted") as study:
            found += play(study, 1)
    assert found == expected
    assert [name for name, _ in found] == [f"pool {n}" for n in range(1, 6)]
    for name in ("in one go", "restarted"):
        invariants.check(place, name)


def test_questions_are_the_pools_that_design_pools_gives_for_the_same_answers(tmp_path):
    rules = {**RULES, "weights": "mean", "apart": [n % 7 for n in range(N)], "noise_std": 0.3}
    with begin(tmp_path / "a.db", rules) as study:
        play(study, 3, mean=True)
        open_one = study.ask(by="ann")
        model, sets = study.model, study.sets
        pending = sets[[open_one.set_id]]
        people = replace(PEOPLE, members=np.arange(N), effects=np.arange(N))
        first, second = study.propose(2)
        pools = sw.design_pools(people, model, 2, pending=pending, **rules)
    assert [pools.members[a:b].tolist() for a, b in ((0, 5), (5, 10))] == [
        list(first.pool.rows),
        list(second.pool.rows),
    ]
    scores = [first.score, second.score]
    np.testing.assert_allclose([each.value for each in pools.certificates], scores, rtol=1e-9)
    assert "allowing for 2 open questions" in second.why


def test_asking_for_three_is_asking_three_times_and_what_was_proposed(tmp_path):
    with begin(tmp_path / "a.db") as one, begin(tmp_path / "b.db") as other:
        for study in (one, other):
            play(study, 2)
        proposed = one.propose(3)
        together = one.ask(3)
        apart = [other.ask() for _ in range(3)]
    assert [ask.pool for ask in together] == [ask.pool for ask in apart]
    assert [ask.pool for ask in proposed] == [ask.pool for ask in together]
    assert [ask.set_id for ask in apart] == ["pool 3", "pool 4", "pool 5"]


def test_nobody_is_used_more_often_than_allowed_by_several_people(tmp_path):
    path = tmp_path / "a.db"
    with begin(path, {"size": (2, 4), "uses": 2}) as ann, sw.open_study(path) as bob:
        play(ann, 3)
        ann.ask(2, by="ann")
        bob.ask(by="bob")
        play(bob, 2)
        assert bob.pools == ann.pools
        counts = Counter(name for members in ann.pools.values() for name in members)
        assert max(counts.values()) == 2
        assert ann.status().used == len(counts)


def test_people_who_ask_at_once_get_pools_that_share_nobody(tmp_path):
    path = tmp_path / "a.db"
    begin(path, {"size": (2, 3), "uses": 1}).close()
    found, failed = [], []

    def work(name):
        try:
            with sw.open_study(path) as study:
                for _ in range(2):
                    found.append(study.ask(by=name))
                    study.tell(found[-1].set_id, total(found[-1]), by=name)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    members = [name for ask in found for name in ask.members]
    assert len(members) == len({*members})
    assert len({ask.set_id for ask in found}) == 8
    invariants.check(path, "study")


def test_a_proposed_pool_is_claimed_by_its_name_and_by_one_person(tmp_path):
    path = tmp_path / "a.db"
    with begin(path) as ann, sw.open_study(path) as bob:
        _, second, *_ = ann.propose(5)
        claimed = bob.claim(second.set_id, by="bob")
        assert claimed.pool == second.pool
        with pytest.raises(sw.SettingError, match="'pool 2' is claimed by 'bob'"):
            ann.claim("pool 2", by="ann")
        assert ann.ask(by="ann").set_id == "pool 3"  # the number 1 is never given
        with pytest.raises(sw.UnknownSetError, match="no set has the id 'pool 1'"):
            bob.claim("pool 1")


def test_a_question_is_outdated_where_a_member_was_used_meanwhile(tmp_path):
    with begin(tmp_path / "a.db", {"size": (1, 3), "uses": 1}) as study:
        state = study.state
        seen = state.snapshot()
        asked = state._questions(seen, 1)
        study.tell(asked[0].members[0], 3.0)  # measured alone, without being asked for
        assert state._claimed(seen, asked, ["ann"]) is None
        assert asked[0].members[0] not in study.ask().members


@pytest.mark.parametrize("kills", [3, *slow(30)])
def test_pools_are_whole_whenever_a_program_is_killed(place, tmp_path, kills):
    sets = sw.Sets.from_arrays([row[None] for row in RNG.normal(size=(900, 2))])
    begin(place, {"size": (1, 2), "uses": 1}, sets).close()
    log, rng = tmp_path / "acknowledged", np.random.default_rng(1)
    log.touch()
    for _ in range(kills):
        before = log.read_text().count("\n")
        worker = processes.Process(target=tell_until_killed, args=(place, str(log)))
        worker.start()
        deadline = time.monotonic() + 120
        while log.read_text().count("\n") < before + 5 and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.03))
        worker.kill()
        worker.join()
        assert worker.exitcode == -9
        invariants.check(place, "study")
        with sw.open_study(place) as study:
            pools, answers = study.pools, {told.set_id: told.y_bar for told in study.answers}
            members = [name for who in pools.values() for name in who]
        assert len(members) == len({*members})
        lines = [line.partition(" ") for line in log.read_text().splitlines()]
        assert {name for what, _, name in lines if what == "told"} <= answers.keys()
        assert {name for what, _, name in lines if what == "asked"} <= pools.keys()
        assert all(answers[name] == value_of(sum(pools[name])) for name in answers)


# --- what happens to pools ------------------------------------------------------------------------


@pytest.mark.parametrize("undo", ["release", "retract", "expire"])
def test_members_of_a_pool_that_was_given_up_are_free_again(tmp_path, clock, monkeypatch, undo):
    with begin(tmp_path / "a.db", {"size": (18, 18), "uses": 1}, claim_days=3) as study:
        first, _ = study.ask(2)
        with pytest.raises(sw.PoolExhaustedError, match=r"each may be in 1 pool"):
            study.ask()
        if undo == "retract":
            study.tell("pool 1", total(first))
            study.retract("pool 1")
        elif undo == "release":
            study.release("pool 1")
        else:
            monkeypatch.setattr(clock, "ahead", timedelta(days=4))
        again = study.claim("pool 1", by="ann")
        assert again.members == first.members
        assert "Chosen by hand (18 individuals)" in again.why
        study.release("pool 1")
        assert {*study.ask().members} <= {*PEOPLE.ids}


def test_pools_are_amended_retracted_and_told_anew_as_given_sets_are(tmp_path):
    with begin(tmp_path / "a.db") as study:
        play(study, 3)
        study.amend("pool 2", 7.5, note="slip")
        assert study.answers[1].y_bar == 7.5
        study.retract("pool 2")
        assert study.progress == (2, 2)
        with pytest.raises(sw.LabelError, match="'pool 2' is not measured"):
            study.amend("pool 2", 1.0)
        study.tell("pool 2", 8.0)
        assert [event.what for event in study.history()[-4:]] == [
            "told",
            "amended",
            "retracted",
            "told",
        ]
        assert study.progress == (3, 3)
        found = study.predict_sets()
        assert list(found.ids) == ["pool 1", "pool 2", "pool 3"]
        np.testing.assert_allclose(found.mean[1], 8.0)


def test_pools_have_effects_of_their_own_also_after_a_restart(tmp_path):
    with begin(tmp_path / "a.db", {**RULES, "effect": True}) as study:
        play(study, 3)
        study.ask(2)
        sets, proposed = study.sets, study.propose(2)
        effects = [{*sets[name].effects.tolist()} for name in study.pools]
        assert [len(each) for each in effects] == [1] * 5
        assert len(set.union(*effects)) == 5
        assert min(set.union(*effects)) >= N
        with sw.open_study(tmp_path / "a.db") as again:
            np.testing.assert_array_equal(again.sets.effects, sets.effects)
            assert again.propose(2) == proposed


def test_a_skipped_individual_is_in_no_pool_and_a_skipped_pool_uses_its_members_up(tmp_path):
    with begin(tmp_path / "a.db") as study:
        ask = study.ask()
        study.release(ask.set_id)
        study.skip(ask.members[0], note="the sample is lost")
        after = study.ask()
        assert ask.members[0] not in after.members
        study.skip(after.set_id, note="the tube broke")
        assert {*after.members}.isdisjoint(study.ask().members)


def test_a_pool_whose_members_were_used_up_meanwhile_is_not_claimed_again(tmp_path):
    with begin(tmp_path / "a.db", {"size": (18, 18), "uses": 1}) as study:
        first = study.ask()
        study.release(first.set_id)
        study.tell(first.members[3], 4.0)
        with pytest.raises(sw.SettingError, match="'pool 1' has members who were used 1 time"):
            study.claim("pool 1")
        assert len(study.ask().members) == 18


def test_members_add_up_to_what_was_measured_of_their_pool(tmp_path):
    with begin(tmp_path / "a.db", {**RULES, "weights": "mean"}) as study:
        asked = play(study, 3, mean=True)
        found = study.predict()
        assert list(found.ids) == list(PEOPLE.ids)  # each individual once
        for name, members in asked:
            told = next(answer.y_bar for answer in study.answers if answer.set_id == name)
            np.testing.assert_allclose(found.mean[[ROW[m] for m in members]].mean(), told)


def test_noise_of_pooling_is_that_of_answers_of_which_none_is_said(tmp_path):
    rules = {**RULES, "weights": "mean", "noise_std": 3.0, "noise_std_per_member": 2.0}
    with begin(tmp_path / "a.db", rules) as study:
        ask = study.ask()
        study.tell(ask.set_id, 5.0)
        n = len(ask.members)
        assert study.answers[0].noise_std == pytest.approx(np.sqrt(9 + 4 / n))
        second = study.ask()
        study.tell(second.set_id, 5.0, noise_std=0.0)
        assert study.answers[1].noise_std is None
        study.tell("S0" if "S0" not in study.pools[second.set_id] else "S1", 4.0)
        assert study.answers[2].noise_std == pytest.approx(np.sqrt(13))
        study.tell(ask.set_id, 5.0)  # the same once more is fine


# --- costs and budgets ----------------------------------------------------------------------------


def test_a_budget_pays_for_pools_and_costs_are_added_up(tmp_path):
    rules = {**RULES, "cost": 2.0, "cost_per_member": 0.5}
    with begin(tmp_path / "a.db", rules) as study:
        bought = study.ask(budget=12.0)
        spent = sum(2 + 0.5 * len(ask.members) for ask in bought)
        assert 12 - 4.5 < spent <= 12
        assert [ask.cost for ask in bought] == [2 + 0.5 * len(ask.members) for ask in bought]
        study.tell_many([ask.set_id for ask in bought], [total(ask) for ask in bought])
        assert study.status().spent == pytest.approx(spent)


# --- given and designed sets ----------------------------------------------------------------------


def mixed(place, rules=RULES, sizes=(6, 6, 6, 18), **options):
    ends = np.cumsum([0, *sizes])
    parts = [X[a:b] for a, b in pairwise(ends)]
    sets = sw.Sets.from_arrays(parts, ids=[f"county {n}" for n in range(len(sizes))])
    return begin(place, rules, sets, **options)


@pytest.mark.parametrize("cost", [None, [1.0, 1.0, 1.0, 0.01]])
def test_the_given_set_or_the_pool_that_gains_more_is_asked_for(tmp_path, cost):
    rules = RULES if cost is None else {**RULES, "cost": 1.0}
    with mixed(tmp_path / "a.db", rules, cost=cost) as study:
        for number in range(3):
            state = study.state
            ask = study.ask()
            alone = design_among(
                state.models.people(study.state.fitted().model), state.fitted().model, "IVR",
                state.record.designing.rules,
                state.record.designing.taken(
                    state.record.sets, replace(state.snapshot().state, claimed=()), None
                ),
            )  # fmt: skip
            free = [at for at in range(4) if study.ids[at] not in told(study)]
            given = sw.score(study.sets, study.model, "IVR")[free]
            prices = np.ones(4) if cost is None else np.array(cost)
            best = max((given / prices[free]).max(), alone[0].score)
            rank = ask.score if cost is None else ask.score_per_cost
            np.testing.assert_allclose(rank, best, rtol=1e-8)
            study.tell(ask.set_id, float(number))
        kinds = {name.split()[0] for name in told(study)}
        assert "pool" in kinds if cost is None else told(study)[0] == "county 3"


def told(study):
    return [answer.set_id for answer in study.answers]


def test_a_given_set_is_not_asked_for_once_its_members_are_used_up(tmp_path):
    rules = {"size": (1, 2), "uses": 1, "cost": 1.0}
    with mixed(tmp_path / "a.db", rules, cost=[1.0, 0.01, 1.0, 0.01]) as study:
        asked = study.ask(8)
        given = {ask.set_id for ask in asked if ask.pool is None}
        members = [name for ask in asked if ask.pool is not None for name in ask.members]
        assert given
        assert members
        assert len(members) == len({*members})
        assert given.isdisjoint(county for county, _ in members)


def test_labels_are_of_individuals_where_given_sets_overlap(tmp_path):
    members = [[0, 1, 2, 3], [2, 3, 4], [5, 6, 7, 0]]
    sets = sw.Sets.from_members(X[:8], members, ids=["a", "b", "c"])
    rules = {"size": (2, 3), "uses": 1, "within": [0, 0, 0, 0, 1, 1, 1, 1]}
    with begin(tmp_path / "a.db", rules, sets) as study:
        study.ask(2)
        study.export(tmp_path / "out")
        for name in study.pools:
            rows = study.sets[name].members
            assert len({*(rows < 4)}) == 1
            np.testing.assert_array_equal(study.sets[name].x, X[rows])
        with sw.import_study(tmp_path / "out", tmp_path / "b.db") as other:
            assert other.pools == study.pools


def test_members_of_given_sets_are_named_by_their_set_and_number(tmp_path):
    with mixed(tmp_path / "a.db") as study:
        ask = next(ask for ask in study.ask(4) if ask.pool is not None)
        name, number = ask.members[0]
        row = study.sets[name].x[number - 1]
        np.testing.assert_array_equal(row, study.sets[ask.set_id].x[0])
        assert study.progress == (0, 4 + len(study.pools))
        assert study.ids[:4] == tuple(f"county {n}" for n in range(4))


# --- moving ---------------------------------------------------------------------------------------


def test_an_exported_study_goes_on_with_its_pools(tmp_path):
    rules = {**RULES, "weights": "mean", "within": [n % 2 for n in range(N)], "noise_std": 0.5}
    rules["neighbours"] = [(n, n + 2) for n in range(N - 2)]
    with begin(tmp_path / "a.db", rules, low=-100.0, high=100.0) as study:
        play(study, 2, mean=True)
        study.ask(2, by="ann")
        study.release("pool 3")
        study.export(tmp_path / "out")
        with sw.import_study(tmp_path / "out", tmp_path / "b.db") as other:
            assert other.pools == study.pools
            assert other.history() == study.history()
            assert [ask.pool for ask in other.propose(2)] == [ask.pool for ask in study.propose(2)]
            assert other.status() == study.status()
    listed = (tmp_path / "out" / "pools.csv").read_text().splitlines()
    assert listed[0] == "name,at,members,theta"
    assert len(listed) == 5


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("[", "[99999, "), r"pools\.csv cannot be used.*are not members of a pool"),
        (("name", "names"), r"columns must be name,at,members,theta"),
    ],
)
def test_pools_that_cannot_be_are_not_imported(tmp_path, wrong, said):
    import hashlib

    with begin(tmp_path / "a.db") as study:
        play(study, 1)
        study.export(tmp_path / "out")
    file, head = tmp_path / "out" / "pools.csv", tmp_path / "out" / "study.json"
    file.write_text(file.read_text().replace(*wrong, 1))
    known = json.loads(head.read_text())
    known["sha256"]["pools.csv"] = hashlib.sha256(file.read_bytes()).hexdigest()
    head.write_text(json.dumps(known))
    with pytest.raises(sw.DataError, match=said):
        sw.import_study(tmp_path / "out", tmp_path / "b.db")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("members", "[0, 0]"),
        ("members", "[-1, 2]"),
        ("members", "[1000]"),
        ("members", "7"),
        ("theta", "[1]"),
        ("theta", "[true, 1.0]"),
        ("position", 77),
        ("name", b"x"),
    ],
)
def test_pools_that_were_damaged_are_refused(tmp_path, column, value):
    with begin(tmp_path / "a.db", {"size": 2}) as study:
        play(study, 1)
    change(tmp_path / "a.db", f"UPDATE sumwise_pools SET {column} = ?", value)
    with pytest.raises(sw.DataError, match="not as sumwise wrote them"):
        sw.open_study(tmp_path / "a.db").answers  # noqa: B018


def test_rules_that_were_changed_are_refused(tmp_path):
    begin(tmp_path / "a.db").close()
    change(tmp_path / "a.db", "UPDATE sumwise_files SET content = '{}' WHERE name = 'rules'")
    with pytest.raises(sw.DataError, match=r"rules of study .* checksum differs"):
        sw.open_study(tmp_path / "a.db")


def test_other_studies_of_a_database_have_no_pools(tmp_path):
    begin(tmp_path / "a.db").close()
    with sw.create_study(tmp_path / "a.db", PEOPLE, name="given") as study:
        study.ask()
        assert study.pools == {}
        assert study.progress == (0, N)
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        assert connection.execute("SELECT count(*) FROM sumwise_pools").fetchone() == (0,)


# --- looking --------------------------------------------------------------------------------------


def test_status_counts_pools_and_individuals(tmp_path):
    with begin(tmp_path / "a.db", {"size": (3, 3), "uses": 1}) as study:
        assert "'study': 0 pools measured" in repr(study)
        assert study.status().words[0].startswith("0 pools measured, 0 being measured; 0 of 36")
        play(study, 2)
        study.ask()
        found = study.status()
        assert found.words[0] == (
            "2 pools measured, 1 being measured; 9 of 36 individuals are in them."
        )
        assert (found.sets, found.answers, found.open_claims, found.known) == (3, 2, 1, 0)
        assert found.mean_variance_after < found.mean_variance
        assert study.insight().status.used == 9


def test_what_the_next_questions_teach_is_what_asking_them_teaches(tmp_path):
    with begin(tmp_path / "a.db", {**RULES, "noise_std": 0.4}) as study:
        play(study, 3)
        before, fit = study.status(), study.state.fitted()
        asked = study.ask(5)
        designing, aims = study.state.record.designing, study.aims
        pool, known = with_asked(fit.pool, fit.model, designing, study.aims, ())
        assert (pool, known) == (fit.pool, aims)
        after = fit.model.posterior
        for ask in asked:  # one by one, on the side of the posterior alone
            one = study.sets[ask.set_id].pool(fit.model).design
            unit = float(after.output_scale[0])
            one = one.with_known_noise(np.array([0.4 / unit]), after.noise_precision)
            after = after.condition_on(one)
        phi = fit.model.basis(X)
        expected = unit**2 * after.variance_along(phi).mean()
        np.testing.assert_allclose(before.mean_variance_after, expected, rtol=1e-6)


@pytest.mark.parametrize("model", [LINEAR, sw.AggregateRegressor("auto", n_basis=12)])
def test_information_left_is_that_of_all_individuals_given_the_pools(tmp_path, model):
    with begin(tmp_path / "a.db", {"size": (2, 5), "uses": 2}, model=model) as study:
        asked = play(study, 4)
        study.tell("S3", 1.0)
        theta = np.zeros((5, N))
        for number, (_, members) in enumerate(asked):
            theta[number, [ROW[name] for name in members]] = 1.0
        theta[4, 3] = 1.0
        known = world_of(study.model, X, seen=(theta, np.zeros(5)))
        left = study.status().information_left
    rows = np.hstack([known.phi, np.eye(N)])
    total = rows @ known.joint @ rows.T
    free = np.linalg.svd(theta)[2][5:]  # what is not known of them
    parts = [np.linalg.slogdet(free @ each @ free.T)[1] for each in (total, known.noise)]
    np.testing.assert_allclose(left, 0.5 * (parts[0] - parts[1]), rtol=1e-6)


def test_a_report_is_written(tmp_path):
    with begin(tmp_path / "a.db") as study:
        play(study, 3)
        page = study.report(tmp_path / "r.html").read_text()
    assert "pool 4" in page


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"design": {"sizes": 2}}, sw.SettingError, "'sizes' is not a rule for pools"),
        ({"design": 3}, sw.SettingError, "design is 3; give the rules"),
        ({"design": {}, "strategy": "QBC"}, sw.SettingError, "designed by AggMI, IVR, EPIG"),
        (
            {"design": {}, "cost": 1.0},
            sw.SettingError,
            "are those of given sets, and here are single individuals",
        ),
        ({"design": {}, "known": {"S0": 1.0}}, sw.SettingError, "known totals are of given sets"),
        ({"design": {"size": 99}}, sw.PoolExhaustedError, "at least 99 members, and 36"),
        ({"design": {"apart": ["a"]}}, sw.InvalidSetError, "1 entries, and there are 36"),
    ],
)
def test_what_pools_cannot_be_designed_for_is_refused(tmp_path, options, error, said):
    with pytest.raises(error, match=said):
        sw.create_study(tmp_path / "a.db", PEOPLE, **options)


def test_counts_are_refused(tmp_path):
    with pytest.raises(sw.SettingError, match="plain numbers, and this model is one of counts"):
        begin(tmp_path / "a.db", model=None, outputs="counts")


def test_the_rule_that_binds_is_named_and_proposals_are_empty(tmp_path):
    with begin(tmp_path / "a.db", {"size": (12, 12), "uses": 1}) as study:
        study.ask(3)
        assert study.propose(5) == []
        with pytest.raises(sw.PoolExhaustedError, match="0 candidates are free"):
            study.ask()
        study.status()


def test_individuals_of_such_a_study_stay_who_they_are(tmp_path):
    import pandas as pd

    with (
        begin(tmp_path / "a.db") as study,
        pytest.raises(sw.SettingError, match="this study designs its sets"),
    ):
        study.change_pool(drop=pd.DataFrame({"set": ["S0"], "row": [1]}))


def test_rules_are_those_that_were_given(tmp_path):
    rules = {"size": (2, 4), "uses": 3, "strata": [n % 2 for n in range(N)], "effect": True}
    with begin(tmp_path / "a.db", rules) as study:
        kept = study.state.record.designing.rules
    assert kept.to_json() == read_rules(N, None, rules).to_json()
