"""Copies of an SQLite file with studies: made while others write, checked, and put back safely."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from sumwise.errors import DataError, SettingError, StorageError, SumwiseError
from sumwise.study.storage import main_file, records, sqlite
from sumwise.study.storage.database import PATIENCE, Database
from sumwise.study.storage.schema import VERSION, files, studies, version
from sumwise.util.files import atomic_write, sync_folder

SERVER: Final = "is on a server; use what PostgreSQL has for this, pg_dump and pg_restore"


def backup(url: Any, copy: str | os.PathLike[str], *, overwrite: bool = False) -> list[str]:
    """Copy a database of one moment to a file; gives the names of its studies."""
    with closing(Database(url)) as database:
        path = _path_of(database)
        database.require(older=True)
        if os.path.realpath(copy) == path:
            raise SettingError(f"{path!r} is the database itself; name another file for the copy")
        with _in_words(database), _made(copy, overwrite) as partial:
            with database.read() as connection:
                _copy(connection.connection.driver_connection, partial)
            return check(partial, shown=os.fspath(copy))


def restore(url: Any, copy: str | os.PathLike[str]) -> tuple[str | None, list[str]]:
    """Put a copy in the place of a database.

    Returns the name under which the former file is kept, if there was one, and the studies.
    """
    with closing(Database(url)) as database:
        path, source = _path_of(database), os.path.realpath(copy)
    with closing(Database(source)) as given, _in_words(database):
        if source == path:
            raise SettingError(f"{path!r} is the database itself; name the copy of it")
        given.require(older=True)
        kept = _former_name(path) if os.path.exists(path) else None
        with _held(path) as (former, swap):
            with atomic_write(swap, overwrite=False, durable=True) as file:
                with given.read() as connection:
                    _copy(connection.connection.driver_connection, file.name)
                found = check(file.name, shown=source)
            try:
                if kept is not None:
                    _keep(path, kept, former)
                os.replace(swap, path)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(swap)
            for end in ("-shm", "-wal"):  # of the former file; in this order no one can misuse them
                with suppress(FileNotFoundError):
                    os.unlink(path + end)
            sync_folder(os.path.dirname(path))
    return kept, found


def check(path: str, shown: str) -> list[str]:
    """Refuse a file that SQLite or sumwise cannot read whole; gives the names of its studies."""
    with closing(Database(path)) as database, database.read() as connection:
        for pragma in ("integrity_check(1)", "foreign_key_check"):
            wrong = connection.exec_driver_sql(f"PRAGMA {pragma}").first()
            if wrong is not None and wrong[0] != "ok":
                raise DataError(f"{shown} is damaged ({wrong[0]:.60}); take another copy")
        for name, digest, content in connection.execute(
            sa.select(files.c.name, files.c.sha256, files.c.content)
        ):
            if not isinstance(content, bytes) or hashlib.sha256(content).hexdigest() != digest:
                raise DataError(f"{shown} is damaged (its {name!r}); take another copy")
        found = list(connection.execute(sa.select(studies.c.name).order_by(studies.c.id)).scalars())
        if connection.execute(sa.select(version.c.version_num)).scalar() == VERSION:
            for name in found:
                record = records.load(connection, name, database)
                records.snapshot(connection, record)
                records.history(connection, record)
    return found


def _path_of(database: Database) -> str:
    if database.path is None:
        raise SettingError(f"{database.shown} {SERVER}")
    return database.path


@contextmanager
def _made(copy: str | os.PathLike[str], overwrite: bool) -> Iterator[str]:
    """The name of an empty file that becomes the copy."""
    try:
        with atomic_write(copy, overwrite=overwrite, durable=True) as file:
            yield file.name
    except FileExistsError:
        raise SettingError(f"{copy} exists; name another file, or pass --force") from None


def _copy(source: Any, place: str) -> None:
    with closing(sqlite3.connect(place, isolation_level=None)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, which any reader can open
        main_file.mark_new(copy)


@contextmanager
def _held(path: str) -> Iterator[tuple[sqlite3.Connection | None, str]]:
    """The write lock of a database, if it is whole, and a name beside it for the new one."""
    swap, former = f"{path}-{os.urandom(6).hex()}.new", None
    try:
        if os.path.exists(path):
            with suppress(main_file.Foreign, sqlite3.DatabaseError, DataError):
                former = sqlite.connect(path, PATIENCE)
                former.execute("BEGIN IMMEDIATE")
                if former.seen is not None:
                    main_file.begin_write(former, former.seen)
        yield former if former is not None and former.in_transaction else None, swap
    finally:
        if former is not None:
            former.interrupt()  # what it knows is kept; nothing of it goes into the new file
            former.close()


def _keep(path: str, kept: str, former: sqlite3.Connection | None) -> None:
    """Keep what is in the place of a database: its state, or a file that cannot be read."""
    if former is not None:
        with closing(sqlite.connect(path, PATIENCE)) as now, atomic_write(kept) as file:
            _copy(now, file.name)
        return
    os.link(path, kept)
    with suppress(FileNotFoundError):
        os.rename(path + "-wal", kept + ".log")  # not a name that SQLite would use


def _former_name(path: str) -> str:
    place, at = Path(path), datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    return str(place.with_name(f"{place.stem}-before-{at}{place.suffix}"))


@contextmanager
def _in_words(database: Database) -> Iterator[None]:
    try:
        yield
    except SumwiseError:
        raise
    except (OSError, sqlite3.Error) as error:
        raise StorageError(
            f"{database.shown} could not be copied or restored ({error}); it is as it was"
        ) from None
