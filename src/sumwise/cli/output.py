"""Printing: results, JSON, tables and commands to type next.

A command gives its result twice: as a document (`show_json`) and in words (`show` and the like);
--json decides which is printed. Remarks (`talk`) go to stderr in either case.

Ids, notes and names may contain anything. All text is printed without markup and with control
characters escaped; `visible` also cuts it to a length that leaves space for the rest.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import textwrap
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import rich_click as click

from sumwise.util.text import count, shown

if TYPE_CHECKING:
    from sumwise.data.about import About  # it needs NumPy

WIDEST: Final = 100  # columns; longer lines are hard to read
JSON: Final = "sumwise.json"  # in the context of a command
LONGEST: Final = 2_000  # characters of a message
_SECRETS: Final = (
    (re.compile(r"(\w://[^\s:/@]*:).*@"), r"\1***@"),
    (re.compile(r"(password=)[^\s&'\")]*", re.IGNORECASE), r"\1***"),
)


def visible(text: str, most: int = 60) -> str:
    """Text that cannot act on a terminal, cut to `most` characters.

    >>> print(visible("[red]a\\x1b[31m\\nb"), visible("a" * 100, most=5))
    [red]a\\x1b[31m\\nb aaaa…
    """
    return _escaped(text if len(text) <= most else text[: most - 1] + "…")


def _escaped(text: str) -> str:
    return "".join(
        c if c.isprintable() or c == "\N{NO-BREAK SPACE}" else c.encode("unicode_escape").decode()
        for c in text
    )


def named(set_id: Any) -> str:
    """A set's id as it is printed."""
    return visible(shown(set_id))


def without_secrets(text: str) -> str:
    """The text with passwords in URLs masked.

    >>> without_secrets("no command 'postgresql://ann:pw@host/db?sslpassword=x'")
    "no command 'postgresql://ann:***@host/db?sslpassword=***'"
    """
    for secret, mask in _SECRETS:
        text = secret.sub(mask, text)
    return text


def message(text: str) -> str:
    """An error message as it may be printed, on one line."""
    return visible(without_secrets(text), LONGEST)


# --- printing -------------------------------------------------------------------------------------


def width() -> int:
    """Columns of the terminal, within what can be read with ease."""
    return max(20, min(shutil.get_terminal_size().columns, WIDEST))


def choose_json(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    """Keep for `wants_json` whether the command was given --json."""
    del param
    ctx.meta[JSON] = wanted


def wants_json() -> bool:
    """Whether the result is printed as one JSON document, and nothing else to stdout."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and ctx.meta.get(JSON, False)


def show_json(result: Any) -> None:
    """Print the result as one document in ASCII, which cannot act on a terminal."""
    if wants_json():
        click.echo(json.dumps(result, default=_plain))


def _plain(value: Any) -> Any:
    """A dataclass or an array as JSON has it; a path, and the like, as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value.tolist() if hasattr(value, "tolist") else str(value)


def show(
    text: str = "", indent: str = "", *, wrap: bool = True, bold: bool = False, err: bool = False
) -> None:
    """Print a paragraph of the result, or without `wrap` a line that can be copied."""
    if not wants_json():
        printed = _filled(text, indent) if wrap else _escaped(text)
        click.secho(printed, err=err, bold=bold or None)


def talk(text: str) -> None:
    """Print a paragraph about the result to stderr."""
    click.echo(_filled(text), err=True)


def _filled(text: str, indent: str = "") -> str:
    return textwrap.fill(
        _escaped(text),
        width(),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def show_file(path: Path, rows: int, thing: str, **more: Any) -> None:
    """Say how many rows were written to a file."""
    show_json({"file": path, "rows": rows, **more})
    show(f"{count(rows, thing)} written to {path}.")


def show_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Collection[str] = (),
    bold: Collection[tuple[int, int]] = (),
    **layout: Any,
) -> None:
    """Print a table.

    Args:
        right: Names of columns that are aligned right.
        bold: Row and column of cells in bold type.
        layout: Options of `rich.table.Table`.
    """
    if wants_json():
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(**(layout or {"box": box.SIMPLE_HEAD, "show_edge": False, "pad_edge": False}))
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for r, row in enumerate(rows):
        styles = ("bold" if (r, c) in bold else "" for c in range(len(row)))
        table.add_row(*map(Text, row, styles))
    show_rich(table)


def show_rich(drawn: Any) -> None:
    """Print what Rich can draw."""
    if wants_json():
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    with console.capture() as printed:
        console.print(drawn)
    click.echo(printed.get(), nl=False)  # Rich itself would take a closed pipe for a failure


def suggest(what: str, *commands: str) -> None:
    """Print commands to type next to stderr, each on one line so that it can be copied."""
    show(err=True)
    show(what, err=True)
    for command in commands:
        show(f"  {command}", wrap=False, err=True)


def typed(*words: str) -> str:
    """A command as it is typed in a shell, with … for a word that cannot be typed."""
    safe = (shlex.quote(w) if w.isprintable() else "…" for w in map(without_secrets, words))
    return " ".join(("sumwise", *safe))


def placeholder(about: About) -> str:
    """What stands in a suggested command for the number that will be measured."""
    return about.word.upper().replace(" ", "_")


# --- figures --------------------------------------------------------------------------------------


def with_error(mean: float, std: float) -> str:
    """A mean, rounded to two digits of its standard deviation, as a number is typed.

    >>> with_error(10470.33, 1199.5), with_error(0.1234, 0.0456), with_error(1e12, 3e10)
    ('10470 ± 1200', '0.123 ± 0.046', '1e+12 ± 3e+10')
    """
    largest = max(abs(mean), std)
    if std <= 0 or largest >= 1e9 or std < 1e-6 * largest or std < 1e-6:
        return f"{mean:.6g} ± {std:.2g}"
    digits = max(0, math.ceil(math.log10(9.95 / std)))  # two digits of it
    return f"{mean:.{digits}f} ± {std:.{digits}f}"
