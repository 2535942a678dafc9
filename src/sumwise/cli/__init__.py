"""The command line: parse, call one function, print.

Results go to stdout and remarks to stderr; the exit code is 0 for done, 1 for refused and 2 for
misused. `Main` turns our errors into messages. A command is imported when it is called: the
help of the group needs only its first line, which is given here.
"""

from __future__ import annotations

import os

# set before NumPy is imported: idle BLAS threads then sleep at once instead of waiting busily,
# which would cost a short command a tenth of its time
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

import errno
import importlib
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import rich_click as click

from sumwise import __version__
from sumwise.cli.output import message
from sumwise.errors import SumwiseError

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
                _discard(sys.stdout)
                _discard(sys.stderr)
                ctx.exit(0)
            if error.filename is None:
                _discard(sys.stdout)  # or Python fails to flush it at its end, and exits with 120
            place = error.filename or "everything is stored, but the result cannot be printed"
            raise click.ClickException(message(f"{place}: {error.strerror}")) from error


def _discard(stream: Any) -> None:
    """Let what is still to be flushed go nowhere."""
    with suppress(OSError):  # a stream without a descriptor has nothing that could fail
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


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


@click.group(cls=Main, context_settings=SETTINGS)
@click.version_option(__version__, prog_name="sumwise")
def main() -> None:
    """Choose which totals to measure; learn every part.

    Individuals come in groups, and only a group's total can be measured: the exam result of a
    district, the power drawn behind a meter. sumwise says which group to measure next, and predicts
    every individual from the totals.

    \b
      sumwise init schools.db schools.csv --by district --x lunch --x enroll
      sumwise ask schools.db
      sumwise tell schools.db "Ann Arbor" 843
      sumwise predict schools.db -o predictions.csv
    \b
      sumwise demo                    # on 1,692 schools, in seconds
      sumwise demo --questions 10 --seeds 3 --out charts
    """


_COMMANDS = {
    "A study": {
        "init:init": "Begin a study from a table of individuals.",
        "ask:ask": "Choose the set to measure next, and say why.",
        "tell:tell": "Record the measured total of a set, or of many sets from a file.",
        "tell:amend": "Correct a recorded total.",
        "tell:retract": "Withdraw a recorded total.",
        "ask:claim": "Reserve a set of your own choice.",
        "ask:renew": "Extend a claim.",
        "ask:release": "Give up a claim, so that others may be asked for the set.",
        "ask:skip": "Exclude a set that cannot be measured.",
        "ask:unskip": "Allow a skipped set to be asked for again.",
        "pools:pools": "List the pools that were designed, and who is in them.",
        "pool:pool": "Change who is in the sets: individuals join, leave or are corrected.",
        "serve:serve": "Serve a page in the browser for the people who measure.",
        "token:token": "Give people tokens of their own for the page, list and revoke them.",
    },
    "Looking": {
        "status:status": "Show progress, and how much there is still to learn.",
        "maps:map_": "Draw the study as a map, or give it one.",
        "predict:predict": "Predict every individual's output, with its uncertainty.",
        "export:report": "Write the study as a page that opens in any browser, offline.",
        "status:answers": "List the recorded totals, in order of arrival.",
        "status:history": "List every question, answer and correction, with who and when.",
    },
    "Moving": {
        "export:export": "Write the whole study to a folder of open formats.",
        "export:import_": "Make a study from an exported folder.",
        "export:storage": "Copy a database, restore it, list its studies, or upgrade its schema.",
    },
    "Trying it out": {
        "demo:demo": "Learn about Michigan's schools from totals of districts.",
        "simulate:simulate": "Find out which strategy wins on data like yours.",
        "reproduce:reproduce": "Run the paper's experiments and compare the published figures.",
        "completion:completion": "Print a script for shell completion.",
    },
}

for _panel, _lines in _COMMANDS.items():
    for _where, _help in _lines.items():
        _name = _where.partition(":")[2].removesuffix("_")
        main.add_command(Lazy(_name, f"sumwise.cli.{_where}", _help, _panel))
