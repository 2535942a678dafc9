"""Rules for pools: read from what users give, refused in words, stored and read back."""

from __future__ import annotations

import json
import math
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from sumwise.data.adjacency import neighbours_of, touching
from sumwise.data.frames import Table, as_frame
from sumwise.data.geo import Geometry, to_wkb
from sumwise.data.pool_refusals import refuse_impossible
from sumwise.data.pool_rules import PoolRules, read_rules
from sumwise.errors import DataError, PoolExhaustedError, SettingError, SumwiseError


def box(x0, y0, x1, y1, *more):
    ring = [[x0, y0], [x1, y0], [x1, y1], *more, [x0, y1], [x0, y0]]
    return to_wkb({"type": "Polygon", "coordinates": [ring]})


def test_labels_of_columns_and_arrays_become_codes():
    table = Table(as_frame(pa.table({"home": ["a", None, "b", "a"], "age": [1.0, 2.0, None, 1.0]})))
    rules = read_rules(4, table, {"together": "home", "apart": "age", "strata": [7, -1, 7, 9]})
    assert rules.together.tolist() == [0, -1, 1, 0]
    assert rules.apart.tolist() == [0, 1, -1, 0]
    assert rules.strata.tolist() == [0, -1, 0, 1]
    assert rules.within is None


def test_missing_labels_of_every_kind_are_free():
    pd = pytest.importorskip("pandas")
    labels = [None, math.nan, np.nan, pd.NA, pd.NaT, -1, "x"]
    assert read_rules(7, None, {"within": labels}).within.tolist() == [-1] * 6 + [0]
    series = pd.Series(["x", None, "y"], index=[9, 8, 7])
    assert read_rules(3, None, {"within": series}).within.tolist() == [0, -1, 1]


def test_what_is_left_out_is_as_by_default():
    rules = read_rules(3, None, {"uses": None, "cost": None, "together": None})
    assert (rules.size, rules.uses, rules.weights, rules.cost) == ((1, 20), None, None, None)
    assert read_rules(3, None, {"size": 5}).size == (5, 5)
    assert read_rules(3, None, {"size": np.array([2, 3])}).size == (2, 3)
    assert read_rules(3, None, {"cost_per_member": 2}).cost == 0.0
    assert read_rules(3, None, {"weights": (0, math.inf)}).weights == (0.0, math.inf)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sise": 3}, "'sise' is not a rule for pools; give size, uses"),
        ({"size": 0}, "size is 0"),
        ({"size": True}, "size is True"),
        ({"size": (3, 2)}, r"size is \(3, 2\); give the fewest and the most"),
        ({"size": (0, 2)}, "size is"),
        ({"size": (1.5, 2)}, "size is"),
        ({"size": (1, 2, 3)}, "size is"),
        ({"size": "12"}, "size is '12'"),
        ({"size": ((1, 2), (3, 4))}, "size is"),
        ({"size": (1, math.nan)}, "size is"),
        ({"uses": 0}, "uses is 0"),
        ({"uses": 1.0}, "uses is 1.0"),
        ({"weights": (1, 1)}, "the first below the second"),
        ({"weights": (2, 1)}, "weights is"),
        ({"weights": (math.nan, 1)}, "weights is"),
        ({"weights": 3}, "weights is 3"),
        ({"weights": "ab"}, "weights is 'ab'"),
        ({"weights": (0, 1, 2)}, "weights is"),
        ({"weights": (0, 10**400)}, "weights is"),
        ({"weights": np.zeros((2, 2))}, "weights is"),
        ({"effect": "yes"}, "effect is 'yes'; give True or False"),
        ({"noise_std": -1}, "noise_std is -1"),
        ({"noise_std": math.nan}, "noise_std is nan"),
        ({"noise_std_per_member": math.inf}, "noise_std_per_member is inf"),
        ({"noise_std": 1e200}, "noise_std is 1e"),
        ({"cost": -1}, "cost is -1"),
        ({"cost": 0}, "pools would cost nothing"),
        ({"cost": "3"}, "cost is '3'"),
        ({"cost_per_member": -0.1}, "cost_per_member is -0.1"),
        ({"together": "home"}, "together is 'home', and candidates have no columns"),
        ({"together": ["a"]}, "together has 1 entries, and there are 3 candidates"),
        ({"apart": {1: 2}}, "give the name of a column, or an array"),
        ({"apart": {1, 2, 3}}, "give the name of a column, or an array"),
        ({"apart": b"abc"}, "give the name of a column, or an array"),
        ({"strata": 7}, "strata is 7; give a list"),
        ({"strata": np.array(7)}, "strata is 7; give a list"),
        ({"within": [[1], [2], [3]]}, r"row 0: within is \[1\], which cannot be a label"),
        ({"within": np.ones((3, 2))}, "row 0: within is"),
        ({"neighbours": 3}, "neighbours is 3; give pairs of rows"),
        ({"neighbours": b"abc"}, "give pairs of rows that touch"),
        ({"neighbours": [(0, 1), (1, 3)]}, "pair 1 of neighbours names row 3; .* from 0 to 2"),
        ({"neighbours": [(0, -1)]}, "pair 0 of neighbours names row -1"),
        ({"neighbours": [(0, 1.0)]}, "names row 1.0"),
        ({"neighbours": [(0, True)]}, "names row True"),
        ({"neighbours": [(0, 1, 2)]}, "pair 0 of neighbours is"),
        ({"neighbours": ["ab"]}, "pair 0 of neighbours is 'ab'"),
        ({"neighbours": [3]}, "pair 0 of neighbours is 3"),
        ({"neighbours": "geometry"}, "candidates have no columns"),
        ({"neighbours": [box(0, 0, 1, 1)]}, "1 geometries, and there are 3 candidates"),
        ({"neighbours": [b"\x01\x03", None, None]}, "row 0: its geometry cannot be used: .* cut"),
    ],
)
def test_hostile_options_are_refused_in_words(options, said):
    with pytest.raises(SumwiseError, match=said):
        read_rules(3, None, options)


