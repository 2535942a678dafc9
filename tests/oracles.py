"""Slow and obvious: everything from the joint Gaussian of all outputs (Eqs. 2, 3, 6, 7).

    y = Φ w + ε,   w ~ N(0, I/λ),   ε ~ N(0, I/β),   ȳ = C y

with one row of C per set. No design, spectrum, posterior over w or Cholesky factor appears.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Joint:
    sums: np.ndarray  # C, A × N
    latent: np.ndarray  # covariance of Φ w, N × N
    noise: float  # 1/β


def joint(sets, phi, lam, beta) -> Joint:
    sums = np.zeros((len(sets), len(phi)))
    for a in range(len(sets)):
        for n in range(sets.starts[a], sets.starts[a + 1]):
            sums[a, n] = sets.theta[n]
    return Joint(sums, phi @ phi.T / lam, 1 / beta)


def total_covariance(model: Joint) -> np.ndarray:
    return model.sums @ (model.latent + model.noise * np.eye(len(model.latent))) @ model.sums.T


def total_noise(model: Joint) -> np.ndarray:
    return np.array([model.noise * sum(c**2 for c in row) for row in model.sums])


def given_totals(model: Joint, seen, y_bar, phi_new, lam, phi) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of noise-free outputs at rows `phi_new`, given totals of `seen`."""
    cross = phi_new @ phi.T / lam @ model.sums[seen].T
    prior = phi_new @ phi_new.T / lam
    if not len(seen):
        return np.zeros(len(phi_new)), prior
    inverse = np.linalg.inv(total_covariance(model)[np.ix_(seen, seen)])
    return cross @ inverse @ np.asarray(y_bar), prior - cross @ inverse @ cross.T


def individual_variance_given(sets, phi, seen, lam, beta) -> np.ndarray:
    """Variance of every individual's noise-free output, given totals of `seen`."""
    model = joint(sets, phi, lam, beta)
    return np.diag(given_totals(model, seen, np.zeros(len(seen)), phi, lam, phi)[1])


def mutual_information(model: Joint, seen) -> np.ndarray:
    """½ log Var(ȳ_a | D) / Var(ȳ_a | w) of every set."""
    return 0.5 * np.log(total_variance_given(model, seen) / total_noise(model))


def total_variance_given(model: Joint, seen) -> np.ndarray:
    """Var(ȳ_a | D) of a new measurement of every set, with noise of its own."""
    signal = model.sums @ model.latent @ model.sums.T
    explained = np.zeros(len(signal))
    if len(seen):
        inside = total_covariance(model)[np.ix_(seen, seen)]
        for a in range(len(signal)):
            explained[a] = signal[a, seen] @ np.linalg.solve(inside, signal[seen, a])
    return np.diag(signal) - explained + total_noise(model)


def log_density(model: Joint, seen, y_bar) -> float:
    """log N(ȳ | 0, Cov ȳ) of the seen totals."""
    if not len(seen):
        return 0.0
    covariance = total_covariance(model)[np.ix_(seen, seen)]
    sign, log_det = np.linalg.slogdet(covariance)
    assert sign > 0
    y_bar = np.asarray(y_bar)
    power = y_bar @ np.linalg.solve(covariance, y_bar)
    return float(-0.5 * (log_det + power + len(seen) * np.log(2 * np.pi)))


# --- hypotheses with effects of sets --------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """All outputs under one hypothesis, as one Gaussian over s² in place of variances.

    y = Φ w + b + ε with w ~ N(0, V), b an effect shared within a set, and totals Θ y plus noise
    that is known.
    """

    outputs: np.ndarray  # covariance of all individuals' outputs, N × N
    sums: np.ndarray  # Θ, A × N
    known: np.ndarray  # variances of the totals' known noise, over s²

    @property
    def totals(self) -> np.ndarray:
        return self.sums @ self.outputs @ self.sums.T + np.diag(self.known)


def world(sets, phi, variances, noise, rho, known=None) -> World:
    """Members of a set share the part ρ of the noise; `variances` are those of each feature."""
    n_rows = len(phi)
    sums, outputs = np.zeros((len(sets), n_rows)), phi @ np.diag(variances) @ phi.T
    for a in range(len(sets)):
        own = range(sets.starts[a], sets.starts[a + 1])
        for n in own:
            sums[a, n] = sets.theta[n]
            for m in own:
                outputs[n, m] += noise * (rho + (1 - rho) * (n == m))
    return World(outputs, sums, np.zeros(len(sets)) if known is None else known)


def outputs_given(model: World, seen, z) -> tuple[np.ndarray, np.ndarray]:
    """Mean (a column per output) and covariance over s² of all y, given the totals `seen`."""
    cross = model.outputs @ model.sums[seen].T
    inside = model.totals[np.ix_(seen, seen)]
    pull = np.linalg.solve(inside, cross.T).T if len(seen) else cross
    return pull @ z, model.outputs - pull @ cross.T
