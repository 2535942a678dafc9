"""A progress bar for slow work, shown on terminals and in notebooks only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

PATIENCE = 2.0  # seconds before a bar appears
_silent: ContextVar[bool] = ContextVar("silent", default=False)


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

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._begun = float("inf") if _silent.get() else time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Slow:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def at(self, done: int) -> None:
        """Record how many steps are done."""
        if self._bar is None and time.monotonic() - self._begun > PATIENCE and done < self._total:
            self._begin()
        if self._bar is not None:
            self._bar.update(self._task, completed=done)

    def _begin(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        if console.is_terminal or console.is_jupyter:
            self._bar = Progress(console=console, transient=True)
            self._task = self._bar.add_task(self._what, total=self._total)
            self._bar.start()
        else:
            self._begun = float("inf")  # a file or a pipe; do not check again
