"""Parquet files of individuals, for tests."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sumwise as sw


def table_of(sets: sw.Sets, *, order=None, name="set", theta="theta") -> pa.Table:
    """A row per individual; `order` shuffles them. Pairs as ids become columns p and q."""
    owner = np.repeat(np.arange(len(sets)), sets.sizes)
    order = np.arange(len(owner)) if order is None else order
    ids = [sets.ids[a] for a in owner[order]]
    named = {name: ids}
    if isinstance(ids[0], tuple):
        named = dict(zip("pq", zip(*ids, strict=True), strict=True))
    columns = {**named, **{f"x{d}": sets.x[order, d] for d in range(sets.n_inputs)}}
    return pa.table({**columns, theta: sets.theta[order]})


def write(table: pa.Table, folder, cuts=(), row_group_size=7):
    """One file, or several that end at these rows; row groups are small, so that sets span them."""
    folder.mkdir(parents=True, exist_ok=True)
    bounds = [0, *sorted(cuts), table.num_rows]
    for number, (low, high) in enumerate(pairwise(bounds)):
        pq.write_table(
            table.slice(low, high - low),
            folder / f"{number:03}.parquet",
            row_group_size=row_group_size,
        )
    return folder


def scan(folder, n_inputs=3, weights="theta", by="set"):
    return sw.Sets.scan_parquet(
        folder, by=by, x=[f"x{d}" for d in range(n_inputs)], weights=weights
    )


def with_other_rows(path):
    """A Parquet file as it would be with a byte changed in its footer, so that this says other
    numbers of rows: of the file, and of one of its row groups."""
    content = path.read_bytes()
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    before, found = pq.ParquetFile(path).metadata, {}
    for at in range(begin, len(content) - 8):
        changed = content[:at] + bytes([content[at] ^ 12]) + content[at + 1 :]
        try:
            file = pq.ParquetFile(io.BytesIO(changed))
            rows = sum(batch.num_rows for batch in file.iter_batches())
        except (pa.ArrowException, OSError):
            continue
        if file.metadata.num_rows != before.num_rows and rows == before.num_rows:
            found.setdefault("file", changed)
        elif rows < before.num_rows == file.metadata.num_rows:
            found.setdefault("group", changed)
    return found
