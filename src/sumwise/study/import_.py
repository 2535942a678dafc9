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
from sumwise.errors import DataError, MissingExtraError, SettingError, SumwiseError
from sumwise.model import fit as core
from sumwise.model import serialize
from sumwise.model.fit import ModelConfig, Prepared, check_seed
from sumwise.model.serialize import pack_config, unpack_config, unpack_prepared
from sumwise.study import export
from sumwise.study.export import BASIS, SETS, STUDY, TABLES
from sumwise.study.storage import records, transactions
from sumwise.study.storage.database import Connection
from sumwise.study.storage.id_json import from_json, many_from_json

LARGEST_COUNT: Final = 10**9  # far below what a database can count to
LONGEST_FIELD: Final = 2**31 - 1  # Python's own limit is shorter than an id may be
VALUED: Final = ("told", "amended", "retracted")  # events with a total
KINDS: Final = (
    *("created", "asked", *VALUED, "released", "renewed", "expired"),
    *("skipped", "unskipped"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """A study that was read from a folder."""

    name: str
    created: str
    strategy: str
    seed: int
    claim_days: float
    counters: Mapping[str, int]
    config: ModelConfig
    sets: Sets
    prepared: Prepared
    aims: Objective
    happened: Mapping[str, Sequence[Mapping[str, Any]]]  # rows of the tables


def store(connection: Connection, found: Imported, packed: Mapping[str, bytes]) -> None:
    """Add the study to a database as it was, with these blobs."""
    settings = (pack_config(found.config), found.strategy, found.seed, found.claim_days)
    study_id = transactions.create(connection, found.name, packed, *settings)
    transactions.restore(connection, study_id, found.created, found.counters, found.happened)


def read(folder: Any, name: Any = None) -> Imported:
    """The study that was exported to this folder, everything checked; with a name, under that."""
    place = export.path_of(folder)
    named = None if name is None else _visible(name)
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
    return replace(found, name=named or found.name)


def _read(place: Path) -> Imported:
    content = _content(place, STUDY, {})
    with _refusals(STUDY):
        head = json.loads(content.decode("utf-8-sig"))
        settings, sha256 = _settings(head), {**head["sha256"]}
        names = head["inputs"]
        inputs = None if names is None else many_from_json(json.dumps(names))
    content = _content(place, SETS, sha256)
    with _refusals(SETS):
        sets = _sets(content, inputs)
    with _refusals(STUDY):
        aims = _aims(head["aims"], sets, head["strategy"]) if "aims" in head else Objective()
    content = _content(place, BASIS, sha256)
    with _refusals(BASIS):
        prepared = _basis(content, settings["config"], sets)
    lines = {
        table: _table(_content(place, f"{table}.csv", sha256), table, sets) for table in TABLES
    }
    _check_history(lines["history"], sets)
    _check_once(lines)
    _check_answers(lines["answers"], lines["history"], head["arrivals"])
    happened = {table: [line.row for line in many] for table, many in lines.items()}
    return Imported(**settings, sets=sets, prepared=prepared, aims=aims, happened=happened)


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


def _settings(head: Any) -> dict[str, Any]:
    if type(head["format"]) is not int or head["format"] != export.FORMAT:
        raise ValueError(
            f"it has format {head['format']!r:.20}, and this sumwise knows {export.FORMAT}. If a "
            "newer one wrote it, update: pip install --upgrade sumwise"
        )
    if head["strategy"] not in ACQUISITIONS:
        raise ValueError(f"no strategy is called {head['strategy']!r:.60}")
    check_seed(head["seed"], "seed")
    counters = {name: head[name] for name in export.COUNTERS}
    for name, value in counters.items():
        if type(value) is not int or not 0 <= value <= LARGEST_COUNT:
            raise ValueError(f"{name} is {value!r:.60}; it must be a whole number from 0 on")
    return {
        "name": _visible(head["name"]),
        "created": _time(head["created"]),
        "strategy": head["strategy"],
        "seed": head["seed"],
        "claim_days": validate.days(head["claim_days"], "claim_days"),
        "counters": counters,
        "config": unpack_config(json.dumps(head["model"])),
    }


def _visible(name: Any) -> str:
    """The name of a study."""
    text = validate.text(name, "name")
    if not text or not text.strip():
        raise SettingError(f"name is {name!r}; give a study a name that can be seen")
    return text


def _aims(known: Mapping[str, Any], sets: Sets, strategy: str) -> Objective:
    x, weight = known["targets"], known["target_weights"]
    if (x is None) != (weight is None):
        raise ValueError("targets and target_weights go together; give both, or null for both")
    options = {name: known[name] for name in StudyOptions.__annotations__}
    targets = None
    if x is not None:
        targets = Targets(to_float(x, "targets"), to_float(weight, "target_weights"))
        options |= {"targets": targets.x, "target_weights": targets.weight}
    aims = objective.read(sets, options, "import_study", StudyOptions)
    if targets is not None:
        if abs(targets.weight.sum() - 1) > 1e-9:
            raise ValueError(f"target_weights add up to {targets.weight.sum():g}, not to 1")
        aims = replace(aims, targets=targets)  # to the bit, and not scaled anew
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


@dataclass(frozen=True, slots=True)
class Line:
    """A row of a CSV file, and where it begins."""

    file: str
    number: int
    cells: Mapping[str, str]
    row: Mapping[str, Any]  # as its table has it

    def refusal(self, problem: str) -> DataError:
        return DataError(f"{self.file}, line {self.number}: {problem}")


def _count(cell: str) -> int:
    if not 0 <= int(cell) <= LARGEST_COUNT:
        raise ValueError
    return int(cell)


def _real(cell: str) -> float:
    if not abs(float(cell)) <= validate.LARGEST_TOTAL:
        raise ValueError
    return float(cell) + 0.0  # -0.0 is 0.0


def _noise(cell: str) -> float | None:
    if _real(cell) < 0:
        raise ValueError
    return _real(cell) or None


def _text(cell: str) -> str | None:
    return validate.text(cell.removeprefix("\\"), "text")


def _time(cell: str) -> str:
    moment = datetime.fromisoformat(cell)
    if moment.tzinfo is None:
        raise ValueError(f"{cell!r:.60} is a time without its zone, such as +00:00")
    return records.stamp(moment)


_NUMBER: Final = (_count, "a whole number of at least 0")
_WORDS: Final = (_text, f"up to {validate.LONGEST_TEXT} characters of valid Unicode")
_MOMENT: Final = (_time, "a time with its zone, such as 2025-03-31T14:05:00+00:00")
READERS: Final[Mapping[str, tuple[Callable[[str], Any], str]]] = {  # and what they expect
    "number": _NUMBER,
    "position": _NUMBER,
    "total": (_real, "a finite number, such as 12.5"),
    "noise_std": (_noise, "a finite number of at least 0, such as 0.5"),
    "by": _WORDS,
    "note": _WORDS,
    "at": _MOMENT,
    "asked": _MOMENT,
    "expires": _MOMENT,
}


def _table(content: bytes, table: str, sets: Sets) -> list[Line]:
    """The rows of a file as values; a cell that cannot be used is refused by its line."""
    optional = {"noise_std", "by", "note"}
    if table == "history":  # not every event has a set, a total and a question
        optional |= {"position", "total", "question"}
    lines = []
    for line in _split(content, f"{table}.csv", list(TABLES[table])):
        row = {}
        for name, cell in line.cells.items():
            read_cell, expected = READERS.get(name, (str, "text"))
            try:
                row[name] = None if not cell and name in optional else read_cell(cell)
            except (ValueError, OverflowError, SettingError):
                raise line.refusal(f"{name} is {cell!r:.60}; give {expected}") from None
        at, named = row["position"], row["set"]
        if at is not None and at >= len(sets):
            raise line.refusal(f"position is {at}, and sets have 0 to {len(sets) - 1}")
        known = "" if at is None else export.shown_id(sets.ids[at])
        if named != known:
            raise line.refusal(f"the set is {named!r:.80}, and at position {at} is {known!r:.80}")
        stored = {to: row[name] for name, to in TABLES[table].items() if to}
        lines.append(replace(line, row=stored))
    return lines


def _split(content: bytes, name: str, columns: Sequence[str]) -> list[Line]:
    """The cells of each row below the header, which must be these columns."""
    lines: list[Line] = []
    first, usual = 1, csv.field_size_limit(LONGEST_FIELD)
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        if next(reader, None) != columns:
            raise DataError(f"{name}, line 1: the columns must be {','.join(columns)}")
        for cells in reader:
            line = Line(name, first + 1, dict(zip(columns, cells, strict=False)), {})
            if len(cells) != len(columns):
                raise line.refusal(f"{len(cells)} fields instead of {len(columns)}")
            first = reader.line_num
            lines.append(line)
        return lines
    except UnicodeDecodeError as error:
        line_number = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{name}, line {line_number}: this is not UTF-8") from None
    except csv.Error as error:
        raise DataError(f"{name}, line {first + 1}: this is no CSV ({error})") from None
    finally:
        csv.field_size_limit(usual)


# --- what must fit together -----------------------------------------------------------------------


def _check_history(history: Sequence[Line], sets: Sets) -> None:
    for number, line in enumerate(history, start=1):
        row, what = line.row, line.row["what"]
        if int(line.cells["number"]) != number:
            raise line.refusal(f"number is {line.cells['number']}, where {number} belongs")
        if what not in KINDS:
            raise line.refusal(f"what is {what!r:.60}; it must be one of {', '.join(KINDS)}")
        for name, there in (
            ("position", what != "created"),
            ("total", what in VALUED),
            ("question", what == "asked"),
        ):
            if bool(line.cells[name]) != there:
                must = "is missing" if there else "must be empty"
                raise line.refusal(f"{name} {must} where what is {what!r}")
        if what == "asked" and not _fits(row["question"], sets.ids[row["position"]], sets):
            said = f"question is {row['question']!r:.60}"
            raise line.refusal(f"{said}, which is none that was asked for this set")


def _fits(text: str, set_id: Hashable, sets: Sets) -> bool:
    """Whether this is a question that was asked for a set."""
    try:
        known = json.loads(text)
        runner_up = from_json(known["runner_up"])
        numbers = [known[name] for name in ("score", "expected", "std", "information", "number")]
        return (
            from_json(known["set_id"]) == set_id
            and (runner_up is None or runner_up in sets)
            and all(isinstance(number, int | float) for number in numbers)
            and all(isinstance(known[name], str) for name in ("why", "expires"))
        )
    except (ValueError, TypeError, KeyError, RecursionError, DataError):
        return False


def _check_answers(answers: Sequence[Line], history: Sequence[Line], arrivals: int) -> None:
    """Answers must be those that history has left, in their order."""
    left: dict[int, Mapping[str, Any]] = {}
    for event in history:
        if event.row["what"] == "retracted":
            left.pop(event.row["position"], None)
        elif event.row["what"] in VALUED:
            left[event.row["position"]] = event.row
    said = ("position", "y_bar", "noise_std", "by", "note")
    last = -1
    for line, row in zip(answers, left.values(), strict=False):
        if any(line.row[name] != row[name] for name in said):
            raise line.refusal(
                "this is not the answer that history.csv has there; export the study again, and "
                "correct answers with amend or tell"
            )
        if not last < line.row["arrival"] < arrivals:
            raise line.refusal(
                f"number is {line.row['arrival']}; numbers rise, and stay below the arrivals in "
                f"{STUDY}, {arrivals}"
            )
        last = line.row["arrival"]
    if len(answers) != len(left):
        raise DataError(
            f"answers.csv has {len(answers)} answers, where history.csv leaves {len(left)}; export "
            "the study again"
        )


def _check_once(lines: Mapping[str, Sequence[Line]]) -> None:
    """A set is answered, claimed or skipped, and that once."""
    seen: dict[int, Line] = {}
    for line in (*lines["answers"], *lines["claims"], *lines["skips"]):
        before = seen.setdefault(line.row["position"], line)
        if before is not line:
            named = line.cells["set"]
            raise line.refusal(f"set {named!r:.80} is in line {before.number} of {before.file} too")
