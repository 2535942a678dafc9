"""Sheets of Excel files as tables (extra `excel`)."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, Final

from sumwise.data.geo import chosen
from sumwise.errors import DataError, needs_extra

CELL: Final = re.compile(rb'<c\s[^>]*?\br="([A-Z]+)([0-9]+)"((?:[^>]*[^>/])?)>(.*?)</c>', re.DOTALL)


def read_sheet(
    path: Path, sheet: str | None
) -> tuple[dict[str, list[Any]], list[int], str, dict[str, tuple[int, str]]]:
    """Columns by name, the number of each row as Excel shows it, and a sentence on other sheets.

    The first row that is not empty is the heading; empty rows are left out. Columns with a formula
    that has no result, or with an error, are named with the first such row and what it holds.
    """
    with needs_extra(f"reading {path.name}", "excel"):
        import python_calamine as calamine
    try:
        book = calamine.CalamineWorkbook.from_path(str(path))
        name, said = chosen(path, book.sheet_names, sheet, "sheet")
        rows = book.get_sheet_by_name(name).to_python(skip_empty_area=False)
    except (calamine.CalamineError, calamine.ZipError, calamine.XmlError) as error:
        raise DataError(f"{path} cannot be read as an Excel file ({error!s:.200})") from error
    except calamine.PasswordError:
        raise DataError(f"{path} has a password; save it without one") from None
    filled = [n for n, row in enumerate(rows) if any(cell != "" for cell in row)]
    if not filled:
        raise DataError(f"{path}, sheet {name!r:.80} is empty; name another with --sheet")
    heading, *numbers = filled
    columns: dict[str, list[Any]] = {}
    for at, cell in enumerate(rows[heading]):
        values = [None if rows[n][at] == "" else rows[n][at] for n in numbers]
        named = str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell)
        where = f"{path}, sheet {name!r:.80}, row {heading + 1}"
        if not named:
            if any(value is not None for value in values):
                raise DataError(
                    f"{where}: column {at + 1} has no name; give it one. If this row is a title, "
                    "or a heading over several columns, drop it: the first row names each column."
                )
            continue
        if named in columns:
            raise DataError(
                f"{where}: two columns are called {named!r:.80}; give each its own name"
            )
        columns[named] = values
    at_row = {n + 1: row for row, n in enumerate(numbers)}
    odd: dict[str, tuple[int, str]] = {}
    for column, number, words in _without_value(path, book.sheet_names.index(name)):
        named = str(rows[heading][column]) if column < len(rows[heading]) else ""
        if named in columns and number in at_row:
            odd.setdefault(named, (at_row[number], f"{named!r:.80} is {words}"))
    return columns, [n + 1 for n in numbers], said, odd


def _without_value(path: Path, sheet: int) -> Iterator[tuple[int, int, str]]:
    """Cells that are read as empty and are not: column from 0, row from 1, and what they hold."""
    if path.suffix.lower() not in (".xlsx", ".xlsm"):
        return
    with zipfile.ZipFile(path) as file:
        try:
            book, links = (
                file.read(f"xl/{name}") for name in ("workbook.xml", "_rels/workbook.xml.rels")
            )
            own = re.findall(rb'<sheet\s[^>]*?\br:id="([^"]+)"', book)[sheet]
            link = re.search(rb'<Relationship\s[^>]*\bId="' + re.escape(own) + rb'"[^>]*>', links)
            target = re.search(rb'\bTarget="/?(?:xl/)?([^"]+)"', link[0] if link else b"")
            content = file.read(f"xl/{target[1].decode()}" if target else "")
        except (KeyError, IndexError):  # a writer that has other names for these
            return
    for letters, number, about, held in CELL.findall(content):
        value = re.search(rb"<v[^>]*>([^<]+)</v>", held)
        formula = re.search(rb"<f[^>]*>([^<]*)</f>", held)
        column = 0
        for letter in letters:
            column = 26 * column + letter - 64
        if value and b't="e"' in about:
            words = f"{unescape(value[1].decode())!r:.80}, an error of Excel. Correct it, or leave "
            yield column - 1, int(number), f"{words}it empty if it is missing."
        elif formula and not value and b"<is>" not in held:
            words = f"the formula {unescape(formula[1].decode())!r:.80} without its result. Open "
            yield column - 1, int(number), f"{words}and save the file in Excel, or write numbers."
