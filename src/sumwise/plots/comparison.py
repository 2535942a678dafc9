"""Many strategies against one: curves with a few of them lit, and differences with intervals.

Ten bands on one another cannot be read, so the strategies that the words speak of have colour, band
and name; the others are thin and grey, and say who they are under the pointer. Both charts take the
width of the page they stand in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sumwise.plots.curves import COLOURS, DASHES, GREY, OFFLINE_ACTIONS, _span, _ticks, label_rows

PALE = "#C3C9CF"
HEIGHT, ROW_HEIGHT = 340, 26
SIDES = ("better than Random", "no clear difference", "worse than Random")


def highlighted_curves(
    rows: Sequence[Mapping[str, Any]],
    lit: Sequence[str],
    *,
    title: str,
    subtitle: Sequence[str],
    x_title: str,
    y_title: str,
    reference: tuple[str, float] | None = None,
) -> Any:
    """Error per question: strategies in `lit` with bands of one standard error, the rest in grey.

    Args:
        rows: From `learning_curve_rows`, all strategies.
        reference: Name and error of something to judge the lines by, drawn across.
    """
    import altair as alt

    front = [row for row in rows if row["strategy"] in lit]
    back = [row for row in rows if row["strategy"] not in lit]
    last = max(row["question"] for row in rows)
    names = [*lit, *(() if reference is None else (reference[0],))]
    looks = dict(zip(lit, zip(COLOURS, DASHES, strict=False), strict=False))
    colours = [looks[name][0] if name in looks else GREY for name in names]
    dashes = [list(looks[name][1]) if name in looks else [1, 0] for name in names]
    domain = [1, last] if last > 1 else [0, 2]
    x = alt.X(
        "question:Q",
        title=x_title,
        scale=alt.Scale(domain=domain, nice=False, padding=8),
        axis=alt.Axis(values=_ticks(last), format="d", grid=False, labelFlush=False),
    )
    scale = alt.Scale(domain=list(_span(front, reference)), nice=False, zero=False)
    y = alt.Y("mean:Q", title=y_title, scale=scale)
    colour = alt.Color("strategy:N", legend=None, scale=alt.Scale(domain=names, range=colours))
    dash = alt.StrokeDash("strategy:N", legend=None, scale=alt.Scale(domain=names, range=dashes))
    tooltip = [
        alt.Tooltip("strategy:N", title="strategy"),
        alt.Tooltip("question:Q", title="measurements"),
        alt.Tooltip("mean:Q", title="mean error", format=",.4~g"),
        alt.Tooltip("standard_error:Q", title="standard error", format=",.2~g"),
        alt.Tooltip("runs:Q", title="splits"),
    ]
    shown = alt.Chart(alt.InlineData(values=front, name="lit"))
    layers = [
        shown.mark_area(opacity=0.16, clip=True).encode(
            x, alt.Y("low:Q", title=y_title, scale=scale), alt.Y2("high:Q"), colour
        ),
        shown.mark_line(strokeWidth=2.5, clip=True).encode(x, y, colour, dash),
        shown.mark_point(filled=True, size=24, opacity=1, clip=True).encode(
            x, y, colour, tooltip=tooltip
        ),
        alt.Chart(alt.InlineData(values=label_rows(front, reference), name="labels"))
        .mark_text(align="left", baseline="middle", dx=8, fontSize=13, fontWeight="bold")
        .encode(alt.Y("place:Q"), colour, x=alt.value("width"), text="strategy:N"),
    ]
    if back:
        rest = alt.Chart(alt.InlineData(values=back, name="rest"))
        line = rest.mark_line(color=PALE, strokeWidth=1.2, clip=True)
        # an unseen broad line is easier to meet with a pointer than a thin one
        touch = rest.mark_point(filled=True, size=60, opacity=0, clip=True)
        layers = [
            line.encode(x, y, detail="strategy:N"),
            touch.encode(x, y, tooltip=tooltip),
            *layers,
        ]
    if reference is not None:
        rule = alt.Chart(alt.InlineData(values=[{"error": reference[1]}], name="reference"))
        rule = rule.mark_rule(color=GREY, strokeWidth=1.2, strokeDash=[2, 3])
        layers.insert(0, rule.encode(alt.Y("error:Q", scale=scale)))
    return _finish(alt.layer(*layers), title, subtitle, HEIGHT)


def differences(
    rows: Sequence[Mapping[str, Any]],
    *,
    title: str,
    subtitle: Sequence[str],
    x_title: str,
) -> Any:
    """A dot for each strategy's difference to Random and its interval, best first.

    Args:
        rows: `strategy`, `mean`, `low`, `high` (None without an interval) and `side`, of `SIDES`.
    """
    import altair as alt

    names = [row["strategy"] for row in rows]
    y = alt.Y(
        "strategy:N",
        title=None,
        sort=names,
        axis=alt.Axis(labelFontSize=13, ticks=False, domain=False, grid=True, gridOpacity=0.5),
    )
    axis = alt.Axis(tickCount=7, gridOpacity=0.5)
    x = alt.X("mean:Q", title=x_title, axis=axis, scale=alt.Scale(zero=True, nice=True))
    colour = alt.Color(
        "side:N",
        title=None,
        scale=alt.Scale(domain=list(SIDES), range=[COLOURS[0], "#8A939B", COLOURS[1]]),
        legend=alt.Legend(orient="bottom", labelFontSize=12, symbolType="circle", columns=3),
    )
    tooltip = [
        alt.Tooltip("strategy:N", title="strategy"),
        alt.Tooltip("mean:Q", title="difference", format=",.3~g"),
        alt.Tooltip("low:Q", title="95 % interval from", format=",.3~g"),
        alt.Tooltip("high:Q", title="to", format=",.3~g"),
    ]
    base = alt.Chart(alt.InlineData(values=list(rows), name="differences"))
    zero = alt.Chart(alt.InlineData(values=[{"zero": 0}], name="zero"))
    layers = [
        zero.mark_rule(color=GREY, strokeWidth=1.2, strokeDash=[2, 3]).encode(alt.X("zero:Q")),
        base.mark_rule(strokeWidth=2.5).encode(
            alt.X("low:Q", title=x_title), y, colour, x2="high:Q", tooltip=tooltip
        ),
        base.mark_point(filled=True, size=90, opacity=1).encode(x, y, colour, tooltip=tooltip),
    ]
    return _finish(alt.layer(*layers), title, subtitle, ROW_HEIGHT * len(rows))


def _finish(chart: Any, title: str, subtitle: Sequence[str], height: int) -> Any:
    import altair as alt

    return (
        chart.properties(
            width="container",
            height=height,
            autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
            title=alt.TitleParams(title, subtitle=list(subtitle)),
            description=title,
            usermeta={"embedOptions": {"actions": OFFLINE_ACTIONS}},
            padding={"left": 12, "right": 16, "top": 12, "bottom": 12},
        )
        .configure(font="sans-serif", background="white")
        .configure_title(
            anchor="start",
            frame="group",
            fontSize=16,
            subtitleFontSize=13,
            subtitleColor=GREY,
            offset=14,
        )
        .configure_axis(
            labelFontSize=12, titleFontSize=13, titleFontWeight="normal", titlePadding=10
        )
        .configure_view(stroke=None)
    )
