"""Parquet files that need not fit in memory, as a value: which files, which columns.

    File      a file as its footer describes it
    Scan      what `Sets.scan_parquet` gives: only the files' footers have been read
    Part      some row groups of one file: what one worker reads, in batches of bounded size
    Batch     some rows in memory: their keys, inputs and weights

A set's rows may span batches, parts and files, so sums over a set are added up across them.
A file is identified by its footer's SHA-256. If it changed since the scan it is refused, because
parts would mix two versions. A footer need not change where a value inside is corrected, so a file
also has a version, by which a design that grows finds what may have changed.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final

import numpy as np

from sumwise.data import frames
from sumwise.data.recipe import Recipe, is_moment, periods_of
from sumwise.errors import DataError, InvalidSetError, SettingError, needs_extra
from sumwise.util.memory import rows_missing
from sumwise.util.shapes import Bool, Float, Int
from sumwise.util.text import count

PART_ROWS: Final = 2**19  # of a part, where row groups are smaller; larger ones are parts
BATCH_ROWS: Final = 2**17  # in memory at once
WIDE: Final = 2**22  # inputs in memory at once, where a recipe makes many of few columns
TAIL: Final = 8  # bytes at the end of a file: the length of its footer, and PAR1


@dataclass(frozen=True, slots=True)
class File:
    """A Parquet file as its footer describes it."""

    path: str
    n_bytes: int
    group_rows: tuple[int, ...]  # rows of each row group
    footer: str = ""  # its SHA-256; empty if an earlier version scanned the file
    version: str = field(default="", compare=False)  # when it was written, or the store's tag


@dataclass(frozen=True, slots=True)
class Part:
    """Row groups of one file that are read together."""

    number: int
    path: str
    groups: tuple[int, ...]
    first_row: int  # in the file, from 0
    rows: int
    first_individual: int  # in the whole scan, from 0
    footer: str = ""  # checksum of the file's footer when it was scanned


@dataclass(frozen=True, slots=True, repr=False)
class Scan:
    """A pool in Parquet files; make one with `Sets.scan_parquet`."""

    files: tuple[File, ...]  # paths, with the number of rows in each part
    by: tuple[str, ...]  # columns that name the set
    x: tuple[str, ...]  # columns with inputs
    weights: str  # "sum", "mean", or the column that holds θ
    periods: tuple[tuple[str, float | str], ...] = ()  # of inputs that go round
    recipe: Recipe | None = None  # how x becomes inputs, once it is known; None takes x as it is
    paths: tuple[str, ...] = field(default=(), compare=False)  # where to look for files again

    @property
    def input_names(self) -> tuple[Hashable, ...]:
        """Names of the inputs."""
        return self.x if self.recipe is None else self.recipe.labels

    @property
    def n_inputs(self) -> int:
        """Number of inputs D of each individual."""
        return len(self.input_names)

    @property
    def rows(self) -> int:
        """Individuals."""
        return sum(sum(file.group_rows) for file in self.files)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read."""
        theta = () if self.theta_column is None else (self.theta_column,)
        return tuple(dict.fromkeys((*self.by, *self.x, *theta)))

    @property
    def theta_column(self) -> str | None:
        """The column that holds the weights θ, if there is one."""
        return None if self.weights in ("sum", "mean") else self.weights

    def parts(self, least: int | None = None) -> tuple[Part, ...]:
        """All rows, in order, in parts of `least` rows (`PART_ROWS` if left out) or one row group,
        whichever is more."""
        least = PART_ROWS if least is None else least
        found: list[Part] = []
        seen = 0
        for file in self.files:
            first, held = 0, 0
            groups: list[int] = []
            for group, rows in enumerate(file.group_rows):
                groups.append(group)
                held += rows
                if held >= least or group == len(file.group_rows) - 1:
                    if held:
                        where = len(found), file.path, tuple(groups), first, held, seen
                        found.append(Part(*where, file.footer))
                    first, seen, held, groups = first + held, seen + held, 0, []
        return tuple(found)

    def __repr__(self) -> str:
        return (
            f"Scan: {self.rows} individuals in {count(len(self.files), 'Parquet file')}, by "
            f"{', '.join(self.by)}; inputs {', '.join(self.x)}; weights {self.weights!r}"
        )


