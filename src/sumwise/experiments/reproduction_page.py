"""What a reproduction of the paper writes: table.csv, table.md, report.html and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sumwise
from sumwise.experiments import datasets, results, tables
from sumwise.experiments import figures as drawing
from sumwise.experiments.protocol import RFF, Curve, Experiment
from sumwise.report.page import FORMATS, Section, TextTable, page, save, save_page

SECONDS: Final = "published_seconds_abalone.csv"
BOLD: Final = (
    "Bold: the best of the row, or not significantly worse than the best (5 %, paired t-test over "
    "splits)."
)
LOWER: Final = "Bold: ours is lower by more than two of our standard errors."


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
    errors = [given] if given is not None else [folder / experiment.published for folder in folders]
    found = [path for path in errors if path == given or path.is_file()]
    seconds = [folder / SECONDS for folder in folders if (folder / SECONDS).is_file()]
    known = [tables.read_seconds(path) for path in seconds if experiment.name == RFF.name]
    return Paper(
        experiment, tables.read_errors(found[0]) if found else {}, known[0] if known else {}
    )


def write(
    folder: Path, curves: Sequence[Curve], paper: Paper, data: Path | None, *, figures: bool
) -> tuple[list[tables.Cell], list[Path]]:
    """All files of a report; returns the table and where they are."""
    errors = results.by_dataset(curves)
    table = tables.cells(errors, paper.errors)
    tables.write_csv(folder / "table.csv", table)
    (folder / "table.md").write_text(_markdown(table, curves, paper), encoding="utf-8")
    files = [folder / "table.csv", folder / "table.md"]
    charts: dict[str, Any] = {}
    if figures:
        abalone = datasets.load("Abalone", data) if paper.is_rff and "Abalone" in errors else None
        charts = drawing.charts(errors, abalone)
        files += [
            path for stem, chart in charts.items() for path in save(chart, folder / stem, FORMATS)
        ]
    sections = [Section("What came out", summary(table))]
    sections += [Section(title, words, table=grid) for title, words, grid in _grids(table)]
    sections += _training_time(curves, paper)
    if charts:
        sections.append(Section("Figures", charts=list(charts.values())))
    html = page(paper.experiment.title, _lead(curves), sections)
    return table, [*files, save_page(html, folder / "report.html")]


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
    pairs = [c for c in table if c.published is not None and c.method == "AggMI"]
    if pairs:
        near = sum(c.mean <= 1.15 * c.published for c in pairs if c.published is not None)
        lines.append(
            f"AggMI's error is within 15 % of the published one, or below it, on {near} of "
            f"{len(pairs)} data sets."
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


def _grids(table: Sequence[tables.Cell]) -> list[tuple[str, list[str], TextTable]]:
    """Headings, words and tables, for table.md and the page."""
    grids = [("Ours", [BOLD], tables.ours(table))]
    if any(cell.published is not None for cell in table):
        grids.append(("Published", [], tables.published(table)))
        grids.append(("Ours less published", [LOWER], tables.differences(table)))
    return grids


def _markdown(table: Sequence[tables.Cell], curves: Sequence[Curve], paper: Paper) -> str:
    parts = [f"# {paper.experiment.title}", _lead(curves), *summary(table)]
    for title, words, grid in _grids(table):
        parts += [f"## {title}", *words, tables.markdown(grid)]
    return "\n\n".join(parts) + "\n"


def _training_time(curves: Sequence[Curve], paper: Paper) -> list[Section]:
    """Table 4, measured here, if Abalone was run."""
    runs = results.by_dataset(curves, "seconds").get("Abalone", {})
    times = {method: float(each.sum(axis=1).mean()) for method, each in runs.items()}
    words = "Ours: seconds for all queries of one run, mean over splits, on the machine at hand"
    table = TextTable(("method", "ours"), [(m, f"{time:.3f}") for m, time in times.items()])
    if paper.is_rff:
        words += (
            "; embedding the sets, done once for all methods, is not in them. Published: the paper "
            "does not say whether its seconds are of one run or of all splits"
        )
        known = {method: f"{seconds:,.0f}" for method, seconds in paper.seconds.items()}
        rows = [(method, time, known.get(method, "")) for method, time in table.rows]
        table = TextTable((*table.columns, "published"), rows)
    return [Section("Training time on Abalone", [f"{words}."], table=table)] if runs else []
