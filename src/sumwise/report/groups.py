"""The predicted sets, highest first: a dot and an interval for each, and a table of all of them.

What is drawn is a mean per individual (of counts, shares and amounts, a rate), so that sets of
different sizes compare; the numbers are those of `predict_sets`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from sumwise.data.about import About
from sumwise.learning.status import Status
from sumwise.model.calibration import percent
from sumwise.model.predict import Predictions
from sumwise.report.page import Section, TextTable
from sumwise.report.theme import COLOURS, channels, chart_of, finish, tooltips
from sumwise.util.shapes import Float, Int
from sumwise.util.text import NONE, as_given, figure, label

MOST: Final = 40  # rows of the chart: the highest quarter, the lowest, and half in between
MOST_BESIDE_A_MAP: Final = 16
MOST_ROWS: Final = 1000  # of the table
LONG: Final = 40  # characters of an id in the table
ROW: Final = 14  # height of a row of the chart
MEASURED, PREDICTED = "measured", "predicted"
LOOKS: Final = {MEASURED: (COLOURS[1], "diamond"), PREDICTED: (COLOURS[0], "circle")}


def by_set(
    found: Predictions, weight: Float[np.ndarray, " A"], status: Status, most: int = MOST
) -> Section:
    """The chart of the sets, or of the highest, the lowest and some in between.

    Args:
        weight: Σθ of each set, by which its total is divided.
        most: So many sets are drawn at most.
    """
    about = status.about
    title = f"Predicted {what(about, weight)}, highest first"
    each, order = per_individual(found, weight), ranking(found, weight)
    some, ends = shown_of(len(order), most), most // 4
    rows = [
        {
            "set": f"{rank + 1:,}. {label(found.ids[order[rank]] if found.ids else '')}",
            "mean": float(each[0, order[rank]]),
            "lower": float(each[1, order[rank]]),
            "upper": float(each[2, order[rank]]),
            "kind": MEASURED if is_measured(found)[order[rank]] else PREDICTED,
        }
        for rank in some.tolist()
    ]
    level, n = percent(found.level), len(order)
    words = f"A line is the {level} interval of a set; sets that are measured have a diamond."
    if len(some) < n:
        words = (
            f"Of {n:,} sets the {ends} highest, the {ends} lowest and {len(some) - 2 * ends} at "
            f"even steps between them are drawn; the appendix lists "
            f"{'all' if n <= MOST_ROWS else f'{MOST_ROWS:,}'}. {words}"
        )
    return Section(
        "Sets",
        [words],
        [_chart(rows, title, f"{what(about, weight)}{about.in_unit}")],
    )


def what(about: About, weight: Float[np.ndarray, " A"]) -> str:
    """What is drawn of a set, in words."""
    if not divided(weight):
        return about.title
    named = {"counts": "rate of", "shares": "share of"}.get(about.outputs, "mean")
    return f"{named} {label(about.outcome)}" if about.outcome else named.removesuffix(" of")


def divided(weight: Float[np.ndarray, " A"]) -> bool:
    """Whether totals are divided by Σθ; where weights add up to nothing they cannot be."""
    return bool((weight > 0).all())


def per_individual(found: Predictions, weight: Float[np.ndarray, " A"]) -> Float[np.ndarray, "3 A"]:
    """Mean, lower and upper end of each set per individual."""
    each = np.stack([found.mean, found.lower, found.upper])
    return each / weight if divided(weight) else each


def ranking(found: Predictions, weight: Float[np.ndarray, " A"]) -> Int[np.ndarray, " A"]:
    """Positions of the sets, highest first."""
    return np.argsort(-per_individual(found, weight)[0], kind="stable")


def shown_of(n: int, most: int = MOST) -> Int[np.ndarray, " m"]:
    """Ranks that are drawn of so many: all, or both ends and even steps between them.

    >>> shown_of(3).tolist(), len(shown_of(41)), shown_of(1000)[[0, 9, 10, 29, 30, 39]].tolist()
    ([0, 1, 2], 40, [0, 9, 56, 943, 990, 999])
    """
    if n <= most:
        return np.arange(n)
    ends = most // 4
    between = np.linspace(ends - 1, n - ends, most - 2 * ends + 2).round().astype(int)[1:-1]
    return np.concatenate([np.arange(ends), between, np.arange(n - ends, n)])


def is_measured(found: Predictions) -> Any:
    return ~np.ma.getmaskarray(found.beside["measured"])


def _chart(rows: list[dict[str, Any]], title: str, axis: str) -> Any:
    import altair as alt

    y = alt.Y("set:N", title=None, sort=[row["set"] for row in rows])
    y = y.axis(labelFontSize=12, labelLimit=220, ticks=False, domain=False, labelOverlap=False)
    low, high = min(row["lower"] for row in rows), max(row["upper"] for row in rows)
    margin = 0.03 * (high - low) or abs(high) or 1.0  # marks do not touch the names
    x = alt.X("mean:Q", title=axis).axis(gridOpacity=0.5, tickCount=6)
    x = x.scale(domain=[low - margin, high + margin], nice=False, zero=False)
    colour, shape = channels((alt.Color, alt.Shape), "kind:N", LOOKS)
    tooltip = tooltips(
        ("set:N", "set"),
        ("mean:Q", "predicted", ",.4~g"),
        ("lower:Q", "interval from", ",.4~g"),
        ("upper:Q", "to", ",.4~g"),
        ("kind:N", "this is"),
    )
    base = chart_of(rows, "sets").encode(y, colour, tooltip=tooltip)
    layers = [
        base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(x="lower:Q", x2="upper:Q"),
        base.mark_point(filled=True, size=80, opacity=1).encode(x, shape),
    ]
    return finish(alt.layer(*layers), title, [], height=max(60, ROW * len(rows)), wide=True)


def table(found: Predictions, weight: Float[np.ndarray, " A"], status: Status) -> Section:
    """Every set, highest first, or those at both ends."""
    about, n = status.about, len(found)
    each, order = per_individual(found, weight), ranking(found, weight)
    half, caption = MOST_ROWS // 2, ""
    if n > MOST_ROWS:
        order = np.concatenate([order[:half], order[-half:]])
        caption = f"Of {n:,} sets, the {half} highest and the {half} lowest."
    told, measured = found.beside["measured"], is_measured(found)
    rows = [
        (
            label(found.ids[at] if found.ids else "", LONG),
            figure(float(each[0, at]), 4),
            f"{figure(float(each[1, at]), 4)} to {figure(float(each[2, at]), 4)}",
            *((figure(float(found.mean[at]), 4),) if divided(weight) else ()),
            as_given(float(told[at])) if measured[at] else NONE,
        )
        for at in order.tolist()
    ]
    totals = (f"{about.word}, predicted",) if divided(weight) else ()
    columns = (
        "set",
        f"{what(about, weight)}{about.in_unit}",
        f"{percent(found.level)} interval",
        *totals,
        f"{about.word}, measured",
    )
    return Section("Every set", table=TextTable(columns, rows, caption))
