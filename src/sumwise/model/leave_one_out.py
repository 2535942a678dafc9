"""Predictions of each total from all the others, in closed form.

With the rows v_a = u_a/√s_a of V = Q diag(√g) R and z_a = (ȳ_a − offset Σθ_a) / (scale √s_a)

    z ~ N(0, C),    C = V Vᵀ/λ + I/β

at given λ and β, so by the inverse of a partitioned matrix

    z_a | all others ~ N(z_a − [C⁻¹z]_a / [C⁻¹]_aa,  1 / [C⁻¹]_aa)
    C⁻¹ / β = I − Q diag(βg / (λ + βg)) Qᵀ

which the decomposition gives for all totals at once. Where the other totals say next to nothing of
one, [C⁻¹]_aa / β is a difference that cancels; there are at most K such totals, and each gets a fit
of its own without it. Known noise r_a enters as s_a + β r_a² (`known_noise`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from sumwise.errors import SettingError
from sumwise.model import mixture_leave_one_out, scaling
from sumwise.model.design import Design
from sumwise.model.fit import Model
from sumwise.model.generalised import leave_one_out as generalised
from sumwise.model.generalised.predict import outputs_of, unmeasured
from sumwise.model.posterior import EPSILON, Hyperparameters, Spectrum, condition, decompose
from sumwise.util.shapes import Float

ALONE: Final = 1e-6  # share of a total that is its own noise; below this, rounding begins to show
NO_CLOSED_FORM: Final = (
    "A dropout network is a committee of models without a posterior over coefficients, so there is "
    "no closed form for what it would predict without one of its answers."
)


def leave_one_out(
    model: Model,
    design: Design,
    y_bar: Float[np.ndarray, "t M"],
    noise_std: Float[np.ndarray, " t"] | None = None,
) -> tuple[Float[np.ndarray, "t M"], Float[np.ndarray, "t M"]]:
    """Mean and standard deviation of each total, noise included, given all the others.

    λ, β, the basis, and the offset and scale of the outputs stay what they are; a basis that has
    learned from the totals still knows the one that is left out. The hypotheses of a mixture are
    weighed without the total, and their scales estimated without it.

    Args:
        design: Of the answered sets, under the model's basis.
        noise_std: Known noise of the answers, in the user's units.
    """
    hyper, scale = model.posterior.hyper, model.posterior.output_scale
    if model.mixture is not None:
        mean, variance = mixture_leave_one_out.leave_one_out(model.mixture)
        return design.theta_sum[:, None] * model.offset + scale * mean, scale * np.sqrt(variance)
    if model.generalised is not None:
        known = generalised.left(model.generalised)
        one_mean, one_std, _ = outputs_of(model.generalised.likelihood, known)
        return one_mean[:, None], one_std[:, None]
    if model.spectrum is None:
        raise SettingError(NO_CLOSED_FORM)
    target = scaling.centred(design, y_bar, model.offset) / scale
    if noise_std is not None:
        design = design.with_known_noise(noise_std / float(scale[0]), hyper.noise_precision)
    if model.labelled is not None and model.labelled.lower is not None:
        mean, variance = _overlapping(model.labelled.lower, design, target, hyper)
        middle = design.theta_sum[:, None] * model.offset
        return middle + scale * mean, scale * np.sqrt(variance)[:, None]
    root = np.sqrt(design.noise_scale)[:, None]
    spectrum, z = _decomposed(design, target), target / root
    with np.errstate(divide="ignore"):
        shrink = 1 / (1 + hyper.prior_precision / hyper.noise_precision / spectrum.values)
    own = 1 - spectrum.left**2 @ shrink  # [C⁻¹]_aa / β
    off = z - spectrum.left @ (shrink[:, None] * spectrum.projected)  # [C⁻¹z]_a / β
    alone = np.flatnonzero(own <= ALONE)
    own[alone] = 1.0  # replaced below
    mean, variance = z - off / own[:, None], 1 / (hyper.noise_precision * own)
    rows = spectrum.left * np.sqrt(spectrum.values)  # v_a, in coordinates along R
    mean[alone], variance[alone] = _refitted(rows, z, alone, hyper)
    return (
        design.theta_sum[:, None] * model.offset + scale * root * mean,
        scale * root * np.sqrt(variance)[:, None],
    )


def interval(
    model: Model, design: Design, level: float
) -> tuple[Float[np.ndarray, "2 t"], Float[np.ndarray, " t"]]:
    """Ends of the interval of each total given all the others, by a mixture, and normal scores.

    Those of whole numbers are randomised; see `generalised.leave_one_out`.
    """
    if model.generalised is not None:
        known, about = model.generalised.likelihood, generalised.left(model.generalised)
        whole = outputs_of(known, about, level)[2]
        assert whole is not None
        totals = model.generalised.measured.totals
        return whole, generalised.chances(known, about, totals).scores()
    assert model.mixture is not None
    ends, score = mixture_leave_one_out.interval(model.mixture, level)
    scale, offset = float(model.posterior.output_scale[0]), float(model.offset[0])
    return design.theta_sum * offset + scale * ends, score


def chances(model: Model) -> Float[np.ndarray, " t"] | None:
    """How probable a total at least as far out as each is, given all others; None of numbers, which
    are judged by standard deviations."""
    if model.generalised is None:
        return None
    known, totals = model.generalised.likelihood, model.generalised.measured.totals
    return generalised.chances(known, generalised.left(model.generalised), totals).two_sided


def chance_of(model: Model, design: Design) -> Callable[[float], float] | None:
    """The same for a total of one set that the model does not know."""
    if model.generalised is None:
        return None
    known = model.generalised.likelihood
    ahead = unmeasured(model.generalised, model.posterior, design)
    return lambda total: float(generalised.chances(known, ahead, np.array([total])).two_sided[0])


def _overlapping(
    lower: Float[np.ndarray, "t t"],
    design: Design,
    target: Float[np.ndarray, "t M"],
    hyper: Hyperparameters,
) -> tuple[Float[np.ndarray, "t M"], Float[np.ndarray, " t"]]:
    """Mean and variance of each total given all others, where they share noise L Lᵀ/β."""
    noise = lower @ lower.T / hyper.noise_precision
    inverse = np.linalg.inv(design.u @ design.u.T / hyper.prior_precision + noise)
    own = np.diagonal(inverse)
    return target - (inverse @ target) / own[:, None], 1 / own


def _refitted(
    rows: Float[np.ndarray, "t r"],
    z: Float[np.ndarray, "t M"],
    which: np.ndarray,
    hyper: Hyperparameters,
) -> tuple[Float[np.ndarray, "a M"], Float[np.ndarray, " a"]]:
    """Mean and variance of some z given all others, by a posterior for each."""
    mean, variance = np.empty((len(which), z.shape[1])), np.empty(len(which))
    if not len(which):
        return mean, variance
    kept = np.delete(np.arange(len(rows)), which)  # in every fit, so they are summed up once
    q, summed = np.linalg.qr(rows[kept])
    u, target = np.vstack([summed, rows[which]]), np.vstack([q.T @ z[kept], z[which]])
    for i, a in enumerate(which):
        others = np.delete(np.arange(len(u)), len(summed) + i)
        ones = np.ones(len(others))
        posterior = condition(_decomposed(Design(u[others], ones, ones), target[others]), hyper)
        mean[i] = rows[a] @ posterior.mean
        variance[i] = posterior.variance_along(rows[[a]])[0] + 1 / hyper.noise_precision
    return mean, variance


def _decomposed(design: Design, y_bar: Float[np.ndarray, "t M"]) -> Spectrum:
    """`decompose`, with directions that are there by rounding alone taken for none.

    Sets that say the same leave singular values of the size of rounding; times a very large β they
    would look like knowledge.
    """
    spectrum = decompose(design, y_bar)
    rounding = (EPSILON * max(design.u.shape)) ** 2 * spectrum.values.max(initial=0.0)
    return replace(spectrum, values=np.where(spectrum.values > rounding, spectrum.values, 0.0))
