"""Shapes simplified for a screen: neighbours keep their border, areas stay, and D3's winding."""

from __future__ import annotations

import json
from itertools import combinations, pairwise

import altair as alt
import numpy as np
import pandas as pd
import pytest
import shapely
import vl_convert
from shapely.geometry import mapping

from sumwise.data import topology as module
from sumwise.data.geo import Geometry
from sumwise.data.topology import topology
from sumwise.errors import DataError

PLANE = {"crs": None}


def geometry(shapes, about=None):
    return Geometry([None if each is None else each.wkb for each in shapes], about or {})


def decoded(found):
    """Polygons that a reader of TopoJSON sees, with the direction of rings."""
    known = found.to_json([{}] * len(found.shapes))
    scale, shift = (np.array(known["transform"][name]) for name in ("scale", "translate"))
    arcs = [np.cumsum(arc, axis=0) * scale + shift for arc in known["arcs"]]
    out = []
    for shape in found.shapes:
        polygons = []
        for rings in [] if shape is None else shape["arcs"]:
            drawn = []
            for ring in rings:
                parts = [arcs[k] if k >= 0 else arcs[~k][::-1] for k in ring]
                drawn.append(np.concatenate([part[:-1] for part in parts] + [parts[0][:1]]))
            polygons.append(shapely.Polygon(drawn[0], drawn[1:]))
        out.append(shapely.MultiPolygon(polygons))
    return out


def districts(n=40, seed=0, corners=60):
    """Voronoi cells with rough borders, which both neighbours have point by point."""
    rng = np.random.default_rng(seed)
    frame = shapely.box(0, 0, 10, 8)
    points = shapely.MultiPoint(rng.uniform([0, 0], [10, 8], (n, 2)))
    cells = shapely.get_parts(shapely.voronoi_polygons(points, extend_to=frame))
    borders = {}

    def rough(a, b):
        key = (a, b) if a < b else (b, a)
        if key not in borders:
            (x0, y0), (x1, y1) = key
            t = np.linspace(0, 1, corners)
            w = 0.03 * np.sin(np.pi * t) * rng.normal(size=corners)
            steps = np.column_stack([x0 + t * (x1 - x0) - w * (y1 - y0), y0 + t * (y1 - y0)])
            borders[key] = steps + np.column_stack([0 * w, w * (x1 - x0)])
        return borders[key] if key == (a, b) else borders[key][::-1]

    out = []
    for cell in shapely.intersection(cells, frame):
        xy = list(map(tuple, cell.exterior.coords))
        out.append(shapely.Polygon(np.concatenate([rough(*e)[:-1] for e in pairwise(xy)])))
    return out


def test_neighbours_share_their_border_after_simplification():
    cells = districts(corners=300)
    found = topology(geometry(cells, PLANE))
    drawn = decoded(found)
    before, after = (sum(map(shapely.get_num_coordinates, each)) for each in (cells, drawn))
    assert after < before / 2
    assert all(each.is_valid for each in drawn)
    # no gap and no overlap: the areas add up to that of the whole, which has no holes
    whole = shapely.union_all(drawn)
    assert sum(each.area for each in drawn) == pytest.approx(whole.area, rel=1e-9)
    assert whole.geom_type == "Polygon"
    assert not whole.interiors
    assert whole.area == pytest.approx(80, rel=1e-2)
    for one, other in zip(cells, drawn, strict=True):
        assert other.area == pytest.approx(one.area, rel=0.02)
        assert one.hausdorff_distance(other) < 0.05
    for i, j in combinations(range(40), 2):
        touch = cells[i].intersection(cells[j]).length > 1e-6
        assert (drawn[i].intersection(drawn[j]).length > 1e-6) == touch
    assert topology(geometry(cells, PLANE)).arcs == found.arcs  # the same again


def test_each_border_is_stored_once():
    cells = districts(12)
    found = topology(geometry(cells, PLANE))
    used = [k if k >= 0 else ~k for s in found.shapes for p in s["arcs"] for r in p for k in r]
    counts = np.bincount(used)
    assert counts.max() == 2  # from either side
    assert (counts == 2).sum() > 12


