"""Many strategies against one: differences with intervals, as wide as the page they stand in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sumwise.report.curves import COLOURS, GREY, finish

ROW_HEIGHT = 26
SIDES = ("better than Random", "no clear difference", "worse than Random")


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
    height = ROW_HEIGHT * len(rows)
    return finish(alt.layer(*layers), title, subtitle, height=height, wide=True)
