"""Hypotheses of basis="auto": what the totals make of them, and the words for it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.data.sets import Sets
from sumwise.data.targets import Inputs
from sumwise.learning.summary import powers
from sumwise.model.basis import Auto
from sumwise.model.basis.auto import LENGTHSCALES
from sumwise.model.design import embed
from sumwise.model.leave_one_out import leave_one_out
from tests.builders import random_sets, totals


def drawn(sets, n_basis=8, seed=0):
    plain = {"shift": np.zeros(sets.n_inputs), "scale": np.ones(sets.n_inputs)}
    inputs = replace(Inputs.of(sets.x), **plain)
    return Auto.draw(inputs, n_basis, 1.0, np.random.default_rng(seed))


def fitted(sets, y, n, **options):
    model = sw.AggregateRegressor("auto", **options)
    return model.fit(sets[:n], totals(sets, y)[:n], pool=sets)


def thirty(n_inputs=3, seed=0):
    rng = np.random.default_rng(seed)
    sets = Sets.from_arrays([rng.normal(size=(n, n_inputs)) for n in rng.integers(1, 6, 60)])
    return sets, rng


def shares(model):
    """By scaling: shares of linear inputs, of waves of each length-scale, of curves of inputs."""
    known = model.fitted()
    each, n_inputs = powers(known.mixture), len(known.basis.shift)
    linear, rest = each[: 2 * n_inputs], each[2 * n_inputs : -1].reshape(2, -1)
    n_waves = len(LENGTHSCALES)
    return linear.reshape(2, n_inputs), rest[:, :n_waves], rest[:, n_waves:]


# --- what is drawn --------------------------------------------------------------------------------


def test_every_part_has_the_same_power_over_individuals():
    sets = random_sets([5] * 30, np.random.default_rng(0), n_inputs=4)
    basis = drawn(sets, 32)
    power = (basis(sets.x) ** 2).mean(axis=0)
    assert len(basis.columns) == 2 + 2 * (3 + 4) + 1  # linear, waves and curves, bias
    assert [power[at].sum() for at in basis.columns] == pytest.approx([1.0] * len(basis.columns))
    assert basis.columns[-1].stop == 2 * 4 + 2 * (3 * 9 + 4 * 5) + 1
    assert_allclose(basis(sets.x[3:4]), basis(sets.x)[3:4], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("n_basis", "parts"), [(8, 6), (32, 6 + 8)])
def test_hypotheses_share_the_variance_of_an_individual(n_basis, parts):
    """Signal and noise add up to 1, and the level has a variance of its own."""
    basis = drawn(random_sets([5] * 30, np.random.default_rng(0), n_inputs=4), n_basis)
    known, features = basis.hypotheses, np.append(basis.power.ravel(), np.ones(parts))
    assert_allclose(known.variances[:, :-1] @ features + known.noise, 1.0)
    assert ((known.noise >= 0.3e-3) & (known.noise <= 1)).all()
    assert 50 < (known.noise < 0.1).sum() < 150  # of 400: outputs may be nearly free of noise
    assert ((known.correlation >= 0) & (known.correlation <= 1)).all()
    none = known.noise == 1
    assert 0 < none.sum() < 60  # of 400, one in twenty
    assert not known.variances[none, :-1].any()


# --- what it finds --------------------------------------------------------------------------------


def test_nothing_measured_leaves_all_hypotheses_alike():
    sets = random_sets([2, 3], np.random.default_rng(0))
    mixed = sw.AggregateRegressor("auto").fit(sets[:0], [], pool=sets).fitted().mixture
    assert_allclose(mixed.probability, mixed.probability[0])
    assert len(mixed.probability) >= 399  # but for the last of equals


def test_a_linear_truth_is_found_linear_and_a_wave_is_not():
    sets, rng = thirty()
    noise = 0.05 * rng.normal(size=len(sets.x))
    linear, waves, curves = shares(fitted(sets, 3 * sets.x[:, 0] - sets.x[:, 2] + noise, 40))
    assert linear.sum() > 0.45 * (linear.sum() + waves.sum() + curves.sum())
    assert waves[:, :2].sum() < 0.05  # what is not linear is nearly so
    product = np.sin(sets.x[:, 0]) * np.sin(sets.x[:, 1])
    linear, waves, curves = shares(fitted(sets, product + noise, 60))
    assert linear.sum() < 0.2 * (linear.sum() + waves.sum() + curves.sum())
    assert curves.sum() < 0.05 * waves.sum()  # it is no sum over single inputs


def test_a_wave_of_one_input_is_a_curve_of_that_input():
    """Which may have a slope beside it: hypotheses with curves are half linear, or not at all."""
    sets, rng = thirty()
    y = np.sin(2 * sets.x[:, 0]) + 0.05 * rng.normal(size=len(sets.x))
    linear, waves, curves = shares(fitted(sets, y, 60))
    assert waves.sum() < 0.05 * curves.sum()
    assert curves.sum() > linear.sum()
    assert curves[:, 0].sum() > 0.75 * curves.sum()


def test_far_points_are_drawn_in_where_that_explains_the_totals():
    rng = np.random.default_rng(2)
    sets = Sets.from_arrays([rng.standard_t(1.5, size=(n, 2)) for n in rng.integers(1, 4, 80)])
    for y, scaling in (
        (np.tanh(sets.x[:, 0]) + np.tanh(sets.x[:, 1]), 1),
        (sets.x[:, 0] + sets.x[:, 1], 0),
    ):
        by_scaling = sum(part.sum(axis=1) for part in shares(fitted(sets, y, 60)))
        assert by_scaling[scaling] > 0.9 * by_scaling.sum()


def test_an_input_that_explains_the_totals_is_relevant_and_a_constant_one_says_nothing():
    rng = np.random.default_rng(0)
    sets = random_sets([2] * 40, rng, n_inputs=5)
    sets = replace(sets, x=np.column_stack([sets.x[:, :4], np.ones(len(sets.x))]))
    y = 3 * sets.x[:, 2] + 0.01 * rng.normal(size=len(sets.x))
    model = fitted(sets, y, 40)
    relevance = shares(model)[0].sum(axis=0)
    assert relevance[2] > 1.5 * relevance[[0, 1, 3]].max()
    assert relevance[4] == 0
    learned = re.search(r"rests on input 3 \((\d+) %\)", model.summary())
    assert learned is not None
    assert int(learned[1]) > 90


@pytest.mark.parametrize("precisions", [(1e-10, 1e10), (1e-90, 1e90), (1e90, 1e-90)])
@pytest.mark.parametrize("n", [1, 30, 60])
def test_precisions_far_from_each_other_leave_predictions_finite(precisions, n):
    sets, _ = thirty()
    model = fitted(sets, np.zeros(len(sets.x)), n, hyperparameters=precisions)
    mean, std = model.predict(sets.x, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


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


def test_several_outputs_weigh_together():
    sets, _ = thirty()
    y = np.stack([totals(sets, sets.x[:, 0]), totals(sets, 2 * sets.x[:, 1])], axis=1)
    model = sw.AggregateRegressor("auto").fit(sets[:30], y[:30], pool=sets)
    linear, waves, curves = shares(model)
    assert linear.sum() > 0.45 * (linear.sum() + waves.sum() + curves.sum())
    assert linear[:, 2].sum() < 0.3 * linear.sum()  # neither depends on the third input
    assert model.predict(sets.x).shape == (len(sets.x), 2)


def test_each_output_has_a_spread_of_its_own():
    """One output is exactly linear, the other is noise."""
    sets, rng = thirty()
    y = np.stack([sets.x[:, 0], rng.normal(size=len(sets.x))], axis=1)
    y_bar = np.add.reduceat(sets.theta[:, None] * y, sets.starts[:-1])
    model = sw.AggregateRegressor("auto").fit(sets[:30], y_bar[:30], pool=sets)
    mixed, x = model.fitted().mixture, sets.x[-5:]
    phi, ones = model.fitted().basis(x), np.ones(5)
    variance = mixed.moments(phi, (ones, ones))[1]
    std = model.predict(x, return_std=True)[1]
    assert_allclose(std, model.fitted().posterior.output_scale * np.sqrt(variance), rtol=1e-6)
    assert (std[:, 0] < 0.5 * std[:, 1]).all()
    total = embed(sets[40:], model.fitted().basis)
    variance = mixed.moments(total.u, (total.noise_scale, total.theta_sum**2))[1]
    std = model.predict_sets(sets[40:], return_std=True)[1]
    assert_allclose(std, model.fitted().posterior.output_scale * np.sqrt(variance), rtol=1e-6)


def test_answers_that_are_known_to_be_blurred_do_not_weigh():
    """With noise far beyond the totals, hypotheses stay about as likely as they were."""
    sets, _ = thirty()
    y_bar = totals(sets, 3 * sets.x[:, 0])[:20]
    entropies = []
    for noise in (1e-6, 1e6):
        model = sw.AggregateRegressor("auto").fit(sets[:20], y_bar, pool=sets, noise_std=noise)
        mixed = model.fitted().mixture
        kinds = np.unique(mixed.hypotheses.variances, axis=0, return_inverse=True)[1]
        chance = np.bincount(kinds.ravel(), mixed.probability)
        entropies.append(-float(chance @ np.log(np.maximum(chance, 1e-300))))
    assert entropies[0] < 4.5 < 5.0 < entropies[1]


def test_leaving_an_answer_out_is_a_fit_without_it():
    """Offset, scale, s₀² and suggested relevances stay, so it is close and no more."""
    sets, rng = thirty()
    y_bar = totals(sets, sets.x[:, 0] + 0.3 * rng.normal(size=len(sets.x)))[:20]
    model = sw.AggregateRegressor("auto").fit(sets[:20], y_bar, pool=sets)
    design = embed(sets[:20], model.fitted().basis)
    mean, std = leave_one_out(model.fitted(), design, y_bar[:, None])
    for a in (0, 7, 19):
        others = [b for b in range(20) if b != a]
        without = sw.AggregateRegressor("auto").fit(sets[others], y_bar[others], pool=sets)
        expected, spread = without.predict_sets(sets[[a]], return_std=True)
        assert mean[a, 0] == pytest.approx(expected[0], abs=0.35 * spread[0])
        assert std[a, 0] == pytest.approx(spread[0], rel=0.25)


# --- words ----------------------------------------------------------------------------------------


def test_the_mixture_is_told_in_words():
    sets, _ = thirty()
    words = fitted(sets, 3 * sets.x[:, 0], 30).summary()
    assert "weighed by how well each explains the answers" in words
    (line,) = [line for line in words.splitlines() if line.startswith("Of what they explain")]
    parts = [int(part) for part in re.findall(r"(\d+) %", line)]
    expected = [part.sum() for part in shares(fitted(sets, 3 * sets.x[:, 0], 30))]
    assert_allclose(parts, 100 * np.array(expected)[[0, 2, 1]] / sum(expected), atol=0.51)
    assert "% is linear, " in line
    assert "% are curves of single inputs and " in line
    assert "members of a set share an effect of" in words
    assert "Log evidence of 30 answers" in words
    assert "all equally likely before any answer" in fitted(sets, sets.x[:, 0], 0).summary()
    plain = sw.AggregateRegressor("fourier").fit(sets[:3], [1.0, 2.0, 3.0])
    assert plain.summary().startswith("Basis: RandomFourierFeatures, fixed")


def test_noise_and_signal_in_words_are_those_of_the_mixture():
    sets, _ = thirty()
    model = fitted(sets, sets.x[:, 0], 25)
    (line,) = [line for line in model.summary().splitlines() if "explained by the inputs" in line]
    mixed = model.fitted().mixture
    noise = 100 * float(mixed.probability @ mixed.hypotheses.noise)
    assert f"{noise:.0f} % is noise" in line


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
    posterior, power = model.fitted().posterior, model.fitted().basis.basis.power
    relevance = (posterior.mean[:14, 0] ** 2 * power.ravel()).reshape(2, 7).sum(axis=0)
    percent = 100 * relevance / relevance.sum()
    assert percent[1] > 80
    assert line.startswith(f"The linear part rests on income ({percent[1]:.0f} %), age ")
    assert line.endswith(f", 2 more inputs ({np.sort(percent)[:2].sum():.0f} %).")
    assert line.count("%") == 6
    assert "input 2 " in inputs_line(fitted(plain, y, 40))[0]  # counted from 1 where none is named


def test_no_inputs_are_named_where_there_is_one_or_little_that_is_linear():
    sets, _ = thirty()
    one = replace(sets, x=sets.x[:, :1], input_names=None)
    assert not inputs_line(fitted(one, one.x[:, 0], 30))
    assert not inputs_line(fitted(sets, sets.x[:, 0], 0))


# --- faults of plugged-in hyperparameters ---------------------------------------------------------


def noise_of(model):
    """Estimated standard deviation of an individual given its inputs, its set's effect too."""
    known = model.fitted()
    return float(known.posterior.output_scale[0] * np.sqrt(known.posterior.individual_noise))


