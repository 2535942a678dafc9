"""Predictions of all individuals of a scan, from Parquet files to Parquet files.

Rows are predicted part by part in the order of the files. Nothing is grouped, and each thread or
worker holds one batch in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A part to be predicted."""

    scan: Scan
    part: Part
    model: Model
    level: float
    folder: str


def predict(model: Model, scan: Scan, out: str, level: float, run: Run) -> int:
    """Predict all parts, each to its own file in a new folder, or all to one file in order."""
    _added(scan)  # refused now, not in the middle
    out = os.path.abspath(out)  # workers may run in another folder
    single = out.endswith(".parquet")
    if not out or (os.path.lexists(out) and (single or not os.path.isdir(out) or os.listdir(out))):
        raise SettingError(f"{out!r} exists; name a new {'file' if single else 'folder'}")
    jobs, done = [Job(scan, part, model, level, out) for part in scan.parts()], 0
    try:
        if not single:
            os.makedirs(out, exist_ok=True)
        with Slow("predicting", scan.rows) as slow:
            for rows in _one_file(jobs, out) if single else run(predict_part, jobs):
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


def predict_part(job: Job) -> int:
    """Predict a part to a file, which appears when it is whole."""
    name = os.path.join(job.folder, f"part-{job.part.number:06}.parquet")
    return sum(_one_file([job], name))


def _one_file(jobs: Sequence[Job], path: str) -> Iterator[int]:
    """Write jobs to one file, which appears when all are done; gives the rows of each."""
    import pyarrow as pa
    from pyarrow import parquet

    added, writer = _added(jobs[0].scan), None
    with atomic_write(path) as file, ExitStack() as opened:
        for job in jobs:
            for batch in batches(job.scan, job.part):
                x = np.ascontiguousarray(batch.inputs.T, dtype=np.float64)
                try:
                    mean = outputs.predict_mean(job.model, x)[:, 0]
                    std = outputs.predict_std(job.model, x, include_noise=True)[:, 0]
                except InvalidSetError as error:
                    where = f"{batch.path}, rows from {batch.first_row + 1} on"
                    raise InvalidSetError(f"{where}: {error}") from error
                reach = NormalDist().inv_cdf(0.5 + 0.5 * job.level) * std
                number = np.arange(len(batch)) + batch.first_row + 1
                codes = pa.array(np.zeros(len(batch), np.int32))
                path = pa.DictionaryArray.from_arrays(codes, [batch.path])  # stored once
                found = (path, number, mean, std, mean - reach, mean + reach)
                columns = dict(zip(job.scan.by, batch.keys, strict=True))
                table = pa.table({**columns, **dict(zip(added, found, strict=True))})
                if writer is None:
                    writer = opened.enter_context(parquet.ParquetWriter(file, table.schema))
                writer.write_table(table)
            yield job.part.rows
