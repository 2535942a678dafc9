"""`sumwise init`: individuals in a table in memory, or in Parquet files with a design on disk."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import rich_click as click

from sumwise import ACQUISITIONS, BASES, AggregateRegressor, Embedded, Sets
from sumwise.cli import options
from sumwise.cli.design_options import Design, design_options
from sumwise.cli.objective_options import Objective, objective_options, sentences
from sumwise.cli.options import Address, option
from sumwise.cli.output import message, show, show_json, suggest, talk, visible
from sumwise.data.about import About
from sumwise.data.dialect import Reading
from sumwise.data.frames import Table as Rows
from sumwise.data.frames import as_frame
from sumwise.data.geo import OF_PLANE
from sumwise.data.individuals import (
    Individuals,
    choose_inputs,
    known_columns,
    read_individuals,
    with_known_columns,
)
from sumwise.data.known import Known
from sumwise.data.maps import read_map
from sumwise.data.parquet import Scan, find_files, open_parquet
from sumwise.data.pool_tables import inputs_of
from sumwise.data.recipe import Seen, Source
from sumwise.distributed import connect, on
from sumwise.errors import SettingError
from sumwise.model.generalised.refusals import check_sets
from sumwise.outofcore.build import in_threads
from sumwise.outofcore.design_store import as_sets
from sumwise.outofcore.learn_recipe import Looked, learn, look_at, place_of
from sumwise.util.memory import COPIES, limit
from sumwise.util.progress import waiting
from sumwise.util.text import count

MOST_NAMED: Final = 20  # columns in a sentence
UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


# --- arguments ------------------------------------------------------------------------------------


def size(text: str) -> int:
    """A number of bytes, such as 2GB."""
    found = re.fullmatch(r"(\d{1,18}(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if found is None:
        raise click.BadParameter(f"{text!r:.40} is not a size; write 500MB or 2GB")
    return int(float(found[1]) * UNITS[found[2].upper()])


def path_or_address(text: str) -> Path | str:
    """A path; or an address as text, because a path would lose its slashes."""
    return text if "://" in text else Path(text)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of individuals as it was named on the command line."""

    data: Path | str
    by: tuple[str, ...]
    x: tuple[str, ...]
    without: tuple[str, ...]
    row_id: str | None
    period: tuple[str, ...]
    weights: str
    exposure: str | None
    trials: str | None
    known: tuple[str, ...]
    memory_limit: int | None
    dask: str | None

    @property
    def theta(self) -> tuple[str, dict[str, str | None]]:
        """What weighs individuals, and the option that named its column, if one did."""
        name, option = options.theta_column(self.weights, self.exposure, self.trials)
        return name, {} if option is None else {name: f"given as {option}"}

    @property
    def periods(self) -> dict[str, str]:
        """Columns that go round, with their periods."""
        found = {}
        for text in self.period:
            name, mark, period = text.rpartition("=")
            if not mark or not name:
                raise click.UsageError(
                    f"--period {text!r:.80} names no column and period; write hour=24 or date=year"
                )
            found[name] = period
        return found

    @property
    def limit(self) -> int:
        """Bytes that the table may take in memory: as given, or half of the machine's memory."""
        if self.memory_limit is not None:
            return self.memory_limit
        return limit()

    @property
    def is_large(self) -> bool:
        """Whether the table stays in its files: a folder, an address, or above the limit."""
        data = self.data
        if self.dask is not None or isinstance(data, str) or data.is_dir():
            return True
        if data.suffix.lower() != ".parquet" or not data.is_file():
            return False
        with open_parquet(str(data)) as file:
            about = file.metadata
            return bool(8 * about.num_rows * about.num_columns * COPIES > self.limit)


@dataclass(frozen=True, slots=True)
class Measured:
    """What is measured, as it was named on the command line."""

    outputs: str
    outcome: str | None
    unit: str | None
    individual: str | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Shapes:
    """A map as it was named on the command line."""

    map_file: Path | None
    map_id: tuple[str, ...]

    def read(self, sets: Sets | Embedded) -> Any:
        """The map, if there is one; says what was found."""
        if self.map_file is None and self.map_id:
            raise click.UsageError("--map-id names a column of a map; name the map: --map FILE")
        if self.map_file is None:
            return None
        known, said = read_map(self.map_file, self.map_id, as_sets(sets))
        talk(message(said))
        return known


# --- the command ----------------------------------------------------------------------------------


