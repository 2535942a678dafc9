"""What the paper's words on MI, Ent and Var permit beside our definitions of them (§5.2).

MI and Ent are "the sum of the mutual informations (entropies) over the instances" and also AggMI
and AggEnt "without consideration of covariance", which keeps the diagonal of the covariance of a
set's individuals:

    MI  sum Σ_n ½ log(1 + β φ_nᵀSφ_n)             diagonal ½ log(1 + β Σ_n θ_n² φ_nᵀSφ_n / s_a)
    Ent sum Σ_n ½ log 2πe(1/β + φ_nᵀSφ_n)         diagonal ½ log 2πe(s_a/β + Σ_n θ_n² φ_nᵀSφ_n)

A variance has N or N − 1 below the line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.random import Generator

from sumwise.acquisition.baselines import input_variance
from sumwise.acquisition.information import LOG_2_PI_E, over_individuals
from sumwise.acquisition.strategies import ACQUISITIONS, Strategy, named
from sumwise.model.design import Pool
from sumwise.model.posterior import Posterior
from sumwise.util.shapes import PerSet


def summed_information(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """Information adds up over individuals, as if each were measured."""
    beta = posterior.noise_precision
    return over_individuals(pool, posterior, lambda signal, *_: 0.5 * np.log1p(beta * signal))


def diagonal_entropy(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """Entropy of the total, as if individuals were unrelated."""
    signal = over_individuals(pool, posterior, lambda signal, theta, _: theta**2 * signal)
    variance = pool.design.noise_scale / posterior.noise_precision + signal
    return 0.5 * (np.log(variance) + LOG_2_PI_E)


def variance_by_size(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """Mean squared distance of a set's inputs from their centre."""
    sizes = pool.sets.sizes
    return input_variance(pool, posterior, rng) * (sizes - 1) / sizes


# with the paper's column head as the first word; the last three tell starts of Adam apart
READINGS: Final[Mapping[str, Strategy]] = {
    "MI sum": replace(named(summed_information), name="MI sum"),
    "MI diagonal": ACQUISITIONS["MI"],
    "Ent sum": ACQUISITIONS["Ent"],
    "Ent diagonal": replace(named(diagonal_entropy), name="Ent diagonal"),
    "Var N": replace(named(variance_by_size), name="Var N"),
    "Var N-1": ACQUISITIONS["Var"],
    "MaxN": ACQUISITIONS["MaxN"],
    "Rand": ACQUISITIONS["Rand"],
    "AggMI": ACQUISITIONS["AggMI"],
}
