"""Counts, shares and amounts: the tables of `reproduce counts`.

Of each data set, four fifths of the groups may be asked for their totals, and the individuals of
the others are the test, as in `wild`. The model of the data's own kind stands beside the model of
numbers; `scores` says how both are judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from sumwise.experiments import beyond, tables
from sumwise.experiments.beyond import Errors, wanted
from sumwise.experiments.counted_data import KINDS
from sumwise.experiments.protocol import COUNTS, NUMBERS, Curve
from sumwise.experiments.results import by_dataset
from sumwise.report.grid import curve_grid
from sumwise.report.page import Section, TextTable, save
from sumwise.util.shapes import Float

OURS, RANDOM = "IVR", "Rand"
STEM: Final = "deviance-per-query"
__all__ = ["error_grid", "findings", "wanted", "write"]

Checked: TypeAlias = (
    "Mapping[str, Mapping[str, Float[np.ndarray, '3 C']]]"  # by data set and method
)


def checked(curves: Sequence[Curve]) -> Checked:
    """Shares in intervals, even shares and log losses after some questions, means of splits."""
    shape = len(COUNTS.counted), len(COUNTS.checked)
    found = by_dataset(curves, "inside")
    return {
        name: {method: runs.mean(axis=0).reshape(shape) for method, runs in methods.items()}
        for name, methods in found.items()
    }


def _ratio(errors: Errors, method: str, other: str) -> float:
    return beyond.geometric_mean(each[method] / each[other] for each in errors.values())


def findings(errors: Errors, curves: Sequence[Curve]) -> list[str]:
    """In words, for each kind of outputs: against numbers, against Random, and the intervals."""
    known, last, said = checked(curves), _last(curves), []
    for kind in dict.fromkeys(KINDS[name] for name in errors):
        own = {name: each for name, each in errors.items() if KINDS[name] == kind}
        ends = {name: last[name] for name in own}
        loss = {name: {m: v[2].mean() for m, v in known[name].items()} for name in own}
        better = sum(each[OURS] < each[NUMBERS] for each in loss.values())
        lower = sum(each[OURS] <= each[NUMBERS] for each in ends.values())
        asked = (f"{_ratio(own, m, RANDOM):.3f} ({m})" for m in (OURS, "AggMI", "MaxN"))
        said.append(
            f"{kind.capitalize()}: {OURS} has a lower log loss than {NUMBERS} on {better} of "
            f"{len(own)} data sets, {_ratio(own, OURS, NUMBERS):.3f} times its deviance in "
            f"geometric mean ({_ratio(ends, OURS, NUMBERS):.3f} after the last question, where it "
            f"is at or below on {lower}). Deviance over that of random questions: "
            f"{', '.join(asked)}."
        )
        for method in (NUMBERS, OURS):
            inside, even = np.mean([known[name][method][:2] for name in own], axis=0)
            shares = ", ".join(f"{100 * share:.1f}" for share in inside)
            fair = ", ".join(f"{100 * share:.1f}" for share in even)
            said.append(
                f"90 % intervals of {method} hold {shares} % after "
                f"{', '.join(map(str, COUNTS.checked))} questions, {100 * inside.mean():.1f} % "
                f"overall; even shares are {fair} %, {100 * even.mean():.1f} % overall."
            )
    return said


def _last(curves: Sequence[Curve]) -> Errors:
    return {
        name: {method: float(runs[:, -1].mean()) for method, runs in methods.items()}
        for name, methods in by_dataset(curves).items()
    }


def error_grid(errors: Errors) -> TextTable:
    """Deviances by method; the lowest of a row is bold."""
    means = {m: _ratio(errors, m, NUMBERS) for m in next(iter(errors.values()))}
    return beyond.plain_grid(errors, means, f"ratio to {NUMBERS}", digits=3)


def write(folder: Path, curves: Sequence[Curve]) -> list[Path]:
    """table.md, table.csv and a figure."""
    errors, known = beyond.average(curves), checked(curves)
    splits = ", ".join(map(str, sorted({c.split for c in curves})))
    lead = (
        f"Data sets: {len(errors)}. Splits: {splits}. Questions: "
        f"{max(len(c.mse) for c in curves)}, or one less than there are sets to ask for. Mean "
        "deviance of test individuals (Poisson, binomial or gamma), averaged over "
        f"questions and splits. `{NUMBERS}`: the model of numbers with IVR; other columns: the "
        "model of the data's own kind with that strategy. Where fewer questions were asked, what "
        "is said of later ones is as after the last."
    )
    heads = ("", *(f"after {query}" for query in COUNTS.checked))
    titles = {
        "Shares in 90 % intervals": "Of test individuals; intervals of whole numbers hold more.",
        "Even shares": "As if ends were drawn at random, so that 90 % is right for whole numbers.",
        "Log loss": "Mean of −log p(y) of test individuals, by the model's own distribution.",
    }
    sections = [Section("Deviance", ["Bold: the lowest of the row."], table=error_grid(errors))]
    for part, (title, words) in enumerate(titles.items()):
        rows = [
            (f"{name}, {method}", *(f"{value:.3f}" for value in known[name][method][part]))
            for name in known
            for method in (NUMBERS, OURS)
        ]
        sections.append(Section(title, [words], table=TextTable(heads, rows)))
    text = tables.markdown(COUNTS.title, [lead, *findings(errors, curves)], sections)
    more = [
        f"{what}_{m}_{q}"
        for m in (NUMBERS, OURS)
        for what in COUNTS.counted
        for q in COUNTS.checked
    ]
    cells = {
        name: [f"{v:.4f}" for m in (NUMBERS, OURS) for v in each[m].ravel()]
        for name, each in known.items()
    }
    chart = curve_grid(by_dataset(curves), f"Deviance of {OURS} and others", "mean deviance")
    return [*beyond.save(folder, text, errors, more, cells), *save(chart, folder / STEM, (".svg",))]
