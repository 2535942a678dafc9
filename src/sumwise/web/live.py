"""Changes as they happen, as server-sent events.

    event: change       {"changes": 17}     at once on connecting, then with every change
    event: trouble      {"detail": "…"}     the database cannot be read; it is tried again

One task looks at the study's counter twice a second, however many pages are open, and none if there
is no page. The counter is in the database, so changes by other processes are seen as well.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import anyio
import anyio.to_thread

from sumwise.errors import SumwiseError

EVERY: Final = 0.5  # seconds between two looks
HEARTBEAT: Final = 15.0  # seconds of silence after which a comment shows that somebody is there
RETRY: Final = 2000  # milliseconds after which a browser connects again

_log = logging.getLogger("sumwise.web")


class Live:
    """What every open page is told."""

    def __init__(self, changes: Callable[[], int], stopping: Callable[[], bool]) -> None:
        self._changes = changes
        self._stopping = stopping
        self._watchers = 0
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()  # replaced by a new one whenever there are some
        self._said: tuple[str, str] | None = None
        self._over = False

    async def events(self) -> AsyncIterator[str]:
        """The stream for one page, until it goes away or the server stops."""
        self._watchers += 1
        try:
            if self._task is None:
                self._said, self._over = None, False
                self._task = asyncio.create_task(self._watch())
            yield f"retry: {RETRY}\n\n"
            last: tuple[str, str] | None = None
            while not self._over:
                news = self._news
                if self._said is not None and self._said != last:
                    last = self._said
                    yield f"event: {last[0]}\ndata: {last[1]}\n\n"
                    continue
                try:
                    await asyncio.wait_for(news.wait(), HEARTBEAT)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._watchers -= 1

    async def _watch(self) -> None:
        """Look, say what is new, and look again, as long as somebody listens."""
        limiter = anyio.CapacityLimiter(1)  # its own thread: never behind those who wait
        try:
            while self._watchers and not self._stopping():
                self._say(await anyio.to_thread.run_sync(self._look, limiter=limiter))
                await asyncio.sleep(EVERY)
        finally:
            self._task, self._over = None, True
            self._wake()

    def _look(self) -> tuple[str, str]:
        try:
            return "change", _packed(changes=self._changes())
        except (SumwiseError, OSError) as error:
            return "trouble", _packed(detail=str(error))
        except Exception:
            _log.exception("the study cannot be looked at")
            return "trouble", _packed(detail="The study cannot be read; the server's log says why.")

    def _say(self, news: tuple[str, str]) -> None:
        if news != self._said:
            self._said = news
            self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _packed(**data: Any) -> str:
    return json.dumps(data)
