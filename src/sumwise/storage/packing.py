"""Sets as Parquet; settings and drawn bases are packed in `sumwise.drawn`. Never pickle."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from sumwise.drawn import pack_config, pack_prepared, unpack_config, unpack_prepared
from sumwise.errors import DataError
from sumwise.sets import Sets
from sumwise.storage.names import from_json, to_json

__all__ = [
    "pack_config",
    "pack_prepared",
    "pack_sets",
    "unpack_config",
    "unpack_prepared",
    "unpack_sets",
]

# --- sets -----------------------------------------------------------------------------------------


def pack_sets(sets: Sets) -> bytes:
    """A Parquet table with a row per individual: set number, weight, and the inputs."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "set": np.repeat(np.arange(len(sets), dtype=np.int32), sets.sizes),
        "theta": sets.theta,
        **{f"x{d}": sets.x[:, d] for d in range(sets.n_inputs)},
    }
    kept = {"ids": [to_json(name) for name in sets.ids]}
    if sets.input_names is not None:
        kept["inputs"] = [to_json(name) for name in sets.input_names]
    table = pa.table(columns).replace_schema_metadata({"sumwise": json.dumps(kept)})
    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd", use_dictionary=["set"])
    return file.getvalue()


def unpack_sets(kept: bytes) -> Sets:
    """The same sets, to the bit; anything else than `pack_sets` wrote is refused."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(pa.BufferReader(kept)).read()
        names = json.loads(table.schema.metadata[b"sumwise"])
        owner, theta, *inputs = map(_array, table.columns)
        starts = np.searchsorted(owner, np.arange(len(names["ids"]) + 1))
        x = np.empty((len(theta), len(inputs)))
        for d, column in enumerate(inputs):
            x[:, d] = column
        ids = tuple(map(from_json, names["ids"]))
        inputs_named = names.get("inputs")
        named = None if inputs_named is None else tuple(map(from_json, inputs_named))
        return Sets(ids, x, np.array(theta), starts, named)
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f"the study's sets cannot be read ({error})") from error


def _array(column: Any) -> np.ndarray:
    """A column of numbers; Arrow's own `to_numpy` would import pandas where it is installed."""
    return np.concatenate([np.from_dlpack(chunk) for chunk in column.chunks])
