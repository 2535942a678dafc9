"""The evidence log p(D | λ, β) and what maximises it (Eq. 22).

On the spectrum of the labelled sets every ȳ is a sum of independent Gaussians,

    c_i = g_i / λ + 1 / β,    log p = −½ Σ_i [ log c_i + z_i² / c_i + log 2π ] − ½ Σ_a log s_a,

so value, gradient and Hessian cost O(t). The plain maximum is degenerate with few labels: a
handful of sums can be fitted without noise, β runs away, and the next questions suffer. A weak
Gaussian prior on log λ and log β, `WeakPrior`, prevents that; its pull is that of about one label,
so with many labels it changes nothing. It is centred on the scale of the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from sumwise.errors import SumwiseError
from sumwise.posterior import Hyperparameters, Spectrum
from sumwise.shapes import Float

REACH = 25.0  # log λ and log β stay within this of the centre: a factor of 7e10 each way
ADAM_EPOCHS, ADAM_RATE = 1000, 1e-3  # the paper's


@dataclass(frozen=True, slots=True)
class WeakPrior:
    """Independent Gaussians on log λ and log β."""

    log_prior_precision: float
    log_noise_precision: float
    std: float = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class _Terms:
    """One entry per eigenvalue, the last for all that are zero."""

    values: Float[np.ndarray, " n"]  # g
    power: Float[np.ndarray, " n"]  # Σ z² over outputs (and over zero eigenvalues)
    count: Float[np.ndarray, " n"]  # how many (eigenvalue, output) pairs
    constant: float


def _terms(spectrum: Spectrum) -> _Terms:
    rank, outputs = len(spectrum.values), spectrum.n_outputs
    rest = spectrum.n_labels - rank
    power = (spectrum.projected**2).sum(axis=1)
    count = np.full(rank, float(outputs))
    values = spectrum.values
    if rest:
        values = np.append(values, 0.0)
        power = np.append(power, spectrum.residual_power)
        count = np.append(count, float(rest * outputs))
    n_pairs = spectrum.n_labels * outputs
    constant = -0.5 * (n_pairs * math.log(2 * math.pi) + outputs * spectrum.log_noise_scale)
    return _Terms(values, power, count, constant)


def log_evidence(spectrum: Spectrum, hyper: Hyperparameters) -> float:
    """log p(D | λ, β), Eq. 22, summed over outputs."""
    log_hyper = np.log([hyper.prior_precision, hyper.noise_precision])
    return float(_value(log_hyper, _terms(spectrum)))


def log_evidence_gradient(
    spectrum: Spectrum, hyper: Hyperparameters
) -> tuple[float, Float[np.ndarray, "2"]]:
    """Eq. 22 and its derivatives by log λ and log β."""
    log_hyper = np.log([hyper.prior_precision, hyper.noise_precision])
    terms = _terms(spectrum)
    gradient, _ = _derivatives(log_hyper, terms)
    return float(_value(log_hyper, terms)), gradient


def _value(log_hyper: Float[np.ndarray, "2 ..."], terms: _Terms) -> Float[np.ndarray, "..."]:
    """For one pair (log λ, log β), or for arrays of them."""
    inverse_prior, inverse_noise = np.exp(-log_hyper)
    c = inverse_prior[..., None] * terms.values + inverse_noise[..., None]
    return np.asarray(-0.5 * (np.log(c) @ terms.count + (1 / c) @ terms.power) + terms.constant)


def _derivatives(
    log_hyper: Float[np.ndarray, "2"], terms: _Terms
) -> tuple[Float[np.ndarray, "2"], Float[np.ndarray, "2 2"]]:
    inverse_prior, inverse_noise = np.exp(-log_hyper)
    signal = inverse_prior * terms.values  # −∂c/∂log λ; −∂c/∂log β is inverse_noise
    c = signal + inverse_noise
    pull = (terms.count - terms.power / c) / c  # −2 ∂log p/∂c
    bend = (2 * terms.power / c - terms.count) / c**2  # its derivative by c
    gradient = 0.5 * np.array([pull @ signal, pull.sum() * inverse_noise])
    cross = -0.5 * inverse_noise * (bend @ signal)
    hessian = np.array(
        [
            [-0.5 * (bend @ signal**2 + pull @ signal), cross],
            [cross, -0.5 * (bend.sum() * inverse_noise + pull.sum()) * inverse_noise],
        ]
    )
    return gradient, hessian


def maximise(spectrum: Spectrum, prior: WeakPrior, *, use_prior: bool = True) -> Hyperparameters:
    """λ and β of the largest evidence, weighed with the weak prior unless told otherwise.

    A coarse grid finds the right hill, Newton steps its top; the result depends on nothing but
    the arguments. Without labels it is the centre of the prior.
    """
    centre = np.array([prior.log_prior_precision, prior.log_noise_precision])
    if not spectrum.n_labels:
        return Hyperparameters(*np.exp(centre).tolist())
    terms = _terms(spectrum)
    stiffness = prior.std**-2 if use_prior else 0.0

    def objective(point: Float[np.ndarray, "2 ..."]) -> Float[np.ndarray, "..."]:
        away = point - centre.reshape(2, *[1] * (point.ndim - 1))
        return np.asarray(_value(point, terms) - 0.5 * stiffness * (away**2).sum(axis=0))

    offsets = np.arange(-12.0, 12.5, 2.0)
    grid = np.stack(np.meshgrid(centre[0] + offsets, centre[1] + offsets, indexing="ij"))
    best = np.unravel_index(np.argmax(objective(grid)), grid.shape[1:])
    point = grid[:, best[0], best[1]]
    value = float(objective(point))
    low, high = centre - REACH, centre + REACH
    for _ in range(100):
        gradient, hessian = _derivatives(point, terms)
        gradient = gradient - stiffness * (point - centre)
        hessian = hessian - stiffness * np.eye(2)
        stuck = ((point <= low) & (gradient < 0)) | ((point >= high) & (gradient > 0))
        gradient[stuck] = 0.0
        if abs(gradient).max() < 1e-9 * spectrum.n_labels:
            break
        step = _ascent_step(gradient, hessian, stuck)
        for _ in range(40):
            trial = np.clip(point + step, low, high)
            trial_value = float(objective(trial))
            if trial_value >= value:
                break
            step *= 0.5
        if trial_value <= value:  # rounding is all that is left to climb
            break
        point, value = trial, trial_value
    if not np.isfinite(value):
        raise SumwiseError(
            f"the evidence is not finite at log λ = {point[0]:.3g}, log β = {point[1]:.3g}; "
            "the measured totals are beyond what double precision can hold. Rescale them."
        )
    return Hyperparameters(*np.exp(point).tolist())


def _ascent_step(
    gradient: Float[np.ndarray, "2"], hessian: Float[np.ndarray, "2 2"], stuck: np.ndarray
) -> Float[np.ndarray, "2"]:
    """Newton's step, turned uphill where the surface is not concave, at most 3 long."""
    hessian = hessian.copy()
    hessian[0, 1] = hessian[1, 0] = 0.0 if stuck.any() else hessian[0, 1]
    curvature, axes = np.linalg.eigh(hessian)
    bend = np.maximum(abs(curvature), 1e-6 * abs(curvature).max() + 1e-12)
    step = axes @ ((axes.T @ gradient) / bend)
    return step * min(1.0, 3.0 / max(float(np.linalg.norm(step)), 1e-300))


