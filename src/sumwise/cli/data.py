"""A user's table of individuals, CSV or Parquet, as sets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sumwise.data import frames
from sumwise.data.checks import theta_of
from sumwise.data.sets import Sets
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
from sumwise.util.shapes import Float
from sumwise.util.text import shown


@dataclass(frozen=True, slots=True, eq=False)
class Individuals:
    """Sets, and the columns they were made of."""

    sets: Sets
    by: tuple[str, ...]
    x: tuple[str, ...]
    left_out: tuple[str, ...]  # columns that nobody named, and that hold no numbers
    aside: Mapping[str, Float[np.ndarray, " N"]] = field(default_factory=dict)  # no inputs
    where: Callable[[int], str] = str  # the place of an individual, by its row of `sets.x`


def read_individuals(
    path: Path,
    by: Sequence[str],
    x: Sequence[str],
    weights: str = "sum",
    aside: Mapping[str, str | None] | None = None,
    hidden: Sequence[str] = (),
) -> Individuals:
    """The table in `path`, its rows brought together by group.

    Args:
        by: Column that names the group, text in a CSV file; several columns together name it.
        x: Inputs; all other columns that hold numbers if left out.
        weights: `"sum"`, `"mean"`, or the column that holds θ.
        aside: Columns to be read as well, and what each was given as, None for one that need not
            be there; they are no inputs unless `x` has them.
        hidden: More names that are no inputs, whether there are such columns or not.
    """
    groups, inputs = tuple(dict.fromkeys(by)), tuple(dict.fromkeys(x))
    theta = () if weights in ("sum", "mean") else (weights,)
    table = read_table(path, text=groups.__contains__)
    names = column_names(table, path)
    require(names, groups, "given as --by", path)
    require(names, inputs, "given as --x", path)
    require(names, theta, "given as --weights, which may also be sum or mean", path)
    for name, role in (aside or {}).items():
        require(names, () if role is None else (name,), role or "", path)
    beside = [name for name in aside or {} if name in names]
    if not table.num_rows:
        raise DataError(f"{path} has a heading and no rows; there is nothing to measure")
    used = {*groups, *theta, *beside, *hidden}
    rest = [name for name in names if name not in used]
    taken = inputs or tuple(name for name in rest if holds_numbers(table, name))
    if not taken:
        known = [name for name in names if name in used]
        raise DataError(
            f"{path} has no input columns: nothing but {listed(known)} holds numbers. "
            "What is known of each individual must be there, as numbers."
        )
    where = place(path)
    keys = _keys(table, groups, where)
    grouped = frames.group_rows(keys)
    table = _also_numbers(table, set(groups) & {*taken, *theta, *beside})

    def in_set(row: int) -> str:
        return f"{where(row)}, set {shown(keys[row])!r:.80}"

    kept = {name: numbers(table, name, in_set)[grouped.order] for name in beside}
    matrix = np.column_stack([numbers(table, name, where) for name in taken])
    weighed: Any = numbers(table, weights, where)[grouped.order] if theta else weights
    sets = Sets(
        grouped.ids,
        matrix[grouped.order],
        theta_of(weighed, grouped.starts),
        grouped.starts,
        taken,
    )
    silent = () if inputs else tuple(name for name in rest if name not in taken)
    places = grouped.order
    return Individuals(sets, groups, taken, silent, kept, lambda row: in_set(int(places[row])))


def _keys(table: Any, by: Sequence[str], where: Callable[[int], str]) -> list[Hashable]:
    """The id of each row's group; by several columns, a tuple."""
    columns = []
    for name in by:
        column = table.column(name)
        refuse_missing(column, name, where)
        values = column.to_pylist()
        if values and not isinstance(values[0], Hashable):
            raise DataError(
                f"{name!r} holds {column.type}, which cannot name a group; use text or numbers"
            )
        columns.append(values)
    return columns[0] if len(by) == 1 else list(zip(*columns, strict=True))


def _also_numbers(table: Any, names: Iterable[str]) -> Any:
    """The table with numbers in text columns that name a group and are inputs as well."""
    import pyarrow

    for name in names:
        if pyarrow.types.is_string(table.column(name).type):
            with suppress(pyarrow.ArrowInvalid):  # the first that is no number is named later
                values = table.column(name).cast(pyarrow.float64())
                table = table.set_column(table.column_names.index(name), name, values)
    return table
