"""What is known before anything is asked: earlier totals, individual outputs, totals of areas.

Outputs of single individuals and totals of areas that are no sets (a county, where sets are
schools) become more sets of the same individuals, at the end of the pool. They share noise with the
sets that they overlap (`model.overlap`), and they are never asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np

from sumwise.data import validate
from sumwise.data.about import About
from sumwise.data.frames import Table, as_frame, listed
from sumwise.data.matching import by_id, id_columns, is_series, positions
from sumwise.data.recipe import Recipe
from sumwise.data.sets import LazySets, Sets, as_objects, look_alike
from sumwise.errors import LabelError, SettingError, SumwiseError
from sumwise.util.shapes import Float, Int

NOISE: Final = "noise_std"
NOTHING_SAID: Final = About()
KNOWN: Final = "known from the start"  # note of such an answer


class Known(NamedTuple):
    """A total or an output that is known from the start."""

    set_id: Hashable
    y_bar: float
    noise_std: float | None = None
    rows: Int[np.ndarray, " n"] | None = None  # of `sets.x`; None of one of the sets
    alone: bool = False  # whether it is the output of a single individual


def with_known(
    sets: Sets, known: Any, about: About = NOTHING_SAID
) -> tuple[Sets, tuple[Known, ...]]:
    """The sets, with more of them where these are needed; and what is known, each set once.

    Args:
        known: One of these, or a list of several. Totals of sets: a dict, a pandas Series or a data
            frame by id. Outputs of individuals: a data frame with the column that was `id` of the
            sets, or with all input columns, and one more for the output. Totals of areas: a data
            frame with columns that were `areas` of the sets, or some of several columns that the
            sets were grouped `by`, and one more for the total. A column `noise_std` holds known
            noise.
        about: What is measured; a total that its bounds make impossible is refused.

    >>> frame = {"town": ["a", "a", "b"], "county": ["K", "K", "K"], "x": [1.0, 2.0, 3.0]}
    >>> import pyarrow as pa
    >>> sets = Sets.from_frame(pa.table(frame), by="town", x="x", areas="county")
    >>> more, known = with_known(sets, [{"b": 5.0}, pa.table({"county": ["K"], "total": [9.0]})])
    >>> more.ids, [(each.set_id, each.y_bar) for each in known]
    (('a', 'b', ('county', 'K')), [('b', 5.0), (('county', 'K'), 9.0)])
    """
    if known is None:
        return sets, ()
    several = known if isinstance(known, list | tuple) and not isinstance(known, Known) else [known]
    found: dict[Hashable, Known] = {}
    for each in chain.from_iterable(_read(one, sets) for one in several):
        noise = None if each.noise_std is None else validate.noise(each.noise_std, each.set_id)
        checked = each._replace(
            y_bar=validate.total(each.y_bar, each.set_id), noise_std=noise or None
        )
        if found.setdefault(each.set_id, checked) is not checked:
            raise LabelError(f"what is known of {each.set_id!r:.80} is given twice; keep one")
    made = tuple(found.values())
    if about.outputs != "numbers" and any(each.rows is not None for each in made):
        raise SettingError(
            f"known totals of {about.outputs} are those of whole sets, which individuals and areas "
            "would overlap. Leave them out, or record the total of some members of a set with "
            "tell(…, of=…), or tell --of in the shell"
        )
    more = extended(sets, [each for each in made if each.rows is not None])
    for each in made if about.bounded else ():
        about.check(each.y_bar, each.noise_std, more.take([more.position(each.set_id)]))
    return more, made


def extended(sets: Sets, extra: Sequence[Known]) -> Sets:
    """The sets, followed by those that are known from the start and never asked for."""
    if not extra:
        return sets
    owner = np.repeat(np.arange(len(sets)), sets.sizes)
    members = np.arange(len(sets.x)) if sets.members is None else sets.members
    effects = owner if sets.effects is None else sets.effects
    parts = [each.rows for each in extra if each.rows is not None]
    theta = [_theta(sets, each.alone, rows) for each, rows in zip(extra, parts, strict=True)]
    rows = np.concatenate([np.arange(len(sets.x)), *parts])
    ends = sets.starts[-1] + np.cumsum([len(part) for part in parts])
    return Sets(
        (*sets.ids, *(each.set_id for each in extra)),
        sets.x[rows],
        np.concatenate([sets.theta, *theta]),
        np.concatenate([sets.starts, ends]),
        sets.input_names,
        members[rows],
        effects[rows],
        sets.recipe,
        None if sets.row_ids is None else sets.row_ids[rows],
        replace(sets.origin, extra=sets.origin.extra + len(extra), areas={}),
    )


def _theta(sets: Sets, alone: bool, rows: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Weights in what is known: an output is that of one, a mean that of all in the area."""
    if alone or sets.origin.mean:
        return np.full(len(rows), 1 / len(rows))
    return sets.theta[rows]


