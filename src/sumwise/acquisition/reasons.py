"""Why a set is asked for, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sumwise.acquisition import Acquisition
from sumwise.util.text import figure

REASONS: Final[Mapping[str, Callable[[float], str]]] = {
    "AggMI": lambda score: f"measuring it is expected to teach {score:.3g} nats about the model",
    "AggEnt": lambda score: f"its total is the least certain (entropy {score:.3g} nats)",
    "MI": lambda score: f"its individuals would teach {score:.3g} nats one by one",
    "Ent": lambda score: f"its individuals are the least certain (entropy {score:.3g} nats)",
    "IVR": lambda score: (
        f"its total is expected to lower the variance of predictions by {score:.3g} on average"
    ),
    "EPIG": lambda score: (
        f"its total is expected to teach {score:.3g} nats about an individual's output on average"
    ),
    "QBC": lambda score: f"drawn models disagree most about its total (variance {score:.3g})",
    "EMCM": lambda score: f"its total would move the model most (by {score:.3g})",
    "Var": lambda score: f"its inputs vary most (variance {score:.3g})",
    "MaxN": lambda score: "it has the most individuals",
    "MinN": lambda score: "it has the fewest individuals",
    "Rand": lambda score: "it was drawn at random",
    "DAMI": lambda score: f"by dropout, measuring it is expected to teach {score:.3g} nats",
    "DAEnt": lambda score: f"by dropout, its total is the least certain ({score:.3g} nats)",
}


def reason(
    strategy: str | Acquisition,
    score: float,
    size: int,
    left: int,
    kind: str = "unmeasured",
    turn: str = "first",
) -> str:
    """Why this set of so many individuals is asked for, of those that are left, in a sentence.

    Args:
        kind: "free" where others are being measured or were proposed before it, "affordable" where
            a budget pays for these only.
        turn: "next" where others were asked for before it.
    """
    individuals = "1 individual" if size == 1 else f"{size} individuals"
    known = REASONS.get(strategy) if isinstance(strategy, str) else None
    reason = known(score) if known else f"it has the highest score ({score:.4g})"
    if left == 1:
        return f"This is the only {kind} set that is left, of {individuals}: {reason}."
    return f"Of {left} {kind} sets, this one of {individuals} comes {turn}: {reason}."


def price(score: float, cost: float, best: bool = True) -> str:
    """What a set costs, and why that is well spent if it gains most for it.

    >>> price(0.5, 4.0)
    'It costs 4, and gains most for that: 0.125 for each unit of cost.'
    """
    if not best:
        return f"It costs {cost:.6g}."
    each = f"{figure(score / cost)} for each unit of cost"
    return f"It costs {cost:.6g}, and gains most for that: {each}."
