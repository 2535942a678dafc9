"""Dropout networks: what they give, how they are trained, how they are kept."""

from __future__ import annotations

import math
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sumwise as sw
from sumwise import Sets
from sumwise.model.basis import neural, training
from sumwise.model.basis.training import padded_size
from sumwise.model.design import embed
from tests.marks import slow
from tests.networks import (
    UP_TO_SIX,
    flat_numbers,
    largest_first,
    literal_adam,
    restored,
    state_of,
    unflat,
)
from tests.thinned import (
    EXACT,
    SETS,
    THINNED,
    Y_BAR,
    fit,
    member,
    members_by_hand,
    outputs_by_hand,
    parts_of,
    summed,
)


@pytest.fixture(scope="module")
def model():
    return fit()


# --- features -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "rtol"),
    [
        (THINNED, 1e-5),
        (EXACT, 1e-12),
        (replace(EXACT, depth=4, width=3), 1e-12),
        (replace(EXACT, depth=1), 1e-12),
    ],
    ids=["float32", "float64", "deep", "one layer"],
)
def test_features_are_what_the_thinned_networks_give(settings, rtol):
    basis = settings.draw(SETS, np.random.default_rng(4))
    expected = members_by_hand(basis, SETS.x)
    assert expected.shape == (len(SETS.x), 8)
    assert_allclose(basis(SETS.x), expected, rtol=rtol, atol=rtol)


def test_each_member_leaves_out_hidden_units_and_features_with_the_given_probability():
    settings = replace(THINNED, depth=3, samples=4000)
    masks = settings.draw(SETS, np.random.default_rng(0)).masks
    assert [mask.shape for mask in masks] == [(4000, 4), (4000, 4), (4000, 6)]
    for mask in masks:
        assert set(np.unique(mask)) == {0.0, 1 / 0.8}
        error = math.sqrt(0.2 * 0.8 / 4000)
        assert (abs((mask == 0).mean(axis=0) - 0.2) < 5 * error).all()
    left_out = np.hstack(masks) == 0
    correlation = np.corrcoef(left_out.T) - np.eye(14)
    assert abs(correlation).max() < 5 / math.sqrt(4000)  # each by itself


@pytest.mark.slow
def test_a_set_is_seen_by_whole_members_not_unit_by_unit(model):
    """u_al = Σ_n θ_an ŷ(x_an; w_l): the same units are left out for all instances."""
    basis = model.fitted().basis
    standard = (SETS.x - SETS.x.mean(axis=0)) / SETS.x.std(axis=0)
    expected = summed(SETS, members_by_hand(basis.basis, standard))
    assert_allclose(embed(SETS, basis).u, expected, rtol=1e-4, atol=1e-5)


def test_predictions_are_the_mean_over_members_and_their_spread(model):
    x = SETS.x[:7]
    outputs = outputs_by_hand(model, x)
    mean, std = model.predict(x, return_std=True, include_noise=False)
    assert_allclose(mean, outputs.mean(axis=1), rtol=1e-4)
    assert_allclose(std, outputs.std(axis=1), rtol=1e-3)
    _, noisy = model.predict(x, return_std=True)
    assert_allclose(noisy**2, std**2 + 1 / model.noise_precision_, rtol=1e-9)
    _, covariance = model.predict(x, return_cov=True, include_noise=False)
    assert_allclose(covariance, np.cov(outputs, bias=True), rtol=1e-3, atol=1e-4 * covariance.max())


def test_predicted_totals_are_the_mean_over_members_and_their_spread(model):
    totals = summed(SETS, outputs_by_hand(model, SETS.x))
    mean, std = model.predict_sets(SETS, return_std=True, include_noise=False)
    assert_allclose(mean, totals.mean(axis=1), rtol=1e-4, atol=1e-4)
    assert_allclose(std, totals.std(axis=1), rtol=1e-3)
    _, noisy = model.predict_sets(SETS, return_std=True)
    noise = np.array([np.sum(SETS[a].theta ** 2) for a in range(len(SETS))])
    assert_allclose(noisy**2, std**2 + noise / model.noise_precision_, rtol=1e-9)


# --- training -------------------------------------------------------------------------------------


