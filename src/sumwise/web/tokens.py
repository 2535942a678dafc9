"""The tokens of a database: that of its server, and those of people.

Programs send a token as it is. Our page never does: another program may have taken the port. Page
and server compute from it (ADR 24)

    key   = HMAC(token, "sumwise page key")
    id    = HMAC(key, "sumwise key id"), of which 16 digits
    proof = HMAC(key, "sumwise server", run, nonce)                              by the server
    mac   = HMAC(key, "sumwise request", method, path, digest, run, nonce)       by the page

with SHA-256, and lines between the words. `nonce` is new for each request, `digest` is that of the
body, and `run` is new whenever a server starts, so that nothing of a former run is of any use.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Self

from sumwise.errors import SettingError, StorageError
from sumwise.util.files import atomic_write, lock

SCHEME: Final = "sumwise"  # of the header Authorization, where a page signs
KEY_ID: Final = r"[0-9a-f]{16}"
NONCE: Final = r"[0-9a-f]{32}"
LONGEST_NAME: Final = 100
_SIGNATURE: Final = re.compile(f"({KEY_ID}):({NONCE}):({NONCE}):([0-9a-f]{{64}}):([0-9a-f]{{64}})")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{32,}")
_LARGEST: Final = 10**6  # bytes of a file of tokens


def mac(key: bytes, *words: str | bytes) -> str:
    """HMAC-SHA-256 of words on lines of their own."""
    lines = (word if isinstance(word, bytes) else word.encode() for word in words)
    return hmac.new(key, b"\n".join(lines), "sha256").hexdigest()


def key_of(token: str | bytes) -> bytes:
    given = token if isinstance(token, bytes) else token.encode()
    return bytes.fromhex(mac(given, "sumwise page key"))


@dataclass(frozen=True, slots=True)
class Holder:
    """What one token allows."""

    key: bytes = field(repr=False)
    name: str | None = None  # of the one person who writes with it; None: under any name
    writes: bool = True
    made: str = ""
    expires: str = ""

    @property
    def id(self) -> str:
        return mac(self.key, "sumwise key id")[:16]

    def expired(self) -> bool:
        return bool(self.expires) and datetime.fromisoformat(self.expires) <= datetime.now(UTC)


HOLDER: Final[ContextVar[Holder | None]] = ContextVar("holder", default=None)  # of this request


@dataclass(frozen=True, slots=True)
class Signature:
    """What a page sends in place of a token."""

    key: str
    run: str
    nonce: str
    digest: str
    mac: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        found = _SIGNATURE.fullmatch(text)
        return None if found is None else cls(*found.groups())

    def covers(self, body: bytes) -> bool:
        return hmac.compare_digest(hashlib.sha256(body).hexdigest(), self.digest)


class Tokens:
    """The tokens that a running server accepts; those of people are read again as they change."""

    def __init__(self, token: str, people: Path) -> None:
        self.run: Final = secrets.token_hex(16)
        self._own = Holder(key_of(token))
        self._path = people
        self._stamp: tuple[int, ...] = ()
        self._people: Mapping[str, Holder] = {}
        self._used = set[str]()  # nonces of writes, each of which the study keeps as well
        self._over = set[str]()  # ids of tokens that have expired, even if the clock is put back

    def find(self, key_id: str) -> Holder | None:
        """The token with this id, which is no secret, unless it has expired."""
        found = self._own if key_id == self._own.id else self._present().get(key_id)
        if found is not None and found.expired():
            self._over.add(found.id)
        return None if found is None or found.id in self._over else found

    def of_bearer(self, token: bytes) -> Holder | None:
        given = Holder(key_of(token))
        found = self.find(given.id)
        return found if found is not None and hmac.compare_digest(found.key, given.key) else None

    def of_signed(
        self, given: Signature | None, method: str, target: bytes, *, once: bool
    ) -> Holder | None:
        """Who has signed a request.

        Args:
            target: Path and query as they were sent.
            once: Refuse the same signature a second time.
        """
        found = None if given is None else self.find(given.key)
        if given is None or found is None:
            return None
        words = method, target, given.digest, self.run, given.nonce
        if not hmac.compare_digest(mac(found.key, "sumwise request", *words), given.mac):
            return None
        if once and given.nonce in self._used:
            return None
        if once:
            self._used.add(given.nonce)
        return found

    def proof(self, key_id: str, nonce: str) -> str | None:
        """What only a server that has this token can say; None if there is no such token."""
        found = self.find(key_id)
        return None if found is None else mac(found.key, "sumwise server", self.run, nonce)

    def _present(self) -> Mapping[str, Holder]:
        try:
            about = os.stat(self._path)
            stamp = about.st_mtime_ns, about.st_ino, about.st_size
            if stamp != self._stamp:
                self._people = {each.id: each for each in people(self._path)}
                self._stamp = stamp
        except (OSError, StorageError):
            self._stamp, self._people = (), {}  # who cannot be looked up is not let in
        return self._people


# --- files of tokens, in a folder of the user who serves ------------------------------------------


def folder() -> Path:
    """The folder for the state of programs, as the XDG specification has it."""
    given = os.environ.get("XDG_STATE_HOME", "")
    home = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    return home / "sumwise"


def _file(kind: str, database: str) -> Path:
    digest = hashlib.sha256(database.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return folder() / f"{kind}-{digest}"


def new_token() -> str:
    return secrets.token_urlsafe(32)


def kept_token(database: str, *, anew: bool = False) -> str:
    """The token of this database's server, made if there is none.

    Args:
        database: Its path or URL, without the password.
        anew: Make another one; pages that are open stop working.
    """
    path = _file("token", database)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        damaged = path.exists()  # if it cannot be read; a file that comes later is a server's
        found = None if anew else _token(path)
        if found is None:
            with (
                suppress(FileExistsError),  # another server was quicker, and its token holds
                atomic_write(path, overwrite=anew or damaged, mode=0o600) as file,
            ):
                file.write(f"{new_token()}\n".encode("ascii"))
            found = _token(path)
    except OSError as error:
        raise _unkept(path, error) from error
    assert found is not None  # it was written a moment ago
    return found


def _token(path: Path) -> str | None:
    """The stored token; None if it is missing, damaged, or readable by other users."""
    text = (_private(path) or b"").decode("ascii", "replace").strip()
    return text if _TOKEN.fullmatch(text) else None


def _private(path: Path) -> bytes | None:
    """What a file holds; None if there is none, or other users can read it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        private = os.name != "posix" or (about.st_uid == os.getuid() and not about.st_mode & 0o077)
        return file.read(_LARGEST) if private else None


