"""Known measurement noise with bases that learn: their training, and what comes after it.

Noise is mixed: some answers have none, some little, some so much that they say nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.testing import assert_allclose, assert_array_equal

import sumwise as sw
from sumwise.acquisition.strategies import scores_of
from sumwise.model import fit as core
from sumwise.model import predict
from sumwise.model.basis import neural, training
from sumwise.model.design import Pool, embed
from sumwise.model.scaling import standardise
from tests import oracles
from tests.builders import precisions, random_sets, seeds
from tests.marks import slow
from tests.networks import (
    TINY,
    UP_TO_SIX,
    flat_numbers,
    layers_of,
    literal_adam,
    phi_by_hand,
    problem,
    run,
    unflat,
)
from tests.thinned import THINNED, member, parts_of, summed

EXACT = replace(TINY, dtype="float64", activation="tanh")
ALL = replace(THINNED, dtype="float64", activation="tanh", dropout=1e-9)  # no unit is left out
SETS, Y_BAR = problem()
BLUR = np.array([0.0, 0.7, 3.0, 0.0, 0.2, 1.5, 0.0, 6.0, 0.4, 0.0, 2.0, 0.1])
TOTALS, NOISE = 7 * Y_BAR, 7 * BLUR  # in units that are not the model's
WAYS = ["evidence", "adam", (0.5, 4.0)]
MOSTLY = ["evidence", *slow("adam", (0.5, 4.0))]
log_evidence = eqx.filter_jit(neural.log_evidence)
loss_and_slopes = eqx.filter_jit(
    eqx.filter_value_and_grad(lambda state, data: -neural.log_evidence(*state, data))
)


# --- the evidence that training climbs ------------------------------------------------------------


def drawn(sizes, n_basis, seed):
    rng = np.random.default_rng(seed)
    sets = random_sets(sizes, rng)
    basis = replace(EXACT, depth=3, n_basis=n_basis).draw(sets, rng)
    blur = rng.choice([0.0, 1e-9, 1e-3, 0.3, 1.0, 3.0, 1e3, 1e9], size=len(sets))
    return basis, sets, 2 * rng.normal(size=(len(sets), 2)), blur


def in_jax(basis, sets, y_bar, blur, lam, beta):
    with jax.enable_x64(True):
        data = neural.flat(sets, y_bar, "float64", UP_TO_SIX, blur)
        return float(log_evidence(basis.network, jnp.log(jnp.asarray([lam, beta])), data))


def normal_density(cov, y_bar):
    """Σ over columns of log N(ȳ | 0, cov), in 40 digits."""
    with mp.workdps(40):
        lower = mp.cholesky(mp.matrix(cov.tolist()))
        log_det, inverse = 2 * sum(mp.log(lower[i, i]) for i in range(len(cov))), lower**-1
        value = mpf(0)
        for column in y_bar.T:
            white = inverse * mp.matrix(column.tolist())
            value -= (log_det + (white.T * white)[0] + len(column) * mp.log(2 * mp.pi)) / 2
        return float(value)


def covariance(sets, phi, blur, lam, beta):
    """Of the measured totals, from that of all individuals."""
    return oracles.total_covariance(oracles.joint(sets, phi, lam, beta)) + np.diag(blur**2)


# at 6 features, 5 labels and more take the K×K form, whether t > K or not; at 40 none do
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=12),
    st.sampled_from([6, 40]),
    precisions,
    precisions,
    seeds,
)
def test_the_evidence_is_the_density_of_a_dense_normal(sizes, n_basis, lam, beta, seed):
    basis, sets, y_bar, blur = drawn(sizes, n_basis, seed)
    cov = covariance(sets, phi_by_hand(basis.network, sets.x), blur, lam, beta)
    expected = normal_density(cov, y_bar)
    tolerance = {"rtol": 1e-9, "atol": 1e-9 * len(sets)}
    assert_allclose(in_jax(basis, sets, y_bar, blur, lam, beta), expected, **tolerance)


@pytest.mark.parametrize("n_basis", [6, *slow(40)], ids=["KxK", "txt"])
def test_no_noise_that_is_known_is_the_ordinary_evidence(n_basis):
    basis, sets, y_bar, _ = drawn([1, 4, 2, 1, 6, 3, 2, 5, 1], n_basis, 3)
    plain = in_jax(basis, sets, y_bar, None, 2.0, 3.0)
    assert_allclose(in_jax(basis, sets, y_bar, np.zeros(9), 2.0, 3.0), plain, rtol=1e-13)
    assert_allclose(in_jax(basis, sets, y_bar, np.full(9, 1e-9), 2.0, 3.0), plain, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("n_basis", [6, 40], ids=["KxK", "txt"])
def test_noise_far_below_the_signal_is_not_lost(n_basis):
    basis, sets, y_bar, _ = drawn([1, 4, 2, 1, 6, 3, 2, 5, 1], n_basis, 3)
    blur = np.array([0.0, 1e-4, 1e-3, 0.0, 1e-2, 1e-5, 1e3, 1e-4, 0.0])
    cov = covariance(sets, phi_by_hand(basis.network, sets.x), blur, 1.0, 1e8)
    found = in_jax(basis, sets, y_bar, blur, 1.0, 1e8)
    assert_allclose(found, normal_density(cov, y_bar), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("n_basis", [6, 40], ids=["KxK", "txt"])
@pytest.mark.parametrize("log_noise", [1.2, 80.0])
def test_slopes_by_every_parameter_pass_finite_differences(n_basis, log_noise):
    """Also where β is infinite but for rounding, and answers without noise have the least."""
    basis, sets, y_bar, _ = drawn([1, 4, 2, 1, 6, 3, 2, 5, 1], n_basis, 5)
    blur = np.array([0.3, 0.5, 2.0, 0.8, 3.0, 0.1, 1e6, 1.0, 0.2])
    look = loss_and_slopes
    with jax.enable_x64(True):
        data = neural.flat(sets, y_bar, "float64", UP_TO_SIX, blur)
        assert (len(data.real) > n_basis) == (n_basis == 6)  # which form this is
        leaves, tree = jax.tree.flatten((basis.network, jnp.asarray([0.3, log_noise])))
        _, slopes = look(jax.tree.unflatten(tree, leaves), data)
        rng = np.random.default_rng(0)
        for i, (leaf, slope) in enumerate(zip(leaves, jax.tree.leaves(slopes), strict=True)):
            for _ in range(3):  # along random directions, which no wrong entry hides from
                way = jnp.asarray(rng.normal(size=leaf.shape))
                up, down = (
                    look(jax.tree.unflatten(tree, [*leaves[:i], moved, *leaves[i + 1 :]]), data)[0]
                    for moved in (leaf + 1e-5 * way, leaf - 1e-5 * way)
                )
                assert_allclose((slope * way).sum(), (up - down) / 2e-5, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("n_basis", [6, 40], ids=["KxK", "txt"])
def test_what_fills_up_adds_nothing(n_basis, monkeypatch):
    basis, sets, y_bar, blur = drawn([1, 4, 2, 6, 1, 3, 2], n_basis, 7)
    found = []
    for room in ((7, 19), (32, 64), (48, 200)):
        monkeypatch.setattr(training, "padded_size", lambda sets, known, room=room: room)
        found.append(in_jax(basis, sets, y_bar, blur, 0.7, 4.0))
    assert_allclose(found[1:], found[0], rtol=1e-12)


# --- Adam -----------------------------------------------------------------------------------------


def by_network(sets, y_bar, blur, like, centre, stiffness):
    """Minus the dense density of the totals, and the pull, of all numbers in a row."""

    def loss(numbers):
        layers, log_precisions = unflat(numbers, like)
        phi = np.array([run(layers, row, "tanh") for row in sets.x])
        cov = covariance(sets, phi, blur, *np.exp(log_precisions))
        away = log_precisions - centre
        value = -0.5 * (np.linalg.slogdet(cov)[1] + y_bar @ np.linalg.solve(cov, y_bar))
        return 0.5 * stiffness * away @ away - value

    return loss


@pytest.mark.parametrize("n_labels", [*slow(4), 12], ids=["txt", "KxK"])
@pytest.mark.parametrize("fixed", [False, *slow(True)])
def test_training_is_adam_on_minus_the_evidence(n_labels, fixed):
    sets, y_bar, blur = SETS[:n_labels], Y_BAR[:n_labels], BLUR[:n_labels]
    basis = replace(EXACT, epochs=5, learning_rate=0.02).draw(SETS, np.random.default_rng(1))
    begin, centre = np.array([0.4, 1.1]), np.array([-1.0, 2.5])
    pull = (centre, 3.0)
    trained, log_precisions = basis.train(
        sets, y_bar[:, None], begin, pull=pull, fixed=fixed, noise_std=blur
    )
    like = layers_of(basis.network)
    loss = by_network(sets, y_bar, blur, like, centre, 3.0)
    if fixed:
        at = np.r_[
            literal_adam(lambda n: loss(np.r_[n, begin]), flat_numbers(like), 5, 0.02), begin
        ]
    else:
        at = literal_adam(loss, np.r_[flat_numbers(like), begin], 5, 0.02)
    found = np.r_[flat_numbers(layers_of(trained.network)), log_precisions]
    assert_allclose(found, at, atol=1e-6)


def by_regressor(parts, log_noise, sets, target, blur):
    """Σ_a ½ [(ȳ_a − Σ_n θ_an ŷ(x_an))² / v_a + log v_a], v_a = s_a/β + r_a²."""
    expected = summed(sets, np.array([member(parts, row, "tanh", None) for row in sets.x]))
    variance = summed(sets, sets.theta) / np.exp(log_noise) + blur**2
    return np.sum(0.5 * ((target - expected) ** 2 / variance + np.log(variance)))


@pytest.mark.slow
@pytest.mark.parametrize("fixed", [False, True])
def test_training_a_dropout_network_is_adam_on_the_weighed_squared_error(fixed):
    sets, y_bar, blur = SETS[:4], Y_BAR[:4], BLUR[:4]
    settings = replace(ALL, epochs=6, learning_rate=0.02)
    basis = settings.draw(SETS, np.random.default_rng(1))
    trained, found_precisions = basis.train(
        sets, y_bar[:, None], np.log([2.0, 3.0]), pull=None, fixed=fixed, noise_std=blur
    )
    layers, readout, level = parts_of(basis)

    def loss(numbers):
        moved, rest = unflat(numbers, layers)
        log_noise = math.log(3.0) if fixed else rest[-1]
        return by_regressor((moved, rest[:-2], rest[-2]), log_noise, sets, y_bar, blur)

    start = np.r_[flat_numbers(layers), readout, level, math.log(3.0)]
    expected = literal_adam(loss, start, epochs=6, rate=0.02)
    found_layers, found_readout, found_level = parts_of(trained)
    found = np.r_[flat_numbers(found_layers), found_readout, found_level, found_precisions[1]]
    assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert (found[-1] == start[-1]) == fixed


@pytest.mark.slow
def test_the_loss_of_a_dropout_network_is_the_same_in_any_room(monkeypatch):
    sets = SETS.take([0, 2, 1, 4])
    basis = ALL.draw(sets, np.random.default_rng(1))
    seen = []
    with jax.enable_x64(True):
        prior = map(jnp.asarray, ((0.0, 0.0), 0.0, 1.0))
        extra = (*prior, jax.random.key(5), jnp.asarray(1.0))
        for room in [(4, 13), (32, 112)]:
            monkeypatch.setattr(training, "padded_size", lambda sets, known, room=room: room)
            data = training.flat(sets, Y_BAR[[0, 2, 1, 4], None], "float64", UP_TO_SIX, BLUR[:4])
            state = (basis.network, jnp.asarray([0.0, 0.4]))
            loss = eqx.filter_jit(neural.dropout_objective)(state, data, extra, jnp.asarray(3))
            seen.append(float(loss))
    assert_allclose(seen[0], seen[1], rtol=1e-13)
    theirs = by_regressor(parts_of(basis), 0.4, sets, Y_BAR[[0, 2, 1, 4]], BLUR[:4])
    scale = 0.5 * np.log(summed(sets, sets.theta)).sum()  # which the loss leaves out
    assert_allclose(seen[0], theirs - scale, rtol=1e-12)


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_little_noise_trains_as_none():
    basis = EXACT.draw(SETS, np.random.default_rng(1))
    args = SETS, Y_BAR[:, None], np.log([1.0, 3.0])
    options = {"pull": None, "fixed": False}
    plain, precisions = basis.train(*args, **options)
    little, near = basis.train(*args, **options, noise_std=np.full(12, 1e-7))
    assert_allclose(near, precisions, atol=1e-9)
    assert_allclose(little(SETS.x), plain(SETS.x), atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "n_labels"),
    [(EXACT, 4), (EXACT, 12), (ALL, 12)],
    ids=["neural, txt", "neural, KxK", "dropout"],
)
def test_an_answer_that_is_all_noise_is_not_trained_on(settings, n_labels):
    basis = settings.draw(SETS, np.random.default_rng(1))
    at = [a for a in range(n_labels) if a != 2]
    begin, options = np.log([1.0, 3.0]), {"pull": None, "fixed": False}
    blur = np.where(np.arange(n_labels) == 2, 1e12, BLUR[:n_labels])
    wrong = Y_BAR[:n_labels] + 1e3 * (np.arange(n_labels) == 2)
    noisy, near = basis.train(SETS[:n_labels], wrong[:, None], begin, **options, noise_std=blur)
    without, precisions = basis.train(
        SETS.take(at), Y_BAR[at, None], begin, **options, noise_std=BLUR[at]
    )
    assert_allclose(near, precisions, atol=1e-8)
    assert_allclose(noisy(SETS.x), without(SETS.x), atol=1e-7)
    assert abs(without(SETS.x) - basis(SETS.x)).max() > 0.01


# --- the model ------------------------------------------------------------------------------------


def fitted(network, way, at=range(12), noise_std=None, y_bar=TOTALS, start=None, **settings):
    config = core.ModelConfig(network, hyperparameters=way, **settings)
    prepared = config.prepare(SETS)
    labelled, totals = SETS.take(list(at)), y_bar[list(at), None]
    design = embed(labelled, prepared.basis)
    return core.fit(prepared, labelled, design, totals, start, noise_std=noise_std)


def both(model):
    """What a model says of every individual, in one column."""
    std = predict.predict_individuals(model, SETS.x, include_noise=False)[1]
    return np.r_[predict.predict_mean(model, SETS.x), std]


def in_model_units(model, at=range(12)):
    """Totals and noise as the model sees them, its offset and scale taken as they are."""
    labelled, at = SETS.take(list(at)), list(at)
    level = np.array([labelled[i].theta.sum() for i in labelled.ids]) * model.offset[0]
    scale = float(model.posterior.output_scale[0])
    return (TOTALS[at] - level) / scale, NOISE[at] / scale


def standard_x():
    return (SETS.x - SETS.x.mean(axis=0)) / SETS.x.std(axis=0)


@pytest.mark.parametrize("way", MOSTLY)
@pytest.mark.parametrize(
    "network", [EXACT, *slow(replace(EXACT, n_basis=40))], ids=["t > K", "t < K"]
)
def test_the_posterior_is_that_of_the_dense_normal(way, network):
    """Of the trained features; units are the user's: the noise is known in these."""
    model = fitted(network, way, noise_std=NOISE)
    hyper, scale = model.posterior.hyper, float(model.posterior.output_scale[0])
    lam, beta = hyper.prior_precision, hyper.noise_precision
    phi = phi_by_hand(model.basis.basis.network, standard_x())
    inside, blur = in_model_units(model)
    cov = covariance(SETS, phi, blur, lam, beta)
    cross = phi @ phi.T / lam @ oracles.joint(SETS, phi, lam, beta).sums.T
    mean = model.offset + scale * cross @ np.linalg.solve(cov, inside)
    latent = phi @ phi.T / lam - cross @ np.linalg.solve(cov, cross.T)
    std = scale * np.sqrt(np.diag(latent))
    assert_allclose(both(model)[:, 0], np.r_[mean, std], rtol=1e-6, atol=1e-8)
    expected = normal_density(cov * scale**2, scale * inside[:, None])
    assert_allclose(model.log_evidence, expected, rtol=1e-9)


