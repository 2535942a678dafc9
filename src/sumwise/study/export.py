"""A study as a folder of open formats, and back: study.json, two Parquet and four CSV files.

The folder is written under another name beside its place and renamed, so it is whole or not there.
Reading checks everything before a database is opened; only files of these names are looked at.
What can be worked out again, such as what a model has learned, is left out.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa

from sumwise.data.sets import Sets
from sumwise.errors import DataError, MissingExtraError, SettingError, StorageError, SumwiseError
from sumwise.model.fit import Prepared
from sumwise.model.serialize import pack_config
from sumwise.study import export_head, export_rows, export_tables
from sumwise.study.export_head import COUNTERS, NEVER_EDITED, STUDY, Head
from sumwise.study.export_rows import COLUMNS, Row, Rows
from sumwise.study.export_tables import BASIS, SETS
from sumwise.study.storage import records, transactions
from sumwise.study.storage.records import StudyRecord
from sumwise.study.storage.schema import answers, claims, events, skips, studies
from sumwise.util.files import sync_folder


@dataclass(frozen=True, slots=True, eq=False)
class Exported:
    """A study that was read from a folder."""

    head: Head
    sets: Sets
    prepared: Prepared
    rows: Rows


# --- from a database to a folder ------------------------------------------------------------------


def rows_of(connection: sa.Connection, kept: StudyRecord) -> tuple[Mapping[str, int], Rows]:
    """The study's counters, and everything that has happened."""

    def of(table: sa.Table, order: sa.Column[Any]) -> list[Row]:
        mine = sa.select(table).where(table.c.study_id == kept.id).order_by(order)
        return [dict(row) for row in connection.execute(mine).mappings()]

    state = records.state(connection, kept, lock=False)
    counters = {name: getattr(state, name) for name in COUNTERS}
    rows = Rows(
        of(answers, answers.c.arrival),
        of(claims, claims.c.number),
        of(skips, skips.c.position),
        of(events, events.c.id),
    )
    return counters, rows


def write(
    folder: Any, kept: StudyRecord, sets: Sets, counters: Mapping[str, int], rows: Rows
) -> Path:
    """The folder, which must not be there yet or be empty."""
    place = _free(folder)
    partial = place.parent / f".sumwise-{secrets.token_hex(8)}.part"
    try:
        partial.mkdir()
        with ExitStack() as stack:
            files = {
                name: stack.enter_context(open(partial / name, "x+b"))
                for name in (STUDY, SETS, BASIS, *COLUMNS)
            }
            export_tables.write_sets(files[SETS], sets)
            export_tables.write_basis(files[BASIS], kept.prepared)
            export_rows.write(files, rows, sets.ids)
            sha256 = {name: _digest(files[name]) for name in NEVER_EDITED}
            files[STUDY].write(export_head.described(kept, sets, counters, sha256))
            for file in files.values():
                file.flush()
                os.fsync(file.fileno())
        sync_folder(partial)
        os.rename(partial, place)  # over an empty folder, too, and over nothing else
        sync_folder(place.parent)
    except OSError as error:
        raise StorageError(
            f"the study cannot be exported to {place} ({error.strerror or error}); nothing was "
            "left there"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return place


def _free(folder: Any) -> Path:
    place = _path(folder)
    if os.path.isdir(place):
        try:
            filled = bool(os.listdir(place))
        except OSError as error:
            raise StorageError(f"{place} cannot be read ({error.strerror})") from error
        if filled:
            raise SettingError(f"{place} is not empty; name a folder that is not there yet")
    elif os.path.lexists(place):
        raise SettingError(f"{place} is not a folder; name one that is not there yet")
    elif not os.path.isdir(place.parent):
        raise SettingError(f"there is no folder {place.parent}; make it first")
    return place


def _path(folder: Any) -> Path:
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise SettingError(f"{folder!r:.60} is no folder; give a path")
    text = os.fsdecode(folder)
    if "\0" in text:
        raise SettingError(f"{text!r:.60} is no folder; a path has no character 0")
    return Path(os.path.realpath(text))


def _digest(file: IO[bytes]) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


# --- from a folder to a database ------------------------------------------------------------------


def read(folder: Any, name: Any = None) -> Exported:
    """The study that was exported to this folder, everything checked; with a name, under that."""
    place = _path(folder)
    named = None if name is None else export_head.visible(name)
    if not os.path.isdir(place):
        raise DataError(f"there is no folder {place}; name one that a study was exported to")
    try:
        found = _read(place)
    except MissingExtraError:
        raise
    except SumwiseError as error:
        raise DataError(f"{place} cannot be imported. {error}") from error
    except OSError as error:
        raise DataError(f"{place} cannot be read ({error.strerror or error})") from error
    return replace(found, head=replace(found.head, name=named or found.head.name))


def _read(place: Path) -> Exported:
    with _opened(place, STUDY) as file:
        head = export_head.understood(file.read())
    with _opened(place, SETS) as file:
        _compare(file, SETS, head)
        sets = export_tables.read_sets(file, head.inputs)
    export_head.check_aims(head, sets)
    with _opened(place, BASIS) as file:
        _compare(file, BASIS, head)
        prepared = export_tables.read_basis(file, head.config, sets)
    contents = {}
    for name in COLUMNS:
        with _opened(place, name) as file:
            contents[name] = file.read()
    rows = export_rows.read(contents, sets, head.counters["questions"], records.now())
    return Exported(head, sets, prepared, rows)


def _opened(place: Path, name: str) -> IO[bytes]:
    """A plain file: a link could lead anywhere, and a pipe would never end."""
    path = place / name
    try:
        plain = stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        raise DataError(f"There is no file {name} in it; export the study again.") from None
    if not plain:
        raise DataError(f"{name} is not a plain file; put the file itself there.")
    return open(path, "rb")


def _compare(file: IO[bytes], name: str, head: Head) -> None:
    if _digest(file) != head.sha256[name]:
        raise DataError(
            f"{name} is not what was exported: its checksum differs from that in {STUDY}. Answers "
            "mean nothing for other sets or another basis; export the study again."
        )


def insert(connection: sa.Connection, found: Exported, packed: Mapping[str, bytes]) -> None:
    """The study as it was."""
    head, rows, name = found.head, found.rows, found.head.name
    settings = pack_config(head.config)
    transactions.create(
        connection, name, packed, settings, head.strategy, head.seed, head.claim_days
    )
    mine = connection.execute(sa.select(studies.c.id).where(studies.c.name == name)).scalar_one()
    arrivals = max([head.counters["arrivals"], *(row["arrival"] + 1 for row in rows.answers)])
    counters = {**head.counters, "arrivals": arrivals}
    here = studies.update().where(studies.c.id == mine)
    connection.execute(here.values(created=head.created, **counters))
    connection.execute(events.delete().where(events.c.study_id == mine))  # history has its own
    tables: Sequence[tuple[sa.Table, Sequence[Row]]] = (
        (answers, rows.answers),
        (claims, rows.claims),
        (skips, rows.skips),
        (events, rows.history),
    )
    for table, many in tables:
        if many:
            connection.execute(table.insert(), [{"study_id": mine, **row} for row in many])