def loss_by_hand(parts, log_noise, sets, target, activation, centre=0.0, stiffness=0.0):
    """Σ_a ½ [β (ȳ_a − Σ_n θ_an ŷ(x_an))² / s_a − log β], and a pull; nothing is left out."""
    outputs = np.array([member(parts, row, activation, None) for row in sets.x])
    misfit = (target - summed(sets, outputs)) ** 2 / summed(sets, sets.theta)
    loss = np.sum(0.5 * (np.exp(log_noise) * misfit - log_noise))
    return loss + 0.5 * stiffness * (log_noise - centre) ** 2


@pytest.mark.parametrize("stiffness", [*slow(0.0), 0.7])
@pytest.mark.parametrize("fixed", [False, *slow(True)])
def test_training_that_leaves_nothing_out_is_adam_on_the_squared_error(stiffness, fixed):
    settings = replace(EXACT, dropout=1e-9, epochs=6, learning_rate=0.02)
    sets, y_bar = SETS[:4], Y_BAR[:4]
    basis = replace(settings.draw(sets, np.random.default_rng(1)), pool=UP_TO_SIX)
    centre = np.array([9.0, -1.5])
    trained, precisions = basis.train(
        sets, y_bar[:, None], np.log([2.0, 3.0]), pull=(centre, stiffness), fixed=fixed
    )
    layers, readout, level = parts_of(basis)

    def loss(numbers):
        moved, rest = unflat(numbers, layers)
        log_noise = math.log(3.0) if fixed else rest[-1]
        parts = moved, rest[:-2], rest[-2]
        return loss_by_hand(parts, log_noise, sets, y_bar, "tanh", centre[1], stiffness)

    start = np.concatenate([flat_numbers(layers), readout, [level, math.log(3.0)]])
    expected = literal_adam(loss, start, epochs=6, rate=0.02)
    found_layers, found_readout, found_level = parts_of(trained)
    found = np.concatenate(
        [flat_numbers(found_layers), found_readout, [found_level, precisions[1]]]
    )
    assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert np.median(abs(found - start)) > 0.05  # in 6 steps of up to 0.02
    assert (found[-1] == start[-1]) == fixed
    assert precisions[0] == math.log(2.0)  # λ has no meaning here


def flat_data(sets, y_bar, monkeypatch, room=None):
    if room is not None:
        monkeypatch.setattr(training, "padded_size", lambda sets, known: room)
    return training.flat(sets, y_bar[:, None], "float64", UP_TO_SIX)


def extra_of(keep=0.8, centre=0.0, stiffness=0.0, held=1.0):
    prior = ((0.0, centre), stiffness, held)
    return (*map(jnp.asarray, prior), jax.random.key(5), jnp.asarray(keep))


def test_a_set_in_training_has_masks_of_its_own_for_all_its_instances(monkeypatch):
    sets = SETS[:4]
    basis = replace(EXACT, depth=3).draw(sets, np.random.default_rng(1))
    rng = np.random.default_rng(2)
    masks = [rng.choice([0.0, 1.25], size=(4, width)) for width in (4, 4, 6)]
    with jax.enable_x64(True):
        data = flat_data(sets, Y_BAR[:4], monkeypatch, (4, 16))
        found = neural.dropout_totals(basis.network, data, tuple(map(jnp.asarray, masks)))
    for a in range(4):
        of_set = [mask[a] for mask in masks]
        one = sets[a]
        outputs = [member(parts_of(basis), row, "tanh", of_set) for row in one.x]
        assert_allclose(found[a], one.theta @ np.array(outputs), rtol=1e-12)


def simulated_losses(basis, sets, y_bar, log_noise, n_draws, rng):
    """The loss under masks drawn here, anew for every draw and every set; one hidden layer."""
    (((w1, b1), (w2, b2)), readout, level) = parts_of(basis)
    total = np.zeros(n_draws)
    for a in range(len(sets)):
        one = sets[a]
        on_hidden, on_features = (
            (rng.random((n_draws, len(bias))) < 0.8) / 0.8 for bias in (b1, b2)
        )
        hidden = np.tanh(one.x @ w1.T + b1)
        outputs = np.empty((n_draws, len(one.x)))
        for n, units in enumerate(hidden):
            outputs[:, n] = (((units * on_hidden) @ w2.T + b2) * on_features) @ readout + level
        misfit = (y_bar[a] - outputs @ one.theta) ** 2 / np.sum(one.theta**2)
        total += 0.5 * (np.exp(log_noise) * misfit - log_noise)
    return total


