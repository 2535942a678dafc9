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

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sumwise.data.about import weights_of
from sumwise.data.frames import Table, listed
from sumwise.data.pool_mark import PoolMark
from sumwise.data.pool_tables import (
    Columns,
    Joined,
    PoolRows,
    correct,
    inputs_of,
    joining,
    moves,
    nobody_joins,
    own_id,
    refuse_twice,
    rows_named,
)
from sumwise.data.recipe import learned_again, widened
from sumwise.data.sets import Sets
from sumwise.errors import SettingError
from sumwise.util.shapes import Float, Int
from sumwise.util.text import count, shown

KINDS: Final = ("add", "drop", "correct")


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
    pool = PoolRows.of(sets, mark)
    left = rows_named(pool, tables["drop"], columns, narrow=True) if "drop" in tables else []
    x, moved, n_corrected = np.array(sets.x), dict[int, Hashable](), 0
    if "correct" in tables:
        named = rows_named(pool, tables["correct"], columns, narrow=False)
        refuse_twice(pool, tables["correct"], named, left)
        n_corrected = correct(pool, tables["correct"], named, x)
        moved = moves(pool, tables["correct"], named, columns)
    gone = np.array(sorted({*moved, *(row for rows in left for row in rows)}), dtype=int)
    joined = joining(pool, tables["add"], columns) if "add" in tables else nobody_joins(sets)
    arrivals: dict[Hashable, list[int]] = {}  # rows that come to each set; those that join are last
    for row, key in (*moved.items(), *enumerate(joined.keys, start=len(x))):
        arrivals.setdefault(own_id(pool, key), []).append(row)
    if not (len(gone) or arrivals or n_corrected):
        raise SettingError("nothing would change: every value is what the study has already")
    placed = _place(pool, mark, answered, gone, arrivals, today)
    made = _learned_again(_assemble(pool, placed, x, joined, answered), placed.mark, answered)
    words = _words(pool, placed, left, moved, joined, n_corrected, measured)
    words += _new_texts(before, made) + _unused(before, tables.get("add"), columns)
    came_from, emptied = tuple(placed.came_from), tuple(placed.emptied)
    return Edited(made, placed.mark, came_from, emptied, np.concatenate(placed.rows), words)


# --- inputs ---------------------------------------------------------------------------------------


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
    pool: PoolRows,
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
    leaves, texts = np.isin(np.arange(len(sets.x)), gone), {*map(shown, made.ids)}
    earlier: dict[int | None, list[int]] = {}  # positions that became each
    for before, became in retired.items():
        earlier.setdefault(became, []).append(before)
    for at in sorted(touched):
        key = sets.ids[at]
        stay = rows[at][:0] if at in retired else rows[at][~leaves[rows[at]]]
        now = np.concatenate([stay, come.pop(key, rows[at][:0])])
        if not len(now):
            retired[at] = None
            made.emptied.append(at)
        elif at in answered:
            made.ids[at] = former_name(key, texts, today)
            texts.add(made.ids[at])
            made.renamed.append(made.ids[at])
            same = [before for before in earlier.get(at, ()) if retired.get(before) == at]
            retired |= dict.fromkeys([*same, at], len(made.ids))
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


def former_name(key: Hashable, taken: Collection[str], today: str) -> str:
    """A name for a measured set as it was."""
    name, number = f"{shown(key)} (until {today})", 1
    while name in taken:
        number += 1
        name = f"{shown(key)} (until {today}, {number})"
    return name


def _assemble(
    pool: PoolRows,
    placed: _Placed,
    x: Float[np.ndarray, "N D"],
    joined: Joined,
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
    if weights_of(pool.sets, pool.rows) == "mean":
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
    pool: PoolRows,
    placed: _Placed,
    left: Sequence[list[int]],
    moved: Mapping[int, Hashable],
    joined: Joined,
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
    used |= {*sets.origin.areas, sets.origin.weights}
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