@pytest.mark.parametrize("evidence_prior", [True, *slow(False)])
def test_precisions_maximise_the_evidence_of_the_trained_network(evidence_prior):
    model = fitted(EXACT, "evidence", noise_std=NOISE, evidence_prior=evidence_prior)
    phi = phi_by_hand(model.basis.basis.network, standard_x())
    inside, blur = in_model_units(model)
    config = core.ModelConfig(EXACT)
    prepared = config.prepare(SETS)
    design = embed(SETS, prepared.basis)
    data = standardise(design, TOTALS[:, None], NOISE, "evidence", standardize=True)
    centre = core._weak_prior(prepared, data.variance)
    middle = np.array([centre.log_prior_precision, centre.log_noise_precision])

    def objective(log_precisions):
        cov = covariance(SETS, phi, blur, *np.exp(log_precisions))
        away = (log_precisions - middle) * evidence_prior
        return normal_density(cov, inside[:, None]) - away @ away / 8  # std is 2

    hyper = model.posterior.hyper
    found = np.log([hyper.prior_precision, hyper.noise_precision])
    for way in np.eye(2):
        here, up, down = (objective(found + h * way) for h in (0.0, 0.01, -0.01))
        assert abs(up - down) / 0.02 < 1e-4
        assert up - 2 * here + down < 0


