"""The index of a `Scan`, made in one pass over its files before anything is embedded.

It says which sets there are, how many rows each has, whether the rows of each set follow one
another, and the mean and spread of the inputs. Parts are read independently, anywhere, and combined
in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from sumwise.data.parquet import Batch, Part, Scan, batches, run_starts
from sumwise.data.sets import positions_of
from sumwise.data.targets import SAMPLE, BatchInputs, subsample
from sumwise.errors import InvalidSetError
from sumwise.util.shapes import Float, Int

FOLD: Final = 2**20  # ids that are compared together


def sample_in(batch: Batch, step: int) -> Float[np.ndarray, "m D"]:
    """The rows of a batch that are among every `step`-th of the scan."""
    step = max(1, step)
    return batch.inputs[:, -batch.first_individual % step :: step].T.astype(np.float64)


def subsample_in(scan: Scan, batch: Batch) -> Float[np.ndarray, "n D"]:
    """The rows of a batch that are in the subsample of the scan."""
    chosen, _ = subsample(scan.rows)
    first = batch.first_individual
    low, high = np.searchsorted(chosen, [first, first + batch.inputs.shape[1]])
    return batch.inputs[:, chosen[low:high] - first].T.astype(np.float64)


def statistics_of(scan: Scan, batch: Batch) -> BatchInputs:
    sample = sample_in(batch, scan.rows // SAMPLE)
    return BatchInputs.of(batch.inputs.T, run_starts(batch.keys), sample, subsample_in(scan, batch))


@dataclass(frozen=True, slots=True, eq=False)
class PartSurvey:
    """One part: its runs of equal ids, and statistics of its inputs if they were read."""

    number: int
    keys: Any  # an Arrow table with a row per run
    lengths: Int[np.ndarray, " r"]
    statistics: list[BatchInputs]


def survey_part(scan: Scan, part: Part, *, inputs: bool) -> PartSurvey:
    """Read a part once; without `inputs`, only the columns that name sets."""
    import pyarrow as pa

    keys: list[Any] = []
    lengths: list[Int[np.ndarray, " r"]] = []
    statistics: list[BatchInputs] = []
    for batch in batches(scan, part, inputs=inputs):
        starts = run_starts(batch.keys)
        table = pa.table(list(batch.keys), names=list(scan.by)).take(starts)
        continues = append_runs(keys, lengths, table, np.diff(starts, append=len(batch)))
        if inputs:
            statistics.append(replace(statistics_of(scan, batch), continues=continues))
    ids = pa.concat_tables(keys).combine_chunks()
    return PartSurvey(part.number, ids, np.concatenate(lengths), statistics)


def append_runs(
    keys: list[Any], lengths: list[Int[np.ndarray, " r"]], more: Any, sizes: Int[np.ndarray, " r"]
) -> bool:
    """Append the runs that follow; gives whether the first of them continues the last one."""
    continues = bool(keys) and more.slice(0, 1).equals(keys[-1].slice(keys[-1].num_rows - 1))
    sizes = sizes.copy()
    if continues:
        lengths[-1][-1] += sizes[0]
        more, sizes = more.slice(1), sizes[1:]
    if more.num_rows:
        keys.append(more)
        lengths.append(sizes)
    return continues


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """The sets of a scan, in order of first appearance."""

    keys: Any  # an Arrow table with a row per set and a column for each of `by`
    sizes: Int[np.ndarray, " A"] | None  # None unless the rows of each set follow one another
    first_sets: tuple[int, ...]  # position of the first set of each part, where they do
    statistics: list[BatchInputs]
    lengths: list[Int[np.ndarray, " r"]]  # of the runs of each part, where they do

    def runs(self) -> Int[np.ndarray, "M 3"]:
        """Part, position of the set and its rows there, if the rows of a set follow one another."""
        each = zip(self.first_sets, self.lengths, strict=True)
        found = [
            np.stack([np.full(len(n), part), first + np.arange(len(n)), n], axis=1)
            for part, (first, n) in enumerate(each)
        ]
        return np.concatenate(found).astype(np.int64)


def index_of(surveys: Iterable[PartSurvey]) -> Index:
    """Combine all parts, in order; holds the ids of all sets and of some runs at once."""
    keys: list[Any] = []
    sizes: list[Int[np.ndarray, " r"]] = []
    firsts: list[int] = []
    statistics: list[BatchInputs] = []
    lengths: list[Int[np.ndarray, " r"]] = []
    runs, compared, contiguous = 0, 0, True  # `compared`: ids that are known to differ
    for found in surveys:
        continues = append_runs(keys, sizes, found.keys, found.lengths)
        firsts.append(runs - continues)
        lengths.append(found.lengths)
        runs += found.keys.num_rows - continues
        held = sum(table.num_rows for table in keys)
        if held - compared > max(FOLD, compared):
            keys = [_distinct(keys)]
            compared = keys[0].num_rows
            contiguous &= compared == held
        if not contiguous:
            sizes, lengths = sizes[-1:], []  # of no use any more
        first = [replace(batch, continues=continues) for batch in found.statistics[:1]]
        statistics += first + found.statistics[1:]
    ids = _distinct(keys)
    contiguous &= ids.num_rows == sum(table.num_rows for table in keys)
    together = np.concatenate(sizes) if contiguous else None
    return Index(ids, together, tuple(firsts), statistics, lengths)


def _distinct(tables: Sequence[Any]) -> Any:
    """Ids without repetitions, in order of first appearance."""
    import pyarrow as pa
    from pyarrow import compute

    keys = pa.concat_tables(tables)
    if not ascends(keys):
        names = [f"key {d}" for d in range(keys.num_columns)]
        numbered = keys.rename_columns(names).append_column("row", [np.arange(keys.num_rows)])
        found = numbered.group_by(names, use_threads=False).aggregate([("row", "min")])
        rows = found.column("row_min")  # grouping does not keep the order
        keys = keys.take(compute.take(rows, compute.array_sort_indices(rows)))
    return keys.combine_chunks()


def ascends(keys: Any) -> bool:
    """Whether each id is greater than the one before it: then no two are the same."""
    import pyarrow as pa
    from pyarrow import compute

    greater: Any = pa.scalar(False)
    for column in reversed(keys.columns):  # later columns decide where earlier ones are equal
        values = column.combine_chunks()
        pair = values.slice(0, max(0, len(values) - 1)), values.slice(1)
        greater = compute.or_(compute.less(*pair), compute.and_(compute.equal(*pair), greater))
    return bool(compute.all(greater, min_count=0).as_py())


def refuse_ids(keys: Any) -> None:
    """Refuse ids that Python cannot represent, or that are equal there but not in Arrow."""
    import pyarrow as pa

    plain = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_date32, pa.types.is_floating,
             pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)  # fmt: skip
    try:
        keys.validate(full=True)  # text must be UTF-8
        if all(any(kind(column.type) for kind in plain) for column in keys.columns):
            return
        ids = ids_of(keys)
    except (pa.ArrowException, ValueError, OverflowError, LookupError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise InvalidSetError(
            f"the group columns {', '.join(keys.column_names)} hold values that cannot name a set "
            f"({reason:.200}). Write them as text, numbers or dates."
        ) from error
    positions_of(ids)  # ids that differ in Arrow may be equal here: Python has no nanoseconds


def ids_of(keys: Any) -> tuple[Any, ...]:
    """Ids as Python has them; by several columns, tuples."""
    columns = [column.to_pylist() for column in keys.columns]
    return tuple(columns[0]) if len(columns) == 1 else tuple(zip(*columns, strict=True))
