"""How totals of counts, shares and amounts depend on the linear predictors of their individuals.

With η_n the predictor of an individual and e_n its exposure (or number of trials), its mean m_n and
the total's mean μ_a = Σ m_n. The slopes m'_n = ∂m_n/∂η_n of a set's members add up to V_a, and
p_n = m'_n / V_a are their shares. A total has the information W_a about h_aᵀw, h_a = Σ p_n φ_n:

    counts   m = e exp η  negative binomial of size 1/d      1/W = 1/μ + d     d = α Σp²
    shares   m = e σ(η)   binomial                           1/W = (1 + d)/V   d = α Σm'²(1 − 1/e)/V
    amounts  m = e exp η  log-normal (Fenton and Wilkinson)  1/W = log(1 + d)  d = α Σp²

α is the variance of what individuals have of their own, relative to their mean (on the logit scale
for shares): counts with α = 0 are Poisson, and one trial has none of its own. First derivatives
know that d changes with η; the information takes it for given.

Counts and amounts are functions f of log μ. The sum of binomials with unequal probabilities has no
simple density: with θ such that Σ e σ(η + θ) = ȳ, the saddlepoint approximation

    log p(ȳ) ≈ Σ e log((1 + exp(η + θ)) / (1 + exp η)) − θȳ + log c,
    c = C(E, ȳ) π^ȳ (1 − π)^(E − ȳ) (E π (1 − π) / V(θ))^½,     π = ȳ/E,     E = Σe

is exact for equal probabilities and at ȳ = 0 and ȳ = E. With κ₃ and κ₄ the cumulants at θ, the
next term of the expansion, κ₄/8V² − 5κ₃²/24V³ less what it is for equal probabilities, is added to
log c, at most `MOST_SECOND`: where it is large, the expansion says nothing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from sumwise.util.shapes import Float, Int, Numbers

POISSON_BELOW: Final = 1e-12  # of d: a negative binomial is a Poisson distribution there
STIRLING_FROM: Final = 1e4  # of 1/d
MOST_SECOND: Final = 0.1  # nats: of the second term of the saddlepoint approximation
LEAST_SPREAD: Final = 1e-8  # of α of amounts, which have no noise beside it
FARTHEST: Final = 40.0  # of θ: from here on σ is 0 or 1


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Individuals of measured sets, one set after the other, and the totals."""

    phi: Float[np.ndarray, "N K"]
    exposure: Float[np.ndarray, " N"]
    starts: Int[np.ndarray, " t1"]
    totals: Float[np.ndarray, " t"]

    def __len__(self) -> int:
        return len(self.totals)

    @property
    def owner(self) -> Int[np.ndarray, " N"]:
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def sums(self, values: Float[np.ndarray, "k N"]) -> Float[np.ndarray, "k t"]:
        """Of the members of each set."""
        if not len(self):
            return np.zeros((len(values), 0))
        return np.add.reduceat(values, self.starts[:-1], axis=1)

    def spread(self, values: Float[np.ndarray, "k t"]) -> Float[np.ndarray, "k N"]:
        """The value of its set for each individual."""
        return np.repeat(values, np.diff(self.starts), axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """A likelihood at some predictors, for each of k hypotheses."""

    log_density: Float[np.ndarray, "k t"]
    pull: Float[np.ndarray, "k N"]  # its derivative by η
    share: Float[np.ndarray, "k N"]  # p
    information: Float[np.ndarray, "k t"]  # W


@dataclass(frozen=True, slots=True)
class Likelihood:
    """One kind of output."""

    name: str
    link: Callable[[Numbers], Numbers]  # η of a mean per exposure
    mean: Callable[[Numbers], Numbers]  # the inverse of that
    slope: Callable[[Numbers], Numbers]  # its derivative by η
    spread: Callable[[Numbers], Numbers]  # variance of an output with exposure 1, up to a factor
    growth: Callable[[Numbers, Numbers], Numbers]  # of noise over slope², by (δ, η)
    local: Callable[[Measured, Numbers, Numbers], Local]  # at (measured, η, α)
    working: Callable[[Numbers, Numbers, float], tuple[Numbers, Numbers]]  # see `gaussian`
    variance: Callable[[Numbers, Numbers], Numbers]  # 1/W of what it is for α = 0, and α Σp²
    whole: bool  # outputs are whole numbers
    capped: bool  # outputs are at most the exposure

    def gaussian(
        self, measured: Measured, level: float
    ) -> tuple[Numbers, Numbers, Numbers, Float[np.ndarray, "t K"]]:
        """Totals as if they were Gaussian on the scale of η, where all predictors are `level`.

        Gives how far each is from that, its variance for α = 0, Σp² and h.
        """
        first = measured.starts[:-1]
        everyone = np.add.reduceat(measured.exposure, first)
        share = measured.exposure / np.repeat(everyone, np.diff(measured.starts))
        squares = share**2 * (np.maximum(1 - 1 / measured.exposure, 0) if self.capped else 1.0)
        rows = np.add.reduceat(share[:, None] * measured.phi, first)
        off, variance = self.working(measured.totals, everyone, level)
        return off, variance, np.add.reduceat(squares, first), rows


def sigmoid(eta: Numbers) -> Numbers:
    return 0.5 * (1 + np.tanh(0.5 * eta))


def _sigmoid_slope(eta: Numbers) -> Numbers:
    return 0.25 / np.cosh(np.clip(0.5 * eta, -350, 350)) ** 2


# --- counts and amounts: functions of log μ -------------------------------------------------------


def _log_mean(measured: Measured, eta: Numbers) -> tuple[Numbers, Numbers]:
    """log μ and p."""
    each = eta + np.log(measured.exposure)
    top = np.maximum.reduceat(each, measured.starts[:-1], axis=1) if len(measured) else each[:, :0]
    parts = np.exp(each - measured.spread(top))
    total = measured.sums(parts)
    return top + np.log(total), parts / measured.spread(total)


def _own_dispersion(measured: Measured, share: Numbers, alpha: Numbers) -> tuple[Numbers, Numbers]:
    """d, and its derivative by η."""
    squares = measured.sums(share**2)
    turn = 2 * alpha[:, None] * share * (share - measured.spread(squares))
    return alpha[:, None] * squares, turn


def _counts(measured: Measured, eta: Numbers, alpha: Numbers) -> Local:
    from scipy.special import gammaln

    log_mean, share = _log_mean(measured, eta)
    d, turn = _own_dispersion(measured, share, alpha)
    mean, y = np.exp(log_mean), measured.totals
    size, inflated = 1 / np.maximum(d, POISSON_BELOW), 1 + d * mean
    more, rise = _rising(y, size)
    ends = (y + size) * np.log1p(d * mean)
    by_d = (np.log1p(d * mean) - rise) * size**2 - (y + size) * mean / inflated
    few = d < POISSON_BELOW
    more, ends = np.where(few, 0.0, more), np.where(few, mean, ends)
    by_d = np.where(few, 0.5 * ((y - mean) ** 2 - y), by_d)
    log_density = more - gammaln(y + 1) + y * log_mean - ends
    pull = measured.spread((y - mean) / inflated) * share + measured.spread(by_d) * turn
    return Local(log_density, pull, share, mean / inflated)


def _rising(y: Numbers, size: Numbers) -> tuple[Numbers, Numbers]:
    """log Γ(y + r) − log Γ(r) − y log r, and its derivative by r."""
    from scipy.special import gammaln, psi

    # for large r these lose all digits, and Stirling's series has them
    end, whole, grown = y + size, 1 / size, np.log1p(y / size)
    value = (end - 0.5) * grown - y + (1 / end - whole) / 12
    slope = grown - y / size - (1 / end - whole) / 2 - (1 / end**2 - whole**2) / 12
    small = np.minimum(size, STIRLING_FROM)
    exact = gammaln(y + small) - gammaln(small) - y * np.log(small)
    by_size = psi(y + small) - psi(small) - y / small
    large = size > STIRLING_FROM
    return np.where(large, value, exact), np.where(large, slope, by_size)


def _amounts(measured: Measured, eta: Numbers, alpha: Numbers) -> Local:
    log_mean, share = _log_mean(measured, eta)
    d, turn = _own_dispersion(measured, share, np.maximum(alpha, LEAST_SPREAD))
    variance = np.log1p(d)
    off = np.log(measured.totals) + 0.5 * variance - log_mean
    log_density = -0.5 * (np.log(2 * math.pi * variance) + off**2 / variance)
    log_density = log_density - np.log(measured.totals)
    by_d = 0.5 * (off**2 / variance - off - 1) / variance / (1 + d)
    pull = measured.spread(off / variance) * share + measured.spread(by_d) * turn
    return Local(log_density, pull, share, 1 / variance)


# --- shares ---------------------------------------------------------------------------------------


def _dispersion_of_trials(
    measured: Measured, eta: Numbers, alpha: Numbers
) -> tuple[Numbers, Numbers]:
    """d, and its derivative by η."""
    slope, more = measured.exposure * _sigmoid_slope(eta), np.maximum(1 - 1 / measured.exposure, 0)
    variance, squares = measured.sums(slope), measured.sums(slope**2 * more)
    turn = slope * (1 - 2 * sigmoid(eta))  # of the slope
    turn = turn * (2 * slope * more - measured.spread(squares / variance))
    by_eta = alpha[:, None] * turn / measured.spread(variance)
    return alpha[:, None] * squares / variance, by_eta


def tilt(
    eta: Numbers, trials: Numbers, starts: Int[np.ndarray, " t1"], totals: Float[np.ndarray, " t"]
) -> Numbers:
    """θ of each set such that Σ e σ(η + θ) is its total; ±`FARTHEST` where none or all succeed."""
    sizes, first = np.diff(starts), starts[:-1]
    everyone = np.add.reduceat(trials, first)
    inside = (totals > 0) & (totals < everyone)
    wanted = np.where(inside, totals, 0.5 * everyone)
    goal = np.log(wanted) - np.log(everyone - wanted)
    theta = np.zeros((len(eta), len(totals)))
    for _ in range(60):
        at = eta + np.repeat(theta, sizes, axis=1)
        mean = np.add.reduceat(trials * sigmoid(at), first, axis=1)
        slope = np.add.reduceat(trials * _sigmoid_slope(at), first, axis=1)
        left = np.add.reduceat(trials * sigmoid(-at), first, axis=1)
        mean, left = np.maximum(mean, 1e-300), np.maximum(left, 1e-300)
        off = goal - np.log(mean) + np.log(left)
        step = off / np.maximum(slope * (1 / mean + 1 / left), 1e-12)
        theta = theta + np.clip(step, -5.0, 5.0)
        if np.abs(off[:, inside]).max(initial=0.0) < 1e-12:
            break
    ends = np.where(totals <= 0, -FARTHEST, FARTHEST)
    return np.where(inside, theta, ends - _middle(eta, starts))


def _middle(eta: Numbers, starts: Int[np.ndarray, " t1"]) -> Numbers:
    return np.add.reduceat(eta, starts[:-1], axis=1) / np.diff(starts)


def _shares(measured: Measured, eta: Numbers, alpha: Numbers) -> Local:
    from scipy.special import gammaln, xlogy

    d, change = _dispersion_of_trials(measured, eta, alpha)

    trials, y, starts = measured.exposure, measured.totals, measured.starts
    mean, slope = trials * sigmoid(eta), trials * _sigmoid_slope(eta)
    variance = measured.sums(slope)
    share = slope / measured.spread(variance)
    information = variance / (1 + d)
    if not len(measured):
        return Local(np.zeros((len(eta), 0)), np.zeros_like(eta), share, information)
    everyone = np.add.reduceat(trials, starts[:-1])
    theta = tilt(eta, trials, starts, y)
    tilted = eta + measured.spread(theta)
    there = trials * sigmoid(tilted)
    inside = (y > 0) & (y < everyone)
    part = np.clip(y / everyone, 0.0, 1.0)
    deviance = measured.sums(trials * (np.logaddexp(0, tilted) - np.logaddexp(0, eta))) - theta * y
    sign = np.where(y < everyone, 1.0, -1.0).repeat(np.diff(starts))
    at_ends = -measured.sums(trials * np.logaddexp(0, sign * eta))
    deviance = np.where(inside, deviance, at_ends)  # times −½
    choices = gammaln(everyone + 1) - gammaln(y + 1) - gammaln(everyone - y + 1)
    choices = choices + xlogy(y, part) + xlogy(everyone - y, 1 - part)
    height, turn = _height(measured, tilted, inside, everyone * part * (1 - part), part)
    choices = choices + height
    # more variance than the binomial distribution has, by an extended quasi-likelihood
    by_d = -(deviance / (1 + d) + 0.5) / (1 + d)
    log_density = deviance / (1 + d) - 0.5 * np.log1p(d) + choices
    pull = (there - mean) / measured.spread(1 + d) + measured.spread(by_d) * change
    return Local(log_density, pull + turn, share, information)


def _height(
    measured: Measured, tilted: Numbers, inside: Numbers, variance: Numbers, part: Numbers
) -> tuple[Numbers, Numbers]:
    """log c but for its binomial probability, and its derivative by η; 0 at the ends.

    Args:
        variance: Of a total with equal probabilities, which are `part`.
    """
    trials, q = measured.exposure, sigmoid(tilted)
    v = _sigmoid_slope(tilted)
    third, fourth = trials * v * (1 - 2 * q), trials * v * (1 - 6 * v)  # cumulants
    fifth = third * (1 - 12 * v)
    k2, k3, k4 = (np.where(inside, measured.sums(k), 1.0) for k in (trials * v, third, fourth))
    equal = np.where(inside, variance, 1.0)
    skew, heavy = equal * (1 - 2 * part), equal * (1 - 6 * part * (1 - part))
    more = k4 / (8 * k2**2) - 5 * k3**2 / (24 * k2**3)
    more = more - heavy / (8 * equal**2) + 5 * skew**2 / (24 * equal**3)
    bounded = np.tanh(more / MOST_SECOND)
    each = measured.spread
    by = fifth / each(8 * k2**2) - third * each(k4 / (4 * k2**3))
    by = by - fourth * each(5 * k3 / (12 * k2**3)) + third * each(5 * k3**2 / (8 * k2**4))
    by = by * each(1 - bounded**2) - third / each(2 * k2)
    by = by - trials * v * each(measured.sums(by) / k2)  # θ moves along
    height = 0.5 * np.log(equal / k2) + MOST_SECOND * bounded
    return np.where(inside, height, 0.0), np.where(each(inside[None]), by, 0.0)


def _working_counts(y: Numbers, everyone: Numbers, level: float) -> tuple[Numbers, Numbers]:
    mean = everyone * math.exp(level)
    return np.log((y + 0.5) / (mean + 0.5)), 2 / (y + mean + 1)


def _working_shares(y: Numbers, everyone: Numbers, level: float) -> tuple[Numbers, Numbers]:
    some, mean = (y + 0.5) / (everyone + 1), sigmoid(np.array(level))
    middle = 0.5 * (some + mean)
    return np.log(some / (1 - some)) - level, 1 / ((everyone + 1) * middle * (1 - middle))


def _working_amounts(y: Numbers, everyone: Numbers, level: float) -> tuple[Numbers, Numbers]:
    return np.log(y) - np.log(everyone) - level, np.zeros_like(y)


# functions with names, which can be pickled with a model


def _logit(share: Numbers) -> Numbers:
    return np.log(share) - np.log1p(-share)


def _growth_of_counts(off: Numbers, centre: Numbers) -> Numbers:
    return np.exp(-off)


def _growth_of_amounts(off: Numbers, centre: Numbers) -> Numbers:
    return np.ones_like(off)


def _spread_of_amounts(eta: Numbers) -> Numbers:
    return np.exp(2 * eta)


def _log_variance(noise: Numbers, own: Numbers) -> Numbers:
    return np.log1p(np.maximum(own, LEAST_SPREAD))


def _growth_of_shares(off: Numbers, centre: Numbers) -> Numbers:
    return np.exp(np.log(_sigmoid_slope(centre)) - np.log(_sigmoid_slope(centre + off)))


LIKELIHOODS: Final[Mapping[str, Likelihood]] = {
    "counts": Likelihood(
        "counts",
        link=np.log,
        mean=np.exp,
        slope=np.exp,
        spread=np.exp,
        growth=_growth_of_counts,
        local=_counts,
        working=_working_counts,
        variance=operator.add,
        whole=True,
        capped=False,
    ),
    "shares": Likelihood(
        "shares",
        link=_logit,
        mean=sigmoid,
        slope=_sigmoid_slope,
        spread=_sigmoid_slope,
        growth=_growth_of_shares,
        local=_shares,
        working=_working_shares,
        variance=operator.add,
        whole=True,
        capped=True,
    ),
    "amounts": Likelihood(
        "amounts",
        link=np.log,
        mean=np.exp,
        slope=np.exp,
        spread=_spread_of_amounts,
        growth=_growth_of_amounts,
        local=_amounts,
        working=_working_amounts,
        variance=_log_variance,
        whole=False,
        capped=False,
    ),
}