@pytest.mark.slow
@pytest.mark.parametrize("network", [EXACT, ALL], ids=["neural", "dropout"])
@pytest.mark.parametrize("way", MOSTLY)
def test_training_goes_on_from_the_model_before_in_the_models_units(network, way):
    """By hand: the network of five answers, trained on six, with noise in units of the scale."""
    options = {"evidence_prior": False}
    before = fitted(network, way, range(5), NOISE[:5], **options)
    after = fitted(network, way, range(6), NOISE[:6], start=before, **options)
    inside, blur = in_model_units(after, range(6))
    if isinstance(way, str):  # given numbers are in the user's units
        assert after.posterior.output_scale[0] > 2  # so that units matter
    hyper, begin = before.posterior.hyper, np.array(way)
    if isinstance(way, str):
        begin = np.array([hyper.prior_precision, hyper.noise_precision])
        if network is EXACT:  # the scale has changed, and λ and β are handed over in its units
            begin *= (after.posterior.output_scale[0] / before.posterior.output_scale[0]) ** 2
    trained, log_precisions = before.basis.basis.train(
        replace(SETS[:6], x=standard_x()[: len(SETS[:6].x)]),
        inside[:, None],
        np.log(begin),
        pull=None,
        fixed=not isinstance(way, str),
        noise_std=blur,
    )
    assert_allclose(after.basis.basis(SETS.x), trained(SETS.x), atol=1e-8)
    found = after.posterior.hyper
    if network is ALL:  # λ has no meaning there
        assert_allclose(found.noise_precision, np.exp(log_precisions[1]), rtol=1e-8)
    elif way == "adam":
        expected = np.exp(log_precisions)
        assert_allclose([found.prior_precision, found.noise_precision], expected, rtol=1e-8)
    elif way != "evidence":
        assert (found.prior_precision, found.noise_precision) == way


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "way"), [(THINNED, "evidence"), (THINNED, "adam"), *((TINY, way) for way in WAYS)]
)
def test_units_do_not_matter(network, way):
    """A power of two changes hardly a digit, so that Adam goes the same way."""
    factor, other = 1024.0, way
    if not isinstance(way, str):
        other = (way[0] / factor**2, way[1] / factor**2)
    small = fitted(network, way, noise_std=NOISE)
    large = fitted(network, other, noise_std=factor * NOISE, y_bar=factor * TOTALS)
    assert_allclose(both(large), factor * both(small), rtol=1e-5, atol=1e-5 * factor)