def adam(spectrum: Spectrum, start: Hyperparameters) -> Hyperparameters:
    """The paper's search: 1000 Adam steps of 1e-3 on (log λ, log β), to the letter.

    Compiled when numba is installed; the numbers agree to rounding.
    """
    terms = _terms(spectrum)
    log_prior, log_noise = math.log(start.prior_precision), math.log(start.noise_precision)
    if not spectrum.n_labels:
        return start
    climb = adam_steps
    if find_spec("numba") is not None:
        from sumwise import kernels

        climb = kernels.adam
    log_prior, log_noise = climb(
        terms.values, terms.power, terms.count, log_prior, log_noise, ADAM_EPOCHS, ADAM_RATE
    )
    return Hyperparameters(math.exp(log_prior), math.exp(log_noise))


def adam_steps(
    values: Float[np.ndarray, " n"],
    power: Float[np.ndarray, " n"],
    count: Float[np.ndarray, " n"],
    log_prior: float,
    log_noise: float,
    epochs: int,
    rate: float,
) -> tuple[float, float]:
    """Adam (decay 0.9 and 0.999, ε = 1e-8) on minus the log evidence."""
    terms = _Terms(values, power, count, 0.0)
    point = np.array([log_prior, log_noise])
    first, second = np.zeros(2), np.zeros(2)
    for epoch in range(1, epochs + 1):
        slope = -_derivatives(point, terms)[0]
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        step = rate / (1 - 0.9**epoch)
        point -= step * first / (np.sqrt(second) / math.sqrt(1 - 0.999**epoch) + 1e-8)
    return float(point[0]), float(point[1])
