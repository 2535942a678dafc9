"""Values of rows as sumwise wrote them; others are refused in words.

A database is a file that people edit, copy and damage. SQLite keeps text in a column of numbers if
it is told to, and a wrong position would put an answer on another set.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sumwise.errors import DataError, SettingError
from sumwise.study.storage.arguments import LARGEST_TOTAL

_DAMAGE: Final = (
    SettingError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    RecursionError,
)


@contextmanager
def as_written(name: str) -> Iterator[None]:
    """What is read in here was written by us, unless somebody has changed it."""
    try:
        yield
    except _DAMAGE as error:
        raise DataError(
            f"study {name!r} has rows that are not as sumwise wrote them ({error}); restore the "
            "database from a copy"
        ) from None


def set_at(ids: Sequence[Hashable], position: Any) -> Hashable:
    if not isinstance(position, int) or not 0 <= position < len(ids):
        raise IndexError(f"there is no set at {position!r:.40}")
    return ids[position]


def total(value: Any) -> float:
    if not isinstance(value, float) or not abs(value) <= LARGEST_TOTAL:
        raise ValueError(f"{value!r:.40} is no total")
    return value


def count(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**53:
        raise ValueError(f"{value!r:.40} is no count")
    return value


def seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(f"{value!r:.40} is no seed")
    return value
