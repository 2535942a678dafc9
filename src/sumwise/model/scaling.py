"""Between the user's units and the model's: inputs standardised, outputs centred and scaled.

Inputs are standardised with the mean and standard deviation of the instances of all sets.
Outputs are centred and scaled from the totals alone: with y = offset + scale · f(x),

    ȳ_a = offset Σθ_a + scale Σ_n θ_an f(x_an),

so the offset is the least-squares slope of ȳ on Σθ with weights 1/s, and the scale the root mean
square of what is left, per unit of √s. Where all totals are differences, with Σθ of about 0, the
slope is lowered to what little they say of it (`level_known`). Totals with known noise r_a get the
weights that their noise and the individuals' variance v imply (`weigh`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sumwise.errors import LabelError, SettingError
from sumwise.model.design import Design
from sumwise.model.posterior import Spectrum, decompose
from sumwise.util.shapes import Float

LEAST_LOG_VARIANCE = -690.0  # whose inverse is still a number
SPAN = 50.0  # a variance may be smaller than others by e to this power


@dataclass(frozen=True, slots=True, eq=False)
class Standardised:
    """Labelled sets with their totals in the model's units, and how to get there."""

    design: Design
    totals: Float[np.ndarray, "t M"]
    noise_std: Float[np.ndarray, " t"] | None  # known noise, if there is any
    offset: Float[np.ndarray, " M"]
    scale: Float[np.ndarray, " M"]
    variance: float  # of an individual's output, in the model's units

    def design_at(self, noise_precision: float) -> Design:
        """The sets with the noise scales that known noise gives at this β."""
        if self.noise_std is None:
            return self.design
        return self.design.with_known_noise(self.noise_std, noise_precision)

    def spectrum_at(self, noise_precision: float) -> Spectrum:
        return decompose(self.design_at(noise_precision), self.totals)


def standardise(
    design: Design,
    y_bar: Float[np.ndarray, "t M"],
    noise_std: Float[np.ndarray, " t"] | None,
    hyperparameters: str | tuple[float, float],
    *,
    standardize: bool,
) -> Standardised:
    """Centre and scale the totals; not under λ and β in the user's units, nor if switched off."""
    offset, scale = np.zeros(y_bar.shape[1]), np.ones(y_bar.shape[1])
    known = noise_std if noise_std is not None and noise_std.any() else None
    raw = Standardised(design, y_bar, known, offset, scale, variance=1.0)
    weighed, spread, least = design, 0.0, 0.0
    if known is not None:
        if y_bar.shape[1] != 1:
            raise SettingError(
                "known measurement noise (noise_std) works with one output, and there are "
                f"{y_bar.shape[1]}; fit a model for each, or leave noise_std out"
            )
        weighed, spread = weigh(raw, hyperparameters)
    if standardize and hyperparameters != "adam":
        offset = offset_of(weighed, y_bar) * level_known(design)
    inside = centred(design, y_bar, offset)
    if standardize and isinstance(hyperparameters, str):
        scale = np.maximum(scale_of(weighed, inside, offset), spread)
    inside = inside / scale
    if known is not None:
        known = known / scale
        least = float((spread / scale[0]) ** 2) * max(1, len(design) - 1) / len(design)
    if not np.isfinite(inside).all() or (known is not None and not np.isfinite(known**2).all()):
        raise beyond_doubles(y_bar)
    power = float((inside**2 / weighed.noise_scale[:, None]).sum())
    variance = power / inside.size if inside.size and 0 < power < math.inf else 1.0
    # totals with known noise may show less variance by chance than they can resolve
    variance = max(variance, least if math.isfinite(least) else 0.0)
    return Standardised(design, inside, known, offset, scale, variance)


def beyond_doubles(y_bar: Float[np.ndarray, "t M"]) -> LabelError:
    return LabelError(
        f"totals from {y_bar.min():.3g} to {y_bar.max():.3g} are too extreme to use: their "
        "squares, or those of the weights or of noise_std, leave the range of double precision. "
        "Is one of them mistyped? Otherwise rescale them."
    )


def offset_of(design: Design, y_bar: Float[np.ndarray, "t M"]) -> Float[np.ndarray, " M"]:
    pull = design.theta_sum / design.noise_scale
    total = float(pull @ design.theta_sum)
    return (pull @ y_bar) / total if total > 0 else np.zeros(y_bar.shape[1])


def level_known(design: Design) -> float:
    """How far totals say something of a level: fully, but for differences (Σθ of about 0) alone."""
    return min(1.0, float((design.theta_sum**2 / design.noise_scale).sum()))


