"""Embed one part of a scan into rows of a design on disk; threads and workers run this.

    u_a = Σ_n θ_an φ(x_an)          s_a = ‖θ_a‖²          ‖u_a‖²

Sums over a set add up, so a set may span batches, parts and files. A part writes the sets that lie
inside it straight into `u.npy`, or into an object of its own in a store. It keeps its first and
last set, which other parts may share, as *edges*; `build` adds those up. Of counts, shares and
amounts, individuals are written instead.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

import numpy as np

from sumwise.data.parquet import Batch, Part, Scan, batches, run_starts
from sumwise.errors import SettingError
from sumwise.model import serialize
from sumwise.model.basis import Scaled
from sumwise.model.design import some_sets, sum_features, worth_compiling
from sumwise.model.generalised.refusals import refuse_exposures
from sumwise.outofcore import place
from sumwise.outofcore.design_store import DesignManifest
from sumwise.outofcore.index import sample_in, subsample_in
from sumwise.util.shapes import Float, Int

MOMENT_SAMPLE: Final = 2**14  # individuals that the mean of φ φᵀ is taken over
AT_ONCE: Final = 2**21  # features of a block of rows: its sums stay in cache until written
WHOLE: Final = 2**62  # rows that have one checksum, on a disk

# Σ θ φ of inputs, weights and the bounds of runs
Sums: TypeAlias = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class Rows(NamedTuple):
    """The sets of a part, or some of them."""

    u: Float[np.ndarray, "r K"]
    noise_scale: Float[np.ndarray, " r"]
    theta_sum: Float[np.ndarray, " r"]
    square: Float[np.ndarray, " r"]  # ‖u_a‖²


def part_file(number: int) -> str:
    return f"parts/{number:06}.npz"


def rows_file(number: int) -> str:
    """The object that a part's rows are, in a store."""
    return f"u/{number:06}.rows"


@contextmanager
def _rows_to(folder: str, manifest: DesignManifest, number: int, first: int) -> Iterator[Any]:
    """Where the rows of a part go, from this one on."""
    if place.is_address(folder):
        store, root = place.store_of(folder)
        with store.open(f"{root}/{rows_file(number)}", "wb") as file:
            yield file
        return
    with open(os.path.join(folder, manifest.array), "r+b", buffering=0) as file:
        file.seek(manifest.offset + first * manifest.row_bytes)
        yield file


