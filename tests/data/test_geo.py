"""Files with geometries: the same table from each format, and centroids like those of GEOS."""

from __future__ import annotations

import json
import sqlite3
import struct

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from shapely.geometry import mapping, shape

from sumwise.data.dialect import Reading
from sumwise.data.geo import Geometry, centroid, from_geoparquet, to_geoparquet, to_wkb
from sumwise.data.individuals import read_individuals
from sumwise.data.tables import read_table
from sumwise.errors import DataError

SQUARE = "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 1 2, 2 2, 2 1, 1 1))"
SHAPES = [
    "POINT (3 4)",
    "LINESTRING (0 0, 2 0, 2 1)",
    SQUARE,
    "MULTIPOINT (0 0, 1 5, 2 1)",
    "MULTILINESTRING ((0 0, 1 0), (5 5, 5 9))",
    "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((5 5, 9 5, 9 9, 5 9, 5 5), (6 6, 7 6, 7 7, 6 6)))",
    "GEOMETRYCOLLECTION (POINT (9 9), LINESTRING (0 0, 1 1), POLYGON ((0 0, 1 0, 1 1, 0 0)))",
    "GEOMETRYCOLLECTION (POINT (9 9), LINESTRING (0 0, 1 1))",
    "LINESTRING (2 3, 2 3)",
    "POLYGON ((0 0, 2 0, 4 0, 0 0))",
    "POLYGON ((500000 5000000, 500001 5000000, 500001 5000001, 500000 5000000))",
]


def features(shapes, **more):
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "properties": {"g": "ab"[n % 2], "a": n / 2, "n": n},
                "geometry": None if wkt is None else mapping(shapely.from_wkt(wkt)),
                **more,
            }
            for n, wkt in enumerate(shapes)
        ],
    }


def write_geojson(path, known):
    path.write_text(json.dumps(known), encoding="utf-8")
    return path


def write_geopackage(path, shapes, definition="GEOGCS[...]", layers=('lay"er',)):
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE gpkg_contents (table_name, data_type)")
        file.execute("CREATE TABLE gpkg_geometry_columns (table_name, column_name, srs_id)")
        file.execute("CREATE TABLE gpkg_spatial_ref_sys (srs_id, definition)")
        file.execute("INSERT INTO gpkg_spatial_ref_sys VALUES (7, ?)", [definition])
        for layer in layers:
            quoted = layer.replace('"', '""')
            file.execute("INSERT INTO gpkg_contents VALUES (?, 'features')", [layer])
            file.execute("INSERT INTO gpkg_geometry_columns VALUES (?, 'geom', 7)", [layer])
            file.execute(f'CREATE TABLE "{quoted}" (g TEXT, a REAL, n INTEGER, geom BLOB)')
            for n, wkt in enumerate(shapes):
                envelope = n % 2  # none, or a box
                header = b"GP\0" + bytes([envelope << 1 | 1]) + struct.pack("<i", 7)
                body = None if wkt is None else shapely.from_wkt(wkt).wkb
                blob = None if body is None else header + bytes(32 * envelope) + body
                row = ("ab"[n % 2], n / 2, n, blob)
                file.execute(f'INSERT INTO "{quoted}" VALUES (?, ?, ?, ?)', row)
    file.close()
    return path


def write_geoparquet(path, shapes, **about):
    rows = range(len(shapes))
    wkb = [None if wkt is None else shapely.from_wkt(wkt).wkb for wkt in shapes]
    columns = {"g": ["ab"[n % 2] for n in rows], "a": [n / 2 for n in rows], "n": list(rows)}
    table = pa.table({**columns, "geom": pa.array(wkb, pa.binary())})
    known = {"primary_column": "geom", "columns": {"geom": {"encoding": "WKB", **about}}}
    parquet.write_table(table.replace_schema_metadata({"geo": json.dumps(known)}), path)
    return path


def text(name):
    return False


# --- centroids ------------------------------------------------------------------------------------


