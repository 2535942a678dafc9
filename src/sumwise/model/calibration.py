"""Whether intervals hold what they promise: counted, with what chance allows, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

LEVELS: Final = (0.5, 0.8, 0.9, 0.95)  # of the intervals that are checked
FEW: Final = 10  # values below which nothing is said


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many values lie in intervals that should hold a share `level` of them."""

    level: float
    inside: int
    answers: int
    low: float  # ends of the 95 % interval of the share
    high: float

    @property
    def share(self) -> float:
        return self.inside / self.answers

    @property
    def surprise(self) -> str:
        """Whether more or fewer lie inside than chance explains; empty if neither."""
        if self.low <= self.level <= self.high:
            return ""
        return "more" if self.low > self.level else "fewer"


def coverage(z: Sequence[float], level: float) -> tuple[Coverage, ...]:
    """Counts at the usual levels and at `level`.

    Args:
        z: How many predicted standard deviations each value is off.
    """
    rows = []
    for nominal in sorted({*LEVELS, level}) if z else ():
        reach = NormalDist().inv_cdf(0.5 + 0.5 * nominal)
        inside = sum(abs(off) <= reach for off in z)
        rows.append(Coverage(nominal, inside, len(z), *binomial_interval(inside, len(z))))
    return tuple(rows)


def headline(rows: Sequence[Coverage], level: float) -> str:
    """Whether the intervals are right, judged at `level`, in a few words."""
    here = _at(rows, level)
    if here is None or here.answers < FEW:
        return "Too few answers to say whether the intervals are right"
    if here.surprise:
        return f"The intervals are too {'narrow' if here.surprise == 'fewer' else 'wide'}"
    at = f" at {percent(level)}" if any(row.surprise for row in rows) else ""
    return f"The intervals are about right{at}"


def verdict(rows: Sequence[Coverage], level: float) -> str:
    """The headline and the counts behind it; other levels are mentioned where they differ."""
    here, said = _at(rows, level), headline(rows, level)
    if here is None:
        return f"{said}."
    seen = f"{here.inside} of {here.answers} answers lie in intervals made for {percent(level)}"
    if here.answers < FEW:
        return f"{said}: {seen}."
    if here.surprise:
        only = "only " if here.surprise == "fewer" else ""
        return f"{said}: {only}{seen}, {here.surprise} than chance explains."
    others = ", ".join(
        f"{row.inside} in those for {percent(row.level)}, {row.surprise} than chance explains"
        for row in rows
        if row.surprise
    )
    return f"{said}: {seen}; but {others}." if others else f"{said}: {seen}."


def _at(rows: Sequence[Coverage], level: float) -> Coverage | None:
    return next((row for row in rows if row.level == level), None)


def binomial_interval(inside: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share, of which `inside` of `n` were seen.

    >>> [round(end, 3) for end in binomial_interval(9, 10)]
    [0.555, 0.997]
    """
    from scipy.special import betaincinv  # `binomtest` would load all of scipy.stats

    tail = 0.5 * (1 - level)
    lower = float(betaincinv(inside, n - inside + 1, tail)) if inside else 0.0
    upper = float(betaincinv(inside + 1, n - inside, 1 - tail)) if inside < n else 1.0
    return lower, upper


def percent(share: float) -> str:
    """
    >>> percent(0.9), percent(0.995)
    ('90 %', '99.5 %')
    """
    return f"{100 * share:.3g} %"
