"""Arguments and options that commands on a study share, and the study they mean."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import rich_click as click

from sumwise.data.tables import number
from sumwise.errors import SettingError, SumwiseError
from sumwise.util.text import by_text, find, shown

if TYPE_CHECKING:
    from sumwise.study.study import Study

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

MOST_OFFERED: Final = 50  # ids that a shell is given to complete from
_LIKE_A_NUMBER: Final = re.compile(r"-[0-9.]")
_GUARD: Final = "\0"  # nothing that was typed can hold it


class Signed(click.RichCommand):
    """A command to which -5 is a number, or a set of that name, and not an option.

    Its parameters are text, whatever they are turned into later.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        guarded = [f"{_GUARD}{arg}" if _LIKE_A_NUMBER.match(arg) else arg for arg in args]
        try:
            rest = super().parse_args(ctx, guarded)
        except click.UsageError as error:
            plain = error.format_message().replace(_GUARD, "")
            raise click.UsageError(plain, error.ctx) from error
        for name, value in ctx.params.items():
            if isinstance(value, str):
                ctx.params[name] = value.removeprefix(_GUARD)
        return rest


# --- opening --------------------------------------------------------------------------------------


@contextmanager
def opened(url: str, name: str | None) -> Iterator[Study]:
    from sumwise.study.create import open_study

    with open_study(url, name) as study:
        yield study


def find_set(study: Study, text: str) -> Hashable:
    """The set that is shown as this text."""
    return find(by_text(study.ids), text)


def repeated(url: str, name: str | None) -> tuple[str, ...]:
    """URL and --study again, for a command to type next."""
    return (url,) if name is None else (url, "--study", name)


# --- options --------------------------------------------------------------------------------------


url_argument: Final = click.argument("url")


def study_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--study and --json."""
    named = click.option(
        "--study", "name", metavar="NAME", help="Which study, if the database holds several."
    )
    return named(json_option(command))


json_option: Final = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document."
)


def by_option(help: str) -> Decorator:
    return click.option(
        "--by",
        metavar="NAME",
        envvar="SUMWISE_USER",
        help=f"{help} If left out, SUMWISE_USER is taken from the environment.",
    )


note_option: Final = click.option("--note", metavar="TEXT", help="Kept with it, for people.")
noise_option: Final = click.option(
    "--noise-std",
    metavar="NUMBER",
    help="Standard deviation of noise that this measurement is known to have beside that of its "
    "individuals, such as noise added for privacy.",
)
force_option: Final = click.option("--force", is_flag=True, help="Overwrite the file if it exists.")


def set_argument(required: bool = True) -> Decorator:
    metavar = "SET" if required else "[SET]"
    return click.argument(
        "set_text", metavar=metavar, required=required, shell_complete=_sets_to_offer
    )


def option_number(option: str, text: str) -> float:
    """A number that was typed for an option."""
    try:
        return number(text)
    except SumwiseError as error:
        raise SettingError(f"{option}: {error}") from None


# --- completion -----------------------------------------------------------------------------------


def _sets_to_offer(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Ids that begin with what was typed, those that somebody is measuring first."""
    del param
    from click.shell_completion import CompletionItem

    try:
        with opened(ctx.params["url"], ctx.params.get("name")) as study:
            ids = [*(claim.set_id for claim in study.claims), *study.ids]
    except (SumwiseError, OSError, KeyError):  # a shell has no place for messages
        return []
    texts = dict.fromkeys(text for text in map(shown, ids) if text.startswith(incomplete))
    return [CompletionItem(_for_shell(text)) for text in texts if _can_be_offered(text)][
        :MOST_OFFERED
    ]


def _can_be_offered(text: str) -> bool:
    """Shells would take some characters for their own, or for the end of the id."""
    return text.isprintable() and len(text) <= 100 and not set(text) & set(",*?[]\\")


def _for_shell(text: str) -> str:
    """Bash puts on the command line what it is given; the others quote by themselves."""
    bash = os.environ.get("_SUMWISE_COMPLETE", "").startswith("bash")
    return shlex.quote(text) if bash else text
