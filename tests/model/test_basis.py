"""Bases, and the design made with them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.kernel_approximation import RBFSampler
from sklearn.preprocessing import PolynomialFeatures

from sumwise import Sets, SettingError
from sumwise.data.targets import Inputs
from sumwise.model import design
from sumwise.model.basis import BASES, Linear, Polynomial, RandomFourierFeatures, Scaled, draw
from sumwise.model.design import embed, features, worth_compiling
from sumwise.model.fit import ModelConfig
from tests.builders import random_sets, unscaled

SETS = random_sets([2, 3], np.random.default_rng(0))


def drawn(basis, **options):
    config = ModelConfig(basis, **{"n_basis": 16, "degree": 3, **options})
    return draw(config, SETS, Inputs.of(SETS.x), np.random.default_rng(0))


@pytest.mark.parametrize("name", BASES)
def test_every_basis_gives_a_row_of_finite_features(name):
    basis = drawn(name)
    x = np.random.default_rng(1).normal(size=(5, 3))
    phi = basis(x)
    assert phi.shape[0] == 5
    assert np.isfinite(phi).all()
    if name != "neural":  # whose last layer has a bias instead
        assert_allclose(phi[:, -1], 1)
    assert_allclose(basis(x[2:3]), phi[2:3], rtol=1e-12 if name != "neural" else 1e-5)


@pytest.mark.parametrize("degree", [0, 1, 2, 5])
def test_polynomial_has_the_monomials_of_scikit_learn(degree):
    x = np.random.default_rng(0).normal(size=(7, 3))
    ours = Polynomial.of(degree, 3)(x)
    theirs = PolynomialFeatures(degree).fit_transform(x)
    assert_allclose(np.sort(ours, axis=1), np.sort(theirs, axis=1), rtol=1e-12)


def test_linear_is_the_inputs_and_a_one():
    assert Linear()(np.array([[2.0, 3.0]])).tolist() == [[2.0, 3.0, 1.0]]


def test_fourier_features_are_those_of_scikit_learn_given_the_same_draws():
    fourier = RandomFourierFeatures.draw(33, 4, 1.0, np.random.default_rng(3))
    x = np.random.default_rng(1).normal(size=(6, 4))
    theirs = RBFSampler(n_components=32).fit(x)
    theirs.random_weights_ = -fourier.frequencies.T  # Eq. 24 has cos(c − Bx)
    theirs.random_offset_ = fourier.phases
    assert_allclose(fourier(x)[:, :-1], theirs.transform(x), rtol=1e-12, atol=1e-14)


def test_fourier_features_approximate_the_kernel_of_their_lengthscale():
    x = np.random.default_rng(1).normal(size=(6, 2))
    phi = RandomFourierFeatures.draw(200_001, 2, 1.7, np.random.default_rng(0))(x)[:, :-1]
    distance = ((x[:, None] - x) ** 2).sum(axis=2)
    assert_allclose(phi @ phi.T, np.exp(-distance / (2 * 1.7**2)), atol=5 / np.sqrt(2e5))


def test_one_feature_is_the_bias_alone():
    phi = RandomFourierFeatures.draw(1, 3, 1.0, np.random.default_rng(0))(np.ones((2, 3)))
    assert phi.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize(
    ("basis", "options", "message"),
    [
        ("cubic", {}, "no basis is called 'cubic'; give linear, polynomial, fourier"),
        (7, {}, "no basis is called 7"),
        ("fourier", {"n_basis": 0}, "n_basis is 0"),
        ("fourier", {"n_basis": 2.5}, "n_basis is 2.5"),
        ("fourier", {"lengthscale": 0.0}, "lengthscale is 0.0"),
        ("fourier", {"lengthscale": float("nan")}, "lengthscale is nan"),
        ("fourier", {"lengthscale": "1"}, "lengthscale is '1'"),
        ("polynomial", {"degree": -1}, "degree is -1"),
        ("polynomial", {"degree": 60}, "makes 39711 monomials, more than 20000"),
    ],
)
def test_bad_settings_are_refused(basis, options, message):
    with pytest.raises(SettingError, match=message):
        drawn(basis, **options)


@pytest.mark.parametrize(
    "bad",
    [
        lambda x: x[:-1],
        lambda x: x[:, 0],
        lambda x: x[:, :0],
        lambda x: np.array([["a"]] * len(x)),
        lambda x: None,
    ],
)
def test_a_basis_that_returns_nonsense_is_refused(bad):
    with pytest.raises(SettingError, match="the basis gave"):
        features(bad, np.ones((3, 2)))


def test_a_feature_that_is_not_finite_is_refused_naming_the_set():
    sets = Sets.from_arrays([[[1.0]], [[1e200]]], ids=["fine", "far"])
    with pytest.raises(SettingError, match="not finite in set 'far'"), np.errstate(over="ignore"):
        embed(sets, unscaled(Polynomial.of(2, 1), 1))


def naive(sets, phi):
    rows = [range(a, b) for a, b in zip(sets.starts[:-1], sets.starts[1:], strict=True)]
    u = [sum(sets.theta[n] * phi[n] for n in group) for group in rows]
    s = [sum(sets.theta[n] ** 2 for n in group) for group in rows]
    return np.array(u), np.array(s)


@pytest.mark.parametrize("block", [7, 64, 10**6])
def test_the_design_is_the_plain_sum_however_it_is_blocked(block, monkeypatch):
    monkeypatch.setattr(design, "BLOCK_NUMBERS", block)
    sets = random_sets([1, 51, 1, 2, 3, 9], np.random.default_rng(0))
    basis = unscaled(RandomFourierFeatures.draw(6, 3, 1.0, np.random.default_rng(1)))
    made = embed(sets, basis)
    u, s = naive(sets, basis(sets.x))
    assert_allclose(made.u, u, rtol=1e-12, atol=1e-14)
    assert_allclose(made.noise_scale, s, rtol=1e-14)


@pytest.mark.parametrize("spread", [1e-3, 1.0, 30.0, 1e4])
def test_the_compiled_kernel_gives_the_same_numbers(spread):
    rng = np.random.default_rng(0)
    sets = random_sets([1, 51, 1, 2, 3, 9], rng)
    fourier = RandomFourierFeatures.draw(40, 3, 1 / spread, rng)
    basis = Scaled(fourier, np.array([0.3, -2.0, 0.0]), np.array([1.0, 2.0, 0.5]))
    plain, compiled = (embed(sets, basis, compiled=c) for c in (False, True))
    # an angle of size v is known to v·ε, and so is its cosine
    assert_allclose(compiled.u, plain.u, rtol=1e-11, atol=1e-13 * max(1.0, spread))
    assert_allclose(compiled.noise_scale, plain.noise_scale)


def test_the_compiled_cosine_is_exact_to_a_few_units_in_the_last_place():
    angles = np.random.default_rng(0).uniform(-1e6, 1e6, 20_000)
    sets = Sets.from_arrays(angles[:, None, None])
    once = RandomFourierFeatures(np.array([[1.0]]), np.zeros(1))
    compiled = embed(sets, unscaled(once, 1), compiled=True)
    assert_allclose(compiled.u[:, 0], np.sqrt(2) * np.cos(angles), rtol=0, atol=2e-15)


def test_the_kernel_is_used_when_it_pays_and_only_where_it_is_exact(monkeypatch):
    rng = np.random.default_rng(0)
    sets = random_sets([3, 4], rng)
    fourier = RandomFourierFeatures.draw(8, 3, 1.0, rng)
    assert not worth_compiling(len(sets.x), unscaled(fourier))
    monkeypatch.setattr(design, "COMPILED_FROM", 10)
    assert worth_compiling(len(sets.x), unscaled(fourier))
    assert not worth_compiling(len(sets.x), unscaled(Linear()))
    wild = unscaled(RandomFourierFeatures(fourier.frequencies * 1e7, fourier.phases))
    assert design._embed_compiled(sets, wild) is None
    assert_allclose(embed(sets, wild).u, embed(sets, wild, compiled=False).u, rtol=1e-12)
    monkeypatch.setattr(design, "find_spec", lambda name: None)
    assert not worth_compiling(len(sets.x), unscaled(fourier))


def test_no_sets_make_an_empty_design_of_the_right_width():
    sets = random_sets([2], np.random.default_rng(0))[:0]
    assert embed(sets, unscaled(Linear())).u.shape == (0, 4)