@pytest.mark.slow  # the test of masks before it is quick
def test_units_are_left_out_anew_for_every_set_at_every_epoch(monkeypatch):
    """Mean and variance of the loss over epochs, against masks drawn by NumPy. Masks for single
    instances would change the mean; masks that all sets share, the variance."""
    twice = [2, 4, 2, 4]  # what they would share shows most in copies
    y_bar = Y_BAR[twice]
    sets = Sets.from_arrays([SETS[a].x for a in twice], [SETS[a].theta for a in twice])
    basis = EXACT.draw(sets, np.random.default_rng(1))
    with jax.enable_x64(True):
        data = flat_data(sets, y_bar, monkeypatch, (4, 32))
        state, extra = (basis.network, jnp.asarray([0.0, 0.4])), extra_of()
        at = jax.jit(jax.vmap(lambda epoch: neural.dropout_objective(state, data, extra, epoch)))
        found = np.array(at(jnp.arange(8000)))
    made = simulated_losses(basis, sets, y_bar, 0.4, 20_000, np.random.default_rng(3))
    assert_within_error(found, made)
    assert_within_error((found - found.mean()) ** 2, (made - made.mean()) ** 2)


def assert_within_error(first, second):
    error = math.sqrt(first.var() / len(first) + second.var() / len(second))
    assert abs(first.mean() - second.mean()) < 5 * error


