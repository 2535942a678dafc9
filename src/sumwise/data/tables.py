"""Tables in files that people keep, CSV and Parquet: read with complaints that name the place.

What cannot be used is refused with its file, line and column. What is written is written whole or
not at all, and nothing is overwritten unless that was asked for.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from sumwise.errors import DataError, LabelError, SettingError
from sumwise.util.files import atomic_write
from sumwise.util.shapes import Float

_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_THOUSANDS: Final = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+\.[0-9]*")


# --- reading --------------------------------------------------------------------------------------


def read_table(path: Path, text: Callable[[str], bool]) -> Any:
    """An Arrow table.

    Args:
        text: Whether the column of a CSV file with this name is text whatever it looks like, so
            that 007 stays 007. Parquet says itself what its columns hold.
    """
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a CSV or Parquet file")
    if not path.is_file():
        raise DataError(f"there is no file {path}. Check the name.")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty")
    try:
        return _read_parquet(path) if _is_parquet(path) else _read_csv(path, text)
    except (ValueError, OSError) as error:  # Arrow's complaints are one or the other
        reason = str(error).splitlines()[0]
        raise DataError(
            f"{path} cannot be read as a table ({reason:.200}). Give a CSV file in UTF-8 with "
            "commas and a heading, or a file that ends in .parquet."
        ) from error


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def _read_parquet(path: Path) -> Any:
    from pyarrow import parquet

    # read_table would import pandas, and take columns from the names of folders
    with parquet.ParquetFile(path) as file:
        return file.read()


def _read_csv(path: Path, text: Callable[[str], bool]) -> Any:
    import pyarrow
    from pyarrow import csv as arrow

    broken: list[Any] = []

    def keep(row: Any) -> str:
        broken.append(row)
        return "error"

    kept = {name: pyarrow.string() for name in _heading(path) if text(name)}
    try:
        with pyarrow.OSFile(str(path)) as file:  # never unpacked, whatever the name ends in
            return arrow.read_csv(
                file,
                arrow.ReadOptions(use_threads=False),  # or rows would have no number
                arrow.ParseOptions(newlines_in_values=True, invalid_row_handler=keep),
                arrow.ConvertOptions(column_types=kept),
            )
    except pyarrow.ArrowInvalid:
        if not broken:
            raise
        row = broken[0]
        raise DataError(
            f"{place(path)(row.number - 2)}: there are {row.actual_columns} cells and the heading "
            f"has {row.expected_columns}. Fix the line; columns are separated by commas, and text "
            "with commas needs quotation marks."
        ) from None


def _heading(path: Path) -> list[str]:
    """Names of columns; what is not text here is for Arrow to complain about."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
        try:
            return next((cells for cells in csv.reader(lines) if cells), [])
        except csv.Error:
            return []


def place(path: Path) -> Callable[[int], str]:
    """Where a row is, as an editor would count; looked up when there is something to complain."""

    def line(row: int) -> str:
        with path.open(encoding="utf-8", errors="replace", newline="") as lines:
            reader = csv.reader(lines)
            filled = (reader.line_num for cells in reader if cells)  # Arrow skips blank lines
            try:
                number = next(itertools.islice(filled, row + 1, None), row + 2)
            except csv.Error:  # a cell that is longer than a book
                return f"{path}, row {row + 1}"
        return f"{path}, line {number}"

    return (lambda row: f"{path}, row {row + 1}") if _is_parquet(path) else line


# --- columns --------------------------------------------------------------------------------------


def column_names(table: Any, path: Path) -> list[str]:
    try:
        names = list(table.column_names)
    except UnicodeDecodeError:
        raise DataError(
            f"the heading of {path} is not text in UTF-8. Is it a CSV file, saved as UTF-8?"
        ) from None
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"{path} has two columns called {name!r}; give each its own name")
    return names


def require(names: Sequence[str], wanted: Sequence[str], role: str, path: Path) -> None:
    """Refuse names that no column has.

    Args:
        role: What the columns are wanted for, in brackets: where the user has named them.
    """
    for name in wanted:
        if name not in names:
            known = listed(names[:20]) + (", …" if len(names) > 20 else "")
            hint = "Check the spelling."
            if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
                hint = "It seems to be separated by something else; save it with commas."
            parts = name.split(",")
            if len(parts) > 1 and set(parts) <= set(names):
                hint = "One column at a time: repeat the option."
            raise DataError(f"{path} has no column {name!r:.80} ({role}); it has {known}. {hint}")


