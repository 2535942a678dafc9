"""Error per question: the rows, and the chart that draws them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from sumwise.util.shapes import Float

# Okabe and Ito's colours, which stay apart for colour-blind readers, and dashes for print
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
DASHES: Final = ((1, 0), (6, 3), (2, 2), (8, 2, 2, 2), (4, 4), (10, 3))
GREY: Final = "#555555"
PALE: Final = "#C3C9CF"
WIDTH, HEIGHT = 600, 340
# the page works offline, so its menu saves the picture and opens no website
OFFLINE_ACTIONS: Final = {"export": True, "source": False, "compiled": False, "editor": False}
MOST_POINTS = 60  # more would run into one another: then a point shows only under the pointer
LABEL_GAP = 0.055  # least distance of two labels at the lines' ends, as a share of the height


# --- rows ---------------------------------------------------------------------------------------


def learning_curve_rows(errors: Mapping[str, Float[np.ndarray, "_ _"]]) -> list[dict[str, Any]]:
    """Mean error after each question and its standard error, one row per strategy and question.

    Args:
        errors: For each strategy a run per row and a question per column; numbers of runs and
            questions may differ. One run has no standard error: it is None, and the band is empty.
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
                    "question": step + 1,
                    "mean": centre,
                    "standard_error": error if n_runs > 1 else None,
                    "low": centre - error,
                    "high": centre + error,
                    "runs": n_runs,
                }
            )
    return rows


def label_rows(
    rows: Sequence[Mapping[str, Any]], reference: tuple[str, float] | None = None
) -> list[dict[str, Any]]:
    """How high to write each line's name: at its right end, pushed apart where ends come close."""
    ends = {row["strategy"]: row["mean"] for row in rows}  # the last question wins
    if reference is not None:
        ends[reference[0]] = reference[1]
    low, high = _span(rows, reference)
    gap = LABEL_GAP * (high - low)
    placed: list[dict[str, Any]] = []
    for name, end in sorted(ends.items(), key=lambda item: item[1]):
        place = end if not placed else max(end, placed[-1]["place"] + gap)
        placed.append({"strategy": name, "end": end, "place": place})
    return placed


def _span(
    rows: Sequence[Mapping[str, Any]], reference: tuple[str, float] | None
) -> tuple[float, float]:
    """Ends of the error axis: all bands and the reference, with a little air."""
    marked = [] if reference is None else [reference[1]]
    low = min([row["low"] for row in rows] + marked)
    high = max([row["high"] for row in rows] + marked)
    air = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - air, high + air


# --- charts -------------------------------------------------------------------------------------