def test_a_column_that_is_missing_is_named():
    table = Table(as_frame(pa.table({"home": ["a", "b"]})))
    with pytest.raises(SumwiseError, match=r"no column 'hoem' .given as together.; it has 'home'"):
        read_rules(2, table, {"together": "hoem"})


# --- neighbours -----------------------------------------------------------------------------------


def test_pairs_come_once_with_the_smaller_row_first():
    assert neighbours_of([(2, 0), (0, 2), (1, 1), (0, 1)], 3).tolist() == [[0, 1], [0, 2]]
    assert neighbours_of(np.array([[2, 0]]), 3).tolist() == [[0, 2]]
    assert neighbours_of([], 3).shape == (0, 2)


def test_pairs_may_name_ids_and_numbers_that_are_ids_are_no_rows():
    assert neighbours_of([("b", "a")], 2, ids=["a", "b"]).tolist() == [[0, 1]]
    assert neighbours_of([(1, 0)], 2, ids=["a", "b"]).tolist() == [[0, 1]]
    assert neighbours_of([(20, 10)], 3, ids=[10, 30, 20]).tolist() == [[0, 2]]
    with pytest.raises(SettingError, match="neighbours name 0, and no candidate has that id"):
        neighbours_of([(0, 10)], 3, ids=[10, 30, 20])
    with pytest.raises(SettingError, match="neighbours name 'c'"):
        neighbours_of([("a", "c")], 2, ids=["a", "b"])
    with pytest.raises(SettingError, match="lists where the ids"):
        neighbours_of([(["a"], "b")], 2, ids=["a", "b"])


def test_polygons_touch_along_a_border_and_not_in_a_corner():
    grid = [box(x, y, x + 1, y + 1) for y in range(2) for x in range(2)]  # 0 1 below 2 3
    assert touching(grid).tolist() == [[0, 1], [0, 2], [1, 3], [2, 3]]
    assert touching([grid[0], None, grid[1]]).tolist() == [[0, 2]]
    assert touching([None, None]).shape == (0, 2)


