"""Tables in files: CSV, Parquet, Excel, GeoJSON and GeoPackage.

What cannot be used is refused with its file, line and column. Files are written whole or not at
all, and nothing is overwritten unless the caller asks for it.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from sumwise.data.dialect import (
    SEPARATORS,
    Dialect,
    Reading,
    before_unicode,
    decoded,
    detect,
    judge,
    may_be_numbers,
    refuse_odd_quotes,
    surely_points,
)
from sumwise.data.dialect import place as line_of
from sumwise.data.excel import read_sheet
from sumwise.data.frames import Table, as_frame
from sumwise.data.geo import (
    OF_DEGREES,
    OF_PLANE,
    Geometry,
    of_parquet,
    read_geojson,
    read_geopackage,
)
from sumwise.data.geo_write import ENDINGS, to_geojson, with_geometry
from sumwise.data.parquet import open_parquet
from sumwise.errors import DataError, SettingError, SumwiseError
from sumwise.util.files import atomic_write
from sumwise.util.memory import read_parquet
from sumwise.util.text import FORMULA_SIGNS, tamed, untamed

# --- reading --------------------------------------------------------------------------------------


PLAIN: Final = Reading()
PARQUET: Final = (".parquet", ".geoparquet")
EXCEL: Final = (".xlsx", ".xlsm", ".xls", ".ods")
GEOJSON: Final = (".geojson", ".json")
GEOPACKAGE: Final = ".gpkg"
TABLES: Final = (".csv", ".parquet")  # that are written


def read_table(
    path: Path,
    text: Callable[[str], bool],
    reading: Reading = PLAIN,
    judged: Callable[[str], bool] | None = None,
) -> Table:
    """A table with at least one row, whose columns have names of their own.

    Args:
        text: Whether the column with this name is read as text, so that 007 stays 007. Parquet
            files have types of their own.
        reading: What the user gave of separators, decimals, encoding, sheet and centroids.
        judged: Whether the column of a CSV file with this name shows which mark is for decimals;
            if left out, those that are not read as text.
    """
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a CSV or Parquet file")
    if not path.is_file():
        raise DataError(f"there is no file {path}. Check the name.")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty; give a table with a heading")
    known = judged or (lambda name: not text(name))
    try:
        made, said = _read(path, text, reading, known)
    except (ValueError, OSError) as error:  # Arrow's complaints are one or the other
        if isinstance(error, SumwiseError):
            raise
        reason = str(error).splitlines()[0]
        raise DataError(
            f"{path} cannot be read as a table ({reason:.200}). Give a CSV file with a heading, or "
            "a file that ends in .parquet, .xlsx, .geojson or .gpkg."
        ) from error
    if not made.frame.num_rows:
        raise DataError(f"{path} has a heading and no rows; there is nothing to read")
    if said:
        reading.say(f"{path.name}: read with {said}.")
    if reading.centroid:
        made = _with_centroids(made)
    return replace(made, frame=as_frame(made.frame))


def is_plain(schema: Any) -> bool:
    """Whether a Parquet file has columns with names of their own, and no geometries."""
    names = schema.names
    return of_parquet(schema.metadata) is None and len({*names}) == len(names) and "" not in names


def parquet_piece(rows: Any, name: str, before: int) -> Table:
    """Some rows of a Parquet file, as `read_table` gives all.

    Args:
        before: How many rows come before them.
    """
    import pyarrow

    table = rows if isinstance(rows, pyarrow.Table) else pyarrow.Table.from_batches([rows])
    where = lambda row: f"{name}, row {before + row + 1}"  # noqa: E731
    return Table(as_frame(table), name, where, in_file=True)


def _named_once(table: Any, path: Path) -> Any:
    names = list(table.column_names)
    for name in names:
        if names.count(name) > 1:
            first, second = [n for n, own in enumerate(names, start=1) if own == name][:2]
            raise DataError(
                f"{path} has two columns called {name!r:.80}, numbers {first} and {second}; give "
                "each its own name"
            )
    if "" in names:
        at = names.index("")
        if not _is_index(table[at]):
            raise DataError(f"{path}: column {at + 1} has no name; give it one in the heading")
        return table.remove_column(at)
    return table


def _is_index(column: Any) -> bool:
    """Whether a column is empty, or counts rows as programs do that write tables."""
    if column.null_count == len(column):
        return True
    values = column.to_numpy()
    whole = values.dtype.kind == "i" and values[0] in (0, 1)
    return bool(whole and np.array_equal(values, values[0] + np.arange(len(values))))


def _read(
    path: Path, text: Callable[[str], bool], reading: Reading, judged: Callable[[str], bool]
) -> tuple[Table, str]:
    """The Arrow table in a file, and what was found unusual about it, in words."""
    kind = path.suffix.lower()

    def each(what: str) -> Callable[[int], str]:
        return lambda row: f"{path}, {what} {row + 1}"

    if kind in PARQUET:
        # pyarrow's read_table would import pandas, and take columns from names of folders
        with open_parquet(str(path)) as file:
            table, geometry = _named_once(read_parquet(file, str(path), reading.memory), path), None
        found = of_parquet(table.schema.metadata)
        if found is not None and found[0] in table.column_names:
            geometry = Geometry(table.column(found[0]).to_pylist(), found[1])
            table = table.drop_columns([found[0]])
        return Table(table, str(path), each("row"), in_file=True, geometry=geometry), ""
    if kind in EXCEL:
        columns, numbers, said, odd = read_sheet(path, reading.sheet)
        table, where = _arrow(columns, text), lambda row: f"{path}, row {numbers[row]}"
        unclear = _judge(table, {}, judged, replace(reading, decimal="."), True)[1] | odd
        made = Table(table, str(path), where, in_file=True, unclear=_placed(unclear, where))
        return made, said
    if kind in GEOJSON or kind == GEOPACKAGE:
        layer, said = (
            read_geopackage(path, reading.sheet) if kind == GEOPACKAGE else (read_geojson(path), "")
        )
        table, where = _arrow(layer.columns, text), each(layer.row)
        return Table(table, str(path), where, in_file=True, geometry=layer.geometry), said
    return _read_csv(path, text, reading, judged)


def _arrow(columns: Mapping[str, Sequence[Any]], text: Callable[[str], bool]) -> Any:
    """Columns of Python's values with one type each; text where values are of several kinds."""
    import pyarrow

    def as_text(value: Any) -> str | None:
        whole = isinstance(value, float) and value.is_integer()
        return None if value is None else str(int(value) if whole else value)

    def column(name: str, values: Sequence[Any]) -> Any:
        if not text(name):
            kinds = {type(value) for value in values if value is not None}
            try:
                if kinds <= {int, float}:
                    whole = kinds and all(v is None or v == int(v) for v in values)
                    return pyarrow.array(values, pyarrow.int64() if whole else pyarrow.float64())
                if kinds == {date, datetime}:
                    days = {v: datetime(v.year, v.month, v.day) for v in values if type(v) is date}
                    moments = [days.get(value, value) for value in values]
                    return pyarrow.array(moments, pyarrow.timestamp("us"))
                if len(kinds) == 1:
                    return pyarrow.array(values)
            except (pyarrow.ArrowException, ValueError, OverflowError):
                pass
        return pyarrow.array(map(as_text, values), pyarrow.string())

    return pyarrow.table({name: column(name, values) for name, values in columns.items()})