# --- individuals and areas ------------------------------------------------------------------------


def areas_of(sets: Sets, columns: Sequence[Hashable]) -> dict[Hashable, Int[np.ndarray, " n"]]:
    """Rows of each area that these columns name together."""
    by, owner = sets.origin.by, np.repeat(np.arange(len(sets)), sets.sizes)
    parts: list[list[Hashable]] = []
    for name in columns:
        if name in by:
            ids = [each if len(by) == 1 else _part(each, by.index(name)) for each in sets.ids]
            parts.append(as_objects(ids)[owner].tolist())
        else:
            parts.append(sets.origin.areas[name].tolist())
    return _grouped(parts[0] if len(parts) == 1 else zip(*parts, strict=True))


def individuals_of(sets: Sets) -> dict[Hashable, Int[np.ndarray, " n"]]:
    """Rows of each individual by its own id."""
    return {} if sets.row_ids is None else _grouped(sets.row_ids[: len(sets.own_x)].tolist())


def find(
    rows_of: Mapping[Hashable, Int[np.ndarray, " n"]], key: Hashable, columns: Sequence[Hashable]
) -> Int[np.ndarray, " n"]:
    """Rows of the individual or area that is called so."""
    rows = rows_of.get(key)
    if rows is not None:
        return rows
    alike, what = look_alike(key, rows_of), " and ".join(map(repr, columns))
    hint = f"write {alike!r:.80}" if alike is not None else f"there is {listed([*rows_of][:3])}, …"
    raise LabelError(
        f"the known table names {what} {key!r:.80}, and there is none of that name; {hint}"
    )


def named(
    sets: Sets, columns: Sequence[Hashable], key: Hashable, rows: Int[np.ndarray, " n"]
) -> Known:
    """An area, or an individual if the column is that of their ids, without its total."""
    name = str(columns[0]) if len(columns) == 1 else ", ".join(map(str, columns))
    parts = key if isinstance(key, tuple) and len(columns) > 1 else (key,)
    alone = tuple(columns) == (sets.origin.id,)
    if alone and len(rows) > 1:
        raise LabelError(
            f"{name!r} {key!r:.80} names {len(rows)} individuals, and only one of them has the "
            "output. Give each an id of its own."
        )
    return Known((name, *parts), np.nan, None, rows, alone)


def individual(sets: Sets, row: int) -> Known:
    """The individual in a row of `sets.x`, without its output."""
    rows = np.array([row])
    if sets.row_ids is not None:
        return named(sets, [sets.origin.id], sets.row_ids[row], rows)
    a = int(np.searchsorted(sets.starts, row, side="right")) - 1
    parts = sets.ids[a] if isinstance(sets.ids[a], tuple) else (sets.ids[a],)
    number = row - int(sets.starts[a]) + 1
    return Known((*parts, f"individual {number}"), np.nan, None, rows, True)  # type: ignore[misc]


def _part(set_id: Any, number: int) -> Hashable:
    found: Hashable = set_id[number]
    return found


def _grouped(keys: Iterable[Hashable]) -> dict[Hashable, Int[np.ndarray, " n"]]:
    found: dict[Hashable, list[int]] = {}
    for row, key in enumerate(keys):
        found.setdefault(key, []).append(row)
    return {key: np.array(rows) for key, rows in found.items()}


# --- reading --------------------------------------------------------------------------------------


def _read(given: Any, sets: Sets) -> list[Known]:
    """One table, dict or series."""
    if isinstance(given, Known):
        return [given]
    if hasattr(given, "reset_index") and any(name is not None for name in given.index.names):
        if is_series(given):
            given = given.rename("total" if given.name is None else given.name)
        given = given.reset_index()  # ids by the names of their columns
    no_table = isinstance(given, Mapping | np.ndarray | list) or is_series(given)
    frame = None if no_table else as_frame(given)
    if frame is not None:
        try:
            return _of_frame(frame, sets)
        except SumwiseError as error:
            raise error if isinstance(error, LabelError) else LabelError(str(error)) from None
    numbers = by_id(given, sets, "known totals", LabelError)
    if numbers is None or numbers[1].ndim != 1:
        raise LabelError(
            f"known is {given!r:.60}; give a dict of totals by id, a data frame with ids and "
            "totals, or a list of these"
        )
    at = positions(numbers[0], sets, "known totals", LabelError)
    return [Known(sets.ids[a], y) for a, y in zip(at, numbers[1].tolist(), strict=True)]


