"""A study as a folder of open formats, which `import_` reads.

    study.json       settings, counters, and the SHA-256 of every other file
    sets.parquet     a row per individual: set, id, id_json, theta, and the inputs
    basis.parquet    a row per array that was drawn: name, dtype, shape, values
    answers.csv, claims.csv, skips.csv, history.csv        a row per row of their tables

The folder is written under another name beside its place and renamed, so it is whole or not there.
What can be computed again, such as what a model has learned, is left out. `id` is how people see a
set's id, `id_json` the exact value. In CSV files an empty field means that nothing was given; text
that is empty or begins with a backslash has one more backslash in front.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from sumwise.acquisition.objective import StudyOptions
from sumwise.data.sets import Sets
from sumwise.errors import SettingError, StorageError
from sumwise.model import serialize
from sumwise.model.fit import Prepared
from sumwise.model.serialize import pack_config, pack_prepared
from sumwise.study.storage import blobs, records
from sumwise.study.storage.database import Database
from sumwise.study.storage.id_json import many_to_json, to_json
from sumwise.study.storage.records import StudyRecord
from sumwise.util.files import sha256_of, sync_folder, temporary_name
from sumwise.util.text import shown

FORMAT: Final = 1
STUDY: Final = "study.json"
SETS: Final = "sets.parquet"
BASIS: Final = "basis.parquet"
_TEXTS: Final = {"by": "by", "at": "at", "note": "note"}
_TOTAL: Final = {"total": "y_bar", "noise_std": "noise_std"}
_SET: Final = {"set": "", "position": "position"}
TABLES: Final[Mapping[str, Mapping[str, str]]] = {  # columns of each CSV file, as they are stored
    "answers": {"number": "arrival", **_SET, **_TOTAL, **_TEXTS},
    "claims": {"number": "number", **_SET, "by": "by", "asked": "asked", "expires": "expires"},
    "skips": {**_SET, **_TEXTS},
    "history": {
        **{"number": "", "at": "at", "what": "what"},
        **{**_SET, **_TOTAL, "by": "by", "note": "note", "question": "question"},
    },
}
COUNTERS: Final = ("questions", "arrivals", "changes")
OF_SET: Final = ("set", "id", "id_json", "theta")  # columns of sets.parquet before the inputs
OF_ARRAY: Final = ("name", "dtype", "shape", "values")  # columns of basis.parquet
STATE: Final = "state/"  # begins the names of a network's arrays


def write(folder: Any, database: Database, record: StudyRecord, sets: Sets) -> Path:
    """Export a study to a folder, which must not be there yet or be empty."""
    place = _free(folder)
    with database.read() as connection:
        state = records.state(connection, record, lock=False)
        happened = records.happened(connection, record)
    counters = {name: getattr(state, name) for name in COUNTERS}
    writers = {
        SETS: partial(_write_sets, sets=sets),
        BASIS: partial(_write_basis, prepared=record.prepared),
        **{
            f"{table}.csv": partial(_write_table, table=table, rows=rows, ids=sets.ids)
            for table, rows in happened.items()
        },
    }
    unfinished = temporary_name(place)
    head = _head(record, sets.input_names, counters)
    try:
        os.mkdir(unfinished)
        for name, write_to in writers.items():
            path = os.path.join(unfinished, name)
            _write_file(path, write_to)
            head["sha256"][name] = sha256_of(path)
        text = _utf8(json.dumps(head, indent=2, ensure_ascii=False))
        _write_file(os.path.join(unfinished, STUDY), lambda file: file.write(text))
        sync_folder(unfinished)
        os.rename(unfinished, place)  # over an empty folder, too, and over nothing else
        sync_folder(place.parent)
    except OSError as error:
        raise StorageError(
            f"the study cannot be exported to {place} ({error.strerror or error}); nothing was "
            "left there"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return place


def _write_file(path: str, write_to: Any) -> None:
    with open(path, "xb") as file:
        write_to(file)
        file.flush()
        os.fsync(file.fileno())


def _free(folder: Any) -> Path:
    place = path_of(folder)
    if not os.path.isdir(place.parent):
        raise SettingError(f"there is no folder {place.parent}; make it first")
    try:
        if os.listdir(place):
            raise SettingError(f"{place} is not empty; name a folder that is not there yet")
    except FileNotFoundError:
        pass
    except NotADirectoryError:
        raise SettingError(f"{place} is not a folder; name one that is not there yet") from None
    except OSError as error:
        raise StorageError(f"the study cannot be exported to {place} ({error.strerror})") from error
    return place


def path_of(folder: Any) -> Path:
    """The path that a user gave."""
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise SettingError(f"{folder!r:.60} is no folder; give a path")
    text = os.fsdecode(folder)
    if "\0" in text:
        raise SettingError(f"{text!r:.60} is no folder; a path has no character 0")
    return Path(os.path.realpath(text))


# --- study.json -----------------------------------------------------------------------------------


def _head(
    record: StudyRecord, input_names: tuple[Hashable, ...] | None, counters: Mapping[str, int]
) -> dict[str, Any]:
    """All of study.json but the checksums."""
    plain = ("name", "created", "strategy", "seed", "claim_days")
    known = {
        "format": FORMAT,
        **{name: getattr(record, name) for name in plain},
        **counters,
        "inputs": None if input_names is None else json.loads(many_to_json(input_names)),
        "model": json.loads(pack_config(record.config)),
        "sha256": {},
    }
    if record.aims:
        given = blobs.arrays_of_aims(record.aims)
        options = StudyOptions.__annotations__
        known["aims"] = {name: given[name].tolist() if name in given else None for name in options}
    return known


def _utf8(text: str) -> bytes:
    """JSON as UTF-8; half a surrogate pair, which UTF-8 cannot hold, becomes an escape."""
    return text.encode("utf-8", "backslashreplace")


# --- Parquet --------------------------------------------------------------------------------------


def input_columns(names: tuple[Hashable, ...] | None, n_inputs: int) -> list[str]:
    """The users' own names where they can name columns, else x0, x1, …"""
    plain = [name for name in names or () if isinstance(name, str) and name and name.isprintable()]
    if len({*plain} - {*OF_SET}) == n_inputs:
        return plain
    return [f"x{d}" for d in range(n_inputs)]


