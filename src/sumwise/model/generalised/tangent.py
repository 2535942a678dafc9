"""Counts, shares and amounts as strategies see them: linear in w around its mean.

With ψ_n = ∂(m_n/e_n)/∂w = m'_n φ_n / e_n at E[w], a total is μ_a + u_aᵀ(w − E[w]), u_a = Σ e_n ψ_n,
plus noise of variance V_a² (1/W_a + κ). So ψ is the basis of a linear model that knows as much as
w does, with a design that changes after every answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sumwise.model.basis import Scaled
from sumwise.model.design import Design, feature_blocks, features, sum_by_set
from sumwise.model.generalised.averaging import Generalised
from sumwise.model.generalised.likelihoods import Likelihood
from sumwise.model.nonlinear import NODES, Nonlinear
from sumwise.util.shapes import Float, Int, Numbers

if TYPE_CHECKING:
    from sumwise.data.sets import Sets


@dataclass(frozen=True, slots=True, eq=False)
class Tangent:
    """ψ, as a basis."""

    scaled: Scaled  # φ
    model: Generalised
    is_tangent = True

    @property
    def as_basis(self) -> Scaled:
        """Of inputs as they are."""
        n_inputs = len(self.scaled.shift)
        return Scaled(self, np.zeros(n_inputs), np.ones(n_inputs))

    def __call__(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N K"]:
        phi, eta = self._predictors(x)
        return phi * self.model.likelihood.slope(eta)[:, None]

    def aims(
        self, x: Float[np.ndarray, "N D"], variance_along: Callable[[Numbers], Numbers]
    ) -> Float[np.ndarray, "N K"]:
        """∂m/∂w over the standard deviation of an output, up to a factor, averaged over w: errors
        of their predictions in these units are what the deviance counts.

        Args:
            variance_along: Gives φᵀSφ of every row.
        """
        phi, eta = self._predictors(x)
        known, std = self.model.likelihood, np.sqrt(variance_along(phi))
        nodes, weights = np.array(NODES).T
        there = eta[:, None] + np.clip(std[:, None] * nodes, -30.0, 30.0)
        slope, centre = known.slope(there) @ weights, _predictor(known, known.mean(there) @ weights)
        return phi * (slope / np.sqrt(known.spread(centre)))[:, None]

    def noise(self, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " N"]:
        """Variance of an output per exposure, given w, of individuals with the usual exposure."""
        return own_noise(self.model, self._predictors(x)[1], self.model.exposure)

    def _predictors(
        self, x: Float[np.ndarray, "N D"]
    ) -> tuple[Float[np.ndarray, "N K"], Float[np.ndarray, " N"]]:
        phi = features(self.scaled, x, len(self.model.mean))
        return phi, self.model.level + phi @ self.model.mean


def own_noise(
    model: Generalised, eta: Float[np.ndarray, " N"], exposure: float | Float[np.ndarray, " N"]
) -> Float[np.ndarray, " N"]:
    """Variance of outputs per exposure, given w."""
    known, own = model.likelihood, model.dispersion + model.effect
    single = known.spread(eta) / exposure if known.whole else 0.0
    return single + own * known.slope(eta) ** 2


def linearised(
    sets: Sets,
    tangent: Tangent,
    noise_precision: float,
    phi: Float[np.ndarray, "N K"] | None = None,
) -> Design:
    """The design of sets around E[w].

    Args:
        phi: Of all individuals, where it is known.
    """
    found = Sums.of(tangent.model, sets.starts)
    if phi is None:
        add_members(found, tangent, sets.x, sets.theta)
    elif len(phi):
        found.add(tangent.model, 0, phi, sets.theta)
    return design_of(tangent.model, found, noise_precision)


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums over the members of each set, which `add_members` adds to."""

    starts: Int[np.ndarray, " A1"]
    u: Float[np.ndarray, "A K"]
    rest: Float[np.ndarray, "4 A"]  # of m, of m', of their squares, and of e

    @classmethod
    def of(cls, model: Generalised, starts: Int[np.ndarray, " A1"]) -> Sums:
        """No members yet."""
        count = len(starts) - 1
        return cls(starts, np.zeros((count, len(model.mean))), np.zeros((4, count)))

    def add(
        self,
        model: Generalised,
        low: int,
        phi: Float[np.ndarray, "n K"],
        e: Float[np.ndarray, " n"],
    ) -> None:
        """Individuals from number `low` on."""
        from scipy.sparse import csr_array

        known, high = model.likelihood, low + len(phi)
        eta = model.level + phi @ model.mean
        slope = e * known.slope(eta)
        more = np.maximum(1 - 1 / e, 0.0) if known.capped else 1.0
        each = np.stack([e * known.mean(eta), slope, slope**2 * more, e], axis=1)
        where, some = sum_by_set(self.starts, low, high, each)
        ends = np.append(np.maximum(self.starts[where], low), high) - low
        weights = csr_array((slope, np.arange(len(phi)), ends), shape=(len(some), len(phi)))
        self.u[where] += weights @ phi
        self.rest[:, where] += some.T


def add_members(
    to: Sums,
    tangent: Tangent,
    x: Float[np.ndarray, "N D"],
    theta: Float[np.ndarray, " N"],
    compiled: bool | None = None,
) -> None:
    """Add all individuals, block by block.

    Args:
        compiled: As in `feature_blocks`.
    """
    for low, high, phi in feature_blocks(x, tangent.scaled, compiled):
        to.add(tangent.model, low, phi, theta[low:high])


def measured_design(model: Generalised, noise_precision: float) -> Design:
    """The design of the measured sets."""
    found, measured = Sums.of(model, model.measured.starts), model.measured
    if len(measured):
        found.add(model, 0, measured.phi, measured.exposure)
    return design_of(model, found, noise_precision)


def design_of(model: Generalised, found: Sums, noise_precision: float) -> Design:
    """From sums over the members of each set."""
    mean, slope, squares, exposure = found.rest
    known = model.likelihood
    variance = mean if not known.capped else slope  # of a total with α = κ = 0
    single = variance / slope**2 if known.whole else np.zeros_like(mean)
    rest = known.variance(np.zeros_like(mean), model.dispersion * squares / slope**2) + model.effect
    noise = slope**2 * (single + rest)
    centre = _predictor(known, mean / exposure)
    bend = Nonlinear(mean, slope, single / (single + rest), centre, known.growth)
    return Design(found.u, noise * noise_precision, exposure, nonlinear=bend)


def _predictor(known: Likelihood, rate: Numbers) -> Numbers:
    return known.link(np.clip(rate, 1e-300, 1 - 1e-12 if known.capped else np.inf))


def usual_noise(model: Generalised) -> float:
    """Mean of `own_noise` over the individuals of measured sets."""
    measured = model.measured
    if not len(measured):
        return float(own_noise(model, np.full(1, model.level), 1.0)[0])
    eta = model.level + measured.phi @ model.mean
    return float(own_noise(model, eta, measured.exposure).mean())
