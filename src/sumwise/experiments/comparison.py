"""Strategies compared split by split: averages, differences to Random, and the verdict in words.

Within a split all strategies have the same sets and the same model to start from, so what is
compared is the difference within each split, with Student's interval over splits. The verdict
judges IVR first, because it is what we would have recommended without looking. Another strategy
that comes out on top was picked by looking, so it must clear a wider interval (`difference`). Where
IVR is not ahead, or its model does not beat guessing the mean in the end, the headline says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from sumwise.util.shapes import Float
from sumwise.util.text import count

Errors: TypeAlias = (
    "Mapping[str, Float[np.ndarray, 'S T']]"  # by strategy: a split a row, a query a column
)

RANDOM: Final = "Rand"
OURS: Final = "IVR"  # the strategy that we recommend, so the one to be judged first
CHECKPOINTS: Final = (5, 10, 20, 30, 50, 100, 200, 400)
LEVEL: Final = 0.05
FEW: Final = 10  # runs below which intervals are rough
ROUNDING: Final = 1 + 1e-6  # the same groups in another order give the same error but for this


@dataclass(frozen=True, slots=True)
class Scale:
    """What a column of errors stands for: one measurement more, or money."""

    step: float = 1  # what a column costs
    costs: bool = False

    def amount(self, columns: int) -> str:
        """So many measurements, or so much money."""
        return f"{columns * self.step:,.4g}" if self.costs else str(columns)

    def phrase(self, columns: int) -> str:
        """The same with its unit."""
        return f"a cost of {self.amount(columns)}" if self.costs else count(columns, "measurement")

    def needed(self, columns: int | None, asked: int) -> str:
        """What `reaches` or `settles` has found, in words."""
        return f"more than {self.amount(asked)}" if columns is None else self.amount(columns)


MEASUREMENTS: Final = Scale()


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

    def interval(self, show: Callable[[float], str], name: str = "") -> str:
        """The interval in brackets, with a space before them; empty where there is none."""
        if self.low is None or self.high is None:
            return ""
        return f" ({name}{show(self.low)} to {show(self.high)})"


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


# --- the verdict ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who won, by the error averaged over all queries."""

    outcome: str  # "wins", "even", "loses" or, after one split, "unknown": `subject` and Random
    subject: str  # IVR if it took part, else the best
    best: str  # lowest average error of all, Random included
    best_is_clear: bool  # whether chance alone could hardly put it below Random
    headline: str
    sentences: tuple[str, ...]
    no_better: str = ""  # if the model does not beat guessing the mean: that, as in the headline

    @property
    def focus(self) -> str:
        """The strategy whose savings matter: the best, if it is one for certain."""
        return self.best if self.best_is_clear else self.subject


def verdict(
    errors: Errors,
    run: str = "split",
    guess: Float[np.ndarray, " S"] | None = None,
    usual: str = "mean",
    scale: Scale = MEASUREMENTS,
) -> Verdict:
    """The average over all queries counts, so that no flattering moment can be picked.

    Args:
        run: What the rows of `errors` are called.
        guess: Error of guessing the mean in each of them, which the last query should beat.
        usual: What was guessed, if not the mean.
        scale: What the columns of `errors` stand for.
    """
    ranking = [line.method for line in standings(errors)]
    best, rivals = ranking[0], [method for method in ranking if method != RANDOM]
    subject = OURS if OURS in errors else rivals[0]
    picked_from = 1 if subject == OURS else len(rivals)
    gap = difference(errors, subject, RANDOM, picked_from)
    outcome = "unknown" if gap.low is None else {-1: "wins", 0: "even", 1: "loses"}[gap.sign]
    lead = gap if best == subject else difference(errors, best, RANDOM, len(rivals))
    clear = best != RANDOM and lead.sign < 0
    headline, closing = {
        "wins": (f"{subject} beats Random", _saved(errors, subject, scale)),
        "even": (
            f"{subject} and Random cannot be told apart with so few {run}s"
            if len(errors[RANDOM]) < FEW
            else f"No clear difference between {subject} and Random",
            "Chance alone could give that difference.",
        ),
        "loses": (
            f"Random is better than {subject}",
            "Drawing groups at random was better here.",
        ),
        "unknown": (f"One {run} gives no verdict", f"Run more {run}s for a verdict."),
    }[outcome]
    if best not in (subject, RANDOM) and (clear or outcome == "wins"):
        headline += f"; the lowest error is that of {best}"
    sentences = [_compared(errors, subject, gap, picked_from, scale), closing]
    if outcome != "unknown":
        sentences += _lowest(errors, subject, rivals, best, wins=outcome == "wins")
        sentences += [_saved(errors, best, scale)] if clear and outcome != "wins" else []
    against = None if guess is None else against_mean(errors, subject, run, guess, usual)
    no_better, more = against or ("", ())
    headline += f"; {no_better}" if no_better else ""
    return Verdict(outcome, subject, best, clear, headline, (*sentences, *more), no_better)


