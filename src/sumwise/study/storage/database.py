"""A database of studies: a path is an SQLite file, `postgresql://…` a server.

SQLite runs in WAL mode with synchronous=FULL, so a committed transaction survives `kill -9` and
loss of power, and readers never wait. A write begins with BEGIN IMMEDIATE: it takes the one write
lock before it has read anything, so it waits its turn instead of failing half-way. Errors of a
database become a `StorageError` or `DataError` here.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from sumwise.errors import DataError, StorageError, SumwiseError, needs_extra
from sumwise.study.storage import main_file, network, sqlite
from sumwise.study.storage.schema import VERSION, VERSION_TABLE, metadata, version

PATIENCE: Final = 60.0  # seconds to wait for other writers
_VERSIONS: Final = sa.select(version.c.version_num)
_CREATING: Final = 0x73756D77697365  # "sumwise": an advisory lock, so that tables are created once
Connection = sa.Connection  # for modules that only pass one on
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_DAMAGED: Final = (
    "{} is not an SQLite database, or is damaged ({}). Give the path of a study, or restore it "
    "from a copy."
)
_REFUSALS: Final = {  # by PostgreSQL's code and an error's own words in lower case; the first holds
    "^lost": "the connection to {} was lost ({}). What was being written is stored whole or not at "
    "all: look at the study before you try again.",
    "not a database|malformed|file is encrypted": _DAMAGED,
    "connection failed|timeout expired": "{} cannot be reached ({}). Nothing was changed; check "
    "the URL, and whether the server is running.",
    "read-only transaction": "{} may only be read ({}). Nothing was changed; write to the server "
    "that this one follows, or promote this one.",
    "readonly|read-only|permission denied": "{} cannot be written ({}). Nothing was changed; check "
    "the permissions of the file and its folder.",
    "disk is full|no space|disk i/o error|^53100": "{} could not be written ({}). Nothing of this "
    "was stored, and everything that was stored before is intact; make room and try again.",
    "unable to open": "{} cannot be opened ({}); check that it is a file, and the permissions of "
    "it and its folder",
}


class Database:
    """Connections to one database; safe to use from several threads, and after a fork."""

    def __init__(self, url: Any, patience: float = PATIENCE) -> None:
        self.path, self._url = _parse(url)
        self.shown = repr(self.path) if self._url is None else _masked(self._url)
        self._patience = patience
        self._engine: sa.Engine | None = None
        self._process = 0
        self._turn = threading.Lock()
        self._foreign: main_file.Foreign | None = None
        self._file: tuple[int, int] | None = None  # the open file, whatever its path leads to later

    @property
    def folder(self) -> str | None:
        """The folder of an SQLite file."""
        return None if self.path is None else os.path.dirname(self.path)

    def close(self) -> None:
        if self._engine is not None and self._process == os.getpid():
            self._engine.dispose()
        self._engine = self._foreign = None

    @property
    def engine(self) -> sa.Engine:
        if self._engine is None or self._process != os.getpid():  # a fork shares no connection
            self._engine, self._process = self._connect(), os.getpid()
            weakref.finalize(self, self._engine.dispose)
        return self._engine

    def _connect(self) -> sa.Engine:
        if self._url is not None:
            return _postgres(self._url, self._patience)
        path, patience = self.path, self._patience
        assert path is not None
        network.warn(path)
        if not sqlite.only_readable(path):
            network.refuse_without_locks(path)

        def connect() -> sqlite3.Connection:
            connection = sqlite.connect(path, patience)
            self._file = self._file or sqlite.identity(path)
            return connection

        pool = sa.NullPool if sqlite.only_readable(path) else sa.QueuePool
        engine = sa.create_engine("sqlite://", creator=connect, poolclass=pool)
        sa.event.listen(engine, "begin", _begin)
        sa.event.listen(engine, "close", _before_close(os.getpid()))
        return engine

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A consistent view of the database."""
        isolation: Any = {} if self._url is None else {"isolation_level": "REPEATABLE READ"}
        before = None if self.path is None else sqlite.stamp(self.path)
        with self._refusals(), self.engine.connect() as connection:
            frozen = _is_frozen(connection)
            connection = connection.execution_options(**isolation)
            try:
                with connection.begin(), _watched(connection):
                    yield connection
            finally:
                if frozen:  # it would never see that the file has changed
                    connection.invalidate()
        if frozen and self.path is not None and before != sqlite.stamp(self.path):
            raise StorageError(f"{self.shown} was changed while it was being read; try again")

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction; durable once the block has ended, undone if it raises."""
        with self._own_turn(), self._refusals(), self.engine.connect() as connection:
            if _is_frozen(connection) and not sqlite.only_readable(str(self.path)):
                connection.invalidate()  # the next one may find room
                raise sqlite3.OperationalError("database or disk is full")
            connection = connection.execution_options(sumwise_writes=True)
            with connection.begin(), _watched(connection, writes=True):
                yield connection
            self._check_file()  # or the write went to a file that is gone
            raw, seen = _seen_by(connection)
            if raw is not None and seen is not None:
                main_file.after_write(raw, seen)
        if seen is not None and main_file.is_long(seen):
            self._checkpoint()

    def _checkpoint(self) -> None:
        """Move SQLite's log into the file. What it holds is stored already, so failing is fine."""
        failures = SumwiseError, exc.SQLAlchemyError, sqlite3.Error
        connect = self.engine.connect
        with suppress(*failures), self._own_turn(), connect() as connection, connect() as other:
            (raw, seen), (second, _) = _seen_by(connection), _seen_by(other)
            if raw is not None and second is not None and seen is not None:
                main_file.checkpoint(raw, second, seen)

    @contextmanager
    def _own_turn(self) -> Iterator[None]:
        """Threads of one process take turns here: SQLite would have them sleep and try again."""
        if self._process not in (0, os.getpid()):
            self._turn = threading.Lock()  # after a fork, no thread here can release the other
        turn = self._turn
        if not turn.acquire(timeout=self._patience):
            raise self._busy()
        try:
            yield
        finally:
            turn.release()

    def _check_file(self) -> None:
        """Refuse a path that leads to another file now: it would get pages of the open one."""
        if self.path is None or self._file in (None, sqlite.identity(self.path)):
            return
        raise StorageError(
            f"{self.shown} was removed or replaced by another file since it was opened. Nothing "
            "was stored; close the study and open it again."
        )

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        self._check_file()
        try:
            if self._foreign is not None:
                raise self._foreign.with_traceback(None)
            yield
        except main_file.Foreign as foreign:  # until it is opened again
            self._check_file()
            self._foreign = foreign
            raise
        except exc.DBAPIError as error:
            raise self._in_words(error.orig, lost=error.connection_invalidated) from None
        except sqlite3.Error as error:
            raise self._in_words(error) from None
        except exc.TimeoutError:
            raise self._busy() from None

    def _busy(self) -> StorageError:
        return StorageError(
            f"the database {self.shown} was in use by others for {self._patience:.0f} seconds. "
            "Nothing was changed; try again."
        )

    def _in_words(self, error: Any, lost: bool = False) -> SumwiseError:
        text = " ".join(str(error).split())
        for secret in _secrets(self._url):
            text = text.replace(secret, "***")
        code = "lost" if lost else getattr(error, "sqlstate", None)
        told = f"{code} {text}".lower()
        if code == "55P03" or (self._url is None and re.search("locked|busy", told)):
            return self._busy()
        found = [words for sign, words in _REFUSALS.items() if re.search(sign, told)]
        words = next(iter(found), "the database {} refused: {}")
        kind = DataError if words is _DAMAGED else StorageError
        return kind(words.format(self.shown, text))

    # --- versions -----------------------------------------------------------------------------

    def require(self, *, older: bool = False) -> None:
        """Refuse a database without studies, or with another schema unless `older` ones will do."""
        begin = "begin a study with create_study or sumwise init"
        if self.path is not None and not os.path.exists(self.path):
            raise DataError(f"there is no file {self.shown}; check the path, or {begin}")
        with self.read() as connection:
            if not has_studies(connection):
                raise DataError(f"{self.shown} holds no studies; {begin}")
            self.check_version(connection, older=older)

    def check_version(self, connection: sa.Connection, *, older: bool = False) -> None:
        """Refuse another schema than the present one, or only a newer one if `older` will do."""
        found = connection.execute(_VERSIONS).scalars().all()
        made_by = found[0] if len(found) == 1 and isinstance(found[0], str) else "?"
        if made_by > VERSION:
            raise DataError(
                f"{self.shown} was made by a newer sumwise (schema {made_by}, here {VERSION}). "
                "Update it: pip install --upgrade sumwise"
            )
        if made_by != VERSION and not older:
            raise DataError(
                f"{self.shown} was made by an older sumwise (schema {made_by}, now {VERSION}). "
                f"Make a copy, then run: sumwise storage upgrade {self.path or 'URL'}"
            )

    def ensure(self) -> None:
        """Create the tables if they are not there yet."""
        if self.folder is not None and not os.path.isdir(self.folder):
            raise DataError(f"there is no folder {self.folder!r}; make it first")
        with self.write() as connection:
            if self._url is not None:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATING)))
            tables = sa.inspect(connection).get_table_names()
            if VERSION_TABLE in tables:
                self.check_version(connection)
            elif tables and self.path is not None:
                raise DataError(
                    f"{self.shown} is a database of something else (it has a table {tables[0]!r}); "
                    "give another path"
                )
            else:
                metadata.create_all(connection)
                raw, _ = _seen_by(connection)
                if raw is not None:
                    main_file.mark_new(raw)
                connection.execute(version.insert().values(version_num=VERSION))
        self.close()  # the next connection finds the tables and switches to WAL mode


