"""What all commands share: errors as messages, and a progress bar."""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import rich_click as click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sumwise.errors import SumwiseError


class Main(click.RichGroup):
    def invoke(self, ctx: click.Context) -> Any:
        for stream in (sys.stdout, sys.stderr):  # a plain terminal shows "?" and not a traceback
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        try:
            return super().invoke(ctx)
        except SumwiseError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader has seen enough; click knows what to do
                raise
            where = f"{error.filename}: " if error.filename else "the result cannot be written: "
            raise click.ClickException(f"{where}{error.strerror}") from error


SETTINGS: Final = {
    "help_option_names": ["-h", "--help"],
    "rich_help_config": {"text_paragraph_linebreaks": "\n\n"},
}


@contextmanager
def progress_bar(console: Console, what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar with the time remaining; without a terminal, one line when it is done."""
    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(what, total=None)  # known once it has begun
        yield lambda done, total: progress.update(task, completed=done, total=total)
