"""Progress bars for slow work, shown on terminals and in notebooks only.

There is one display at a time. Work inside other work, or beside it in another thread, has a line
of its own there.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

PATIENCE = 2.0  # seconds before a bar appears
_silent: ContextVar[bool] = ContextVar("silent", default=False)
_lock = threading.Lock()
_display: list[Any] = []  # one entry per line that is shown; all are the same


@contextmanager
def quiet() -> Iterator[None]:
    """Show no bars in here: the caller shows one already."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


class Slow:
    """Counts steps; a bar appears after two seconds if standard error is a terminal or notebook.

    Nothing is imported or printed before that.
    """

    def __init__(self, what: str, total: int | None) -> None:
        """
        Args:
            total: The number of steps; None if it is not known.
        """
        self._what, self._total = what, total
        self._begun = float("inf") if _silent.get() else time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Slow:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            _leave(self._task)

    def at(self, done: int) -> None:
        """Record how many steps are done."""
        late = self._bar is None and time.monotonic() - self._begun > PATIENCE
        if late and (self._total is None or done < self._total):
            self._begin()
        if self._bar is not None:
            self._bar.update(self._task, completed=done)

    def _begin(self) -> None:
        self._bar, self._begun = _join(), float("inf")  # without a terminal it is not asked again
        if self._bar is not None:
            from rich.markup import escape

            self._task = self._bar.add_task(escape(self._what), total=self._total)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A line for work as a whole, after two seconds; what is slow inside has lines below it."""
    if not sys.stderr.isatty():
        yield
        return
    slow, over = Slow(what, None), threading.Event()

    def show() -> None:
        if not over.wait(PATIENCE + 0.01):
            slow.at(1)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        slow.__exit__()


def _join() -> Any:
    """The display, which begins now if it is not there; None if nobody could see it."""
    from rich.console import Console
    from rich.progress import Progress

    with _lock:
        if not _display:
            console = Console(stderr=True)
            if not (console.is_terminal or console.is_jupyter):
                return None
            _display.append(Progress(console=console, transient=True))
            _display[0].start()
        else:
            _display.append(_display[0])
        return _display[0]


def _leave(task: Any) -> None:
    with _lock:
        shown = _display.pop()
        if _display:
            shown.remove_task(task)
        else:
            shown.stop()
