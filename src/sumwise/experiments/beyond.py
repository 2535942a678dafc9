"""Beside the paper: the tables of our own model and strategies against the paper's.

Five methods on the same sets, test individuals and totals as `reproduce rff`: the paper's model
with AggMI, and `basis="auto"` with IVR, EPIG, AggMI and Random. Random with our model is there so
that the questions, and not only the model, have to earn their keep. Beside errors, 90 % intervals
of test individuals are counted after 10, 20 and 30 queries.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sumwise.experiments.protocol import BEYOND, OURS, PAPER, RANDOM, Curve, Experiment
from sumwise.experiments.reproduce import in_order
from sumwise.experiments.tables import markdown
from sumwise.report.page import TextTable
from sumwise.util.shapes import Float


@dataclass(frozen=True, slots=True)
class DatasetErrors:
    """A data set: the error of each method, averaged over queries and splits."""

    dataset: str
    errors: dict[str, float]

    def ratio(self, method: str = OURS) -> float:
        return self.errors[method] / self.errors[PAPER]

    @property
    def earned(self) -> bool:
        """Our questions beat both the paper and Random with our own model."""
        return self.errors[OURS] < min(self.errors[PAPER], self.errors[RANDOM])


def wanted(curves: Sequence[Curve], experiment: Experiment) -> list[Curve]:
    """The runs of the data sets and splits that this call is about."""
    mine = [c for c in curves if c.dataset in experiment.datasets and c.split < experiment.splits]
    return in_order(mine, experiment)


def average(curves: Sequence[Curve]) -> list[DatasetErrors]:
    """A row per data set, in the order in which they come."""
    found: dict[str, dict[str, list[float]]] = {}
    for curve in curves:
        methods = found.setdefault(curve.dataset, {})
        methods.setdefault(curve.method, []).append(float(curve.mse.mean()))
    return [
        DatasetErrors(name, {method: float(np.mean(each)) for method, each in methods.items()})
        for name, methods in found.items()
    ]


def coverage(curves: Sequence[Curve], method: str) -> dict[str, Float[np.ndarray, " 3"]]:
    """Share of test individuals in their 90 % intervals, by data set, averaged over splits."""
    found: dict[str, list[Float[np.ndarray, " 3"]]] = {}
    for curve in curves:
        if curve.method == method:
            found.setdefault(curve.dataset, []).append(curve.inside)
    return {name: np.mean(shares, axis=0) for name, shares in found.items()}


def findings(rows: Sequence[DatasetErrors], curves: Sequence[Curve]) -> list[str]:
    """In words: how often better, by how much, at worst, and whether intervals hold."""
    ratios, n = [row.ratio() for row in rows], len(rows)
    worst = max(rows, key=DatasetErrors.ratio)
    said = [
        f"{OURS} has a lower error than the paper's model with AggMI on "
        f"{sum(r < 1 for r in ratios)} of {n} data sets; the geometric mean of the ratio is "
        f"{math.exp(np.mean(np.log(ratios))):.3f}, at worst {worst.ratio():.2f} ({worst.dataset}).",
        f"It is below both the paper's model with AggMI and Random with our own model on "
        f"{sum(row.earned for row in rows)} of {n}.",
    ]
    for method in BEYOND.columns:
        means = np.mean(list(coverage(curves, method).values()), axis=0)
        shares = ", ".join(f"{100 * share:.1f} %" for share in means)
        said.append(
            f"90 % intervals of {method} hold {shares} of test individuals after "
            f"{', '.join(map(str, BEYOND.checked))} questions (mean over data sets)."
        )
    return said


def error_grid(rows: Sequence[DatasetErrors]) -> TextTable:
    """Errors by method and the ratio to the paper's; the lowest of a row is bold."""
    text, bold = [], set()
    for r, row in enumerate(rows):
        errors = [row.errors[method] for method in BEYOND.columns]
        bold.add((r, 1 + int(np.argmin(errors))))
        text.append((row.dataset, *(f"{e:.4f}" for e in errors), f"{row.ratio():.2f}"))
    ratios = [[math.log(row.ratio(method)) for row in rows] for method in BEYOND.columns]
    means = (f"{math.exp(np.mean(each)):.3f}" for each in ratios)
    text.append(("ratio, geometric mean", *means, ""))
    return TextTable(("", *BEYOND.columns, f"{OURS} / {PAPER}"), text, bold=frozenset(bold))


def interval_grid(curves: Sequence[Curve]) -> TextTable:
    """Coverage of our method, data set by data set."""
    shares = coverage(curves, OURS)
    shares["mean"] = np.mean(list(shares.values()), axis=0)
    rows = tuple((name, *(f"{share:.3f}" for share in each)) for name, each in shares.items())
    return TextTable(("", *(f"after {n}" for n in BEYOND.checked)), rows)


def write(folder: Path, curves: Sequence[Curve]) -> list[Path]:
    """table.md and table.csv."""
    rows = average(curves)
    splits = len({curve.split for curve in curves})
    parts = [
        f"# {BEYOND.title}",
        f"Data sets: {len(rows)}. Splits: {splits}. Queries: {BEYOND.queries}. Mean squared error "
        "of individual outputs scaled to [-1, 1], averaged over queries and splits. `paper`: the "
        'paper\'s model with AggMI; `auto …`: `basis="auto"` with that strategy.',
        *findings(rows, curves),
        "## Errors",
        "Bold: the lowest of the row.",
        markdown(error_grid(rows)),
        f"## Intervals of {OURS}",
        "Share of test individuals in their 90 % intervals.",
        markdown(interval_grid(curves)),
    ]
    page, table = folder / "table.md", folder / "table.csv"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    with table.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(("dataset", *BEYOND.columns, "ratio"))
        for row in rows:
            errors = (f"{row.errors[method]:.6g}" for method in BEYOND.columns)
            lines.writerow((row.dataset, *errors, f"{row.ratio():.4f}"))
    return [page, table]
