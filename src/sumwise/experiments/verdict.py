"""The verdict of a simulation in words, read off the numbers.

IVR is judged first, because it is what we would have recommended without looking. Another
strategy that comes out on top was picked by looking, so it must clear a wider interval
(`paired.difference`). Where IVR is not ahead, the verdict says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sumwise.experiments.datasets import Labelled
from sumwise.experiments.paired import RANDOM, Difference, Errors, difference, settles, standings
from sumwise.experiments.protocol import Experiment
from sumwise.experiments.simulate import Simulation, training_groups
from sumwise.util.text import count

OURS: Final = "IVR"  # the strategy that we recommend, so the one to be judged first
FEW_SPLITS, FEW_GROUPS = 10, 25
HARDLY: Final = 0.95  # of the error of a guess: a model above this has hardly learned


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who won, by the error averaged over all queries."""

    outcome: str  # "wins", "even", "loses" or, after one split, "unknown": `subject` and Random
    subject: str  # IVR if it took part, else the best
    best: str  # lowest average error of all, Random included
    best_is_clear: bool  # whether chance alone could hardly put it below Random
    headline: str
    sentences: tuple[str, ...]

    @property
    def focus(self) -> str:
        """The strategy whose savings matter: the best, if it is one for certain."""
        return self.best if self.best_is_clear else self.subject


def verdict(errors: Errors) -> Verdict:
    """The average over all queries counts, so that no flattering moment can be picked."""
    ranking = [line.method for line in standings(errors)]
    best, rivals = ranking[0], [method for method in ranking if method != RANDOM]
    subject = OURS if OURS in errors else rivals[0]
    picked_from = 1 if subject == OURS else len(rivals)
    gap = difference(errors, subject, RANDOM, picked_from)
    outcome = "unknown" if gap.low is None else {-1: "wins", 0: "even", 1: "loses"}[gap.sign]
    lead = gap if best == subject else difference(errors, best, RANDOM, len(rivals))
    clear = best != RANDOM and lead.sign < 0
    instead = f"{best} wins; " if clear else ""
    lowest = "" if best == subject else f"; the lowest error is that of {best}"
    no = "no" if clear else "No"
    headline, closing = {
        "wins": (f"{subject} beats Random{lowest}", _saved(errors, subject)),
        "even": (
            f"{instead}{no} clear difference between {subject} and Random",
            "Chance alone could give that difference.",
        ),
        "loses": (
            f"{instead}Random is better than {subject}",
            "Drawing groups at random was better here.",
        ),
        "unknown": ("One split gives no verdict", "Run more splits to tell skill from luck."),
    }[outcome]
    sentences = [_compared(errors, subject, gap, picked_from), closing]
    if outcome != "unknown":
        sentences += _best(errors, subject, best, rivals, clear=clear, wins=outcome == "wins")
    return Verdict(outcome, subject, best, clear, headline, tuple(sentences))


def _compared(errors: Errors, subject: str, gap: Difference, picked_from: int) -> str:
    show = number_format(errors)
    chosen, random = errors[subject], errors[RANDOM]
    widened = f", widened for the best of {picked_from}" if picked_from > 1 else ""
    interval = ""
    if gap.low is not None and gap.high is not None:
        interval = f" (95 % interval{widened}: {_in_words(gap.low, gap.high, show)})"
    return (
        f"Averaged over {count(chosen.shape[1], 'measurement')}, the error of {subject} is "
        f"{show(abs(gap.mean))} {'below' if gap.mean < 0 else 'above'} Random's{interval}; after "
        f"the last it is {show(float(chosen[:, -1].mean()))} against "
        f"{show(float(random[:, -1].mean()))}."
    )


def _in_words(low: float, high: float, show: Callable[[float], str]) -> str:
    if low < 0 < high:
        return f"{show(-low)} below to {show(high)} above"
    return " to ".join(map(show, sorted((abs(low), abs(high)))))


