"""Candidates for pools in Parquet files, whose rows they are: features in blocks, and some rows.

Nothing is written and nothing is kept: each look at all candidates reads all files once more.
In memory are a batch of inputs and a block of features at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from sumwise.data.parquet import Batch, Scan, batches
from sumwise.data.recipe import Encoded
from sumwise.data.sets import as_objects
from sumwise.errors import SettingError
from sumwise.model.basis import Scaled
from sumwise.model.design import all_features, feature_blocks, worth_compiling
from sumwise.util.shapes import Float, Int


@dataclass(frozen=True, slots=True, eq=False)
class Scanned:
    """Individuals that are rows of files, under a basis."""

    scan: Scan
    basis: Scaled
    n_basis: int
    told: Callable[[int], None] = lambda rows: None  # called with the number of rows just read

    def __len__(self) -> int:
        return self.scan.rows

    def blocks(self) -> Iterator[tuple[int, Float[np.ndarray, "b K"]]]:
        """Features of all rows in order, some at a time, and the number of the first of them."""
        compiled = worth_compiling(len(self), self.basis, again=True)
        bare = replace(self.scan, by=(), weights="sum")  # columns that are not read
        for part in bare.parts():
            for batch in batches(bare, part, unknown=True):
                x, first = _inputs(bare, batch), batch.first_individual
                for low, _, phi in feature_blocks(x, self.basis, compiled):
                    yield first + low, _finite(phi, batch, low)
                self.told(len(x))

    def take(self, rows: Int[np.ndarray, " m"]) -> Float[np.ndarray, "m K"]:
        """Features of some rows, given by rising numbers."""
        x, _ = self.individuals(rows)
        return all_features(x, self.basis, self.n_basis)

    def individuals(
        self, rows: Int[np.ndarray, " m"]
    ) -> tuple[Float[np.ndarray, "m D"], np.ndarray]:
        """Inputs and ids of some rows, given by rising numbers."""
        plain = replace(self.scan, weights="sum")
        x, ids = np.empty((len(rows), self.scan.n_inputs)), list[Hashable]()
        for part in plain.parts():
            if not len(_inside(rows, part.first_individual, part.rows)):
                continue
            for batch in batches(plain, part, unknown=True):
                found = _inside(rows, batch.first_individual, len(batch))
                at = rows[found] - batch.first_individual
                x[found] = _inputs(plain, batch)[at]
                names = [column.take(at).to_pylist() for column in batch.keys]
                ids += names[0] if len(names) == 1 else zip(*names, strict=True)
        return x, as_objects(ids)


def _inside(rows: Int[np.ndarray, " m"], first: int, n: int) -> Int[np.ndarray, " f"]:
    """Which of these rows are among n that follow one another."""
    return np.arange(*np.searchsorted(rows, [first, first + n]))


def _inputs(scan: Scan, batch: Batch) -> Float[np.ndarray, "n D"]:
    """Inputs of a batch; those of an average individual where nothing is known of a column."""
    x = np.ascontiguousarray(batch.inputs.T, dtype=np.float64)
    if scan.recipe is None or batch.unknown is None:
        return x
    return scan.recipe.filled(Encoded(x, batch.unknown))


def _finite(phi: Float[np.ndarray, "b K"], batch: Batch, low: int) -> Float[np.ndarray, "b K"]:
    with np.errstate(over="ignore", invalid="ignore"):
        sums = phi @ np.ones(phi.shape[1])  # a mask of all would take longer
    if np.isfinite(sums).all() or np.isfinite(phi).all():
        return phi
    row = batch.first_row + low + int(np.argmin(np.isfinite(phi).all(axis=1))) + 1
    raise SettingError(
        f"{batch.path}, row {row} has a feature that is not finite: its inputs are too large for "
        "the basis. Rescale them (standardize=True does), or choose another basis."
    )
