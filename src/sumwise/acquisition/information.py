"""Entropy and mutual information, of totals and of individuals (paper §4.3, §4.4, §5.2).

    AggMI_a  = ½ log(1 + β u_aᵀ S u_a / s_a)                     Eq. 21
    AggEnt_a = ½ (log(s_a / β + u_aᵀ S u_a) + log 2π + 1)        Eq. 16
    MI_a, Ent_a: the same for every instance by itself, added up over the set

In nats. Several outputs share S and are independent given it, so their information adds up.
Entropies are those of outputs in the user's units.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from sumwise.model.design import Pool, blocks, features, sum_by_set
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
    ratio = signal_variance(pool, posterior) / posterior.noise(pool.design)
    return _information(ratio, posterior)


def aggregated_entropy(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """H[ȳ_a | D], Eq. 16 (AggEnt): how uncertain the set's total is."""
    noise = posterior.noise(pool.design)
    return _entropy(noise + signal_variance(pool, posterior), posterior)


def mutual_information(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """Σ_n I[y_an, w | D] (MI): as if individuals were measured and unrelated."""
    noise = posterior.individual_noise
    return _over_individuals(
        pool, posterior, lambda signal: _information(signal / noise, posterior)
    )


def entropy(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """Σ_n H[y_an | D] (Ent)."""
    noise = posterior.individual_noise
    return _over_individuals(pool, posterior, lambda signal: _entropy(noise + signal, posterior))


def _information(ratio: Float[np.ndarray, " n"], posterior: Posterior) -> Float[np.ndarray, " n"]:
    # as log1p it is never negative and survives sets that teach almost nothing
    return 0.5 * posterior.n_outputs * np.log1p(ratio)


def _entropy(variance: Float[np.ndarray, " n"], posterior: Posterior) -> Float[np.ndarray, " n"]:
    each = 0.5 * posterior.n_outputs * (np.log(variance) + LOG_2_PI_E)
    return each + float(np.log(posterior.output_scale).sum())


def _over_individuals(
    pool: Pool, posterior: Posterior, each: Callable[[np.ndarray], np.ndarray]
) -> PerSet:
    """Σ_n each(φᵀ S φ) over the individuals of every set."""
    x, out = pool.sets.x, np.zeros(len(pool.sets))
    for low, high in blocks(x, pool.basis):
        signal = posterior.variance_along(features(pool.basis, x[low:high]))
        where, sums = sum_by_set(pool.sets.starts, low, high, each(signal))
        out[where] += sums
    return out
