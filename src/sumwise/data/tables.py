"""Tables in files (CSV, Parquet, Excel, GeoJSON, GeoPackage): individuals in groups, and totals.

What cannot be used is refused with its file, line and column. Files are written whole or not at
all, and nothing is overwritten unless the caller asks for it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

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
    surely_points,
)
from sumwise.data.dialect import place as line_of
from sumwise.data.excel import read_sheet
from sumwise.data.frames import NUMBER, Table, as_frame, listed
from sumwise.data.geo import (
    OF_DEGREES,
    OF_PLANE,
    Geometry,
    of_parquet,
    read_geojson,
    read_geopackage,
)
from sumwise.data.known import Known, areas_of, individual, individuals_of, named
from sumwise.data.origin import Origin
from sumwise.data.parquet import open_parquet
from sumwise.data.pool_edits import Columns, inputs_of
from sumwise.data.recipe import MOST_LEVELS, Encoded, Recipe, Seen, is_moment, learn, look, odd_date
from sumwise.data.sets import Sets, as_objects, group_individuals
from sumwise.errors import DataError, LabelError, SettingError, SumwiseError
from sumwise.util.files import atomic_write
from sumwise.util.shapes import Float, Int
from sumwise.util.text import BETWEEN, by_text, find, sentence, shown

MOST_TEXTS: Final = 50  # different ones in a column that is an input without being asked for
FEWEST: Final = 5  # rows that a column must count to be taken for their id
_THOUSANDS: Final = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+\.[0-9]*")


# --- reading --------------------------------------------------------------------------------------


PLAIN: Final = Reading()
PARQUET: Final = (".parquet", ".geoparquet")
EXCEL: Final = (".xlsx", ".xlsm", ".xls", ".ods")
GEOJSON: Final = (".geojson", ".json")
GEOPACKAGE: Final = ".gpkg"


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
            table, geometry = _named_once(file.read(), path), None
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
        where, table = each(layer.row), _arrow(layer.columns, text)
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


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in PARQUET


# --- CSV ------------------------------------------------------------------------------------------


def _read_csv(
    path: Path, text: Callable[[str], bool], reading: Reading, judged: Callable[[str], bool]
) -> tuple[Table, str]:
    dialect = detect(path, reading)
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

    kept = {name: pyarrow.string() for name in _heading(path, dialect) if text(name)}
    try:
        with (
            pyarrow.OSFile(str(path))  # never unpacked, whatever the name ends in
            if dialect.is_utf8
            else pyarrow.BufferReader(decoded(path, dialect.encoding))
        ) as file:
            table = arrow.read_csv(
                file,
                arrow.ReadOptions(use_threads=False),  # with threads, bad rows have no number
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
            f"{marks}, and text with {marks} needs quotation marks. If that is not what separates "
            "them, say what does with --sep."
        ) from None
    if any(str(column.type) == "binary" for column in table.columns):
        raise UnicodeError("it is not UTF-8")
    return _named_once(table, path)


def _heading(path: Path, dialect: Dialect) -> list[str]:
    with path.open(encoding=dialect.encoding, errors="replace", newline="") as lines:
        try:
            reader = csv.reader(lines, delimiter=dialect.sep)
            cells = next((cells for cells in reader if cells), [])
        except csv.Error:
            return []
    if "\ufffd" in "".join(cells):
        raise UnicodeError("its heading is not in its encoding")
    return cells


# --- individuals ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Individuals:
    """Sets, and the columns they were made of."""

    sets: Sets
    by: tuple[str, ...]
    x: tuple[str, ...]
    left_out: Mapping[str, str]  # columns that are not used, and why
    aside: Mapping[str, Float[np.ndarray, " N"]] = field(default_factory=dict)  # not inputs
    order: Int[np.ndarray, " N"] = field(default_factory=lambda: np.empty(0, int))  # rows of a file
    where: Callable[[int], str] = str  # the place of an individual, by its row of `sets.x`
    geometry: Geometry | None = None  # of each individual, by its row of `sets.x`
    known: tuple[Known, ...] = ()  # totals and outputs that are known from the start

    def by_row(self, values: np.ndarray) -> np.ndarray:
        """Values of individuals in the order of the file."""
        return values[np.argsort(self.order)]


def read_individuals(
    path: Path,
    by: Sequence[str],
    x: Sequence[str],
    weights: str = "sum",
    aside: Mapping[str, str | None] | None = None,
    role: str | None = None,
    without: Sequence[str] = (),
    row_id: str | None = None,
    periods: Mapping[str, str] | None = None,
    reading: Reading = PLAIN,
) -> Individuals:
    """The table in `path`, which has a row for each individual, as sets.

    Args:
        by: Column that names the group, text in a CSV file; several columns together name it.
        x: Inputs, `*` and `?` standing for any characters; if left out, all other columns.
        weights: `"sum"`, `"mean"`, or the column that holds θ.
        aside: More columns of numbers and the option that named each, None for a column that may
            be missing. They are not inputs unless `x` has them. A column with "" is no input and
            is not read, whether it is there or not.
        role: What `by` and `x` are wanted for, where no option named them.
        without: Columns that are not inputs, likewise with `*` and `?`.
        row_id: Column with the name of each row, text in a CSV file.
        periods: As in `Sets.from_frame`.
        reading: As in `read_table`.
    """
    groups = tuple(dict.fromkeys(by))
    texts = {*groups, *(() if row_id is None else (row_id,))}
    table = read_table(path, texts.__contains__, reading)
    keys = table.keys(groups, role or "given as --by")
    hidden = {name for name, option in (aside or {}).items() if option == ""}
    others = {name: option for name, option in (aside or {}).items() if name not in hidden}
    if weights not in ("sum", "mean"):
        others[weights] = "given as --weights, which may also be sum or mean"
    for name, option in others.items():
        if option is not None:
            table.require([name], option)
    beside = [name for name in others if name in table.frame.columns]
    used = {*texts, *beside, *hidden}
    own = None if row_id is None else _row_ids(table, row_id, keys)
    taken, left_out = choose_inputs(table, used, x, without, role or "given as --x")
    table.refuse_unclear([*taken, *beside])
    table = table.with_numbers(texts & {*taken, *beside})
    made = learn(table, taken, periods, role or "given as --x")

    def where(row: int) -> str:
        return f"{table.where(row)}, set {shown(keys[row])!r:.80}"

    columns = {name: replace(table, where=where).numbers(name) for name in beside}
    theta = weights if weights in ("sum", "mean") else columns[weights]
    origin = Origin(groups, row_id, weights == "mean")
    sets, order = group_individuals(keys, made, theta, own, origin)
    kept = {name: values[order] for name, values in columns.items() if name in (aside or {})}
    shapes = table.geometry
    if shapes is not None:
        shapes = replace(shapes, wkb=[shapes.wkb[row] for row in order.tolist()])
    return Individuals(
        sets, groups, taken, left_out, kept, order, lambda row: where(int(order[row])), shapes
    )


def _row_ids(table: Table, name: str, keys: Sequence[Hashable]) -> list[Hashable]:
    """The ids of rows; those of different sets may be the same, and others are refused."""
    own = table.keys([name], "given as --id")
    first: dict[Any, int] = {}
    for row, each in enumerate(zip(keys, own, strict=True)):
        if first.setdefault(each, row) != row:
            raise DataError(
                f"{table.where(row)}: {name!r:.80} is {shown(own[row])!r:.80}, and so it is in "
                f"{table.where(first[each])}, which is of the same set. Give each row its own id, "
                "or leave --id out."
            )
    return own


def known_columns(
    path: Path, known: Sequence[str], named: Collection[str | None], reading: Reading = PLAIN
) -> tuple[list[str], list[str], list[Path]]:
    """What is known from the start: columns of outputs, columns that name areas, and files.

    Args:
        path: The table of individuals.
        known: Names of its columns, and of files of totals.
        named: Its columns that name sets and individuals.
        reading: As in `read_table`.
    """
    if not known:
        return [], [], []
    table = read_table(path, lambda name: True, reading)
    files = [Path(name) for name in known if Path(name).is_file()]
    outputs = [name for name in known if not Path(name).is_file()]
    table.require(outputs, "given as --known, which may also be a file")
    areas: dict[str, None] = {}
    for file in files:
        names = read_table(file, lambda name: True, reading).frame.columns
        if "set" not in names and not {*names} & {*named}:
            there = {*table.frame.columns} - {*TOTALS, *OPTIONAL}
            areas |= dict.fromkeys(name for name in names if name in there)
    return outputs, list(areas), files


def with_known_columns(
    made: Individuals,
    path: Path,
    found: tuple[list[str], list[str], list[Path]],
    reading: Reading = PLAIN,
) -> Individuals:
    """The same, with what is known from the start; `found` comes from `known_columns`."""
    outputs, areas, files = found
    if not outputs and not files:
        return made
    table = read_table(path, {*areas}.__contains__, reading)
    table.refuse_unclear(outputs)
    wide: dict[Hashable, np.ndarray] = {
        name: as_objects(table.keys([name]))[made.order] for name in areas
    }
    sets = replace(made.sets, origin=replace(made.sets.origin, areas=wide))
    told = [each for file in files for each in read_known(file, sets, reading)[0]]
    for name in outputs:
        missing = table.missing(name)
        values = table.numbers(name, missing)[made.order]
        rows = np.flatnonzero(~missing[made.order]).tolist()
        told += [individual(sets, row)._replace(y_bar=float(values[row])) for row in rows]
    return replace(made, sets=sets, known=tuple(told))


def read_inputs(
    path: Path,
    inputs: Sequence[str],
    others: Mapping[str, str],
    recipe: Recipe | None = None,
    reading: Reading = PLAIN,
) -> tuple[Table, Encoded]:
    """A table of other individuals than the study's, and its inputs as numbers.

    Args:
        others: More columns of numbers, and the option that named each.
        recipe: How the study's inputs were made of its table, if they are not the columns `inputs`.
        reading: As in `read_table`.
    """
    known = recipe or Recipe.plain(inputs)
    text = [source.name for source in known.sources if source.levels is not None]
    numbers = {*known.names, *others} - {*text}
    table = read_table(path, lambda name: name not in numbers, reading)
    table.refuse_unclear(numbers)
    for name, role in others.items():
        table.require([name], role)
    return table, known.encode(table, "an input of the study")


def read_changes(path: Path, sets: Sets, columns: Columns, reading: Reading = PLAIN) -> Table:
    """A table of individuals whose study has these sets, for `pool_edits.edit`.

    Args:
        reading: As in `read_table`.
    """
    recipe = inputs_of(sets)
    numbers = {source.name for source in recipe.sources if source.levels is None}
    numbers |= {columns.row, columns.weights}
    texts = {*columns.group, columns.id}
    table = read_table(path, lambda name: name in texts or name not in numbers, reading)
    table.refuse_unclear(numbers - texts)
    return table.with_numbers(texts & numbers & {*table.frame.columns})


def choose_inputs(
    table: Table,
    used: Collection[str],
    wanted: Sequence[str] = (),
    without: Sequence[str] = (),
    role: str = "given as --x",
    *,
    see: Callable[[Sequence[str]], tuple[Mapping[str, Seen], Callable[[int], str]]] | None = None,
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Columns that are inputs; and the rest that has no other use, each with the reason.

    Without wishes, inputs are numbers, dates, and text of few levels.

    Args:
        see: If the table is an empty one that only shows the kinds of columns, gives what columns
            of these names hold, and where rows are.
    """
    names = list(table.frame.columns)
    taken = _matching(table, wanted, role)
    unwanted = {*_matching(table, without, "given as --not")}
    left_out = {name: "it is not wanted" for name in names if name in unwanted - {*used}}
    if not wanted:
        others = [name for name in names if name not in used and name not in unwanted]
        reasons = {name: _odd_kind(table, name) for name in others}
        simple = [name for name in others if reasons[name] is None]
        if see is not None and simple:
            found, where = see(simple)
            reasons |= {name: why_unfit(found[name], where, "") for name in simple}
        elif see is None:
            reasons |= {name: _unfit(table, name) for name in simple}
        taken += [name for name in others if reasons[name] is None]
        left_out |= {name: reason for name, reason in reasons.items() if reason is not None}
    chosen = tuple(name for name in dict.fromkeys(taken) if name not in unwanted)
    if not chosen:
        why = "".join(f" {name!r:.80}: {reason}." for name, reason in left_out.items())
        raise DataError(
            f"{table.name} has no input columns beside {listed(n for n in names if n in used)}. "
            f"What is known of each individual must be there.{why:.500}"
        )
    return chosen, left_out


