"""Error per question of several strategies, and their differences: rows, and charts of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from sumwise.report import theme
from sumwise.report.theme import COLOURS, DASHES, GREY, PALE, chart_of, tooltips
from sumwise.util.shapes import Float

LABEL_GAP: Final = 0.055  # least distance of two labels at the lines' ends, as a share of height
ROW_HEIGHT: Final = 26
SIDES: Final = ("better than Random", "no clear difference", "worse than Random")


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


def how_averaged(runs: int, what: str) -> str:
    """What a line and its band are."""
    return f"mean of {runs} {what}s, bands ± 1 standard error" if runs > 1 else f"one {what}"


def label_rows(
    rows: Sequence[Mapping[str, Any]], reference: tuple[str, float] | None = None
) -> list[dict[str, Any]]:
    """How high to write each line's name: at its right end, pushed apart where ends come close."""
    ends = {row["strategy"]: row["mean"] for row in rows}  # the last question wins
    if reference is not None:
        ends[reference[0]] = reference[1]
    low, high = error_span(rows, reference)
    gap = LABEL_GAP * (high - low)
    placed: list[dict[str, Any]] = []
    for name, end in sorted(ends.items(), key=lambda item: item[1]):
        place = end if not placed else max(end, placed[-1]["place"] + gap)
        placed.append({"strategy": name, "end": end, "place": place})
    return placed


def error_span(
    rows: Sequence[Mapping[str, Any]], reference: tuple[str, float] | None
) -> tuple[float, float]:
    """Ends of the error axis: all bands and the reference, with a margin."""
    marked = [] if reference is None else [reference[1]]
    low = min([row["low"] for row in rows] + marked)
    high = max([row["high"] for row in rows] + marked)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


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
            the others are thin and grey, and their names show under the pointer.
        wide: As wide as the page it stands in.
    """
    import altair as alt

    names = list(dict.fromkeys(row["strategy"] for row in rows)) if lit is None else list(lit)
    front = [row for row in rows if row["strategy"] in names]
    back = [row for row in rows if row["strategy"] not in names]
    last = max(row["question"] for row in rows)
    ends = [1, last] if last > 1 else [0, 2]
    x = theme.count_axis("question:Q", x_title, ends, theme.ticks(last), padding=8)
    # a line need not start at zero, and from zero these differences could not be seen
    scale = alt.Scale(domain=list(error_span(front, reference)), nice=False, zero=False)
    y = alt.Y("mean:Q", title=y_title, scale=scale)
    turns = [(name, turn % len(COLOURS)) for turn, name in enumerate(names)]
    grey = [] if reference is None else [(reference[0], GREY, [1, 0])]
    looks = [(name, COLOURS[turn], list(DASHES[turn])) for name, turn in turns] + grey
    colour, dash = (
        theme.by_name(kind, "strategy:N", {look[0]: look[part] for look in looks})
        for kind, part in ((alt.Color, 1), (alt.StrokeDash, 2))
    )
    tooltip = tooltips(
        ("strategy:N", "strategy"),
        ("question:Q", "question"),
        ("mean:Q", "mean error", ",.4~g"),
        ("standard_error:Q", "standard error", ",.2~g"),
        ("runs:Q", "runs"),
    )
    layers = _behind(back, reference, x, y, scale, tooltip)
    shown, opacity = chart_of(front, "curves"), 1 if last <= theme.MOST_POINTS else 0
    band = alt.Y("low:Q", title=y_title, scale=scale), alt.Y2("high:Q")
    point = shown.mark_point(filled=True, size=24, opacity=opacity, clip=True)
    layers += [
        shown.mark_area(opacity=0.18, clip=True).encode(x, *band, colour),
        shown.mark_line(strokeWidth=2.5, clip=True).encode(x, y, colour, dash),
        point.encode(x, y, colour, tooltip=tooltip),
        theme.line_names(label_rows(front, reference), colour),
    ]
    return theme.finish(alt.layer(*layers), title, subtitle, height=theme.HEIGHT, wide=wide)


def _behind(
    rows: Sequence[Mapping[str, Any]],
    reference: tuple[str, float] | None,
    x: Any,
    y: Any,
    scale: Any,
    tooltip: list[Any],
) -> list[Any]:
    """What lies behind the lines with colour: the reference and the other lines."""
    import altair as alt

    layers = []
    if reference is not None:
        rule = chart_of([{"error": reference[1]}], "reference")
        rule = rule.mark_rule(color=GREY, strokeWidth=1.5, strokeDash=[2, 3])
        layers.append(rule.encode(alt.Y("error:Q", scale=scale)))
    if rows:
        rest = chart_of(rows, "rest")
        line = rest.mark_line(color=PALE, strokeWidth=1.2, clip=True)
        # broad points that are not drawn are easier to point at than a thin line
        target = rest.mark_point(filled=True, size=60, opacity=0, clip=True)
        layers += [line.encode(x, y, detail="strategy:N"), target.encode(x, y, tooltip=tooltip)]
    return layers


def differences(
    rows: Sequence[Mapping[str, Any]], *, title: str, subtitle: Sequence[str], x_title: str
) -> Any:
    """A dot for each strategy's difference to Random and its interval, best first.

    Args:
        rows: `strategy`, `mean`, `low`, `high` (None without an interval) and `side`, of `SIDES`.
    """
    import altair as alt

    y = alt.Y(
        "strategy:N",
        title=None,
        sort=[row["strategy"] for row in rows],
        axis=alt.Axis(labelFontSize=13, ticks=False, domain=False, grid=True, gridOpacity=0.5),
    )
    axis = alt.Axis(tickCount=7, gridOpacity=0.5)
    x = alt.X("mean:Q", title=x_title, axis=axis, scale=alt.Scale(zero=True, nice=True))
    sides = dict(zip(SIDES, (COLOURS[0], "#8A939B", COLOURS[1]), strict=True))
    legend = alt.Legend(orient="bottom", labelFontSize=12, symbolType="circle", columns=3)
    colour = theme.by_name(alt.Color, "side:N", sides, legend).title(None)
    tooltip = tooltips(
        ("strategy:N", "strategy"),
        ("mean:Q", "difference", ",.3~g"),
        ("low:Q", "95 % interval from", ",.3~g"),
        ("high:Q", "to", ",.3~g"),
    )
    base = chart_of(rows, "differences")
    zero = chart_of([{"zero": 0}], "zero")
    low = alt.X("low:Q", title=x_title)
    layers = [
        zero.mark_rule(color=GREY, strokeWidth=1.2, strokeDash=[2, 3]).encode(alt.X("zero:Q")),
        base.mark_rule(strokeWidth=2.5).encode(low, y, colour, x2="high:Q", tooltip=tooltip),
        base.mark_point(filled=True, size=90, opacity=1).encode(x, y, colour, tooltip=tooltip),
    ]
    height = ROW_HEIGHT * len(rows)
    return theme.finish(alt.layer(*layers), title, subtitle, height=height, wide=True)
