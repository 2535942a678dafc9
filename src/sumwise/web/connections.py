"""Connections: how many there may be, and how long each may keep the server waiting.

The server waits for the head of a request, for its body, or for the client to take what was sent,
and each has a deadline. When all places are taken, the connection that has kept the server waiting
longest makes room; if none does, the newest is told 503. So connections that say nothing, however
many, keep nobody out. An address of another machine has a share of the places only.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from contextlib import suppress
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sumwise.web.addresses import neighbourhood, share

MOST: Final = 2048  # connections, if the system allows as many files
FILES: Final = 4096  # what the soft limit on open files is raised to, if it may be
BACKLOG: Final = 64  # connections that the system holds until they are accepted
HEAD: Final = 10.0  # seconds for the head of a request
BODY: Final = 35.0  # seconds for its body; the guard answers with 408 before
READER: Final = 60.0  # seconds in which nothing is taken of what was sent
QUIET: Final = 60.0  # seconds between two complaints in the log
FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Type: text/plain\r\nContent-Length: 29\r\n\r\ntoo many connections are open"
)

_log = logging.getLogger("sumwise.web")


def most_connections() -> int:
    """How many connections there may be: two thirds of the files that this process may open."""
    try:
        import resource
    except ImportError:  # a system without such limits
        return MOST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < FILES:
        wanted = min(hard, FILES) if hard >= 0 else FILES
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return min(MOST, soft * 2 // 3) if soft >= 0 else MOST


class Connection(H11Protocol):
    """One connection; the setting `limit_concurrency` is one more than there may be."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = neighbourhood(self.client[0] if self.client else "")
        self.waits = math.inf  # since when it keeps the server waiting, if it does
        self._state: Any = None
        self._timer: asyncio.TimerHandle | None = None
        self._ending = False
        self._look()
        most = (self.limit_concurrency or MOST + 1) - 1
        own = share(self.address, most)
        if not (_make_room(self._others(), most) and _make_room(self._others(self.address), own)):
            transport.write(FULL)
            self._late()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._ending:
            super().data_received(data)
            self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._late()
        else:
            self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait(READER)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._state = None
        self._look()

    def _others(self, address: str | None = None) -> list[Any]:
        """All other connections, or those of an address."""
        found: list[Any] = [each for each in self.connections if each is not self]
        return [each for each in found if address in (None, each.address)]

    def give_up(self) -> None:
        """End it at once; what was sent and not taken is lost."""
        self._wait(None)
        self.connections.discard(self)
        self.transport.abort()

    def _late(self) -> None:
        """End it, with a while for what was sent and not taken yet."""
        if self._ending or self.flow.write_paused:
            self.give_up()
        else:
            self._ending = True
            self.transport.close()
            self._wait(READER)

    def _look(self) -> None:
        """Set the deadline for what the other side does next, if that has changed."""
        state = self.conn.their_state
        if state is not self._state and not self.flow.write_paused:
            self._state = state
            self._wait({h11.IDLE: HEAD, h11.SEND_BODY: BODY, h11.ERROR: READER}.get(state))

    def _wait(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.waits = None, math.inf
        if seconds is not None:
            self._timer = self.loop.call_later(seconds, self._late)
            self.waits = self.loop.time()


def _make_room(others: list[Any], most: int) -> bool:
    """Whether there is room for one more, after the end of one that kept the server waiting."""
    if len(others) < most:
        return True
    longest = min(others, key=lambda each: each.waits)
    if longest.waits == math.inf:
        return False
    longest.give_up()
    return True


class Complaints:
    """What is logged of failures to accept: once a minute, as there may be thousands a second."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "out of system resource" not in str(context.get("message")):
            loop.default_exception_handler(context)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + QUIET
            why, do = context.get("exception"), "raise the limit on open files (ulimit -n 4096)"
            _log.error("connections are waiting to be accepted (%s); %s", why, do)
