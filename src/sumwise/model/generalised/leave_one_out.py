"""Each total of counts, shares or amounts given all others, without fitting the model again.

At the mode of a hypothesis totals are as if z_a = f_a + noise of variance 1/W_a were measured, with
f_a = h_aᵀw + b_a, so that z ~ N(0, C). With the weights C⁻¹z, which are the sums of the pull over
members of each set, and the inverse of a partitioned matrix, f_a given all other totals has

    mean f̂_a − v_a [C⁻¹z]_a,     variance v_a = 1/[C⁻¹]_aa − 1/W_a

    log p(ȳ_a | others) ≈ log p(ȳ_a | f̂_a) − ½ v_a [C⁻¹z]_a² − ½ log(1 + v_a W_a)     (Laplace)

which weighs hypotheses without the total. Over them, f_a is taken for Gaussian.

A total that is a whole number has no density, so where it lies in its distribution is
u = P(y < ȳ) + v P(y = ȳ), uniform on (0, 1) if v is; v is a fraction by the total's place.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from sumwise.model.generalised.averaging import Generalised
from sumwise.model.generalised.laplace import Posteriors
from sumwise.model.generalised.likelihoods import Likelihood, sigmoid
from sumwise.model.generalised.predict import MOST, Predictor, Total
from sumwise.model.mixture_weights import CAUTION
from sumwise.util.shapes import Float, Numbers

GOLDEN: Final = 0.5 * (5**0.5 - 1)  # its multiples, less whole numbers, fill (0, 1) evenly
GRID: Final = np.linspace(-8.0, 8.0, 161)  # of a standard normal predictor
WEIGHTS: Final = np.exp(-0.5 * GRID**2) / np.exp(-0.5 * GRID**2).sum()
FEWEST: Final = 1e-300  # of a probability


class Chances(NamedTuple):
    """Where totals lie in their distributions."""

    below: Float[np.ndarray, " t"]  # P(y < ȳ)
    up_to: Float[np.ndarray, " t"]  # P(y ≤ ȳ)
    above: Float[np.ndarray, " t"]  # P(y > ȳ)
    from_it: Float[np.ndarray, " t"]  # P(y ≥ ȳ)

    @property
    def two_sided(self) -> Float[np.ndarray, " t"]:
        """Of a total as far out, on either side."""
        least = np.minimum(self.up_to, self.from_it)
        return np.clip(2 * least, FEWEST, 1.0)

    def scores(self) -> Float[np.ndarray, " t"]:
        """Φ⁻¹(u): standard normal where distributions are right."""
        from scipy.special import ndtri

        v = np.modf(GOLDEN * np.arange(1, len(self.below) + 1))[0]
        u = self.below + v * np.maximum(self.up_to - self.below, 0.0)
        rest = self.above + (1 - v) * np.maximum(self.from_it - self.above, 0.0)
        return np.where(u < 0.5, ndtri(np.maximum(u, FEWEST)), -ndtri(np.maximum(rest, FEWEST)))


def left(model: Generalised) -> Total:
    """Every total given all others."""
    found, measured = model.posteriors, model.measured
    mean, variance, density = apart(found)
    logs = np.log(model.probability)[:, None] - CAUTION * density
    chance = np.exp(logs - logs.max(axis=0))
    chance = chance / chance.sum(axis=0)
    middle = (chance * mean).sum(axis=0)
    spread = (chance * (variance + (mean - middle) ** 2)).sum(axis=0)
    eta = Predictor(np.clip(middle, -MOST, MOST), spread)
    own, alike = ((chance * each).sum(axis=0) for each in (found.own, found.alike))
    return Total(eta, own, measured.sums(measured.exposure[None])[0], alike)


def apart(
    found: Posteriors,
) -> tuple[Float[np.ndarray, "k t"], Float[np.ndarray, "k t"], Float[np.ndarray, "k t"]]:
    """Mean and variance of the predictor of each set given all other totals, under each hypothesis,
    and the log density of its total."""
    inverse = np.einsum("hst,hst->ht", found.white, found.white)  # [C⁻¹]_aa
    variance = np.maximum(1 / inverse - 1 / found.information, 0.0)
    density = found.log_density - 0.5 * variance * found.weights**2
    density = density - 0.5 * np.log1p(variance * found.information)
    return found.centre - variance * found.weights, variance, density


def chances(known: Likelihood, total: Total, y: Float[np.ndarray, " t"]) -> Chances:
    """Where totals lie in their distributions, with all digits in either tail."""
    from scipy.special import ndtr

    mean, variance, own, exposure = total.eta.mean, total.eta.variance, total.own, total.exposure
    if not known.whole:
        more = np.log1p(own)
        off = np.log(y) - mean - np.log(exposure) + 0.5 * more
        off = off / np.sqrt(np.maximum(variance + more, FEWEST))
        return Chances(ndtr(off), ndtr(off), ndtr(-off), ndtr(-off))
    if known.capped:
        variance = total.alike**2 * (variance + own)
    eta = mean[:, None] + np.sqrt(variance)[:, None] * GRID
    rest = exposure[:, None], own[:, None]
    at, before = (_tails(known, eta, *rest, k[:, None]) for k in (y, y - 1))
    return Chances(before[0], at[0], at[1], before[1])


def _tails(
    known: Likelihood, eta: Numbers, exposure: Numbers, own: Numbers, k: Numbers
) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"]]:
    """P(y ≤ k) and P(y > k), with predictors on `GRID`."""
    from scipy.special import betainc, pdtr, pdtrc

    some = np.maximum(k, 0.0)
    if known.capped:
        p, n = sigmoid(eta), np.maximum(exposure - some, 1e-9)
        lower, upper = betainc(n, some + 1, 1 - p), betainc(some + 1, n, p)
        lower, upper = np.where(k >= exposure, 1.0, lower), np.where(k >= exposure, 0.0, upper)
    else:
        rate = exposure * np.exp(np.minimum(eta, MOST))
        size = 1 / np.maximum(own, 1e-12)
        p = size / (size + rate)
        lower, upper = betainc(size, some + 1, p), betainc(some + 1, size, 1 - p)
        few = size < 1e8
        lower = np.where(few, lower, pdtr(some, rate))
        upper = np.where(few, upper, pdtrc(some, rate))
    lower, upper = np.where(k < 0, 0.0, lower), np.where(k < 0, 1.0, upper)
    return lower @ WEIGHTS, upper @ WEIGHTS
