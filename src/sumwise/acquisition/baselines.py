"""Strategies that the paper compares with: inputs and sizes of sets, chance, committees, dropout.

Members of a committee (§5.2) are w_1 … w_L ~ N(m, S); member l predicts w_lᵀ u_a for a set. Outputs
are compared in the model's own units, in which several outputs weigh alike.

Competitors of §5.4: with L draws of left-out units, and noise of precision β drawn for each,

    v_l  = Σ_n θ_an (ŷ(x_an; w_l) + β^(−½) ε_ln)
    σ²   = mean_l v_l² − (mean_l v_l)²                               Eq. 25
    DAEnt_a = ½ (log σ² + log 2π + 1)                                Eq. 26
    DAMI_a  = ½ (log σ² − log(β⁻¹ ‖θ_a‖²))                           Eq. 27

The paper prints βε for the noise; β is a precision, so its standard deviation is β^(−½). Noise of
a set's instances adds up to one Gaussian of variance ‖θ_a‖²/β, which is what is drawn. AggMI and
AggEnt of the same network are these two with the noise's variance in place of its draws.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from sumwise.acquisition.information import LOG_2_PI_E
from sumwise.errors import SettingError
from sumwise.model.design import Pool
from sumwise.model.posterior import BLOCK, Posterior
from sumwise.util.shapes import PerSet

COMMITTEE_SIZE = 10  # the paper does not say


def input_variance(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """Variance of the input vectors of a set (Var).

    The squared distances of the standardised inputs from their centre, added up and divided by
    N − 1; 0 for one instance.
    """
    sets, known = pool.sets, pool.basis
    if pool.design.nonlinear is not None:
        known = known.tangent.scaled  # inputs reach ψ as they are
    z = (sets.x - known.shift) / known.scale
    first, sizes = sets.starts[:-1], sets.sizes
    centre = np.add.reduceat(z, first) / sizes[:, None]
    z -= np.repeat(centre, sizes, axis=0)
    return np.add.reduceat(np.einsum("nd,nd->n", z, z), first) / np.maximum(sizes - 1, 1)


def most_instances(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """Number of instances (MaxN)."""
    return pool.sets.sizes.astype(np.float64)


def fewest_instances(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """Minus the number of instances (MinN)."""
    return -most_instances(pool, posterior, rng)


def random(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """A uniform number (Rand)."""
    return rng.random(len(pool.sets))


def query_by_committee(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """Variance of the members' predicted totals (QBC), added up over outputs."""
    members = posterior.sample(COMMITTEE_SIZE, rng)
    return np.stack([pool.design.u @ member for member in members]).var(axis=0).sum(axis=1)


def expected_model_change(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """mean_l |w_lᵀ u_a − mᵀ u_a| · ‖u_a‖ (EMCM).

    It is the length of a gradient step on the set's squared error (ȳ_a − wᵀ u_a)², with a member's
    prediction in place of the unknown total. The squared error is not divided by s_a: the noise
    scale of a set does not enter, so noisy large sets look attractive to this strategy.
    """
    deviations = posterior.sample(COMMITTEE_SIZE, rng) - posterior.mean
    change = np.mean([np.linalg.norm(pool.design.u @ w, axis=1) for w in deviations], axis=0)
    for low in range(0, len(change), BLOCK):
        here = slice(low, low + BLOCK)
        change[here] *= np.linalg.norm(pool.design.u[here], axis=1)
    return change


def dropout_entropy(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """H[ȳ_a | D], Eq. 26 (DAEnt), of totals in the user's units."""
    log_variance = np.log(_variance_by_dropout(pool, posterior, rng))
    return 0.5 * (log_variance + LOG_2_PI_E) + float(np.log(posterior.output_scale).sum())


def dropout_mutual_information(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """I[ȳ_a, w | D], Eq. 27 (DAMI). Being an estimate, it may come out below zero."""
    noise = posterior.noise(pool.design)
    return 0.5 * np.log(_variance_by_dropout(pool, posterior, rng) / noise)


def _variance_by_dropout(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """σ², Eq. 25."""
    if not pool.basis.committee:
        raise SettingError(
            "DAMI and DAEnt need a dropout network, and this model has none. Fit it with "
            "basis=sumwise.Neural(dropout=0.1), or choose AggMI or AggEnt."
        )
    noise = np.sqrt(posterior.noise(pool.design))
    # u_al less its mean over l; with sets pending, what those would leave of it
    deviations = np.sqrt(len(posterior.mean)) * posterior.root_times(pool.design.u)
    return (deviations + noise[:, None] * rng.standard_normal(deviations.shape)).var(axis=1)