def _saved(errors: Errors, method: str) -> str:
    """How soon the strategy is where Random ends."""
    random = errors[RANDOM].mean(axis=0)
    needs, queries = settles(errors[method].mean(axis=0), float(random[-1])), len(random)
    if needs is None or needs == queries:
        return "By the last measurement Random has caught up: none is saved in the end."
    return (
        f"{method} needs {needs} of {queries} measurements for the error that Random has after "
        f"{queries}: {queries - needs} saved."
    )


def _best(
    errors: Errors, subject: str, best: str, rivals: Sequence[str], *, clear: bool, wins: bool
) -> list[str]:
    """What there is to say of the lowest average, or of the next lowest if the winner has it."""
    show = number_format(errors)

    def lead(one: str, other: str, picked_from: int) -> tuple[str, str]:
        gap = difference(errors, one, other, picked_from)
        luck = "more than luck would give" if gap.sign < 0 else "no more than luck could give"
        return show(abs(gap.mean)), luck

    if best == RANDOM:
        return ["No strategy had a lower average error than Random."]
    if wins and best != subject:
        size, luck = lead(best, subject, len(rivals) - 1)
        return [f"The lowest average is that of {best}, {size} below that of {subject}: {luck}."]
    if wins and len(rivals) > 1:
        size, luck = lead(subject, rivals[1], 1)
        return [f"The next lowest average is that of {rivals[1]}, {size} higher: {luck}."]
    if best == subject:
        return []
    size, luck = lead(best, RANDOM, len(rivals))
    if clear:
        lowest = f"{best} has the lowest average, clearly {size} below Random's."
        return [f"{lowest} {_saved(errors, best)}"]
    return [
        f"{best} has the lowest average, {size} below Random's; but the best of {len(rivals)} "
        f"looks good by luck alone, and this is {luck}."
    ]


def caveats(table: Labelled, plan: Experiment, simulation: Simulation) -> list[str]:
    """What a reader should weigh before believing the verdict; the most serious first."""
    errors = simulation.errors
    show, most = number_format(errors), training_groups(table)
    lowest = min(float(runs[:, -1].mean()) for runs in errors.values())
    guess = float(simulation.guess.mean())
    found = {
        f"After the last measurement the best strategy is off by {show(lowest)}, and the same "
        f"mean for everyone by {show(guess)}. The inputs tell little about the target, or "
        f"totals of {plan.queries} groups are too few; who wins then means little.": (
            lowest > HARDLY * guess
        ),
        f"{count(plan.splits, 'split')} only, so the intervals are rough; run {FEW_SPLITS} or "
        "more.": plan.splits < FEW_SPLITS,
        f"{table.n_groups} groups only: {most} to learn from and {table.n_groups - most} to be "
        "tested on in each split. What holds for so few groups may not hold for others.": (
            table.n_groups < FEW_GROUPS
        ),
        f"{plan.queries} of {most} groups are measured in the end, so all strategies end with "
        "much the same groups; what differs is how soon they learn.": plan.queries > most / 2,
        "Measurements are counted, not what they cost: some strategies prefer large groups. If a "
        "large group costs more, weigh that in.": True,
        "Splits share groups, so the intervals speak of other splits of these data, not of other "
        "data. Your next data must be like these for the verdict to carry over.": True,
    }
    return [caveat for caveat, holds in found.items() if holds]


# --- wording ------------------------------------------------------------------------------------


def number_format(errors: Errors) -> Callable[[float], str]:
    """How to write this simulation's errors: all with as many decimals as four figures need."""
    size = float(errors[RANDOM].mean())
    if not 1e-4 <= size < 1e7:
        return lambda value: f"{value:.2e}".replace("-", "−")
    decimals = max(0, 3 - math.floor(math.log10(size)))
    return lambda value: f"{value + 0.0:,.{decimals}f}".replace("-", "−")
