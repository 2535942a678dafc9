"""Tables that would fill the memory are refused before they are read, or while they are."""

from __future__ import annotations

import os
from typing import Any, Final

from sumwise.errors import DataError

COPIES: Final = 4  # of a table that are in memory while it is grouped and packed
NUMBERS: Final = 2**17  # rows that are read at once
TEXTS: Final = 2**10  # the same where rows may be long
USUAL: Final = 4 * 10**9


def limit() -> int:
    """Bytes that a table may take: half of the machine's memory."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (ValueError, OSError, AttributeError):  # the system does not tell
        return USUAL


def read_parquet(file: Any, what: str, most: int | None = None) -> Any:
    """The table in a `ParquetFile`, read without Arrow's threads; one of over `most` bytes refused.

    A value that is repeated takes almost nothing in a file, so the size of the file says little.
    The footer says how many values there are; long text and long lists show only as they are read.
    """
    import pyarrow as pa

    most = limit() if most is None else most
    about, schema, t = file.metadata, file.schema_arrow, pa.types
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    cells = sum(group.num_rows * group.num_columns for group in groups)
    if any(t.is_nested(kind) for kind in schema.types):
        held = (group.column(c).num_values for group in groups for c in range(group.num_columns))
        cells = max(cells, sum(held))
    _refuse(8 * cells * COPIES, most, what)
    plain = all(t.is_primitive(kind) for kind in schema.types)
    batches, held_bytes = [], 0
    for batch in file.iter_batches(NUMBERS if plain else TEXTS, use_threads=False):
        batches.append(batch)
        held_bytes += batch.nbytes
        _refuse(held_bytes * COPIES, most, what)
    if (found := sum(batch.num_rows for batch in batches)) != about.num_rows:
        raise rows_missing(what, found, about.num_rows)
    return pa.Table.from_batches(batches, schema).combine_chunks()


def rows_missing(what: str, found: int, said: int) -> DataError:
    """What is said of a Parquet file whose footer contradicts its rows."""
    return DataError(f"{what} is damaged: it says that it has {said} rows, and {found} are there")


def _refuse(needed: int, most: int, what: str) -> None:
    if needed > most:
        raise DataError(
            f"{what} needs over {needed / 1e9:,.1f} GB of memory, and up to {most / 1e9:,.1f} GB "
            "is used: half of the machine's, unless --memory-limit is given. Give fewer rows or "
            "columns at a time; Sets.scan_parquet reads Parquet files of any size, part by part."
        )
