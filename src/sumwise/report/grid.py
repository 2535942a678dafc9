"""Error per query of many methods, one panel per data set (the paper's Fig. 3).

Ten lines are legible when two of them lead: AggMI and Rand, or IVR on designed pools and on given
groups, are thick and drawn on top, the others thin, each with a colour and a dash of its own. Ten
bars at one query would hide one another, so a method has its bar at every fifth query of thirty and
neighbours take turns. Errors fall by a factor of ten and the worst methods begin far above the
rest, so the error axis is logarithmic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from sumwise.report.curves import how_averaged, learning_curve_rows
from sumwise.report.theme import DASHES, GREY, channels, chart_of, finish_panels, tooltips
from sumwise.util.shapes import Float

LEADING: Final = (
    "Rand",
    "AggMI",
    "given IVR",
    "designed IVR",
)  # drawn last, so on top, in this order
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
    "Rand": ("#D55E00", (7, 2.5)),
    "DAMI": ("#44AA99", (6, 1.5, 1.5, 1.5)),
    "DAEnt": ("#AA4499", (6, 1.5, 1.5, 1.5)),
}
# beside the paper's
OTHER: Final[Mapping[str, tuple[str, tuple[float, ...]]]] = {
    "IVR": ("#000000", (1, 0)),
    "designed IVR": ("#000000", (1, 0)),
    "designed AggMI": ("#0072B2", (1, 0)),
    "given IVR": ("#D55E00", (7, 2.5)),
    "given AggMI": ("#E69F00", (4, 2)),
    "given Rand": ("#777777", (1.5, 1.5)),
    "individual IVR": ("#009E73", (6, 1.5, 1.5, 1.5)),
}
COLUMNS: Final = 3
# by columns of the grid: a panel's width and height, and how many names the legend has in a row
LAYOUT: Final[Mapping[int, tuple[int, int, int]]] = {
    1: (560, 320, 5),
    2: (352, 240, 10),
    3: (235, 175, 10),
}
THICK, THIN, FADED = 2.8, 1.4, 0.08
BARS: Final = 6  # for each line, about
MARGIN: Final = 0.04  # of the axis left free at either end
LEAST_DECADES: Final = 0.1  # that an axis spans, however flat the lines
TICKS: Final = 5  # about


# --- rows ---------------------------------------------------------------------------------------


def grid_rows(
    curves: Mapping[str, Mapping[str, Float[np.ndarray, "_ _"]]],
) -> list[dict[str, Any]]:
    """Mean error and standard error per data set, method and query, and where a bar stands."""
    rows: list[dict[str, Any]] = []
    for dataset, errors in curves.items():
        turns = {method: turn for turn, method in enumerate(errors)}
        last = max(runs.shape[1] for runs in errors.values())
        every = max(1, last // BARS)
        for row in learning_curve_rows(errors):
            its_turn = (row["question"] - 1 - turns[row["strategy"]]) % every == 0
            barred = its_turn and row["standard_error"] is not None
            rows.append({"dataset": dataset, **row, "bar": barred})
    return rows


def error_axis(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Ends of a logarithmic axis round all lines and bars."""
    lowest = min(row["mean"] for row in rows)
    shown = [row["low"] for row in rows if row["bar"]]
    bottom = max(min([lowest, *shown]), lowest / 2)  # a bar may reach down to nothing
    top = max(row["high"] if row["bar"] else row["mean"] for row in rows)
    decades = math.log10(top / bottom)
    slack = max(0.0, LEAST_DECADES - decades) / 2
    margin = MARGIN * max(decades, LEAST_DECADES)
    return bottom / 10 ** (slack + margin), top * 10 ** (slack + 2 * margin)


# --- chart --------------------------------------------------------------------------------------


def curve_grid(
    curves: Mapping[str, Mapping[str, Float[np.ndarray, "_ _"]]],
    title: str,
    error: str = "mean squared error",
) -> Any:
    """A panel per data set, three in a row, under one legend: an Altair chart.

    In the page a click on a name in the legend brings out its lines; shift-click adds another.

    Args:
        curves: For each data set and method, a split per row and a query per column.
        error: What they are of.
    """
    import altair as alt

    rows = grid_rows(curves)
    methods = list(dict.fromkeys(row["strategy"] for row in rows))
    width, height, names_in_row = LAYOUT[min(COLUMNS, len(curves))]
    colour, dash, thickness = _channels(methods, names_in_row)
    picked = alt.selection_point(name="method", fields=["strategy"], bind="legend")
    opacity = alt.when(picked).then(alt.value(1.0)).otherwise(alt.value(FADED))
    shared = {"color": colour, "opacity": opacity}
    panels = []
    for place, dataset in enumerate(curves):
        x_title = "queries" if place + COLUMNS >= len(curves) else None
        y_title = error if place % COLUMNS == 0 else None
        own = [row for row in rows if row["dataset"] == dataset]
        bars, lines = _panel(own, x_title, y_title)
        panel = alt.layer(bars.encode(**shared), lines.encode(dash, thickness, **shared))
        panels.append(panel.properties(width=width, height=height, title=dataset))
    panels[0] = panels[0].add_params(picked)  # one legend, one selection: it serves all panels
    chart = alt.concat(*panels, columns=COLUMNS, spacing={"row": 16, "column": 12})
    average = how_averaged({row["runs"] for row in rows}, "split", "bars").capitalize()
    return finish_panels(chart, title, [f"{average}; logarithmic scale."], frame=None)


def _channels(methods: Sequence[str], names_in_row: int) -> list[Any]:
    """Colour, dash and width of each method; on one scale each, so that one legend shows all."""
    import altair as alt

    legend = alt.Legend(
        title=None,
        orient="top",
        columns=names_in_row,
        symbolType="stroke",
        symbolSize=550,
        labelFontSize=12.5,
        columnPadding=12,
    )
    known = {**LOOKS, **OTHER}
    looks = {
        method: (*known.get(method, (GREY, DASHES[0])), THICK if method in LEADING else THIN)
        for method in methods
    }
    kinds = (alt.Color, alt.StrokeDash, alt.StrokeWidth)
    return channels(kinds, "strategy:N", looks, legend, type="ordinal")


def _panel(rows: list[dict[str, Any]], x_title: str | None, y_title: str | None) -> tuple[Any, Any]:
    """Bars, and lines to draw above them, the leading methods last."""
    import altair as alt

    last = max(row["question"] for row in rows)
    x = alt.X("question:Q", title=x_title).scale(domain=[0.5, last + 0.5], nice=False)
    x = x.axis(format="d", tickMinStep=1, tickCount=6, grid=False)
    y = alt.Y("mean:Q", title=y_title).scale(type="log", domain=error_axis(rows), nice=False)
    # a label above the top would push the panel's title up, hence `labelFlush`
    y = y.axis(tickCount=TICKS, format="~g", labelOverlap="greedy", labelFlush=6, gridOpacity=0.35)
    drawn = [row for row in rows if row["strategy"] not in LEADING]
    drawn += [row for name in LEADING for row in rows if row["strategy"] == name]
    base = chart_of(drawn, f"curves {rows[0]['dataset']}").encode(x)
    numbers = tooltips(
        ("strategy:N", "method"),
        ("question:Q", "query"),
        ("mean:Q", "mean squared error", ".4f"),
        ("standard_error:Q", "standard error", ".4f"),
        ("runs:Q", "splits"),
    )
    bars = base.transform_filter("datum.bar").mark_rule(clip=True)
    lines = base.mark_line(strokeJoin="round").encode(y, tooltip=numbers[:1])
    return bars.encode(y="low:Q", y2="high:Q", tooltip=numbers), lines
