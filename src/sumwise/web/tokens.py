"""The token of a database, stored so that an open page survives a restart of the server."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from sumwise.errors import StorageError
from sumwise.util.files import atomic_write

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{32,}")


def folder() -> Path:
    """The folder for the state of programs, as the XDG specification has it."""
    given = os.environ.get("XDG_STATE_HOME", "")
    home = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    return home / "sumwise"


def new_token() -> str:
    return secrets.token_urlsafe(32)


def kept_token(database: str, *, anew: bool = False) -> str:
    """The token of this database, made if there is none.

    Args:
        database: Its path or URL, without the password.
        anew: Make another one; pages that are open stop working.
    """
    digest = hashlib.sha256(database.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    path = folder() / f"token-{digest}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = None if anew else _read(path)
        if found is None:
            _put(path, new_token(), over=anew or path.exists())
            found = _read(path)
    except OSError as error:
        raise StorageError(
            f"the token cannot be kept in {path.parent} ({error.strerror}); set XDG_STATE_HOME to "
            "a folder that can be written to"
        ) from error
    assert found is not None  # it was written a moment ago
    return found


def _read(path: Path) -> str | None:
    """The stored token; None if it is missing, damaged, or readable by other users."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
        about = os.fstat(file.fileno())
        text = file.read(1000).strip()
    private = os.name != "posix" or (about.st_uid == os.getuid() and not about.st_mode & 0o077)
    return text if private and _TOKEN.fullmatch(text) else None


def _put(path: Path, token: str, *, over: bool) -> None:
    """Write the token in one piece, readable by its owner alone from the start."""
    with (
        suppress(FileExistsError),  # another server was quicker, and its token holds
        atomic_write(path, overwrite=over, mode=0o600) as file,
    ):
        file.write(f"{token}\n".encode("ascii"))
