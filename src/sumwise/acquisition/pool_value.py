"""What measuring a pool would be worth, for any rows of candidates and any weights θ.

A pool with weights x over N candidates enters through three quadratic forms,

    g = xᵀ G x    variance of its total that the model does not know yet,   G = Φ S Φᵀ
    h = xᵀ H x    what it has in common with the targets' outputs,          H = Φ S M S Φᵀ
    n = xᵀ N x    noise of its members, N = (I + κ Z Zᵀ − E Eᵀ) / β

with M = Σ_j v_j φ_j φ_jᵀ over targets, Z the effects that individuals have in common, and E the
part of their noise that earlier totals tell (`acquisition.known_noise`). With V = g + n + r² and r²
the noise of pooling, e = n / xᵀx and all C candidates as targets,

    AggMI = ½ log(1 + g / (n + r²))                                        Eq. 21
    IVR   = (h + (2 e g + e² xᵀx) / C) / V
    EPIG  = −½ Σ_j v_j log(1 − c_j² / (V (1/β + φ_jᵀ S φ_j)))

as in `prediction`, but that EPIG leaves out what a total says of its own members' noise: of a pool
of one that would be everything, and no pool of several could be better.

Candidates are rows P = [Φ | E] (`pool_rows`); all forms are P times a small matrix, so no N × N
matrix is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from sumwise.acquisition.pool_rows import Candidates, InMemory, Some
from sumwise.acquisition.prediction import targets_of, unit_of
from sumwise.model.design import Design, Pool
from sumwise.model.posterior import Posterior
from sumwise.util.shapes import Float, Int, Mask

MOST_KNOWN: Final = 1 - 1e-15  # a correlation beyond it is 1 but for rounding
TINY: Final = 1e-9  # share of noise below which what is left is rounding


@dataclass(frozen=True, slots=True)
class Pooling:
    """Noise that pooling itself adds, as variances in the model's units, and effects of pools."""

    fixed: float = 0.0  # r₀² of what is measured of every pool
    per_member: float = 0.0  # r₁² for every member
    effect: bool = False  # whether the members of a pool have an effect in common
    mean: bool = False  # whether the mean of members is measured, and not their total

    def noise(self, members: Any) -> Any:
        """r² of a pool's total."""
        return self.fixed * (members**2 if self.mean else 1.0) + self.per_member * members


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """The forms of many pools."""

    g: Float[np.ndarray, " b"]
    h: Float[np.ndarray, " b"]
    n: Float[np.ndarray, " b"]
    s: Float[np.ndarray, " b"]  # xᵀx
    total: Float[np.ndarray, " b"]  # Σ x
    m: Float[np.ndarray, " b"]  # how many members
    y: Float[np.ndarray, "b J"] | None = None  # what h is the squared length of, where needed


@dataclass(frozen=True, slots=True, eq=False)
class Valued:
    """Candidates under a posterior, and what pools of them are worth."""

    strategy: str
    people: Candidates
    root: Float[np.ndarray, "P K"]  # P @ root are rows z with G = Z Zᵀ
    aims: Float[np.ndarray, "P J"]  # P @ aims are rows y with H = Y Yᵀ
    posterior: Posterior
    everyone: int  # individuals that the targets stand for, 0 if not all
    pooling: Pooling = Pooling()
    unit: float = 1.0  # squared, of the outputs
    curve: Float[np.ndarray, " J"] | None = None  # v_j k_j, for EPIG; see `_epig_aims`
    weight: Float[np.ndarray, " J"] | None = None  # v_j, for EPIG

    @property
    def n_basis(self) -> int:
        return len(self.posterior.mean)

    def scores(self, sums: Sums) -> Float[np.ndarray, " b"]:
        """What measuring these pools is worth; EPIG is exact where `sums.y` is given."""
        sums = self._unknown(sums)
        known = self.pooling.noise(sums.m)
        variance = np.maximum(sums.g + sums.n + known, 1e-300)
        if self.strategy == "AggMI":
            least = 1e-30 * np.maximum(sums.s, 1e-200) / self.posterior.noise_precision
            noise = np.maximum(sums.n + known, least)
            return 0.5 * self.posterior.n_outputs * np.log1p(sums.g / noise)
        e = sums.n / np.maximum(sums.s, 1e-300)
        if self.strategy == "IVR":
            drop = sums.h
            if self.everyone:
                drop = drop + (2 * e * sums.g + sums.s * e**2) / self.everyone
            return self.unit * (drop / variance)
        assert self.curve is not None
        assert self.weight is not None
        gain = 0.5 * sums.h / variance
        if sums.y is not None:
            squared = sums.y**2 / (variance[:, None] * self.curve)
            gain = -0.5 * np.log1p(-np.minimum(squared, MOST_KNOWN)) @ self.weight
        return self.posterior.n_outputs * gain

    def _unknown(self, sums: Sums) -> Sums:
        """The forms without those of pools that follow from earlier totals, but for rounding."""
        each = (1 + self.posterior.effect) / self.posterior.noise_precision
        known = sums.n <= TINY * each * sums.s
        if self.n_basis == self.people.width or not known.any():
            return sums
        g, h, n = (np.where(known, 0.0, form) for form in (sums.g, sums.h, sums.n))
        y = None if sums.y is None else np.where(known[:, None], 0.0, sums.y)
        return replace(sums, g=g, h=h, n=n, y=y)

    @property
    def alone(self) -> bool:
        """Whether no two members of a pool have an effect in common."""
        return not self.pooling.effect and self.people.effects is None

    def noise_of(self, some: Some, theta: Float[np.ndarray, " m"]) -> float:
        """θᵀ N θ of a pool."""
        explained = theta @ some.p[:, self.n_basis :]
        of_effects = theta if self.alone else theta.sum(keepdims=True)
        if not (self.alone or self.pooling.effect):
            of_effects = np.bincount(np.unique(some.effects, return_inverse=True)[1], theta)
        noise = theta @ theta + self.posterior.effect * (of_effects @ of_effects)
        return max(float(noise - explained @ explained) / self.posterior.noise_precision, 0.0)

    def sums_of(self, some: Some, theta: Float[np.ndarray, " m"]) -> Sums:
        """The forms of one pool."""
        along = theta @ some.p
        z, y = along @ self.root, along @ self.aims
        m, exact = np.array([float(len(theta))]), y[None] if self.curve is not None else None
        known = (z @ z, y @ y, self.noise_of(some, theta), theta @ theta, theta.sum())
        g, h, n, s, total = np.array(known)[:, None]
        return Sums(g, h, n, s, total, m, exact)

    def score(self, some: Some, theta: Float[np.ndarray, " m"]) -> float:
        """What measuring one pool is worth, exactly."""
        return float(self.scores(self.sums_of(some, theta))[0])

    def after(
        self, some: Some, theta: Float[np.ndarray, " m"], known: float | None = None
    ) -> Valued:
        """The candidates as if this pool were measured; its value does not matter for that.

        Args:
            known: Variance of the noise of measuring it; that of pooling if left out.
        """
        beta, k = self.posterior.noise_precision, self.n_basis
        known = self.pooling.noise(len(theta)) if known is None else known
        noise = self.noise_of(some, theta) + known
        scale = max(beta * noise, TINY * float(theta @ theta))  # in units of 1/β
        row = theta @ some.p[:, :k]
        people = self.people.holding(some)
        if not (self.alone or self.pooling.effect) and self.posterior.effect:
            assert people.effects is not None
            alike = np.flatnonzero(np.isin(people.effects, some.effects))
            people = people.holding(people.some(alike))
        shared = -people.p[:, k:] @ (theta @ some.p[:, k:])
        np.add.at(shared, np.searchsorted(people.held, some.rows), theta)
        if not self.pooling.effect:
            same = people.effects_of(people.held)[:, None] == some.effects
            shared += self.posterior.effect * (same @ theta)
        white = shared / np.sqrt(scale)
        left = people.p[:, :k] - np.outer(white, row / np.sqrt(scale))
        measured = Design(row[None] / np.sqrt(scale), np.ones(1), np.zeros(1))
        after = self.posterior.condition_on(measured)
        people = people.changed(np.hstack([left, people.p[:, k:], white[:, None]]))
        return replace(self, people=people, posterior=after)


