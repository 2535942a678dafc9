"""`sumwise init`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import rich_click as click

from sumwise import ACQUISITIONS, BASES, AggregateRegressor
from sumwise.acquisition.strategies import DEFAULT
from sumwise.cli import beyond
from sumwise.cli.common import SETTINGS, waiting
from sumwise.cli.objective_options import (
    Wishes,
    as_json_too,
    said,
    targets_of,
    understood,
    wish_options,
    without_columns,
)
from sumwise.cli.options import Address, dask_option, json_option, url_argument
from sumwise.cli.output import message, show, show_json, suggest, talk, visible
from sumwise.data.tables import Individuals, read_individuals
from sumwise.util.text import count

MOST_NAMED: Final = 20  # columns in a sentence


@click.command(context_settings=SETTINGS)
@url_argument
@click.argument("data", type=beyond.Table())
@click.option(
    "--by",
    metavar="COLUMN",
    multiple=True,
    required=True,
    help="Column that names the set; may be repeated.",
)
@click.option(
    "--x",
    metavar="COLUMN",
    multiple=True,
    help="Input column; may be repeated. All other columns that hold numbers if left out.",
)
@click.option(
    "--weights",
    metavar="sum|mean|COLUMN",
    default="sum",
    show_default=True,
    help="What a measurement gives: a set's sum, its mean, or a sum weighted by a column.",
)
@click.option(
    "--strategy",
    type=click.Choice(list(ACQUISITIONS), case_sensitive=False),
    metavar="NAME",
    help=f"Which set is asked for next: {', '.join(ACQUISITIONS)}; IVR if left out.",
)
@click.option(
    "--basis",
    type=click.Choice(list(BASES)),
    metavar="NAME",
    help=f"Of the model: {', '.join(BASES)}; auto if left out.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of everything drawn.")
@click.option(
    "--preset", type=click.Choice(["paper"]), help="The paper's model and AggMI in one word."
)
@click.option(
    "--claim-days",
    type=float,
    metavar="NUMBER",
    default=7.0,
    show_default=True,
    help="How long a set stays with whoever asked for it.",
)
@click.option(
    "--name", metavar="NAME", help="Of the study, for databases with several; study if left out."
)
@click.option(
    "--sets-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the individuals in this Parquet file instead of inside the database.",
)
@click.option(
    "--memory-limit",
    type=beyond.Size(),
    metavar="SIZE",
    help="Leave Parquet that would take more than this, such as 2GB, in its files and keep a "
    "design of it beside the study; half of the memory there is if left out.",
)
@wish_options
@dask_option
@json_option
def init(
    url: str,
    data: Path | str,
    by: tuple[str, ...],
    x: tuple[str, ...],
    weights: str,
    strategy: str | None,
    basis: str | None,
    seed: int,
    preset: str | None,
    claim_days: float,
    name: str | None,
    sets_file: Path | None,
    memory_limit: int | None,
    cost: str | None,
    noise_std: str | None,
    targets: Path | None,
    target_weights: str | None,
    enough: str | None,
    dask: str | None,
    as_json: bool,
) -> None:
    """Begin a study from a table of individuals.

    DATA is a CSV file (UTF-8, commas, a heading) or a Parquet file with a row for each individual,
    or a folder of Parquet files, which need not fit in memory; or an address such as s3://….
    URL is where the study is kept: the path of an SQLite file, which is made, or a PostgreSQL
    database, as postgresql://user@host/database. Nothing that is there is overwritten.

    \b
      sumwise init schools.db schools.csv --by district --x lunch --x enroll
      sumwise init meters.db devices.parquet --by meter --weights mean
      sumwise init postgresql://ann@host/lab plots.csv --by state --by year
      sumwise init meters.db devices/ --by meter --x load --memory-limit 2GB
      sumwise init plots.db plots.csv --by state --strategy IVR --cost hours --enough 0.5
    """
    from sumwise.learning.settings import resolve
    from sumwise.study.create import create_study

    wishes = Wishes(cost, noise_std, targets, target_weights, enough)
    limit = beyond.default_limit() if memory_limit is None else memory_limit
    model = None if basis is None else AggregateRegressor(basis, random_state=seed)
    pool: Any = None
    if dask is not None or beyond.is_beyond(data, limit):
        beyond.refuse_options(sets_file, basis)
        model, chosen = resolve(model, strategy, seed, preset)  # needed before there is a study
        strategy = str(chosen)
        place, preset_too = beyond.design_folder(url, data, name), None
        beyond.refuse_existing(url, name)
        meant = without_columns(wishes)
        hidden = (*wishes.columns, *wishes.hidden)
        with beyond.going_on(place):
            pool, made = beyond.embed_files(data, by, x, weights, model, place, limit, dask, hidden)
        meant |= targets_of(wishes, made.x)
        talk(f"The design of {visible(str(data), 200)} is in {visible(str(place), 200)}.")
    else:
        preset_too = preset
        assert isinstance(data, Path)  # what is elsewhere is beyond
        with waiting(f"reading {visible(data.name)}"):
            made = read_individuals(data, by, x, weights, wishes.columns, wishes.hidden)
            meant = understood(wishes, made)
        pool = made.sets
    with (
        waiting("making the study"),
        create_study(
            url,
            pool,
            name=name,
            model=model,
            strategy=strategy,
            seed=seed,
            preset=preset_too,
            claim_days=claim_days,
            sets_file=sets_file,
            **meant,
        ) as study,
    ):
        made_as = study.name
    for sentence in _columns(made):
        talk(sentence)
    asks = strategy or ("AggMI" if preset else DEFAULT)
    if (targets is not None or target_weights is not None) and not ACQUISITIONS[asks].uses_targets:
        aiming = " and ".join(s.name for s in ACQUISITIONS.values() if s.uses_targets)
        talk(f"{asks} asks the same whatever the targets are; {aiming} aim at them.")
    if as_json:
        known = _as_json(made, made_as, weights, asks, basis, seed, preset, claim_days)
        show_json({**known, **as_json_too(wishes, meant)})
        return
    show(_made(made, made_as, url, weights, asks))
    for sentence in said(meant):
        show(sentence)
    suggest("Next, ask which set to measure:", Address(url, name).typed("ask"))


def _columns(made: Individuals) -> list[str]:
    """What was taken from the table, so that a wrong column is noticed now."""
    said = [f"Sets by {_named(made.by)}; inputs {_named(made.x)}."]
    if made.left_out:
        said.append(f"Left out, because they hold no numbers: {_named(made.left_out)}.")
    return said


def _named(columns: tuple[str, ...]) -> str:
    more = f" and {len(columns) - MOST_NAMED} more" if len(columns) > MOST_NAMED else ""
    return ", ".join(visible(name, 40) for name in columns[:MOST_NAMED]) + more


def _made(made: Individuals, name: str, url: str, weights: str, strategy: str) -> str:
    sizes = made.sets.sizes
    measured = {"sum": "its sum", "mean": "its mean"}.get(
        weights, f"its sum weighted by {visible(weights, 40)}"
    )
    return (
        f"Study '{visible(name)}' in {message(url)}: {count(len(made.sets), 'set')} of "
        f"{sizes.min()} to {sizes.max()} individuals ({sizes.sum()} in all), "
        f"{count(len(made.x), 'input')}, strategy {strategy}. Measuring a set gives {measured}."
    )


def _as_json(
    made: Individuals,
    name: str,
    weights: str,
    strategy: str,
    basis: str | None,
    seed: int,
    preset: str | None,
    claim_days: float,
) -> dict[str, Any]:
    return {
        "study": name,
        "sets": len(made.sets),
        "individuals": int(made.sets.sizes.sum()),
        "by": made.by,
        "inputs": made.x,
        "left_out": made.left_out,
        "weights": weights,
        "strategy": strategy,
        "basis": basis or ("fourier" if preset else "auto"),
        "seed": seed,
        "preset": preset,
        "claim_days": claim_days,
    }
