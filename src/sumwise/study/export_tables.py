"""Sets and drawn bases as Parquet files of an exported study: plain columns that any tool reads.

    sets.parquet     a row per individual: set, id, id_json, theta, and the inputs
    basis.parquet    a row per array that was drawn: name, dtype, shape, values

`id` is what people see of a set's id, `id_json` the very value. Both files come back to the bit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping
from typing import IO, Any, Final

import numpy as np

from sumwise.data.sets import Sets
from sumwise.errors import DataError, SumwiseError
from sumwise.model import archives
from sumwise.model import fit as core
from sumwise.model.fit import ModelConfig, Prepared
from sumwise.model.serialize import pack_prepared, unpack_prepared
from sumwise.study.export_csv import cell_of
from sumwise.study.storage.id_json import many_from_json, to_json
from sumwise.util.shapes import Int

SETS: Final = "sets.parquet"
BASIS: Final = "basis.parquet"
OWN: Final = ("set", "id", "id_json", "theta")  # columns before the inputs
STATE: Final = "state/"  # before the names of a network's arrays
REAL: Final = ("float32", "float64")
ARRAY: Final = ("name", "dtype", "shape", "values")  # columns of basis.parquet


# --- sets -----------------------------------------------------------------------------------------


def input_columns(names: tuple[Hashable, ...] | None, n_inputs: int) -> list[str]:
    """The users' own names where they can name columns, else x0, x1, …"""
    plain = [name for name in names or () if isinstance(name, str) and _is_plain(name)]
    if len({*plain} - {*OWN}) == n_inputs:
        return plain
    return [f"x{d}" for d in range(n_inputs)]


def _is_plain(text: str) -> bool:
    return bool(text) and text.isprintable() and _is_text(text)


def write_sets(file: IO[bytes], sets: Sets) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    owner = np.repeat(np.arange(len(sets), dtype=np.int32), sets.sizes)

    def of_set(values: list[str]) -> Any:  # each text is kept once
        return pa.DictionaryArray.from_arrays(owner, pa.array(values, pa.string()))

    columns = [
        owner,
        of_set([cell_of(name) for name in sets.ids]),
        of_set([_exact(name) for name in sets.ids]),
        sets.theta,
        *(np.ascontiguousarray(column) for column in sets.x.T),
    ]
    names = [*OWN, *input_columns(sets.input_names, sets.n_inputs)]
    table = pa.table(list(map(pa.array, columns)), names=names)
    pq.write_table(table, file, compression="zstd", use_dictionary=list(OWN[:3]))


def _exact(name: Hashable) -> str:
    text = to_json(name)
    return text if _is_text(text) else json.dumps(json.loads(text))  # with escapes


def _is_text(text: str) -> bool:
    """Whether UTF-8 can hold it: half a surrogate pair cannot be written."""
    return text == text.encode("utf-8", "replace").decode()