def value_candidates(
    strategy: str,
    people: Candidates,
    pool: Pool,
    posterior: Posterior,
    pooling: Pooling,
    allowed: Mask,
    before: Sequence[tuple[Int[np.ndarray, " m"], Float[np.ndarray, " m"], float | None]] = (),
) -> Valued:
    """Candidates of one individual each, after the answers that the model knows.

    Args:
        pool: Says whose predictions count.
        allowed: Who may be in a pool.
        before: Rows, weights and known noise (as in `Valued.after`) of pools that are being
            measured, as if they were.
    """
    everyone = len(people) if pool.targets is None else pool.targets.everyone
    everyone = 0 if strategy == "EPIG" else everyone
    empty = np.empty((people.width, 0))
    known = posterior, everyone, pooling, unit_of(posterior)
    made = Valued(strategy, people, empty, empty, *known)
    for rows, theta, noise in before:
        made = made.after(made.people.some(rows), theta, noise)
    if not isinstance(people.source, InMemory):  # a look at all, which serves for all pools
        made = replace(made, people=made.people.counting(allowed))
    return aimed(made, pool)


def aimed(made: Valued, pool: Pool) -> Valued:
    """The same with the matrices of G and H under its own posterior."""
    posterior, k = made.posterior, made.n_basis

    def padded(matrix: Float[np.ndarray, "K J"]) -> Float[np.ndarray, "P J"]:
        return np.vstack([matrix, np.zeros((made.people.width - k, matrix.shape[1]))])

    root = padded(posterior.root_times(np.eye(k)))
    made = replace(made, root=root, aims=padded(np.empty((k, 0))))
    if made.strategy == "AggMI":
        return made
    phi, weight = targets_of(pool, posterior)
    if made.strategy == "EPIG":
        return _epig_aims(made, phi, weight, padded)
    scaled = phi * np.sqrt(weight)[:, None]
    if len(scaled) > k:  # the same products, with fewer columns
        scaled = np.linalg.qr(scaled, mode="r")
    return replace(made, aims=padded(posterior.times(scaled).T))


def _epig_aims(made: Valued, phi: Any, weight: Any, padded: Any) -> Valued:
    """For EPIG: H such that ½ h / V bounds it from above.

    A total's squared correlation with target j is at most T_j = φ_jᵀSφ_j / (1/β + φ_jᵀSφ_j), and
    −log(1 − t) is at most k_j t up to there, with k_j = −log(1 − T_j) / T_j. H has weights
    v_j k_j / (1/β + φ_jᵀSφ_j).
    """
    posterior = made.posterior
    signal = posterior.variance_along(phi)
    own = posterior.individual_noise + signal
    most = np.minimum(signal / own, MOST_KNOWN)
    chord = np.where(most > 1e-12, -np.log1p(-most) / np.maximum(most, 1e-12), 1.0)
    scale = np.sqrt(weight * chord / own)
    kept = weight > 0
    aims = posterior.times(phi[kept] * scale[kept, None]).T
    return replace(made, aims=padded(aims), curve=(weight * chord)[kept], weight=weight[kept])