def centred(
    design: Design, y_bar: Float[np.ndarray, "t M"], offset: Float[np.ndarray, " M"]
) -> Float[np.ndarray, "t M"]:
    """The totals less the offset; differences of the size of rounding become 0."""
    left = y_bar - design.theta_sum[:, None] * offset
    return np.where(abs(left) <= 1e-14 * abs(y_bar), 0.0, left)


def scale_of(
    design: Design, left: Float[np.ndarray, "t M"], offset: Float[np.ndarray, " M"]
) -> Float[np.ndarray, " M"]:
    """Root mean square of the centred totals per √s; the offset itself if they are all 0."""
    freedom = max(1, len(design) - 1)
    each = left / np.sqrt(design.noise_scale)[:, None]
    peak = abs(each).max(axis=0, initial=0.0)
    unit = each / np.where(peak > 0, peak, 1.0)  # whose squares neither overflow nor vanish
    root = peak * np.sqrt(np.sum(unit**2, axis=0) / freedom)
    return np.where(root > 0, root, np.where(offset != 0, abs(offset), 1.0))


# --- known noise ----------------------------------------------------------------------------------


def weigh(raw: Standardised, hyperparameters: str | tuple[float, float]) -> tuple[Design, float]:
    """The design that offset and scale of the outputs are taken from, before β is known, and √v.

    Totals with known noise count for less, as r_a² compares with the individuals' variance v. That
    is where the residuals are as large as they should be (Paule and Mandel),
    Σ_a left_a² / (v s_a + r_a²) = t − 1, but not below what the totals can resolve, the standard
    error of v, unless that is more than their size. Without known noise, or where the totals say
    nothing of it, v is the ordinary scale, squared.
    """
    if not isinstance(hyperparameters, str):
        return raw.design_at(hyperparameters[1]), hyperparameters[1] ** -0.5
    with_offset = hyperparameters != "adam"

    def left_by(there: Design) -> tuple[Float[np.ndarray, "t 1"], Float[np.ndarray, "1"]]:
        offset = offset_of(there, raw.totals) * (level_known(raw.design) if with_offset else 0.0)
        return centred(there, raw.totals, offset), offset

    def too_small(log_variance: float) -> bool:
        there = raw.design_at(math.exp(-log_variance))
        left, _ = left_by(there)
        spread = float(scale_of(there, left, np.zeros(1))[0]) if left.any() else 0.0
        return spread > 0 and 2 * math.log(spread) > log_variance

    high = 2 * math.log(float(scale_of(raw.design, *left_by(raw.design))[0]))
    low = _least_log_variance(raw, high, with_offset)
    for _ in range(60 if low < high and too_small(low) else 0):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return raw.design_at(math.exp(-low)), math.exp(0.5 * low)


def _least_log_variance(raw: Standardised, ordinary: float, with_offset: bool) -> float:
    """Log of the smallest credible v.

    It is the standard error of v where v is next to nothing, or the mean square of an individual if
    that is less; the ordinary scale where the totals say nothing of v.
    """
    assert raw.noise_std is not None
    scales = raw.design.noise_scale
    with np.errstate(divide="ignore"):
        known = float((2 * np.log(raw.noise_std) - np.log(scales)).min())  # log r² / s
    nothing = max(ordinary - SPAN, known - SPAN, LEAST_LOG_VARIANCE)
    there = raw.design_at(math.exp(-nothing))
    share = scales / there.noise_scale
    error = nothing + _relative_error(share, there, with_offset)
    if not math.isfinite(error):
        error = ordinary
    elif raw.totals.any():
        root = float(scale_of(there, raw.totals, np.zeros(1))[0])
        freedom = max(1, len(share) - 1)
        error = min(error, 2 * math.log(root) + math.log(freedom / float(share.sum())))
    return max(nothing, error)


def _relative_error(share: Float[np.ndarray, " t"], there: Design, with_offset: bool) -> float:
    """Log of the standard error of v over v, √(2 / tr P²) with P = √share (I − q qᵀ) √share.

    A total informs on v by its share of individual noise, less what went into the offset along q.
    Sums over all totals but one are taken without it: 1 − q² would be rounding where one total has
    far less noise than the rest, which sets the offset and then says nothing of v.
    """
    parts, lever = share, there.theta_sum**2 / there.noise_scale
    if with_offset and lever.any():
        lever = lever / lever.sum()
        both = share * lever
        parts = np.concatenate([share * _others(lever), np.sqrt(both * _others(both))])
    top = float(parts.max(initial=0.0))
    if not top:
        return math.inf
    return 0.5 * math.log(2) - math.log(top) - math.log(float(np.linalg.norm(parts / top)))


def _others(values: Float[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
    """For each entry the sum of all others."""
    before, after = np.cumsum(values), np.cumsum(values[::-1])[::-1]
    return np.append(0.0, before[:-1]) + np.append(after[1:], 0.0)