def test_polygons_touch_where_a_straight_border_has_more_corners_on_one_side():
    wide = box(0, 0, 3, 1)
    row = [box(x, 1, x + 1, 2) for x in range(4)]  # the last begins where `wide` ends
    assert touching([wide, *row]).tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [2, 3], [3, 4]]
    assert touching([box(0, 0, 2, 1), box(1, 1, 3, 2)]).tolist() == [
        [0, 1]
    ]  # each beyond the other
    turn = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    turned = []
    for x0, y0, x1, y1 in [(0, 0, 3, 1), (0, 1, 1, 2), (1, 1, 2, 2), (5, 1, 6, 2)]:
        ring = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]) @ turn.T * 1e5
        turned.append(to_wkb({"type": "Polygon", "coordinates": [ring.tolist()]}))
    assert touching(turned).tolist() == [[0, 1], [0, 2], [1, 2]]


def test_candidates_with_the_same_polygon_touch_and_have_the_same_neighbours():
    a, b, far = box(0, 0, 1, 1), box(1, 0, 2, 1), box(9, 9, 10, 10)
    assert touching([a, b, a, far]).tolist() == [[0, 1], [0, 2], [1, 2]]


def test_an_island_in_a_hole_touches_what_is_round_it():
    ring, hole = [[0, 0], [9, 0], [9, 9], [0, 0]], [[5, 2], [6, 2], [6, 3], [5, 2]]
    land = to_wkb({"type": "Polygon", "coordinates": [ring, hole]})
    island = to_wkb({"type": "MultiPolygon", "coordinates": [[hole[::-1]]]})
    assert touching([land, island]).tolist() == [[0, 1]]


def test_lines_open_rings_and_cut_off_geometries_are_refused():
    line = to_wkb({"type": "LineString", "coordinates": [[0, 0], [1, 1]]})
    with pytest.raises(SumwiseError, match=r"row 1: .* only points or lines"):
        touching([None, line])
    ring = [[0, 0], [1, 0], [1, 1], [0, 1]]
    area = {"type": "Polygon", "coordinates": [[*ring, [0, 0]]]}
    lines = {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}
    mixed = to_wkb({"type": "GeometryCollection", "geometries": [area, lines]})  # as maps have it
    assert touching([mixed, box(1, 0, 2, 1), box(5, 5, 6, 6)]).tolist() == [[0, 1]]
    with pytest.raises(SumwiseError, match=r"row 0: .* not closed"):
        touching([to_wkb({"type": "Polygon", "coordinates": [ring]})])
    whole = box(0, 0, 1, 1)
    for end in range(1, len(whole)):
        with pytest.raises(SumwiseError, match="row 0"):
            touching([whole[:end]])


def test_geometries_are_read_from_a_column_and_from_the_geometry_of_a_table():
    wkb = [box(0, 0, 1, 1), box(1, 0, 2, 1)]
    table = Table(as_frame(pa.table({"shape": pa.array(wkb, pa.binary())})))
    assert read_rules(2, table, {"neighbours": "shape"}).neighbours.tolist() == [[0, 1]]
    table = Table(as_frame(pa.table({"x": [1, 2]})), geometry=Geometry(wkb))
    assert read_rules(2, table, {"neighbours": "geometry"}).neighbours.tolist() == [[0, 1]]
    assert neighbours_of(Geometry(wkb), 2).tolist() == [[0, 1]]


@pytest.mark.parametrize("seed", range(5))
def test_borders_agree_with_a_plane_that_is_cut_into_rectangles(seed):
    """Rectangles of whole cells share a border where two cells of theirs are side by side."""
    rng, side = np.random.default_rng(seed), 8
    owner, boxes = np.full((side, side), -1), []
    for y, x in np.ndindex(side, side):
        if owner[y, x] >= 0:
            continue
        x1 = x + 1
        while x1 < side and owner[y, x1] < 0 and rng.random() < 0.6:
            x1 += 1
        y1 = y + int(rng.integers(1, 4))
        owner[y:y1, x:x1] = len(boxes)
        boxes.append(box(x / 3, y / 7, x1 / 3, min(y1, side) / 7))
    sides = [(owner[:, 1:], owner[:, :-1]), (owner[1:], owner[:-1])]
    expected = {tuple(sorted(p)) for a, b in sides for p in zip(a.flat, b.flat, strict=True)}
    expected = {(int(a), int(b)) for a, b in expected if a != b}
    assert {tuple(pair) for pair in touching(boxes).tolist()} == expected