def learning_curves(
    rows: Sequence[Mapping[str, Any]],
    *,
    title: str,
    subtitle: Sequence[str],
    x_title: str,
    y_title: str,
    reference: tuple[str, float] | None = None,
    lit: Sequence[str] | None = None,
    wide: bool = False,
) -> Any:
    """Error per question with bands of one standard error: an Altair chart.

    Args:
        rows: From `learning_curve_rows`.
        subtitle: Lines below the title.
        reference: Name and error of something to judge the lines by, drawn across in grey.
        lit: Strategies with colour, band and name, where there are too many for all to have them;
            the others are thin and grey, and say who they are under the pointer.
        wide: As wide as the page it stands in.
    """
    import altair as alt

    names = list(dict.fromkeys(row["strategy"] for row in rows)) if lit is None else list(lit)
    front = [row for row in rows if row["strategy"] in names]
    back = [row for row in rows if row["strategy"] not in names]
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(names))]
    dashes = [list(DASHES[i % len(DASHES)]) for i in range(len(names))]
    if reference is not None:
        names, colours, dashes = [*names, reference[0]], [*colours, GREY], [*dashes, [1, 0]]
    last = max(row["question"] for row in rows)
    x = alt.X(
        "question:Q",
        title=x_title,
        scale=alt.Scale(domain=[1, last] if last > 1 else [0, 2], nice=False, padding=8),
        axis=alt.Axis(values=_ticks(last), format="d", grid=False, labelFlush=False),
    )
    # a line need not start at zero, and from zero these differences could not be seen
    scale = alt.Scale(domain=list(_span(front, reference)), nice=False, zero=False)
    y = alt.Y("mean:Q", title=y_title, scale=scale)
    colour = alt.Color("strategy:N", legend=None, scale=alt.Scale(domain=names, range=colours))
    dash = alt.StrokeDash("strategy:N", legend=None, scale=alt.Scale(domain=names, range=dashes))
    tooltip = [
        alt.Tooltip("strategy:N", title="strategy"),
        alt.Tooltip("question:Q", title="question"),
        alt.Tooltip("mean:Q", title="mean error", format=",.4~g"),
        alt.Tooltip("standard_error:Q", title="standard error", format=",.2~g"),
        alt.Tooltip("runs:Q", title="runs"),
    ]
    shown = alt.Chart(alt.InlineData(values=front, name="curves"))
    layers = [
        shown.mark_area(opacity=0.18, clip=True).encode(
            x, alt.Y("low:Q", title=y_title, scale=scale), alt.Y2("high:Q"), colour
        ),
        shown.mark_line(strokeWidth=2.5, clip=True).encode(x, y, colour, dash),
        shown.mark_point(
            filled=True, size=24, opacity=1 if last <= MOST_POINTS else 0, clip=True
        ).encode(x, y, colour, tooltip=tooltip),
        alt.Chart(alt.InlineData(values=label_rows(front, reference), name="labels"))
        .mark_text(align="left", baseline="middle", dx=8, fontSize=14, fontWeight="bold")
        .encode(alt.Y("place:Q"), colour, x=alt.value("width"), text="strategy:N"),
    ]
    if back:
        rest = alt.Chart(alt.InlineData(values=back, name="rest"))
        line = rest.mark_line(color=PALE, strokeWidth=1.2, clip=True)
        # unseen broad points are easier to meet with a pointer than a thin line
        touch = rest.mark_point(filled=True, size=60, opacity=0, clip=True)
        thin = [line.encode(x, y, detail="strategy:N"), touch.encode(x, y, tooltip=tooltip)]
        layers = [*thin, *layers]
    if reference is not None:
        rule = alt.Chart(alt.InlineData(values=[{"error": reference[1]}], name="reference"))
        rule = rule.mark_rule(color=GREY, strokeWidth=1.5, strokeDash=[2, 3])
        layers.insert(0, rule.encode(alt.Y("error:Q", scale=scale)))
    return finish(alt.layer(*layers), title, subtitle, height=HEIGHT, wide=wide)


def finish(chart: Any, title: str, subtitle: Sequence[str], *, height: int, wide: bool) -> Any:
    """Title, size and fonts, the same for all single charts."""
    import altair as alt

    size = {"autosize": alt.AutoSizeParams(type="fit-x", contains="padding")} if wide else {}
    return (
        chart.properties(
            width="container" if wide else WIDTH,
            height=height,
            title=alt.TitleParams(title, subtitle=list(subtitle)),
            description=title,
            usermeta={"embedOptions": {"actions": OFFLINE_ACTIONS}},
            padding={"left": 12, "right": 16, "top": 12, "bottom": 12},
            **size,
        )
        .configure(font="sans-serif", background="white")
        .configure_title(
            anchor="start",
            frame="group" if wide else "bounds",
            fontSize=16 if wide else 18,
            subtitleFontSize=13,
            subtitleColor=GREY,
            offset=14,
        )
        .configure_axis(
            labelFontSize=13, titleFontSize=14, titleFontWeight="normal", titlePadding=10
        )
        .configure_view(stroke=None)
    )


def _ticks(last: int) -> list[int]:
    """1, and the round numbers up to the last question."""
    step = next((s for s in (1, 2, 5, 10, 20, 50) if last / s <= 10), math.ceil(last / 10))
    return [1, *range(step if step > 1 else 2, last + 1, step)]
