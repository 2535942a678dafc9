"""A study as a folder of open formats, which `import_` reads.

    study.json       settings, counters, and the SHA-256 of every other file
    sets.parquet     a row per individual: set, id, id_json, theta, and the inputs; where sets
                     overlap, member and effect before these: the individual that the row is, and
                     the set whose effect it has
    basis.parquet    a row per array that was drawn: name, dtype, shape, values
    individuals-000001.parquet, … in place of sets.parquet where individuals stay in the user's
                     Parquet files: the columns of each that the study uses, all rows in order;
                     study.json says which columns these are (`files`)
    geometry.parquet a row per individual: its geometry, as GeoParquet; if the table had geometries
    map.parquet      a row per shape of the study's map: its id, and its geometry, as GeoParquet
    pools.csv        a row per pool that was designed: its name, the individuals in it and their
                     weights, in the order of their positions, which follow those of the sets; in
                     studies that design their sets, whose study.json has the rules of pools
    answers.csv, claims.csv, skips.csv, history.csv        a row per row of their tables; where an
                     answer covers a part of its set, answers and history have a last column `part`:
                     the numbers of its individuals within the set, or the share that was measured

The folder is written under another name beside its place and renamed, so it is whole or not there.
What can be computed again, such as what a model has learned, is left out. `id` is how people see a
set's id, `id_json` the exact value. In CSV files an empty field means that nothing was given; text
that is empty, or begins with a backslash or like a formula of a spreadsheet, has one more backslash
in front.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np

from sumwise.acquisition.objective import StudyOptions
from sumwise.data.about import About
from sumwise.data.parquet import Scan, raw_batches
from sumwise.data.sets import Sets
from sumwise.errors import SettingError, StorageError
from sumwise.model import serialize
from sumwise.model.fit import Prepared
from sumwise.model.serialize import pack_config, pack_prepared
from sumwise.outofcore.design_store import Embedded
from sumwise.study.storage import blobs, records
from sumwise.study.storage.database import Database
from sumwise.study.storage.id_json import many_to_json, to_json
from sumwise.study.storage.records import StudyRecord
from sumwise.util.files import sha256_of, sync_folder, temporary_name, write_file
from sumwise.util.progress import Slow
from sumwise.util.text import shown, tamed

FORMAT: Final = 1
STUDY: Final = "study.json"
SETS: Final = "sets.parquet"
INDIVIDUALS: Final = "individuals-"  # begins the names of files with individuals that stay in files
OF_FILES: Final = ("by", "x", "weights", "periods")  # of study.json about these
BASIS: Final = "basis.parquet"
GEOMETRY: Final = "geometry.parquet"
MAP: Final = "map.parquet"
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
PART: Final = (
    "part"  # the last column of answers and history where an answer covers a part of a set
)
SETTINGS: Final = ("name", "created", "strategy", "seed", "claim_days")  # of study.json
POOLS: Final = "pools.csv"
OF_POOL: Final = ("name", "at", "members", "theta")  # columns of pools.csv: members are row numbers
COUNTERS: Final = ("questions", "arrivals", "changes")
OF_SET: Final = ("set", "id", "id_json", "theta")  # columns of sets.parquet before the inputs
OF_OVERLAP: Final = ("member", "effect")  # the next ones, where study.json says that sets overlap
OF_ARRAY: Final = ("name", "dtype", "shape", "values")  # columns of basis.parquet
STATE: Final = "state/"  # begins the names of a network's arrays


def write(folder: Any, database: Database, record: StudyRecord, sets: Sets) -> Path:
    """Export a study to a folder, which must not be there yet or be empty."""
    place = path_of(folder)
    if not os.path.isdir(place.parent):
        raise SettingError(f"there is no folder {place.parent}; make it first")
    unfinished = temporary_name(place)
    try:
        _refuse_used(place)
        _refuse_retired(record)
        os.mkdir(unfinished)
        digests = {} if record.embedded is None else _copy(record.embedded.scan, unfinished)
        for name, content in _contents(database, record, sets, digests).items():
            write_file(os.path.join(unfinished, name), content)
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


def path_of(folder: Any) -> Path:
    """The path that a user gave."""
    given = os.fsdecode(folder) if isinstance(folder, str | os.PathLike) else ""
    if not given or "\0" in given:
        raise SettingError(f"{folder!r:.60} is not a folder; give a path")
    return Path(os.path.realpath(given))


def _refuse_used(place: Path) -> None:
    if not os.path.isdir(place) and os.path.lexists(place):
        raise SettingError(f"{place} is not a folder; name one that is not there yet")
    if os.path.isdir(place) and os.listdir(place):
        raise SettingError(f"{place} is not empty; name a folder that is not there yet")


def _refuse_retired(record: StudyRecord) -> None:
    if record.embedded is not None and record.pool.retired:
        raise SettingError(
            "this study has sets whose individuals are not in its files any more, and an export "
            "has the individuals of all sets. Copy the database with the design and the files."
        )


def _contents(
    database: Database, record: StudyRecord, sets: Sets, digests: Mapping[str, str]
) -> dict[str, bytes]:
    """Every file of the export, all of the same moment.

    Args:
        digests: SHA-256 of those that are written already.
    """
    with database.read() as connection:
        state = records.state(connection, record, lock=False)
        happened = records.happened(connection, record)
        geometry, shapes = record.blobs.geometry(connection), record.blobs.map(connection)
        pools = records.designed(connection, record)
        record = records.renewed(connection, record)
        rules = record.blobs.rules(connection, sets)
    ids, aims = sets.ids, record.aims
    if record.designing is not None:
        ids = record.sets.ids
        sets, aims = record.designing.begun(record.sets, aims)
    names = sets.input_names
    contents = {BASIS: _basis_file(record.prepared)}
    if record.embedded is None:
        contents[SETS] = _sets_file(sets)
    contents |= {f"{table}.csv": _csv(table, rows, ids) for table, rows in happened.items()}
    if geometry is not None:
        contents[GEOMETRY] = geometry
    if shapes is not None:
        contents[MAP] = shapes
    if rules is not None:
        contents[POOLS] = _pools_file(pools)
    known = {
        "format": FORMAT,
        **{name: getattr(record, name) for name in SETTINGS},
        **{name: getattr(state, name) for name in COUNTERS},
        "inputs": None if names is None else json.loads(many_to_json(names)),
        "model": json.loads(pack_config(record.prepared.config)),
        "sha256": {**digests, **{n: sha256(each).hexdigest() for n, each in contents.items()}},
        **({} if record.embedded is None else {"files": _files(record.embedded)}),
    }
    if sets.members is not None:
        known["overlap"] = True
    if sets.row_ids is not None:
        known["row_ids"] = True
    if sets.recipe is not None:
        known["recipe"] = sets.recipe.to_json()
    if record.about != About():
        known["about"] = record.about.to_json()
    if record.pool.changes:
        known["pool"] = json.loads(record.pool.to_json())
    known |= blobs.origin_json(sets.origin)
    if rules is not None:
        known["rules"] = json.loads(rules.to_json())
    if aims:
        given = blobs.arrays_of_aims(aims)
        options = StudyOptions.__annotations__
        known["aims"] = {name: given[name].tolist() if name in given else None for name in options}
    text = json.dumps(known, indent=2, ensure_ascii=False)
    return {**contents, STUDY: text.encode("utf-8", "backslashreplace")}


# --- individuals in files -------------------------------------------------------------------------


def _copy(scan: Scan, folder: str) -> dict[str, str]:
    """Copy the columns that a study uses, some rows at a time; gives the SHA-256 of each file."""
    from pyarrow import parquet, table

    digests, of_file, done = dict[str, str](), groupby(scan.parts(), lambda part: part.path), 0
    with Slow("exporting", scan.rows) as slow:
        for number, (_, parts) in enumerate(of_file, start=1):
            path, writer = os.path.join(folder, f"{INDIVIDUALS}{number:06}.parquet"), None
            with ExitStack() as opened:
                for _, columns in (
                    each for p in parts for each in raw_batches(scan, p, scan.columns)
                ):
                    rows = table(columns)
                    if writer is None:
                        made = parquet.ParquetWriter(path, rows.schema, compression="zstd")
                        writer = opened.enter_context(made)
                    writer.write_table(rows)
                    slow.at(done := done + len(rows))
            with open(path, "rb") as file:
                os.fsync(file.fileno())
            digests[os.path.basename(path)] = sha256_of(path)
    return digests


def _files(made: Embedded) -> dict[str, Any]:
    """What `Sets.scan_parquet` and `embed` were told of the files."""
    scan, dtype = made.scan, made.own_pool.design.u.dtype.name
    known = {name: getattr(scan, name) for name in OF_FILES}
    return {**known, "dtype": dtype}


# --- Parquet --------------------------------------------------------------------------------------


def columns_before(overlap: bool, row_ids: bool) -> tuple[str, ...]:
    """Columns of sets.parquet before the inputs."""
    return (*OF_SET, *(OF_OVERLAP if overlap else ()), *((blobs.ROW_ID,) if row_ids else ()))


def input_columns(
    names: tuple[Hashable, ...] | None, n_inputs: int, before: tuple[str, ...]
) -> list[str]:
    """The users' own names where they can name columns, else x0, x1, …"""
    plain = [name for name in names or () if isinstance(name, str) and name and name.isprintable()]
    if len({*plain} - {*before}) == n_inputs:
        return plain
    return [f"x{d}" for d in range(n_inputs)]


