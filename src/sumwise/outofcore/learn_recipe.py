"""The recipe of a `Scan`, learned in one pass over its files with bounded memory.

Parts are looked at independently, anywhere. What is seen of a column adds up exactly, so the order
of parts does not matter. The sample of individuals that stand for what is unknown comes from all
rows, or from `KEPT` of them at equal distances where there are more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, Final

import numpy as np

from sumwise.data.frames import Table
from sumwise.data.parquet import Part, Scan, decoded, raw_batches, raw_table
from sumwise.data.recipe import Recipe, Seen, look, source_of, with_sample
from sumwise.util.progress import Slow

KEPT: Final = 2**14  # individuals in memory


@dataclass(frozen=True, slots=True, eq=False)
class Looked:
    """What columns of some rows hold, and some of these rows."""

    seen: Mapping[str, Seen]
    rows: Mapping[int, Mapping[str, Any]]  # Arrow arrays, by number of the first individual


def look_at(scan: Scan, run: Callable[..., Any], columns: Sequence[str]) -> Looked:
    """What these columns hold in all rows."""
    seen: dict[str, Seen] = {}
    rows: dict[int, Any] = {}
    parts = scan.parts()
    with Slow("looking at the columns", len(parts)) as slow:
        for done, found in enumerate(run(partial(look_at_part, scan, columns), parts), start=1):
            seen = _added(seen, found.seen)
            rows |= found.rows
            slow.at(done)
    return Looked(seen, dict(sorted(rows.items())))


def look_at_part(scan: Scan, columns: Sequence[str], part: Part) -> Looked:
    seen: dict[str, Seen] = {}
    rows: dict[int, Any] = {}
    step = -(-scan.rows // KEPT)
    for before, batch in raw_batches(scan, part, columns):
        first = part.first_individual + before
        table = raw_table(batch, columns, place_of(scan, first))
        seen = _added(seen, {name: look(table, name, first)[0] for name in columns})
        some = np.arange(-first % step, len(table.frame), step)
        if len(some):
            rows[first] = {name: decoded(batch[name]).take(some) for name in columns}
    return Looked(seen, rows)


def _added(seen: Mapping[str, Seen], more: Mapping[str, Seen]) -> dict[str, Seen]:
    return {name: seen[name] + each if seen else each for name, each in more.items()}


def place_of(scan: Scan, first: int = 0) -> Callable[[int], str]:
    """Says the file and row of an individual, by its number after the first."""
    starts = [0, *accumulate(sum(file.group_rows) for file in scan.files)]

    def where(row: int) -> str:
        at = bisect_right(starts, first + row) - 1
        return f"{scan.files[at].path}, row {first + row - starts[at] + 1}"

    return where


def learn(scan: Scan, looked: Looked) -> Scan:
    """The scan with the recipe for its columns x; without one, if they are taken as they are."""
    table, turns = Table(None, "the scan", place_of(scan), in_file=True), dict(scan.periods)
    sources = tuple(source_of(table, looked.seen[name], turns.get(name)) for name in scan.x)
    draft = Recipe(sources, np.empty((0, 0)))
    if draft.is_plain:
        return replace(scan, recipe=None)
    draft = replace(draft, sample=np.zeros((1, len(draft.labels))))  # so that gaps are taken
    some = [draft.encode(raw_table(rows, scan.x, str)).x for rows in looked.rows.values()]
    return replace(scan, recipe=with_sample(draft, np.concatenate(some)))