def has_studies(connection: sa.Connection) -> bool:
    """Whether the tables of studies are there, of whatever version."""
    return bool(sa.inspect(connection).has_table(VERSION_TABLE))


def upgrade(url: Any) -> None:
    """Bring the database of an older sumwise to the present schema."""
    from sumwise.study.storage.migrations import migrate

    with closing(Database(url)) as database:
        database.require(older=True)
        with database.write() as connection:
            migrate(connection)


# --- connecting -----------------------------------------------------------------------------------


def _parse(url: Any) -> tuple[str | None, sa.URL | None]:
    """The path of an SQLite file, or the URL of a server."""
    if not isinstance(url, str | os.PathLike):
        raise DataError(f"{type(url).__name__} cannot hold a study; give a path or a URL")
    text = os.fsdecode(url)
    scheme = _SCHEME.match(text) if isinstance(url, str) else None
    if scheme is None or scheme[1].lower() == "sqlite":
        path = text if scheme is None else text[scheme.end() :].removeprefix("/")
        if not path or path == ":memory:" or "\0" in path:
            raise DataError(f"{path!r} cannot hold a study; give a path")
        if os.path.isdir(path):
            raise DataError(f"{path!r} is a folder; give the path of a file in it")
        return os.path.realpath(path), None  # SQLite's own files lie beside what a link leads to
    if scheme[1].lower() not in ("postgresql", "postgres", "postgresql+psycopg"):
        other = "give a path, or postgresql://user@host/database"
        raise DataError(f"{scheme[1]}:// cannot hold a study; {other}")
    try:
        return None, sa.make_url("postgresql+psycopg" + text[scheme.end(1) :])
    except (exc.ArgumentError, ValueError):
        form = "postgresql://user@host:port/database, and %-escape special characters"
        raise DataError(f"this postgresql:// URL cannot be read; write {form}") from None