def _with_centroids(made: Table) -> Table:
    """The table with the coordinates of centroids as two more columns."""
    names = made.frame.column_names
    if made.geometry is None:
        if {*OF_DEGREES} <= {*names} or {*OF_PLANE} <= {*names}:
            return made  # such a table has them without geometries
        raise DataError(f"{made.name} has no geometries; leave --centroid out")
    for axis, values in zip(made.geometry.axes, made.geometry.centroids(made.where).T, strict=True):
        if axis in names:
            raise DataError(
                f"{made.name} has a column {axis!r} already; leave --centroid out, or rename it"
            )
        frame = made.frame.append_column(axis, [values])
        made = replace(made, frame=frame)
    return made


# --- CSV ------------------------------------------------------------------------------------------


def _read_csv(
    path: Path, text: Callable[[str], bool], reading: Reading, judged: Callable[[str], bool]
) -> tuple[Table, str]:
    dialect = detect(path, reading)
    refuse_odd_quotes(path, dialect)
    try:
        table = _parse(path, dialect, text)
    except UnicodeError:
        if reading.encoding is not None:
            decoded(path, reading.encoding)  # refuses it with the line
        dialect = replace(dialect, encoding=before_unicode(path))
        table = _parse(path, dialect, text)
    texts: dict[str, Any] = {}
    points = False
    if reading.decimal is None and dialect.sep != ",":
        real = [n for n in table.column_names if judged(n) and str(table[n].type) == "double"]
        points = any(surely_points(table[name].to_numpy()) for name in real)
        if real and not points:
            again = _parse(path, dialect, {*real}.__contains__)
            texts = {name: again[name] for name in real}
    decimal, unclear = _judge(table, texts, judged, reading, dialect.sep == ",", points)
    if decimal != dialect.decimal:
        dialect = replace(dialect, decimal=decimal)
        table = _parse(path, dialect, text)
    where = line_of(path, dialect)
    made = Table(table, str(path), where, True, _placed(unclear, where), decimal)
    return made, dialect.found(reading)


