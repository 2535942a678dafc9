"""Quantiles of mixtures of Student t distributions with means m, scales σ and ν degrees of freedom.

They lie between the quantiles of the components. Steps of second order find them, from the quantile
of a single t distribution with the mean and the spread of the mixture, or halving where a step
leaves that range. Probabilities of t are those of a normal variable at Wallace's transformation,

    Σ_h p_h Φ(u((y − m_h) / σ_h)) = share,     u(t) = ± (8ν + 1)/(8ν + 3) √(ν log(1 + t²/ν))

which errs by less than 5e-4 from four degrees of freedom on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from sumwise.util.shapes import Float

STEPS: Final = 120  # to a quantile, at most
FEW: Final = 6  # steps, after which every second one halves the range
CLOSE: Final = 1e-6  # error of a probability that ends the steps, in units of the smaller tail
LAST: Final = 0.015  # scales: after a step that is shorter, probabilities are right to 1e-6
SOME: Final = 256  # mixtures at a time, so that what is worked out of them stays in cache
_TINY: Final = 1e-150


def quantile(
    probability: Float[np.ndarray, "k ..."],
    mean: Float[np.ndarray, "k N"],
    std: Float[np.ndarray, "k N"],
    freedom: float,
    share: float,
) -> Float[np.ndarray, " N"]:
    """Where the share `share` of each mixture lies below, a column for each mixture.

    Args:
        probability: One for each component, or for each component and mixture.
        freedom: ν; infinite for mixtures of normal distributions.
    """
    from scipy.special import ndtri

    at = float(ndtri(share))
    if freedom < math.inf:
        inside = (at * (8 * freedom + 3) / (8 * freedom + 1)) ** 2 / freedom
        at = math.copysign(math.sqrt(freedom * math.expm1(inside)), at)
    found = np.empty(mean.shape[1])
    for low in range(0, len(found), SOME):
        here = np.s_[..., low : low + SOME]
        some = probability if probability.ndim == 1 else probability[here]
        found[here] = _quantile(some, mean[here], std[here], freedom, share, at)
    return found


def _quantile(
    probability: np.ndarray,
    mean: np.ndarray,
    std: np.ndarray,
    freedom: float,
    share: float,
    at: float,
) -> Float[np.ndarray, " N"]:
    """The same of a few mixtures.

    Args:
        at: The quantile of a t distribution with mean 0 and scale 1.
    """
    mixed, std = _average(probability), np.maximum(std, 1e-300)
    ends, middle = mean + at * std, mixed(mean)
    low, high = ends.min(axis=0), ends.max(axis=0)
    with np.errstate(all="ignore"):
        here = middle + at * np.sqrt(mixed(std**2 + (mean - middle) ** 2))
        last = LAST * mixed(std**-3.0) ** (-1 / 3)
    here, found = np.clip(here, low, high), np.empty(mean.shape[1])
    left = np.arange(len(found))
    for count in range(STEPS):
        below, step, length = _step(mixed, here - mean, std, freedom, share)
        low, high = np.where(below < 0, here, low), np.where(below < 0, high, here)
        inside = (here + step >= low) & (here + step <= high)
        if count >= FEW and count % 2:  # steps may run back and forth over a narrow component
            inside[:] = False
        found[left] = np.where(inside, here + step, 0.5 * (low + high))
        # each by itself, whatever the others do
        narrow = high - low <= 1e-12 * np.maximum(abs(low), abs(high))
        close = abs(below) < CLOSE * min(share, 1 - share)
        on = ~(narrow | (inside & (close | (length <= last))))
        if not on.any():
            break
        left, low, high, last = left[on], low[on], high[on], last[on]
        here, mean, std = found[left], mean[:, on], std[:, on]
        mixed = mixed if probability.ndim == 1 else _average(probability[:, left])
    return found


def _step(
    mixed: Callable[[np.ndarray], np.ndarray],
    away: np.ndarray,
    std: np.ndarray,
    freedom: float,
    share: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By how much the share below is too large, a step of second order to where it is not, and d,
    the longer of this and Newton's step: the remainder is at most 0.22 d³ Σ_h p_h / σ_h³.
    """
    from scipy.special import ndtr

    with np.errstate(all="ignore"):
        away = np.clip(away / std, -1e100, 1e100)  # whose square is a number
        z, density, curve = _to_normal(away, freedom)
        below = mixed(ndtr(z)) - share
        np.square(z, out=z)
        z *= -0.5
        density *= np.exp(z, out=z)
        density /= math.sqrt(2 * math.pi) * std
        slope = mixed(density)
        density *= curve
        density /= std
        newton = -below / slope
        step = newton - 0.5 * newton**2 * mixed(density) / slope
        return below, step, np.maximum(abs(newton), abs(step))


def normal_score(
    probability: Float[np.ndarray, "k N"],
    mean: Float[np.ndarray, "k N"],
    std: Float[np.ndarray, "k N"],
    freedom: float,
    values: Float[np.ndarray, " N"],
) -> Float[np.ndarray, " N"]:
    """Φ⁻¹ of the share of each mixture that lies below a value."""
    from scipy.special import ndtr, ndtri

    z, *_ = _to_normal((values - mean) / np.maximum(std, 1e-300), freedom)
    below, above = (np.clip(_average(probability)(ndtr(side)), 0.0, 1.0) for side in (z, -z))
    return np.where(below < above, ndtri(below), -ndtri(above))


def _to_normal(t: np.ndarray, freedom: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wallace's transformation, its derivative, and the logarithmic derivative of the density of t,
    where it does for that of the transformed density."""
    if freedom == math.inf:
        return t.copy(), np.ones_like(t), -t
    factor = (8 * freedom + 1) / (8 * freedom + 3)
    square = t**2
    square /= freedom
    size = np.log1p(square)
    size *= freedom
    np.sqrt(size, out=size)
    z = np.copysign(size, t)
    z *= factor
    square += 1
    curve = t / square
    curve *= (freedom + 1) / -freedom
    size += _TINY  # so that the derivative at 0 is 1
    size *= square
    slope = abs(t)
    slope += _TINY
    slope /= size
    slope *= factor
    return z, slope, curve


def _average(probability: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Averages over components, by one weight for each or by one for each and every mixture."""
    if probability.ndim == 1:
        return lambda values: probability @ values
    return lambda values: np.einsum("kn,kn->n", probability, values)
