"""Exact totals of overlapping sets that cannot all be right.

A total without known noise that is a combination of earlier ones, such as that of a county after
those of all its towns, is known before it is told. The model goes by the earlier ones; where the
later one is another number, users must hear of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sumwise.data.about import About
from sumwise.data.sets import Sets
from sumwise.learning.parts import some_members
from sumwise.learning.propose import Answer
from sumwise.model.bounded import can_be, possible
from sumwise.model.overlap import independent, shared
from sumwise.util.shapes import Float
from sumwise.util.text import label

ROUNDING: Final = 1e-6  # of the totals: sums of numbers that were rounded are not contradictions
NOTHING_SAID: Final = About()
NAMED: Final = 3  # totals that a sentence names


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A total, and what it must be by earlier ones."""

    set_id: Hashable
    total: float
    expected: float
    others: tuple[Hashable, ...]  # the sets whose totals leave no other
    end: str = ""  # "at least " or "at most " where bounds of outputs leave a range

    @property
    def words(self) -> str:
        """The same in sentences."""
        names = [label(name) for name in self.others[:NAMED]]
        more = len(self.others) - NAMED
        names += [f"{more} more"] * (more > 0)
        together = ", ".join(names[:-1]) + " and " * (len(names) > 1) + names[-1]
        makes = "make" if len(names) > 1 else "makes"
        return (
            f"Totals contradict each other: {label(self.set_id)} is {self.total:.9g}, and "
            f"{together} {makes} it {self.end}{self.expected:.9g}. Correct one of them, or give "
            "noise_std where a total is not exact"
            + ("." if self.end else "; until then the model goes by the earlier ones.")
        )


def contradictions(
    sets: Sets, answers: Sequence[Answer], about: About = NOTHING_SAID
) -> tuple[Contradiction, ...]:
    """Answers that earlier ones contradict, in order of arrival.

    Args:
        about: What is measured; where its bounds make totals contradict each other, the first that
            does is named.
    """
    exact = [answer for answer in answers if not answer.noise_std]
    if sets.members is None or len(exact) < 2:
        return ()
    measured = some_members(sets, exact)
    gram = shared(measured, measured)[0].toarray()
    kept, y_bar = independent(gram), np.array([answer.y_bar for answer in exact])
    found = []
    for j in sorted({*range(len(exact))} - {*kept.tolist()}):
        before = kept[kept < j]
        parts = np.linalg.solve(gram[np.ix_(before, before)], gram[before, j])
        terms = parts * y_bar[before]
        if abs(terms.sum() - y_bar[j]) > ROUNDING * (abs(y_bar[j]) + np.abs(terms).sum()):
            others = tuple(exact[i].set_id for i in before[np.abs(parts) > ROUNDING])
            expected = float(terms.sum())
            found.append(Contradiction(exact[j].set_id, exact[j].y_bar, expected, others))
    if not found and about.bounded:
        return tuple(
            _beyond_bounds(exact, measured, np.clip(y_bar, *_ranges(measured, about)), about)
        )
    return tuple(found)


def _ranges(measured: Sets, about: About) -> Float[np.ndarray, "2 t"]:
    return replace(about, weights="weighted").ranges(measured)  # some may be of members alone


def _beyond_bounds(
    exact: Sequence[Answer], measured: Sets, y_bar: Float[np.ndarray, " t"], about: About
) -> Iterator[Contradiction]:
    """The first total that outputs within bounds cannot have beside those before it."""
    low, high = 1, len(exact)
    if can_be(measured, y_bar, about.ends):
        return
    while high - low > 1:
        middle = (low + high) // 2
        fine = can_be(measured.take(range(middle)), y_bar[:middle], about.ends)
        low, high = (middle, high) if fine else (low, middle)
    j = high - 1
    one, before, total = measured.take([j]), measured.take(range(j)), y_bar[j]
    ends = possible(one, before, y_bar[:j], about.ends)[:, 0]
    end = 0 if total < ends[0] else 1
    if abs(total - ends[end]) > ROUNDING * (abs(total) + abs(ends[end])):
        same = shared(one, before)[0].toarray()[0]
        others = tuple(exact[i].set_id for i in np.flatnonzero(same).tolist())
        words = ("at least ", "at most ")[end]
        yield Contradiction(exact[j].set_id, exact[j].y_bar, float(ends[end]), others, words)
