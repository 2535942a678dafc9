"""Predictions of counts, shares and amounts, and of their totals.

The predictor of an individual is Gaussian with the mean and variance of the whole mixture. Outputs
are mixtures over it, by Gauss and Hermite's nodes, of negative binomial, binomial or log-normal
distributions; where they are whole numbers, so are their quantiles. The mean of exp η grows with
exp(v/2), v the variance of η. Within the range of the data v is hardly ever above 1; far outside it
may be 50, and the mean 10¹⁰ times the median. So mean and standard deviation take v for `WITHIN`
where it is more, and quantiles take it as it is.

Members of a measured set are predicted given its total ȳ. With m_n the means that all answers
suggest, their means given ȳ are those of the outputs' distributions times exp(θ y_n), with θ such
that they add up to ȳ (x = exp θ):

    counts    m x / (1 + α m (1 − x)),  which is ȳ m_n / Σm for α = 0
    shares    e σ(logit(m/e) + θ)
    amounts   m / (1 − θ α m)           as if they were gamma distributed

Given ȳ and a member's share of it, its count is binomial. The share is uncertain by the contrast of
its predictor with those of the whole set, and by what members have of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from sumwise.model.design import Design
from sumwise.model.generalised.averaging import Generalised
from sumwise.model.generalised.laplace import rows_of
from sumwise.model.generalised.likelihoods import Likelihood, Measured, sigmoid, tilt
from sumwise.model.posterior import Posterior
from sumwise.util.shapes import Float, Int, Numbers

NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
SHARES: Final = _WEIGHTS / _WEIGHTS.sum()
FAR: Final = 10.0  # times the highest measured rate, or below the lowest: beyond what was seen
MOST: Final = 300.0  # of the logarithm of a mean: beyond, squares overflow
WITHIN: Final = 1.0  # of the variance of a predictor within the range of the data
VAGUE: Final = 4.0  # of the same: a factor of 7 either way is one standard deviation
WIDEST: Final = 100.0  # of the variance of a predictor
ALL: Final = 1e-12  # less than this of a total is left for others
POISSON: Final = 1e-8  # of α: less is none
NARROW: Final = 0.35  # of the standard deviation of η: less is between two nodes

Found = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # mean, standard deviation, interval


@dataclass(frozen=True, slots=True, eq=False)
class Predictor:
    """The distribution of η of some rows, the effects of their sets included."""

    mean: Float[np.ndarray, " N"]
    variance: Float[np.ndarray, " N"]


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """Rows that belong to measured sets."""

    total: Int[np.ndarray, " N"]  # number of the set; −1 for rows of no measured set
    counted: Float[np.ndarray, " N"]  # exposure in the total; 0 for those that it does not contain


def predictor(
    model: Generalised, phi: Float[np.ndarray, "N K"], own: Inside | None, *, noise: bool = True
) -> Predictor:
    """η of individuals with these features; without noise, but for effects of other sets."""
    found, chance = model.posteriors, model.probability
    effects = np.zeros((len(phi), len(model.measured)))
    if own is not None:
        rows = np.flatnonzero(own.total >= 0)
        effects[rows, own.total[rows]] = 1.0
    new = 1 - effects.sum(axis=1)  # sets that were not measured have an effect that is not known
    means = found.mean @ phi.T + found.effects @ effects.T
    shared = None if own is None else effects
    variances = np.stack([found.variance(h, phi, shared) for h in range(len(chance))])
    variances += found.priors.effect[:, None] * new * noise
    mean = chance @ means
    variance = chance @ (variances + (means - mean) ** 2)
    return Predictor(np.clip(model.level + mean, -MOST, MOST), variance)


def individuals(
    model: Generalised,
    phi: Float[np.ndarray, "N K"],
    exposure: Float[np.ndarray, " N"] | None,
    own: Inside | None = None,
    level: float | None = None,
    *,
    noise: bool = True,
) -> tuple[Found, np.ndarray]:
    """Outputs of individuals; per exposure where none is given. And which are beyond reason.

    Args:
        noise: Whether outputs have what individuals and sets have of their own, and are counted;
            otherwise only what inputs say of them is predicted.
    """
    eta = predictor(model, phi, own, noise=noise)
    beyond = extrapolates(model, eta)
    if not noise:
        e = 1.0 if exposure is None else exposure
        mean, std, _ = outputs(model.likelihood, eta, np.zeros(len(phi)), None, None)
        return (e * mean, e * std, None), beyond
    alpha = np.full(len(phi), model.dispersion)
    mean, std, ends = outputs(model.likelihood, eta, alpha, exposure, level)
    if own is None or not (own.counted > 0).any():
        return (mean, std, ends), beyond
    rows = np.flatnonzero(own.counted > 0)
    beyond[rows] = False  # their totals keep them from that
    own = Inside(own.total[rows], own.counted[rows])
    given = _members(model, phi[rows], own, level)
    unit = own.counted if exposure is None else np.ones(len(rows))
    mean[rows], std[rows] = given[0] / unit, given[1] / unit
    if ends is not None and given[2] is not None:
        ends[:, rows] = given[2] / unit
    return (mean, std, ends), beyond


def outputs(
    known: Likelihood,
    eta: Predictor,
    alpha: Float[np.ndarray, " N"],
    exposure: Float[np.ndarray, " N"] | None,
    level: float | None,
) -> Found:
    """Outputs with these predictors and dispersions; per exposure where none is given."""
    e = np.ones(len(alpha)) if exposure is None else exposure
    if known.capped:
        trials = None if exposure is None else e
        more = alpha if trials is None else alpha * np.maximum(1 - 1 / e, 0.0)
        return _successes(Predictor(eta.mean, eta.variance + more), trials, level)
    variance = np.minimum(eta.variance, WITHIN)
    mean = np.exp(np.minimum(eta.mean + 0.5 * variance + np.log(e), MOST))
    relative = np.expm1(np.minimum(variance + np.log1p(alpha), WIDEST))
    counted = known.whole and exposure is not None
    std = np.sqrt((mean if counted else 0.0) + mean**2 * relative)
    if level is None:
        return mean, std, None
    if not counted:
        own = np.log1p(alpha)
        return (
            mean,
            std,
            _normal(eta.mean + np.log(e) - 0.5 * own, eta.variance + own, level, np.exp),
        )
    total = Predictor(eta.mean + np.log(e), eta.variance)
    return mean, std, _whole(_negative_binomial(total, alpha), level, mean + 12 * std + 30)


def _successes(eta: Predictor, trials: Numbers | None, level: float | None) -> Found:
    """Successes in so many trials; their probability if None is given."""
    p = sigmoid(_nodes(eta))
    mean = p @ SHARES
    variance = (p - mean[:, None]) ** 2 @ SHARES
    if trials is None:
        ends = None if level is None else _normal(eta.mean, eta.variance, level, sigmoid)
        return mean, np.sqrt(variance), ends
    variance = trials**2 * variance + trials * ((p * (1 - p)) @ SHARES)
    ends = None if level is None else _whole(_binomial(eta, trials), level, trials)
    return trials * mean, np.sqrt(variance), ends


def _unequal(eta: Predictor, trials: Numbers, part: Numbers, level: float | None) -> Found:
    """Successes, where only a part of the binomial variance is left."""
    mean, free, ends = _successes(eta, trials, level)
    chance, spread, _ = _successes(eta, None, None)
    inside = np.maximum(chance * (1 - chance) - spread**2, 0.0)  # variance of one trial
    std = np.sqrt((trials * spread) ** 2 + trials * inside * part)
    if ends is not None:
        low, high = mean + (ends - mean) * (std / np.maximum(free, 1e-300))
        ends = np.stack([np.floor(low + 1e-9), np.ceil(high - 1e-9)])
        ends = np.clip(ends, 0.0, trials)
    return mean, std, ends


def _nodes(eta: Predictor) -> Float[np.ndarray, "N q"]:
    return eta.mean[:, None] + np.sqrt(eta.variance)[:, None] * NODES


def _normal(
    mean: Numbers, variance: Numbers, level: float, back: Callable[[Numbers], Numbers]
) -> Float[np.ndarray, "2 N"]:
    """Ends of the interval of a transformed normal variable."""
    from scipy.special import ndtri

    reach = ndtri(0.5 + 0.5 * level) * np.sqrt(variance)
    return np.stack([back(np.minimum(mean + sign * reach, MOST)) for sign in (-1, 1)])


# --- whole numbers --------------------------------------------------------------------------------

Cumulative = Callable[[np.ndarray, Any], np.ndarray]  # P(y ≤ k) of the rows at some positions


def _negative_binomial(eta: Predictor, alpha: Float[np.ndarray, " N"]) -> Cumulative:
    """Of counts whose log mean is η."""
    from scipy.special import betainc, pdtr

    rates = np.exp(np.minimum(_nodes(eta), MOST))

    def cumulative(k: Numbers, at: Any) -> Numbers:
        own = np.minimum(alpha[at], 1.0)
        middle = np.log(k + 2 / 3) - np.log1p(-own / 3)  # there, half of the counts are above k
        found, wide = _steps(eta, at, middle, 1 / (k + 0.5) + own)
        mean, size = rates[at][wide], 1 / np.maximum(alpha[at], 1e-12)[wide, None]
        each = betainc(size, k[wide, None] + 1, size / (size + mean))
        found[wide] = np.where(size < 1e8, each, pdtr(k[wide, None], mean)) @ SHARES
        return found

    return cumulative


def _binomial(eta: Predictor, trials: Float[np.ndarray, " N"]) -> Cumulative:
    """Of successes whose probability is σ(η)."""
    from scipy.special import betainc

    p = sigmoid(_nodes(eta))

    def cumulative(k: Numbers, at: Any) -> Numbers:
        n = trials[at]
        left = np.maximum(n - k - 1 / 3, 1 / 3)
        middle = np.log(k + 2 / 3) - np.log(left)
        found, wide = _steps(eta, at, middle, 1 / (k + 2 / 3) + 1 / left)
        most, some = n[wide, None], k[wide, None]
        found[wide] = betainc(np.maximum(most - some, 1e-9), some + 1, 1 - p[at][wide]) @ SHARES
        return np.where(k >= n, 1.0, found)

    return cumulative


def _steps(
    eta: Predictor, at: Any, middle: Numbers, variance: Numbers
) -> tuple[Numbers, Int[np.ndarray, " w"]]:
    """P(y ≤ k) where it falls from 1 to 0, as η rises, within a small part of what η may be.

    Args:
        middle: The predictor where it is ½.
        variance: Of the normal distribution that it falls like.

    Returns:
        Also where it does not: there, sums over nodes are right.
    """
    from scipy.special import ndtr

    own = eta.variance[at]
    found = ndtr((middle - eta.mean[at]) / np.sqrt(own + variance))
    return found, np.flatnonzero(variance > NARROW**2 * own)


def _whole(
    cumulative: Cumulative, level: float, top: Float[np.ndarray, " N"]
) -> Float[np.ndarray, "2 N"]:
    """The least whole numbers whose cumulative probability reaches each end of the interval.

    Args:
        top: A first guess of what is above the upper end.
    """
    ends = []
    for wanted in (0.5 - 0.5 * level, 0.5 + 0.5 * level):
        low, high = np.full(len(top), -1.0), np.ceil(top)
        wide = np.arange(len(top))
        while len(wide):  # a heavy tail may reach further
            wide = wide[(cumulative(high[wide], wide) < wanted - 1e-12) & (high[wide] < 1e15)]
            low[wide], high[wide] = high[wide], 2 * high[wide] + 1
        left = np.arange(len(top))
        while len(left := left[high[left] - low[left] > np.maximum(1.0, 1e-9 * high[left])]):
            middle = np.floor(0.5 * (low[left] + high[left]))
            reached = cumulative(middle, left) >= wanted
            high[left[reached]], low[left[~reached]] = middle[reached], middle[~reached]
        ends.append(high)
    return np.stack(ends)


# --- totals ---------------------------------------------------------------------------------------


class Total(NamedTuple):
    """What is known of totals that the model does not know."""

    eta: Predictor  # of a typical member, effects of sets included
    own: Float[np.ndarray, " A"]  # d: variance on its scale of what members have of their own
    exposure: Float[np.ndarray, " A"]
    alike: Float[np.ndarray, " A"]  # slope of the mean, over that of as many typical members


def unmeasured(model: Generalised, posterior: Posterior, design: Design) -> Total:
    """The totals of sets, as if none were measured."""
    bend = design.nonlinear
    assert bend is not None
    signal = posterior.variance_along(design.u) / bend.slope**2
    own = posterior.noise(design) / bend.slope**2 * (1 - bend.moving) - model.effect
    own = np.maximum(own, 0.0)
    eta, known = Predictor(bend.centre, signal + model.effect), model.likelihood
    alike = np.ones_like(own)
    if known.capped:  # slopes of members that are not alike add up to less
        most = design.theta_sum * known.slope(bend.centre)
        alike = np.minimum(bend.slope / np.maximum(most, 1e-300), 1.0)
    return Total(eta, own if known.whole else np.expm1(own), design.theta_sum, alike)


def outputs_of(known: Likelihood, total: Total, level: float | None = None) -> Found:
    """Mean, standard deviation and interval of totals."""
    eta, own, exposure, alike = total
    if known.capped:
        eta = Predictor(eta.mean, alike**2 * (eta.variance + own))
        return _unequal(eta, exposure, alike, level)
    return outputs(known, eta, own, exposure, level)


def totals(
    model: Generalised,
    posterior: Posterior,
    design: Design,
    own: Int[np.ndarray, " A"] | None,
    level: float | None = None,
) -> Found:
    """Totals of sets; those that are measured are what was measured.

    Args:
        own: The number of each set among the measured ones, −1 for others.
    """
    found = unmeasured(model, posterior, design)
    mean, std, ends = outputs_of(model.likelihood, found, level)
    if own is not None:
        rows = np.flatnonzero(own >= 0)
        mean[rows], std[rows] = model.measured.totals[own[rows]], 0.0
        if ends is not None:
            ends[:, rows] = mean[rows]
    return mean, std, ends


# --- members of measured sets ---------------------------------------------------------------------


def _members(
    model: Generalised, phi: Float[np.ndarray, "N K"], own: Inside, level: float | None
) -> Found:
    """Outputs of members of measured sets given the totals."""
    measured, known, alpha = model.measured, model.likelihood, model.dispersion
    everyone = Inside(measured.owner, measured.exposure)
    plain = _plain(model, measured.phi, everyone)
    given = _tilted(known, measured, alpha, plain)
    share = plain / measured.spread(measured.sums(plain[None]))[0]
    rows = rows_of(measured, share[None])[0]
    squares = measured.sums(share[None] ** 2)[0]
    mean = given(_plain(model, phi, own), own)
    total = measured.totals[own.total]
    mean = np.where(total == 0, 0.0, mean)  # not but for rounding
    posteriors, chance = model.posteriors, model.probability
    away = phi - rows[own.total]
    contrast = np.asarray(sum(chance[h] * posteriors.variance(h, away) for h in range(len(chance))))
    centred = away @ (posteriors.mean - model.mean).T
    contrast = contrast + centred**2 @ chance
    if known.capped:
        return _successes_of_members(
            measured, given(plain, everyone), (mean, contrast), own, alpha, level
        )
    mean = np.where(np.diff(measured.starts)[own.total] == 1, total, mean)
    p = np.clip(mean / np.maximum(total, 1e-300), ALL, 1 - ALL)
    certain = (1 - mean / np.maximum(total, 1e-300) < 1e-9) | (total == 0)
    more = (alpha if known.whole else np.log1p(alpha)) * np.maximum(
        1 - 2 * p + squares[own.total], 0.0
    )
    spread = np.where(certain, 0.0, (contrast + more) / (1 - p) ** 2)
    eta = Predictor(np.log(p) - np.log1p(-p), np.minimum(spread, MOST))
    if known.whole:
        _, std, ends = _successes(eta, total, level)
    else:
        _, std, ends = _successes(eta, None, level)
        std, ends = total * std, None if ends is None else total * ends
    std = np.where(certain, 0.0, std)
    return mean, std, None if ends is None else np.where(certain, total, ends)


def _successes_of_members(
    measured: Measured,
    all_means: Float[np.ndarray, " n"],
    found: tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]],
    own: Inside,
    alpha: float,
    level: float | None,
) -> Found:
    """Successes of members given totals; what one has more of a total, others have less.

    Args:
        all_means: Of all members of measured sets.
        found: Means of members given totals, and variances of their contrasts.
    """
    (mean, contrast), e, total = found, own.counted, measured.totals[own.total]
    variance = (all_means * (1 - all_means / measured.exposure))[None]
    whole = np.maximum(measured.sums(variance)[0], 1e-100)
    squares = measured.sums(variance**2)[0] / whole**2
    share = np.minimum(mean * (1 - mean / e) / whole[own.total], 1.0)
    p = np.clip(mean / e, ALL, 1 - ALL)
    more = np.maximum(1 - 1 / e, 0.0) * np.maximum(1 - 2 * share + squares[own.total], 0.0)
    eta = Predictor(np.log(p) - np.log1p(-p), contrast + alpha * more)
    _, std, ends = _unequal(eta, e, 1 - share, level)
    others = measured.sums(measured.exposure[None])[0][own.total] - e
    bounds = np.maximum(total - others, 0.0), np.minimum(e, total)
    forced = bounds[0] == bounds[1]
    mean, std = np.where(forced, bounds[0], mean), np.where(forced, 0.0, std)
    return mean, std, None if ends is None else np.clip(ends, *bounds)


def _plain(model: Generalised, phi: Float[np.ndarray, "N K"], own: Inside) -> Numbers:
    """Means of members before they are given their totals."""
    alpha = np.full(len(phi), model.dispersion)
    return outputs(model.likelihood, predictor(model, phi, own), alpha, own.counted, None)[0]


def _tilted(
    known: Likelihood, measured: Measured, alpha: float, plain: Float[np.ndarray, " N"]
) -> Callable[[Numbers, Inside], Numbers]:
    """Gives means of members given totals, from those before.

    Args:
        plain: Those of all members of measured sets.
    """
    total = measured.totals
    if known.capped:
        share = np.clip(plain / measured.exposure, ALL, 1 - ALL)
        logit = np.log(share) - np.log1p(-share)
        theta = tilt(logit[None], measured.exposure, measured.starts, total)[0]

        def successes(mean: Numbers, own: Inside) -> Numbers:
            p = np.clip(mean / own.counted, ALL, 1 - ALL)
            return own.counted * sigmoid(np.log(p) - np.log1p(-p) + theta[own.total])

        return successes
    top, owner = np.maximum.reduceat(plain, measured.starts[:-1]), measured.owner
    factor = _count if known.whole else _amount
    high = np.full(len(total), MOST)
    low = -(np.log1p(alpha * top) if known.whole and alpha > POISSON else high)
    for _ in range(80):  # until the ends are neighbours among doubles
        middle = 0.5 * (low + high)
        found = measured.sums(factor(plain, alpha, top[owner], middle[owner])[None])[0]
        less = found < total
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    u = high
    found = measured.sums(factor(plain, alpha, top[owner], u[owner])[None])[0]
    rest = total / np.where(found > 0, found, 1.0)  # of rounding

    def given(mean: Numbers, own: Inside) -> Numbers:
        return rest[own.total] * factor(mean, alpha, top[own.total], u[own.total])

    return given


def _count(mean: Numbers, alpha: float, top: Numbers, u: Numbers) -> Numbers:
    """m x / (1 + α m (1 − x)), with 1 + α m (1 − x) = exp(−u) for the largest mean, and x = exp(u)
    for α = 0."""
    with np.errstate(over="ignore"):
        if alpha <= POISSON:
            return mean * np.exp(u)
        tilt = np.maximum(1 - np.expm1(-u) / (alpha * top), 0.0)
        return _amount(mean, alpha, top, u) * tilt


def _amount(mean: Numbers, alpha: float, top: Numbers, u: Numbers) -> Numbers:
    """m / (1 − θαm), with 1 − θαm = exp(−u) for the largest mean."""
    del alpha  # which the largest mean stands for
    part = np.minimum(mean / top, 1.0)
    with np.errstate(over="ignore"):
        return mean / ((1 - part) + part * np.exp(-u))  # more than a total, where it overflows


# --- what is beyond what was seen -----------------------------------------------------------------


def extrapolates(model: Generalised, eta: Predictor) -> np.ndarray:
    """Rows whose rate is predicted far beyond all measured ones, or is uncertain by a factor."""
    measured, known = model.measured, model.likelihood
    if not len(measured) or known.capped:
        return np.zeros(len(eta.mean), dtype=bool)
    exposure = measured.sums(measured.exposure[None])[0]
    seen = np.log(measured.totals + (0.5 if known.whole else 0.0)) - np.log(exposure)
    mean = eta.mean + 0.5 * eta.variance
    far = (mean > seen.max() + np.log(FAR)) | (mean < seen.min() - np.log(FAR))
    return far | (eta.variance > VAGUE)
