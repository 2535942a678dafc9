"""How near each reading of MI, Ent and Var, from each start of λ and β, comes to the paper's table.

The distance of a reading is |log(ours / published)|, averaged over data sets. Where all figures of
a data set are above or below the published ones, the model or the data differ rather than the
reading, so the same is given for errors in units of Random's. A reading that is right also puts
MI, Ent and Var on that side of MaxN and Random where they are published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sumwise.errors import DataError
from sumwise.experiments import tables
from sumwise.experiments.comparison import RANDOM
from sumwise.experiments.protocol import FACTORIAL, STARTS, Curve
from sumwise.experiments.readings import READINGS
from sumwise.experiments.results import by_dataset
from sumwise.experiments.tables import Cell
from sumwise.report.page import Section, TextTable
from sumwise.util.files import write_file
from sumwise.util.shapes import Float

ANCHORS = ("MaxN", RANDOM)


@dataclass(frozen=True, slots=True)
class Distance:
    """How far one reading from one start is from the published figures, over all data sets."""

    reading: str
    start: str
    absolute: float  # mean |log(ours / published)|
    relative: float  # the same of errors in units of Random's
    nearest: int  # data sets on which no other reading of the method is nearer
    above: tuple[int, ...]  # data sets with a higher error than each of `ANCHORS` has
    published_above: tuple[int, ...]

    @property
    def head(self) -> str:
        """The paper's name of the method."""
        return self.reading.split()[0]


def cells(
    curves: Sequence[Curve], published: Mapping[tuple[str, str], tuple[float, bool]]
) -> list[Cell]:
    """Our figure of each reading, start and data set beside the paper's."""
    errors, beside = by_dataset(curves), {}
    for name in errors:
        for column in FACTORIAL.columns:
            head = column.split()[0]
            if (name, head) not in published:
                raise DataError(
                    f"the published figure of {head} on {name} is missing; --published CSV "
                    "brings it in"
                )
            beside[name, column] = published[name, head]
    return tables.cells(errors, beside)


def distances(table: Sequence[Cell]) -> list[Distance]:
    """Of every reading from every start."""
    ours, paper = _by_method(table, "mean"), _by_method(table, "published")
    far = {column: np.log(ours[column] / paper[column]) for column in ours}
    found = []
    for column in ours:
        reading, start = column.rsplit(" ", 1)
        rivals = [other for other in READINGS if other.split()[0] == reading.split()[0]]
        least = np.min([abs(far[f"{rival} {start}"]) for rival in rivals], axis=0)
        above, published_above = (
            tuple(int(np.sum(errors[column] > errors[f"{a} {start}"])) for a in ANCHORS)
            for errors in (ours, paper)
        )
        found.append(
            Distance(
                reading,
                start,
                absolute=float(abs(far[column]).mean()),
                relative=float(abs(far[column] - far[f"{RANDOM} {start}"]).mean()),
                nearest=int(np.sum(abs(far[column]) <= least)),
                above=above,
                published_above=published_above,
            )
        )
    return found


def _by_method(table: Sequence[Cell], part: str) -> dict[str, Float[np.ndarray, " d"]]:
    methods = dict.fromkeys(cell.method for cell in table)
    return {m: np.array([getattr(c, part) for c in table if c.method == m]) for m in methods}


def findings(found: Sequence[Distance]) -> list[str]:
    """In words: the nearer reading of each method, and what the start does."""
    said = []
    for head in dict.fromkeys(each.head for each in found):
        own = [each for each in found if each.head == head]
        means = {
            reading: np.mean([each.absolute for each in own if each.reading == reading])
            for reading in dict.fromkeys(each.reading for each in own)
        }
        if len(means) > 1:
            nearest = min(means, key=means.__getitem__)
            every = ", ".join(f"{reading} {mean:.3f}" for reading, mean in means.items())
            said.append(f"{nearest} is nearer to the paper's {head} (mean over starts: {every}).")
    by_start = (
        f"{start} {np.mean([each.absolute for each in found if each.start == start]):.3f}"
        for start in STARTS
    )
    return [*said, f"Mean distance of all readings by start: {', '.join(by_start)}."]


def distance_grid(found: Sequence[Distance]) -> TextTable:
    """A row per reading and start; of the readings of a method, the nearer is bold."""
    rows = []
    for each in found:
        sides = zip(each.above, each.published_above, strict=True)
        nearest = "" if each.reading == each.head else str(each.nearest)  # of one is no news
        figures = f"{each.absolute:.3f}", f"{each.relative:.3f}", nearest
        rows.append((each.reading, each.start, *figures, *(f"{a} ({b})" for a, b in sides)))
    bold = {
        (row, column)
        for column, part in ((2, "absolute"), (3, "relative"))
        for row, each in enumerate(found)
        if each.reading != each.head
        and getattr(each, part)
        == min(
            getattr(other, part)
            for other in found
            if (other.head, other.start) == (each.head, each.start)
        )
    }
    heads = ("", "start", "distance", "per Rand", "nearest")
    return TextTable((*heads, *(f"above {a}" for a in ANCHORS)), rows, bold=frozenset(bold))


def error_grid(table: Sequence[Cell], start: str) -> TextTable:
    """Our figures from one start, each with the published one in brackets."""
    names = list(dict.fromkeys(cell.dataset for cell in table))
    text = {(c.method, c.dataset): f"{c.mean:.3f} ({c.published:.3f})" for c in table}
    rows = [(reading, *(text[f"{reading} {start}", n] for n in names)) for reading in READINGS]
    return TextTable(("", *names), rows)


def write(folder: Path, curves: Sequence[Curve], table: Sequence[Cell]) -> list[Path]:
    """table.md and table.csv."""
    lead = (
        f"Data sets: {len({cell.dataset for cell in table})}. Splits: "
        f"{len({curve.split for curve in curves})}. Queries: {len(curves[0].mse)}. Mean squared "
        "error of individual outputs scaled to [-1, 1], averaged over queries and splits. Starts: "
        "`drawn` log λ, log β ~ N(0, 1); `ones` λ = β = 1; `uniform` λ, β ~ U(0, 1)."
    )
    words = (
        "`distance`: mean over data sets of |log(ours / published)|. `per Rand`: the same with "
        "errors in units of Random's. `nearest`: data sets on which no other reading is nearer. "
        "`above MaxN`, `above Rand`: data sets with a higher error than theirs, as published in "
        "brackets. Bold: the nearer reading from that start."
    )
    found = distances(table)
    sections = [Section("Distances", [words], table=distance_grid(found))]
    for start in STARTS:
        grid = error_grid(table, start)
        sections.append(Section(f"Errors, {start}", ["Published in brackets."], table=grid))
    page, lines = folder / "table.md", folder / "table.csv"
    text = tables.markdown(FACTORIAL.title, [lead, *findings(found)], sections)
    write_file(page, text)
    tables.write_csv(lines, table)
    return [page, lines]
