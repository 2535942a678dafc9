"""Averaging over the candidates of `basis="auto"` by their posterior probabilities.

A candidate's evidence is that of its totals with λ and β integrated out over their weak prior,

    p(D | c) = ∫∫ p(D | c, λ, β) p(λ, β) dlog λ dlog β      on a grid that zooms in (`integrate`),

and p(c | D) follows by Bayes' rule from candidates that are equally likely before. Instead of
picking the best, the prior variances of all are averaged with these probabilities. For the one
Gaussian model with that average prior, log λ and log β are their posterior means: with few labels
the maximum of the evidence is a poor summary of it. So one label does not overturn the model,
intervals account for candidates that are still possible, and all that follows (posterior, batches,
leave-one-out) is the ordinary model on features times `amplitude`.

Inputs that matter less get a smaller part of the linear variance. With w' = w/a, whose
prior is N(0, I/λ), a few steps of expectation and maximisation move each input's relevance by

    r_d ← r_d λ Σ_i v_i E[w'_id²] / Σ_i v_i,     scaled to a mean of 1,    v_i: of scaling i,

which is 1 where nothing is learned of w'_id: relevances stay equal until labels tell them apart.

The spectrum of each candidate comes from t×t products of its labelled rows, or from products of
its own features once there are more labels than those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sumwise.model.basis.auto import CANDIDATES, SCALINGS, VARIANCES, Auto
from sumwise.model.design import Design
from sumwise.model.evidence import WeakPrior, integrate, log_evidence, means, terms_of
from sumwise.model.posterior import Hyperparameters, Spectrum, condition, decompose
from sumwise.model.scaling import Standardised
from sumwise.util.shapes import Float

NOISE_SHARE = 0.03  # of an individual's variance: where the weak prior on β is centred
RELEVANCE_STEPS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The probabilities of the candidates, and the average prior that follows."""

    probability: Float[np.ndarray, " C"]  # of each of `CANDIDATES`
    variances: Float[np.ndarray, " P"]  # prior variance of each of `PARTS`, averaged
    relevance: Float[np.ndarray, " D"]  # of each input in linear parts, 1 on average
    amplitude: Float[np.ndarray, " K"]  # of each feature

    @property
    def linear(self) -> float:
        """Share of what varies that is linear in the inputs."""
        return float(self.probability @ [c.linear for c in CANDIDATES])

    def of_scaling(self, scaling: str) -> float:
        """Probability of an input scaling."""
        return float(self.probability @ [c.scaling == scaling for c in CANDIDATES])

    def of_lengthscale(self, lengthscale: float) -> float:
        """Its share of what varies and is not linear."""
        waves = [(1 - c.linear) * (c.lengthscale == lengthscale) for c in CANDIDATES]
        rest = 1 - self.linear
        return float(self.probability @ waves) / rest if rest > 0 else 0.0


def choose(
    basis: Auto, data: Standardised, prior: WeakPrior, fixed: Hyperparameters | None
) -> Choice:
    """The candidates weighed by the totals, and their average.

    For known noise, β is taken at its prior's centre; the later search for β has it exact.

    Args:
        fixed: λ and β if they are given: then there is nothing to integrate.
    """
    beta = fixed.noise_precision if fixed else float(np.exp(prior.log_noise_precision))
    design, logs = data.design_at(beta), np.zeros(len(CANDIDATES))
    if len(design):
        logs = log_evidences(basis, design, data.totals, prior, fixed)
    likely = np.exp(logs - logs.max())
    probability = likely / likely.sum()
    variances = probability @ VARIANCES
    relevance = relevances(basis, design, data.totals, variances, prior, fixed)
    return Choice(probability, variances, relevance, basis.amplitude(variances, relevance))


def relevances(
    basis: Auto,
    design: Design,
    target: Float[np.ndarray, "t M"],
    variances: Float[np.ndarray, " P"],
    prior: WeakPrior,
    fixed: Hyperparameters | None,
) -> Float[np.ndarray, " D"]:
    """How much of the linear variance each input has, 1 on average; see the module."""
    n_inputs = basis.frequencies.shape[1]
    relevance, share = np.ones(n_inputs), variances[: len(SCALINGS)]
    if not len(design) or n_inputs == 1 or not 0 < share.sum() < math.inf:
        return relevance  # nothing linear; or no number, which `model.fit` refuses in words
    for _ in range(RELEVANCE_STEPS):
        weighed = replace(design, u=design.u * basis.amplitude(variances, relevance))
        spectrum = decompose(weighed, target)
        now = condition(spectrum, fixed or means(spectrum, prior))
        lam = now.hyper.prior_precision
        known = (1 - lam * now.variances) @ now.directions**2
        second = lam * (now.mean**2).mean(axis=1) + 1 - known  # λ E[w'²]
        linear = second[: len(SCALINGS) * n_inputs].reshape(len(SCALINGS), n_inputs)
        moved = relevance * (share @ np.maximum(linear, 0.0))  # 1 − known may round below 0
        if not 0 < moved.sum() < math.inf:
            break
        relevance = moved / moved.mean()
    return relevance


def log_evidences(
    basis: Auto,
    design: Design,
    target: Float[np.ndarray, "t M"],
    prior: WeakPrior,
    fixed: Hyperparameters | None,
) -> Float[np.ndarray, " C"]:
    """log p(D | c) of every candidate, but for a number that they share."""
    root = np.sqrt(design.noise_scale)[:, None]
    rows, z, columns = design.u / root, target / root, basis.columns
    ones = np.ones(len(z))
    parts: dict[int, np.ndarray] = {}  # products of labelled rows, computed once for each part
    logs = []
    for variances in VARIANCES:
        used = np.flatnonzero(variances).tolist()
        if len(z) <= sum(columns[p].stop - columns[p].start for p in used):
            for p in used:
                if p not in parts:
                    parts[p] = rows[:, columns[p]] @ rows[:, columns[p]].T
            values, left = np.linalg.eigh(sum(variances[p] * parts[p] for p in used))
            values, none = np.maximum(values, 0.0), np.empty((len(z), 0))
            spectrum = Spectrum(left, values, none, left.T @ z, 0.0, 0.0)
        else:
            own = np.hstack([rows[:, columns[p]] * variances[p] ** 0.5 for p in used])
            spectrum = decompose(Design(own, ones, ones), z)
        if fixed is None:
            logs.append(integrate(terms_of(spectrum), prior)[0])
        else:
            logs.append(log_evidence(spectrum, fixed))
    return np.array(logs)
