"""Entropy and mutual information by dropout, the competitors of the paper's §5.4.

With L draws of left-out units, and noise of precision β drawn for each,

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

from sumwise.acquisition.information import LOG_2_PI_E
from sumwise.errors import SettingError
from sumwise.model.design import Pool
from sumwise.model.posterior import Posterior
from sumwise.util.shapes import Float


def dropout_entropy(
    pool: Pool, posterior: Posterior, rng: np.random.Generator
) -> Float[np.ndarray, " A"]:
    """H[ȳ_a | D], Eq. 26 (DAEnt), of totals in the user's units."""
    log_variance = np.log(_variance(pool, posterior, rng))
    return 0.5 * (log_variance + LOG_2_PI_E) + float(np.log(posterior.output_scale).sum())


def dropout_mutual_information(
    pool: Pool, posterior: Posterior, rng: np.random.Generator
) -> Float[np.ndarray, " A"]:
    """I[ȳ_a, w | D], Eq. 27 (DAMI). Being an estimate, it may come out below zero."""
    noise = pool.design.noise_scale / posterior.noise_precision
    return 0.5 * np.log(_variance(pool, posterior, rng) / noise)


def _variance(
    pool: Pool, posterior: Posterior, rng: np.random.Generator
) -> Float[np.ndarray, " A"]:
    """σ², Eq. 25."""
    if not pool.basis.committee:
        raise SettingError(
            "DAMI and DAEnt need a dropout network, and this model has none. Fit it with "
            "basis=sumwise.Neural(dropout=0.1), or choose AggMI or AggEnt."
        )
    noise = np.sqrt(pool.design.noise_scale / posterior.noise_precision)
    # u_al less its mean over l; with sets pending, what those would leave of it
    deviations = np.sqrt(len(posterior.mean)) * posterior.root_times(pool.design.u)
    return (deviations + noise[:, None] * rng.standard_normal(deviations.shape)).var(axis=1)
