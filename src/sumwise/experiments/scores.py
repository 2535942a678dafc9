"""How well counts, shares and amounts of individuals are predicted.

With e an individual's exposure or trials and m = e · (predicted rate), of outputs y:

    counts    2 (y log(y/m) − y + m)                               Poisson deviance
    shares    2 (y log(y/m) + (e − y) log((e − y)/(e − m)))        binomial deviance
    amounts   2 (log(m/y) + y/m − 1)                               gamma deviance

A rate below `LEAST` of the pooled one counts as that, and so do shares near 1: models of numbers
predict negative rates. The log loss is −log p(y) by the model's own predictive distribution; of a
model of numbers, which knows no whole ones, that of the interval y ± ½.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from sumwise.experiments.protocol import Split
from sumwise.model.design import features
from sumwise.model.fit import Model
from sumwise.model.generalised import predict as generalised
from sumwise.model.generalised.averaging import Generalised
from sumwise.model.predict import features_of, interval, predict_mean
from sumwise.util.shapes import Float, Numbers

LEAST: Final = 0.01  # of the pooled rate
LEVEL: Final = 0.9
SLACK: Final = 1e-9  # of an output, which may be at an end of its interval


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Test individuals of a split, and what their outputs are."""

    split: Split
    kind: str

    @property
    def exposure(self) -> Float[np.ndarray, " N"]:
        e = self.split.exposure
        return np.ones(len(self.split.y_test)) if e is None else e

    def deviance(self, model: Model) -> float:
        """Mean of the individuals'."""
        y, e, sets = self.split.y_test, self.exposure, self.split.sets
        known = model.generalised is not None
        rate = predict_mean(model, self.split.x_test, exposure=e if known else None)[:, 0]
        least = LEAST * self.split.y_bar.sum() / sets.theta.sum()
        m = np.maximum(rate if known else e * rate, e * least)
        if self.kind == "amounts":
            return float(np.mean(2 * (np.log(m / y) + y / m - 1)))
        m = np.minimum(m, e * (1 - least)) if self.kind == "shares" else m
        return float(np.mean(2 * (_relative(y, m) + _rest(self.kind, y, m, e))))

    def inside(self, model: Model) -> float:
        """Share of individuals in their intervals."""
        y, e = self.split.y_test, self.exposure
        if model.generalised is None:
            found = interval(model, self.split.x_test, LEVEL)
            low, high = e * found.lower, e * found.upper
        else:
            found = interval(model, self.split.x_test, LEVEL, exposure=e)
            low, high = found.lower, found.upper
        slack = SLACK * np.abs(y)
        return float(np.mean((low <= y + slack) & (y <= high + slack)))

    def log_loss(self, model: Model) -> float:
        """Mean of −log p(y)."""
        y, e = self.split.y_test, self.exposure
        if model.generalised is not None:
            basis = model.basis.tangent.scaled
            phi = features(basis, self.split.x_test, len(model.posterior.mean))
            return float(-np.mean(log_density(model.generalised, phi, y, e)))
        assert model.mixture is not None
        mean, std = self._components(model)
        scale = e * model.posterior.output_scale[0]
        off, chance = y - e * model.offset[0], model.mixture.probability
        if self.kind == "amounts":
            z = off / scale - mean
            each = _student(z / std, model.mixture.freedom) - np.log(scale * std)
            return float(-np.mean(_log_sum(each + np.log(chance)[:, None])))
        low, high = (((off + way) / scale - mean) / std for way in (-0.5, 0.5))
        return float(-np.mean(np.log(np.maximum(chance @ _between(low, high, model), 1e-300))))

    def _components(self, model: Model) -> tuple[Float[np.ndarray, "k N"], Float[np.ndarray, "k N"]]:
        """Mean and standard deviation of each part of a mixture, in the model's units."""
        assert model.mixture is not None
        phi, ones = features_of(model, self.split.x_test), np.ones(len(self.split.y_test))
        found = list(model.mixture.components(phi, (ones, ones), None))
        mean = np.stack([each[:, 0] for _, each, _ in found])
        std = [np.sqrt(within * model.mixture.scale[h, 0]) for h, _, within in found]
        return mean, np.stack(std)


def _relative(y: Numbers, m: Numbers) -> Numbers:
    from scipy.special import xlogy

    return xlogy(y, y / m)


def _rest(kind: str, y: Numbers, m: Numbers, e: Numbers) -> Numbers:
    return m - y if kind == "counts" else _relative(e - y, e - m)


def _between(low: Numbers, high: Numbers, model: Model) -> Numbers:
    """Probability of Student's t; the tail in which there are digits left."""
    from scipy.special import stdtr

    assert model.mixture is not None
    freedom, flip = model.mixture.freedom, low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    return stdtr(freedom, high) - stdtr(freedom, low)


def _student(z: Numbers, freedom: float) -> Numbers:
    from scipy.special import gammaln

    half = 0.5 * (freedom + 1)
    size = gammaln(half) - gammaln(0.5 * freedom) - 0.5 * np.log(np.pi * freedom)
    return size - half * np.log1p(z**2 / freedom)


def _log_sum(logs: Float[np.ndarray, "k N"]) -> Float[np.ndarray, " N"]:
    top = logs.max(axis=0)
    return top + np.log(np.exp(logs - top).sum(axis=0))


def log_density(
    model: Generalised,
    phi: Float[np.ndarray, "N K"],
    y: Float[np.ndarray, " N"],
    exposure: Float[np.ndarray, " N"],
) -> Float[np.ndarray, " N"]:
    """log p(y) of individuals of sets that were not measured."""
    from scipy.special import gammaln, xlog1py, xlogy

    eta, alpha, e = generalised.predictor(model, phi, None), model.dispersion, exposure
    if model.likelihood.name == "amounts":
        own = np.log1p(alpha)
        variance = eta.variance + own
        off = np.log(y) - eta.mean - np.log(e) + 0.5 * own
        return -0.5 * (off**2 / variance + np.log(2 * np.pi * variance)) - np.log(y)
    more = alpha * np.maximum(1 - 1 / e, 0.0) if model.likelihood.capped else 0.0
    spread = np.sqrt(eta.variance + more)
    at = (eta.mean + spread * generalised.NODES[:, None]) + np.zeros_like(y)
    if model.likelihood.capped:
        p = model.likelihood.mean(at)
        logs = gammaln(e + 1) - gammaln(y + 1) - gammaln(e - y + 1) + xlogy(y, p)
        logs = logs + xlog1py(e - y, -p)
    else:
        size, m = 1 / max(alpha, 1e-8), e * np.exp(at)
        logs = gammaln(y + size) - gammaln(size) - gammaln(y + 1)
        logs = logs - size * np.log1p(m / size) + xlogy(y, m / (m + size))
    return _log_sum(logs + np.log(generalised.SHARES)[:, None])
