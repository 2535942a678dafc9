"""The mixture of hypotheses against dense conditioning on all individuals, and t densities."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import optimize, special, stats
from scipy.linalg import solve_triangular

from sumwise.data.sets import Sets
from sumwise.model import mixture_algebra, mixture_weights, student_quantiles
from sumwise.model.basis.auto import Hypotheses
from sumwise.model.design import embed
from sumwise.model.mixture_algebra import SMALL, inverted
from sumwise.model.mixture_leave_one_out import interval, leave_one_out
from sumwise.model.student_quantiles import _to_normal, quantile
from tests import oracles
from tests.builders import random_sets, seeds, unscaled
from tests.marks import at_most, slow

GROUPS = [slice(0, 1), slice(1, 2), slice(2, 4), slice(4, 7), slice(7, 8)]
N_FEATURES = GROUPS[-1].stop
LIKENESS = 0.3  # expected intra-class correlation of outputs
ETA = 0.6  # power of the evidence by which hypotheses count
WALLACE = 5e-4  # error of a probability of t by its approximation


def features(x):
    """Two linear inputs, two groups of waves and a bias, written out."""
    turns = x @ np.array([[0.7, -1.1, 0.4, 2.0, -0.3], [0.2, 0.9, -1.5, 0.1, 1.2]])
    return np.column_stack([x, np.cos(turns), np.ones(len(x))])


def some_hypotheses(rng, n=5):
    variances = rng.gamma(0.7, size=(n, len(GROUPS))) * (rng.random((n, len(GROUPS))) < 0.8)
    variances[:, -1] = 1.0
    correlation = rng.beta(1, 2, n) * (rng.random(n) < 0.8)
    return Hypotheses(variances, rng.uniform(0.02, 1.0, n), correlation, np.ones((2, 1)))


class Case:
    """Random sets, totals and hypotheses; `seen` are measured, all have individuals."""

    def __init__(self, sizes, n_seen, seed, *, outputs=1, scale=1.0, collinear=False, known=False):
        rng = np.random.default_rng(seed)
        sets = random_sets(sizes, rng, n_inputs=2)
        if collinear:
            sets = Sets(sets.ids, np.repeat(sets.x[:, :1], 2, axis=1), sets.theta, sets.starts)
        self.sets, self.phi = sets, features(sets.x)
        self.seen = np.arange(min(n_seen, len(sets)))
        self.z = scale * rng.normal(size=(len(self.seen), outputs))
        self.noise_std = scale * rng.uniform(0.0, 2.0, len(self.seen)) if known else None
        self.hypotheses = some_hypotheses(rng)
        design = embed(sets, unscaled(features, 2))
        freedom = max(0.0, len(self.seen) - 1.0)
        rows = design.rows(self.seen)
        self.totals = mixture_algebra.Totals(
            rows, self.z, GROUPS, freedom, LIKENESS, self.noise_std
        )

    @property
    def fitted(self):
        return mixture_weights.fit(self.hypotheses, self.totals)

    def world(self, known, h, scale=1.0):
        """The Gaussian of all outputs under hypothesis h of `known`, in units of `scale`."""
        variances = np.repeat(known.variances[h], [at.stop - at.start for at in GROUPS])
        blur = np.zeros(len(self.sets))
        if self.noise_std is not None:
            blur[self.seen] = self.noise_std**2 / scale
        return oracles.world(
            self.sets, self.phi, variances, known.noise[h], known.correlation[h], blur
        )

    @property
    def own(self):
        """Σθ in common of all individuals with the measured totals, and of those of their set."""
        theta, effect = np.zeros((2, len(self.phi), len(self.seen)))
        for a in self.seen:
            inside = slice(self.sets.starts[a], self.sets.starts[a + 1])
            theta[inside, a] = self.sets.theta[inside]
            effect[inside, a] = self.sets.theta[inside].sum()
        return theta, effect

    @property
    def ones(self):
        return np.ones(len(self.phi)), np.ones(len(self.phi))


cases = given(
    st.lists(st.integers(1, 4), min_size=1, max_size=12),
    st.integers(0, 12),  # none, fewer and more totals than the eight features
    seeds,
    st.integers(1, 2),
    st.sampled_from([1e-9, 1.0, 1e9]),
    st.booleans(),
    st.booleans(),
)


def built(sizes, n_seen, seed, outputs, scale, collinear, known):
    outputs = 1 if known else outputs  # known noise is of one output
    return Case(
        sizes, n_seen, seed, outputs=outputs, scale=1.0 if known else scale,
        collinear=collinear, known=known,
    )  # fmt: skip


def close(got, expected, rtol=1e-6):
    expected = np.asarray(expected)
    assert_allclose(got, expected, rtol=rtol, atol=rtol * abs(expected).max(initial=1e-300))


def prior_scale(case):
    """s₀²: the variance of individuals that squared means of sets of this likeness suggest."""
    design = case.totals.design
    squares, shares = [], []
    for a, z in zip(case.seen, case.z, strict=True):
        theta = case.sets.theta[case.sets.starts[a] : case.sets.starts[a + 1]]
        size = max(theta.sum() ** 2, theta @ theta)
        squares.append(z**2 / size)
        alike = LIKENESS * theta.sum() ** 2 + (1 - LIKENESS) * theta @ theta
        shares.append(alike / size)
    assert len(design) == len(squares)
    apart = np.sum(squares, axis=0) / max(len(squares) - 1.0, 1.0)
    return apart / np.mean(shares)


# --- weights --------------------------------------------------------------------------------------


@settings(max_examples=at_most(60))
@cases
def test_probabilities_are_those_of_multivariate_t_densities(
    sizes, n_seen, seed, outputs, scale, collinear, known
):
    """Centred totals have t − 1 degrees of freedom, so t − 1 of the t dimensions' powers count.

    A t density of t dimensions is |C|^(−½) (ν s₀² + q)^(−(ν + t)/2); with ν one less than the
    prior's, the power is that of t − 1. Hypotheses count by these densities to the power η.
    """
    if known or min(n_seen, len(sizes)) < 2:
        return
    case = built(sizes, n_seen, seed, outputs, scale, collinear, known=False)
    got = case.fitted
    logs = np.zeros(len(case.hypotheses.noise))
    nu, s0 = mixture_weights.PRIOR_FREEDOM - 1, prior_scale(case)
    assert_allclose(case.totals.prior_scale, s0)
    for h in range(len(logs)):
        inside = case.world(case.hypotheses, h).totals[np.ix_(case.seen, case.seen)]
        for m, z in enumerate(case.z.T):
            shape = inside * s0[m] * mixture_weights.PRIOR_FREEDOM / nu
            logs[h] += stats.multivariate_t(shape=shape, df=nu).logpdf(z)
    chance = np.exp(logs - logs.max()) ** ETA
    chance /= chance.sum()
    kept = np.sort(mixture_weights.most_probable(chance, len(case.seen)))
    if len(kept) == len(got.probability):  # rounding may decide on the last
        close(got.probability, chance[kept] / chance[kept].sum())
    else:
        assert abs(len(kept) - len(got.probability)) == 1


@settings(max_examples=at_most(60))
@cases
def test_scales_are_the_prior_scale_and_the_misfit(
    sizes, n_seen, seed, outputs, scale, collinear, known
):
    case = built(sizes, n_seen, seed, outputs, scale, collinear, known=False)
    got = case.fitted
    s0 = prior_scale(case) if len(case.seen) else np.ones(outputs)
    nu = mixture_weights.PRIOR_FREEDOM + max(0.0, len(case.seen) - 1.0)
    assert got.freedom == nu
    for h in range(len(got.probability)):
        inside = case.world(got.hypotheses, h).totals[np.ix_(case.seen, case.seen)]
        misfit = [z @ np.linalg.solve(inside, z) for z in case.z.T]
        close(got.scale[h], (mixture_weights.PRIOR_FREEDOM * s0 + misfit) / nu)
        close(got.spread[h], (mixture_weights.PRIOR_FREEDOM * s0 + misfit) / (nu - 2))


def test_before_any_answer_all_hypotheses_are_alike():
    case = Case([2, 3], 0, 0)
    got = mixture_weights.fit(case.hypotheses, case.totals)
    assert_allclose(got.probability, 1 / 5)
    assert_allclose(got.scale, 1.0)
    assert not got.coefficients.any()


def test_the_grid_of_one_hypothesis_counts_by_its_evidence_and_hypotheses_with_caution():
    """Three points of one hypothesis and two of another, by hand."""
    logs = np.log([1.0, 2.0, 5.0, 1.0, 0.5])
    first, second = 8.0**ETA, 1.5**ETA
    expected = np.array([first / 8, first / 4, first * 5 / 8, second / 1.5, second / 3])
    got = mixture_weights.cautious(logs, np.array([3, 3, 3, 7, 7]))
    assert_allclose(got, expected / expected.sum(), rtol=1e-12)


def test_the_expected_likeness_is_that_of_drawn_outputs():
    """Two members of a set share the effect of their set, and 0.6 of what inputs explain."""
    hypotheses = some_hypotheses(np.random.default_rng(0), n=4)
    expected = []
    for noise, rho in zip(hypotheses.noise, hypotheses.correlation, strict=True):
        signal = (1 - noise) * np.array([[1.0, 0.6], [0.6, 1.0]])
        both = signal + noise * ((1 - rho) * np.eye(2) + rho * np.ones((2, 2)))
        expected.append(both[0, 1] / both[0, 0])
    assert_allclose(mixture_weights.likeness(hypotheses), np.mean(expected))


# --- predictions ----------------------------------------------------------------------------------


@settings(max_examples=at_most(80))
@cases
def test_individuals_are_those_of_dense_conditioning(
    sizes, n_seen, seed, outputs, scale, collinear, known
):
    """Members of measured sets, of one member too, and individuals of other sets."""
    case = built(sizes, n_seen, seed, outputs, scale, collinear, known)
    got = case.fitted
    mean, second = 0.0, 0.0
    for h, found, variance in got.components(case.phi, case.ones, case.own):
        dense = case.world(got.hypotheses, h, got.scale[h, 0])
        expected, spread = oracles.outputs_given(dense, case.seen, case.z)
        close(found, expected)
        within = np.diag(spread)
        assert_allclose(variance, within, rtol=1e-6, atol=1e-9 * np.diag(dense.outputs).max())
        each = within[:, None] * got.spread[h]
        mean = mean + got.probability[h] * expected
        second = second + got.probability[h] * (each + expected**2)
    average, variance = got.moments(case.phi, case.ones, case.own)
    close(average, mean)
    assert_allclose(variance, second - mean**2, rtol=1e-6, atol=1e-8 * second.max(initial=0.0))


@settings(max_examples=at_most(40))
@cases
def test_individuals_that_no_total_contains_are_those_of_dense_conditioning(
    sizes, n_seen, seed, outputs, scale, collinear, known
):
    """New ones, of no set that is measured; and other individuals of a measured set."""
    case = built(sizes, n_seen, seed, outputs, scale, collinear, known)
    got, x = case.fitted, np.array([[0.3, -1.0], [2.0, 0.5]])
    sets = case.sets
    theta = np.zeros((2, len(case.seen)))
    effect = theta.copy()
    x_all, thetas = [], []
    for a in range(len(sets)):
        inside = slice(sets.starts[a], sets.starts[a + 1])
        extra = a == 0 and len(case.seen) > 0  # the second row belongs to the first set
        x_all.append(np.vstack([sets.x[inside], x[1:]]) if extra else sets.x[inside])
        thetas.append(np.append(sets.theta[inside], 0.0) if extra else sets.theta[inside])
    x_all.append(x[:1])
    thetas.append(np.zeros(1))
    if len(case.seen):
        effect[1, 0] = sets.theta[sets.starts[0] : sets.starts[1]].sum()
    starts = np.cumsum([0, *map(len, thetas)])

    class Wider:  # sets that may have weights of 0
        def __len__(self):
            return len(thetas)

    wider = Wider()
    wider.theta, wider.starts = np.concatenate(thetas), starts
    rows = [len(wider.theta) - 1, starts[1] - 1]
    for h, found, variance in got.components(
        features(x), (np.ones(2), np.ones(2)), (theta, effect)
    ):
        variances = np.repeat(got.hypotheses.variances[h], [at.stop - at.start for at in GROUPS])
        blur = np.zeros(len(wider))
        if known:
            blur[case.seen] = case.noise_std**2 / got.scale[h, 0]
        noise = got.hypotheses.noise[h], got.hypotheses.correlation[h]
        dense = oracles.world(wider, features(np.vstack(x_all)), variances, *noise, blur)
        expected, spread = oracles.outputs_given(dense, case.seen, case.z)
        if not len(case.seen):
            rows = [len(wider.theta) - 1] * 2
            assert_allclose(variance[0], np.diag(spread)[rows[0]])
            continue
        close(found, expected[rows])
        assert_allclose(variance, np.diag(spread)[rows], rtol=1e-6)


@settings(max_examples=at_most(40))
@cases
def test_totals_of_sets_are_those_of_dense_conditioning(
    sizes, n_seen, seed, outputs, scale, collinear, known
):
    case = built(sizes, n_seen, seed, outputs, scale, collinear, known)
    got, design = case.fitted, embed(case.sets, unscaled(features, 2))
    own = np.zeros((2, len(design), len(case.seen)))
    for a in case.seen:
        own[0, a, a], own[1, a, a] = design.noise_scale[a], design.theta_sum[a] ** 2
    noise = design.noise_scale, design.theta_sum**2
    for h, found, variance in got.components(design.u, noise, (own[0], own[1])):
        dense = case.world(got.hypotheses, h, got.scale[h, 0])
        mean, spread = oracles.outputs_given(dense, case.seen, case.z)
        close(found, dense.sums @ mean)
        before = np.diag(dense.sums @ dense.outputs @ dense.sums.T)
        after = np.diag(dense.sums @ spread @ dense.sums.T)
        assert_allclose(variance, after, rtol=1e-6, atol=1e-9 * before.max())


@settings(max_examples=at_most(40))
@cases
def test_coefficients_and_their_covariance_are_those_of_dense_conditioning(
    sizes, n_seen, seed, outputs, scale, collinear, known
):
    """w is a linear function of outputs without noise: eight more rows whose features are I."""
    case = built(sizes, n_seen, seed, outputs, scale, collinear, known)
    got = case.fitted
    means, covariance = [], np.zeros((case.z.shape[1], N_FEATURES, N_FEATURES))
    for h, chance in enumerate(got.probability):
        dense = case.world(got.hypotheses, h, got.scale[h, 0])
        prior = np.diag(np.repeat(got.hypotheses.variances[h], [1, 1, 2, 3, 1]))
        cross = prior @ case.phi.T @ dense.sums[case.seen].T
        inside = np.linalg.inv(dense.totals[np.ix_(case.seen, case.seen)])
        means.append(cross @ inside @ case.z)
        covariance += chance * got.spread[h][:, None, None] * (prior - cross @ inside @ cross.T)
    mean = got.coefficients
    close(mean, means)
    middle = np.tensordot(got.probability, means, 1)
    for each, chance in zip(means, got.probability, strict=True):
        off = (each - middle).T
        covariance += chance * off[:, :, None] * off[:, None, :]
    close(got.covariance(mean), covariance)


@settings(max_examples=at_most(40))
@given(st.lists(st.integers(1, 4), min_size=9, max_size=14), seeds, st.booleans())
def test_both_forms_agree_to_rounding(sizes, seed, known):
    """From t×t matrices, and from K×K matrices once there are more totals than features."""
    case = Case(sizes, 99, seed, known=known)
    scale = np.ones(len(case.hypotheses.noise))
    root = np.sqrt(mixture_algebra.noise_of(case.hypotheses, case.totals, scale))
    primal = mixture_algebra.solve(case.hypotheses, case.totals, scale)
    dual = mixture_algebra.dual(case.hypotheses, case.totals, root, None)
    assert primal.roots is not None
    for name in ("log_det", "power", "weights", "own"):
        close(getattr(primal, name), getattr(dual, name), rtol=1e-8)


# --- leaving one out ------------------------------------------------------------------------------


@settings(max_examples=at_most(60))
@cases
def test_leaving_a_total_out_is_a_fit_of_the_same_hypotheses_without_it(
    sizes, n_seen, seed, outputs, scale, collinear, known
):
    """s₀² and the grid of s² stay what they are: they are part of the hypotheses.

    Under known noise, components are points of a grid of s² for each hypothesis, and what each
    point is worth before any total is what it counts for, divided by the density of all totals.
    """
    if min(n_seen, len(sizes)) < 3:
        return
    case = built(sizes, n_seen, seed, outputs, scale, collinear, known)
    got = case.fitted
    mean, variance = leave_one_out(got)
    (lower, upper), score = interval(got, 0.9)
    nu = mixture_weights.PRIOR_FREEDOM + len(case.seen) - 2.0
    prior = mixture_weights.PRIOR_FREEDOM * case.totals.prior_scale
    same = got.hypotheses.noise[:, None] == got.hypotheses.noise  # points of one hypothesis
    before = np.zeros(len(got.probability))
    if known:
        counts = same @ got.probability
        worth = got.probability / counts * counts ** (1 / ETA)
        before = np.log(worth) - log_density(case, got, case.seen, prior)
    for a in case.seen:
        others = np.delete(case.seen, a)
        logs = before + log_density(case, got, others, prior)
        worth = np.exp(logs - logs.max())
        evidence = same @ worth
        chance = worth / evidence * evidence**ETA
        chance /= chance.sum()
        first = second = 0.0
        below = np.zeros(3)  # the ends of the interval, and the total itself
        for h, share in enumerate(chance):
            dense = case.world(got.hypotheses, h, got.scale[h, 0])
            inside, cross = dense.totals[np.ix_(others, others)], dense.totals[a, others]
            middle = cross @ np.linalg.solve(inside, case.z[others])
            scale = got.scale[h]
            if not known:
                misfit = [z @ np.linalg.solve(inside, z) for z in case.z[others].T]
                scale = (prior + misfit) / (nu - 2)
            within = dense.totals[a, a] - cross @ np.linalg.solve(inside, cross)
            first = first + share * middle
            second = second + share * (scale * within + middle**2)
            away = np.array([lower[a], upper[a], case.z[a, 0]]) - middle[0]
            spread = scale[0] * within * (1 if known else (nu - 2) / nu)
            exact = stats.norm() if known else stats.t(nu)
            below += share * exact.cdf(away / np.sqrt(spread))
        close(mean[a], first, rtol=1e-5)
        close(variance[a], second - first**2, rtol=1e-5)
        near = 1e-4 + (0 if known else WALLACE)
        assert abs(below[0] - 0.05) < near
        assert abs(below[1] - 0.95) < near
        assert abs(stats.norm.cdf(score[a]) - below[2]) < near


def log_density(case, got, seen, prior):
    """log p of the centred totals `seen` under each hypothesis, with one degree of freedom less."""
    logs = np.empty(len(got.probability))
    for h in range(len(logs)):
        inside = case.world(got.hypotheses, h, got.scale[h, 0]).totals[np.ix_(seen, seen)]
        log_det = np.linalg.slogdet(inside)[1]
        misfit = np.array([z @ np.linalg.solve(inside, z) for z in case.z[seen].T])
        freedom = len(seen) - 1.0
        if case.noise_std is None:
            power = mixture_weights.PRIOR_FREEDOM + freedom
            logs[h] = -0.5 * (len(misfit) * log_det + power * np.log(prior + misfit).sum())
        else:
            scale = got.scale[h, 0]
            logs[h] = -0.5 * (log_det + freedom * np.log(scale) + misfit[0] / scale)
    return logs


def test_one_total_less_than_two_weighs_no_hypotheses():
    case = Case([2, 3], 2, 0)
    got = case.fitted
    mean, _ = leave_one_out(got)
    middles = got.totals.z - got.solved.weights / got.solved.own[:, :, None]
    assert_allclose(mean, middles.mean(axis=0))


# --- known noise ----------------------------------------------------------------------------------


def by_brute_force(case, phi, own, seen):
    """Mean and variance over a fine grid of log s², with the prior of s² written out.

    The evidence of a hypothesis is the sum over its grid. It counts by its power η.
    """
    s0, nu = case.totals.prior_scale[0], mixture_weights.PRIOR_FREEDOM
    grid = np.arange(-16.0, 9.0, 0.02 if len(seen) > 20 else 0.05)
    before = stats.invgamma(nu / 2, scale=nu * s0 / 2).logpdf(np.exp(grid)) + grid
    logs, means, seconds = [], [], []
    theta, effect = (part[:, seen] for part in own)
    z, blur = case.z[seen, 0], np.diag(case.noise_std[seen] ** 2)
    for h in range(len(case.hypotheses.noise)):
        sharp = case.world(case.hypotheses, h, math.inf).totals[np.ix_(seen, seen)]
        for log_scale, of_scale in zip(grid, before, strict=True):
            scale = math.exp(log_scale)
            inside = scale * sharp + blur
            misfit = z @ np.linalg.solve(inside, z)
            # one of the t dimensions went into the offset: its power of s is not counted
            value = -0.5 * (np.linalg.slogdet(inside)[1] - log_scale + misfit)
            logs.append(value + of_scale)
            prior = np.repeat(case.hypotheses.variances[h], [1, 1, 2, 3, 1])
            noise, rho = case.hypotheses.noise[h], case.hypotheses.correlation[h]
            cross = phi @ (prior[:, None] * case.totals.design.u[seen].T)
            cross = scale * (cross + noise * ((1 - rho) * theta + rho * effect))
            pull = np.linalg.solve(inside, cross.T).T
            means.append(pull @ z)
            within = scale * (phi**2 @ prior + noise) - np.einsum("nt,nt->n", pull, cross)
            seconds.append(within + means[-1] ** 2)
    density = np.exp(np.array(logs) - max(logs)).reshape(-1, len(grid))
    evidence = density.sum(axis=1, keepdims=True)
    chance = (density / evidence * evidence**ETA).ravel()
    chance /= chance.sum()
    mean = chance @ np.array(means)
    return mean, chance @ np.array(seconds) - mean**2


@pytest.mark.parametrize("n_seen", [2, 5, 30])
@pytest.mark.parametrize("blur", [0.5, *slow(1e-3, 5.0)])
def test_the_scale_is_integrated_under_known_noise(n_seen, blur):
    """Not frozen at a maximum, and found wherever many totals say it is."""
    rng = np.random.default_rng(n_seen)
    case = Case(rng.integers(1, 5, n_seen + 2).tolist(), n_seen, 3, scale=0.7)
    noise_std = blur * rng.uniform(0.5, 1.5, n_seen)
    case.noise_std, case.totals = noise_std, replace(case.totals, noise_std=noise_std)
    mean, variance = by_brute_force(case, case.phi, case.own, case.seen)
    got = case.fitted.moments(case.phi, case.ones, case.own)
    spread = np.sqrt(variance.max())
    assert_allclose(got[0][:, 0], mean, rtol=0.01, atol=0.01 * spread)
    assert_allclose(got[1][:, 0], variance, rtol=0.06, atol=1e-3 * variance.max())


@pytest.mark.parametrize("blur", [0.5, *slow(1e-3, 5.0)])
def test_leaving_a_total_out_under_known_noise_integrates_the_scale_without_it(blur):
    """Predicted as if it were the total of a set that was never measured."""
    n_seen, rng = 7, np.random.default_rng(4)
    case = Case(rng.integers(1, 5, n_seen).tolist(), n_seen, 3, scale=0.7)
    noise_std = blur * rng.uniform(0.5, 1.5, n_seen)
    case.noise_std, case.totals = noise_std, replace(case.totals, noise_std=noise_std)
    mean, variance = leave_one_out(case.fitted)
    for a in (0, 3, 6):
        expected, spread = left_out_by_brute_force(case, a)
        assert_allclose(mean[a, 0], expected, rtol=0.01, atol=0.01 * math.sqrt(spread))
        assert_allclose(variance[a, 0], spread, rtol=0.06)


def left_out_by_brute_force(case, a):
    """Mean and variance of total a given the others, over a fine grid of log s²."""
    s0, nu, others = (
        case.totals.prior_scale[0],
        mixture_weights.PRIOR_FREEDOM,
        np.delete(case.seen, a),
    )
    z, blur = case.z[others, 0], np.diag(case.noise_std**2)
    grid = np.arange(-16.0, 9.0, 0.1)
    before = stats.invgamma(nu / 2, scale=nu * s0 / 2).logpdf(np.exp(grid)) + grid
    logs, means, within = np.empty((3, len(case.hypotheses.noise), len(grid)))
    for h in range(len(logs)):
        sharp = case.world(case.hypotheses, h, math.inf).totals
        for i, log_scale in enumerate(grid):
            joint = math.exp(log_scale) * sharp + blur
            inside, cross = joint[np.ix_(others, others)], joint[a, others]
            density = stats.multivariate_normal(cov=inside).logpdf(z)
            logs[h, i] = density + log_scale / 2 + before[i]  # t − 1 of t dimensions count
            means[h, i] = cross @ np.linalg.solve(inside, z)
            within[h, i] = joint[a, a] - cross @ np.linalg.solve(inside, cross)
    density = np.exp(logs - logs.max())
    evidence = density.sum(axis=1, keepdims=True)
    chance = density / evidence * evidence**ETA
    chance /= chance.sum()
    mean = (chance * means).sum()
    return mean, (chance * (within + (means - mean) ** 2)).sum()


@pytest.mark.parametrize("n_seen", [2, 12, 60])
def test_known_noise_of_next_to_nothing_changes_next_to_nothing(n_seen):
    case = Case([3] * (n_seen + 1), n_seen, 5)
    without = case.fitted.moments(case.phi, case.ones, case.own)
    tiny = replace(case.totals, noise_std=np.full(n_seen, 1e-9))
    known = mixture_weights.fit(case.hypotheses, tiny).moments(case.phi, case.ones, case.own)
    spread = np.sqrt(without[1].max())
    assert_allclose(known[0], without[0], rtol=0.01, atol=0.01 * spread)
    assert_allclose(known[1], without[1], rtol=0.1, atol=1e-3 * without[1].max())


# --- quantiles ------------------------------------------------------------------------------------


@pytest.mark.parametrize("freedom", [4.0, 5.0, 8.0, 30.0, math.inf])
def test_quantiles_of_one_component_err_as_little_as_is_said(freedom):
    """In probability: what lies below the quantile that is found, by the exact distribution."""
    exact = stats.norm() if freedom == math.inf else stats.t(freedom)
    one = np.ones(1)
    errors = [
        abs(exact.cdf(quantile(one, np.zeros((1, 1)), np.ones((1, 1)), freedom, p)[0]) - p)
        for p in np.linspace(0.005, 0.995, 199)
    ]
    assert max(errors) < (1e-12 if freedom == math.inf else WALLACE)


@settings(max_examples=at_most(60))
@given(
    seeds,
    st.sampled_from([4.0, 5.0, 8.0, 30.0, math.inf]),
    st.sampled_from([0.025, 0.05, 0.5, 0.9, 0.975]),
    st.sampled_from([0.1, 1.0, 3.0]),
)
def test_quantiles_of_mixtures_are_roots_of_exact_distributions(seed, freedom, share, apart):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 60))
    probability = rng.dirichlet(np.full(k, 0.3))
    mean, std = 3 * apart * rng.normal(size=k), np.exp(apart * rng.normal(size=k))
    got = quantile(probability, mean[:, None], std[:, None], freedom, share)[0]
    exact = stats.norm() if freedom == math.inf else stats.t(freedom)

    def below(y):
        return float(probability @ exact.cdf((y - mean) / std)) - share

    assert abs(below(got)) < (2e-6 if freedom == math.inf else WALLACE + 2e-6)
    reach = 40 * std.max() + abs(mean).max()
    root = optimize.brentq(below, -reach, reach, xtol=1e-12)
    inside = optimize.brentq(lambda y: below(y) + WALLACE + 2e-6, -2 * reach, 2 * reach)
    outside = optimize.brentq(lambda y: below(y) - WALLACE - 2e-6, -2 * reach, 2 * reach)
    assert inside - 1e-9 <= got <= outside + 1e-9
    assert inside <= root <= outside


@pytest.mark.parametrize("freedom", [5.0, math.inf])
def test_quantiles_far_out_err_by_little_of_their_tail(freedom):
    """By the sum itself, for mixtures with a narrow component among wide ones."""
    rng, k, n = np.random.default_rng(0), 40, 3000
    probability, mean = rng.dirichlet(np.ones(k)), rng.normal(size=(k, n))
    std = np.exp(rng.normal(size=(k, n)))
    std[0] = 1e-3
    for share in (1e-7, 1e-3, 0.3, 0.999):
        got = quantile(probability, mean, std, freedom, share)
        below = probability @ special.ndtr(_to_normal((got - mean) / std, freedom)[0])
        assert_allclose(below, share, rtol=0, atol=1e-5 * min(share, 1 - share))


def test_most_quantiles_need_two_looks_at_all_components(monkeypatch):
    looked, original = [], student_quantiles._step

    def step(mixed, away, *rest):
        looked.append(away.shape[1])
        return original(mixed, away, *rest)

    monkeypatch.setattr(student_quantiles, "_step", step)
    rng, n = np.random.default_rng(0), 1000
    mean, std = 0.3 * rng.normal(size=(50, n)), rng.uniform(0.5, 1.0, (50, n))
    quantile(np.full(50, 0.02), mean, std, 12.0, 0.05)
    assert sum(looked) < 2.2 * n


def test_quantiles_are_those_of_draws():
    """200,000 draws: the share below a quantile errs by 5e-4 to 1.1e-3 (one standard error)."""
    rng = np.random.default_rng(0)
    probability, mean = np.array([0.5, 0.3, 0.2]), np.array([0.0, 4.0, -1.0])
    std, freedom, n = np.array([1.0, 0.3, 3.0]), 6.0, 200_000
    which = rng.choice(3, n, p=probability)
    drawn = mean[which] + std[which] * rng.standard_t(freedom, n)
    for p in (0.05, 0.5, 0.95):
        got = quantile(probability, mean[:, None], std[:, None], freedom, p)[0]
        assert abs((drawn < got).mean() - p) < WALLACE + 4 * math.sqrt(p * (1 - p) / n)


def test_quantiles_of_what_is_known_for_certain_are_that():
    probability = np.array([0.4, 0.6])
    mean, std = np.full((2, 3), [20.0, -1e9, 0.0]), np.zeros((2, 3))
    for p in (0.05, 0.95):
        got = quantile(probability, mean, std, 7.0, p)
        assert_allclose(got, mean[0], rtol=1e-12, atol=1e-290)


@pytest.mark.parametrize("n", [1, SMALL, SMALL + 1, 97, 130])
def test_triangular_matrices_are_inverted_by_halves(n):
    rng = np.random.default_rng(n)
    rows = rng.normal(size=(3, n, 2 * n)) * np.exp(rng.normal(size=(3, n, 1)))
    lower = np.linalg.cholesky(rows @ rows.transpose(0, 2, 1))
    found = inverted(lower.copy())
    for one, own in zip(lower, found, strict=True):
        exact = solve_triangular(one, np.eye(n), lower=True)
        assert_allclose(own, exact, rtol=1e-9, atol=1e-12 * abs(exact).max())