def test_shells_are_clockwise_and_holes_the_other_way_whatever_the_file_has():
    ring = shapely.Polygon([(0, 0), (9, 0), (9, 9), (0, 9)], [[(2, 2), (2, 4), (4, 4), (4, 2)]])
    island = shapely.box(2, 2, 4, 4)  # fills the hole
    for turned in (shapely.orient_polygons(ring), shapely.orient_polygons(ring, exterior_cw=True)):
        found = topology(geometry([turned, island]))
        polygon = decoded(found)[0].geoms[0]
        assert not polygon.exterior.is_ccw
        assert polygon.interiors[0].is_ccw
        assert polygon.area == pytest.approx(77, rel=1e-3)
        assert len(found.arcs) == 2  # the hole and the island are one arc


def spherical_area(points):
    """Of the side to the right of a ring on the unit sphere, by Gauss–Bonnet: turning angles."""
    lon, lat = np.radians(points[:-1]).T
    p = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    turn = 0.0
    for a, b, c in zip(np.roll(p, 1, axis=0), p, np.roll(p, -1, axis=0), strict=True):
        u, v = np.cross(a, b), np.cross(b, c)
        turn += np.arctan2(np.dot(np.cross(u, v), b), np.dot(u, v))
    return 2 * np.pi + turn


def dense(xy, n=60):
    """A ring with many points along each edge, so that edges are as good as on a map."""
    edges = zip(xy, xy[1:] + xy[:1], strict=True)
    steps = np.linspace(0, 1, n, endpoint=False)[:, None]
    ring = np.concatenate([np.array(a) + steps * (np.array(b) - a) for a, b in edges])
    return np.vstack([ring, ring[:1]])


def round_pole(latitude):
    longitude = np.arange(-180.0, 180, 3)
    ring = np.column_stack([longitude, latitude + 2 * np.sin(np.radians(3 * longitude))])
    return np.vstack([ring, ring[:1]])


BAND = 20 / 360 * (np.sin(np.radians(20)) - np.sin(np.radians(10))) / 2  # of the sphere
CAP = (1 - np.sin(np.radians(70))) / 2
RINGS = {
    "plain": (dense([(-10, 10), (10, 10), (10, 20), (-10, 20)]), BAND),
    "beyond 180": (dense([(170, -20), (190, -20), (190, -10), (170, -10)]), BAND),
    "north pole": (round_pole(70.0), CAP),
    "south pole": (round_pole(-70.0), CAP),
}
over = RINGS["beyond 180"][0]
RINGS["jumping at 180"] = (np.where(over > 180, over - 360, over), BAND)


@pytest.mark.parametrize("name", RINGS)
def test_the_inside_is_at_the_right_on_a_sphere(name, monkeypatch):
    monkeypatch.setattr(module, "PIXELS", 10**9)  # keep every corner
    ring, share = RINGS[name]
    for turned in (ring, ring[::-1]):
        drawn = decoded(topology(geometry([shapely.Polygon(turned)])))[0]
        area = spherical_area(np.array(drawn.geoms[0].exterior.coords)) / (4 * np.pi)
        assert area == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize("south", [75, -75])
def test_parallels_keep_corners_because_great_circles_are_drawn_between_them(south):
    around = [(x, south) for x in range(-180, 181, 3)]
    pole = np.copysign(90, south)
    cap = shapely.Polygon([*around, (180, pole), (-180, pole)])  # as files have Antarctica
    edge = dense([(-125, 40), (-65, 40), (-65, 49), (-125, 49)])
    drawn = decoded(topology(geometry([cap, shapely.Polygon(edge)])))
    shares = [(1 - np.sin(np.radians(75))) / 2, np.diff(np.sin(np.radians([40, 49])))[0] / 12]
    for found, share in zip(drawn, shares, strict=True):
        area = spherical_area(np.array(found.geoms[0].exterior.coords)) / (4 * np.pi)
        assert area == pytest.approx(share, rel=0.02)


def test_the_projection_follows_the_extent():
    def projection(*shapes, about=None):
        return topology(geometry(shapes, about)).projection

    box = shapely.box
    assert projection(box(-170, -50, 170, 70))["type"] == "equalEarth"
    region = projection(box(5, 47, 15, 55))
    assert region == {"type": "azimuthalEqualArea", "rotate": [-10.0, -51.0, 0]}
    fiji = projection(box(177, -19, 180, -16), box(-180, -19, -178, -16))
    assert fiji["type"] == "azimuthalEqualArea"
    assert abs(abs(fiji["rotate"][0]) - 179.5) < 0.01
    assert projection(box(0, 0, 5, 5), about=PLANE) == {"type": "identity", "reflectY": True}
    arctic = projection(*(box(x, 66, x + 20, 80) for x in range(-180, 180, 40)))
    assert (arctic["type"], arctic["rotate"][1]) == ("azimuthalEqualArea", -90)