@options.command(
    options.url,
    click.argument("data", type=path_or_address),
    option(
        "--by COLUMN",
        "Column that names the set; may be repeated. Required, unless sets are designed.",
        multiple=True,
    ),
    options.x,
    options.reading(),
    options.without,
    option(
        "--id COLUMN",
        "The column with the name of each row; predictions have this column too.",
        into="row_id",
    ),
    option(
        "--period COLUMN=PERIOD",
        "A periodic input: hour=24, or for dates day, week, month or year. May be repeated.",
        multiple=True,
    ),
    option(
        "--weights sum|mean|COLUMN",
        "What measuring a set gives: its sum, its mean, or a sum weighted by a column.",
        default="sum",
    ),
    *options.exposure,
    options.outputs,
    option(
        "--known COLUMN|FILE",
        "What is known already: a column of DATA with the outputs of some individuals, or a file "
        "of totals of sets (as for tell --from), of individuals (by the --id column) or of areas "
        "(by another column of DATA). May be repeated.",
        multiple=True,
    ),
    option(
        "--strategy NAME",
        f"How the next set is chosen: {', '.join(ACQUISITIONS)}. Default: IVR.",
        type=click.Choice(list(ACQUISITIONS), case_sensitive=False),
    ),
    option(
        "--basis NAME",
        f"Basis functions of the model: {', '.join(BASES)}. Default: auto.",
        type=click.Choice(list(BASES)),
    ),
    option(
        "--spatial LON,LAT",
        "Two inputs that are a position, longitude first, or none. Default: those called so.",
    ),
    option("--seed NUMBER", "Seed of random draws.", default=0),
    option("--preset paper", "Use the paper's model and AggMI.", type=click.Choice(["paper"])),
    option("--claim-days NUMBER", "Days after which a claim expires.", default=7.0),
    option("--name NAME", "Name of the study in its database. Default: study."),
    options.sets_file,
    option(
        "--memory-limit SIZE",
        "Leave Parquet that would take more memory than this, such as 2GB, in its files, and store "
        "a design of it beside the study. Default: half of the machine's memory.",
        type=size,
    ),
    option("--outcome NAME", "What is measured, such as 'maths score'; all outputs use it."),
    option("--unit NAME", "The unit of the outcome, such as points."),
    option("--individual NAME", "What an individual is, such as school."),
    option(
        "--min NUMBER",
        "The lowest possible output of an individual. Impossible totals are refused, and "
        "predictions and intervals are cut there.",
        into="low",
        type=float,
    ),
    option("--max NUMBER", "The highest possible output.", into="high", type=float),
    *options.map_options,
    *objective_options,
    *design_options,
    options.dask,
    options.as_json,
    options.gathered("address", Address),
    options.gathered("table", Table),
    options.gathered("objective", Objective),
    options.gathered("measured", Measured),
    options.gathered("design", Design),
    options.gathered("shapes", Shapes),
)
def init(
    address: Address,
    table: Table,
    objective: Objective,
    measured: Measured,
    design: Design,
    strategy: str | None,
    basis: str | None,
    spatial: str | None,
    seed: int,
    preset: str | None,
    claim_days: float,
    sets_file: Path | None,
    shapes: Shapes,
    reading: Reading,
) -> None:
    """Begin a study from a table of individuals.

    DATA is a table with a row for each individual: a CSV file with a heading, Parquet, Excel,
    GeoJSON or GeoPackage (geometries are kept). It may also be a folder of Parquet files, which
    need not fit in memory, or an address such as s3://…. URL is where the study is stored: the
    path of a new SQLite file, or a PostgreSQL database such as postgresql://user@host/database.
    Nothing is overwritten.

    \b
      sumwise init schools.db schools.csv --by district --x lunch,enroll,'ses_*' --id school
      sumwise init meters.db devices.parquet --by meter --weights mean
      sumwise init postgresql://ann@host/lab plots.csv --by state --by year
      sumwise init areas.db areas.csv --by county --map counties.gpkg --map-id name
      sumwise init meters.db devices/ --by meter --x load --memory-limit 2GB
      sumwise init votes.db people.csv --by precinct --outcome turnout --min 0 --max 1
      sumwise init deaths.db areas.csv --by county --outputs counts --exposure population
      sumwise init assays.db serum.csv --design --id sample --size 2-8 --uses 1 --weights mean
    """
    from sumwise.study.create import create_study

    design.check(table.by)
    model, chosen = _model(measured.outputs, basis, spatial, strategy, seed, preset)
    wanted = objective, measured.outcome, sets_file, reading, design
    sets, made = _read(table, address, model, *wanted)
    meant = objective.read(made, reading)
    method: dict[str, Any] = {"strategy": chosen, "seed": seed, "claim_days": claim_days}
    place: dict[str, Any] = {"name": address.name, "sets_file": sets_file, "model": model}
    place |= {"geometry": made.geometry, "map": shapes.read(sets)}
    if design.design:
        place["design"] = design.rules(Path(table.data), made, table.theta[0] == "mean", reading)
    place |= {"known": list(made.known), **method, **meant, **asdict(measured)}
    with waiting("making the study"), create_study(address.url, sets, **place) as study:
        name, about = study.name, study.about
    _remark(made, chosen, objective)
    method |= {"basis": basis or model.basis, "preset": preset, "weights": table.theta[0]}
    method |= {**asdict(measured), **objective.as_json(meant), **design.as_json}
    show_json({"study": name, **_taken(made), **method})
    show(_made(made, name, address.url, table.theta[0], chosen, about))
    pools = design.words(place["design"]) if design.design else None
    for sentence in filter(None, (pools, _measures(about), *sentences(meant), _known(made.known))):
        show(sentence)
    suggest(f"Next, ask {design.asked}:", address.typed("ask"))