def _of_frame(frame: Any, sets: Sets) -> list[Known]:
    names, origin = list(frame.columns), sets.origin
    inputs = sets.input_names or () if sets.recipe is None else sets.recipe.names
    groups = tuple(name for name in (*origin.by, *origin.areas) if name in names)
    table = Table(frame, "the known table")
    find_all: Callable[[], list[Known]]
    if origin.id is not None and origin.id in names:
        used, find_all = {origin.id, *groups, *inputs}, lambda: _by_key(table, sets, (origin.id,))
    elif inputs and {*inputs} <= {*names}:
        used, find_all = {*groups, *inputs}, lambda: _by_inputs(table, sets, groups)
    elif groups and not {*origin.by} <= {*groups}:
        used, find_all = {*groups}, lambda: _by_key(table, sets, groups)
    else:
        columns = id_columns(names, sets, "known totals", LabelError)
        used, find_all = {*groups, *columns}, lambda: _of_sets(table, sets, columns)
        if not columns:
            ways = (*origin.by, *origin.areas, *(() if origin.id is None else (origin.id,)), "set")
            raise LabelError(
                f"the known table has columns {listed(names[:20])}, and none of them says whose "
                f"totals these are. Name one of {listed(ways)}, or all inputs; sets know columns "
                "of larger areas if they were made with areas=."
            )
    values = [name for name in names if name not in {*used, NOISE}]
    if len(values) != 1:
        raise LabelError(
            "the known table must have one column of totals or outputs beside the columns that "
            f"name them; it has {listed(values) or 'none'}. Select the columns."
        )
    y_bar = table.numbers(values[0])
    noise = table.numbers(NOISE) if NOISE in names else np.zeros(len(y_bar))
    told = zip(find_all(), y_bar.tolist(), noise.tolist(), strict=True)
    return [each._replace(y_bar=total, noise_std=std) for each, total, std in told]


def _of_sets(table: Table, sets: Sets, columns: Sequence[Any]) -> list[Known]:
    at = positions(table.keys(columns), sets, "known totals", LabelError)
    return [Known(sets.ids[a], np.nan) for a in at]


def _by_key(table: Table, sets: Sets, columns: Sequence[Any]) -> list[Known]:
    refuse_unread(sets)
    alone = tuple(columns) == (sets.origin.id,)
    rows_of = individuals_of(sets) if alone else areas_of(sets, columns)
    keys = table.keys(columns)
    return [named(sets, columns, key, find(rows_of, key, columns)) for key in keys]


def _by_inputs(table: Table, sets: Sets, groups: tuple[Any, ...]) -> list[Known]:
    """Individuals with these inputs, of the set that is named if one is."""
    refuse_unread(sets)
    recipe = sets.recipe or Recipe.plain(sets.input_names or ())
    encoded, own = recipe.encode(table, "an input"), sets.own_x
    within = tuple(g for g in groups if g in sets.origin.by) == sets.origin.by != ()
    keys = table.keys(sets.origin.by) if within else [()] * len(encoded.x)
    owner = np.repeat(np.arange(len(sets)), sets.sizes)[: len(own)]
    theirs = [sets.ids[a] if within else () for a in owner]
    rows_of = _grouped(zip(theirs, map(bytes, own + 0.0), strict=True))
    found = []
    for row, key in enumerate(zip(keys, map(bytes, encoded.x + 0.0), strict=True)):
        nobody = np.empty(0, int)
        rows = nobody if encoded.unknown[row].any() else rows_of.get(key, nobody)
        people = rows if sets.members is None else np.unique(sets.members[rows])
        if len(people) != 1:
            raise LabelError(
                f"the known table, row {row}: {len(people) or 'no'} individuals have these inputs"
                + ("; name them by their ids (id= of the sets)" if len(people) else "")
            )
        found.append(individual(sets, int(rows[0])))
    return found


def refuse_unread(sets: Sets) -> None:
    """Refuse sets whose individuals stay in their files."""
    if isinstance(sets, LazySets):
        raise LabelError(
            "the individuals of these sets stay in their files, and there only totals of the sets "
            "themselves can be known from the start; group the individuals in memory"
        )