@pytest.mark.parametrize("network", [TINY, *slow(THINNED)], ids=["neural", "dropout"])
@pytest.mark.parametrize("way", MOSTLY)
def test_no_noise_changes_no_digit(network, way):
    plain, zero = (fitted(network, way, noise_std=blur) for blur in (None, np.zeros(12)))
    assert_array_equal(both(plain), both(zero))
    assert zero.posterior.hyper == plain.posterior.hyper


@pytest.mark.parametrize("network", [EXACT, *slow(ALL)], ids=["neural", "dropout"])
@pytest.mark.parametrize("way", MOSTLY)
def test_an_answer_that_is_all_noise_leaves_the_model_of_the_others(network, way):
    others = [a for a in range(12) if a != 4]
    wrong = TOTALS + 1e3 * (np.arange(12) == 4)
    blur = np.where(np.arange(12) == 4, 1e9, NOISE)
    options = {"standardize": False, "evidence_prior": False}
    noisy = fitted(network, way, noise_std=blur, y_bar=wrong, **options)
    without = fitted(network, way, others, NOISE[others], **options)
    assert_allclose(both(noisy), both(without), rtol=1e-5, atol=1e-7)


def test_scores_and_totals_of_sets_have_the_noise_of_individuals_alone():
    at = [3, 1, 7, 5, 2]
    model = fitted(EXACT, (0.5, 4.0), at, NOISE[at], standardize=False)
    phi = phi_by_hand(model.basis.basis.network, SETS.x)
    joint = oracles.joint(SETS, phi, 0.5, 4.0)
    inside = covariance(SETS, phi, np.zeros(12), 0.5, 4.0)[np.ix_(at, at)] + np.diag(NOISE[at] ** 2)
    signal = joint.sums @ joint.latent @ joint.sums.T
    explained = signal[:, at] @ np.linalg.solve(inside, signal[at])
    variance = np.diag(signal - explained) + oracles.total_noise(joint)
    pool = Pool(SETS, model.basis, embed(SETS, model.basis))
    _, std = predict.predict_sets(model, pool.design, include_noise=True)
    assert_allclose(std[:, 0] ** 2, variance, rtol=1e-7)
    scores = scores_of("AggMI", pool, model.posterior, np.random.default_rng(0))
    assert_allclose(scores, 0.5 * np.log(variance / oracles.total_noise(joint)), rtol=1e-6)


