"""The verdict of a simulation in words, read off the numbers.

IVR is judged first, because it is what we would have recommended without looking. Another
strategy that comes out on top was picked by looking, so it must clear a wider interval
(`paired.difference`). Where IVR is not ahead, the verdict says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
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
    table = standings(errors)
    best = table[0].method
    rivals = [line.method for line in table if line.method != RANDOM]
    subject = OURS if OURS in errors else rivals[0]
    picked_from = 1 if subject == OURS else len(rivals)
    gap = difference(errors, subject, RANDOM, picked_from)
    outcome = "unknown" if gap.low is None else {-1: "wins", 0: "even", 1: "loses"}[gap.sign]
    clear = best != RANDOM and difference(errors, best, RANDOM, len(rivals)).sign < 0
    if best == subject:
        clear = outcome == "wins"
    sentences = [_compared(errors, subject, gap, picked_from), *CLOSING[outcome]]
    if outcome == "wins":
        sentences.append(_saved(errors, subject))
    if outcome == "wins" and best == subject and len(rivals) > 1:
        size, luck = _lead_of(errors, subject, rivals[1])
        sentences.append(f"The next lowest average is that of {rivals[1]}, {size} higher: {luck}.")
    if outcome != "unknown" and best == RANDOM:
        sentences.append("No strategy had a lower average error than Random.")
    elif outcome == "wins" and best != subject:
        size, luck = _lead_of(errors, best, subject, len(rivals) - 1)
        lowest = f"The lowest average is that of {best}, {size} below that of {subject}: {luck}."
        sentences.append(lowest)
    elif outcome != "unknown" and best != subject:
        sentences.append(_best_instead(errors, best, len(rivals), clear))
    headline = _headline(outcome, subject, best, clear)
    return Verdict(outcome, subject, best, clear, headline, tuple(sentences))


CLOSING: Final[Mapping[str, tuple[str, ...]]] = {
    "wins": (),
    "even": ("Chance alone could give that difference.",),
    "loses": ("Drawing groups at random was better here.",),
    "unknown": ("Run more splits to tell skill from luck.",),
}


def _headline(outcome: str, subject: str, best: str, clear: bool) -> str:
    instead = f"{best} wins; " if clear else ""
    if outcome == "wins" and best == subject:
        return f"{subject} beats Random"
    if outcome == "wins":
        return f"{subject} beats Random; the lowest error is that of {best}"
    if outcome == "loses":
        return f"{instead}Random is better than {subject}"
    if outcome == "even":
        no = "no" if clear else "No"
        return f"{instead}{no} clear difference between {subject} and Random"
    return "One split gives no verdict"


def _compared(errors: Errors, subject: str, gap: Difference, picked_from: int) -> str:
    show = number_format(errors)
    chosen, random = errors[subject], errors[RANDOM]
    widened = f", widened for the best of {picked_from}" if picked_from > 1 else ""
    interval = "" if gap.low is None else f" (95 % interval{widened}: {_in_words(gap, show)})"
    return (
        f"Averaged over {count(chosen.shape[1], 'measurement')}, the error of {subject} is "
        f"{show(abs(gap.mean))} {'below' if gap.mean < 0 else 'above'} Random's{interval}; after "
        f"the last it is {show(float(chosen[:, -1].mean()))} against "
        f"{show(float(random[:, -1].mean()))}."
    )


def _in_words(gap: Difference, show: Callable[[float], str]) -> str:
    assert gap.low is not None
    assert gap.high is not None
    if gap.low < 0 < gap.high:
        return f"{show(-gap.low)} below to {show(gap.high)} above"
    low, high = sorted((abs(gap.low), abs(gap.high)))
    return f"{show(low)} to {show(high)}"


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


def _lead_of(errors: Errors, one: str, other: str, picked_from: int = 1) -> tuple[str, str]:
    """How far `one` is below `other`, and whether that is more than luck would give."""
    gap = difference(errors, one, other, picked_from)
    luck = "more than luck would give" if gap.sign < 0 else "no more than luck could give"
    return number_format(errors)(abs(gap.mean)), luck


def _best_instead(errors: Errors, best: str, picked_from: int, clear: bool) -> str:
    below = f"{number_format(errors)(-difference(errors, best, RANDOM).mean)} below Random's"
    if clear:
        return f"{best} has the lowest average, clearly {below}. {_saved(errors, best)}"
    return (
        f"{best} has the lowest average, {below}; but the best of {picked_from} looks good by luck "
        "alone, and this is no more than luck could give."
    )


def caveats(table: Labelled, plan: Experiment, simulation: Simulation) -> list[str]:
    """What a reader should weigh before believing the verdict; the most serious first."""
    errors = simulation.errors
    show, most = number_format(errors), training_groups(table)
    found = []
    lowest = min(float(runs[:, -1].mean()) for runs in errors.values())
    guess = float(simulation.guess.mean())
    if lowest > HARDLY * guess:
        found.append(
            f"After the last measurement the best strategy is off by {show(lowest)}, and the same "
            f"mean for everyone by {show(guess)}. The inputs tell little about the target, or "
            f"totals of {plan.queries} groups are too few; who wins then means little."
        )
    if plan.splits < FEW_SPLITS:
        found.append(
            f"{count(plan.splits, 'split')} only, so the intervals are rough; run {FEW_SPLITS} or "
            "more."
        )
    if table.n_groups < FEW_GROUPS:
        found.append(
            f"{table.n_groups} groups only: {most} to learn from and {table.n_groups - most} to be "
            "tested on in each split. What holds for so few groups may not hold for others."
        )
    if plan.queries > most / 2:
        found.append(
            f"{plan.queries} of {most} groups are measured in the end, so all strategies end with "
            "much the same groups; what differs is how soon they learn."
        )
    found += [
        "Measurements are counted, not what they cost: some strategies prefer large groups. If a "
        "large group costs more, weigh that in.",
        "Splits share groups, so the intervals speak of other splits of these data, not of other "
        "data. Your next data must be like these for the verdict to carry over.",
    ]
    return found


# --- wording ------------------------------------------------------------------------------------


def number_format(errors: Errors) -> Callable[[float], str]:
    """How to write this simulation's errors: all with as many decimals as four figures need."""
    size = float(errors[RANDOM].mean())
    if not 1e-4 <= size < 1e7:
        return lambda value: f"{value:.2e}".replace("-", "−")
    decimals = max(0, 3 - math.floor(math.log10(size)))
    return lambda value: f"{value + 0.0:,.{decimals}f}".replace("-", "−")


def span(gap: Difference, show: Callable[[float], str]) -> str:
    return "" if gap.low is None or gap.high is None else f"{show(gap.low)} to {show(gap.high)}"