def _write_sets(file: IO[bytes], sets: Sets) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    owner = np.repeat(np.arange(len(sets), dtype=np.int32), sets.sizes)

    def of_set(values: list[str]) -> Any:  # each text is stored once
        return pa.DictionaryArray.from_arrays(owner, pa.array(values, pa.string()))

    columns = [
        owner,
        of_set(list(map(shown_id, sets.ids))),
        of_set([_utf8(to_json(name)).decode() for name in sets.ids]),
        sets.theta,
        *(np.ascontiguousarray(column) for column in sets.x.T),
    ]
    names = [*OF_SET, *input_columns(sets.input_names, sets.n_inputs)]
    table = pa.table(list(map(pa.array, columns)), names=names)
    pq.write_table(table, file, compression="zstd", use_dictionary=list(OF_SET[:3]))


def arrays_of(prepared: Prepared) -> dict[str, np.ndarray]:
    """All that was drawn, by name; a network's weights one by one."""
    arrays = serialize.from_bytes(pack_prepared(prepared), "the basis")
    state = arrays.pop("state", None)
    if state is None:
        return arrays
    weights = serialize.from_bytes(state.tobytes(), "the weights of a network")
    return arrays | {STATE + name: array for name, array in weights.items()}


def _write_basis(file: IO[bytes], prepared: Prepared) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = arrays_of(prepared)
    values = [array.ravel().astype(np.float64) for array in arrays.values()]
    columns = [
        pa.array(list(arrays)),
        pa.array([array.dtype.name for array in arrays.values()]),
        pa.array([list(array.shape) for array in arrays.values()], pa.list_(pa.int64())),
        pa.array(values, pa.list_(pa.float64())),
    ]
    table = pa.table(columns, names=list(OF_ARRAY))
    pq.write_table(table, file, compression="zstd", use_dictionary=False)


# --- CSV ------------------------------------------------------------------------------------------


def _write_table(
    file: IO[bytes], table: str, rows: Sequence[Mapping[str, Any]], ids: Sequence[Hashable]
) -> None:
    """Numbers as Python writes them, which is exact; history is numbered from 1."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(TABLES[table])
    for number, row in enumerate(rows, start=1):
        at = row["position"]
        cells = {name: _cell(row.get(stored, number)) for name, stored in TABLES[table].items()}
        writer.writerow({**cells, "set": "" if at is None else shown_id(ids[at])}.values())
    text.flush()
    text.detach()


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return f"\\{value}" if not value or value.startswith("\\") else value
    return "" if value is None else repr(value)


def shown_id(set_id: Hashable) -> str:
    """An id as people see it; half a surrogate pair cannot be written, and becomes a "?"."""
    return shown(set_id).encode("utf-8", "replace").decode()
