"""`Study`: what people do with one, and what it refuses."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise import study as studies
from sumwise.storage import records
from tests.builders import random_sets
from tests.oracles import joint, total_covariance, total_noise


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    sets = random_sets(rng.integers(1, 9, 40).tolist(), rng, ids=[f"set {a}" for a in range(40)])
    y = np.sin(2 * sets.x[:, 0]) + sets.x[:, 1] + 0.1 * rng.normal(size=len(sets.x))
    y_bar = np.add.reduceat(sets.theta * y, sets.starts[:-1])
    return sets, dict(zip(sets.ids, y_bar.tolist(), strict=True))


@pytest.fixture
def study(problem, tmp_path):
    model = sw.AggregateRegressor(n_basis=24)
    with sw.create_study(tmp_path / "a.db", problem[0], model=model, seed=3) as study:
        yield study


class Clock(datetime):
    """A clock that a test can put forward."""

    ahead = timedelta(0)

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + cls.ahead


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(records, "datetime", Clock)
    monkeypatch.setattr("sumwise.storage.rules.datetime", Clock)
    monkeypatch.setattr(Clock, "ahead", timedelta(0))
    return Clock


def play(study, answers, n):
    asked = []
    for _ in range(n):
        question = study.ask()
        study.tell(question.set_id, answers[question.set_id])
        asked.append(question)
    return asked


# --- the same questions as in memory --------------------------------------------------------------

NETWORK = sw.Neural(width=4, depth=2, n_basis=6, epochs=20)


@pytest.mark.parametrize("strategy", sorted(sw.ACQUISITIONS))
def test_a_study_asks_what_a_learner_asks(problem, tmp_path, strategy):
    sets, answers = problem
    basis = NETWORK if strategy.startswith("DA") else "fourier"
    model = sw.AggregateRegressor(basis, n_basis=24)
    learner = sw.ActiveLearner(sets, model, strategy, seed=5)
    study = sw.create_study(tmp_path / "a.db", sets, model=model, strategy=strategy, seed=5)
    for _ in range(6):
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
    scores = sw.score(sets[left], study.model)
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
    expected = sw.select(
        sets[[i for i in sets.ids if i not in told]], study.model, pending=[first.set_id]
    )
    second = study.ask(by="bob")
    assert [second.set_id] == expected
    assert second.why.endswith("It adds to a question that is not answered yet.")
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
    with pytest.raises(sw.SettingError, match="nobody holds set 'set 39'"):
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


# --- answers --------------------------------------------------------------------------------------


def test_telling_the_same_again_changes_nothing_and_another_value_is_refused(study):
    study.tell("set 1", 5.0, by="ann", note="scale 3")
    before = study.history()
    study.tell("set 1", 5, by="bob")
    assert study.history() == before
    with pytest.raises(sw.LabelError, match=r"measured already \(5 by 'ann' at .*use amend"):
        study.tell("set 1", 6.0)
    with pytest.raises(sw.LabelError, match="± 2"):
        study.tell("set 1", 5.0, noise_std=2.0)
    assert study.history() == before


def test_amending_and_retracting_keep_everything_in_history(study):
    study.tell("set 1", 5.0, by="ann", note="first", noise_std=2.0)
    study.tell("set 2", 7.0)
    study.amend("set 1", 6.0, by="bob", note="misread")
    study.amend("set 1", 6.0)  # nothing new
    study.amend("set 1", 6.0, noise_std=0, by="bob")
    told = [(t.set_id, t.y_bar, t.noise_std, t.by) for t in study.answers]
    assert told == [("set 1", 6.0, None, "bob"), ("set 2", 7.0, None, None)]
    study.retract("set 1", by="eve", note="broken")
    assert [t.set_id for t in study.answers] == ["set 2"]
    study.tell("set 1", 9.0)
    assert [t.set_id for t in study.answers] == ["set 2", "set 1"]  # it has arrived anew
    lines = [(e.what, e.y_bar, e.noise_std, e.by, e.note) for e in study.history()[1:]]
    assert lines == [
        ("told", 5.0, 2.0, "ann", "first"),
        ("told", 7.0, None, None, None),
        ("amended", 6.0, 2.0, "bob", "misread"),
        ("amended", 6.0, None, "bob", None),
        ("retracted", 6.0, None, "eve", "broken"),
        ("told", 9.0, None, None, None),
    ]
    assert [event.number for event in study.history()] == list(range(1, 8))
    assert all(datetime.fromisoformat(e.at).utcoffset() == timedelta(0) for e in study.history())


@pytest.mark.parametrize("act", ["amend", "retract"])
def test_what_was_never_told_cannot_be_changed(study, act):
    with pytest.raises(sw.LabelError, match="'set 1' is not measured yet"):
        getattr(study, act)(*{"amend": ("set 1", 2.0), "retract": ("set 1",)}[act])


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, "5", "1,234.5", None, [1.0], 1e200, 1j, "nan"]
)
def test_a_total_that_is_no_number_is_refused_and_nothing_is_stored(study, value):
    with pytest.raises(sw.LabelError, match="total of set 'set 1' is"):
        study.tell("set 1", value)
    with pytest.raises(sw.LabelError, match="noise_std of set 'set 1' is"):
        study.tell("set 1", 1.0, noise_std="x" if value is None else value)
    assert study.answers == ()
    assert len(study.history()) == 1


@pytest.mark.parametrize("value", [-1.0, math.nan])
def test_noise_below_zero_is_refused(study, value):
    with pytest.raises(sw.LabelError, match="at least 0"):
        study.amend("set 1", 1.0, noise_std=value)


def test_unknown_sets_are_refused(study):
    for act in (study.release, study.renew, study.retract):
        with pytest.raises(sw.UnknownSetError):
            act("nowhere")
    for act in (study.tell, study.amend):
        with pytest.raises(sw.UnknownSetError):
            act("nowhere", 1.0)
    with pytest.raises(sw.UnknownSetError):
        study.tell(["set 1"], 1.0)


@pytest.mark.parametrize("text", [5, "a\0b", "\ud800", "x" * 10_001, b"ann"])
def test_text_that_no_database_keeps_is_refused(study, text):
    for call in (
        lambda: study.ask(by=text),
        lambda: study.tell("set 1", 1.0, by=text),
        lambda: study.tell("set 1", 1.0, note=text),
    ):
        with pytest.raises(sw.SettingError, match=r"(by|note) is"):
            call()
    assert len(study.history()) == 1


@pytest.mark.parametrize("n", [0, -1, True, 1.0, "2"])
def test_a_batch_is_a_whole_number(study, n):
    with pytest.raises(sw.SettingError, match="whole number of at least 1"):
        study.ask(n)


def test_an_id_that_is_equal_finds_the_set(tmp_path):
    sets = random_sets([1, 2, 3], np.random.default_rng(0))  # ids 0, 1, 2
    with sw.create_study(tmp_path / "a.db", sets) as study:
        study.tell(np.float64(2.0), np.float32(1.5))
        assert study.answers[0].set_id == 2
        assert isinstance(study.answers[0].set_id, int)
        study.tell(0, -0.0)
        assert math.copysign(1, study.answers[1].y_bar) == 1


# --- models and predictions -----------------------------------------------------------------------


def test_known_noise_is_that_of_the_model(problem, study):
    sets, answers = problem
    blur = [0.5, 0.0, 3.0, None]
    for set_id, noise in zip(sets.ids, blur, strict=False):
        study.tell(set_id, answers[set_id], noise_std=noise)
    fitted = study.model.fitted()
    lam, beta = fitted.posterior.hyper.prior_precision, fitted.posterior.hyper.noise_precision
    scale, offset = fitted.posterior.output_scale[0], fitted.offset[0]
    seen, phi = sets[:4], fitted.basis(sets.x)
    rows = phi[: len(seen.x)]
    model = joint(seen, rows, lam, beta)
    inner = np.array([n or 0.0 for n in blur]) / scale
    cov = total_covariance(model) + np.diag(inner**2)
    level = np.add.reduceat(seen.theta, seen.starts[:-1]) * offset
    y_bar = (np.array([answers[i] for i in seen.ids]) - level) / scale
    cross = phi @ rows.T / lam @ model.sums.T
    expected = offset + scale * (cross @ np.linalg.solve(cov, y_bar))
    assert_allclose(study.predict().mean, expected, rtol=1e-7, atol=1e-9)
    assert study.ask().information > 0


def test_known_noise_is_refused_for_networks(problem, tmp_path):
    model = sw.AggregateRegressor(NETWORK)
    with sw.create_study(tmp_path / "a.db", problem[0], model=model) as study:
        with pytest.raises(sw.SettingError, match="has a neural one"):
            study.tell("set 1", 1.0, noise_std=0.5)
        study.tell("set 1", 1.0, noise_std=0)
        assert study.answers[0].noise_std is None


def test_every_individual_of_the_pool_is_predicted(problem, study):
    sets, answers = problem
    play(study, answers, 5)
    predicted = study.predict(level=0.5)
    mean, std = study.model.predict(sets.x, return_std=True)
    assert_allclose(predicted.mean, mean)
    assert_allclose(predicted.std, std)
    assert_allclose(predicted.upper - predicted.mean, 0.6744897501960817 * std)
    assert_allclose(predicted.mean - predicted.lower, 0.6744897501960817 * std)
    assert predicted.ids == tuple(np.repeat(sets.ids, sets.sizes).tolist())
    table = predicted.to_arrow()
    assert table.column_names == ["set", "mean", "std", "lower", "upper"]
    assert table.num_rows == len(predicted) == len(sets.x)
    assert repr(predicted) == f"Predictions: {len(sets.x)} rows with intervals of 50 %"


def test_totals_of_all_sets_are_predicted(problem, study):
    sets, answers = problem
    play(study, answers, 5)
    predicted = study.predict_sets()
    mean, std = study.model.predict_sets(sets, return_std=True)
    assert predicted.ids == sets.ids
    assert_allclose(predicted.mean, mean)
    assert_allclose(predicted.upper, mean + 1.6448536269514722 * std)


def test_a_new_table_is_predicted_by_column_name(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"g": list("aabbcc"), "u": rng.normal(size=6), "v": rng.normal(size=6)})
    sets = sw.Sets.from_frame(frame, by="g", x=["u", "v"])
    with sw.create_study(tmp_path / "a.db", sets) as study:
        study.tell("a", 3.0)
        new = study.predict(frame[["v", "u"]])
        assert new.ids is None
        assert_allclose(new.mean, study.predict().mean)
        assert new.to_arrow().column_names == ["mean", "std", "lower", "upper"]
        with pytest.raises(sw.InvalidSetError, match="'u'"):
            study.predict(frame[["v"]])


def test_ids_of_several_kinds_become_text(tmp_path):
    sets = random_sets([1, 2], np.random.default_rng(0), ids=["a", ("b", 2.5)])
    with sw.create_study(tmp_path / "a.db", sets) as study:
        table = study.predict_sets().to_arrow()
        assert table["set"].to_pylist() == ["a", "('b', 2.5)"]


@pytest.mark.parametrize("level", [0, 1, -0.5, 90, "0.9", True, math.nan])
def test_a_level_is_between_0_and_1(study, level):
    with pytest.raises(sw.SettingError, match="level is"):
        study.predict(level=level)


def test_status_counts_and_knows_what_is_left(problem, study):
    sets, answers = problem
    play(study, answers, 4)
    study.ask(2)
    status = study.status()
    counts = (status.sets, status.answers, status.open_claims, status.questions)
    assert counts == (40, 4, 2, 6)
    model = study.model.fitted()
    hyper, unit = model.posterior.hyper, model.posterior.output_scale[0] ** 2
    phi = model.basis(sets.x)
    dense = joint(sets, phi, hyper.prior_precision, hyper.noise_precision)
    told = [answer.position for answer in study.answers]
    rest = [a for a in range(40) if a not in told]
    cov, noise = total_covariance(dense), total_noise(dense)
    prior = np.linalg.slogdet(cov)[1] - np.linalg.slogdet(cov[np.ix_(told, told)])[1]
    expected = 0.5 * (prior - np.log(noise[rest]).sum())
    assert_allclose(status.information_left, expected, rtol=1e-6)
    assert_allclose(status.noise_variance, unit / hyper.noise_precision)

    def mean_variance(seen):
        cross = dense.latent @ dense.sums[seen].T
        explained = cross @ np.linalg.solve(cov[np.ix_(seen, seen)], cross.T)
        return unit * np.diag(dense.latent - explained).mean()

    assert_allclose(status.mean_variance, mean_variance(told), rtol=1e-6)
    coming = [sets.position(question.set_id) for question in study.ask(5)]
    waiting = [claim.position for claim in study.claims]
    assert set(coming) <= set(waiting)
    assert_allclose(status.mean_variance_after, mean_variance(told + waiting), rtol=1e-6)
    assert status.mean_variance_after < status.mean_variance
    assert status.next_questions == 5


# --- making one -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"strategy": "Best"}, "no strategy is called 'Best'"),
        ({"strategy": lambda *_: None}, "code of yours"),
        ({"strategy": "DAMI"}, "dropout network"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"preset": "fast"}, "no preset"),
        ({"preset": "paper", "strategy": "Rand"}, "brings its own"),
        ({"model": "linear"}, "give an AggregateRegressor"),
        ({"model": sw.AggregateRegressor(lambda x: x)}, "code of yours"),
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
    path, plain, overtaken = study._database.path, studies.propose, []

    def slow(*args, **options):
        questions = plain(*args, **options)
        if len(overtaken) < studies.OVERTAKEN:
            with sw.open_study(path) as other:
                other.tell(questions[0].set_id, 1.0)
            overtaken.append(questions[0].set_id)
        return questions

    monkeypatch.setattr(studies, "propose", slow)
    question = study.ask()
    assert len(overtaken) == studies.OVERTAKEN
    assert question.set_id not in overtaken
    assert question.number == 0
    assert [claim.set_id for claim in study.claims] == [question.set_id]
