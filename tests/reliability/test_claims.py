"""Claims while clocks differ, jump and expire: no set is ever with two people at once."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

import sumwise as sw
from sumwise.study import state
from tests.builders import random_sets
from tests.reliability import invariants
from tests.reliability.scale import sized
from tests.workers import ask_all_the_time, processes, renew_at_the_last_moment

LINEAR = sw.AggregateRegressor("linear")
SECOND = 1 / 86_400  # in days


def sets_of(n):
    return random_sets([1, 2] * (n // 2) + [1] * (n % 2), np.random.default_rng(0), n_inputs=2)


@pytest.fixture
def two(place):
    """The same study, opened by two people."""
    with sw.create_study(place, sets_of(12), model=LINEAR) as ann, sw.open_study(place) as bob:
        yield ann, bob


def meanwhile(monkeypatch, act):
    """Do something once, when somebody has made up their mind and not claimed anything yet."""
    plain, waiting = state.propose, [act]

    def slow(*arguments, **options):
        questions = plain(*arguments, **options)
        if waiting:
            waiting.pop()(questions[0].set_id)
        return questions

    monkeypatch.setattr(state, "propose", slow)


def test_a_claim_renewed_while_another_sees_it_expire_stays_where_it_is(
    two, place, clock, monkeypatch
):
    """Bob's clock is ahead of Ann's, or her renewal is on its way when the claim expires."""
    ann, bob = two
    held = ann.ask(by="ann").set_id

    def renew(set_id):
        assert set_id == held  # Bob is about to take it
        clock.ahead = timedelta(days=6.9)
        ann.renew(held, days=30, by="ann")
        clock.ahead = timedelta(days=7.1)

    clock.ahead = timedelta(days=7.1)
    meanwhile(monkeypatch, renew)
    assert bob.ask(by="bob").set_id != held
    assert (bob.claims[0].set_id, bob.claims[0].by) == (held, "ann")
    invariants.check(place)


def test_a_set_skipped_while_another_is_about_to_ask_for_it_stays_skipped(two, place, monkeypatch):
    ann, bob = two
    meanwhile(monkeypatch, lambda set_id: ann.skip(set_id, by="ann", note="burnt down"))
    question = bob.ask(by="bob")
    (skip,) = ann.skips
    assert question.set_id != skip.set_id
    invariants.check(place)


@pytest.mark.parametrize("act", ["tell", "ask", "claim"])
def test_a_set_taken_while_another_is_about_to_ask_for_it_goes_to_the_first(
    two, place, monkeypatch, act
):
    ann, bob = two
    acts = {
        "tell": lambda set_id: ann.tell(set_id, 1.0),
        "ask": lambda set_id: ann.ask(by="ann"),
        "claim": lambda set_id: ann.claim(set_id, by="ann"),
    }
    taken = ann.propose(1)[0].set_id
    meanwhile(monkeypatch, acts[act])
    assert bob.ask(by="bob").set_id != taken
    assert taken in {claim.set_id for claim in ann.claims} | {told.set_id for told in ann.answers}
    invariants.check(place)


def test_a_skipped_set_that_is_measured_while_another_claims_it_is_measured(
    two, place, monkeypatch
):
    ann, bob = two
    ann.skip(3)
    meanwhile(monkeypatch, lambda set_id: ann.tell(set_id, 1.0))
    with pytest.raises(sw.LabelError, match="set 3 is measured already"):
        bob.claim(3)
    invariants.check(place)


def test_a_claim_released_and_claimed_by_another_meanwhile_is_theirs(
    two, place, clock, monkeypatch
):
    """What has expired in Bob's eyes was given back and handed to Eve since."""
    ann, bob = two
    held = ann.ask(by="ann").set_id

    def hand_over(set_id):
        assert set_id == held
        clock.ahead = timedelta(days=6.9)
        ann.release(held)
        ann.claim(held, by="eve")
        clock.ahead = timedelta(days=7.1)

    clock.ahead = timedelta(days=7.1)
    meanwhile(monkeypatch, hand_over)
    assert bob.ask(by="bob").set_id != held
    assert ("eve", held) in {(claim.by, claim.set_id) for claim in ann.claims}
    invariants.check(place)


def test_a_clock_that_goes_backwards_gives_nothing_away(two, place, clock):
    """Back by a month, and a step at a time: what is held in the eyes of whoever asks is held."""
    rng, days = np.random.default_rng(5), 0.0
    for step in range(sized(60)):
        study, who = two[step % 2], ("ann", "bob")[step % 2]
        days += rng.choice([-30.0, -8.0, -1.0, 0.0, 0.0, 0.0, 2.0, 9.0, 31.0])
        clock.ahead = timedelta(days=float(days))
        held = {claim.set_id: claim for claim in study.claims}
        told = {answer.set_id for answer in study.answers}
        if len(held) + len(told) == len(study.sets):
            study.retract(study.answers[0].set_id) if told else study.release(min(held))
            continue
        question = study.ask(by=who)
        assert question.set_id not in held.keys() | told
        if rng.random() < 0.3:
            study.tell(question.set_id, 1.0, by=who)
        elif held and rng.random() < 0.5:
            study.renew(min(held), by=who)
    invariants.check(place)


def test_claims_that_have_expired_are_handed_out_once_to_many_at_once(place, clock):
    n_workers, each = 8, sized(5)
    total = n_workers * each
    with sw.create_study(place, sets_of(total), model=LINEAR) as study:
        clock.ahead = timedelta(days=-10)
        study.ask(total, by="gone")
        clock.ahead = timedelta(0)
        assert study.claims == ()
    from tests.reliability.test_crowd import check_crowd, crowd

    results = crowd(place, n_workers, each)
    replay = invariants.check(place)
    assert [event.what for event in replay.events].count("expired") == total
    check_crowd(place, results, total, asked_before=total)


@pytest.mark.slow
def test_a_claim_that_is_renewed_at_the_last_moment_is_never_with_two(place):
    """In real time: one renews within milliseconds of the end, another wants the set all along."""
    with sw.create_study(place, sets_of(1), model=LINEAR, claim_days=0.2 * SECOND):
        out, over = processes.Queue(), processes.Event()
        jobs = [(renew_at_the_last_moment, (place, sized(30), over, out))]
        jobs += [(ask_all_the_time, (place, over, out))] * 2
        workers = [processes.Process(target=target, args=args) for target, args in jobs]
        for worker in workers:
            worker.start()
        results = [out.get(timeout=600) for _ in workers]
        for worker in workers:
            worker.join()
    assert [result for _, result in results if isinstance(result, str)] == []
    print(results)
    replay = invariants.check(place)
    assert {"renewed", "expired", "asked"} <= {event.what for event in replay.events}
