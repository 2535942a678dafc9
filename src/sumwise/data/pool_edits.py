"""Individuals that join, leave, move or are corrected, and the sets that come of it.

A set keeps its position, and a measured one its members, because the total is theirs: if they
change, that position is retired under another name, and the set goes on at a new position with the
members it has now. A set without members left is retired where it is. Retired positions are never
asked for; one without an answer keeps a single row, which stands for nobody.

Former and present sets share individuals, and so their noise (`Sets.members`). An individual has
the effect of the smallest of its sets, where a former set and the one it became count as one.
Corrected inputs are those of the same individuals, in former sets too.

Areas and individuals that were known from the start come after all other sets, keep the members
they had, and give nobody an effect. The recipe is learned anew from all who are in a set.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from sumwise.data.frames import Table, column_names, listed
from sumwise.data.recipe import Encoded, Recipe, learned_again, widened
from sumwise.data.sets import Sets
from sumwise.errors import SettingError, SumwiseError
from sumwise.util.shapes import Float, Int
from sumwise.util.text import by_text, count, find, shown

KINDS: Final = ("add", "drop", "correct")
INPUT: Final = "an input of the study"


@dataclass(frozen=True, slots=True)
class PoolMark:
    """How often the pool was changed, and the positions that are not part of it any more."""

    changes: int = 0
    retired: Mapping[int, int | None] = field(default_factory=dict)  # and what each became

    def to_json(self) -> str:
        """Both as text."""
        return json.dumps({"changes": self.changes, "retired": [*self.retired.items()]})

    @classmethod
    def from_json(cls, text: str | bytes, n_sets: int) -> PoolMark:
        """What `to_json` has written for so many sets."""
        known = json.loads(text)
        made = cls(known["changes"], {at: became for at, became in known["retired"]})
        places = [*made.retired, *(at for at in made.retired.values() if at is not None)]
        if type(made.changes) is not int or made.changes < 0:
            raise ValueError(f"{made.changes!r:.40} is no number of changes")
        for at in places:
            if type(at) is not int or not 0 <= at < n_sets:
                raise ValueError(f"there is no set at {at!r:.40}")
        return made

    def positions(self, n_sets: int) -> list[int]:
        """Positions of the sets that are part of the pool."""
        return [at for at in range(n_sets) if at not in self.retired]

    def sets(self, sets: Sets) -> Sets:
        """The sets of the pool, without retired ones."""
        if not self.retired:
            return sets
        some = self.positions(len(sets))
        return _taken(sets, some, sum(at >= sets.n_asked for at in some))

    def asked(self, sets: Sets) -> Sets:
        """The same without what was known from the start."""
        return _taken(sets, self.positions(sets.n_asked), 0)


def _taken(sets: Sets, positions: Sequence[int], extra: int) -> Sets:
    some = sets.take(positions)
    some = replace(some, origin=replace(some.origin, extra=extra))
    if some.members is None or len(np.unique(some.members)) < len(some.members):
        return some
    return replace(some, members=None, effects=None)  # they overlapped with others only


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
class Edited:
    """Sets after a change."""

    sets: Sets
    mark: PoolMark
    came_from: tuple[int | None, ...]  # for each new position, the one that it continues; new ones
    # come after those of the former sets, and before what was known from the start
    emptied: tuple[int, ...]  # positions that have lost all members
    rows: Int[np.ndarray, " N"]  # the former row of each; rows that join are counted after those
    words: str


@dataclass(frozen=True, slots=True, eq=False)
class _Pool:
    """Rows of sets, and which of them are individuals of the pool."""

    sets: Sets
    owner: Int[np.ndarray, " N"]
    member: Int[np.ndarray, " N"]
    rows: Int[np.ndarray, " n"]  # of sets that may be asked for
    ids: Mapping[str, Hashable | None]  # of these sets, by text

    @classmethod
    def of(cls, sets: Sets, mark: PoolMark) -> _Pool:
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


def edit(
    sets: Sets,
    mark: PoolMark,
    answered: Collection[int],
    tables: Mapping[str, Table],
    columns: Columns,
    today: str,
    measured: str = "total",
) -> Edited:
    """The sets after these changes, all of them at once.

    Args:
        answered: Positions of measured sets.
        tables: By kind, which is one of `KINDS`.
        today: The date that a former set is named by.
        measured: What measuring a set gives, in a word.
    """
    before, sets = sets, _with_new_texts(sets, tables)
    pool = _Pool.of(sets, mark)
    left = _named(pool, tables["drop"], columns, narrow=True) if "drop" in tables else []
    x, moved, n_corrected = np.array(sets.x), dict[int, Hashable](), 0
    if "correct" in tables:
        named = _named(pool, tables["correct"], columns, narrow=False)
        _refuse_both(pool, tables["correct"], named, left)
        n_corrected = _correct(pool, tables["correct"], named, x)
        moved = _moves(pool, tables["correct"], named, columns)
    gone = np.array(sorted({*moved, *(row for rows in left for row in rows)}), dtype=int)
    joined = _joined(pool, tables["add"], columns) if "add" in tables else _nobody(sets)
    arrivals: dict[Hashable, list[int]] = {}  # rows that come to each set; those that join are last
    for row, key in (*moved.items(), *enumerate(joined.keys, start=len(x))):
        arrivals.setdefault(_known(pool, key), []).append(row)
    if not (len(gone) or arrivals or n_corrected):
        raise SettingError("nothing would change: every value is what the study has already")
    placed = _place(pool, mark, answered, gone, arrivals, today)
    made = _learned_again(_assemble(pool, placed, x, joined, answered), placed.mark, answered)
    words = _words(pool, placed, left, moved, joined, n_corrected, measured)
    words += _new_texts(before, made) + _unused(before, tables.get("add"), columns)
    came_from, emptied = tuple(placed.came_from), tuple(placed.emptied)
    return Edited(made, placed.mark, came_from, emptied, np.concatenate(placed.rows), words)


# --- reading --------------------------------------------------------------------------------------


def _named(pool: _Pool, table: Table, columns: Columns, *, narrow: bool) -> list[list[int]]:
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
    _refuse_both(pool, table, found, ())
    return found


def _refuse_unclear(
    pool: _Pool, table: Table, number: int, name: str, rows: Sequence[int], inside: str
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


def _refuse_both(
    pool: _Pool, table: Table, found: Sequence[list[int]], before: Sequence[list[int]]
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


def _with_new_texts(sets: Sets, tables: Mapping[str, Table]) -> Sets:
    """The same sets, with inputs for texts that nobody had so far."""
    given = [table for kind, table in tables.items() if kind != "drop"]
    if sets.recipe is None:
        return sets
    recipe = widened(sets.recipe, given)
    x = recipe.recast(sets.recipe, sets.x)
    return replace(sets, x=x, recipe=recipe, input_names=recipe.labels)


def _learned_again(sets: Sets, mark: PoolMark, answered: Collection[int]) -> Sets:
    """The same sets, with the inputs that they would have had from the start."""
    if sets.recipe is None:
        return sets
    nobody = [at for at in mark.retired if at not in answered]
    real = np.flatnonzero(~np.isin(np.repeat(np.arange(len(sets)), sets.sizes), nobody))
    if sets.members is not None:  # each once
        real = real[np.sort(np.unique(sets.members[real], return_index=True)[1])]
    recipe = learned_again(sets.recipe, sets.x[real])
    x, kept = recipe.recast(sets.recipe, sets.x), None if recipe.is_plain else recipe
    return replace(sets, x=x, recipe=kept, input_names=recipe.labels)


def _encoded(table: Table, recipe: Recipe) -> Encoded:
    """Inputs of all rows; what is missing where nothing was is refused."""
    made = recipe.encode(table, INPUT)
    for number, s in np.argwhere(made.unknown).tolist():
        raise table.refusal(
            f"{table.where(number)}: {recipe.sources[s].name!r:.80} is missing. Fill it in, or "
            "drop the row."
        )
    return made


def _correct(
    pool: _Pool, table: Table, named: Sequence[list[int]], x: Float[np.ndarray, "N D"]
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


def _moves(
    pool: _Pool, table: Table, named: Sequence[list[int]], columns: Columns
) -> dict[int, Hashable]:
    """Rows of individuals that a table has in another set, and the id of that set."""
    if pool.sets.row_ids is None or any(n not in table.frame.columns for n in columns.group):
        return {}  # without ids, the set says who is meant
    moves: dict[int, Hashable] = {}
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
        moves[rows[0]] = key
    return moves


@dataclass(frozen=True, slots=True, eq=False)
class _Joined:
    """Individuals that join."""

    keys: Sequence[Hashable]
    x: Float[np.ndarray, "n D"]
    theta: Float[np.ndarray, " n"]
    row_ids: Sequence[Hashable]


def _nobody(sets: Sets) -> _Joined:
    return _Joined((), np.empty((0, sets.n_inputs)), np.empty(0), ())


def _joined(pool: _Pool, table: Table, columns: Columns) -> _Joined:
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
    if weights_of(pool) != "own":
        if columns.weights is not None:
            raise SettingError(
                f"measuring a set of this study gives its {weights_of(pool)}; leave weights out"
            )
        return _Joined(keys, x, np.ones(len(x)), names)
    if columns.weights is None:
        raise SettingError(
            "the individuals of this study have weights; name the column that has those of the new "
            "ones (weights=, or --weights in the shell)"
        )
    table.require([columns.weights], "given as weights")
    return _Joined(keys, x, table.numbers(columns.weights), names)


def _like(own: Hashable, name: Hashable) -> Hashable:
    """An id that was read as text, as a number where the study's own are numbers."""
    whole = isinstance(own, int) and isinstance(name, str) and name.strip().isdecimal()
    return int(str(name)) if whole else name


