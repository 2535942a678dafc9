"""Maps of predictions, of their uncertainty and of what is measured: one chart, coloured by either.

Shapes are those of the study's map, else the geometries that its table had, else points at the two
inputs that are coordinates. A shape that is too small to be seen, or a point, is drawn as a dot.
Colours are those of classes with round limits, which a legend names in words.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from sumwise.data.about import About
from sumwise.data.geo import OF_DEGREES, OF_PLANE, Geometry
from sumwise.data.maps import INDIVIDUALS, SETS, Map, read_map
from sumwise.data.sets import Sets
from sumwise.data.topology import Topology, topology
from sumwise.errors import DataError, SettingError
from sumwise.learning.learner import ActiveLearner
from sumwise.report.notebook import fixed
from sumwise.report.page import Section
from sumwise.report.theme import COLOURS, GREY, PALE, WIDTH, chart_of, finish, tooltips
from sumwise.study.study import Study
from sumwise.util.shapes import Float
from sumwise.util.text import NONE, as_given, figure, label, sentence, shown

NEXT: Final = 5  # questions that are numbered
MOST: Final = 5_000  # shapes
MOST_PLACES: Final = 50_000  # individuals that are drawn as points without being asked for
MOST_ROWS: Final = 1_000  # of the table beside a map
FIRST_HEIGHT: Final = 400  # at most, of a report's first map: what comes first fits two screens
CLASSES: Final = 6  # of colours, or one or two more
OUTSIDE: Final = "not in the study"
OUTSIDE_COLOUR: Final = "#D8DDE2"
# viridis from yellow to violet, and orange to red: both are read right by colour-blind people
RAMPS: Final = {
    "prediction": "#FDE725 #B5DE2B #6ECE58 #35B779 #1F9E89 #26828E #31688E #3E4989 #482878",
    "uncertainty": "#FFF3E0 #FEE0B6 #FDC98F #FCA86A #F98250 #E9593E #CF3024 #A91420 #7F0A1C",
}
STATES: Final = {
    "measured": COLOURS[0],
    "being measured": COLOURS[2],
    "next": COLOURS[1],
    "skipped": GREY,
    "not measured": PALE,
    OUTSIDE: OUTSIDE_COLOUR,
}
SHOWS: Final = (*RAMPS, "status")
DARKER: Final = {
    "prediction": ["Darker is higher."],
    "uncertainty": ["Darker is less certain."],
    "status": [],
}
PLANE: Final[dict[str, Any]] = {"crs": None}
AXES: Final = {OF_DEGREES: {}, ("lon", "lat"): {}, OF_PLANE: PLANE}  # inputs that are coordinates
UNTOUCHED: Final = ("not measured", "not measured", 0)
QUIET: Final = ("not measured", OUTSIDE)
NO_MAP: Final = (
    "there is no map: give one with shapes of the sets or of individuals, such as "
    'study.add_map("districts.geojson", map_id="code") (in the shell, sumwise map STUDY --map '
    "districts.geojson --map-id code); points are drawn of inputs called longitude and latitude"
)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Shapes and what is known of each; NaN where nothing is predicted."""

    about: About
    of: str  # whose shapes they are: `SETS` or `INDIVIDUALS`
    names: Sequence[str]
    positions: Sequence[int]  # of each shape's set in the study; -1 where there is none
    mean: Float[np.ndarray, " n"]
    std: Float[np.ndarray, " n"]
    states: Sequence[tuple[str, str]]  # a key of `STATES`, and that in words
    ranks: Sequence[int]  # among the next questions, from 1; 0 for others
    topology: Topology
    words: Sequence[str]

    @property
    def thing(self) -> str:
        return self.of.removesuffix("s")

    @property
    def predicted(self) -> bool:
        return bool(np.isfinite(self.mean).any())

    @cached_property
    def shades(self) -> dict[str, tuple[list[str], dict[str, str]]]:
        """By what is shown, the class of each shape and the colours of classes."""
        if not self.predicted:
            return {}
        values = zip(RAMPS, (self.mean, self.std), strict=True)
        return {show: _shades(each, RAMPS[show]) for show, each in values}

    @cached_property
    def properties(self) -> list[dict[str, Any]]:
        """Of each shape what is shown when it is pointed at, and its classes."""
        classes = {show: shades for show, (shades, _) in self.shades.items()}
        classes["status"] = [state for state, _ in self.states]
        columns = {"name": self.names, "position": self.positions}
        columns |= dict(zip(("said", "fate"), _said_of(self), strict=True))
        every = zip(*(columns | classes).values(), strict=True)
        return [dict(zip((*columns, *classes), row, strict=True)) for row in every]


