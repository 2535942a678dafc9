"""A user's own table in which every individual's output is known: CSV or Parquet.

That is what a simulation needs: totals to tell, and the truth to test against. What cannot be used
is refused with its file, line and column, before anything is computed.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sumwise.errors import DataError
from sumwise.experiments.datasets import Dataset
from sumwise.shapes import Float, Int

NAME = "simulate"  # of the data, in seeds: a file may be renamed and gives the same splits
FEWEST_GROUPS = 3  # two to learn from and one to be tested on


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Individuals with groups and outputs, and the columns they came from."""

    file: str
    by: tuple[str, ...]
    y: str
    x: tuple[str, ...]
    left_out: tuple[str, ...]  # columns that nobody named, and that hold no numbers
    data: Dataset

    @property
    def n_groups(self) -> int:
        assert self.data.group is not None
        return int(self.data.group.max()) + 1


def read_labelled(path: Path, by: Sequence[str], y: str, x: Sequence[str] = ()) -> Labelled:
    """The table in `path`.

    Args:
        by: Column that names the group; several columns together name it.
        y: The output, known for every row here.
        x: Inputs; all other columns that hold numbers if left out.
    """
    groups, inputs = tuple(dict.fromkeys(by)), tuple(dict.fromkeys(x))
    _refuse_double_roles(groups, y, inputs)
    table = _read(path, text=set(groups) - set(inputs))
    names = _column_names(table, path)
    _require(names, groups, "--by", path)
    _require(names, (y,), "--y", path)
    _require(names, inputs, "--x", path)
    if not table.num_rows:
        raise DataError(f"{path} has a heading and no rows; there is nothing to learn from")
    rest = [name for name in names if name not in (*groups, y)]
    inputs = inputs or tuple(name for name in rest if _holds_numbers(table, name))
    if not inputs:
        raise DataError(
            f"{path} has no input columns: nothing but {', '.join(map(repr, (*groups, y)))} holds "
            "numbers. What is known of each individual must be there, as numbers."
        )
    where = _place(path)
    target = _target(_numbers(table, y, where), y, path)
    matrix = np.column_stack([_numbers(table, name, where) for name in inputs])
    codes = _codes(table, groups, where)
    if codes.max() + 1 < FEWEST_GROUPS:
        count = f"{codes.max() + 1} group" + ("s" if codes.max() else "")
        raise DataError(
            f"{path} has {count} by {_listed(groups)}; at least {FEWEST_GROUPS} are needed, to "
            "learn from some and be tested on others. Name another column with --by."
        )
    silent = tuple(n for n in rest if n not in inputs and not _holds_numbers(table, n))
    return Labelled(
        path.name, groups, y, inputs, () if x else silent, Dataset(NAME, matrix, target, codes)
    )


def _refuse_double_roles(by: Sequence[str], y: str, x: Sequence[str]) -> None:
    if not by:
        raise DataError("no group column was named; give one with --by")
    if y in by:
        raise DataError(f"{y!r} is given as --by and as --y; a target cannot name its own group")
    if y in x:
        raise DataError(
            f"{y!r} is given as --y and as --x; a target that is an input is no longer to be "
            "predicted. Leave it out of --x."
        )


# --- files --------------------------------------------------------------------------------------


