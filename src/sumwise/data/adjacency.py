"""Which candidates touch: pairs as users give them, or the borders of polygons.

Two polygons touch if they have a piece of border in common: the same segment, in either direction,
or segments on one line that overlap, as where one polygon has more corners on a straight border.
Polygons that meet in a single point do not touch, and neither does one that lies inside another
without a hole there. Coordinates agree to 1e-9 of the largest of them. A candidate without a
geometry touches no other.

Maps whose areas were simplified one by one have gaps and overlaps at borders, and neighbours are
missed there: give pairs instead, or a map that was simplified as a whole.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from sumwise.data.frames import Table
from sumwise.data.geo import Geometry, polygon_rings
from sumwise.errors import InvalidSetError, SettingError
from sumwise.util.shapes import Float, Int

ROUNDING: Final = 1e-9  # of coordinates, as a share of the largest


def neighbours_of(
    given: Any, n: int, table: Table | None = None, ids: Sequence[Hashable] | None = None
) -> Int[np.ndarray, "E 2"]:
    """Pairs of rows that touch, each once, the smaller row first.

    Args:
        given: Pairs of row numbers or ids; a geometry of each candidate, as WKB or an object that
            has `wkb`; or the column of the table that holds these.
        ids: Of candidates. Pairs are ids if each entry is one; if no id is a number, they may be
            row numbers.

    >>> neighbours_of([("b", "a"), ("b", "c")], 3, ids=["a", "b", "c"])
    array([[0, 1],
           [1, 2]])
    """
    if isinstance(given, str):
        given = _geometry_column(given, table)
    if isinstance(given, Geometry):
        given = given.wkb
    if isinstance(given, np.ndarray) and given.ndim == 2 and given.dtype.kind in "iu" and not ids:
        return pairs_of(given, n)
    values = list(given) if isinstance(given, Sequence) or hasattr(given, "__array__") else None
    if values is None or isinstance(given, bytes):
        raise SettingError(
            f"neighbours is {given!r:.60}; give pairs of rows that touch, or a polygon for each "
            "candidate"
        )
    shapes = [getattr(value, "wkb", value) for value in values]
    if any(isinstance(s, bytes | bytearray | memoryview) for s in shapes):
        if len(shapes) != n:
            raise InvalidSetError(
                f"neighbours has {len(shapes)} geometries, and there are {n} candidates; give one "
                "for each"
            )
        return touching(shapes)
    pairs = [_pair(number, value) for number, value in enumerate(values)]
    return pairs_of(_rows(pairs, ids), n)


def pairs_of(pairs: Sequence[Sequence[Any]] | np.ndarray, n: int) -> Int[np.ndarray, "E 2"]:
    """Pairs of row numbers, checked, each once, the smaller row first."""
    whole = isinstance(pairs, np.ndarray) and pairs.dtype.kind in "iu" and pairs.shape[1:] == (2,)
    if whole and np.isin(pairs, np.arange(n)).all():
        return _once(np.asarray(pairs, dtype=int))
    for number, pair in enumerate(pairs):
        for row in _pair(number, pair):
            whole = isinstance(row, int | np.integer) and not isinstance(row, bool)
            if not whole or not 0 <= row < n:
                raise SettingError(
                    f"pair {number} of neighbours names row {row!r:.60}; give whole numbers from "
                    f"0 to {n - 1}"
                )
    return _once(np.array(pairs, dtype=int).reshape(-1, 2))


def touching(shapes: Sequence[bytes | None]) -> Int[np.ndarray, "E 2"]:
    """Pairs of polygons in WKB that have a piece of border in common; see the module."""
    first: dict[bytes, int] = {}  # many candidates may have one polygon
    kinds = np.array(
        [-1 if s is None else first.setdefault(bytes(s), len(first)) for s in shapes], dtype=int
    )
    segments, owners = list[np.ndarray](), list[np.ndarray]()
    for wkb, kind in first.items():
        try:
            for ring in polygon_rings(wkb):
                segments.append(np.concatenate([ring[:-1], ring[1:]], axis=1))
                owners.append(np.full(len(ring) - 1, kind))
        except ValueError as error:
            row = int(np.flatnonzero(kinds == kind)[0])
            raise InvalidSetError(
                f"row {row}: its geometry cannot be used: {error}. Give polygons."
            ) from None
    if not segments:
        return np.empty((0, 2), dtype=int)
    pairs = _sharing(np.concatenate(segments), np.concatenate(owners))
    rows = [np.flatnonzero(kinds == kind) for kind in range(len(first))]
    out = [np.stack(np.meshgrid(rows[a], rows[b]), axis=-1).reshape(-1, 2) for a, b in pairs]
    out += [r[np.stack(np.triu_indices(len(r), 1), axis=1)] for r in rows if len(r) > 1]
    return _once(np.concatenate(out) if out else np.empty((0, 2), dtype=int))


def _sharing(
    segments: Float[np.ndarray, "S 4"], owners: Int[np.ndarray, " S"]
) -> Int[np.ndarray, "E 2"]:
    """Pairs of owners of segments that are the same or overlap."""
    size = float(np.abs(segments).max())
    near = ROUNDING * (size if size > 0 else 1.0)
    long = np.hypot(*(segments[:, 2:] - segments[:, :2]).T) > near
    segments, owners = segments[long], owners[long]
    if not len(segments):
        return np.empty((0, 2), dtype=int)
    ends = np.round(segments / near).reshape(-1, 2, 2)
    swap = (ends[:, 0, 0] > ends[:, 1, 0]) | (
        (ends[:, 0, 0] == ends[:, 1, 0]) & (ends[:, 0, 1] > ends[:, 1, 1])
    )
    ends[swap] = ends[swap][:, ::-1]
    _, same = np.unique(ends.reshape(-1, 4), axis=0, return_inverse=True)
    same = same.reshape(-1)
    order = np.argsort(same, kind="stable")
    codes, who = same[order], owners[order]
    found, step = list[np.ndarray](), 1
    while step < len(codes) and (codes[step:] == codes[:-step]).any():
        hit = codes[step:] == codes[:-step]
        found.append(np.stack([who[:-step][hit], who[step:][hit]], axis=1))
        step += 1
    alone = np.bincount(same)[same] == 1
    found.append(_overlapping(segments[alone], owners[alone], near))
    return _once(np.concatenate(found))


def _overlapping(
    segments: Float[np.ndarray, "S 4"], owners: Int[np.ndarray, " S"], near: float
) -> Int[np.ndarray, "E 2"]:
    """Pairs of owners of segments that lie on a line and overlap by more than a point.

    Where two segments overlap, an end of one lies on the other: only such pairs are looked at.
    """
    from scipy.spatial import cKDTree

    if not len(segments):
        return np.empty((0, 2), dtype=int)
    start, step = segments[:, :2], segments[:, 2:] - segments[:, :2]
    length = np.hypot(*step.T)
    tree = cKDTree(np.concatenate([start, segments[:, 2:]]))
    found = [np.empty((0, 2), dtype=int)]
    for s in range(len(segments)):
        inside = tree.query_ball_point(start[s] + step[s] / 2, length[s] / 2 + near)
        others = np.unique(np.array(inside, dtype=int) % len(segments))
        others = others[owners[others] != owners[s]]
        if not len(others):
            continue
        along, across = step[s] / length[s], np.array([-step[s, 1], step[s, 0]]) / length[s]
        ends = segments[others].reshape(-1, 2, 2) - start[s]
        at, off = ends @ along, ends @ across
        low = np.clip(at.min(axis=1), 0, length[s])
        high = np.clip(at.max(axis=1), 0, length[s])
        run = at[:, 1] - at[:, 0]
        slope = (off[:, 1] - off[:, 0]) / np.where(run == 0, 1.0, run)
        far = np.maximum(*(np.abs(off[:, 0] + slope * (edge - at[:, 0])) for edge in (low, high)))
        hit = others[(high - low > 2 * near) & (far <= near)]
        found.append(np.stack([np.full(len(hit), owners[s]), owners[hit]], axis=1))
    return _once(np.concatenate(found))


def _once(pairs: Int[np.ndarray, "E 2"]) -> Int[np.ndarray, "F 2"]:
    """Each pair once, the smaller number first, without pairs of a number with itself."""
    ordered = np.sort(pairs, axis=1)
    return np.unique(ordered[ordered[:, 0] < ordered[:, 1]], axis=0)


def _geometry_column(name: str, table: Table | None) -> Any:
    if table is None:
        raise SettingError(
            f"neighbours is {name!r:.60}, and candidates have no columns. Give a data frame with "
            "that column, pairs of rows, or a polygon for each candidate."
        )
    if table.geometry is not None and name == "geometry" and name not in table.frame.columns:
        return table.geometry
    table.require([name], "given as neighbours")
    return table.frame.get_column(name).to_list()


def _pair(number: int, pair: Any) -> tuple[Any, Any]:
    if isinstance(pair, str | bytes | Mapping | set | frozenset):
        values: list[Any] = []
    else:
        try:
            values = list(pair)
        except TypeError:
            values = []
    if len(values) != 2:
        raise SettingError(
            f"pair {number} of neighbours is {pair!r:.60}; give the two candidates that touch"
        )
    return values[0], values[1]


def _rows(pairs: Sequence[tuple[Any, Any]], ids: Sequence[Hashable] | None) -> Any:
    """Row numbers of pairs that may name ids."""
    if ids is None:
        return pairs
    known = {name: row for row, name in enumerate(ids)}
    try:
        strange = [each for pair in pairs for each in pair if each not in known]
    except TypeError:
        raise SettingError("neighbours hold lists where the ids of candidates should be") from None
    if not strange:
        return [(known[a], known[b]) for a, b in pairs]
    counted = all(isinstance(each, int | np.integer) for pair in pairs for each in pair)
    if counted and not any(isinstance(name, int | float | np.number) for name in known):
        return pairs
    raise SettingError(
        f"neighbours name {strange[0]!r:.60}, and no candidate has that id; there are "
        f"{', '.join(f'{name!r:.40}' for name in list(known)[:3])}, …"
    )
