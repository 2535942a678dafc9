"""Between the user's units and the model's: inputs standardised, outputs centred and scaled.

Inputs are standardised with the mean and standard deviation of the instances of all sets.
Outputs are centred and scaled from the totals alone: with y = offset + scale · f(x),

    ȳ_a = offset Σθ_a + scale Σ_n θ_an f(x_an),

so the offset is the least-squares slope of ȳ on Σθ with weights 1/s, and the scale the root mean
square of what is left, per unit of √s.
"""

from __future__ import annotations

import numpy as np

from sumwise.model.design import Design
from sumwise.util.shapes import Float


def offset_of(design: Design, y_bar: Float[np.ndarray, "t M"]) -> Float[np.ndarray, " M"]:
    pull = design.theta_sum / design.noise_scale
    total = float(pull @ design.theta_sum)
    return (pull @ y_bar) / total if total > 0 else np.zeros(y_bar.shape[1])


def centred(
    design: Design, y_bar: Float[np.ndarray, "t M"], offset: Float[np.ndarray, " M"]
) -> Float[np.ndarray, "t M"]:
    """What the offset leaves of the totals; rounding is not taken for signal."""
    left = y_bar - design.theta_sum[:, None] * offset
    return np.where(abs(left) <= 1e-14 * abs(y_bar), 0.0, left)


def scale_of(
    design: Design, left: Float[np.ndarray, "t M"], offset: Float[np.ndarray, " M"]
) -> Float[np.ndarray, " M"]:
    """Root mean square of what the offset leaves; the offset itself if it leaves nothing."""
    freedom = max(1, len(design) - 1)
    each = left / np.sqrt(design.noise_scale)[:, None]
    peak = abs(each).max(axis=0, initial=0.0)
    unit = each / np.where(peak > 0, peak, 1.0)  # whose squares neither overflow nor vanish
    root = peak * np.sqrt(np.sum(unit**2, axis=0) / freedom)
    return np.where(root > 0, root, np.where(offset != 0, abs(offset), 1.0))