@pytest.mark.slow
def test_the_loss_and_its_slopes_are_the_same_in_any_room(monkeypatch):
    sets, y_bar = SETS.take([0, 2, 1, 4]), Y_BAR[[0, 2, 1, 4]]
    basis = EXACT.draw(sets, np.random.default_rng(1))

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def look(free, data, extra):
        network, log_noise, x = free
        state = (network, log_noise)
        return neural.dropout_objective(state, data._replace(x=x), extra, jnp.asarray(3))

    seen = []
    with jax.enable_x64(True):
        for room in [(4, 13), (4, 40), (32, 112)]:
            data = flat_data(sets, y_bar, monkeypatch, room)
            assert (data.real.size, len(data.x)) == room
            free = (basis.network, jnp.asarray([0.0, 0.4]), data.x)
            value, (by_network, by_noise, by_x) = look(free, data, extra_of())
            assert (np.asarray(by_x)[:13] != 0).any()
            assert (np.asarray(by_x)[13:] == 0).all()  # what fills up is not learned from
            seen.append((value, [*jax.tree.leaves(by_network), by_noise, by_x[:13]]))
    for value, slopes in seen[1:]:
        assert_allclose(value, seen[0][0], rtol=1e-13)
        for ours, theirs in zip(slopes, seen[0][1], strict=True):
            assert_allclose(ours, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("sign", [-1, 1], ids=["largest first", "smallest first"])
def test_a_run_by_size_needs_new_room_at_questions_1_and_5_only(sign):
    """tests/model/test_padding.py has runs in other orders."""
    for seed in range(20):
        sizes = np.random.default_rng(seed).integers(1, 21, 300)
        pool = Sets.from_arrays([np.zeros((n, 1)) for n in sizes])
        order, known = np.argsort(sign * sizes, kind="stable"), largest_first(pool)
        rooms = [padded_size(pool.take(order[:t].tolist()), known) for t in range(1, 31)]
        assert len(set(rooms[:4])) == len(set(rooms[4:])) == 1
        assert rooms[0] < rooms[4]


def misfit_of(model):
    """Mean over members of Σ_a (ȳ_a − total)² / s_a."""
    totals = summed(SETS, outputs_by_hand(model, SETS.x))
    left = (Y_BAR[:, None] - totals) ** 2 / summed(SETS, SETS.theta)[:, None]
    return float(left.sum(axis=0).mean())


def test_training_with_units_left_out_fits_the_totals_better():
    fixed = {"hyperparameters": (1.0, 4.0)}
    errors = [misfit_of(fit(replace(THINNED, epochs=n), **fixed)) for n in (0, 30, 300)]
    assert errors[1] < 0.98 * errors[0]
    assert errors[2] < 0.8 * errors[1]


def test_given_precisions_are_left_as_they_are():
    given = fit(hyperparameters=(2.0, 5.0), standardize=False)
    assert_allclose(given.noise_precision_, 5.0, rtol=1e-12)
    free = fit(hyperparameters="adam", standardize=False)
    longer = fit(replace(THINNED, epochs=300), hyperparameters="adam", standardize=False)
    begun = fit(replace(THINNED, epochs=0), hyperparameters="adam", standardize=False)
    steps = np.log([m.noise_precision_ / begun.noise_precision_ for m in (free, longer)])
    assert 0.02 < abs(steps[0]) < 0.031  # 30 steps of a thousandth
    assert abs(steps[1]) > 0.1


def test_the_same_seed_gives_the_same_model_and_another_seed_another(model):
    assert_array_equal(fit().predict(SETS.x), model.predict(SETS.x))
    assert not np.allclose(fit(random_state=1).predict(SETS.x), model.predict(SETS.x), rtol=1e-3)


def test_other_units_are_left_out_under_another_seed_while_training():
    basis = THINNED.draw(SETS, np.random.default_rng(0))
    options = {"pull": None, "fixed": True}
    first, again, other = (
        replace(basis, seed=seed).train(SETS, Y_BAR[:, None], np.zeros(2), **options)[0](SETS.x)
        for seed in (1, 1, 2)
    )
    assert_array_equal(first, again)
    assert not np.allclose(first, other, rtol=1e-5)


def test_an_answer_goes_on_from_the_network_the_previous_one_left():
    options = {"hyperparameters": (1.0, 4.0), "standardize": False}
    learner = sw.ActiveLearner(SETS, sw.AggregateRegressor(THINNED, **options), "DAMI")
    basis = learner.model.fitted().basis.basis
    for told in ([3], [3, 7]):
        learner.tell(SETS.ids[told[-1]], Y_BAR[told[-1]])
        labelled, target = SETS.take(told), Y_BAR[told][:, None]
        basis, _ = basis.train(labelled, target, np.log([1.0, 4.0]), pull=None, fixed=True)
    assert_allclose(learner.model.predict(SETS.x), basis(SETS.x).mean(axis=1), rtol=1e-9)


@pytest.mark.parametrize("n", [12, 0])
def test_several_outputs_are_refused(n):
    """Without labels too: the prior of one output is not that of two."""
    with pytest.raises(sw.SettingError, match="a dropout network has one output and was given 2"):
        sw.AggregateRegressor(THINNED).fit(SETS[:n], np.ones((n, 2)), pool=SETS)


def test_there_is_no_evidence_to_ask_for(model):
    with pytest.raises(sw.SettingError, match="a dropout network has no evidence in closed form"):
        _ = model.log_evidence_


def test_kept_weights_bring_the_trained_network_back(model):
    trained = model.fitted().basis.basis
    begun = THINNED.draw(SETS, np.random.default_rng(0))  # as the model of seed 0 began
    assert not np.allclose(begun(SETS.x), trained(SETS.x), rtol=1e-3)
    kept = state_of(trained)
    assert_array_equal(restored(begun, kept)(SETS.x), trained(SETS.x))
    wider = replace(THINNED, width=5).draw(SETS, np.random.default_rng(0))
    with pytest.raises(sw.SumwiseError, match="the weights are of another network"):
        restored(wider, kept)
    for damaged in (b"", b"no weights"):
        with pytest.raises(sw.SumwiseError, match="cannot be read"):
            restored(begun, damaged)


def test_kept_weights_that_were_cut_off_are_refused_in_words(model):
    basis = model.fitted().basis.basis
    kept = state_of(basis)
    for damaged in (kept[:100], kept[:-30]):
        with pytest.raises(sw.SumwiseError, match="cannot be read"):
            restored(basis, damaged)