@dataclass(frozen=True, slots=True)
class Plot:
    """Charts of a study or a learner, made when they are called for."""

    of: Study | ActiveLearner

    def map(
        self,
        show: str = "prediction",
        *,
        map: Any = None,
        map_id: str | Sequence[str] | None = None,
    ) -> Any:
        """An Altair map.

        Args:
            show: "prediction": means of sets, or individuals; "uncertainty": their standard
                deviations; "status": what is measured, and what to measure next, numbered.
            map, map_id: Shapes to draw, as in `Study.add_map`; those that the study has if left
                out, or points at inputs called longitude and latitude, lon and lat, or x and y.
        """
        return fixed(map_chart(map_of(self.of, map, map_id), show))

    def panel(self, name: str) -> Any:
        """A chart of the report, by the names that `Insight.plot` has for them."""
        return self.of.insight().plot(name)


# --- what is drawn --------------------------------------------------------------------------------


class _Values(NamedTuple):
    """What is known of sets or individuals, in one order."""

    keys: Sequence[Hashable]  # ids as a map has them
    owners: Sequence[Hashable]  # ids of sets
    names: Sequence[Hashable]
    mean: Float[np.ndarray, " n"]
    std: Float[np.ndarray, " n"]


def map_of(
    study: Study | ActiveLearner, given: Any = None, map_id: str | Sequence[str] | None = None
) -> Drawn:
    """The map of a study as things stand."""
    known, words = _kept(study), list[str]()
    if given is not None:
        known, said = read_map(given, map_id, _sets(study))
        words.append(said)
    if known is None:
        raise SettingError(NO_MAP)
    if isinstance(known, Geometry):  # of individuals, in their order
        ids: Sequence[Hashable] = range(len(known.wkb))
        known = Map(INDIVIDUALS, tuple(ids), known)
        values = _of_individuals(study)._replace(keys=ids)
    else:
        values = _of_sets(study) if known.of == SETS else _of_individuals(study)
    row_of = {key: row for row, key in enumerate(values.keys)}
    rows = [row_of.get(key, -1) for key in known.ids]
    states = _states(study)
    fates = [
        (OUTSIDE, OUTSIDE, 0) if row < 0 else states.get(values.owners[row], UNTOUCHED)
        for row in rows
    ]
    shapes = _some([fate[0] not in QUIET for fate in fates])
    if len(shapes) < len(rows):
        words.append(f"Of {len(rows):,} shapes, {len(shapes):,} are drawn, first those measured.")
    sets = _sets(study)
    mean, std = (np.append(each, np.nan)[rows][shapes] for each in (values.mean, values.std))
    return Drawn(
        study.about,
        known.of,
        [label(values.names[rows[i]] if rows[i] >= 0 else known.ids[i]) for i in shapes],
        [sets.position(values.owners[rows[i]]) if rows[i] >= 0 else -1 for i in shapes],
        mean,
        std,
        [fates[i][:2] for i in shapes],
        [fates[i][2] for i in shapes],
        topology(replace(known.geometry, wkb=[known.geometry.wkb[i] for i in shapes])),
        words,
    )


def _some(loud: Sequence[bool]) -> list[int]:
    """Which shapes are drawn: all, or those that something happened to and some of the others."""
    order = sorted(range(len(loud)), key=lambda i: not loud[i])
    n = min(sum(loud), MOST)
    rest = np.linspace(n, len(order) - 1, MOST - n).astype(int).tolist()
    return (
        [*range(len(loud))] if len(loud) <= MOST else sorted(order[:n] + [order[i] for i in rest])
    )


