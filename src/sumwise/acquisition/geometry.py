"""Strategies that look at the inputs or sizes of sets only, and the random one (paper §5.2)."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from sumwise.model.design import Pool
from sumwise.model.posterior import Posterior
from sumwise.util.shapes import PerSet


def input_variance(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """Variance of the input vectors of a set (Var).

    The mean squared distance of the standardised inputs from their centre; 0 for one instance.
    """
    sets = pool.sets
    z = (sets.x - pool.basis.shift) / pool.basis.scale
    first, sizes = sets.starts[:-1], sets.sizes
    centre = np.add.reduceat(z, first) / sizes[:, None]
    z -= np.repeat(centre, sizes, axis=0)
    return np.add.reduceat(np.einsum("nd,nd->n", z, z), first) / sizes


def most_instances(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """Number of instances (MaxN)."""
    return pool.sets.sizes.astype(np.float64)


def fewest_instances(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """Minus the number of instances (MinN)."""
    return -most_instances(pool, posterior, rng)


def random(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """A uniform number (Rand)."""
    return rng.random(len(pool.sets))
