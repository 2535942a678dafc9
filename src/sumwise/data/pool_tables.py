"""Tables of individuals that join, leave, move or are corrected."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sumwise.data.about import weights_of
from sumwise.data.frames import Table, column_names
from sumwise.data.pool_mark import PoolMark
from sumwise.data.recipe import Encoded, Recipe
from sumwise.data.sets import Sets
from sumwise.errors import SettingError, SumwiseError
from sumwise.util.shapes import Float, Int
from sumwise.util.text import ByText, by_text, find, shown


@dataclass(frozen=True, eq=False)
class Columns:
    """Names of the columns of the tables that say what changes."""

    group: tuple[Any, ...] = ("set",)
    id: Any = "id"
    row: Any = "row"  # the number of a row in its set, from 1, where rows have no ids
    weights: Any = None


def columns_of(sets: Sets, tables: Iterable[Table], group: Any, id: Any) -> Columns:
    """The columns that were named; else those that the study was made with, where a table has them.

    Args:
        group: None if it was not named; `id` likewise.
    """
    names, origin = {name for table in tables for name in table.frame.columns}, sets.origin
    own = origin.by if origin.by and {*origin.by} <= names else Columns.group
    one = Columns.id if origin.id is None or origin.id not in names else origin.id
    return Columns(
        own if group is None else column_names(group, "group"), one if id is None else id
    )


@dataclass(frozen=True, slots=True, eq=False)
class PoolRows:
    """Rows of sets, and which of them are individuals of the pool."""

    sets: Sets
    owner: Int[np.ndarray, " N"]
    member: Int[np.ndarray, " N"]
    rows: Int[np.ndarray, " n"]  # of sets that may be asked for
    ids: ByText  # of these sets

    @classmethod
    def of(cls, sets: Sets, mark: PoolMark) -> PoolRows:
        owner = np.repeat(np.arange(len(sets)), sets.sizes)
        member = np.arange(len(owner)) if sets.members is None else sets.members
        rows = np.flatnonzero(~np.isin(owner, list(mark.retired)) & (owner < sets.n_asked))
        ids = by_text([sets.ids[at] for at in mark.positions(sets.n_asked)])
        return cls(sets, owner, member, rows, ids)

    def position(self, table: Table, number: int, key: Hashable) -> int:
        try:
            return self.sets.position(find(self.ids, shown(key)))
        except SumwiseError as error:
            raise table.refusal(f"{table.where(number)}: {error}") from None


def inputs_of(sets: Sets) -> Recipe:
    """How the inputs are made of columns; those without names are x0, x1, … as in predictions."""
    names = sets.input_names or tuple(f"x{d}" for d in range(sets.n_inputs))
    return sets.recipe or Recipe.plain(names)


def rows_named(pool: PoolRows, table: Table, columns: Columns, *, narrow: bool) -> list[list[int]]:
    """Rows of the pool that are the individual in each row of a table.

    Args:
        narrow: Whether a set that is named beside an id means the individual in that set alone.
    """
    own = pool.sets.row_ids
    found: list[list[int]] = []
    if own is None:
        keys = table.keys(columns.group, "the set of each individual")
        table.require([columns.row], "the number of each individual in its set, from 1")
        for number, row in enumerate(table.numbers(columns.row).tolist()):
            at = pool.position(table, number, keys[number])
            size = int(pool.sets.sizes[at])
            if row != int(row) or not 1 <= row <= size:
                raise table.refusal(
                    f"{table.where(number)}: {columns.row!r:.80} is {row:g}, and set "
                    f"{shown(keys[number])!r:.80} has rows 1 to {size}"
                )
            found.append([int(pool.sets.starts[at] + row - 1)])
    else:
        known: dict[str, list[int]] = {}
        for row in pool.rows.tolist():
            known.setdefault(shown(own[row]), []).append(row)
        names = table.keys([columns.id], "the id of each individual")
        with_set = narrow and all(name in table.frame.columns for name in columns.group)
        keys = table.keys(columns.group) if with_set else []
        for number, name in enumerate(map(shown, names)):
            rows, inside = known.get(name, []), "the pool"
            if with_set:
                at = pool.position(table, number, keys[number])
                rows = [row for row in rows if pool.owner[row] == at]
                inside = f"set {shown(keys[number])!r:.80}"
            _refuse_unclear(pool, table, number, name, rows, inside)
            found.append(rows)
    refuse_twice(pool, table, found, ())
    return found


def _refuse_unclear(
    pool: PoolRows, table: Table, number: int, name: str, rows: Sequence[int], inside: str
) -> None:
    if not rows:
        raise table.refusal(
            f"{table.where(number)}: no individual in {inside} has the id {name!r:.80}. Check the "
            "id, or leave the row out."
        )
    if len({*pool.member[rows].tolist()}) > 1:
        raise table.refusal(
            f"{table.where(number)}: the id {name!r:.80} names {len(rows)} individuals in {inside},"
            " so it is not clear which one is meant. Leave the row out."
        )


def refuse_twice(
    pool: PoolRows, table: Table, found: Sequence[list[int]], before: Sequence[list[int]]
) -> None:
    """Refuse individuals that are named twice."""
    taken = {row for rows in before for row in rows}
    for number, rows in enumerate(found):
        if not taken.isdisjoint(rows):
            at = int(pool.owner[rows[0]])
            raise table.refusal(
                f"{table.where(number)}: row {rows[0] - pool.sets.starts[at] + 1} of set "
                f"{shown(pool.sets.ids[at])!r:.80} is named twice; name each individual once"
            )
        taken.update(rows)


def _encoded(table: Table, recipe: Recipe) -> Encoded:
    """Inputs of all rows; what is missing where nothing was is refused."""
    made = recipe.encode(table, "an input of the study")
    for number, s in np.argwhere(made.unknown).tolist():
        raise table.refusal(
            f"{table.where(number)}: {recipe.sources[s].name!r:.80} is missing. Fill it in, or "
            "drop the row."
        )
    return made


def correct(
    pool: PoolRows, table: Table, named: Sequence[list[int]], x: Float[np.ndarray, "N D"]
) -> int:
    """Write corrected inputs of individuals into all their rows; gives how many have others."""
    recipe = inputs_of(pool.sets)
    given = [s for s, name in enumerate(recipe.names) if name in table.frame.columns]
    if not given:
        return 0
    made = _encoded(table, Recipe(tuple(recipe.sources[s] for s in given), np.empty((0, 0))))
    inputs = np.flatnonzero(np.isin(recipe.source_of, given))
    first = np.array([rows[0] for rows in named])
    changed = np.flatnonzero((x[np.ix_(first, inputs)] != made.x).any(axis=1))
    who = pool.member[first[changed]]
    order = np.argsort(who)
    at = np.minimum(np.searchsorted(who[order], pool.member), max(len(who) - 1, 0))
    for row in np.flatnonzero(who[order][at] == pool.member) if len(who) else ():
        x[row, inputs] = made.x[changed[order[at[row]]]]
    return len(changed)


def moves(
    pool: PoolRows, table: Table, named: Sequence[list[int]], columns: Columns
) -> dict[int, Hashable]:
    """Rows of individuals that a table has in another set, and the id of that set."""
    if pool.sets.row_ids is None or any(n not in table.frame.columns for n in columns.group):
        return {}  # without ids, the set says who is meant
    found: dict[int, Hashable] = {}
    keys = table.keys(columns.group)
    for number, (key, rows) in enumerate(zip(keys, named, strict=True)):
        homes = {shown(pool.sets.ids[pool.owner[row]]) for row in rows}
        if shown(key) in homes:
            continue
        if len(rows) > 1:
            raise table.refusal(
                f"{table.where(number)}: this individual is in {len(rows)} sets, so it is not "
                f"clear which one it leaves for {shown(key)!r:.80}. Drop it from one, and add it."
            )
        found[rows[0]] = key
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Individuals that join."""

    keys: Sequence[Hashable]
    x: Float[np.ndarray, "n D"]
    theta: Float[np.ndarray, " n"]
    row_ids: Sequence[Hashable]


