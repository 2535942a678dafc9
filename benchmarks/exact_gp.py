"""An exact Gaussian process on totals, with a length-scale for each input.

    f ~ GP(0, c + g x·x' + v exp(−½ Σ_d (x_d − x'_d)² / ℓ_d²)),  y_n = f(x_n) + b_a + ε_n
    Cov(ȳ) = Θ K Θᵀ + diag(σ² Σθ² + τ² (Σθ)²),  sets being disjoint

It shares no step with sumwise: no features, no embedding, K is that of all measured individuals.
c, g, v, σ², τ² and ℓ maximise the marginal likelihood times a weak prior, by L-BFGS from several
starts. Without the prior, so many length-scales overfit a few totals. Independently,

    log c, log g, log v, log σ², log τ² ~ N(log(1, 0.01, 0.1, 0.1, 0.01), 2²)
    log ℓ_d ~ N(√2 + ½ log D, 3)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

import sumwise as sw

SETS, INDIVIDUALS = 8, 256  # both are padded to a multiple, so that few shapes are compiled
N_VARIANCES = 5  # c, g, v, σ², τ²
TYPICAL = (1.0, 0.01, 0.1, 0.1, 0.01)  # where their prior is centred
# of c, g, v, σ², τ² and of ℓ/√D: all smooth, mostly linear, short and nearly without noise
STARTS = (
    (TYPICAL, 1.0),
    ((1.0, 0.1, 0.001, 0.01, 0.001), 2.0),
    ((1.0, 0.001, 0.1, 0.001, 0.001), 0.5),
)
VARIANCES, LENGTHS = (1e-8, 1e4), (0.05, 100.0)  # bounds, for outputs and inputs of size one


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """Measured sets; inputs are standardised, outputs divided by the size of a set's mean."""

    x: np.ndarray  # (N, D), zeros where padded, like the other two
    theta: np.ndarray  # (A, N), Θ
    y_bar: np.ndarray  # (A,)
    unit: float


def measured(sets: sw.Sets, y_bar: np.ndarray, pool: sw.Sets) -> Totals:
    """The totals `y_bar` of `sets`; inputs are standardised as those of the pool."""
    theta = np.zeros((len(sets), len(sets.x)))
    owner = np.repeat(np.arange(len(sets)), sets.sizes)
    theta[owner, np.arange(len(owner))] = sets.theta
    unit = float(np.sqrt(np.mean((y_bar / abs(theta).sum(axis=1)) ** 2))) or 1.0
    rows, columns = (0, -len(sets) % SETS), (0, -len(sets.x) % INDIVIDUALS)
    x = np.pad(standardized(sets.x, pool), (columns, (0, 0)))
    return Totals(x, np.pad(theta, (rows, columns)), np.pad(y_bar / unit, rows), unit)


def standardized(x: np.ndarray, pool: sw.Sets) -> np.ndarray:
    std = pool.x.std(axis=0)
    return (x - pool.x.mean(axis=0)) / np.where(std > 0, std, 1.0)


def fit(totals: Totals, start: np.ndarray | None = None) -> np.ndarray:
    """Logarithms of c, g, v, σ², τ² and ℓ that maximise `log_posterior`.

    Args:
        start: Another place to start from, such as the maximum with fewer totals.
    """
    inputs = totals.x.shape[1]
    starts = [
        np.log([*variances, *[length * np.sqrt(inputs)] * inputs]) for variances, length in STARTS
    ]
    bounds = np.log([VARIANCES] * N_VARIANCES + [LENGTHS] * inputs)
    found = [
        minimize(_loss, begin, (totals,), "L-BFGS-B", jac=True, bounds=bounds)
        for begin in (starts if start is None else [start, *starts])
    ]
    return min(found, key=lambda each: each.fun).x


def log_posterior(log: np.ndarray, totals: Totals) -> float:
    """log p(ȳ), ȳ in the units of `totals`, and the log prior, which is 0 at its centre."""
    return -float(_loss(log, totals)[0])


def predict(log: np.ndarray, totals: Totals, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the outputs of new individuals of new sets.

    Args:
        x: Standardised inputs.
    """
    with jax.enable_x64(True):
        mean, variance = _conditional(log, totals.x, totals.theta, totals.y_bar, x)
    return totals.unit * np.asarray(mean), totals.unit * np.sqrt(np.asarray(variance))


def _loss(log: np.ndarray, totals: Totals) -> tuple[float, np.ndarray]:
    with jax.enable_x64(True):
        value, slope = _loss_and_slope(log, totals.x, totals.theta, totals.y_bar)
    return float(value), np.asarray(slope)


@jax.jit
@jax.value_and_grad
def _loss_and_slope(log: Any, x: Any, theta: Any, y_bar: Any) -> Any:
    root = jnp.linalg.cholesky(_covariance(log, x, theta))
    z = jax.scipy.linalg.solve_triangular(root, y_bar, lower=True)
    constant = 0.5 * jnp.log(2 * jnp.pi) * theta.any(axis=1).sum()
    centre = jnp.log(jnp.array(TYPICAL))
    unlikely = (((log[:N_VARIANCES] - centre) / 2) ** 2).sum()
    middle = jnp.sqrt(2) + 0.5 * jnp.log(x.shape[1])  # of log ℓ
    unlikely += ((log[N_VARIANCES:] - middle) ** 2).sum() / 3
    return 0.5 * (z @ z + unlikely) + jnp.log(jnp.diagonal(root)).sum() + constant


@jax.jit
def _conditional(log: Any, x: Any, theta: Any, y_bar: Any, x_new: Any) -> Any:
    c, g, v, noise, effect = jnp.exp(log[:N_VARIANCES])
    linear = g * (theta @ x) @ x_new.T
    between = c * theta.sum(axis=1)[:, None] + linear + theta @ _waves(log, x, x_new)
    root = jnp.linalg.cholesky(_covariance(log, x, theta))
    z = jax.scipy.linalg.solve_triangular(root, between, lower=True)
    mean = z.T @ jax.scipy.linalg.solve_triangular(root, y_bar, lower=True)
    before = c + g * (x_new**2).sum(axis=1) + v + noise + effect
    return mean, before - (z**2).sum(axis=0)


def _covariance(log: Any, x: Any, theta: Any) -> Any:
    """Of the totals, which is 1 where there is none; c and g need no matrix of individuals."""
    c, g, _, noise, effect = jnp.exp(log[:N_VARIANCES])
    total, centre = theta.sum(axis=1), theta @ x
    own = noise * (theta**2).sum(axis=1) + effect * total**2
    own = jnp.where(theta.any(axis=1), own, 1.0)
    smooth = theta @ _waves(log, x, x) @ theta.T
    return c * jnp.outer(total, total) + g * centre @ centre.T + smooth + jnp.diag(own)


def _waves(log: Any, a: Any, b: Any) -> Any:
    """v exp(−½ Σ_d (a_d − b_d)² / ℓ_d²)."""
    lengths = jnp.exp(log[N_VARIANCES:])
    a, b = a / lengths, b / lengths
    square = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return jnp.exp(log[2] - 0.5 * jnp.maximum(square, 0.0))