def weights_of(pool: _Pool) -> str:
    """What measuring a set gives: its sum, its mean, or a sum with weights of its own."""
    theta, sizes = pool.sets.theta[pool.rows], pool.sets.sizes[pool.owner[pool.rows]]
    return "sum" if (theta == 1).all() else "mean" if (theta == 1 / sizes).all() else "own"


def _known(pool: _Pool, key: Hashable) -> Hashable:
    """The study's own id of a set, whose text this is; that of a new set as it was given."""
    own = pool.ids.get(shown(key))
    return _like(next(iter(pool.ids.values())), key) if own is None else own


# --- sets -----------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Placed:
    """Rows of each position; those from `len(sets.x)` on are of individuals that join."""

    ids: list[Hashable]
    rows: list[Int[np.ndarray, " n"]]
    mark: PoolMark
    came_from: list[int | None]
    emptied: list[int]
    renamed: list[Hashable]  # what measured sets are called now whose members have changed


def _place(
    pool: _Pool,
    mark: PoolMark,
    answered: Collection[int],
    gone: Int[np.ndarray, " n"],
    arrivals: Mapping[Hashable, list[int]],
    today: str,
) -> _Placed:
    sets, retired, first = pool.sets, dict(mark.retired), pool.sets.n_asked
    rows = [np.arange(low, high) for low, high in zip(sets.starts, sets.starts[1:], strict=False)]
    known, rows = rows[first:], rows[:first]
    made = _Placed([*sets.ids[:first]], rows, PoolMark(mark.changes + 1, retired), [], [], [])
    come = {key: np.array(each) for key, each in arrivals.items()}
    touched = {*pool.owner[gone].tolist()}
    touched |= {at for at, key in enumerate(made.ids) if key in come}
    for at in sorted(touched):
        key = sets.ids[at]
        stay = rows[at][:0] if at in retired else np.setdiff1d(rows[at], gone)
        now = np.concatenate([stay, come.pop(key, rows[at][:0])])
        if not len(now):
            retired[at] = None
            made.emptied.append(at)
        elif at in answered:
            made.ids[at] = _former(key, made.ids, today)
            made.renamed.append(made.ids[at])
            retired |= {k: len(made.ids) for k, became in retired.items() if became == at}
            retired[at] = len(made.ids)
            _append(made, key, now, at)
        else:
            rows[at] = now
            retired.pop(at, None)
    for key, now in come.items():
        _append(made, key, now, None)
    if len(retired) == len(made.ids):
        raise SettingError("no set would be left; a study needs some to choose from")
    made.ids += sets.ids[first:]
    made.rows += known
    return made


