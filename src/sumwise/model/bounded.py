"""Predictions of outputs that are known to lie between two bounds.

The model is Gaussian and knows no bounds, so what it predicts is brought within them afterwards:

- A mean beyond a bound is moved to it. Among the members of a measured total the others take over
  what that adds or takes away, each in proportion to its weight and variance, so that the means
  still add up to the total: the nearest means that do, in units of their standard deviations.
- The ends of an interval are cut at the bounds. What was cut off could not be, so the interval
  holds as many values as before. An interval around a mean that has moved is widened by as much.

`std` stays what the model says.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from sumwise.data.sets import Sets
from sumwise.model.overlap import weights
from sumwise.model.predict import Members, Predictions
from sumwise.util.shapes import Float

SWEEPS: Final = 500  # over totals that share members
ENOUGH: Final = 1e-12  # change of a mean, relative to the largest, that ends the sweeps
HALVINGS: Final = 200

Total = tuple[np.ndarray, np.ndarray]  # rows of its members, and θ of each


def within(
    found: Predictions,
    low: Float[np.ndarray, "..."] | float,
    high: Float[np.ndarray, "..."] | float,
    totals: list[Total] | None = None,
) -> Predictions:
    """Predictions between bounds, which are numbers or have one for each row.

    Args:
        totals: Sums of rows that stay what they are, as far as the bounds allow.
    """
    mean = np.clip(found.mean, low, high)
    if totals:
        assert isinstance(low, float)
        assert isinstance(high, float)
        mean = _keeping(found.mean, found.std**2, low, high, totals)
    moved = mean - found.mean
    lower = np.clip(found.lower + np.minimum(moved, 0.0), low, high)
    upper = np.clip(found.upper + np.maximum(moved, 0.0), low, high)
    ends = np.stack([np.minimum(lower, mean), np.maximum(upper, mean)])
    return replace(found, mean=mean, ends=ends)


def totals_of(own: Members | None, squares: Float[np.ndarray, " t"]) -> list[Total]:
    """The measured totals all of whose members are among the rows.

    Args:
        squares: ‖θ‖² of each total.
    """
    if own is None:
        return []
    found = []
    order = np.argsort(own.total, kind="stable")
    starts = np.flatnonzero(np.diff(own.total[order], prepend=-1))
    for part in np.split(order, starts[1:]) if len(order) else ():
        part = part[own.theta[part] != 0]
        theta = own.theta[part]
        if len(part) and theta @ theta >= squares[own.total[part[0]]] * (1 - 1e-9):
            found.append((own.row[part], theta))
    return found


def within_overlapping(
    found: Predictions, sets: Sets, measured: Sets, low: float, high: float
) -> Predictions:
    """The same for all rows of overlapping sets: an individual has one mean, wherever it is.

    Args:
        measured: The sets whose totals are known.
    """
    assert sets.members is not None
    own = sets.members[: len(found.mean)]  # areas and individuals known from the start come after
    members, first, row = np.unique(own, return_index=True, return_inverse=True)
    theta, _ = weights(measured)
    totals = []
    for a in range(len(measured)):
        part = theta[[a]].tocoo()
        kept = part.data != 0
        totals.append((np.searchsorted(members, part.coords[1][kept]), part.data[kept]))
    ends = np.stack([found.lower, found.upper])[:, first]
    one = Predictions(found.mean[first], found.std[first], found.level, ends=ends)
    one = within(one, low, high, totals)
    return replace(found, mean=one.mean[row], ends=np.stack([one.lower, one.upper])[:, row])


def _keeping(
    mean: Float[np.ndarray, " n"],
    variance: Float[np.ndarray, " n"],
    low: float,
    high: float,
    totals: list[Total],
) -> Float[np.ndarray, " n"]:
    """The means within bounds, with the sums they have; in sweeps if members are shared."""
    sums = [float(theta @ mean[rows]) for rows, theta in totals]
    out = np.clip(mean, low, high)
    several = np.bincount(np.concatenate([rows for rows, _ in totals])).max() > 1
    begin = np.where(np.isfinite(mean), mean, 0.0)
    for _ in range(SWEEPS if several else 1):
        before = out.copy()
        for (rows, theta), total in zip(totals, sums, strict=True):
            start = out[rows] if several else begin[rows]
            out[rows] = _nearest(start, variance[rows], theta, total, low, high)
        if abs(out - before).max(initial=0.0) <= ENOUGH * abs(out).max(initial=1.0):
            break
    return out


def _nearest(
    mean: Float[np.ndarray, " n"],
    variance: Float[np.ndarray, " n"],
    theta: Float[np.ndarray, " n"],
    total: float,
    low: float,
    high: float,
) -> Float[np.ndarray, " n"]:
    """m' = clip(m + λ v θ) with Σ θ m' = total, or as near to that as bounds allow.

    Σ θ m' rises with λ, so λ is found by halving.
    """
    inside = np.clip(mean, low, high)
    if abs(float(theta @ inside) - total) <= 1e-14 * (abs(theta) @ abs(inside)):
        return inside
    pull = np.maximum(variance, 1e-12 * variance.max(initial=0.0)) * theta
    pull = pull if pull.any() else theta

    def gap(amount: float) -> float:
        return float(theta @ np.clip(mean + amount * pull, low, high)) - total

    reach = float(np.max(np.ptp([mean.min(), mean.max(), *np.clip([total], low, high)])))
    reach = max(reach, abs(total), 1.0) / float(abs(pull)[pull != 0].min())
    left, right = -reach, reach
    for _ in range(60):
        if gap(left) <= 0 <= gap(right):
            break
        left, right = 2 * left, 2 * right
    for _ in range(HALVINGS):
        middle = 0.5 * (left + right)
        if not left < middle < right:
            break
        left, right = (middle, right) if gap(middle) < 0 else (left, middle)
    out = np.clip(mean + right * pull, low, high)
    free = (out > low) & (out < high)  # rounding of λ is left to those who can move
    if free.any():
        rest = (total - float(theta @ out)) / float(theta[free] @ pull[free])
        out[free] = np.clip(out[free] + rest * pull[free], low, high)
    return out
