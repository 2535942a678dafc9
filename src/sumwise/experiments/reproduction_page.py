"""What a reproduction of the paper writes: table.csv, table.md, report.html and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sumwise
from sumwise.experiments import chosen_sets, datasets, results, tables
from sumwise.experiments.chosen_sets import METHOD
from sumwise.experiments.comparison import Errors
from sumwise.experiments.datasets import NAMES, Dataset
from sumwise.experiments.protocol import RFF, Curve, Experiment
from sumwise.report.grid import curve_grid
from sumwise.report.page import FORMATS, Section, TextTable, page, save, save_page
from sumwise.util.files import write_file
from sumwise.util.text import count

IN_FIGURE_3: Final = NAMES[:9]
SECONDS: Final = "published_seconds_abalone.csv"


@dataclass(frozen=True, slots=True)
class Paper:
    """The published figures, as far as they are at hand."""

    experiment: Experiment
    errors: Mapping[tuple[str, str], tuple[float, bool]]
    seconds: Mapping[str, float]  # by method, on Abalone

    @property
    def is_rff(self) -> bool:
        """Fig. 4 and Table 4 are of this experiment alone."""
        return self.experiment.name == RFF.name


def find_published(experiment: Experiment, given: Path | None, data: Path | None) -> Paper:
    """The paper's figures: from the file named, else from the data folder or `paper` beside it."""
    folders = [] if given is None else [given.parent]
    folders += [] if data is None else [data, data / ".." / "paper"]
    errors = given or _first_file(folders, experiment.published)
    seconds = _first_file(folders, SECONDS) if experiment.name == RFF.name else None
    return Paper(
        experiment,
        tables.read_errors(errors) if errors else {},
        tables.read_seconds(seconds) if seconds else {},
    )


def _first_file(folders: Sequence[Path], name: str) -> Path | None:
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def write(
    folder: Path, curves: Sequence[Curve], paper: Paper, data: Path | None, *, figures: bool
) -> tuple[list[tables.Cell], list[Path]]:
    """All files of a report; returns the table and where they are."""
    errors = results.by_dataset(curves)
    table = tables.cells(errors, paper.errors)
    title, lead = paper.experiment.title, _lead(curves)
    findings, grids = summary(table), tables.sections(table)
    files = [folder / "table.csv", folder / "table.md"]
    tables.write_csv(files[0], table)
    write_file(files[1], tables.markdown(title, [lead, *findings], grids))
    sections = [Section("What came out", findings), *grids, *_training_time(curves, paper)]
    if figures:
        abalone = datasets.load("Abalone", data) if paper.is_rff and "Abalone" in errors else None
        charts = charts_of(errors, abalone)
        for stem, chart in charts.items():
            files += save(chart, folder / stem, FORMATS)
        sections.append(Section("Figures", charts=list(charts.values())))
    return table, [*files, save_page(page(title, lead, sections), folder / "report.html")]


def summary(table: Sequence[tables.Cell]) -> list[str]:
    """The findings in words."""
    datasets = list(dict.fromkeys(cell.dataset for cell in table))
    best: dict[str, int] = {}
    for cell in table:
        best[cell.method] = best.get(cell.method, 0) + cell.best
    lines = [
        f"Best, or not significantly worse than the best (5 %), on {len(datasets)} data sets: "
        + ", ".join(f"{method} {count}" for method, count in best.items())
        + "."
    ]
    ratios = [c.mean / c.published for c in table if c.published and c.method == "AggMI"]
    if ratios:
        lines.append(
            "AggMI's error is within 15 % of the published one, or below it, on "
            f"{sum(ratio <= 1.15 for ratio in ratios)} of {len(ratios)} data sets."
        )
    return lines


def _lead(curves: Sequence[Curve]) -> str:
    names, methods, splits = (
        len({getattr(curve, part) for curve in curves}) for part in ("dataset", "method", "split")
    )
    return (
        f"Data sets: {names}. Methods: {methods}. Splits: {splits}. Queries: {len(curves[0].mse)}. "
        f"sumwise {sumwise.__version__}. Mean squared error of individual outputs scaled to "
        "[-1, 1], averaged over queries and splits."
    )


def _training_time(curves: Sequence[Curve], paper: Paper) -> list[Section]:
    """Table 4, measured here, if Abalone was run."""
    runs = results.by_dataset(curves, "seconds").get("Abalone", {})
    if not runs:
        return []
    words = "Ours: seconds for all queries of one run, mean over splits, on the machine at hand"
    times = [(method, f"{each.sum(axis=1).mean():.3f}") for method, each in runs.items()]
    table = TextTable(("method", "ours"), times)
    if paper.is_rff:
        words += (
            "; embedding the sets, done once for all methods, is not in them. Published: the paper "
            "does not say whether its seconds are of one run or of all splits"
        )
        known = {method: f"{seconds:,.0f}" for method, seconds in paper.seconds.items()}
        rows = [(method, time, known.get(method, "")) for method, time in times]
        table = TextTable(("method", "ours", "published"), rows)
    return [Section("Training time on Abalone", [f"{words}."], table=table)]


# --- figures --------------------------------------------------------------------------------------


def charts_of(curves: Mapping[str, Errors], abalone: Dataset | None = None) -> dict[str, Any]:
    """Every figure there are data for: the stem of its files, and an Altair chart.

    `error-per-query` has the data sets of Fig. 3, `error-per-query-others` any further ones, and
    `chosen-sets` is Fig. 4.

    Args:
        curves: The errors for each data set.
        abalone: The individuals for Fig. 4, which is left out without them.
    """
    first = {name: curves[name] for name in IN_FIGURE_3 if name in curves}
    others = {name: curves[name] for name in curves if name not in first}
    drawn: dict[str, Any] = {
        stem: curve_grid(panels, title=headline(panels))
        for stem, panels in (("error-per-query", first), ("error-per-query-others", others))
        if panels
    }
    if abalone is not None:
        drawn["chosen-sets"] = chosen_sets.selection_chart(abalone)
    return drawn


def headline(curves: Mapping[str, Errors]) -> str:
    """On how many data sets AggMI's error, averaged over queries and splits, is the lowest."""
    if not all(METHOD in errors for errors in curves.values()):
        return "Error of individual predictions after each query"
    lowest = [
        errors[METHOD].mean() <= min(runs.mean() for runs in errors.values())
        for errors in curves.values()
    ]
    return (
        f"{METHOD}'s error, averaged over all queries, is the lowest on "
        f"{sum(lowest) or 'none'} of {count(len(lowest), 'data set')}"
    )
