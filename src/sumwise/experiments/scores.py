"""How well counts, shares and amounts of individuals are predicted.

With e an individual's exposure or trials and m = e · (predicted rate), of outputs y:

    counts    2 (y log(y/m) − y + m)                               Poisson deviance
    shares    2 (y log(y/m) + (e − y) log((e − y)/(e − m)))        binomial deviance
    amounts   2 (log(m/y) + y/m − 1)                               gamma deviance

A rate below `LEAST` of the pooled one counts as that, and so do shares near 1: models of numbers
predict negative rates. Intervals of whole numbers hold more than they promise; so `even` counts an
output by the part of (F(y − 1), F(y)) that is in (0.05, 0.95), of which 90 % is right. The log loss
is −log p(y) by the model's own predictive distribution; of a model of numbers, which knows no whole
ones, that of the interval y ± ½.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from sumwise.data.sets import Sets
from sumwise.model.design import features
from sumwise.model.fit import Model
from sumwise.model.generalised import predict as generalised
from sumwise.model.generalised.averaging import Generalised
from sumwise.model.predict import (
    Predictions,
    features_of,
    interval,
    interval_sets,
    predict_mean,
)
from sumwise.util.shapes import Float, Int, Numbers

if TYPE_CHECKING:
    from sumwise.experiments.protocol import Split

LEAST: Final = 0.01  # of the pooled rate
LEVEL: Final = 0.9
ROUNDING: Final = 1e-9  # of an output at an end of its interval
POISSON: Final = 1e-8  # of α: below, counts are as for this


def exposure_of(split: Split) -> Float[np.ndarray, " N"]:
    return np.ones(len(split.y_test)) if split.exposure is None else split.exposure


def deviance(model: Model, split: Split, kind: str) -> float:
    """Mean deviance of test individuals."""
    y, e, known = split.y_test, exposure_of(split), model.generalised is not None
    mean = predict_mean(model, split.x_test, exposure=e if known else None)[:, 0]
    least = LEAST * split.y_bar.sum() / split.sets.theta.sum()
    m = np.maximum(mean if known else e * mean, e * least)
    if kind == "amounts":
        return float(np.mean(2 * (np.log(m / y) + y / m - 1)))
    m = np.minimum(m, e * (1 - least)) if kind == "shares" else m
    rest = m - y if kind == "counts" else _relative(e - y, e - m)
    return float(np.mean(2 * (_relative(y, m) + rest)))


def checked(model: Model, split: Split, kind: str) -> tuple[float, float, float]:
    """Of test individuals: the share in their intervals, the even share, and the mean log loss."""
    y, e, known = split.y_test, exposure_of(split), model.generalised
    x, unit = split.x_test, np.ones(len(split.y_test)) if known is not None else e
    found = interval(model, x, LEVEL, exposure=None if known is None else e)
    slack = ROUNDING * np.abs(y)
    inside = (unit * found.lower <= y + slack) & (y <= unit * found.upper + slack)
    if known is None:
        logs, even = _numbers(model, split, kind)
    else:
        phi = features(model.basis.tangent.scaled, x, len(model.posterior.mean))
        logs, even = log_density(known, phi, y, e), inside
        if known.likelihood.whole:
            ends = cumulative(known, phi, y - 1, e), cumulative(known, phi, y, e)
            even = _part_inside(*ends)
    return float(np.mean(inside)), float(np.mean(even)), float(-np.mean(logs))


def by_group(
    values: Float[np.ndarray, " N"], group: Int[np.ndarray, " N"] | None
) -> Float[np.ndarray, " G"]:
    """The mean over each group's individuals."""
    assert group is not None
    number = np.unique(group, return_inverse=True)[1].reshape(-1)
    return np.bincount(number, values) / np.bincount(number)


def covered(model: Model, split: Split) -> tuple[float, float]:
    """Of the test: shares of individuals, and of means of groups, in their 90 % intervals."""
    each = interval(model, split.x_test, LEVEL, exposure=split.exposure)
    return _inside(each, split.y_test), _inside(*group_means(model, split))


def group_means(model: Model, split: Split) -> tuple[Predictions, Float[np.ndarray, " G"]]:
    """Means of the test's groups as they are predicted, and as they are; totals of counts.

    These groups were not measured; each has an effect and noise of its own.
    """
    assert split.group is not None
    order, e = np.argsort(split.group, kind="stable"), exposure_of(split)
    members = np.split(order, np.flatnonzero(np.diff(split.group[order])) + 1)
    weights = [
        e[rows] if model.generalised else np.full(len(rows), 1 / len(rows)) for rows in members
    ]
    design = Sets.from_members(split.x_test, members, weights).pool(model).design
    own = [1.0 if model.generalised else 1 / len(rows) for rows in members]
    truth = np.array(
        [share * split.y_test[rows].sum() for share, rows in zip(own, members, strict=True)]
    )
    return interval_sets(model, design, LEVEL, None), truth


def _inside(found: Predictions, truth: Float[np.ndarray, " n"]) -> float:
    slack = ROUNDING * np.abs(truth)
    return float(np.mean((found.lower <= truth + slack) & (truth <= found.upper + slack)))


