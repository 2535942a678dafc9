"""Entropy and mutual information, of totals and of individuals (paper §4.3, §4.4, §5.2).

    AggMI_a  = ½ log(1 + β u_aᵀ S u_a / s_a)                     Eq. 21
    AggEnt_a = ½ (log(s_a / β + u_aᵀ S u_a) + log 2π + 1)        Eq. 16
    MI_a, Ent_a: the same for every instance by itself, added up over the set

In nats. Several outputs share S and are independent given it, so their information adds up.
Entropies are those of outputs in the user's units.
"""

from __future__ import annotations

import numpy as np

from sumwise.model.design import Pool, blocks, features, sum_by_set
from sumwise.model.posterior import Posterior
from sumwise.util.shapes import Float

LOG_2_PI_E = float(np.log(2 * np.pi) + 1)


def signal_variance(pool: Pool, posterior: Posterior) -> Float[np.ndarray, " A"]:
    """u_aᵀ S u_a of every set."""
    if pool.signal is not None:
        return pool.signal
    return posterior.variance_along(pool.design.u)


def aggregated_mutual_information(
    pool: Pool, posterior: Posterior, rng: np.random.Generator
) -> Float[np.ndarray, " A"]:
    """I[ȳ_a, w | D], Eq. 21 (AggMI): what measuring the set teaches about the model."""
    del rng
    ratio = posterior.noise_precision * signal_variance(pool, posterior) / pool.design.noise_scale
    return _information(ratio, posterior)


def aggregated_entropy(
    pool: Pool, posterior: Posterior, rng: np.random.Generator
) -> Float[np.ndarray, " A"]:
    """H[ȳ_a | D], Eq. 16 (AggEnt): how uncertain the set's total is."""
    del rng
    noise = pool.design.noise_scale / posterior.noise_precision
    return _entropy(noise + signal_variance(pool, posterior), posterior)


def mutual_information(
    pool: Pool, posterior: Posterior, rng: np.random.Generator
) -> Float[np.ndarray, " A"]:
    """Σ_n I[y_an, w | D] (MI): as if individuals were measured and unrelated."""
    del rng
    out = np.zeros(len(pool.sets))
    for low, high, signal in _instance_variances(pool, posterior):
        each = _information(posterior.noise_precision * signal, posterior)
        where, sums = sum_by_set(pool.sets.starts, low, high, each)
        out[where] += sums
    return out


def entropy(pool: Pool, posterior: Posterior, rng: np.random.Generator) -> Float[np.ndarray, " A"]:
    """Σ_n H[y_an | D] (Ent)."""
    del rng
    out = np.zeros(len(pool.sets))
    for low, high, signal in _instance_variances(pool, posterior):
        each = _entropy(1 / posterior.noise_precision + signal, posterior)
        where, sums = sum_by_set(pool.sets.starts, low, high, each)
        out[where] += sums
    return out


def _information(ratio: Float[np.ndarray, " n"], posterior: Posterior) -> Float[np.ndarray, " n"]:
    # as log1p it is never negative and survives sets that teach almost nothing
    return 0.5 * posterior.n_outputs * np.log1p(ratio)


def _entropy(variance: Float[np.ndarray, " n"], posterior: Posterior) -> Float[np.ndarray, " n"]:
    each = 0.5 * posterior.n_outputs * (np.log(variance) + LOG_2_PI_E)
    return each + float(np.log(posterior.output_scale).sum())


def _instance_variances(pool: Pool, posterior: Posterior):  # type: ignore[no-untyped-def]
    """φᵀ S φ of the instances, block by block: (first row, end row, variances)."""
    x = pool.sets.x
    for low, high in blocks(x, pool.basis):
        yield low, high, posterior.variance_along(features(pool.basis, x[low:high]))
