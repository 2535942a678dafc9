"""Totals, noise and costs as users give them, matched to sets by id or refused, never guessed.

    dict                        by id
    data frame                  by the columns that sets were grouped by, or `set` or `id`, or the
                                index of pandas; all other columns are values
    Series of pandas            by its index; by position if that only counts rows (a RangeIndex
                                from 0 without a name), and refused then if ids are numbers, too
    list, array                 by position, one entry for each set
    Series of polars or Arrow   refused: it has no ids, and no order that can be relied on

What is given by id may name fewer sets than there are.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from sumwise.data.frames import Table, as_frame, is_numeric, listed, to_float
from sumwise.data.sets import Sets
from sumwise.errors import SumwiseError
from sumwise.util.shapes import Float, Int

IDS: Final = ("set", "id")  # columns that name sets, whatever these were grouped by
RESERVED: Final = ("total", "y_bar", "noise_std", "by", "note")  # as in files of totals


def match(
    given: Any, sets: Sets, what: str, refusal: type[SumwiseError]
) -> tuple[Int[np.ndarray, " t"], Float[np.ndarray, "..."]]:
    """Positions of the sets that are named, and the numbers given for each.

    Args:
        what: What the numbers are, in the plural: "totals".

    >>> from sumwise.errors import LabelError
    >>> sets = Sets.from_arrays([[[1.0]], [[2.0]], [[3.0]]], ids=["a", "b", "c"])
    >>> match({"c": 3.0, "a": 1.0}, sets, "totals", LabelError)
    (array([2, 0]), array([3., 1.]))
    """
    named = by_id(given, sets, what, refusal)
    if named is None:
        values = to_float(given, what, refusal)
        if values.ndim == 0 or len(values) != len(sets):
            raise refusal(
                f"{what} have shape {values.shape}; give one for each of {len(sets)} sets, in the "
                "order of sets.ids, or those that you have as a dict by id"
            )
        return np.arange(len(sets)), values
    keys, values = named
    return positions(keys, sets, what, refusal), values


def positions(
    keys: Sequence[Hashable], sets: Sets, what: str, refusal: type[SumwiseError]
) -> Int[np.ndarray, " t"]:
    """Where these sets stand; unknown ids and those that come twice are refused."""
    found: dict[int, Hashable] = {}
    for key in keys:
        if key not in sets:
            raise refusal(f"{what} name {key!r:.80}, and no set has that id; {sets.hint(key)}")
        if sets.position(key) in found:
            raise refusal(f"{what} name set {key!r:.80} twice; keep one of the two")
        found[sets.position(key)] = key
    return np.array(list(found), dtype=int)


def by_id(
    given: Any, sets: Sets, what: str, refusal: type[SumwiseError]
) -> tuple[list[Hashable], Float[np.ndarray, "..."]] | None:
    """Ids and numbers; None of a bare sequence, which goes by position."""
    if isinstance(given, Mapping):
        keys = list(given)
        return keys, to_float(list(given.values()), what, refusal)
    if is_series(given):
        index = _index(given.index, sets)
        if counts_rows(given.index) and list(sets.ids) != list(range(len(sets))):
            index = _in_order(index, sets, what, refusal)
        frame = as_frame(given.to_frame("value").reset_index(drop=True))
        return index, _numbers(Table(frame), ["value"], index, what, refusal)[:, 0]
    frame = None if isinstance(given, np.ndarray | list | tuple) else as_frame(given)
    if frame is not None:
        return _of_frame(given, frame, sets, what, refusal)
    refuse_series(given, what, refusal)
    return None


def is_series(given: Any) -> bool:
    """Whether it is a Series of pandas, or of a package that is like it."""
    return hasattr(given, "index") and hasattr(given, "loc") and hasattr(given, "to_frame")


def counts_rows(index: Any) -> bool:
    """Whether an index of pandas only counts rows, and names nothing."""
    if type(index).__name__ != "RangeIndex" or index.name is not None:
        return False
    return index.start == 0 and index.step == 1


def _in_order(
    numbers: Sequence[Hashable], sets: Sets, what: str, refusal: type[SumwiseError]
) -> list[Hashable]:
    """Ids of sets whose numbers come in their order, and cannot be taken for ids."""
    texts = {*map(str, numbers)}
    if any(isinstance(i, int | float | np.number) or str(i) in texts for i in sets.ids):
        raise refusal(
            f"{what} are numbered 0, 1, 2, …, and ids are other numbers ({listed(sets.ids[:3])}, "
            "…). Give the data frame with its id column, a dict by id, or an array in the order of "
            "sets.ids."
        )
    if len(numbers) != len(sets):
        raise refusal(
            f"{what} are {len(numbers)} numbers without ids; give one for each of {len(sets)} "
            "sets, in the order of sets.ids, or those that you have as a dict by id"
        )
    return list(sets.ids)


def refuse_series(given: Any, what: str, refusal: type[SumwiseError]) -> None:
    """Refuse columns of polars and Arrow, of which nothing says which set a number is of."""
    package = type(given).__module__.partition(".")[0]
    if package in ("polars", "pyarrow"):
        raise refusal(
            f"{what} are a {package} {type(given).__name__}, which has no ids, and group_by gives "
            "rows in any order. Give the data frame with its id column, or a dict by id; numbers "
            "in the order of sets.ids may be a list."
        )


def id_columns(names: Sequence[Hashable], sets: Sets, what: str, refusal: Any) -> tuple[Any, ...]:
    """The columns of a frame that name sets; none if there are none."""
    by = sets.origin.by
    if by and {*by} <= {*names}:
        return by
    found = tuple(name for name in IDS if name in names)
    if len(found) > 1:
        raise refusal(
            f"the table of {what} has columns 'set' and 'id', and one of them must name the sets; "
            "leave the other out"
        )
    return found


def _of_frame(
    given: Any, frame: Any, sets: Sets, what: str, refusal: type[SumwiseError]
) -> tuple[list[Hashable], Float[np.ndarray, "t M"]]:
    names, table = list(frame.columns), Table(frame, f"the table of {what}")
    ids = id_columns(names, sets, what, refusal)
    values = [name for name in names if name not in ids]
    fix = f"Name the id column {' and '.join(map(repr, sets.origin.by)) or repr('set')}"
    if ids:
        keys = _keys(table, ids, refusal)
    elif hasattr(given, "index") and _names_sets(given.index, sets, len(values)):
        keys = _index(given.index, sets)
    else:
        raise refusal(
            f"the table of {what} has columns {listed(names[:20])}, and none of them names the "
            f"sets. {fix}, or give a dict by id."
        )
    odd = [name for name in values if not is_numeric(frame.get_column(name))]
    if odd or (len(values) > 1 and {*values} & {*RESERVED}) or not values:
        wrong = f"{odd[0]!r:.80} holds no numbers" if odd else f"{what} are one of {listed(values)}"
        raise refusal(
            f"the table of {what} must have ids and {what} alone: "
            + (f"{wrong}. Select these columns." if values else "there is no other column.")
            + ("" if ids else f" {fix}.")
        )
    numbers = _numbers(table, values, keys, what, refusal)
    return keys, numbers[:, 0] if len(values) == 1 else numbers


def _names_sets(index: Any, sets: Sets, n_values: int) -> bool:
    """Whether the index of a frame names sets.

    One that counts rows does where their ids are the same numbers. Beside several columns, of which
    one may hold ids, numbers without a name never do: they may be those of rows.
    """
    if n_values > 1 and index.nlevels == 1 and index.name is None and index.dtype.kind in "iu":
        return False
    return not counts_rows(index) or list(sets.ids) == list(index)


def _index(index: Any, sets: Sets) -> list[Hashable]:
    """Ids in an index of pandas, its levels in the order of the columns that sets were made by."""
    levels, by = list(index.names), list(sets.origin.by)
    if len(by) > 1 and levels != by and {*levels} == {*by}:
        index = index.reorder_levels(by)
    return list(index)


def _keys(table: Table, ids: Sequence[Any], refusal: type[SumwiseError]) -> list[Hashable]:
    try:
        return table.keys(ids)
    except SumwiseError as error:
        raise refusal(str(error)) from None


def _numbers(
    table: Table,
    names: Sequence[Any],
    keys: Sequence[Hashable],
    what: str,
    refusal: type[SumwiseError],
) -> Float[np.ndarray, "t M"]:
    """Columns of numbers; what is missing or no number is refused with the id of its set."""
    rows = replace(table, where=lambda row: f"{what}, set {keys[row]!r:.80}")
    try:
        return np.column_stack([rows.numbers(name) for name in names])
    except SumwiseError as error:
        raise refusal(str(error)) from None
