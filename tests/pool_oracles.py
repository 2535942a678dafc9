"""Pools by design, slow and obvious: all pools that the rules allow, and the joint Gaussian.

With w and the noise ε of every candidate as one Gaussian vector, a total is Σ θ_n (φ_n·w + ε_n)
plus noise of its own. Totals that are known condition the vector; the value of a pool is read off
its covariance. No embedding, spectrum, whitened total, eigenvector or relaxation appears.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np


@dataclass(frozen=True)
class World:
    """Candidates and coefficients as one Gaussian, given all totals that are known."""

    phi: np.ndarray  # N × K
    joint: np.ndarray  # covariance of (w, ε), K + N
    noise: np.ndarray  # covariance of ε given w, N × N
    own: float  # variance of the noise of one candidate, before any total
    effect: float  # variance of the effect that a pool has of its own
    unit: float = 1.0  # squared unit of the outputs, for IVR


def world(phi, covariance, beta, *, kappa=0.0, effect=False, unit=1.0, seen=None) -> World:
    """Before any total, or after totals that `covariance` of w knows already.

    Args:
        kappa: Variance of an effect over that of noise; candidates have one each, or pools have.
        seen: Θ of these totals and the variance of their own noise: given w, they say what the
            noise of their members is.
    """
    n, k = phi.shape
    own = (1.0 if effect else 1 + kappa) / beta
    noise, pull = own * np.eye(n), np.zeros((n, k))
    if seen is not None and len(seen[0]):
        theta = np.asarray(seen[0])
        gain = _gain(noise, theta, np.asarray(seen[1]) + _effects(theta, beta, kappa, effect))
        noise, pull = noise - gain @ theta @ noise, -gain @ theta @ phi
    mix = np.vstack([np.eye(k), pull])  # of w in (w, ε)
    joint = mix @ covariance @ mix.T
    joint[k:, k:] += noise
    return World(phi, joint, noise, own, kappa / beta if effect else 0.0, unit)


def given(known: World, theta, variance) -> World:
    """After totals with weights Θ and noise of their own, one variance each."""
    theta, variance = np.asarray(theta, float), np.asarray(variance, float)
    variance = variance + known.effect * theta.sum(axis=1) ** 2
    rows = np.hstack([theta @ known.phi, theta])
    joint = known.joint - _gain(known.joint, rows, variance) @ rows @ known.joint
    noise = known.noise - _gain(known.noise, theta, variance) @ theta @ known.noise
    return replace(known, joint=joint, noise=noise)


def _effects(theta, beta, kappa, effect):
    return kappa / beta * theta.sum(axis=1) ** 2 if effect else 0.0


def _gain(covariance, rows, variance):
    """Of a Gaussian vector given `rows` times it; totals that follow from others are no matter."""
    across = covariance @ rows.T
    among = rows @ across + np.diag(variance)
    size = np.sqrt(np.maximum(np.diagonal(among), 1e-300))
    inverse = np.linalg.pinv(among / np.outer(size, size), rcond=1e-11, hermitian=True)
    return across @ (inverse / np.outer(size, size))


# --- what a pool is worth -------------------------------------------------------------------------


@dataclass(frozen=True)
class Aim:
    """Features of targets and their weights; `everyone` if they are all candidates."""

    phi: np.ndarray
    weight: np.ndarray
    everyone: int = 0


def of_candidates(phi) -> Aim:
    return Aim(phi, np.full(len(phi), 1 / len(phi)), len(phi))


@dataclass(frozen=True)
class Totals:
    """Totals of some pools, one entry or column for each."""

    variance: np.ndarray
    noise: np.ndarray  # given w
    across: np.ndarray  # covariance with w, K × P
    own: np.ndarray  # e: what of its members' own noise a total has, as in acquisition.prediction
    squares: np.ndarray  # ‖θ‖²

    @property
    def signal(self):
        return self.variance - self.noise


def totals(known: World, theta, variance) -> Totals:
    """Of pools with weights Θ (P × N) and noise of their own."""
    k = known.phi.shape[1]
    rows = np.hstack([theta @ known.phi, theta])
    effects = known.effect * theta.sum(axis=1) ** 2
    squares = (theta**2).sum(axis=1)
    members = np.einsum("pn,nm,pm->p", theta, known.noise, theta)
    noise = members + effects + variance
    total = np.einsum("pi,ij,pj->p", rows, known.joint, rows) + effects + variance
    across = known.joint[:k] @ rows.T
    # what is left of the members' own noise; a total that follows from others says nothing of them
    return Totals(total, noise, across, (members + effects) / squares, squares)


def values(strategy, known: World, theta, aim: Aim, variance=0.0) -> np.ndarray:
    """AggMI, IVR or EPIG of pools with weights Θ (P × N)."""
    theta = np.asarray(theta, float)
    found = totals(known, theta, np.broadcast_to(variance, len(theta)))
    follows = found.noise <= 1e-9 * (known.own + known.effect) * found.squares
    found = replace(  # a total that follows from those that are known teaches nothing
        found,
        variance=np.where(follows, 1.0, found.variance),
        noise=np.where(follows, 1.0, found.noise),
    )
    return np.where(follows, 0.0, _values(strategy, known, theta, aim, found))


def _values(strategy, known: World, theta, aim: Aim, found: Totals) -> np.ndarray:
    if strategy == "AggMI":
        return 0.5 * np.log(found.variance / found.noise)
    if strategy == "IVR":
        drop = aim.weight @ (aim.phi @ found.across) ** 2
        if aim.everyone:  # Σ over members of (c + θ e)² − c², with Σ θ c = signal
            more = 2 * found.own * found.signal + found.squares * found.own**2
            drop = drop + more / aim.everyone
        return known.unit * drop / found.variance
    return _predictive_information(known, theta, found, aim)


def _predictive_information(known: World, theta, found: Totals, aim: Aim) -> np.ndarray:
    k = known.phi.shape[1]
    latent = np.einsum("jk,kl,jl->j", aim.phi, known.joint[:k, :k], aim.phi)
    output = latent + known.own + known.effect
    correlation = (aim.phi @ found.across) ** 2 / np.outer(output, found.variance)
    gain = -0.5 * aim.weight @ np.log1p(-correlation)
    if aim.everyone:  # members are taken for alike: so many, each with the same weight
        alike = theta.sum(axis=1) ** 2 / found.squares
        each = np.sqrt(found.squares / np.maximum(alike, 1.0))
        without = each * found.signal / found.squares
        bar = found.variance * (aim.weight @ output)
        whole = without + each * found.own  # a member that is measured alone is known exactly
        logs = [np.log1p(-np.minimum(c**2 / bar, 1 - 1e-15)) for c in (whole, without)]
        gain = gain - 0.5 * (logs[0] - logs[1]) * alike / aim.everyone
    return gain


# --- which pools the rules allow ------------------------------------------------------------------


def allowed_pools(n, size=(1, 20), *, together=None, apart=None, strata=None, within=None,
                  neighbours=None, uses=None, used=None) -> np.ndarray:  # fmt: skip
    """Every pool of n candidates that satisfies the rules, a row of 0 and 1 each.

    Args:
        used: In how many pools each candidate is already.
    """
    pools = _subsets(n)
    some = pools.sum(axis=1)
    good = (some >= max(size[0], 1)) & (some <= size[1])
    for code in _codes(together):
        inside = pools[:, np.equal(together, code)]
        good &= inside.all(axis=1) | ~inside.any(axis=1)
    for code in _codes(apart):
        good &= pools[:, np.equal(apart, code)].sum(axis=1) <= 1
    for code in _codes(strata):
        good &= pools[:, np.equal(strata, code)].sum(axis=1) == 1
    if within is not None:
        among = [pools[:, np.not_equal(within, code)].sum(axis=1) == 0 for code in _codes(within)]
        good &= np.any(among, axis=0)
    if uses is not None and used is not None:
        good &= pools[:, np.asarray(used) >= uses].sum(axis=1) == 0
    if neighbours is not None:
        good[good] = [connected(np.flatnonzero(pool), neighbours) for pool in pools[good]]
    return pools[good].astype(float)


@cache
def _subsets(n):
    return np.array(list(product([0, 1], repeat=n)), dtype=np.int8)


def _codes(labels):
    return () if labels is None else [code for code in sorted(set(map(int, labels))) if code >= 0]


def connected(members, pairs) -> bool:
    """Whether one can walk from the first member to all others without leaving the pool."""
    inside, reached = {int(n) for n in members}, set()
    ahead = [min(inside)]
    while ahead:
        here = ahead.pop()
        reached.add(here)
        for a, b in pairs:
            for one, other in ((int(a), int(b)), (int(b), int(a))):
                if one == here and other in inside and other not in reached:
                    ahead.append(other)
    return reached == inside
