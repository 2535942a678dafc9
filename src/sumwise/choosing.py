"""Which candidates of `basis="auto"` the totals speak for, and the model that follows.

A candidate's evidence is that of its totals with λ and β integrated out over their weak prior,

    p(D | c) ≈ Σ_λβ p(D | c, λ, β) p(λ, β)      on a grid of log λ and log β about the data's scale,

and p(c | D) follows by Bayes' rule from candidates that are equally likely before. Instead of
picking the best, the prior variances of all are averaged with these probabilities, and λ and β
are then found for the one Gaussian model with that average prior. So one label does not turn the
model over, intervals know of candidates that are still possible, and all that follows (posterior,
batches, leaving one out) is the ordinary model on features times `amplitude`.

The spectrum of each candidate comes from t×t products of its labelled rows, or from products of
its own features once there are more labels than those.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sumwise import known_noise
from sumwise.basis.auto import CANDIDATES, VARIANCES, Auto
from sumwise.design import Design
from sumwise.evidence import WeakPrior
from sumwise.posterior import Hyperparameters
from sumwise.shapes import Float

_STEPS = np.arange(-8.0, 8.25, 0.5)  # of log λ − log β and of log β, around the prior's centre
PRIOR_STD = 1.0  # of log λ and log β: 2 lets the first few labels choose a model by themselves


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What the totals say of the candidates."""

    probability: Float[np.ndarray, " C"]  # of each of `CANDIDATES`
    variances: Float[np.ndarray, " P"]  # prior variance of each of `PARTS`, averaged
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
    basis: Auto,
    design: Design,
    target: Float[np.ndarray, "t M"],
    noise_std: Float[np.ndarray, " t"] | None,
    prior: WeakPrior,
    *,
    fixed: Hyperparameters | None,
    use_prior: bool,
) -> Choice:
    """Candidates weighed by labels in the model's units.

    Args:
        noise_std: Known noise, for which β is taken at its prior's centre; the later search for β
            has it exact.
        fixed: λ and β if they are given: then there is nothing to integrate.
        use_prior: Weigh λ and β with the weak prior; otherwise all of the grid is alike.
    """
    logs = np.zeros(len(CANDIDATES))
    if len(design):
        beta = np.exp(prior.log_noise_precision) if fixed is None else fixed.noise_precision
        if noise_std is not None:
            design = known_noise.blurred(design, noise_std, float(beta))
        root = np.sqrt(design.noise_scale)[:, None]
        rows, z = design.u / root, target / root
        spectra = _spectra(basis, rows, z)
        logs = np.array([_log_evidence(*s, prior, fixed, use_prior) for s in spectra])
    likely = np.exp(logs - logs.max())
    probability = likely / likely.sum()
    variances = probability @ VARIANCES
    return Choice(probability, variances, basis.amplitude(variances))


def _spectra(
    basis: Auto, rows: Float[np.ndarray, "t K"], z: Float[np.ndarray, "t M"]
) -> list[tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]]:
    """For each candidate the eigenvalues g, Σ z² along each, and how many numbers that adds up."""
    columns, (t, n_outputs) = basis.columns, z.shape
    parts: dict[int, np.ndarray] = {}  # products of labelled rows, worked out once for each part
    found = []
    for variances in VARIANCES:
        used = np.flatnonzero(variances).tolist()
        n_features = sum(columns[p].stop - columns[p].start for p in used)
        if t <= n_features:
            for p in used:
                if p not in parts:
                    parts[p] = rows[:, columns[p]] @ rows[:, columns[p]].T
            values, left = np.linalg.eigh(sum(variances[p] * parts[p] for p in used))
            power = ((left.T @ z) ** 2).sum(axis=1)
            count = np.full(t, float(n_outputs))
        else:
            own = np.hstack([rows[:, columns[p]] * variances[p] ** 0.5 for p in used])
            left, singular, _ = np.linalg.svd(own, full_matrices=False)
            along = left.T @ z
            values = np.append(singular**2, 0.0)
            outside = float(((z - left @ along) ** 2).sum())
            power = np.append((along**2).sum(axis=1), outside)
            count = np.append(np.full(len(singular), n_outputs), (t - len(singular)) * n_outputs)
        found.append((np.maximum(values, 0.0), power, count.astype(np.float64)))
    return found


def _log_evidence(
    values: Float[np.ndarray, " n"],
    power: Float[np.ndarray, " n"],
    count: Float[np.ndarray, " n"],
    prior: WeakPrior,
    fixed: Hyperparameters | None,
    use_prior: bool,
) -> float:
    """log Σ p(D | λ, β) p(λ, β) over the grid, less what is the same for all candidates.

    With d = log λ − log β and k = g e^−d + 1, log p = ½ n log β − ½ Σ log k − ½ β Σ z²/k.
    """
    log_noise, ratio = (
        prior.log_noise_precision + _STEPS,
        _STEPS + (prior.log_prior_precision - prior.log_noise_precision),
    )
    if fixed is not None:
        log_noise = np.log([fixed.noise_precision])
        ratio = np.log([fixed.prior_precision]) - log_noise
    k = np.exp(-ratio)[:, None] * values + 1
    fit = -0.5 * (np.log(k) @ count)[:, None] - 0.5 * ((1 / k) @ power)[:, None] * np.exp(log_noise)
    logs = fit + 0.5 * count.sum() * log_noise
    if use_prior and fixed is None:
        away_noise = log_noise - prior.log_noise_precision
        away_prior = ratio[:, None] + log_noise - prior.log_prior_precision
        logs = logs - 0.5 * (away_noise**2 + away_prior**2) / prior.std**2
    top = float(logs.max())
    return top + float(np.log(np.exp(logs - top).sum()))
