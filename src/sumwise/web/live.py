"""Changes as they happen, as server-sent events.

    event: change       {"changes": 17}     at once on connecting, then with every change
    event: trouble      {"detail": "…"}     the database cannot be read; it is tried again

The study's counter is read twice a second for all open pages together, and not at all while none is
open. It is in the database, so changes by other processes are noticed as well. Pages are told a few
at a time, so that a thousand of them hold up nobody else.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio
import anyio.to_thread

from sumwise.errors import SumwiseError
from sumwise.web.addresses import neighbourhood, share
from sumwise.web.problems import Refused

EVERY: Final = 0.5  # seconds between two readings
HEARTBEAT: Final = 15.0  # seconds of silence after which a comment shows that the server is there
TOGETHER: Final = 32  # pages that are told at once
REST: Final = 0.005  # seconds between, in which other requests and their threads have a turn
MOST: Final = 1024  # streams at once
RETRY: Final = 2000  # milliseconds after which a browser connects again

_log = logging.getLogger("sumwise.web")


class Live:
    """The stream of events for all open pages."""

    def __init__(self, changes: Callable[[], int], stopping: Callable[[], bool]) -> None:
        self._changes = changes
        self._stopping = stopping
        self.most = MOST
        self._open: Counter[str] = Counter()  # streams by address
        self._limiter = anyio.CapacityLimiter(1)  # its own thread, so that it waits for no request
        self._last = ("", "")  # the last event: its name and its data
        self._streams = 0
        self._waiting: set[asyncio.Future[None]] = set()  # streams that wait for another event
        self._watcher: asyncio.Task[None] | None = None  # while there are streams

    @contextmanager
    def listening(self, host: str) -> Iterator[None]:
        """A place for the stream of a page; refused if all places, or all of an address, are taken.

        Args:
            host: The address of the page.
        """
        near = neighbourhood(host)
        if self._open.total() >= self.most or self._open[near] >= share(near, self.most):
            words = "too many pages are open; close some, or read /api/study from time to time"
            raise Refused(503, "busy", words)
        self._open[near] += 1
        try:
            yield
        finally:
            self._open[near] -= 1
            if not self._open[near]:
                del self._open[near]

    async def events(self) -> AsyncIterator[str]:
        """The stream for one page, until it goes away or the server stops."""
        yield f"retry: {RETRY}\n\n"
        if self._watcher is None or self._watcher.done():
            self._last = ("", "")
            self._watcher = asyncio.create_task(self._watch())
        self._streams += 1
        sent = ("", "")
        try:
            while not self._stopping():
                if self._last != sent:
                    sent = self._last
                    yield f"event: {sent[0]}\ndata: {sent[1]}\n\n"
                elif not await self._another():
                    yield ": still here\n\n"
        finally:
            self._streams -= 1

    async def _another(self) -> bool:
        """Wait for another event; whether it came before a comment is due."""
        mine = asyncio.get_running_loop().create_future()
        self._waiting.add(mine)
        try:
            async with asyncio.timeout(HEARTBEAT):
                await mine
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(mine)
        return True

    async def _watch(self) -> None:
        """Read the counter for all streams, and wake them, until there are none."""
        while self._streams:
            event = await anyio.to_thread.run_sync(self._read, limiter=self._limiter)
            if event != self._last or self._stopping():
                self._last = event
                waiting, self._waiting = self._waiting, set()
                for at, each in enumerate(waiting):
                    if not each.done():
                        each.set_result(None)
                    if at % TOGETHER == TOGETHER - 1:
                        await asyncio.sleep(REST)
            await asyncio.sleep(EVERY)

    def _read(self) -> tuple[str, str]:
        try:
            return "change", json.dumps({"changes": self._changes()})
        except (SumwiseError, OSError) as error:
            detail = str(error)
        except Exception:
            _log.exception("the study cannot be read")
            detail = "The study cannot be read; the server's log says why."
        return "trouble", json.dumps({"detail": detail})
