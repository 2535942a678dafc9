"""Known measurement noise: against the dense normal distribution, and in its limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

import sumwise as sw
from sumwise.model import evidence, known_noise, predict, scaling
from sumwise.model import fit as core
from sumwise.model.design import embed
from sumwise.model.posterior import Hyperparameters, condition, decompose
from tests.builders import linear_pool, phi_of, plain, precisions, random_sets, seeds, set_sizes
from tests.marks import slow
from tests.oracles import joint, total_covariance


def problem(sizes, seed):
    rng = np.random.default_rng(seed)
    sets = random_sets(sizes, rng)
    return sets, linear_pool(sets), rng.normal(size=len(sizes)), rng.uniform(0, 3, len(sizes))


def dense(sets, pool, blur, lam, beta):
    """Covariance of the measured totals, from that of all individuals."""
    return total_covariance(joint(sets, phi_of(pool), lam, beta)) + np.diag(blur**2)


@given(set_sizes, precisions, precisions, seeds)
def test_the_evidence_is_the_density_of_a_dense_normal(sizes, lam, beta, seed):
    sets, pool, y_bar, blur = problem(sizes, seed)
    hyper = Hyperparameters(lam, beta)
    value, _ = known_noise.log_evidence_gradient(plain(pool.design, y_bar[:, None], blur), hyper)
    expected = multivariate_normal(cov=dense(sets, pool, blur, lam, beta)).logpdf(y_bar)
    assert_allclose(value, expected, rtol=1e-8, atol=1e-8)


@given(set_sizes, precisions, precisions, seeds)
def test_the_posterior_is_that_of_the_dense_normal(sizes, lam, beta, seed):
    sets, pool, y_bar, blur = problem(sizes, seed)
    design = pool.design.with_known_noise(blur, beta)
    posterior = condition(decompose(design, y_bar[:, None]), Hyperparameters(lam, beta))
    phi = phi_of(pool)
    sums = joint(sets, phi, lam, beta).sums
    cross = phi @ phi.T / lam @ sums.T
    inverse = np.linalg.inv(dense(sets, pool, blur, lam, beta))
    assert_allclose(phi @ posterior.mean[:, 0], cross @ inverse @ y_bar, rtol=1e-6, atol=1e-8)
    expected = np.diag(phi @ phi.T / lam - cross @ inverse @ cross.T)
    assert_allclose(posterior.variance_along(phi), expected, rtol=1e-6, atol=1e-8)


@given(set_sizes, precisions, precisions, seeds)
def test_the_gradient_is_that_of_the_value(sizes, lam, beta, seed):
    _, pool, y_bar, blur = problem(sizes, seed)

    def value(log_prior, log_noise):
        hyper = Hyperparameters(float(np.exp(log_prior)), float(np.exp(log_noise)))
        return known_noise.log_evidence_gradient(plain(pool.design, y_bar[:, None], blur), hyper)

    at, h = np.log([lam, beta]), 1e-5
    slopes = [(value(*(at + step))[0] - value(*(at - step))[0]) / (2 * h) for step in h * np.eye(2)]
    assert_allclose(value(*at)[1], slopes, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("use_prior", [True, *slow(False)])
@settings(max_examples=10)
@given(seeds)
def test_the_maximum_is_higher_than_everything_round_it(use_prior, seed):
    _, pool, y_bar, blur = problem([3, 1, 4, 2, 5, 2, 3], seed)
    prior = evidence.WeakPrior(0.3, 1.0)
    data = plain(pool.design, y_bar[:, None], blur)

    def objective(point):
        hyper = Hyperparameters(*np.exp(point).tolist())
        away = point - [0.3, 1.0]
        pull = 0.5 / prior.std**2 * away @ away if use_prior else 0.0
        return known_noise.log_evidence_gradient(data, hyper)[0] - pull

    found = known_noise.maximise(data, prior if use_prior else replace(prior, std=math.inf))
    top = np.log([found.prior_precision, found.noise_precision])
    rng = np.random.default_rng(seed)
    for width in (0.01, 1.0, 5.0):
        for point in top + width * rng.normal(size=(20, 2)):
            inside = np.clip(point, [0.3 - 25, 1 - 25], [0.3 + 25, 1 + 25])
            assert objective(inside) <= objective(top) + 1e-7


def test_without_noise_the_search_finds_what_the_ordinary_one_finds():
    _, pool, y_bar, _ = problem([3, 1, 4, 2, 5, 2, 3], 5)
    prior = evidence.WeakPrior(0.0, 1.0)
    ordinary = evidence.maximise(decompose(pool.design, y_bar[:, None]), prior)
    data = plain(pool.design, y_bar[:, None], np.zeros(7))
    found = known_noise.maximise(data, prior)
    assert_allclose(found.prior_precision, ordinary.prior_precision, rtol=1e-5)
    assert_allclose(found.noise_precision, ordinary.noise_precision, rtol=1e-5)
    start = Hyperparameters(1.0, 2.0)
    climbed = known_noise.adam(data, start)
    expected = evidence.adam(decompose(pool.design, y_bar[:, None]), start)
    assert_allclose(climbed.noise_precision, expected.noise_precision, rtol=1e-9)


# --- in the model -----------------------------------------------------------------------------


def config_of(hyperparameters, **settings):
    """A model with these; of auto there is nothing for Adam to search."""
    basis = "fourier" if hyperparameters == "adam" else "auto"
    return core.ModelConfig(basis, n_basis=24, hyperparameters=hyperparameters, **settings)


def fitted(hyperparameters, sets, y_bar, noise_std=None, **settings):
    config = config_of(hyperparameters, **settings)
    prepared = config.prepare(sets)
    design = embed(sets, prepared.basis)
    blur = None if noise_std is None else np.asarray(noise_std, dtype=float)
    return core.fit(prepared, sets, design, y_bar[:, None], noise_std=blur)


def smooth(n=25, seed=0):
    rng = np.random.default_rng(seed)
    sets = sw.Sets.from_arrays([rng.normal(size=(rng.integers(1, 6), 2)) for _ in range(n)])
    y = 300 + 20 * np.sin(sets.x[:, 0]) + rng.normal(0, 1, len(sets.x))
    return sets, np.add.reduceat(y, sets.starts[:-1])


WAYS = ["evidence", *slow("adam"), (1e-3, 0.5)]


@pytest.mark.parametrize("way", WAYS)
def test_no_noise_changes_nothing_and_very_little_changes_very_little(way):
    sets, y_bar = smooth()
    plain = predict.predict_mean(fitted(way, sets, y_bar), sets.x)
    zero = predict.predict_mean(fitted(way, sets, y_bar, np.zeros(25)), sets.x)
    assert (zero == plain).all()
    little = predict.predict_mean(fitted(way, sets, y_bar, np.full(25, 1e-6)), sets.x)
    grid = way == "evidence"  # known noise makes a sum of what was an integral
    assert_allclose(little, plain, rtol=1e-3 if grid else 1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_that_is_all_noise_teaches_nothing(way):
    sets, y_bar = smooth()
    wrong = y_bar + 1e6 * (np.arange(25) == 3)
    blurred = fitted(way, sets, wrong, np.where(np.arange(25) == 3, 1e8, 0.0))
    config = config_of(way)
    prepared = config.prepare(sets)
    others = sets.take([a for a in range(25) if a != 3])
    design = embed(others, prepared.basis)
    without = core.fit(prepared, others, design, np.delete(y_bar, 3)[:, None])
    means = [predict.predict_mean(model, sets.x) for model in (blurred, without)]
    assert_allclose(*means, rtol=0.02)
    stds = [
        predict.predict_individuals(model, sets.x, include_noise=False)[1]
        for model in (blurred, without)
    ]
    assert_allclose(*stds, rtol=0.1)


def test_blurred_answers_that_say_so_are_predicted_better():
    better = 0
    for seed in range(6):
        sets, y_bar = smooth(40, seed)
        rng = np.random.default_rng(seed)
        blur = np.where(rng.random(40) < 0.5, 100.0, 0.0)
        seen = y_bar + blur * rng.normal(size=40)
        truth = 300 + 20 * np.sin(sets.x[:, 0])
        error = [
            np.sqrt(np.mean((predict.predict_mean(model, sets.x)[:, 0] - truth) ** 2))
            for model in (fitted("evidence", sets, seen, blur), fitted("evidence", sets, seen))
        ]
        better += error[0] < error[1]
    assert better >= 5


@pytest.mark.parametrize("way", WAYS)
def test_units_do_not_matter(way):
    sets, y_bar = smooth()
    blur = np.linspace(0, 40, 25)
    small = fitted(way, sets, y_bar, blur, standardize=True)
    factor = 1000.0
    other = way if isinstance(way, str) else (way[0] / factor**2, way[1] / factor**2)
    large = fitted(other, sets, factor * y_bar, factor * blur, standardize=True)
    means = [predict.predict_mean(model, sets.x) for model in (large, small)]
    assert_allclose(means[0], factor * means[1], rtol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_answers_of_pure_noise_give_a_finite_model(n):
    sets, y_bar = smooth(n)
    for blur in (np.full(n, 1e5), np.full(n, 1.0)):
        model = fitted("evidence", sets, y_bar, blur)
        assert np.isfinite(predict.predict_individuals(model, sets.x, include_noise=True)[1]).all()
        same = fitted("evidence", sets, np.zeros(n), blur)
        assert_allclose(predict.predict_mean(same, sets.x), 0.0, atol=1e-9)


def test_several_outputs_are_refused_in_words():
    sets, y_bar = smooth(5)
    config, totals = core.ModelConfig(n_basis=8), np.stack([y_bar, y_bar], axis=1)
    prepared = config.prepare(sets)
    design = embed(sets, prepared.basis)
    with pytest.raises(sw.SettingError, match="works with one output, and there are 2; fit a"):
        core.fit(prepared, sets, design, totals, noise_std=np.ones(5))
    plain = core.fit(prepared, sets, design, totals, noise_std=np.zeros(5))
    assert plain.posterior.n_outputs == 2


@pytest.mark.parametrize("blur", [10.0, 100.0, 1e4, 1e8, 1e100, 1e150])
@pytest.mark.parametrize("luck", [1.0, 1e-6])
@pytest.mark.parametrize("n_blurred", [1, 3])
def test_one_exact_answer_beside_blurred_ones_does_not_make_sure(blur, luck, n_blurred):
    """It is what the offset is taken from, and tells nothing of how individuals vary: sure of
    that, a model would give them all the same output to a dozen digits. Nor do blurred answers
    that happen to agree with it far better than they should."""
    n = 1 + n_blurred
    sets, y_bar = smooth(n)
    noise_std = np.r_[0.0, np.full(n_blurred, blur)]
    seen = y_bar + luck * noise_std * np.array([0.0, 0.5, -1.2, 0.8])[:n]
    model = fitted("evidence", sets, seen, noise_std)
    assert predict.predict_individuals(model, sets.x, include_noise=True)[1].min() > 0.3
    assert model.posterior.output_scale[0] > 1  # nor has a network to learn in tiny units
    if blur == 1e8:
        alone = fitted("evidence", sets[:1], y_bar[:1])
        found, expected = (
            predict.predict_individuals(m, sets[:1].x, include_noise=True)[1]
            for m in (model, alone)
        )
        assert (abs(np.log(found / expected)) < 1).all()  # as if they had not been asked
        found, expected = (predict.predict_mean(m, sets[:1].x) for m in (model, alone))
        assert_allclose(found, expected, rtol=0.05)


@pytest.mark.parametrize("centred", [True, False])
@given(set_sizes, seeds)
def test_what_answers_tell_of_the_variance_is_the_information_in_a_dense_normal(
    centred, sizes, seed
):
    """½ tr (P ∂C/∂v)² of Fisher's information, P the inverse of C less the offset's part."""
    _, pool, _, blur = problem(sizes, seed)
    there = pool.design.with_known_noise(blur, 1 / 0.7)
    scale, slope = np.diag(pool.design.noise_scale), pool.design.theta_sum[:, None]
    inverse = np.linalg.inv(0.7 * scale + np.diag(blur**2))
    if centred:
        inverse -= inverse @ slope @ np.linalg.inv(slope.T @ inverse @ slope) @ slope.T @ inverse
    information = 0.5 * np.trace(inverse @ scale @ inverse @ scale)
    share = pool.design.noise_scale / there.noise_scale
    found = 0.7 * np.exp(scaling._relative_error(share, there, centred))
    assert_allclose(found, information**-0.5, rtol=1e-6)


def test_information_is_exact_where_one_answer_sets_the_offset():
    _, pool, _, _ = problem([2, 3], 0)
    blur = np.array([1e-12, 1.0])
    there = pool.design.with_known_noise(blur, 1e30)
    share = pool.design.noise_scale / there.noise_scale
    noise, slope = 1e-30 * pool.design.noise_scale + blur**2, pool.design.theta_sum
    # only the difference of the two that no offset changes tells of v
    s = pool.design.noise_scale @ (1 / slope) ** 2
    expected = np.sqrt(2) * (noise @ (1 / slope) ** 2) / s / 1e-30
    found = np.exp(scaling._relative_error(share, there, True))
    assert_allclose(found, expected, rtol=1e-10)


def test_what_was_learned_is_used_again():
    sets, y_bar = smooth()
    for way in ("evidence", "adam"):
        config = config_of(way)
        prepared = config.prepare(sets)
        design = embed(sets, prepared.basis)
        for blur in (None, np.linspace(0, 9, 25)):
            first = core.fit(prepared, sets, design, y_bar[:, None], noise_std=blur)
            known = (first.basis, first.posterior.hyper)
            again = core.fit(prepared, sets, design, y_bar[:, None], noise_std=blur, learned=known)
            assert again.posterior.hyper == first.posterior.hyper
            assert (again.posterior.mean == first.posterior.mean).all()
            assert again.log_evidence == first.log_evidence


def test_the_design_given_is_left_alone():
    _, pool, y_bar, blur = problem([2, 3], 0)
    before = replace(pool.design)
    pool.design.with_known_noise(blur, 2.0)
    scaling.weigh(plain(pool.design, y_bar[:, None], blur), "evidence")
    assert (before.noise_scale == pool.design.noise_scale).all()
