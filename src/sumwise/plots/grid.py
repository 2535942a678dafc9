"""Error per query of many methods, one panel per data set (the paper's Fig. 3).

Ten lines are legible when two of them lead: AggMI and Rand are thick and drawn on top, the others
thin, each with a colour and a dash of its own. Ten bars at one query would hide one another, so a
method has its bar at every fifth query and neighbours take turns. Errors fall by a factor of ten
and the worst methods begin far above the rest, so the error axis is logarithmic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from sumwise.plots.curves import GREY, OFFLINE_ACTIONS, learning_curve_rows
from sumwise.shapes import Float

Curves = Mapping[str, Any]

LEADING: Final = ("Rand", "AggMI")  # drawn last, so on top, in this order
# colours of Okabe and Ito and of Tol, which stay apart for colour-blind readers
LOOKS: Final[Mapping[str, tuple[str, tuple[float, ...]]]] = {
    "AggMI": ("#0072B2", (1, 0)),
    "AggEnt": ("#009E73", (1, 0)),
    "MI": ("#E69F00", (1, 0)),
    "Ent": ("#CC79A7", (1, 0)),
    "QBC": ("#332288", (4, 2)),
    "EMCM": ("#56B4E9", (4, 2)),
    "Var": ("#882255", (1.5, 1.5)),
    "MaxN": ("#999933", (4, 2)),
    "MinN": ("#777777", (1.5, 1.5)),
    "Rand": ("#D55E00", (7, 3)),
}
COLUMNS: Final = 3
PANEL_WIDTH: Final[Mapping[int, int]] = {1: 560, 2: 350, 3: 235}  # by columns of the grid
PANEL_HEIGHT: Final = 170
THICK, THIN, FADED = 2.6, 1.1, 0.07
BARS: Final = 6  # for a method in a panel, about
ROUND: Final = (1, 2, 5)  # an axis may be labelled at these times any power of ten


# --- rows ---------------------------------------------------------------------------------------


def grid_rows(curves: Mapping[str, Curves]) -> list[dict[str, Any]]:
    """Mean error and standard error per data set, method and query, and where a bar is drawn."""
    rows: list[dict[str, Any]] = []
    for dataset, errors in curves.items():
        turns = {method: turn for turn, method in enumerate(errors)}
        last = max((runs.shape[1] for runs in errors.values()), default=0)
        every = max(1, last // BARS)
        for row in learning_curve_rows(errors):
            turn = (row["question"] - 1 - turns[row["strategy"]]) % every
            barred = turn == 0 and row["standard_error"] is not None
            rows.append({"dataset": dataset, **row, "bar": barred})
    return rows


def round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten from `low` to `high`; fewer if there are many."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for chosen in (ROUND, (1, 3), (1,)):
        ticks = [float(f"{digit}e{power}") for power in powers for digit in chosen]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) <= 5:
            break
    return inside


# --- chart --------------------------------------------------------------------------------------


def curve_grid(
    curves: Mapping[str, Curves],
    *,
    title: str = "Error of individual predictions after each query",
    subtitle: Sequence[str] | None = None,
) -> Any:
    """A panel per data set, three in a row, with one legend: an Altair chart.

    In the page a click on a name in the legend brings out its lines; shift adds another.

    Args:
        curves: For each data set and method a split per row and a query per column.
        subtitle: Lines below the title; by default how many splits were averaged.
    """
    import altair as alt

    rows = grid_rows(curves)
    methods = list(dict.fromkeys(row["strategy"] for row in rows))
    looks = _looks(methods)
    n_columns = min(COLUMNS, len(curves))
    legend = alt.Legend(
        title=None,
        orient="top",
        columns={1: 5, 2: 5, 3: 10}[n_columns],
        symbolType="stroke",
        symbolSize=500,
        labelFontSize=12,
        columnPadding=14,
        rowPadding=4,
    )

    def by_method(channel: Any, values: list[Any]) -> Any:
        scale = alt.Scale(domain=methods, range=values)
        return channel("strategy:N", scale=scale, legend=legend)

    colour = by_method(alt.Color, [looks[m][0] for m in methods])
    dash = by_method(alt.StrokeDash, [list(looks[m][1]) for m in methods])
    width = by_method(alt.StrokeWidth, [THICK if m in LEADING else THIN for m in methods])
    picked = alt.selection_point(name="method", fields=["strategy"], bind="legend")
    visible = alt.when(picked).then(alt.value(1.0)).otherwise(alt.value(FADED))
    panels = []
    for place, dataset in enumerate(curves):
        shown = [row for row in rows if row["dataset"] == dataset]
        shown.sort(key=lambda row: LEADING.index(row["strategy"]) if row["strategy"] in LEADING else -1)
        x = alt.X(
            "question:Q",
            title="queries" if place + COLUMNS >= len(curves) else None,
            scale=alt.Scale(domain=[0.5, max(row["question"] for row in shown) + 0.5], nice=False),
            axis=alt.Axis(format="d", tickMinStep=1, tickCount=6, grid=False),
        )
        scale, ticks = _error_axis(shown)
        axis = alt.Axis(format="~g", gridOpacity=0.5, **({} if ticks is None else {"values": ticks}))
        y_title = "mean squared error" if place % COLUMNS == 0 else None
        y = alt.Y("mean:Q", title=y_title, scale=scale, axis=axis)
        base = alt.Chart(alt.InlineData(values=shown, name=f"panel-{place}"))
        bar = (
            base.transform_filter("datum.bar")
            .mark_rule(clip=True)
            .encode(x, alt.Y("low:Q", scale=scale, title=y_title), alt.Y2("high:Q"), colour, opacity=visible)
        )
        line = base.mark_line().encode(x, y, colour, dash, width, opacity=visible)
        layered = alt.layer(bar, line.add_params(picked))
        panels.append(
            layered.properties(
                width=PANEL_WIDTH[n_columns],
                height=PANEL_HEIGHT,
                title=alt.TitleParams(dataset, fontSize=13, anchor="middle", offset=4),
            )
        )
    lines = [_how_averaged(rows)] if subtitle is None else list(subtitle)
    return (
        alt.concat(*panels, columns=COLUMNS, spacing={"row": 14, "column": 14})
        .properties(
            title=alt.TitleParams(title, subtitle=lines),
            usermeta={"embedOptions": {"actions": OFFLINE_ACTIONS}},
            description=title,
            padding=12,
        )
    .configure(font="sans-serif", background="white")
        .configure_title(anchor="start", fontSize=18, subtitleFontSize=13, subtitleColor=GREY)
        .configure_axis(labelFontSize=11, titleFontSize=12, titleFontWeight="normal")
        .configure_view(stroke=None)
    )


def _looks(methods):
    return {m: LOOKS[m] for m in methods}

def _error_axis(shown):
    import altair as alt
    low = min(row["mean"] for row in shown)
    lo = min(row["low"] for row in shown)
    high = max(row["high"] for row in shown)
    import os
    if os.environ.get("LIN"):
        return alt.Scale(zero=False, domain=[lo,high], nice=False), None
    lo=max(lo, 0.5*low)
    lo,high=lo/1.05, high*1.05
    return alt.Scale(type="log", domain=[lo, high], nice=False), round_numbers(lo, high)

def _how_averaged(rows):
    return "x"
