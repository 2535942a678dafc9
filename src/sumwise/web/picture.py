"""A scatter plot of individuals, which shows where measured sets lie among the others.

The plane is that of the first two principal components of the standardised inputs, a map where two
inputs are coordinates, or t-SNE. Of a large study a sample is drawn, in which individuals of sets
that are measured, being measured or proposed come first. t-SNE takes long and is run once;
individuals that are sampled later are placed among their nearest neighbours.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np

from sumwise.data.targets import Inputs
from sumwise.errors import SettingError
from sumwise.report.maps import SHOWS, has_map, map_panel
from sumwise.report.page import Section
from sumwise.report.theme import COLOURS, GREY, channels, chart_of, finish
from sumwise.study.storage.records import Snapshot
from sumwise.util.shapes import Float, Int
from sumwise.util.text import figure, label
from sumwise.web.pages import Pages, PoolView, predict
from sumwise.web.problems import Refused
from sumwise.web.session import Session, SingleFlight, as_json

MOST: Final = 3000  # points
PROPOSED: Final = 5
NEIGHBOURS: Final = 3
ROUNDS: Final = 500  # of t-SNE
FEWEST_TSNE: Final = 5  # individuals
RATIOS: Final = (0.4, 1.25)  # least and most height by width of a picture
HEIGHT: Final = 460
# drawn in this order, so that what is answered lies on top: name -> (colour, shape, area)
LOOKS: Final = {
    "not measured": ("#ABABAB", "circle", 22),
    "skipped": (GREY, "cross", 40),
    "proposed": (COLOURS[1], "diamond", 60),
    "being measured": (COLOURS[2], "square", 50),
    "answered": (COLOURS[0], "triangle-up", 60),
}
REST, SKIPPED, PROPOSAL, OPEN, ANSWERED = range(len(LOOKS))
KINDS: Final = np.array([REST, OPEN, ANSWERED, SKIPPED])  # of sets in the order of `pages.STATES`
TITLES: Final = {
    "pca": "Individuals by their inputs",
    "map": "Individuals on the map",
    "tsne": "Individuals by likeness",
}
WORDS: Final = {
    "pca": "Individuals with similar inputs lie close together: the axes are the two directions in "
    "which the inputs differ most ({share:.0%} of their variance).",
    "map": "Where each individual is, by the inputs that are its coordinates.",
    "tsne": "Individuals with similar inputs lie close together (t-SNE). Distances between far "
    "groups mean little, and so do the axes.",
}


# rows, what became of each, the position of its set, and how many there are in all
Drawn: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray, int]


class Pictures:
    """Pictures of one study."""

    def __init__(self, pages: Pages, places: tuple[str, str] | None) -> None:
        self._pages = pages
        self._session = pages.session
        names = list(map(str, self._session.sets.input_names or self._session.input_names))
        self._columns = [_column(names, name) for name in places or ()]
        self.places = places
        self._drawn = {kind: self._picture(kind) for kind in TITLES}
        self._drawn |= {show: self._map(show) for show in SHOWS}
        self.has_map = self._session.per_change(lambda _: has_map(self._session.study))
        self._layout: tuple[Int[np.ndarray, " n"], Float[np.ndarray, "n 2"]] | None = None

    def get(self, kind: str) -> dict[str, Any]:
        if kind == "map" and not self._columns:
            raise Refused(
                404,
                "no_places",
                "there is no map; say which inputs are coordinates: sumwise serve --map LON,LAT",
            )
        if kind in SHOWS and not self.has_map.get():
            raise Refused(404, "no_map", "there is no map; add one: sumwise map STUDY --map FILE")
        return self._drawn[kind].get()

    def _map(self, show: str) -> SingleFlight[Snapshot, dict[str, Any]]:
        study = self._session.study
        return self._session.per_change(lambda _: as_json(map_panel(study, show)))

    def _picture(self, kind: str) -> SingleFlight[Snapshot, dict[str, Any]]:
        return self._session.per_change(lambda _: as_json(self._draw(kind, self._pages.pool.get())))

    def _draw(self, kind: str, view: PoolView) -> Section:
        sets, people = self._session.sets, self._session.people
        which, state, owners, total = self._shown(view) if people is None else self._fates(view)
        if kind == "tsne" and len(which) < FEWEST_TSNE:
            words = f"t-SNE takes at least {FEWEST_TSNE} individuals."
            return Section(TITLES[kind], [words])
        with np.errstate(all="ignore"):
            points, words = self._points(kind, which)
            reach = np.ptp(points, axis=0)
        if not np.isfinite(reach).all():
            return Section(TITLES[kind], ["The inputs are too far apart to be drawn."])
        order = np.argsort(state, kind="stable")
        which, owners, points = which[order], owners[order], points[order]
        own = (which - sets.starts[owners] + 1).tolist()
        if people is not None:
            own = [label(people.texts[at]) for at in people.at(sets, which)]
        names = [[*LOOKS][kind] for kind in state[order]]
        columns = _rounded(points), owners.tolist(), names, own
        rows = [
            {
                "x": x,
                "y": y,
                "set": label(sets.ids[owner]),
                "state": name,
                "position": owner,
                "row": row,
                "predicted": predicted,
            }
            for (x, y), owner, name, row, predicted in zip(
                *columns, _predicted(self._session, view, which), strict=True
            )
        ]
        sentences = [words]
        if len(which) < total:
            sentences.append(
                f"Of {total:,} individuals {len(which):,} are drawn; those of sets that are "
                "answered, being measured or proposed come first."
            )
        drawn = Counter(row["state"] for row in rows)  # in the order of LOOKS, as the rows are
        thing = "pool" if people is not None and people.designing.alone else "set"
        heads = f"{thing} is", "individuals drawn"
        table = [dict(zip(heads, each, strict=True)) for each in reversed(drawn.items())]
        chart = _chart(kind, rows, self.places, points)
        return Section(TITLES[kind], sentences, [chart], rows=table)

    def _shown(self, view: PoolView) -> Drawn:
        """Individuals of the pool, what became of their sets, and which these are."""
        sets, state = self._session.sets, KINDS[view.state]
        for question in self._session.state.propose(view.seen, PROPOSED):
            state[sets.position(question.set_id)] = PROPOSAL
        which, inside = sample(sets.starts, state), self._session.known.in_pool
        owners = np.searchsorted(sets.starts, which, side="right") - 1
        which, owners = which[inside[owners]], owners[inside[owners]]
        return which, state[owners], owners, int(sets.sizes[inside].sum())

    def _fates(self, view: PoolView) -> Drawn:
        """The same where sets are designed: an individual has the most important of its fates."""
        sets, people = view.fit.pool.sets, self._session.people
        assert people is not None
        state, owners = np.full(len(people.texts), REST), people.owners.copy()
        kinds = KINDS[view.state]
        proposed = self._session.state.propose(view.seen, PROPOSED)
        for kind in (SKIPPED, PROPOSAL, OPEN, ANSWERED):
            for at in np.flatnonzero(kinds == kind).tolist():
                rows = people.of_set(sets, at)[0]
                state[rows], owners[rows] = kind, at
            for question in proposed if kind == PROPOSAL else ():
                if question.pool is None:
                    rows = people.of_set(sets, sets.position(question.set_id))[0]
                else:
                    rows = np.array(question.pool.rows)
                state[rows] = kind
        which = sample(np.arange(len(state) + 1), state)
        return people.designing.rows[which], state[which], owners[which], len(state)

    def _points(
        self, kind: str, which: Int[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "n 2"], str]:
        if kind == "map":
            return self._session.sets.rows_at(which)[0][:, self._columns], WORDS[kind]
        if kind == "tsne":
            return self._tsne(which), WORDS[kind]
        axes, share = self._components
        return self._standardised(which) @ axes, WORDS[kind].format(share=share)

    # --- planes -------------------------------------------------------------------------------

    def _standardised(self, which: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n D"]:
        return self._scaled(self._session.sets.rows_at(which)[0])

    def _scaled(self, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D"]:
        return (x - self._inputs.shift) / self._inputs.scale

    @cached_property
    def _x(self) -> Float[np.ndarray, "N D"]:
        """Inputs of all, without those in designed pools once more; where individuals stay in
        their files, of a sample."""
        sets = self._session.sets
        if self._session.record.embedded is not None:
            rows = np.linspace(0, sets.n_rows - 1, min(MOST, sets.n_rows)).astype(np.int64)
            return sets.rows_at(rows)[0]
        return sets.x if self._session.people is None else sets.own_x

    @cached_property
    def _inputs(self) -> Inputs:
        return Inputs.of(self._x)

    @cached_property
    def _components(self) -> tuple[Float[np.ndarray, "D 2"], float]:
        """Two principal axes (the second is zero for a single input), and their share."""
        x = self._scaled(self._x)
        powers, axes = np.linalg.eigh(np.atleast_2d(np.cov(x, rowvar=False, bias=True)))
        axes = axes[:, ::-1][:, :2]
        axes = axes * np.where(axes[abs(axes).argmax(axis=0), range(axes.shape[1])] < 0, -1.0, 1.0)
        if axes.shape[1] < 2:
            axes = np.column_stack([axes, np.zeros(len(axes))])
        total = float(powers.sum())
        return axes, float(powers[-2:].sum()) / total if total > 0 else 1.0

    def _tsne(self, which: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n 2"]:
        from sklearn.neighbors import KNeighborsRegressor

        if self._layout is None:  # only one thread at a time draws a kind of picture
            self._layout = which, _tsne(self._standardised(which))
        known, plane = self._layout
        if np.array_equal(known, which):
            return plane
        neighbours = KNeighborsRegressor(min(NEIGHBOURS, len(known)), weights="distance")
        return neighbours.fit(self._standardised(known), plane).predict(self._standardised(which))


def _tsne(x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n 2"]:
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    perplexity = min(30.0, (len(x) - 1) / 3)
    distinct = x + 1e-9 * np.random.default_rng(0).normal(size=x.shape)  # duplicates would fail
    tsne = TSNE(perplexity=perplexity, init="random", max_iter=ROUNDS, random_state=0)
    # one core stays free for other requests; threads without a core would wait for each other
    with threadpool_limits(max(1, (os.cpu_count() or 2) - 1)):
        return tsne.fit_transform(distinct)


# --- which individuals, and what became of them ---------------------------------------------------


def sample(starts: Int[np.ndarray, " A1"], state: Int[np.ndarray, " A"]) -> Int[np.ndarray, " n"]:
    """Rows of at most `MOST` individuals, in order; the same for the same states.

    Sets are taken by state, the most important first. Of a state that does not fit as a whole,
    every k-th individual is taken.
    """
    sizes, left = np.diff(starts), MOST
    taken: list[Int[np.ndarray, " m"]] = []
    for wanted in (ANSWERED, OPEN, PROPOSAL, SKIPPED, REST):
        sets = np.flatnonzero(state == wanted)
        ends = np.cumsum(sizes[sets])
        n = int(ends[-1]) if len(sets) else 0
        number = np.arange(n) if n <= left else np.linspace(0, n - 1, left).astype(np.int64)
        at = np.searchsorted(ends, number, side="right")  # numbers among the rows of these sets
        taken.append(starts[sets[at]] + number - ends[at] + sizes[sets[at]])
        left -= len(number)
    return np.sort(np.concatenate(taken))


def _column(names: list[str], name: str) -> int:
    if name not in names:
        listed = ", ".join(f"{each!r:.60}" for each in names[:20])
        raise SettingError(f"no input is called {name!r:.60}; the inputs are {listed}")
    return names.index(name)


def _predicted(session: Session, view: PoolView, which: Int[np.ndarray, " n"]) -> list[str]:
    """Means and standard deviations of individuals as text; none before the first answer."""
    if not view.seen.answers:
        return ["not before the first answer"] * len(which)
    found = predict(session, view.fit, which)[0]
    pairs, about = zip(found.mean, found.std, strict=True), session.record.about
    said = (f"{figure(float(mean), 4)} ± {figure(float(std))}" for mean, std in pairs)
    return [*map(about.quantity, said)]


# --- drawing --------------------------------------------------------------------------------------


def _rounded(points: Float[np.ndarray, "n 2"]) -> list[list[float]]:
    """Points rounded to five digits of their range, which is less than a pixel."""
    reach = float(np.ptp(points, axis=0).max()) or 1.0
    digits = int(np.clip(5 - np.floor(np.log10(reach)), -300, 300))
    return np.round(points, digits).tolist()


def _chart(
    kind: str,
    rows: Sequence[dict[str, Any]],
    places: tuple[str, str] | None,
    points: Float[np.ndarray, "n 2"],
) -> Any:
    import altair as alt

    legend = alt.Legend(title=None, orient="top", symbolOpacity=1, labelFontSize=12.5)
    looks = dict(reversed(LOOKS.items()))  # in the order of the legend
    marks = channels((alt.Color, alt.Shape, alt.Size), "state:N", looks, legend, type="ordinal")
    ends, ratio = frame(points, degrees=kind == "map")
    axes = (places if kind == "map" else None) or (None, None)
    x, y = (
        encoding(
            f"{field}:Q",
            title=title,
            scale=alt.Scale(domain=end, nice=False, zero=False),
            axis=None if title is None else alt.Axis(grid=False),
        )
        for encoding, field, title, end in zip((alt.X, alt.Y), "xy", axes, ends, strict=True)
    )
    chart = chart_of(rows, "individuals").encode(
        x, y, *marks, tooltip=[f"{field}:N" for field in ("set", "state", "row", "predicted")]
    )
    chart = chart.mark_point(filled=True, stroke="white", strokeWidth=0.4, opacity=0.9)
    drawn = finish(chart, TITLES[kind], (), height=HEIGHT, wide=True)
    return drawn.properties(usermeta={"ratio": round(ratio, 4)})


def frame(points: Float[np.ndarray, "n 2"], *, degrees: bool) -> tuple[list[list[float]], float]:
    """Limits of both axes, and the ratio of height to width that gives both the same scale.

    Degrees of longitude are shorter than those of latitude, except at the equator. Points in a thin
    line get more space beside them.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    middle, reach = low / 2 + high / 2, 1.06 * (high - low)
    across = 1.0
    if degrees and abs(points[:, 0]).max() <= 360 and abs(points[:, 1]).max() <= 85:
        across = math.cos(math.radians(middle[1]))
    width, height = float(reach[0]) * across, float(reach[1])
    if width == height == 0:
        width = height = 1.0
    width, height = max(width, height / RATIOS[1]), max(height, width * RATIOS[0])
    half = np.array([width / across, height]) / 2
    ends = [[float(a), float(b)] for a, b in zip(middle - half, middle + half, strict=True)]
    return ends, height / width
