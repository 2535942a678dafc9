"""How all charts look: colours, sizes, fonts, and the parts that charts have in common."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

# Okabe and Ito's colours, which stay apart for colour-blind readers, and dashes for print
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
DASHES: Final = ((1, 0), (6, 3), (2, 2), (8, 2, 2, 2), (4, 4), (10, 3))
GREY: Final = "#555555"
PALE: Final = "#C3C9CF"
WIDTH, HEIGHT = 600, 340
MOST_POINTS: Final = 60  # more would overlap: then a point shows only under the pointer


def chart_of(rows: Iterable[Mapping[str, Any]], name: str) -> Any:
    """A chart of these rows, which carry a name in the specification."""
    import altair as alt

    return alt.Chart(alt.InlineData(values=list(rows), name=name))


def tooltips(*fields: tuple[str, str] | tuple[str, str, str]) -> list[Any]:
    """One for each field, title and, for numbers, format."""
    import altair as alt

    return [
        alt.Tooltip(field, title=title, format=form[0] if form else alt.Undefined)
        for field, title, *form in fields
    ]


def channels(
    kinds: Sequence[Any],
    field: str,
    looks: Mapping[str, Sequence[Any]],
    legend: Any = None,
    **scale: Any,
) -> list[Any]:
    """A channel of each kind (colour, dash, …), in which each name has this part of its look."""
    return [
        kind(field, legend=legend).scale(domain=list(looks), range=list(part), **scale)
        for kind, part in zip(kinds, zip(*looks.values(), strict=True), strict=True)
    ]


def count_axis(field: str, title: str, ends: tuple[float, float], last: int, **scale: Any) -> Any:
    """A horizontal axis of whole numbers from 1 to the last."""
    import altair as alt

    shown = [tick for tick in ticks(last) if tick >= ends[0]]
    return (
        alt.X(field, title=title)
        .scale(domain=ends, nice=False, **scale)
        .axis(values=shown, format="d", grid=False, labelFlush=False)
    )


def question_axis(title: str, last: float, *, costs: bool) -> Any:
    """A horizontal axis of questions, or of what they have cost."""
    import altair as alt

    if costs:
        return alt.X("question:Q", title=title).scale(domain=(0, last)).axis(grid=False)
    ends = (1, last) if last > 1 else (0, 2)
    return count_axis("question:Q", title, ends, int(last), padding=8)


def ticks(last: int) -> list[int]:
    """1, and the round numbers up to the last question."""
    step = next((s for s in (1, 2, 5, 10, 20, 50) if last / s <= 10), math.ceil(last / 10))
    return [1, *range(step if step > 1 else 2, last + 1, step)]


def finish(chart: Any, title: str, subtitle: Sequence[str], *, height: int, wide: bool) -> Any:
    """Title, size and fonts, the same for all single charts.

    Args:
        wide: As wide as the page it stands in.
    """
    import altair as alt

    if wide:
        chart = chart.properties(autosize=alt.AutoSizeParams(type="fit-x", contains="padding"))
    chart = chart.properties(
        width="container" if wide else WIDTH,
        height=height,
        title=alt.TitleParams(title, subtitle=list(subtitle)),
        padding={"left": 12, "right": 16, "top": 12, "bottom": 12},
    )
    fonts = {"labelFontSize": 13, "titleFontSize": 14, "titlePadding": 10}
    look = {"anchor": "start", "frame": "bounds", "fontSize": 16 if wide else 18, "offset": 14}
    return _configured(chart, title, fonts, look, frame=None)


def finish_panels(chart: Any, title: str, subtitle: Sequence[str], *, frame: str | None) -> Any:
    """The same for charts of several panels; `frame` is the colour of a line round each."""
    import altair as alt

    head = alt.TitleParams(title, subtitle=list(subtitle), anchor="start", fontSize=18, offset=10)
    chart = chart.properties(title=head, padding=12)
    fonts = {"labelFontSize": 11.5, "titleFontSize": 12.5}
    return _configured(chart, title, fonts, {"fontSize": 14, "offset": 5}, frame)


def _configured(
    chart: Any, title: str, axis: Mapping[str, Any], head: Mapping[str, Any], frame: str | None
) -> Any:
    return chart.properties(description=title).configure(
        font="sans-serif",
        background="white",
        axis={"titleFontWeight": "normal", **axis},
        view={"stroke": frame},
        title={"subtitleFontSize": 13, "subtitleColor": GREY, **head},
    )
