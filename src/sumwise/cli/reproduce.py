"""`sumwise reproduce`: the paper's tables and figures, and our own methods beside them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import rich_click as click
from rich.console import Console
from rich.table import Table

from sumwise import report
from sumwise.cli.cluster import dask_option, runs_on
from sumwise.cli.common import SETTINGS, Main, progress_bar
from sumwise.errors import SettingError
from sumwise.experiments import beyond as comparison
from sumwise.experiments import datasets, reproduction_page, results, tables
from sumwise.experiments import reproduce as experiments
from sumwise.experiments.protocol import BEYOND, NEURAL, QUERIES, RFF, Curve, Experiment
from sumwise.report.page import TextTable

FEW_SPLITS = 10
Command = Callable[..., Any]


@click.group(cls=Main, context_settings=SETTINGS)
def reproduce() -> None:
    """Run the paper's experiments and compare the published figures.

    \b
      sumwise reproduce rff --data DIR --splits 10
      sumwise reproduce neural --data DIR --splits 10
      sumwise reproduce beyond --data DIR
    """


def _options(experiment: Experiment) -> Callable[[Command], Command]:
    """The options of all experiments, which are run alike, and those of the paper's tables."""
    of_paper = bool(experiment.published)
    options: list[Any] = [
        click.option(
            "--data",
            type=click.Path(file_okay=False, path_type=Path),
            envvar="SUMWISE_DATA",
            help="Folder with libsvm/ and climate/; SUMWISE_DATA says the same. Without it the "
            "LIBSVM files are downloaded.",
        ),
        click.option("--datasets", "names", help="Names with commas between; all 32 if left out."),
        of_paper
        and click.option(
            "--methods",
            help=f"Names with commas between; all {len(experiment.methods)} if left out.",
        ),
        click.option(
            "--splits", type=click.IntRange(1), default=experiment.splits, show_default=True
        ),
        of_paper
        and click.option("--queries", type=click.IntRange(1), default=QUERIES, show_default=True),
        click.option(
            "--jobs",
            type=click.IntRange(1),
            default=os.cpu_count() or 1,
            show_default="all cores",
            help="Runs at the same time; the figures do not depend on it.",
        ),
        of_paper and dask_option,
        click.option(
            "--out",
            type=click.Path(file_okay=False, path_type=Path),
            default="reproduction" + ("" if experiment is RFF else f"-{experiment.name}"),
            show_default=True,
            help="Folder for the results; a second call goes on where the first stopped.",
        ),
        of_paper
        and click.option(
            "--published",
            type=click.Path(dir_okay=False, path_type=Path),
            help="CSV of the paper's figures (dataset, method, mse, bold). By default "
            f"{experiment.published} in the data folder or in the folder `paper` beside it.",
        ),
        of_paper
        and click.option("--figures/--no-figures", default=True, help="Also draw the figures."),
        click.option("--json", "as_json", is_flag=True, help="Print the table as JSON."),
    ]

    def decorate(command: Command) -> Command:
        for option in filter(None, reversed(options)):
            command = option(command)
        return command

    return decorate


@reproduce.command(context_settings=SETTINGS)
@_options(RFF)
def rff(**given: Any) -> None:
    """Random Fourier features: the paper's Table 3, Figs. 3 and 4, and Table 4.

    Writes runs.csv (every query), table.csv, table.md, report.html and figures. Stop it with Ctrl-C
    whenever you like: the same command goes on.

    \b
      sumwise reproduce rff --data DIR
      sumwise reproduce rff --data DIR --datasets Abalone,MAT --methods AggMI,Rand --splits 5
    """
    _paper_table(RFF, **given)


@reproduce.command(context_settings=SETTINGS)
@_options(NEURAL)
def neural(**given: Any) -> None:
    """Neural networks: the paper's second table, with dropout among the competitors (§5.4).

    Every question trains a network for 1000 epochs: on two cores, count a minute or two for each
    split of a data set with all twelve methods. Writes the same files as `rff`, and goes on the
    same way after Ctrl-C. Needs JAX: pip install 'sumwise[neural]'.

    \b
      sumwise reproduce neural --data DIR --datasets Housing --methods AggMI,DAMI,Rand --splits 3
      sumwise reproduce neural --data DIR --splits 10
    """
    _paper_table(NEURAL, **given)


