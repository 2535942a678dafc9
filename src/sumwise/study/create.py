"""Create a study, open one, or import one from an exported folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from secrets import randbelow
from typing import Any, Unpack
from urllib.parse import quote

import numpy as np

from sumwise.acquisition.objective import Objective
from sumwise.acquisition.strategies import per_cost
from sumwise.data import validate
from sumwise.data.about import About, weights_of
from sumwise.data.geo import Geometry
from sumwise.data.known import KNOWN, Known, with_known
from sumwise.data.maps import Map, read_map
from sumwise.data.pool_mark import PoolMark
from sumwise.data.pool_refusals import refuse_impossible
from sumwise.data.pool_rules import PoolRules, read_rules
from sumwise.data.sets import Sets
from sumwise.errors import SettingError
from sumwise.learning.designed import begin, priced
from sumwise.learning.estimator import AggregateRegressor
from sumwise.learning.learner import LearnerOptions, read_options
from sumwise.learning.pools import refuse_design
from sumwise.learning.resolve import resolve
from sumwise.learning.told import check_known
from sumwise.model.fit import ModelConfig, Prepared
from sumwise.model.serialize import pack_config
from sumwise.outofcore.build import Run
from sumwise.outofcore.design_store import Embedded, as_sets
from sumwise.outofcore.spread import over
from sumwise.study.storage import blobs, records, transactions
from sumwise.study.storage.database import PATIENCE, Database
from sumwise.study.study import Study


class CreateOptions(LearnerOptions, total=False):
    """What a study is for, and what it measures, and where."""

    geometry: Geometry | Sequence[bytes | None] | None
    map: Any
    map_id: str | Sequence[str] | None
    design: Mapping[str, Any] | None


def create_study(
    url: Any,
    sets: Sets | Embedded,
    *,
    name: str | None = None,
    model: AggregateRegressor | None = None,
    strategy: str | None = None,
    seed: int = 0,
    preset: str | None = None,
    claim_days: float = 7.0,
    sets_file: str | os.PathLike[str] | None = None,
    known: Any = None,
    **options: Unpack[CreateOptions],
) -> Study:
    """Begin a study, and store its sets, its settings and what the basis has drawn.

    Args:
        url: The path of an SQLite file, which is created if needed, or
            `postgresql://user@host/database`. A database may hold several studies.
        sets: A `Sets`; or what `AggregateRegressor.embed` has written, which stays where it is.
        name: The name of the study; "study" if left out.
        model: An `AggregateRegressor`, whose settings are used.
        strategy: A name; see `sumwise.score`. IVR if left out.
        seed: The seed of the strategy's draws, and of the basis if no model is given.
        preset: `"paper"` takes the paper's model and AggMI.
        claim_days: How many days a claim on a set lasts.
        sets_file: Keep sets that take gigabytes in this Parquet file and not in the database.
        known: What is known already, as in `AggregateRegressor.fit`: the first answers.
        **options: `outputs`: what totals add up, if no model is given: `"numbers"`, `"counts"`,
            `"shares"` or `"amounts"`, as in `AggregateRegressor`. `outcome`: what is measured, such
            as "maths score", `unit`: its unit, and `individual`: what an individual is. `low` and
            `high`: the lowest and highest possible output of an individual (a share is 0 to 1);
            impossible totals are then refused, and predictions stay within these. `targets` and
            `target_weights`: individuals whose predictions count, as in `sumwise.score`.
            `noise_std`: noise that measuring each set will have; `tell` takes that of an answer.
            `cost`: what measuring each set costs; questions are then asked by gain per cost, and
            `ask` takes a budget. `enough`: an improvement of predictions, as a standard deviation
            in your units, below which to stop. `geometry`: of each individual, as WKB or None.
            `map` and `map_id`: as in `Study.add_map`. `design`: rules as in `sumwise.design_pools`,
            such as `{"size": (2, 10)}`: the study then designs what it asks for, beside `sets`.
    """
    settings: dict[str, Any] = {"claim_days": validate.days(claim_days, "claim_days")}
    settings["name"] = validate.study_name("study" if name is None else name)
    config, chosen = _settings(sets, model, strategy, seed, preset, options.get("outputs"))
    settings |= {"strategy": chosen, "seed": str(int(seed)), "config": pack_config(config)}
    shapes, design = _shapes(options, sets), options.pop("design", None)
    wishes, about = read_options(sets, config.outputs, options, "create_study")
    plain, rules = as_sets(sets), None
    if design is not None:
        plain, rules = _designing(sets, config, chosen, design, known)
        wishes, sets = priced(wishes, plain, rules), plain
        about = replace(about, weights="mean" if rules.mean else about.weights)
    per_cost(chosen, np.zeros(len(sets)), wishes.cost)  # refuses what cost means nothing to
    more, told = with_known(plain, known, about)
    check_known(more, told, about)
    settings |= dict.fromkeys(("arrivals", "changes"), len(told))
    kept = (sets, wishes) if more is plain else (more, wishes.extended(len(more)))
    said = Said(kept[1], about, shapes[0], rules, shapes[1])
    begun = kept[0], sets.prepare(config), said, settings
    return _store(url, *begun, sets_file, _begun(more, told))


def _designing(
    sets: Sets | Embedded, config: ModelConfig, strategy: str, design: Any, known: Any
) -> tuple[Sets, PoolRules]:
    """Sets of individuals that pools are designed of, and what a pool may be."""
    if not isinstance(sets, Sets):
        raise SettingError(
            "a study designs pools of individuals that are in memory, and these stay in their "
            "files; make a Sets of those who may be in a pool"
        )
    if known is not None and len(validate.as_list(known, "known")):
        raise SettingError(
            "known totals are of given sets; begin without them, and tell those of individuals or "
            "sets afterwards"
        )
    if not isinstance(design, Mapping):
        raise SettingError(
            f"design is {design!r:.60}; give the rules of pools by name, such as "
            '{"size": (2, 10), "uses": 1}, or {} for the usual ones'
        )
    alone, weighed = bool((sets.sizes == 1).all()), weights_of(sets)
    if not alone and weighed == "mean":
        design = {"weights": "mean", **design}
    names = sets.ids if sets.row_ids is None and alone else sets.row_ids
    rules = read_rules(sets.n_individuals, None, design, None if names is None else list(names))
    refuse_design(strategy, config.outputs, 1, rules)
    if alone:
        free = np.ones(sets.n_individuals, dtype=bool)
        refuse_impossible(rules, free, min(rules.size[1], len(free)))
    if not alone and rules.mean != (weighed == "mean"):
        raise SettingError("given sets and pools must both give their mean, or both their sum")
    return begin(sets), rules


def _begun(sets: Sets, told: Sequence[Known]) -> dict[str, list[dict[str, Any]]] | None:
    """The past of a study of which something is known from the start, if that is so."""
    if not told:
        return None
    at = records.now()
    rows: list[dict[str, Any]] = [
        {
            "position": sets.position(each.set_id),
            "y_bar": each.y_bar,
            "noise_std": each.noise_std,
            "by": None,
            "at": at,
            "note": KNOWN,
        }
        for each in told
    ]
    empty = dict.fromkeys(("position", "y_bar", "noise_std", "by", "note"))
    history = [{**empty, "at": at, "what": "created"}, *({**row, "what": "told"} for row in rows)]
    answers = [{**row, "arrival": number} for number, row in enumerate(rows)]
    return {"answers": answers, "history": history}


def _geometry(
    given: Geometry | Sequence[bytes | None] | None, sets: Sets | Embedded
) -> Geometry | None:
    if given is None:
        return None
    shapes = given if isinstance(given, Geometry) else Geometry(list(given))
    n = None if isinstance(sets, Embedded) else len(sets.x)
    if len(shapes.wkb) != n or not all(isinstance(wkb, bytes | None) for wkb in shapes.wkb):
        raise SettingError(
            f"geometry has {len(shapes.wkb)} entries; give one for each of {n or 'no'} individuals "
            "in memory, as bytes of WKB, or None"
        )
    return shapes


def _shapes(options: CreateOptions, sets: Sets | Embedded) -> tuple[Geometry | None, Map | None]:
    """Geometries of individuals, and the map; a map may be of individuals in their order."""
    own = _geometry(options.pop("geometry", None), sets)
    found, map_id = options.pop("map", None), options.pop("map_id", None)
    if found is not None and not isinstance(found, Map | Geometry):
        found = read_map(found, map_id, as_sets(sets))[0]
    return (found, None) if isinstance(found, Geometry) else (own, found)


def _settings(
    sets: Sets | Embedded,
    model: AggregateRegressor | None,
    strategy: str | None,
    seed: int,
    preset: str | None,
    outputs: str | None,
) -> tuple[ModelConfig, str]:
    """The model's settings and the strategy, both such that anyone can open the study."""
    config, chosen = resolve(model, strategy, seed, preset, sets, outputs)
    if not isinstance(chosen, str):
        raise SettingError(
            f"the strategy {chosen!r:.60} is your own code, and others who open the study do not "
            "have it. Use a strategy with a name; ActiveLearner takes any."
        )
    if not len(as_sets(sets)):
        raise SettingError("there are no sets; a study needs some to choose from")
    if config.random_state is None:  # what is drawn when the study is opened must be the same
        config = replace(config, random_state=randbelow(2**31))
    return config, chosen


