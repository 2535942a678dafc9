"""The charts of `plots.study`: from rows to Altair, as wide as the page they stand in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sumwise.report.curves import (
    COLOURS,
    DASHES,
    GREY,
    HEIGHT,
    MOST_POINTS,
    _ticks,
    finish,
    label_rows,
)

Rows = Sequence[Mapping[str, Any]]

BAR: Final = 34  # height of a row of bars
ERROR, EVERYONE, SPREAD = "forecast error", "same for everyone", "uncertainty"
LOOKS: Final = {  # of the lines of progress: colour and dashes
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
        for name in LOOKS
        for row in rows
        if row[name] is not None
    ]
    top = 1.05 * max(point["mean"] for point in points) or 1.0
    ends = label_rows([{**point, "low": 0.0, "high": top} for point in points])
    numbers = [row["answer"] for row in rows]
    x = alt.X(
        "answer:Q",
        title="answers",
        scale=alt.Scale(domain=[numbers[0], numbers[-1]], nice=False, padding=8),
        axis=alt.Axis(values=_ticks(numbers[-1])[1:], format="d", grid=False, labelFlush=False),
    )
    y = alt.Y(
        "mean:Q",
        title="per individual, in units of the answers",
        scale=alt.Scale(domain=[0, max(top, *(end["place"] for end in ends))], nice=False),
        axis=alt.Axis(gridOpacity=0.5),
    )
    colours, dashes = ([*look] for look in zip(*LOOKS.values(), strict=True))
    scale = alt.Scale(domain=list(LOOKS), range=colours)
    colour = alt.Color("strategy:N", legend=None, scale=scale)
    dashed = alt.Scale(domain=list(LOOKS), range=[list(dash) for dash in dashes])
    dash = alt.StrokeDash("strategy:N", legend=None, scale=dashed)
    tooltip = [
        alt.Tooltip("strategy:N", title="what"),
        alt.Tooltip("mean:Q", title="per individual", format=",.4~g"),
        alt.Tooltip("answer:Q", title="after answer"),
        alt.Tooltip("set:N", title="of set"),
    ]
    lines = alt.Chart(alt.InlineData(values=points, name="progress"))
    drawn = 1 if len(rows) <= MOST_POINTS else 0
    names = alt.Chart(alt.InlineData(values=ends, name="labels"))
    layers = [
        lines.mark_line(strokeWidth=2.5).encode(x, y, colour, dash),
        lines.mark_point(filled=True, size=24, opacity=drawn).encode(x, y, colour, tooltip=tooltip),
        names.mark_text(
            align="left", baseline="middle", dx=8, fontSize=14, fontWeight="bold"
        ).encode(alt.Y("place:Q"), colour, x=alt.value("width"), text="strategy:N"),
    ]
    return finish(alt.layer(*layers), title, subtitle, height=HEIGHT, wide=True)


def information_chart(rows: Rows, title: str, subtitle: Sequence[str]) -> Any:
    """A bar for each answer."""
    import altair as alt

    last = rows[-1]["answer"]
    x = alt.X(
        "left:Q",
        title="answers",
        scale=alt.Scale(domain=[0.4, last + 0.6], nice=False),
        axis=alt.Axis(values=_ticks(last), format="d", grid=False, labelFlush=False),
    )
    bars = [{**row, "left": row["answer"] - 0.4, "right": row["answer"] + 0.4} for row in rows]
    tooltip = [
        alt.Tooltip("answer:Q", title="answer"),
        alt.Tooltip("set:N", title="set"),
        alt.Tooltip("information:Q", title="taught, in nats", format=".3~g"),
    ]
    base = alt.Chart(alt.InlineData(values=bars, name="information"))
    y = alt.Y("information:Q", title="nats", axis=alt.Axis(gridOpacity=0.5, tickCount=5))
    zero = alt.Y2Datum(0)
    chart = base.mark_rect(color=COLOURS[0]).encode(x, alt.X2("right:Q"), y, zero, tooltip=tooltip)
    return finish(chart, title, subtitle, height=200, wide=True)


def predicted_chart(
    rows: Rows, title: str, subtitle: Sequence[str], *, level: str, per: str
) -> Any:
    """Predictions with intervals against answers; those outside stand out in colour and shape."""
    import altair as alt

    low = min(min(row["answer"], row["lower"]) for row in rows)
    high = max(max(row["answer"], row["upper"]) for row in rows)
    air = 0.03 * (high - low) or 1.0
    ends = [low - air, high + air]
    scale, axis = (
        alt.Scale(domain=ends, nice=False, zero=False),
        alt.Axis(gridOpacity=0.5, tickCount=6),
    )
    x = alt.X("answer:Q", title=f"answered{per}", scale=scale, axis=axis)
    y = alt.Y("predicted:Q", title=f"predicted without knowing it{per}", scale=scale, axis=axis)
    kinds = [f"{side} the {level} interval" for side in (INSIDE, OUTSIDE)]
    values = [{**row, "side": kinds[row["interval"] == OUTSIDE]} for row in rows]
    legend = alt.Legend(title=None, orient="top", labelFontSize=13, symbolOpacity=1, labelLimit=300)
    colour = alt.Color(
        "side:N", legend=legend, scale=alt.Scale(domain=kinds, range=[COLOURS[0], COLOURS[1]])
    )
    shape = alt.Shape(
        "side:N", legend=legend, scale=alt.Scale(domain=kinds, range=["circle", "diamond"])
    )
    tooltip = [
        alt.Tooltip("set:N", title="set"),
        alt.Tooltip("total:Q", title="answer", format=",.6~g"),
        alt.Tooltip("answer:Q", title=f"answered{per}", format=",.4~g"),
        alt.Tooltip("predicted:Q", title="predicted", format=",.4~g"),
        alt.Tooltip("lower:Q", title=f"{level} interval from", format=",.4~g"),
        alt.Tooltip("upper:Q", title="to", format=",.4~g"),
        alt.Tooltip("z:Q", title="standard deviations off", format=".2f"),
    ]
    corners = [{"at": end} for end in ends]
    diagonal = alt.Chart(alt.InlineData(values=corners, name="diagonal"))
    base = alt.Chart(alt.InlineData(values=values, name="predicted"))
    layers = [
        diagonal.mark_line(color=GREY, strokeWidth=1.5, strokeDash=[2, 3]).encode(
            alt.X("at:Q", scale=scale), alt.Y("at:Q", scale=scale)
        ),
        base.mark_rule(strokeWidth=1.5, opacity=0.55).encode(
            x, alt.Y("lower:Q", scale=scale), alt.Y2("upper:Q"), colour
        ),
        base.mark_point(filled=True, size=70, opacity=1, stroke="white", strokeWidth=0.5).encode(
            x, y, colour, shape, tooltip=tooltip
        ),
    ]
    return finish(alt.layer(*layers), title, subtitle, height=420, wide=True)


def calibration_chart(rows: Rows, title: str, subtitle: Sequence[str]) -> Any:
    """Seen against promised shares, with what chance allows."""
    import altair as alt

    scale = alt.Scale(domain=[0, 1], nice=False)
    levels = [row["level"] for row in rows]
    x = alt.X(
        "level:Q",
        title="share of answers that intervals are made for",
        scale=alt.Scale(domain=[0.4, 1.0], nice=False) if min(levels) >= 0.4 else scale,
        axis=alt.Axis(values=levels, labelExpr=PERCENT, grid=False, labelOverlap=True),
    )
    y = alt.Y(
        "share:Q", title="share that lies inside", scale=scale,
        axis=alt.Axis(labelExpr=PERCENT, gridOpacity=0.5, tickCount=6),
    )  # fmt: skip
    tooltip = [
        alt.Tooltip("level:Q", title="made for", format=".3~%"),
        alt.Tooltip("share:Q", title="inside", format=".3~%"),
        alt.Tooltip("inside:Q", title="answers inside"),
        alt.Tooltip("answers:Q", title="of"),
        alt.Tooltip("low:Q", title="by chance from", format=".0%"),
        alt.Tooltip("high:Q", title="to", format=".0%"),
    ]
    base = alt.Chart(alt.InlineData(values=list(rows), name="calibration"))
    begin = 0.4 if min(levels) >= 0.4 else 0.0
    line = alt.Chart(alt.InlineData(values=[{"at": begin}, {"at": 1.0}], name="diagonal"))
    layers = [
        line.mark_line(color=GREY, strokeWidth=1.5, strokeDash=[2, 3]).encode(
            alt.X("at:Q"), alt.Y("at:Q", scale=scale)
        ),
        base.mark_rule(color=COLOURS[0], strokeWidth=2.5).encode(
            x, alt.Y("low:Q", scale=scale), alt.Y2("high:Q"), tooltip=tooltip
        ),
        base.mark_point(filled=True, size=110, opacity=1, color=COLOURS[0]).encode(
            x, y, tooltip=tooltip
        ),
    ]
    return finish(alt.layer(*layers), title, subtitle, height=260, wide=True)


def question_chart(rows: Rows, title: str, subtitle: Sequence[str]) -> Any:
    """A bar for each question, and a mark where its runner-up would end."""
    import altair as alt

    names = [row["question"] for row in rows]
    y = alt.Y(
        "question:N", title=None, sort=names,
        axis=alt.Axis(labelFontSize=13, labelLimit=260, ticks=False, domain=False),
    )  # fmt: skip
    x = alt.X(
        "information:Q", title="expected to teach, in nats",
        axis=alt.Axis(gridOpacity=0.5, tickCount=6),
    )  # fmt: skip
    tooltip = [
        alt.Tooltip("question:N", title="set"),
        alt.Tooltip("information:Q", title="expected to teach, in nats", format=".3~g"),
        alt.Tooltip("expected:Q", title="expected answer", format=",.4~g"),
        alt.Tooltip("std:Q", title="give or take", format=",.3~g"),
        alt.Tooltip("runner-up:N", title="runner-up"),
        alt.Tooltip("second:Q", title="which would teach", format=".3~g"),
    ]
    base = alt.Chart(alt.InlineData(values=list(rows), name="questions"))
    layers = [base.mark_bar(color=COLOURS[0], height=18).encode(x, y, tooltip=tooltip)]
    if any(row["second"] is not None for row in rows):
        layers.append(
            base.mark_tick(color=COLOURS[1], thickness=4, size=26, opacity=1).encode(
                alt.X("second:Q"), y, tooltip=tooltip
            )
        )
    return finish(alt.layer(*layers), title, subtitle, height=BAR * len(rows), wide=True)
