"""Integrals over boxes as weighted sums over cells: the midpoint rule (paper §4.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from sumwise.data.frames import to_float
from sumwise.errors import InvalidSetError, SettingError
from sumwise.util.shapes import Float

MOST_CELLS = 50_000_000  # over all boxes: some gigabytes of points


def check_boxes(boxes: Any) -> Float[np.ndarray, "A D 2"]:
    ends = to_float(boxes, "boxes")
    if ends.ndim != 3 or ends.shape[2] != 2 or 0 in ends.shape:
        raise InvalidSetError(f"boxes have shape {ends.shape}; expected (A, D, 2)")
    return ends


def cells(
    ends: Float[np.ndarray, "A D 2"], bins: int | Sequence[int], ids: tuple[Hashable, ...]
) -> tuple[Float[np.ndarray, "A C D"], Float[np.ndarray, " A"]]:
    """Midpoints of the cells of every box, and the volume of one cell of each."""
    low, high = ends[..., 0], ends[..., 1]
    with np.errstate(over="ignore", invalid="ignore"):
        width = high - low
    for a, d in np.argwhere(~(np.isfinite(width) & (width > 0))).tolist():
        raise InvalidSetError(
            f"box of set {ids[a]!r} runs from {low[a, d]} to {high[a, d]} along input {d}; "
            "the lower end must be below the upper, and both finite"
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
    index = np.indices(counts.tolist()).reshape(len(counts), -1).T  # (C, D), the last input fastest
    grid = (index + 0.5) / counts
    return low[:, None] + width[:, None] * grid, np.prod(width / counts, axis=1)


def weights_at(
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
