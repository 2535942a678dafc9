"""The evidence where totals have a known measurement noise of their own, of standard deviation r_a.

    ȳ_a = w·u_a + noise,    variance of the noise = s_a / β + r_a² = (s_a + β r_a²) / β

For a given β this is the ordinary model with e_a = s_a + β r_a² in place of s_a
(`Design.with_known_noise`), so the posterior and the evidence are the ordinary ones; only the
search for λ and β has to know that the noise scale moves with β. With Q, g, z of the spectrum at β
and c_i = g_i/λ + 1/β,

    ∂ log p / ∂ log λ = ½ Σ_i (g_i/λ) (1/c_i − z_i²/c_i²)
    ∂ log p / ∂ log β = ½ Σ_a (s_a/β) ([C⁻¹]_aa − [C⁻¹ȳ]_a²),    C = u uᵀ/λ + diag(e)/β

One output only: several would each need their own noise, and no longer share S.
"""

from __future__ import annotations

import math

import numpy as np

from sumwise.model import evidence
from sumwise.model.evidence import REACH, WeakPrior
from sumwise.model.posterior import Hyperparameters
from sumwise.model.scaling import Standardised, beyond_doubles
from sumwise.util.shapes import Float

_NOISES = np.arange(-REACH + 1, REACH, 2.0)  # log β around its centre, where a search begins
_PRIORS = np.arange(-REACH, REACH + 0.5, 0.5)  # log λ around its centre


def log_evidence_gradient(
    data: Standardised, hyper: Hyperparameters
) -> tuple[float, Float[np.ndarray, "2"]]:
    """log p(D | λ, β) with known noise, and its derivatives by log λ and log β."""
    lam, beta = hyper.prior_precision, hyper.noise_precision
    noise_scale = data.design_at(beta).noise_scale
    spectrum = data.spectrum_at(beta)
    left, z = spectrum.left, spectrum.projected[:, 0]
    signal = spectrum.values / lam
    c = signal + 1 / beta
    root = np.sqrt(noise_scale)
    rest = data.totals[:, 0] / root - left @ z
    inverse = (beta + left**2 @ (1 / c - beta)) / noise_scale  # diagonal of C⁻¹
    solved = (left @ (z / c) + beta * rest) / root  # C⁻¹ ȳ
    by_prior = 0.5 * float(np.sum(signal / c - z**2 * signal / c**2))
    by_noise = 0.5 * float(np.sum(data.design.noise_scale / beta * (inverse - solved**2)))
    return evidence.log_evidence(spectrum, hyper), np.array([by_prior, by_noise])


def maximise(data: Standardised, prior: WeakPrior) -> Hyperparameters:
    """λ and β of the largest evidence, as `evidence.maximise` without known noise.

    The search begins at the best point of a grid: there is a decomposition for each β, and then
    every λ costs O(t).
    """
    from scipy.optimize import minimize

    centre, stiffness = prior.centre, prior.stiffness
    if abs(centre).max() + REACH > 700:
        raise beyond_doubles(data.totals)

    def downhill(point: Float[np.ndarray, "2"]) -> tuple[float, Float[np.ndarray, "2"]]:
        hyper = Hyperparameters(*np.exp(point).tolist())
        value, slope = log_evidence_gradient(data, hyper)
        away = point - centre
        return 0.5 * stiffness * float(away @ away) - value, stiffness * away - slope

    top, start, log_prior = -math.inf, centre, centre[0] + _PRIORS
    for log_noise in (centre[1] + _NOISES).tolist():
        terms = evidence.terms_of(data.spectrum_at(math.exp(log_noise)))
        value = evidence.log_joint(terms, prior, log_prior - log_noise, log_noise)[:, 0]
        value += terms.constant
        at = int(np.argmax(value))
        if value[at] > top:
            top, start = float(value[at]), np.array([log_prior[at], log_noise])
    bounds = [(at - REACH, at + REACH) for at in centre.tolist()]
    options = {"ftol": 1e-15, "gtol": 1e-9 * len(data.design), "maxiter": 200}
    found = minimize(downhill, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return Hyperparameters(*np.exp(found.x).tolist())


def adam(data: Standardised, start: Hyperparameters) -> Hyperparameters:
    """The paper's search, as `evidence.adam`; a decomposition at every step."""

    def gradient(point: Float[np.ndarray, "2"]) -> Float[np.ndarray, "2"]:
        hyper = Hyperparameters(*np.exp(point).tolist())
        return log_evidence_gradient(data, hyper)[1]

    return evidence.adam_steps(gradient, start)