def _part_inside(low: Numbers, high: Numbers) -> Numbers:
    """The part of (low, high) that is between the ends of `LEVEL`."""
    ends = 0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL
    part = np.minimum(high, ends[1]) - np.maximum(low, ends[0])
    return np.clip(part / np.maximum(high - low, 1e-300), 0.0, 1.0)


def _numbers(model: Model, split: Split, kind: str) -> tuple[Numbers, Numbers]:
    """log p(y) and the even share of a mixture of Student's t, which models numbers."""
    from scipy.special import stdtr

    mixture = model.mixture
    assert mixture is not None
    y, e = split.y_test, exposure_of(split)
    phi, ones = features_of(model, split.x_test), np.ones(len(y))
    parts = list(mixture.components(phi, (ones, ones), None))
    mean = np.stack([each[:, 0] for _, each, _ in parts])
    std = np.stack([np.sqrt(within * mixture.scale[h, 0]) for h, _, within in parts])
    scale, chance = e * model.posterior.output_scale[0], mixture.probability
    off, freedom = y - e * model.offset[0], mixture.freedom
    if kind == "amounts":
        z = (off / scale - mean) / std
        logs = _student(z, freedom) - np.log(scale * std) + np.log(chance)[:, None]
        below = chance @ stdtr(freedom, z)
        return _log_sum(logs), np.abs(below - 0.5) <= 0.5 * LEVEL
    low, high = (((off + way) / scale - mean) / std for way in (-0.5, 0.5))
    even = _part_inside(chance @ stdtr(freedom, low), chance @ stdtr(freedom, high))
    flip = low > 0  # the tail in which there are digits left
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    chances = chance @ (stdtr(freedom, high) - stdtr(freedom, low))
    return np.log(np.maximum(chances, 1e-300)), even


def _relative(y: Numbers, m: Numbers) -> Numbers:
    from scipy.special import xlogy

    return xlogy(y, y / m)


def _student(z: Numbers, freedom: float) -> Numbers:
    from scipy.special import gammaln

    half = 0.5 * (freedom + 1)
    size = gammaln(half) - gammaln(0.5 * freedom) - 0.5 * np.log(np.pi * freedom)
    return size - half * np.log1p(z**2 / freedom)


def _log_sum(logs: Float[np.ndarray, "k N"]) -> Float[np.ndarray, " N"]:
    top = logs.max(axis=0)
    return top + np.log(np.exp(logs - top).sum(axis=0))


def _predictors(
    model: Generalised, phi: Float[np.ndarray, "N K"], exposure: Float[np.ndarray, " N"]
) -> Float[np.ndarray, "q N"]:
    """η of individuals at the nodes over which their outputs are mixtures."""
    eta = generalised.predictor(model, phi, None)
    own = np.maximum(1 - 1 / exposure, 0.0) if model.likelihood.capped else np.zeros(len(phi))
    spread = np.sqrt(eta.variance + model.dispersion * own)
    return eta.mean + spread * generalised.NODES[:, None]


def log_density(
    model: Generalised,
    phi: Float[np.ndarray, "N K"],
    y: Float[np.ndarray, " N"],
    exposure: Float[np.ndarray, " N"],
) -> Float[np.ndarray, " N"]:
    """log p(y) of individuals of sets that were not measured."""
    from scipy.special import gammaln, xlog1py, xlogy

    alpha, e = model.dispersion, exposure
    if not model.likelihood.whole:
        eta, own = generalised.predictor(model, phi, None), np.log1p(alpha)
        variance = eta.variance + own
        off = np.log(y) - eta.mean - np.log(e) + 0.5 * own
        return -0.5 * (off**2 / variance + np.log(2 * np.pi * variance)) - np.log(y)
    mean = model.likelihood.mean(_predictors(model, phi, e))
    if model.likelihood.capped:
        logs = gammaln(e + 1) - gammaln(y + 1) - gammaln(e - y + 1) + xlogy(y, mean)
        logs = logs + xlog1py(e - y, -mean)
    else:
        size, m = 1 / max(alpha, POISSON), e * mean
        logs = gammaln(y + size) - gammaln(size) - gammaln(y + 1)
        logs = logs - size * np.log1p(m / size) + xlogy(y, m / (m + size))
    return _log_sum(logs + np.log(generalised.SHARES)[:, None])


def cumulative(
    model: Generalised,
    phi: Float[np.ndarray, "N K"],
    y: Float[np.ndarray, " N"],
    exposure: Float[np.ndarray, " N"],
) -> Float[np.ndarray, " N"]:
    """P(output ≤ y) of whole outputs, of individuals as above; 0 for y = −1."""
    from scipy.special import betainc

    mean, at = model.likelihood.mean(_predictors(model, phi, exposure)), np.maximum(y, 0.0)
    if model.likelihood.capped:
        each = betainc(np.maximum(exposure - at, 1e-9), at + 1, 1 - mean)
        each = np.where(at >= exposure, 1.0, each)
    else:
        size = 1 / max(model.dispersion, POISSON)
        each = betainc(size, at + 1, size / (size + exposure * mean))
    return np.where(y < 0, 0.0, generalised.SHARES @ each)
