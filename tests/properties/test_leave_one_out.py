"""Leaving one answer out, against the joint Gaussian of all totals in eighty digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sumwise.errors import SettingError
from sumwise.model import leave_one_out as leaving_out
from sumwise.model.basis import Linear
from sumwise.model.calibration import binomial_interval
from sumwise.model.fit import Model
from sumwise.model.leave_one_out import leave_one_out
from sumwise.model.posterior import Hyperparameters, committee, condition, decompose
from sumwise.model.predict import predict_sets
from tests.builders import linear_pool, precisions, random_sets, seeds, unscaled
from tests.marks import at_most

set_sizes = st.lists(st.integers(1, 6), min_size=1, max_size=9)  # K = 4: fewer and more
powers_of_ten = st.integers(-100, 100).map(lambda exponent: 10.0**exponent)
noise = st.one_of(st.none(), st.floats(0.0, 5.0))


def problem(sizes, seed, lam, beta, *, unit=1.0, blur=None, collinear=False):
    """A model of some answered sets, their design, answers and known noise, in the user's units."""
    rng = np.random.default_rng(seed)
    sets = random_sets(sizes, rng)
    if collinear:  # all individuals of all sets on one line, so that some sets say the same
        along = rng.integers(-2, 3, len(sets.x))[:, None]
        sets = type(sets)(sets.ids, along * np.array([[1.0, 2.0, -1.0]]), sets.theta, sets.starts)
    pool = linear_pool(sets)
    offset, scale = np.array([3.0 * unit]), np.array([2.0 * unit])
    y_bar = unit * rng.normal(0, 5, size=(len(sizes), 1))
    noise_std = None if blur is None else blur * unit * rng.uniform(0, 1, len(sizes))
    design = pool.design
    if noise_std is not None:
        design = design.with_known_noise(noise_std / scale, beta)
    inside = (y_bar - design.theta_sum[:, None] * offset) / scale
    spectrum, hyper = decompose(design, inside), Hyperparameters(lam, beta)
    posterior = condition(spectrum, hyper, scale)
    model = Model(unscaled(Linear()), posterior, offset, spectrum, 0.0, None)
    return pool, model, y_bar, noise_std


def in_eighty_digits(pool, model, y_bar, noise_std):
    """E and √Var of each total given the others, from Cov ȳ = UUᵀ/λ + diag(Σθ²)/β + diag(r²)."""
    sets, hyper = pool.sets, model.posterior.hyper
    with mpmath.workdps(80):
        real = mpmath.mpf
        lam, beta = real(hyper.prior_precision), real(hyper.noise_precision)
        offset, scale = real(float(model.offset[0])), real(float(model.posterior.output_scale[0]))
        u, s, centre = [], [], []
        for a in range(len(sets)):
            rows = range(sets.starts[a], sets.starts[a + 1])
            theta = [real(float(sets.theta[n])) for n in rows]
            x = [[*map(real, sets.x[n].tolist()), real(1)] for n in rows]
            u.append([sum(t * row[k] for t, row in zip(theta, x, strict=True)) for k in range(4)])
            s.append(sum(t**2 for t in theta))
            centre.append(sum(theta) * offset)
        t = len(u)
        cov = mpmath.matrix(t, t)
        for a in range(t):
            for b in range(t):
                cov[a, b] = scale**2 * sum(i * j for i, j in zip(u[a], u[b], strict=True)) / lam
            own = real(0) if noise_std is None else real(float(noise_std[a])) ** 2
            cov[a, a] += scale**2 * s[a] / beta + own
        mean, std = [], []
        for a in range(t):
            others = [b for b in range(t) if b != a]
            explained, shift = real(0), real(0)
            if others:
                inner = mpmath.matrix([[cov[b, c] for c in others] for b in others])
                cross = mpmath.matrix([cov[a, b] for b in others])
                pull = mpmath.lu_solve(inner, cross)
                left = [real(float(y_bar[b, 0])) - centre[b] for b in others]
                explained = sum(pull[i] * cross[i] for i in range(len(others)))
                shift = sum(pull[i] * left[i] for i in range(len(others)))
            mean.append(float(centre[a] + shift))
            std.append(float(mpmath.sqrt(cov[a, a] - explained)))
        return np.array(mean)[:, None], np.array(std)[:, None]


