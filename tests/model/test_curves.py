"""Curves of single inputs of basis="auto", against the kernel they stand for, and centring."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sumwise.data.targets import BatchInputs, Inputs
from sumwise.model.basis import Auto, Scaled, auto
from sumwise.model.design import embed
from sumwise.model.fit import ModelConfig
from tests.builders import random_sets


def drawn_on(x, n_basis, lengthscale=1.0):
    """A basis of inputs that are taken as they are."""
    inputs = Inputs.combine([BatchInputs.of(x, np.arange(len(x)), x[:1], x)])
    basis = Auto.draw(inputs, n_basis, lengthscale, np.random.default_rng(0))
    return Scaled(basis, inputs.shift, inputs.scale)


def curve_of(basis, scaling, d):
    """Columns of the curve of input d."""
    n_inputs, n_curve = len(basis.shift), basis.basis.curve.shape[1]
    n_waves = len(basis.basis.phases)
    family = 2 * n_inputs + scaling * (3 * n_waves + n_inputs * n_curve)
    first = family + 3 * n_waves + d * n_curve
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


def test_features_are_those_of_the_definition():
    """Written out for each individual, input and function, and centred over all of them."""
    rng = np.random.default_rng(3)
    sets = random_sets([4] * 20, rng)
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
        first, n_waves = 6 + i * (3 * len(known.phases) + 3 * 5), len(known.phases)
        for e, length in enumerate((0.5, 1.0, 2.0)):
            waves = np.cos(known.phases - z @ known.frequencies.T / (length * math.sqrt(3)))
            waves -= waves.mean(axis=0)
            waves /= math.sqrt((waves**2).sum(axis=1).mean())
            at = first + e * n_waves
            assert_allclose(phi[:, at : at + n_waves], waves, rtol=1e-9, atol=1e-11)
        for d in range(3):
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
