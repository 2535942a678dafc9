"""Error per question of several strategies, and their differences: rows, and charts of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np

from sumwise.report import theme
from sumwise.report.theme import COLOURS, DASHES, GREY, PALE, channels, chart_of, tooltips
from sumwise.util.shapes import Float

Rows = Sequence[Mapping[str, Any]]

LABEL_GAP: Final = 0.055  # least distance of two labels at the lines' ends, as a share of height
ROW_HEIGHT: Final = 26
SIDES: Final = ("better than Random", "no clear difference", "worse than Random")


# --- rows ---------------------------------------------------------------------------------------


def learning_curve_rows(
    errors: Mapping[str, Float[np.ndarray, "_ _"]], each: float = 1
) -> list[dict[str, Any]]:
    """Mean error after each question and its standard error, one row per strategy and question.

    Args:
        errors: For each strategy a run per row and a question per column; numbers of runs and
            questions may differ. One run has no standard error: it is None, and the band is empty.
        each: What a question costs, where columns are steps of spending.
    """
    rows: list[dict[str, Any]] = []
    for strategy, runs in errors.items():
        n_runs = len(runs)
        mean = runs.mean(axis=0)
        spread = runs.std(axis=0, ddof=1) / math.sqrt(n_runs) if n_runs > 1 else np.zeros_like(mean)
        for step, (centre, error) in enumerate(zip(mean.tolist(), spread.tolist(), strict=True)):
            rows.append(
                {
                    "strategy": strategy,
                    "question": (step + 1) * each,
                    "mean": centre,
                    "standard_error": error if n_runs > 1 else None,
                    "low": centre - error,
                    "high": centre + error,
                    "runs": n_runs,
                }
            )
    return rows


def how_averaged(runs: Collection[int], what: str, spread: str = "bands") -> str:
    """What lines and their bands or bars are, given the numbers of runs that they average."""
    least, most = min(runs), max(runs)
    if most == 1:
        return f"one {what}"
    number = most if least == most else f"{least} to {most}"
    return f"mean of {number} {what}s, {spread} ± 1 standard error"


def label_rows(rows: Rows) -> list[dict[str, Any]]:
    """How high to write each line's name: at its right end, pushed apart where ends come close."""
    ends = {row["strategy"]: row["mean"] for row in rows}  # the last question wins
    low, high = error_span(rows)
    gap = LABEL_GAP * (high - low)
    placed: list[dict[str, Any]] = []
    for name, end in sorted(ends.items(), key=lambda item: item[1]):
        place = end if not placed else max(end, placed[-1]["place"] + gap)
        placed.append({"strategy": name, "end": end, "place": place})
    return placed


def error_span(rows: Rows) -> tuple[float, float]:
    """Ends of the error axis: all bands, with a margin."""
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


# --- charts -------------------------------------------------------------------------------------


def named_lines(lines: Any, dash: Any, tooltip: list[Any], names: Rows, points: bool) -> list[Any]:
    """Lines, a point for each row, and the name of each line at its right end.

    Args:
        lines: A chart with axes and a colour for each `strategy`.
        names: From `label_rows`.
        points: Show all points, not only that under the pointer.
    """
    import altair as alt

    text = chart_of(names, "labels").mark_text(
        align="left", baseline="middle", dx=8, fontSize=14, fontWeight="bold"
    )
    colour = lines.encoding.color
    return [
        lines.mark_line(strokeWidth=2.5).encode(dash),
        lines.mark_point(filled=True, size=24, opacity=int(points)).encode(tooltip=tooltip),
        text.encode(colour, x=alt.value("width"), y="place:Q", text="strategy:N"),
    ]


