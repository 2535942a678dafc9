"""Connections to an SQLite file, and what to do where a file may only be read.

A study's file is in WAL mode, which SQLite reads with two more files beside it. A user without
write permission would leave these two behind, and the owner could not write to them: a reader would
lock out the owner. So a file at rest that may only be read is read as it is (`immutable`), without
any lock, and refused afterwards if it has changed meanwhile.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sumwise.errors import StorageError
from sumwise.study.storage import main_file
from sumwise.study.storage.schema import VERSION_TABLE

if TYPE_CHECKING:
    import sqlalchemy as sa

OURS: Final = "SELECT 1 FROM sqlite_master WHERE name = ?"


class Connection(sqlite3.Connection):
    """A connection that knows what it has seen of its file."""

    seen: main_file.Seen | None = None  # of a file with studies that others may write to
    frozen = False  # whether the file is read as it is, without any lock


def connect(path: str, patience: float) -> Connection:
    """A connection that waits up to `patience` seconds for other writers."""
    frozen = at_rest(path)
    _check_recoverable(path)
    try:
        return _connected(path, patience, frozen=frozen)
    except sqlite3.OperationalError as error:
        full = re.search("disk is full|disk i/o", str(error).lower())
        if frozen or not full or _logged(path):
            raise
        return _connected(path, patience, frozen=True)  # what is at rest needs no room to be read


def _connected(path: str, patience: float, *, frozen: bool) -> Connection:
    connection = sqlite3.connect(
        f"{Path(path).as_uri()}?mode=ro&immutable=1" if frozen else path,
        uri=frozen,
        timeout=patience,
        isolation_level=None,
        check_same_thread=False,
        factory=Connection,
    )
    try:
        connection.frozen = frozen
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # `main_file.checkpoint` does it
        connection.execute("PRAGMA journal_size_limit = 0")  # the log's size says how much it holds
        if not frozen and not only_readable(path):
            _settle(connection, patience)
        _check_whole(connection, path)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        if connection.execute(OURS, (VERSION_TABLE,)).fetchone():
            if not frozen and os.path.exists(path + "-wal"):
                connection.seen = main_file.watch(connection, path)
            else:
                main_file.refuse_programs(connection, path)
    except BaseException:
        connection.interrupt()  # no checkpoint of what was not checked
        connection.close()
        raise
    return connection


def _logged(path: str) -> bool:
    """Whether something of a file is in its log still."""
    ends = [path + end for end in ("-wal", "-journal")]
    return any(os.path.exists(end) and os.path.getsize(end) for end in ends)


def _settle(connection: sqlite3.Connection, patience: float) -> None:
    """Switch a file with studies to WAL mode; any other file is left as it is."""
    deadline = time.monotonic() + patience
    while True:
        try:  # the one statement that does not wait for other writers by itself
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal" and connection.execute(OURS, (VERSION_TABLE,)).fetchone():
                connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _check_whole(connection: sqlite3.Connection, path: str) -> None:
    """Refuse a file that was cut off inside its last page: SQLite would read zeros there.

    The file itself is not opened here: closing it would release SQLite's locks on it.
    """
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    if os.path.getsize(path) % min(page, 4096):
        raise sqlite3.DatabaseError("malformed: its end is missing")


def read_blob(connection: sa.Connection, table: str, column: str, row: int) -> bytes | None:
    """A large value, copied once instead of twice; None if it is neither text nor bytes."""
    raw = connection.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection)
    try:
        with raw.blobopen(table, column, row, readonly=True) as blob:
            return blob.read()
    except sqlite3.OperationalError as error:
        if "value of type" not in str(error):
            raise
        return None


def only_readable(path: str) -> bool:
    """Whether this process may not write to the file, or may not create files beside it."""
    folder = os.path.dirname(path)
    return os.path.exists(path) and not (os.access(path, os.W_OK) and os.access(folder, os.W_OK))


def at_rest(path: str) -> bool:
    """Whether a file may only be read, and no process is writing to it."""
    busy = any(os.path.exists(path + end) for end in ("-wal", "-journal"))
    return not busy and only_readable(path)


def identity(path: str) -> tuple[int, int] | None:
    """Which file a path leads to."""
    try:
        about = os.stat(path)
    except FileNotFoundError:
        return None
    return about.st_dev, about.st_ino


def stamp(path: str) -> tuple[int, ...] | None:
    """What changes when the file does; None if there is none."""
    try:
        about = os.stat(path)
    except FileNotFoundError:
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino


def _check_recoverable(path: str) -> None:
    """Refuse a file that was not closed where SQLite cannot recover it."""
    left = os.path.exists(path + "-wal") and not os.path.exists(path + "-shm")
    if left and not os.access(os.path.dirname(path), os.W_OK):
        raise StorageError(
            f"{path!r} was not closed, and SQLite cannot read it with its file {path + '-wal'!r} "
            "where it may not write. Copy both to a folder of yours and open the copy."
        )
