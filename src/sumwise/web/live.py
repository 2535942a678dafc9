"""Changes as they happen, as server-sent events.

    event: change       {"changes": 17}     at once on connecting, then with every change
    event: trouble      {"detail": "…"}     the database cannot be read; it is tried again

The study's counter is read twice a second for all open pages together, and not at all while none is
open. It is in the database, so changes by other processes are noticed as well.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
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
        self._reading = asyncio.Lock()
        self._due = 0.0  # when the counter is read again
        self._last = ("", "")  # the last event: its name and its data

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
        sent, heard = ("", ""), time.monotonic()
        while not self._stopping():
            event = await self._latest()
            if event != sent:
                sent, heard = event, time.monotonic()
                yield f"event: {event[0]}\ndata: {event[1]}\n\n"
            elif time.monotonic() - heard > HEARTBEAT:
                heard = time.monotonic()
                yield ": still here\n\n"
            await asyncio.sleep(self._due - time.monotonic())

    async def _latest(self) -> tuple[str, str]:
        """The event that all pages are told; the first page that asks when it is due reads it."""
        async with self._reading:
            if time.monotonic() >= self._due:
                self._last = await anyio.to_thread.run_sync(self._read, limiter=self._limiter)
                self._due = time.monotonic() + EVERY
            return self._last

    def _read(self) -> tuple[str, str]:
        try:
            return "change", json.dumps({"changes": self._changes()})
        except (SumwiseError, OSError) as error:
            detail = str(error)
        except Exception:
            _log.exception("the study cannot be read")
            detail = "The study cannot be read; the server's log says why."
        return "trouble", json.dumps({"detail": detail})