def close(got, wanted, y_bar, tolerance):
    (mean, std), (true_mean, true_std) = got, wanted
    assert_allclose(std, true_std, rtol=tolerance)
    room = tolerance * (true_std + abs(y_bar).max() + abs(true_mean))
    assert (abs(mean - true_mean) <= room).all(), (mean, true_mean)


@given(set_sizes, precisions, precisions, noise, st.booleans(), seeds)
def test_it_is_the_joint_gaussian_given_all_the_others(sizes, lam, beta, blur, collinear, seed):
    parts = problem(sizes, seed, lam, beta, blur=blur, collinear=collinear)
    pool, model, y_bar, noise_std = parts
    got = leave_one_out(model, pool.design, y_bar, noise_std)
    close(got, in_eighty_digits(*parts), y_bar, 1e-9)


@given(set_sizes, precisions, powers_of_ten, noise, seeds)
def test_it_is_so_in_any_unit(sizes, lam, unit, blur, seed):
    parts = problem(sizes, seed, lam, 2.0, unit=unit, blur=blur)
    pool, model, y_bar, noise_std = parts
    got = leave_one_out(model, pool.design, y_bar, noise_std)
    close(got, in_eighty_digits(*parts), y_bar, 1e-9)


@example([1, 1, 1], 20, True, 0)  # sets that say the same leave a direction made of rounding
@given(set_sizes, st.integers(3, 24), st.booleans(), seeds)
def test_it_is_so_where_there_is_next_to_no_noise(sizes, digits, collinear, seed):
    """Then 1 − leverage is all rounding for whoever is alone in a direction."""
    parts = problem(sizes, seed, 0.7, 10.0**digits, collinear=collinear)
    pool, model, y_bar, _ = parts
    close(leave_one_out(model, pool.design, y_bar), in_eighty_digits(*parts), y_bar, 1e-6)


@given(set_sizes, precisions, precisions, noise, seeds)
def test_it_is_a_fit_without_the_answer(sizes, lam, beta, blur, seed):
    pool, model, y_bar, noise_std = problem(sizes, seed, lam, beta, blur=blur)
    mean, std = leave_one_out(model, pool.design, y_bar, noise_std)
    scale, design = model.posterior.output_scale, pool.design
    if noise_std is not None:
        design = design.with_known_noise(noise_std / scale, beta)
    for a in range(len(sizes)):
        others = [b for b in range(len(sizes)) if b != a]
        rest = design.rows(others)
        inside = (y_bar[others] - rest.theta_sum[:, None] * model.offset) / scale
        spectrum = decompose(rest, inside.reshape(-1, 1))
        without = Model(
            model.basis, condition(spectrum, model.posterior.hyper, scale), model.offset,
            spectrum, 0.0, None,
        )  # fmt: skip
        expected = predict_sets(without, design.rows([a]), include_noise=True)
        assert_allclose([mean[a], std[a]], [expected[0][0], expected[1][0]], rtol=1e-8, atol=1e-8)


@settings(max_examples=at_most(20))
@given(st.integers(30, 200), st.sampled_from([1.0, 1e6, 1e15]), seeds)
def test_many_answers_of_which_one_is_alone_in_its_direction(t, beta, seed):
    """Everybody else has 0 in the first input: what is left for it is the prior."""
    rng = np.random.default_rng(seed)
    sets = random_sets([2] * t, rng)
    x = sets.x.copy()
    x[2:, 0] = 0.0
    pool = linear_pool(type(sets)(sets.ids, x, sets.theta, sets.starts))
    w = rng.normal(size=(4, 1))
    inside = pool.design.u @ w + rng.normal(size=(t, 1)) / np.sqrt(beta)
    hyper, spectrum = Hyperparameters(0.5, beta), decompose(pool.design, inside)
    model = Model(unscaled(Linear()), condition(spectrum, hyper), np.zeros(1), spectrum, 0.0, None)
    mean, std = leave_one_out(model, pool.design, inside)
    rest = pool.design.rows(slice(1, None))
    others = condition(decompose(rest, inside[1:]), hyper)
    u = pool.design.u[:1]
    assert_allclose(mean[0], u @ others.mean[:, 0], rtol=1e-7)
    variance = others.variance_along(u) + pool.design.noise_scale[:1] / beta
    assert_allclose(std[0], np.sqrt(variance), rtol=1e-9)
    assert std[0, 0] > abs(u[0, 0]) / np.sqrt(0.5) * (1 - 1e-9)


