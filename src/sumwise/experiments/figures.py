"""The paper's figures: Figs. 3 and 4 (§5.3).

Everything is worked out as plain rows and drawn by `sumwise.report`; one chart gives the PNG, the
SVG and the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sumwise.data.sets import Sets
from sumwise.experiments import protocol
from sumwise.experiments.datasets import NAMES, Dataset
from sumwise.learning import learner
from sumwise.report.chosen_sets import chosen_sets_map, map_rows
from sumwise.report.grid import curve_grid
from sumwise.util.shapes import Float

METHOD: Final = "AggMI"
IN_FIGURE_3: Final = NAMES[:9]
SHOWN_QUERIES: Final = (2, 3, 4)  # in Fig. 4
LARGEST_SET: Final = 10  # in Fig. 4; elsewhere sets have up to 20
MOST_POINTS: Final = 1000  # on the map: all 3,342 would show no more, and take much longer


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The sets of a split and those that AggMI chose, in order."""

    dataset: str
    sets: Sets
    chosen: tuple[int, ...]  # positions in `sets`


# --- Fig. 4 -------------------------------------------------------------------------------------


def selection_steps(
    dataset: Dataset,
    number: int,
    queries: int = max(SHOWN_QUERIES),
    largest_set: int = LARGEST_SET,
) -> Selection:
    """What AggMI chooses first on split `number`, with the paper's model and small sets."""
    split = protocol.make_split(dataset, number, largest_set)
    start = learner.begin(protocol.paper_model(dataset.name, number), split.sets)
    seed = protocol.seed_of(dataset.name, METHOD, number)
    *_, end = protocol.ask_and_tell(start, split, METHOD, seed, queries)
    return Selection(dataset.name, split.sets, tuple(end.labels))


def tsne_rows(
    selection: Selection, queries: Sequence[int] = SHOWN_QUERIES, most: int = MOST_POINTS
) -> list[dict[str, Any]]:
    """Rows for the map: t-SNE of the chosen sets and of some of the rest.

    Args:
        most: Individuals on the map; those of chosen sets come first, the others are drawn.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    sets = selection.sets
    set_of = np.repeat(np.arange(len(sets)), sets.sizes)
    is_chosen = np.isin(set_of, selection.chosen)
    others = np.random.default_rng(0).permutation(np.flatnonzero(~is_chosen))
    n_others = max(0, most - int(is_chosen.sum()))
    kept = np.sort(np.concatenate([np.flatnonzero(is_chosen), others[:n_others]]))
    perplexity = min(30.0, (len(kept) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init="pca", random_state=0)
    with threadpool_limits(1):  # its threads wait for one another on a busy machine: 32 s, then 9
        points = tsne.fit_transform(sets.x[kept]).astype(float)
    return map_rows(points, set_of[kept], selection.chosen, queries)


# --- charts ---------------------------------------------------------------------------


def charts(
    curves: Mapping[str, Mapping[str, Float[np.ndarray, "_ _"]]],
    abalone: Dataset | None = None,
    number: int = 0,
) -> dict[str, Any]:
    """Every figure there are data for: the stem of its files, and an Altair chart.

    `error-per-query` has the data sets of Fig. 3, `error-per-query-others` any further ones, and
    `chosen-sets` is Fig. 4.

    Args:
        curves: For each data set and method the error, a split per row and a query per column.
        abalone: The individuals for Fig. 4, which is left out without them.
        number: The split that Fig. 4 shows.
    """
    drawn: dict[str, Any] = {}
    first = {name: curves[name] for name in IN_FIGURE_3 if name in curves}
    others = {name: curves[name] for name in curves if name not in first}
    if first:
        drawn["error-per-query"] = curve_grid(first, title=headline(first))
    if others:
        drawn["error-per-query-others"] = curve_grid(others, title=headline(others))
    if abalone is not None:
        drawn["chosen-sets"] = selection_chart(selection_steps(abalone, number))
    return drawn


def headline(curves: Mapping[str, Mapping[str, Float[np.ndarray, "_ _"]]]) -> str:
    """On how many data sets AggMI's error, averaged over queries and splits, is the lowest."""
    if not all(METHOD in errors for errors in curves.values()):
        return "Error of individual predictions after each query"
    lowest = [
        errors[METHOD].mean() <= min(runs.mean() for runs in errors.values())
        for errors in curves.values()
    ]
    opening = f"{METHOD}'s error, averaged over all queries, is "
    if len(lowest) == 1:
        return opening + ("" if lowest[0] else "not ") + f"the lowest on {next(iter(curves))}"
    return opening + f"the lowest on {sum(lowest) or 'none'} of {len(lowest)} data sets"


def selection_chart(selection: Selection) -> Any:
    """Fig. 4 as an Altair chart."""
    rows = tsne_rows(selection)
    n_shown = sum(row["query"] == rows[0]["query"] for row in rows)
    shown = f"{n_shown:,} of {len(selection.sets.x):,} individuals"
    return chosen_sets_map(
        rows,
        title=f"Sets that {METHOD} chooses in {selection.dataset}",
        subtitle=[f"{shown} in {len(selection.sets):,} sets, placed by t-SNE of their inputs."],
    )
