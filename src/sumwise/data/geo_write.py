"""Tables with geometries as GeoParquet and GeoJSON, in the coordinate system that they came in."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from sumwise.data.geo import CODE, OF_DEGREES, Geometry, geo_metadata, parts_of
from sumwise.errors import SettingError

ENDINGS: Final = (".geojson", ".geoparquet")
KINDS: Final = ("Point", "LineString", "Polygon")


def with_geometry(table: Any, geometry: Geometry) -> Any:
    """An Arrow table with a column of geometries, which is GeoParquet when it is written."""
    import pyarrow as pa

    column = _free_name(table)
    known = {name: value for name, value in geometry.about.items() if name != CODE}
    if CODE in geometry.about and (crs := _definition(geometry.about[CODE])) is not None:
        known["crs"] = crs
    table = table.append_column(column, pa.array(geometry.wkb, pa.binary()))
    return table.replace_schema_metadata(geo_metadata(Geometry(geometry.wkb, known), column))


def _free_name(table: Any) -> str:
    name = "geometry"
    while name in table.column_names:
        name = f"sumwise_{name}"
    return name


def _definition(code: str) -> dict[str, Any] | None:
    """A coordinate system as GeoParquet describes it, where pyproj is there and knows it."""
    try:
        from pyproj import CRS

        return CRS.from_user_input(code).to_json_dict()
    except (ImportError, RuntimeError):  # an unknown code is the latter
        return None


def to_geojson(table: Any, geometry: Geometry) -> str:
    """An Arrow table with geometries as GeoJSON, which names a coordinate system in a plane."""
    head: dict[str, Any] = {"type": "FeatureCollection"}
    own = (geometry.about.get("crs") or {}).get("id", {})
    code = geometry.about.get(CODE, f"{own['authority']}:{own['code']}" if own else None)
    if code not in (None, "EPSG:4326", "OGC:CRS84"):
        name = "urn:ogc:def:crs:" + code.replace(":", "::")
        head["crs"] = {"type": "name", "properties": {"name": name}}
    elif geometry.axes != OF_DEGREES:
        raise SettingError(
            "GeoJSON is in degrees or names its coordinate system, and that of these shapes is "
            "unknown; write a file that ends in .geoparquet"
        )
    rows = zip(table.to_pylist(), geometry.wkb, strict=True)
    head["features"] = [
        {
            "type": "Feature",
            "properties": {name: _plain(value) for name, value in row.items()},
            "geometry": None if wkb is None else _shape(wkb),
        }
        for row, wkb in rows
    ]
    return json.dumps(head, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _shape(wkb: bytes) -> dict[str, Any]:
    """A geometry in two dimensions as GeoJSON has it."""
    shapes = []
    for kind, rings in parts_of(wkb):
        whole = [ring.tolist() for ring in rings]
        shapes.append(
            (KINDS[kind - 1], whole if kind == 3 else [each for xy in whole for each in xy])
        )
    kinds = {kind for kind, _ in shapes}
    inside = [xy[0] if kind == "Point" and xy else xy for kind, xy in shapes]
    if len(shapes) == 1:
        return {"type": shapes[0][0], "coordinates": inside[0]}
    if len(kinds) == 1:
        return {"type": f"Multi{shapes[0][0]}", "coordinates": inside}
    parts = zip(shapes, inside, strict=True)
    each = [{"type": kind, "coordinates": xy} for (kind, _), xy in parts]
    return {"type": "GeometryCollection", "geometries": each}
