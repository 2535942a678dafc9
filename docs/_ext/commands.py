"""The page of all commands and their options, written from what `--help` knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from sumwise.cli import main as program

HEAD = """\
.. made from ``--help`` by docs/_ext/commands.py

Commands
========

All commands and options of ``sumwise``, as ``sumwise COMMAND --help`` has them.
:doc:`/cli` shows them at work.
"""


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}


def write(app: Any) -> None:
    file = Path(app.srcdir) / "reference" / "commands.rst"
    file.parent.mkdir(exist_ok=True)
    text = page()
    if not file.exists() or file.read_text() != text:
        file.write_text(text)


def page() -> str:
    parts = [HEAD]
    for panel, several in groupby(commands(program, "sumwise"), lambda each: each[0]):
        parts.append(heading(panel, "-"))
        parts += (section(path, command) for _, path, command in several)
    return "\n".join(parts)


def commands(
    group: click.Group, path: str, panel: str = ""
) -> Iterator[tuple[str, str, click.Command]]:
    """Panel of the main help, words to type, and the command, of all that are not hidden."""
    context = click.Context(group)
    for name in group.list_commands(context):
        stub = group.commands[name]
        command = group.resolve_command(context, [name])[1]  # loads what is loaded when used
        where = panel or getattr(stub, "panel", None) or "Other"
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}", where)
        elif not command.hidden:
            yield where, f"{path} {name}", command


def section(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    records = (
        parameter.get_help_record(context)
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option)
    )
    entries = (
        f".. option:: {names}\n\n    {plain(text)}\n" for names, text in filter(None, records)
    )
    program = f".. program:: {path}\n\n::\n\n    {usage}\n"
    return "\n".join([heading(path, "~"), program, prose(command.help), "", *entries])


def prose(text: str) -> str:
    """Help as paragraphs; what Click is told not to wrap is literal."""
    parts = []
    for paragraph in text.strip().split("\n\n"):
        lines = paragraph.split("\n")
        if lines[0].strip() == "\b":
            parts.append("::\n\n" + "\n".join(f"    {line}" for line in lines[1:]))
        else:
            parts.append(plain(paragraph))
    return "\n\n".join(parts)


def plain(text: str) -> str:
    """Text as reST, in which nothing but code in backticks has a meaning."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(
        f"`{part}`" if part.startswith("`") else re.sub(r"([\\*`|_<>])", r"\\\1", part)
        for part in parts
    )


def heading(text: str, mark: str) -> str:
    return f"\n{text}\n{mark * len(text)}\n"
