"""Entropy and mutual information, of totals and of individuals (paper §4.3, §4.4, §5.2).

    AggMI_a  = ½ log(1 + β u_aᵀ S u_a / s_a)                     Eq. 21
    AggEnt_a = ½ (log(s_a / β + u_aᵀ S u_a) + log 2π + 1)        Eq. 16
    MI_a     = ½ log(1 + β Σ_n θ_an² φ_nᵀ S φ_n / s_a)           §5.2
    Ent_a    = Σ_n ½ (log(1/β + φ_nᵀ S φ_n) + log 2π + 1)        §5.2

In nats. Where sets have effects of variance κ/β, s_a/β gains κ (Σθ)²/β and the 1/β of Ent κ/β. The
paper describes MI as AggMI without the covariance of a set's individuals, and also as a sum of
information over individuals, which is something else; docs/reproduction.md has the figures that
decide for the former, and that leave Ent a sum. Several outputs share S and are independent given
it, so their information adds up. Entropies are those of outputs in the user's units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from sumwise.model.design import Design, Pool, blocks, features, sum_by_set
from sumwise.model.nonlinear import NODES
from sumwise.model.posterior import Posterior
from sumwise.util.shapes import Float, PerSet

LOG_2_PI_E = float(np.log(2 * np.pi) + 1)


def signal_variance(pool: Pool, posterior: Posterior) -> PerSet:
    """u_aᵀ S u_a of every set."""
    if pool.signal is not None:
        return pool.signal
    return posterior.variance_along(pool.design.u)


def aggregated_mutual_information(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """I[ȳ_a, w | D], Eq. 21 (AggMI): what measuring the set teaches about the model."""
    return teaches(pool.design, posterior, signal_variance(pool, posterior))


def teaches(design: Design, posterior: Posterior, signal: PerSet) -> PerSet:
    """The same of a design, given u_aᵀ S u_a; averaged over what totals that are not linear in w
    may turn out to be."""
    noise = posterior.noise(design)
    if design.nonlinear is None:
        return _information(signal / noise, posterior)
    found = np.zeros(len(design))
    for node, weight in NODES:
        left = noise * design.nonlinear.relative(signal, node)
        found += weight * _information(signal / left, posterior)
    return found


def aggregated_entropy(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """H[ȳ_a | D], Eq. 16 (AggEnt): how uncertain the set's total is."""
    noise = posterior.noise(pool.design)
    return _entropy(noise + signal_variance(pool, posterior), posterior)


def mutual_information(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """½ log(1 + β Σ_n θ_n² φ_nᵀ S φ_n / s_a) (MI): AggMI as if individuals were unrelated."""
    signal = over_individuals(pool, posterior, lambda signal, theta, noise: theta**2 * signal)
    return _information(signal / posterior.noise(pool.design), posterior)


def entropy(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """Σ_n H[y_an | D] (Ent)."""
    return over_individuals(
        pool, posterior, lambda signal, theta, noise: _entropy(noise + signal, posterior)
    )


def _information(ratio: Float[np.ndarray, " n"], posterior: Posterior) -> Float[np.ndarray, " n"]:
    # as log1p it is never negative and survives sets that teach almost nothing
    return 0.5 * posterior.n_outputs * np.log1p(ratio)


def _entropy(variance: Float[np.ndarray, " n"], posterior: Posterior) -> Float[np.ndarray, " n"]:
    each = 0.5 * posterior.n_outputs * (np.log(variance) + LOG_2_PI_E)
    return each + float(np.log(posterior.output_scale).sum())


def over_individuals(
    pool: Pool, posterior: Posterior, each: Callable[[np.ndarray, np.ndarray, Any], np.ndarray]
) -> PerSet:
    """Σ_n each(φ_nᵀ S φ_n, θ_n, noise of n) over the individuals of every set."""
    x, theta, out = pool.sets.x, pool.sets.theta, np.zeros(len(pool.sets))
    for low, high in blocks(x, pool.basis):
        rows = x[low:high]
        signal = posterior.variance_along(features(pool.basis, rows))
        values = each(signal, theta[low:high], individual_noise(pool, posterior, rows))
        where, sums = sum_by_set(pool.sets.starts, low, high, values)
        out[where] += sums
    return out


def individual_noise(
    pool: Pool, posterior: Posterior, x: Float[np.ndarray, "N D"]
) -> float | Float[np.ndarray, " N"]:
    """Variance of individuals' outputs given w."""
    if pool.design.nonlinear is None:
        return posterior.individual_noise
    return pool.basis.tangent.noise(x)
