"""Predictions of all individuals of a scan, from Parquet files to Parquet files.

Rows are predicted part by part in the order of the files. Nothing is grouped, and each thread or
worker holds one batch in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import NormalDist
from typing import Final

import numpy as np

from sumwise.data.parquet import Part, Scan, batches
from sumwise.errors import DataError, InvalidSetError, SettingError
from sumwise.model import predict as outputs
from sumwise.model.fit import Model
from sumwise.model.predict import PREFIX
from sumwise.outofcore.build import Run
from sumwise.util.files import atomic_write
from sumwise.util.progress import Slow

ADDED: Final = ("file", "row", "mean", "std", "lower", "upper")


def predict(model: Model, scan: Scan, out: str, level: float, run: Run) -> int:
    """Predict all parts, each to its own file in a new folder, or all to one file in order."""
    _added(scan)  # refused now, not in the middle
    out = os.path.abspath(out)  # workers may run in another folder
    single = out.endswith(".parquet")
    if not out or (os.path.lexists(out) and (single or not os.path.isdir(out) or os.listdir(out))):
        raise SettingError(f"{out!r} exists; name a new {'file' if single else 'folder'}")
    parts, done = scan.parts(), 0
    try:
        if not single:
            os.makedirs(out, exist_ok=True)
        with Slow("predicting", scan.rows) as slow:
            if single:
                found: Iterable[int] = _one_file(model, scan, level, out, parts)
            else:
                found = run(partial(predict_part, model, scan, level, out), parts)
            for rows in found:
                done += rows
                slow.at(done)
    except OSError as error:
        raise DataError(
            f"predictions cannot be written to {out} ({error.strerror or error}); make room, or "
            "choose another place"
        ) from error
    return done


def _added(scan: Scan) -> list[str]:
    """Names of our columns, with a prefix where a group column has such a name itself."""
    prefix = PREFIX if set(scan.by) & set(ADDED) else ""
    names = [f"{prefix}{name}" for name in ADDED]
    for name in names:
        if name in scan.by:
            raise SettingError(f"there is a group column {name!r} already; give it another name")
    return names


def predict_part(model: Model, scan: Scan, level: float, folder: str, part: Part) -> int:
    """Predict a part to a file, which appears when it is whole."""
    name = os.path.join(folder, f"part-{part.number:06}.parquet")
    return sum(_one_file(model, scan, level, name, [part]))


def _one_file(
    model: Model, scan: Scan, level: float, path: str, parts: Sequence[Part]
) -> Iterator[int]:
    """Write parts to one file, which appears when all are done; gives the rows of each."""
    import pyarrow as pa
    from pyarrow import parquet

    added, writer = _added(scan), None
    with atomic_write(path) as file, ExitStack() as opened:
        for part in parts:
            for batch in batches(scan, part):
                x = np.ascontiguousarray(batch.inputs.T, dtype=np.float64)
                try:
                    mean, std = (v[:, 0] for v in outputs.predict_individuals(model, x))
                except InvalidSetError as error:
                    where = f"{batch.path}, rows from {batch.first_row + 1} on"
                    raise InvalidSetError(f"{where}: {error}") from error
                reach = NormalDist().inv_cdf(0.5 + 0.5 * level) * std
                number = np.arange(len(batch)) + batch.first_row + 1
                codes = pa.array(np.zeros(len(batch), np.int32))
                file_name = pa.DictionaryArray.from_arrays(codes, [batch.path])  # stored once
                found = (file_name, number, mean, std, mean - reach, mean + reach)
                columns = dict(zip(scan.by, batch.keys, strict=True))
                table = pa.table({**columns, **dict(zip(added, found, strict=True))})
                if writer is None:
                    writer = opened.enter_context(parquet.ParquetWriter(file, table.schema))
                writer.write_table(table)
            yield part.rows
