"""The paper's figures: Figs. 3 and 4 (§5.3).

Everything is worked out as plain rows and drawn by `sumwise.report`; one chart gives the PNG, the
SVG and the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from sumwise.data.sets import Sets
from sumwise.experiments import protocol
from sumwise.experiments.comparison import Errors
from sumwise.experiments.datasets import NAMES, Dataset
from sumwise.report.chosen_sets import chosen_sets_map, map_rows
from sumwise.report.grid import curve_grid
from sumwise.util.text import count

METHOD: Final = "AggMI"
IN_FIGURE_3: Final = NAMES[:9]
SHOWN_QUERIES: Final = (2, 3, 4)  # in Fig. 4
LARGEST_SET: Final = 10  # in Fig. 4; elsewhere sets have up to 20
MOST_POINTS: Final = 1000  # on the map: all 3,342 would show no more, and take much longer


def charts(curves: Mapping[str, Errors], abalone: Dataset | None = None) -> dict[str, Any]:
    """Every figure there are data for: the stem of its files, and an Altair chart.

    `error-per-query` has the data sets of Fig. 3, `error-per-query-others` any further ones, and
    `chosen-sets` is Fig. 4.

    Args:
        curves: The errors for each data set.
        abalone: The individuals for Fig. 4, which is left out without them.
    """
    first = {name: curves[name] for name in IN_FIGURE_3 if name in curves}
    others = {name: curves[name] for name in curves if name not in first}
    drawn: dict[str, Any] = {
        stem: curve_grid(panels, title=headline(panels))
        for stem, panels in (("error-per-query", first), ("error-per-query-others", others))
        if panels
    }
    if abalone is not None:
        drawn["chosen-sets"] = selection_chart(abalone)
    return drawn


def headline(curves: Mapping[str, Errors]) -> str:
    """On how many data sets AggMI's error, averaged over queries and splits, is the lowest."""
    if not all(METHOD in errors for errors in curves.values()):
        return "Error of individual predictions after each query"
    lowest = [
        errors[METHOD].mean() <= min(runs.mean() for runs in errors.values())
        for errors in curves.values()
    ]
    return (
        f"{METHOD}'s error, averaged over all queries, is the lowest on "
        f"{sum(lowest) or 'none'} of {count(len(lowest), 'data set')}"
    )


# --- Fig. 4 -------------------------------------------------------------------------------------


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
    return map_rows(points, set_of[kept], chosen, SHOWN_QUERIES)
