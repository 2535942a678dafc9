"""A mixture of hypotheses, weighed by the totals: the model of `basis="auto"`.

Under hypothesis h an individual's output has variance s², of which the share n is noise; members of
a set share the part ρ of that noise, the set's own effect b:

    y_n = φ_nᵀ w + b_g(n) + ε_n,   w_k ~ N(0, s² v_k),   b ~ N(0, s² n ρ),   ε ~ N(0, s² n (1 − ρ))

With s² C the covariance of the totals (`mixture_algebra`) and s² learned from them
(`mixture_weights`), every prediction is a mixture of Student t distributions with the means and
variances of Gaussian conditioning,

    E[y | h] = c C⁻¹ z,     Var[y | h] = E[s²] (c₀ − c C⁻¹ cᵀ),     E[s²] = (ν₀ s₀² + q) / (ν − 2)

where c has the covariances of y with the totals: φᵀ diag(v) Uᵀ, and for a member of a measured set
its noise too, n ((1 − ρ) θ_n + ρ Σθ). That is why members add up to what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sumwise.model.basis.auto import Hypotheses
from sumwise.model.mixture_algebra import Solved, Totals, noise_of, per_feature
from sumwise.model.student_quantiles import quantile
from sumwise.util.shapes import Float, Int

CACHED: Final = 2**18  # numbers that stay in cache
ROUNDING: Final = 1e-12  # of a prior variance: below, nothing but rounding is left of it


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """p(y | x, D) as a mixture of Student t distributions; see the module."""

    hypotheses: Hypotheses  # those that are kept
    probability: Float[np.ndarray, " k"]
    scale: Float[np.ndarray, "k M"]  # s² of each, squared units of the model
    freedom: float  # ν; infinite where s² is known
    totals: Totals
    solved: Solved
    log_evidence: float
    origin: Int[np.ndarray, " k"]  # number of the hypothesis before any were left out

    @property
    def spread(self) -> Float[np.ndarray, "k M"]:
        """Variance of an output whose variance is 1 in units of s²."""
        return self.scale * (self.freedom / (self.freedom - 2) if self.freedom < math.inf else 1.0)

    @property
    def noise(self) -> Float[np.ndarray, "2 M"]:
        """Mean variance of an individual's own noise, and of the effect of a set."""
        known = self.hypotheses
        each = np.stack([known.noise * (1 - known.correlation), known.noise * known.correlation])
        return (each * self.probability) @ self.spread

    @property
    def coefficients(self) -> Float[np.ndarray, "k K M"]:
        """E[w | h]."""
        design, n_basis = self.totals.design, self.totals.design.u.shape[1]
        if not len(design):
            return np.zeros((len(self.probability), n_basis, self.scale.shape[1]))
        along = np.einsum("tk,htm->hkm", design.u, self.solved.weights, optimize=True)
        return per_feature(self.hypotheses.variances, self.totals.groups)[:, :, None] * along

    def covariance(self, mean: Float[np.ndarray, "k K M"]) -> Float[np.ndarray, "M K K"]:
        """Cov[w] over the whole mixture, for each output.

        By the law of total variance: within hypotheses on average, and between their means.
        """
        chance, spread, solved = self.probability, self.spread, self.solved
        between = mean - np.einsum("h,hkm->km", chance, mean)
        out = np.einsum("h,hkm,hlm->mkl", chance, between, between, optimize=True)
        for m in range(len(out)):
            share = chance * spread[:, m]
            if solved.roots is not None:
                for weight, root in zip(share, solved.roots, strict=True):
                    out[m] += weight * (root.T @ root)
            else:
                self._within(share, out[m])
        return out

    def _within(self, share: Float[np.ndarray, " k"], out: Float[np.ndarray, "K K"]) -> None:
        """Add Σ_h share_h (V − V Uᵀ C⁻¹ U V), group by group."""
        variances, groups, u = self.hypotheses.variances, self.totals.groups, self.totals.design.u
        prior = share @ variances
        out[np.diag_indices_from(out)] += per_feature(prior[None], groups)[0]
        if not len(u):
            return
        white = self.solved.white
        assert white is not None
        inverse = np.matmul(white.transpose(0, 2, 1), white).reshape(len(share), -1)
        n = len(u)
        for g, at in enumerate(groups):
            some = np.flatnonzero(share * variances[:, g])
            weighed = (share * variances[:, g])[some, None] * variances[some, g:]
            others = np.flatnonzero(weighed.any(axis=0))
            mixed = (weighed[:, others].T @ inverse[some]).reshape(-1, n, n)
            for other, between in zip((g + others).tolist(), mixed, strict=True):
                there = groups[other]
                part = u[:, at].T @ (between @ u[:, there])
                out[at, there] -= part
                if other != g:
                    out[there, at] -= part.T

    # --- predictions --------------------------------------------------------------------------

    def components(
        self,
        phi: Float[np.ndarray, "N K"],
        noise: tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]],
        own: tuple[Float[np.ndarray, "N t"], Float[np.ndarray, "N t"]] | None = None,
    ) -> Iterator[tuple[int, Float[np.ndarray, "N M"], Float[np.ndarray, " N"]]]:
        """Of each hypothesis its number, and mean and variance over s² of φᵀw plus noise.

        Args:
            noise: Squared weights of the noise of individuals, and of the effect of the set.
            own: Covariances with the noise of the totals: Σθ over the individuals in common, and
                over those of the same set.
        """
        if self.solved.white is not None:
            yield from self._from_totals(phi, noise, own)
            return
        known, u, solved, mean = (
            self.hypotheses,
            self.totals.design.u,
            self.solved,
            self.coefficients,
        )
        assert solved.roots is not None
        for h, (share, rho) in enumerate(zip(known.noise, known.correlation, strict=True)):
            rest = share * ((1 - rho) * noise[0] + rho * noise[1])
            half = phi @ solved.roots[h].T
            variance = prior = np.einsum("nk,nk->n", half, half) + rest
            found = phi @ mean[h]
            if own is not None:
                # of disjoint sets each row shares noise with one total at most
                shared, scale = share * ((1 - rho) * own[0] + rho * own[1]), self.noise_scale(h)
                towards = half @ (u @ solved.roots[h].T).T / scale
                taken = np.einsum("nt,nt->n", 2 * shared, towards) + shared**2 @ solved.own[h]
                variance = prior - taken
                found = found + shared @ solved.weights[h]
            yield h, found, np.where(variance > ROUNDING * prior, variance, 0.0)

    def _from_totals(
        self,
        phi: Float[np.ndarray, "N K"],
        noise: tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]],
        own: tuple[Float[np.ndarray, "N t"], Float[np.ndarray, "N t"]] | None,
    ) -> Iterator[tuple[int, Float[np.ndarray, "N M"], Float[np.ndarray, " N"]]]:
        """The same by covariances with few totals, of all hypotheses and a few rows at a time."""
        known, groups = self.hypotheses, self.totals.groups
        u, white, weights = self.totals.design.u, self.solved.white, self.solved.weights
        assert white is not None
        n, t, k = len(phi), len(u), len(known.noise)
        powers = np.stack([np.einsum("nk,nk->n", phi[:, at], phi[:, at]) for at in groups])
        products = np.stack([phi[:, at] @ u[:, at].T for at in groups])  # G N t
        effect = known.noise * known.correlation
        alone = known.noise - effect
        prior = known.variances @ powers + np.outer(alone, noise[0]) + np.outer(effect, noise[1])
        found, variance = np.empty((k, n, weights.shape[2])), prior.copy()
        step = max(8, CACHED // (k * max(1, t)))
        for here in (slice(low, min(low + step, n)) for low in range(0, n, step)):
            rows = here.stop - here.start
            some = products[:, here].reshape(len(groups), rows * t)
            across = (known.variances @ some).reshape(k, rows, t)
            if own is not None:
                across += alone[:, None, None] * own[0][here] + effect[:, None, None] * own[1][here]
            np.matmul(across, weights, out=found[:, here])
            across = np.matmul(across, white.transpose(0, 2, 1))
            variance[:, here] -= np.einsum("hnt,hnt->hn", across, across)
        variance[variance <= ROUNDING * prior] = 0.0
        yield from zip(range(k), found, variance, strict=True)

    def noise_scale(self, h: int) -> Float[np.ndarray, " t"]:
        """Diagonal of the noise in C under hypothesis h."""
        return noise_of(self.hypotheses.take([h]), self.totals, self.scale[[h], 0])[0]

    def moments(
        self,
        phi: Float[np.ndarray, "N K"],
        noise: tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]],
        own: tuple[Float[np.ndarray, "N t"], Float[np.ndarray, "N t"]] | None = None,
    ) -> tuple[Float[np.ndarray, "N M"], Float[np.ndarray, "N M"]]:
        """Mean and variance over the whole mixture; see `components`."""
        return self._moments(list(self.components(phi, noise, own)))

    def _moments(
        self, found: Sequence[tuple[int, Float[np.ndarray, "N M"], Float[np.ndarray, " N"]]]
    ) -> tuple[Float[np.ndarray, "N M"], Float[np.ndarray, "N M"]]:
        mean = sum(self.probability[h] * each for h, each, _ in found)
        variance = np.zeros(np.shape(mean))
        for h, each, within in found:
            spread = (each - mean) ** 2 + within[:, None] * self.spread[h]
            variance += self.probability[h] * spread
        return np.asarray(mean), variance

    def interval(
        self,
        phi: Float[np.ndarray, "N K"],
        noise: tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]],
        level: float,
        own: tuple[Float[np.ndarray, "N t"], Float[np.ndarray, "N t"]] | None = None,
    ) -> Float[np.ndarray, "4 N"]:
        """Of the first output, mean, variance, and the quantiles that hold `level` between them."""
        found = list(self.components(phi, noise, own))
        mean = np.stack([each[:, 0] for _, each, _ in found])
        std = np.stack([np.sqrt(within * self.scale[h, 0]) for h, _, within in found])
        ends = (0.5 - 0.5 * level, 0.5 + 0.5 * level)
        quantiles = [quantile(self.probability, mean, std, self.freedom, p) for p in ends]
        return np.stack([*(each[:, 0] for each in self._moments(found)), *quantiles])
