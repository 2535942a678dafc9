"""`sumwise simulate`."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import rich_click as click
from rich.console import Console
from rich.table import Table

from sumwise import report
from sumwise.cli.cluster import dask_option, runs_on
from sumwise.cli.common import SETTINGS, progress_bar
from sumwise.errors import SettingError
from sumwise.experiments import simulate as experiment
from sumwise.experiments.datasets import Labelled, read_labelled
from sumwise.experiments.paired import savings, standings
from sumwise.experiments.protocol import QUERIES, Experiment
from sumwise.experiments.simulation_page import needs, simulation_page
from sumwise.experiments.verdict import caveats, number_format, span, verdict
from sumwise.report.page import save_page
from sumwise.util.text import count


@click.command(context_settings=SETTINGS)
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--by", multiple=True, required=True, help="Column that names the group; may be repeated."
)
@click.option("--y", required=True, help="Target column, known for every row.")
@click.option(
    "--x",
    multiple=True,
    help="Input column; may be repeated. All other columns that hold numbers if left out.",
)
@click.option(
    "--weights",
    type=click.Choice(experiment.WEIGHTS),
    default="sum",
    show_default=True,
    help="What a measurement of a group tells.",
)
@click.option(
    "--methods",
    multiple=True,
    type=click.Choice(experiment.STRATEGIES),
    metavar="NAME",
    help=f"Strategy to compare; may be repeated: {', '.join(experiment.STRATEGIES)}. If left out, "
    "all of them; Rand is always there.",
)
@click.option(
    "--splits",
    type=click.IntRange(min=1),
    default=experiment.SPLITS,
    show_default=True,
    help="Ways to divide the groups; more splits, less luck.",
)
@click.option(
    "--queries",
    type=click.IntRange(min=1),
    help=f"Groups to measure in each split. {QUERIES}, or all there are to learn from.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default="all cores",
    help="Splits at the same time; the result does not depend on it.",
)
@dask_option
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default="simulation.html",
    show_default=True,
    help="The report.",
)
@click.option("--force", is_flag=True, help="Overwrite the report if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def simulate(
    data: Path,
    by: tuple[str, ...],
    y: str,
    x: tuple[str, ...],
    weights: str,
    methods: tuple[str, ...],
    splits: int,
    queries: int | None,
    jobs: int,
    dask: str | None,
    out: Path,
    force: bool,
    as_json: bool,
) -> None:
    """Find out which strategy wins on data like yours.

    DATA is a table (CSV or Parquet) in which every individual's target is known. Each strategy
    learns from totals of groups alone, and is tested on individuals of groups that were held back.
    Prints who wins, by how much, and how many measurements that saves over drawing groups at
    random; writes a report that opens in any browser, offline.

    \b
      sumwise simulate schools.csv --by district --y math4
      sumwise simulate schools.csv --by district --y math4 --methods IVR --methods AggMI
      sumwise simulate fields.parquet --by state --y yield --x rain --x soil
    """
    talk = Console(stderr=True, highlight=False, markup=False, emoji=False)
    _refuse_to_overwrite(out, data, force)  # before the work, not after it
    table = read_labelled(data, by, y, x)
    plan = experiment.experiment(table, methods or experiment.STRATEGIES, splits, queries, weights)
    talk.print(_intro(table, plan), end="\n\n")
    with runs_on(dask, jobs) as jobs, progress_bar(talk, "simulating") as on_progress:
        result = experiment.run(table, plan, jobs, on_progress)
    page = simulation_page(table, plan, result)
    _refuse_to_overwrite(out, data, force)
    save_page(page, out)
    if as_json:
        click.echo(json.dumps(_as_json(table, plan, result, out)))
    else:
        console = Console(highlight=False, markup=False, emoji=False)
        _print_result(console, table, plan, result, out)


def _refuse_to_overwrite(out: Path, data: Path, force: bool) -> None:
    report.check_folder(out.parent)
    if out.exists() and data.exists() and out.samefile(data):
        raise SettingError(f"{out} is the data themselves; name another file with --out")
    if out.exists() and not force:
        raise SettingError(f"{out} exists; name another file with --out, or pass --force")


# --- words --------------------------------------------------------------------------------------


def _intro(table: Labelled, plan: Experiment) -> str:
    learned = experiment.training_groups(table)
    text = (
        f"{len(table.data.y):,} individuals in {table.n_groups:,} groups by {', '.join(table.by)}; "
        f"target {table.y}; inputs {', '.join(table.x)}."
    )
    if table.left_out:
        text += f" Left out, because they hold no numbers: {', '.join(table.left_out)}."
    return (
        f"{text} In each of {count(plan.splits, 'split')}, {len(plan.methods)} strategies measure "
        f"{plan.queries} of {learned:,} groups, one at a time, and are tested on the individuals "
        f"of the other {table.n_groups - learned:,}."
    )


def _print_result(
    console: Console,
    table: Labelled,
    plan: Experiment,
    result: experiment.Simulation,
    out: Path,
) -> None:
    show, found = number_format(result.errors), verdict(result.errors)
    console.print(f"\nError of {table.y} (root mean square), lowest average first")
    console.print(_table(plan, result))
    console.print(
        f"For scale: predicting the mean for everyone is off by {show(float(result.guess.mean()))}."
        + (f" ± is one standard error over {plan.splits} splits." if plan.splits > 1 else "")
    )
    console.print(f"\n{found.headline}. {' '.join(found.sentences)}\n", style="bold")
    for caveat in caveats(table, plan, result):
        console.print(f"- {caveat}")
    console.print(f"\nReport: {out}", soft_wrap=True)
    console.print(f"Simulating took {result.seconds:.1f} s.")


def _table(plan: Experiment, result: experiment.Simulation) -> Table:
    show, best = number_format(result.errors), verdict(result.errors).best
    table = Table()
    for name in ("strategy", "average error", "after the\nlast"):
        table.add_column(name, justify="left" if name == "strategy" else "right")
    table.add_column("difference to Random\n(95 % interval)", justify="right")
    table.add_column("Random needs\nfor the last", justify="right")
    for line in standings(result.errors):
        gap, spread = line.difference, line.standard_error
        interval = "" if gap is None or gap.low is None else f" ({span(gap, show)})"
        table.add_row(
            line.method,
            show(line.average) + ("" if spread is None else f" ± {show(spread)}"),
            show(line.last),
            "" if gap is None else show(gap.mean) + interval,
            "" if gap is None else needs(line.random_needs, plan.queries),
            style="bold" if line.method == best else "",
        )
    return table


def _as_json(
    table: Labelled, plan: Experiment, result: experiment.Simulation, out: Path
) -> dict[str, Any]:
    found = verdict(result.errors)
    return {
        "data": table.file,
        "by": table.by,
        "y": table.y,
        "x": table.x,
        "left_out": table.left_out,
        "individuals": len(table.data.y),
        "groups": table.n_groups,
        "training_groups": experiment.training_groups(table),
        "plan": {
            "methods": plan.columns,
            "splits": plan.splits,
            "queries": plan.queries,
            "weights": plan.weights,
        },
        "strategies": [asdict(line) for line in standings(result.errors)],
        "savings": {
            "strategy": found.focus,
            "table": [asdict(line) for line in savings(result.errors, found.focus)],
        },
        "verdict": asdict(found),
        "caveats": caveats(table, plan, result),
        "guess_error": float(result.guess.mean()),
        "errors": {name: runs.tolist() for name, runs in result.errors.items()},
        "report": str(out),
        "seconds": result.seconds,
    }
