"""Strategies compared split by split: averages, differences to Random, measurements saved.

Within a split all strategies have the same sets and the same model to start from, so what is
compared is the difference within each split, with Student's interval over splits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from sumwise.util.shapes import Float

Errors: TypeAlias = (
    "Mapping[str, Float[np.ndarray, 'S T']]"  # by strategy: a split a row, a query a column
)

RANDOM: Final = "Rand"
CHECKPOINTS: Final = (5, 10, 20, 30, 50, 100, 200, 400)
LEVEL: Final = 0.05
ROUNDING: Final = 1 + 1e-6  # the same groups in another order give the same error but for this


@dataclass(frozen=True, slots=True)
class Difference:
    """A paired difference and its 95 % interval; one split has no interval."""

    mean: float
    low: float | None
    high: float | None

    @property
    def sign(self) -> int:
        """-1 or 1 where the interval leaves out zero, else 0: chance could give the difference."""
        if self.low is None or self.high is None:
            return 0
        return -1 if self.high < 0 else int(self.low > 0)


@dataclass(frozen=True, slots=True)
class Standing:
    """How one strategy did; errors are averaged over all queries unless they say otherwise."""

    method: str
    average: float
    standard_error: float | None
    last: float  # after the last query
    difference: Difference | None  # to Random, below zero is better; None for Random itself
    random_needs: int | None  # queries, for this one's last error; None: more than were asked


@dataclass(frozen=True, slots=True)
class Saving:
    """What Random pays for the error that a strategy has after some queries, and the reverse."""

    query: int
    error: float
    random_error: float
    random_needs: int | None  # for `error`; None: more than were asked
    needs: int | None  # of the strategy, for good, for `random_error`


def standings(errors: Errors) -> list[Standing]:
    """All strategies, the lowest average error first."""
    random = errors[RANDOM].mean(axis=0)
    found = []
    for method, runs in errors.items():
        average, last = runs.mean(axis=1), float(runs.mean(axis=0)[-1])
        gap = None if method == RANDOM else difference(errors, method, RANDOM)
        spread, needs = standard_error(average), reaches(random, last)
        found.append(Standing(method, float(average.mean()), spread, last, gap, needs))
    return sorted(found, key=lambda standing: standing.average)


def difference(errors: Errors, one: str, other: str, comparisons: int = 1) -> Difference:
    """Average error of `one` less that of `other`, split by split."""
    return paired(errors[one].mean(axis=1) - errors[other].mean(axis=1), comparisons)


def paired(each: Float[np.ndarray, " S"], comparisons: int = 1) -> Difference:
    """The mean of differences and Student's interval.

    Args:
        each: The difference in each split.
        comparisons: How many differences this one was picked from: the best of several looks good
            by luck alone, so its interval is widened (Bonferroni).
    """
    from scipy.special import stdtrit

    mean, spread = float(each.mean()), standard_error(each)
    if spread is None:
        return Difference(mean, None, None)
    half = float(stdtrit(len(each) - 1, 1 - LEVEL / (2 * comparisons))) * spread
    return Difference(mean, mean - half, mean + half)


def standard_error(values: Float[np.ndarray, " S"]) -> float | None:
    """Of the mean; one value has none."""
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None


def checkpoints(queries: int, most: int = max(CHECKPOINTS)) -> list[int]:
    """After 5, 10, 20, … queries, and the last."""
    return [query for query in CHECKPOINTS if query < queries and query <= most] + [queries]


def savings(errors: Errors, method: str) -> list[Saving]:
    """After 5, 10, 20 queries and the last: what each needs for the other's error."""
    curve, random = errors[method].mean(axis=0), errors[RANDOM].mean(axis=0)
    return [
        Saving(
            q,
            float(curve[q - 1]),
            float(random[q - 1]),
            reaches(random, float(curve[q - 1])),
            settles(curve, float(random[q - 1])),
        )
        for q in checkpoints(len(curve), most=20)
    ]


def reaches(curve: Float[np.ndarray, " T"], error: float) -> int | None:
    """The first query with this error or less; for Random, that is to give it its best moment."""
    found = np.flatnonzero(curve <= error * ROUNDING)
    return int(found[0]) + 1 if len(found) else None


def settles(curve: Float[np.ndarray, " T"], error: float) -> int | None:
    """The query from which on the error is no more than this; a lucky dip does not count."""
    above = np.flatnonzero(curve > error * ROUNDING)
    first = int(above[-1]) + 2 if len(above) else 1
    return first if first <= len(curve) else None