def test_one_answer_left_out_leaves_the_prior():
    pool, model, y_bar, _ = problem([3], 1, 0.7, 2.0)
    mean, std = leave_one_out(model, pool.design, y_bar)
    u, s = pool.design.u[0], pool.design.noise_scale[0]
    assert_allclose(mean[0, 0], 3.0 * pool.design.theta_sum[0])
    assert_allclose(std[0, 0], 2.0 * np.sqrt(u @ u / 0.7 + s / 2.0))


def test_no_answers_leave_nothing_out():
    pool, model, _, _ = problem([3, 2], 1, 0.7, 2.0)
    mean, std = leave_one_out(model, pool.design.rows([]), np.empty((0, 1)))
    assert mean.shape == std.shape == (0, 1)


def test_a_set_whose_features_cancel_is_predicted_by_its_offset():
    pool, model, _, _ = problem([1, 2, 2], 1, 0.7, 2.0)
    u = pool.design.u.copy()
    u[1] = 0.0
    design = type(pool.design)(u, pool.design.noise_scale, pool.design.theta_sum)
    mean, std = leave_one_out(model, design, np.array([[1.0], [2.0], [3.0]]))
    assert_allclose(mean[1, 0], 3.0 * design.theta_sum[1])
    assert_allclose(std[1, 0], 2.0 * np.sqrt(design.noise_scale[1] / 2.0))


def test_several_outputs_are_left_out_each_on_its_own():
    pool, one, y_bar, _ = problem([1, 2, 3, 2, 1, 4], 5, 0.7, 2.0)
    y = np.column_stack([y_bar, -2 * y_bar + 1])
    spectrum = decompose(pool.design, y)
    posterior = condition(spectrum, one.posterior.hyper, np.array([2.0, 5.0]))
    both = Model(one.basis, posterior, np.array([3.0, -1.0]), spectrum, 0.0, None)
    mean, std = leave_one_out(both, pool.design, y)
    first = leave_one_out(one, pool.design, y_bar)
    assert_allclose([mean[:, :1], std[:, :1]], first, rtol=1e-12)
    posterior = condition(one.spectrum, one.posterior.hyper, np.array([5.0]))
    other = Model(one.basis, posterior, np.array([-1.0]), one.spectrum, 0.0, None)
    second = leave_one_out(other, pool.design, y[:, 1:])
    assert_allclose([mean[:, 1:], std[:, 1:]], second, rtol=1e-12)


def test_a_committee_has_no_closed_form_and_says_so():
    pool, model, y_bar, _ = problem([1, 2], 5, 0.7, 2.0)
    members = committee(4, 2.0, np.ones(1))
    dropout = Model(model.basis, members, model.offset, None, None, None)
    with pytest.raises(SettingError, match="dropout network is a committee"):
        leave_one_out(dropout, pool.design, y_bar)


@given(st.integers(1, 400), st.floats(0, 1))
def test_binomial_intervals_are_those_of_clopper_and_pearson(n, share):
    from scipy.stats import binomtest

    inside = round(share * n)
    exact = binomtest(inside, n).proportion_ci(0.95, "exact")
    assert_allclose(binomial_interval(inside, n), (exact.low, exact.high), atol=1e-9)


def test_leaving_out_is_bounded_work(monkeypatch):
    """However many answers there are, no more are fitted anew than there are features."""
    fits = []

    def counted(rows, z, which, hyper):
        fits.append(len(which))
        return plain(rows, z, which, hyper)

    plain = leaving_out._refitted
    monkeypatch.setattr(leaving_out, "_refitted", counted)
    pool, model, y_bar, _ = problem([2] * 60, 3, 0.7, 1e18)
    leave_one_out(model, pool.design, y_bar)
    assert fits[0] <= 4
