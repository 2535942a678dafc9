"""Notice that an SQLite file was changed by another program, such as `cp` over an open study.

In WAL mode SQLite writes to the main file during checkpoints only; a file that was copied over it
and the pages in `-wal` would be mixed at the next one. So checkpoints are ours, and are announced.
Two numbers in the file's header say which file it is, as SQLite sees it through `-wal` and as it
is on the disk:

    application_id   random, another one in every copy that `sumwise storage backup` makes
    user_version     2c: checkpoint c is done;  2c + 1: checkpoint c + 1 was announced

The disk may be behind by the last announcement, and by nothing else. Each write puts the header
into `-wal`, so that a log never lacks it. While a process holds the write lock no checkpoint runs;
then time and size of the file are those of before, or one was announced since.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from sumwise.errors import DataError, StorageError

LOG_BYTES: Final = 4 << 20  # of `-wal` between checkpoints, as SQLite has it
MOST: Final = 2**31 - 1  # that a header's number can be


class Header(NamedTuple):
    """What the head of a file says."""

    file: int  # application_id; 0 if no one has marked the file yet
    version: int
    schema: int  # rises with every change of the tables


@dataclass(slots=True)
class Seen:
    """What one connection knows of its file."""

    path: str
    log: tuple[int, int] | None  # which file `-wal` is
    header: Header  # when the write lock was held last, or when the file was opened
    written: Header | None = None  # by the last write
    held: tuple[int, int] | None = None  # time and size of the main file then
    read: tuple[int, int] | None = None  # the same when the head was compared last
    size: int = 0  # of `-wal` before a write


class Foreign(StorageError):
    """The file was changed by another program."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path!r} was changed by another program while it was in use, for example by copying "
            "a file over it. Nothing was stored. Close it everywhere (the page, notebooks), and "
            f"put a copy in place with: sumwise storage restore {path} COPY"
        )


def watch(connection: sqlite3.Connection, path: str) -> Seen:
    """Begin to watch the file of a new connection; refuses a log that belongs to another file."""
    refuse_programs(connection, path)
    about = os.stat(path + "-wal")
    seen = Seen(path, (about.st_dev, about.st_ino), _header(connection))
    connection.execute("BEGIN")
    try:
        check_read(connection, seen)
    finally:
        connection.execute("ROLLBACK")
    return seen


def refuse_programs(connection: sqlite3.Connection, path: str) -> None:
    """Refuse triggers and views: SQLite would run what they say with what is told."""
    found = "SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view')"
    for kind, name in connection.execute(found):
        raise DataError(
            f"{path!r} has a {kind} {name!r:.60}, which sumwise has not made and which could "
            f"change what is stored. Remove it (DROP {kind.upper()} in SQLite), or restore a copy."
        )


def check_read(connection: sqlite3.Connection, seen: Seen) -> None:
    """Refuse a file that does not belong to its log, within a transaction that reads."""
    now, before = _stat(seen), seen.header
    if now != seen.read:
        _compared(connection, seen)
        if _went_back(before, _header(connection)):
            raise Foreign(seen.path)
        seen.read = now


def begin_write(connection: sqlite3.Connection, seen: Seen) -> Header:
    """Check the file while the write lock is held; gives the head as it will be."""
    header, now = _header(connection), _stat(seen)
    if header.schema != seen.header.schema:
        refuse_programs(connection, seen.path)
    if now != seen.held or header.file != seen.header.file:
        disk, before = _compared(connection, seen), seen.header
        if seen.held is not None and before.file:
            unannounced = header.version == before.version and before.version % 2 == 0
            if unannounced or _went_back(before, header):
                raise Foreign(seen.path)
        seen.header, seen.held, seen.read = header, now, now
        if not header.file:
            header = header._replace(file=1 + secrets.randbelow(MOST), version=1)
        elif header.version % 2 and disk[:2] == header[:2]:
            header = header._replace(version=header.version + 1)
    connection.execute(f"PRAGMA application_id = {header.file}")  # puts the head into the log
    connection.execute(f"PRAGMA user_version = {header.version}")
    return header