def open_study(
    url: Any, name: str | None = None, *, patience: float = PATIENCE, run: Run | None = None
) -> Study:
    """Open a study; the name may be left out if the database holds only one.

    Args:
        patience: Seconds to wait for others who write to the same database.
        run: Where work on all sets is done in parts, such as `sumwise.distributed.on(client)`: for
            a study on a design on disk, whose folder all workers see.
    """
    named = validate.text(name, "name")
    with _closed_on_error(Database(url, patience)) as database:
        database.require()
        return _opened(database, named, run)


def import_study(
    folder: Any,
    url: Any,
    name: str | None = None,
    *,
    sets_file: str | os.PathLike[str] | None = None,
) -> Study:
    """Store a study that `Study.export` wrote to a folder, completely or not at all.

    Args:
        folder: The folder, which is checked before anything is changed.
        url: As in `create_study`.
        name: A new name of the study; if left out, the name it had.
        sets_file: As in `create_study`. Where individuals stay in files, they are copied to a
            folder of this name, and their design to one beside it that ends in .design; if it is
            left out, both are beside the database.
    """
    from sumwise.study import import_ as exported

    named = {} if name is None else {"name": validate.study_name(name)}
    made = list[str]()

    def beside() -> tuple[str, str]:
        made.extend(_folders_beside(url, name, sets_file))
        os.makedirs(made[0])
        return made[0], made[1]

    try:
        found = exported.read(folder, beside)
        settings = {**found.settings, **named}
        said = Said(found.aims, found.about, found.geometry, found.rules, found.shapes)
        known = found.sets, found.prepared, said, settings
        kept = None if made else sets_file
        return _store(url, *known, kept, found.happened, found.pool)
    except BaseException:
        for each in made:
            shutil.rmtree(each, ignore_errors=True)
        raise


