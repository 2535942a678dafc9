"""Words and tables for notebooks. All text is escaped, so that names from users stay harmless."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

from sumwise.util.text import NONE, figure, label

FEW: Final = 10  # rows that are shown
LONG: Final = 300  # characters of a cell


def paragraphs(words: Iterable[str]) -> str:
    """
    >>> paragraphs(["1 < 2", ""])
    '<p>1 &lt; 2</p>'
    """
    return "".join(f"<p>{escape(line)}</p>" for line in words if line)


def table(columns: Sequence[Any], rows: Sequence[Sequence[Any]], total: int | None = None) -> str:
    """A table of the first rows, which says how many there are.

    Args:
        total: How many rows there are, if `rows` has only the first.

    >>> table(["set"], [["<b>"]], total=3)
    '<table><thead><tr><th>set</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table><p>The first 1 of 3.</p>'
    """  # noqa: E501
    shown, n = rows[:FEW], len(rows) if total is None else total
    head = "".join(f"<th>{_cell(name) if name else ''}</th>" for name in columns)
    lines = ("".join(f"<td>{_cell(value)}</td>" for value in row) for row in shown)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    cut = f"<p>The first {len(shown):,} of {n:,}.</p>" if n > len(shown) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{cut}"


def _cell(value: Any) -> str:
    if value is None:
        return NONE
    return escape(figure(value, 4) if isinstance(value, float) else label(value, LONG))
