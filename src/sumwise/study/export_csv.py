"""CSV files of an exported study: written so that they come back exactly, and read with care.

UTF-8, quoted as RFC 4180 says; real numbers as Python writes them, which is exact. An empty field
stands for nothing; text that is empty or begins with a backslash has one more backslash in front.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any, Final

from sumwise.data import validate
from sumwise.data.sets import Sets
from sumwise.errors import DataError, SettingError
from sumwise.study.storage import records
from sumwise.util.text import shown

LARGEST_WHOLE: Final = 10**9  # far from what a database cannot count to
LONGEST_FIELD: Final = 2**31 - 1  # Python's own limit is shorter than an id may be
_REAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE: Final = re.compile(r"\d{1,10}", re.ASCII)


def cell_of(set_id: Hashable) -> str:
    """An id as people see it; half a surrogate pair cannot be written, and becomes a "?"."""
    return shown(set_id).encode("utf-8", "replace").decode()


# --- writing --------------------------------------------------------------------------------------


def write(file: IO[bytes], columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Rows with a value for each column; that of `set` is an id."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(name, row[name]) for name in columns])
    text.flush()
    text.detach()


def _cell(column: str, value: Any) -> str:
    if value is None:
        return ""
    if column == "set":
        return cell_of(value)
    if isinstance(value, str):
        return f"\\{value}" if not value or value.startswith("\\") else value
    return repr(value)


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file; its cells are read as what they should be."""

    file: str
    number: int
    cells: Mapping[str, str]

    def refusal(self, problem: str) -> DataError:
        return DataError(f"{self.file}, line {self.number}: {problem}")

    def whole(self, name: str) -> int:
        cell = self.cells[name]
        if not _WHOLE.fullmatch(cell) or int(cell) > LARGEST_WHOLE:
            raise self.refusal(f"{name} is {cell!r:.60}; give a whole number of at least 0")
        return int(cell)

    def real(self, name: str) -> float | None:
        cell = self.cells[name]
        if not cell:
            return None
        value = float(cell) if _REAL.fullmatch(cell) else math.nan
        if not abs(value) <= validate.LARGEST_TOTAL:
            raise self.refusal(f"{name} is {cell!r:.60}; give a finite number, such as 12.5")
        return value + 0.0  # -0.0 is 0.0

    def total(self) -> float:
        value = self.real("total")
        if value is None:
            raise self.refusal("there is no total; give a finite number, such as 12.5")
        return value

    def noise(self) -> float | None:
        value = self.real("noise_std")
        if value is not None and value < 0:
            raise self.refusal(f"noise_std is {value}; give a standard deviation of at least 0")
        return value or None

    def text(self, name: str) -> str | None:
        cell = self.cells[name]
        try:
            return validate.text(cell.removeprefix("\\"), name) if cell else None
        except SettingError as error:
            raise self.refusal(str(error)) from None

    def time(self, name: str) -> str:
        cell = self.cells[name]
        try:
            moment = datetime.fromisoformat(cell)
            if moment.tzinfo is not None:
                return records.stamp(moment)
        except (ValueError, OverflowError):
            pass
        raise self.refusal(
            f"{name} is {cell!r:.60}; give a time with its zone, such as 2025-03-31T14:05:00+00:00"
        )

    def position(self, sets: Sets) -> int:
        """Of the set whose name stands beside it."""
        position = self.whole("position")
        if position >= len(sets):
            raise self.refusal(f"position is {position}, and sets have 0 to {len(sets) - 1}")
        cell, expected = self.cells["set"], cell_of(sets.ids[position])
        if cell != expected:
            raise self.refusal(
                f"the set is {cell!r:.80}, and position {position} is that of {expected!r:.80}"
            )
        return position


def read(content: bytes, name: str, columns: Sequence[str]) -> Iterator[Line]:
    """The lines of a file below its header, which must be these columns."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{name}, line {line}: this is not UTF-8; save it as CSV UTF-8") from None
    rows = _split(text, name)
    if not rows or rows[0] != (1, list(columns)):
        raise DataError(f"{name}, line 1: the columns must be {','.join(columns)}")
    for number, cells in rows[1:]:
        if len(cells) != len(columns):
            raise DataError(f"{name}, line {number}: {len(cells)} fields instead of {len(columns)}")
        yield Line(name, number, dict(zip(columns, cells, strict=True)))


def _split(text: str, name: str) -> list[tuple[int, list[str]]]:
    """Rows, each with the line that it begins in; empty ones are left out."""
    rows: list[tuple[int, list[str]]] = []
    usual = csv.field_size_limit(LONGEST_FIELD)
    first = 1
    try:
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        for cells in reader:
            if cells:
                rows.append((first, cells))
            first = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{name}, line {first}: this is no CSV ({error})") from None
    finally:
        csv.field_size_limit(usual)
    return rows
