"""The paper's table: error averaged over queries, who is best, and the published figures.

A method is bold if a paired t-test over splits does not tell it from the best of its row at 5 %.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sumwise.errors import DataError
from sumwise.util.shapes import Float

LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of the table, and the paper's."""

    dataset: str
    method: str
    mean: float
    sem: float | None  # None with one split
    best: bool  # not told from the best
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
            sem = float(splits.std(ddof=1) / np.sqrt(len(splits))) if len(splits) > 1 else None
            out.append(
                Cell(dataset, method, float(splits.mean()), sem, method in bold, figure, best)
            )
    return out


def not_worse(averages: Mapping[str, Float[np.ndarray, " S"]]) -> set[str]:
    """The best method, and those a paired t-test at 5 % does not tell from it."""
    from scipy.stats import ttest_rel

    best = min(averages, key=lambda method: averages[method].mean())
    out = {best}
    for method, splits in averages.items():
        difference = splits - averages[best]
        if method == best or len(splits) < 2:
            continue
        if np.ptp(difference) <= 1e-12 * abs(difference).max():  # a test would divide by zero
            told_apart = bool(difference.any())
        else:
            told_apart = not float(ttest_rel(splits, averages[best]).pvalue) >= LEVEL
        if not told_apart:
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
        for cell in table:
            lines.writerow(
                (
                    cell.dataset,
                    cell.method,
                    f"{cell.mean:.6g}",
                    "" if cell.sem is None else f"{cell.sem:.3g}",
                    int(cell.best),
                    "" if cell.published is None else cell.published,
                )
            )


# --- the paper's form -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grid:
    """Text in rows and columns, some of it bold; the first column names the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bold: frozenset[tuple[int, int]]


def ours(table: Sequence[Cell]) -> Grid:
    """Our figures, as the paper prints its own."""
    return _grid(table, lambda cell: f"{cell.mean:.3f}", lambda cell: cell.best, "# best")


def published(table: Sequence[Cell]) -> Grid:
    return _grid(
        table,
        lambda cell: "" if cell.published is None else f"{cell.published:.3f}",
        lambda cell: cell.published_best,
        "# best",
    )


def differences(table: Sequence[Cell]) -> Grid:
    """Ours less the published; bold where ours is lower by more than two standard errors."""
    return _grid(
        table,
        lambda cell: "" if cell.published is None else f"{cell.mean - cell.published:+.3f}",
        lambda cell: (
            cell.published is not None
            and cell.sem is not None
            and cell.mean + 2 * cell.sem < cell.published
        ),
        None,
    )


def _grid(table, text, bold, count) -> Grid:  # type: ignore[no-untyped-def]
    methods = tuple(dict.fromkeys(cell.method for cell in table))
    datasets = tuple(dict.fromkeys(cell.dataset for cell in table))
    at = {(cell.dataset, cell.method): cell for cell in table}
    rows, marked = [], set()
    for r, dataset in enumerate(datasets):
        row = [dataset]
        for c, method in enumerate(methods, start=1):
            cell = at.get((dataset, method))
            row.append("" if cell is None else text(cell))
            if cell is not None and bold(cell):
                marked.add((r, c))
        rows.append(tuple(row))
    if count is not None:
        columns = [column for _, column in marked]
        rows.append((count, *(str(columns.count(c)) for c in range(1, len(methods) + 1))))
    return Grid(("", *methods), tuple(rows), frozenset(marked))


def markdown(grid: Grid) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    body = [
        line([f"**{text}**" if (r, c) in grid.bold else text for c, text in enumerate(row)])
        for r, row in enumerate(grid.rows)
    ]
    rule = line(["---", *["---:"] * (len(grid.columns) - 1)])
    return "\n".join([line(grid.columns), rule, *body])