def add_rows(chunks: list[list[int]], content: Any, width: int, most: int) -> None:
    """Count rows, and their checksums, `most` rows at a time: [rows, CRC-32] of each."""
    left = memoryview(content)
    while len(left):
        if not chunks or chunks[-1][0] == most:
            chunks.append([0, 0])
        some = left[: width * (most - chunks[-1][0])]
        chunks[-1] = [chunks[-1][0] + len(some) // width, zlib.crc32(some, chunks[-1][1])]
        left = left[len(some) :]


def rows_at_once(folder: str, width: int) -> int:
    """Rows that have a checksum together: in a store, as many as are fetched at a time."""
    return max(1, place.FETCHED // width) if place.is_address(folder) else WHOLE


def embed_part(basis: Scaled, manifest: DesignManifest, folder: str, job: tuple[Part, int]) -> int:
    """Write a part's sets to u.npy and its sums and edges to a small file; gives its rows.

    Args:
        job: The part, and the position of its first set.
    """
    part, first_set = job
    source = manifest.source
    kind, width = np.dtype(manifest.settings.dtype), manifest.row_bytes
    sums: list[Float[np.ndarray, "3 r"]] = []
    edges: list[Float[np.ndarray, " K"]] = []
    subsample, sample = [np.empty((0, source.n_inputs))], [np.empty((0, source.n_inputs))]
    chunks: list[list[int]] = []
    sizes, at_once = _sizes(folder)[first_set:], max(1, AT_ONCE // manifest.features)
    with _rows_to(folder, manifest, part.number, first_set + 1) as file:
        for rows, batch, last in runs(source, part, basis, kind, sizes, at_once):
            sums.append(np.stack(rows[1:]))
            inside = rows.u
            if not edges and len(inside):  # the first set of all
                edges.append(inside[0].astype(np.float64))
                inside = inside[1:]
            if last and len(inside):
                edges.append(inside[-1].astype(np.float64))
                inside = inside[:-1]
            content = np.ascontiguousarray(inside, dtype=kind).reshape(-1).view(np.uint8).data
            add_rows(chunks, content, width, rows_at_once(folder, width))
            write_all(file, content)
            if batch is not None:
                sample.append(sample_in(batch, source.rows // MOMENT_SAMPLE))
                subsample.append(subsample_in(source, batch))
    kept = {
        "sums": np.concatenate(sums, axis=1),
        "edges": np.stack(edges),
        "sample": np.concatenate(sample),
        "stand_ins": np.concatenate(subsample),
        "chunks": np.array(chunks, dtype=np.int64).reshape(-1, 2),
    }
    place.write(folder, part_file(part.number), serialize.to_bytes(kept))
    return part.rows


def _sizes(folder: str) -> Int[np.ndarray, " A"]:
    """Rows of each set; of a design on a disk, those that are used are read."""
    if place.is_address(folder):
        return place.load(folder, "sizes.npy")
    found: np.ndarray = np.load(os.path.join(folder, "sizes.npy"), mmap_mode="r")
    return found


def keep_part(manifest: DesignManifest, folder: str, job: tuple[Part, int]) -> int:
    """Write inputs and exposures of a part's individuals to x.npy; gives its rows.

    Args:
        job: As in `embed_part`.
    """
    part, _ = job
    outputs, width, chunks = manifest.outputs, manifest.width, list[list[int]]()
    with _rows_to(folder, manifest, part.number, part.first_individual) as file:
        for batch in batches(manifest.source, part):
            theta = np.ones(len(batch)) if batch.theta is None else batch.theta
            refuse_exposures(outputs, theta, partial(_member, batch))
            rows = np.empty((len(batch), width))
            rows[:, :-1], rows[:, -1] = batch.inputs.T, theta
            content = rows.reshape(-1).view(np.uint8).data
            add_rows(chunks, content, manifest.row_bytes, WHOLE)
            write_all(file, content)
    kept = {"chunks": np.array(chunks, dtype=np.int64).reshape(-1, 2)}
    place.write(folder, part_file(part.number), serialize.to_bytes(kept))
    return part.rows


def _member(batch: Batch, row: int) -> str:
    name = tuple(column[row].as_py() for column in batch.keys)
    return f"an individual of set {name[0] if len(name) == 1 else name!r:.80}"


def write_all(file: BinaryIO, content: Any) -> None:
    """Write everything to an unbuffered file, which may take less at once (Linux: 2 GiB)."""
    left = memoryview(content)
    while len(left):
        left = left[file.write(left) :]


def runs(
    scan: Scan,
    part: Part,
    basis: Scaled,
    dtype: np.dtype[Any],
    sizes: Int[np.ndarray, " r"],
    at_once: int,
) -> Iterator[tuple[Rows, Batch | None, bool]]:
    """The sets of a part in order, some at a time; each batch when all of it has been added up,
    and whether they are the last.

    A batch's last set may go on in the next one, so it is held back until that is known.

    Args:
        sizes: Rows of each of these sets in all parts.
        at_once: Rows of sets that are given together, about.
    """
    held: Rows | None = None
    last: tuple[Any, ...] = ()
    at = 0  # number of the set that is being added to
    for batch in batches(scan, part):
        starts = run_starts(batch.keys)
        now = tuple(column[0] for column in batch.keys)
        if held is not None and now != last:
            yield held, None, False
            held, at = None, at + 1
        theta = _theta(scan, batch, starts, sizes[at:])
        add_up = _summing(scan.rows, batch.inputs, basis, dtype)
        bounds = np.append(starts, len(batch))
        for low, high in some_sets(bounds, at_once):
            rows = embed_rows(batch, theta, bounds[low : high + 1], add_up, held)
            held = None
            if high < len(starts):
                yield rows, None, False
        held = Rows(*(values[-1:].copy() for values in rows))
        yield Rows(*(values[:-1] for values in rows)), batch, False
        at += len(starts) - 1
        last = tuple(column[len(column) - 1] for column in batch.keys)
    assert held is not None  # a part has rows
    yield held, None, True


def _theta(
    scan: Scan, batch: Batch, starts: Int[np.ndarray, " r"], sizes: Int[np.ndarray, " a"]
) -> Float[np.ndarray, " n"]:
    """θ of each row; `sizes` are those of the sets from the first of the batch on."""
    if batch.theta is not None:
        return batch.theta
    if scan.weights == "sum":
        return np.ones(len(batch))
    return np.repeat(1.0 / sizes[: len(starts)], np.diff(starts, append=len(batch)))


def embed_rows(
    batch: Batch,
    theta: Float[np.ndarray, " n"],
    bounds: Int[np.ndarray, " r1"],
    add_up: Sums,
    held: Rows | None,
) -> Rows:
    """Sums over some runs of a batch that follow one another.

    Args:
        held: What came before of the first set, if its rows began in an earlier batch.
    """
    some, local = slice(bounds[0], bounds[-1]), bounds - bounds[0]
    weights = theta[some]
    with np.errstate(over="ignore", invalid="ignore"):  # refused below, by row
        u = add_up(batch.inputs[:, some], weights, local)
        scales = np.add.reduceat(weights**2, local[:-1]), np.add.reduceat(weights, local[:-1])
        if held is not None:  # its last set and our first are one
            for before, mine in zip(held[:3], (u, *scales), strict=True):
                mine[0] += before[0]
        square = np.einsum("ak,ak->a", u, u)  # screening ignores infinite squares
        if not (np.isfinite(square).all() or np.isfinite(u).all()):
            row = int(bounds[int(np.argmin(np.isfinite(u).all(axis=1)))])
            raise _not_finite(batch, row)
        return Rows(u, *scales, square)


def _summing(
    n_rows: int, inputs: Float[np.ndarray, "D n"], basis: Scaled, dtype: np.dtype[Any]
) -> Sums:
    """What gives Σ θ φ over runs of these rows, by the compiled kernel where that saves time.

    Args:
        n_rows: How many there are in all.
    """
    if worth_compiling(n_rows, basis):
        from sumwise.model import kernels

        with np.errstate(over="ignore", invalid="ignore"):
            compiled = kernels.summing(inputs, basis, dtype)
        if compiled is not None:
            return compiled
    return lambda x, theta, bounds: sum_features(x.T, theta, bounds, basis).astype(dtype)


def sum_runs(
    n_rows: int,
    inputs: Float[np.ndarray, "D n"],
    theta: Float[np.ndarray, " n"],
    bounds: Int[np.ndarray, " r1"],
    basis: Scaled,
    dtype: np.dtype[Any],
) -> Float[np.ndarray, "r K"]:
    """Σ θ φ over runs of rows, as in `_summing`."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _summing(n_rows, inputs, basis, dtype)(inputs, theta, bounds)


def _not_finite(batch: Batch, row: int) -> SettingError:
    return SettingError(
        f"the set of {batch.path}, row {batch.first_row + row + 1} has a feature that is not "
        "finite: its weights are too large for this dtype, or its inputs for the basis. Rescale "
        "them (standardize=True does for inputs), or choose dtype='float64' or another basis."
    )