def _model(
    outputs: str,
    basis: str | None,
    spatial: str | None,
    strategy: str | None,
    seed: int,
    preset: str | None,
) -> tuple[AggregateRegressor, str]:
    """The model and the strategy, as named or by default."""
    from sumwise.learning.resolve import resolve

    given = None
    if basis is not None or spatial is not None:
        named = [part.strip() for part in (spatial or "").split(",")]
        place: Any = None if spatial == "none" else named if spatial else "auto"
        settings = {"random_state": seed, "outputs": outputs, "spatial": place}
        given = AggregateRegressor(basis or "auto", **settings)
    config, chosen = resolve(given, strategy, seed, preset, outputs=outputs)
    return AggregateRegressor.from_config(config), str(chosen)


def _taken(made: Individuals) -> dict[str, Any]:
    """What there is, and the columns that it comes from."""
    counts = {"sets": len(made.sets), "individuals": int(made.sets.sizes.sum())}
    taken = {"by": made.by, "inputs": made.x, "left_out": list(made.left_out)}
    return {**counts, "known": len(made.known), **taken}


def _known(known: Sequence[Known]) -> str | None:
    """How much is known from the start, in a sentence."""
    if not known:
        return None
    alone = sum(each.alone for each in known)
    areas = sum(each.rows is not None for each in known) - alone
    kinds = {"set": len(known) - alone - areas, "individual": alone, "area": areas}
    said = ", ".join(count(number, kind) for kind, number in kinds.items() if number)
    return f"Known from the start: {said}."


# --- reading --------------------------------------------------------------------------------------


def _read(
    table: Table,
    address: Address,
    model: AggregateRegressor,
    objective: Objective,
    outcome: str | None,
    sets_file: Path | None,
    reading: Reading,
    design: Design,
) -> tuple[Sets | Embedded, Individuals]:
    """The sets that a study is made of, and the columns they come from."""
    if design.design and table.is_large:
        raise SettingError(
            "pools are designed from individuals in memory, and these would stay in their files; "
            "name one file of the candidates, or raise --memory-limit"
        )
    if design.design and table.theta[0] not in ("sum", "mean"):
        raise SettingError(
            "designed pools use equal weights (--weights sum or mean), or weights within "
            "--weight-range; leave a column of weights out"
        )
    if table.is_large:
        if sets_file is not None:
            raise SettingError("these individuals stay in their own files; leave --sets-file out")
        if reading.centroid:
            raise SettingError("--centroid needs individuals in memory, and these stay in files")
        return _embed(table, address, model, objective, outcome)
    path, by, row_id = Path(table.data), table.by, table.row_id
    if not by and row_id is not None:  # each individual is a set of its own
        by, row_id = (row_id,), None
    reading = replace(reading, memory=table.limit)
    with waiting(f"reading {visible(path.name)}"):
        found = known_columns(path, table.known, (*by, row_id), reading)
        labels = dict.fromkeys(design.labels.values(), "")
        made = read_individuals(
            path,
            by,
            table.x,
            table.theta[0],
            {
                **table.theta[1],
                **dict.fromkeys((*objective.hidden, *found[0], *found[1]), ""),
                **labels,
                **objective.columns,
            },
            without=table.without,
            row_id=row_id,
            periods=table.periods,
            reading=reading,
        )
        if not table.by:
            _refuse_twice(made)
        check_sets(model.outputs, made.sets, made.where)
        made = with_known_columns(made, path, found, reading)
    if reading.centroid and {*OF_PLANE} <= {*made.x} and model.basis == model.spatial == "auto":
        model.spatial = OF_PLANE
    _refuse_outcome(made.x, outcome, table)
    return made.sets, made