def _read(path: Path, text: set[str]) -> Any:
    """An Arrow table; `text` columns are not taken for numbers, so that 007 stays 007."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a CSV or Parquet file")
    if not path.is_file():
        raise DataError(f"there is no file {path}. Check the name.")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty")
    try:
        return _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path, text)
    except (ValueError, OSError) as error:  # Arrow's complaints are one or the other
        reason = str(error).splitlines()[0]
        raise DataError(
            f"{path} cannot be read as a table ({reason:.200}). Give a CSV file in UTF-8 with "
            "commas and a heading, or a file that ends in .parquet."
        ) from error


def _read_parquet(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.read_table(path)


def _read_csv(path: Path, text: set[str]) -> Any:
    import pyarrow
    from pyarrow import csv as arrow

    broken: list[Any] = []

    def keep(row: Any) -> str:
        broken.append(row)
        return "error"

    try:
        with pyarrow.OSFile(str(path)) as file:  # never unpacked, whatever the name ends in
            return arrow.read_csv(
                file,
                arrow.ReadOptions(use_threads=False),  # or rows would have no number
                arrow.ParseOptions(newlines_in_values=True, invalid_row_handler=keep),
                arrow.ConvertOptions(column_types=dict.fromkeys(text, pyarrow.string())),
            )
    except pyarrow.ArrowInvalid:
        if not broken:
            raise
        row = broken[0]
        raise DataError(
            f"{_place(path)(row.number - 2)}: there are {row.actual_columns} cells and the heading "
            f"has {row.expected_columns}. Fix the line; text with commas needs quotation marks."
        ) from None


def _place(path: Path) -> Callable[[int], str]:
    """Where a row is, as an editor would count; looked up when there is something to complain."""

    def line(row: int) -> str:
        with path.open(encoding="utf-8", errors="replace", newline="") as lines:
            reader = csv.reader(lines)
            filled = (reader.line_num for cells in reader if cells)  # Arrow skips blank lines
            return f"{path}, line {next(itertools.islice(filled, row + 1, None), row + 2)}"

    return (lambda row: f"{path}, row {row + 1}") if path.suffix == ".parquet" else line


# --- columns ------------------------------------------------------------------------------------


def _column_names(table: Any, path: Path) -> list[str]:
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


def _require(names: Sequence[str], wanted: Sequence[str], role: str, path: Path) -> None:
    for name in wanted:
        if name not in names:
            known = _listed(names[:20]) + (", …" if len(names) > 20 else "")
            hint = "Check the spelling."
            if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
                hint = "It seems to be separated by something else; save it with commas."
            raise DataError(
                f"{path} has no column {name!r} (given as {role}); it has {known}. {hint}"
            )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"{name!r:.80}" for name in names)


def _holds_numbers(table: Any, name: str) -> bool:
    import pyarrow

    kind, types = table.column(name).type, pyarrow.types
    checks = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    return any(check(kind) for check in checks)


def _numbers(table: Any, name: str, where: Callable[[int], str]) -> Float[np.ndarray, " N"]:
    import pyarrow

    column = table.column(name)
    _refuse_missing(column, name, where)
    if not _holds_numbers(table, name):
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


def _refuse_missing(column: Any, name: str, where: Callable[[int], str]) -> None:
    import pyarrow
    from pyarrow import compute

    missing = compute.is_null(column, nan_is_null=True)
    if pyarrow.types.is_string(column.type):
        missing = compute.or_kleene(missing, compute.equal(column, ""))
    row = compute.index(missing, True).as_py()
    if row >= 0:
        raise DataError(f"{where(row)}: {name!r} is missing. Fill it in, or drop the row.")


def _target(y: Float[np.ndarray, " N"], name: str, path: Path) -> Float[np.ndarray, " N"]:
    if y.min() == y.max():
        raise DataError(
            f"{path}: every {name!r} is {y[0]:g}; a constant target leaves nothing to learn"
        )
    if not 1e-100 < y.max() / 2 - y.min() / 2 < 1e100:
        raise DataError(
            f"{path}: {name!r} goes from {y.min():g} to {y.max():g}, whose squares leave the range "
            "of double precision. Use another unit."
        )
    return y


def _codes(table: Any, by: Sequence[str], where: Callable[[int], str]) -> Int[np.ndarray, " N"]:
    """The number of each row's group; by several columns, of each combination that occurs."""
    import pyarrow

    each = []
    for name in by:
        column = table.column(name)
        _refuse_missing(column, name, where)
        try:
            encoded = column.combine_chunks().dictionary_encode()
        except pyarrow.ArrowNotImplementedError:
            raise DataError(
                f"{name!r} holds {column.type}, which cannot name a group; use text or numbers"
            ) from None
        each.append(encoded.indices.to_numpy())
    codes = np.unique(np.column_stack(each), axis=0, return_inverse=True)[1]
    return codes.reshape(-1).astype(np.int64)