def _secrets(url: sa.URL | None) -> list[str]:
    if url is None:
        return []
    given = [value for name, value in url.query.items() if "password" in name.lower()]
    return [text for text in (url.password, *given) if isinstance(text, str) and text]


def _masked(url: sa.URL) -> str:
    """The URL without its secrets."""
    secret = {name: "***" for name in url.query if "password" in name.lower()}
    shown = url.set(drivername="postgresql").update_query_dict(secret).render_as_string()
    return shown.replace("%2A%2A%2A", "***")


def _begin(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("sumwise_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def _watched(connection: sa.Connection, *, writes: bool = False) -> Iterator[None]:
    """Within a transaction: refuse an SQLite file that another program has changed."""
    raw, seen = _seen_by(connection)
    if raw is None or seen is None:
        yield
        return
    header = main_file.begin_write(raw, seen) if writes else None
    try:
        yield
    except exc.DatabaseError:  # the reason may be a file that is copied over it now
        main_file.check_read(raw, seen)
        raise
    if header is None:
        main_file.check_read(raw, seen)
    else:
        main_file.end_write(seen)
        seen.written = header


def _seen_by(
    connection: sa.Connection,
) -> tuple[sqlite.Connection, main_file.Seen | None] | tuple[None, None]:
    """SQLite's own connection, and what it knows of its file."""
    raw = connection.connection.driver_connection
    return (raw, raw.seen) if isinstance(raw, sqlite.Connection) else (None, None)


def _is_frozen(connection: sa.Connection) -> bool:
    """Whether an SQLite file is read as it is, without any lock."""
    raw, _ = _seen_by(connection)
    return raw is not None and raw.frozen


def _before_close(process: int) -> Any:
    def close(connection: sqlite.Connection, record: Any) -> None:
        del record
        if connection.seen is not None:
            main_file.close_safely(connection, connection.seen, ours=process == os.getpid())

    return close


def _postgres(url: sa.URL, patience: float) -> sa.Engine:
    with needs_extra("a study on PostgreSQL", "postgres"):
        engine = sa.create_engine(
            url,
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args={} if "connect_timeout" in url.query else {"connect_timeout": 10},
        )

    def settle(connection: Any, record: Any) -> None:
        del record
        connection.autocommit = True
        connection.execute(f"SET lock_timeout = {int(patience * 1000)}")
        connection.autocommit = False

    sa.event.listen(engine, "connect", settle)
    return engine