def _refuse_twice(made: Individuals) -> None:
    """Refuse two individuals with one id."""
    for a in np.flatnonzero(made.sets.sizes > 1)[:1].tolist():
        rows = range(*made.sets.starts[a : a + 2].tolist())
        raise SettingError(
            f"{made.where(rows[1])} is the id of an earlier row, too; give each individual its own "
            "id. If rows with the same id are a group whose total can be measured, name the column "
            "with --by."
        )


def _refuse_outcome(inputs: Sequence[str], outcome: str | None, table: Table) -> None:
    """Refuse a column that has the name of what is measured as an input."""
    if outcome in inputs:
        raise SettingError(
            f"{table.data} has a column {outcome!r:.80}, the outcome, which would be an input. "
            f"Leave it out with --not {shlex.quote(str(outcome))}; if it holds outputs that are "
            "known already, name it with --known instead."
        )


def _embed(
    table: Table,
    address: Address,
    model: AggregateRegressor,
    objective: Objective,
    outcome: str | None,
) -> tuple[Embedded, Individuals]:
    """A design on disk, in single precision if double precision would take half the limit."""
    objective.refuse_columns()
    _refuse_existing(address)
    place = _design_folder(table.data, address)
    if table.row_id is not None or table.known:
        raise SettingError(
            "--id and --known do not work for individuals that stay in their files; leave these "
            "options out, and record known totals with tell --from"
        )
    with nullcontext() if table.dask is None else connect(table.dask) as client:
        run = in_threads if client is None else on(client)
        scan, left_out = _scan(table, {*objective.columns, *objective.hidden}, run)
    _refuse_outcome(scan.x, outcome, table)
    n_basis = model.n_basis * (3 if model.basis == "auto" else 1)  # or a little more
    small = model.outputs != "numbers" or 8 * scan.rows * n_basis <= table.limit // 2
    dtype = "float64" if small else "float32"
    try:
        with nullcontext() if table.dask is None else connect(table.dask) as client:
            run = in_threads if client is None else on(client)
            memory = max(1, table.limit // 4)
            made = model.embed(scan, place, dtype=dtype, memory=memory, run=run)
    except KeyboardInterrupt:
        talk(f"Stopped. Finished parts are in {place}; the same command continues.")
        raise
    talk(f"The design of {table.data} is in {place}.")
    return made, Individuals(made.sets, scan.by, scan.x, left_out)


def _scan(table: Table, aside: set[str], run: Any) -> tuple[Scan, dict[str, str]]:
    """The files with the recipe of their inputs, which the same rules choose as in memory."""
    by, path = tuple(dict.fromkeys(table.by)), str(table.data)
    with open_parquet(find_files(path)[0]) as file:
        first = Rows(as_frame(file.schema_arrow.empty_table()), path, in_file=True)
    looked, theta = list[Looked](), table.theta[0]

    def see(names: Sequence[str]) -> tuple[Mapping[str, Seen], Callable[[int], str]]:
        scan = Sets.scan_parquet(path, by=by, x=names, weights=theta)
        looked.append(look_at(scan, run, names))
        return looked[0].seen, place_of(scan)

    used, wanted = {*by, theta, *aside}, tuple(dict.fromkeys(table.x))
    x, left_out = choose_inputs(first, used, wanted, table.without, see=see)
    scan = Sets.scan_parquet(path, by=by, x=x, weights=theta, periods=table.periods)
    return learn(scan, looked[0]) if looked else scan, left_out


def _design_folder(data: Path | str, address: Address) -> Path:
    """Beside a study in a file, else in the current folder; each name has its own."""
    more = "" if address.name is None else f"-{quote(address.name, safe=' ')}"
    if "://" in address.url:
        return Path(f"{Path(data).stem}{more}.design")
    place = Path(address.url)
    return place.with_name(f"{place.stem}{more}.design")


def _refuse_existing(address: Address) -> None:
    """Refuse a name that is taken, before work that may take hours."""
    from sumwise.study.storage.records import names

    named = "study" if address.name is None else address.name
    if named in names(address.url):
        raise SettingError(
            f"there is a study called {named!r} already; give another name with --name, or name "
            "another database"
        )


# --- words ----------------------------------------------------------------------------------------


def _remark(made: Individuals, strategy: str, objective: Objective) -> None:
    """Say which columns were taken, so that a wrong one is noticed now, and what has no effect."""
    sets = f"Sets by {_named(made.by)}" if made.by else "Individuals are numbered from 1"
    talk(f"{sets}; inputs {_named(made.x)}.")
    if recipe := made.sets.recipe:
        text = tuple(str(s.name) for s in recipe.sources if s.levels is not None)
        gaps = tuple(str(s.name) for s in recipe.sources if s.flagged)
        if text:
            talk(f"Text, with an effect for each level: {_named(text)}.")
        empty = tuple(str(s.name) for s in recipe.sources if None in (s.levels or ()))
        if empty:
            talk(f"Text with gaps, which form a level of their own: {_named(empty)}.")
        if gaps:
            talk(f"Numbers with gaps, which are filled with the mean and flagged: {_named(gaps)}.")
    for name, reason in made.left_out.items():
        talk(f"Left out: {visible(name, 40)} ({reason}).")
    aimed = objective.targets is not None or objective.target_weights is not None
    if aimed and not ACQUISITIONS[strategy].uses_targets:
        names = " and ".join(s.name for s in ACQUISITIONS.values() if s.uses_targets)
        talk(f"{strategy} ignores targets; {names} use them.")
    _remark_inputs(made)


def _remark_inputs(made: Individuals) -> None:
    """Say which inputs teach nothing, and which are indicators that a text column would replace."""
    sets = made.sets
    if not len(made.order):
        return  # they stay in their files
    recipe = inputs_of(sets)
    x, same = sets.x, tuple[str, ...]()
    bits: dict[str, list[int]] = {}
    for s, source in enumerate(recipe.sources):
        own = x[:, recipe.source_of == s]
        if (own == own[0]).all():
            same += (str(source.name),)
        elif source == Source(source.name) and np.isin(own, (0, 1)).all():
            stem = re.split(r"[^0-9A-Za-z]", str(source.name))[0]
            bits.setdefault(stem, []).append(int(np.argmax(recipe.source_of == s)))
    if sets.row_ids is not None and len({*sets.row_ids}) < len(sets.row_ids):
        talk("Rows of different sets have the same id, so a row is named by its set and its id.")
    if same:
        talk(f"The same in every row, so nothing can be learned from it: {_named(same)}.")
    for columns in bits.values():
        if len(columns) > 2 and x[:, columns].sum(axis=1).max() == 1:
            names = tuple(str(recipe.labels[d]) for d in columns)
            talk(
                f"{len(names)} inputs seem to be indicators of one category, from {names[0]:.40} "
                f"to {names[-1]:.40}. One column of text works better than these."
            )


def _named(columns: tuple[str, ...]) -> str:
    more = f" and {len(columns) - MOST_NAMED} more" if len(columns) > MOST_NAMED else ""
    return ", ".join(visible(name, 40) for name in columns[:MOST_NAMED]) + more


def _measures(about: About) -> str:
    """What is measured and its bounds, in a sentence; empty where nothing was said."""
    ends = (("at least", about.low), ("at most", about.high))
    said = [about.quantity(f"{word} {end:.9g}") for word, end in ends if end is not None]
    what = visible(about.outcome or "output", 80)
    if said:
        return f"The {what} of an individual is {' and '.join(said)}."
    if about.outputs != "numbers" or (about.outcome is None and about.unit is None):
        return ""
    return f"What is measured is the {about.title}{about.in_unit} of a set."


def _made(made: Individuals, name: str, url: str, weights: str, strategy: str, about: About) -> str:
    if (made.sets.sizes == 1).all():
        return (
            f"Study '{visible(name)}' in {message(url)}: {count(len(made.sets), 'individual')}, "
            f"{count(len(made.x), 'input')}, strategy {strategy}. Measuring a set gives its "
            f"{about.word}."
        )
    sizes, column = made.sets.sizes, visible(weights, 40)
    span = count(sizes.max(), "individual")
    same = f"{span} each" if len(sizes) > 1 else span
    span = same if sizes.min() == sizes.max() else f"{sizes.min()} to {span}"
    measured = {"sum": "its sum", "mean": "its mean"}.get(weights, f"its sum weighted by {column}")
    if about.outputs != "numbers":
        of = {"shares": f"trials by {column}"}.get(about.outputs, f"exposure by {column}")
        alike = "each individual is one trial" if about.outputs == "shares" else "no exposure"
        measured = f"its {about.title}; {alike if weights == 'sum' else of}"
    return (
        f"Study '{visible(name)}' in {message(url)}: {count(len(made.sets), 'set')} of "
        f"{span} ({sizes.sum()} in all), "
        f"{count(len(made.x), 'input')}, strategy {strategy}. Measuring a set gives {measured}."
    )
