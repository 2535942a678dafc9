"""How good a pool could be at most: the relaxation in which weights are any real numbers.

The ratio of two quadratic forms xᵀAx / xᵀBx is at most their largest generalised eigenvalue, and
x is the eigenvector where weights are free. The forms are matrices in the columns of P = [Φ | E]
plus a multiple of the identity; with P = Q Λ^½ Vᵀ, x = Q v is all that matters, so that the problem
has as many dimensions as P has columns.

    AggMI    A = G                              B = N                 ½ log(1 + λ)
    IVR      A = H + e (2 G + N) / C            B = G + N             λ, in squared units
    EPIG     A = H, with the weights of its chord                     B = G + N   ½ λ

Where e = n / xᵀx differs between pools, its largest value is taken, and e² xᵀx = e n is at most
that times n: what is known of a pool's noise leaves both. Noise of pooling and effects, which make
the ratio smaller, are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from sumwise.acquisition.pool_value import TINY, Valued
from sumwise.util.shapes import Float

RANK: Final = 1e-13  # of the largest eigenvalue: directions of P with less are rounding
FAINT: Final = 1e-9  # of the largest ratio: eigenvectors with less start no search


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """The relaxation of a problem."""

    bound: float  # on the score of any pool of at most the largest size
    directions: Float[np.ndarray, "P L"]  # P @ directions are the best free weights, best first


def relax(valued: Valued, gram: Float[np.ndarray, "P P"], most: int, n_starts: int) -> Relaxed:
    """The bound for pools of up to `most` candidates, and the leading eigenvectors.

    Args:
        gram: PᵀP of those who may be in them.
    """
    values, axes = np.linalg.eigh(gram)
    kept = values > RANK * max(float(values[-1]), 1e-300)
    values, axes = values[kept], axes[:, kept]
    if not len(values):
        return Relaxed(_score(valued, 0.0), np.empty((len(gram), 0)))
    size = np.sqrt(values)
    half = size[:, None] * (axes.T @ valued.root)  # G in terms of v
    g = half @ half.T
    b, eye = valued.posterior.noise_precision, np.eye(len(values))
    known = size[:, None] * axes[valued.n_basis :].T
    own = _own_noise(valued)
    noise = (own * eye - known @ known.T) / b
    if valued.strategy == "AggMI":
        upper, lower, beyond = g, noise, 0.0
    else:
        towards = size[:, None] * (axes.T @ valued.aims)
        upper, lower, beyond = towards @ towards.T, g + noise, 0.0
        if valued.strategy == "IVR" and valued.everyone:
            e = _largest_share(valued, most)
            upper = upper + e * (2 * g + noise) / valued.everyone
            beyond = e / valued.everyone
    ratios, vectors = _pencil(upper, lower, TINY * own / b)
    ratio = max(float(ratios[-1]), beyond, 0.0)
    best = [i for i in range(len(ratios))[::-1] if ratios[i] > FAINT * ratio][:n_starts]
    directions = axes @ (vectors[:, best] / size[:, None])
    return Relaxed(_score(valued, ratio), directions)


def _own_noise(valued: Valued) -> float:
    """Noise of an individual that no other member shares, in units of 1/β."""
    return 1 + valued.posterior.effect if valued.alone else 1.0


def _largest_share(valued: Valued, most: int) -> float:
    """The largest e of a pool of this many members."""
    together = 1 if valued.alone else most
    return (1 + valued.posterior.effect * together) / valued.posterior.noise_precision


def _pencil(
    upper: Float[np.ndarray, "r r"], lower: Float[np.ndarray, "r r"], least: float
) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, "r r"]]:
    """Generalised eigenvalues, rising, and eigenvectors; what is known for certain has noise
    `least`."""
    values, axes = np.linalg.eigh(lower)
    half = axes / np.sqrt(np.maximum(values, least))
    ratios, vectors = np.linalg.eigh(half.T @ upper @ half)
    return ratios, half @ vectors


def _score(valued: Valued, ratio: float) -> float:
    outputs = valued.posterior.n_outputs
    if valued.strategy == "AggMI":
        return 0.5 * outputs * float(np.log1p(ratio))
    if valued.strategy == "IVR":
        return valued.unit * ratio
    return 0.5 * outputs * ratio


def gradient(
    valued: Valued, along: Float[np.ndarray, "b P"], members: Float[np.ndarray, " b"]
) -> Float[np.ndarray, "b P"]:
    """Directions that rows are ranked by: the first-order gain of adding them to pools.

    Args:
        along: Sums of the rows of each pool.
        members: How many it has.
    """
    z, y, beta = along @ valued.root, along @ valued.aims, valued.posterior.noise_precision
    known = along / beta
    known[:, : valued.n_basis] = 0.0
    g, signal = (z**2).sum(axis=1), z @ valued.root.T
    e = (1 + valued.posterior.effect) / beta
    noise = np.maximum(members * e - beta * (known**2).sum(axis=1), 1e-9 * members * e)
    if valued.strategy == "AggMI":
        return signal + (g / noise)[:, None] * known
    share = 2 * e / valued.everyone if valued.strategy == "IVR" and valued.everyone else 0.0
    ratio = (((y**2).sum(axis=1) + share * g) / (g + noise))[:, None]
    return y @ valued.aims.T + (share - ratio) * signal + ratio * known