@pytest.mark.parametrize("wkt", SHAPES)
def test_a_centroid_is_that_of_geos_whatever_the_bytes(wkt):
    own = shapely.from_wkt(wkt)
    expected = [own.centroid.x, own.centroid.y]
    for order in (0, 1):
        assert centroid(shapely.to_wkb(own, byte_order=order)) == pytest.approx(expected)
    high = shapely.force_3d(own, 7)
    for flavor in ("iso", "extended"):
        written = shapely.to_wkb(shapely.set_srid(high, 4326), flavor=flavor, include_srid=False)
        assert centroid(written) == pytest.approx(expected)
    with_system = shapely.to_wkb(shapely.set_srid(own, 4326), include_srid=True)
    assert centroid(with_system) == pytest.approx(expected)
    assert shape(mapping(own)).equals(shapely.from_wkb(to_wkb(mapping(own))))


def test_a_hole_counts_as_missing_however_it_is_drawn():
    middle = (32 - 1.5) / 15  # of a square of 4, less a square of 1 about 1.5
    assert centroid(shapely.from_wkt(SQUARE).wkb) == pytest.approx((middle, middle))
    turned = SQUARE.replace("(1 1, 1 2, 2 2, 2 1, 1 1)", "(1 1, 2 1, 2 2, 1 2, 1 1)")
    assert centroid(shapely.from_wkt(turned).wkb) == pytest.approx((middle, middle))


@given(
    st.lists(st.tuples(st.integers(-100, 100), st.integers(-100, 100)), min_size=3, max_size=9),
    st.tuples(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6)),
)
def test_a_centroid_of_any_ring_is_that_of_geos(points, shift):
    moved = [(x + shift[0], y + shift[1]) for x, y in points]
    own = shapely.Polygon(moved)
    if abs(own.area) > 1e-3 or own.area == 0:
        expected = own.centroid
        assert centroid(own.wkb) == pytest.approx([expected.x, expected.y], abs=1e-4)


@pytest.mark.parametrize("wkt", ["POINT EMPTY", "POLYGON EMPTY", "GEOMETRYCOLLECTION EMPTY"])
def test_an_empty_geometry_has_no_centroid(wkt):
    assert np.isnan(centroid(shapely.from_wkt(wkt).wkb)).all()


@pytest.mark.parametrize(
    ("wkb", "words"),
    [
        (b"", "cut off"),
        (shapely.from_wkt(SQUARE).wkb[:-1], "cut off"),
        (struct.pack("<BII", 1, 2, 2**32 - 1), "cut off"),
        (struct.pack("<BII", 1, 6, 2**32 - 1), "cut off"),
        (struct.pack("<BI", 1, 10) + bytes(40), "type 10"),
        (struct.pack("<BII", 1, 7, 1) * 50, "nested"),
        (struct.pack("<BI2d", 1, 1, 1.0, np.inf), "not finite"),
    ],
)
def test_bytes_that_are_no_geometry_are_refused_with_the_row(wkb, words):
    with pytest.raises(ValueError, match=words):
        centroid(wkb)
    with pytest.raises(DataError, match=f"row 1: its geometry cannot be used: .*{words}"):
        Geometry([None, wkb]).centroids("row {}".format)


# --- files ----------------------------------------------------------------------------------------

THREE = [SQUARE, None, "POINT (3 4)"]


@pytest.fixture(params=["geojson", "gpkg", "parquet"])
def file(request, tmp_path):
    path = tmp_path / f"d.{request.param}"
    if request.param == "geojson":
        return write_geojson(path, features(THREE))
    return (write_geopackage if request.param == "gpkg" else write_geoparquet)(path, THREE)


def test_properties_are_columns_and_geometry_is_kept(file):
    table = read_table(file, text)
    columns = {"g": ["a", "b", "a"], "a": [0.0, 0.5, 1.0], "n": [0, 1, 2]}
    assert table.frame.to_dict(as_series=False) == columns
    found = [None if wkb is None else shapely.from_wkb(wkb) for wkb in table.geometry.wkb]
    assert [None if own is None else own.wkt for own in found] == THREE


def test_centroids_are_inputs_and_geometries_follow_their_individuals(file):
    made = read_individuals(file, ["g"], ["longitude", "a"], reading=Reading(centroid=True))
    middle = (32 - 1.5) / 15
    rows = made.by_row(made.sets.x)
    assert rows[[0, 2], 0] == pytest.approx([middle, 3])
    assert made.sets.ids == ("a", "b")
    assert [wkb is None for wkb in made.geometry.wkb] == [False, False, True]


