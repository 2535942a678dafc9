"""Predictions of all individuals of a scan, from Parquet files to Parquet or CSV files.

Rows are predicted part by part in the order of the files. Nothing is grouped, and each thread or
worker holds one batch in memory. Of the means alone, which cost far less than intervals, the
highest and the lowest can be found.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from sumwise.data.parquet import Batch, Part, Scan, batches
from sumwise.data.recipe import Encoded
from sumwise.data.tables import marked
from sumwise.errors import DataError, InvalidSetError, SettingError
from sumwise.model import predict as outputs
from sumwise.model.bounded import within
from sumwise.model.fit import Model
from sumwise.model.generalised.refusals import refuse_exposures
from sumwise.model.predict import own_names
from sumwise.outofcore.build import Run
from sumwise.util.files import atomic_write
from sumwise.util.progress import Slow, quiet
from sumwise.util.shapes import Float, Int
from sumwise.util.threads import one_of_many

UNBOUNDED: Final = (-math.inf, math.inf)
SINGLE: Final = (".parquet", ".csv")  # endings of one file for all rows
ADDED: Final = ("file", "row", "mean", "std", "lower", "upper")


def predict(
    model: Model,
    scan: Scan,
    out: str,
    level: float,
    run: Run,
    overwrite: bool = False,
    ends: tuple[float, float] = UNBOUNDED,
) -> int:
    """Predict all parts, each to its own file in a new folder, or all to one file in order.

    Args:
        overwrite: Whether one file may take the place of another.
        ends: Bounds of an output, at which each row is cut on its own.
    """
    own_names(_added(model), scan.by)  # refused now, not in the middle
    if model.generalised is not None and scan.weights == "mean":
        raise SettingError(
            "weights='mean' says nothing of exposures: scan the files with the column of exposures "
            "or trials as weights, or without weights if all have 1"
        )
    out = os.path.abspath(out)  # workers may run in another folder
    single = out.lower().endswith(SINGLE)
    empty = os.path.isdir(out) and not os.listdir(out) and not single
    if os.path.lexists(out) and not (overwrite or empty):
        raise SettingError(f"{out!r} exists; name a new {'file' if single else 'folder'}")
    parts, done = scan.parts(), 0
    try:
        if not single:
            os.makedirs(out, exist_ok=True)
        with Slow("predicting", scan.rows) as slow:
            if single:
                found: Iterable[int] = _one_file(model, scan, level, out, parts, overwrite, ends)
            else:
                found = run(partial(predict_part, model, scan, level, out, ends=ends), parts)
            for rows in found:
                done += rows
                slow.at(done)
    except OSError as error:
        raise DataError(
            f"predictions cannot be written to {out} ({error.strerror or error}); make room, or "
            "choose another place"
        ) from error
    return done


def _added(model: Model) -> tuple[str, ...]:
    """Columns beside those that name the set."""
    known = model.generalised
    if known is None:
        return ADDED
    return (*ADDED, "share" if known.likelihood.capped else "rate", "extrapolates")


def predict_part(
    model: Model,
    scan: Scan,
    level: float,
    folder: str,
    part: Part,
    ends: tuple[float, float] = UNBOUNDED,
) -> int:
    """Predict a part to a file, which appears when it is whole."""
    name = os.path.join(folder, f"part-{part.number:06}.parquet")
    with one_of_many():
        return sum(_one_file(model, scan, level, name, [part], ends=ends))


def _one_file(
    model: Model,
    scan: Scan,
    level: float,
    path: str,
    parts: Sequence[Part],
    overwrite: bool = True,
    ends: tuple[float, float] = UNBOUNDED,
) -> Iterator[int]:
    """Write parts to one file, which appears when all are done; gives the rows of each batch."""
    from pyarrow import csv, parquet

    added, writer = own_names(_added(model), scan.by).values(), None
    in_columns = path.lower().endswith(SINGLE[0])
    with atomic_write(path, overwrite=overwrite) as file, ExitStack() as opened:
        for part in parts:
            for batch in batches(scan, part, unknown=True):
                with _naming(batch), quiet():
                    found = _intervals(model, scan, batch, level)
                    found = found if ends == UNBOUNDED else within(found, *ends)
                table = _table(scan, batch, found, added, in_columns)
                table = table if in_columns else marked(table)
                if writer is None:
                    kind = parquet.ParquetWriter if in_columns else csv.CSVWriter
                    writer = opened.enter_context(kind(file, table.schema))
                writer.write_table(table)
                yield len(batch)


def _table(
    scan: Scan,
    batch: Batch,
    found: outputs.Predictions,
    added: Iterable[str],
    in_columns: bool,
) -> Any:
    import pyarrow as pa

    number = np.arange(len(batch)) + batch.first_row + 1
    codes = pa.array(np.zeros(len(batch), np.int32))
    file_name: Any = pa.DictionaryArray.from_arrays(codes, [batch.path])  # stored once
    file_name = file_name if in_columns else file_name.dictionary_decode()
    values = (file_name, number, found.mean, found.std, found.lower, found.upper)
    columns = dict(zip(scan.by, batch.keys, strict=True))
    return pa.table({**columns, **dict(zip(added, (*values, *found.more.values()), strict=True))})


@contextmanager
def _naming(batch: Batch) -> Iterator[None]:
    """Say where rows are that cannot be predicted."""
    try:
        yield
    except InvalidSetError as error:
        where = f"{batch.path}, rows from {batch.first_row + 1} on"
        raise InvalidSetError(f"{where}: {error}") from error


def highest_and_lowest(
    model: Model, scan: Scan, most: int, ends: tuple[float, float] = UNBOUNDED
) -> tuple[Int[np.ndarray, " n"], list[Any]]:
    """Numbers in the files and sets of the individuals whose means are highest and lowest, as many
    of both; of all where there are at most `most`."""
    halves = (most, 0) if scan.rows <= most else (most // 2, most // 2)
    held, keys = [np.empty((2, 0)), np.empty((2, 0))], dict[int, Any]()  # numbers and means
    with Slow("predicting", scan.rows) as slow:
        for batch in (each for part in scan.parts() for each in batches(scan, part, unknown=True)):
            with _naming(batch):
                mean = np.clip(_means(model, scan, batch), *ends)
            first = batch.first_individual
            new = np.stack([np.arange(first, first + len(batch)), mean])
            held = [_best(*each, new) for each in zip((-1.0, 1.0), halves, held, strict=True)]
            found = np.concatenate([numbers for numbers, _ in held]).astype(np.int64)
            found = found[found >= first]
            names = [column.take(found - first).to_pylist() for column in batch.keys]
            own = names[0] if len(names) == 1 else zip(*names, strict=True)
            keys |= dict(zip(found.tolist(), own, strict=True))
            slow.at(first + len(batch))
    numbers = np.sort(np.concatenate([numbers for numbers, _ in held]).astype(np.int64))
    return numbers, [keys[number] for number in numbers.tolist()]


def _best(
    sign: float, n: int, held: Float[np.ndarray, "2 h"], new: Float[np.ndarray, "2 m"]
) -> Float[np.ndarray, "2 n"]:
    """The n with the lowest means times `sign`, as a stable sort by them would have it."""
    if held.shape[1] >= n:
        new = new[:, sign * new[1] <= (sign * held[1, -1] if n else -math.inf)]
    both = np.concatenate([held, new], axis=1)
    return both[:, np.lexsort((-sign * both[0], sign * both[1]))[:n]]


def _means(model: Model, scan: Scan, batch: Batch) -> Float[np.ndarray, " n"]:
    if batch.unknown is not None and batch.unknown.any():
        return _intervals(model, scan, batch, 0.5).mean
    x = np.ascontiguousarray(batch.inputs.T, dtype=np.float64)
    own, e = _members(model, scan, batch, x), _exposure(model, batch)
    return outputs.predict_mean(model, x, own, e)[:, 0]


def _intervals(model: Model, scan: Scan, batch: Batch, level: float) -> outputs.Predictions:
    """Predictions of a batch; averages over what others have where nothing is known."""
    x, e = np.ascontiguousarray(batch.inputs.T, dtype=np.float64), _exposure(model, batch)
    found = outputs.interval(model, x, level, _members(model, scan, batch, x), e)
    if scan.recipe is None or batch.unknown is None:
        return found
    for rows, some in scan.recipe.stand_ins(Encoded(x, batch.unknown)):
        again = np.repeat(rows, len(scan.recipe.sample))
        theta = None if batch.theta is None else batch.theta[again]
        keys = tuple(column.take(again) for column in batch.keys)
        each = replace(batch, keys=keys, theta=theta)
        own, more = _members(model, scan, each, some), None if e is None else e[again]
        outputs.average_into(found, rows, outputs.interval(model, some, level, own, more))
    return found


def _exposure(model: Model, batch: Batch) -> Float[np.ndarray, " n"] | None:
    """Of counts, shares and amounts, the weights; 1 where there are none."""
    if model.generalised is None:
        return None
    if batch.theta is None:
        return np.ones(len(batch))
    kind = model.generalised.likelihood.name
    refuse_exposures(kind, batch.theta, lambda row: f"row {batch.first_row + row + 1}")
    return batch.theta


def _members(
    model: Model, scan: Scan, batch: Batch, x: Float[np.ndarray, "N D"]
) -> outputs.Members:
    """The rows of a batch that belong to measured sets; all rows of the files are members.

    Where sets overlap, rows are the members that have their inputs.
    """
    known = model.labelled
    names = [column.to_pylist() for column in batch.keys]
    ids = names[0] if len(names) == 1 else list(zip(*names, strict=True))
    if known is not None and known.overlap is not None:
        return outputs.members_of(model, ids, x)
    if batch.theta is not None:
        return outputs.members_at(model, ids, np.asarray(batch.theta, dtype=np.float64))
    found = outputs.members_at(model, ids, np.ones(len(ids)))
    if known is None or scan.weights == "sum":
        return found
    # a mean: all weights of a set are alike
    return replace(found, theta=known.design.noise_scale[found.total] / found.effect)