def _matching(table: Table, patterns: Sequence[str], role: str) -> list[str]:
    """Columns that these names and patterns mean, each once, in their order."""
    names, found = list(table.frame.columns), []
    for pattern in patterns:
        hits = [pattern] if pattern in names else [n for n in names if fnmatchcase(n, pattern)]
        if not hits and not {*pattern} & {*"*?["} and "," in pattern:
            hits = _matching(table, [part.strip() for part in pattern.split(",")], role)
        if not hits:
            table.require([pattern], role)
        found += hits
    return found


def _odd_kind(table: Table, name: str) -> str | None:
    """Why a column of this kind is no input; None if it may be one."""
    column = table.frame.get_column(name)
    if not column.dtype.is_nested() and (not column.dtype.is_temporal() or is_moment(column)):
        return None
    empty = len(column) and table.missing(name).all()
    return "it is empty" if empty else f"it holds {column.dtype}"


def _unfit(table: Table, name: str) -> str | None:
    """Why a column is no input unless the user asks for it; None if it is one."""
    if name in table.unclear:
        return None  # it is refused with its row
    return why_unfit(look(table, name)[0], table.where, f"; --id {name} makes it their id")


def why_unfit(seen: Seen, where: Callable[[int], str], hint: str) -> str | None:
    """`_unfit` by what a column holds; `hint` is what to do with one that counts rows."""
    if not seen.known:
        return "it is empty"
    if seen.is_same:
        return "it is the same in every row"
    if seen.texts is None:
        counted = seen.rows >= FEWEST and seen.counts in (0, 1)
        return f"it counts rows{hint}" if counted else None
    texts = [text for text in seen.texts if text]
    if odd := odd_date(texts):
        place = where(seen.texts[odd][1])
        return f"{place} has {odd!r:.40}; dates are inputs if written as 2024-03-31"
    mostly_numbers = 2 * sum(map(bool, map(NUMBER.fullmatch, texts))) >= len(texts)  # refused later
    if len(seen.texts) <= MOST_TEXTS or mostly_numbers:
        return None
    number = f"more than {MOST_LEVELS}" if seen.many else f"{len(seen.texts)}"
    return f"it holds {number} different texts"


