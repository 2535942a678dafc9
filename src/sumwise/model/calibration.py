"""Whether intervals hold what they promise: counted, with what chance allows, and in words.

Intervals are called about right only where the count would have shown intervals that hold clearly
less (`power`): a check that notices nothing because it can notice nothing is no reason to trust.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

LEVELS: Final = (0.5, 0.8, 0.9, 0.95)  # of the intervals that are checked
TAIL: Final = 0.025  # probability of a count that is taken for no chance, on either side
POWER: Final = 0.8  # to notice intervals that are too narrow; with less, none are called right
LIMITS: Final = (
    "Totals of sets were checked, not individuals: errors that cancel within a set, and sets "
    "unlike those measured, go unnoticed."
)


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
    if here is None:
        return "Too few answers to say whether the intervals are right"
    if here.surprise:
        return f"The intervals are too {'narrow' if here.surprise == 'fewer' else 'wide'}"
    elsewhere = any(row.surprise for row in rows)
    if power(here.answers, level) >= POWER:
        return "The intervals are about right" + (f" at {percent(level)}" if elsewhere else "")
    few = "too few totals to judge the intervals"
    return few.capitalize() if elsewhere else f"Nothing unusual, but {few}"


def verdict(rows: Sequence[Coverage], level: float, how: str) -> str:
    """The headline, the counts behind it, and what they could not have shown.

    Args:
        how: In which way the totals were predicted.
    """
    here, said = _at(rows, level), headline(rows, level)
    if here is None:
        return f"{said}."
    n = here.answers
    seen = f"{here.inside} of {n} totals, {how}, lie in intervals made for {percent(level)}"
    if here.surprise:
        only = "only " if here.surprise == "fewer" else ""
        return f"{said}: {only}{seen}, {here.surprise} than chance explains. {LIMITS}"
    others = ", ".join(
        f"{row.inside} in those for {percent(row.level)}, {row.surprise} than chance explains"
        for row in rows
        if row.surprise
    )
    seen += f"; but {others}" if others else ""
    chance, less = power(n, level), f"intervals that hold only {percent(narrower(level))}"
    able = f"{n} are too few to notice {less} instead of {percent(level)}"
    if chance >= POWER:
        able = f"{n} totals would show {less} with a probability of {percent(round(chance, 2))}"
    return f"{said}: {seen}. {able}. {LIMITS}"


def narrower(level: float) -> float:
    """What intervals that are clearly too narrow would hold.

    >>> round(narrower(0.9), 3), narrower(0.3)
    (0.7, 0.15)
    """
    return max(level - 0.2, 0.5 * level)


def power(n: int, level: float) -> float:
    """How probable it is that `n` values show intervals for `level` to be too narrow.

    They are taken to hold `narrower(level)`; binomial, and exact where values are independent.

    >>> round(power(12, 0.9), 2), round(power(40, 0.9), 2)
    (0.28, 0.89)
    """
    from scipy.special import bdtr

    rare = sum(bdtr(k, n, level) < TAIL for k in range(n))  # counts that would be too few
    return float(bdtr(rare - 1, n, narrower(level))) if rare else 0.0


def _at(rows: Sequence[Coverage], level: float) -> Coverage | None:
    return next((row for row in rows if row.level == level), None)


def binomial_interval(inside: int, n: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a share, of which `inside` of `n` were seen.

    >>> [round(end, 3) for end in binomial_interval(9, 10)]
    [0.555, 0.997]
    """
    from scipy.special import betaincinv  # `binomtest` would load all of scipy.stats

    lower = float(betaincinv(inside, n - inside + 1, TAIL)) if inside else 0.0
    upper = float(betaincinv(inside + 1, n - inside, 1 - TAIL)) if inside < n else 1.0
    return lower, upper


def percent(share: float) -> str:
    """
    >>> percent(0.9), percent(0.995)
    ('90 %', '99.5 %')
    """
    return f"{100 * share:.3g} %"