def test_noise_of_sets_of_alike_individuals_is_not_their_size_too_large():
    """About fifty members with the same inputs, thirty answers: totals have √50 times their noise.

    Sets of exactly one size would be taken for repeated observations of the same units.
    """
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x, sizes = rng.normal(size=(40, 1)), rng.integers(30, 71, 40)
        sets = Sets.from_arrays(np.split(np.repeat(x, sizes, axis=0), np.cumsum(sizes)[:-1]))
        y = np.sin(sets.x[:, 0]) + 0.15 * rng.normal(size=len(sets.x))
        model = sw.AggregateRegressor("auto").fit(sets[:30], totals(sets, y)[:30], pool=sets)
        found.append(noise_of(model))
    assert 0.15 / 2.5 < np.median(found) < 0.15 * 2.5


def test_noise_is_not_understated_after_ten_answers():
    ratios = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        sets = Sets.from_arrays([rng.normal(size=(n, 3)) for n in rng.integers(2, 9, 30)])
        y = 5 + sets.x @ [1.0, -0.5, 0.2] + rng.normal(size=len(sets.x))
        model = sw.AggregateRegressor("auto").fit(sets[:10], totals(sets, y)[:10], pool=sets)
        ratios.append(noise_of(model))
    assert 0.6 < np.median(ratios) < 1.6


