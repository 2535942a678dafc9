"""A mixture of hypotheses, weighed by the totals: the model of `basis="auto"`.

Under hypothesis h an individual's output has variance s², of which the share n is noise; members of
a set share the part ρ of that noise, the set's own effect b:

    y_n = φ_nᵀ w + b_g(n) + ε_n,   w_k ~ N(0, s² v_k),   b ~ N(0, s² n ρ),   ε ~ N(0, s² n (1 − ρ))

The totals then have the covariance s² C, with Θ the weights of all individuals in all totals and
Z the sets that individuals belong to,

    C = U diag(v) Uᵀ + n Θ ((1 − ρ) I + ρ Z Zᵀ) Θᵀ

whose last part is diagonal for disjoint sets: n ((1 − ρ) Σθ² + ρ (Σθ)²). A scaled inverse χ² prior
of s², with ν₀ degrees of freedom and scale s₀², gives with q = zᵀ C⁻¹ z of centred totals, which
have t − 1 degrees of freedom,

    p(D | h) ∝ |C|^(−½) (ν₀ s₀² + q)^(−ν/2),     s² | D, h ~ scaled inverse χ²(ν, (ν₀ s₀² + q) / ν)

with ν = ν₀ + t − 1. s₀² is the variance of individuals that the spread of the sets' means suggests
(`Totals.prior_scale`). Hypotheses count by p(D | h)^η with η = `CAUTION`: none of them is true of
real groups, and the evidence of models that are all somewhat wrong is surer than it should be
(Grünwald and van Ommen 2017; Miller and Dunson 2019). So every prediction is a mixture of Student t
distributions with the means and variances of Gaussian conditioning,

    E[y | h] = c C⁻¹ z,     Var[y | h] = E[s²] (c₀ − c C⁻¹ cᵀ),     E[s²] = (ν₀ s₀² + q) / (ν − 2)

where c has the covariances of y with the totals: φᵀ diag(v) Uᵀ, and for a member of a measured set
its noise too, n ((1 − ρ) θ_n + ρ Σθ). That is why members add up to what was measured.

With known noise r_a of the totals s² does not factor out; then log s² is a grid under the same
prior, and each point of it a hypothesis with known s². With more totals than features, C⁻¹ comes
from K×K matrices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from sumwise.model.basis.auto import Hypotheses
from sumwise.model.design import Design, freeze
from sumwise.model.posterior import EPSILON
from sumwise.util.shapes import Float, Int

PRIOR_FREEDOM: Final = 4.0  # ν₀
CAUTION: Final = 0.6  # η
INPUTS_ALIKE: Final = 0.6  # intra-class correlation of what inputs explain, which s₀² rests on
FIRST: Final = 32  # totals by which hypotheses are weighed first, where there are many more
ALL_BELOW: Final = 48  # totals up to which every hypothesis is weighed by all of them
MASS: Final = 0.9995  # posterior probability of the hypotheses that are kept
NUMBERS: Final = 4_000_000  # of the inverses that are kept, at most
FEWEST: Final = 12  # hypotheses that are kept at the most, however many totals there are
AT_ONCE: Final = 8_000_000  # numbers in a batch of matrices
ROUNDING: Final = 1e-12  # of a prior variance: below, nothing but rounding is left of it
BLOCK: Final = 1024  # rows predicted together
LOG_SCALES: Final = (-14.0, 7.0)  # range of log s² in the model's units, under known noise
NEWTON: Final = 60  # steps to a quantile, at most
ROUNDED: Final = 0.1  # rounding beside noise of 1 from which on rounding is what counts
CLOSE: Final = 1e-6  # error of a probability that ends them
ZOOMED: Final = np.linspace(-3.0, 3.0, 9)  # standard deviations of log s², for the grid of each


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
        known, groups = self.hypotheses, self.totals.groups
        u, solved = self.totals.design.u, self.solved
        powers = np.stack([np.einsum("nk,nk->n", phi[:, at], phi[:, at]) for at in groups], axis=1)
        dual = solved.white is not None
        if dual:
            products = np.stack([phi[:, at] @ u[:, at].T for at in groups])  # G N t
        else:
            mean = self.coefficients
        for h, (share, rho) in enumerate(zip(known.noise, known.correlation, strict=True)):
            rest = share * ((1 - rho) * noise[0] + rho * noise[1])
            shared = None if own is None else share * ((1 - rho) * own[0] + rho * own[1])
            if dual:
                assert solved.white is not None
                across = np.tensordot(known.variances[h], products, 1)
                if shared is not None:
                    across += shared
                white = across @ solved.white[h].T
                prior = powers @ known.variances[h] + rest
                variance = prior - np.einsum("nt,nt->n", white, white)
                found = across @ solved.weights[h]
            else:
                assert solved.roots is not None
                half = phi @ solved.roots[h].T
                variance = prior = np.einsum("nk,nk->n", half, half) + rest
                found = phi @ mean[h]
                if shared is not None:
                    # of disjoint sets each row shares noise with one total at most
                    scale = self.noise_scale(h)
                    towards = half @ (u @ solved.roots[h].T).T / scale
                    taken = np.einsum("nt,nt->n", 2 * shared, towards) + shared**2 @ solved.own[h]
                    variance = prior - taken
                    found = found + shared @ solved.weights[h]
            yield h, found, np.where(variance > ROUNDING * prior, variance, 0.0)

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
        found = list(self.components(phi, noise, own))
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
    ) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
        """Lower and upper quantile of the first output, which hold `level` between them."""
        found = list(self.components(phi, noise, own))
        mean = np.stack([each[:, 0] for _, each, _ in found])
        std = np.stack([np.sqrt(within * self.scale[h, 0]) for h, _, within in found])
        ends = (0.5 - 0.5 * level, 0.5 + 0.5 * level)
        lower, upper = (quantile(self.probability, mean, std, self.freedom, p) for p in ends)
        return lower, upper


def likeness(hypotheses: Hypotheses) -> float:
    """Intra-class correlation of outputs that the hypotheses expect before any total."""
    noise = hypotheses.noise
    return float(np.mean(noise * hypotheses.correlation + (1 - noise) * INPUTS_ALIKE))


# --- weighing the hypotheses ----------------------------------------------------------------------


def fit(hypotheses: Hypotheses, totals: Totals, *, known_scale: bool = False) -> Mixture:
    """The hypotheses weighed by the totals.

    Args:
        known_scale: Whether variances are those of the model's units, so that s² is 1.
    """
    if totals.noise_std is not None and not known_scale:
        return _with_known_noise(hypotheses, totals)
    few = _promising(hypotheses, totals, known_scale)
    known = hypotheses.take(few)
    solved = solve(known, totals, np.ones(len(few)))
    logs = _log_evidence(solved, totals, known_scale)
    freedom = math.inf if known_scale else totals.freedom + PRIOR_FREEDOM
    scales = np.ones(solved.power.shape)
    if not known_scale:
        scales = (PRIOR_FREEDOM * totals.prior_scale + solved.power) / freedom
    return _kept(known, totals, solved, logs, scales, freedom, len(hypotheses.noise), few)


def _kept(
    known: Hypotheses,
    totals: Totals,
    solved: Solved,
    logs: Float[np.ndarray, " k"],
    scales: Float[np.ndarray, "k M"],
    freedom: float,
    n_hypotheses: int,
    origin: Int[np.ndarray, " k"],
) -> Mixture:
    """The mixture of the most probable hypotheses, those of `MASS` together.

    Args:
        origin: Number of the hypothesis that each is, or is a point of the grid of.
    """
    top = float(logs.max())
    evidence = top + math.log(np.exp(logs - top).sum() / n_hypotheses)
    chance = cautious(logs, origin)
    keep = np.sort(most_probable(chance, len(totals)))
    some = _solved([None if a is None else a[keep] for a in _fields(solved)])
    probability = chance[keep] / chance[keep].sum()
    freeze(probability)
    about = scales[keep], freedom, totals, some, evidence, origin[keep]
    return Mixture(known.take(keep), probability, *about)


def cautious(
    logs: Float[np.ndarray, "k ..."], origin: Int[np.ndarray, " k"]
) -> Float[np.ndarray, "k ..."]:
    """Probabilities where hypotheses count by their evidence to the power η.

    Points of the grid of one hypothesis share what it counts by their evidence itself.
    """
    whole = np.full((int(origin.max(initial=0)) + 1, *logs.shape[1:]), -np.inf)
    np.logaddexp.at(whole, origin, logs)
    logs = logs + (CAUTION - 1) * whole[origin]
    chance = np.exp(logs - logs.max(axis=0))
    return chance / chance.sum(axis=0)


def _solved(arrays: Sequence[Any]) -> Solved:
    return Solved(*arrays)


def _fields(solved: Solved) -> tuple[np.ndarray | None, ...]:
    return tuple(getattr(solved, name) for name in Solved.__slots__)


def most_probable(chance: Float[np.ndarray, " k"], n_totals: int) -> Int[np.ndarray, " n"]:
    """Positions of the hypotheses that hold `MASS`, no more than their inverses may take."""
    order = np.argsort(-chance, kind="stable")
    enough = int(np.searchsorted(np.cumsum(chance[order]), MASS)) + 1
    most = max(FEWEST, NUMBERS // max(1, n_totals) ** 2)
    return order[: min(enough, most)]


def _promising(hypotheses: Hypotheses, totals: Totals, known_scale: bool) -> Int[np.ndarray, " n"]:
    """Hypotheses that are worth weighing by all totals, judged by some of these."""
    everything = np.arange(len(hypotheses.noise))
    if len(totals) <= ALL_BELOW:
        return everything
    some = totals.take(np.linspace(0, len(totals) - 1, FIRST).round().astype(int))
    solved = solve(hypotheses, some, np.ones(len(everything)))
    logs = _log_evidence(solved, some, known_scale)
    return np.sort(most_probable(cautious(logs, everything), len(totals)))


def _log_evidence(solved: Solved, totals: Totals, known_scale: bool) -> Float[np.ndarray, " k"]:
    """log p(D | h), but for a number that hypotheses share where s² is integrated."""
    n_outputs = solved.power.shape[1]
    if known_scale:
        constant = len(totals) * n_outputs * math.log(2 * math.pi)
        return -0.5 * (n_outputs * solved.log_det + solved.power.sum(axis=1) + constant)
    if totals.freedom <= 0:
        return np.zeros(len(solved.log_det))
    misfit = np.log(PRIOR_FREEDOM * totals.prior_scale + solved.power).sum(axis=1)
    freedom = PRIOR_FREEDOM + totals.freedom
    return -0.5 * (n_outputs * solved.log_det + freedom * misfit)


def _with_known_noise(hypotheses: Hypotheses, totals: Totals) -> Mixture:
    """The mixture over hypotheses and log s²: a fine grid to weigh them by, then one for each."""
    count, freedom = len(hypotheses.noise), totals.freedom + PRIOR_FREEDOM
    log_det, known, squares = _spectra(hypotheses, totals)
    prior = PRIOR_FREEDOM * float(totals.prior_scale[0])
    step = min(0.25, 0.5 * math.sqrt(2 / freedom))  # half a standard deviation of log s², or less
    grid = np.arange(LOG_SCALES[0], LOG_SCALES[1], step)
    logs = np.empty((count, len(grid)))
    for i, at in enumerate(grid.tolist()):
        logs[:, i] = -0.5 * (PRIOR_FREEDOM * at + prior * math.exp(-at))
        if totals.freedom > 0:
            left = math.exp(at) * (1 - known) + known
            logs[:, i] -= 0.5 * (log_det + np.log(left).sum(axis=1) + (squares / left).sum(axis=1))
            logs[:, i] += 0.5 * (len(totals) - totals.freedom) * at
    chance = cautious(np.logaddexp.reduce(logs, axis=1), np.arange(count))
    few = np.sort(most_probable(chance, 3 * len(totals)))
    mass = np.exp(logs[few] - logs[few].max(axis=1, keepdims=True))
    mass /= mass.sum(axis=1, keepdims=True)
    middle = mass @ grid
    width = np.sqrt(np.einsum("hi,hi->h", mass, (grid - middle[:, None]) ** 2))
    origin = np.repeat(few, len(ZOOMED))
    own = hypotheses.take(origin)
    scale = (middle[:, None] + width[:, None] * ZOOMED).ravel()
    solved = solve(own, totals, np.exp(scale))
    misfit = np.exp(-scale) * (prior + solved.power[:, 0])
    logs = -0.5 * (PRIOR_FREEDOM * scale + prior * np.exp(-scale))
    if totals.freedom > 0:
        logs = -0.5 * (solved.log_det + freedom * scale + misfit)
    logs = logs + np.log(np.repeat(width, len(ZOOMED)))
    return _kept(own, totals, solved, logs, np.exp(scale)[:, None], math.inf, count, origin)


def _spectra(
    hypotheses: Hypotheses, totals: Totals
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k t"], Float[np.ndarray, "k t"]]:
    """What the density of totals with known noise needs at any s², for each hypothesis.

    With C that of s² = 1, known noise included, which has an inverse even where overlapping totals
    differ by known noise alone, F C Fᵀ = I and F diag(r²) Fᵀ = Q diag(κ) Qᵀ, the covariance of the
    totals is F⁻¹ Q diag(s² (1 − κ) + κ) Qᵀ F⁻ᵀ: gives log |C|, κ, and the squares of Qᵀ F z.
    """
    assert totals.noise_std is not None
    t, blur = len(totals), totals.noise_std
    root = np.sqrt(noise_of(hypotheses, totals, np.ones(1)))
    step, found = max(1, AT_ONCE // max(1, t**2)), []
    for low in range(0, len(root), step):
        here = slice(low, low + step)
        some = _dual(hypotheses.take(here), totals, root[here], None)
        assert some.white is not None
        half = some.white * blur
        known, axes = np.linalg.eigh(np.matmul(half, half.transpose(0, 2, 1)))
        along = np.einsum("hst,tm,hsk->hk", some.white, totals.z, axes, optimize=True)
        found.append((some.log_det, np.clip(known, 0.0, 1.0), along**2))
    log_det, known, squares = (np.concatenate(each) for each in zip(*found, strict=True))
    return log_det, known, squares


# --- linear algebra -------------------------------------------------------------------------------


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
            parts.append(_dual(some, totals, root[here], products))
    joined = []
    for columns in zip(*map(_fields, parts), strict=True):
        joined.append(None if columns[0] is None else np.concatenate(columns))
    return _solved(joined)


def _dual(
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
    white = np.linalg.inv(lower) / root[:, None, :]
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


# --- quantiles, leaving one out ------------------------------------------------------------


def quantile(
    probability: Float[np.ndarray, " k"],
    mean: Float[np.ndarray, "k N"],
    std: Float[np.ndarray, "k N"],
    freedom: float,
    share: float,
) -> Float[np.ndarray, " N"]:
    """Quantiles of mixtures of Student t distributions, a column for each.

    They lie between the quantiles of the components; Newton's steps find them, or halving where a
    step leaves that range. Probabilities of t are those of a normal variable at Wallace's
    transformation of t, which errs by less than 5e-4 from four degrees of freedom on.
    """
    from scipy.special import ndtr, ndtri

    def to_normal(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Wallace's transformation, and its derivative."""
        if freedom == math.inf:
            return t, np.ones_like(t)
        factor = (8 * freedom + 1) / (8 * freedom + 3)
        size = np.sqrt(freedom * np.log1p(t**2 / freedom))
        curve = size * (1 + t**2 / freedom)
        slope = np.divide(abs(t), curve, out=np.ones_like(t), where=size > 1e-8)
        return factor * np.copysign(size, t), factor * slope

    std = np.maximum(std, 1e-300)
    at = float(ndtri(share))
    if freedom < math.inf:
        inside = (at * (8 * freedom + 3) / (8 * freedom + 1)) ** 2 / freedom
        at = math.copysign(math.sqrt(freedom * math.expm1(inside)), at)
    ends = mean + at * std
    low, high = ends.min(axis=0), ends.max(axis=0)
    here, done = np.clip(probability @ ends, low, high), np.zeros(mean.shape[1], dtype=bool)
    for _ in range(NEWTON):
        with np.errstate(over="ignore"):
            away = np.clip((here - mean) / std, -1e100, 1e100)  # whose square is a number
        z, slope = to_normal(away)
        below = probability @ ndtr(z)
        with np.errstate(over="ignore", invalid="ignore"):
            density = probability @ (np.exp(-0.5 * z**2) * slope / std) / math.sqrt(2 * math.pi)
        low, high = np.where(below < share, here, low), np.where(below < share, high, here)
        narrow = high - low <= 1e-12 * np.maximum(abs(low), abs(high))
        done |= narrow | (abs(below - share) < CLOSE)  # each by itself, whatever the others do
        if done.all():
            break
        with np.errstate(all="ignore"):
            step = here - (below - share) / density
        step = np.where((step > low) & (step < high), step, 0.5 * (low + high))
        here = np.where(done, here, step)
    return here


def leave_one_out(mixture: Mixture) -> tuple[Float[np.ndarray, "t M"], Float[np.ndarray, "t M"]]:
    """Mean and variance of each centred total given all others, hypotheses weighed without it.

    With the inverse of a partitioned matrix, z_a given the others has mean z_a − [C⁻¹z]_a/[C⁻¹]_aa
    and variance s²/[C⁻¹]_aa; without it |C| is |C| [C⁻¹]_aa, and q is q − [C⁻¹z]_a²/[C⁻¹]_aa.
    """
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
        scale = power / (tail - 2)
    else:
        scale = np.broadcast_to(mixture.scale[:, None, :], gone.shape)
        logs = 0.5 * (gone / scale + np.log(scale)).sum(axis=2)
    logs = logs - 0.5 * n_outputs * np.log(solved.own)
    if mixture.freedom < math.inf and freedom <= 0:
        chance = np.full(logs.shape, 1 / len(logs))  # one total, centred, does not weigh them
    else:
        chance = _without(mixture, logs)
    means, variances = z - off, scale / own
    mean = np.einsum("ht,htm->tm", chance, means)
    variance = np.einsum("ht,htm->tm", chance, variances + (means - mean) ** 2)
    return mean, variance


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
