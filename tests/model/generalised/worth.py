"""What measuring one more set is worth, by brute force, without `sumwise`.

With draws of w from the posterior, their weights ω, and p(ȳ | w) of everything that a total may be:

    AggMI = Σ_w ω Σ_ȳ p(ȳ | w) log(p(ȳ | w) / p(ȳ)),          p(ȳ) = Σ_w ω p(ȳ | w)
    IVR   = 2 Σ_j v_j (E[f(E[m_j | ȳ])] − f(E[m_j]))

m_j is the mean of a target with exposure 1, v_j how much it counts, and the deviance of predicting
m̂ = E[m] is 2 (E[f(m)] − f(m̂)), with f(m) = m log m of counts, m log m + (1 − m) log(1 − m) of
shares and −log m of amounts (gamma). E[f(m)] does not change on average, which leaves the above.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tests.model.generalised.truth import (
    FAMILIES,
    LARGEST,
    TRIALS,
    Problem,
    draws,
    log_likelihood,
    poisson_binomial,
)

CANDIDATES = 12
DRAWS = 2000


def candidates(known: Problem, number: int) -> Problem:
    """Sets that might be measured next, drawn like those that were; totals are not known."""
    rng = np.random.default_rng([18, FAMILIES.index(known.family), number])
    k, sizes = known.phi.shape[1], rng.integers(1, LARGEST[number] + 1, CANDIDATES)
    starts, owner = np.concatenate([[0], np.cumsum(sizes)]), np.repeat(np.arange(len(sizes)), sizes)
    phi = 0.6 * rng.normal(size=(len(sizes), k))[owner] + 0.8 * rng.normal(size=(len(owner), k))
    phi[:, -1] = 1.0
    if known.family == "shares":
        exposure = rng.integers(1, TRIALS[number] + 1, len(owner)).astype(float)
    else:
        exposure = np.exp(0.7 * rng.normal(size=len(owner))) * (0.5, 5.0, 2.0)[number % 3]
    totals = np.zeros(len(sizes))
    return replace(known, phi=phi, exposure=exposure, starts=starts, totals=totals)


def worth(known: Problem, number: int, found: dict[str, Any]) -> dict[str, list[float]]:
    """AggMI and IVR of all candidates; their members are the targets, each counts alike."""
    asked = candidates(known, number)
    w, weight = draws(known, found, DRAWS)
    means = _mean(known, known.level + w @ asked.phi.T)
    information, drop = [], []
    for a in range(CANDIDATES):
        pmf = _outcomes(known, asked, a, w)
        either = weight @ pmf
        with np.errstate(all="ignore"):
            inside = np.where(pmf > 0, pmf * np.log(pmf / either), 0.0)
        information.append(float(weight @ inside.sum(axis=1)))
        seen = either > 1e-12
        given = (pmf[:, seen] * weight[:, None]).T @ means / either[seen, None]
        expected = either[seen] @ _f(known, given) / either[seen].sum()
        drop.append(float(2 * (expected - _f(known, weight @ means)).mean()))
    both = {"AggMI": information, "IVR": drop}
    return {name: [float(f"{value:.5g}") for value in values] for name, values in both.items()}


def _mean(known: Problem, eta: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-eta)) if known.family == "shares" else np.exp(eta)


def _f(known: Problem, mean: np.ndarray) -> np.ndarray:
    if known.family == "amounts":
        return -np.log(mean)
    rest = (1 - mean) * np.log(1 - mean) if known.family == "shares" else -mean
    return mean * np.log(mean) + rest


def _outcomes(known: Problem, asked: Problem, a: int, w: np.ndarray) -> np.ndarray:
    """p(ȳ | w) of all ȳ, of a fine grid of ȳ for amounts: (draws, outcomes)."""
    here = slice(asked.starts[a], asked.starts[a + 1])
    phi, exposure = asked.phi[here], asked.exposure[here]
    eta = known.level + w @ phi.T
    if known.family == "shares":
        trials, everyone = exposure.astype(int), int(exposure.sum())
        b, g = np.polynomial.hermite_e.hermegauss(12 if known.kappa else 1)
        parts = []
        for off, part in zip(b * math.sqrt(known.kappa), g / g.sum(), strict=True):
            chance = np.repeat(1 / (1 + np.exp(-eta - off)), trials, axis=1)
            parts.append(part * poisson_binomial(chance, everyone))
        return np.sum(parts, axis=0)
    log_mean = np.log((exposure * np.exp(eta)).sum(axis=1))
    reach = 7 * math.sqrt(known.alpha + known.kappa + 0.01)
    if known.family == "amounts":
        log_y = np.linspace(log_mean.min() - reach, log_mean.max() + reach, 500)
        y, width = np.exp(log_y), np.exp(log_y) * (log_y[1] - log_y[0])
    else:
        top = math.exp(np.quantile(log_mean, 0.999))
        most = top + 10 * math.sqrt(top) + 30 + 10 * top * math.sqrt(known.alpha + known.kappa)
        y, width = np.arange(math.ceil(most)).astype(float), np.ones(1)
    starts, step = np.array([0, len(phi)]), 100
    parts = [
        log_likelihood(known, phi, exposure, starts, y[low : low + step], w)
        for low in range(0, len(y), step)
    ]
    return np.exp(np.hstack(parts)) * width
