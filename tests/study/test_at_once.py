"""Two people who change a study at once: the result is as if they had taken turns."""

from __future__ import annotations

import itertools
import threading
from datetime import timedelta

import numpy as np
import pytest
import sqlalchemy as sa

import sumwise as sw
from sumwise.study.storage.transactions import transaction
from tests.builders import random_sets
from tests.marks import slow

SETS = random_sets([1, 2, 3] * 2, np.random.default_rng(0), n_inputs=2)
LINEAR = sw.AggregateRegressor("linear", hyperparameters=(1.0, 1.0))
WORK = {
    "amend": lambda study: study.amend(0, 6.0),
    "amend otherwise": lambda study: study.amend(0, 7.0),
    "retract": lambda study: study.retract(0),
    "tell": lambda study: study.tell(1, 1.0),
    "tell otherwise": lambda study: study.tell_many([1], [2.0]),
    "skip": lambda study: study.skip(1),
    "unskip": lambda study: study.unskip(2),
    "skip again": lambda study: study.skip(2),
}
QUICK = [("amend", "retract"), ("retract", "amend"), ("skip", "tell")]
PAIRS = [
    *itertools.product(("amend", "retract"), ("amend otherwise", "retract")),
    *itertools.permutations(("tell", "tell otherwise", "skip"), 2),
    ("unskip", "skip again"),
]


def done(work, study):
    """What came of it: nothing, or the kind of refusal."""
    try:
        work(study)
    except sw.SumwiseError as error:
        return type(error).__name__
    return ""


def state_of(study):
    """What is kept, without times."""
    told = [(answer.set_id, answer.y_bar) for answer in study.answers]
    history = [(event.what, event.set_id, event.y_bar) for event in study.history()]
    return told, [skip.set_id for skip in study.skips], history


def begun(place, name):
    study = sw.create_study(place, SETS, model=LINEAR, name=name)
    study.tell(0, 5.0)
    study.skip(2)
    return study


def in_turn(place, name, first, second):
    with begun(place, name) as study:
        came = done(first, study), done(second, study)
        return came, state_of(study)


def interleaved(place, name, first, second, at):
    """`second` is begun right before statement number `at` of `first`; None if there is none."""
    begun(place, name).close()
    came, count, waiting = {}, itertools.count(), []

    def other():
        with sw.open_study(place, name) as study:
            came["second"] = done(second, study)

    def pause(*_):
        if next(count) == at:
            waiting.append(threading.Thread(target=other))
            waiting[0].start()
            waiting[0].join(0.03)  # it has ended, or it waits for its turn

    with sw.open_study(place, name) as study:
        sa.event.listen(study._database.engine, "before_cursor_execute", pause)
        came["first"] = done(first, study)
        if not waiting:
            return None
        waiting[0].join()
        return (came["first"], came["second"]), state_of(study)


@pytest.mark.parametrize(
    "pair", [*QUICK, *slow(*(pair for pair in PAIRS if pair not in QUICK))], ids=" and ".join
)
def test_two_who_change_a_study_at_once_take_turns(database, pair):
    first, second = (WORK[name] for name in pair)
    turned = in_turn(database, "turned", second, first)
    either = in_turn(database, "in turn", first, second), (turned[0][::-1], turned[1])
    for at in itertools.count():
        found = interleaved(database, f"at {at}", first, second, at)
        if found is None:
            break
        assert found in either, at
    assert at > 2


def test_a_claim_that_ended_otherwise_is_not_logged_as_expired(database, clock):
    with sw.create_study(database, SETS, model=LINEAR) as ann, sw.open_study(database) as bob:
        held = ann.ask(by="ann").set_id
        clock.ahead = timedelta(days=30)
        seen = ann.state.snapshot()
        assert [claim.set_id for claim in seen.expired] == [held]
        bob.tell(held, 1.0)  # which ends the claim
        question = next(ask for ask in ann.propose(2) if ask.set_id != held)
        with transaction(ann._database, ann.state.record) as change:
            assert change.ask(seen, [question], ["ann"])
        assert [event.what for event in ann.history()] == ["created", "asked", "told", "asked"]


def test_every_value_of_a_withdrawn_answer_stays_withdrawn(database):
    with sw.create_study(database, SETS, model=LINEAR) as study:
        study.tell(0, 5.0)
        for total in (6.0, 7.0):
            study.amend(0, total)
        study.retract(0)
        for total in (5.0, 6.0, 7.0):
            with pytest.raises(sw.LabelError, match="was withdrawn"):
                study.tell_many([0], [total])
        assert study.tell_many([0], [8.0]) == 1
