"""Read a folder that `export` wrote, check everything in it, and store it as a study.

The whole folder is read before a database is opened. A folder is not trusted: every file must have
the checksum that study.json gives, and values that do not make a study are refused by file and
line. Exports of older versions have checksums of the Parquet files only.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import stat
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise, zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import numpy as np

from sumwise.acquisition import objective
from sumwise.acquisition.objective import Objective, StudyOptions
from sumwise.acquisition.strategies import ACQUISITIONS, per_cost
from sumwise.data import validate
from sumwise.data.frames import to_float
from sumwise.data.sets import Sets
from sumwise.data.targets import Targets
from sumwise.errors import DataError, MissingExtraError, SumwiseError
from sumwise.model import fit as core
from sumwise.model import serialize
from sumwise.model.fit import ModelConfig, Prepared
from sumwise.model.serialize import pack_config, unpack_config, unpack_prepared
from sumwise.study import export
from sumwise.study.export import BASIS, SETS, STUDY, TABLES
from sumwise.study.storage import records, transactions
from sumwise.study.storage.database import Connection
from sumwise.study.storage.id_json import many_from_json

LARGEST_COUNT: Final = 10**9  # far below what a database can count to
LONGEST_FIELD: Final = 2**31 - 1  # Python's own limit is shorter than an id may be
VALUED: Final = ("told", "amended", "retracted")  # events with a total
KINDS: Final = (
    *("created", "asked", *VALUED, "released", "renewed", "expired"),
    *("skipped", "unskipped"),
)
Happened = Mapping[str, Sequence[Mapping[str, Any]]]  # rows of the tables


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """A study that was read from a folder."""

    row: Mapping[str, Any]  # of the table of studies
    config: ModelConfig
    sets: Sets
    prepared: Prepared
    aims: Objective
    happened: Happened


def store(connection: Connection, found: Imported, packed: Mapping[str, bytes]) -> None:
    """Add the study to a database as it was, with these blobs."""
    study_id = transactions.create(connection, packed, **found.row)
    transactions.restore(connection, study_id, found.happened)


def read(folder: Any, name: Any = None) -> Imported:
    """The study that was exported to this folder, everything checked; with a name, under that."""
    place = export.path_of(folder)
    named = None if name is None else validate.study_name(name)
    if not os.path.isdir(place):
        raise DataError(f"there is no folder {place}; name one that a study was exported to")
    try:
        found = _read(place)
    except MissingExtraError:
        raise
    except SumwiseError as error:
        raise DataError(f"{place} cannot be imported. {error}") from error
    except OSError as error:
        raise DataError(f"{place} cannot be read ({error.strerror or error})") from error
    return found if named is None else replace(found, row={**found.row, "name": named})


def _read(place: Path) -> Imported:
    content = _content(place, STUDY, {})
    with _refusals(STUDY):
        head = json.loads(content.decode("utf-8-sig"))
        row, sha256 = _study_row(head), {**head["sha256"]}
        config = unpack_config(row["config"])
        names = head["inputs"]
        inputs = None if names is None else many_from_json(json.dumps(names))
    content = _content(place, SETS, sha256)
    with _refusals(SETS):
        sets = _sets(content, inputs)
    with _refusals(STUDY):
        aims = _aims(head["aims"], sets, head["strategy"]) if "aims" in head else Objective()
    content = _content(place, BASIS, sha256)
    with _refusals(BASIS):
        prepared = _basis(content, config, sets)
    happened = {
        table: _rows(_content(place, f"{table}.csv", sha256), table, sets) for table in TABLES
    }
    _check_together(happened, sets, head["arrivals"])
    return Imported(row, config, sets, prepared, aims, happened)


def _content(place: Path, name: str, sha256: Mapping[str, Any]) -> bytes:
    """A plain file, which has its checksum: a link could lead anywhere, a pipe would never end."""
    try:
        plain = stat.S_ISREG(os.lstat(place / name).st_mode)
    except FileNotFoundError:
        raise DataError(f"There is no file {name} in it; export the study again.") from None
    if not plain:
        raise DataError(f"{name} is not a plain file; put the file itself there.")
    content = (place / name).read_bytes()
    required = name in (SETS, BASIS) or name in sha256
    if required and hashlib.sha256(content).hexdigest() != sha256.get(name):
        raise DataError(
            f"{name} is not what was exported: its checksum differs from that in {STUDY}. Export "
            "the study again; to correct answers, import it and use amend or tell."
        )
    return content


@contextmanager
def _refusals(name: str) -> Iterator[None]:
    """Refuse a file in words, whatever its content makes the reader raise."""
    try:
        yield
    except MissingExtraError:
        raise
    except Exception as error:
        what = f"{error.args[0]!r} is missing" if type(error) is KeyError else str(error)
        raise DataError(f"{name} cannot be used: {what:.300}") from error


# --- study.json -----------------------------------------------------------------------------------


def _study_row(head: Any) -> dict[str, Any]:
    if type(head["format"]) is not int or head["format"] != export.FORMAT:
        raise ValueError(
            f"it has format {head['format']!r:.20}, and this sumwise knows {export.FORMAT}. If a "
            "newer one wrote it, update: pip install --upgrade sumwise"
        )
    if head["strategy"] not in ACQUISITIONS:
        raise ValueError(f"no strategy is called {head['strategy']!r:.60}")
    validate.count(head["seed"], "seed", 0)
    counters = {name: head[name] for name in export.COUNTERS}
    for name, value in counters.items():
        if type(value) is not int or not 0 <= value <= LARGEST_COUNT:
            raise ValueError(f"{name} is {value!r:.60}; it must be a whole number from 0 on")
    return {
        "name": validate.study_name(head["name"]),
        "created": _time(head["created"]),
        "strategy": head["strategy"],
        "seed": str(head["seed"]),
        "claim_days": validate.days(head["claim_days"], "claim_days"),
        "config": pack_config(unpack_config(json.dumps(head["model"]))),
        **counters,
    }


def _aims(known: Mapping[str, Any], sets: Sets, strategy: str) -> Objective:
    options = {name: known[name] for name in StudyOptions.__annotations__}
    if options["targets"] is not None or options["target_weights"] is not None:
        options |= {name: to_float(known[name], name) for name in ("targets", "target_weights")}
    aims = objective.read(sets, options, "import_study", StudyOptions)
    if aims.targets is not None:  # to the bit, and not scaled anew
        aims = replace(aims, targets=Targets(options["targets"], options["target_weights"]))
        if abs(options["target_weights"].sum() - 1) > 1e-9:
            raise ValueError(f"target_weights add up to {options['target_weights'].sum():g}, not 1")
    per_cost(strategy, np.zeros(len(sets)), aims.cost)
    return aims


# --- Parquet --------------------------------------------------------------------------------------


def _sets(content: bytes, names: tuple[Hashable, ...] | None) -> Sets:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(pa.BufferReader(content)).read().unify_dictionaries()
    own = export.OF_SET
    expected = [*own, *export.input_columns(names, table.num_columns - len(own))]
    if table.column_names != expected:
        raise ValueError(f"it has columns {table.column_names}, where {expected} belong")
    owner, _, exact, *reals = table.columns
    theta, *inputs = (np.array(column.to_numpy(), dtype=np.float64) for column in reals)
    numbers = owner.to_numpy()
    steps = np.diff(numbers, prepend=-1)
    if not len(numbers) or numbers[0] or ((steps != 0) & (steps != 1)).any():
        raise ValueError("its rows are not set by set: 0, 0, …, 1, 1, …")
    starts = np.append(np.flatnonzero(steps), len(numbers))
    ids = many_from_json(f"[{','.join(exact.take(starts[:-1]).to_pylist())}]")
    return Sets(ids, np.column_stack(inputs), theta, starts, names)


def _basis(content: bytes, config: ModelConfig, sets: Sets) -> Prepared:
    """What was drawn, if it has the shape that a model with these settings draws."""
    drawn, found = export.arrays_of(core.prepare(config, sets)), _arrays(content)
    kinds = {name: f"{array.dtype} {array.shape}" for name, array in found.items()}
    expected = {name: f"{array.dtype} {array.shape}" for name, array in drawn.items()}
    for name in {**expected, **kinds}:
        if kinds.get(name) != expected.get(name):
            raise ValueError(
                f"array {name!r} is {kinds.get(name, 'missing')}, and in a model with the settings "
                f"in {STUDY} {expected.get(name, 'missing')}"
            )
    for name, array in found.items():
        if not np.isfinite(array).all() or (name in ("scale", "numbers") and array.min() <= 0):
            raise ValueError(f"array {name!r} has numbers that a basis cannot have")
    mark = export.STATE
    plain = {name: found[name] for name in drawn if not name.startswith(mark)}
    weights = {name.removeprefix(mark): found[name] for name in drawn if name.startswith(mark)}
    if weights:
        plain["state"] = np.frombuffer(serialize.to_bytes(weights), dtype=np.uint8)
    return unpack_prepared(serialize.to_bytes(plain), config, sets)


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(pa.BufferReader(content)).read()
    if table.column_names != list(export.OF_ARRAY):
        raise ValueError(f"it does not have the columns {', '.join(export.OF_ARRAY)}")
    arrays: dict[str, np.ndarray] = {}
    for name, dtype, shape, values in zip(*map(pa.ChunkedArray.to_pylist, table), strict=True):
        if dtype not in ("float32", "float64") or math.prod(shape) != len(values):
            raise ValueError(f"array {name!r:.60} is not {shape} numbers of type {dtype!r:.20}")
        with np.errstate(over="ignore"):
            arrays[name] = np.array(values, dtype=np.float64).astype(dtype).reshape(shape)
    return arrays


# --- CSV ------------------------------------------------------------------------------------------


def _count(cell: str) -> int:
    if not 0 <= int(cell) <= LARGEST_COUNT:
        raise ValueError
    return int(cell)


def _text(cell: str) -> str | None:
    return validate.text(cell.removeprefix("\\"), "text")


def _time(cell: str) -> str:
    moment = datetime.fromisoformat(cell)
    if moment.tzinfo is None:
        raise ValueError(f"{cell!r:.60} is a time without its zone, such as +00:00")
    return records.stamp(moment)


PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {  # of the other columns, text is taken as is
    "number": _count,
    "position": _count,
    "what": lambda cell: KINDS[KINDS.index(cell)],
    "total": lambda cell: validate.total(float(cell), cell),
    "noise_std": lambda cell: validate.noise(float(cell), cell) or None,
    **{"by": _text, "note": _text},
    **{"at": _time, "asked": _time, "expires": _time},
}


def _rows(content: bytes, table: str, sets: Sets) -> list[dict[str, Any]]:
    """The rows of a CSV file as they are stored; one that cannot be used is refused by its line."""
    rows: list[dict[str, Any]] = []
    columns, line, usual = list(TABLES[table]), 1, csv.field_size_limit(LONGEST_FIELD)
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        if next(reader, None) != columns:
            raise ValueError(f"the columns must be {','.join(columns)}")
        line = 2
        for cells in reader:
            if len(cells) != len(columns):
                raise ValueError(f"{len(cells)} fields instead of {len(columns)}")
            row = _row(dict(zip(columns, cells, strict=True)), sets)
            if table == "history" and row["number"] != len(rows) + 1:
                raise ValueError(f"number is {row['number']}, where {len(rows) + 1} belongs")
            rows.append({stored: row[name] for name, stored in TABLES[table].items() if stored})
            line = reader.line_num + 1
        return rows
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{table}.csv, line {line}: this is not UTF-8") from None
    except (ValueError, csv.Error) as error:
        raise DataError(f"{table}.csv, line {line}: {error}") from None
    finally:
        csv.field_size_limit(usual)


def _row(cells: Mapping[str, str], sets: Sets) -> dict[str, Any]:
    """Cells as values. Whether an event has a set, a total and a question depends on its kind."""
    row: dict[str, Any] = {}
    what = cells.get("what", "asked")
    has = {"position": what != "created", "question": what == "asked"}
    has |= {"total": what in VALUED} if "what" in cells else {}
    for name, cell in cells.items():
        try:
            if name in has and bool(cell) != has[name]:
                raise ValueError
            optional = name in ("noise_std", "by", "note") or not has.get(name, True)
            row[name] = None if optional and not cell else PARSERS.get(name, str)(cell)
        except (ValueError, OverflowError, SumwiseError):
            raise ValueError(f"{name} is {cell!r:.60}, which cannot be used there") from None
    at, named = row["position"], row["set"]
    if at is not None and at >= len(sets):
        raise ValueError(f"position is {at}, and sets have 0 to {len(sets) - 1}")
    known = "" if at is None else export.shown_id(sets.ids[at])
    if named != known:
        raise ValueError(f"the set is {named!r:.80}, and at position {at} is {known!r:.80}")
    if cells.get("question") and not _was_asked(row["question"], sets.ids[at], sets):
        raise ValueError(f"question is {row['question']!r:.60}, and was never asked for this set")
    return row


def _was_asked(text: str, set_id: Hashable, sets: Sets) -> bool:
    """Whether this is a question that was asked for a set."""
    try:
        known = records.question(text)
        numbers = [known[name] for name in ("score", "expected", "std", "information", "number")]
        return (
            known["set_id"] == set_id
            and (known["runner_up"] is None or known["runner_up"] in sets)
            and all(isinstance(number, int | float) for number in numbers)
            and all(isinstance(known[name], str) for name in ("why", "expires"))
        )
    except (ValueError, TypeError, LookupError, RecursionError, DataError):
        return False


def _check_together(happened: Happened, sets: Sets, arrivals: int) -> None:
    """A set is answered, claimed or skipped once; answers are those that history has left."""
    seen: dict[int, str] = {}
    for table in ("answers", "claims", "skips"):
        for row in happened[table]:
            set_id, before = sets.ids[row["position"]], seen.get(row["position"])
            if before is not None:
                raise DataError(f"set {set_id!r:.80} of {table}.csv is in {before}.csv already")
            seen[row["position"]] = table
    left: dict[int, Mapping[str, Any]] = {}
    for event in happened["history"]:
        if event["what"] == "retracted":
            left.pop(event["position"], None)
        elif event["what"] in VALUED:
            left[event["position"]] = event
    said = itemgetter("position", "y_bar", "noise_std", "by", "note")
    answers = [*map(said, happened["answers"])]
    for answer, event in zip_longest(answers, map(said, left.values())):
        if answer != event:
            set_id = sets.ids[(answer or event)[0]]
            raise DataError(
                "answers.csv does not have the answers that history.csv leaves, from set "
                f"{set_id!r:.80} on. Export the study again, and correct answers with amend or tell"
            )
    numbers = [-1, *(row["arrival"] for row in happened["answers"]), arrivals]
    for before, number in pairwise(numbers):
        if number <= before:
            raise DataError(
                f"answers.csv: after number {before} comes {number}; numbers rise, and stay below "
                f"the arrivals in {STUDY}, {arrivals}"
            )
