"""Candidates of basis="auto" against densities of the joint Gaussian, summed over the grid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.data.sets import Sets
from sumwise.data.targets import Inputs
from sumwise.learning import summary
from sumwise.model import averaging, evidence
from sumwise.model.basis import Auto
from sumwise.model.basis.auto import CANDIDATES, PARTS, POWER, VARIANCES
from sumwise.model.design import embed
from sumwise.model.evidence import WeakPrior
from sumwise.model.leave_one_out import leave_one_out
from sumwise.model.posterior import Hyperparameters, decompose
from tests import oracles
from tests.builders import plain, precisions, random_sets, seeds, totals, unscaled

few_sizes = st.lists(st.integers(1, 4), min_size=1, max_size=6)


def drawn(sets, n_basis=8, seed=0):
    plain = {"shift": np.zeros(sets.n_inputs), "scale": np.ones(sets.n_inputs)}
    inputs = replace(Inputs.of(sets.x), **plain)
    return Auto.draw(inputs, n_basis, 1.0, np.random.default_rng(seed))


def alike(basis, variances):
    """Amplitudes where all inputs matter alike."""
    return basis.amplitude(variances, np.ones(basis.frequencies.shape[1]))


def dense(basis, variances, sets, z, prior):
    """log ∫∫ and the means of log λ and log β, from densities of the joint Gaussian."""
    phi = basis(sets.x) * alike(basis, variances)
    steps = np.arange(-8.0, 8.01, 0.4)
    logs, points = [], []
    for noise in steps + prior.log_noise_precision:
        for ratio in steps + prior.log_prior_precision - prior.log_noise_precision:
            model = oracles.joint(sets, phi, np.exp(noise + ratio), np.exp(noise))
            value = oracles.log_density(model, np.arange(len(sets)), z)
            away = noise + ratio - prior.log_prior_precision, noise - prior.log_noise_precision
            logs.append(value - 0.5 * (away[0] ** 2 + away[1] ** 2) / prior.std**2)
            points.append((noise + ratio, noise))
    mass = np.exp(np.array(logs) - max(logs))
    return max(logs) + np.log(mass.sum() * 0.4**2), mass @ np.array(points) / mass.sum()


@settings(max_examples=6)
@given(few_sizes, seeds)
def test_evidence_is_the_integral_of_the_joint_gaussian(sizes, seed):
    rng = np.random.default_rng(seed)
    sets = random_sets(sizes, rng, n_inputs=2)
    z, basis = rng.normal(size=len(sets)), drawn(sets)
    prior = WeakPrior(rng.normal(), rng.normal(), 2.0)
    one, other = rng.choice(len(CANDIDATES), 2, replace=False)
    args = (basis, embed(sets, unscaled(basis, 2)), z[:, None], prior)
    got = averaging.log_evidences(*args, None)
    expected = [dense(basis, VARIANCES[c], sets, z, prior) for c in (one, other)]
    assert got[one] - got[other] == pytest.approx(expected[0][0] - expected[1][0], abs=1e-4)
    phi = unscaled(lambda x: basis(x) * alike(basis, VARIANCES[one]), 2)
    typical = evidence.means(decompose(embed(sets, phi), z[:, None]), prior)
    means = np.log([typical.prior_precision, typical.noise_precision])
    assert_allclose(means, expected[0][1], atol=2e-3)


@given(few_sizes, seeds, precisions, precisions)
def test_given_precisions_are_not_integrated(sizes, seed, lam, beta):
    rng = np.random.default_rng(seed)
    sets = random_sets(sizes, rng, n_inputs=2)
    z, basis = rng.normal(size=len(sets)), drawn(sets)
    design, prior = embed(sets, unscaled(basis, 2)), WeakPrior(0.0, 0.0, 2.0)
    fixed = Hyperparameters(lam, beta)
    got = averaging.choose(basis, plain(design, z[:, None]), prior, fixed)
    logs = []
    for variances in VARIANCES:
        model = oracles.joint(sets, basis(sets.x) * alike(basis, variances), lam, beta)
        logs.append(oracles.log_density(model, np.arange(len(sets)), z))
    likely = np.exp(np.array(logs) - max(logs))
    assert_allclose(got.probability, likely / likely.sum(), rtol=1e-5, atol=1e-9)
    assert_allclose(got.variances, likely / likely.sum() @ VARIANCES, rtol=1e-5, atol=1e-9)


def test_more_labels_than_features_give_the_same_evidence():
    rng = np.random.default_rng(1)
    sets = random_sets(rng.integers(1, 4, 40).tolist(), rng, n_inputs=2)
    basis, prior = drawn(sets, 4), WeakPrior(0.3, 1.0, 2.0)
    z = rng.normal(size=len(sets))
    args = (basis, embed(sets, unscaled(basis, 2)), z[:, None], prior)
    got = averaging.log_evidences(*args, None)
    pair = [dense(basis, VARIANCES[c], sets, z, prior)[0] for c in (2, 15)]
    assert got[2] - got[15] == pytest.approx(pair[0] - pair[1], abs=1e-2)


@pytest.mark.parametrize("n", [1, 10, 1000, 100_000])
def test_the_grid_zooms_in_on_what_many_labels_leave(n):
    """n labels of pure noise: the evidence is a Gamma density in β, whose logarithm has a mean."""
    rng = np.random.default_rng(n)
    power = float((rng.normal(size=n) ** 2).sum())
    terms = evidence.Terms(np.zeros(1), np.array([power]), np.array([float(n)]))
    wide = WeakPrior(0.0, 0.0, 2.0)
    value, log_prior, log_noise = evidence.integrate(terms, wide)
    fine = np.linspace(-8, 8, 4_000_001)
    logs = 0.5 * (n * fine - power * np.exp(fine)) - 0.5 * fine**2 / 4
    mass = np.exp(logs - logs.max())
    of_prior = np.log(np.sqrt(2 * np.pi) * 2)  # λ is as before: only its prior is integrated
    expected = logs.max() + np.log(mass.sum() * (fine[1] - fine[0])) + of_prior
    assert value == pytest.approx(expected, abs=2e-3)
    assert log_noise == pytest.approx(float(mass @ fine / mass.sum()), abs=2e-3)
    assert log_prior == pytest.approx(0.0, abs=0.02)


def test_nothing_measured_leaves_all_candidates_alike():
    sets = random_sets([2, 3], np.random.default_rng(0))
    model = sw.AggregateRegressor("auto").fit(sets[:0], [], pool=sets).fitted()
    assert_allclose(model.choice.probability, 1 / len(CANDIDATES))
    assert model.choice.variances.sum() == pytest.approx(POWER)


def test_every_part_has_the_same_power_over_individuals():
    sets = random_sets([5] * 30, np.random.default_rng(0), n_inputs=4)
    basis = drawn(sets, 32)
    power = (basis(sets.x) ** 2).mean(axis=0)
    assert len(basis.columns) == len(PARTS)
    assert [power[at].sum() for at in basis.columns] == pytest.approx([1.0] * len(PARTS))
    assert basis.columns[-1].stop == 2 * 4 + 6 * 16 + 1
    assert_allclose(basis(sets.x[3:4]), basis(sets.x)[3:4], rtol=1e-12, atol=1e-12)


# --- relevances -----------------------------------------------------------------------------------


def moved(basis, sets, z, variances, relevance, lam, beta):
    """One step of expectation and maximisation, from moments of w in the joint Gaussian."""
    n_inputs = len(relevance)
    amplitude = basis.amplitude(variances, relevance)
    phi = basis(sets.x) * amplitude
    sums = oracles.joint(sets, phi, lam, beta).sums
    cross = (sums @ phi).T / lam  # of w' and the totals
    inside = np.linalg.inv(oracles.total_covariance(oracles.joint(sets, phi, lam, beta)))
    covariance = np.eye(len(amplitude)) / lam - cross @ inside @ cross.T
    out = np.zeros(n_inputs)
    for d in range(n_inputs):
        for scaling, share in enumerate(variances[:2]):
            k = scaling * n_inputs + d
            square = np.mean([(cross[k] @ inside @ each) ** 2 for each in z.T])
            out[d] += relevance[d] * share * lam * (square + covariance[k, k])
    return out / out.mean()


def relevances(basis, sets, z, variances, fixed):
    design, prior = embed(sets, unscaled(basis, sets.n_inputs)), WeakPrior(0.0, 0.0, 2.0)
    return averaging.relevances(basis, design, z, variances, prior, fixed)


@given(few_sizes, seeds, precisions, precisions, st.integers(1, 3), st.integers(2, 4))
def test_relevances_are_moments_of_the_joint_gaussian(sizes, seed, lam, beta, outputs, n_inputs):
    rng = np.random.default_rng(seed)
    sets = random_sets(sizes, rng, n_inputs=n_inputs)
    z, basis = rng.normal(size=(len(sets), outputs)), drawn(sets)
    variances = rng.dirichlet(np.ones(len(CANDIDATES))) @ VARIANCES
    expected = np.ones(n_inputs)
    for _ in range(averaging.RELEVANCE_STEPS):
        expected = moved(basis, sets, z, variances, expected, lam, beta)
    got = relevances(basis, sets, z, variances, Hyperparameters(lam, beta))
    assert_allclose(got, expected, rtol=1e-6)
    assert got.mean() == pytest.approx(1.0)


@given(few_sizes, seeds)
def test_inputs_that_are_the_same_are_equally_relevant(sizes, seed):
    rng = np.random.default_rng(seed)
    sets = random_sets(sizes, rng, n_inputs=3)
    same = replace(sets, x=sets.x[:, [0, 1, 1, 2]])
    z, basis = rng.normal(size=(len(sets), 1)), drawn(same)
    basis = replace(basis, frequencies=basis.frequencies[:, [0, 1, 1, 3]])  # for waves too
    got = relevances(basis, same, z, VARIANCES.mean(axis=0), None)
    assert got[1] == pytest.approx(got[2], rel=1e-6)
    assert got.mean() == pytest.approx(1.0)


def test_inputs_are_alike_before_any_answer_and_where_nothing_is_linear():
    rng = np.random.default_rng(0)
    sets = random_sets([2, 3, 1], rng)
    basis, fixed = drawn(sets), Hyperparameters(1.0, 1.0)
    average = VARIANCES.mean(axis=0)
    assert_allclose(relevances(basis, sets[:0], np.empty((0, 1)), average, fixed), 1.0, rtol=0)
    waves = VARIANCES[[c.linear == 0 for c in CANDIDATES]][0]
    assert_allclose(relevances(basis, sets, np.ones((3, 1)), waves, fixed), 1.0, rtol=0)


def test_an_input_that_explains_the_totals_is_relevant_and_a_constant_one_says_nothing():
    rng = np.random.default_rng(0)
    sets = random_sets([2] * 40, rng, n_inputs=5)
    sets = replace(sets, x=np.column_stack([sets.x[:, :4], np.ones(len(sets.x))]))
    got = fitted(sets, 3 * sets.x[:, 2] + 0.01 * rng.normal(size=len(sets.x)), 40).fitted()
    relevance = got.choice.relevance
    assert relevance[2] > 10 * relevance[[0, 1, 3]].max()
    assert np.isfinite(relevance).all()


@pytest.mark.parametrize("precisions", [(1e-10, 1e10), (1e-90, 1e90), (1e90, 1e-90)])
@pytest.mark.parametrize("n", [1, 30, 60])
def test_rounding_makes_no_relevance_negative(precisions, n):
    """Totals of 0 with next to no noise leave 1 − 1 of a second moment."""
    sets, _ = thirty()
    model = fitted(sets, np.zeros(len(sets.x)), n, hyperparameters=precisions)
    assert (model.fitted().choice.relevance >= 0).all()
    assert np.isfinite(model.predict(sets.x)).all()


# --- what it chooses ------------------------------------------------------------------------------


def fitted(sets, y, n, **options):
    model = sw.AggregateRegressor("auto", **options)
    return model.fit(sets[:n], totals(sets, y)[:n], pool=sets)


def thirty(n_inputs=3, seed=0):
    rng = np.random.default_rng(seed)
    sets = Sets.from_arrays([rng.normal(size=(n, n_inputs)) for n in rng.integers(1, 6, 60)])
    return sets, rng


def test_a_linear_truth_is_found_linear_and_a_wave_is_not():
    sets, rng = thirty()
    noise = 0.05 * rng.normal(size=len(sets.x))
    linear = fitted(sets, 3 * sets.x[:, 0] - sets.x[:, 2] + noise, 40).fitted().choice
    assert linear.linear > 0.9
    wave = fitted(sets, np.sin(2 * sets.x[:, 0]) + noise, 60).fitted().choice
    assert wave.linear < 0.3
    assert wave.of_lengthscale(0.5) > 0.5


def test_far_points_are_drawn_in_where_that_explains_the_totals():
    rng = np.random.default_rng(2)
    sets = Sets.from_arrays([rng.standard_t(1.5, size=(n, 2)) for n in rng.integers(1, 4, 80)])
    y = np.tanh(sets.x[:, 0]) + np.tanh(sets.x[:, 1])
    choice = fitted(sets, y, 60).fitted().choice
    assert choice.of_scaling("squash") > 0.9
    straight = fitted(sets, sets.x[:, 0] + sets.x[:, 1], 60).fitted().choice
    assert straight.of_scaling("range") > 0.9


def test_it_predicts_better_than_the_fixed_basis_where_the_truth_is_linear():
    sets, rng = thirty(6)
    y = 100 + sets.x @ np.arange(1.0, 7.0) + 0.1 * rng.normal(size=len(sets.x))
    auto = fitted(sets, y, 15).predict(sets.x)
    fixed = sw.AggregateRegressor("fourier").fit(sets[:15], totals(sets, y)[:15], pool=sets)
    assert np.mean((auto - y) ** 2) < 0.25 * np.mean((fixed.predict(sets.x) - y) ** 2)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e15])
def test_units_of_inputs_and_outputs_do_not_matter(unit):
    sets, _ = thirty()
    y = sets.x[:, 0] + np.sin(3 * sets.x[:, 1])
    before, std = fitted(sets, y, 20).predict(sets.x, return_std=True)
    other = Sets(sets.ids, 7 * unit + unit * sets.x, sets.theta, sets.starts)
    mean, after = fitted(other, unit * (5 + y), 20).predict(other.x, return_std=True)
    assert_allclose(mean - 5 * unit, unit * before, rtol=1e-3, atol=1e-3 * unit * abs(before).max())
    assert_allclose(after, unit * std, rtol=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"hyperparameters": "adam"},
        {"hyperparameters": (1.0, 10.0)},
        {"evidence_prior": False},
        {"standardize": False},
        {"n_basis": 1},
        {"n_basis": 3},
    ],
)
@pytest.mark.parametrize("n", [0, 1, 2, 25])
def test_no_settings_and_no_number_of_labels_are_refused(options, n):
    sets, _ = thirty(1)
    model = fitted(sets, 2 + sets.x[:, 0], n, **options)
    mean, std = model.predict(sets.x, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((12, 2)),
        np.repeat(np.arange(12.0)[:, None], 3, axis=1),
        np.full((12, 1), 1e300) * np.linspace(-1, 1, 12)[:, None],
        np.append(np.zeros((11, 1)), [[1.0]], axis=0),
        1e-200 * np.arange(24.0).reshape(12, 2),
    ],
    ids=["constant", "collinear", "huge", "one differs", "tiny"],
)
def test_no_data_is_refused(x):
    sets = Sets.from_arrays([x[i : i + 2] for i in range(0, 12, 2)])
    for y_bar in ([0.0] * 4, [5.0] * 4, [1.0, -2.0, 3e8, 0.0], [1e-150, 2e-150, 0.0, 1e-150]):
        model = sw.AggregateRegressor("auto").fit(sets[:4], y_bar, pool=sets)
        assert np.isfinite(model.predict(x)).all()
        assert np.isfinite(sw.score(sets, model, "IVR")).all()


def test_several_outputs_choose_together():
    sets, _ = thirty()
    y = np.stack([totals(sets, sets.x[:, 0]), totals(sets, 2 * sets.x[:, 1])], axis=1)
    model = sw.AggregateRegressor("auto").fit(sets[:30], y[:30], pool=sets)
    assert model.fitted().choice.linear > 0.9
    assert model.predict(sets.x).shape == (len(sets.x), 2)


def test_answers_that_are_known_to_be_blurred_do_not_choose():
    """With noise as large as the totals, candidates stay about as likely as they were."""
    sets, _ = thirty()
    y_bar = totals(sets, 3 * sets.x[:, 0])[:, None]
    basis, prior = drawn(sets, 64), WeakPrior(0.0, 2.0, 1.0)
    design = embed(sets, unscaled(basis))
    for noise, least, most in ((1e-6, 0.0, 2.0), (1e6, 2.98, 3.0)):
        blur = np.full(len(sets), noise)
        got = averaging.choose(basis, plain(design, y_bar, blur), prior, None)
        entropy = -float(got.probability @ np.log(np.maximum(got.probability, 1e-300)))
        assert least <= entropy <= most
    by_hand = design.with_known_noise(blur, np.exp(2.0))
    again = averaging.choose(basis, plain(by_hand, y_bar), prior, None)
    assert_allclose(got.probability, again.probability)


def test_leaving_an_answer_out_is_a_fit_without_it_under_the_same_prior():
    sets, rng = thirty()
    y_bar = totals(sets, sets.x[:, 0] + rng.normal(size=len(sets.x)))[:12]
    model = sw.AggregateRegressor("auto").fit(sets[:12], y_bar, pool=sets).fitted()
    design = embed(sets[:12], model.basis)
    mean, std = leave_one_out(model, design, y_bar[:, None])
    posterior, scale = model.posterior, float(model.posterior.output_scale[0])
    phi = model.basis(sets[:12].x) * posterior.amplitude
    hyper = posterior.hyper
    dense = oracles.joint(sets[:12], phi, hyper.prior_precision, hyper.noise_precision)
    covariance = oracles.total_covariance(dense)
    left = (y_bar - design.theta_sum * model.offset[0]) / scale
    for a in range(12):
        others = [b for b in range(12) if b != a]
        pull = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, a])
        expected = design.theta_sum[a] * model.offset[0] + scale * (pull @ left[others])
        spread = scale * np.sqrt(covariance[a, a] - pull @ covariance[others, a])
        assert mean[a, 0] == pytest.approx(expected, rel=1e-6, abs=1e-9)
        assert std[a, 0] == pytest.approx(spread, rel=1e-6)


def test_the_choice_is_told_in_words():
    sets, _ = thirty()
    words = fitted(sets, 3 * sets.x[:, 0], 30).summary()
    assert "Linear in the inputs: 100 %" in words
    assert "Most likely is a linear model of" in words
    assert "Log evidence of 30 answers" in words
    assert "all alike before any answer" in fitted(sets, sets.x[:, 0], 0).summary()
    plain = sw.AggregateRegressor("fourier").fit(sets[:3], [1.0, 2.0, 3.0])
    assert plain.summary().startswith("Basis: RandomFourierFeatures, fixed")


def inputs_line(model):
    return [line for line in model.summary().splitlines() if "The linear part rests on" in line]


def test_the_inputs_that_a_linear_part_rests_on_are_named_with_their_shares():
    rng = np.random.default_rng(2)
    blocks = [rng.normal(size=(n, 7)) for n in rng.integers(1, 4, 40)]
    plain = sw.Sets.from_arrays(blocks)
    sets = replace(plain, input_names=("age", "income", *"abcd", ("a", "pair")))
    y = 3 * sets.x[:, 1] + sets.x[:, 0]
    model = fitted(sets, y, 40)
    (line,) = inputs_line(model)
    relevance = model.fitted().choice.relevance
    percent = 100 * relevance / relevance.sum()
    assert line.startswith(f"The linear part rests on income ({percent[1]:.0f} %), age ")
    assert line.endswith(f", 2 more inputs ({np.sort(percent)[:2].sum():.0f} %).")
    assert line.count("%") == 6
    assert "input 2 " in inputs_line(fitted(plain, y, 40))[0]  # counted from 1 where none is named
    pair = replace(sets, x=sets.x[:, [0, 6]], input_names=("age", ("a", "pair")))
    assert (
        "age (50 %), a / pair (50 %)"
        in inputs_line(
            sw.AggregateRegressor("auto", hyperparameters=(1e9, 1e-9)).fit(
                pair[:1], [1.0], pool=pair
            )
        )[0]
    )


def test_no_inputs_are_named_where_there_is_one_or_little_that_is_linear():
    sets, _ = thirty()
    one = replace(sets, x=sets.x[:, :1], input_names=None)
    assert not inputs_line(fitted(one, one.x[:, 0], 30))
    assert not inputs_line(fitted(sets, sets.x[:, 0], 0))
    model = fitted(sets, sets.x[:, 0], 30).fitted()
    waves = np.array([float(not c.linear) for c in CANDIDATES])
    curved = replace(model.choice, probability=waves / waves.sum())
    words = summary.summary(replace(model, choice=curved), 1.0)
    assert not any("rests on" in line for line in words)


@pytest.mark.parametrize("hyperparameters", ["evidence", (1.0, 1.0)])
def test_totals_beyond_double_precision_are_refused_in_words(hyperparameters):
    sets, _ = thirty()
    model = sw.AggregateRegressor("auto", hyperparameters=hyperparameters, standardize=False)
    with pytest.raises(sw.SumwiseError, match="double precision"):
        model.fit(sets[:3], [1e200, 2e200, 3e200])


def test_inputs_whose_range_is_beyond_double_precision_are_refused_in_words():
    sets = Sets.from_arrays([[[1.7e308]], [[-1.7e308]], [[1.7e308]]])
    with pytest.raises(sw.SumwiseError, match="not finite in set 0"):
        sw.AggregateRegressor("auto").fit(sets[:2], [1.0, 2.0], pool=sets)


def test_totals_that_are_only_huge_are_asked_about():
    sets, _ = thirty()
    model = sw.AggregateRegressor("auto").fit(sets[:3], [1e150, 2e160, -3e170], pool=sets)
    assert np.isfinite(sw.score(sets, model, "IVR")).all()
