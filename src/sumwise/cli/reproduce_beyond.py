"""`sumwise reproduce beyond`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import rich_click as click
from rich.console import Console
from rich.table import Table

from sumwise import report
from sumwise.cli.common import SETTINGS, progress_bar
from sumwise.errors import SettingError
from sumwise.experiments import beyond as experiment
from sumwise.experiments import datasets, results


@click.command(context_settings=SETTINGS)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="SUMWISE_DATA",
    help="Folder with libsvm/ and climate/; SUMWISE_DATA says the same.",
)
@click.option("--datasets", "names", help="Names with commas between; all 32 if left out.")
@click.option("--splits", type=click.IntRange(1), default=10, show_default=True)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    show_default="all cores",
    help="Runs at the same time; the figures do not depend on it.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="reproduction-beyond",
    show_default=True,
    help="Folder for the results; a second call goes on where the first stopped.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
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
    talk = Console(stderr=True, highlight=False)
    wanted = _listed(names)
    report.check_folder(out)
    with results.only_writer(out):
        try:
            with progress_bar(talk, "running") as on_progress:
                kept = out / "runs.csv"
                runs = experiment.run(wanted, splits, data, kept, jobs, on_progress)
        except KeyboardInterrupt:
            talk.print("\nStopped. Finished runs are kept; the same command goes on.")
            sys.exit(130)
        files = experiment.write(out, runs)
    rows = experiment.standings(runs)
    if as_json:
        click.echo(json.dumps([{"dataset": row.dataset, **row.errors} for row in rows]))
        return
    _print(Console(highlight=False), rows, runs, files)


def _print(
    console: Console,
    rows: list[experiment.Standing],
    runs: list[experiment.Run],
    files: list[Path],
) -> None:
    grid = experiment.grid(rows)
    console.print("\nMean squared error, averaged over queries and splits (bold: the lowest)")
    shown = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for column in grid.columns:
        shown.add_column(column, justify="right" if column else "left")
    for r, row in enumerate(grid.rows):
        shown.add_row(*(f"[bold]{t}[/]" if (r, c) in grid.bold else t for c, t in enumerate(row)))
    console.print(shown)
    for line in experiment.findings(rows, runs):
        console.print(line)
    console.print(str(files[0]), markup=False, soft_wrap=True)


def _listed(text: str | None) -> tuple[str, ...]:
    if text is None:
        return datasets.NAMES
    proper = {name.lower(): name for name in datasets.NAMES}
    given = [name.strip().lower() for name in text.split(",") if name.strip()]
    unknown = [name for name in given if name not in proper]
    if unknown or not given:
        raise SettingError(
            f"no data set is called {(unknown or [text])[0]!r}; there are "
            f"{', '.join(datasets.NAMES)}"
        )
    return tuple(dict.fromkeys(proper[name] for name in given))