def nobody_joins(sets: Sets) -> Joined:
    return Joined((), np.empty((0, sets.n_inputs)), np.empty(0), ())


def joining(pool: PoolRows, table: Table, columns: Columns) -> Joined:
    keys = table.keys(columns.group, "the set of each individual")
    x, own, names = _encoded(table, inputs_of(pool.sets)).x, pool.sets.row_ids, list[Hashable]()
    if own is not None:
        names = table.keys([columns.id], "the id of each individual")
        known = {shown(own[row]) for row in pool.rows.tolist()}
        for number, name in enumerate(map(shown, names)):
            if name in known:
                raise table.refusal(
                    f"{table.where(number)}: there is an individual with the id {name!r:.80} "
                    "already. To change it, correct it; a new one needs an id of its own."
                )
            known.add(name)
        names = [_like(own[0], name) for name in names]
    kind = weights_of(pool.sets, pool.rows)
    if kind != "weighted":
        if columns.weights is not None:
            raise SettingError(f"measuring a set of this study gives its {kind}; leave weights out")
        return Joined(keys, x, np.ones(len(x)), names)
    theta = columns.weights
    if theta is None and pool.sets.origin.weights in table.frame.columns:
        theta = pool.sets.origin.weights
    if theta is None:
        raise SettingError(
            "the individuals of this study have weights; name the column that has those of the new "
            "ones (weights=, or --weights in the shell)"
        )
    table.require([theta], "given as weights")
    return Joined(keys, x, table.numbers(theta), names)


def _like(own: Hashable, name: Hashable) -> Hashable:
    """An id of the type that the study's own have: text, or a number that was read as text."""
    if isinstance(own, str) and not isinstance(name, str | tuple):
        return shown(name)
    whole = isinstance(own, int) and isinstance(name, str) and name.strip().isdecimal()
    return int(str(name)) if whole else name


def own_id(pool: PoolRows, key: Hashable) -> Hashable:
    """The study's own id of a set, whose text this is; that of a new set as it was given."""
    own = pool.ids.get(shown(key))
    return _like(pool.ids.ids[0], key) if own is None else own
