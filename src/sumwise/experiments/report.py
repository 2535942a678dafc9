"""What a reproduction leaves behind: table.csv, table.md, report.html and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sumwise
from sumwise.experiments import figures as drawing
from sumwise.experiments import results, tables
from sumwise.experiments.protocol import RFF, Curve, Experiment
from sumwise.experiments.reproduce import load
from sumwise.report.page import Section, Table, page, save_page
from sumwise.util.shapes import Float

SECONDS = "published_seconds_abalone.csv"


@dataclass(frozen=True, slots=True)
class Paper:
    """The published figures, as far as they are at hand."""

    experiment: Experiment
    errors: Mapping[tuple[str, str], tuple[float, bool]]
    seconds: Path | None


def find_published(experiment: Experiment, given: Path | None, data: Path | None) -> Paper:
    """The paper's figures: from the file named, else from the data folder or `paper` beside it."""
    folders = [] if given is None else [given.parent]
    folders += [] if data is None else [data, data / ".." / "paper"]
    errors = [given] if given is not None else [folder / experiment.published for folder in folders]
    seconds = [folder / SECONDS for folder in folders if (folder / SECONDS).is_file()]
    if experiment is not RFF:  # Table 4 is of that one
        seconds = []
    for path in seconds:
        drawing.read_seconds(path)  # a damaged file is refused now, not after the work
    for path in errors:
        if path == given or path.is_file():
            return Paper(experiment, tables.read_published(path), next(iter(seconds), None))
    return Paper(experiment, {}, next(iter(seconds), None))


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
        in_figure_4 = paper.experiment is RFF and "Abalone" in errors
        abalone = load("Abalone", data) if in_figure_4 else None
        charts = drawing.charts(errors, abalone)
        files += drawing.write_figures(folder, charts)
    sections = _sections(table, curves, list(charts.values()), paper)
    html = page(paper.experiment.title, _lead(curves), sections)
    return table, [*files, save_page(html, folder / "report.html")]


def summary(table: Sequence[tables.Cell]) -> list[str]:
    """The findings in words."""
    datasets = list(dict.fromkeys(cell.dataset for cell in table))
    best: dict[str, int] = {}
    for cell in table:
        best[cell.method] = best.get(cell.method, 0) + cell.best
    lines = [
        f"Best, or not told from the best at 5 %, on {len(datasets)} data sets: "
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


def _markdown(table: Sequence[tables.Cell], curves: Sequence[Curve], paper: Paper) -> str:
    parts = [f"# {paper.experiment.title}", _lead(curves), *summary(table)]
    parts += ["## Ours", _BOLD, tables.markdown(tables.ours(table))]
    if any(cell.published is not None for cell in table):
        parts += ["## Published", tables.markdown(tables.published(table))]
        parts += ["## Ours less published", _LOWER, tables.markdown(tables.differences(table))]
    return "\n\n".join(parts) + "\n"


_BOLD = "Bold: not told from the best of the row at 5 % by a paired t-test over splits."
_LOWER = "Bold: ours is lower by more than two of our standard errors."


def _sections(
    table: Sequence[tables.Cell], curves: Sequence[Curve], charts: Sequence[Any], paper: Paper
) -> list[Section]:
    sections = [
        Section("What came out", summary(table)),
        Section("Ours", [_BOLD], table=_table(tables.ours(table))),
    ]
    if any(cell.published is not None for cell in table):
        sections += [
            Section("Published", table=_table(tables.published(table))),
            Section("Ours less published", [_LOWER], table=_table(tables.differences(table))),
        ]
    seconds: dict[str, list[Float[np.ndarray, " T"]]] = {
        curve.method: [] for curve in curves if curve.dataset == "Abalone"
    }
    for curve in curves:
        if curve.dataset == "Abalone":
            seconds[curve.method].append(curve.seconds)
    if seconds:
        sections.append(_training_time({m: np.array(runs) for m, runs in seconds.items()}, paper))
    if charts:
        sections.append(Section("Figures", charts=charts))
    return sections


def _table(grid: tables.Grid) -> Table:
    return Table(grid.columns, grid.rows, bold=grid.bold)


def _training_time(seconds: Mapping[str, Float[np.ndarray, "S T"]], paper: Paper) -> Section:
    """Table 4, measured here."""
    rows = drawing.training_seconds(seconds, paper.seconds)
    words = "Ours: seconds for all queries of one run, mean over splits, on the machine at hand"
    if paper.experiment is not RFF:
        plain = [(row["method"], f"{row['seconds']:.3f}") for row in rows]
        return Section(
            "Training time on Abalone", [f"{words}."], table=Table(("method", "ours"), plain)
        )
    text = [
        (row["method"], f"{row['seconds']:.3f}", _number(row["published"], ",.0f")) for row in rows
    ]
    return Section(
        "Training time on Abalone",
        [
            f"{words}; embedding the sets, done once for all methods, is not in them.",
            "Published: the paper does not say whether its seconds are of one run or of all "
            "splits.",
        ],
        table=Table(("method", "ours", "published"), text),
    )


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
