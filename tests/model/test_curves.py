"""Curves of single inputs of basis="auto", against the kernel they stand for, and centring."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sumwise import AggregateRegressor, Sets
from sumwise.data.targets import BatchInputs, Inputs
from sumwise.model.basis import Auto, Scaled, auto
from sumwise.model.design import embed
from sumwise.model.fit import ModelConfig
from sumwise.model.serialize import from_bytes, pack_prepared, to_bytes, unpack_prepared
from tests.builders import random_sets


def drawn_on(x, n_basis, lengthscale=1.0):
    """A basis of inputs that are taken as they are."""
    inputs = Inputs.combine([BatchInputs.of(x, np.arange(len(x)), x[:1], x)])
    basis = Auto.draw(inputs, n_basis, lengthscale, np.random.default_rng(0))
    return Scaled(basis, inputs.shift, inputs.scale)


def curve_of(basis, scaling, d):
    """Columns of the curve of input d."""
    n_inputs, n_curve = len(basis.shift), basis.basis.curve.shape[1]
    n_waves = int(basis.basis.lengths[1].sum())
    family = 2 * n_inputs + scaling * (n_waves + n_inputs * n_curve)
    first = family + n_waves + d * n_curve
    return slice(first, first + n_curve)


def squared_distances(basis, x, at):
    phi = basis(x)[:, at]
    return ((phi[:, None, :] - phi[None]) ** 2).sum(axis=2)


@pytest.mark.parametrize("lengthscale", [0.5, 1.0])
@pytest.mark.parametrize("d", [0, 1])
def test_many_functions_are_a_gaussian_process_of_one_input(monkeypatch, lengthscale, d):
    """k(z, z) + k(z′, z′) − 2 k(z, z′), of which centring changes nothing, up to one factor.

    Inputs between −2 and 2 are z themselves in the first scaling.
    """
    monkeypatch.setattr(auto, "CURVE", 60)
    x = np.random.default_rng(1).uniform(-2, 2, size=(300, 2))
    x[:2] = [[-2, -2], [2, 2]]
    basis = drawn_on(x, 400, lengthscale)
    assert basis.basis.curve.shape == (2, 60)
    some = x[:40]
    got = squared_distances(basis, some, curve_of(basis, 0, d))
    apart = some[:, None, d] - some[None, :, d]
    expected = 1 - np.exp(-(apart**2) / (2 * (1.5 * lengthscale) ** 2))
    factor = got.sum() / expected.sum()
    assert_allclose(got, factor * expected, atol=2e-3 * got.max())


def test_few_functions_come_close_to_it():
    """Five, as there are: a tenth of the largest distance is the worst of all pairs."""
    x = np.linspace(-2, 2, 101)[:, None]
    basis = drawn_on(x, 128)
    got = squared_distances(basis, x, curve_of(basis, 0, 0))
    expected = 1 - np.exp(-((x - x.T) ** 2) / (2 * 1.5**2))
    factor = got.sum() / expected.sum()
    assert abs(got - factor * expected).max() < 0.1 * got.max()


EQUAL = {0.5: 25, 1.0: 25, 2.0: 25}  # waves of each length-scale
FEW_INPUTS = {0.25: 48, 0.5: 15, 1.0: 9, 2.0: 6}


@pytest.mark.parametrize(("n_inputs", "lengths"), [(2, FEW_INPUTS), (3, EQUAL)])
def test_features_are_those_of_the_definition(n_inputs, lengths):
    """Written out for each individual, input and function, and centred over all of them."""
    rng = np.random.default_rng(3)
    sets = random_sets([4] * 20, rng, n_inputs=n_inputs)
    basis = ModelConfig(n_basis=60).prepare(sets).basis
    known, x = basis.basis, (sets.x - basis.shift) / basis.scale
    squashed = 2 * np.tanh(x / 2)
    ends = x.min(axis=0), x.max(axis=0)
    scaled = [
        4 * (x - (ends[0] + ends[1]) / 2) / (ends[1] - ends[0]),
        (squashed - squashed.mean(axis=0)) / squashed.std(axis=0),
    ]
    phi = basis(sets.x)
    for i, z in enumerate(scaled):
        at = 2 * n_inputs + i * (sum(lengths.values()) + n_inputs * 5)
        for length, n in lengths.items():
            angles = known.phases[:n] - z @ known.frequencies[:n].T / (length * n_inputs**0.5)
            waves = np.cos(angles)
            waves -= waves.mean(axis=0)
            waves /= math.sqrt((waves**2).sum(axis=1).mean())
            assert_allclose(phi[:, at : at + n], waves, rtol=1e-9, atol=1e-11)
            at += n
        for d in range(n_inputs):
            curve = np.empty((len(x), 5))
            for m in range(1, 6):
                omega = math.pi * m / 10
                curve[:, m - 1] = math.exp(-((1.5 * omega) ** 2) / 4) * np.sin(
                    omega * (z[:, d] + 5)
                )
            curve -= curve.mean(axis=0)
            curve /= math.sqrt((curve**2).sum(axis=1).mean())
            assert_allclose(phi[:, curve_of(basis, i, d)], curve, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("n_inputs", [1, 3, 8])
def test_compiled_sums_of_centred_features_are_those_of_the_features(n_inputs):
    """Means of zero over the subsample, the bias apart; sums to rounding, in both precisions."""
    rng = np.random.default_rng(n_inputs)
    sets = random_sets(rng.integers(1, 9, 40).tolist(), rng, n_inputs=n_inputs)
    basis = ModelConfig(n_basis=64).prepare(sets).basis
    assert basis.basis.curve.shape[1] == 5
    phi = basis(sets.x)
    assert_allclose(phi[:, :-1].mean(axis=0), 0.0, atol=1e-12)
    assert (phi[:, -1] == 1).all()
    expected = np.add.reduceat(sets.theta[:, None] * phi, sets.starts[:-1])
    assert_allclose(embed(sets, basis, compiled=True).u, expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("n_inputs", [1, 3, 8, 12, 19, 40, 100])
def test_curves_take_the_room_of_waves(n_inputs):
    """So there are no more features than there were without curves, and waves are left."""
    x = np.random.default_rng(0).normal(size=(30, n_inputs))
    basis = drawn_on(x, 128).basis
    assert basis.columns[-1].stop <= 6 * 64 + 2 * n_inputs + 1
    assert basis.columns[-1].stop > 6 * 63 + 2 * n_inputs + 1
    assert len(basis.phases) >= 32
    assert basis.curve.shape[1] == {19: 5, 40: 0, 100: 0}.get(n_inputs, 5)
    assert len(basis.columns) == len(basis.size)
    assert len(basis.groups) == basis.variances.shape[1]


@pytest.mark.parametrize(("n_inputs", "most"), [(1, 0.003), (2, 0.15)])
def test_length_scales_of_a_tenth_of_the_range_are_learned(n_inputs, most):
    """Squared error relative to the variance, 300 totals; three equal length-scales: 0.01, 0.4."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 5, 300)
    x = rng.uniform(size=(sizes.sum() + 400, n_inputs))
    turns, phases = rng.normal(0, 10, (400, n_inputs)), rng.uniform(0, 2 * np.pi, 400)
    f = np.cos(x @ turns.T - phases) @ rng.normal(size=400) / math.sqrt(200)
    parts = np.split(x[: sizes.sum()], np.cumsum(sizes)[:-1])
    sets = Sets.from_arrays(parts)
    y_bar = np.add.reduceat(f[: sizes.sum()], sets.starts[:-1])
    y_bar += 0.05 * np.sqrt(sizes) * rng.normal(size=300)
    model = AggregateRegressor(random_state=0).fit(sets, y_bar)
    new = slice(sizes.sum(), None)
    assert np.mean((model.predict(x[new]) - f[new]) ** 2) < most * f[new].var()


@pytest.mark.parametrize("stored_lengths", [False, True])
@pytest.mark.parametrize("n_inputs", [2, 3])
def test_bases_with_the_same_length_scales_for_any_inputs_are_kept(
    monkeypatch, n_inputs, stored_lengths
):
    sets = random_sets([4] * 20, np.random.default_rng(3), n_inputs=n_inputs)
    config = ModelConfig(n_basis=60)
    with monkeypatch.context() as before:
        before.setattr(auto, "FEW_INPUTS", 0)
        former = config.prepare(sets)
    kept = from_bytes(pack_prepared(former), "what was drawn")
    if not stored_lengths:
        del kept["auto_lengths"], kept["auto_bent"]
    got = unpack_prepared(to_bytes(kept), config, sets).basis
    assert (got(sets.x) == former.basis(sets.x)).all()
    expected = auto.as_former(config.prepare(sets).basis.arrays(), kept)
    of_basis = {name: kept[name].shape for name in expected}
    assert {name: array.shape for name, array in expected.items()} == of_basis
    assert ("auto_lengths" in expected) == stored_lengths
