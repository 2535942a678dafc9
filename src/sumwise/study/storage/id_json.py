"""Set ids and column names as JSON, and back to the very same values.

Text, whole numbers, booleans and None are JSON already. What JSON would change is wrapped in an
object of one key that says what it is: real numbers, dates and times, and tuples of any of these.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

import numpy as np

from sumwise.errors import DataError, InvalidSetError

_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "real": float.fromhex,
    "time": datetime.fromisoformat,
    "date": date.fromisoformat,
    "numpy time": np.datetime64,
    "tuple": lambda parts: tuple(_plain(part) for part in parts),
}


def to_json(name: Hashable) -> str:
    """One line of text for an id; other values than the above are refused by name."""
    return json.dumps(_wrapped(name), ensure_ascii=False, separators=(",", ":"))


def from_json(text: str) -> Hashable:
    names = many_from_json(f"[{text}]")
    if len(names) != 1:
        raise DataError(f"{text!r:.60} is not a stored id ({len(names)} values)")
    return names[0]


def many_to_json(names: Sequence[Hashable]) -> str:
    """One text for many ids, which is read ten times as fast as one for each."""
    return json.dumps([_wrapped(name) for name in names], ensure_ascii=False)


def many_from_json(text: str) -> tuple[Hashable, ...]:
    try:
        known = json.loads(text)
        if set(map(type, known)) <= {str, int}:  # nearly always: nothing to unwrap
            return tuple(known)
        return tuple(_plain(name) for name in known)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(f"{text!r:.60} is not a list of stored ids ({error})") from None


def _wrapped(name: Any) -> Any:
    if isinstance(name, np.datetime64):
        return {"numpy time": str(name)}
    if isinstance(name, np.generic):
        name = name.item()
    if name is None or isinstance(name, bool | int | str):
        return str(name) if isinstance(name, str) else name
    if isinstance(name, float) and math.isfinite(name):
        return {"real": name.hex()}
    if isinstance(name, datetime):
        if getattr(name, "nanosecond", 0):
            raise InvalidSetError(
                f"{name!r} has nanoseconds, which would be lost in a study; round it, or name sets "
                "with text"
            )
        return {"time": name.isoformat()}
    if isinstance(name, date):
        return {"date": name.isoformat()}
    if isinstance(name, tuple):
        return {"tuple": [_wrapped(part) for part in name]}
    raise InvalidSetError(
        f"{name!r:.60} cannot be kept in a study; name sets and inputs with text, numbers, dates "
        "or tuples of them"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        ((kind, inside),) = value.items()
        return _READERS[kind](inside)
    if isinstance(value, list | float):
        raise ValueError("a bare list or real number")
    return value