def _sets_file(sets: Sets) -> bytes:
    import pyarrow as pa

    owner = np.repeat(np.arange(len(sets), dtype=np.int32), sets.sizes)

    def of_set(values: list[str]) -> Any:  # each text is stored once
        return pa.DictionaryArray.from_arrays(owner, pa.array(values, pa.string()))

    columns = [
        owner,
        of_set(list(map(shown, sets.ids))),
        of_set(list(map(to_json, sets.ids))),
        sets.theta,
        *(() if sets.members is None else (sets.members, sets.effects)),
        *(() if sets.row_ids is None else ([to_json(name) for name in sets.row_ids],)),
        *(np.ascontiguousarray(column) for column in sets.x.T),
    ]
    before = columns_before(sets.members is not None, sets.row_ids is not None)
    names = [*before, *input_columns(sets.input_names, sets.n_inputs, before)]
    table = pa.table(list(map(pa.array, columns)), names=names)
    return blobs.pack_table(table, list(OF_SET[:3]))


def arrays_of(prepared: Prepared) -> dict[str, np.ndarray]:
    """All that was drawn, by name; a network's weights one by one."""
    arrays = serialize.from_bytes(pack_prepared(prepared), "the basis")
    state = arrays.pop("state", None)
    if state is None:
        return arrays
    weights = serialize.from_bytes(state.tobytes(), "the weights of a network")
    return arrays | {STATE + name: array for name, array in weights.items()}


