"""`sumwise init`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import rich_click as click

from sumwise import ACQUISITIONS, BASES, AggregateRegressor
from sumwise.cli import individuals, options
from sumwise.cli.common import waiting
from sumwise.cli.individuals import PathOrAddress, Size, Table
from sumwise.cli.objective_options import Objective, objective_options, sentences
from sumwise.cli.options import Address
from sumwise.cli.output import message, show, show_json, suggest, talk, visible
from sumwise.data.tables import Individuals
from sumwise.util.text import count

MOST_NAMED: Final = 20  # columns in a sentence


@dataclass(frozen=True, slots=True)
class Method:
    """The model and the strategy as they were typed."""

    strategy: str | None
    basis: str | None
    seed: int
    preset: str | None

    def resolve(self) -> tuple[AggregateRegressor, str]:
        from sumwise.learning.estimator import resolve

        basis = self.basis
        model = None if basis is None else AggregateRegressor(basis, random_state=self.seed)
        estimator, strategy = resolve(model, self.strategy, self.seed, self.preset)
        return estimator, str(strategy)


@options.command(
    options.url,
    click.argument("data", type=PathOrAddress()),
    options.by_columns,
    options.x,
    click.option(
        "--weights",
        metavar="sum|mean|COLUMN",
        default="sum",
        show_default=True,
        help="What measuring a set gives: its sum, its mean, or a sum weighted by a column.",
    ),
    click.option(
        "--strategy",
        type=click.Choice(list(ACQUISITIONS), case_sensitive=False),
        metavar="NAME",
        help=f"How the next set is chosen: {', '.join(ACQUISITIONS)}. Default: IVR.",
    ),
    click.option(
        "--basis",
        type=click.Choice(list(BASES)),
        metavar="NAME",
        help=f"Basis functions of the model: {', '.join(BASES)}. Default: auto.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of random draws."),
    click.option("--preset", type=click.Choice(["paper"]), help="Use the paper's model and AggMI."),
    click.option(
        "--claim-days",
        type=float,
        metavar="NUMBER",
        default=7.0,
        show_default=True,
        help="Days after which a claim expires.",
    ),
    click.option(
        "--name", metavar="NAME", help="Name of the study in its database. Default: study."
    ),
    options.sets_file,
    click.option(
        "--memory-limit",
        type=Size(),
        metavar="SIZE",
        help="Leave Parquet that would take more memory than this, such as 2GB, in its files, and "
        "store a design of it beside the study. Default: half of the machine's memory.",
    ),
    *objective_options,
    options.dask,
    options.as_json,
    options.gathered("address", Address),
    options.gathered("table", Table),
    options.gathered("method", Method),
    options.gathered("objective", Objective),
)
def init(
    address: Address,
    table: Table,
    method: Method,
    objective: Objective,
    claim_days: float,
    sets_file: Path | None,
    as_json: bool,
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
    from sumwise.study.create import create_study

    model, strategy = method.resolve()
    sets, made = individuals.read(table, address, model, objective, sets_file)
    meant = objective.read(made)
    with (
        waiting("making the study"),
        create_study(
            address.url,
            sets,
            name=address.name,
            model=model,
            strategy=strategy,
            seed=method.seed,
            claim_days=claim_days,
            sets_file=sets_file,
            **meant,
        ) as study,
    ):
        name = study.name
    _remark(made, strategy, objective)
    if as_json:
        basis = method.basis or model.basis
        known = {**asdict(method), "strategy": strategy, "basis": basis, "claim_days": claim_days}
        show_json({**_as_json(made, name, table.weights), **known, **objective.as_json(meant)})
        return
    show(_made(made, name, address.url, table.weights, strategy))
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


def _as_json(made: Individuals, name: str, weights: str) -> dict[str, Any]:
    return {
        "study": name,
        "sets": len(made.sets),
        "individuals": int(made.sets.sizes.sum()),
        "by": made.by,
        "inputs": made.x,
        "left_out": made.left_out,
        "weights": weights,
    }


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
