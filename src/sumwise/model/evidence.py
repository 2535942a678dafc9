"""The evidence log p(D | λ, β) and what maximises it (Eq. 22).

On the spectrum of the labelled sets every ȳ is a sum of independent Gaussians,

    c_i = g_i / λ + 1 / β,    log p = −½ Σ_i [ log c_i + z_i² / c_i + log 2π ] − ½ Σ_a log s_a,

so value, gradient and Hessian cost O(t). The plain maximum is degenerate with few labels: a
handful of sums can be fitted without noise, β runs away, and the next questions suffer. A weak
Gaussian prior on log λ and log β, `WeakPrior`, prevents that; it weighs about as much as one label,
so with many labels it changes nothing. It is centred on the scale of the data.

There are two estimates of λ and β: the maximum (`maximise`), and the paper's 1000 steps of Adam
(`adam`). With known noise of the totals, they are in `known_noise`. `basis="auto"` has no estimate
of them: it integrates (`mixture_weights`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from sumwise.errors import SumwiseError
from sumwise.model.posterior import Hyperparameters, Spectrum
from sumwise.util.shapes import Float

REACH = 25.0  # log λ and log β stay within this of the centre: a factor of 7e10 each way
ADAM_EPOCHS, ADAM_RATE = 1000, 1e-3  # the paper's
_RATIOS = np.arange(-2 * REACH, 2 * REACH + 0.25, 0.5)  # of log λ − log β, around the centre


@dataclass(frozen=True, slots=True)
class WeakPrior:
    """Independent Gaussians on log λ and log β; flat around the centre if `std` is infinite."""

    log_prior_precision: float
    log_noise_precision: float
    std: float = 2.0

    @property
    def centre(self) -> Float[np.ndarray, "2"]:
        return np.array([self.log_prior_precision, self.log_noise_precision])

    @property
    def stiffness(self) -> float:
        """The inverse variance."""
        return self.std**-2


FLAT = WeakPrior(0.0, 0.0, math.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """What the evidence is made of: an entry per eigenvalue, the last for all that are zero."""

    values: Float[np.ndarray, " n"]  # g
    power: Float[np.ndarray, " n"]  # Σ z² over outputs (and over zero eigenvalues)
    count: Float[np.ndarray, " n"]  # how many (eigenvalue, output) pairs
    constant: float = 0.0


def terms_of(spectrum: Spectrum) -> Terms:
    values, outputs = spectrum.values, spectrum.n_outputs
    rest = spectrum.n_labels - len(values)
    power, count = (spectrum.projected**2).sum(axis=1), np.full(len(values), float(outputs))
    if rest:
        values = np.append(values, 0.0)
        power = np.append(power, spectrum.residual_power)
        count = np.append(count, float(rest * outputs))
    n_pairs = spectrum.n_labels * outputs
    constant = -0.5 * (n_pairs * math.log(2 * math.pi) + outputs * spectrum.log_noise_scale)
    return Terms(values, power, count, constant)


def log_evidence(spectrum: Spectrum, hyper: Hyperparameters) -> float:
    """log p(D | λ, β), Eq. 22, summed over outputs."""
    point = np.log([hyper.prior_precision, hyper.noise_precision])
    return view_at(point, terms_of(spectrum)).value


def by_ratio(
    terms: Terms, ratio: Float[np.ndarray, " i"]
) -> tuple[Float[np.ndarray, " i"], Float[np.ndarray, " i"]]:
    """Σ log k and Σ z²/k with k = g e^−d + 1, for ratios d = log λ − log β."""
    k = np.exp(-ratio)[:, None] * terms.values + 1
    return np.log(k) @ terms.count, (1 / k) @ terms.power


def log_joint(
    terms: Terms, prior: WeakPrior, ratio: Float[np.ndarray, " i"], log_noise: Any
) -> Float[np.ndarray, "i j"]:
    """log p(D, λ, β) on a grid of d = log λ − log β and log β, but for constants.

    log p(D | λ, β) = ½ n log β − ½ Σ log k − ½ β Σ z²/k + constant.
    """
    log_det, misfit = by_ratio(terms, ratio)
    fit = log_det[:, None] + misfit[:, None] * np.exp(log_noise)
    away_noise = log_noise - prior.log_noise_precision
    away_prior = ratio[:, None] + log_noise - prior.log_prior_precision
    away = away_noise**2 + away_prior**2
    return 0.5 * (terms.count.sum() * log_noise - fit) - 0.5 * away / prior.std**2


class View(NamedTuple):
    """The log evidence and its derivatives, in plain numbers: arrays of two cost far more."""

    value: float
    gradient: tuple[float, float]  # by log λ, log β
    hessian: tuple[float, float, float]  # by λλ, λβ, ββ


def view_at(point: Float[np.ndarray, "2"], terms: Terms, prior: WeakPrior = FLAT) -> View:
    """The view at `point`, which is log λ and log β, weighed with the prior."""
    inverse_prior, noise = np.exp(-point).tolist()
    away_prior, away_noise = (point - prior.centre).tolist()
    signal = inverse_prior * terms.values  # −∂c/∂log λ; −∂c/∂log β is `noise`
    c = signal + noise
    share = terms.power / c
    pull = 0.5 * (terms.count - share) / c  # −∂log p/∂c
    bend = (share - 0.5 * terms.count) / (c * c)  # its derivative by c
    turn, stiffness = bend * signal, prior.stiffness
    value = terms.constant - 0.5 * float(np.log(c) @ terms.count + share.sum())
    by_prior, pull_all = float(pull @ signal), float(pull.sum())
    return View(
        value - 0.5 * stiffness * (away_prior**2 + away_noise**2),
        (by_prior - stiffness * away_prior, pull_all * noise - stiffness * away_noise),
        (
            -(float(turn @ signal) + by_prior) - stiffness,
            -float(turn.sum()) * noise,
            -(float(bend.sum()) * noise + pull_all) * noise - stiffness,
        ),
    )


def maximise(spectrum: Spectrum, prior: WeakPrior) -> Hyperparameters:
    """λ and β of the largest evidence, weighed with the prior.

    A scan over the ratio λ/β finds the highest hill, Newton's steps its top; the result depends on
    nothing but the arguments. Without labels it is the centre of the prior.
    """
    centre = prior.centre
    if not spectrum.n_labels:
        return Hyperparameters(*np.exp(centre).tolist())
    terms, low, high = terms_of(spectrum), centre - REACH, centre + REACH
    point = _scan(terms, prior)
    here = view_at(point, terms, prior)
    for _ in range(100):
        # at an end of the range, a slope that leads beyond it does not count
        inside = np.where(np.array(here.gradient) < 0, point > low, point < high).tolist()
        slope = tuple(g if free else 0.0 for g, free in zip(here.gradient, inside, strict=True))
        if max(map(abs, slope)) < 1e-9 * spectrum.n_labels:
            break
        step = _ascent_step(slope, here.hessian, all(inside))
        for _ in range(40):
            trial = np.minimum(np.maximum(point + step, low), high)
            there = view_at(trial, terms, prior)
            if there.value >= here.value:
                break
            step *= 0.5
        if there.value <= here.value:  # only rounding is left to climb
            break
        point, here = trial, there
    if not math.isfinite(here.value):
        raise SumwiseError(
            f"the evidence is not finite at log λ = {point[0]:.3g}, log β = {point[1]:.3g}; the "
            "measured totals are beyond what double precision can hold. Rescale them."
        )
    return Hyperparameters(*np.exp(point).tolist())


def _scan(terms: Terms, prior: WeakPrior) -> Float[np.ndarray, "2"]:
    """The best point over a fine grid of ratios d = log λ − log β.

    Along log β at a fixed ratio the objective is concave, N/2 log β − Q/2 β plus a parabola, with
    its top between those of the two; from the higher one Newton's steps go down to it.
    """
    centre, stiffness = prior.centre, prior.stiffness
    d = centre[0] - centre[1] + _RATIOS
    n, (_, q) = float(terms.count.sum()), by_ratio(terms, d)
    with np.errstate(divide="ignore"):
        of_labels = np.log(n) - np.log(q)
    of_prior = 0.5 * (centre.sum() - d)
    log_noise = np.minimum(np.maximum(of_labels, of_prior) if stiffness else of_labels, 700.0)
    for _ in range(60 if stiffness else 0):
        push = 0.5 * q * np.exp(log_noise)
        slope = 0.5 * n - push - 2 * stiffness * (log_noise - of_prior)
        step = slope / (push + 2 * stiffness)
        log_noise += step
        if abs(step).max() < 0.01:
            break
    point = np.stack([log_noise + d, log_noise])
    point = np.clip(point, centre[:, None] - REACH, centre[:, None] + REACH)
    log_det, misfit = by_ratio(terms, point[0] - point[1])
    values = 0.5 * (n * point[1] - log_det - misfit * np.exp(point[1]))
    values -= 0.5 * stiffness * ((point - centre[:, None]) ** 2).sum(axis=0)
    return point[:, int(np.argmax(values))]


def _ascent_step(
    slope: tuple[float, ...], hessian: tuple[float, float, float], both: bool
) -> Float[np.ndarray, "2"]:
    """Newton's step of one or both coordinates, uphill even where not concave, at most 3 long."""
    a, b, d = hessian
    # eigenvalues of [[a, b], [b, d]] by a rotation that makes it diagonal
    twice = 2 * b if both else 0.0
    angle, gap = 0.5 * math.atan2(twice, a - d), math.hypot(a - d, twice)
    cos, sin = math.cos(angle), math.sin(angle)
    curvature = (0.5 * (a + d + gap), 0.5 * (a + d - gap))
    floor = 1e-6 * max(map(abs, curvature)) + 1e-12
    along = (cos * slope[0] + sin * slope[1]) / max(abs(curvature[0]), floor)
    across = (cos * slope[1] - sin * slope[0]) / max(abs(curvature[1]), floor)
    step = np.array([cos * along - sin * across, sin * along + cos * across])
    return step * min(1.0, 3.0 / max(math.hypot(along, across), 1e-300))


