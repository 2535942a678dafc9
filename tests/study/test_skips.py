"""Sets that are set aside, sets that people choose themselves, and who is overtaken."""

from __future__ import annotations

import numpy as np
import pytest

import sumwise as sw
from sumwise.study.storage.transactions import transaction


def sets_of(n=8, seed=5):
    rng = np.random.default_rng(seed)
    return sw.Sets.from_arrays([rng.normal(size=(1 + a % 3, 2)) for a in range(n)])


@pytest.fixture
def study(place):
    with sw.create_study(place, sets_of()) as made:
        yield made


def test_a_skipped_set_is_not_asked_for_until_it_is_unskipped(study):
    first = study.propose(1)[0].set_id
    study.skip(first, by="ann", note="the gate is locked")
    (skip,) = study.skips
    assert (skip.set_id, skip.by, skip.note) == (first, "ann", "the gate is locked")
    asked = [study.ask().set_id for _ in range(7)]
    assert sorted([first, *asked]) == list(range(8))
    with pytest.raises(sw.PoolExhaustedError):
        study.ask()
    study.unskip(first, by="bob")
    assert study.ask().set_id == first
    whats = [event.what for event in study.history()]
    assert whats == ["created", "skipped", *["asked"] * 7, "unskipped", "asked"]
    assert study.history()[1].note == "the gate is locked"


def test_when_only_skipped_sets_are_left_it_says_so(study):
    study.tell_many(range(7), np.arange(7.0))
    study.skip(7)
    with pytest.raises(sw.PoolExhaustedError, match="unskip"):
        study.ask()
    assert study.propose() == []
    status = study.status()
    assert (status.skipped, status.information_left) == (1, 0)
    assert any("1 skipped" in line for line in status.words)  # after a headline, if there is one
    assert "Nothing is left to ask." in status.words


def test_a_skipped_set_is_not_taken_for_one_that_will_be_answered(study):
    """Unlike an open question, it teaches nothing."""
    study.tell(3, 1.0)
    before = study.propose(1)[0]
    other = next(a for a in range(8) if a not in (3, before.set_id))
    study.skip(other)
    after = study.propose(1)[0]
    assert (after.set_id, after.score) == (before.set_id, before.score)
    study.unskip(other)
    study.claim(other)
    assert study.propose(1)[0].score < before.score


def test_skipping_lets_go_of_a_claim_and_telling_or_claiming_takes_a_skip_away(study):
    held = study.ask(by="ann").set_id
    study.skip(held)
    assert not study.claims
    study.tell(held, 2.0)
    assert not study.skips
    one, two = [a for a in range(3) if a != held][:2]
    study.skip(one)
    study.claim(one)
    assert not study.skips
    study.skip(two)
    study.tell_many([two], [1.0])
    assert not study.skips


def test_what_cannot_be_skipped_or_unskipped_is_refused(study):
    study.tell(2, 1.0)
    with pytest.raises(sw.LabelError, match="measured already"):
        study.skip(2)
    with pytest.raises(sw.SettingError, match="not skipped"):
        study.unskip(3)
    with pytest.raises(sw.UnknownSetError):
        study.skip("nowhere")
    study.skip(3, note="one")
    study.skip(3, note="two")
    assert [skip.note for skip in study.skips] == ["two"]


def test_people_may_claim_a_set_of_their_own_choice(study):
    study.tell(0, 1.0)
    best, *others = study.propose(7)
    chosen = others[-1].set_id
    question = study.claim(chosen, by="ann")
    assert (question.set_id, question.by, question.number) == (chosen, "ann", 0)
    assert question.runner_up == best.set_id
    assert "chosen by hand" in question.why
    assert question.information <= best.information
    assert [claim.set_id for claim in study.claims] == [chosen]
    with pytest.raises(sw.SettingError, match="'ann' until"):
        study.claim(chosen, by="bob")
    with pytest.raises(sw.LabelError, match="measured already"):
        study.claim(0)
    first = study.propose(1)[0].set_id
    assert "chosen by hand" not in study.claim(first).why


def test_proposing_claims_nothing_and_is_what_asking_gives(study):
    study.tell(1, 4.0)
    proposed = study.propose(3)
    assert not study.claims
    assert [q.set_id for q in proposed] == [q.set_id for q in study.ask(3)]
    assert len(study.propose(99)) == 4


# --- what changes while somebody thinks -----------------------------------------------------------


def claim_after(study, meanwhile):
    """A question that was worked out before something else has happened."""
    seen = study.state.snapshot()
    questions = study.state.propose(seen, 1)
    meanwhile(questions[0].set_id)
    with transaction(study._database, study.state.record) as change:
        return change.ask(seen, questions, ["late"])


def test_answers_for_other_sets_do_not_make_a_question_wrong(study):
    claimed = claim_after(study, lambda chosen: study.tell((chosen + 1) % 8, 3.0))
    assert claimed is not None
    assert [claim.by for claim in study.claims] == ["late"]


def test_an_answer_for_its_own_set_does(study):
    assert claim_after(study, lambda chosen: study.tell(chosen, 3.0)) is None
    assert not study.claims


def test_another_question_does(study):
    assert claim_after(study, lambda chosen: study.ask(by="quick")) is None
    assert [claim.by for claim in study.claims] == ["quick"]


def test_whoever_is_overtaken_gets_another_set(study, monkeypatch):
    """Twice without the lock, and then while holding it."""
    state, locked_calls = study.state, []
    following, questions = state._next, state._questions

    def overtaken(seen, n):
        locked_calls.append(False)
        found = following(seen, n)
        state._next = following
        study.ask(by="quick")
        state._next = overtaken
        return found

    def recorded(*wishes, locked=False, **more):
        if locked:
            locked_calls.append(True)
        return questions(*wishes, locked=locked, **more)

    state._next, state._questions = overtaken, recorded
    late = study.ask(by="late")
    assert locked_calls == [False, False, True]
    held = [claim.set_id for claim in study.claims]
    assert len(held) == len(set(held)) == 3
    assert late.set_id in held
    assert late.number == 2