def _append(made: _Placed, key: Hashable, rows: Int[np.ndarray, " n"], origin: int | None) -> None:
    made.ids.append(key)
    made.rows.append(rows)
    made.came_from.append(origin)


def _former(key: Hashable, taken: Sequence[Hashable], today: str) -> str:
    """A name for a measured set as it was."""
    name, number, texts = f"{shown(key)} (until {today})", 1, {*map(shown, taken)}
    while name in texts:
        number += 1
        name = f"{shown(key)} (until {today}, {number})"
    return name


def _assemble(
    pool: _Pool,
    placed: _Placed,
    x: Float[np.ndarray, "N D"],
    joined: _Joined,
    answered: Collection[int],
) -> Sets:
    sets, retired = pool.sets, placed.mark.retired
    nobody = [at for at in retired if at not in answered]
    for at in nobody:
        placed.rows[at] = placed.rows[at][:1]
    sizes = np.array([len(rows) for rows in placed.rows])
    flat, starts = np.concatenate(placed.rows), np.concatenate([[0], np.cumsum(sizes)])
    theta = np.concatenate([sets.theta, joined.theta])[flat]
    owner = np.repeat(np.arange(len(sizes)), sizes)
    if weights_of(pool) == "mean":
        theta = np.where(np.isin(owner, list(retired)), theta, 1 / sizes[owner])
    last = int(pool.member.max()) + 1
    number = np.concatenate([pool.member, last + np.arange(len(joined.x))])[flat]
    number[starts[nobody]] = last + len(joined.x) + np.arange(len(nobody))
    everyone, number = np.unique(number, return_inverse=True)
    members = effects = None
    if len(everyone) < len(number) or sets.origin.extra:
        label = np.arange(len(sizes))
        label[list(retired)] = [at if became is None else became for at, became in retired.items()]
        effect = np.empty(len(everyone), dtype=int)
        if sets.effects is not None:  # of those who are in no set any more
            old = flat < len(sets.x)
            effect[number[old]] = label[sets.effects[flat[old]]]
        own = sizes[: len(sizes) - sets.origin.extra]
        for at in np.argsort(own, kind="stable")[::-1].tolist():  # the smallest set comes last
            effect[number[starts[at] : starts[at + 1]]] = label[at]
        members, effects = number, effect[number]
    names = None
    if sets.row_ids is not None:
        names = np.empty(len(sets.x) + len(joined.x), dtype=object)
        names[: len(sets.x)], names[len(sets.x) :] = sets.row_ids, list(joined.row_ids)
        names = names[flat]
    inputs = np.concatenate([x, joined.x])[flat]
    known = tuple(placed.ids), inputs, theta, starts, sets.input_names
    origin = replace(sets.origin, areas={})
    return Sets(*known, members, effects, sets.recipe, names, origin)


