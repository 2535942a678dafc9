"""What measuring a set would do for predictions of individuals, in closed form.

Measuring set a changes the covariance of w to S − S u_a u_aᵀ S / (s_a/β + u_aᵀ S u_a), whatever
comes out. With targets φ_j of weight v_j, c_ja = φ_jᵀ S u_a and V_a = s_a/β + u_aᵀ S u_a,

    IVR_a  = Σ_j v_j c_ja² / V_a                                    in squared units of the outputs
    EPIG_a = −½ Σ_j v_j log(1 − c_ja² / (V_a (1/β + φ_jᵀ S φ_j)))   in nats

IVR is the drop of the mean variance of the targets' noise-free outputs (Cohn 1996; "integrated
variance", A-optimality weighed by where predictions are wanted). EPIG is the mean information that
the total has about one target's output, its own noise included (Bickford Smith et al. 2023).
AggMI (Eq. 21) instead counts every direction of w, whether or not any prediction depends on it.

A total says more of its own members: their noise is part of it. Where targets stand for all N
individuals, c_na of a member n has σ²θ_n + τ²Σθ in addition, with σ² the noise of an individual and
τ² that of a set's effect. Added up over members, the numerator of IVR has (2 e u_aᵀ S u_a + s_a e²)
/ N more, e = σ² + τ² (Σθ)²/s_a (`of_members`); this is exact where all weights of a set are alike.
EPIG takes the members of a set for alike.

With open questions both stay exact, but for what totals say of their own members: after
`Posterior.condition_on`, the scores of a batch add up to what the batch does together for other
individuals. Several outputs share S, so EPIG counts each of them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.random import Generator

from sumwise.acquisition.information import individual_noise, signal_variance
from sumwise.data.targets import Targets, thinned
from sumwise.model.basis import Scaled
from sumwise.model.design import Pool, features
from sumwise.model.nonlinear import NODES
from sumwise.model.posterior import BLOCK, Posterior
from sumwise.util.shapes import Float, PerSet

LARGEST_UNIT = 1e200  # squared: beyond, scores keep their order and lose their unit


def integrated_variance_reduction(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """Expected drop of the targets' mean variance (IVR)."""
    pool = replace(pool, signal=signal_variance(pool, posterior))
    if pool.design.nonlinear is None:
        towards = towards_aims(posterior, pool.basis, aims_of(pool))
    else:
        phi, weight = targets_of(pool, posterior)
        towards = posterior.times(phi * np.sqrt(weight)[:, None]).T
    drop = np.empty(len(pool.design))
    for low in range(0, len(drop), BLOCK):
        along = pool.design.u[low : low + BLOCK] @ towards
        drop[low : low + BLOCK] = np.einsum("aj,aj->a", along, along)
    drop += of_members(pool, posterior, signal_variance(pool, posterior))
    return unit_of(posterior) * (drop / _typical_variance(pool, posterior))


def _typical_variance(pool: Pool, posterior: Posterior) -> PerSet:
    """V_a; of totals that are not linear in w, the harmonic mean over what they may turn out."""
    bend = pool.design.nonlinear
    if bend is None:
        return _total_variance(pool, posterior)
    signal, noise = signal_variance(pool, posterior), posterior.noise(pool.design)
    parts = [weight / (signal + noise * bend.relative(signal, node)) for node, weight in NODES]
    return 1 / np.sum(parts, axis=0)


def expected_predictive_information(pool: Pool, posterior: Posterior, rng: Generator) -> PerSet:
    """Mean information about one target's output (EPIG)."""
    targets = aims_of(pool)
    phi, weight = features(pool.basis, targets.x), targets.weight
    own = individual_noise(pool, posterior, targets.x) + posterior.variance_along(phi)
    towards = (posterior.times(phi) / np.sqrt(own)[:, None]).T
    total = _total_variance(pool, posterior)
    gain = np.empty(len(pool.design))
    for low in range(0, len(gain), BLOCK):
        here = slice(low, low + BLOCK)
        squared = (pool.design.u[here] @ towards) ** 2 / total[here, None]
        # noise of its own keeps a target's correlation with a total below 1, but for rounding
        gain[here] = np.log1p(-np.minimum(squared, 1 - 1e-15)) @ weight
    gain += _members_information(pool, posterior, total * float(weight @ own))
    return -0.5 * posterior.n_outputs * gain


