"""Progress on stderr: a bar for work with steps to count, and a spinner for work without."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sumwise.util.progress import PATIENCE, quiet


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar with the time remaining; without a terminal, one line when it is done."""
    from rich import progress as rich
    from rich.console import Console

    time = rich.TimeRemainingColumn(elapsed_when_finished=True)
    columns = (rich.TextColumn(what), rich.BarColumn(), rich.MofNCompleteColumn(), time)
    with rich.Progress(*columns, console=Console(stderr=True, highlight=False)) as progress:
        task = progress.add_task(what, total=None)  # the total is known once the work has begun
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A spinner for work without steps to count, after two seconds, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    spinner = Console(stderr=True).status(Text(f"{what} …"))
    timer = threading.Timer(PATIENCE, spinner.start)
    timer.daemon = True
    timer.start()
    try:
        with quiet():
            yield
    finally:
        timer.cancel()
        timer.join()
        spinner.stop()