# --- the paper's search ---------------------------------------------------------------------------


def adam(spectrum: Spectrum, start: Hyperparameters) -> Hyperparameters:
    """The paper's search: 1000 Adam steps of 1e-3 on (log λ, log β), to the letter.

    Compiled when numba is installed; the numbers agree to rounding.
    """
    if not spectrum.n_labels:
        return start
    terms = terms_of(spectrum)
    if find_spec("numba") is None:
        return adam_steps(lambda point: view_at(point, terms).gradient, start)
    from sumwise.model import kernels

    point = np.log([start.prior_precision, start.noise_precision])
    kernels.adam(terms.values, terms.power, terms.count, point, ADAM_EPOCHS, ADAM_RATE)
    return Hyperparameters(*np.exp(point).tolist())


def adam_steps(
    gradient: Callable[[Float[np.ndarray, "2"]], Any], start: Hyperparameters
) -> Hyperparameters:
    """Adam (decay 0.9 and 0.999, ε = 1e-8) uphill on the log evidence, given its gradient."""
    point = np.log([start.prior_precision, start.noise_precision])
    first, second = np.zeros(2), np.zeros(2)
    for epoch in range(1, ADAM_EPOCHS + 1):
        slope = -np.array(gradient(point))
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        step = ADAM_RATE / (1 - 0.9**epoch)
        point = point - step * first / (np.sqrt(second) / math.sqrt(1 - 0.999**epoch) + 1e-8)
    return Hyperparameters(*np.exp(point).tolist())
