"""A copy of unsorted Parquet files in which the rows of each set follow one another.

It takes two passes with bounded memory. The first distributes rows to temporary files, each for a
range of sets in order of first appearance; the second sorts each of these by set in memory and
writes it as Parquet. Rows of a set keep their order.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

import numpy as np

from sumwise.data.parquet import (
    PART_ROWS,
    Batch,
    Part,
    Scan,
    batch_of,
    batches,
    decoded,
    raw_batches,
    scan_parquet,
)
from sumwise.util.progress import Slow
from sumwise.util.shapes import Int

BUCKET_BYTES: Final = 2**27  # of rows in memory at once
MOST_BUCKETS: Final = 256  # files open at once


def sorted_copy(
    scan: Scan, folder: str, ids: Sequence[Hashable], bucket_bytes: int = BUCKET_BYTES
) -> tuple[Scan, Int[np.ndarray, "M 3"]]:
    """Write the rows of `scan` to Parquet files in `folder`, by set, and scan those.

    Gives also how many rows of which set each part had: part, position and rows.

    Args:
        folder: Empty, or not there yet.
        ids: Of all sets, in order of first appearance.
        bucket_bytes: Approximate size of what is held at once; more if there are very many rows.
    """
    import pyarrow as pa

    os.makedirs(folder, exist_ok=True)
    positions = {name: position for position, name in enumerate(ids)}
    row_bytes = 8 * (len(scan.x) + len(scan.by) + 2)
    n_buckets = min(MOST_BUCKETS, len(ids), max(1, math.ceil(scan.rows * row_bytes / bucket_bytes)))
    names = [os.path.join(folder, f"{b:05}") for b in range(n_buckets)]
    parts = scan.parts()
    writers: list[Any] = [None] * n_buckets
    runs = []
    with ExitStack() as opened, Slow("sorting by set", 2 * len(parts)) as slow:
        for part in parts:
            seen = np.empty((0, 2), dtype=np.int64)
            for batch, columns in _batches(scan, part):
                at = positions_in(batch, positions)
                seen = _added(seen, at)
                table = _table(scan, batch, columns).append_column("position", [at])
                bucket = at * n_buckets // len(ids)
                order = np.argsort(bucket, kind="stable")
                ends = np.searchsorted(bucket[order], np.arange(n_buckets + 1))
                table = table.take(order)
                for b in np.flatnonzero(np.diff(ends)).tolist():
                    if writers[b] is None:
                        file = opened.enter_context(pa.OSFile(f"{names[b]}.arrow", "wb"))
                        writers[b] = opened.enter_context(pa.ipc.new_stream(file, table.schema))
                    writers[b].write_table(table.slice(ends[b], ends[b + 1] - ends[b]))
            runs.append(np.insert(seen, 0, part.number, axis=1))
            slow.at(part.number + 1)
    found = []
    with Slow("sorting by set", 2 * n_buckets) as slow:
        for b, name in enumerate(names):
            found.append(f"{name}.parquet")
            _write_sorted(f"{name}.arrow", found[-1], bucket_bytes)
            os.unlink(f"{name}.arrow")
            slow.at(n_buckets + b + 1)
    made = scan_parquet(found, by=scan.by, x=scan.x, weights=scan.weights)
    made = replace(made, periods=scan.periods, recipe=scan.recipe)
    return made, np.concatenate(runs)


def _added(seen: Int[np.ndarray, "m 2"], at: Int[np.ndarray, " n"]) -> Int[np.ndarray, "m 2"]:
    """Positions and rows of each, with more rows."""
    known, number = np.unique(np.append(seen[:, 0], at), return_inverse=True)
    rows = np.append(seen[:, 1], np.ones(len(at), dtype=np.int64))
    return np.stack([known, np.bincount(number, rows).astype(np.int64)], axis=1)


def _write_sorted(source: str, path: str, most: int) -> None:
    """Write the rows of a bucket by set, as many sets at a time as take about `most` bytes; a set
    that takes more is written as it is read."""
    import pyarrow as pa
    from pyarrow import parquet

    spans = [(0, sys.maxsize)]
    if os.path.getsize(source) > 2 * most:
        spans = _spans(source, most)
    with ExitStack() as opened:
        writer: Any = None
        for low, high in spans:
            held, order = [], []
            for table, at in _stored(source):
                if writer is None:
                    made = parquet.ParquetWriter(
                        path, table.schema, compression="none", use_dictionary=False
                    )
                    writer = opened.enter_context(made)
                inside = (at >= low) & (at < high)
                held.append(table if inside.all() else table.filter(pa.array(inside)))
                order.append(at[inside])
                if high == low + 1:  # one set, whose rows are in order
                    writer.write_table(held.pop(), PART_ROWS)
            if held:
                rows = np.argsort(np.concatenate(order), kind="stable")
                writer.write_table(pa.concat_tables(held).take(rows), PART_ROWS)


def _stored(source: str) -> Iterator[tuple[Any, Int[np.ndarray, " n"]]]:
    """Rows of a bucket, some at a time, and their sets."""
    import pyarrow as pa

    with pa.OSFile(source) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            last = batch.num_columns - 1  # not by name: another column may be called position
            table = pa.Table.from_batches([batch])
            yield table.remove_column(last), np.from_dlpack(batch.column(last))


def _spans(source: str, most: int) -> list[tuple[int, int]]:
    """Runs of sets that take `most` bytes or less, and single ones that take more."""
    rows: dict[int, int] = {}
    for _, at in _stored(source):
        for position, size in zip(*np.unique(at, return_counts=True), strict=True):
            rows[int(position)] = rows.get(int(position), 0) + int(size)
    most_rows = max(1, int(most * sum(rows.values()) / os.path.getsize(source)))
    found: list[tuple[int, int]] = []
    held = 0
    for position in sorted(rows):
        large = rows[position] > most_rows
        if not found or large or held + rows[position] > most_rows:
            found.append((position, position + 1))
            held = most_rows if large else 0
        held += rows[position]
        found[-1] = found[-1][0], position + 1
    return found


def positions_in(batch: Batch, known: Mapping[Hashable, int]) -> Int[np.ndarray, " n"]:
    """The set of each row."""
    if len(batch.keys) == 1:
        coded = batch.keys[0].dictionary_encode()
        each = np.array([known[name] for name in coded.dictionary.to_pylist()], dtype=np.int64)
        return each[np.from_dlpack(coded.indices)]
    names = zip(*(column.to_pylist() for column in batch.keys), strict=True)
    return np.fromiter((known[name] for name in names), np.int64, len(batch))


def _batches(scan: Scan, part: Part) -> Iterator[tuple[Batch, Mapping[str, Any]]]:
    """The rows of a part, and columns of x as they are in the file where a recipe reads them."""
    if scan.recipe is None:
        yield from ((batch, {}) for batch in batches(scan, part))
        return
    plain = replace(scan, recipe=None, x=())  # of which x is not read
    for seen, columns in raw_batches(plain, part, scan.columns):
        own = {name: decoded(columns[name]) for name in scan.x}
        yield batch_of(plain, part, seen, columns), own


def _table(scan: Scan, batch: Batch, columns: Mapping[str, Any]) -> Any:
    import pyarrow as pa

    made = dict(columns) or dict(zip(scan.x, batch.inputs, strict=True))
    if scan.theta_column is not None:
        made[scan.theta_column] = batch.theta
    made |= dict(zip(scan.by, batch.keys, strict=True))  # a column may be an input as well
    return pa.table(made)
