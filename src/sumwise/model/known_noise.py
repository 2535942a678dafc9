"""Answers whose measurement has a known noise of its own, of standard deviation r_a.

    ȳ_a = w·u_a + noise,    variance of the noise = s_a / β + r_a² = (s_a + β r_a²) / β

For a given β this is the ordinary model with s_a + β r_a² in place of s_a
(`Design.with_known_noise`), so the posterior and the evidence are the ordinary ones; only the
search for λ and β has to know that the noise scale moves with β.
With Q, g, z of the spectrum at β, c_i = g_i/λ + 1/β and e = s + β r²,

    ∂ log p / ∂ log λ = ½ Σ_i (g_i/λ) (1/c_i − z_i²/c_i²)
    ∂ log p / ∂ log β = ½ Σ_a (s_a/β) ([C⁻¹]_aa − [C⁻¹ȳ]_a²),    C = u uᵀ/λ + diag(e)/β

One output only: several would each need their own noise, and no longer share S.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sumwise.errors import LabelError
from sumwise.model import evidence, scaling
from sumwise.model.design import Design
from sumwise.model.evidence import ADAM_EPOCHS, ADAM_RATE, REACH, WeakPrior
from sumwise.model.posterior import Hyperparameters, decompose
from sumwise.util.shapes import Float

_NOISES = np.arange(-REACH + 1, REACH, 2.0)  # of log β around its centre, where a search begins
_PRIORS = np.arange(-REACH, REACH + 0.5, 0.5)  # of log λ
LEAST_LOG_VARIANCE = -690.0  # whose inverse is still a number


def weighing(
    design: Design,
    y_bar: Float[np.ndarray, "t 1"],
    noise_std: Float[np.ndarray, " t"],
    hyperparameters: str | tuple[float, float],
) -> tuple[Design, float]:
    """The design that offset and scale of the outputs are taken from, before β is known, and √v:
    answers that are blurred count for less, as r_a² compares with the individuals' variance v.

    v is where the residuals are as large as they should be (Paule and Mandel),
    Σ_a left_a² / (v s_a + r_a²) = t − 1, and not below what the answers can resolve, the standard
    error of v, unless that is more than their size. Without blur it is the ordinary scale, squared,
    and so it is where answers tell nothing of it.
    """
    if not isinstance(hyperparameters, str):
        return design.with_known_noise(noise_std, hyperparameters[1]), hyperparameters[1] ** -0.5
    centred = hyperparameters != "adam"

    def left_by(there: Design) -> tuple[Float[np.ndarray, "t 1"], Float[np.ndarray, "1"]]:
        offset = scaling.offset_of(there, y_bar) if centred else np.zeros(1)
        return scaling.centred(there, y_bar, offset), offset

    def too_small(log_variance: float) -> bool:
        there = design.with_known_noise(noise_std, math.exp(-log_variance))
        left, _ = left_by(there)
        spread = float(scaling.scale_of(there, left, np.zeros(1))[0]) if left.any() else 0.0
        return spread > 0 and 2 * math.log(spread) > log_variance

    high = 2 * math.log(float(scaling.scale_of(design, *left_by(design))[0]))
    low = _least_log_variance(design, y_bar, noise_std, high, centred)
    for _ in range(60 if low < high and too_small(low) else 0):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return design.with_known_noise(noise_std, math.exp(-low)), math.exp(0.5 * low)


def _least_log_variance(
    design: Design,
    y_bar: Float[np.ndarray, "t 1"],
    noise_std: Float[np.ndarray, " t"],
    ordinary: float,
    centred: bool,
) -> float:
    """Log of the smallest v to be believed: its standard error where v is next to nothing, or the
    mean square of an individual if that is less; the ordinary one where answers tell nothing."""
    with np.errstate(divide="ignore"):
        blur = float((2 * np.log(noise_std) - np.log(design.noise_scale)).min())  # log r² / s
    nothing = max(ordinary - 2 * REACH, blur - 2 * REACH, LEAST_LOG_VARIANCE)
    there = design.with_known_noise(noise_std, math.exp(-nothing))
    share = design.noise_scale / there.noise_scale
    error = nothing + _relative_error(share, there, centred)
    if not math.isfinite(error):
        error = ordinary
    elif y_bar.any():
        root = float(scaling.scale_of(there, y_bar, np.zeros(1))[0])
        freedom = max(1, len(design) - 1)
        error = min(error, 2 * math.log(root) + math.log(freedom / float(share.sum())))
    return max(nothing, error)


def _relative_error(share: Float[np.ndarray, " t"], there: Design, centred: bool) -> float:
    """Log of the standard error of v over v, √(2 / tr P²) with P = √share (I − q qᵀ) √share: an
    answer tells of v by its share of individual noise, less what went into the offset along q.

    Sums over all others than one are taken without it: 1 − q² would be rounding where one answer
    is far less blurred than the rest, which sets the offset and then tells nothing of v.
    """
    parts, lever = share, there.theta_sum**2 / there.noise_scale
    if centred and lever.any():
        lever = lever / lever.sum()
        both = share * lever
        parts = np.concatenate([share * _others(lever), np.sqrt(both * _others(both))])
    top = float(parts.max(initial=0.0))
    if not top:
        return math.inf
    return 0.5 * math.log(2) - math.log(top) - math.log(float(np.linalg.norm(parts / top)))


def _others(values: Float[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
    """For each entry the sum of all others."""
    before, after = np.cumsum(values), np.cumsum(values[::-1])[::-1]
    return np.append(0.0, before[:-1]) + np.append(after[1:], 0.0)


def search(
    design: Design,
    y_bar: Float[np.ndarray, "t 1"],
    noise_std: Float[np.ndarray, " t"],
    start: Hyperparameters,
    prior: WeakPrior,
    hyperparameters: str | tuple[float, float],
    use_prior: bool,
) -> Hyperparameters:
    """λ and β in the way that the setting `hyperparameters` names."""
    if hyperparameters == "evidence":
        return maximise(design, y_bar, noise_std, prior, use_prior=use_prior)
    return adam(design, y_bar, noise_std, start) if hyperparameters == "adam" else start


def log_evidence_gradient(
    design: Design,
    y_bar: Float[np.ndarray, "t 1"],
    noise_std: Float[np.ndarray, " t"],
    hyper: Hyperparameters,
) -> tuple[float, Float[np.ndarray, "2"]]:
    """log p(D | λ, β) with known noise, and its derivatives by log λ and log β."""
    lam, beta = hyper.prior_precision, hyper.noise_precision
    there = design.with_known_noise(noise_std, beta)
    spectrum = decompose(there, y_bar)
    left, z = spectrum.left, spectrum.projected[:, 0]
    signal = spectrum.values / lam
    c = signal + 1 / beta
    root = np.sqrt(there.noise_scale)
    rest = y_bar[:, 0] / root - left @ z
    inverse = (beta + left**2 @ (1 / c - beta)) / there.noise_scale  # diagonal of C⁻¹
    solved = (left @ (z / c) + beta * rest) / root  # C⁻¹ ȳ
    by_prior = 0.5 * float(np.sum(signal / c - z**2 * signal / c**2))
    by_noise = 0.5 * float(np.sum(design.noise_scale / beta * (inverse - solved**2)))
    return evidence.log_evidence(spectrum, hyper), np.array([by_prior, by_noise])


def maximise(
    design: Design,
    y_bar: Float[np.ndarray, "t 1"],
    noise_std: Float[np.ndarray, " t"],
    prior: WeakPrior,
    *,
    use_prior: bool = True,
) -> Hyperparameters:
    """λ and β of the largest evidence; what `evidence.maximise` is without known noise."""
    from scipy.optimize import minimize

    centre = np.array([prior.log_prior_precision, prior.log_noise_precision])
    stiffness = prior.std**-2 if use_prior else 0.0
    if abs(centre).max() + REACH > 700:
        raise LabelError(
            "the measured totals are beyond what double precision can hold, squared; rescale them, "
            "or use standardize=True"
        )

    def downhill(point: Float[np.ndarray, "2"]) -> tuple[float, Float[np.ndarray, "2"]]:
        hyper = Hyperparameters(*np.exp(point).tolist())
        value, slope = log_evidence_gradient(design, y_bar, noise_std, hyper)
        away = point - centre
        return 0.5 * stiffness * float(away @ away) - value, stiffness * away - slope

    start = _scan(design, y_bar, noise_std, centre, stiffness)
    bounds = [(at - REACH, at + REACH) for at in centre.tolist()]
    options = {"ftol": 1e-15, "gtol": 1e-9 * len(design), "maxiter": 200}
    found = minimize(downhill, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return Hyperparameters(*np.exp(found.x).tolist())


def _scan(
    design: Design,
    y_bar: Float[np.ndarray, "t 1"],
    noise_std: Float[np.ndarray, " t"],
    centre: Float[np.ndarray, "2"],
    stiffness: float,
) -> Float[np.ndarray, "2"]:
    """The best point of a grid: a decomposition for each β, and then every λ costs O(t)."""
    top, best = -math.inf, centre
    for log_noise in (centre[1] + _NOISES).tolist():
        there = design.with_known_noise(noise_std, math.exp(log_noise))
        spectrum = decompose(there, y_bar)
        log_prior = centre[0] + _PRIORS
        c = np.exp(-log_prior)[:, None] * spectrum.values + math.exp(-log_noise)
        outside = spectrum.n_labels - len(spectrum.values)
        value = -0.5 * (np.log(c).sum(axis=1) + (1 / c) @ spectrum.projected[:, 0] ** 2)
        value += 0.5 * outside * log_noise - 0.5 * spectrum.residual_power * math.exp(log_noise)
        value -= 0.5 * spectrum.log_noise_scale
        value -= 0.5 * stiffness * (_PRIORS**2 + (log_noise - centre[1]) ** 2)
        at = int(np.argmax(value))
        if value[at] > top:
            top, best = float(value[at]), np.array([log_prior[at], log_noise])
    return best


def adam(
    design: Design,
    y_bar: Float[np.ndarray, "t 1"],
    noise_std: Float[np.ndarray, " t"],
    start: Hyperparameters,
) -> Hyperparameters:
    """The paper's search, as `evidence.adam`; a decomposition at every step."""

    def slope(point: Float[np.ndarray, "2"]) -> Float[np.ndarray, "2"]:
        hyper = Hyperparameters(*np.exp(point).tolist())
        return -log_evidence_gradient(design, y_bar, noise_std, hyper)[1]

    point = np.log([start.prior_precision, start.noise_precision])
    return Hyperparameters(*np.exp(_climb(slope, point)).tolist())


def _climb(
    slope: Callable[[Float[np.ndarray, "2"]], Float[np.ndarray, "2"]], point: Float[np.ndarray, "2"]
) -> Float[np.ndarray, "2"]:
    first, second = np.zeros(2), np.zeros(2)
    for epoch in range(1, ADAM_EPOCHS + 1):
        down = slope(point)
        first = 0.9 * first + 0.1 * down
        second = 0.999 * second + 0.001 * down**2
        step = ADAM_RATE / (1 - 0.9**epoch)
        point = point - step * first / (np.sqrt(second) / math.sqrt(1 - 0.999**epoch) + 1e-8)
    return point
