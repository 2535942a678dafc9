"""Predictions of more individuals than fit in memory, to one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sumwise.data.scan import Scan, batches
from sumwise.data.tables import check_output
from sumwise.errors import SettingError
from sumwise.model.prediction_table import Predictions

if TYPE_CHECKING:
    from sumwise.study.study import Study


def to_file(study: Study, scan: Scan, out: Path, level: float, force: bool) -> int:
    """Group columns and predictions of every row of the study's files; gives how many."""
    check_output(out, force)
    if out.suffix.lower() != ".parquet":
        raise SettingError(
            f"the {scan.rows} individuals of this study are in Parquet files; write their "
            "predictions to a file that ends in .parquet as well"
        )
    partial = out.with_name(f".{out.name}.{os.getpid()}.parquet")
    try:
        rows = study.model.predict_parquet(scan, partial, level)
        check_output(out, force)  # somebody else may have been quicker
        os.replace(partial, out)
    finally:
        partial.unlink(missing_ok=True)
    return rows


def first_rows(study: Study, scan: Scan, few: int, level: float) -> tuple[Any, int]:
    """The first few individuals with predictions, and how many there are in all."""
    first = next(batches(scan, scan.parts()[0]))
    x = np.ascontiguousarray(first.inputs[:, :few].T, dtype=np.float64)
    mean, std = study.model.predict(x, return_std=True)
    columns = {name: key.slice(0, few) for name, key in zip(scan.by, first.keys, strict=True)}
    columns |= {name: x[:, d] for d, name in enumerate(scan.x) if name not in columns}
    return Predictions.of(mean, std, level, inputs=columns).to_arrow(), scan.rows
