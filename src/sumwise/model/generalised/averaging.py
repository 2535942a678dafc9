"""The model of counts, shares and amounts: hypotheses weighed by the totals, and their average.

A hypothesis is one of the basis (`Hypotheses`), on the scale of the predictor η: of the variance s²
that individuals with the same exposure have there, the share n is their own, of which the members
of a set have the part ρ in common,

    w ~ N(0, s² diag(v)),     α = exp(s² n (1 − ρ)) − 1,     κ = s² n ρ

for counts and amounts, whose means are multiplied by what individuals have of their own, so that α
is relative; for shares α = s² n (1 − ρ). s² is one of `SCALES`, and a priori log-normal.

There are thousands of pairs of hypothesis and s². All are weighed by totals on the scale of η,
taken for Gaussian around the same predictor for everyone; some are then drawn by these weights, at
even steps of their cumulative sum, and weighed by the evidence of `laplace`. λ and β that the user
gives make one hypothesis: λ is the precision of w, and α = 1/β.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from sumwise.model.basis.auto import CLUSTERS, N_HYPOTHESES, NOISE
from sumwise.model.design import freeze
from sumwise.model.generalised.laplace import Posteriors, Priors, solve
from sumwise.model.generalised.likelihoods import Likelihood, Measured
from sumwise.model.mixture_algebra import AT_ONCE
from sumwise.model.mixture_weights import ALL_BELOW, CAUTION, FIRST, cautious
from sumwise.util.shapes import Float, Int

if TYPE_CHECKING:
    from sumwise.model.basis import Auto
    from sumwise.model.fit import Prepared

# Rates of real individuals have s² of 0.07 (deaths in traffic) to 1.3 (visits to doctors), and a
# wider prior multiplies means by exp(v/2) while few totals are known: see docs/reproduction.md.
SCALES: Final = np.exp(np.linspace(math.log(0.02), math.log(4.0), 7))  # s²
TYPICAL: Final = {"counts": 0.3, "shares": 0.5, "amounts": 0.3}  # s²: the median of its prior
VAGUE: Final = 1.0  # standard deviation of log s²
DRAWN: Final = 32  # pairs that are weighed by their evidence
LEAST: Final = 1e-3  # of the probability of the most probable pair: others are left out


@dataclass(frozen=True, slots=True, eq=False)
class Generalised:
    """p(w | D) as a mixture of Gaussians, and what it takes from η to outputs."""

    likelihood: Likelihood
    level: float
    probability: Float[np.ndarray, " k"]
    posteriors: Posteriors
    log_evidence: float
    measured: Measured

    @property
    def mean(self) -> Float[np.ndarray, " K"]:
        """E[w]."""
        return self.probability @ self.posteriors.mean

    @property
    def exposure(self) -> float:
        """Of a typical individual of measured sets."""
        return float(self.measured.exposure.mean()) if len(self.measured) else 1.0

    @property
    def dispersion(self) -> float:
        """E[α]."""
        return float(self.probability @ self.posteriors.priors.dispersion)

    @property
    def effect(self) -> float:
        """E[κ]."""
        return float(self.probability @ self.posteriors.priors.effect)

    @property
    def covariance(self) -> Float[np.ndarray, "K K"]:
        """Cov[w]: within hypotheses on average, and between their means."""
        found, chance = self.posteriors, self.probability
        d = found.priors.variances
        between = (found.mean - self.mean) * np.sqrt(chance)[:, None]
        known = np.matmul(found.white, found.rows * d[:, None, :]) * np.sqrt(chance)[:, None, None]
        known = known.reshape(-1, d.shape[1])
        return np.diag(chance @ d) + between.T @ between - known.T @ known


@dataclass(frozen=True, slots=True, eq=False)
class Hypothetical:
    """Hypotheses for s² = 1, and the values that s² may have."""

    variances: Float[np.ndarray, "h G"]  # of groups of features
    widths: Int[np.ndarray, " G"]  # features in each group
    dispersion: Float[np.ndarray, " h"]
    effect: Float[np.ndarray, " h"]
    scales: Float[np.ndarray, " s"]
    log_prior: Float[np.ndarray, " s"]
    relative: bool = False  # whether `dispersion` is the variance of a factor's logarithm

    @classmethod
    def of(cls, prepared: Prepared, kind: str) -> Hypothetical:
        """Those of a basis."""
        config, n_basis = prepared.config, prepared.n_basis
        prior = -0.5 * (np.log(SCALES / TYPICAL[kind]) / VAGUE) ** 2
        if config.given is not None:
            one, given = np.ones(1), config.given
            priors = one[:, None] / given.prior_precision, np.array([n_basis])
            return cls(*priors, one / given.noise_precision, 0 * one, one, 0 * one)
        if prepared.basis.averages:
            basis = cast("Auto", prepared.basis.basis)
            known, widths = basis.hypotheses, [at.stop - at.start for at in basis.groups]
            own = known.noise * (1 - known.correlation), known.noise * known.correlation
            return cls(known.variances, np.array(widths), *own, SCALES, prior, kind != "shares")
        rng = np.random.default_rng([config.random_state or 0, 17])
        noise, shared = rng.beta(*NOISE, N_HYPOTHESES), rng.beta(*CLUSTERS[1], N_HYPOTHESES)
        own = noise * (1 - shared), noise * shared
        variances = (1 - noise)[:, None] / prepared.power
        return cls(variances, np.array([n_basis]), *own, SCALES, prior, kind != "shares")

    def take(self, h: Int[np.ndarray, " n"], s: Int[np.ndarray, " n"]) -> Priors:
        """Pairs of hypothesis and s²."""
        scale = self.scales[s]
        variances = np.repeat(self.variances[h], self.widths, axis=1) * scale[:, None]
        return Priors(variances, self.alpha(self.dispersion[h] * scale), self.effect[h] * scale)

    def alpha(self, own: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """From the variance that individuals have of their own on the scale of η."""
        return np.expm1(own) if self.relative else own


def fit(prepared: Prepared, likelihood: Likelihood, measured: Measured) -> Generalised:
    """The hypotheses of a basis weighed by totals; without totals, as likely as before."""
    known = Hypothetical.of(prepared, likelihood.name)
    level = 0.0
    if len(measured) and prepared.config.standardize:
        everyone = float(measured.exposure.sum())
        least = 0.5 if likelihood.whole else 1e-300
        pooled = min(max(float(measured.totals.sum()), least), 1e300)
        pooled = min(pooled, everyone - 0.5 * min(1.0, everyone)) if likelihood.capped else pooled
        level = float(likelihood.link(np.array(pooled / everyone)))
    logs = _first_weights(known, likelihood, measured, level)
    at, count = _drawn(logs)
    h, s = np.unravel_index(at, logs.shape)
    found = solve(likelihood, measured, level, known.take(h, s))
    better = found.log_evidence + known.log_prior[s] - logs[h, s]
    weight = np.log(count) + CAUTION * (better - better.max())
    chance = np.exp(weight - weight.max())
    keep = np.flatnonzero(chance >= LEAST)
    chance = chance[keep] / chance[keep].sum()
    freeze(chance)
    top = float(better.max())
    mean = top + math.log(float(np.exp(better - top) @ count) / float(count.sum()))
    evidence = mean + _log_mean(logs) - _log_mean(known.log_prior)
    return Generalised(likelihood, level, chance, found.take(keep), evidence, measured)


def _log_mean(logs: Float[np.ndarray, "..."]) -> float:
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).mean()))


def _drawn(logs: Float[np.ndarray, "h s"]) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Positions of some pairs, and how often each was drawn."""
    count, n_scales = logs.shape
    chance = cautious(logs.ravel(), np.repeat(np.arange(count), n_scales))
    if chance.size <= DRAWN:
        at = np.flatnonzero(chance)
        return at, DRAWN * chance[at]
    order = np.argsort(-chance, kind="stable")
    ends = np.cumsum(chance[order])
    steps = (np.arange(DRAWN) + 0.5) / DRAWN * ends[-1]
    at, often = np.unique(np.searchsorted(ends, steps), return_counts=True)
    return order[at], often.astype(float)


