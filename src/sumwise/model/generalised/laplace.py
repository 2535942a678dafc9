"""The posterior of w given totals that are not Gaussian, for many hypotheses at once.

Under a hypothesis w ~ N(0, D), D diagonal, and every set has an effect b_a ~ N(0, κ) of its own on
the scale of the predictor: η_n = level + φ_nᵀw + b_a. With h_a, W_a and the pull ∂ℓ/∂η of a
likelihood (`likelihoods`), C = H D Hᵀ + κ I + W⁻¹ and g = ∂ℓ/∂(w, b), Newton's method steps by

    Δ = S (g − prior precision · (w, b)),     S = the covariance of (w, b), by C⁻¹

until nothing moves: t×t work for each hypothesis, whatever the number of features. Then

    log p(D) ≈ ℓ − ½ wᵀD⁻¹w − ½ b²/κ − ½ log |C W|                         (Laplace)
    E[w | D] ≈ ŵ + ½ J⁻¹ ∇ tr(S ∇²ℓ)                                       (its mean, not its mode)

The last is the next term of the expansion of the posterior mean (Tierney, Kass and Kadane 1989), at
most one standard deviation. J is the negative Hessian at ŵ: J⁻¹ g is S g and a few steps of S times
what is left. With S = Σ v vᵀ the gradient is Σ ∂²(∂ℓ/∂η) along v, a difference of pulls. They
depend on the predictors of their own set alone, so directions v are found set by set (by a pivoted
Cholesky decomposition of their covariance) and taken in all sets at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sumwise.model.generalised.likelihoods import Likelihood, Local, Measured
from sumwise.util.shapes import Float

STEPS: Final = 40
HALVINGS: Final = 12
LONGEST: Final = 4.0  # step of a predictor
DIRECTIONS: Final = 8  # of each set, in which curvature is looked at
NEAR: Final = 0.3  # step of a predictor from which on the dispersion counts
STILL: Final = 1e-6  # step of all predictors at which Newton's method ends
REFINED: Final = 2  # steps towards the observed information in place of the expected
SMALL: Final = 0.02  # change of a predictor for differences of pulls


@dataclass(frozen=True, slots=True, eq=False)
class Priors:
    """Hypotheses: the prior of w and of what individuals and sets have of their own."""

    variances: Float[np.ndarray, "k K"]  # diagonal of D
    dispersion: Float[np.ndarray, " k"]  # α
    effect: Float[np.ndarray, " k"]  # κ

    def take(self, at: np.ndarray) -> Priors:
        return Priors(self.variances[at], self.dispersion[at], self.effect[at])


@dataclass(frozen=True, slots=True, eq=False)
class Posteriors:
    """p(w, b | D) under each hypothesis: Gaussians, with what their covariances need."""

    priors: Priors
    mean: Float[np.ndarray, "k K"]  # of w
    effects: Float[np.ndarray, "k t"]  # mean of b
    rows: Float[np.ndarray, "k t K"]  # H
    white: Float[np.ndarray, "k t t"]  # F with F C Fᵀ = I
    log_evidence: Float[np.ndarray, " k"]
    # of every total, at the mode, for `leave_one_out`
    weights: Float[np.ndarray, "k t"]  # C⁻¹ times what totals say of h_aᵀw + b_a
    log_density: Float[np.ndarray, "k t"]
    information: Float[np.ndarray, "k t"]  # W
    centre: Float[np.ndarray, "k t"]  # predictor of a typical member, at the mean of w
    own: Float[np.ndarray, "k t"]  # variance, on its scale, of what members have of their own
    alike: Float[np.ndarray, "k t"]  # slope of the mean, over that of as many typical members

    def take(self, at: np.ndarray) -> Posteriors:
        rest = (getattr(self, name)[at] for name in self.__slots__[1:])
        return Posteriors(self.priors.take(at), *rest)

    def variance(
        self, h: int, phi: Float[np.ndarray, "N K"], own: Float[np.ndarray, "N t"] | None = None
    ) -> Float[np.ndarray, " N"]:
        """Variance of φᵀw under hypothesis h, and of the effects of measured sets added to it.

        Args:
            own: How much of the effect of each measured set is added.
        """
        prior = (phi**2) @ self.priors.variances[h]
        across = (phi * self.priors.variances[h]) @ self.rows[h].T
        if own is not None:
            prior = prior + self.priors.effect[h] * (own**2).sum(axis=1)
            across = across + self.priors.effect[h] * own
        known = across @ self.white[h].T
        return np.maximum(prior - np.einsum("nt,nt->n", known, known), 1e-12 * prior)


def solve(likelihood: Likelihood, measured: Measured, level: float, priors: Priors) -> Posteriors:
    """The posteriors of these hypotheses."""
    d, kappa = priors.variances, priors.effect[:, None]
    by_w, by_b = np.zeros_like(d), np.zeros((len(d), len(measured)))  # D⁻¹w and b/κ
    eta = np.full((len(d), len(measured.phi)), level)
    moving, first = np.arange(len(d)), np.full(len(d), not likelihood.capped)
    for _ in range(STEPS if len(measured) else 0):
        some, own = priors.take(moving), kappa[moving]
        here = likelihood.local(measured, eta[moving], some.dispersion)
        rows, white = _factor(measured, here, some)
        pulls = measured.sums(here.pull)
        # far from the mode, what totals say of the dispersion leads astray
        pull = np.where(first[moving, None], measured.spread(pulls) * here.share, here.pull)
        left_w, left_b = pull @ measured.phi - by_w[moving], pulls - by_b[moving]
        across = np.einsum("htk,hk->ht", rows, some.variances * left_w) + own * left_b
        weight = _solved(white, across)
        step_w, step_b = left_w - np.einsum("htk,ht->hk", rows, weight), left_b - weight
        change = (some.variances * step_w) @ measured.phi.T + measured.spread(own * step_b)
        before = by_w[moving], by_b[moving], eta[moving], some
        size = _improving(likelihood, measured, before, (step_w, step_b, change), here)
        by_w[moving] += size[:, None] * step_w
        by_b[moving] += size[:, None] * step_b
        eta[moving] += size[:, None] * change
        moved = size * np.abs(change).max(axis=1, initial=0.0)
        still = ~first[moving] & (moved <= STILL)
        first[moving] &= moved > NEAR
        moving = moving[~still]
        if not len(moving):
            break
    here = likelihood.local(measured, eta, priors.dispersion)
    rows, white = _factor(measured, here, priors)
    logs = _penalised(here, (by_w, by_b), priors) - 0.5 * np.log(here.information).sum(axis=1)
    logs = logs + np.log(np.diagonal(white, axis1=1, axis2=2)).sum(axis=1)
    left = here.log_density, here.information, *_middle(likelihood, measured, eta, here, priors)
    mode = Posteriors(priors, d * by_w, kappa * by_b, rows, white, logs, by_b, *left)
    return _at_mean(likelihood, measured, mode, eta)


def _middle(
    likelihood: Likelihood,
    measured: Measured,
    eta: Float[np.ndarray, "k N"],
    here: Local,
    priors: Priors,
) -> tuple[Float[np.ndarray, "k t"], Float[np.ndarray, "k t"], Float[np.ndarray, "k t"]]:
    """The predictor of a typical member of each set, the variance of what members have of their
    own, and how much they are alike."""
    e = measured.exposure
    rate = measured.sums(e * likelihood.mean(eta)) / measured.sums(e[None])
    rate = np.clip(rate, 1e-300, 1 - 1e-12 if likelihood.capped else np.inf)
    more = np.maximum(1 - 1 / e, 0.0) if likelihood.capped else 1.0
    own = priors.dispersion[:, None] * measured.sums(here.share**2 * more)
    centre = likelihood.link(rate)
    most = measured.sums(e[None]) * likelihood.slope(centre)
    alike = measured.sums(e * likelihood.slope(eta)) / np.maximum(most, 1e-300)
    return centre, own, np.minimum(alike, 1.0) if likelihood.capped else np.ones_like(own)


def _improving(
    likelihood: Likelihood,
    measured: Measured,
    before: tuple[
        Float[np.ndarray, "k K"],
        Float[np.ndarray, "k t"],
        Float[np.ndarray, "k N"],
        Priors,
    ],
    step: tuple[Float[np.ndarray, "k K"], Float[np.ndarray, "k t"], Float[np.ndarray, "k N"]],
    here: Local,
) -> Float[np.ndarray, " k"]:
    """The share of each step that improves on where it begins; 0 if none does."""
    by_w, by_b, eta, priors = before
    longest = np.abs(step[2]).max(axis=1, initial=0.0)
    size = np.minimum(1.0, LONGEST / np.maximum(longest, 1e-300))
    least = _penalised(here, (by_w, by_b), priors)
    worse = np.ones(len(size), dtype=bool)
    for _ in range(HALVINGS):
        part = size[worse, None]
        moved = (by_w[worse] + part * step[0][worse], by_b[worse] + part * step[1][worse])
        with np.errstate(all="ignore"):
            some = priors.take(worse)
            at = eta[worse] + part * step[2][worse]
            there = likelihood.local(measured, at, some.dispersion)
            value = _penalised(there, moved, some)
        slack = 1e-10 * np.abs(least[worse])
        worse[worse] = ~(value >= least[worse] - slack)
        if not worse.any():
            return size
        size[worse] *= 0.5
    return np.where(worse, 0.0, size)


def _penalised(
    here: Local, by: tuple[Float[np.ndarray, "k K"], Float[np.ndarray, "k t"]], priors: Priors
) -> Float[np.ndarray, " k"]:
    """ℓ − ½ wᵀD⁻¹w − ½ b²/κ."""
    penalty = (priors.variances * by[0] ** 2).sum(axis=1)
    penalty = penalty + priors.effect * (by[1] ** 2).sum(axis=1)
    return here.log_density.sum(axis=1) - 0.5 * penalty


def _factor(
    measured: Measured, here: Local, priors: Priors
) -> tuple[Float[np.ndarray, "k t K"], Float[np.ndarray, "k t t"]]:
    """H and F of every hypothesis."""
    rows = rows_of(measured, here.share)
    half = rows * np.sqrt(priors.variances)[:, None, :]
    c = half @ half.transpose(0, 2, 1)
    at = np.arange(len(measured))
    c[:, at, at] += priors.effect[:, None] + 1 / here.information
    return rows, np.linalg.inv(np.linalg.cholesky(c))


def rows_of(measured: Measured, share: Float[np.ndarray, "k N"]) -> Float[np.ndarray, "k t K"]:
    """h of every set and hypothesis."""
    from scipy.sparse import csr_array

    k, n, t = len(share), len(measured.phi), len(measured)
    ends = np.append((measured.starts[:-1] + n * np.arange(k)[:, None]).ravel(), k * n)
    weights = csr_array((share.ravel(), np.tile(np.arange(n), k), ends), shape=(k * t, n))
    return (weights @ measured.phi).reshape(k, t, measured.phi.shape[1])


def _solved(
    white: Float[np.ndarray, "k t t"], right: Float[np.ndarray, "k t"]
) -> Float[np.ndarray, "k t"]:
    """C⁻¹ times a vector."""
    return np.einsum("hst,hs->ht", white, np.einsum("hst,ht->hs", white, right))


def _at_mean(
    likelihood: Likelihood, measured: Measured, mode: Posteriors, eta: Float[np.ndarray, "k N"]
) -> Posteriors:
    """The posteriors with their means in place of their modes."""
    if not len(measured):
        return mode
    priors, phi, kappa = mode.priors, measured.phi, mode.priors.effect[:, None]
    along = np.stack([_directions(measured, mode, h) for h in range(len(eta))], axis=1)
    pull = np.zeros_like(eta)
    here = likelihood.local(measured, eta, priors.dispersion)
    for v in along:
        for there in (eta + v, eta - v):
            pull += likelihood.local(measured, there, priors.dispersion).pull - here.pull
    goal_w, goal_b = 0.5 * pull @ phi, 0.5 * measured.sums(pull)
    by_w, by_b = _divided(mode, goal_w, goal_b)
    for _ in range(REFINED):
        step = (priors.variances * by_w) @ phi.T + measured.spread(kappa * by_b)
        part = SMALL / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-300)
        ends = (
            likelihood.local(measured, eta + sign * part * step, priors.dispersion).pull
            for sign in (1, -1)
        )
        change = (next(ends) - next(ends)) / (2 * part)
        left = goal_w + change @ phi - by_w, goal_b + measured.sums(change) - by_b
        more_w, more_b = _divided(mode, *left)
        by_w, by_b = by_w + more_w, by_b + more_b
    step_w, step_b = priors.variances * by_w, kappa * by_b
    length = (by_w * step_w).sum(axis=1) + (by_b * step_b).sum(axis=1)
    across = np.einsum("htk,hk->ht", mode.rows, step_w) + step_b
    length = length + (here.information * across**2).sum(axis=1)  # squared, in standard deviations
    part = 1 / np.sqrt(np.maximum(1.0, length))[:, None]
    moved = mode.centre + np.einsum("htk,hk->ht", mode.rows, part * step_w)
    mean, effects = mode.mean + part * step_w, mode.effects + part * step_b
    return replace(mode, mean=mean, effects=effects, centre=moved)


def _divided(
    mode: Posteriors, left_w: Float[np.ndarray, "k K"], left_b: Float[np.ndarray, "k t"]
) -> tuple[Float[np.ndarray, "k K"], Float[np.ndarray, "k t"]]:
    """S times a gradient, divided by the prior variances."""
    priors = mode.priors
    across = np.einsum("htk,hk->ht", mode.rows, priors.variances * left_w)
    weight = _solved(mode.white, across + priors.effect[:, None] * left_b)
    return left_w - np.einsum("htk,ht->hk", mode.rows, weight), left_b - weight


def _directions(measured: Measured, mode: Posteriors, h: int) -> Float[np.ndarray, "r N"]:
    """v with Σ v vᵀ about the covariance of the predictors of each set, under hypothesis h."""
    phi, owner, d = measured.phi, measured.owner, mode.priors.variances[h]
    kappa, first = mode.priors.effect[h], measured.starts[:-1]
    scaled = phi * d
    across = scaled @ mode.rows[h].T
    across[np.arange(len(phi)), owner] += kappa
    known = across @ mode.white[h].T
    prior = np.einsum("nk,nk->n", scaled, phi) + kappa
    left = prior - np.einsum("nt,nt->n", known, known)
    found = np.zeros((DIRECTIONS + 1, len(phi)))
    most = min(DIRECTIONS, int(np.diff(measured.starts).max()))
    for r in range(most):
        top = np.maximum.reduceat(left, first)
        at = np.flatnonzero(left == top[owner])
        pivot = at[np.unique(owner[at], return_index=True)[1]][owner]  # the first of each set
        column = np.einsum("nk,nk->n", scaled, phi[pivot]) + kappa
        column -= np.einsum("nt,nt->n", known, known[pivot])
        column -= np.einsum("rn,rn->n", found[:r], found[:r, pivot])
        size = np.where(left[pivot] > 1e-9 * prior[pivot], left[pivot], np.inf)  # else rounding
        found[r] = column / np.sqrt(size)
        left = np.maximum(left - found[r] ** 2, 0.0)
    found[-1] = np.sqrt(left)  # what is left, each individual by itself
    return found[[*range(most), DIRECTIONS]]
