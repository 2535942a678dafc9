"""One check for each value that users give: totals, noise, counts, days, text.

A value is checked once, where it enters; what it is refused with names the set or the argument.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np

from sumwise.data.frames import is_unicode, to_float
from sumwise.errors import InvalidSetError, LabelError, SettingError
from sumwise.util.shapes import Float

LARGEST_TOTAL: Final = 1e150  # its square is still a number
LONGEST_TEXT: Final = 10_000


def total(y_bar: Any, set_id: Hashable) -> float:
    """A measured total that can be computed with."""
    value = _number(y_bar)
    if value is None:
        raise LabelError(f"total of set {set_id!r} is {y_bar!r:.80}; give one finite number")
    if abs(value) > LARGEST_TOTAL:
        raise LabelError(f"total of set {set_id!r} is {value:g}; is it mistyped? Rescale it")
    return value


def noise(noise_std: Any, set_id: Hashable) -> float:
    """The standard deviation of the noise that a measurement is known to have."""
    value = _number(noise_std)
    if value is None or not 0 <= value <= LARGEST_TOTAL:
        raise LabelError(
            f"noise_std of set {set_id!r} is {noise_std!r:.80}; give a finite number of at least 0"
        )
    return value


def days(value: Any, name: str) -> float:
    number = _number(value)
    if number is None or not 0 < number <= 36_500:
        raise SettingError(f"{name} is {value!r}; give a number of days above 0, up to 36500")
    return number


def real(value: Any, name: str) -> float:
    """A finite number."""
    number = _number(value)
    if number is None or abs(number) > LARGEST_TOTAL:
        raise SettingError(f"{name} is {value!r:.60}; give a finite number")
    return number


def share(value: Any, name: str) -> float:
    """A share above 0, up to 1."""
    number = _number(value)
    if number is None or not 0 < number <= 1:
        raise SettingError(f"{name} is {value!r:.60}; give a share above 0, up to 1, such as 0.8")
    return number


def count(value: Any, name: str, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise SettingError(f"{name} is {value!r}; give a whole number of at least {least}")
    return int(value)


def amount(value: Any, name: str, unit: str, *, or_zero: bool = False) -> float:
    number = _number(value)
    if number is None or number < 0 or (number == 0 and not or_zero):
        least = "of at least 0" if or_zero else "above 0"
        raise SettingError(f"{name} is {value!r:.60}; give a number {least}, in units of {unit}")
    return number


def text(value: Any, name: str) -> str | None:
    """Text that every database can store."""
    if value is None:
        return None
    usable = isinstance(value, str) and "\0" not in value and is_unicode(value)
    if not usable or len(value) > LONGEST_TEXT:
        needed = f"text of up to {LONGEST_TEXT} Unicode characters, none of them null"
        raise SettingError(f"{name} is {value!r:.60}; give {needed}")
    return str(value)


def study_name(value: Any) -> str:
    """The name of a study, which must not be blank."""
    name = text(value, "name")
    if not name or not name.strip():
        raise SettingError(f"name is {value!r}; give a study a name that can be seen")
    return name


def as_list(values: Any, what: str) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        raise InvalidSetError(f"{what} is {values!r:.60}; give a list") from None


def _number(value: Any) -> float | None:
    """A finite number, or None; -0.0 becomes 0.0."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        found = to_float(value, "value")
    except InvalidSetError:
        return None
    return float(found) + 0.0 if found.shape == () and math.isfinite(found) else None


def check_labels(y_bar: Any, ids: Sequence[Hashable]) -> Float[np.ndarray, "t M"]:
    """Totals as a (t, M) array; anything but finite numbers is refused, naming the set."""
    values = to_float(y_bar, "totals", LabelError)
    if values.ndim not in (1, 2) or len(values) != len(ids):
        raise LabelError(
            f"totals have shape {values.shape}; give one for each of {len(ids)} sets, "
            "or a row of several outputs for each"
        )
    matrix = values if values.ndim == 2 else values[:, None]
    for a, m in np.argwhere(~np.isfinite(matrix)).tolist():
        raise LabelError(f"total of set {ids[a]!r} is {matrix[a, m]}; give a finite number")
    return matrix