def _words(
    pool: _Pool,
    placed: _Placed,
    left: Sequence[list[int]],
    moved: Mapping[int, Hashable],
    joined: _Joined,
    n_corrected: int,
    measured: str,
) -> str:
    """What has changed, in a line."""
    homes = {int(pool.owner[row]) for rows in left for row in rows}
    parts = [
        (len(joined.keys), f"joined {count(len({*map(shown, joined.keys)}), 'set')}"),
        (len(left), f"left {count(len(homes), 'set')}"),
        (len(moved), f"moved to {count(len({*map(shown, moved.values())}), 'set')}"),
        (n_corrected, "corrected"),
    ]
    said = [(n, what) for n, what in parts if n]
    lines = [f"{count(n, 'individual') if i == 0 else n} {w}" for i, (n, w) in enumerate(said)]
    if new := sum(origin is None for origin in placed.came_from):
        lines.append(f"{count(new, 'set')} new")
    if placed.emptied:
        lines.append(f"{count(len(placed.emptied), 'set')} gone")
    if placed.renamed:
        names = ", ".join(f"{name!r:.80}" for name in placed.renamed[:5])
        more = ", …" if len(placed.renamed) > 5 else ""
        lines.append(f"{measured}s of former members kept as {names}{more}")
    return ", ".join(lines)


def _unused(sets: Sets, add: Table | None, columns: Columns) -> str:
    """Columns of those who join that nothing is made of, such as weights that were not named."""
    used = {*inputs_of(sets).names, *columns.group, columns.id, columns.row, columns.weights}
    used |= {*sets.origin.areas}
    left = [] if add is None else [name for name in add.frame.columns if name not in used]
    return f"; not used: {listed(left)}" if left else ""


def _new_texts(before: Sets, after: Sets) -> str:
    """Texts that nobody had before: one of them may be mistyped."""
    if before.recipe is None or after.recipe is None:
        return ""
    lines = []
    for former, source in zip(before.recipe.sources, after.recipe.sources, strict=True):
        new = [text for text in source.levels or () if text not in (former.levels or ())]
        if new:
            names = ", ".join(f"{text!r:.40}" for text in new[:5]) + (", …" if len(new) > 5 else "")
            lines.append(f", new in {source.name!r:.80}: {names}")
    return "".join(lines)
