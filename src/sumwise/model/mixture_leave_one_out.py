"""What a mixture says of each total given all others, without fitting it again.

With the inverse of a partitioned matrix, z_a given the others has under every hypothesis

    mean z_a − [C⁻¹z]_a / [C⁻¹]_aa,     variance s² / [C⁻¹]_aa

and without it |C| is |C| [C⁻¹]_aa, and q is q − [C⁻¹z]_a² / [C⁻¹]_aa.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sumwise.model.mixture import Mixture
from sumwise.model.mixture_weights import CAUTION, PRIOR_FREEDOM
from sumwise.model.student_quantiles import normal_score, quantile
from sumwise.util.shapes import Float


class Left(NamedTuple):
    """Each centred total given all others: Student t distributions, weighed without it."""

    chance: Float[np.ndarray, "k t"]
    means: Float[np.ndarray, "k t M"]
    scales: Float[np.ndarray, "k t M"]  # squared
    freedom: float


def leave_one_out(mixture: Mixture) -> tuple[Float[np.ndarray, "t M"], Float[np.ndarray, "t M"]]:
    """Mean and variance of each centred total given all others."""
    chance, means, scales, freedom = left(mixture)
    variances = scales if freedom == math.inf else scales * (freedom / (freedom - 2))
    mean = np.einsum("ht,htm->tm", chance, means)
    variance = np.einsum("ht,htm->tm", chance, variances + (means - mean) ** 2)
    return mean, variance


def interval(
    mixture: Mixture, level: float
) -> tuple[Float[np.ndarray, "2 t"], Float[np.ndarray, " t"]]:
    """Ends of the interval of each centred total given all others, and its normal score.

    The score is Φ⁻¹ of the probability that a total is below the measured one, so that it is within
    as many standard deviations of 0 as a normal variable.
    """
    known = left(mixture)
    about = known.chance, known.means[:, :, 0], np.sqrt(known.scales[:, :, 0]), known.freedom
    ends = [quantile(*about, share) for share in (0.5 - 0.5 * level, 0.5 + 0.5 * level)]
    return np.array(ends), normal_score(*about, mixture.totals.z[:, 0])


def left(mixture: Mixture) -> Left:
    """See `Left`."""
    solved, z, n_outputs = mixture.solved, mixture.totals.z, mixture.scale.shape[1]
    own = solved.own[:, :, None]
    off = solved.weights / own
    gone = solved.weights * off  # what q loses
    freedom = mixture.totals.freedom - 1
    if mixture.freedom < math.inf:
        prior, tail = PRIOR_FREEDOM * mixture.totals.prior_scale, freedom + PRIOR_FREEDOM
        power = prior + np.maximum(solved.power[:, None, :] - gone, 0.0)
        before = (tail + 1) * np.log(prior + solved.power).sum(axis=1)
        logs = 0.5 * (before[:, None] - tail * np.log(power).sum(axis=2))
        scale, left_freedom = power / tail, float(tail)
    else:
        scale, left_freedom = np.broadcast_to(mixture.scale[:, None, :], gone.shape), math.inf
        logs = 0.5 * (gone / scale + np.log(scale)).sum(axis=2)
    logs = logs - 0.5 * n_outputs * np.log(solved.own)
    if mixture.freedom < math.inf and freedom <= 0:
        chance = np.full(logs.shape, 1 / len(logs))  # one total, centred, does not weigh them
    else:
        chance = _without(mixture, logs)
    return Left(chance, z - off, scale / own, left_freedom)


def _without(mixture: Mixture, logs: Float[np.ndarray, "k t"]) -> Float[np.ndarray, "k t"]:
    """Probabilities without each total, given −log of its density under each component.

    Probabilities are p(D | h)^η times the share of a point in the grid of h. Without a total,
    p(D | h) is divided by the mean density of that total over the grid.
    """
    known = np.log(mixture.probability)[:, None]
    before = np.full(int(mixture.origin.max()) + 1, -np.inf)
    np.logaddexp.at(before, mixture.origin, known[:, 0])
    after = np.full((len(before), logs.shape[1]), -np.inf)
    np.logaddexp.at(after, mixture.origin, known + logs)
    logs = known + logs + (CAUTION - 1) * (after[mixture.origin] - before[mixture.origin][:, None])
    chance = np.exp(logs - logs.max(axis=0))
    return chance / chance.sum(axis=0)
