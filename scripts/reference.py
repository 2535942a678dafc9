"""Write the tables of docs/reference.md from the code: `make reference`.

Everything between the two marks in the file is replaced; the words around it are written by hand.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import sumwise as sw
from sumwise.cli import main as program

FILE = Path(__file__).resolve().parents[1] / "docs" / "reference.md"
BEGIN, END = "<!-- made by `make reference` -->", "<!-- end of what `make reference` makes -->"
CLASSES = ("Sets", "Scan", "Embedded", "AggregateRegressor", "ActiveLearner", "Study")


def sentence(thing: Any) -> str:
    """The first sentence of a docstring, on one line that a table can hold."""
    text = re.sub(r"\s+", " ", (inspect.getdoc(thing) or "").split("\n\n")[0]).strip()
    first = re.split(r"(?<=[.!?:])\s+(?=[A-Z`])", text)[0].rstrip(":")
    return first.replace("|", "\\|")


def parameters(thing: Any) -> str:
    """Names and defaults without types, as one would write a call."""
    words, starred = [], False
    for name, each in inspect.signature(thing).parameters.items():
        if name in ("self", "cls"):
            continue
        if each.kind is each.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        prefix = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        starred = starred or prefix == "*"
        given = "" if each.default is each.empty else f"={default(each.default)}"
        words.append(prefix + name + given)
    return f"({', '.join(words)})"


def default(value: Any) -> str:
    if inspect.isfunction(value) or inspect.isclass(value) or repr(value).startswith("<"):
        return "…"
    return repr(value)


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that are defined here, with fitted attributes of estimators."""
    for name in sorted(dir(kind)):
        found = inspect.getattr_static(kind, name)
        if name.startswith("_") or not defined_here(kind, name):
            continue
        if isinstance(found, property) or hasattr(found, "func"):
            yield f"`{name}`", getattr(found, "fget", None) or found.func
        elif callable(found) or isinstance(found, (classmethod, staticmethod)):
            method = getattr(kind, name)
            yield f"`{name}{parameters(method)}`", method


def defined_here(kind: type, name: str) -> bool:
    """Not by scikit-learn, whose own conventions need no repetition."""
    owner = next(each for each in kind.__mro__ if name in vars(each))
    return owner.__module__.startswith("sumwise")


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.resolve_command(context, [name])[1]  # loads what is loaded when used
        if hasattr(command, "list_commands"):
            yield from commands(command, f"{path} {name}")
        elif not command.hidden:
            yield f"{path} {name}", command


def table(rows: Iterator[tuple[str, str]], what: str) -> str:
    lines = [f"| {what} | what it does |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {words} |" for name, words in rows)])


def generated() -> str:
    parts = []
    for name in CLASSES:
        rows = ((shown, sentence(member)) for shown, member in members(getattr(sw, name)))
        parts.append(f"## `{name}`\n\n{sentence(getattr(sw, name))}\n\n{table(rows, 'member')}")
    functions = [
        (f"`{name}{parameters(getattr(sw, name))}`", sentence(getattr(sw, name)))
        for name in sw.__all__
        if inspect.isfunction(getattr(sw, name))
    ]
    parts.append(f"## Functions\n\n{table(iter(functions), 'function')}")
    rows = (
        (f"`{path}`", command.short_help or command.help.split("\n\n")[0].replace("\n", " "))
        for path, command in commands(program, "sumwise")
    )
    parts.append(f"## Command line\n\n{table(rows, 'command')}")
    return "\n\n".join(parts)


def updated(text: str) -> str:
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{generated()}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    FILE.write_text(updated(FILE.read_text()))
    print(f"{FILE} is up to date", file=sys.stderr)
