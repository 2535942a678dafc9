"""The first part of a study's page: what a person who pays for measurements wants to know.

Its figures are those of `Status`; information, scores and variances are in the appendix.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable
from typing import Final

from sumwise.learning.insight import Insight
from sumwise.learning.status import Status
from sumwise.report.page import Section, TextTable
from sumwise.util.text import as_given, count, figure, label, plain

MOST_NAMED: Final = 5  # sets to measure next
MUCH_LARGER: Final = 2  # measured sets than others: errors in them say less of the others


def at_a_glance(insight: Insight, individuals: int, sizes: tuple[float, float]) -> Section:
    """A row for each of the questions such a person has.

    Args:
        sizes: Of a typical set that is measured, and of a typical set.
    """
    status = insight.status
    over = None if status.coming else "There is nothing left to ask."
    rows = [
        ("What is measured", _measured(status, individuals)),
        ("What is known now", " ".join(status.known_now)),
        ("Checked on answers", _checked(insight, *sizes)),
        ("What more answers buy", status.next_buys),
        ("What it costs", _cost(status)),
        ("To halve the uncertainty", _halving(insight)),
        ("Is it worth going on?", status.going_on or over),
        ("Measure next", _next(insight)),
        ("Which answer to check", _to_check(insight)),
    ]
    cells = [(head, said) for head, said in rows if said]
    heads = {(at, 0) for at in range(len(cells))}
    return Section("At a glance", table=TextTable(("", ""), cells, bold=heads))


def _measured(status: Status, individuals: int) -> str:
    about, kind = status.about, "pool" if status.alone else "set"
    unit = "" if about.unit is None else f", in {about.unit}"
    pooled = "pools" if status.alone else count_of(status.sets, "set")
    each = "" if about.individual is None else f" (each is one {about.individual})"
    is_or_are = "is" if status.answers == 1 else "are"
    waiting = f", {status.open_claims} being measured" if status.open_claims else ""
    return (
        f"The {label(about.title, 80)} of {pooled}{unit}. There are "
        f"{count_of(individuals, 'individual')}{each}; {count_of(status.answers, kind)} "
        f"{is_or_are} measured{waiting}."
    )


def count_of(number: int, thing: str) -> str:
    return count(number, thing).replace(str(number), f"{number:,}", 1)


def _checked(insight: Insight, measured: float, usual: float) -> str | None:
    """Errors that were made, which do not rest on what the model says of itself."""
    status = insight.status
    now, naive = insight.typical_error, insight.typical_naive_error
    if now is None or naive is None:
        return None
    unit = status.about.per_exposure
    per = "" if status.per == "individual" else f" per {status.per}"
    how = "Forecasts" if insight.by_forecast else "Predicting each answer from the others,"
    verb = "were typically off" if insight.by_forecast else "the model is typically off"
    larger = (
        f" Measured sets are larger ({measured:,.6g} individuals; usual: {usual:,.6g}), "
        "and easier to predict."
    )
    return (
        f"{how} {verb} by {unit(figure(now))} in the {status.usual} of a set{per}; guessing the "
        f"{status.usual} for every set, by {unit(figure(naive))}."
        f"{larger if measured >= MUCH_LARGER * usual else ''}"
    )


def _cost(status: Status) -> str | None:
    if status.spent is None:
        return None
    ahead = status.coming
    more = f"; {ahead} will cost {status.next_cost:,.6g}" if ahead and status.next_cost else ""
    return f"{status.spent:,.6g} so far{more}."


def _halving(insight: Insight) -> str | None:
    status, halving = insight.status, insight.halving
    if halving is None or status.individual_std is None:
        return None
    half = status.about.per_exposure(f"±{plain(0.5 * status.individual_std)}")
    cost = "" if halving.cost is None else f", and cost {as_given(halving.cost)}"
    if halving.questions is None:
        every = status.about.per_exposure(f"±{plain(status.individual_std_all or 0.0)}")
        return (
            f"By today's estimates no number of answers brings {status.typical} to {half}: "
            f"measuring all sets that are left would leave {every}{cost}."
        )
    about = as_given(float(f"{halving.questions:.2g}"))
    return f"By today's estimates {about} more answers bring {status.typical} to {half}{cost}."


def _to_check(insight: Insight) -> str | None:
    """An answer that may be wrong, or the most surprising one."""
    status = insight.status
    if status.to_check or not insight.compared:
        return status.to_check
    far = max(insight.compared, key=lambda row: abs(row.z))
    return (
        f"No answer looks wrong. The most surprising is {_named(far.set_id)}: "
        f"{as_given(far.answer)} where {figure(far.predicted)} ± {figure(far.std)} was expected "
        "without it."
    )


def _next(insight: Insight) -> str | None:
    named = [_named(asked.set_id) for asked in insight.next_questions[:MOST_NAMED]]
    return f"{', '.join(named)}." if named else None


def _named(set_id: Hashable) -> str:
    """The label of a set, in isolation where it is written from right to left: the commas and
    numbers after it would otherwise be read as part of it, and be drawn before it."""
    text = label(set_id)
    leftward = any(unicodedata.bidirectional(each) in ("R", "AL") for each in text)
    return f"\N{FIRST STRONG ISOLATE}{text}\N{POP DIRECTIONAL ISOLATE}" if leftward else text
