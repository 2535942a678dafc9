"""Maps: shapes with ids, from a file or a GeoDataFrame, matched to sets or individuals by id.

Ids are compared as text, so 7 and "7" are the same, and "07" is another. Which of both the shapes
belong to is where the two lists of ids have more in common, as a share of all in either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from sumwise.data.dialect import Reading
from sumwise.data.frames import Table, as_frame, listed
from sumwise.data.geo import Geometry, of_features
from sumwise.data.sets import Sets
from sumwise.data.tables import GEOJSON, GEOPACKAGE, PARQUET, PLAIN, read_table
from sumwise.data.topology import topology
from sumwise.errors import DataError
from sumwise.util.text import count, label, shown

SETS, INDIVIDUALS = "sets", "individuals"
FEW: Final = 3  # examples in a sentence


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """Shapes of sets or of individuals."""

    of: str
    ids: tuple[Hashable, ...]  # of the study, where one is shown alike
    geometry: Geometry


def read_map(
    given: Any, map_id: str | Sequence[str] | None, sets: Sets, reading: Reading = PLAIN
) -> tuple[Map | Geometry, str]:
    """A map matched to sets or their individuals, and what was found, in words.

    Args:
        given: A file, a GeoDataFrame, or GeoJSON as Python has it.
        map_id: The column with the ids; if left out, the one that the sets were made with.
        reading: As in `read_table`.

    Gives geometries of all individuals, in their order, where the shapes have the ids of sets and
    each set has as many as individuals.
    """
    table = _table(given, reading)
    if table.geometry is None or not table.geometry.wkb:
        raise DataError(f"{table.name} has no geometries; give GeoJSON, GeoPackage or GeoParquet")
    columns = _id_columns(table, map_id, sets)
    keys = list(map(_text, table.keys(columns, "given as map_id, --map-id in the shell")))
    known = {SETS: _by_text(sets.ids), INDIVIDUALS: _by_text(_row_ids(sets))}
    hits = {of: len({*keys} & {*ids}) / len({*keys, *ids}) for of, ids in known.items()}
    of = max(hits, key=lambda of: hits[of])
    if not hits[of]:
        examples = [f"{of} are called {_few(ids)}" for of, ids in known.items() if ids]
        raise DataError(
            f"no shape of {table.name} is of this study: in {_named(columns)} it has {_few(keys)}, "
            f"and {' and '.join(examples)}. {_better(table, known)}"
        )
    shapes = table.geometry
    there = np.isfinite(topology(shapes, table.where).middles).all(axis=1)  # or it refuses
    if not there.any():
        raise DataError(f"all geometries of {table.name} are empty; is it the right map?")
    if of == SETS and (order := _in_order(keys, sets)) is not None:
        said = f"{table.name} has a shape for each of {count(len(order), 'individual')}."
        return replace(shapes, wkb=[shapes.wkb[row] for row in order]), said
    _refuse_twice(table, columns, keys)
    ids = tuple(known[of].get(key, key) for key in keys)
    keys = [key for key, drawn in zip(keys, there, strict=True) if drawn]
    return Map(of, ids, shapes), _said(table.name, of, keys, known[of])


def _table(given: Any, reading: Reading) -> Table:
    if isinstance(given, str | Path):
        if Path(given).suffix.lower() not in (*GEOJSON, GEOPACKAGE, *PARQUET):
            raise DataError(
                f"{given} is not GeoJSON, GeoPackage or GeoParquet, by its name. Convert it, such "
                'as with geopandas.read_file("map.shp").to_file("map.gpkg").'
            )
        return read_table(Path(given), lambda name: True, reading)
    import pyarrow

    name = "the map"
    if hasattr(given, "geometry") and hasattr(given, "crs") and hasattr(given, "columns"):
        column, crs = given.geometry.name, given.crs
        about = {} if crs is None else {"crs": crs.to_json_dict()}
        if crs is None and max(map(abs, given.total_bounds)) > 360:
            about = {"crs": None}
        wkb = [None if shape is None else shape.wkb for shape in given.geometry]
        frame = as_frame(given.drop(columns=column).reset_index(drop=given.index.name is None))
        return Table(frame, name, f"{name}, row {{}}".format, True, geometry=Geometry(wkb, about))
    known = given if isinstance(given, Mapping) else getattr(given, "__geo_interface__", None)
    if known is None:
        raise DataError(
            f"the map is {type(given).__name__}; give the path of GeoJSON, GeoPackage or "
            "GeoParquet, or a GeoDataFrame"
        )
    layer = of_features(known, name)
    texts = {
        key: [None if value is None else _text(value) for value in own]
        for key, own in layer.columns.items()
    }
    frame = as_frame(pyarrow.table(texts))
    where = [f"{name}, feature {number + 1}" for number in range(len(frame))]
    return Table(frame, name, where.__getitem__, True, geometry=layer.geometry)


def _id_columns(table: Table, wanted: str | Sequence[str] | None, sets: Sets) -> list[str]:
    names, origin = [*map(str, table.frame.columns)], sets.origin
    if wanted:
        return list(wanted) if isinstance(wanted, list | tuple) else [str(wanted)]
    own = [[*map(str, origin.by)], [] if origin.id is None else [str(origin.id)], ["set"], ["id"]]
    for columns in own:
        if columns and {*columns} <= {*names}:
            return columns
    known = {SETS: _by_text(sets.ids), INDIVIDUALS: _by_text(_row_ids(sets))}
    raise DataError(f"{table.name} has the columns {listed(names[:20])}. {_better(table, known)}")


def _better(table: Table, known: Mapping[str, Mapping[str, Hashable]]) -> str:
    """Which column to name."""
    found = Counter[str]()
    for name in table.frame.columns:
        column = table.frame.get_column(name)
        if not column.dtype.is_nested():
            own = {_text(value) for value in column.to_list() if value is not None}
            found[str(name)] = max(len(own & {*ids}) for ids in known.values())
    if not found or not found.most_common(1)[0][1]:
        return "No other column has them either: is it the right map?"
    name, hits = found.most_common(1)[0]
    same = "is" if hits == 1 else "are"
    return f"In column {name!r:.80}, {hits} {same} ids of the study; name it as map_id (--map-id)."


def _text(value: Any) -> str:
    """An id as it is compared: whole numbers without a decimal point."""
    if isinstance(value, tuple):
        return shown(tuple(map(_text, value)))
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    return str(value).strip()


def _by_text(ids: Sequence[Hashable]) -> dict[str, Hashable]:
    return {_text(each): each for each in ids}


def _row_ids(sets: Sets) -> list[Hashable]:
    """The ids of individuals, if each has its own."""
    own = [] if sets.row_ids is None else sets.row_ids[: sets.n_rows].tolist()
    return own if len({*own}) == len(own) else []


def _in_order(keys: Sequence[str], sets: Sets) -> list[int] | None:
    """The shape of each individual, where each set has as many shapes as individuals."""
    sizes = dict(zip(map(_text, sets.ids), sets.sizes.tolist(), strict=True))
    if len(keys) == len(sizes) or Counter(keys) != Counter(sizes):
        return None
    rows: dict[str, list[int]] = {name: [] for name in sizes}
    for row, key in enumerate(keys):
        rows[key].append(row)
    return [row for own in rows.values() for row in own]


def _refuse_twice(table: Table, columns: Sequence[str], keys: Sequence[str]) -> None:
    first: dict[str, int] = {}
    for row, key in enumerate(keys):
        if first.setdefault(key, row) != row:
            raise DataError(
                f"{table.where(row)}: {_named(columns)} is {key!r:.80}, as in "
                f"{table.where(first[key])}. Make one shape of both (dissolve), or name a column "
                "in which each shape has its own id."
            )


def _said(name: str, of: str, keys: Sequence[str], known: Mapping[str, Hashable]) -> str:
    """How many were matched, and examples of those that were not."""
    there, less = [key for key in keys if key in known], [key for key in keys if key not in known]
    own = {*keys}
    without = [key for key in known if key not in own]
    words = f"The shapes of {name} are those of {of}: {len(there):,} of {len(known):,} have one."
    if without:
        words += f" Without a shape: {_few(without)}."
    if less:
        shapes = "shape belongs" if len(less) == 1 else "shapes belong"
        words += f" {len(less):,} {shapes} to none of them: {_few(less)}."
    return words


def _few(texts: Any) -> str:
    names = [label(text) for text in texts]
    more = f" and {len(names) - FEW:,} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + more


def _named(columns: Sequence[str]) -> str:
    return " and ".join(f"{name!r:.80}" for name in columns)
