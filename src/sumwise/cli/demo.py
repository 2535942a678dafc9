"""`sumwise demo`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import rich_click as click
from rich.columns import Columns
from rich.console import Console
from rich.table import Table

from sumwise import report
from sumwise.cli.common import SETTINGS, progress_bar
from sumwise.experiments import demo as experiment
from sumwise.experiments.protocol import Split


@click.command(context_settings=SETTINGS)
@click.option(
    "--questions",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="District totals to ask for.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Runs of each strategy; more runs, less luck.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="demo-output",
    show_default=True,
    help="Folder for the chart (PNG and HTML).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def demo(questions: int, seeds: int, out: Path, as_json: bool) -> None:
    """Learn about Michigan's schools from totals of districts.

    IVR chooses the districts; beside it Random draws them, and a third run asks for the largest
    first. Prints the errors, the districts asked for, and who won; writes a chart.

    \b
      sumwise demo
      sumwise demo --json | python -m json.tool
    """
    talk = Console(stderr=True, highlight=False)
    report.check_folder(out)  # before the work, not after it
    schools = experiment.load()
    experiment.check(schools, questions, seeds)
    talk.print(_intro(schools, questions, seeds), end="\n\n")
    with progress_bar(talk, "asking") as on_progress:
        result = experiment.run(schools, questions, seeds, on_progress)
    files = report.save(experiment.chart(result), out / "learning-curves")
    if as_json:
        click.echo(json.dumps(_as_json(result, files)))
    else:
        _print_result(Console(highlight=False), result, files)


# --- the demo's words -----------------------------------------------------------------------------


def _intro(schools: Split, questions: int, seeds: int) -> str:
    return (
        f"{len(schools.y_test):,} schools of Michigan, in {len(schools.sets)} districts: what "
        "share of pupils passes the 4th-grade maths test in each? Suppose that only a district's "
        f"total can be measured, at a price. sumwise chooses {questions} of them, one at a time "
        "(IVR), and predicts every school from those totals and three things known of each: pupils "
        "with free or reduced lunch, enrolment, and spending per pupil. Beside it, the same model "
        "learns from districts drawn at random, and from the largest. Runs of each: "
        f"{seeds}."
    )


def _print_result(console: Console, result: experiment.DemoResult, files: list[Path]) -> None:
    seeds, questions = result.errors[experiment.CHOSEN].shape
    console.print("\nError of a school's predicted share (RMSE, percentage points)")
    console.print(_error_table(result, questions))
    console.print(
        f"For scale: guessing the state mean for every school is off by {result.guess_error:.1f}."
        + (f" ± is one standard error over {seeds} seeds." if seeds > 1 else "")
    )
    console.print("\nDistricts that IVR asked for, in order (codes of the state; first seed):")
    console.print(Columns(_district_lines(result), padding=(0, 3), column_first=True, equal=True))
    chosen, random, largest = (result.schools_measured[name] for name in experiment.DEMO.columns)
    console.print(
        f"\nTo be fair: IVR's districts hold {chosen:.0f} of the {result.n_schools:,} schools, "
        f"Random's {random:.0f} (mean of seeds), the largest {largest:.0f}. The comparison counts "
        "questions; if your price grows with the size of a set, weigh that in. Seeds change the "
        "model's random features, and what Random draws."
    )
    console.print(f"\n{experiment.verdict(result.errors).sentence}\n", style="bold")
    for path in files:
        console.print(f"Chart: {path}", markup=False, soft_wrap=True)
    console.print(f"Asking and learning took {result.seconds:.1f} s.")


def _error_table(result: experiment.DemoResult, questions: int) -> Table:
    table = Table()
    for name in ("questions", "IVR", "Random", "Random needs\nfor IVR's", "Largest first"):
        table.add_column(name, justify="right")
    for line in experiment.table(result.errors):
        needs = f"more than {questions}" if line.random_needs is None else str(line.random_needs)
        table.add_row(
            str(line.question),
            _with_error(line.chosen, line.chosen_error),
            _with_error(line.random, line.random_error),
            needs,
            _with_error(line.largest, line.largest_error),
        )
    return table


def _with_error(mean: float, error: float | None) -> str:
    return f"{mean:.1f}" if error is None else f"{mean:.1f} ± {error:.1f}"


def _district_lines(result: experiment.DemoResult) -> list[str]:
    return [
        f"{number:>3}. district {district.code} "
        f"({district.n_schools} school{'' if district.n_schools == 1 else 's'})"
        for number, district in enumerate(result.asked, start=1)
    ]


def _as_json(result: experiment.DemoResult, files: list[Path]) -> dict[str, Any]:
    return {
        "data": experiment.DATA,
        "schools": result.n_schools,
        "districts": result.n_districts,
        "unit": "percentage points",
        "table": [asdict(line) for line in experiment.table(result.errors)],
        "guess_error": result.guess_error,
        "asked": [asdict(district) for district in result.asked],
        "schools_measured": dict(result.schools_measured),
        "verdict": asdict(experiment.verdict(result.errors)),
        "errors": {name: runs.tolist() for name, runs in result.errors.items()},
        "files": [str(path) for path in files],
        "seconds": result.seconds,
    }
