"""The index of a `Scan`, made in one pass over its files before anything is embedded.

It says which sets there are, how many rows each has, whether the rows of each set follow one
another, and the mean and spread of the inputs. Parts are read independently, anywhere, and combined
in order: means and sums of squares by Chan, Golub and LeVeque's rule, ids by comparing them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np

from sumwise.data.parquet import Batch, Part, Scan, batches, run_starts
from sumwise.data.sets import positions_of
from sumwise.data.targets import SAMPLE, Inputs, subsample
from sumwise.errors import InvalidSetError
from sumwise.util.shapes import Float, Int

FOLD: Final = 2**20  # ids that are compared together


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Count, mean and sum of squared deviations, in units of the largest value of each column."""

    count: int
    mean: Float[np.ndarray, " D"]
    squares: Float[np.ndarray, " D"]
    peak: Float[np.ndarray, " D"]
    low: Float[np.ndarray, " D"]
    high: Float[np.ndarray, " D"]

    @classmethod
    def of(cls, inputs: Float[np.ndarray, "D n"]) -> Moments:
        low, high = (end.astype(np.float64) for end in (inputs.min(axis=1), inputs.max(axis=1)))
        peak = np.maximum(abs(low), abs(high))
        unit = inputs / np.maximum(peak, np.finfo(float).tiny)[:, None]  # in double precision
        mean = unit.mean(axis=1)
        unit -= mean[:, None]
        squares = np.einsum("dn,dn->d", unit, unit)
        return cls(inputs.shape[1], mean, squares, peak, low, high)

    def plus(self, other: Moments) -> Moments:
        peak = np.maximum(self.peak, other.peak)
        safe = np.maximum(peak, np.finfo(float).tiny)
        mine, theirs = self.peak / safe, other.peak / safe
        total = self.count + other.count
        apart = other.mean * theirs - self.mean * mine
        mean = self.mean * mine + apart * (other.count / total)
        squares = self.squares * mine**2 + other.squares * theirs**2
        squares = squares + apart**2 * (self.count * (other.count / total))
        ends = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Moments(total, mean, squares, peak, *ends)

    def location_and_spread(self) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]]:
        """As `targets.location_and_spread` gives them for all rows at once, to rounding."""
        spread = np.sqrt(self.squares / self.count)
        scale = np.where(spread > 1e-14, spread * self.peak, self.peak)
        return self.mean * self.peak, np.where(self.peak > 0, scale, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """Statistics of the inputs of some rows, and their share of two samples of all rows."""

    moments: Moments
    sample: Float[np.ndarray, "m D"]
    subsample: Float[np.ndarray, "n D"]

    @classmethod
    def at(cls, scan: Scan, batch: Batch) -> Look:
        step = max(1, scan.rows // SAMPLE)
        sample = batch.inputs[:, -batch.first_individual % step :: step].T.astype(np.float64)
        return cls(Moments.of(batch.inputs), sample, subsample_in(scan, batch))

    def plus(self, other: Look) -> Look:
        """Combined with rows that come later."""
        sample = np.concatenate([self.sample, other.sample])
        subsample = np.concatenate([self.subsample, other.subsample])
        return Look(self.moments.plus(other.moments), sample, subsample)

    def inputs(self) -> Inputs:
        moments = self.moments
        spread = moments.location_and_spread()
        return Inputs(*spread, moments.low, moments.high, self.sample, self.subsample)


def subsample_in(scan: Scan, batch: Batch) -> Float[np.ndarray, "n D"]:
    """The rows of a batch that are in the subsample of the scan."""
    chosen, _ = subsample(scan.rows)
    first = batch.first_individual
    low, high = np.searchsorted(chosen, [first, first + batch.inputs.shape[1]])
    return batch.inputs[:, chosen[low:high] - first].T.astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class PartSurvey:
    """One part: its runs of equal ids, and statistics of its inputs if they were read."""

    number: int
    keys: Any  # an Arrow table with a row per run
    lengths: Int[np.ndarray, " r"]
    look: Look | None


def survey_part(scan: Scan, part: Part, *, inputs: bool) -> PartSurvey:
    """Read a part once; without `inputs`, only the columns that name sets."""
    import pyarrow as pa

    keys: list[Any] = []
    lengths: list[Int[np.ndarray, " r"]] = []
    looks: list[Look] = []
    for batch in batches(scan, part, inputs=inputs):
        starts = run_starts(batch.keys)
        table = pa.table(list(batch.keys), names=list(scan.by)).take(starts)
        append_runs(keys, lengths, table, np.diff(starts, append=len(batch)))
        if inputs:
            looks.append(Look.at(scan, batch))
    ids = pa.concat_tables(keys).combine_chunks()
    look = reduce(Look.plus, looks) if looks else None
    return PartSurvey(part.number, ids, np.concatenate(lengths), look)


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
    look: Look | None

    @property
    def contiguous(self) -> bool:
        return self.sizes is not None

    def __len__(self) -> int:
        return int(self.keys.num_rows)


def index_of(surveys: Iterable[PartSurvey]) -> Index:
    """Combine all parts, in order; holds the ids of all sets and of some runs at once."""
    keys: list[Any] = []
    sizes: list[Int[np.ndarray, " r"]] = []
    firsts: list[int] = []
    looks: list[Look] = []
    runs, compared, contiguous = 0, 0, True  # `compared`: ids that are known to differ
    for found in surveys:
        continues = append_runs(keys, sizes, found.keys, found.lengths)
        firsts.append(runs - continues)
        runs += found.keys.num_rows - continues
        held = sum(table.num_rows for table in keys)
        if held - compared > max(FOLD, compared):
            keys = [_distinct(keys)]
            compared = keys[0].num_rows
            contiguous &= compared == held
        if not contiguous:
            sizes = sizes[-1:]  # of no use any more
        if found.look is not None:
            looks.append(found.look)
    ids = _distinct(keys)
    contiguous &= ids.num_rows == sum(table.num_rows for table in keys)
    look = reduce(Look.plus, looks) if looks else None
    return Index(ids, np.concatenate(sizes) if contiguous else None, tuple(firsts), look)


def _distinct(tables: Sequence[Any]) -> Any:
    """Ids without repetitions, in order of first appearance."""
    import pyarrow as pa
    from pyarrow import compute

    keys = pa.concat_tables(tables)
    if not ascends(keys):
        row = "row"
        while {row, f"{row}_min"} & {*keys.column_names}:
            row += "_"
        numbered = keys.append_column(row, [np.arange(keys.num_rows)])
        found = numbered.group_by(keys.column_names, use_threads=False).aggregate([(row, "min")])
        rows = found.column(f"{row}_min")  # grouping does not keep the order
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
    except (pa.ArrowException, ValueError, OverflowError) as error:
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
