"""Tables of individuals in files: which columns are inputs, and the sets that their rows make."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from sumwise.data.dialect import Reading
from sumwise.data.frames import Table, is_number, listed
from sumwise.data.geo import Geometry
from sumwise.data.known import Known, individual
from sumwise.data.origin import Origin
from sumwise.data.pool_tables import Columns, inputs_of
from sumwise.data.recipe import MOST_LEVELS, Encoded, Recipe, Seen, is_moment, learn, look, odd_date
from sumwise.data.sets import Sets, as_objects, group_individuals
from sumwise.data.tables import PLAIN, read_table
from sumwise.data.totals import OPTIONAL, TOTALS, read_known
from sumwise.errors import DataError
from sumwise.util.shapes import Float, Int
from sumwise.util.text import shown

MOST_TEXTS: Final = 50  # different ones in a column that is an input without being asked for
FEWEST: Final = 5  # rows that a column must count to be taken for their id


@dataclass(frozen=True, slots=True, eq=False)
class Individuals:
    """Sets, and the columns they were made of."""

    sets: Sets
    by: tuple[str, ...]
    x: tuple[str, ...]
    left_out: Mapping[str, str]  # columns that are not used, and why
    aside: Mapping[str, Float[np.ndarray, " N"]] = field(default_factory=dict)  # not inputs
    order: Int[np.ndarray, " N"] = field(default_factory=lambda: np.empty(0, int))  # rows of a file
    where: Callable[[int], str] = str  # the place of an individual, by its row of `sets.x`
    geometry: Geometry | None = None  # of each individual, by its row of `sets.x`
    known: tuple[Known, ...] = ()  # totals and outputs that are known from the start

    def by_row(self, values: np.ndarray) -> np.ndarray:
        """Values of individuals in the order of the file."""
        return values[np.argsort(self.order)]


def read_individuals(
    path: Path,
    by: Sequence[str],
    x: Sequence[str],
    weights: str = "sum",
    aside: Mapping[str, str | None] | None = None,
    role: str | None = None,
    without: Sequence[str] = (),
    row_id: str | None = None,
    periods: Mapping[str, str] | None = None,
    reading: Reading = PLAIN,
) -> Individuals:
    """The table in `path`, which has a row for each individual, as sets.

    Args:
        by: Column that names the group, text in a CSV file; several columns together name it. If
            there is none, each row is a set of its own, named by its number from 1.
        x: Inputs, `*` and `?` standing for any characters; if left out, all other columns.
        weights: `"sum"`, `"mean"`, or the column that holds θ.
        aside: More columns of numbers and the option that named each, None for a column that may
            be missing. They are not inputs unless `x` has them. A column with "" is no input and
            is not read, whether it is there or not.
        role: What `by` and `x` are wanted for, where no option named them.
        without: Columns that are not inputs, likewise with `*` and `?`.
        row_id: Column with the name of each row, text in a CSV file.
        periods: As in `Sets.from_frame`.
        reading: As in `read_table`.
    """
    groups = tuple(dict.fromkeys(by))
    texts = {*groups, *(() if row_id is None else (row_id,))}
    table = read_table(path, texts.__contains__, reading)
    keys = _numbered(table) if not groups else table.keys(groups, role or "given as --by")
    hidden = {name for name, option in (aside or {}).items() if option == ""}
    others = {name: option for name, option in (aside or {}).items() if name not in hidden}
    if weights not in ("sum", "mean"):
        others.setdefault(weights, "given as --weights, which may also be sum or mean")
    table.require_each(others)
    beside = [name for name in others if name in table.frame.columns]
    used = {*texts, *beside, *hidden}
    own = None if row_id is None else _row_ids(table, row_id, keys)
    taken, left_out = choose_inputs(table, used, x, without, role or "given as --x")
    table.refuse_unclear([*taken, *beside])
    table = table.with_numbers(texts & {*taken, *beside})
    made = learn(table, taken, periods, role or "given as --x")

    def where(row: int) -> str:
        return f"{table.where(row)}, set {shown(keys[row])!r:.80}"

    columns = {name: replace(table, where=where).numbers(name) for name in beside}
    theta = weights if weights in ("sum", "mean") else columns[weights]
    column = None if isinstance(theta, str) else weights
    origin = Origin(groups, row_id, weights == "mean", weights=column)
    sets, order = group_individuals(keys, made, theta, own, origin)
    kept = {name: values[order] for name, values in columns.items() if name in (aside or {})}
    shapes = table.geometry
    if shapes is not None:
        shapes = replace(shapes, wkb=[shapes.wkb[row] for row in order.tolist()])
    return Individuals(
        sets, groups, taken, left_out, kept, order, lambda row: where(int(order[row])), shapes
    )


def _numbered(table: Table) -> list[Hashable]:
    return [*range(1, len(table.frame) + 1)]


def _row_ids(table: Table, name: str, keys: Sequence[Hashable]) -> list[Hashable]:
    """The ids of rows; those of different sets may be the same, and others are refused."""
    own = table.keys([name], "given as --id")
    first: dict[Any, int] = {}
    for row, each in enumerate(zip(keys, own, strict=True)):
        if first.setdefault(each, row) != row:
            raise DataError(
                f"{table.where(row)}: {name!r:.80} is {shown(own[row])!r:.80}, as in "
                f"{table.where(first[each])}, which is in the same set. Give each row its own id, "
                "or leave --id out."
            )
    return own


def known_columns(
    path: Path, known: Sequence[str], named: Collection[str | None], reading: Reading = PLAIN
) -> tuple[list[str], list[str], list[Path]]:
    """What is known from the start: columns of outputs, columns that name areas, and files.

    Args:
        path: The table of individuals.
        known: Names of its columns, and of files of totals.
        named: Its columns that name sets and individuals.
        reading: As in `read_table`.
    """
    if not known:
        return [], [], []
    table = read_table(path, lambda name: True, reading)
    files = [Path(name) for name in known if Path(name).is_file()]
    outputs = [name for name in known if not Path(name).is_file()]
    table.require(outputs, "given as --known, which may also be a file")
    areas: dict[str, None] = {}
    for file in files:
        names = read_table(file, lambda name: True, reading).frame.columns
        if "set" not in names and not {*names} & {*named}:
            there = {*table.frame.columns} - {*TOTALS, *OPTIONAL}
            areas |= dict.fromkeys(name for name in names if name in there)
    return outputs, list(areas), files


def with_known_columns(
    made: Individuals,
    path: Path,
    found: tuple[list[str], list[str], list[Path]],
    reading: Reading = PLAIN,
) -> Individuals:
    """The same, with what is known from the start; `found` comes from `known_columns`."""
    outputs, areas, files = found
    if not outputs and not files:
        return made
    table = read_table(path, {*areas}.__contains__, reading)
    table.refuse_unclear(outputs)
    wide: dict[Hashable, np.ndarray] = {
        name: as_objects(table.keys([name]))[made.order] for name in areas
    }
    sets = replace(made.sets, origin=replace(made.sets.origin, areas=wide))
    told = [each for file in files for each in read_known(file, sets, reading)[0]]
    for name in outputs:
        missing = table.missing(name)
        values = table.numbers(name, missing)[made.order]
        rows = np.flatnonzero(~missing[made.order]).tolist()
        told += [individual(sets, row)._replace(y_bar=float(values[row])) for row in rows]
    return replace(made, sets=sets, known=tuple(told))


def read_inputs(
    path: Path,
    inputs: Sequence[str],
    others: Mapping[str, str | None],
    recipe: Recipe | None = None,
    reading: Reading = PLAIN,
) -> tuple[Table, Encoded]:
    """A table of other individuals than the study's, and its inputs as numbers.

    Args:
        others: More columns of numbers, and the option that named each; None for a column that may
            be missing.
        recipe: How the study's inputs were made of its table, if they are not the columns `inputs`.
        reading: As in `read_table`.
    """
    known = recipe or Recipe.plain(inputs)
    text = [source.name for source in known.sources if source.levels is not None]
    numbers = {*known.names, *others} - {*text}
    table = read_table(path, lambda name: name not in numbers, reading)
    axes = () if table.geometry is None else table.geometry.axes
    if axes and {*axes} & numbers - {*table.frame.columns}:  # the study has them of geometries
        reading = replace(reading, centroid=True)
        table = read_table(path, lambda name: name not in numbers, reading)
    return table, encoded_inputs(table, inputs, others, recipe)


def encoded_inputs(
    table: Table,
    inputs: Sequence[str],
    others: Mapping[str, str | None],
    recipe: Recipe | None = None,
) -> Encoded:
    """The inputs in such a table as numbers."""
    known = recipe or Recipe.plain(inputs)
    text = [source.name for source in known.sources if source.levels is not None]
    table.refuse_unclear({*known.names, *others} - {*text})
    table.require_each(others)
    return known.encode(table, "an input of the study")


def read_changes(path: Path, sets: Sets, columns: Columns, reading: Reading = PLAIN) -> Table:
    """A table of individuals whose study has these sets, for `pool_edits.edit`.

    Args:
        reading: As in `read_table`.
    """
    recipe = inputs_of(sets)
    numbers = {source.name for source in recipe.sources if source.levels is None}
    numbers |= {columns.row, columns.weights, sets.origin.weights} - {None}
    texts = {*columns.group, columns.id}
    table = read_table(path, lambda name: name in texts or name not in numbers, reading)
    table.refuse_unclear(numbers - texts)
    return table.with_numbers(texts & numbers & {*table.frame.columns})


def choose_inputs(
    table: Table,
    used: Collection[str],
    wanted: Sequence[str] = (),
    without: Sequence[str] = (),
    role: str = "given as --x",
    *,
    see: Callable[[Sequence[str]], tuple[Mapping[str, Seen], Callable[[int], str]]] | None = None,
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Columns that are inputs; and the rest that has no other use, each with the reason.

    Without wishes, inputs are numbers, dates, and text of few levels.

    Args:
        see: If the table is an empty one that only shows the kinds of columns, gives what columns
            of these names hold, and where rows are.
    """
    names = list(table.frame.columns)
    taken = table.matching(wanted, role)
    unwanted = {*table.matching(without, "given as --not")}
    left_out = {name: "it is not wanted" for name in names if name in unwanted - {*used}}
    if not wanted:
        others = [name for name in names if name not in used and name not in unwanted]
        reasons = {name: _odd_kind(table, name) for name in others}
        simple = [name for name in others if reasons[name] is None]
        if see is not None and simple:
            found, where = see(simple)
            reasons |= {name: why_unfit(found[name], where, "") for name in simple}
        elif see is None:
            reasons |= {name: _unfit(table, name) for name in simple}
        taken += [name for name in others if reasons[name] is None]
        left_out |= {name: reason for name, reason in reasons.items() if reason is not None}
    chosen = tuple(name for name in dict.fromkeys(taken) if name not in unwanted)
    if not chosen:
        why = "".join(f" {name!r:.80}: {reason}." for name, reason in left_out.items())
        raise DataError(
            f"{table.name} has no input columns beside {listed(n for n in names if n in used)}. "
            f"What is known of each individual must be there.{why:.500}"
        )
    return chosen, left_out