def listed(names: Sequence[str]) -> str:
    return ", ".join(f"{name!r:.80}" for name in names)


def holds_numbers(table: Any, name: str) -> bool:
    import pyarrow

    kind, types = table.column(name).type, pyarrow.types
    checks = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    return any(check(kind) for check in checks)


def numbers(table: Any, name: str, where: Callable[[int], str]) -> Float[np.ndarray, " N"]:
    """A column of finite numbers; anything else is refused with its place."""
    import pyarrow

    column = table.column(name)
    refuse_missing(column, name, where)
    if not holds_numbers(table, name):
        row, value = _first_text(column)
        raise DataError(
            f"{where(row)}: {name!r} is {value!r:.80}, not a number. "
            "Correct it, or turn the column into numbers."
        )
    values = np.array(column.cast(pyarrow.float64(), safe=False).to_numpy())
    for row in np.flatnonzero(~np.isfinite(values)).tolist():
        raise DataError(f"{where(row)}: {name!r} is {values[row]}; give a finite number")
    return values


def _first_text(column: Any) -> tuple[int, Any]:
    """The first value that is no number; of a column of numbers kept as text, the first."""
    values = column.to_pylist()
    for row, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            return row, value
    return 0, values[0]


def refuse_missing(column: Any, name: str, where: Callable[[int], str]) -> None:
    import pyarrow
    from pyarrow import compute

    missing = compute.is_null(column, nan_is_null=True)
    if pyarrow.types.is_string(column.type):
        missing = compute.or_kleene(missing, compute.equal(column, ""))
    row = compute.index(missing, True).as_py()
    if row >= 0:
        raise DataError(f"{where(row)}: {name!r} is missing. Fill it in, or drop the row.")


# --- numbers as people write them -----------------------------------------------------------------


def number(text: str) -> float:
    """A finite number; what is none is refused with what to write instead.

    >>> number(" -1.5e3 ")
    -1500.0
    >>> number("1,234.5")
    Traceback (most recent call last):
    sumwise.errors.LabelError: '1,234.5' is not a number here; write 1234.5
    """
    cleaned = text.strip()
    if _NUMBER.fullmatch(cleaned):
        value = float(cleaned)
        if abs(value) == float("inf"):
            raise LabelError(f"{text!r:.80} is too large a number; is it mistyped? Rescale it")
        return value
    if _THOUSANDS.fullmatch(cleaned):
        hint = f"write {cleaned.replace(',', '')}"
    elif not cleaned:
        hint = "give a number such as 1234.5"
    elif re.fullmatch(r"[+-]?(nan|inf(inity)?)", cleaned, re.IGNORECASE):
        hint = "give a finite number"
    else:
        hint = "write digits alone, with a point for decimals and no unit, such as 1234.5"
    raise LabelError(f"{text!r:.80} is not a number here; {hint}")


# --- writing --------------------------------------------------------------------------------------


def check_output(path: Path, force: bool) -> None:
    """Refuse a file that could not be written, or must not be: before the work, not after it."""
    if path.suffix.lower() not in (".parquet", ".csv"):
        raise SettingError(f"{path} ends in neither .csv nor .parquet; name a file that does")
    if path.is_dir():
        raise SettingError(f"{path} is a folder; name a file")
    if path.exists() and not force:
        raise SettingError(f"{path} exists; name another file, or pass --force")


def write_table(table: Any, path: Path, force: bool = False) -> Path:
    """An Arrow table as CSV or Parquet, by the suffix; whole or not at all."""
    import pyarrow
    from pyarrow import csv as arrow
    from pyarrow import parquet

    check_output(path, force)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path, overwrite=force) as file:
            (parquet.write_table if _is_parquet(path) else arrow.write_csv)(table, file)
    except FileExistsError:  # another process has written it meanwhile
        check_output(path, force)
        raise
    except OSError as error:
        raise SettingError(
            f"{path} cannot be written ({error.strerror or error}). Choose another place, or make "
            "room on the disk."
        ) from error
    except pyarrow.ArrowException as error:
        raise DataError(
            f"{path} cannot hold this table ({error}); a file that ends in .parquet holds more"
        ) from error
    return path
