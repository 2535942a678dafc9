"""What commands print: text of users made harmless, figures, times, and what to type next.

Ids, notes and names come from anybody. They are printed without markup, with control characters
made visible and cut to a length that leaves room for the rest.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import rich_click as click

from sumwise.util.text import shown

if TYPE_CHECKING:
    from rich.table import Table

WIDEST: Final = 100  # columns of text that can still be read
LONGEST: Final = 2_000  # characters of a message
_SECRETS: Final = (
    (re.compile(r"(\w://[^\s:/@]*:).*@"), r"\1***@"),
    (re.compile(r"(password=)[^\s&'\")]*", re.IGNORECASE), r"\1***"),
)


def visible(text: str, most: int = 60) -> str:
    """Text that cannot act on a terminal, of at most so many characters.

    >>> print(visible("[red]a\\x1b[31m\\nb"), visible("a" * 100, most=5))
    [red]a\\x1b[31m\\nb aaaa…
    """
    if len(text) > most:
        text = text[: most - 1] + "…"
    return "".join(
        c if c.isprintable() or c == "\N{NO-BREAK SPACE}" else c.encode("unicode_escape").decode()
        for c in text
    )


def named(set_id: Any) -> str:
    """A set's id for people to read."""
    return visible(shown(set_id))


def without_secrets(text: str) -> str:
    """Text without the passwords of URLs in it.

    >>> without_secrets("no command 'postgresql://ann:pw@host/db?sslpassword=x'")
    "no command 'postgresql://ann:***@host/db?sslpassword=***'"
    """
    for secret, mask in _SECRETS:
        text = secret.sub(mask, text)
    return text


def message(text: str) -> str:
    """An error as it may be printed; our own messages have no line breaks to keep."""
    return visible(without_secrets(text), LONGEST)


# --- what is said -------------------------------------------------------------------------------


def width() -> int:
    return max(20, min(shutil.get_terminal_size().columns, WIDEST))


def wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text,
        width(),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def show(text: str = "", indent: str = "") -> None:
    """A paragraph of the result."""
    click.echo(wrapped(text, indent))


def talk(text: str = "") -> None:
    """A paragraph about the result, which is not part of it."""
    click.echo(wrapped(text), err=True)


def show_json(result: Any) -> None:
    """One document, in ASCII: nothing in it can act on a terminal."""
    click.echo(json.dumps(result))


def show_table(table: Table) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    with console.capture() as printed:
        console.print(table)
    click.echo(printed.get(), nl=False)  # Rich itself would take a closed pipe for a failure


def new_table(columns: Sequence[str], right: Iterable[str] = ()) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table


def suggest(what: str, *commands: str) -> None:
    """What to type next, each command in one piece so that it can be copied."""
    click.echo(f"\n{what}", err=True)
    for command in commands:
        click.echo(f"  {command}", err=True)


def typed(*words: str) -> str:
    """A command as it is typed in a shell; what cannot be typed is left to the reader."""
    safe = (shlex.quote(w) if w.isprintable() else "…" for w in map(without_secrets, words))
    return " ".join(("sumwise", *safe))


# --- figures and times ----------------------------------------------------------------------------


def with_error(mean: float, std: float) -> str:
    """A mean to the digits that its standard deviation leaves, without commas, as it is typed.

    >>> with_error(10470.33, 1199.5), with_error(0.1234, 0.0456), with_error(1e12, 3e10)
    ('10470 ± 1200', '0.123 ± 0.046', '1e+12 ± 3e+10')
    """
    largest = max(abs(mean), std)
    if std <= 0 or largest >= 1e9 or std < 1e-6 * largest or std < 1e-6:
        return f"{mean:.6g} ± {std:.2g}"
    digits = 0
    while std * 10**digits < 9.95:  # two digits of it
        digits += 1
    return f"{mean:.{digits}f} ± {std:.{digits}f}"
