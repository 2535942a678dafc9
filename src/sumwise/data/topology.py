"""Shapes for a screen: simplified so that neighbours keep their common border, as TopoJSON.

Coordinates are rounded to a grid, so the points of a border are the same in both neighbours. A
point where borders meet or part stays. Of the others, those go whose triangle with their two
neighbours is smaller than a pixel (Visvalingam and Whyatt, 1993), many at once: no two side by
side, and by rules that look the same from both sides of a border, so both sides lose the same
points. What is left is cut into arcs where borders meet, each stored once. D3 draws great circles
between points, so a parallel keeps some of its own.

Rings turn as D3 wants them: on a sphere the inside is at the right of a ring, so shells are
clockwise, the reverse of GeoJSON. Rings may cross 180° of longitude, and go round a pole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from sumwise.data.geo import OF_DEGREES, POLYGON, Geometry, centroid, parts_of
from sumwise.errors import DataError
from sumwise.util.shapes import Bool, Float, Int

GRID: Final = 100_000  # cells along the longer side of a map
COARSE: Final = 6_000  # the same of maps with many corners
MANY: Final = 2_000_000
PIXELS: Final = 1200  # along it, on a large screen
MOST_DRAWN: Final = 30_000  # corners; if there are more, triangles of several pixels go as well
MOST_READ: Final = 20_000_000
ROUNDS: Final = 300  # of removing corners: a limit that is never met
SMALL: Final = 1 / 250  # of the longer side: a smaller shape is marked by a dot
WORLD: Final = (150.0, 100.0)  # degrees of longitude or latitude that make a map one of the world
RATIOS: Final = (0.4, 1.25)  # least and most height by width of a map


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """Shapes as they are drawn."""

    arcs: list[list[list[int]]]  # steps on the grid, the first from its origin
    shapes: list[dict[str, Any] | None]  # arcs of each shape; None where it has no area
    transform: dict[str, list[float]]
    middles: Float[np.ndarray, "n 2"]  # of each shape's largest part; NaN where there is none
    small: Bool[np.ndarray, " n"]  # shapes that a dot has to mark
    projection: dict[str, Any]  # as in Vega-Lite
    ratio: float  # height by width

    def to_json(self, properties: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """TopoJSON of the shapes that have areas, with these properties."""
        drawn = [
            {**shape, "properties": own}
            for shape, own in zip(self.shapes, properties, strict=True)
            if shape is not None
        ]
        shapes = {"shapes": {"type": "GeometryCollection", "geometries": drawn}}
        known = {"type": "Topology", "transform": self.transform, "objects": shapes}
        return {**known, "arcs": self.arcs}


class _Rings:
    """Corners of rings one after another; the last of a ring is followed by its first."""

    def __init__(
        self,
        xy: Int[np.ndarray, "N 2"],
        corner: Int[np.ndarray, " N"],
        ring: Int[np.ndarray, " N"],
        across: Float[np.ndarray, " N"],
        period: float,
    ) -> None:
        # cells; the same number for the same cell; which ring, in order; the length of a cell from
        # west to east by that from south to north; and cells once round the earth
        self.xy, self.corner, self.ring, self.across, self.period = xy, corner, ring, across, period
        first = np.diff(ring, prepend=-1) != 0
        self.starts, self.number = np.flatnonzero(first), np.cumsum(first) - 1
        ends = np.append(self.starts, len(ring))[1:] - 1
        self.before, self.after = np.arange(len(ring)) - 1, np.arange(len(ring)) + 1
        self.before[self.starts], self.after[ends] = ends, self.starts

    def kept(self, which: Bool[np.ndarray, " N"]) -> _Rings:
        """The rings with some of their corners; rings with fewer than three go."""
        which = which & (self.each(np.add, which.astype(int)) > 2)
        own = self.xy[which], self.corner[which], self.ring[which], self.across[which]
        return _Rings(*own, self.period)

    def each(self, how: np.ufunc, values: np.ndarray) -> np.ndarray:
        """For each corner, one number of its ring, such as the largest of these values."""
        return how.reduceat(values, self.starts)[self.number] if len(values) else values

    def to(self, there: Int[np.ndarray, " N"]) -> Float[np.ndarray, "N 2"]:
        """From each corner to another, by the shorter way round the earth."""
        step = (self.xy[there] - self.xy).astype(float)
        if np.isfinite(self.period):
            step[:, 0] -= self.period * np.rint(step[:, 0] / self.period)
        return step

    def triangles(self) -> Float[np.ndarray, " N"]:
        """The area between each corner and its neighbours: the same from both sides of a border.

        To it is added what lies between a parallel and the great circle that would be drawn.
        """
        before, after = self.to(self.before), self.to(self.after)
        bent = abs(after - before)[:, 0] ** 3 * self.across * np.sqrt(1 - self.across**2)
        return (abs(_cross(before, after)) / 2 + bent * np.pi / 6 / self.period) * self.across

    def whole(self) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, "N 2"]]:
        """For each corner the area of its ring, and the cell of its centroid."""
        first = self.starts[self.number]
        a, step = -self.to(first), self.to(self.after)
        twice = _cross(a, step)
        area = self.each(np.add, twice)
        parts = ((2 * a + step).T * twice).T
        moment = np.column_stack([self.each(np.add, parts[:, axis]) for axis in (0, 1)])
        with np.errstate(all="ignore"):
            middle = np.where(area[:, None] != 0, moment / (3 * area[:, None]), 0.0)
        pole = abs(self.each(np.add, step[:, 0])) > self.period / 2  # it goes round one
        area = np.where(pole, np.inf, abs(area) * self.across[first] / 2)
        return area, self.xy[first] + np.where(pole[:, None], 0, middle)

    def largest(self, values: np.ndarray) -> Int[np.ndarray, " N"]:
        """Where in its ring a number is largest; of equals, the corner with the least number."""
        best = values == self.each(np.maximum, values)
        least = self.each(np.minimum, np.where(best, self.corner, np.iinfo(np.int64).max))
        here = np.where(best & (self.corner == least), np.arange(len(values)), len(values))
        return self.each(np.minimum, here)


def _cross(a: Float[np.ndarray, "N 2"], b: Float[np.ndarray, "N 2"]) -> Float[np.ndarray, " N"]:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]


# --- reading --------------------------------------------------------------------------------------


def topology(geometry: Geometry, where: Any = "shape {}".format) -> Topology:
    """Geometries simplified for a screen.

    Args:
        where: Gives the place of a shape by its number, for refusals.
    """
    polygons = list[tuple[int, list[np.ndarray]]]()  # number of the shape, shell and holes
    middles = np.full((len(geometry.wkb), 2), np.nan)
    corners, degrees = 0, geometry.axes == OF_DEGREES
    for number, wkb in enumerate(geometry.wkb):
        try:
            parts = [] if wkb is None else parts_of(wkb)
            own = [rings for kind, rings in parts if kind == POLYGON and rings]
            corners += sum(len(ring) for rings in own for ring in rings)
            if wkb is not None:  # a polygon that is smaller than a cell is a dot, too
                middles[number] = own[0][0][0] if own else centroid(wkb)
        except ValueError as error:
            raise DataError(f"{where(number)}: its geometry cannot be used: {error}") from None
        polygons += [(number, rings) for rings in own]
        if corners > MOST_READ:
            raise DataError(
                f"{where(number)}: up to here shapes have {corners:,} corners, and a map is drawn "
                f"of at most {MOST_READ:,}. Simplify them, such as with GeoDataFrame.simplify."
            )
    every = [ring for _, rings in polygons for ring in rings]
    points = middles[np.isfinite(middles).all(axis=1)]
    flat = np.concatenate([*every, points, np.empty((0, 2))]).astype(float)
    if degrees:
        refuse_not_degrees(flat)
        flat[:, 0] -= 360 * np.rint(flat[:, 0] / 360) * (abs(flat[:, 0]) > 180)
    sizes = list(map(len, every))
    ring = np.repeat(np.arange(len(sizes)), sizes)
    centre, reach = _extent(flat, ring, degrees)
    origin = flat.min(axis=0) if len(flat) else np.zeros(2)
    grid = GRID if corners < MANY else COARSE
    cell = max(*reach, 1e-12) / grid
    xy = np.rint((flat[:corners] - origin) / cell).astype(np.int64)
    new = np.append(True, (np.diff(xy, axis=0) != 0).any(axis=1) | (np.diff(ring) != 0))[:corners]
    xy, ring = xy[new], ring[new]
    # the same number for the same cell
    corner = np.unique(xy[:, 0] * 2**20 + xy[:, 1], return_inverse=True)[1].ravel()
    across = np.cos(np.radians(xy[:, 1] * cell + origin[1])) if degrees else np.ones(len(xy))
    rings = _Rings(xy, corner, ring, across, 360 / cell if degrees else np.inf)
    rings = rings.kept(corner != corner[rings.before]) if len(xy) else rings
    shape = np.array([number for number, own in polygons for _ in own], dtype=int)
    return _drawn(rings, shape, polygons, middles, (origin, cell, centre, reach, degrees, grid))


def refuse_not_degrees(points: Float[np.ndarray, "N 2"]) -> None:
    """Refuse positions that cannot be longitudes and latitudes."""
    wrong = (abs(points[:, 0]) > 360) | (abs(points[:, 1]) > 90.001)
    if wrong.any():
        x, y = points[np.argmax(wrong)].tolist()
        raise DataError(
            f"a position of the map is ({x:.10g}, {y:.10g}), and its file says that positions are "
            "degrees of longitude and latitude. They seem to be in another coordinate system: "
            "export the map again with its coordinate system, or in degrees (EPSG:4326)."
        )


def _extent(
    flat: Float[np.ndarray, "N 2"], ring: Int[np.ndarray, " n"], degrees: bool
) -> tuple[Float[np.ndarray, " 2"], Float[np.ndarray, " 2"]]:
    """The middle of all points and how far they reach, across 180° where that is shorter."""
    if not len(flat):
        return np.zeros(2), np.ones(2)
    low, high = flat.min(axis=0), flat.max(axis=0)
    if degrees and high[0] - low[0] > 180:
        cut = _free_meridian(flat[:, 0], ring)
        turned = np.mod(flat[:, 0] - cut, 360)
        low[0], high[0] = cut + turned.min(), cut + turned.max()
    return low / 2 + high / 2, high - low


def _free_meridian(longitude: Float[np.ndarray, " N"], ring: Int[np.ndarray, " n"]) -> float:
    """The middle of the widest gap that no shape covers; −180 if there is none."""
    bins = np.floor(2 * (longitude + 180)).astype(int)
    step = np.append(np.diff(bins[: len(ring)]), 0)
    step -= 720 * np.rint(step / 720).astype(int)
    step[np.append(np.diff(ring) != 0, True)[: len(step)]] = 0
    step = np.append(step, np.zeros(len(bins) - len(step), int))
    low = bins + np.minimum(step, 0) + 720
    high = bins + np.maximum(step, 0) + 721
    ends = np.bincount(low, minlength=2200) - np.bincount(high, minlength=2200)
    within = np.cumsum(ends)[: 3 * 720].reshape(3, 720).sum(axis=0)
    free = np.flatnonzero(within > 0)  # which half degrees are covered
    gaps = np.diff(np.append(free, free[0] + 720))
    widest = int(np.argmax(gaps))
    if gaps[widest] == 1:
        return -180.0
    return float(free[widest] + 0.5 + gaps[widest] / 2) / 2 - 180


# --- simplifying ----------------------------------------------------------------------------------


def _fixed(rings: _Rings) -> tuple[Bool[np.ndarray, " C"], Bool[np.ndarray, " C"]]:
    """By number of corner: where borders meet or part; and what stays beside them.

    Three corners far apart stay of each ring, so that it keeps an area.
    """
    n = int(rings.corner.max()) + 1 if len(rings.corner) else 0
    sides = np.sort([rings.corner[rings.before], rings.corner[rings.after]], axis=0)
    order = np.argsort(rings.corner, kind="stable")
    begin = np.flatnonzero(np.diff(rings.corner[order], prepend=-1))
    meets = np.zeros(n, dtype=bool)
    for side in sides[:, order]:
        if len(side):
            differ = np.minimum.reduceat(side, begin) != np.maximum.reduceat(side, begin)
            meets[rings.corner[order][begin[differ]]] = True
    stays = meets.copy()
    one = rings.largest(-rings.corner)
    far = rings.to(one)
    other = rings.largest((far**2).sum(axis=1))
    aside = rings.largest(abs(_cross(far, far - rings.to(other))))
    for which in (one, other, aside):
        stays[rings.corner[which]] = True
    return meets, stays


def _simplified(
    rings: _Rings, shape: Int[np.ndarray, " R"], stays: Bool[np.ndarray, " C"], grid: int
) -> _Rings:
    """The rings without corners that would not be seen, and without islands that would not be."""
    least = (grid / PIXELS) ** 2 / 2  # cells of half a pixel
    for _ in range(ROUNDS):
        area = rings.triangles()
        free = ~stays[rings.corner] & (area < least)
        if not free.any():
            rings = _without_islands(rings, shape, least)
            if len(rings.corner) <= MOST_DRAWN or stays[rings.corner].all():
                break
            least *= 2
            continue
        # smaller triangles go first, roughly, and of about equal ones any that come first by chance
        rank = np.log2(area + 1).astype(np.int64) * 2**33 + rings.corner * 2654435761 % 2**32
        rank[~free] = np.iinfo(np.int64).max
        go = free & (rank < rank[rings.before]) & (rank < rank[rings.after])
        rings = rings.kept(~go)
        if go.mean() < 0.02 and len(rings.corner) > MOST_DRAWN:
            least *= 2
    return rings


def _without_islands(rings: _Rings, shape: Int[np.ndarray, " R"], least: float) -> _Rings:
    """Rings of a pixel that touch no other go, but for the largest of a shape."""
    if not len(rings.corner):
        return rings
    area, own = rings.whole()[0], shape[rings.ring]
    largest = np.zeros(int(shape.max()) + 1)
    np.maximum.at(largest, own, area)
    alone = rings.each(np.maximum, np.bincount(rings.corner)[rings.corner]) == 1
    return rings.kept(~(alone & (area < 2 * least) & (area < largest[own])))


# --- drawing --------------------------------------------------------------------------------------


def _drawn(
    rings: _Rings,
    shape: Int[np.ndarray, " R"],
    polygons: Sequence[tuple[int, list[np.ndarray]]],
    middles: Float[np.ndarray, "n 2"],
    frame: tuple[np.ndarray, float, np.ndarray, np.ndarray, bool, int],
) -> Topology:
    origin, cell, centre, reach, degrees, grid = frame
    small = np.isfinite(middles).all(axis=1)
    if len(rings.corner):
        area, middle = rings.whole()
        order = rings.starts[np.argsort(area[rings.starts], kind="stable")]  # the largest is last
        own = shape[rings.ring[order]]
        middles[own] = middle[order] * cell + origin
        small[own] = area[order] < (grid * SMALL) ** 2
    meets, stays = _fixed(rings)
    if stays.sum() > 10 * MOST_DRAWN:
        raise DataError(
            f"borders meet in {int(meets.sum()):,} points, and a map is drawn of at most "
            f"{10 * MOST_DRAWN:,}. Draw fewer shapes, or repair polygons that cross themselves."
        )
    rings = _simplified(rings, shape, stays, grid)
    corners = np.split(rings.corner, rings.starts[1:])
    left = dict(zip(rings.ring[rings.starts].tolist(), corners, strict=False))
    places = np.zeros((len(meets), 2), dtype=np.int64)
    places[rings.corner] = rings.xy
    arcs, number = dict[tuple[int, ...], int](), 0
    shapes = list[dict[str, Any] | None]([None] * len(middles))
    for at, own_rings in polygons:
        cut = [
            _turned(left[ring], places[left[ring]] * cell + origin, ring > number, degrees)
            for ring in range(number, number + len(own_rings))
            if ring in left and number in left  # holes go with their shell
        ]
        number += len(own_rings)
        if cut:
            known = shapes[at] = shapes[at] or {"type": "MultiPolygon", "arcs": []}
            known["arcs"].append([_arcs(ring, meets, arcs) for ring in cut])
    steps = [np.diff(places[list(arc)], axis=0, prepend=0).tolist() for arc in arcs]
    transform = {"scale": [cell, cell], "translate": origin.tolist()}
    about = _projection(centre, reach, degrees)
    return Topology(steps, shapes, transform, middles, small, *about)


def _turned(
    ring: Int[np.ndarray, " n"], points: Float[np.ndarray, "n 2"], hole: bool, degrees: bool
) -> list[int]:
    """The corners of a ring, a shell clockwise and a hole the other way."""
    step = np.roll(points[:, 0], -1) - points[:, 0]
    height = points[:, 1]
    if degrees:
        step, height = step - 360 * np.rint(step / 360), np.sin(np.radians(height))
    below = (step * (height + np.roll(height, -1))).sum()  # twice the area down to the equator
    pole = degrees and abs(step.sum()) > 180  # it goes round one, and what is beyond is inside
    wrong = below > 0 if pole else below < 0
    return (ring[::-1] if wrong != hole else ring).tolist()


def _arcs(
    ring: list[int], meets: Bool[np.ndarray, " C"], known: dict[tuple[int, ...], int]
) -> list[int]:
    """A ring as numbers of arcs, which begin and end where borders meet; ~number is backwards."""
    ends = [i for i, corner in enumerate(ring) if meets[corner]] or [ring.index(min(ring))]
    twice, found = ring + ring, []
    for begin, end in pairwise([*ends, ends[0] + len(ring)]):
        arc = tuple(twice[begin : end + 1])
        back = known.get(arc[::-1])
        found.append(known.setdefault(arc, len(known)) if back is None else ~back)
    return found


def _projection(
    centre: Float[np.ndarray, " 2"], reach: Float[np.ndarray, " 2"], degrees: bool
) -> tuple[dict[str, Any], float]:
    """A projection that keeps areas, and height by width: of the world, or about the middle."""
    width, height = np.maximum(reach, 1e-9 + reach.max() / 1000).tolist()
    longitude, latitude = np.round(centre, 4).tolist()
    if not degrees:
        drawn: dict[str, Any] = {"type": "identity", "reflectY": True}
    elif width < WORLD[0] and height < WORLD[1]:
        drawn = {"type": "azimuthalEqualArea", "rotate": [-longitude, -latitude, 0]}
        width *= float(np.cos(np.radians(latitude)))
    elif height < 70 and abs(latitude) - height / 2 > 20:  # round a pole
        pole = float(np.copysign(90, latitude))
        drawn = {"type": "azimuthalEqualArea", "rotate": [-longitude, -pole, 0]}
        width = height
    else:
        drawn = {"type": "equalEarth", "rotate": [-longitude, 0, 0]}
    if not reach.any():  # one place, to which no picture can be fitted
        x, y = (0, 0) if degrees else (longitude, latitude)
        drawn |= {"scale": 1, "translate": [300 - x, 300 + y]}
    return drawn, float(np.clip(height / width, *RATIOS))