def _odd_kind(table: Table, name: str) -> str | None:
    """Why a column of this kind is no input; None if it may be one."""
    column = table.frame.get_column(name)
    if not column.dtype.is_nested() and (not column.dtype.is_temporal() or is_moment(column)):
        return None
    empty = len(column) and table.missing(name).all()
    return "it is empty" if empty else f"it holds {column.dtype}"


def _unfit(table: Table, name: str) -> str | None:
    """Why a column is no input unless the user asks for it; None if it is one."""
    if name in table.unclear:
        return None  # it is refused with its row
    return why_unfit(look(table, name)[0], table.where, f"; --id {name} makes it their id")


def why_unfit(seen: Seen, where: Callable[[int], str], hint: str) -> str | None:
    """`_unfit` by what a column holds; `hint` is what to do with one that counts rows."""
    if not seen.known:
        return "it is empty"
    if seen.is_same:
        return "it is the same in every row"
    if seen.texts is None:
        counted = seen.rows >= FEWEST and seen.counts in (0, 1)
        return f"it counts rows{hint}" if counted else None
    texts = [text for text in seen.texts if text]
    if odd := odd_date(texts):
        place = where(seen.texts[odd][1])
        return f"{place} has {odd!r:.40}; dates are inputs if written as 2024-03-31"
    mostly_numbers = 2 * sum(map(is_number, texts)) >= len(texts)  # refused later
    if len(seen.texts) <= MOST_TEXTS or mostly_numbers:
        return None
    number = f"more than {MOST_LEVELS}" if seen.many else f"{len(seen.texts)}"
    return f"it holds {number} different texts"