def learning_curves(
    errors: Mapping[str, Float[np.ndarray, "_ _"]],
    *,
    title: str,
    subtitle: Sequence[str],
    x_title: str,
    y_title: str,
    reference: tuple[str, float] | None = None,
    lit: Sequence[str] | None = None,
    wide: bool = False,
    step: float = 1,
) -> Any:
    """Error per question with bands of one standard error: an Altair chart.

    Args:
        errors: For each strategy a run per row and a question per column.
        subtitle: Lines below the title.
        reference: Name and error of something to judge the lines by, drawn across in grey.
        lit: Strategies with colour, band and name, where there are too many for all to have them;
            the others are thin and grey, and their names show under the pointer.
        wide: As wide as the page it stands in.
        step: What a question costs; the axis is then of costs.
    """
    import altair as alt

    rows = learning_curve_rows(errors, step)
    names = list(errors if lit is None else lit)
    front = [row for row in rows if row["strategy"] in names]
    back = [row for row in rows if row["strategy"] not in names]
    looks = dict(zip(names, itertools.cycle(zip(COLOURS, DASHES, strict=True)), strict=False))
    across: list[dict[str, Any]] = []
    if reference is not None:
        name, error = reference
        across.append({"strategy": name, "mean": error, "low": error, "high": error})
        looks[name] = GREY, DASHES[0]
    last = max(row["question"] for row in rows)
    x = theme.question_axis(x_title, last, costs=step != 1)
    # a line need not start at zero, and from zero these differences could not be seen
    ends = error_span([*front, *across])
    y = alt.Y("mean:Q", title=y_title).scale(domain=ends, nice=False, zero=False)
    tooltip = tooltips(
        ("strategy:N", "strategy"),
        ("question:Q", "question" if step == 1 else "cost"),
        ("mean:Q", "mean error", ",.4~g"),
        ("standard_error:Q", "standard error", ",.2~g"),
        ("runs:Q", "runs"),
    )
    colour, dash = channels((alt.Color, alt.StrokeDash), "strategy:N", looks)
    rule, rest = chart_of(across, "reference").encode(y), chart_of(back, "rest").encode(x, y)
    lines, labels = chart_of(front, "curves").encode(x, y, colour), label_rows([*front, *across])
    layers = [
        rule.mark_rule(color=GREY, strokeWidth=1.5, strokeDash=[2, 3]),
        rest.mark_line(color=PALE, strokeWidth=1.2, clip=True).encode(detail="strategy:N"),
        # broad points that are not drawn are easier to point at than a thin line
        rest.mark_point(filled=True, size=60, opacity=0, clip=True).encode(tooltip=tooltip),
        lines.mark_area(opacity=0.18).encode(y="low:Q", y2="high:Q"),
        *named_lines(lines, dash, tooltip, labels, last <= theme.MOST_POINTS),
    ]
    return theme.finish(alt.layer(*layers), title, subtitle, height=theme.HEIGHT, wide=wide)


def differences(rows: Rows, *, title: str, subtitle: Sequence[str], x_title: str) -> Any:
    """A dot for each strategy's difference to Random and its interval, best first.

    Args:
        rows: `strategy`, `mean`, `low`, `high` (None without an interval) and `side`, of `SIDES`.
    """
    import altair as alt

    y = alt.Y("strategy:N", title=None, sort=[row["strategy"] for row in rows])
    y = y.axis(labelFontSize=13, ticks=False, domain=False, grid=True, gridOpacity=0.5)
    x = alt.X("mean:Q", title=x_title).axis(tickCount=7, gridOpacity=0.5)
    looks = dict(zip(SIDES, [[COLOURS[0]], ["#8A939B"], [COLOURS[1]]], strict=True))
    legend = alt.Legend(orient="bottom", labelFontSize=12, symbolType="circle", columns=3)
    (colour,) = channels((alt.Color,), "side:N", looks, legend)
    tooltip = tooltips(
        ("strategy:N", "strategy"),
        ("mean:Q", "difference", ",.3~g"),
        ("low:Q", "95 % interval from", ",.3~g"),
        ("high:Q", "to", ",.3~g"),
    )
    zero = chart_of([{"zero": 0}], "zero").encode(x="zero:Q")
    base = chart_of(rows, "differences").encode(y, colour.title(None), tooltip=tooltip)
    layers = [
        zero.mark_rule(color=GREY, strokeWidth=1.2, strokeDash=[2, 3]),
        base.mark_rule(strokeWidth=2.5).encode(x="low:Q", x2="high:Q"),
        base.mark_point(filled=True, size=90, opacity=1).encode(x),
    ]
    height = ROW_HEIGHT * len(rows)
    return theme.finish(alt.layer(*layers), title, subtitle, height=height, wide=True)
