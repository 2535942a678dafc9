"""The paper's table: error averaged over queries, who is best, and the published figures.

A method is bold if a paired t-test over splits does not find it worse than the best of its row at
the 5 % level.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from sumwise.errors import DataError
from sumwise.experiments.paired import standard_error
from sumwise.report.page import TextTable
from sumwise.util.shapes import Float

LEVEL: Final = 0.05


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of the table, and the paper's."""

    dataset: str
    method: str
    mean: float
    sem: float | None  # None with one split
    best: bool  # or not significantly worse than the best
    published: float | None
    published_best: bool


def cells(
    errors: Mapping[str, Mapping[str, Float[np.ndarray, "S T"]]],
    published: Mapping[tuple[str, str], tuple[float, bool]],
) -> list[Cell]:
    """A cell per data set and method; `errors` as `results.by_dataset` gives them."""
    out = []
    for dataset, methods in errors.items():
        averages = {method: runs.mean(axis=1) for method, runs in methods.items()}
        bold = not_worse(averages)
        for method, splits in averages.items():
            figure, best = published.get((dataset, method), (None, False))
            sem = standard_error(splits)
            out.append(
                Cell(dataset, method, float(splits.mean()), sem, method in bold, figure, best)
            )
    return out


def not_worse(averages: Mapping[str, Float[np.ndarray, " S"]]) -> set[str]:
    """The best method, and those that a paired t-test does not find worse at the 5 % level."""
    from scipy.stats import ttest_rel

    best = min(averages, key=lambda method: averages[method].mean())
    out = {best}
    for method, splits in averages.items():
        difference = splits - averages[best]
        if method == best or len(splits) < 2:
            continue
        if np.ptp(difference) <= 1e-12 * abs(difference).max():  # a test would divide by zero
            worse = bool(difference.any())
        else:
            worse = not float(ttest_rel(splits, averages[best]).pvalue) >= LEVEL
        if not worse:
            out.add(method)
    return out


def read_published(path: Path) -> dict[tuple[str, str], tuple[float, bool]]:
    """The paper's figures: a CSV with dataset, method, mse and bold (1 or 0)."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        return {
            (row["dataset"], row["method"]): (float(row["mse"]), row["bold"] == "1") for row in rows
        }
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise DataError(
            f"{path} is no table of published figures ({error}); it needs the columns dataset, "
            "method, mse and bold"
        ) from error


def write_csv(path: Path, table: Sequence[Cell]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(("dataset", "method", "mean", "sem", "best", "published"))
        for c in table:
            sem = "" if c.sem is None else f"{c.sem:.3g}"
            published = "" if c.published is None else c.published
            lines.writerow((c.dataset, c.method, f"{c.mean:.6g}", sem, int(c.best), published))


# --- the paper's form -----------------------------------------------------------------------------


def ours(table: Sequence[Cell]) -> TextTable:
    """Our figures, as the paper prints its own."""
    return _grid(table, lambda cell: f"{cell.mean:.3f}", lambda cell: cell.best, count=True)


def published(table: Sequence[Cell]) -> TextTable:
    return _grid(
        table,
        lambda cell: "" if cell.published is None else f"{cell.published:.3f}",
        lambda cell: cell.published_best,
        count=True,
    )


def differences(table: Sequence[Cell]) -> TextTable:
    """Ours less the published; bold where ours is lower by more than two standard errors."""
    return _grid(
        table,
        lambda cell: "" if cell.published is None else f"{cell.mean - cell.published:+.3f}",
        lambda cell: (
            cell.published is not None
            and cell.sem is not None
            and cell.mean + 2 * cell.sem < cell.published
        ),
        count=False,
    )


def _grid(
    table: Sequence[Cell], text: Callable[[Cell], str], bold: Callable[[Cell], bool], *, count: bool
) -> TextTable:
    """A row per data set and a column per method; `count` adds how many of a column are bold."""
    methods = list(dict.fromkeys(cell.method for cell in table))
    datasets = list(dict.fromkeys(cell.dataset for cell in table))
    at = {(cell.dataset, cell.method): cell for cell in table}
    rows = [
        (name, *(text(at[name, m]) if (name, m) in at else "" for m in methods))
        for name in datasets
    ]
    marked = frozenset(
        (datasets.index(cell.dataset), 1 + methods.index(cell.method))
        for cell in table
        if bold(cell)
    )
    if count:
        columns = [column for _, column in marked]
        rows.append(("# best", *(str(columns.count(c)) for c in range(1, len(methods) + 1))))
    return TextTable(("", *methods), rows, bold=marked)


def markdown(table: TextTable) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    body = [
        line([f"**{text}**" if (r, c) in table.bold else text for c, text in enumerate(row)])
        for r, row in enumerate(table.rows)
    ]
    rule = line(["---", *["---:"] * (len(table.columns) - 1)])
    return "\n".join([line(table.columns), rule, *body])
