"""`sumwise reproduce`: the paper's tables and figures."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rich_click as click
from rich.console import Console
from rich.table import Table

from sumwise import report as plots
from sumwise.cli.cluster import dask_option, runs_on
from sumwise.cli.common import SETTINGS, Main, progress_bar
from sumwise.cli.reproduce_beyond import beyond
from sumwise.errors import SettingError
from sumwise.experiments import datasets, protocol, report, results, tables
from sumwise.experiments import reproduce as experiment

FEW_SPLITS = 10
Command = Callable[..., Any]


@click.group(cls=Main, context_settings=SETTINGS)
def reproduce() -> None:
    """Run the paper's experiments, beside the published figures.

    \b
      sumwise reproduce rff --data DIR --splits 10
      sumwise reproduce neural --data DIR --splits 10
      sumwise reproduce beyond --data DIR
    """


reproduce.add_command(beyond)


def _options(experiment: protocol.Experiment) -> Callable[[Command], Command]:
    """The options of both tables, which are run and reported alike."""
    options = (
        click.option(
            "--data",
            type=click.Path(file_okay=False, path_type=Path),
            envvar="SUMWISE_DATA",
            help="Folder with libsvm/ and climate/; SUMWISE_DATA says the same. Without it the "
            "LIBSVM files are downloaded.",
        ),
        click.option("--datasets", "names", help="Names with commas between; all 32 if left out."),
        click.option(
            "--methods",
            help=f"Names with commas between; all {len(experiment.methods)} if left out.",
        ),
        click.option(
            "--splits", type=click.IntRange(1), default=protocol.SPLITS, show_default=True
        ),
        click.option(
            "--queries", type=click.IntRange(1), default=protocol.QUERIES, show_default=True
        ),
        click.option(
            "--jobs",
            type=click.IntRange(1),
            default=os.cpu_count() or 1,
            show_default="all cores",
            help="Runs at the same time; the figures do not depend on it.",
        ),
        dask_option,
        click.option(
            "--out",
            type=click.Path(file_okay=False, path_type=Path),
            default="reproduction" if experiment is protocol.RFF else "reproduction-neural",
            show_default=True,
            help="Folder for the results; a second call goes on where the first stopped.",
        ),
        click.option(
            "--published",
            type=click.Path(dir_okay=False, path_type=Path),
            help="CSV of the paper's figures (dataset, method, mse, bold). By default "
            f"{experiment.published} in the data folder or in the folder `paper` beside it.",
        ),
        click.option("--figures/--no-figures", default=True, help="Also draw the figures."),
        click.option("--json", "as_json", is_flag=True, help="Print the table as JSON."),
    )

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@reproduce.command(context_settings=SETTINGS)
@_options(protocol.RFF)
def rff(**given: Any) -> None:
    """Random Fourier features: the paper's Table 3, Figs. 3 and 4, and Table 4.

    Writes runs.csv (every query), table.csv, table.md, report.html and figures. Stop it with Ctrl-C
    whenever you like: the same command goes on.

    \b
      sumwise reproduce rff --data DIR
      sumwise reproduce rff --data DIR --datasets Abalone,MAT --methods AggMI,Rand --splits 5
    """
    _reproduce(protocol.RFF, **given)


@reproduce.command(context_settings=SETTINGS)
@_options(protocol.NEURAL)
def neural(**given: Any) -> None:
    """Neural networks: the paper's second table, with dropout among the competitors (§5.4).

    Every question trains a network for 1000 epochs: on two cores, count a minute or two for each
    split of a data set with all twelve methods. Writes the same files as `rff`, and goes on the
    same way after Ctrl-C. Needs JAX: pip install 'sumwise[neural]'.

    \b
      sumwise reproduce neural --data DIR --datasets Housing --methods AggMI,DAMI,Rand --splits 3
      sumwise reproduce neural --data DIR --splits 10
    """
    _reproduce(protocol.NEURAL, **given)


def _reproduce(
    table_of: protocol.Experiment,
    *,
    data: Path | None,
    names: str | None,
    methods: str | None,
    splits: int,
    queries: int,
    jobs: int,
    dask: str | None,
    out: Path,
    published: Path | None,
    figures: bool,
    as_json: bool,
) -> None:
    talk = Console(stderr=True, highlight=False)
    plan = experiment.Plan(
        table_of,
        _listed(names, datasets.NAMES),
        _listed(methods, table_of.methods),
        splits,
        queries,
        data,
    )
    plots.check_folder(out)
    experiment.check(plan)
    paper = report.find_published(table_of, published, data)
    with results.only_writer(out), runs_on(dask, jobs) as jobs:
        kept = results.open_results(out, table_of.name, queries, experiment.fingerprints(plan))
        curves = _run(talk, plan, kept, jobs)
        for line in _caveats(plan, paper):
            talk.print(line)
        talk.print("Writing tables" + (" and drawing figures" if figures else "") + " …")
        table, files = report.write(out, curves, paper, data, figures=figures)
    if as_json:
        click.echo(json.dumps([_as_dict(cell) for cell in table]))
    else:
        _print(Console(highlight=False), table, files)


def _run(
    talk: Console, plan: experiment.Plan, kept: results.Results, jobs: int
) -> list[protocol.Curve]:
    runs = len(plan.names) * len(plan.methods) * plan.splits
    talk.print(
        f"{len(plan.names)} data sets, {len(plan.methods)} methods, {plan.splits} splits: {runs:,} "
        f"runs of {plan.queries} queries, {jobs} at a time. Results go to {kept.folder}.",
        soft_wrap=True,
    )
    try:
        with progress_bar(talk, "running") as on_progress:
            return experiment.run(plan, kept, jobs, on_progress)
    except KeyboardInterrupt:
        talk.print(
            f"\nStopped. Finished runs are in {kept.runs}; the same command goes on.",
            soft_wrap=True,
        )
        sys.exit(130)


def _caveats(plan: experiment.Plan, paper: report.Paper) -> list[str]:
    lines = []
    if not paper.errors:
        lines.append("The published figures are not at hand; --published CSV brings them in.")
    if plan.splits < FEW_SPLITS:
        lines.append(f"With fewer than {FEW_SPLITS} splits a t-test tells little apart.")
    return lines


def _listed(text: str | None, everything: tuple[str, ...]) -> tuple[str, ...]:
    if text is None:
        return everything
    proper = {name.lower(): name for name in everything}
    given = [name.strip() for name in text.split(",") if name.strip()]
    if not given:
        raise SettingError(f"no name was given; there are {', '.join(everything)}")
    return tuple(dict.fromkeys(proper.get(name.lower(), name) for name in given))


def _as_dict(cell: tables.Cell) -> dict[str, Any]:
    return {
        "dataset": cell.dataset,
        "method": cell.method,
        "mean": cell.mean,
        "sem": cell.sem,
        "best": cell.best,
        "published": cell.published,
    }


def _print(console: Console, table: list[tables.Cell], files: list[Path]) -> None:
    grid = tables.ours(table)
    console.print("\nMean squared error, averaged over queries (bold: not told from the best)")
    shown = Table(
        box=None, padding=(0, 1, 0, 0), collapse_padding=True, pad_edge=False
    )  # fits 80 columns
    for column in grid.columns:
        shown.add_column(column, justify="right" if column else "left", no_wrap=True)
    for r, row in enumerate(grid.rows):
        shown.add_row(
            *(f"[bold]{t}[/bold]" if (r, c) in grid.bold else t for c, t in enumerate(row))
        )
    console.print(shown)
    for line in report.summary(table):
        console.print(line)
    report_page = files[-1]
    console.print(
        f"{report_page} ({len(files) - 1} more files beside it)", markup=False, soft_wrap=True
    )
