"""Disagreement of a committee of models drawn from the posterior (paper §5.2).

Members are w_1 … w_L ~ N(m, S); member l predicts w_lᵀ u_a for a set. Outputs are compared in the
model's own units, in which several outputs weigh alike.
"""

from __future__ import annotations

import numpy as np

from sumwise.model.design import Pool
from sumwise.model.posterior import Posterior
from sumwise.util.shapes import Float

COMMITTEE_SIZE = 10  # the paper does not say


def query_by_committee(
    pool: Pool, posterior: Posterior, rng: np.random.Generator
) -> Float[np.ndarray, " A"]:
    """Variance of the members' predicted totals (QBC), added up over outputs."""
    return _deviations(pool, posterior, rng, centre="committee").var(axis=0).sum(axis=1)


def expected_model_change(
    pool: Pool, posterior: Posterior, rng: np.random.Generator
) -> Float[np.ndarray, " A"]:
    """mean_l |w_lᵀ u_a − mᵀ u_a| · ‖u_a‖ (EMCM).

    It is the length of a gradient step on the set's squared error (ȳ_a − wᵀ u_a)², with a member's
    prediction in place of the unknown total. The squared error is not divided by s_a: the noise
    scale of a set does not enter, so noisy large sets look attractive to this strategy.
    """
    deviations = _deviations(pool, posterior, rng, centre="mean")
    change = np.linalg.norm(deviations, axis=2).mean(axis=0)
    return change * np.linalg.norm(pool.design.u, axis=1)


def _deviations(
    pool: Pool, posterior: Posterior, rng: np.random.Generator, *, centre: str
) -> Float[np.ndarray, "L A M"]:
    members = posterior.sample(COMMITTEE_SIZE, rng)
    if centre == "mean":
        members = members - posterior.mean
    return np.stack([pool.design.u @ member for member in members])
