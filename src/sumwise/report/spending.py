"""What the money of a study has bought, answer by answer."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

from sumwise.learning.insight import Insight
from sumwise.report.page import Section, TextTable
from sumwise.util.text import figure, label

MOST: Final = 300  # rows


def spending(insight: Insight, cost: Mapping[Hashable, float]) -> Section:
    """A row for each answer: what it cost, what was spent by then, and what had been learned.

    Args:
        cost: Of measuring each set, by id.
    """
    rows, spent, taught = [], 0.0, 0.0
    for step in insight.steps:
        spent += cost[step.set_id]
        taught += step.information
        rows.append(
            (
                f"{step.number}",
                label(step.set_id),
                figure(cost[step.set_id]),
                figure(spent),
                figure(taught),
                f"± {figure(step.individual_std)}",
            )
        )
    words = (
        "Information is what the answers taught, in nats, added up; uncertainty is that of a "
        "prediction, own noise left out, as a standard deviation."
    )
    heads = ("answer", "set", "cost", "spent by then", "information by then", "uncertainty left")
    table = TextTable(heads, rows[-MOST:], f"The last {MOST}." if len(rows) > MOST else "")
    return Section("What the money has bought", [words], table=table)