def _sets(study: Study | ActiveLearner) -> Sets:
    return study.state.record.sets if isinstance(study, Study) else study.sets


def _kept(study: Study | ActiveLearner) -> Map | Geometry | None:
    """The shapes that a study has, or else points where individuals are."""
    found = study.map or study.shapes if isinstance(study, Study) else None
    axes = None if found is not None else _places(study)
    if axes is None:
        return found
    names = list(map(str, study.sets.input_names or ()))
    points = study.sets.own_x[:, [names.index(axis) for axis in axes]].astype("<f8")
    head = struct.pack("<BI", 1, 1)
    return Geometry([head + point.tobytes() for point in points], AXES[axes])


def _places(study: Study | ActiveLearner) -> tuple[str, str] | None:
    """Inputs that are coordinates, of individuals in memory and not too many."""
    if (isinstance(study, Study) and study.scan) or _sets(study).sizes.sum() > MOST_PLACES:
        return None
    names = {*map(str, _sets(study).input_names or ())}
    return next((axes for axes in AXES if {*axes} <= names), None)


def _states(study: Study | ActiveLearner) -> dict[Hashable, tuple[str, str, int]]:
    """What became of each set that is not free: a key of `STATES`, words, and its rank if next."""
    found: dict[Hashable, tuple[str, str, int]] = {}
    members: Mapping[Hashable, Sequence[Hashable]] = {}
    if isinstance(study, Study):
        members = study.pools
        found |= {skip.set_id: ("skipped", "skipped", 0) for skip in study.skips}
        held = {claim.set_id: ("being measured", "being measured", 0) for claim in study.claims}
        found |= {each: fate for at, fate in held.items() for each in (at, *members.get(at, ()))}
    for rank, ask in enumerate(study.propose(NEXT), start=1):
        named = (ask.set_id,) if ask.pool is None else ask.pool.members
        found |= dict.fromkeys(named, ("next", f"to be measured next: number {rank}", rank))
    word = study.about.word
    for answer in study.answers:
        said = f"measured: {word} {study.about.quantity(as_given(answer.y_bar))}"
        own = members.get(answer.set_id, ())
        found |= dict.fromkeys((answer.set_id, *own), ("measured", said, 0))
    return found


def _of_sets(study: Study | ActiveLearner) -> _Values:
    """Means of sets."""
    sets = _sets(study)
    if isinstance(study, Study) and study.pools:
        return _of_individuals(study)
    ids = study.ids if isinstance(study, Study) else sets.ids[: sets.n_asked]
    if not study.answers:
        return _Values(ids, ids, ids, *np.full((2, len(ids)), np.nan))
    found, about = study.predict_sets(), study.about
    at = [sets.position(each) for each in ids]
    weight = sets.sizes.astype(float)
    if about.outputs != "numbers" or about.weights != "sum":
        weight = np.add(*sets.weight_sums())
    with np.errstate(all="ignore"):
        mean, std = found.mean / weight[at], found.std / abs(weight[at])
    return _Values(ids, ids, ids, mean, std)


def _of_individuals(study: Study | ActiveLearner) -> _Values:
    sets, rows = study.sets, np.arange(study.sets.n_rows)
    owners = [sets.ids[at] for at in np.searchsorted(sets.starts, rows, side="right") - 1]
    keys = owners if sets.row_ids is None else sets.row_ids[: len(rows)].tolist()
    names = keys
    if sets.row_ids is None:
        numbers = rows - sets.starts[np.searchsorted(sets.starts, rows, side="right") - 1] + 1
        alone = sets.sizes[: sets.n_asked].max() == 1
        pairs = zip(owners, numbers.tolist(), strict=True)
        names = owners if alone else [f"{shown(owner)}, no. {number}" for owner, number in pairs]
    mean, std = np.full((2, len(rows)), np.nan)
    if study.answers:
        found = study.predict()
        per = 1.0 if study.about.outputs == "numbers" else sets.theta[: len(rows)]
        mean, std = found.mean / per, found.std / per
    return _Values(keys, owners, names, mean, std)