def test_a_system_in_metres_gives_x_and_y(tmp_path):
    one = write_geopackage(tmp_path / "d.gpkg", THREE, "PROJCS[...]")
    two = write_geoparquet(tmp_path / "d.parquet", THREE, crs={"type": "ProjectedCRS"})
    for path in (one, two):
        columns = read_table(path, text, Reading(centroid=True)).frame.columns
        assert columns[-2:] == ["x", "y"]


def test_a_layer_is_named_by_sheet(tmp_path):
    said = []
    path = write_geopackage(tmp_path / "d.gpkg", THREE, layers=("one", "two"))
    read_table(path, text, Reading(say=said.append))
    assert said == ["d.gpkg: read with the first of 2 layers, one; --sheet names another."]
    read_table(path, text, Reading(sheet="two", say=said.append))
    assert len(said) == 1
    with pytest.raises(DataError, match="no layer 'x'; it has 'one', 'two'"):
        read_table(path, text, Reading(sheet="x"))


NESTED = '{"type": "GeometryCollection", "geometries": [' * 20 + "]}" * 20


def test_an_id_of_a_feature_is_a_column_and_nested_properties_are_text(tmp_path):
    known = features(["POINT (1 2)"], id="f7")
    known["features"][0]["properties"]["more"] = {"b": [1]}
    table = read_table(write_geojson(tmp_path / "d.geojson", known), text)
    found = table.frame.to_dict(as_series=False)
    assert (found["id"], found["more"]) == (["f7"], ['{"b": [1]}'])
    assert table.where(0).endswith("feature 1")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", "not a FeatureCollection"),
        ('{"type": "Feature"}', "not a FeatureCollection"),
        ('{"type": "FeatureCollection", "features": [3]}', "feature 1 is not as GeoJSON"),
        ('{"type": "FeatureCollection", "features": [{}]}', "'properties' is missing"),
        (
            json.dumps(features([None, "POINT (1 2)"])).replace('"Point"', '"Blob"'),
            "feature 2",
        ),
        (json.dumps(features(["POINT (1 2)"])).replace("[1.0, 2.0]", '["x"]'), "feature 1"),
        (json.dumps(features([])), "no rows"),
        (json.dumps(features([None])).replace("null", NESTED), r"\(it is nested too deeply\)"),
    ],
)
def test_bad_geojson_is_refused_with_the_feature(tmp_path, content, words):
    path = tmp_path / "d.geojson"
    path.write_text(content)
    with pytest.raises(DataError, match=words):
        read_table(path, text)


def test_bad_geopackages_are_refused(tmp_path):
    path = tmp_path / "d.gpkg"
    path.write_text("no database")
    with pytest.raises(DataError, match="cannot be read as a GeoPackage"):
        read_table(path, text)
    path.unlink()
    write_geopackage(path, THREE, layers=())
    with pytest.raises(DataError, match="has no layers"):
        read_table(path, text)
    path.unlink()
    write_geopackage(path, THREE, layers=("one",))
    with sqlite3.connect(path) as file:
        file.execute("UPDATE one SET geom = 'x' WHERE n = 2")
    file.close()
    with pytest.raises(DataError, match="row 3: 'geom' holds no geometry"):
        read_table(path, text)


def test_a_centroid_needs_a_geometry_and_a_free_name(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("g,a\nx,1\n")
    with pytest.raises(DataError, match="no geometries; leave --centroid out"):
        read_table(path, text, Reading(centroid=True))
    path.write_text("g,longitude,latitude\nx,1,2\n")
    assert len(read_table(path, text, Reading(centroid=True)).frame.columns) == 3
    known = features(["POINT (1 2)"])
    known["features"][0]["properties"]["latitude"] = 3
    with pytest.raises(DataError, match="has a column 'latitude' already"):
        read_table(write_geojson(tmp_path / "d.geojson", known), text, Reading(centroid=True))


def test_geometries_come_back_from_geoparquet():
    own = Geometry([None, b"x"], {"encoding": "WKB", "geometry_types": [], "crs": None})
    back, _ = from_geoparquet(to_geoparquet(own))
    assert (back.wkb, back.about) == (own.wkb, own.about)
    with pytest.raises(DataError, match="cannot be read"):
        from_geoparquet(b"x")
