"""What a reproduction leaves behind: table.csv, table.md, report.html and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sumwise
from sumwise.errors import DataError
from sumwise.experiments import figures as drawing
from sumwise.experiments import results, tables
from sumwise.experiments.protocol import Curve
from sumwise.experiments.reproduce import Plan, load
from sumwise.plots.page import Section, Table, page

Published = Mapping[tuple[str, str], tuple[float, bool]]

SHOWN = ("Abalone", "Cadata", "Cpu", "Housing", "Mg", "Space", "eFFP", "bFFP", "Tave-wt")  # Fig. 3


def find_published(given: Path | None, data: Path | None) -> Published:
    """The paper's figures: from the file named, else from the data folder or `paper` beside it."""
    if given is not None:
        return tables.read_published(given)
    for folder in () if data is None else (data, data / ".." / "paper"):
        path = folder / "published_mse_rff.csv"
        if path.is_file():
            return tables.read_published(path)
    return {}


def write(
    folder: Path, curves: Sequence[Curve], published: Published, plan: Plan, *, figures: bool
) -> tuple[list[tables.Cell], list[Path]]:
    """All files of a report; returns the table and where they are."""
    errors = results.by_dataset(curves)
    table = tables.cells(errors, published)
    tables.write_csv(folder / "table.csv", table)
    (folder / "table.md").write_text(_markdown(table, plan), encoding="utf-8")
    files = [folder / "table.csv", folder / "table.md"]
    charts: list[Any] = []
    if figures:
        charts, drawn = _figures(folder, errors, plan)
        files += drawn
    html = page("The paper's table, run again", _lead(plan), _sections(table, curves, charts))
    (folder / "report.html").write_text(html, encoding="utf-8")
    return table, [*files, folder / "report.html"]


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


def _lead(plan: Plan) -> str:
    return (
        f"{len(plan.names)} data sets, {len(plan.methods)} methods, {plan.splits} splits, "
        f"{plan.queries} queries; sumwise {sumwise.__version__}. Mean squared error of individual "
        "outputs scaled to [-1, 1], averaged over queries and splits."
    )


def _markdown(table: Sequence[tables.Cell], plan: Plan) -> str:
    parts = ["# The paper's table, run again", _lead(plan), *summary(table)]
    parts += ["## Ours", _BOLD, tables.markdown(tables.ours(table))]
    if any(cell.published is not None for cell in table):
        parts += ["## Published", tables.markdown(tables.published(table))]
        parts += ["## Ours less published", _LOWER, tables.markdown(tables.differences(table))]
    return "\n\n".join(parts) + "\n"


_BOLD = "Bold: not told from the best of the row at 5 % by a paired t-test over splits."
_LOWER = "Bold: ours is lower by more than two of our standard errors."


def _sections(
    table: Sequence[tables.Cell], curves: Sequence[Curve], charts: Sequence[Any]
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
    seconds = drawing.training_seconds(curves, None)
    if seconds:
        rows = [(str(row["method"]), f"{row['seconds']:.3f}") for row in seconds]
        sections.append(
            Section(
                "Training time on Abalone",
                ["Seconds for all queries of a run, mean over splits, on the machine at hand."],
                table=Table(("method", "seconds"), rows),
            )
        )
    if charts:
        sections.append(Section("Figures", charts=charts))
    return sections


def _table(grid: tables.Grid) -> Table:
    return Table(grid.columns, grid.rows, bold=grid.bold)


def _figures(
    folder: Path, errors: Mapping[str, Mapping[str, Any]], plan: Plan
) -> tuple[list[Any], list[Path]]:
    raise DataError("drawing is not wired up")
