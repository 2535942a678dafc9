"""`sumwise demo`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import rich_click as click

from sumwise.cli import options
from sumwise.cli.output import show, show_json, show_rich, show_table, talk
from sumwise.cli.progress import progress_bar
from sumwise.experiments import demo as experiment
from sumwise.experiments.comparison import MEASUREMENTS
from sumwise.experiments.protocol import Split, check_queries
from sumwise.report.page import check_folder, save
from sumwise.util.text import count


@options.command(
    options.count("--questions", "Number of district totals to ask for.", 30),
    options.count("--seeds", "Runs of each strategy; more runs reduce the influence of chance.", 8),
    options.folder("demo-output", "Folder for the chart (PNG and HTML)."),
    options.as_json,
)
def demo(questions: int, seeds: int, out: Path) -> None:
    """Learn about Michigan's schools from totals of districts.

    Compares three ways to choose districts: IVR, at random, and the largest first. Prints the
    errors, the districts IVR asked for, and which way won; writes a chart.

    \b
      sumwise demo
      sumwise demo --json | python -m json.tool
    """
    check_folder(out)  # before the work, not after it
    schools = experiment.load()
    check_queries(questions, len(schools.sets), experiment.DATA)
    talk(_intro(schools, questions, seeds))
    click.echo(err=True)
    with progress_bar("asking") as on_progress:
        result = experiment.run(schools, questions, seeds, on_progress)
    files = save(experiment.chart(result), out / "learning-curves")
    found = {"table": experiment.table(result.errors), "files": files}
    found["verdict"] = result.verdict
    show_json({"data": experiment.DATA, "unit": "percentage points", **asdict(result), **found})
    _show_result(result, files)


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


def _show_result(result: experiment.DemoResult, files: list[Path]) -> None:
    from rich.columns import Columns

    seeds, questions = result.errors[experiment.CHOSEN].shape
    show()
    show("Error of a school's predicted share (RMSE, percentage points)")
    heads = ("questions", "IVR", "Random", "Random needs\nfor IVR's", "Largest first")
    rows = [
        (
            str(row["question"]),
            _with_error(row, "chosen"),
            _with_error(row, "random"),
            MEASUREMENTS.needed(row["random_needs"], questions),
            _with_error(row, "largest"),
        )
        for row in experiment.table(result.errors)
    ]
    show_table(heads, rows, right=heads, show_edge=True)
    show(
        f"For scale: guessing the state mean for every school is off by {result.guess_error:.1f}."
        + (f" ± is one standard error over {seeds} seeds." if seeds > 1 else "")
    )
    show()
    show("Districts that IVR asked for, in order (codes of the state; first seed):")
    districts = [
        f"{number:>3}. district {district.code} ({count(district.n_schools, 'school')})"
        for number, district in enumerate(result.asked, start=1)
    ]
    show_rich(Columns(districts, padding=(0, 3), column_first=True, equal=True))
    chosen, random, largest = (result.schools_measured[name] for name in experiment.DEMO.columns)
    show()
    show(
        f"To be fair: IVR's districts hold {chosen:.0f} of the {result.schools:,} schools, "
        f"Random's {random:.0f} (mean of seeds), the largest {largest:.0f}. The comparison counts "
        "questions; if your price grows with the size of a set, take that into account. Seeds "
        "change the model's random features, and the districts that Random draws."
    )
    show()
    show(result.verdict.sentence, bold=True)
    show()
    for path in files:
        show(f"Chart: {path}", wrap=False)
    show(f"Asking and learning took {result.seconds:.1f} s.")


def _with_error(row: dict[str, Any], name: str) -> str:
    error = row[f"{name}_error"]
    return f"{row[name]:.1f}" + ("" if error is None else f" ± {error:.1f}")
