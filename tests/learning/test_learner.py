"""`ActiveLearner`, `score` and `select`."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.acquisition.screening import Candidates
from sumwise.acquisition.strategies import ACQUISITIONS
from sumwise.model.design import Design, features
from sumwise.model.evidence import adam
from sumwise.model.posterior import Hyperparameters, decompose
from tests.builders import random_sets


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    sets = random_sets(rng.integers(1, 9, 40).tolist(), rng, ids=[f"set {a}" for a in range(40)])
    y = np.sin(2 * sets.x[:, 0]) + sets.x[:, 1] + 0.1 * rng.normal(size=len(sets.x))
    y_bar = np.add.reduceat(sets.theta * y, sets.starts[:-1])
    return sets, dict(zip(sets.ids, y_bar.tolist(), strict=True))


OF_ANY_BASIS = {strategy.name for strategy in ACQUISITIONS.values() if not strategy.needs_dropout}


def play(learner, answers, n):
    for _ in range(n):
        question = learner.ask()
        learner.tell(question.set_id, answers[question.set_id])
    return [answer.set_id for answer in learner.history]


@pytest.mark.parametrize("strategy", sorted(OF_ANY_BASIS))
def test_the_same_seed_and_answers_give_the_same_questions(problem, strategy):
    sets, answers = problem
    model = None if strategy == "IVR" else sw.AggregateRegressor("fourier", n_basis=20)
    settings = {"model": model, "strategy": strategy, "seed": 3}
    first, second = (sw.ActiveLearner(sets, **settings) for _ in range(2))
    asked = play(first, answers, 3)
    assert asked == play(second, answers, 3)
    assert len(set(asked)) == 3


def test_another_seed_gives_other_random_questions(problem):
    sets, answers = problem
    runs = [play(sw.ActiveLearner(sets, strategy="Rand", seed=s), answers, 4) for s in (1, 2)]
    assert runs[0] != runs[1]


@pytest.mark.parametrize("hyperparameters", ["evidence", "adam", (1.0, 50.0)])
def test_each_question_is_the_best_set_from_scratch(problem, hyperparameters):
    """The learner keeps products up to date; a fresh model and `score` must agree with it."""
    sets, answers = problem
    model = sw.AggregateRegressor(
        "fourier", n_basis=20, lengthscale=2.0, hyperparameters=hyperparameters
    )
    learner = sw.ActiveLearner(sets, model=model, strategy="AggMI")
    for _ in range(25):  # beyond the number of features
        current = learner.model
        left = [i for i in sets.ids if i not in learner.labels]
        scores = sw.score(sets[left], current, "AggMI")
        question = learner.ask()
        assert question.set_id == left[int(np.argmax(scores))]
        assert_allclose(question.score, scores.max(), rtol=1e-8)
        mean, std = current.predict_sets(sets[question.set_id], return_std=True)
        assert_allclose([question.expected, question.std], [mean[0], std[0]], rtol=1e-12)
        learner.tell(question.set_id, answers[question.set_id])


def test_the_model_is_that_of_a_fit_to_the_labels(problem):
    sets, answers = problem
    learner = sw.ActiveLearner(sets, model=sw.AggregateRegressor("fourier", lengthscale=2.0))
    asked = play(learner, answers, 6)
    alone = sw.AggregateRegressor("fourier", lengthscale=2.0)
    alone.fit(sets[asked], [answers[i] for i in asked], pool=sets)
    assert_allclose(learner.model.predict(sets.x), alone.predict(sets.x), rtol=1e-9)
    assert learner.labels == {i: answers[i] for i in asked}
    assert list(learner.labels) == asked


def in_users_units(model):
    """log λ and log β of outputs that are not scaled."""
    precisions = [model.hyper.prior_precision, model.hyper.noise_precision]
    return np.log(precisions) - 2 * np.log(model.output_scale[0])


def test_adam_goes_on_from_the_previous_question_whatever_the_scale_of_totals(problem):
    """Totals grow threefold from answer to answer, and the scale of outputs with them."""
    sets, answers = problem
    learner = sw.ActiveLearner(sets, preset="paper", seed=4)
    u, totals, at = None, [], []
    for step in range(6):
        asked = learner.ask().set_id
        before = learner.model.fitted_.posterior
        at.append(sets.position(asked))
        totals.append(answers[asked] * 3.0**step)
        learner.tell(asked, totals[-1])
        after = learner.model.fitted_
        if u is None:
            phi = sets.theta[:, None] * features(after.basis, sets.x)
            u = np.array(
                [phi[low:high].sum(axis=0) for low, high in itertools.pairwise(sets.starts)]
            )
            noise = np.array([(sets[i].theta ** 2).sum() for i in sets.ids])
            continue  # the first search begins at the draw, for outputs of any scale
        design = Design(u[at], noise[at], np.ones(len(at)))
        expected = adam(
            decompose(design, np.array(totals)[:, None]),
            Hyperparameters(*np.exp(in_users_units(before))),
        )
        logs = np.log([expected.prior_precision, expected.noise_precision])
        assert_allclose(in_users_units(after.posterior), logs, atol=1e-6)


def test_totals_of_zero_set_no_scale_for_adam(problem):
    learner = sw.ActiveLearner(problem[0], preset="paper", seed=4)
    for total in (0.0, 0.0, 1e6):
        before = learner.model.fitted_.posterior.hyper
        learner.tell(learner.ask().set_id, total)
    after = learner.model.fitted_.posterior
    assert after.output_scale[0] > 1e4
    assert 0 < abs(np.log(after.hyper.noise_precision / before.noise_precision)) < 1.05


def test_the_papers_preset_is_the_papers_model(problem):
    sets, answers = problem
    learner = sw.ActiveLearner(sets, preset="paper", seed=4)
    model = sw.AggregateRegressor("fourier", n_basis=128, hyperparameters="adam", random_state=4)
    by_hand = sw.ActiveLearner(sets, model=model, strategy="AggMI", seed=4)
    assert play(learner, answers, 5) == play(by_hand, answers, 5)


def test_questions_are_stable_and_say_why(problem):
    sets, answers = problem
    learner = sw.ActiveLearner(sets)
    first = learner.ask()
    assert learner.ask() is first
    less = 100 * (1 - first.individual_std_after / first.individual_std)
    assert first.why == (
        "This weighted sum should reduce the uncertainty of a typical individual by "
        f"{less:.0f} %. Best of 40 available sets ({sets[first.set_id].sizes[0]} individuals): its "
        "weighted sum should make predictions most certain. Nothing is measured yet, so the model "
        "cannot say what to expect."
    )
    learner.tell(first.set_id, answers[first.set_id])
    assert learner.history == (sw.Answer(1, first.set_id, answers[first.set_id], first),)


@pytest.mark.parametrize("strategy", sorted(OF_ANY_BASIS))
def test_every_strategy_gives_a_reason(problem, strategy):
    why = sw.ActiveLearner(problem[0], strategy=strategy).ask().why
    assert why.startswith(
        "This weighted sum should reduce the uncertainty of a typical individual by "
    )
    assert " %. Best of 40 available sets" in why
    assert "highest score" not in why
    assert "nats" not in why


def test_a_set_nobody_asked_for_may_be_told(problem):
    sets, answers = problem
    learner = sw.ActiveLearner(sets)
    question = learner.ask()
    other = next(i for i in sets.ids if i != question.set_id)
    learner.tell(other, answers[other])
    assert learner.history[0].ask is None
    assert learner.ask() is not question


def test_bad_answers_are_refused_and_change_nothing(problem):
    sets, _ = problem
    learner = sw.ActiveLearner(sets)
    question = learner.ask()
    with pytest.raises(sw.UnknownSetError, match="no set has the id 'nowhere'"):
        learner.tell("nowhere", 1.0)
    for bad in (float("nan"), float("inf"), "12", None, [1.0], True + 1j):
        with pytest.raises(sw.LabelError, match=question.set_id):
            learner.tell(question.set_id, bad)
    assert learner.labels == {}
    assert learner.ask() is question
    learner.tell(question.set_id, 2.0)
    learner.tell(question.set_id, 2.0)  # the same again is fine, as in a study
    with pytest.raises(sw.LabelError, match=r"is measured already \(2\).* use amend"):
        learner.tell(question.set_id, 2.5)
    assert learner.labels == {question.set_id: 2.0}


def test_questions_of_a_batch_are_asked_one_after_the_other(problem):
    sets, answers = problem
    learner, alone = sw.ActiveLearner(sets), sw.ActiveLearner(sets)
    first = learner.ask()
    batch = learner.ask(n=4)
    assert batch[0] is first
    assert batch == alone.ask(n=4)
    assert len({question.set_id for question in batch}) == 4
    learner.tell(batch[2].set_id, answers[batch[2].set_id])
    assert learner.answers[0].ask is batch[2]
    with pytest.raises(sw.PoolExhaustedError, match="40 sets were asked for and 39 are free"):
        learner.ask(n=40)
    with pytest.raises(sw.SettingError, match="n is 0"):
        learner.ask(n=0)


@pytest.mark.parametrize(("hyperparameters", "noise"), [("evidence", 0.5), ("adam", None)])
def test_answers_may_be_corrected_and_withdrawn(problem, hyperparameters, noise):
    """The model is that of a learner that was told right at once."""
    sets, answers = problem
    settings = {"n_basis": 12, "hyperparameters": hyperparameters}
    ours, right = (
        sw.ActiveLearner(sets, sw.AggregateRegressor("fourier", **settings)) for _ in range(2)
    )
    names = sets.ids[:5]
    for name in names:
        ours.tell(name, 99.0 if name == names[1] else answers[name], noise)
    ours.amend(names[1], answers[names[1]])
    ours.retract(names[3])
    for name in (*names[:3], names[4]):
        right.tell(name, answers[name], noise)
    assert ours.labels == right.labels
    assert [told.number for told in ours.answers] == [1, 2, 3, 5]  # by arrival, as in a study
    np.testing.assert_array_equal(ours.predict().mean, right.predict().mean)
    assert ours.ask().set_id == right.ask().set_id
    with pytest.raises(sw.LabelError, match="'set 3' is not measured yet"):
        ours.retract(names[3])
    ours.amend(names[0], answers[names[0]], noise_std=0)
    assert ours.answers[0].noise_std is None


def test_skipped_sets_are_not_asked_for(problem):
    sets, _ = problem
    learner = sw.ActiveLearner(sets[:3])
    first = learner.ask()
    learner.skip(first.set_id)
    assert first.set_id not in {question.set_id for question in learner.ask(n=2)}
    assert learner.status().skipped == 1
    learner.unskip(first.set_id)
    assert learner.ask().set_id == first.set_id
    with pytest.raises(sw.SettingError, match="is not skipped"):
        learner.unskip(first.set_id)
    learner.tell(first.set_id, 1.0)
    with pytest.raises(sw.LabelError, match="nothing to skip"):
        learner.skip(first.set_id)


def test_a_learner_writes_a_report(problem, tmp_path):
    sets, answers = problem
    learner = sw.ActiveLearner(sets, strategy=lambda pool, posterior, rng: pool.sets.sizes * 1.0)
    play(learner, answers, 4)
    assert len(learner.insight().compared) == 4
    page = learner.report(tmp_path / "report.html").read_text()
    assert "<h1>Learner: 4 of 40 sets measured" in page
    assert "Every answer" in page
    assert "None" not in page.split("<script")[0]


def test_an_exhausted_pool_says_so(problem):
    sets, answers = problem
    learner = sw.ActiveLearner(sets[:3])
    play(learner, answers, 3)
    with pytest.raises(sw.PoolExhaustedError, match="nothing is left to ask"):
        learner.ask()


def test_one_set_is_enough():
    sets = sw.Sets.from_arrays([[[1.0, 2.0]]], ids=["only"])
    learner = sw.ActiveLearner(sets)
    learner.tell(learner.ask().set_id, 5.0)
    assert_allclose(learner.model.predict([[1.0, 2.0]]), 5.0)


def test_bad_settings_are_refused(problem):
    sets, _ = problem
    with pytest.raises(sw.SettingError, match="no strategy is called 'aggmi'; give AggMI"):
        sw.ActiveLearner(sets, strategy="aggmi")
    with pytest.raises(sw.SettingError, match="no strategy is called 3"):
        sw.ActiveLearner(sets, strategy=3)
    with pytest.raises(sw.SettingError, match="no preset is called 'fast'"):
        sw.ActiveLearner(sets, preset="fast")
    with pytest.raises(sw.SettingError, match="brings its own model"):
        sw.ActiveLearner(sets, preset="paper", strategy="Rand")
    with pytest.raises(sw.InvalidSetError, match="sets is a list"):
        sw.ActiveLearner([1, 2])
    with pytest.raises(sw.SettingError, match="model is 'linear'; give an AggregateRegressor"):
        sw.ActiveLearner(sets, model="linear")
    for seed in (None, -1, 1.5, "a"):
        with pytest.raises(sw.SettingError, match=r"seed is .*; give a whole number"):
            sw.ActiveLearner(sets, seed=seed)
        with pytest.raises(sw.SettingError, match=r"seed is .*; give a whole number"):
            sw.ActiveLearner(sets, seed=seed, preset="paper")


def test_a_learner_says_where_it_stands(problem):
    sets, answers = problem
    learner = sw.ActiveLearner(sets, model=sw.AggregateRegressor("fourier", lengthscale=2.0))
    play(learner, answers, 2)
    assert repr(learner) == (
        "ActiveLearner: 2 of 40 sets measured, strategy 'IVR', "
        "AggregateRegressor(basis='fourier', lengthscale=2.0)"
    )


def test_a_users_own_function_is_a_strategy(problem):
    sets, _ = problem

    def smallest_weight(pool, posterior, rng):
        return -pool.design.noise_scale

    learner = sw.ActiveLearner(sets, strategy=smallest_weight)
    noise_scale = np.add.reduceat(sets.theta**2, sets.starts[:-1])
    question = learner.ask()
    assert question.set_id == sets.ids[int(np.argmin(noise_scale))]
    assert "highest score" in question.why


def test_a_strategy_that_returns_nonsense_is_refused(problem):
    sets, _ = problem
    with pytest.raises(sw.SettingError, match=r"scores of shape \(2,\) for 40 sets"):
        sw.ActiveLearner(sets, strategy=lambda pool, posterior, rng: np.ones(2)).ask()
    with pytest.raises(sw.NonFiniteScoreError, match="scored set 'set 0' with nan"):
        sw.ActiveLearner(sets, strategy=lambda pool, posterior, rng: np.full(40, np.nan)).ask()


def test_of_tied_sets_the_first_is_picked():
    for scores, best in (([1, 2, 2], 2), ([1, 2, 2 + 1e-12], 2), ([-1, -2, -1], 1)):
        ranked = np.array(scores, dtype=float)
        assert Candidates(np.array([1, 2, 3]), ranked, ranked).best() == best
    twins = sw.Sets.from_arrays([[[1.0, 2.0], [0.5, 3.0]]] * 5, ids="abcde")
    for strategy in OF_ANY_BASIS - {"Rand"}:
        assert sw.ActiveLearner(twins, strategy=strategy).ask().set_id == "a"


def fitted(problem, n=5):
    sets, answers = problem
    asked = list(sets.ids[:n])
    model = sw.AggregateRegressor("fourier", hyperparameters=(1.0, 20.0), lengthscale=2.0)
    return model.fit(sets[asked], [answers[i] for i in asked], pool=sets), sets[n:]


def joint_information(model, sets, ids):
    """½ log det(I + β Ũ S Ũᵀ) of a batch, from the joint covariance of its totals."""
    posterior = model.fitted_.posterior
    chosen = sets[list(ids)]
    phi = model.fitted_.basis(chosen.x)
    bounds = chosen.starts[:-1]
    u = np.add.reduceat(chosen.theta[:, None] * phi, bounds)
    u /= np.sqrt(np.add.reduceat(chosen.theta**2, bounds))[:, None]
    signal = posterior.covariance_along(u)
    return 0.5 * np.linalg.slogdet(np.eye(len(u)) + posterior.noise_precision * signal)[1]


def test_a_batch_is_chosen_jointly_and_close_to_the_best_pair(problem):
    model, rest = fitted(problem)
    pair = sw.select(rest, model, "AggMI", n=2)
    best_pair = max(joint_information(model, rest, p) for p in itertools.combinations(rest.ids, 2))
    found = joint_information(model, rest, pair)
    assert (1 - 1 / np.e) * best_pair <= found <= best_pair * (1 + 1e-12)
    top = [rest.ids[a] for a in np.argsort(-sw.score(rest, model, "AggMI"))[:2]]
    assert found >= joint_information(model, rest, top) - 1e-12


def test_a_batch_does_not_ask_the_same_thing_twice():
    twins = sw.Sets.from_arrays([[[3.0, 0.0]], [[3.0, 0.0]], [[0.0, 1.0]]], ids=["a", "a'", "b"])
    model = sw.AggregateRegressor("linear", hyperparameters=(1.0, 1000.0), standardize=False)
    model.fit(twins[:0], [])
    assert sw.select(twins, model, n=2) == ["a", "b"]
    assert sw.select(twins, model, n=1, pending=["a'"]) == ["b"]


def test_a_batch_of_one_is_the_highest_score(problem):
    model, rest = fitted(problem)
    for strategy in ("AggMI", "AggEnt", "MI", "Ent", "Var", "MaxN"):
        scores = sw.score(rest, model, strategy)
        assert sw.select(rest, model, strategy) == [rest.ids[int(np.argmax(scores))]]


def test_bad_batches_are_refused(problem):
    model, rest = fitted(problem)
    for n in (0, -1, 1.5, True):
        with pytest.raises(sw.SettingError, match="n is"):
            sw.select(rest, model, n=n)
    with pytest.raises(sw.PoolExhaustedError, match="36 sets were asked for and 35 are free"):
        sw.select(rest, model, n=36)
    with pytest.raises(sw.UnknownSetError):
        sw.select(rest, model, pending=["nowhere"])
    with pytest.raises(sw.InvalidSetError, match="the sets have 1 inputs"):
        sw.score(sw.Sets.from_arrays([[[1.0]]]), model)
    with pytest.raises(sw.SettingError, match=r"model is a ActiveLearner; .*learner.model"):
        sw.select(rest, sw.ActiveLearner(rest))
    with pytest.raises(sw.InvalidSetError, match="sets is a list"):
        sw.score([1], model)
    with pytest.raises(sw.SettingError, match="seed is None"):
        sw.score(rest, model, seed=None)