# --- drawing --------------------------------------------------------------------------------------


def map_chart(found: Drawn, show: str = "prediction") -> Any:
    """The map, coloured by what is to be shown, one of `SHOWS`."""
    import altair as alt

    if show not in SHOWS:
        raise SettingError(f"no map is called {show!r:.80}; there are {', '.join(SHOWS)}")
    if show != "status" and not found.predicted:
        raise SettingError(
            "nothing is predicted yet, because nothing is measured. The map of status shows what "
            'to measure first: show="status" (--show status)'
        )
    looks = STATES if show == "status" else found.shades[show][1]
    rows = found.properties
    used = {row[show] for row in rows}
    looks = {name: colour for name, colour in looks.items() if name in used}
    points = np.round(found.topology.middles, 5).tolist()
    dots = [
        {"x": point[0], "y": point[1], "properties": row}
        for point, row, small in zip(points, rows, found.topology.small, strict=True)
        if small
    ]
    look: dict[str, Any] = {
        "orient": "top",
        "columns": 3,
        "symbolType": "square",
        "symbolOpacity": 1,
    }
    legend = alt.Legend(title=None, labelLimit=240, labelFontSize=12.5, **look)
    colour = alt.Color(f"properties.{show}:N", title=show, legend=legend)  # read aloud
    colour = colour.scale(domain=list(looks), range=list(looks.values()))
    heads = ("name", found.thing), ("said", "predicted"), ("fate", "status")
    tooltip = tooltips(*((f"properties.{name}:N", title) for name, title in heads))
    form = alt.TopoDataFormat(feature="shapes", type="topojson")
    base = alt.Chart(alt.NamedData("shapes", format=form)).encode(colour, tooltip=tooltip)
    layers = [base.mark_geoshape(stroke=GREY, strokeWidth=0.4)]
    place: dict[str, Any] = {"longitude": "x:Q", "latitude": "y:Q"}
    if dots:
        size = float(np.clip(40_000 / len(dots), 12, 70))
        drawn = chart_of(dots, "dots").encode(colour, **place, tooltip=tooltip)
        layers.append(drawn.mark_circle(size=size, opacity=1, stroke=GREY, strokeWidth=0.3))
    if show == "status" and (numbers := _numbers(found)):
        where = chart_of(numbers, "numbers").encode(**place, tooltip=tooltip)
        disc = where.mark_circle(size=330, color="white", stroke="black", opacity=1)
        layers += [disc, where.mark_text(fontSize=13, fontWeight="bold").encode(text="number:N")]
    height, ratio = round(WIDTH * found.topology.ratio), round(found.topology.ratio, 4)
    whole = alt.layer(*layers).project(**found.topology.projection)
    whole = finish(whole, _title(found, show), DARKER[show], height=height, wide=True)
    whole = whole.properties(usermeta={"ratio": ratio})
    whole.datasets = {"shapes": found.topology.to_json(rows)}  # last: Altair copies at every step
    return whole


def _said_of(found: Drawn) -> tuple[list[str], list[str]]:
    """Of each shape what is predicted, and its status."""
    pairs = zip(found.mean.tolist(), found.std.tolist(), strict=True)
    said = [NONE if np.isnan(mean) else _said(found.about, mean, std) for mean, std in pairs]
    return said, [status for _, status in found.states]


def _said(about: About, mean: float, std: float) -> str:
    """A prediction with its standard deviation; one that was measured has none."""
    if std <= 1e-9 * abs(mean):
        return about.per_exposure(figure(mean, 4))
    return about.per_exposure(f"{figure(mean, 4)} ± {figure(std)}")


