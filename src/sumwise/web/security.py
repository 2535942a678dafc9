"""What a request needs before anything else happens.

The page is for one machine, or for people who were given a token. Other websites in the same
browser must not reach it: a foreign name that resolves to this machine (DNS rebinding) is refused
by its Host, a form or script of another site by its Origin and for lack of the token, and the
content security policy lets pages run our own scripts only. Programs send a token, and our page
signs each request instead (ADR 24).
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import re
import socket
from contextlib import suppress
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sumwise.web.problems import Refused, problem
from sumwise.web.tokens import HOLDER, SCHEME, Holder, Signature, Tokens

LARGEST_BODY: Final = 64 * 1024
LARGEST_TABLE: Final = 4 * 1024 * 1024  # of the one request that brings a table
TABLES: Final = "/api/pool"
PROOF: Final = "/api/proof"  # open to all, since a page asks it before it says anything
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
_log = logging.getLogger("sumwise.web")


class Guard:
    """Middleware that checks requests, limits their bodies, and adds headers to all responses.

    Args:
        tokens: What writes need.
        host: The address that the server listens on.
        names: Other names that lead there, from `names_of`.
        closed: Whether reads need a token too; so they do if other machines can reach the server.
    """

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        host: str,
        names: frozenset[str],
        closed: bool = False,
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._host = host.lower()
        self._names = names
        self._closed = closed or not is_loopback(self._host)

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
            signature = self._check(scope, headers)
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
                if signature is not None and not signature.covers(body):
                    raise Refused(401, "token", "the signature is that of another body")
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

    def _check(self, scope: Scope, headers: Headers) -> Signature | None:
        """Refuse a request that is meant for another host, comes from another site, or lacks the
        token; gives its signature, if it has one."""
        path, writing = scope["path"], scope["method"] not in READING
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(_hostname(hosts[0])):
            words = "this is not the server's name; use the address that sumwise serve printed"
            raise Refused(400, "host", words)
        origin = headers.get("origin", f"http://{hosts[0]}").lower()
        if writing and origin.partition("://")[2] != hosts[0].lower():
            raise Refused(403, "origin", "the request comes from another site")
        api = path == "/api" or path.startswith("/api/")
        if api and headers.get("sec-fetch-site", "none") not in OURS:  # downloads cost work
            raise Refused(403, "origin", "the request was caused by a page of another site")
        holder, signature = self._holder(scope, headers, writing)
        closed = self._closed and api and path != PROOF
        if (writing or closed) and holder is None:
            words = "send the token that sumwise serve printed: 'Authorization: Bearer TOKEN'"
            raise Refused(401, "token", f"the token is missing or wrong; {words}")
        if writing and holder is not None and not holder.writes:
            raise Refused(403, "read_only", "this token is for reading only")
        HOLDER.set(holder)
        return signature

    def _holder(
        self, scope: Scope, headers: Headers, writing: bool
    ) -> tuple[Holder | None, Signature | None]:
        """Who sends a request, and its signature, which has to be right if there is one."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._tokens.of_bearer(given.strip().encode("latin-1", "replace")), None
        if scheme.lower() != SCHEME:
            return None, None
        signature = Signature.parse(given.strip())
        if signature is not None and signature.run != self._tokens.run:
            raise Refused(401, "run", f"the server has started anew; ask GET {PROOF} again")
        target = scope.get("raw_path") or scope["path"].encode()
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        holder = self._tokens.of_signed(signature, scope["method"], target, once=writing)
        if holder is None:
            raise Refused(401, "token", "the signature is wrong, or its token is no longer valid")
        return holder, signature

    def _is_ours(self, name: str) -> bool:
        """Whether the Host is one of ours; any name can be made to resolve here, an address not."""
        if name in LOOPBACK or name == self._host:
            return True
        if self._host not in EVERYWHERE:
            return False
        return _is_address(name) or name in self._names


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
