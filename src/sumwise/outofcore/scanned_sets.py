"""Sets whose individuals stay in Parquet files: only rows that are asked for are read.

Rows are numbered set by set, as in any `Sets`. Where the rows of each set follow one another in the
files, these are their numbers in the files as well. Otherwise the columns that name sets are read,
some rows at a time, to find those of a few sets.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial, reduce
from typing import Any, Final

import numpy as np

from sumwise.data.parquet import Batch, Scan, batches
from sumwise.data.sets import LazySets, Sets, positions_of
from sumwise.data.valid_sets import starts_of
from sumwise.errors import SettingError
from sumwise.outofcore.external_sort import positions_in
from sumwise.util.progress import Slow
from sumwise.util.shapes import Float, Int

LARGEST_READ: Final = 2**33  # bytes of individuals that are read into memory at most


class ScannedSets(LazySets):
    """Sets of a scan."""

    @classmethod
    def of(cls, sets: LazySets, scan: Scan, grouped: bool, gone: Sequence[int] = ()) -> ScannedSets:
        """The same sets, whose individuals are the rows of a scan.

        Args:
            grouped: Whether the rows of each set follow one another in the files.
            gone: Positions of sets that have no rows in the files any more. Copies of the first row
                stand for their members, of whom nothing is known.
        """
        known = sets.__dict__
        about = sets.sizes, sets.n_inputs, sets.input_names, known["_load"], False, sets.recipe
        made = cls(known["_ids"], *about)
        made.__dict__.update(scan=scan, grouped=grouped and not gone, gone=tuple(gone))
        return made

    def __reduce__(self) -> Any:
        own = tuple(self.__dict__[name] for name in ("scan", "grouped", "gone"))
        return ScannedSets.of, (LazySets(*super().__reduce__()[1]), *own)

    @property
    def scan(self) -> Scan:
        """The files."""
        known: Scan = self.__dict__["scan"]
        return known

    @property
    def row_ids(self) -> None:
        return None

    def rows_at(
        self, which: Int[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "n D"], Float[np.ndarray, " n"]]:
        scan, grouped = self.scan, self.__dict__["grouped"]
        refuse_many(scan, len(which))
        rows, back = np.unique(which, return_inverse=True)
        x, theta = _read(scan, rows if grouped else self._numbers_of(rows))
        if scan.weights == "mean":
            theta = 1.0 / self.sizes[self._owners(rows)]
        return (x, theta) if np.array_equal(rows, which) else (x[back], theta[back])

    def take(self, positions: Any) -> Sets:
        """The sets at these positions; their individuals are read when they are used."""
        index = np.arange(len(self))[np.asarray(positions, dtype=int)]
        known = tuple(self.ids[a] for a in index), self.sizes[index], self.n_inputs
        load = partial(self._read, index)
        some = LazySets(*known, self.input_names, load, False, self.recipe, self.origin)
        return PickedSets.among(self, some, index)

    def _read(self, index: Int[np.ndarray, " n"]) -> Sets:
        starts = starts_of(self.sizes[index])
        rows = np.repeat(self.starts[index] - starts[:-1], np.diff(starts)) + np.arange(starts[-1])
        known = tuple(self.ids[a] for a in index), *self.rows_at(rows), starts
        return Sets(*known, self.input_names, recipe=self.recipe, origin=self.origin)

    def weight_sums(self) -> tuple[Float[np.ndarray, " A"], Float[np.ndarray, " A"]]:
        above, below = np.zeros((2, len(self)))
        scan = self.scan
        if scan.theta_column is None:
            return (self.sizes + below if scan.weights == "sum" else below + 1.0), below
        known = None if self.__dict__["grouped"] else positions_of(self.ids)
        for batch in _all_batches(scan, "adding up weights"):
            if known is None:
                owner = self._owners(np.arange(len(batch)) + batch.first_individual)
            else:
                owner = positions_in(batch, known)
            assert batch.theta is not None
            low, high = int(owner.min()), int(owner.max()) + 1
            for sums, clipped in ((above, np.maximum), (below, np.minimum)):
                sums[low:high] += np.bincount(owner - low, clipped(batch.theta, 0.0))
        return above, below

    def rows_of(
        self, numbers: Int[np.ndarray, " n"], keys: Sequence[Hashable]
    ) -> Int[np.ndarray, " n"]:
        """Rows, as they are numbered here, of those with these numbers in the files.

        Args:
            keys: The set of each.
        """
        if self.__dict__["grouped"]:
            return numbers
        order, rows = np.argsort(numbers), np.empty(len(numbers), dtype=np.int64)
        for there, here in self._rows_in(sorted({self.position(key) for key in keys})):
            at, same = _among(numbers[order], there)
            rows[order[at]] = here[same]
        return rows

    def _owners(self, rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        return np.searchsorted(self.starts, rows, side="right") - 1

    def _numbers_of(self, rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Numbers in the files of rows, which ascend."""
        owners, gone = self._owners(rows), list(self.__dict__["gone"])
        numbers, left = np.zeros(len(rows), dtype=np.int64), int((~np.isin(owners, gone)).sum())
        for there, here in self._rows_in(np.setdiff1d(owners, gone).tolist()):
            at, same = _among(rows, here)
            numbers[at], left = there[same], left - len(at)
            if not left:
                break
        return numbers

    def _rows_in(
        self, positions: Sequence[int]
    ) -> Iterator[tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]]:
        """All rows of these sets, some at a time: their numbers in the files, and those here."""
        following = self.starts[list(positions)].copy()
        ids = [self.ids[a] for a in positions]
        for batch in _all_batches(self.scan, "finding rows", inputs=False) if ids else ():
            found, which = _of_sets(batch, ids)
            order = np.argsort(which, kind="stable")
            sizes = np.bincount(which, minlength=len(ids))
            own = which[order]
            rows = following[own] + np.arange(len(own)) - starts_of(sizes)[own]
            following += sizes
            yield found[order] + batch.first_individual, rows