def _first_weights(
    known: Hypothetical, likelihood: Likelihood, measured: Measured, level: float
) -> Float[np.ndarray, "h s"]:
    """log p(D | h, s²) p(s²), of totals that are taken for Gaussian on the scale of η."""
    logs = np.tile(known.log_prior, (len(known.variances), 1))
    if not len(measured) or logs.size == 1:
        return logs
    z, noise, squares, rows = likelihood.gaussian(measured, level)
    if len(z) > ALL_BELOW:
        some = np.linspace(0, len(z) - 1, FIRST).round().astype(int)
        z, noise, squares, rows = z[some], noise[some], squares[some], rows[some]
    t, ends = len(z), np.cumsum(known.widths)
    parts = [rows[:, end - width : end] for end, width in zip(ends, known.widths, strict=True)]
    products = np.stack([part @ part.T for part in parts])
    at, step = np.arange(t), max(1, AT_ONCE // t**2)
    for low in range(0, len(logs), step):
        here = slice(low, low + step)
        inside = np.tensordot(known.variances[here], products, 1)
        inside[:, at, at] += known.effect[here, None]
        c = np.empty((len(inside), t + 1, t + 1))
        c[:, t, :t], c[:, t, t] = z, 1e300  # its row in L is L⁻¹z
        for s, scale in enumerate(known.scales):
            np.multiply(scale, inside, out=c[:, :t, :t])
            own = known.alpha(scale * known.dispersion[here, None])
            c[:, at, at] += likelihood.variance(noise, own * squares)
            lower = np.linalg.cholesky(c)
            logs[here, s] -= np.log(lower[:, at, at]).sum(axis=1)
            logs[here, s] -= 0.5 * (lower[:, t, :t] ** 2).sum(axis=1)
    return logs