# --- measured totals ------------------------------------------------------------------------------

TOTALS: Final = ("total", "y_bar")
OPTIONAL: Final = ("by", "note", "noise_std")
PARTS: Final = ("covers", "of")  # columns of totals that cover a part of their set
Naming = tuple[tuple[str, ...], Callable[[str], Any]]  # columns, and what their text stands for


def read_totals(
    path: Path, sets: Sets, by: str | None, reading: Reading = PLAIN
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Measured totals of these sets as arguments of `Study.tell_many`, and ignored columns.

    Sets are named by a column `set`, by the columns that they were grouped by, or by that of the
    areas or individuals that were known from the start. A column `of` has the members that a total
    covers, separated by ";".

    Args:
        by: Who measured the rows that have no name of their own.
        reading: As in `read_table`.
    """
    known = by_text(sets.ids)
    extra = {each[0] for each in sets.ids[sets.n_asked :] if isinstance(each, tuple)}

    def naming(table: Table) -> Naming:
        columns = _group_columns(table, sets.origin.by)
        if not columns:
            columns = tuple(name for name in table.frame.columns if name in extra)[:1]
            if columns:
                return columns, lambda text: find(known, f"{columns[0]}{BETWEEN}{text}")
        return columns, lambda text: find(known, text)

    return _read_totals(path, by, naming, sets.origin.by, reading, PARTS)


def read_known(
    path: Path, sets: Sets, reading: Reading = PLAIN
) -> tuple[list[Known], tuple[str, ...]]:
    """Totals and outputs that are known when a study is made, and ignored columns.

    Individuals are named by their id column, sets as in `read_totals`, areas by other columns of
    the table that the sets were made of.
    """
    origin = sets.origin
    own = str(origin.id)

    def naming(table: Table) -> Naming:
        names, columns = table.frame.columns, tuple[str, ...]()
        if origin.id is not None and own in names:
            columns, rows_of = (own,), individuals_of(sets)
        elif columns := _group_columns(table, origin.by):
            ids = by_text(sets.ids)
            return columns, lambda text: Known(find(ids, text), np.nan)
        else:
            columns = tuple(str(name) for name in (*origin.by, *origin.areas) if name in names)
            rows_of = areas_of(sets, columns) if columns else {}
        keys = by_text(list(rows_of))

        def whose(text: str) -> Known:
            key = find(keys, text, what=" and ".join(columns))
            return named(sets, columns, key, rows_of[key])

        return columns, whose

    told, ignored = _read_totals(path, None, naming, (*origin.by, *origin.areas), reading)
    rows = zip(told["set_ids"], told["y_bar"], told["noise_std"], strict=True)
    return [who._replace(y_bar=total, noise_std=std) for who, total, std in rows], ignored


def _group_columns(table: Table, by: Sequence[Hashable]) -> tuple[str, ...]:
    """The columns that name sets, if there are any."""
    names, own = table.frame.columns, tuple(map(str, by))
    if "set" in names:
        return ("set",)
    usable = own and {*own} <= {*names} and not {*own} & {*TOTALS, *OPTIONAL, *PARTS}
    return own if usable else ()


def _read_totals(
    path: Path,
    by: str | None,
    naming: Callable[[Table], Naming],
    own: Sequence[Hashable],
    reading: Reading,
    parts: Sequence[str] = (),
) -> tuple[dict[str, Any], tuple[str, ...]]:
    numeric = (*TOTALS, "noise_std", *parts[:1])
    table = read_table(path, lambda name: True, reading, numeric.__contains__)
    names, (columns, whose) = table.frame.columns, naming(table)
    if not columns:
        table.require(["set"], " or ".join(["the set's id", *(f"as {name!r}" for name in own)]))
    held = [name for name in TOTALS if name in names]
    if len(held) > 1:
        raise DataError(f"{path} has columns 'total' and 'y_bar'; leave one of them out")
    table.require(held or TOTALS[:1], "the measured total; y_bar is understood too")
    cells = {name: [""] * len(table.frame) for name in (*columns, held[0], *OPTIONAL, *parts)}
    for name in {*names} & {*cells}:
        values = table.frame.get_column(name).to_list()
        cells[name] = ["" if value is None else shown(value) for value in values]
    names_of = zip(*(cells[name] for name in columns), strict=True)
    called = [BETWEEN.join(each) if all(each) else "" for each in names_of]

    def each(name: str, read: Callable[[str], Any]) -> list[Any]:
        out = []
        for row, text in enumerate(called if name == "" else cells[name]):
            try:
                out.append(read(text))
            except SumwiseError as error:
                of = "" if name == "" else f"{name!r} of set {called[row]!r:.80}: "
                said = f"{table.where(row)}: {of}{sentence(error)} Nothing was stored."
                raise type(error)(said) from None
        return out

    def find_set(text: str) -> Any:
        if not text:
            raise DataError(f"{listed(columns)} is missing. Fill it in, or drop the row.")
        return whose(text)

    def total(text: str) -> float:
        if not text.strip():
            raise LabelError("it is missing; fill it in, or drop the row")
        return number(text, table.decimal)

    def optional(text: str) -> float | None:
        return number(text, table.decimal) if text.strip() else None

    table.refuse_unclear(numeric)
    told = {
        "set_ids": each("", find_set),
        "y_bar": each(held[0], total),
        "by": [text or by for text in cells["by"]],
        "note": [text or None for text in cells["note"]],
        "noise_std": each("noise_std", optional),
        "where": table.where,
    }
    if parts:
        told |= {"covers": each("covers", optional), "of": each("of", _members)}
    return told, tuple(name for name in names if name not in cells)


def _members(text: str) -> list[str] | None:
    return [name.strip() for name in text.split(";")] if text.strip() else None


# --- numbers as people write them -----------------------------------------------------------------


def number(text: str, decimal: str = ".") -> float:
    """A finite number; other text is refused with what to write instead.

    Args:
        decimal: The mark for decimals.

    >>> number(" -1.5e3 ")
    -1500.0
    >>> number("1,5", decimal=",")
    1.5
    >>> number("1,234.5")
    Traceback (most recent call last):
    sumwise.errors.LabelError: '1,234.5' is not a number here; write 1234.5
    """
    cleaned = text.strip()
    if decimal == ",":
        cleaned = cleaned.translate({ord(","): ".", ord("."): ","})
    if NUMBER.fullmatch(cleaned):
        value = float(cleaned)
        if abs(value) == float("inf"):
            raise LabelError(f"{text!r:.80} is too large a number; is it mistyped? Rescale it")
        return value
    if _THOUSANDS.fullmatch(cleaned):
        hint = f"write {cleaned.replace(',', '').replace('.', decimal)}"
    elif not cleaned:
        hint = "give a number such as 1234.5"
    elif re.fullmatch(r"[+-]?(nan|inf(inity)?)", cleaned, re.IGNORECASE):
        hint = "give a finite number"
    else:
        mark = "point" if decimal == "." else "comma"
        hint = f"write digits alone, with a {mark} for decimals and no unit, such as 1234{decimal}5"
    raise LabelError(f"{text!r:.80} is not a number here; {hint}")


# --- writing --------------------------------------------------------------------------------------


def check_output(path: Path, force: bool, endings: Sequence[str] = (".csv", ".parquet")) -> None:
    """Refuse, before the work begins, a file that cannot or must not be written."""
    if path.suffix.lower() not in endings:
        raise SettingError(f"{path} does not end in {' or '.join(endings)}; name a file that does")
    if path.is_dir():
        raise SettingError(f"{path} is a folder; name a file")
    if path.exists() and not force:
        raise SettingError(f"{path} exists; name another file, or pass --force")


def write_table(table: Any, path: Path, force: bool = False) -> Path:
    """Write an Arrow table as CSV or Parquet, by the suffix; whole or not at all."""
    import pyarrow
    from pyarrow import csv as arrow
    from pyarrow import parquet

    check_output(path, force)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path, overwrite=force) as file:
            (parquet.write_table if _is_parquet(path) else arrow.write_csv)(table, file)
    except OSError as error:
        check_output(path, force)  # another process may have written it meanwhile
        raise SettingError(
            f"{path} cannot be written ({error.strerror or error}). Choose another place, or make "
            "room on the disk."
        ) from error
    except pyarrow.ArrowException as error:
        raise DataError(
            f"{path} cannot hold this table ({error}); a file that ends in .parquet holds more"
        ) from error
    return path
