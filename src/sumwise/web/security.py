"""What a request needs before anything else happens.

The page is for one machine, or for people who were given a token. Other websites in the same
browser must not reach it: a foreign name that resolves to this machine (DNS rebinding) is refused
by its Host, a form or script of another site by its Origin and for lack of the token, and the
content security policy lets pages run our own scripts only.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import os
import re
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sumwise.errors import StorageError
from sumwise.util.files import atomic_write
from sumwise.web.problems import Refused, problem

LARGEST_BODY: Final = 64 * 1024
LARGEST_TABLE: Final = 4 * 1024 * 1024  # of the one request that brings a table
TABLES: Final = "/api/pool"
SLOWEST_BODY: Final = 30.0  # seconds
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})
READING: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
OURS: Final = frozenset({"same-origin", "none"})  # "none": typed by a person
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]+)(:\d*)?", re.ASCII)
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{32,}")
_log = logging.getLogger("sumwise.web")


class Guard:
    """Middleware that checks requests, limits their bodies, and adds headers to all responses.

    Args:
        token: What writes have to send, and reads as well if other machines can reach the server.
        host: The address that the server listens on.
        names: Other names that lead there, from `names_of`.
    """

    def __init__(self, app: ASGIApp, token: str, host: str, names: frozenset[str]) -> None:
        self._app = app
        self._token = token
        self._host = host.lower()
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _add_headers(message, scope["path"])
            await send(message)

        headers = Headers(scope=scope)
        try:
            self._check(scope["method"], scope["path"], headers)
            most = LARGEST_TABLE if scope["path"] == TABLES else LARGEST_BODY
            length = headers.get("content-length", "0")
            if "transfer-encoding" in headers and "content-length" in headers:
                raise Refused(400, "framing", "give either Content-Length or Transfer-Encoding")
            if not length.isascii() or not length.isdigit() or int(length[:20]) > most:
                raise _too_large(most)
            if scope["method"] not in READING:
                body = await _body(scope, receive, most)
                if "content-length" in headers and len(body) != int(length):
                    words = "the body is not as long as its Content-Length; nothing was stored"
                    raise Refused(400, "cut_off", words)
                check_keys(body)
                receive = _replay(body, receive)
            await self._app(scope, receive, guarded)
        except ClientDisconnect:
            return  # before the whole body was here, so nothing is done
        except Refused as error:
            answer = problem(error.status, error.code, str(error))
            if error.status == 401:
                answer.headers["WWW-Authenticate"] = "Bearer"
            if error.status == 408 or error.code == "framing":
                answer.headers["Connection"] = "close"  # where the next request begins is unclear
            await answer(scope, receive, guarded)
        except Exception:
            _log.exception("a request failed")
            if begun:
                raise
            words = "something went wrong here; the server's log says what. Nothing was stored."
            await problem(500, "internal", words)(scope, receive, guarded)

    def _check(self, method: str, path: str, headers: Headers) -> None:
        """Refuse a request that is meant for another host, comes from another site, or lacks the
        token."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(_hostname(hosts[0])):
            words = "this is not the server's name; use the address that sumwise serve printed"
            raise Refused(400, "host", words)
        writing = method not in READING
        origin = headers.get("origin", f"http://{hosts[0]}").lower()
        if writing and origin.partition("://")[2] != hosts[0].lower():
            raise Refused(403, "origin", "the request comes from another site")
        api = path == "/api" or path.startswith("/api/")
        if api and headers.get("sec-fetch-site", "none") not in OURS:  # downloads cost work
            raise Refused(403, "origin", "the request was caused by a page of another site")
        closed = not is_loopback(self._host) and api
        if (writing or closed) and not self._has_token(headers):
            words = "send the token that sumwise serve printed: 'Authorization: Bearer TOKEN'"
            raise Refused(401, "token", f"the token is missing or wrong; {words}")

    def _is_ours(self, name: str) -> bool:
        """Whether the Host is one of ours; any name can be made to resolve here, an address not."""
        if name in LOOPBACK or name == self._host:
            return True
        if self._host not in EVERYWHERE:
            return False
        return _is_address(name) or name in self._names

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._token.encode())
        return scheme.lower() == "bearer" and same


def names_of(host: str) -> frozenset[str]:
    """This machine's names, if the server listens on all its addresses.

    To be asked for once, before the first request: a name server may take its time.
    """
    if host not in EVERYWHERE:
        return frozenset()
    return frozenset({socket.gethostname().lower(), socket.getfqdn().lower()})


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    return host.lower() in LOOPBACK or (
        _is_address(host) and ipaddress.ip_address(host).is_loopback
    )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _hostname(host: str) -> str:
    """The name in a Host header, without the port; empty if it is malformed.

    >>> _hostname("localhost:8765"), _hostname("[::1]:8765"), _hostname("a@b"), _hostname("x:y")
    ('localhost', '::1', '', '')
    """
    found = _HOST.fullmatch(host.lower())
    return found[1].strip("[]") if found else ""


def _add_headers(message: Message, path: str) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in HEADERS.items():
        headers[name] = value
    if path.startswith("/api"):
        headers["Cache-Control"] = "no-store"
    else:
        headers.setdefault("Cache-Control", "no-cache")  # cached, but revalidated


async def _body(scope: Scope, receive: Receive, most: int) -> bytes:
    """The whole body of a request; one that is too large or too slow is refused."""
    body = bytearray()
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            async for part in Request(scope, receive).stream():
                body += part
                if len(body) > most:
                    raise _too_large(most)
    except TimeoutError:
        words = f"the body was not here after {SLOWEST_BODY:g} seconds; nothing was stored"
        raise Refused(408, "too_slow", words) from None
    return bytes(body)


def check_keys(body: bytes) -> None:
    """Refuse JSON in which an object has a key twice: programs differ in which one they take."""

    def unique(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise Refused(400, "not_json", f"the body has the key {key!r:.80} twice")
            seen.add(key)

    with suppress(ValueError, RecursionError):  # it is refused where it is read
        json.loads(body, object_pairs_hook=unique)


def _too_large(most: int) -> Refused:
    size = f"{most // 1024} kB" if most == LARGEST_BODY else f"{most // 1024**2} MB"
    more = "" if most == LARGEST_BODY else "; use sumwise pool in the shell"
    return Refused(413, "too_large", f"the body is larger than {size}{more}")


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


# --- the token of a database, stored so that open pages survive a restart of the server -----------


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
        damaged = path.exists()  # if it cannot be read; a file that comes later is a server's
        found = None if anew else _read(path)
        if found is None:
            with (
                suppress(FileExistsError),  # another server was quicker, and its token holds
                atomic_write(path, overwrite=anew or damaged, mode=0o600) as file,
            ):
                file.write(f"{new_token()}\n".encode("ascii"))
            found = _read(path)
    except OSError as error:
        said = f"the token cannot be kept in {path.parent} ({error.strerror})"
        raise StorageError(f"{said}; set XDG_STATE_HOME to another folder") from error
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