def _judge(
    table: Any,
    texts: dict[str, Any],
    judged: Callable[[str], bool],
    reading: Reading,
    commas_separate: bool,
    points: bool = False,
) -> tuple[str, dict[str, tuple[int, str]]]:
    """`judge` for the columns of a table that may be numbers as text, and these `texts`."""
    from pyarrow import csv as arrow

    missing = frozenset(arrow.ConvertOptions().null_values)
    for name in table.column_names:
        column = table[name]
        if str(column.type) == "string" and judged(name) and may_be_numbers(column, missing):
            texts[name] = column
        points |= commas_separate and str(column.type) == "double" and judged(name)
    return judge(texts, missing, reading.decimal, points, commas_separate)


def _placed(unclear: Mapping[str, tuple[int, str]], where: Callable[[int], str]) -> dict[str, str]:
    return {name: f"{where(row)}: {words}" for name, (row, words) in unclear.items()}


def _parse(path: Path, dialect: Dialect, text: Callable[[str], bool]) -> Any:
    """The Arrow table in a CSV file; a UnicodeError if it is not in the encoding."""
    import pyarrow
    from pyarrow import csv as arrow

    broken: list[Any] = []

    def keep(row: Any) -> str:
        broken.append(row)
        return "error"

    heading = _heading(path, dialect)
    named = zip(heading, _untamed(heading), strict=True)
    kept = {name: pyarrow.string() for name, own in named if text(own or "")}
    try:
        with (
            pyarrow.OSFile(str(path))  # never unpacked, whatever the name ends in
            if dialect.is_utf8
            else pyarrow.BufferReader(decoded(path, dialect.encoding))
        ) as file:
            table = arrow.read_csv(
                file,
                # with threads, bad rows have no number
                arrow.ReadOptions(use_threads=False, skip_rows=dialect.skipped),
                arrow.ParseOptions(
                    delimiter=dialect.sep, newlines_in_values=True, invalid_row_handler=keep
                ),
                arrow.ConvertOptions(column_types=kept, decimal_point=dialect.decimal),
            )
    except pyarrow.ArrowInvalid as error:
        if "invalid UTF8" in str(error):
            raise UnicodeError("it is not UTF-8") from error
        if not broken:
            raise
        row = broken[0]
        marks = SEPARATORS.get(dialect.sep, dialect.sep)
        raise DataError(
            f"{line_of(path, dialect)(row.number - 2)}: there are {row.actual_columns} cells and "
            f"the heading has {row.expected_columns}. Fix the line; columns are separated by "
            f"{marks}, and text with {marks} needs quotation marks. If another character "
            "separates columns, name it with --sep."
        ) from None
    if any(str(column.type) == "binary" for column in table.columns):
        raise UnicodeError("it is not UTF-8")
    return _named_once(_each_text(table, _untamed), path)


