"""How much each hypothesis of a mixture counts, by the totals.

A scaled inverse χ² prior of s², with ν₀ degrees of freedom and scale s₀², gives with q = zᵀ C⁻¹ z
of centred totals, which have t − 1 degrees of freedom,

    p(D | h) ∝ |C|^(−½) (ν₀ s₀² + q)^(−ν/2),     s² | D, h ~ scaled inverse χ²(ν, (ν₀ s₀² + q) / ν)

with ν = ν₀ + t − 1. s₀² is the variance of individuals that the spread of the sets' means suggests
(`Totals.prior_scale`). Hypotheses count by p(D | h)^η with η = `CAUTION`: none of them is true of
real groups, and the evidence of models that are all somewhat wrong is surer than it should be
(Grünwald and van Ommen 2017; Miller and Dunson 2019).

With known noise r_a of the totals s² does not factor out; then log s² is a grid under the same
prior, and each point of it a hypothesis with known s².
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sumwise.model.basis.auto import Hypotheses
from sumwise.model.design import freeze
from sumwise.model.mixture import Mixture
from sumwise.model.mixture_algebra import AT_ONCE, Solved, Totals, dual, noise_of, solve
from sumwise.util.shapes import Float, Int

PRIOR_FREEDOM: Final = 4.0  # ν₀
CAUTION: Final = 0.6  # η
INPUTS_ALIKE: Final = 0.6  # intra-class correlation of what inputs explain, which s₀² rests on
FIRST: Final = 32  # totals by which hypotheses are weighed first, where there are many more
ALL_BELOW: Final = 48  # totals up to which every hypothesis is weighed by all of them
MASS: Final = 0.9995  # posterior probability of the hypotheses that are kept
NUMBERS: Final = 4_000_000  # of the inverses that are kept, at most
FEWEST: Final = 12  # hypotheses that are kept at the most, however many totals there are
LOG_SCALES: Final = (-14.0, 7.0)  # range of log s² in the model's units, under known noise
ZOOMED: Final = np.linspace(-3.0, 3.0, 9)  # standard deviations of log s², for the grid of each


def likeness(hypotheses: Hypotheses) -> float:
    """Intra-class correlation of outputs that the hypotheses expect before any total."""
    noise = hypotheses.noise
    return float(np.mean(noise * hypotheses.correlation + (1 - noise) * INPUTS_ALIKE))


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
    probability = chance[keep] / chance[keep].sum()
    freeze(probability)
    about = scales[keep], freedom, totals, solved.take(keep), evidence, origin[keep]
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
        some = dual(hypotheses.take(here), totals, root[here], None)
        assert some.white is not None
        half = some.white * blur
        known, axes = np.linalg.eigh(np.matmul(half, half.transpose(0, 2, 1)))
        along = np.einsum("hst,tm,hsk->hk", some.white, totals.z, axes, optimize=True)
        found.append((some.log_det, np.clip(known, 0.0, 1.0), along**2))
    log_det, known, squares = (np.concatenate(each) for each in zip(*found, strict=True))
    return log_det, known, squares
