"""What all commands share: a group that imports commands when called, error messages, progress.

Nothing heavy is imported here, so that commands start fast.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import rich_click as click

from sumwise.cli.output import message
from sumwise.errors import SumwiseError
from sumwise.util.progress import PATIENCE, quiet

SETTINGS: Final = {
    "help_option_names": ["-h", "--help"],
    "show_default": True,
    "rich_help_config": {"text_paragraph_linebreaks": "\n\n"},
}


class Lazy(click.RichCommand):
    """A command with a name and one line of help; `load` imports the rest of it."""

    def __init__(self, name: str, where: str, help: str, panel: str) -> None:
        super().__init__(name=name, short_help=help, panel=panel)
        self._where = where

    def load(self) -> click.Command:
        module, _, attribute = self._where.partition(":")
        return getattr(importlib.import_module(module), attribute)


class Main(click.RichGroup):
    """A group of commands; the one place where errors become messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.commands)  # in the order in which they are used, not by letter

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Lazy) else command, rest

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        with _harmless():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        for stream in (sys.stdout, sys.stderr):  # a plain terminal shows "?" and not a traceback
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        try:
            with _harmless():
                return super().invoke(ctx)
        except SumwiseError as error:
            raise click.ClickException(message(str(error))) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # `| head` has seen enough, which is no failure
                for stream in (sys.stdout, sys.stderr):  # what is still to be flushed goes nowhere
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
                ctx.exit(0)
            said = f"{error.filename}: {error.strerror}"
            if not error.filename:
                said = f"the result cannot be printed: {error.strerror}. What was to be stored is "
                said += "stored: see sumwise history"
            raise click.ClickException(message(said)) from error


@contextmanager
def _harmless() -> Iterator[None]:
    """Mask passwords and control characters in Click's messages, which quote what was typed."""
    try:
        yield
    except click.UsageError as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            raise  # its message is the help
        lines = error.format_message().expandtabs(2).split("\n")
        raise click.UsageError("\n".join(map(message, lines)), error.ctx) from error


# --- progress -------------------------------------------------------------------------------------


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