def of_members(pool: Pool, posterior: Posterior, signal: PerSet) -> PerSet:
    """What the numerator of IVR has more because a total says something of its own members."""
    everyone = _everyone(pool)
    if not everyone:
        return np.zeros(len(pool.design))
    own = _own_noise(pool, posterior)
    return (2 * own * signal + pool.design.own_scale * own**2) / everyone


def slope_of_members(pool: Pool, posterior: Posterior) -> PerSet:
    """How fast that rises with the signal."""
    everyone = _everyone(pool)
    return 2 * _own_noise(pool, posterior) / everyone if everyone else np.zeros(len(pool.design))


def _members_information(pool: Pool, posterior: Posterior, variance: PerSet) -> PerSet:
    """The same for EPIG, as a sum of logarithms: with the noise in common less without it."""
    everyone, design = _everyone(pool), pool.design
    if not everyone:
        return np.zeros(len(design))
    members = design.theta_sum**2 / design.own_scale
    common = np.sqrt(design.own_scale / np.maximum(members, 1.0))  # θ of a typical member
    across = common * signal_variance(pool, posterior) / design.own_scale
    whole = across + common * _own_noise(pool, posterior)
    logs = [np.log1p(-np.minimum(c**2 / variance, 1 - 1e-15)) for c in (whole, across)]
    return (logs[0] - logs[1]) * members / everyone


def _own_noise(pool: Pool, posterior: Posterior) -> PerSet:
    """e of every set."""
    design = pool.design
    own = design.own_scale + posterior.effect * design.effect_scale
    if design.left is not None:
        whole = posterior.noise_scale(replace(design, left=None))
        own = np.maximum(own - (1 - design.left) * whole, 0.0)
    return own / (design.own_scale * posterior.noise_precision)


def _everyone(pool: Pool) -> int:
    """How many individuals the targets stand for, if they stand for all members of all sets."""
    if pool.design.nonlinear is not None:
        return 0  # what totals say of what members have of their own is left out
    if pool.targets is None:
        return int(pool.sets.starts[pool.sets.n_asked])
    return pool.targets.everyone


def unit_of(posterior: Posterior) -> float:
    """Squared unit of the outputs, in those of the model."""
    return min(float((posterior.output_scale**2).mean()), LARGEST_UNIT)


def targets_of(
    pool: Pool, posterior: Posterior
) -> tuple[Float[np.ndarray, "J K"], Float[np.ndarray, " J"]]:
    """Features whose variance is to fall, and how much each counts.

    Those of counts, shares and amounts are in units of their own noise: then the variance is what
    the expected deviance of predictions has more because w is not known.
    """
    targets = aims_of(pool)
    if pool.design.nonlinear is not None:
        return pool.basis.tangent.aims(targets.x, posterior.variance_along), targets.weight
    return features_of(pool.basis, targets), targets.weight


@lru_cache(maxsize=2)  # bounds and scores need them in turn, for each part of a pool
def features_of(basis: Scaled, targets: Targets) -> Float[np.ndarray, "J K"]:
    """Features of targets."""
    return np.array(features(basis, targets.x))  # a user's basis may use its own array again


@lru_cache(maxsize=2)
def towards_aims(posterior: Posterior, basis: Scaled, targets: Targets) -> Float[np.ndarray, "K J"]:
    """Columns S φ_j √v_j."""
    return posterior.times(features_of(basis, targets) * np.sqrt(targets.weight)[:, None]).T


def aims_of(pool: Pool) -> Targets:
    """Whose predictions count."""
    return thinned(pool.sets.own_x) if pool.targets is None else pool.targets


def _total_variance(pool: Pool, posterior: Posterior) -> PerSet:
    return posterior.noise(pool.design) + signal_variance(pool, posterior)
