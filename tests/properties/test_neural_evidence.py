"""Eq. 22 of a network in JAX: its value and its slopes, against dense formulas in NumPy."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sumwise import Neural, Sets
from sumwise.model import evidence, posterior
from sumwise.model.basis import neural
from sumwise.model.design import embed
from sumwise.model.posterior import Hyperparameters
from tests import oracles
from tests.builders import random_sets, seeds, unscaled
from tests.marks import slow
from tests.networks import UP_TO_SIX, phi_by_hand

N_OUTPUTS = 2
sizes_of_sets = st.lists(st.integers(1, 6), min_size=1, max_size=12) | st.lists(
    st.just(1), min_size=1, max_size=12
)
# at 6 features, 5 labels and more take the K×K branch, whether t > K or not; at 40 none do
numbers_of_features = st.sampled_from([6, 40])
arrangements = st.sampled_from(["plain", "collinear", "repeated"])
log_evidence = eqx.filter_jit(neural.log_evidence)


def powers_of_ten(low, high):
    return st.floats(low, high).map(lambda exponent: float(10**exponent))


def arranged(sizes, arrangement, rng):
    """Sets as random as they come, with inputs on a line, or all copies of one set."""
    if arrangement == "repeated":
        sizes = [sizes[0]] * len(sizes)
    sets = random_sets(sizes, rng)
    if arrangement == "plain":
        return sets
    x, theta = sets.x.copy(), sets.theta
    if arrangement == "collinear":
        x[:, 1:] = x[:, :1] * np.array([2.0, -0.5])
    else:
        x = np.tile(x[: sizes[0]], (len(sizes), 1))
        theta = np.tile(theta[: sizes[0]], len(sizes))
    return Sets(sets.ids, x, theta, sets.starts)


def drawn(sizes, arrangement, n_basis, seed, **settings):
    """A random network, sets, and totals of the size that λ = β = 1 would give them."""
    rng = np.random.default_rng(seed)
    sets = arranged(sizes, arrangement, rng)
    basis = Neural(width=4, depth=3, n_basis=n_basis, **settings).draw(sets, rng)
    scale = np.sqrt(np.add.reduceat(sets.theta**2, sets.starts[:-1]))
    return basis, sets, 2 * rng.normal(size=(len(sets), N_OUTPUTS)) * scale[:, None]


def in_jax(basis, sets, y_bar, lam, beta):
    with jax.enable_x64(True):
        data = neural.flat(sets, y_bar, basis.settings.dtype, UP_TO_SIX)
        return float(log_evidence(basis.network, jnp.log(jnp.asarray([lam, beta])), data))


def dense(basis, sets, y_bar, lam, beta):
    """Σ over outputs of log N(ȳ | 0, Σ_n θφφᵀθ/λ + s/β), with features made by hand."""
    joint = oracles.joint(sets, phi_by_hand(basis.network, sets.x), lam, beta)
    seen = np.arange(len(sets))
    return sum(oracles.log_density(joint, seen, column) for column in y_bar.T)


def in_core(basis, sets, y_bar, lam, beta):
    fixed = unscaled(lambda x: phi_by_hand(basis.network, x))
    spectrum = posterior.decompose(embed(sets, fixed), y_bar)
    return evidence.log_evidence(spectrum, Hyperparameters(lam, beta))


@given(
    sizes_of_sets,
    arrangements,
    numbers_of_features,
    powers_of_ten(-2, 2),
    powers_of_ten(-2, 2),
    seeds,
)
def test_evidence_is_the_normal_density_of_the_totals(sizes, kind, n_basis, lam, beta, seed):
    case = (*drawn(sizes, kind, n_basis, seed, dtype="float64"), lam, beta)
    found = in_jax(*case)
    # a sum of one term per total: near zero it is as exact as its terms
    tolerance = {"rtol": 1e-10, "atol": 1e-10 * N_OUTPUTS * len(sizes)}
    assert_allclose(found, dense(*case), **tolerance)
    assert_allclose(found, in_core(*case), **tolerance)


@pytest.mark.slow  # in double precision it is quick
@given(
    sizes_of_sets,
    arrangements,
    numbers_of_features,
    powers_of_ten(-1, 2),
    powers_of_ten(-2, 1),
    seeds,
)
def test_features_in_single_precision_cost_a_millionth(sizes, kind, n_basis, lam, beta, seed):
    """Features are known to 6e-8 of their size. What that costs grows with β u² / λ s, how much
    more the signal is than the noise: β up to a hundred times λ is a fair range."""
    case = (*drawn(sizes, kind, n_basis, seed), lam, beta)
    found = in_jax(*case)
    tolerance = {"rtol": 1e-6, "atol": 1e-6 * N_OUTPUTS * len(sizes)}
    assert_allclose(found, dense(*case), **tolerance)
    assert_allclose(found, in_core(*case), **tolerance)


@given(
    sizes_of_sets,
    arrangements,
    numbers_of_features,
    powers_of_ten(-5, 5),
    powers_of_ten(-5, 5),
    seeds,
)
def test_far_from_one_nothing_but_rounding_is_lost(sizes, kind, n_basis, lam, beta, seed):
    """Rounding moves an eigenvalue of the covariance by ε of the largest; the core's own form,
    which factors no covariance, is exact. So is the answer to ε times the condition number."""
    case = (*drawn(sizes, kind, n_basis, seed, dtype="float64"), lam, beta)
    u = embed(case[1], unscaled(lambda x: phi_by_hand(case[0].network, x)))
    largest = np.linalg.norm(u.u / np.sqrt(u.noise_scale)[:, None], 2) ** 2
    relative = 1e-12 + 2 * np.finfo(float).eps * (1 + largest * beta / lam)
    expected = in_core(*case)
    power = float((case[2] ** 2 / u.noise_scale[:, None]).sum()) * beta
    allowed = relative * (abs(expected) + power + N_OUTPUTS * len(sizes))
    assert abs(in_jax(*case) - expected) < allowed


# --- slopes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_basis", [6, *slow(40)], ids=["KxK", "txt"])
def test_slopes_by_every_parameter_pass_finite_differences(n_basis):
    sizes = [1, 4, 2, 1, 6, 3, 2, 5, 1]
    basis, sets, y_bar = drawn(sizes, "plain", n_basis, 5, dtype="float64", activation="tanh")
    look = eqx.filter_jit(
        eqx.filter_value_and_grad(lambda state, data: -log_evidence(*state, data))
    )
    with jax.enable_x64(True):
        data = neural.flat(sets, y_bar, "float64", UP_TO_SIX)
        assert (len(data.real) > n_basis) == (n_basis == 6)  # which branch this is
        leaves, tree = jax.tree.flatten((basis.network, jnp.asarray([0.3, 1.2])))
        value, slopes = look(jax.tree.unflatten(tree, leaves), data)
        assert_allclose(value, -dense(basis, sets, y_bar, np.exp(0.3), np.exp(1.2)), rtol=1e-10)
        rng = np.random.default_rng(0)
        assert len(leaves) == 7  # three weights, three biases, and log λ with log β
        for i, (leaf, slope) in enumerate(zip(leaves, jax.tree.leaves(slopes), strict=True)):
            for _ in range(3):  # along random directions, which no wrong entry hides from
                way = jnp.asarray(rng.normal(size=leaf.shape))
                up, down = (
                    look(jax.tree.unflatten(tree, [*leaves[:i], moved, *leaves[i + 1 :]]), data)[0]
                    for moved in (leaf + 1e-5 * way, leaf - 1e-5 * way)
                )
                assert_allclose((slope * way).sum(), (up - down) / 2e-5, rtol=1e-6)


def test_the_slope_of_the_normal_density_is_written_right():
    """One entry at a time: both of a symmetric pair move together."""
    rng, n_outputs = np.random.default_rng(2), 3
    root = rng.normal(size=(5, 5))
    cov, z = root @ root.T + np.eye(5), rng.normal(size=(5, n_outputs))

    def plain(cov, z):
        return -0.5 * (n_outputs * np.linalg.slogdet(cov)[1] + np.sum(z * np.linalg.solve(cov, z)))

    with jax.enable_x64(True):
        look = jax.value_and_grad(lambda *at: 3 * neural.log_density(*at), argnums=(0, 1))
        value, (by_cov, by_z) = jax.jit(look)(jnp.asarray(cov), jnp.asarray(z))
    assert_allclose(value, 3 * plain(cov, z), rtol=1e-12)
    for i in range(5):
        for j in range(i + 1):
            move = np.zeros((5, 5))
            move[i, j] = move[j, i] = 1e-5
            slope = 3 * (plain(cov + move, z) - plain(cov - move, z)) / 2e-5
            found = by_cov[i, j] + by_cov[j, i] if i != j else by_cov[i, i]
            assert_allclose(found, slope, rtol=1e-6, atol=1e-9)
        for m in range(n_outputs):
            move = np.zeros_like(z)
            move[i, m] = 1e-5
            slope = 3 * (plain(cov, z + move) - plain(cov, z - move)) / 2e-5
            assert_allclose(by_z[i, m], slope, rtol=1e-6, atol=1e-9)
