"""A basis that is learned: its training, its warm start, and what the core makes of it."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sumwise as sw
from sumwise import Sets
from sumwise.model.basis import training
from tests import oracles
from tests.marks import slow
from tests.networks import (
    TINY,
    flat_numbers,
    layers_of,
    literal_adam,
    phi_by_hand,
    problem,
    run,
    unflat,
)

R = sw.AggregateRegressor
EXACT = replace(TINY, dtype="float64")
PAIR = {"hyperparameters": (2.0, 10.0), "standardize": False}  # nothing between user and network


def fitted(network=TINY, n_labels=12, **settings) -> sw.AggregateRegressor:
    """On the first sets of the problem; the pool is always all twelve, so rooms are the same."""
    sets, y_bar = problem()
    return R(network, **settings).fit(sets[:n_labels], y_bar[:n_labels], pool=sets)


def network_of(model):
    return model.fitted().basis.basis.network


def state_of(model) -> bytes:
    return model.fitted().basis.state()


# --- Adam on minus the evidence -------------------------------------------------------------------


def loss_by_hand(sets, y_bar, like, centre, stiffness):
    """Minus the dense density of the totals, and the pull, of all numbers in a row."""
    seen = np.arange(len(sets))

    def loss(numbers):
        layers, log_precisions = unflat(numbers, like)
        phi = np.array([run(layers, row) for row in sets.x])
        joint = oracles.joint(sets, phi, *np.exp(log_precisions))
        away = log_precisions - centre
        return 0.5 * stiffness * away @ away - oracles.log_density(joint, seen, y_bar)

    return loss


@pytest.mark.parametrize("n_labels", [*slow(4), 12], ids=["txt", "KxK"])
@pytest.mark.parametrize("pulled", [False, *slow(True)])
def test_training_is_adam_on_minus_the_evidence(n_labels, pulled, monkeypatch):
    monkeypatch.setattr(training, "EPOCHS_AT_ONCE", 2)  # moments must outlive a bout of epochs
    everything, y_bar = problem()
    sets, y_bar = everything[:n_labels], y_bar[:n_labels]
    settings = replace(EXACT, epochs=5, learning_rate=0.02)
    basis = settings.draw(everything, np.random.default_rng(1))
    begin = np.array([0.4, 1.1])
    centre, stiffness = (np.array([-1.0, 2.5]), 3.0) if pulled else (np.zeros(2), 0.0)
    pull = (centre, stiffness) if pulled else None
    trained, log_precisions = basis.train(sets, y_bar[:, None], begin, pull=pull, fixed=False)
    like = layers_of(basis.network)
    loss = loss_by_hand(sets, y_bar, like, centre, stiffness)
    start = np.concatenate([flat_numbers(like), begin])
    layers, left = unflat(literal_adam(loss, start, 5, 0.02), like)
    assert_allclose(log_precisions, left, atol=1e-7)
    assert_allclose(flat_numbers(layers_of(trained.network)), flat_numbers(layers), atol=1e-7)
    moved = abs(flat_numbers(layers) - flat_numbers(like))
    assert (moved > 0.04).sum() > 30  # and not by staying where it was


def test_held_precisions_stay_and_the_network_learns_under_them():
    everything, y_bar = problem()
    settings = replace(EXACT, epochs=5, learning_rate=0.02)
    basis = settings.draw(everything, np.random.default_rng(1))
    held = np.array([0.4, 1.1])
    trained, log_precisions = basis.train(everything, y_bar[:, None], held, pull=None, fixed=True)
    like = layers_of(basis.network)
    loss = loss_by_hand(everything, y_bar, like, np.zeros(2), 0.0)
    at = literal_adam(lambda numbers: loss(np.r_[numbers, held]), flat_numbers(like), 5, 0.02)
    assert_array_equal(log_precisions, held)
    assert_allclose(flat_numbers(layers_of(trained.network)), at, atol=1e-7)


def test_the_evidence_goes_up_and_given_precisions_stay():
    models = [fitted(replace(TINY, epochs=n), **PAIR) for n in (0, 20, 150, 1000)]
    evidence = [model.log_evidence_ for model in models]
    assert evidence == sorted(evidence)
    assert evidence[-1] - evidence[0] > 1.0
    for model in models:
        found = [model.prior_precision_, model.noise_precision_]
        assert_allclose(found, [2.0, 10.0], rtol=1e-14)


def in_model_units(sets, y_bar, power, offset=True):
    """Totals as the model sees them, and the centre of the weak prior on log λ, log β."""
    theta_sum = np.array([sets[i].theta.sum() for i in sets.ids])
    s = np.array([(sets[i].theta ** 2).sum() for i in sets.ids])
    known = (theta_sum**2 / s).sum()  # differences, with Σθ of about 0, say little of a level
    level = (theta_sum * y_bar / s).sum() / known * min(1, known) if offset else 0.0
    left = y_bar - level * theta_sum
    scale = np.sqrt((left**2 / s).sum() / max(len(s) - 1, 1))
    variance = (left**2 / s).mean() / scale**2
    return left / scale, np.array([np.log(power / variance), -np.log(0.1 * variance)]), scale


def standard(sets, pool) -> Sets:
    return replace(sets, x=(sets.x - pool.x.mean(axis=0)) / pool.x.std(axis=0))


def begin_of(before, scale) -> np.ndarray:
    """log λ and log β of a model, for outputs in units of another scale."""
    model = before.fitted().posterior
    logs = np.log([model.hyper.prior_precision, model.hyper.noise_precision])
    return logs - 2 * np.log(model.output_scale[0]) + 2 * np.log(scale)


def mean_square(basis, pool) -> float:
    return float((phi_by_hand(basis.network, standard(pool, pool).x) ** 2).sum(axis=1).mean())


@pytest.mark.parametrize("evidence_prior", [True, *slow(False)])
def test_precisions_maximise_the_evidence_of_the_trained_network(evidence_prior):
    sets, y_bar = problem()
    model = fitted(EXACT, evidence_prior=evidence_prior)
    untrained = model.config().prepare(sets).basis.basis
    inside, centre, scale = in_model_units(sets, y_bar, mean_square(untrained, sets))
    phi = phi_by_hand(network_of(model), standard(sets, sets).x)

    def objective(log_precisions):
        joint = oracles.joint(sets, phi, *np.exp(log_precisions))
        away = (log_precisions - centre) * evidence_prior
        return oracles.log_density(joint, np.arange(12), inside) - away @ away / 8  # std is 2

    found = np.log([model.prior_precision_, model.noise_precision_]) + 2 * np.log(scale)
    for way in np.eye(2):
        here, up, down = (objective(found + h * way) for h in (0.0, 0.01, -0.01))
        assert abs(up - down) / 0.02 < 1e-4
        assert up - 2 * here + down < 0


def test_no_sets_give_the_prior_of_the_untrained_network():
    sets, _ = problem()
    model = R(EXACT).fit(sets[:0], [], pool=sets)
    prepared = model.config().prepare(sets).basis
    assert state_of(model) == prepared.state()
    untrained = prepared.basis
    phi = phi_by_hand(untrained.network, standard(sets, sets).x)
    lam, beta = mean_square(untrained, sets), 10.0
    mean, std = model.predict(sets.x, return_std=True)
    assert_array_equal(mean, 0.0)
    assert_allclose(std**2, (phi**2).sum(axis=1) / lam + 1 / beta, rtol=1e-9)


def test_no_epochs_leave_the_network_as_it_was_drawn():
    sets, _ = problem()
    model = fitted(replace(TINY, epochs=0))
    assert state_of(model) == model.config().prepare(sets).basis.state()
    assert state_of(model) != state_of(fitted(replace(TINY, epochs=1)))
    assert np.isfinite(model.predict(sets.x)).all()


# --- warm start -----------------------------------------------------------------------------------


def told(n, network=TINY, **settings) -> sw.ActiveLearner:
    """A learner after the first so many totals of the problem."""
    sets, y_bar = problem()
    learner = sw.ActiveLearner(sets, R(network, **settings))
    for set_id, total in zip(sets.ids[:n], y_bar[:n].tolist(), strict=True):
        learner.tell(set_id, total)
    return learner


OTHER_BEGINNINGS = [(1, True), (3, True), (6, True), (6, False)]


@pytest.mark.parametrize(
    ("n_before", "evidence_prior"),  # 4 sets and 5 are trained in different rooms
    [(4, True), *(pytest.param(*each, marks=pytest.mark.slow) for each in OTHER_BEGINNINGS)],
)
def test_training_goes_on_from_the_network_and_precisions_before_the_label(
    n_before, evidence_prior
):
    sets, y_bar = problem()
    before, after = (
        told(n, EXACT, evidence_prior=evidence_prior).model for n in (n_before, n_before + 1)
    )
    prepared = before.config().prepare(sets).basis.basis
    labelled, power = sets[: n_before + 1], mean_square(prepared, sets)
    inside, centre, scale = in_model_units(labelled, y_bar[: n_before + 1], power)
    expected, _ = before.fitted().basis.basis.train(
        standard(labelled, sets),
        inside[:, None],
        begin_of(before, scale),
        pull=(centre, 0.25) if evidence_prior else None,
        fixed=False,
    )
    found = flat_numbers(layers_of(network_of(after)))
    assert_allclose(found, flat_numbers(layers_of(expected.network)), atol=1e-8)
    cold = flat_numbers(layers_of(network_of(fitted(EXACT, n_before + 1))))
    assert abs(found - cold).max() > 0.01


def test_the_papers_search_takes_precisions_from_training_and_goes_on_from_them():
    sets, y_bar = problem()
    before, after = (told(n, EXACT, hyperparameters="adam").model for n in (5, 6))
    labelled = sets[:6]
    inside, _, scale = in_model_units(labelled, y_bar[:6], 1.0, offset=False)
    begin = begin_of(before, scale)
    expected, log_precisions = before.fitted().basis.basis.train(
        standard(labelled, sets), inside[:, None], begin, pull=None, fixed=False
    )
    assert_allclose(
        flat_numbers(layers_of(network_of(after))),
        flat_numbers(layers_of(expected.network)),
        atol=1e-8,
    )
    hyper = after.fitted().posterior.hyper
    assert_allclose(np.log([hyper.prior_precision, hyper.noise_precision]), log_precisions)
    assert abs(log_precisions - begin).min() > 1e-3
    first = before.config().prepare(sets).start
    one = told(0, EXACT, hyperparameters="adam").model.fitted().posterior.hyper
    assert one == first


def test_the_first_label_is_learned_as_by_fit():
    sets, _ = problem()
    assert state_of(told(1).model) == state_of(fitted(n_labels=1))
    assert_array_equal(told(1).model.predict(sets.x), fitted(n_labels=1).predict(sets.x))


def play(n=3, **settings):
    sets, y_bar = problem()
    learner = sw.ActiveLearner(sets, R(TINY, **settings))
    for _ in range(n):
        question = learner.ask()
        learner.tell(question.set_id, float(y_bar[question.set_id]))
    return learner.history, learner.model.predict(sets.x)


def test_the_same_seed_gives_the_same_questions_and_predictions_bit_for_bit():
    (history, predicted), again, other = play(), play(), play(random_state=1)
    assert history == again[0]
    assert_array_equal(predicted, again[1])
    assert abs(predicted - other[1]).max() > 1e-3


def test_the_users_jax_stays_as_it_is():
    sets, _ = problem()
    predicted = fitted().predict(sets.x)
    assert not jax.config.jax_enable_x64
    assert jnp.ones(1).dtype == np.float32
    with jax.enable_x64(True):
        assert_array_equal(fitted().predict(sets.x), predicted)
        assert jnp.ones(1).dtype == np.float64


# --- what the core makes of it --------------------------------------------------------------------


def test_a_fixed_basis_of_the_trained_features_is_the_same_model():
    sets, y_bar = problem()
    model = fitted(EXACT, 7)
    network = network_of(model)
    precisions = (model.prior_precision_, model.noise_precision_)
    same = R(lambda x: phi_by_hand(network, x), hyperparameters=precisions)
    same.fit(sets[:7], y_bar[:7], pool=sets)
    x = np.random.default_rng(3).normal(size=(9, 3))
    for ours, theirs in zip(
        model.predict(x, return_std=True), same.predict(x, return_std=True), strict=True
    ):
        assert_allclose(ours, theirs, rtol=1e-9)
    for ours, theirs in zip(
        model.predict_sets(sets, return_std=True),
        same.predict_sets(sets, return_std=True),
        strict=True,
    ):
        assert_allclose(ours, theirs, rtol=1e-9)
    for strategy in ("AggMI", "AggEnt", "MI"):
        ours, theirs = (sw.score(sets, m, strategy) for m in (model, same))
        assert_allclose(ours, theirs, rtol=1e-9)
    assert_allclose(model.log_evidence_, same.log_evidence_, rtol=1e-10)


def test_the_learner_scores_the_pool_as_the_trained_network_sees_it():
    """Not by what was kept of the network before."""
    sets, _ = problem()
    learner = told(4)
    question, left = learner.ask(), list(sets.ids[4:])
    scores = sw.score(sets, learner.model)[4:]
    assert question.set_id == left[int(np.argmax(scores))]
    assert_allclose(question.score, scores.max(), rtol=1e-9)


def test_several_outputs_have_the_means_of_the_closed_form():
    sets, y_bar = problem()
    both = np.column_stack([y_bar, np.sin(y_bar)])
    model = R("neural", n_basis=6, **PAIR).fit(sets, both)
    assert model.fitted().basis.basis.settings.n_basis == 6
    x = np.random.default_rng(3).normal(size=(9, 3))
    phi, phi_new = (phi_by_hand(network_of(model), rows) for rows in (sets.x, x))
    joint, seen = oracles.joint(sets, phi, 2.0, 10.0), np.arange(12)
    expected = [oracles.given_totals(joint, seen, y, phi_new, 2.0, phi) for y in both.T]
    mean, std = model.predict(x, return_std=True, include_noise=False)
    assert mean.shape == std.shape == (9, 2)
    assert_allclose(mean, np.column_stack([m for m, _ in expected]), rtol=1e-4, atol=1e-5)
    assert_allclose(std[:, 1] ** 2, np.diag(expected[1][1]), rtol=1e-4)
    evidence = sum(oracles.log_density(joint, seen, y) for y in both.T)
    assert_allclose(model.log_evidence_, evidence, rtol=1e-5)
