"""The charts of a study's panels: from rows to Altair, as wide as the page they stand in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sumwise.report import theme
from sumwise.report.curves import Rows, label_rows, named_lines
from sumwise.report.theme import COLOURS, DASHES, GREY, channels, chart_of, finish, tooltips

BAR: Final = 34  # height of a row of bars
ERROR, EVERYONE, SPREAD = "forecast error", "same for everyone", "uncertainty"
LINES: Final = {  # of progress: colour and dashes
    ERROR: (COLOURS[1], DASHES[1]),
    EVERYONE: (GREY, DASHES[2]),
    SPREAD: (COLOURS[0], DASHES[0]),
}
INSIDE, OUTSIDE = "inside", "outside"
PERCENT: Final = "format(100 * datum.value, '.3~g') + ' %'"


def progress_chart(rows: Rows, title: str, subtitle: Sequence[str]) -> Any:
    """Lines of error and uncertainty, each with its name at its end."""
    import altair as alt

    points = [
        {"answer": row["answer"], "set": row["set"], "strategy": name, "mean": row[name]}
        for name in LINES
        for row in rows
        if row[name] is not None
    ]
    top = 1.05 * max(point["mean"] for point in points) or 1.0
    names = label_rows([{**point, "low": 0.0, "high": top} for point in points])
    first, last = rows[0]["answer"], rows[-1]["answer"]
    x = theme.count_axis("answer:Q", "answers", (first, last), last, padding=8)
    highest = max(top, *(name["place"] for name in names))
    y = alt.Y("mean:Q", title="per individual, in units of the answers").axis(gridOpacity=0.5)
    y = y.scale(domain=[0, highest], nice=False)
    tooltip = tooltips(
        ("strategy:N", "what"),
        ("mean:Q", "per individual", ",.4~g"),
        ("answer:Q", "after answer"),
        ("set:N", "of set"),
    )
    colour, dash = channels((alt.Color, alt.StrokeDash), "strategy:N", LINES)
    lines = chart_of(points, "progress").encode(x, y, colour)
    layers = named_lines(lines, dash, tooltip, names, points=len(rows) <= theme.MOST_POINTS)
    return finish(alt.layer(*layers), title, subtitle, height=theme.HEIGHT, wide=True)


def information_chart(rows: Rows, title: str, subtitle: Sequence[str]) -> Any:
    """A bar for each answer."""
    import altair as alt

    last = rows[-1]["answer"]
    x = theme.count_axis("left:Q", "answers", (0.4, last + 0.6), last)
    y = alt.Y("information:Q", title="nats").axis(gridOpacity=0.5, tickCount=5)
    bars = [{**row, "left": row["answer"] - 0.4, "right": row["answer"] + 0.4} for row in rows]
    tooltip = tooltips(
        ("answer:Q", "answer"), ("set:N", "set"), ("information:Q", "taught, in nats", ".3~g")
    )
    bar = chart_of(bars, "information").mark_rect(color=COLOURS[0])
    chart = bar.encode(x, alt.X2("right:Q"), y, alt.Y2Datum(0), tooltip=tooltip)
    return finish(chart, title, subtitle, height=200, wide=True)


def predicted_chart(
    rows: Rows, title: str, subtitle: Sequence[str], *, level: str, per: str
) -> Any:
    """Predictions with intervals against answers; those outside stand out in colour and shape."""
    import altair as alt

    low = min(min(row["answer"], row["lower"]) for row in rows)
    high = max(max(row["answer"], row["upper"]) for row in rows)
    margin = 0.03 * (high - low) or 1.0
    ends = [low - margin, high + margin]
    x, y = (
        kind(field, title=f"{words}{per}")
        .scale(domain=ends, nice=False, zero=False)
        .axis(gridOpacity=0.5, tickCount=6)
        for kind, field, words in (
            (alt.X, "answer:Q", "answered"),
            (alt.Y, "predicted:Q", "predicted without knowing it"),
        )
    )
    inside, outside = (f"{side} the {level} interval" for side in (INSIDE, OUTSIDE))
    values = [{**row, "side": outside if row["interval"] == OUTSIDE else inside} for row in rows]
    looks = {inside: (COLOURS[0], "circle"), outside: (COLOURS[1], "diamond")}
    legend = alt.Legend(title=None, orient="top", labelFontSize=13, symbolOpacity=1, labelLimit=300)
    colour, shape = channels((alt.Color, alt.Shape), "side:N", looks, legend)
    tooltip = tooltips(
        ("set:N", "set"),
        ("total:Q", "answer", ",.6~g"),
        ("answer:Q", f"answered{per}", ",.4~g"),
        ("predicted:Q", "predicted", ",.4~g"),
        ("lower:Q", f"{level} interval from", ",.4~g"),
        ("upper:Q", "to", ",.4~g"),
        ("z:Q", "standard deviations off", ".2f"),
    )
    base = chart_of(values, "predicted").encode(x, colour)
    point = base.mark_point(filled=True, size=70, opacity=1, stroke="white", strokeWidth=0.5)
    layers = [
        _diagonal(ends),
        base.mark_rule(strokeWidth=1.5, opacity=0.55).encode(y="lower:Q", y2="upper:Q"),
        point.encode(y, shape, tooltip=tooltip),
    ]
    return finish(alt.layer(*layers), title, subtitle, height=420, wide=True)


def calibration_chart(rows: Rows, title: str, subtitle: Sequence[str]) -> Any:
    """Observed against promised shares, with what chance allows."""
    import altair as alt

    levels = [row["level"] for row in rows]
    begin = 0.4 if min(levels) >= 0.4 else 0.0
    x = alt.X("level:Q", title="share of answers that intervals are made for")
    x = x.scale(domain=[begin, 1.0], nice=False)
    x = x.axis(values=levels, labelExpr=PERCENT, grid=False, labelOverlap=True)
    y = alt.Y("share:Q", title="share that lies inside").scale(domain=[0, 1], nice=False)
    y = y.axis(labelExpr=PERCENT, gridOpacity=0.5, tickCount=6)
    tooltip = tooltips(
        ("level:Q", "made for", ".3~%"),
        ("share:Q", "inside", ".3~%"),
        ("inside:Q", "answers inside"),
        ("answers:Q", "of"),
        ("low:Q", "by chance from", ".0%"),
        ("high:Q", "to", ".0%"),
    )
    base = chart_of(rows, "calibration").encode(x, tooltip=tooltip)
    layers = [
        _diagonal([begin, 1.0]),
        base.mark_rule(color=COLOURS[0], strokeWidth=2.5).encode(y="low:Q", y2="high:Q"),
        base.mark_point(filled=True, size=110, opacity=1, color=COLOURS[0]).encode(y),
    ]
    return finish(alt.layer(*layers), title, subtitle, height=260, wide=True)


def _diagonal(ends: Sequence[float]) -> Any:
    line = chart_of([{"at": end} for end in ends], "diagonal").encode(x="at:Q", y="at:Q")
    return line.mark_line(color=GREY, strokeWidth=1.5, strokeDash=[2, 3])


def question_chart(rows: Rows, title: str, subtitle: Sequence[str]) -> Any:
    """A bar for each question, and a mark where its runner-up would end."""
    import altair as alt

    y = alt.Y("question:N", title=None, sort=[row["question"] for row in rows])
    y = y.axis(labelFontSize=13, labelLimit=260, ticks=False, domain=False)
    x = alt.X("information:Q", title="expected to teach, in nats")
    x = x.axis(gridOpacity=0.5, tickCount=6)
    tooltip = tooltips(
        ("question:N", "set"),
        ("information:Q", "expected to teach, in nats", ".3~g"),
        ("expected:Q", "expected answer", ",.4~g"),
        ("std:Q", "give or take", ",.3~g"),
        ("runner-up:N", "runner-up"),
        ("second:Q", "which would teach", ".3~g"),
    )
    base = chart_of(rows, "questions").encode(y, tooltip=tooltip)
    layers = [base.mark_bar(color=COLOURS[0], height=18).encode(x)]
    if any(row["second"] is not None for row in rows):
        tick = base.mark_tick(color=COLOURS[1], thickness=4, size=26, opacity=1)
        layers.append(tick.encode(x="second:Q"))
    return finish(alt.layer(*layers), title, subtitle, height=BAR * len(rows), wide=True)
