"""`sumwise init`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import rich_click as click

from sumwise import ACQUISITIONS, BASES, AggregateRegressor
from sumwise.cli import individuals, options
from sumwise.cli.common import waiting
from sumwise.cli.individuals import Table, path_or_address, size
from sumwise.cli.objective_options import Objective, objective_options, sentences
from sumwise.cli.options import Address, option
from sumwise.cli.output import message, show, show_json, suggest, talk, visible
from sumwise.data.tables import Individuals
from sumwise.util.text import count

MOST_NAMED: Final = 20  # columns in a sentence


@options.command(
    options.url,
    click.argument("data", type=path_or_address),
    options.by_columns,
    options.x,
    option(
        "--weights sum|mean|COLUMN",
        "What measuring a set gives: its sum, its mean, or a sum weighted by a column.",
        default="sum",
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
    *objective_options,
    options.dask,
    options.as_json,
    options.gathered("address", Address),
    options.gathered("table", Table),
    options.gathered("objective", Objective),
)
def init(
    address: Address,
    table: Table,
    objective: Objective,
    strategy: str | None,
    basis: str | None,
    seed: int,
    preset: str | None,
    claim_days: float,
    sets_file: Path | None,
) -> None:
    """Begin a study from a table of individuals.

    DATA is a CSV file (UTF-8, commas, a heading) or a Parquet file with a row for each individual;
    a folder of Parquet files, which need not fit in memory; or an address such as s3://….
    URL says where to store the study: the path of an SQLite file, which is created, or a PostgreSQL
    database such as postgresql://user@host/database. Nothing is overwritten.

    \b
      sumwise init schools.db schools.csv --by district --x lunch --x enroll
      sumwise init meters.db devices.parquet --by meter --weights mean
      sumwise init postgresql://ann@host/lab plots.csv --by state --by year
      sumwise init meters.db devices/ --by meter --x load --memory-limit 2GB
      sumwise init plots.db plots.csv --by state --strategy IVR --cost hours --enough 0.5
    """
    from sumwise.learning.estimator import resolve
    from sumwise.study.create import create_study

    given = None if basis is None else AggregateRegressor(basis, random_state=seed)
    model, chosen = resolve(given, strategy, seed, preset)
    sets, made = individuals.read(table, address, model, objective, sets_file)
    meant = objective.read(made)
    method: dict[str, Any] = {"strategy": str(chosen), "seed": seed, "claim_days": claim_days}
    place: dict[str, Any] = {"name": address.name, "sets_file": sets_file}
    with (
        waiting("making the study"),
        create_study(address.url, sets, model=model, **place, **method, **meant) as study,
    ):
        name = study.name
    _remark(made, str(chosen), objective)
    taken = {"by": made.by, "inputs": made.x, "left_out": made.left_out}
    counts = {"sets": len(made.sets), "individuals": int(made.sets.sizes.sum())}
    method |= {"basis": basis or model.basis, "preset": preset, "weights": table.weights}
    show_json({"study": name, **counts, **taken, **method, **objective.as_json(meant)})
    show(_made(made, name, address.url, table.weights, str(chosen)))
    for sentence in sentences(meant):
        show(sentence)
    suggest("Next, ask which set to measure:", address.typed("ask"))


def _remark(made: Individuals, strategy: str, objective: Objective) -> None:
    """Say which columns were taken, so that a wrong one is noticed now, and what has no effect."""
    talk(f"Sets by {_named(made.by)}; inputs {_named(made.x)}.")
    if made.left_out:
        talk(f"Left out, because they hold no numbers: {_named(made.left_out)}.")
    aimed = objective.targets is not None or objective.target_weights is not None
    if aimed and not ACQUISITIONS[strategy].uses_targets:
        names = " and ".join(s.name for s in ACQUISITIONS.values() if s.uses_targets)
        talk(f"{strategy} asks the same questions whatever the targets are; {names} use them.")


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