def _shades(values: Float[np.ndarray, " n"], ramp: str) -> tuple[list[str], dict[str, str]]:
    """The class of each value, and the colours of classes, which have round limits."""
    known = values[np.isfinite(values)]
    low, high = np.percentile(known, [2, 98]).tolist()
    step = _round_step((high - low) / CLASSES)
    within = (np.ceil(low / step), np.floor(high / step) + 1) if step else (0, 0)
    limits = np.arange(*within) * step + 0.0  # no −0
    texts = [as_given(float(limit)) for limit in limits]
    names = [f"about {figure(low)}"]
    if len(texts):
        between = [f"{a} to {b}" for a, b in pairwise(texts)]
        names = [f"below {texts[0]}", *between, f"{texts[-1]} or more"]
    colours = ramp.split()
    at = np.linspace(0, len(colours) - 1, len(names)).round().astype(int)
    looks = {name: colours[i] for name, i in zip(names, at.tolist(), strict=True)}
    classes = np.searchsorted(limits, values, side="right").tolist()
    shades = [
        names[k] if np.isfinite(value) else OUTSIDE
        for k, value in zip(classes, values.tolist(), strict=True)
    ]
    return shades, looks | {OUTSIDE: OUTSIDE_COLOUR}


def _round_step(wanted: float) -> float:
    """The next larger of 1, 2, 2.5 and 5 times a power of ten; 0 where there is no difference.

    >>> _round_step(3.1), _round_step(0.021), _round_step(0.0)
    (5.0, 0.025, 0.0)
    """
    if not wanted > 0:
        return 0.0
    power = 10.0 ** np.floor(np.log10(wanted))
    return float(
        next(part * power for part in (1, 2, 2.5, 5, 10) if part * power >= wanted * 0.999)
    )


def _numbers(found: Drawn) -> list[dict[str, Any]]:
    """The numbers of the next questions, each on its shape, or on one of its set's."""
    rows = dict[int, dict[str, Any]]()
    points = found.topology.middles.tolist()
    for (x, y), rank, row in zip(points, found.ranks, found.properties, strict=True):
        if rank and rank not in rows and np.isfinite(x):
            rows[rank] = {"x": x, "y": y, "number": str(rank), "properties": row}
    return [rows[rank] for rank in sorted(rows)]


def _title(found: Drawn, show: str) -> str:
    about = found.about
    if show == "status":
        return "What is measured, and what to measure next (numbered)"
    what = label(about.outcome or "output")
    unit = about.in_unit if about.outputs != "shares" else ""
    per = {"shares": ", share of trials", "counts": ", rate per unit of exposure"}
    each = "mean of each set" if found.of == SETS else "each individual"
    more = per.get(about.outputs, "" if about.outputs == "numbers" else per["counts"])
    if show == "prediction":
        return f"Predicted {what}{more}{unit}: {each}"
    return f"How uncertain: ± {what}{more}{unit}, {each}"


# --- in a report and in files ---------------------------------------------------------------------


def map_sections(study: Study | ActiveLearner) -> list[Section]:
    """Maps for the report; none where there is nothing to draw a map of."""
    if not has_map(study):
        return []
    try:
        found = map_of(study)
    except DataError as error:  # such as a mistyped latitude, which the rest can do without
        return [Section("Maps", [sentence(error)])]
    first, *others = (
        map_chart(found, show) for show in SHOWS if found.predicted or show == "status"
    )
    for chart in others:
        chart.datasets = {}  # the page has the shapes once
    first.height = min(first.height, FIRST_HEIGHT)
    return [Section("Maps", found.words, [first, *others])]


def has_map(study: Study | ActiveLearner) -> bool:
    """Whether there is something to draw a map of."""
    given = isinstance(study, Study) and (study.map or study.shapes)
    return bool(given or _places(study))


def map_panel(study: Study | ActiveLearner, show: str) -> Section:
    """One map with its numbers, for the labelling page; words where nothing is predicted yet."""
    try:
        found = map_of(study)
        chart = map_chart(found, show)
    except (DataError, SettingError) as error:
        return Section("Map", [sentence(error)])
    said = zip(found.names, *_said_of(found), strict=True)
    heads = found.thing, "predicted", "status"
    rows = [dict(zip(heads, row, strict=True)) for row in list(said)[:MOST_ROWS]]
    return Section(_title(found, show), found.words, [chart], rows=rows)
