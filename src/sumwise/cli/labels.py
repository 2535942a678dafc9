"""A file of measured totals, one row a set: CSV or Parquet."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sumwise.data.tables import column_names, holds_numbers, number, place, read_table, require
from sumwise.errors import DataError, LabelError, SumwiseError
from sumwise.util.text import by_text, find, shown

TOTALS: Final = ("total", "y_bar")
OPTIONAL: Final = ("by", "note", "noise_std")


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """Columns of a file, in its order."""

    set_ids: list[Hashable]
    y_bar: list[float]
    by: list[str | None]
    note: list[str | None]
    noise_std: list[float | None]
    ignored: tuple[str, ...]  # columns that mean nothing here
    where: Callable[[int], str]


def read_totals(path: Path, ids: Sequence[Hashable], by: str | None) -> Totals:
    """Totals of these sets.

    Args:
        by: Who measured what has no name in the file.
    """
    table = read_table(path, text=lambda name: True)
    names, where = column_names(table, path), place(path)
    require(names, ("set",), "the set's id", path)
    held = [name for name in TOTALS if name in names]
    if len(held) > 1:
        raise DataError(f"{path} has columns 'total' and 'y_bar'; leave one of them out")
    require(names, held or TOTALS[:1], "the measured total; y_bar is understood too", path)
    if not table.num_rows:
        raise DataError(f"{path} has a heading and no rows; there is nothing to tell")
    known = by_text(ids)
    texts = _texts(table, "set")
    columns: dict[str, list[str]] = {
        name: _texts(table, name) if name in names else [""] * table.num_rows for name in OPTIONAL
    }
    return Totals(
        [_set(known, text, row, where) for row, text in enumerate(texts)],
        _numbers(table, held[0], texts, where, required=True),
        [text or by for text in columns["by"]],
        [text or None for text in columns["note"]],
        _numbers(table, "noise_std", texts, where) if "noise_std" in names else [None] * len(texts),
        tuple(name for name in names if name not in ("set", held[0], *OPTIONAL)),
        where,
    )


def _texts(table: Any, name: str) -> list[str]:
    """A column as people read it; what is missing is empty."""
    return ["" if value is None else shown(value) for value in table.column(name).to_pylist()]


def _set(known: Any, text: str, row: int, where: Callable[[int], str]) -> Hashable:
    if not text:
        raise DataError(f"{where(row)}: 'set' is missing. Fill it in, or drop the row. {_NOTHING}")
    try:
        return find(known, text)
    except SumwiseError as error:
        raise type(error)(f"{where(row)}: {error} {_NOTHING}") from None


_NOTHING: Final = "Nothing was stored."


def _numbers(
    table: Any, name: str, sets: Sequence[str], where: Callable[[int], str], required: bool = False
) -> list[Any]:
    """A column of numbers, whether it is kept as numbers or as text."""
    plain = holds_numbers(table, name)
    out: list[float | None] = []
    for row, value in enumerate(table.column(name).to_pylist()):
        missing = value is None or (isinstance(value, str) and not value.strip())
        if missing and not required:
            out.append(None)
            continue
        try:
            if missing:
                raise LabelError("it is missing; fill it in, or drop the row")
            out.append(float(value) if plain else number(shown(value)))
        except SumwiseError as error:
            raise LabelError(
                f"{where(row)}: {name!r} of set {sets[row]!r:.80}: {error}. {_NOTHING}"
            ) from None
    return out