@pytest.mark.slow
def test_totals_of_a_dropout_network_have_the_noise_of_individuals_alone():
    model = fitted(THINNED, "adam", noise_std=NOISE)
    design = embed(SETS, model.basis)
    (_, quiet), (_, noisy) = (
        predict.predict_sets(model, design, include_noise=noise) for noise in (False, True)
    )
    scale, beta = model.posterior.output_scale[0], model.posterior.noise_precision
    noise = scale**2 * summed(SETS, SETS.theta) / beta
    assert_allclose((noisy**2 - quiet**2)[:, 0], noise, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("network", [TINY, THINNED], ids=["neural", "dropout"])
def test_blurred_answers_that_say_so_are_predicted_better(network):
    network = replace(network, epochs=400, learning_rate=3e-3)
    truth, better = 7 * summed(SETS, 3 + np.sin(2 * SETS.x[:, 0]) + SETS.x[:, 1]), 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        blur = np.where(rng.random(12) < 0.5, 100.0, 0.0)
        seen = TOTALS + blur * rng.normal(size=12)
        error = []
        for noise_std in (blur, None):
            model = fitted(network, "evidence", noise_std=noise_std, y_bar=seen, random_state=seed)
            mean, _ = predict.predict_sets(model, embed(SETS, model.basis), include_noise=False)
            error.append(np.sqrt(np.mean((mean[:, 0] - truth) ** 2)))
        better += error[0] < error[1]
    assert better >= 5


@pytest.mark.slow
@pytest.mark.parametrize("network", [TINY, THINNED], ids=["neural", "dropout"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_answers_of_pure_noise_give_a_finite_model(network, n):
    for blur in (np.full(n, 1e100), np.full(n, 1e5), np.full(n, 1e-100)):
        for way in WAYS:
            model = fitted(network, way, range(n), blur)
            assert np.isfinite(both(model)).all()


def test_noise_beyond_doubles_and_several_outputs_are_refused_in_words():
    with pytest.raises(sw.LabelError, match="or of noise_std, leave the range of double precision"):
        fitted(TINY, "evidence", range(3), np.array([0.0, 1e200, 0.0]), standardize=False)
    config = core.ModelConfig(TINY)
    prepared = config.prepare(SETS)
    design, totals = embed(SETS, prepared.basis), np.stack([TOTALS, TOTALS], axis=1)
    with pytest.raises(sw.SettingError, match="works with one output, and there are 2; fit a"):
        core.fit(prepared, SETS, design, totals, noise_std=np.ones(12))


# --- studies --------------------------------------------------------------------------------------

KINDS = {"neural": (TINY, "AggMI"), "dropout": (THINNED, "DAMI")}


def play(study, n):
    asked = []
    for _ in range(n):
        question = study.ask()
        at = SETS.position(question.set_id)
        study.tell(question.set_id, Y_BAR[at], noise_std=BLUR[at] + 0.1)
        asked.append(question.set_id)
    return asked


@pytest.mark.slow  # the chain of a network is kept in test_backends, its noise in test_predictions
@pytest.mark.parametrize("kind", ["neural", "dropout"])
def test_questions_after_restarts_are_those_of_one_go(place, kind):
    network, strategy = KINDS[kind]
    model = sw.AggregateRegressor(network)
    settings = {"model": model, "strategy": strategy, "seed": 9}
    with sw.create_study(place, SETS, name="in one go", **settings) as study:
        expected = play(study, 10)
        predicted = study.predict()
    with sw.create_study(place, SETS, name="restarted", **settings) as study:
        asked = play(study, 4)
    for more in (1, 5):
        with sw.open_study(place, "restarted") as study:
            asked += play(study, more)
    assert asked == expected
    with sw.open_study(place, "restarted") as study:
        assert_array_equal(study.predict().mean, predicted.mean)
        assert_array_equal(study.predict().std, predicted.std)
        study.amend(asked[9], float(Y_BAR[SETS.position(asked[9])]), noise_std=0)
        assert abs(study.predict().mean - predicted.mean).max() > 1e-6