def scan_parquet(
    path: Any,
    *,
    by: Any,
    x: Any,
    weights: str = "sum",
    periods: Mapping[str, float | str] | None = None,
) -> Scan:
    """What `Sets.scan_parquet` does."""
    groups, inputs = frames.column_names(by, "by"), frames.column_names(x, "x")
    if not isinstance(weights, str):
        raise SettingError(f"weights is {weights!r:.60}; give 'sum', 'mean' or a column's name")
    if twice := [name for name in groups if groups.count(name) > 1]:
        raise SettingError(f"by names the column {twice[0]!r} twice; name it once")
    turns = tuple(periods_of(inputs, periods).items())
    scan = Scan((), tuple(groups), tuple(inputs), weights, turns)
    scanned = [_scan_file(where, scan) for where in find_files(path)]
    given = [os.fspath(each) for each in (path if isinstance(path, list | tuple) else [path])]
    paths = tuple(each if "://" in each else os.path.abspath(each) for each in given)
    (first, kinds), *rest = scanned
    for file, others in rest:
        for name in kinds:
            if others[name] != kinds[name]:
                raise InvalidSetError(
                    f"column {name!r} holds {kinds[name]} in {first.path} and {others[name]} in "
                    f"{file.path}; give it the same type in all files"
                )
    scan = replace(scan, files=tuple(file for file, _ in scanned), paths=paths)
    if not scan.rows:
        raise InvalidSetError(f"{path} has no rows; there is nothing to group")
    return scan


# --- columns -------------------------------------------------------------------------------------


def _scan_file(path: str, scan: Scan) -> tuple[File, dict[str, str]]:
    """The footer of a file and what its columns hold; what cannot be used is refused."""
    with open_parquet(path) as file:
        schema, about = file.schema_arrow, file.metadata
        counts = tuple(about.row_group(i).num_rows for i in range(about.num_row_groups))
    if sum(counts) != about.num_rows:
        raise rows_missing(path, sum(counts), about.num_rows)
    table, kinds = frames.Table(frames.as_frame(schema.empty_table()), path), dict[str, str]()
    weighed = "given as weights, which may also be 'sum' or 'mean'"
    roles = dict.fromkeys(scan.x, "given as x")
    roles |= {} if scan.theta_column is None else {scan.theta_column: weighed}
    for name, role in {**dict.fromkeys(scan.by, "given as by"), **roles}.items():
        table.require([name], role)
        kind = schema.field(name).type
        if name in scan.by and not _can_name(kind):
            raise InvalidSetError(
                f"{path}: column {name!r} holds {kind}, which cannot name a group. Use text, "
                "numbers or dates."
            )
        numeric = frames.is_numeric(table.frame.get_column(name))
        if name == scan.theta_column and not numeric:
            raise InvalidSetError(
                f"{path}: column {name!r} ({role}) holds {kind}, not numbers. Convert it."
            )
        if table.frame.get_column(name).dtype.is_nested():
            raise InvalidSetError(
                f"{path}: column {name!r} ({role}) holds {kind}, which cannot be an input. Leave "
                "the column out, or turn it into numbers or text."
            )
        dated = is_moment(table.frame.get_column(name))
        kinds[name] = "dates" if dated else "numbers" if numeric else "text"
    kinds |= {name: str(schema.field(name).type) for name in scan.by}
    size, footer = _size_and_footer(path)
    return File(path, size, counts, footer, _version(path)), kinds


def holds_numbers(scan: Scan) -> bool:
    """Whether all columns of x are numbers, though some may be missing."""
    with open_parquet(scan.files[0].path) as file:
        frame = frames.as_frame(file.schema_arrow.empty_table())
    return all(frames.is_numeric(frame.get_column(name)) for name in scan.x)


