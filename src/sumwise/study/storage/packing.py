"""Sets as Parquet; `sumwise.model.serialize` packs settings and drawn bases. Never pickle."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from sumwise.acquisition.objective import Aims
from sumwise.data.sets import Sets
from sumwise.data.targets import Targets
from sumwise.errors import DataError
from sumwise.model import archives
from sumwise.model.serialize import pack_config, pack_prepared, unpack_config, unpack_prepared
from sumwise.study.storage.id_json import from_json, to_json

__all__ = [
    "pack_aims",
    "pack_config",
    "pack_prepared",
    "pack_sets",
    "unpack_aims",
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


# --- what a user wants ----------------------------------------------------------------------------


def pack_aims(aims: Aims) -> bytes:
    """Costs, known noise, targets and the threshold, as far as they were given."""
    arrays = {"noise_std": aims.noise_std, "cost": aims.cost, "enough": aims.enough}
    if aims.targets is not None:
        arrays |= {"targets": aims.targets.x, "target_weights": aims.targets.weight}
    return archives.to_bytes({name: value for name, value in arrays.items() if value is not None})


def unpack_aims(kept: bytes, sets: Sets) -> Aims:
    """What `pack_aims` kept of a study on these sets."""
    arrays = archives.from_bytes(kept, "what the study is for")
    try:
        targets = None
        if "targets" in arrays:
            targets = Targets(arrays["targets"], arrays["target_weights"])
            if targets.x.shape != (len(targets.weight), sets.n_inputs):
                raise ValueError(f"targets of shape {targets.x.shape}")
        noise, cost = arrays.get("noise_std"), arrays.get("cost")
        for each in (noise, cost):
            if each is not None and each.shape != (len(sets),):
                raise ValueError(f"{each.shape} numbers for {len(sets)} sets")
        enough = float(arrays["enough"]) if "enough" in arrays else None
        return Aims(targets, noise, cost, enough)
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"what the study is for cannot be read ({error})") from error