@reproduce.command(context_settings=SETTINGS)
@_options(BEYOND)
def beyond(
    data: Path | None, names: str | None, splits: int, jobs: int, out: Path, as_json: bool
) -> None:
    """Our own model and strategies against the paper's, on the paper's splits.

    The paper's model with AggMI beside basis="auto" with IVR, EPIG, AggMI and Random. Writes
    runs.csv, table.csv and table.md; stop it with Ctrl-C, the same command goes on.

    \b
      sumwise reproduce beyond --data DIR
      sumwise reproduce beyond --data DIR --datasets Housing,MAT --splits 3
    """
    experiment = replace(BEYOND, datasets=_datasets(names), splits=splits)
    experiments.check(experiment, data)
    with _all_runs(experiment, data, out, jobs) as found:
        curves = comparison.wanted(found, experiment)
        files = comparison.write(out, curves)
    rows = comparison.average(curves)
    if as_json:
        click.echo(json.dumps([{"dataset": row.dataset, **row.errors} for row in rows]))
        return
    console = Console(highlight=False)
    console.print("\nMean squared error, averaged over queries and splits (bold: the lowest)")
    _print_table(console, comparison.error_grid(rows))
    for line in comparison.findings(rows, curves):
        console.print(line)
    console.print(str(files[0]), markup=False, soft_wrap=True)


def _paper_table(
    table_of: Experiment,
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
    chosen = table_of.only(_listed(methods, table_of.columns, "method"))
    experiment = replace(chosen, datasets=_datasets(names), splits=splits, queries=queries)
    experiments.check(experiment, data)
    paper = reproduction_page.find_published(table_of, published, data)
    talk = Console(stderr=True, highlight=False)
    with runs_on(dask, jobs) as jobs, _all_runs(experiment, data, out, jobs) as curves:
        if not paper.errors:
            talk.print("The published figures are not at hand; --published CSV brings them in.")
        if splits < FEW_SPLITS:
            talk.print(f"With fewer than {FEW_SPLITS} splits a t-test finds few differences.")
        talk.print("Writing tables" + (" and drawing figures" if figures else "") + " …")
        table, files = reproduction_page.write(out, curves, paper, data, figures=figures)
    if as_json:
        parts = ("dataset", "method", "mean", "sem", "best", "published")
        click.echo(json.dumps([{part: getattr(cell, part) for part in parts} for cell in table]))
        return
    console = Console(highlight=False)
    console.print(
        "\nMean squared error, averaged over queries (bold: not significantly worse than the best)"
    )
    _print_table(console, tables.ours(table))
    for line in reproduction_page.summary(table):
        console.print(line)
    console.print(
        f"{files[-1]} ({len(files) - 1} more files beside it)", markup=False, soft_wrap=True
    )


@contextmanager
def _all_runs(
    experiment: Experiment, data: Path | None, out: Path, jobs: int
) -> Iterator[list[Curve]]:
    """All runs, those done before and those done now, while no other process writes to `out`."""
    talk = Console(stderr=True, highlight=False)
    report.check_folder(out)
    n_datasets, n_methods = len(experiment.datasets), len(experiment.methods)
    with results.only_writer(out):
        prints = experiments.fingerprints(experiment, data)
        stored = results.open_results(out, experiment, prints)
        talk.print(
            f"{n_datasets} data sets, {n_methods} methods, {experiment.splits} splits: "
            f"{n_datasets * n_methods * experiment.splits:,} runs of {experiment.queries} queries, "
            f"{jobs} at a time. Results go to {out}.",
            soft_wrap=True,
        )
        try:
            with progress_bar(talk, "running") as on_progress:
                curves = experiments.run(experiment, data, stored, jobs, on_progress)
        except KeyboardInterrupt:
            talk.print(
                f"\nStopped. Finished runs are in {stored.runs}; the same command goes on.",
                soft_wrap=True,
            )
            sys.exit(130)
        yield curves


def _datasets(text: str | None) -> tuple[str, ...]:
    return _listed(text, datasets.NAMES, "data set")


def _listed(text: str | None, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Names with commas between, in any case; all if none is given."""
    if text is None:
        return known
    proper = {name.lower(): name for name in known}
    given = [name.strip() for name in text.split(",") if name.strip()]
    if not given:
        raise SettingError(f"no name was given; there are {', '.join(known)}")
    for name in given:
        if name.lower() not in proper:
            raise SettingError(f"no {what} is called {name!r}; there are {', '.join(known)}")
    return tuple(dict.fromkeys(proper[name.lower()] for name in given))


def _print_table(console: Console, table: TextTable) -> None:
    shown = Table(box=None, padding=(0, 1, 0, 0), collapse_padding=True, pad_edge=False)
    for column in table.columns:  # fits 80 columns
        shown.add_column(column, justify="right" if column else "left", no_wrap=bool(column))
    for r, row in enumerate(table.rows):
        shown.add_row(*(f"[bold]{t}[/]" if (r, c) in table.bold else t for c, t in enumerate(row)))
    console.print(shown)