def _can_name(kind: Any) -> bool:
    """Whether Arrow can compare, order and group values of this type."""
    import pyarrow as pa

    t = pa.types
    if t.is_dictionary(kind):
        kind = kind.value_type
    others = any(no(kind) for no in (t.is_nested, t.is_null, t.is_float16, t.is_binary_view))
    return not (others or isinstance(kind, pa.BaseExtensionType))


# --- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some rows that follow one another in a file."""

    path: str
    first_row: int  # in the file, from 0
    first_individual: int  # in the whole scan
    keys: tuple[Any, ...]  # Arrow arrays, one for each `by` column
    inputs: Float[np.ndarray, "D n"]  # a row per input column, as stored or in double precision
    theta: Float[np.ndarray, " n"] | None  # of the weights column, if there is one
    unknown: Bool[np.ndarray, "n S"] | None = None  # columns of x of which nothing is known

    def __len__(self) -> int:
        return len(self.keys[0])


def batches(
    scan: Scan, part: Part, *, inputs: bool = True, unknown: bool = False
) -> Iterator[Batch]:
    """The rows of a part, some at a time; what cannot be used is refused with file and row.

    Args:
        inputs: Without it, only the columns that name sets are read.
        unknown: Whether rows are given of which a column is not known, which are refused otherwise.
    """
    for seen, columns in raw_batches(scan, part, scan.columns if inputs else scan.by):
        yield batch_of(scan, part, seen, columns, inputs=inputs, unknown=unknown)