# --- what cannot be met ---------------------------------------------------------------------------

ALL = np.ones(6, dtype=bool)
FEW = np.array([True, True, False, False, False, False])


def codes(*values):
    return np.array(values, dtype=int)


@pytest.mark.parametrize(
    ("rules", "free", "most", "said"),
    [
        (PoolRules((3, 4)), FEW, 4, "at least 3 members, and 2 candidates are free"),
        (PoolRules((2, 4), uses=1), ALL & ~ALL, 4, "each may be in 1 pool"),
        (PoolRules((3, 4)), ALL, 2, "the budget pays for 2"),
        (PoolRules((2, 3), together=codes(0, 0, 0, 0, 0, 0)), ALL, 3, "together: "),
        (PoolRules((2, 3), together=codes(0, 0, 0, 1, 1, 1)), FEW, 3, "together: "),
        (PoolRules((1, 3), together=codes(*[0] * 6), apart=codes(*[0] * 6)), ALL, 6, "apart"),
        (PoolRules((1, 6), together=codes(*[0] * 6), strata=codes(*[0] * 6)), ALL, 6, "strata"),
        (
            PoolRules((1, 2), strata=codes(0, 1, 2, 0, 1, 2)),
            ALL,
            2,
            "each of 3 strata, and at most",
        ),
        (PoolRules((3, 4), strata=codes(0, 1, 0, 0, 1, 1)), ALL, 4, "each of 2 strata, and size"),
        (PoolRules((1, 4), strata=codes(0, 1, 2, 2, 2, 2)), FEW, 4, "of 1 of 3 strata"),
        (PoolRules((3, 4), apart=codes(0, 0, 0, 1, 1, 1)), ALL, 4, "apart: .* at most 2"),
        (PoolRules((3, 4), within=codes(0, 0, 1, 1, 2, -1)), ALL, 4, "within: .* 2 free"),
        (
            PoolRules((1, 4), within=codes(*[-1] * 6)),
            ALL,
            4,
            "within: no free candidate has a label",
        ),
        (PoolRules((3, 4), neighbours=codes(0, 1, 2, 3).reshape(2, 2)), ALL, 4, "neighbours: "),
    ],
)
def test_the_rule_that_binds_is_named(rules, free, most, said):
    with pytest.raises((SettingError, PoolExhaustedError), match=said):
        refuse_impossible(rules, free, most)


def is_pool(rules: PoolRules, rows: tuple[int, ...]) -> bool:
    """Whether these rows are a pool, rule by rule as `PoolRules` has them."""
    inside = set(rows)
    n = 7
    if rules.together is not None:
        groups = [{i for i in range(n) if rules.together[i] == c} for c in {*rules.together} - {-1}]
        if any(group & inside and not group <= inside for group in groups):
            return False
    if rules.apart is not None:
        kinds = [c for c in rules.apart[list(rows)] if c >= 0]
        if len(kinds) != len({*kinds}):
            return False
    if rules.strata is not None:
        have = sorted(c for c in rules.strata[list(rows)] if c >= 0)
        if have != sorted({*rules.strata} - {-1}):
            return False
    if rules.within is not None and (
        len({*rules.within[list(rows)]}) > 1 or rules.within[rows[0]] < 0
    ):
        return False
    if rules.neighbours is not None:
        reached = {rows[0]}
        for _ in rows:
            for a, b in rules.neighbours.tolist():
                if {a, b} <= inside and {a, b} & reached:
                    reached |= {a, b}
        return reached == inside
    return True


