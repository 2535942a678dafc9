"""Fixed problems of counts, shares and amounts, and what is true of them, without `sumwise`.

    η_n = level + φ_nᵀw + b_a,   w ~ N(0, D),   b_a ~ N(0, κ)

    counts   ȳ ~ Poisson(μ) for α = 0; else negative binomial, mean μ and size 1/(α Σp²)
    shares   ȳ ~ the sum of Σe Bernoulli variables with probabilities σ(η), by dynamic programming
    amounts  log ȳ ~ N(log μ − v/2, v),  v = log(1 + α Σp²)          (Fenton and Wilkinson)

with μ = Σ e exp η and p = e exp η / μ. Effects b are integrated out on a grid. The problems were
written down before any posterior was looked at.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln

KEPT = Path(__file__).parent / "posteriors.json"
FAMILIES = ("poisson", "counts", "shares", "amounts")
SETS = (10, 16, 20, 25, 30, 40)
FEATURES = (3, 4, 3, 5, 6, 4)
LARGEST = (20, 6, 12, 20, 8, 10)  # individuals of a set
OWN = {
    "poisson": (0.0,) * 6,
    "counts": (0.2, 0.5, 0.1, 0.3, 0.3, 0.15),
    "shares": (0.0,) * 6,
    "amounts": (0.2, 0.5, 0.1, 0.3, 0.3, 0.15),
}
EFFECT = {
    "poisson": (0.0, 0.0, 0.1, 0.0, 0.2, 0.05),
    "counts": (0.0, 0.0, 0.1, 0.0, 0.1, 0.05),
    "shares": (0.0, 0.0, 0.1, 0.0, 0.2, 0.0),
    "amounts": (0.0, 0.0, 0.1, 0.0, 0.1, 0.05),
}
TRIALS = (1, 1, 1, 12, 4, 8)  # at most, of an individual


@dataclass(frozen=True)
class Problem:
    """Totals of some sets, and the prior."""

    family: str
    phi: np.ndarray  # (N, K)
    exposure: np.ndarray
    starts: np.ndarray
    totals: np.ndarray
    level: float
    variances: np.ndarray  # diagonal of D
    alpha: float
    kappa: float

    @property
    def kind(self) -> str:
        """As `outputs=` has it."""
        return "counts" if self.family == "poisson" else self.family

    @property
    def checksum(self) -> float:
        return float(np.abs(self.phi).sum() + self.exposure.sum() + self.totals.sum())


def problem(family: str, number: int) -> Problem:
    """One of six problems of a family, with totals that add up outputs of individuals."""
    rng = np.random.default_rng([17, FAMILIES.index(family), number])
    t, k, largest = SETS[number], FEATURES[number], LARGEST[number]
    sizes = rng.integers(1, largest + 1, t)
    starts, owner = np.concatenate([[0], np.cumsum(sizes)]), np.repeat(np.arange(t), sizes)
    phi = 0.6 * rng.normal(size=(t, k))[owner] + 0.8 * rng.normal(size=(len(owner), k))
    phi[:, -1] = 1.0
    alpha, kappa = OWN[family][number], EFFECT[family][number]
    variances = np.full(k, (1.0 if family == "shares" else 0.5) / k)
    w = rng.normal(size=k) * np.sqrt(variances)
    eta = phi @ w + rng.normal(size=t)[owner] * math.sqrt(kappa)
    if family == "shares":
        exposure = rng.integers(1, TRIALS[number] + 1, len(owner)).astype(float)
        y = rng.binomial(exposure.astype(int), 1 / (1 + np.exp(0.8 - eta))).astype(float)
        share = y.sum() / exposure.sum()
        level = math.log(share / (1 - share))
    else:
        exposure = np.exp(0.7 * rng.normal(size=len(owner))) * (0.5, 5.0, 2.0)[number % 3]
        own = rng.gamma(1 / alpha, alpha, len(owner)) if alpha else np.ones(len(owner))
        y = exposure * np.exp(eta) * own
        y = y if family == "amounts" else rng.poisson(y).astype(float)
        level = math.log(y.sum() / exposure.sum())
    totals = np.add.reduceat(y, starts[:-1])
    return Problem(family, phi, exposure, starts, totals, level, variances, alpha, kappa)


def log_posterior(known: Problem, w: np.ndarray) -> np.ndarray:
    """log p(w | D) of every row of `w`, up to a constant that does not depend on D."""
    like = log_likelihood(known, known.phi, known.exposure, known.starts, known.totals, w)
    prior = -0.5 * (w**2 / known.variances + np.log(2 * math.pi * known.variances)).sum(axis=1)
    return like.sum(axis=1) + prior


def log_likelihood(
    known: Problem,
    phi: np.ndarray,
    exposure: np.ndarray,
    starts: np.ndarray,
    totals: np.ndarray,
    w: np.ndarray,
) -> np.ndarray:
    """log p(total | w) of every row of `w` and every set, effects integrated out."""
    eta = known.level + w @ phi.T
    if known.family == "shares":
        nodes = [(0.0, 1.0)] if not known.kappa else _grid(known.kappa, 4.0, 21)
        parts = [
            math.log(g) + _log_poisson_binomial(eta + b, exposure, starts, totals) for b, g in nodes
        ]
        return np.logaddexp.reduce(parts, axis=0)
    means = exposure * np.exp(eta)
    mean = np.add.reduceat(means, starts[:-1], axis=1)
    squares = np.add.reduceat(means**2, starts[:-1], axis=1) / mean**2
    log_density = _of_amounts if known.family == "amounts" else _of_counts
    if not known.kappa:
        return log_density(totals, np.log(mean), known.alpha * squares)
    nodes = _grid(known.kappa, 5.0, 41)
    parts = [
        math.log(g) + log_density(totals, np.log(mean) + b, known.alpha * squares) for b, g in nodes
    ]
    return np.logaddexp.reduce(parts, axis=0)


def _grid(kappa: float, reach: float, count: int) -> list[tuple[float, float]]:
    z = np.linspace(-reach, reach, count)
    g = np.exp(-0.5 * z**2)
    return list(zip((math.sqrt(kappa) * z).tolist(), (g / g.sum()).tolist(), strict=True))


def _of_counts(y: np.ndarray, log_mean: np.ndarray, d: np.ndarray) -> np.ndarray:
    if not d.any():
        return y * log_mean - np.exp(log_mean) - gammaln(y + 1)
    size = 1 / d
    ratio = np.log1p(d * np.exp(log_mean))  # −log(1 − chance)
    choices = gammaln(y + size) - gammaln(size) - gammaln(y + 1)
    return choices + y * (log_mean + np.log(d) - ratio) - size * ratio


def _of_amounts(y: np.ndarray, log_mean: np.ndarray, d: np.ndarray) -> np.ndarray:
    v = np.log1p(d)
    off = np.log(y) - log_mean + 0.5 * v
    return -0.5 * (off**2 / v + np.log(2 * math.pi * v)) - np.log(y)


def _log_poisson_binomial(
    eta: np.ndarray, trials: np.ndarray, starts: np.ndarray, totals: np.ndarray
) -> np.ndarray:
    found = np.empty((len(eta), len(totals)))
    for a, total in enumerate(totals.astype(int)):
        here = slice(starts[a], starts[a + 1])
        chance = 1 / (1 + np.exp(-np.repeat(eta[:, here], trials[here].astype(int), axis=1)))
        found[:, a] = np.log(poisson_binomial(chance, total)[:, total])
    return found


def poisson_binomial(chance: np.ndarray, most: int) -> np.ndarray:
    """Probabilities of 0 … `most` successes, for each row of chances."""
    pmf = np.zeros((len(chance), most + 1))
    pmf[:, 0] = 1.0
    for p in chance.T[:, :, None]:
        pmf[:, 1:] = pmf[:, 1:] * (1 - p) + pmf[:, :-1] * p
        pmf[:, :1] *= 1 - p
    return pmf


def kept() -> dict[str, Any]:
    """Posterior means and covariances by sampling, as `sample.py` wrote them."""
    return json.loads(KEPT.read_text(encoding="utf-8"))


def draws(known: Problem, found: dict[str, Any], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples of w with importance weights, around what sampling found."""
    rng = np.random.default_rng(5)
    w, log_q = heavy(rng, np.array(found["mean"]), np.array(found["covariance"]), count)
    log_weight = log_posterior(known, w) - log_q
    weight = np.exp(log_weight - log_weight.max())
    return w, weight / weight.sum()


def heavy(
    rng: np.random.Generator, mean: np.ndarray, covariance: np.ndarray, count: int, df: float = 8.0
) -> tuple[np.ndarray, np.ndarray]:
    """Draws from a multivariate t distribution, and their log densities up to a constant."""
    lower = np.linalg.cholesky(covariance)
    z = rng.normal(size=(count, len(mean)))
    z = z / np.sqrt(rng.chisquare(df, count) / df)[:, None]
    log_q = -0.5 * (df + len(mean)) * np.log1p((z**2).sum(axis=1) / df)
    return mean + z @ lower.T, log_q
