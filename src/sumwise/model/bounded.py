"""Predictions of outputs that are known to lie between two bounds.

The model is Gaussian and knows no bounds, so what it predicts is brought within them afterwards:

- A mean beyond a bound is moved to it. Among the members of a measured total the others take over
  what that adds or takes away, each in proportion to its weight and variance, so that the means
  still add up to the total: the nearest means that do, in units of their standard deviations. The
  same holds for totals that share members, all at once.
- The ends of an interval are cut at the bounds. What was cut off could not be, so the interval
  holds as many values as before. An interval around a mean that has moved is widened by as much.

`std` stays what the model says.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from sumwise.data.sets import Sets
from sumwise.model.overlap import weights
from sumwise.model.predict import Members, Predictions
from sumwise.util.shapes import Float

STEPS: Final = 100  # of Newton's method
NEAR: Final = 1e-6  # a gap below which rounding hides what a step gains
LONGEST: Final = 2.0**40  # that a step is stretched, or divided by
ENOUGH: Final = 1e-13  # gap between totals, relative to the largest, that ends the steps
DAMPING: Final = 1e-2  # of steps that are far from the end, relative to what members can move
LEAST_VARIANCE: Final = 1e-6  # of a member, relative to the largest

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


def possible(
    sets: Sets, exact: Sets, y_bar: Float[np.ndarray, " t"], ends: tuple[float, float]
) -> Float[np.ndarray, "2 A"]:
    """The least and the greatest that totals of sets can be, given exact ones that share members.

    A linear program for each end. NaN for a set that shares no members with exact totals, or where
    no outputs within bounds have these.

    Args:
        ends: Of an output.
    """
    from scipy.optimize import linprog
    from scipy.sparse.csgraph import connected_components

    (theta, _), (mine, _) = weights(exact), weights(sets)
    width, found = max(theta.shape[1], mine.shape[1]), np.full((2, len(sets)), np.nan)
    theta.resize((len(exact), width))
    mine.resize((len(sets), width))
    _, part = connected_components(theta @ theta.T, directed=False)
    for a in range(len(sets)):
        c = mine[[a]].toarray()[0]
        rows = np.flatnonzero(np.isin(part, part[abs(theta) @ abs(c) > 0]))
        if not len(rows):
            continue
        used = np.flatnonzero((c != 0) | (abs(theta[rows]).sum(axis=0) > 0))
        told = theta[rows][:, used], y_bar[rows]
        for end, sign in enumerate((1.0, -1.0)):
            made = linprog(sign * c[used], None, None, *told, bounds=ends)
            if made.status in (0, 3):  # solved, or without an end
                found[end, a] = sign * (made.fun if made.status == 0 else -np.inf)
    return found


def can_be(exact: Sets, y_bar: Float[np.ndarray, " t"], ends: tuple[float, float]) -> bool:
    """Whether some outputs within bounds have all these totals."""
    from scipy.optimize import linprog

    theta, _ = weights(exact)
    made = linprog(np.zeros(theta.shape[1]), None, None, theta, y_bar, bounds=ends)
    return bool(made.status != 2)  # which says that there are none


def _keeping(
    mean: Float[np.ndarray, " n"],
    variance: Float[np.ndarray, " n"],
    low: float,
    high: float,
    totals: list[Total],
) -> Float[np.ndarray, " n"]:
    """m' = clip(m + v Θᵀ λ) with Θ m' = Θ m, or as near to that as bounds allow.

    These are the m' within bounds and with the same sums whose Σ (m' − m)² / v is least. λ is where
    the convex G(λ) = Σ c (2 z − c) / 2v − λᵀ Θ m is least, with z = m + v Θᵀ λ and c = clip(z): its
    gradient is Θ c − Θ m. Newton's method finds it, since that is linear between kinks.
    """
    out = np.clip(mean, low, high)
    if not (out != mean).any() or not np.isfinite(variance).all():
        return out
    from scipy.sparse import csr_array, diags_array
    from scipy.sparse.linalg import spsolve

    begin = np.where(np.isfinite(mean), mean, np.where(np.isfinite(out), out, 0.0))
    columns, weight = (np.concatenate(parts) for parts in zip(*totals, strict=True))
    starts = np.cumsum([0, *(len(rows) for rows, _ in totals)])
    theta = csr_array((weight, columns, starts), shape=(len(totals), len(mean)))
    ends = np.sort([weight * low, weight * high], axis=0)
    wanted = np.clip(theta @ begin, *(np.add.reduceat(end, starts[:-1]) for end in ends))
    v = np.maximum(variance / (variance.max() or 1.0), LEAST_VARIANCE)
    whole = (theta * theta) @ v

    def at(amount: Float[np.ndarray, " t"]) -> tuple[Any, Any, float]:
        z = begin + v * (theta.T @ amount)
        c = np.clip(z, low, high)
        return z, theta @ c - wanted, float((c * (2 * z - c) / v).sum() / 2 - amount @ wanted)

    amount, size = np.zeros(len(totals)), float(abs(wanted).max() + abs(out).max()) or 1.0
    z, gap, value = at(amount)
    for _ in range(STEPS):
        off = abs(gap).max() / size
        if off <= ENOUGH:
            break
        curve = theta @ diags_array(v * ((z > low) & (z < high))) @ theta.T
        damped = max(ENOUGH, min(DAMPING, off))  # where few members can move
        step = -spsolve((curve + diags_array(damped * whole)).tocsc(), gap)
        rate, found = 1.0, at(amount + step)
        if off > NEAR or abs(found[1]).max() > off * size / 2:
            while rate < LONGEST and (longer := at(amount + 2 * rate * step))[2] < found[2]:
                rate, found = 2 * rate, longer
            while rate > 1 / LONGEST and found[2] > value + 1e-4 * rate * (gap @ step):
                rate, found = rate / 2, at(amount + rate / 2 * step)
        amount, (z, gap, value) = amount + rate * step, found
    return np.clip(z, low, high)
