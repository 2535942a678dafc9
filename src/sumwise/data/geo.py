"""GeoJSON and GeoPackage as tables, geometries as WKB, and their centroids.

Properties are columns. A geometry is kept as it is, in two dimensions if it comes from GeoJSON. The
centroid is that of areas, weighted by area; where there are none, that of lines, weighted by
length; where there are none, the mean of points, as in GEOS.
"""

from __future__ import annotations

import json
import re
import sqlite3
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from sumwise.errors import DataError
from sumwise.util.files import parquet_table
from sumwise.util.shapes import Float
from sumwise.util.text import count

POINT, LINE, POLYGON = 1, 2, 3  # types of WKB; three more for several of each
COLLECTION: Final = 7
TYPES: Final = {
    **{"Point": 1, "LineString": 2, "Polygon": 3, "MultiPoint": 4, "MultiLineString": 5},
    **{"MultiPolygon": 6, "GeometryCollection": 7},
}
DEEPEST: Final = 16  # collections within collections
FARTHEST: Final = 1e100  # from where on areas overflow
OF_DEGREES: Final = ("longitude", "latitude")
OF_PLANE: Final = ("x", "y")
CODE: Final = "sumwise:code"  # of a coordinate system whose definition the file did not bring


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Rows with geometries, as a file has them."""

    columns: Mapping[str, Sequence[Any]]
    geometry: Geometry | None
    row: str  # what a row is called there, such as "feature"


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """A geometry of each row, as WKB; None where there is none."""

    wkb: Sequence[bytes | None]
    about: Mapping[str, Any] = field(default_factory=dict)  # of the column, as in GeoParquet

    @property
    def axes(self) -> tuple[str, str]:
        """What coordinates are called: degrees, or positions in a plane."""
        if "crs" not in self.about:
            return OF_DEGREES
        kind = (self.about["crs"] or {}).get("type")
        return OF_DEGREES if kind == "GeographicCRS" else OF_PLANE

    def centroids(self, where: Callable[[int], str]) -> Float[np.ndarray, "N 2"]:
        """A point for each row; NaN where the geometry is missing or empty."""
        out = np.full((len(self.wkb), 2), np.nan)
        for row, wkb in enumerate(self.wkb):
            try:
                out[row] = (np.nan, np.nan) if wkb is None else centroid(wkb)
            except ValueError as error:
                raise DataError(f"{where(row)}: its geometry cannot be used: {error}") from None
        return out


# --- WKB ------------------------------------------------------------------------------------------


def parts_of(wkb: bytes) -> list[tuple[int, list[np.ndarray]]]:
    """Points, lines and polygons, each with its kind and its rings of (x, y)."""
    parts: list[tuple[int, list[np.ndarray]]] = []
    _parse(memoryview(wkb), 0, parts, 0)
    return parts


def centroid(wkb: bytes) -> tuple[float, float]:
    """The centroid of a geometry; NaN if it is empty.

    >>> centroid(to_wkb({"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [4, 2], [0, 0]]]}))
    (2.6666666666666665, 0.6666666666666666)
    """
    parts = parts_of(wkb)
    found = [xy for _, rings in parts for xy in rings if len(xy)]
    if not found:
        return np.nan, np.nan
    origin = found[0][0]  # near it, differences of large coordinates lose no digits
    area, of_area = 0.0, np.zeros(2)
    length, of_length = 0.0, np.zeros(2)
    points: list[np.ndarray] = []
    for kind, rings in parts:
        for number, ring in enumerate(rings):
            xy = ring - origin
            if kind == POINT:
                points += [xy]
                continue
            a, b = xy[:-1], xy[1:]
            steps = np.hypot(*(b - a).T)
            length, of_length = length + steps.sum(), of_length + steps @ (a + b) / 2
            if not steps.sum():
                points += [xy[:1]]
            if kind == POLYGON:  # a shell counts as positive and a hole as negative, however drawn
                cross = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
                sign = np.sign(cross.sum()) * (1 if number == 0 else -1)
                area += sign * cross.sum() / 2
                of_area = of_area + sign * cross @ (a + b) / 6
    if area:
        middle = of_area / area
    elif length:
        middle = of_length / length
    else:
        middle = np.concatenate(points).mean(axis=0)
    x, y = (middle + origin).tolist()
    return x, y


def polygon_rings(wkb: bytes) -> list[Float[np.ndarray, "n 2"]]:
    """The closed rings of the polygons in a geometry; lines and points beside them do not count."""
    parts = parts_of(wkb)
    areas = [rings for kind, rings in parts if kind == POLYGON and rings]
    if not areas and any(rings for _, rings in parts):
        raise ValueError("it has only points or lines, which have no border")
    rings = [np.asarray(ring, dtype=np.float64) for each in areas for ring in each]
    if any(len(ring) < 4 or (ring[0] != ring[-1]).any() for ring in rings):
        raise ValueError("a ring of it is not closed")
    return rings


def _parse(wkb: memoryview, at: int, parts: list[tuple[int, list[np.ndarray]]], depth: int) -> int:
    """Append points, lines and polygons to `parts`, each as its rings; gives where it ends."""
    if depth > DEEPEST or len(wkb) < at + 5:
        raise ValueError("it is cut off" if depth <= DEEPEST else "it is nested too deeply")
    order = "<" if wkb[at] == 1 else ">"
    code = _count(wkb, at + 1, order)
    at += 9 if code & 0x20000000 else 5  # the reference system of PostGIS
    has_z, has_m = bool(code & 0x80000000), bool(code & 0x40000000)
    extra, kind = divmod(code & 0x0FFFFFFF, 1000)
    if not 1 <= kind <= COLLECTION or extra > 3:
        raise ValueError(f"it has type {code}, and points, lines and polygons are known")
    width = 2 + (has_z + has_m or (0, 1, 1, 2)[extra])

    def coordinates(at: int, n: int) -> tuple[np.ndarray, int]:
        end = at + 8 * width * n
        if end > len(wkb):
            raise ValueError("it is cut off")
        return np.frombuffer(wkb[at:end], f"{order}f8").reshape(n, width)[:, :2], end

    rings: list[np.ndarray] = []
    if kind == POINT:
        xy, at = coordinates(at, 1)
        rings.append(xy[~np.isnan(xy).any(axis=1)])  # an empty point has no numbers
    else:
        n = _count(wkb, at, order)
        at += 4
        if kind == LINE:
            xy, at = coordinates(at, n)
            rings.append(xy)
        for _ in range(n if kind > LINE else 0):
            if kind == POLYGON:
                xy, at = coordinates(at + 4, _count(wkb, at, order))
                rings.append(xy)
            else:
                at = _parse(wkb, at, parts, depth + 1)
    if any(not (abs(xy) < FARTHEST).all() for xy in rings):
        raise ValueError("a coordinate is not finite, or beyond all measure")
    if kind <= POLYGON:
        parts.append((kind, [xy for xy in rings if len(xy)]))
    return at


def _count(wkb: memoryview, at: int, order: str) -> int:
    if len(wkb) < at + 4:
        raise ValueError("it is cut off")
    return int(struct.unpack_from(f"{order}I", wkb, at)[0])


def to_wkb(geometry: Any, depth: int = 0) -> bytes:
    """A geometry of GeoJSON as WKB, in two dimensions."""
    kind = TYPES.get(geometry["type"])
    if kind is None or depth > DEEPEST:
        what = f"its type is {geometry['type']!r:.40}"
        raise ValueError(what if kind is None else "it is nested too deeply")
    if kind == COLLECTION:
        return _head(kind, [to_wkb(part, depth + 1) for part in geometry["geometries"]])
    inside = geometry["coordinates"]
    if kind > POLYGON:
        single = next(name for name, number in TYPES.items() if number == kind - 3)
        return _head(kind, [to_wkb({"type": single, "coordinates": each}) for each in inside])
    if kind == POINT:
        return _head(kind) + _coordinates([inside or [np.nan, np.nan]])
    if kind == LINE:
        return _head(kind) + struct.pack("<I", len(inside)) + _coordinates(inside)
    return _head(kind, [struct.pack("<I", len(ring)) + _coordinates(ring) for ring in inside])


def _head(kind: int, parts: Sequence[bytes] | None = None) -> bytes:
    body = b"" if parts is None else struct.pack("<I", len(parts)) + b"".join(parts)
    return struct.pack("<BI", 1, kind) + body


def _coordinates(points: Any) -> bytes:
    return b"".join(struct.pack("<2d", point[0], point[1]) for point in points)


# --- files ----------------------------------------------------------------------------------------


def read_geojson(path: Path) -> Layer:
    """The features of a file, with their properties and, where they have one, their id."""
    try:
        return of_features(json.loads(path.read_bytes()), str(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON ({error!s:.200})") from error


def of_features(known: Any, path: str) -> Layer:
    """The features of GeoJSON that was parsed; `path` names it in refusals."""
    try:
        features = known["features"]
        if known["type"] != "FeatureCollection" or not isinstance(features, list):
            raise TypeError
    except (TypeError, KeyError) as error:
        raise DataError(
            f"{path} is JSON but not a FeatureCollection of GeoJSON; only that can be read"
        ) from error
    rows, wkb = [], []
    for number, feature in enumerate(features):
        try:
            own = {"id": feature["id"]} if feature.get("id") is not None else {}
            rows.append({**own, **(feature["properties"] or {})})
            shape = feature["geometry"]
            wkb.append(None if shape is None else to_wkb(shape))
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, struct.error) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise DataError(
                f"{path}, feature {number + 1} is not as GeoJSON has it ({what:.200}). Export the "
                "file again."
            ) from error
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [_plain(row.get(name)) for row in rows] for name in names}
    return Layer(columns, Geometry(wkb, _crs_of(known)), "feature")


def _crs_of(known: Mapping[str, Any]) -> dict[str, Any]:
    """The coordinate system that GeoJSON of 2008 names; today's is in degrees."""
    try:
        return _crs_called(str(known["crs"]["properties"]["name"]))
    except (KeyError, TypeError):
        return {}


def _crs_called(name: str) -> dict[str, Any]:
    found = re.search(r"EPSG\D*([0-9]{4,6})$", name)
    return {} if name.endswith("CRS84") else of_code(found and f"EPSG:{found[1]}")


def of_code(code: str | None, geographic: bool | None = None) -> dict[str, Any]:
    """What is known of a coordinate system with this code, such as "EPSG:25832".

    Args:
        geographic: Whether it is in degrees; if left out, what most codes of EPSG tell.
    """
    if geographic is None:
        geographic = code is not None and 4000 <= int(code[5:]) < 5000
    plain = {} if geographic else {"crs": None}
    return plain if code in (None, "EPSG:4326") else {**plain, CODE: code}


def _plain(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def read_geopackage(path: Path, layer: str | None) -> tuple[Layer, str]:
    """A layer of a GeoPackage, the first if none is named; and a sentence if there are others."""
    try:
        address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            layers = _layers(database)
            name, said = chosen(path, [row[0] for row in layers], layer, "layer")
            column, about = next(row[1:] for row in layers if row[0] == name)
            quoted = name.replace('"', '""')
            rows = database.execute(f'SELECT * FROM "{quoted}"')
            names = [about[0] for about in rows.description]
            cells = rows.fetchall()
    except sqlite3.Error as error:
        raise DataError(f"{path} cannot be read as a GeoPackage ({error!s:.200})") from error
    columns = dict(zip(names, map(list, zip(*cells, strict=True)), strict=True)) if cells else {}
    shapes = columns.pop(column, None)
    if shapes is None:
        return Layer(columns, None, "row"), said
    wkb = []
    for number, blob in enumerate(shapes):
        try:
            wkb.append(None if blob is None else _without_header(blob))
        except (ValueError, TypeError) as error:
            raise DataError(
                f"{path}, row {number + 1}: {column!r:.80} holds no geometry ({error})"
            ) from None
    return Layer(columns, Geometry(wkb, about), "row"), said


def _layers(database: sqlite3.Connection) -> list[tuple[str, str | None, dict[str, Any]]]:
    """Names of tables, their columns of geometry, and what is known of their coordinates."""
    found = database.execute(
        "SELECT c.table_name, g.column_name, s.* FROM gpkg_contents c "
        "LEFT JOIN gpkg_geometry_columns g ON c.table_name = g.table_name "
        "LEFT JOIN gpkg_spatial_ref_sys s ON g.srs_id = s.srs_id "
        "WHERE c.data_type IN ('features', 'attributes') ORDER BY c.rowid"
    )
    heads, layers = [about[0] for about in found.description], []
    for row in found:
        known = dict(zip(heads, row, strict=True))
        number, kind = known.get("organization_coordsys_id"), str(known["definition"]).upper()
        degrees = kind.startswith(("GEOGCS", "GEODCRS", "GEOGCRS"))
        is_code = str(known.get("organization")).upper() == "EPSG" and isinstance(number, int)
        code = f"EPSG:{number}" if is_code else None
        layers.append((known["table_name"], known["column_name"], of_code(code, degrees)))
    return layers


def chosen(path: Path, names: Sequence[str], wanted: str | None, what: str) -> tuple[str, str]:
    """The sheet or layer that was named, or the first; and a sentence if there are others."""
    listing = ", ".join(f"{name!r:.80}" for name in names[:20])
    if not names:
        raise DataError(f"{path} has no {what}s; there is nothing to read")
    if wanted is not None and wanted not in names:
        raise DataError(f"{path} has no {what} {wanted!r:.80}; it has {listing}")
    name = names[0] if wanted is None else wanted
    several = wanted is None and len(names) > 1
    said = f"the first of {count(len(names), what)}, {name}; --sheet names another"
    return name, said if several else ""


def _without_header(blob: bytes) -> bytes:
    """The WKB in a GeoPackage's blob: after GP, version, flags, system of reference, envelope."""
    if blob[:2] != b"GP" or len(blob) < 8:
        raise ValueError("it does not begin with GP")
    envelope = blob[3] >> 1 & 7
    if envelope > 4:
        raise ValueError("its envelope is unknown")
    return bytes(blob[8 + (0, 32, 48, 48, 64)[envelope] :])


# --- GeoParquet -----------------------------------------------------------------------------------


def of_parquet(metadata: Mapping[bytes, bytes] | None) -> tuple[str, dict[str, Any]] | None:
    """The column of geometry in a Parquet file, and what is known of it, if there is one of WKB."""
    if metadata is None or b"geo" not in metadata:
        return None
    try:
        known = json.loads(metadata[b"geo"])
        name = known["primary_column"]
        about = dict(known["columns"][name])
        if not isinstance(about.get("crs") or {}, dict):  # its name, and not its definition
            about |= _crs_called(str(about.pop("crs")))
        return (name, about) if about["encoding"] == "WKB" else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None  # a table without geometry


def to_geoparquet(geometry: Geometry, ids: Sequence[str] | None = None) -> bytes:
    """Geometries as GeoParquet, in the order of rows; with a column `id_json` if there are ids."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    file, columns = io.BytesIO(), {} if ids is None else {"id_json": pa.array(ids, pa.string())}
    columns["geometry"] = pa.array(geometry.wkb, pa.binary())
    named = pa.table(columns).replace_schema_metadata(geo_metadata(geometry))
    pq.write_table(named, file, compression="zstd")
    return file.getvalue()


def geo_metadata(geometry: Geometry, column: str = "geometry") -> dict[str, str]:
    """What makes a Parquet file with a column of WKB GeoParquet."""
    about = {"encoding": "WKB", "geometry_types": [], **geometry.about}
    known = {"version": "1.1.0", "primary_column": column, "columns": {column: about}}
    return {"geo": json.dumps(known)}


def from_geoparquet(content: bytes) -> tuple[Geometry, list[str] | None]:
    """What `to_geoparquet` was given."""
    import pyarrow as pa

    try:
        table = parquet_table(content)
        found = of_parquet(table.schema.metadata)
        if found is None:
            raise ValueError("it has no column of WKB")
        ids = table.column("id_json").to_pylist() if "id_json" in table.column_names else None
        return Geometry(table.column(found[0]).cast(pa.binary()).to_pylist(), found[1]), ids
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f"the study's geometries cannot be read ({error!s:.200})") from error
