"""Change the pool of a study: one transaction, before which everything is worked out.

The basis is drawn anew from the changed pool with the study's seed, so the study becomes what it
would be if it had begun with this pool and had the same answers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from sumwise.acquisition.objective import Objective
from sumwise.data import validate
from sumwise.data.frames import Table, as_frame
from sumwise.data.geo import Geometry, from_geoparquet
from sumwise.data.pool_edits import Edited, edit
from sumwise.data.pool_tables import Columns, inputs_of
from sumwise.data.sets import LazySets, Sets
from sumwise.errors import InvalidSetError, SettingError, StorageError
from sumwise.model.generalised.refusals import check_sets
from sumwise.study.state import StudyState
from sumwise.study.storage import blobs, records
from sumwise.study.storage.records import Snapshot
from sumwise.study.storage.transactions import transaction
from sumwise.util.text import shown

ATTEMPTS: Final = 5  # while others keep changing the study
NEW_SETS: Final = {  # what is known of each set, by the name of the option
    "cost": "what measuring it costs",
    "noise_std": "the noise that measuring it will have",
}


def read_tables(frames: Mapping[str, Any]) -> dict[str, Table]:
    """Data frames by kind of change as tables; those that are None are left out."""
    tables = {}
    for kind, given in frames.items():
        if given is None:
            continue
        frame = given.frame if isinstance(given, Table) else as_frame(given)
        if frame is None:
            raise InvalidSetError(
                f"{kind} is {type(given).__name__}; give a pandas, polars or Arrow table with a "
                "row for each individual"
            )
        if not len(frame):
            raise InvalidSetError(f"{kind} has no rows; leave it out")
        known = isinstance(given, Table)
        tables[kind] = given if known else Table(frame, kind, f"{kind}, row {{}}".format)
    if not tables:
        raise SettingError("there is nothing to change; give add, drop or correct")
    return tables


def change(
    state: StudyState,
    tables: Mapping[str, Table],
    columns: Columns,
    of_new_sets: Mapping[str, float | None],
    by: str | None,
    note: str | None,
) -> str:
    """Change the pool by these tables; gives what was changed, in words."""
    record = state.record
    if record.embedded is not None:
        raise SettingError(
            "the individuals of this study stay in their own Parquet files. Change the files, and "
            "then bring the study up to date with them: refresh_pool in Python, sumwise pool "
            "refresh in the shell."
        )
    if record.designing is not None:
        raise SettingError(
            "this study designs its sets, and its individuals cannot change. To set one aside, "
            "skip it; for others, begin another study, and tell it the present totals."
        )
    whole = record.sets.whole if isinstance(record.sets, LazySets) else record.sets
    for _ in range(ATTEMPTS):
        seen = state.snapshot()
        answered = {answer.position for answer in seen.answers}
        today = records.now()[:10]
        made = edit(whole, record.pool, answered, tables, columns, today, record.about.word)
        refuse_claimed(seen, made.emptied)
        refuse_overlap(record.about.outputs, made.sets)
        aims = _aims(state, made, of_new_sets)
        prepared = record.prepared.drawn_for(made.mark.asked(made.sets))
        beside = _sets_file(state, made.mark.changes)
        packed = blobs.pack(made.sets, prepared, beside, state.database.folder, made.mark)
        if aims:
            packed["aims"] = blobs.pack_aims(aims)
        if (shapes := _geometry(state, made, tables)) is not None:
            packed["geometry"] = blobs.pack_geometry(shapes)
        said = made.words if note is None else f"{made.words}: {note}"
        with transaction(state.database, record) as changing:
            if changing.change_pool(seen, packed, made.emptied, len(made.came_from), by, said):
                if beside is not None:
                    blobs.write_file(made.sets, beside)
                return made.words
    raise StorageError(
        f"study {record.name!r} is being changed all the time, so its pool was not changed. Try "
        "again when fewer people use it."
    )


def refuse_overlap(outputs: str, sets: Sets) -> None:
    """Refuse a measured set that goes on beside itself with other members, and odd exposures."""
    if outputs != "numbers" and sets.members is not None:
        raise SettingError(
            "a measured set would get other members, and its totals would overlap, which does not "
            f"work for {outputs}. Retract its answer first. You may tell it again for the members "
            "who were counted (of)."
        )
    check_sets(outputs, sets)


def refuse_claimed(seen: Snapshot, emptied: Sequence[int]) -> None:
    """Refuse that a set which is being measured loses all members."""
    for claim in seen.claims:
        if claim.position in emptied:
            holder = "an unnamed user" if claim.by is None else repr(claim.by)
            raise SettingError(
                f"set {shown(claim.set_id)!r} would lose its last member, and {holder} is "
                "measuring it. Release it first, or wait for its answer."
            )


def _aims(state: StudyState, made: Edited, given: Mapping[str, float | None]) -> Objective:
    """What the study is for, with costs and known noise of new sets, and targets recast."""
    first, n = state.record.sets.n_asked, len(made.came_from)
    new = [made.sets.ids[first + i] for i in range(n) if made.came_from[i] is None]
    aims = with_new_sets(state.record.aims, first, made.came_from, new, given)
    if aims.targets is not None:
        former, now = inputs_of(state.record.sets), inputs_of(made.sets)
        recast = now.recast(former, aims.targets.x)
        aims = replace(aims, targets=replace(aims.targets, x=recast))
    return aims


def with_new_sets(
    aims: Objective,
    first: int,
    came_from: Sequence[int | None],
    new: Sequence[Any],
    given: Mapping[str, float | None],
) -> Objective:
    """Costs and known noise with those of new sets; sets that go on keep theirs.

    Args:
        first: Position of the first that is inserted.
        came_from: The former positions of these, None for each new set.
        new: Ids of new sets.
        given: What was said of new sets, by name.
    """
    found: dict[str, Any] = {}
    for name, what in NEW_SETS.items():
        values, value = getattr(aims, name), given.get(name)
        if values is None:
            if value is not None:
                raise SettingError(f"the sets of this study have no {name}; leave it out")
            continue
        if new and value is None:
            raise SettingError(
                f"set {shown(new[0])!r:.80} is new, and the study has for each set "
                f"{what}; give {name} (--{name.replace('_', '-')} in the shell) for new sets"
            )
        if value is not None:
            value = validate.amount(value, name, "the study", or_zero=name == "noise_std")
        more = [value if at is None else values[at] for at in came_from]
        found[name] = np.insert(values, first, np.array(more, dtype=float))
    return replace(aims, **found)


def _geometry(state: StudyState, made: Edited, tables: Mapping[str, Table]) -> Geometry | None:
    """Geometries of the rows as they are now, where the study has any.

    Those who join bring theirs, or have none.
    """
    with state.database.read() as connection:
        packed = state.record.blobs.geometry(connection)
    if packed is None:
        return None
    if "correct" in tables and tables["correct"].geometry is not None:
        raise SettingError(
            f"{tables['correct'].name} has geometries, which cannot be corrected in a study; "
            "leave that column out"
        )
    known, new = from_geoparquet(packed)[0], tables.get("add")
    joined: Sequence[bytes | None] = [] if new is None else [None] * len(new.frame)
    if new is not None and new.geometry is not None:
        if new.geometry.about.get("crs") != known.about.get("crs"):
            raise SettingError(
                f"geometries of {new.name} have another coordinate system than those of the study; "
                "convert them to that"
            )
        joined = new.geometry.wkb
    again = [None] * (int(state.record.sets.starts[-1]) - len(known.wkb))  # in known areas
    wkb = [*known.wkb, *again, *joined]
    rows = made.rows[: len(made.sets.own_x)].tolist()
    return Geometry([wkb[row] for row in rows], known.about)


def _sets_file(state: StudyState, changes: int) -> str | None:
    """Another file for the sets beside the one they are in now, if they are in one."""
    record = state.record
    if "sets_file" not in record.blobs.names:
        return None
    with state.database.read() as connection:
        stem, ending = os.path.splitext(record.blobs.sets_path(connection))
    stem = re.sub(r"-[0-9]+$", "", stem) if changes > 1 else stem
    while os.path.lexists(f"{stem}-{changes}{ending}"):  # of a program that was killed
        changes += 1
    return f"{stem}-{changes}{ending}"
