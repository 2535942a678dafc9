"""Changes as they happen, as server-sent events.

    event: change       {"changes": 17}     at once on connecting, then with every change
    event: trouble      {"detail": "…"}     the database cannot be read; it is tried again

One task reads the study's counter twice a second while at least one page is open. The counter is in
the database, so changes by other processes are noticed as well.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Final

import anyio
import anyio.to_thread

from sumwise.errors import SumwiseError

EVERY: Final = 0.5  # seconds between two readings
HEARTBEAT: Final = 15.0  # seconds of silence after which a comment shows that the server is there
RETRY: Final = 2000  # milliseconds after which a browser connects again

_log = logging.getLogger("sumwise.web")


class Live:
    """The stream of events for all open pages."""

    def __init__(self, changes: Callable[[], int], stopping: Callable[[], bool]) -> None:
        self._changes = changes
        self._stopping = stopping
        self._watchers = 0
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()  # set and replaced by a new one with every event
        self._last: tuple[str, str] | None = None  # the last event: its name and its data

    async def events(self) -> AsyncIterator[str]:
        """The stream for one page, until it goes away or the server stops."""
        self._watchers += 1
        try:
            if self._task is None:
                self._last = None
                self._task = asyncio.create_task(self._watch())
            yield f"retry: {RETRY}\n\n"
            sent: tuple[str, str] | None = None
            while self._task is not None:
                news = self._news
                if self._last is not None and self._last != sent:
                    sent = self._last
                    yield f"event: {sent[0]}\ndata: {sent[1]}\n\n"
                    continue
                try:
                    await asyncio.wait_for(news.wait(), HEARTBEAT)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._watchers -= 1

    async def _watch(self) -> None:
        """Read the counter and publish what is new, as long as a page listens."""
        limiter = anyio.CapacityLimiter(1)  # a thread of its own, so that it waits for no request
        try:
            while self._watchers and not self._stopping():
                event = await anyio.to_thread.run_sync(self._read, limiter=limiter)
                if event != self._last:
                    self._last = event
                    self._wake()
                await asyncio.sleep(EVERY)
        finally:
            self._task = None
            self._wake()

    def _read(self) -> tuple[str, str]:
        try:
            return "change", json.dumps({"changes": self._changes()})
        except (SumwiseError, OSError) as error:
            detail = str(error)
        except Exception:
            _log.exception("the study cannot be read")
            detail = "The study cannot be read; the server's log says why."
        return "trouble", json.dumps({"detail": detail})

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
