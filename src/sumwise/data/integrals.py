"""Integrals over boxes as weighted sums over cells: the midpoint rule (paper §4.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sumwise.data.frames import to_float
from sumwise.errors import InvalidSetError, SettingError
from sumwise.util.shapes import Float

MOST_CELLS = 50_000_000  # over all boxes: some gigabytes of points


def midpoints(
    boxes: Any,
    weight: Callable[[Float[np.ndarray, "N D"]], Any] | None,
    bins: int | Sequence[int],
) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, " N"], int]:
    """Midpoints of the cells of every box, θ(x) times the volume of a cell, and cells in a box."""
    ends = to_float(boxes, "boxes")
    if ends.ndim != 3 or ends.shape[2] != 2 or 0 in ends.shape:
        raise InvalidSetError(f"boxes have shape {ends.shape}; expected (A, D, 2)")
    low, high = ends[..., 0], ends[..., 1]
    with np.errstate(over="ignore", invalid="ignore"):
        width = high - low
    for a, d in np.argwhere(~(np.isfinite(width) & (width > 0))).tolist():
        raise InvalidSetError(
            f"box {a} runs from {low[a, d]} to {high[a, d]} along input {d}; the lower end must be "
            "below the upper, and both finite"
        )
    counts, n_inputs = np.asarray(bins), ends.shape[1]
    whole = counts.dtype.kind in "iu" and counts.shape in ((), (n_inputs,))
    if not whole or (counts < 1).any():
        raise SettingError(
            f"bins is {bins!r}; give a whole number of at least 1, or one for each of "
            f"{n_inputs} inputs"
        )
    counts = np.broadcast_to(counts, n_inputs)
    n_cells = math.prod(counts.tolist())
    if n_cells * len(ends) > MOST_CELLS:
        raise SettingError(
            f"{len(ends)} boxes of {n_cells} cells are more than {MOST_CELLS}; give fewer bins"
        )
    index = np.indices(counts.tolist()).reshape(n_inputs, -1).T  # (C, D), the last input fastest
    points = low[:, None] + width[:, None] * ((index + 0.5) / counts)
    points = points.reshape(-1, n_inputs)
    theta = np.repeat(np.prod(width / counts, axis=1), n_cells)
    return points, theta if weight is None else theta * _weights_at(points, weight), n_cells


def _weights_at(
    points: Float[np.ndarray, "N D"], weight: Callable[[Float[np.ndarray, "N D"]], Any]
) -> Float[np.ndarray, " N"]:
    """θ(x) at every point, from the user's function."""
    if not callable(weight):
        raise SettingError(f"weight is {weight!r}; give a function of an (n, D) array of points")
    values = to_float(weight(points.copy()), "the value of the weight function")
    if values.shape != (len(points),):
        raise InvalidSetError(
            f"the weight function gave shape {values.shape} for {len(points)} points; it must "
            "give one number a point"
        )
    return values
