"""Pools by design: the tables of `reproduce pools`.

On the splits of the paper's protocol, pools of at most 20 of the training individuals are designed
one after the other. Beside them stand the protocol's own random groups, asked for by IVR, by AggMI
and at random, and single individuals chosen by IVR. All have the default model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sumwise.experiments import beyond, tables
from sumwise.experiments.beyond import Errors, wanted
from sumwise.experiments.protocol import ALONE, DESIGNED, GIVEN, POOLS, Curve
from sumwise.experiments.results import by_dataset
from sumwise.report.grid import curve_grid
from sumwise.report.page import Section, TextTable, save

AFTER: Final = 20  # questions after which errors are compared
STEM: Final = "error-per-query"
__all__ = ["error_grid", "findings", "wanted", "write"]


def after(curves: Sequence[Curve]) -> Errors:
    """Errors after so many questions, or the last, averaged over splits."""
    return {
        name: {m: float(runs[:, _query(curves) - 1].mean()) for m, runs in each.items()}
        for name, each in by_dataset(curves).items()
    }


def _query(curves: Sequence[Curve]) -> int:
    """After which errors are compared."""
    return min(AFTER, *(len(curve.mse) for curve in curves))


def _ratio(errors: Errors, other: str) -> float:
    return beyond.geometric_mean(each[DESIGNED] / each[other] for each in errors.values())


def _lower(errors: Errors, other: str) -> int:
    return sum(each[DESIGNED] < each[other] for each in errors.values())


def findings(errors: Errors, curves: Sequence[Curve]) -> list[str]:
    """In words: designed pools against given groups and against individuals."""
    said, n = [], len(errors)
    cases = {
        f"after {_query(curves)} questions": after(curves),
        "averaged over all questions": errors,
    }
    for when, each in cases.items():
        said.append(
            f"The error of {DESIGNED} {when} is {_ratio(each, GIVEN):.3f} of that of {GIVEN} in "
            f"geometric mean, lower on {_lower(each, GIVEN)} of {n} data sets; it is "
            f"{_ratio(each, ALONE):.3f} of that of {ALONE}, lower on {_lower(each, ALONE)} of {n}."
        )
    return said


def error_grid(errors: Errors) -> TextTable:
    """Errors by method; the lowest of a row is bold."""
    means = {
        method: beyond.geometric_mean(each[method] / each[GIVEN] for each in errors.values())
        for method in next(iter(errors.values()))
    }
    return beyond.plain_grid(errors, means, f"ratio to {GIVEN}", digits=4)


def write(folder: Path, curves: Sequence[Curve]) -> list[Path]:
    """table.md, table.csv and a figure."""
    errors, late, at = beyond.average(curves), after(curves), _query(curves)
    lead = (
        f"Data sets: {len(errors)}. Splits: {len({curve.split for curve in curves})}. Questions: "
        f"{max(len(c.mse) for c in curves)}. Mean squared error of test individuals, outputs "
        "scaled to [-1, 1], averaged over splits. `designed`: pools of at most 20 training "
        "individuals, each worked out after the answers before it; `given`: the random groups of "
        "the paper's protocol; `individual`: one individual per question."
    )
    sections = [
        Section(f"After {at} questions", ["Bold: the lowest of the row."], table=error_grid(late)),
        Section("Averaged over all questions", [], table=error_grid(errors)),
    ]
    text = tables.markdown(POOLS.title, [lead, *findings(errors, curves)], sections)
    more = [f"{method} after {at}" for method in next(iter(late.values()))]
    cells = {name: [f"{error:.6g}" for error in each.values()] for name, each in late.items()}
    title = "Error of designed pools, given groups and individuals"
    chart = curve_grid(by_dataset(curves), title, "mean squared error")
    return [*beyond.save(folder, text, errors, more, cells), *save(chart, folder / STEM, (".svg",))]
