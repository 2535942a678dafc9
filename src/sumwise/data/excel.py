"""Sheets of Excel files as tables (extra `excel`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sumwise.data.geo import chosen
from sumwise.errors import DataError, needs_extra


def read_sheet(path: Path, sheet: str | None) -> tuple[dict[str, list[Any]], list[int], str]:
    """Columns by name, the number of each row as Excel shows it, and a sentence on other sheets.

    The first row that is not empty is the heading; empty rows are left out.
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
                raise DataError(f"{where}: column {at + 1} has no name; give it one")
            continue
        if named in columns:
            raise DataError(
                f"{where}: two columns are called {named!r:.80}; give each its own name"
            )
        columns[named] = values
    return columns, [n + 1 for n in numbers], said
