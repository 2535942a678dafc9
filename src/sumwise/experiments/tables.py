"""The paper's table: error averaged over queries, who is best, and the published figures.

A method is bold if a paired t-test over splits does not find it worse than the best of its row at
the 5 % level.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from sumwise.errors import DataError
from sumwise.experiments.comparison import paired, standard_error
from sumwise.report.page import Section, TextTable
from sumwise.util.files import write_file
from sumwise.util.shapes import Float

BOLD: Final = (
    "Bold: the best of the row, or not significantly worse than the best (5 %, paired t-test over "
    "splits)."
)
LOWER: Final = "Bold: ours is lower by more than two of our standard errors."


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
    best = min(averages, key=lambda method: averages[method].mean())
    if len(averages[best]) < 2:
        return {best}
    return {m for m, splits in averages.items() if paired(splits - averages[best]).sign < 1}


@contextmanager
def _published_rows(path: Path, columns: str) -> Iterator[csv.DictReader[str]]:
    """The paper's figures; what is not a number in these columns is refused."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield csv.DictReader(file)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise DataError(
            f"{path} is not a table of published figures ({error}); it needs the columns {columns}"
        ) from error


def read_errors(path: Path) -> dict[tuple[str, str], tuple[float, bool]]:
    """By data set and method: the published error, and whether it is bold."""
    with _published_rows(path, "dataset, method, mse and bold") as rows:
        return {
            (row["dataset"], row["method"]): (float(row["mse"]), row["bold"] == "1") for row in rows
        }


def read_seconds(path: Path) -> dict[str, float]:
    """Published seconds by method."""
    with _published_rows(path, "method and seconds") as rows:
        return {row["method"]: float(row["seconds"]) for row in rows}


def write_csv(path: Path, table: Sequence[Cell]) -> None:
    text = io.StringIO(newline="")
    lines = csv.writer(text)
    lines.writerow(("dataset", "method", "mean", "sem", "best", "published"))
    for c in table:
        sem = "" if c.sem is None else f"{c.sem:.3g}"
        published = "" if c.published is None else c.published
        lines.writerow((c.dataset, c.method, f"{c.mean:.6g}", sem, int(c.best), published))
    write_file(path, text.getvalue())


# --- the paper's form -----------------------------------------------------------------------------


def ours(table: Sequence[Cell]) -> TextTable:
    """Our figures, as the paper prints its own."""
    return _grid(table, lambda cell: f"{cell.mean:.3f}", lambda cell: cell.best, count=True)


def sections(table: Sequence[Cell]) -> list[Section]:
    """Our figures and, where there are any, the published ones and the differences."""
    found = [Section("Ours", [BOLD], table=ours(table))]
    if any(cell.published is not None for cell in table):
        published = _grid(
            table,
            lambda cell: "" if cell.published is None else f"{cell.published:.3f}",
            lambda cell: cell.published_best,
            count=True,
        )
        differences = _grid(
            table,
            lambda cell: "" if cell.published is None else f"{cell.mean - cell.published:+.3f}",
            lambda cell: cell.sem is not None and cell.mean + 2 * cell.sem < (cell.published or 0),
            count=False,
        )
        found.append(Section("Published", table=published))
        found.append(Section("Ours less published", [LOWER], table=differences))
    return found


def _grid(
    table: Sequence[Cell], text: Callable[[Cell], str], bold: Callable[[Cell], bool], *, count: bool
) -> TextTable:
    """A row per data set and a column per method; `count` adds how many of a column are bold."""
    methods = list(dict.fromkeys(cell.method for cell in table))
    datasets = list(dict.fromkeys(cell.dataset for cell in table))
    at = {(cell.dataset, cell.method): cell for cell in table}
    rows = [(d, *(text(at[d, m]) if (d, m) in at else "" for m in methods)) for d in datasets]
    places = [(datasets.index(c.dataset), 1 + methods.index(c.method)) for c in table if bold(c)]
    if count:
        columns = [column for _, column in places]
        rows.append(("# best", *(str(columns.count(c)) for c in range(1, len(methods) + 1))))
    return TextTable(("", *methods), rows, bold=frozenset(places))


def markdown(title: str, paragraphs: Sequence[str], sections: Sequence[Section]) -> str:
    """A page in Markdown; charts are left out."""
    parts = [f"# {title}", *paragraphs]
    for section in sections:
        parts += [f"## {section.title}", *section.words]
        parts += [] if section.table is None else [_markdown_table(section.table)]
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: TextTable) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    body = [
        line([f"**{text}**" if (r, c) in table.bold else text for c, text in enumerate(row)])
        for r, row in enumerate(table.rows)
    ]
    rule = line(["---", *["---:"] * (len(table.columns) - 1)])
    return "\n".join([line(table.columns), rule, *body])
