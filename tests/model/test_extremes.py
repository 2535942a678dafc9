"""Tiny noise, many hills, numbers beyond doubles: answered right, or refused."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.model import posterior
from sumwise.model.basis import RandomFourierFeatures
from sumwise.model.design import embed
from sumwise.model.evidence import WeakPrior, log_evidence, maximise
from sumwise.model.posterior import Hyperparameters, condition, decompose
from tests.builders import random_sets, unscaled
from tests.marks import slow

R = sw.AggregateRegressor


# --- exactness where noise is very small ------------------------------------------------------


def exact_information(u, s, seen, lam, beta):
    """AggMI of every set in 80 digits, from the joint covariance of the totals."""
    mpmath.mp.dps = 80
    rows = mpmath.matrix(u.tolist())
    gram = rows * rows.T / mpmath.mpf(lam)
    noise = [mpmath.mpf(v) / mpmath.mpf(beta) for v in s.tolist()]
    inside = mpmath.matrix(len(seen))
    for i, a in enumerate(seen):
        for j, b in enumerate(seen):
            inside[i, j] = gram[a, b] + (noise[a] if i == j else 0)
    out = []
    for a in range(len(u)):
        cross = mpmath.matrix([gram[a, b] for b in seen])
        explained = (cross.T * mpmath.lu_solve(inside, cross))[0]
        out.append(float(mpmath.log1p((gram[a, a] - explained) / noise[a]) / 2))
    return np.array(out)


@pytest.mark.parametrize(
    ("lam", "beta", "rtol"), [(1, 1e4, 1e-10), (1e-3, 1e5, 1e-9), (1e-6, 1e6, 1e-8)]
)
def test_information_is_exact_at_a_very_high_signal_to_noise_ratio(lam, beta, rtol):
    rng = np.random.default_rng(1)
    sets = random_sets([1, 2, 1, 3, 1, 1, 2, 1], rng, n_inputs=1)
    basis = unscaled(RandomFourierFeatures.draw(24, 1, 1.0, rng), 1)
    design, seen = embed(sets, basis), [0, 1, 2, 3, 4]
    hyper = Hyperparameters(float(lam), float(beta))
    posterior = condition(decompose(design.rows(seen), np.ones((5, 1))), hyper)
    ratio = beta * posterior.variance_along(design.u) / design.noise_scale
    expected = exact_information(design.u, design.noise_scale, seen, lam, beta)
    assert_allclose(0.5 * np.log1p(ratio), expected, rtol=rtol)
    root = posterior.root_times(design.u)
    assert_allclose(beta * (root**2).sum(axis=1) / design.noise_scale, ratio, rtol=1e-6)


def test_the_learner_asks_what_score_says_however_small_the_noise():
    rng = np.random.default_rng(3)
    sets = sw.Sets.from_arrays([rng.normal(size=(1, 1)) for _ in range(20)])
    model = R("fourier", hyperparameters=(1e-8, 1e8), lengthscale=2.0)
    learner = sw.ActiveLearner(sets, model=model, strategy="AggMI")
    for _ in range(12):
        left = [a for a in sets if a not in learner.labels]
        scores = sw.score(sets[left], learner.model, "AggMI")
        ask = learner.ask()
        assert_allclose(ask.score, scores.max(), rtol=1e-6)
        learner.tell(ask.set_id, float(np.sin(sets[ask.set_id].x).sum()))


def test_standard_deviations_and_covariances_agree_however_small_the_noise():
    rng = np.random.default_rng(1)
    sets = sw.Sets.from_arrays([rng.normal(size=(1, 1)) for _ in range(20)])
    model = R(hyperparameters=(1e-8, 1e8)).fit(sets, np.sin(sets.x[:, 0]))
    grid = np.linspace(-1, 1, 7)[:, None]
    std = model.predict(grid, return_std=True, include_noise=False)[1]
    covariance = model.predict(grid, return_cov=True, include_noise=False)[1]
    assert_allclose(std, np.sqrt(np.diag(covariance)), rtol=1e-6)


@pytest.mark.parametrize("seed", [175, *slow(*range(12))])
def test_the_evidence_is_climbed_on_the_right_hill(seed):
    rng = np.random.default_rng(seed)
    blocks = [rng.normal(size=(int(n), 1)) for n in rng.integers(1, 6, 24)]
    y = [float(np.sin(3 * b).sum() + 0.05 * np.sqrt(len(b)) * rng.normal()) for b in blocks]
    sets = sw.Sets.from_arrays(blocks)
    basis = unscaled(RandomFourierFeatures.draw(64, 1, 1.0, rng), 1)
    spectrum = decompose(embed(sets, basis), np.array(y)[:, None])
    for prior in (WeakPrior(0.7, 2.0), WeakPrior(0.7, 2.0, np.inf)):
        found = maximise(spectrum, prior)
        top = weighed(spectrum, prior, *np.log([found.prior_precision, found.noise_precision]))
        for a in np.arange(-20.0, 20.5, 1.0):
            for b in np.arange(-20.0, 20.5, 1.0):
                assert weighed(spectrum, prior, a, b) <= top + 1e-9


def weighed(spectrum, prior, log_lam, log_beta):
    away = (log_lam - prior.log_prior_precision) ** 2 + (log_beta - prior.log_noise_precision) ** 2
    value = log_evidence(spectrum, Hyperparameters(float(np.exp(log_lam)), float(np.exp(log_beta))))
    return value - 0.5 * away / prior.std**2


# --- numbers beyond the range of doubles ------------------------------------------------------

SETS = sw.Sets.from_arrays([[[0.0, 1.0]], [[2.0, 3.0]], [[4.0, 7.0], [1.0, 1.0]]], ids="abc")


@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1e12, 1e150])
def test_totals_of_any_scale_are_learned_from(scale):
    plain = R().fit(SETS, [1.0, 2.0, -3.0])
    scaled = R().fit(SETS, np.array([1.0, 2.0, -3.0]) * scale)
    assert_allclose(scaled.predict(SETS.x), plain.predict(SETS.x) * scale, rtol=1e-6)


@pytest.mark.parametrize(
    ("model", "y_bar"),
    [
        (R(), [1e300, 2e308 / 1.2, -1e308]),
        (R(standardize=False), [1e170, 2e170, 3e170]),
        (R(standardize=False, hyperparameters=(1.0, 1.0)), [1e200, 2e200, 3e200]),
    ],
)
def test_totals_beyond_double_precision_are_refused(model, y_bar):
    with pytest.raises(sw.SumwiseError, match=r"double precision|finite"):
        model.fit(SETS, y_bar).predict(SETS.x, return_std=True)


def test_one_mistyped_total_does_not_poison_the_learner():
    learner = sw.ActiveLearner(SETS)
    learner.tell("a", 1.0)
    try:
        learner.tell("b", 1e300)
    except sw.LabelError:
        learner.tell("b", 1.0)
    assert np.isfinite(learner.ask().expected)


def test_predictions_that_are_not_finite_are_refused_naming_the_row():
    cubic = R("polynomial", degree=3).fit(SETS, [1.0, 2.0, 3.0])
    with pytest.raises(sw.InvalidSetError, match="row 1 has no finite prediction"):
        cubic.predict([[1.0, 1.0], [1e200, 1e200]])
    root = R(lambda x: np.sqrt(x + 2.5), standardize=False).fit(SETS, [1.0, 2.0, 3.0])
    with pytest.raises(sw.InvalidSetError, match="row 0 has no finite prediction"):
        root.predict([[-100.0, -100.0]])
    line = R("linear").fit(SETS, [1.0, 2.0, 3.0])
    with pytest.raises(sw.SumwiseError, match="finite"):
        line.predict([[1e200, 1e200]], return_std=True)
    far = sw.Sets.from_arrays([[[1e160, 1.0]]])
    with pytest.raises(sw.SumwiseError, match=r"finite|scored"):
        sw.score(
            far, R("linear", standardize=False, hyperparameters=(1e-90, 1e90)).fit(SETS, [1, 2, 3])
        )


def test_a_column_that_varies_by_rounding_alone_does_no_harm():
    rng = np.random.default_rng(0)
    blocks = [
        np.column_stack([rng.normal(size=3), 1e20 * (1 + 2.3e-16 * rng.integers(0, 3, 3))])
        for _ in range(20)
    ]
    sets = sw.Sets.from_arrays(blocks)
    y_bar = [float(2 * b[:, 0].sum()) for b in blocks]
    assert R("linear").fit(sets, y_bar).score(sets.x, 2 * sets.x[:, 0]) > 0.99


@pytest.mark.parametrize("basis", ["auto", "fourier"])
@pytest.mark.parametrize("noise_std", [None, 0.5])
def test_weights_that_cancel_but_for_rounding_say_nothing_of_the_level(basis, noise_std):
    x = np.random.default_rng(0).normal(size=(6, 2))
    theta = np.array([0.1, 0.2, -0.3])
    assert theta.sum() == pytest.approx(0, abs=1e-15)
    assert theta.sum() != 0
    found = []
    for weights in (theta, 10 * np.array([0.125, 0.125, -0.25])):  # which cancel exactly
        pool = sw.Sets.from_arrays([x[:3], x[3:]], weights=[weights, np.ones(3)])
        model = R(basis).fit(pool.take([0]), [2.0], pool=pool, noise_std=noise_std)
        found.append(model.predict(x, return_std=True))
    for mean, std in found:
        assert abs(mean).max() < 100
        assert std.max() < 100


def test_a_covariance_on_which_the_fastest_eigenvalues_do_not_converge_is_no_error(monkeypatch):
    rng = np.random.default_rng(0)
    half = rng.normal(size=(6, 6))
    covariance, mean = half @ half.T, rng.normal(size=(6, 1))
    wanted = posterior.from_covariance(mean, covariance, (0.5, 0.0), np.ones(1))

    def gives_up(matrix):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setattr(np.linalg, "eigh", gives_up)  # as for some matrices with 400 columns
    found = posterior.from_covariance(mean, covariance, (0.5, 0.0), np.ones(1))
    u = rng.normal(size=(4, 6))
    assert_allclose(found.variance_along(u), wanted.variance_along(u), rtol=1e-9)