def _basis_file(prepared: Prepared) -> bytes:
    import pyarrow as pa

    arrays = arrays_of(prepared)
    values = [array.ravel().astype(np.float64) for array in arrays.values()]
    columns = [
        pa.array(list(arrays)),
        pa.array([array.dtype.name for array in arrays.values()]),
        pa.array([list(array.shape) for array in arrays.values()], pa.list_(pa.int64())),
        pa.array(values, pa.list_(pa.float64())),
    ]
    return blobs.pack_table(pa.table(columns, names=list(OF_ARRAY)), False)


# --- CSV ------------------------------------------------------------------------------------------


def _csv(table: str, rows: Sequence[Mapping[str, Any]], ids: Sequence[Hashable]) -> bytes:
    """Numbers as Python writes them, which is exact; history is numbered from 1."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    columns = {**TABLES[table], **({PART: PART} if any(row.get(PART) for row in rows) else {})}
    writer.writerow(columns)
    for number, row in enumerate(rows, start=1):
        at = row["position"]
        cells = {name: _cell(row.get(stored, number)) for name, stored in columns.items()}
        name = "" if at is None else tamed(shown(ids[at]), "\\")
        writer.writerow({**cells, "set": name}.values())
    return text.getvalue().encode()


def _pools_file(pools: Sequence[Mapping[str, Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(OF_POOL)
    writer.writerows([_cell(row[name]) for name in OF_POOL] for row in pools)
    return text.getvalue().encode()


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return f"\\{value}" if not value or value.startswith("\\") else tamed(value, "\\")
    return "" if value is None else repr(value)
