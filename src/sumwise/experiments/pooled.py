"""Would designed pools pay on data like mine? What a simulation with them runs, and the verdict.

On the splits of `simulate`, designed pools stand beside three other ways to measure: the groups as
they are, asked for by IVR; pools of random individuals; and single individuals chosen by IVR, each
at most once. All have the same model and the same test individuals. Designed pools are judged
against each of the three, so intervals are widened for as many comparisons, and the headline is
about the one whose average error is lowest: pools pay if they are clearly below all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from sumwise.data.pool_rules import PoolRules
from sumwise.errors import SettingError
from sumwise.experiments import comparison
from sumwise.experiments.comparison import (
    FEW,
    MEASUREMENTS,
    ROUNDING,
    Difference,
    Errors,
    Verdict,
    number_format,
    paired,
    settles,
)
from sumwise.experiments.protocol import Method, auto_model
from sumwise.report.page import Section, TextTable
from sumwise.util.shapes import Float
from sumwise.util.text import NONE, count

DESIGNED: Final = "designed pools"
OTHERS: Final = ("given groups", "random pools", "individuals")
MEASURED: Final = {"given groups": "measured groups"}  # how each is called in numbers
METHODS: Final = (
    Method(DESIGNED, "IVR", auto_model, measures="pools"),
    Method("given groups", "IVR", auto_model),
    Method("random pools", "Rand", auto_model, measures="random"),
    Method("individuals", "IVR", auto_model, measures="individuals"),
)
ASKED: Final = {
    DESIGNED: "pools worked out by IVR one after the other, each from the totals before it",
    "given groups": "the groups of the table, asked for by IVR",
    "random pools": "random sizes within the limits, and random members",
    "individuals": "single individuals, asked for by IVR, each at most once",
}


@dataclass(frozen=True, slots=True)
class Way:
    """How one way to measure did; errors are averaged over all measurements unless they say so."""

    method: str
    average: float
    standard_error: float | None
    last: float  # after the last measurement
    difference: Difference | None  # of designed pools to it, below zero they are better
    designed_need: int | None  # designed pools, for good, for `last`; None: more than were made


def check(n: int, rules: PoolRules, queries: int) -> None:
    """Refuse rules by which n individuals could run out."""
    (fewest, most), uses = rules.size, rules.uses
    spent = 0 if uses is None else (queries - 1) * most // uses
    if n - spent < fewest:
        each = "" if uses is None else f", each in at most {count(uses, 'pool')},"
        raise SettingError(
            f"{count(queries, 'pool')} of {fewest} to {most} individuals{each} can need more than "
            f"the {n} that there are to learn from; give smaller pools, fewer queries or more uses"
        )


def ways(errors: Errors) -> list[Way]:
    """All ways, the lowest average error first."""
    curve, found = errors[DESIGNED].mean(axis=0), []
    for method, runs in errors.items():
        average, last = runs.mean(axis=1), float(runs.mean(axis=0)[-1])
        gap = None if method == DESIGNED else _gap(errors, method)
        need = None if gap is None else settles(curve, last)
        spread = comparison.standard_error(average)
        found.append(Way(method, float(average.mean()), spread, last, gap, need))
    return sorted(found, key=lambda way: way.average)


def _gap(errors: Errors, other: str) -> Difference:
    each = errors[DESIGNED].mean(axis=1) - errors[other].mean(axis=1)
    return paired(each, comparisons=len(errors) - 1)


def verdict(errors: Errors, guess: Float[np.ndarray, " S"]) -> Verdict:
    """Whether designed pools pay, by the error averaged over all measurements."""
    lines = {way.method: way for way in ways(errors)}
    rival = next(method for method in lines if method != DESIGNED)
    gap, best = lines[rival].difference, next(iter(lines))
    assert gap is not None
    outcome = "unknown" if gap.low is None else {-1: "wins", 0: "even", 1: "loses"}[gap.sign]
    headline = {
        "wins": _reached(errors, lines[rival]),
        "even": f"Designed pools and {rival} cannot be told apart with so few splits"
        if len(guess) < FEW
        else f"No clear difference between designed pools and {rival}",
        "loses": f"Designed pools do not pay here: {rival} are better",
        "unknown": "One split gives no verdict",
    }[outcome]
    sentences = _sentences(errors, lines)
    against = comparison.against_mean(errors, DESIGNED, "split", guess, "mean")
    no_better, more = against or ("", ())
    headline += f"; {no_better}" if no_better else ""
    said = (*sentences, *more)
    return Verdict(outcome, DESIGNED, best, outcome == "wins", headline, said, no_better)


def _reached(errors: Errors, rival: Way) -> str:
    queries, need = errors[DESIGNED].shape[1], rival.designed_need
    if need is None or need == queries:
        return f"Designed pools learn sooner than {rival.method}, which catch up in the end"
    name = MEASURED.get(rival.method, rival.method)
    return f"Designed pools reach the error of {queries} {name} after {count(need, 'measurement')}"


def _sentences(errors: Errors, lines: Mapping[str, Way]) -> list[str]:
    """How designed pools compare with each other way, and what they save."""
    show, queries = number_format(errors), errors[DESIGNED].shape[1]
    gaps: list[str] = []
    needs: list[str] = []
    never: list[str] = []
    for way in map(lines.__getitem__, OTHERS):
        gap, name = way.difference, f"{queries} {MEASURED.get(way.method, way.method)}"
        assert gap is not None
        interval = gap.interval(show, "" if gaps else "95 % interval for three comparisons: ")
        side = "below" if gap.mean < 0 else "above"
        gaps.append(f"{show(abs(gap.mean))} {side} that of {way.method}{interval}")
        if way.designed_need is None:
            never.append(name)
        else:
            needs.append(f"{way.designed_need} for the error of {name}")
    after = f"Averaged over {count(queries, 'measurement')}, the error of designed pools is "
    said = [f"{after}{_joined(gaps)}."]
    if needs:
        said.append(f"Of designed pools, it takes {_joined(needs)}.")
    if never:
        said.append(f"{queries} designed pools do not reach the error of {_joined(never)}.")
    return said


def _joined(parts: Sequence[str]) -> str:
    return ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + parts[-1]


# --- for people to read ---------------------------------------------------------------------------


def ways_table(errors: Errors) -> TextTable:
    """How each way did, the lowest average first."""
    lines, show = ways(errors), number_format(errors)
    rows = []
    for way in lines:
        gap, queries = way.difference, errors[DESIGNED].shape[1]
        against = NONE if gap is None else show(gap.mean) + gap.interval(show)
        need = NONE if gap is None else MEASUREMENTS.needed(way.designed_need, queries)
        rows.append((way.method, show(way.average), show(way.last), against, need))
    lowest = min(way.last for way in lines) * ROUNDING
    bold = {(0, 0), (0, 1), *((row, 2) for row, way in enumerate(lines) if way.last <= lowest)}
    columns = (
        "measured", "average\nerror", "after the\nlast", "designed pools less\nit (95 % interval)",
        "needed for\nits last",
    )  # fmt: skip
    caption = (
        "Lowest average first; bold is the lowest of a column. Below zero, designed pools are "
        "better; intervals are widened for three comparisons. “Needed”: designed pools from which "
        "on their error is no more than that of the other way after its last measurement."
    )
    return TextTable(columns, rows, caption, frozenset(bold))


def errors_section(errors: Errors) -> Section:
    """Errors after 5, 10, 20, … measurements."""
    show, means = number_format(errors), {m: runs.mean(axis=0) for m, runs in errors.items()}
    rows = [
        (str(query), *(show(float(curve[query - 1])) for curve in means.values()))
        for query in comparison.checkpoints(errors[DESIGNED].shape[1])
    ]
    return Section("On the way", table=TextTable(("measurements", *means), rows))


def in_words(rules: PoolRules) -> str:
    """What pools may be."""
    fewest, most = rules.size
    said = f"{most} members" if fewest == most else f"{fewest} to {most} members"
    said += ", each individual in "
    said += "any number of pools" if rules.uses is None else f"{count(rules.uses, 'pool')} at most"
    noise = {"for a pool": rules.noise_std, "for each member": rules.noise_std_per_member}
    named = " and ".join(f"{value:g} {what}" for what, value in noise.items() if value)
    return f"{said}; noise of pooling {named}" if named else f"{said}; pooling adds no noise"


def caveats(rules: PoolRules) -> list[str]:
    """What to weigh of designed pools before believing the verdict."""
    found = {
        "Measurements are counted, not what they cost: the members of a designed pool have to be "
        "brought together, and may be anywhere in the table.": True,
        "An individual may be in any number of pools here; where a sample is used up, say in how "
        "many it may be with --uses.": rules.uses is None,
        "Pooling adds no noise here; if yours does, say how much with --pool-noise-std and "
        "--pool-noise-std-per-member.": not (rules.noise_std or rules.noise_std_per_member),
    }
    return [caveat for caveat, holds in found.items() if holds]


def as_json(errors: Errors, rules: PoolRules) -> dict[str, Any]:
    """What ways and rules are, for machines."""
    names = ("size", "uses", "noise_std", "noise_std_per_member")
    return {
        "ways": [asdict(way) for way in ways(errors)],
        "pools": {name: getattr(rules, name) for name in names},
    }
