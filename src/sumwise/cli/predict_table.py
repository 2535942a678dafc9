"""Predictions of the rows of a large Parquet file, some at a time.

Members of measured sets are matched with rows of all the file, so these rows are predicted first,
together; they are few, as measured sets are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sumwise.data.dialect import Reading
from sumwise.data.individuals import encoded_inputs
from sumwise.data.parquet import open_parquet
from sumwise.data.tables import PARQUET, TABLES, is_plain, marked, parquet_piece
from sumwise.errors import DataError, SettingError
from sumwise.model.predict import Predictions
from sumwise.util.files import atomic_write
from sumwise.util.memory import rows_missing
from sumwise.util.progress import Slow, quiet
from sumwise.util.text import shown

if TYPE_CHECKING:
    from sumwise.study.study import Study

ROWS: Final = 2**17  # at a time; smaller files are read at once
COLUMNS: Final = ("mean", "std", "lower", "upper")


def is_large(study: Study, data: Path, out: Path, reading: Reading) -> bool:
    """Whether a table is predicted in pieces; within bounds, members of a set move together."""
    if data.suffix.lower() not in PARQUET or study.about.bounded or reading.centroid:
        return False
    if out.suffix.lower() not in TABLES or not data.is_file():
        return False
    with open_parquet(str(data)) as file:
        return file.metadata.num_rows > ROWS and is_plain(file.schema_arrow)


def write(
    study: Study, data: Path, by: str | None, level: float, out: Path, force: bool
) -> tuple[Any, int, int, bool]:
    """What `_write` does; a disk without room is refused in words."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        return _write(study, data, by, level, out, force)
    except OSError as error:
        raise SettingError(
            f"{out} cannot be written ({error.strerror or error}). Choose another place, or make "
            "room on the disk."
        ) from error


def _write(
    study: Study, data: Path, by: str | None, level: float, out: Path, force: bool
) -> tuple[Any, int, int, bool]:
    """Write all rows with their predictions.

    Returns:
        An empty table with the columns, the number of rows, how many of them extrapolate, and
        whether some are members of measured sets.
    """
    from pyarrow import csv, parquet

    columns = [by] if by is not None else [*map(str, study.state.record.sets.origin.by)]
    number, own = _members(study, data, columns, level, named=by is not None)
    head, rows, far, writer = None, 0, 0, None
    with open_parquet(str(data)) as file, ExitStack() as opened:
        slow = opened.enter_context(Slow("predicting", file.metadata.num_rows))
        to = opened.enter_context(atomic_write(out, overwrite=force))
        for piece in _pieces(file, data):
            found = _predicted(study, piece, None, level)
            low, high = np.searchsorted(number, [rows, rows + len(found)])
            if own is not None and low < high:
                found = _with(found, number[low:high] - rows, own, slice(low, high))
            table = found.to_arrow()
            if table.column_names[-1].endswith("extrapolates"):
                far += int(found.more["extrapolates"].sum())
            rows, head = rows + len(found), table.slice(0, 0)
            table = table if out.suffix.lower() in PARQUET else marked(table)
            if writer is None:
                kind = parquet.ParquetWriter if out.suffix.lower() in PARQUET else csv.CSVWriter
                writer = opened.enter_context(kind(to, table.schema))
            writer.write_table(table)
            slow.at(rows)
    return head, rows, far, own is not None


def _pieces(file: Any, data: Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """The rows of a file as tables, some at a time."""
    import pyarrow as pa

    seen = 0
    for group in range(file.num_row_groups):  # a reader of all would keep what it has read
        batches = file.iter_batches(ROWS, [group], columns, use_threads=False)
        while True:
            try:
                batch = next(batches, None)
            except (pa.ArrowException, OSError) as error:
                reason = next(iter(str(error).splitlines()), type(error).__name__)
                raise DataError(
                    f"{data} cannot be read beyond row {seen} ({reason:.200}). Is it complete?"
                ) from error
            if batch is None:
                break
            yield parquet_piece(batch, str(data), seen)
            seen += batch.num_rows
    if seen != file.metadata.num_rows:
        raise rows_missing(str(data), seen, file.metadata.num_rows)


def _predicted(
    study: Study, table: Any, groups: Sequence[Hashable] | None, level: float
) -> Predictions:
    """Predictions of some rows, with all of their columns."""
    kept = study.state.record.sets
    names = kept.input_names
    if names is None:
        raise DataError("the inputs of this study have no names; predict in Python, from arrays")
    column = None if study.about.outputs == "numbers" else kept.origin.weights
    beside = {} if column is None else {str(column): None}
    known = encoded_inputs(table, tuple(map(str, names)), beside, kept.recipe)
    exposure = table.numbers(str(column)) if column in table.frame.columns else None
    with quiet():
        found = study.predict(known, level, groups=groups, exposure=exposure)
    native = table.frame.to_native()
    return replace(found, inputs={name: native.column(name) for name in native.column_names})


def _members(
    study: Study,
    data: Path,
    columns: Sequence[str],
    level: float,
    *,
    named: bool,
) -> tuple[Any, Predictions | None]:
    """The rows that belong to measured sets, and predictions of these."""
    import pyarrow as pa

    none, kept = np.empty(0, dtype=np.int64), study.state.record.sets
    measured = {answer.set_id: answer.set_id for answer in study.answers}
    texts = {shown(set_id): set_id for set_id in measured}
    with open_parquet(str(data)) as file:
        there = {*columns} <= {*file.schema_arrow.names}
        if not columns or not (there or named) or not measured:
            return none, None
        numbers, ids, tables, first = [none], list[Hashable](), list[Any](), 0
        with Slow("finding members of measured sets", file.metadata.num_rows) as slow:
            for piece in _pieces(file, data):
                keys = piece.keys(columns, "given as --by")
                own = [measured.get(key) if key in kept else texts.get(shown(key)) for key in keys]
                at = np.flatnonzero([key is not None for key in own])
                if len(at):
                    numbers.append(first + at)
                    ids += [own[i] for i in at.tolist()]
                    tables.append(piece.frame.to_native().take(at))
                first += len(keys)
                slow.at(first)
    if not ids:
        return none, None
    table = parquet_piece(pa.concat_tables(tables), str(data), 0)
    return np.concatenate(numbers), _predicted(study, table, ids, level)


def _with(found: Predictions, at: np.ndarray, own: Predictions, which: slice) -> Predictions:
    """Predictions with those of some rows in their place."""
    mean, std, lower, upper = (np.array(getattr(found, name)) for name in COLUMNS)
    for name, column in zip(COLUMNS, (mean, std, lower, upper), strict=True):
        column[at] = getattr(own, name)[which]
    more = {name: values.copy() for name, values in found.more.items()}
    for name, values in more.items():
        values[at] = own.more[name][which]
    return replace(found, mean=mean, std=std, ends=np.stack([lower, upper]), more=more)