def test_outputs_of_pure_noise_are_predicted_by_their_mean():
    errors, plain = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        sets = Sets.from_arrays([rng.normal(size=(n, 4)) for n in rng.integers(2, 7, 60)])
        y = 3 + rng.normal(size=len(sets.x))
        y_bar = totals(sets, y)
        model = sw.AggregateRegressor("auto").fit(sets[:20], y_bar[:20], pool=sets)
        left = slice(sets.starts[20], None)
        errors.append(np.mean((model.predict(sets.x[left]) - y[left]) ** 2))
        plain.append(np.mean((y_bar[:20].sum() / sets.starts[20] - y[left]) ** 2))
    assert np.mean(errors) < 1.1 * np.mean(plain)


def test_a_set_of_one_member_is_predicted_as_it_was_measured():
    rng = np.random.default_rng(0)
    sets = Sets.from_arrays([rng.normal(size=(n, 2)) for n in (1, 20, 18, 25, 22, 30)])
    model = sw.AggregateRegressor("auto").fit(sets, [20.0, 320.0, 250.0, 410.0, 380.0, 500.0])
    mean, std = model.predict(sets.x[:1], return_std=True, groups=[sets.ids[0]])
    assert mean[0] == pytest.approx(20.0, rel=1e-9)
    assert std[0] < 1e-4


# --- extremes -------------------------------------------------------------------------------------


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
