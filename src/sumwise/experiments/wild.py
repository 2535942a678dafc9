"""Natural groups: the tables of `reproduce wild`, on public data whose groups exist in the world.

Of each data set, four fifths of the groups may be asked for their totals, and the individuals of
the others are the test. An error is a squared error divided by that of guessing the mean of the
individuals to learn from: 1 is useless, above 1 is harmful.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from sumwise.experiments import beyond, tables
from sumwise.experiments.beyond import Errors, coverage
from sumwise.experiments.protocol import EXACT, OURS, RANDOM, WILD, Curve, Experiment
from sumwise.report.page import Section, TextTable


def wanted(curves: Sequence[Curve], experiment: Experiment) -> list[Curve]:
    """The runs that this call is about, with relative errors; added columns only if complete."""
    found = beyond.wanted(curves, experiment)
    all_runs = len(experiment.datasets) * experiment.splits
    whole = [m for m in WILD.beside if sum(c.method == m for c in found) == all_runs]
    columns = (*experiment.columns, *whole)
    return [
        replace(c, mse=c.mse / _guess_mse(c.dataset, c.split)) for c in found if c.method in columns
    ]


@cache
def _guess_mse(name: str, number: int) -> float:
    return WILD.split(WILD.load(name, None), number).guess_mse


def _means(errors: Errors) -> dict[str, float]:
    methods = next(iter(errors.values()))
    return {m: beyond.geometric_mean(each[m] for each in errors.values()) for m in methods}


def findings(errors: Errors, curves: Sequence[Curve]) -> list[str]:
    """In words: each method against guessing the mean, ours against Random, and the intervals."""
    means, said = _means(errors), []
    for method, mean in means.items():
        worst = max(errors, key=lambda name: errors[name][method])
        harmful = sum(each[method] > 1 for each in errors.values())
        said.append(
            f"{method}: geometric mean of the relative errors {mean:.3f}, at worst "
            f"{errors[worst][method]:.2f} ({worst}); worse than guessing the mean on {harmful} of "
            f"{len(errors)} data sets."
        )
    said.append(f"{OURS} has {means[OURS] / means[RANDOM]:.3f} times the error of {RANDOM}.")
    held = 100 * np.array(list(coverage(curves, OURS).values()))
    ranges = zip(held.min(axis=0), held.max(axis=0), held.mean(axis=0), WILD.checked, strict=True)
    for low, high, mean, query in ranges:
        said.append(
            f"After {query} questions 90 % intervals of {OURS} hold {low:.1f} to {high:.1f} % of "
            f"the test individuals of a data set, {mean:.1f} % in the mean over data sets."
        )
    return said


def error_grid(errors: Errors) -> TextTable:
    """Relative errors by method; the lowest of a row is bold."""
    return beyond.plain_grid(errors, _means(errors), "geometric mean", digits=3)


def write(folder: Path, curves: Sequence[Curve]) -> list[Path]:
    """table.md and table.csv."""
    errors, checked = beyond.average(curves), WILD.checked
    lead = (
        f"Data sets: {len(errors)}. Splits: {len({c.split for c in curves})}. Questions: "
        f"{max(len(c.mse) for c in curves)}, or one less than there are sets to ask for. Squared "
        "error of test individuals divided by that of guessing the mean of the individuals to "
        "learn from, averaged over questions and splits. `auto …`: the default model with that "
        'strategy; `paper`: `preset="paper"`; `linear` and `fourier` (length-scale 2√D): these '
        f"bases with IVR; `{EXACT}`, where it was run: an exact Gaussian process on the questions "
        f"of {OURS}. Where fewer questions were asked, shares held are those after the last."
    )
    share = "Share of test individuals in their 90 % intervals"
    grid = beyond.interval_grid(curves, checked)
    held = {m: np.mean(list(coverage(curves, m).values()), axis=0) for m in _means(errors)}
    rows = [(method, *(f"{share:.3f}" for share in each)) for method, each in held.items()]
    sections = [
        Section("Relative errors", ["Bold: the lowest of the row."], table=error_grid(errors)),
        Section(f"Intervals of {OURS}", [f"{share}."], table=grid),
        Section(
            "Intervals of all methods",
            [f"{share}, mean over data sets."],
            table=TextTable(grid.columns, rows),
        ),
    ]
    text = tables.markdown(WILD.title, [lead, *findings(errors, curves)], sections)
    cells = {row[0]: row[1:] for row in grid.rows}
    return beyond.save(folder, text, errors, [f"held_{query}" for query in checked], cells)
