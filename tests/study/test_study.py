"""`Study`: the questions it asks, who holds them, and how one is made."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.study import state
from sumwise.study.storage import records
from tests.builders import random_sets
from tests.marks import slow
from tests.studies import NETWORK, play

# --- the same questions as in memory --------------------------------------------------------------


OF_DROPOUT = ["DAEnt", "DAMI"]


@pytest.mark.parametrize(
    "strategy", [*sorted(sw.ACQUISITIONS.keys() - OF_DROPOUT), *slow(*OF_DROPOUT)]
)
def test_a_study_asks_what_a_learner_asks(problem, tmp_path, strategy):
    sets, answers = problem
    basis = NETWORK if strategy.startswith("DA") else "fourier"
    model = sw.AggregateRegressor(basis, n_basis=24)
    learner = sw.ActiveLearner(sets, model, strategy, seed=5)
    study = sw.create_study(tmp_path / "a.db", sets, model=model, strategy=strategy, seed=5)
    for _ in range(4):
        expected, question = learner.ask(), study.ask()
        assert question.set_id == expected.set_id
        assert question.why == expected.why
        numbers = (question.score, question.expected, question.std)
        assert_allclose(numbers, (expected.score, expected.expected, expected.std), rtol=1e-7)
        learner.tell(expected.set_id, answers[expected.set_id])
        study.tell(expected.set_id, answers[expected.set_id])
    assert_allclose(study.model.predict(sets.x), learner.model.predict(sets.x), rtol=1e-9)
    study.close()


def test_the_papers_preset_is_the_papers_model(problem, tmp_path):
    sets, answers = problem
    learner = sw.ActiveLearner(sets, preset="paper", seed=4)
    with sw.create_study(tmp_path / "a.db", sets, preset="paper", seed=4) as study:
        for question in play(study, answers, 4):
            assert question.set_id == learner.ask().set_id
            learner.tell(question.set_id, answers[question.set_id])
        assert study.model.hyperparameters == "adam"
        assert_allclose(study.model.noise_precision_, learner.model.noise_precision_, rtol=1e-12)


# --- questions and claims -------------------------------------------------------------------------


def test_a_question_says_what_it_expects_and_what_came_second(problem, study):
    sets, answers = problem
    play(study, answers, 3)
    question = study.ask(by="ann")
    left = [i for i in sets.ids if i not in {told.set_id for told in study.answers}]
    scores = sw.score(sets[left], study.model, "AggMI")
    order = np.argsort(-scores)
    assert question.set_id == left[order[0]]
    assert question.runner_up == left[order[1]]
    assert_allclose([question.score, question.runner_up_score], scores[order[:2]], rtol=1e-8)
    assert_allclose(question.information, question.score, rtol=1e-8)
    mean, std = study.model.predict_sets(sets[question.set_id], return_std=True)
    assert_allclose([question.expected, question.std], [mean[0], std[0]], rtol=1e-10)
    assert (question.number, question.by) == (3, "ann")
    days = datetime.fromisoformat(question.expires) - datetime.now(UTC)
    assert abs(days - timedelta(days=7)) < timedelta(minutes=5)


def test_open_questions_are_conditioned_on_exactly(problem, study):
    sets, answers = problem
    play(study, answers, 2)
    first = study.ask(by="ann")
    told = [answer.set_id for answer in study.answers]
    free = sets[[i for i in sets.ids if i not in told]]
    expected = sw.select(free, study.model, "AggMI", pending=[first.set_id])
    second = study.ask(by="bob")
    assert [second.set_id] == expected
    assert "allowing for 1 open question" in second.why
    assert [claim.by for claim in study.claims] == ["ann", "bob"]


def test_a_batch_is_what_asking_one_by_one_gives(problem, tmp_path):
    sets, answers = problem
    asked = []
    for name in ("one", "all"):
        with sw.create_study(tmp_path / "a.db", sets, name=name, strategy="QBC") as study:
            play(study, answers, 3)
            batch = study.ask(5) if name == "all" else [study.ask() for _ in range(5)]
            asked.append([question.set_id for question in batch])
            assert [question.number for question in batch] == [3, 4, 5, 6, 7]
    assert asked[0] == asked[1]
    assert len(set(asked[0])) == 5


def test_the_same_person_gets_new_sets_and_telling_frees_whoever_holds_it(study):
    first, second = study.ask(by="ann"), study.ask(by="ann")
    assert first.set_id != second.set_id
    study.tell(first.set_id, 1.0, by="bob")
    assert [claim.set_id for claim in study.claims] == [second.set_id]


def test_a_released_set_is_free_again(study):
    first = study.ask(by="ann")
    study.release(first.set_id, by="bob")
    assert study.claims == ()
    assert study.ask().set_id == first.set_id
    with pytest.raises(sw.SettingError, match="set 'set 39' is not claimed"):
        study.release("set 39" if first.set_id != "set 39" else "set 38")


def test_an_expired_claim_is_free_again_and_history_says_so(study, clock):
    first = study.ask(by="ann")
    clock.ahead = timedelta(days=6.9)
    assert len(study.claims) == 1
    clock.ahead = timedelta(days=7.1)
    assert study.claims == ()
    for act in (study.release, study.renew):
        with pytest.raises(sw.SettingError, match="expired"):
            act(first.set_id)
    assert study.ask(by="bob").set_id == first.set_id
    assert [event.what for event in study.history()] == ["created", "asked", "expired", "asked"]
    assert study.history()[2].by == "ann"


def test_a_renewed_claim_lasts_longer(study, clock):
    first = study.ask(by="ann")
    expires = study.renew(first.set_id, days=30, by="ann")
    clock.ahead = timedelta(days=20)
    assert [claim.expires for claim in study.claims] == [expires]
    again = study.renew(first.set_id)
    assert again < expires  # seven days from now
    assert study.history()[-1].what == "renewed"


def test_an_expired_claim_can_still_be_told(study, clock):
    first = study.ask(by="ann")
    clock.ahead = timedelta(days=8)
    study.tell(first.set_id, 1.0, by="ann")
    assert study.ask().set_id != first.set_id
    assert "expired" not in [event.what for event in study.history()]


def test_when_nothing_is_free_it_says_why(tmp_path):
    sets = random_sets([1, 2, 3], np.random.default_rng(0))
    with sw.create_study(tmp_path / "a.db", sets) as study:
        with pytest.raises(sw.PoolExhaustedError, match="4 sets were asked for and 3 are free"):
            study.ask(4)
        questions = study.ask(3)
        assert questions[-1].runner_up is None
        with pytest.raises(sw.PoolExhaustedError, match="being measured \\(3 open questions\\)"):
            study.ask()
        for question in questions:
            study.tell(question.set_id, 1.0)
        with pytest.raises(sw.PoolExhaustedError, match="measured already"):
            study.ask()
        assert study.status().information_left == 0
        assert study.status().next_questions == 0


# --- making one -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"strategy": "Best"}, "no strategy is called 'Best'"),
        ({"strategy": lambda *_: None}, "your own code"),
        ({"strategy": "DAMI"}, "dropout network"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"preset": "fast"}, "no preset"),
        ({"preset": "paper", "strategy": "Rand"}, "brings its own"),
        ({"model": "linear"}, "give an AggregateRegressor"),
        ({"model": sw.AggregateRegressor(lambda x: x)}, "your own code"),
        ({"claim_days": 0}, "claim_days is 0"),
        ({"claim_days": math.inf}, "claim_days is inf"),
        ({"claim_days": "7"}, "claim_days is '7'"),
        ({"name": ""}, "a name that can be seen"),
        ({"name": 5}, "name is 5"),
    ],
)
def test_settings_that_make_no_sense_leave_no_file(tmp_path, settings, words):
    sets = random_sets([1, 2], np.random.default_rng(0))
    with pytest.raises(sw.SettingError, match=words):
        sw.create_study(tmp_path / "a.db", sets, **settings)
    assert list(tmp_path.iterdir()) == []


def test_sets_are_needed(tmp_path):
    sets = random_sets([1, 2], np.random.default_rng(0))
    with pytest.raises(sw.InvalidSetError, match="make a Sets first"):
        sw.create_study(tmp_path / "a.db", [[1.0]])
    with pytest.raises(sw.SettingError, match="there are no sets"):
        sw.create_study(tmp_path / "a.db", sets[:0])
    with pytest.raises(sw.InvalidSetError, match="cannot be kept in a study"):
        sw.create_study(tmp_path / "a.db", random_sets([1], np.random.default_rng(0), ids=[b"x"]))
    assert list(tmp_path.iterdir()) == []


def test_a_study_overtaken_again_and_again_holds_the_lock(problem, study, monkeypatch):
    """Whenever this one has made up its mind, somebody else has told something meanwhile."""
    path, plain, overtaken = study._database.path, state.propose, []

    def slow(*args, **options):
        questions = plain(*args, **options)
        if len(overtaken) < state.OVERTAKEN:
            with sw.open_study(path) as other:
                other.tell(questions[0].set_id, 1.0)
            overtaken.append(questions[0].set_id)
        return questions

    monkeypatch.setattr(state, "propose", slow)
    question = study.ask()
    assert len(overtaken) == state.OVERTAKEN
    assert question.set_id not in overtaken
    assert question.number == 0
    assert [claim.set_id for claim in study.claims] == [question.set_id]


def test_a_snapshot_is_read_again_only_after_a_change(study, monkeypatch):
    now = study.state.snapshot
    before = now()
    assert now() is before
    study.claim("set 3", by="ann")
    claimed = now()
    assert claimed is not before
    monkeypatch.setattr(records, "now", lambda: records.stamp(datetime.now(UTC) + timedelta(8)))
    expired = now()  # nothing was written, but time has passed
    assert (expired.claims, expired.expired) == ((), claimed.claims)


def test_recording_gives_the_answer_as_it_is_stored(study):
    answer, new = study.record("set 3", 2, by="ann", noise_std=0.5)
    assert (answer, new) == (study.answers[0], True)
    assert study.record("set 3", 2.0, by="bob", noise_std=0.5) == (answer, False)
    corrected, changed = study.record("set 3", 3.0, by="bob", correct=True)
    assert (corrected.y_bar, corrected.noise_std, corrected.by, changed) == (3.0, 0.5, "bob", True)
    assert study.answers == (corrected,)


def test_several_people_are_asked_in_one_transaction(study, problem, tmp_path):
    model = sw.AggregateRegressor("fourier", n_basis=24)
    with sw.create_study(
        tmp_path / "twin.db", problem[0], model=model, strategy="AggMI", seed=3
    ) as twin:
        before = study.state.changes()
        together = study.state.claim(["ann", "ann", "bob"])
        assert study.state.changes() == before + 1
        alone = [*twin.ask(2, by="ann"), twin.ask(by="bob")]
    assert [(ask.set_id, ask.by, ask.number) for ask in together] == [
        (ask.set_id, ask.by, ask.number) for ask in alone
    ]