def test_nothing_that_is_possible_is_refused():
    rng, refused, possible = np.random.default_rng(0), 0, 0
    pairs = list(combinations(range(7), 2))
    for _ in range(1500):
        low = int(rng.integers(1, 5))
        given = {
            name: rng.integers(-1, 3, 7)
            for name in ("together", "apart", "strata", "within")
            if rng.random() < 0.4
        }
        if rng.random() < 0.4:
            given["neighbours"] = np.array(pairs)[rng.random(len(pairs)) < 0.2]
        rules = PoolRules(size=(low, low + int(rng.integers(0, 3))), **given)
        free = rng.random(7) < 0.8
        most = min(rules.size[1], int(rng.integers(2, 8)))
        rows = np.flatnonzero(free).tolist()
        exists = any(
            is_pool(rules, some) for m in range(low, most + 1) for some in combinations(rows, m)
        )
        possible += exists
        try:
            refuse_impossible(rules, free, most)
        except (SettingError, PoolExhaustedError):
            refused += 1
            assert not exists, (rules, free, most)
    assert refused > 300
    assert possible > 300


# --- storage --------------------------------------------------------------------------------------


def everything() -> PoolRules:
    return PoolRules(
        size=(2, 3),
        uses=1,
        together=codes(0, 0, -1),
        apart=codes(-1, 0, 1),
        strata=codes(0, 1, -1),
        within=codes(0, 0, 0),
        neighbours=codes(0, 1, 1, 2).reshape(2, 2),
        weights=(-math.inf, 2.5),
        effect=True,
        noise_std=0.1,
        noise_std_per_member=0.3,
        cost=4.0,
        cost_per_member=0.5,
    )


@pytest.mark.parametrize("rules", [PoolRules(), everything()])
def test_rules_come_back_as_they_were_stored(rules):
    text = rules.to_json()
    json.loads(text, parse_constant=pytest.fail)  # no Infinity, which is not JSON
    again = PoolRules.from_json(text, 3)
    for name in PoolRules.__slots__:
        np.testing.assert_array_equal(getattr(again, name), getattr(rules, name))
    assert again.to_json() == text
    assert PoolRules.from_json(text.encode(), 3).size == rules.size


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", [3, 2]),
        ("size", None),
        ("uses", 0),
        ("together", [0, 0]),
        ("together", [0, 0, -2]),
        ("together", [0, 0, 3]),
        ("together", [0, 0, 0.0]),
        ("together", [0, 0, True]),
        ("apart", {"0": 1}),
        ("strata", "abc"),
        ("neighbours", [[0, 3]]),
        ("neighbours", [[0]]),
        ("neighbours", 5),
        ("neighbours", {"0": [0, 1]}),
        ("weights", [1]),
        ("weights", [2, 1]),
        ("weights", 3),
        ("weights", "ab"),
        ("effect", 1),
        ("effect", None),
        ("noise_std", -1),
        ("noise_std", None),
        ("noise_std", "0.1"),
        ("cost", -1),
        ("cost_per_member", None),
    ],
)
def test_damaged_rules_are_refused(name, value):
    known = json.loads(everything().to_json())
    with pytest.raises(DataError, match="rules for pools cannot be read"):
        PoolRules.from_json(json.dumps({**known, name: value}), 3)


def test_damaged_text_is_refused_wherever_it_is_cut():
    text = everything().to_json()
    for end in range(len(text)):
        with pytest.raises(DataError, match="rules for pools cannot be read"):
            PoolRules.from_json(text[:end], 3)
    known = json.loads(text)
    for name in known:
        fewer = {each: value for each, value in known.items() if each != name}
        with pytest.raises(DataError, match="names of rules"):
            PoolRules.from_json(json.dumps(fewer), 3)
    for bad in ("[]", "null", "3", '{"more": 1}', "[" * 100_000, b"\xff\xfe\x00"):
        with pytest.raises(DataError, match="rules for pools cannot be read"):
            PoolRules.from_json(bad, 3)
    with pytest.raises(DataError, match="together must be 4 codes"):
        PoolRules.from_json(text, 4)
