"""Beside the paper: the tables of our own model and strategies against the paper's.

Five methods on the same sets, test individuals and totals as `reproduce rff`: the paper's model
with AggMI, and `basis="auto"` with IVR, EPIG, AggMI and Random. Random with our model is there so
that the questions, and not only the model, have to earn their keep. Beside errors, 90 % intervals
of test individuals are counted after 10, 20 and 30 queries.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from sumwise.experiments import tables
from sumwise.experiments.protocol import BEYOND, OURS, PAPER, RANDOM, Curve, Experiment
from sumwise.experiments.results import by_dataset
from sumwise.report.page import Section, TextTable
from sumwise.util.files import write_file
from sumwise.util.shapes import Float

Errors = Mapping[str, Mapping[str, float]]  # by data set and method


def wanted(curves: Sequence[Curve], experiment: Experiment) -> list[Curve]:
    """The runs of the data sets and splits that this call is about."""
    return [c for c in curves if c.dataset in experiment.datasets and c.split in experiment.numbers]


def average(curves: Sequence[Curve]) -> Errors:
    """The errors, averaged over queries and splits, by data set in the order in which they come."""
    return {
        name: {method: float(runs.mean()) for method, runs in methods.items()}
        for name, methods in by_dataset(curves).items()
    }


def findings(errors: Errors, curves: Sequence[Curve]) -> list[str]:
    """In words: how often better, by how much, at worst, and whether intervals hold."""
    ratios, n = _ratios(errors, OURS), len(errors)
    worst = max(ratios, key=ratios.__getitem__)
    earned = sum(each[OURS] < min(each[PAPER], each[RANDOM]) for each in errors.values())
    said = [
        f"{OURS} has a lower error than the paper's model with AggMI on "
        f"{sum(r < 1 for r in ratios.values())} of {n} data sets; the geometric mean of the ratio "
        f"is {geometric_mean(ratios.values()):.3f}, at worst {ratios[worst]:.2f} ({worst}).",
        "It is below both the paper's model with AggMI and Random with our own model on "
        f"{earned} of {n}.",
    ]
    after = ", ".join(map(str, BEYOND.checked))
    for method in BEYOND.columns:
        means = np.mean(list(coverage(curves, method).values()), axis=0)
        shares = ", ".join(f"{100 * share:.1f} %" for share in means)
        said.append(
            f"90 % intervals of {method} hold {shares} of test individuals after {after} questions "
            "(mean over data sets)."
        )
    return said


def coverage(curves: Sequence[Curve], method: str) -> dict[str, Float[np.ndarray, " C"]]:
    """Share of test individuals in their 90 % intervals, by data set, averaged over splits."""
    shares = by_dataset(curves, "inside")
    return {name: each[method].mean(axis=0) for name, each in shares.items()}


def _ratios(errors: Errors, method: str) -> dict[str, float]:
    return {name: each[method] / each[PAPER] for name, each in errors.items()}


def geometric_mean(values: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def error_grid(errors: Errors) -> TextTable:
    """Errors by method and the ratio to the paper's; the lowest of a row is bold."""
    means = {method: geometric_mean(_ratios(errors, method).values()) for method in BEYOND.columns}
    table = plain_grid(errors, means, "ratio, geometric mean", digits=4)
    last = [*(f"{ratio:.2f}" for ratio in _ratios(errors, OURS).values()), ""]
    rows = [(*row, text) for row, text in zip(table.rows, last, strict=True)]
    return TextTable((*table.columns, f"{OURS} / {PAPER}"), rows, bold=table.bold)


def plain_grid(errors: Errors, means: Mapping[str, float], mean: str, digits: int) -> TextTable:
    """Errors by method, the lowest of a row bold, and a last row of means."""
    methods = tuple(means)
    rows = [(name, *(f"{each[m]:.{digits}f}" for m in methods)) for name, each in errors.items()]
    lowest = (min(methods, key=each.__getitem__) for each in errors.values())
    bold = frozenset((row, 1 + methods.index(method)) for row, method in enumerate(lowest))
    rows.append((mean, *(f"{value:.3f}" for value in means.values())))
    return TextTable(("", *methods), rows, bold=bold)


def interval_grid(curves: Sequence[Curve], checked: Sequence[int] = BEYOND.checked) -> TextTable:
    """Coverage of our method, data set by data set."""
    shares = coverage(curves, OURS)
    shares["mean"] = np.mean(list(shares.values()), axis=0)
    rows = tuple((name, *(f"{share:.3f}" for share in each)) for name, each in shares.items())
    return TextTable(("", *(f"after {n}" for n in checked)), rows)


def write(folder: Path, curves: Sequence[Curve]) -> list[Path]:
    """table.md and table.csv."""
    errors = average(curves)
    lead = (
        f"Data sets: {len(errors)}. Splits: {len({curve.split for curve in curves})}. Queries: "
        f"{BEYOND.queries}. Mean squared error of individual outputs scaled to [-1, 1], averaged "
        "over queries and splits. `paper`: the paper's model with AggMI; `auto …`: "
        '`basis="auto"` with that strategy.'
    )
    share = "Share of test individuals in their 90 % intervals."
    sections = [
        Section("Errors", ["Bold: the lowest of the row."], table=error_grid(errors)),
        Section(f"Intervals of {OURS}", [share], table=interval_grid(curves)),
    ]
    text = tables.markdown(BEYOND.title, [lead, *findings(errors, curves)], sections)
    ratios = {name: (f"{ratio:.4f}",) for name, ratio in _ratios(errors, OURS).items()}
    return save(folder, text, errors, ("ratio",), ratios)


def save(
    folder: Path,
    text: str,
    errors: Errors,
    more: Sequence[str],
    cells: Mapping[str, Sequence[str]],
) -> list[Path]:
    """The text in table.md; the errors, and more cells for each data set, in table.csv."""
    page, table = folder / "table.md", folder / "table.csv"
    write_file(page, text)
    rows = io.StringIO(newline="")
    lines = csv.writer(rows, lineterminator="\n")
    lines.writerow(("dataset", *next(iter(errors.values())), *more))
    for name, each in errors.items():
        lines.writerow((name, *(f"{error:.6g}" for error in each.values()), *cells[name]))
    write_file(table, rows.getvalue())
    return [page, table]