def against_mean(
    errors: Errors, subject: str, run: str, guess: Float[np.ndarray, " S"], usual: str
) -> tuple[str, tuple[str, ...]]:
    """That the model does not beat guessing the mean, for a headline and as a sentence; empty if it
    does, or if one run alone cannot tell."""
    show, last = number_format(errors), errors[subject][:, -1]
    gap = paired(last - guess)
    if gap.low is None or gap.sign < 0:
        return "", ()
    said = f"the model is worse than guessing the {usual}"
    if gap.sign == 0:
        said = f"the model does not clearly beat guessing the {usual}"
        if len(last) < FEW:
            said = f"with so few {run}s the model cannot be told apart from guessing the {usual}"
    interval = gap.interval(show, "95 % interval of the difference: ")
    return said, (
        f"After the last measurement the error of {subject} is {show(float(last.mean()))}, and "
        f"that of guessing the {usual} {show(float(guess.mean()))}{interval}.",
    )


def _compared(errors: Errors, subject: str, gap: Difference, picked_from: int, scale: Scale) -> str:
    show = number_format(errors)
    chosen, random = errors[subject], errors[RANDOM]
    widened = f", widened for the best of {picked_from}" if picked_from > 1 else ""
    interval = gap.interval(show, f"95 % interval{widened}: ")
    columns = chosen.shape[1]
    over = f"up to {scale.phrase(columns)}" if scale.costs else f"over {scale.phrase(columns)}"
    return (
        f"Averaged {over}, the error of {subject} is "
        f"{show(abs(gap.mean))} {'below' if gap.mean < 0 else 'above'} Random's{interval}; "
        f"{'in the end' if scale.costs else 'after the last'} it is "
        f"{show(float(chosen[:, -1].mean()))} against "
        f"{show(float(random[:, -1].mean()))}."
    )


def _saved(errors: Errors, method: str, scale: Scale) -> str:
    """How soon the strategy is where Random ends."""
    random = errors[RANDOM].mean(axis=0)
    needs, queries = settles(errors[method].mean(axis=0), float(random[-1])), len(random)
    if needs is None:
        if scale.costs:
            return "In the end Random has caught up: nothing is saved."
        return "By the last measurement Random has caught up: none is saved in the end."
    if scale.costs:
        return (
            f"For the error that Random has after {scale.phrase(queries)}, {method} pays "
            f"{scale.amount(needs)}: {scale.amount(queries - needs)} saved."
        )
    return (
        f"{method} needs {needs} of {queries} measurements for the error that Random has after "
        f"{queries}: {queries - needs} saved."
    )


def _lowest(
    errors: Errors, subject: str, rivals: Sequence[str], best: str, *, wins: bool
) -> list[str]:
    """By how much the lowest average is below the next that matters, and whether that is luck."""
    if best == RANDOM:
        return ["No strategy had a lower average error than Random."]
    if best == subject and (not wins or len(rivals) == 1):
        return []  # its difference to Random has been said
    other, picked_from = RANDOM, len(rivals)
    if wins:
        other, picked_from = (rivals[1], 1) if best == subject else (subject, len(rivals) - 1)
    gap = difference(errors, best, other, picked_from)
    luck = "a significant difference" if gap.sign < 0 else "not a significant difference"
    of = f" for the best of {picked_from}" if picked_from > 1 else ""
    whose = "Random" if other == RANDOM else other
    size = number_format(errors)(abs(gap.mean))
    return [f"The lowest average is that of {best}, {size} below that of {whose}: {luck}{of}."]


def number_format(errors: Errors) -> Callable[[float], str]:
    """How to write this simulation's errors: all with as many decimals as four figures need."""
    size = float(errors.get(RANDOM, next(iter(errors.values()))).mean())
    if not 1e-4 <= size < 1e7:
        return lambda value: f"{value:.2e}".replace("-", "−")
    decimals = max(0, 3 - math.floor(math.log10(size)))
    return lambda value: f"{value + 0.0:,.{decimals}f}".replace("-", "−")
