"""Progress on stderr, for work with steps to count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
