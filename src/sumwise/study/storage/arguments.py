"""Arguments of a study, checked before anything is opened or changed."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from sumwise.data.validate import check_label, check_noise
from sumwise.errors import LabelError, SettingError

LARGEST_TOTAL = 1e150  # its square is still a number
LONGEST_TEXT = 10_000


def total(y_bar: Any, set_id: Hashable) -> float:
    """A measured total that can be computed with."""
    if isinstance(y_bar, bool | np.bool_):
        raise LabelError(f"total of set {set_id!r} is {y_bar!r}; give a number")
    value = check_label(y_bar, set_id) + 0.0  # -0.0 is 0.0
    if abs(value) > LARGEST_TOTAL:
        raise LabelError(f"total of set {set_id!r} is {value:g}; is it mistyped? Rescale it")
    return value


def noise(noise_std: Any, set_id: Hashable) -> float:
    return check_noise(noise_std, set_id, most=LARGEST_TOTAL)


def days(value: Any, name: str) -> float:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not 0 < value <= 36_500:
        raise SettingError(f"{name} is {value!r}; give a number of days above 0, up to 36500")
    return float(value)


def count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise SettingError(f"{name} is {value!r}; give a whole number of at least 1")
    return int(value)


def text(value: Any, name: str) -> str | None:
    """Text that every database can keep."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise SettingError(f"{name} is {value!r:.60}; give text")
    if len(value) > LONGEST_TEXT or "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
        raise SettingError(
            f"{name} is {value!r:.60}; give up to {LONGEST_TEXT} characters of valid Unicode"
        )
    return str(value)