def _folders_beside(
    url: Any, name: str | None, place: str | os.PathLike[str] | None
) -> tuple[str, str]:
    """New folders for individuals in files and for their design."""
    if place is None and "://" in str(url):
        raise SettingError(
            "the individuals of this study are in files of their own; name a folder for them with "
            "sets_file= (--sets-file in the shell), such as individuals"
        )
    if place is None:
        more = "" if name is None else f"-{quote(name, safe=' ')}"
        stem = f"{os.path.splitext(str(url))[0]}{more}"
        folders = f"{stem}.individuals", f"{stem}.design"
    else:
        folders = os.fspath(place), f"{os.fspath(place)}.design"
    for each in folders:
        if os.path.lexists(each):
            raise SettingError(f"{each} exists; name another folder with sets_file= (--sets-file)")
    return folders


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """What was said of a study beside its sets and settings."""

    aims: Objective
    about: About
    geometry: Geometry | None = None
    rules: PoolRules | None = None  # where it designs its sets
    shapes: Map | None = None


def _store(
    url: Any,
    sets: Sets | Embedded,
    prepared: Prepared,
    said: Said,
    settings: Mapping[str, Any],
    sets_file: str | os.PathLike[str] | None,
    happened: Mapping[str, Any] | None = None,
    pool: PoolMark | None = None,
) -> Study:
    """Add a study to a database, and write its sets to a file beside it if there is to be one."""
    beside = None if sets_file is None else os.fspath(sets_file)
    with _closed_on_error(Database(url)) as database:
        if isinstance(sets, Embedded):
            if beside is not None:
                raise SettingError("the sets are in files already; leave sets_file out")
            packed = blobs.pack_embedded(sets, database.folder)
        else:
            packed = blobs.pack(sets, prepared, beside, database.folder, pool, said.rules)
        if said.aims:
            packed["aims"] = blobs.pack_aims(said.aims)
        if said.about != About() or "index" in packed:  # not to be read off all individuals
            packed["about"] = said.about.pack()
        if said.geometry is not None:
            packed["geometry"] = blobs.pack_geometry(said.geometry)
        if said.shapes is not None:
            packed["map"] = blobs.pack_map(said.shapes)
        database.ensure()
        with database.write() as connection:
            transactions.create(connection, packed, settings, happened)
            if beside is not None and isinstance(sets, Sets):
                blobs.write_file(sets, beside)
        return _opened(database, settings["name"])


def _opened(database: Database, name: str | None, run: Run | None = None) -> Study:
    with database.read() as connection:
        record = records.load(connection, name, database)
    if run is not None:
        record = replace(record, embedded=over(record.embedded or record.sets, run))
    return Study(database, record)


@contextmanager
def _closed_on_error(database: Database) -> Iterator[Database]:
    try:
        yield database
    except BaseException:
        database.close()
        raise