def _unkept(path: Path, error: OSError) -> StorageError:
    said = f"the token cannot be kept in {path.parent} ({error.strerror})"
    return StorageError(f"{said}; set XDG_STATE_HOME to another folder")


# --- tokens of people -----------------------------------------------------------------------------


def people_file(database: str) -> Path:
    return _file("people", database)


def people(path: Path) -> tuple[Holder, ...]:
    """The tokens that people were given, the oldest first."""
    try:
        text = _private(path)
        rows = [] if text is None else json.loads(text)
        return tuple(Holder(bytes.fromhex(row.pop("key")), **row) for row in rows)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        words = f"{path} is damaged; remove it, and give people new tokens"
        raise StorageError(words) from error


def add_person(
    database: str, name: str, *, writes: bool = True, days: float | None = None
) -> tuple[str, Holder]:
    """A new token for a person, who writes under this name only; it is not stored itself.

    Args:
        days: How long it is valid; by default until it is revoked.
    """
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise SettingError(f"give a name of up to {LONGEST_NAME} printable characters")
    now, token = datetime.now(UTC), new_token()
    end = "" if days is None else (now + timedelta(days=days)).isoformat(timespec="seconds")
    made = Holder(key_of(token), name.strip(), writes, now.isoformat(timespec="seconds"), end)
    with _changing(database) as path:
        _write(path, (*people(path), made))
    return token, made


def revoke(database: str, which: str) -> tuple[Holder, ...]:
    """Take tokens back at once, also from a running server.

    Args:
        which: The id of a token, or a name for all tokens of that person.
    """
    with _changing(database) as path:
        present = people(path)
        gone = tuple(each for each in present if which in (each.id, each.name))
        if not gone:
            known = ", ".join(sorted({each.name or "" for each in present})) or "no one"
            raise SettingError(f"no token has the id or name {which!r:.120}; there are: {known}")
        _write(path, (each for each in present if each not in gone))
    return gone


@contextmanager
def _changing(database: str) -> Iterator[Path]:
    """The file of these tokens, which no other process changes meanwhile."""
    path = people_file(database)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with lock(f"{path}.lock", "another program changes the tokens now; try again"):
            yield path
    except OSError as error:
        raise _unkept(path, error) from error


def _write(path: Path, holders: Iterable[Holder]) -> None:
    rows = [{**asdict(each), "key": each.key.hex()} for each in holders]
    with atomic_write(path, mode=0o600, durable=True) as file:
        file.write(json.dumps(rows, indent=1).encode())