def end_write(seen: Seen) -> None:
    """Refuse to commit if the file was changed during the transaction."""
    if _stat(seen) != seen.held:
        raise Foreign(seen.path)
    seen.size = os.stat(seen.path + "-wal").st_size


def after_write(connection: sqlite3.Connection, seen: Seen) -> None:
    """Refuse to acknowledge what is in a log that does not belong to the file any more."""
    seen.header = seen.written or seen.header
    if _stat(seen) == seen.held:
        return
    connection.execute("BEGIN")
    try:
        check_read(connection, seen)
    finally:
        connection.execute("ROLLBACK")


def is_long(seen: Seen) -> bool:
    """Whether the last write has filled another part of the log."""
    try:
        after = os.stat(seen.path + "-wal").st_size
    except OSError:
        return False
    return after // LOG_BYTES > seen.size // LOG_BYTES


def checkpoint(connection: sqlite3.Connection, other: sqlite3.Connection, seen: Seen) -> None:
    """Move the log into the main file; no one writes meanwhile."""
    for announced in (False, True):
        connection.execute("BEGIN IMMEDIATE")
        try:
            header = begin_write(connection, seen)
            if announced and header.version % 2:  # and not done by another process meanwhile
                other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            if not announced:
                header = header._replace(version=header.version | 1)
                connection.execute(f"PRAGMA user_version = {header.version}")
                connection.execute("COMMIT")
                seen.header = header
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def close_safely(connection: sqlite3.Connection, seen: Seen, *, ours: bool) -> None:
    """Before a connection is closed: keep SQLite from mixing its log into a foreign file.

    Args:
        ours: Whether this process has opened it, and not the one that it was forked from.
    """
    if not ours:
        connection.interrupt()
        return
    try:
        connection.execute("BEGIN")
        try:
            seen.read = None
            check_read(connection, seen)
        finally:
            connection.execute("ROLLBACK")
    except (StorageError, sqlite3.Error, OSError):
        connection.interrupt()  # which ends the checkpoint of `close` before it has begun


def mark_new(connection: sqlite3.Connection) -> None:
    """Mark a file as one of its own."""
    connection.execute(f"PRAGMA application_id = {1 + secrets.randbelow(MOST)}")
    connection.execute("PRAGMA user_version = 2")


def on_disk(path: str) -> Header | None:
    """The head of the main file itself; None if it is no database, or being written."""
    try:  # by SQLite: closing a file of our own would release SQLite's locks on it
        address = f"{Path(path).as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.execute(
                "PRAGMA writable_schema = ON"
            )  # which reads files that are too short
            return _header(connection)
    except sqlite3.Error:
        return None


def _header(connection: sqlite3.Connection) -> Header:
    names = ("application_id", "user_version", "schema_version")
    return Header(*(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names))


def _compared(connection: sqlite3.Connection, seen: Seen) -> Header:
    """The head on the disk, which must be one that belongs to the log."""
    known, disk = _header(connection), on_disk(seen.path)
    first = known.version <= 1 and disk is not None and disk.file == 0  # not yet marked on the disk
    if disk is None or disk.schema > known.schema:
        raise Foreign(seen.path)
    behind = known.version - disk.version
    if not first and (disk.file != known.file or not 0 <= behind <= 1 + known.version % 2):
        raise Foreign(seen.path)
    return disk


def _went_back(before: Header, now: Header) -> bool:
    """Whether a file is not the one that it was, or an older state of it."""
    return before.file != 0 and (now.file != before.file or now.version < before.version)


def _stat(seen: Seen) -> tuple[int, int]:
    """Time and size of the main file; refuses a log that was removed or replaced."""
    try:
        log, about = os.stat(seen.path + "-wal"), os.stat(seen.path)
    except FileNotFoundError:
        if not os.path.exists(seen.path):
            return -1, -1  # which `Database` names
        raise Foreign(seen.path) from None
    if (log.st_dev, log.st_ino) != seen.log:
        raise Foreign(seen.path)
    return about.st_mtime_ns, about.st_size
