"""Measured totals, checked: finite numbers, one per set, by order or by id."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from sumwise.data.frames import to_float
from sumwise.errors import InvalidSetError, LabelError
from sumwise.util.shapes import Float


def check_labels(y_bar: Any, ids: Sequence[Hashable]) -> Float[np.ndarray, "t M"]:
    """Totals as a (t, M) array; anything but finite numbers is refused, naming the set.

    A mapping, and a pandas object whose index holds the ids, is read by id.
    """
    try:
        values = to_float(_by_id(y_bar, ids), "totals")
    except InvalidSetError as error:
        raise LabelError(str(error)) from None
    if values.ndim not in (1, 2) or len(values) != len(ids):
        raise LabelError(
            f"totals have shape {values.shape}; give one for each of {len(ids)} sets, "
            "or a row of several outputs for each"
        )
    matrix = (
        values.reshape(len(ids), -1) if len(ids) else values.reshape(0, *values.shape[1:] or (1,))
    )
    for a, m in np.argwhere(~np.isfinite(matrix)).tolist():
        raise LabelError(f"total of set {ids[a]!r} is {matrix[a, m]}; give a finite number")
    return matrix


def check_label(y_bar: Any, set_id: Hashable) -> float:
    """A finite number, or a refusal that names the set."""
    try:
        values = check_labels([y_bar], [set_id])
    except LabelError:
        values = np.empty((0, 0))
    if values.shape != (1, 1) or np.ndim(y_bar):
        raise LabelError(f"total of set {set_id!r} is {y_bar!r:.80}; give one finite number")
    return float(values[0, 0])


def check_noise(noise_std: Any, set_id: Hashable, most: float = math.inf) -> float:
    """A standard deviation, or a refusal that names the set."""
    try:
        value = check_label(noise_std, set_id)
    except LabelError:
        value = -1.0
    if not 0 <= value <= most:
        raise LabelError(
            f"noise_std of set {set_id!r} is {noise_std!r:.80}; give a standard deviation, a "
            "finite number of at least 0"
        )
    return value


def _by_id(y_bar: Any, ids: Sequence[Hashable]) -> Any:
    if isinstance(y_bar, Mapping):
        keys: Sequence[Any] = list(y_bar)
    elif hasattr(y_bar, "loc") and hasattr(y_bar, "index"):
        keys = list(y_bar.index)
        if keys == list(range(len(ids))):  # nobody named the rows: they are in order
            return y_bar
    else:
        return y_bar
    if len(keys) != len(ids) or set(keys) != set(ids):
        odd = [key for key in keys if key not in set(ids)] or [i for i in ids if i not in set(keys)]
        raise LabelError(
            f"totals are named {len(keys)} times for {len(ids)} sets, and {odd[:1] or keys[:1]} "
            "does not fit. Name each set once, or pass plain numbers in the order of sets.ids."
        )
    if isinstance(y_bar, Mapping):
        return [y_bar[set_id] for set_id in ids]
    place = {key: row for row, key in enumerate(keys)}
    return y_bar.to_numpy()[[place[set_id] for set_id in ids]]