def read_sets(file: IO[bytes], names: tuple[Hashable, ...] | None) -> Sets:
    """The sets that `write_sets` wrote, whose inputs have these names."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(file).read().unify_dictionaries()
        expected = [*OWN, *input_columns(names, table.num_columns - len(OWN))]
        if table.column_names != expected:
            raise DataError(f"it has columns {table.column_names}, where {expected} belong")
        owner, _, exact, *reals = table.columns
        kinds = [(pa.types.is_integer, owner), *((pa.types.is_floating, real) for real in reals)]
        for name, (fits, column) in zip(("set", *expected[3:]), kinds, strict=True):
            if not fits(column.type) or column.null_count:
                raise DataError(f"column {name!r} does not have a number in every row")
        starts = _starts(owner.to_numpy())
        ids = many_from_json(f"[{','.join(exact.take(starts[:-1]).to_pylist())}]")
        theta, *inputs = (column.to_numpy() for column in reals)
        x = np.empty((len(theta), len(inputs)))
        for d, column in enumerate(inputs):
            x[:, d] = column
        return Sets(ids, x, np.array(theta), starts, names)
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, SumwiseError) as error:
        raise DataError(f"{SETS} cannot be read: {error}") from error


def _starts(owner: Int[np.ndarray, " N"]) -> Int[np.ndarray, " A1"]:
    """Where each set begins, if rows are sorted by set and none is missing."""
    steps = np.diff(owner, prepend=-1)
    if not len(owner) or owner[0] or ((steps != 0) & (steps != 1)).any():
        raise DataError("its rows are not set by set: 0, 0, …, 1, 1, …")
    return np.append(np.flatnonzero(steps), len(owner))


# --- what was drawn -------------------------------------------------------------------------------


def write_basis(file: IO[bytes], prepared: Prepared) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = _arrays(prepared)
    for name, array in arrays.items():
        if array.dtype.name not in REAL:
            raise DataError(f"the basis has an array {name!r} of {array.dtype}: not real numbers")
    columns = {
        "name": pa.array(list(arrays)),
        "dtype": pa.array([array.dtype.name for array in arrays.values()]),
        "shape": pa.array([list(array.shape) for array in arrays.values()], pa.list_(pa.int64())),
        "values": pa.array(
            [array.ravel().astype(np.float64) for array in arrays.values()],
            pa.list_(pa.float64()),
        ),
    }
    pq.write_table(pa.table(columns), file, compression="zstd", use_dictionary=False)


def _arrays(prepared: Prepared) -> dict[str, np.ndarray]:
    """All that was drawn, by name; a network's weights one by one."""
    arrays = archives.from_bytes(pack_prepared(prepared), "the basis")
    state = arrays.pop("state", None)
    if state is None:
        return arrays
    inside = archives.from_bytes(state.tobytes(), "the weights of a network")
    return arrays | {STATE + name: array for name, array in inside.items()}


def read_basis(file: IO[bytes], config: ModelConfig, sets: Sets) -> Prepared:
    """What `write_basis` wrote of a model with these settings on these sets."""
    import pyarrow as pa

    drawn = _arrays(core.prepare(config, sets))  # of the kind that is expected
    try:
        with np.errstate(all="ignore"):
            found = _read_arrays(file)
        if found.keys() != drawn.keys():
            raise DataError(
                f"it has arrays {', '.join(found)}, and a model with the settings in study.json "
                f"has {', '.join(drawn)}"
            )
        for name, other in drawn.items():
            array = found[name]
            if (array.shape, array.dtype) != (other.shape, other.dtype):
                raise DataError(
                    f"array {name!r} has shape {array.shape} and type {array.dtype}, and in a "
                    f"model with the settings in study.json {other.shape} and {other.dtype}"
                )
            if not np.isfinite(array).all() or (name in ("scale", "numbers") and array.min() <= 0):
                raise DataError(f"array {name!r} has numbers that a basis cannot have")
        packed = _packed({name: found[name] for name in drawn})
        return unpack_prepared(packed, config, sets)
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, DataError) as error:
        raise DataError(f"{BASIS} cannot be read: {error}") from error


def _read_arrays(file: IO[bytes]) -> dict[str, np.ndarray]:
    import pyarrow.parquet as pq

    table = pq.ParquetFile(file).read()
    if table.column_names != list(ARRAY) or any(column.null_count for column in table.columns):
        raise DataError(f"it does not have the columns {', '.join(ARRAY)}, all of them filled")
    arrays: dict[str, np.ndarray] = {}
    for row in range(table.num_rows):
        name, dtype, shape = (table.column(c)[row].as_py() for c in range(3))
        values = np.array(table.column(3)[row].as_py(), dtype=np.float64)
        if dtype not in REAL or min(shape, default=0) < 0 or math.prod(shape) != len(values):
            raise DataError(f"array {name!r:.60} is not {shape} numbers of type {dtype!r:.20}")
        array = values.astype(dtype)
        if name in arrays or (array.astype(np.float64) != values).any():
            raise DataError(f"array {name!r:.60} is there twice, or not of type {dtype}")
        arrays[name] = array.reshape(shape)
    return arrays


def _packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """As `pack_prepared` does it."""
    plain = {name: array for name, array in arrays.items() if not name.startswith(STATE)}
    inside = {name.removeprefix(STATE): a for name, a in arrays.items() if name.startswith(STATE)}
    if inside:
        plain["state"] = np.frombuffer(archives.to_bytes(inside), dtype=np.uint8)
    return archives.to_bytes(plain)
