"""Which individuals the first chosen sets hold, on a map of all inputs (the paper's Fig. 4, §5.3).

One panel per query: the set just chosen, the sets chosen earlier, and the rest. The map is t-SNE of
the inputs; its axes mean nothing, so they are left out, but both have the same scale, because
distances do mean something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from sumwise.data.sets import Sets
from sumwise.experiments import protocol
from sumwise.experiments.datasets import Dataset
from sumwise.report.theme import channels, chart_of, finish_panels, tooltips
from sumwise.util.shapes import Float, Int
from sumwise.util.text import count

METHOD: Final = "AggMI"
SHOWN_QUERIES: Final = (2, 3, 4)
LARGEST_SET: Final = 10  # elsewhere sets have up to 20
MOST_POINTS: Final = 1000  # on the map: all 3,342 would show no more, and take much longer
NEW, EARLIER, REST = "newly chosen set", "sets chosen earlier", "not measured"
# drawn in this order, so that what is new lies on top: name -> (colour, shape, area)
LOOKS: Final = {
    REST: ("#ABABAB", "circle", 16),
    EARLIER: ("#0072B2", "triangle-up", 80),
    NEW: ("#D7191C", "circle", 75),
}
SIDE: Final = 262  # of a panel
FADED: Final = 0.06


def selection_chart(dataset: Dataset) -> Any:
    """The sets that AggMI chooses first, as an Altair chart."""
    sets, chosen = selection_steps(dataset, 0)
    rows = tsne_rows(sets, chosen)
    n_shown = sum(row["query"] == rows[0]["query"] for row in rows)
    shown = f"{n_shown:,} of {len(sets.x):,} individuals"
    return chosen_sets_map(
        rows,
        title=f"Sets that {METHOD} chooses in {dataset.name}",
        subtitle=[f"{shown} in {len(sets):,} sets, placed by t-SNE of their inputs."],
    )


def selection_steps(dataset: Dataset, number: int) -> tuple[Sets, tuple[int, ...]]:
    """Small sets of split `number`, and which of them AggMI chooses first, in order."""
    split = protocol.make_split(dataset, number, LARGEST_SET)
    short = replace(protocol.RFF.only([METHOD]), queries=max(SHOWN_QUERIES))
    (curve,) = protocol.run_split(short, dataset.name, number, split)
    return split.sets, curve.chosen


# --- rows ---------------------------------------------------------------------------------------


def tsne_rows(sets: Sets, chosen: Sequence[int], most: int = MOST_POINTS) -> list[dict[str, Any]]:
    """Rows for the map: t-SNE of the chosen sets and of some of the rest.

    Args:
        most: Individuals on the map; those of chosen sets come first, the others are drawn.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    set_of = np.repeat(np.arange(len(sets)), sets.sizes)
    is_chosen = np.isin(set_of, chosen)
    others = np.random.default_rng(0).permutation(np.flatnonzero(~is_chosen))
    n_others = max(0, most - int(is_chosen.sum()))
    kept = np.sort(np.concatenate([np.flatnonzero(is_chosen), others[:n_others]]))
    perplexity = min(30.0, (len(kept) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init="pca", random_state=0)
    with threadpool_limits(1):  # its threads wait for one another on a busy machine: 32 s, then 9
        points = tsne.fit_transform(sets.x[kept]).astype(float)
    return map_rows(points, set_of[kept], chosen)


def map_rows(
    points: Float[np.ndarray, "N 2"],
    set_of: Int[np.ndarray, " N"],
    chosen: Sequence[int],
    queries: Sequence[int] = SHOWN_QUERIES,
) -> list[dict[str, Any]]:
    """Every individual in every panel, with its place and what became of its set by then.

    Args:
        set_of: The set of each individual.
        chosen: The sets in the order they were chosen.
        queries: Which queries to show, from 1.
    """
    turns = {position: turn for turn, position in enumerate(chosen, start=1)}
    rows: list[dict[str, Any]] = []
    for query in queries:
        panel = []
        for (x, y), position in zip(points.round(3).tolist(), set_of.tolist(), strict=True):
            turn = turns.get(position, query + 1)
            state = NEW if turn == query else EARLIER if turn < query else REST
            panel.append({"query": query, "x": x, "y": y, "set": position, "state": state})
        rows += sorted(panel, key=lambda row: list(LOOKS).index(row["state"]))
    return rows


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, … 11th, … 21st."""
    teen = 10 <= number % 100 <= 20
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


# --- chart --------------------------------------------------------------------------------------


def chosen_sets_map(
    rows: Sequence[Mapping[str, Any]], *, title: str, subtitle: Sequence[str] = ()
) -> Any:
    """The panels side by side under one legend: an Altair chart.

    Args:
        rows: From `map_rows`.
    """
    import altair as alt

    legend = alt.Legend(
        title=None, orient="top", symbolOpacity=1, labelFontSize=12.5, columnPadding=18
    )
    looks = dict(reversed(LOOKS.items()))
    picked = alt.selection_point(name="state", fields=["state"], bind="legend")
    opacity = alt.when(picked).then(alt.value(1.0)).otherwise(alt.value(FADED))
    marks = channels((alt.Color, alt.Shape, alt.Size), "state:N", looks, legend, type="ordinal")
    x_ends, y_ends = _square(rows)
    x = alt.X("x:Q", axis=None).scale(domain=x_ends, nice=False)
    y = alt.Y("y:Q", axis=None).scale(domain=y_ends, nice=False)
    tooltip = tooltips(("state:N", "state"), ("set:Q", "set"))
    panels = []
    for query in dict.fromkeys(row["query"] for row in rows):
        shown = [row for row in rows if row["query"] == query]
        n_new = sum(row["state"] == NEW for row in shown)
        held = f"a set of {count(n_new, 'individual')}"
        head = alt.TitleParams(f"{ordinal(query)} query", subtitle=held)
        panels.append(
            chart_of(shown, f"query-{query}")
            .mark_point(filled=True, stroke="white", strokeWidth=0.5)
            .encode(x, y, *marks, tooltip=tooltip, opacity=opacity)
            .properties(width=SIDE, height=SIDE, title=head)
        )
    panels[0] = panels[0].add_params(picked)  # one legend, one selection: it serves all panels
    chart = alt.hconcat(*panels, spacing=14)
    return finish_panels(chart, title, subtitle, frame="#DDDDDD")


def _square(rows: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """Ends of both axes, of one length, round all points with a margin."""
    place = np.array([(row["x"], row["y"]) for row in rows])
    low, high = place.min(axis=0), place.max(axis=0)
    half = 0.53 * float((high - low).max()) or 1.0
    return [[centre - half, centre + half] for centre in ((low + high) / 2).tolist()]
