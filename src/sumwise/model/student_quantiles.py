"""Quantiles of mixtures of Student t distributions with means m, scales σ and ν degrees of freedom.

They lie between the quantiles of the components; Newton's steps find them, or halving where a step
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

NEWTON: Final = 60  # steps to a quantile, at most
CLOSE: Final = 1e-6  # error of a probability that ends the steps


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
    from scipy.special import ndtr, ndtri

    mixed = _average(probability)
    std = np.maximum(std, 1e-300)
    at = float(ndtri(share))
    if freedom < math.inf:
        inside = (at * (8 * freedom + 3) / (8 * freedom + 1)) ** 2 / freedom
        at = math.copysign(math.sqrt(freedom * math.expm1(inside)), at)
    ends = mean + at * std
    low, high = ends.min(axis=0), ends.max(axis=0)
    here, done = np.clip(mixed(ends), low, high), np.zeros(mean.shape[1], dtype=bool)
    for _ in range(NEWTON):
        with np.errstate(over="ignore"):
            away = np.clip((here - mean) / std, -1e100, 1e100)  # whose square is a number
        z, slope = _to_normal(away, freedom)
        below = mixed(ndtr(z))
        with np.errstate(over="ignore", invalid="ignore"):
            density = mixed(np.exp(-0.5 * z**2) * slope / std) / math.sqrt(2 * math.pi)
        low, high = np.where(below < share, here, low), np.where(below < share, high, here)
        narrow = high - low <= 1e-12 * np.maximum(abs(low), abs(high))
        done |= narrow | (abs(below - share) < CLOSE)  # each by itself, whatever the others do
        if done.all():
            break
        with np.errstate(all="ignore"):
            step = here - (below - share) / density
        step = np.where((step > low) & (step < high), step, 0.5 * (low + high))
        here = np.where(done, here, step)
    return here


def normal_score(
    probability: Float[np.ndarray, "k N"],
    mean: Float[np.ndarray, "k N"],
    std: Float[np.ndarray, "k N"],
    freedom: float,
    values: Float[np.ndarray, " N"],
) -> Float[np.ndarray, " N"]:
    """Φ⁻¹ of the share of each mixture that lies below a value."""
    from scipy.special import ndtr, ndtri

    z, _ = _to_normal((values - mean) / np.maximum(std, 1e-300), freedom)
    below, above = (np.clip(_average(probability)(ndtr(side)), 0.0, 1.0) for side in (z, -z))
    return np.where(below < above, ndtri(below), -ndtri(above))


def _to_normal(t: np.ndarray, freedom: float) -> tuple[np.ndarray, np.ndarray]:
    """Wallace's transformation, and its derivative."""
    if freedom == math.inf:
        return t, np.ones_like(t)
    factor = (8 * freedom + 1) / (8 * freedom + 3)
    size = np.sqrt(freedom * np.log1p(t**2 / freedom))
    curve = size * (1 + t**2 / freedom)
    slope = np.divide(abs(t), curve, out=np.ones_like(t), where=size > 1e-8)
    return factor * np.copysign(size, t), factor * slope


def _average(probability: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Averages over components, by one weight for each or by one for each and every mixture."""
    if probability.ndim == 1:
        return lambda values: probability @ values
    return lambda values: np.einsum("kn,kn->n", probability, values)
