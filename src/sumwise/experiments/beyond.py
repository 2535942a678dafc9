"""Beside the paper: the tables of our own model and strategies against the paper's.

Five methods on the same sets, test individuals and totals as `reproduce rff`: the paper's model
with AggMI, and `basis="auto"` with IVR, EPIG, AggMI and Random. Random with our model is there so
that the questions, and not only the model, have to earn their keep. Beside errors, 90 % intervals
of test individuals are counted after 10, 20 and 30 queries.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sumwise.experiments import tables
from sumwise.experiments.protocol import BEYOND, OURS, PAPER, RANDOM, Curve, Experiment
from sumwise.experiments.results import by_dataset
from sumwise.report.page import Section, TextTable
from sumwise.util.shapes import Float

Errors = Mapping[str, Mapping[str, float]]  # by data set and method


def wanted(curves: Sequence[Curve], experiment: Experiment) -> list[Curve]:
    """The runs of the data sets and splits that this call is about."""
    return [c for c in curves if c.dataset in experiment.datasets and c.split < experiment.splits]


def average(curves: Sequence[Curve]) -> Errors:
    """The errors, averaged over queries and splits, by data set in the order in which they come."""
    return {
        name: {method: float(runs.mean()) for method, runs in methods.items()}
        for name, methods in by_dataset(curves).items()
    }


def findings(errors: Errors, curves: Sequence[Curve]) -> list[str]:
    """In words: how often better, by how much, at worst, and whether intervals hold."""
    ratios, n = _ratios(errors), len(errors)
    worst = max(ratios, key=ratios.__getitem__)
    earned = sum(each[OURS] < min(each[PAPER], each[RANDOM]) for each in errors.values())
    said = [
        f"{OURS} has a lower error than the paper's model with AggMI on "
        f"{sum(r < 1 for r in ratios.values())} of {n} data sets; the geometric mean of the ratio "
        f"is {_geometric_mean(ratios):.3f}, at worst {ratios[worst]:.2f} ({worst}).",
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


def coverage(curves: Sequence[Curve], method: str) -> dict[str, Float[np.ndarray, " 3"]]:
    """Share of test individuals in their 90 % intervals, by data set, averaged over splits."""
    shares = by_dataset(curves, "inside")
    return {name: each[method].mean(axis=0) for name, each in shares.items()}


def _ratios(errors: Errors, method: str = OURS) -> dict[str, float]:
    return {name: each[method] / each[PAPER] for name, each in errors.items()}


def _geometric_mean(ratios: Mapping[str, float]) -> float:
    return float(np.exp(np.mean(np.log(list(ratios.values())))))


def error_grid(errors: Errors) -> TextTable:
    """Errors by method and the ratio to the paper's; the lowest of a row is bold."""
    methods, ratios = BEYOND.columns, _ratios(errors)
    rows = [
        (name, *(f"{each[method]:.4f}" for method in methods), f"{ratios[name]:.2f}")
        for name, each in errors.items()
    ]
    lowest = (min(methods, key=each.__getitem__) for each in errors.values())
    bold = frozenset((row, 1 + methods.index(method)) for row, method in enumerate(lowest))
    means = (f"{_geometric_mean(_ratios(errors, method)):.3f}" for method in methods)
    rows.append(("ratio, geometric mean", *means, ""))
    return TextTable(("", *methods, f"{OURS} / {PAPER}"), rows, bold=bold)


def interval_grid(curves: Sequence[Curve]) -> TextTable:
    """Coverage of our method, data set by data set."""
    shares = coverage(curves, OURS)
    shares["mean"] = np.mean(list(shares.values()), axis=0)
    rows = tuple((name, *(f"{share:.3f}" for share in each)) for name, each in shares.items())
    return TextTable(("", *(f"after {n}" for n in BEYOND.checked)), rows)


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
    page, table = folder / "table.md", folder / "table.csv"
    page.write_text(text, encoding="utf-8")
    with table.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(("dataset", *BEYOND.columns, "ratio"))
        for name, ratio in _ratios(errors).items():
            figures = (f"{errors[name][method]:.6g}" for method in BEYOND.columns)
            lines.writerow((name, *figures, f"{ratio:.4f}"))
    return [page, table]