@pytest.mark.parametrize(("about", "x"), [(None, 5.0), (PLANE, 500_000.0)])
def test_a_map_of_one_place_has_it_inside(about, x):
    place = alt.Chart(pd.DataFrame({"x": [x], "y": [45.0]})).mark_circle(size=50)
    found = topology(geometry([shapely.Point(x, 45)] * 2, about)).projection
    drawn = place.encode(longitude="x", latitude="y").project(**found)
    svg = vl_convert.vegalite_to_svg(drawn.properties(width=600, height=600).to_dict())
    assert 'transform="translate(300,300)"' in svg


def test_what_has_no_area_is_a_dot_and_what_is_empty_is_nothing():
    shapes = [shapely.Point(3, 4), shapely.box(0, 0, 100, 90), None, shapely.Polygon()]
    found = topology(geometry([*shapes, shapely.box(50, 50, 50.01, 50.01)], PLANE))
    assert [each is None for each in found.shapes] == [True, False, True, True, False]
    assert found.small.tolist() == [True, False, False, False, True]
    assert found.middles[0].tolist() == [3, 4]
    assert np.isnan(found.middles[2:4]).all()
    assert found.middles[4] == pytest.approx([50.005, 50.005], abs=1e-2)
    speck = topology(geometry([shapes[1], shapely.box(50, 50, 50 + 1e-6, 50 + 1e-6)], PLANE))
    assert (speck.shapes[1], speck.small.tolist()) == (None, [False, True])
    assert topology(geometry([None])).shapes == [None]
    assert topology(geometry([shapely.Point(1, 2)])).small.tolist() == [True]


def test_a_self_crossing_polygon_is_drawn_and_odd_coordinates_are_refused_with_their_place():
    bow = shapely.Polygon([(0, 0), (4, 4), (4, 0), (0, 4)])
    assert topology(geometry([bow], PLANE)).shapes[0] is not None
    for far in (np.inf, 1e308):
        broken = bow.wkb[:-8] + np.array([far]).tobytes()
        with pytest.raises(DataError, match="shape 1: its geometry cannot be used: a coordinate"):
            topology(Geometry([bow.wkb, broken], PLANE))
    with pytest.raises(DataError, match=r"\(5000.0, 46497.6\).*another coordinate system"):
        topology(geometry([shapely.box(500000, 4649776, 500010, 4649790)]))
    with pytest.raises(DataError, match="cut off"):
        topology(Geometry([bow.wkb[:40]], PLANE))


def test_a_map_of_many_corners_is_simplified_to_few_and_a_hopeless_one_refused(monkeypatch):
    t = np.linspace(0, 2 * np.pi, 100_000, endpoint=False)
    radius = 5 + 0.02 * np.random.default_rng(0).normal(size=len(t))
    blob = shapely.Polygon(np.column_stack([radius * np.cos(t), radius * np.sin(t)]))
    monkeypatch.setattr(module, "MOST_DRAWN", 500)
    found = topology(geometry([blob], PLANE))
    assert sum(map(len, found.arcs)) <= 501
    assert decoded(found)[0].area == pytest.approx(blob.area, rel=0.01)
    monkeypatch.setattr(module, "MOST_READ", 1000)
    with pytest.raises(DataError, match="100,001 corners"):
        topology(geometry([blob], PLANE))


@pytest.mark.slow
def test_ten_million_corners_take_bounded_time_and_memory():
    n = 10_000_000
    t = np.linspace(0, 2 * np.pi, n, endpoint=False)
    radius = 5 + np.cumsum(np.random.default_rng(0).normal(size=n)) * 1e-6
    blob = shapely.Polygon(np.column_stack([radius * np.cos(t), radius * np.sin(t)]))
    found = topology(geometry([blob], PLANE))
    assert sum(map(len, found.arcs)) <= module.MOST_DRAWN


def test_topojson_is_what_d3_reads():
    found = topology(geometry(districts(5), PLANE))
    known = json.loads(json.dumps(found.to_json([{"name": i} for i in range(5)])))
    assert known["type"] == "Topology"
    assert [g["properties"]["name"] for g in known["objects"]["shapes"]["geometries"]] == [
        *range(5)
    ]
    assert all(isinstance(step, int) for arc in known["arcs"] for step in arc[0])
    assert mapping(decoded(found)[0])["type"] == "MultiPolygon"
