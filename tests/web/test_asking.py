"""Questions for many people at once: one model for all of them, and to each their own."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import sumwise as sw
from sumwise.study import state as study_state
from sumwise.study.storage.transactions import Transaction
from sumwise.web.ask_queue import TOGETHER, AskQueue
from tests.builders import random_sets
from tests.studies import play
from tests.workers import ask_and_tell, processes

LINEAR = sw.AggregateRegressor("linear")


def fits_of(study):
    """A list that grows with every model that is fitted."""
    models = study.state.models
    fits, fit = [], models._fit

    def counted(*arguments):
        fits.append(len(arguments[0]))
        return fit(*arguments)

    models._fit = counted
    return fits


def held_back(study, asker, wishes):
    """All wishes at once: the first waits for a write, and the others queue up behind it."""
    with study._database.write():
        granted = [asker.ask(*wishes[0])]
        wait_for_proposals(study)
        granted += [asker.ask(*wish) for wish in wishes[1:]]
    return [each.result(timeout=60) for each in granted]


def wait_for_proposals(study):
    while study.state._proposed is None or study.state._proposed[0] != study.state.snapshot():
        threading.Event().wait(0.005)


def test_people_who_ask_at_once_get_what_they_would_get_one_after_the_other(
    study, problem, tmp_path
):
    model = sw.AggregateRegressor("fourier", n_basis=24)
    with sw.create_study(
        tmp_path / "twin.db", problem[0], model=model, strategy="AggMI", seed=3
    ) as twin:
        for each in (study, twin):
            play(each, problem[1], 5)
        wishes = [(1 + i % 3, f"person {i}") for i in range(10)]
        granted = held_back(study, AskQueue(study.state), wishes)
        for (n, by), questions in zip(wishes, granted, strict=True):
            asked = twin.ask(n, by=by)
            expected = [asked] if n == 1 else asked
            assert [each.set_id for each in questions] == [each.set_id for each in expected]
            assert [each.number for each in questions] == [each.number for each in expected]
            assert {each.by for each in questions} == {by}
            for mine, other in zip(questions, expected, strict=True):
                assert mine.score == pytest.approx(other.score)
                assert mine.why == other.why
        assert [(c.set_id, c.by, c.number) for c in study.claims] == [
            (c.set_id, c.by, c.number) for c in twin.claims
        ]


def test_many_people_cost_a_model_or_two(study, problem):
    play(study, problem[1], 5)
    study.tell(study.propose(1)[0].set_id, 1.0)
    fits = fits_of(study)
    granted = held_back(study, AskQueue(study.state), [(1, f"person {i}") for i in range(30)])
    assert len({questions[0].set_id for questions in granted}) == 30
    assert len(fits) == 1
    assert [c.by for c in study.claims] == [f"person {i}" for i in range(30)]


def test_questions_are_worked_out_in_handfuls(study, monkeypatch):
    propose, seen = study_state.propose, []

    def counted(*arguments, n, **options):
        seen.append(n)
        return propose(*arguments, n=n, **options)

    monkeypatch.setattr(study_state, "propose", counted)
    asker = AskQueue(study.state)
    with study._database.write():
        first = asker.ask(1, None)
        while not seen:
            threading.Event().wait(0.005)
        rest = [asker.ask(1, None) for _ in range(TOGETHER + 5)]
    for each in (first, *rest):
        each.result(timeout=60)
    assert seen == [1, TOGETHER, 5]


def test_a_large_wish_is_granted_alone(study):
    granted = AskQueue(study.state).ask(30, "ann").result(timeout=60)
    assert len({question.set_id for question in granted}) == 30


def test_some_get_questions_where_there_are_not_enough_for_all(tmp_path):
    sets = random_sets([1, 2, 1, 2], np.random.default_rng(0))
    with sw.create_study(tmp_path / "a.db", sets, model=LINEAR) as study:
        asker = AskQueue(study.state)
        with study._database.write():
            wishes = [asker.ask(n, f"wants {n}") for n in (1, 2, 3, 1)]
        assert len(wishes[0].result(60)) == 1
        assert len(wishes[1].result(60)) == 2
        with pytest.raises(sw.PoolExhaustedError, match="3 sets were asked for and 1 are free"):
            wishes[2].result(60)
        assert len(wishes[3].result(60)) == 1
        with pytest.raises(sw.PoolExhaustedError):
            asker.ask(1, None).result(60)


def test_whoever_has_gone_gets_no_question(study):
    asker = AskQueue(study.state)
    with study._database.write():
        first = asker.ask(1, "ann")
        wait_for_proposals(study)
        gone = asker.ask(1, "bob")
        assert gone.cancel()
        last = asker.ask(1, "cy")
    first.result(60)
    last.result(60)
    assert [claim.by for claim in study.claims] == ["ann", "cy"]


def test_proposals_that_were_shown_are_what_is_asked_without_working_them_out_again(
    study, monkeypatch
):
    shown = study.propose(5)

    def never(*arguments, **options):
        raise AssertionError("worked out again")

    monkeypatch.setattr(study_state, "propose", never)
    asked = AskQueue(study.state).ask(3, "ann").result(60)
    assert [each.set_id for each in asked] == [each.set_id for each in shown[:3]]


def test_whoever_is_overtaken_by_another_process_asks_again(study, monkeypatch):
    """Somebody else asks between working out and claiming, three times in a row."""
    ask, overtaken = Transaction.ask, []

    def late(change, seen, questions, owners):
        if len(overtaken) < 2:
            overtaken.append(owners)
            change._advance(questions=1)
            change = Transaction(change.connection, study.state.record)
        return ask(change, seen, questions, owners)

    monkeypatch.setattr(Transaction, "ask", late)
    asked = AskQueue(study.state).ask(2, "ann").result(60)
    assert len(overtaken) == 2
    assert [claim.set_id for claim in study.claims] == [each.set_id for each in asked]


def test_nobody_is_given_a_set_that_was_answered_meanwhile(study, monkeypatch):
    asker, snapshot, calls = AskQueue(study.state), study.state.snapshot, []
    shown = study.propose(1)[0].set_id

    def seen():
        found = snapshot()
        if not calls:
            calls.append(1)
            with sw.open_study(study._database.path) as other:
                other.tell(shown, 1.0)
        return found

    monkeypatch.setattr(study.state, "snapshot", seen)
    assert asker.ask(1, "ann").result(60)[0].set_id != shown
    assert shown not in {claim.set_id for claim in study.claims}


def test_a_failure_reaches_all_who_wait_and_the_next_are_served(study, monkeypatch):
    asker, propose = AskQueue(study.state), study_state.propose

    def broken(*arguments, **options):
        raise sw.StorageError("the disk is gone")

    monkeypatch.setattr(study_state, "propose", broken)
    with pytest.raises(sw.StorageError, match="the disk is gone"):
        asker.ask(1, None).result(60)
    monkeypatch.setattr(study_state, "propose", propose)
    assert len(asker.ask(1, None).result(60)) == 1


def test_no_set_is_given_twice_beside_other_processes(place):
    sets = random_sets([1] * 60, np.random.default_rng(0))
    with sw.create_study(place, sets, model=LINEAR) as study:
        out = processes.Queue()
        others = [
            processes.Process(target=ask_and_tell, args=(place, f"process {i}", 8, out))
            for i in range(2)
        ]
        for process in others:
            process.start()
        asker = AskQueue(study.state)
        with ThreadPoolExecutor(8) as threads:
            mine = list(threads.map(lambda i: asker.ask(1, f"t{i}").result(120), range(24)))
        reports = [out.get(timeout=120) for _ in others]
        for process in others:
            process.join(60)
        theirs = [set_id for _, told in reports for _, set_id in told]
        asked = [questions[0].set_id for questions in mine] + theirs
        assert len(asked) == len(set(asked)) == 40
        numbers = sorted(e.question["number"] for e in study.history() if e.what == "asked")
        assert numbers == list(range(40))
