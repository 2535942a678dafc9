"""Bring a study up to date with its Parquet files: one transaction, after everything is written.

The design grows beside the one that the study has (`outofcore.grow`), under another manifest. Until
the transaction has ended, every program sees the pool as it was; a program that is killed leaves
files that nothing names. The basis stays as it was drawn, unlike in `pool_change`, because rows
that did not change are embedded with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from sumwise.errors import DataError, SettingError, StorageError
from sumwise.outofcore import grow
from sumwise.outofcore.build import alone, in_threads
from sumwise.outofcore.design_store import Embedded, opened, rows_of
from sumwise.outofcore.reread import Reread, reread
from sumwise.study.pool_change import ATTEMPTS, refuse_claimed, with_new_sets
from sumwise.study.state import StudyState
from sumwise.study.storage import blobs, records
from sumwise.study.storage.records import Snapshot
from sumwise.study.storage.transactions import transaction

NOTHING: Final = "no file has changed"
GENERATIONS: Final = 2  # designs that a study keeps of those that it has made


def refresh(
    state: StudyState,
    files: Any,
    of_new_sets: Mapping[str, float | None],
    by: str | None,
    note: str | None,
    run: Any,
) -> str:
    """Take the files as they are now; gives what has changed, in words.

    Args:
        files: Where to look for them; where they were found if left out.
    """
    record = state.record
    made = record.embedded
    if made is None:
        raise SettingError(
            "the individuals of this study are stored in it, and not read from Parquet files; "
            "change its pool with change_pool (sumwise pool add, drop and correct)"
        )
    now = grow.rescan(made, files)
    with alone(made.folder):
        read = reread(made.folder, made.manifest, made.scan, now, run or in_threads)
        if read is None:
            return NOTHING
        for _ in range(ATTEMPTS):
            said = _attempt(state, made, read, of_new_sets, by, note)
            if said is not None:
                return said
    raise StorageError(
        f"study {record.name!r} is being changed all the time, so its pool was not changed. Try "
        "again when fewer people use it."
    )


def _attempt(
    state: StudyState,
    made: Embedded,
    read: Reread,
    of_new_sets: Mapping[str, float | None],
    by: str | None,
    note: str | None,
) -> str | None:
    """Write the design and switch to it; None if the study has changed meanwhile."""
    record, seen = state.record, state.snapshot()
    placed = _placed(state, made, read, seen)
    new = [read.read.names[key[0]] for key in placed.keys if not isinstance(key, int)]
    names = [name[0] if len(name) == 1 else name for name in new]
    aims = with_new_sets(record.aims, len(record.sets), placed.came_from, names, of_new_sets)
    number = grow.next_number(made.folder)
    name = grow.write_all_of(made, read, placed, number)
    with state.database.read() as connection:
        former = record.blobs.made_designs(connection)
    ours = [*former, name]
    packed = blobs.pack_embedded(
        opened(made.folder, name, check=False), state.database.folder, ours
    )
    del packed["basis"]  # which is the same
    packed["pool"] = placed.mark.to_json().encode()
    if aims:
        packed["aims"] = blobs.pack_aims(aims)
    said = grow.words(read, placed, record.about.word)
    with transaction(state.database, record) as changing:
        whole = said if note is None else f"{said}: {note}"
        if not changing.change_pool(seen, packed, placed.emptied, 0, by, whole):
            return None
    with suppress(DataError, OSError):  # they take room, and no more
        grow.forget(made.folder, ours[:-GENERATIONS])
    return said


def _placed(state: StudyState, made: Embedded, read: Reread, seen: Snapshot) -> grow.Placed:
    record = state.record
    answered = {answer.position for answer in seen.answers}
    rows = rows_of(made.folder, made.manifest)
    today = records.now()[:10]
    placed = grow.placed(read, made.manifest, rows, answered, record.pool, today)
    refuse_claimed(seen, placed.emptied)
    return placed