class PickedSets(ScannedSets):
    """Some of the sets of a scan."""

    @classmethod
    def among(cls, whole: ScannedSets, sets: LazySets, index: Int[np.ndarray, " a"]) -> PickedSets:
        """These sets, which are those of `whole` at the positions `index`."""
        made = cls(*LazySets.__reduce__(sets)[1])
        made.__dict__.update(among=whole, index=index, scan=whole.scan)
        return made

    def __reduce__(self) -> Any:
        known = self.__dict__
        sets = LazySets(*LazySets.__reduce__(self)[1])
        return PickedSets.among, (known["among"], sets, known["index"])

    def rows_at(
        self, which: Int[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "n D"], Float[np.ndarray, " n"]]:
        whole, owners = self.__dict__["among"], self._owners(which)
        there = whole.starts[self.__dict__["index"][owners]] + which - self.starts[owners]
        return whole.rows_at(there)

    def weight_sums(self) -> tuple[Float[np.ndarray, " A"], Float[np.ndarray, " A"]]:
        above, below = self.__dict__["among"].weight_sums()
        return above[self.__dict__["index"]], below[self.__dict__["index"]]

    def rows_of(
        self, numbers: Int[np.ndarray, " n"], keys: Sequence[Hashable]
    ) -> Int[np.ndarray, " n"]:
        whole = self.__dict__["among"]
        rows = whole.rows_of(numbers, keys)
        owners = np.searchsorted(whole.starts, rows, side="right") - 1
        place = np.full(len(whole), -1)
        place[self.__dict__["index"]] = np.arange(len(self))
        return rows - whole.starts[owners] + self.starts[place[owners]]

    def take(self, positions: Any) -> Sets:
        index = self.__dict__["index"][np.asarray(positions, dtype=int)]
        return self.__dict__["among"].take(index)


def refuse_many(scan: Scan, n: int) -> None:
    """Refuse to read so many individuals into memory."""
    n_bytes = 8 * n * (scan.n_inputs + 2)
    if n_bytes > LARGEST_READ:
        raise SettingError(
            f"this reads {n} individuals into memory, and they would take {n_bytes / 1e9:.0f} GB. "
            "The strategies MI, Ent and Var do so, and study.predict() in Python; AggMI and the "
            "other strategies, reports, exports and predictions that are written to files do not."
        )


def _among(
    wanted: Int[np.ndarray, " n"], found: Int[np.ndarray, " m"]
) -> tuple[Int[np.ndarray, " k"], Any]:
    """Which of `wanted`, which ascend, were found, and which of `found` these are."""
    at = np.minimum(np.searchsorted(wanted, found), len(wanted) - 1)
    same = wanted[at] == found
    return at[same], same


def _of_sets(
    batch: Batch, ids: Sequence[Any]
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """The rows of a batch that belong to these sets, and to which of them."""
    import pyarrow as pa
    from pyarrow import compute

    names = [(name,) for name in ids] if len(batch.keys) == 1 else ids
    codes, known = [], []
    for column, values in zip(batch.keys, zip(*names, strict=True), strict=True):
        distinct = list(dict.fromkeys(values))
        codes.append(compute.index_in(column, pa.array(distinct, column.type)))
        place = {value: code for code, value in enumerate(distinct)}
        known.append([place[value] for value in values])
    there = reduce(compute.and_, (code.is_valid() for code in codes))
    rows = np.from_dlpack(compute.indices_nonzero(there)).astype(np.int64)
    if len(codes) == 1:
        return rows, np.from_dlpack(codes[0].take(pa.array(rows))).astype(np.int64)
    number = {key: at for at, key in enumerate(zip(*known, strict=True))}
    some = [code.take(pa.array(rows)).to_pylist() for code in codes]
    which = np.array([number.get(key, -1) for key in zip(*some, strict=True)], dtype=np.int64)
    return rows[which >= 0], which[which >= 0]


def _all_batches(scan: Scan, what: str, inputs: bool = True) -> Iterator[Batch]:
    with Slow(what, scan.rows) as slow:
        for part in scan.parts():
            for batch in batches(scan, part, inputs=inputs):
                yield batch
                slow.at(batch.first_individual + len(batch))


def _read(
    scan: Scan, numbers: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "n D"], Float[np.ndarray, " n"]]:
    """Inputs and weights (1 without a column) of rows by their numbers in the files."""
    x, theta = np.empty((len(numbers), scan.n_inputs)), np.ones(len(numbers))
    order = np.argsort(numbers, kind="stable")
    ordered, done = numbers[order], 0
    with Slow("reading individuals", len(numbers)) as slow:
        for part in scan.parts(1):
            end = int(np.searchsorted(ordered, part.first_individual + part.rows))
            for batch in batches(scan, part) if end > done else ():
                last = int(np.searchsorted(ordered, batch.first_individual + len(batch)))
                at, rows = order[done:last], ordered[done:last] - batch.first_individual
                x[at] = batch.inputs.T[rows]
                if batch.theta is not None:
                    theta[at] = batch.theta[rows]
                done = last
                slow.at(done)
                if done == end:
                    break
    return x, theta
