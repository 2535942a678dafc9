"""A user's own table in which every individual's output is known: CSV or Parquet.

That is what a simulation needs: totals to tell, and the truth to test against. What cannot be used
is refused with its file, line and column, before anything is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sumwise.data.tables import (
    column_names,
    holds_numbers,
    listed,
    numbers,
    place,
    read_table,
    refuse_missing,
    require,
)
from sumwise.errors import DataError
from sumwise.experiments.datasets import Dataset
from sumwise.util.shapes import Float, Int

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
    table = read_table(path, text=(set(groups) - set(inputs)).__contains__)
    names = column_names(table, path)
    require(names, groups, "given as --by", path)
    require(names, (y,), "given as --y", path)
    require(names, inputs, "given as --x", path)
    if not table.num_rows:
        raise DataError(f"{path} has a heading and no rows; there is nothing to learn from")
    rest = [name for name in names if name not in (*groups, y)]
    inputs = inputs or tuple(name for name in rest if holds_numbers(table, name))
    if not inputs:
        raise DataError(
            f"{path} has no input columns: nothing but {', '.join(map(repr, (*groups, y)))} holds "
            "numbers. What is known of each individual must be there, as numbers."
        )
    where = place(path)
    target = _target(numbers(table, y, where), y, path)
    matrix = np.column_stack([numbers(table, name, where) for name in inputs])
    codes = _codes(table, groups, where)
    if codes.max() + 1 < FEWEST_GROUPS:
        count = f"{codes.max() + 1} group" + ("s" if codes.max() else "")
        raise DataError(
            f"{path} has {count} by {listed(groups)}; at least {FEWEST_GROUPS} are needed, to "
            "learn from some and be tested on others. Name another column with --by."
        )
    silent = tuple(n for n in rest if n not in inputs and not holds_numbers(table, n))
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


# --- columns ------------------------------------------------------------------------------------


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
        refuse_missing(column, name, where)
        try:
            encoded = column.combine_chunks().dictionary_encode()
        except pyarrow.ArrowNotImplementedError:
            raise DataError(
                f"{name!r} holds {column.type}, which cannot name a group; use text or numbers"
            ) from None
        each.append(encoded.indices.to_numpy())
    codes = np.unique(np.column_stack(each), axis=0, return_inverse=True)[1]
    return codes.reshape(-1).astype(np.int64)