def raw_batches(
    scan: Scan, part: Part, columns: Sequence[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Some rows of a part at a time as Arrow arrays, and how many came before."""
    import pyarrow as pa

    size = BATCH_ROWS if scan.recipe is None else max(1, min(BATCH_ROWS, WIDE // scan.n_inputs))
    seen = 0
    with open_parquet(part.path, part.footer) as file:
        reader = file.iter_batches(
            size, row_groups=list(part.groups), columns=list(columns), use_threads=False
        )
        try:
            for found in reader:
                if found.num_rows:
                    yield seen, dict(zip(found.schema.names, found.columns, strict=True))
                seen += found.num_rows
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(
                f"{part.path} cannot be read beyond row {part.first_row + seen} ({reason:.200}). "
                "Is the file complete?"
            ) from error
    if seen != part.rows:
        raise DataError(f"{part.path} has changed while it was read; scan it again")


def batch_of(
    scan: Scan,
    part: Part,
    seen: int,
    columns: Mapping[str, Any],
    *,
    inputs: bool = True,
    unknown: bool = False,
) -> Batch:
    """Rows that `raw_batches` gave, as in `batches`."""
    path, first = part.path, (part.first_row + seen, part.first_individual + seen)

    def where(row: int) -> str:
        return f"{path}, row {first[0] + row + 1}"

    keys = tuple(_key(columns[name], name, where) for name in scan.by)
    if not inputs:
        return Batch(path, *first, keys, np.empty((0, len(keys[0]))), None)
    missing = None
    if scan.recipe is None:
        found = [_numbers(columns[name], name, where) for name in scan.x]
        matrix = np.stack(found) if found else np.empty((0, len(keys[0])))
    else:
        x, missing = scan.recipe.encode(raw_table(columns, scan.x, where))
        if not unknown:
            _refuse_unknown(scan.recipe, missing, columns, where)
        matrix = np.ascontiguousarray(x.T)
    theta = None
    if scan.theta_column is not None:
        theta = _numbers(columns[scan.theta_column], scan.theta_column, where)
        theta = theta.astype(np.float64, copy=False)
    return Batch(path, *first, keys, matrix, theta, missing)


def raw_table(
    columns: Mapping[str, Any], names: Sequence[str], where: Callable[[int], str]
) -> frames.Table:
    """Some rows of a file for a recipe; empty text is missing there."""
    import pyarrow as pa

    rows = pa.table({name: columns[name] for name in names})
    return frames.Table(frames.as_frame(rows), where=where, in_file=True)


def _refuse_unknown(
    recipe: Recipe, unknown: Bool[np.ndarray, "n S"], columns: Mapping[str, Any], where: Any
) -> None:
    for row, column in np.argwhere(unknown).tolist():
        name = recipe.names[column]
        raise InvalidSetError(
            f"{where(row)}: {name!r:.80} is {columns[str(name)][row].as_py()!r:.80}, and the model "
            "knows nothing like it. Correct it, or embed with a model that is not fitted."
        )


def decoded(column: Any) -> Any:
    """A column as one that Arrow can compare, group and take rows of."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.string()) if pa.types.is_string_view(column.type) else column


def _key(column: Any, name: str, where: Any) -> Any:
    """A column of ids without gaps."""
    import pyarrow as pa
    from pyarrow import compute

    column = decoded(column)
    if pa.types.is_floating(column.type):
        column = compute.add(column, pa.scalar(0.0, column.type))  # −0.0 is the set 0.0
    if column.null_count or pa.types.is_floating(column.type):
        _alone(column, name, where).refuse_missing(name)
    return column


def _numbers(column: Any, name: str, where: Any) -> np.ndarray:
    """A column of finite numbers, single or double precision."""
    import pyarrow as pa
    from pyarrow import compute

    real = pa.types.is_float32(column.type) or pa.types.is_float64(column.type)
    if not (real or frames.is_numeric(_alone(column, name, where).frame.get_column(name))):
        _alone(column, name, where).numbers(name)  # refuses it
    if column.null_count:
        _refuse_gap(column, name, where)
    if not real:
        column = compute.cast(column, pa.float64(), safe=False)
    values = np.from_dlpack(column)
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum(dtype=np.float64)  # a mask would cost more than this
    if not np.isfinite(total):
        if np.isnan(values).any():
            _refuse_gap(column, name, where)
        _alone(column, name, where).numbers(name)  # refuses it, unless the sum alone is too large
    return values


class GapError(InvalidSetError):
    """A number is missing, for which a recipe may know what to do."""


def _refuse_gap(column: Any, name: str, where: Any) -> None:
    try:
        _alone(column, name, where).refuse_missing(name)
    except InvalidSetError as error:
        raise GapError(str(error)) from None


def _alone(column: Any, name: str, where: Any) -> frames.Table:
    """A table of one column, for its refusals."""
    import pyarrow as pa

    return frames.Table(frames.as_frame(pa.table({name: column})), where=where)


# --- runs -----------------------------------------------------------------------------------------


def run_starts(keys: Sequence[Any]) -> Int[np.ndarray, " r"]:
    """Where a run of equal keys begins; keys of one row are those of one set."""
    from pyarrow import compute

    last = len(keys[0]) - 1
    differs = [compute.not_equal(column.slice(1), column.slice(0, last)) for column in keys]
    changed = np.from_dlpack(compute.indices_nonzero(reduce(compute.or_, differs)))
    return np.concatenate([[0], changed.astype(np.int64) + 1])


# --- files ----------------------------------------------------------------------------------------


def find_files(path: Any) -> list[str]:
    """The Parquet files of a file, a folder, an address, or several of these, in order.

    Paths become absolute, so that they mean the same wherever a study is opened.
    """
    given = path if isinstance(path, list | tuple) else [path]
    found = [name for one in given for name in _files_under(one)]
    if not found:
        raise SettingError("the list of files is empty; name at least one file or folder")
    plain = [name.removeprefix("file://") for name in found]
    real = Counter(name if "://" in name else os.path.realpath(name) for name in plain)
    name, times = real.most_common(1)[0]
    if times > 1:
        raise SettingError(f"{name} is there twice, so its rows would count twice; name it once")
    return found


def _files_under(path: Any) -> list[str]:
    """Files that end in .parquet, but not those that a writer hides or has not finished."""
    if not isinstance(path, str | os.PathLike) or not isinstance(where := os.fspath(path), str):
        raise SettingError(f"path is {path!r:.60}; give the path of a Parquet file or of a folder")
    files, root = _file_system(where)
    try:
        names = _all_files(files, root if where else "")
    except (FileNotFoundError, ValueError) as error:  # no file can have a name with NUL
        raise DataError(f"there is no file or folder {where!r}. Check the name.") from error
    except OSError as error:
        raise DataError(f"{where} cannot be listed ({error})") from error
    if names == [root]:
        return [where if "://" in where else root]
    named = [name.removeprefix(root) for name in names if name.endswith(".parquet")]
    below = [tuple(name.strip("/").split("/")) for name in named]
    kept = sorted(parts for parts in below if not any(part[:1] in (".", "_") for part in parts))
    if not kept:
        raise DataError(f"there are no files that end in .parquet in the folder {where}")
    base = where.rstrip("/") if "://" in where else root
    return ["/".join((base, *parts)) for parts in kept]


def _all_files(files: Any, root: str) -> list[str]:
    """The file `root`, or all files under this folder, without folders behind symbolic links."""
    from pyarrow.fs import FileSelector, FileType, LocalFileSystem

    def stop(error: OSError) -> None:
        raise error

    if isinstance(files, LocalFileSystem):  # Arrow can only list names in UTF-8
        if os.path.isfile(root):
            return [root]
        walk = os.walk(root, onerror=stop)
        paths = [os.path.join(folder, name) for folder, _, names in walk for name in names]
        return [path for path in paths if os.path.isfile(path)]
    if files.get_file_info(root).type == FileType.File:
        return [root]
    infos = files.get_file_info(FileSelector(root, recursive=True))
    return [info.path for info in infos if info.type == FileType.File]


def _file_system(path: str) -> tuple[Any, str]:
    """Arrow's view of the disk and an absolute path, or of a store that fsspec knows."""
    from pyarrow import fs

    if "://" not in path:
        return fs.LocalFileSystem(), os.path.abspath(path)
    with needs_extra(f"reading {path.split('://', 1)[0]}://", "dask"):
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem
    try:
        files, root = url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise DataError(f"{path} cannot be opened ({error})") from error
    if isinstance(files, LocalFileSystem):
        return fs.LocalFileSystem(), root
    return fs.PyFileSystem(fs.FSSpecHandler(files)), root


def open_parquet(path: str, footer: str = "") -> Any:
    """A `pyarrow.parquet.ParquetFile`; what cannot be read is refused by name.

    Args:
        footer: Its checksum when it was scanned; a file that has changed since is refused.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        if footer and _size_and_footer(path)[1] != footer:
            raise DataError(
                f"{path} has changed since it was scanned. "
                "Put the old file back, or scan again and embed into a new folder."
            )
        files, root = _file_system(path)
        return parquet.ParquetFile(root, filesystem=files)
    except FileNotFoundError as error:
        raise DataError(
            f"there is no file {path} (any more). Individuals are read from it; put it back."
        ) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(f"{path} cannot be read as Parquet ({reason:.200})") from error


def _version(path: str) -> str:
    """When a file was written, or what a store calls its content."""
    files, root = _file_system(path)
    if "://" not in path or not hasattr(files, "handler"):
        return str(os.stat(root).st_mtime_ns)
    store: Any = files.handler.fs
    return str(store.ukey(root))


def _size_and_footer(path: str) -> tuple[int, str]:
    """The length of a file in bytes, and SHA-256 of its footer."""
    files, root = _file_system(path)
    with files.open_input_file(root) as file:
        size = file.size()
        file.seek(max(0, size - TAIL))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - TAIL - length))
        return size, hashlib.sha256(file.read(length + TAIL)).hexdigest()
