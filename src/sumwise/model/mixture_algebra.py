"""The covariance of the totals under every hypothesis, and its inverse.

The totals have the covariance s² C, with Θ the weights of all individuals in all totals and Z the
sets that individuals belong to,

    C = U diag(v) Uᵀ + n Θ ((1 − ρ) I + ρ Z Zᵀ) Θᵀ

whose last part is diagonal for disjoint sets: n ((1 − ρ) Σθ² + ρ (Σθ)²). Known noise r_a of a total
adds r_a²/s². With more totals than features, C⁻¹ comes from K×K matrices. `mixture` has the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from sumwise.model.basis.auto import Hypotheses
from sumwise.model.design import Design
from sumwise.model.posterior import EPSILON
from sumwise.util.shapes import Float, Int

AT_ONCE: Final = 8_000_000  # numbers in a batch of matrices
ROUNDED: Final = 0.1  # rounding beside noise of 1 from which on rounding is what counts
SMALL: Final = 48  # rows of matrices that are inverted at once


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """Measured totals in the model's units, with all that hypotheses need of their sets."""

    design: Design
    z: Float[np.ndarray, "t M"]
    groups: Sequence[slice]  # columns of each group of features
    freedom: float  # degrees of freedom of z
    likeness: float  # expected intra-class correlation of outputs
    noise_std: Float[np.ndarray, " t"] | None = None  # known
    shared: tuple[Float[np.ndarray, "t t"], Float[np.ndarray, "t t"]] | None = None  # ΘΘᵀ, ΘZZᵀΘᵀ

    def __len__(self) -> int:
        return len(self.z)

    @property
    def prior_scale(self) -> Float[np.ndarray, " M"]:
        """s₀² of each output: an individual's variance where outputs are as alike within sets as
        the hypotheses expect, and means of sets are as far apart as these. Totals with known noise
        count by what is left of them beside a variance of 1, which the model's units make typical.
        """
        size = np.maximum(self.design.theta_sum**2, self.design.noise_scale)
        alike = self.likeness * self.design.theta_sum**2
        share = alike + (1 - self.likeness) * self.design.noise_scale
        square = self.z**2 / size[:, None]
        if self.noise_std is not None:
            own = (size / (size + self.noise_std**2))[:, None]  # share of a total that is not noise
            square = own**2 * square + (1 - own) * (share / size)[:, None]
        apart = square.sum(axis=0) / max(self.freedom, 1.0)
        scale = apart / max(float((share / size).mean()), 1e-300) if len(self) else apart
        return np.where((scale > 0) & np.isfinite(scale), scale, 1.0)

    def take(self, at: Int[np.ndarray, " n"]) -> Totals:
        return replace(
            self,
            design=self.design.rows(at),
            z=self.z[at],
            freedom=self.freedom - (len(self) - len(at)),
            noise_std=None if self.noise_std is None else self.noise_std[at],
            shared=None if self.shared is None else tuple(e[np.ix_(at, at)] for e in self.shared),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """Some hypotheses solved for the totals, each with C of its own."""

    log_det: Float[np.ndarray, " k"]  # of C
    power: Float[np.ndarray, "k M"]  # q
    weights: Float[np.ndarray, "k t M"]  # C⁻¹ z
    own: Float[np.ndarray, "k t"]  # diagonal of C⁻¹
    white: Float[np.ndarray, "k t t"] | None  # F with F C Fᵀ = I; None in the primal form
    roots: Float[np.ndarray, "k K K"] | None  # R with RᵀR the covariance of w over s²; primal form

    def take(self, at: Int[np.ndarray, " n"]) -> Solved:
        white = None if self.white is None else self.white[at]
        roots = None if self.roots is None else self.roots[at]
        of_each = self.log_det[at], self.power[at], self.weights[at], self.own[at]
        return Solved(*of_each, white, roots)


def per_feature(
    variances: Float[np.ndarray, "k G"], groups: Sequence[slice]
) -> Float[np.ndarray, "k K"]:
    return np.repeat(variances, [at.stop - at.start for at in groups], axis=1)


def noise_of(
    known: Hypotheses, totals: Totals, scale: Float[np.ndarray, " k"]
) -> Float[np.ndarray, "k t"]:
    """Variance of each total given w, over s²."""
    design, rho = totals.design, known.correlation[:, None]
    noise = (1 - rho) * design.noise_scale + rho * design.effect_scale
    noise = known.noise[:, None] * noise
    if totals.noise_std is not None:
        noise = noise + totals.noise_std**2 / scale[:, None]
    return noise


def solve(known: Hypotheses, totals: Totals, scale: Float[np.ndarray, " k"]) -> Solved:
    """C of every hypothesis, factored.

    Args:
        scale: s², by which known noise is divided.
    """
    t, n_basis = totals.design.u.shape
    primal = t > n_basis and totals.shared is None
    step = max(1, AT_ONCE // max(1, min(t, n_basis) ** 2))
    root = np.sqrt(noise_of(known, totals, scale))
    parts = []
    products = None
    if not primal and len(totals.groups) * t * t <= AT_ONCE:
        u = totals.design.u
        products = np.stack([u[:, at] @ u[:, at].T for at in totals.groups])
    for low in range(0, len(scale), step):
        here = slice(low, low + step)
        some = known.take(here)
        if primal:
            parts.append(_primal(some, totals, root[here]))
        else:
            parts.append(dual(some, totals, root[here], products))

    def joined(name: str) -> Any:
        arrays = [getattr(each, name) for each in parts]
        return None if arrays[0] is None else np.concatenate(arrays)

    return Solved(*map(joined, Solved.__slots__))


def dual(
    known: Hypotheses,
    totals: Totals,
    root: Float[np.ndarray, "k t"],
    products: Float[np.ndarray, "G t t"] | None,
) -> Solved:
    """From t×t matrices: C divided by the noise of the totals is I and a positive part."""
    t = len(totals)
    if products is not None:
        inside = np.tensordot(known.variances, products, 1)
    else:
        amplitude = np.sqrt(per_feature(known.variances, totals.groups))
        inside = np.stack([(half := totals.design.u * a) @ half.T for a in amplitude])
    if totals.shared is not None:
        same, together = totals.shared
        rho = known.correlation[:, None, None]
        extra = known.noise[:, None, None] * ((1 - rho) * same + rho * together)
        extra[:, np.arange(t), np.arange(t)] = 0.0
        inside = inside + extra
    inside /= root[:, :, None] * root[:, None, :]
    _add_noise(inside)
    try:
        lower = np.linalg.cholesky(inside)
    except np.linalg.LinAlgError:  # overlapping totals of which rounding makes one redundant
        inside[:, np.arange(t), np.arange(t)] *= 1 + 1e-10
        lower = np.linalg.cholesky(inside)
    log_det = 2 * (
        np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1) + np.log(root).sum(axis=1)
    )
    white = inverted(lower)
    white /= root[:, None, :]
    flat = white @ totals.z
    weights = np.matmul(white.transpose(0, 2, 1), flat)
    return Solved(
        log_det,
        np.einsum("htm,htm->hm", flat, flat),
        weights,
        np.einsum("hst,hst->ht", white, white),
        white,
        None,
    )


def inverted(lower: Float[np.ndarray, "k n n"]) -> Float[np.ndarray, "k n n"]:
    """Lower triangular matrices, inverted in place by halves: a third of the work of others."""
    n, half = lower.shape[1], lower.shape[1] // 2
    if n <= SMALL:
        lower[:] = np.linalg.inv(lower)
    else:
        first, last = inverted(lower[:, :half, :half]), inverted(lower[:, half:, half:])
        lower[:, half:, :half] = -last @ (lower[:, half:, :half] @ first)
    return lower


def _add_noise(inside: Float[np.ndarray, "k n n"]) -> None:
    """Add I, in place; where rounding is about as large as that, as much as rounding."""
    n = inside.shape[1]
    at = np.arange(n)
    rounding = 10 * EPSILON * n * inside[:, at, at].max(axis=1, initial=0.0)
    inside[:, at, at] += np.where(rounding > ROUNDED, rounding, 1.0)[:, None]


def _primal(known: Hypotheses, totals: Totals, root: Float[np.ndarray, "k t"]) -> Solved:
    """From K×K matrices I + Xᵀ X, with X the labelled rows divided by their noise."""
    found = []
    for variances, noise in zip(per_feature(known.variances, totals.groups), root, strict=True):
        amplitude = np.sqrt(variances)
        rows, z = totals.design.u * amplitude / noise[:, None], totals.z / noise[:, None]
        inside = rows.T @ rows
        _add_noise(inside[None])
        lower = np.linalg.cholesky(inside)
        half = np.linalg.inv(lower)
        along = half @ rows.T
        flat = along @ z
        rest = z - along.T @ flat
        found.append(
            (
                2 * float(np.log(np.diagonal(lower)).sum() + np.log(noise).sum()),
                np.einsum("tm,tm->m", z, rest),
                rest / noise[:, None],
                np.maximum(1 - np.einsum("kt,kt->t", along, along), EPSILON) / noise**2,
                half * amplitude,
            )
        )
    log_det, power, weights, own, roots = (np.stack(each) for each in zip(*found, strict=True))
    return Solved(log_det, power, weights, own, None, roots)
