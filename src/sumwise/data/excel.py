"""Sheets of Excel files as tables (extra `excel`)."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, Final

from sumwise.data.geo import chosen
from sumwise.errors import DataError, needs_extra

BROKEN: Final = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, UnicodeError)
MOST_CELLS: Final = 50_000_000  # of a sheet up to its last filled row and column
LARGE: Final = 2**26  # bytes of a part of the file
RATIO: Final = 200  # of the bytes of a part to those that it is packed in
FILLED: Final = re.compile(rb"""<(?:\w+:)?c\s[^>]*?\br=["']([A-Z]{1,3})([0-9]{1,7})["'][^>/]*>""")
PART: Final = re.compile(rb"<table:(table|table-row|(?:covered-)?table-cell)(?=[\s/>])([^>]*)>")
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
    odd_cells: list[tuple[int, int, int, str]] = []
    try:
        if zipfile.is_zipfile(path):
            _refuse_packed(path)
            odd_cells = [*_of_ods(path)]
        book = calamine.CalamineWorkbook.from_path(str(path))
        name, said = chosen(path, book.sheet_names, sheet, "sheet")
        number = book.sheet_names.index(name)
        odd_cells += [(number, *cell) for cell in _without_value(path, number)]
        rows = book.get_sheet_by_name(name).to_python(skip_empty_area=False)
    except (calamine.CalamineError, calamine.ZipError, calamine.XmlError, *BROKEN) as error:
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
        named = _name(cell)
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
    for own, column, row, words in odd_cells:
        named = _name(rows[heading][column]) if column < len(rows[heading]) else ""
        if own == number and named in columns and row in at_row:
            odd.setdefault(named, (at_row[row], f"{named!r:.80} is {words}"))
    return columns, [n + 1 for n in numbers], said, odd


def _name(cell: Any) -> str:
    return str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell)


def _refuse_packed(path: Path) -> None:
    """Refuse a small file that unpacks to one that fills the memory."""
    with zipfile.ZipFile(path) as file:
        for part in file.infolist():
            if part.file_size > max(LARGE, RATIO * part.compress_size):
                raise DataError(
                    f"{path}: {part.filename!r:.80} unpacks from {part.compress_size:,} to "
                    f"{part.file_size:,} bytes, as blanks do. Copy the table to a new file."
                )


def _refuse_far(path: Path, row: int, column: int) -> None:
    """Refuse a cell that makes a sheet too large, by its row and column from 1."""
    if row * column > MOST_CELLS:
        raise DataError(
            f"{path}, row {row}: a cell in column {column} makes a sheet of {row * column:,} "
            f"cells; up to {MOST_CELLS:,} are read. Delete what is far from the table, or save it "
            "as CSV."
        )


def _of_ods(path: Path) -> Iterator[tuple[int, int, int, str]]:
    """Errors in an OpenDocument file: sheet and column from 0, row from 1, and what they hold."""
    with zipfile.ZipFile(path) as file:
        content = file.read("content.xml") if "content.xml" in file.namelist() else b""
    sheet, row, rows, column = -1, 0, 0, 0
    for part in PART.finditer(content):
        found = re.search(rb'-repeated="([0-9]{1,9})"', part[2])
        times = int(found[1]) if found else 1
        if part[1] == b"table":
            sheet, row, rows = sheet + 1, 0, 0
        elif part[1] == b"table-row":
            row, rows, column = row + rows, times, 0
        else:
            if b"value-type=" in part[2]:
                _refuse_far(path, row + rows, column + times)
            if b'calcext:value-type="error"' in part[2]:
                held = re.compile(rb"<text:p>([^<]*)").match(content, part.end())
                words = _error(held[1] if held else b"", "LibreOffice")
                yield from ((sheet, column + n, row + 1, words) for n in range(times))
            column += times


def _error(held: bytes, program: str) -> str:
    return (
        f"{unescape(held.decode())!r:.80}, an error of {program}. Correct it, or leave it empty if "
        "it is missing."
    )


def _number(letters: bytes) -> int:
    """The number of a column from 1: A, B, …, Z, AA."""
    column = 0
    for letter in letters:
        column = 26 * column + letter - 64
    return column


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
    if far := FILLED.findall(content):
        last = max(int(row) for _, row in far)
        _refuse_far(path, last, max(_number(letters) for letters in {each[0] for each in far}))
    for letters, number, about, held in CELL.findall(content):
        value = re.search(rb"<v[^>]*>([^<]+)</v>", held)
        formula = re.search(rb"<f[^>]*>([^<]*)</f>", held)
        column = _number(letters)
        if value and b't="e"' in about:
            yield column - 1, int(number), _error(value[1], "Excel")
        elif formula and not value and b"<is>" not in held:
            words = f"the formula {unescape(formula[1].decode())!r:.80} without its result. Open "
            yield column - 1, int(number), f"{words}and save the file in Excel, or write numbers."