def _heading(path: Path, dialect: Dialect) -> list[str]:
    with path.open(encoding=dialect.encoding, errors="replace", newline="") as lines:
        try:
            reader = csv.reader(lines, delimiter=dialect.sep)
            cells = next(islice(filter(None, reader), dialect.skipped, None), [])
        except csv.Error:
            return []
    if "\ufffd" in "".join(cells):
        raise UnicodeError("its heading is not in its encoding")
    return cells


# --- writing --------------------------------------------------------------------------------------


def check_output(path: Path, force: bool, endings: Sequence[str] = TABLES) -> None:
    """Refuse, before the work begins, a file that cannot or must not be written."""
    if path.suffix.lower() not in endings:
        raise SettingError(f"{path} does not end in {' or '.join(endings)}; name a file that does")
    if path.is_dir():
        raise SettingError(f"{path} is a folder; name a file")
    if path.exists() and not force:
        raise SettingError(f"{path} exists; name another file, or pass --force")


def write_rows(table: Any, file: IO[bytes], suffix: str) -> None:
    """Write an Arrow table into an open file, as Parquet or CSV."""
    from pyarrow import csv, parquet

    if suffix in PARQUET:
        parquet.write_table(table, file)
    else:
        csv.write_csv(marked(table), file)


def marked(table: Any) -> Any:
    """The table with an apostrophe before text that a spreadsheet would take for a formula.

    >>> import pyarrow as pa
    >>> marked(pa.table({"=a": ["@b", "-5", "c"], "d": [-1.5, 2.0, 3.0]})).to_pydict()
    {"'=a": ["'@b", '-5', 'c'], 'd': [-1.5, 2.0, 3.0]}
    """
    return _each_text(table, _tamed)


def write_table(
    table: Any, path: Path, force: bool = False, geometry: Geometry | None = None
) -> Path:
    """Write an Arrow table as CSV or Parquet, by the suffix; whole or not at all.

    Text in CSV that a spreadsheet would take for a formula gets an apostrophe in front, which
    `read_table` takes away.

    Args:
        geometry: Of each row; the file is GeoJSON or GeoParquet then.
    """
    import pyarrow

    endings = TABLES if geometry is None else ENDINGS
    check_output(path, force, endings)
    text = None
    if geometry is not None and path.suffix.lower() == ENDINGS[0]:
        text = to_geojson(table, geometry).encode("utf-8", "backslashreplace")
    elif geometry is not None:
        table = with_geometry(table, geometry)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path, overwrite=force) as file:
            if text is not None:
                file.write(text)
                return path
            write_rows(table, file, path.suffix.lower())
    except OSError as error:
        check_output(path, force, endings)  # another process may have written it meanwhile
        raise SettingError(
            f"{path} cannot be written ({error.strerror or error}). Choose another place, or make "
            "room on the disk."
        ) from error
    except pyarrow.ArrowException as error:
        raise DataError(
            f"{path} cannot hold this table ({error}); a file that ends in .parquet holds more"
        ) from error
    return path


Texts = Sequence[str | None]


def _tamed(texts: Texts) -> Texts:
    return [text and tamed(text) for text in texts]


def _untamed(texts: Texts) -> Texts:
    """The texts of a column without marks; those of a writer who did not mark them as they are."""
    if any(text and text[0] != "'" and tamed(text) != text for text in texts):
        return texts
    return [text and untamed(text) for text in texts]


def _each_text(table: Any, change: Callable[[Texts], Texts]) -> Any:
    """The table with its names, and each column of texts that may look like formulas, changed."""
    import pyarrow as pa
    from pyarrow import compute

    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            odd = compute.match_substring_regex(column, f"^'*{FORMULA_SIGNS}")
            if compute.any(odd).as_py():
                column = pa.array(change(column.to_pylist()), column.type)
        columns.append(column)
    return pa.table(columns, names=[name or "" for name in change(table.column_names)])
