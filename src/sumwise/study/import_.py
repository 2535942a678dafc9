"""Read a folder that `export` wrote, so that `create` can store it as a study.

The whole folder is read before a database is opened. A file that has the checksum in study.json is
as it was exported, and its rows are checked as those of a database are. study.json itself may be
edited, so its settings are checked as a user's are. Exports of older versions have checksums of the
Parquet files only, so fields and times are checked in every row, the history must be numbered from
1, and answers must be those that the history leaves.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import datetime
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import numpy as np

from sumwise.acquisition import objective
from sumwise.acquisition.objective import Objective, StudyOptions
from sumwise.acquisition.strategies import ACQUISITIONS, per_cost
from sumwise.data import validate
from sumwise.data.about import About, weights_of
from sumwise.data.frames import to_float
from sumwise.data.geo import Geometry, from_geoparquet
from sumwise.data.maps import Map
from sumwise.data.origin import Origin
from sumwise.data.parquet import scan_parquet
from sumwise.data.pool_mark import PoolMark
from sumwise.data.pool_rules import PoolRules
from sumwise.data.recipe import Recipe
from sumwise.data.sets import Sets
from sumwise.data.targets import Targets
from sumwise.errors import DataError, MissingExtraError, SumwiseError
from sumwise.learning.designed import Designing, weighted
from sumwise.learning.parts import some_members
from sumwise.learning.propose import Answer
from sumwise.learning.told import Measured
from sumwise.model import serialize
from sumwise.model.basis import Neural
from sumwise.model.basis.auto import OF_HYPOTHESES, as_former
from sumwise.model.fit import ModelConfig, Prepared
from sumwise.model.generalised.refusals import check_sets
from sumwise.model.serialize import pack_config, unpack_config, unpack_prepared
from sumwise.outofcore.build import embed_scan
from sumwise.outofcore.design_store import Embedded, lazy_sets
from sumwise.study import export
from sumwise.study.export import (
    BASIS,
    GEOMETRY,
    INDIVIDUALS,
    MAP,
    OF_SET,
    PART,
    SETS,
    STUDY,
    TABLES,
)
from sumwise.study.storage import blobs, records
from sumwise.study.storage.id_json import many_from_json
from sumwise.util.files import copied, parquet_table
from sumwise.util.memory import limit
from sumwise.util.progress import Slow

LARGEST_COUNT: Final = 10**9  # far below what a database can count to
LONGEST_FIELD: Final = 2**31 - 1  # Python's own limit is shorter than an id may be


Beside: TypeAlias = Callable[[], tuple[str, str]]


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """A study that was read from a folder."""

    settings: Mapping[str, Any]  # columns of its row
    sets: Sets | Embedded
    prepared: Prepared
    aims: Objective
    about: About
    happened: Mapping[str, Sequence[Mapping[str, Any]]]  # as `records.happened` gave it
    pool: PoolMark
    geometry: Geometry | None = None
    rules: PoolRules | None = None  # where it designs its sets
    shapes: Map | None = None


def read(folder: Any, beside: Beside | None = None) -> Imported:
    """The study that was exported to this folder, everything checked.

    Args:
        beside: Names two folders that are made for individuals that stay in files: theirs, and that
            of their design.
    """
    place = export.path_of(folder)
    if not os.path.isdir(place):
        raise DataError(f"there is no folder {place}; name one that a study was exported to")
    try:
        return _read(place, beside)
    except MissingExtraError:
        raise
    except SumwiseError as error:
        raise DataError(f"{place} cannot be imported. {error}") from error
    except OSError as error:
        raise DataError(f"{place} cannot be read ({error.strerror or error})") from error


def _read(place: Path, beside: Beside | None) -> Imported:
    content = _content(place, STUDY, {})
    with _refusals(STUDY):
        head = json.loads(content.decode("utf-8-sig"))
        config = unpack_config(json.dumps(head["model"]))
        given = {*head["model"], *serialize.UNSAID}
        if missing := [f.name for f in fields(config) if f.name not in given]:
            raise ValueError(f"model has no {', '.join(missing)}; give every setting")
        settings, sha256 = _settings(head, config), {**head["sha256"]}
        names, about = head["inputs"], [head.get(name, False) for name in ("overlap", "row_ids")]
        for name, given in zip(("overlap", "row_ids"), about, strict=True):
            if not isinstance(given, bool):
                raise ValueError(f"{name} is {given!r:.60}; give true or false")
        recipe, origin = blobs.recipe_of(head), blobs.origin_of(head)
        about_it = About.from_json(head["about"]) if "about" in head else None
        if not isinstance(names, list | None):
            raise ValueError(f"inputs is {names!r:.60}; give a list of names, or null")
        inputs = None if names is None else many_from_json(json.dumps(names))
    made = None
    if "files" in head and beside is not None:
        made = _embedded(place, head["files"], sha256, config, recipe, beside())
    if made is None:
        sets = _in_memory(place, sha256, config, (inputs, about[0], about[1], recipe, origin))
    else:  # its exposures were checked when it was embedded
        sets = made.sets
    about_it = about_it or About(weights="sum" if made else weights_of(sets))
    about_it = replace(about_it, outputs=config.outputs)
    geometry = _geometry(place, sha256, sets.n_rows) if GEOMETRY in sha256 else None
    with _refusals(STUDY):
        aims = _aims(head["aims"], sets, head["strategy"]) if "aims" in head else Objective()
        pool = PoolMark()
        if "pool" in head:
            pool = PoolMark.from_json(json.dumps(head["pool"]), len(sets))
        every, rules, designed = sets, None, None
        if "rules" in head:
            rules = PoolRules.from_json(json.dumps(head["rules"]), sets.n_individuals)
    if rules is not None:
        content = _content(place, export.POOLS, sha256)
        with _refusals(export.POOLS):
            every, designed = _pools(content, sets, rules)
    content = _content(place, BASIS, sha256)
    with _refusals(BASIS):
        own = (made.prepared, False) if made else _basis(content, config, pool.sets(sets))
    prepared, former = own
    happened = {}
    for table in TABLES:
        content = _content(place, f"{table}.csv", sha256)
        with _refusals(f"{table}.csv"):
            happened[table] = _rows(content, table, every.ids)
    _check_answers(happened["answers"], happened["history"])
    _check_totals(happened["answers"], every, about_it)
    if former:
        columns = dict.fromkeys([*filter(None, TABLES["history"].values()), PART])
        happened["history"].append({**columns, "at": records.now(), **records.TO_MIXTURE})
        settings["changes"] += 1
    happened |= {"pools": designed} if designed else {}
    more = pool, geometry, rules, _map(place, sha256)
    return Imported(settings, made or sets, prepared, aims, about_it, happened, *more)


def _check_totals(answers: Sequence[Mapping[str, Any]], sets: Sets, about: About) -> None:
    """Refuse answers that nobody could have told."""
    with _refusals("answers.csv"):
        for row in answers:
            at, told = row["position"], (row["y_bar"], row["noise_std"])
            part = records.part_of(row[PART])
            new = Answer(0, sets.ids[at], row["y_bar"], position=at, of=part.get("of"))
            about.check(*told, some_members(sets, [new]), new.of is None)
            Measured(sets, about).refuse_odd(replace(new, noise_std=row["noise_std"]))


def _in_memory(
    place: Path, sha256: Mapping[str, Any], config: ModelConfig, known: tuple[Any, ...]
) -> Sets:
    content = _content(place, SETS, sha256)
    with _refusals(SETS):
        sets = _sets(content, *known)
        check_sets(config.outputs, sets)
    return sets


def _geometry(place: Path, sha256: Mapping[str, Any], n: int) -> Geometry:
    content = _content(place, GEOMETRY, sha256)
    with _refusals(GEOMETRY):
        geometry = from_geoparquet(content)[0]
        if len(geometry.wkb) != n:
            raise ValueError(f"{len(geometry.wkb)} rows instead of {n}")
    return geometry


def _map(place: Path, sha256: Mapping[str, Any]) -> Map | None:
    if MAP not in sha256:
        return None
    content = _content(place, MAP, sha256)
    with _refusals(MAP):
        return blobs.unpack_map(content)


def _pools(content: bytes, sets: Sets, rules: PoolRules) -> tuple[Sets, list[dict[str, Any]]]:
    """All sets with the pools that were designed, and these as they are stored."""
    rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))
    if not rows or tuple(rows[0]) != export.OF_POOL:
        raise ValueError(f"the columns must be {','.join(export.OF_POOL)}")
    found: list[dict[str, Any]] = []
    for number, cells in enumerate(filter(None, rows[1:])):
        row = dict(zip(export.OF_POOL, cells, strict=True))
        stored = {**row, "at": _time(row["at"]), "position": len(sets) + number}
        found.append({**stored, "name": row["name"].removeprefix("\\")})
    designing = Designing.of(rules, sets)
    each = [records.pool_of(SimpleNamespace(**row), sets.n_individuals) for row in found]
    if not each:
        return sets, found
    names = [row["name"] for row in found]
    return designing.joined(sets, [weighted(pool) for pool in each], names), found


def _content(place: Path, name: str, sha256: Mapping[str, Any]) -> bytes:
    """A plain file, which has its checksum."""
    _plain(place, name)
    content = (place / name).read_bytes()
    required = name in (SETS, BASIS) or name in sha256
    if required and hashlib.sha256(content).hexdigest() != sha256.get(name):
        raise _changed(name)
    return content


def _plain(place: Path, name: str) -> None:
    """Refuse what is no plain file: a link could lead anywhere, a pipe would never end."""
    try:
        plain = stat.S_ISREG(os.lstat(place / name).st_mode)
    except FileNotFoundError:
        raise DataError(f"There is no file {name} in it; export the study again.") from None
    if not plain:
        raise DataError(f"{name} is not a plain file; put the file itself there.")


def _changed(name: str) -> DataError:
    return DataError(
        f"{name} is not what was exported: its checksum differs from that in {STUDY}. Export "
        "the study again; to correct answers, import it and use amend or tell."
    )


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


# --- individuals in files -------------------------------------------------------------------------


def _embedded(
    place: Path,
    known: Mapping[str, Any],
    sha256: Mapping[str, Any],
    config: ModelConfig,
    recipe: Recipe | None,
    beside: tuple[str, str],
) -> Embedded:
    """Copy the files of individuals, and embed them again with the basis that was drawn."""
    content = _content(place, BASIS, sha256)
    names = sorted(name for name in sha256 if re.fullmatch(INDIVIDUALS + r"[0-9]+\.parquet", name))
    with Slow("copying", len(names)) as slow:
        for number, name in enumerate(names, start=1):
            _plain(place, name)
            if copied(place / name, os.path.join(beside[0], name)) != sha256[name]:
                raise _changed(name)
            slow.at(number)
    with _refusals(STUDY):
        periods = {name: period for name, period in known["periods"]}
        about = {"by": known["by"], "x": known["x"], "weights": known["weights"]}
        scan = replace(scan_parquet(beside[0], **about, periods=periods), recipe=recipe)
        dtype = known["dtype"]
    with _refusals(BASIS):
        blank = lazy_sets((), np.empty(0, int), scan)
        prepared = _prepared(_drawn(content, config), config, blank)
        return embed_scan(scan, config, beside[1], prepared=prepared, dtype=dtype)


# --- study.json -----------------------------------------------------------------------------------


def _settings(head: Mapping[str, Any], config: ModelConfig) -> dict[str, Any]:
    if type(head["format"]) is not int or head["format"] != export.FORMAT:
        raise ValueError(
            f"it has format {head['format']!r:.20}, and this sumwise knows {export.FORMAT}. If a "
            "newer one wrote it, update: pip install --upgrade sumwise"
        )
    if head["strategy"] not in ACQUISITIONS:
        raise ValueError(f"no strategy is called {head['strategy']!r:.60}")
    validate.count(head["seed"], "seed", 0)
    return {
        "name": validate.study_name(head["name"]),
        "created": _time(head["created"]),
        "strategy": head["strategy"],
        "seed": str(head["seed"]),
        "claim_days": validate.days(head["claim_days"], "claim_days"),
        "config": pack_config(config),
        **{name: _count(head[name]) for name in export.COUNTERS},
    }


def _aims(known: Mapping[str, Any], sets: Sets, strategy: str) -> Objective:
    options = {name: known[name] for name in StudyOptions.__annotations__}
    if options["targets"] is not None or options["target_weights"] is not None:
        options |= {name: to_float(known[name], name) for name in ("targets", "target_weights")}
    aims = objective.read(sets, options, "import_study", StudyOptions)
    if aims.targets is not None:  # to the bit, and not scaled anew
        aims = replace(aims, targets=Targets(options["targets"], options["target_weights"]))
    per_cost(strategy, np.zeros(len(sets)), aims.cost)
    return aims


# --- Parquet --------------------------------------------------------------------------------------


def _sets(
    content: bytes,
    names: tuple[Hashable, ...] | None,
    overlap: bool,
    row_ids: bool,
    recipe: Recipe | None,
    origin: Origin,
) -> Sets:
    table = parquet_table(content).unify_dictionaries()
    before = export.columns_before(overlap, row_ids)
    n_inputs = table.num_columns - len(before)
    expected = [*before, *export.input_columns(names, n_inputs, before)]
    if table.column_names != expected:
        raise ValueError(
            f"inputs in {STUDY} must name its columns; give the names that were exported. Columns "
            f"are {table.column_names!r:.80} instead of {expected!r:.80}"
        )
    owner, _, exact, weights, *reals = table.columns
    own = reals[: len(before) - len(OF_SET)]
    rows = blobs.row_ids_of(own.pop().to_pylist()) if row_ids else None
    members, effects = (np.array(column.to_numpy()) for column in own) if own else (None, None)
    theta, *inputs = (
        np.array(column.to_numpy(), dtype=np.float64)
        for column in (weights, *reals[len(before) - len(OF_SET) :])
    )
    starts = np.append(np.flatnonzero(np.diff(owner.to_numpy(), prepend=-1)), len(owner))
    ids = many_from_json(f"[{','.join(exact.take(starts[:-1]).to_pylist())}]")
    if origin.extra >= len(ids):
        raise ValueError(f"{STUDY} says that {origin.extra} of {len(ids)} sets are extra")
    more = names, members, effects, recipe, rows, origin
    return Sets(ids, np.column_stack(inputs), theta, starts, *more)


def _basis(content: bytes, config: ModelConfig, sets: Sets) -> tuple[Prepared, bool]:
    """What was drawn, if it has the shape that a model with these settings draws.

    Returns whether it was that of the former `auto` as well.
    """
    found = _drawn(content, config)
    placed = config.spatial if "spatial_pair" in found else None  # former versions had none
    drawn = export.arrays_of(replace(config, spatial=placed).prepare(sets))
    averages = not drawn.keys().isdisjoint(OF_HYPOTHESES)
    former = averages and found.keys().isdisjoint(OF_HYPOTHESES)
    if _kinds(found) != _kinds(as_former(drawn, found) if averages else drawn):
        raise ValueError(f"it is not the basis of a model with the settings in {STUDY}")
    return _prepared(found, config, sets), former


def _drawn(content: bytes, config: ModelConfig) -> dict[str, np.ndarray]:
    """Arrays in basis.parquet by name; of a network, as many numbers as its settings need."""
    table = parquet_table(content)
    rows = [*zip(*(table[column].to_pylist() for column in export.OF_ARRAY), strict=True)]
    if odd := [dtype for _, dtype, *_ in rows if np.dtype(dtype).kind not in "biuf"]:
        raise ValueError(f"{odd[0]!r:.60} are not numbers")  # text may be of any length
    if isinstance(config.basis, Neural):
        _refuse_size(config.basis, sum(len(values) for *_, values in rows))
    return {name: np.array(values, dtype).reshape(shape) for name, dtype, shape, values in rows}


def _refuse_size(network: Neural, numbers: int) -> None:
    """Refuse settings of a larger network than the one that was drawn, before one is drawn."""
    layers = [network.width] * (network.depth - 1) + [network.n_basis]
    weights = sum(before * after for before, after in pairwise(layers))
    masks = network.samples * sum(layers) if network.dropout else 0  # which are not in the file
    if numbers < weights + sum(layers) or 8 * masks > limit():
        raise ValueError(f"it is not the basis of a model with the settings in {STUDY}")


def _prepared(found: Mapping[str, np.ndarray], config: ModelConfig, sets: Sets) -> Prepared:
    mark = export.STATE
    weights = {name.removeprefix(mark): found[name] for name in found if name.startswith(mark)}
    plain = {name: found[name] for name in found if not name.startswith(mark)}
    if weights:
        plain["state"] = np.frombuffer(serialize.to_bytes(weights), dtype=np.uint8)
    return unpack_prepared(serialize.to_bytes(plain), config, sets)


def _kinds(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: (array.dtype, array.shape) for name, array in arrays.items()}


# --- CSV ------------------------------------------------------------------------------------------


def _count(value: str | int) -> int:
    if isinstance(value, bool | float) or not 0 <= int(value) <= LARGEST_COUNT:
        raise ValueError(f"{value!r:.60} is not a count")
    return int(value)


def _time(value: Any) -> str:
    """A time in UTC, as it is stored: times are compared as text."""
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is not None:
            return records.stamp(moment)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(
        f"{value!r:.60} is not a time with a zone; give one such as 2025-03-31T14:05:00+00:00"
    )


READERS: Final[Mapping[str, Callable[[str], Any]]] = {  # of all columns that are not text
    "number": _count,
    "position": _count,
    "total": float,
    "noise_std": float,
    "at": _time,
    "asked": _time,
    "expires": _time,
}


def _rows(content: bytes, table: str, ids: Sequence[Hashable]) -> list[dict[str, Any]]:
    """The rows of a CSV file as they are stored; one that cannot be used is refused by its line."""
    text = io.StringIO(content.decode("utf-8-sig"), newline="")
    usual = csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(text, strict=True)
    columns = TABLES[table]
    rows: list[dict[str, Any]] = []
    try:
        heading = next(reader, None)
        if table in ("answers", "history") and heading == [*columns, PART]:
            columns = {**columns, PART: PART}
        if heading != list(columns):
            raise ValueError(f"the columns must be {','.join(columns)}")
        for cells in filter(None, reader):  # without blank lines
            if len(cells) != len(columns):
                raise ValueError(
                    f"{len(cells)} fields instead of {len(columns)}; give {','.join(columns)}"
                )
            if table == "history" and cells[0] != str(len(rows) + 1):
                raise ValueError(
                    f"number is {cells[0]!r:.60} instead of {len(rows) + 1}; give all lines of the "
                    "export once and in order"
                )
            named = zip(columns.items(), cells, strict=True)
            row = {stored: _value(name, cell) for (name, stored), cell in named if stored}
            if table in ("answers", "history"):
                row.setdefault(PART, None)
            records.check_row(table, row, ids)
            rows.append(row)
    except Exception as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error
    finally:
        csv.field_size_limit(usual)
    return rows


def _value(name: str, cell: str) -> Any:
    if cell == "" and READERS.get(name) is not _time:
        return None
    return READERS[name](cell) if name in READERS else cell.removeprefix("\\")


def _check_answers(
    answers: Sequence[Mapping[str, Any]], history: Sequence[Mapping[str, Any]]
) -> None:
    """Answers must be those that the history leaves."""
    left: dict[int, Mapping[str, Any]] = {}
    for event in history:
        if event["what"] == "retracted":
            left.pop(event["position"], None)
        elif event["what"] in ("told", "amended"):
            left[event["position"]] = event
    said = itemgetter("position", "y_bar", "noise_std", "by", "note", PART)
    if [*map(said, answers)] != [*map(said, left.values())]:
        raise DataError(
            "answers.csv does not have the answers that history.csv leaves. Export the study "
            "again, and correct answers with amend or tell."
        )
