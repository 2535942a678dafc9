"""What `Sets` accepts, gives back and refuses."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sumwise import AggregateRegressor, InvalidSetError, Sets, SettingError, UnknownSetError

TABLE = {
    "district": ["north", "south", "north", "east", "south"],
    "year": [1, 1, 1, 2, 2],
    "lunch": [1.0, 2.0, 3.0, 4.0, 5.0],
    "enroll": [10, 20, 30, 40, 50],
    "pupils": [0.5, -1.0, 2.0, 3.0, 4.0],
    "name": list("abcde"),
}
MAKERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.fixture(params=MAKERS)
def frame(request):
    return MAKERS[request.param](TABLE)


def test_a_frame_is_grouped_in_order_of_first_appearance(frame):
    sets = Sets.from_frame(frame, by="district", x=["lunch", "enroll"])
    assert sets.ids == ("north", "south", "east")
    assert_array_equal(sets.sizes, [2, 2, 1])
    assert_array_equal(sets.x, [[1, 10], [3, 30], [2, 20], [5, 50], [4, 40]])
    assert_array_equal(sets.theta, np.ones(5))
    assert sets.input_names == ("lunch", "enroll")
    assert (len(sets), sets.n_inputs) == (3, 2)


def test_several_group_columns_make_tuples_of_ids(frame):
    sets = Sets.from_frame(frame, by=["district", "year"], x="lunch")
    assert sets.ids == (("north", 1), ("south", 1), ("east", 2), ("south", 2))
    assert_array_equal(sets[("south", 2)].x, [[5.0]])


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ("sum", [1, 1, 1, 1, 1]),
        ("mean", [0.5, 0.5, 0.5, 0.5, 1]),
        ("pupils", [0.5, 2, -1, 4, 3]),
        (np.array([1.0, 2.0, 3.0, 4.0, 5.0]), [1, 3, 2, 5, 4]),
    ],
)
def test_weights_are_a_word_a_column_or_numbers(frame, weights, expected):
    sets = Sets.from_frame(frame, by="district", x="lunch", weights=weights)
    assert_array_equal(sets.theta, expected)


def test_a_lazy_polars_frame_is_collected():
    sets = Sets.from_frame(pl.LazyFrame(TABLE), by="district", x="lunch")
    assert len(sets) == 3


@pytest.mark.parametrize(
    "values",
    [
        [3, 1, 3],
        [2.5, 1.0, 2.5],
        ["b", "a", "b"],
        [datetime.date(2020, 1, 2), datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)],
        [True, False, True],
    ],
)
def test_ids_come_back_unchanged_in_type(values):
    for make in (pd.DataFrame, pl.DataFrame):
        sets = Sets.from_frame(make({"g": values, "x": [1.0, 2.0, 3.0]}), by="g", x="x")
        assert sets.ids == (values[0], values[1])
        assert [type(i) for i in sets.ids] == [type(values[0])] * 2


def test_categories_and_nullable_columns_work():
    frame = pd.DataFrame({"g": pd.Categorical(["a", "b"]), "x": pd.array([1, 2], dtype="Int64")})
    sets = Sets.from_frame(frame, by="g", x="x")
    assert sets.ids == ("a", "b")
    assert_array_equal(sets.x, [[1.0], [2.0]])


def test_arrays_are_copied_and_read_only():
    block = np.ones((2, 1))
    sets = Sets.from_arrays([block])
    block[0] = 7
    assert sets.x[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        sets.x[0] = 3


def test_members_may_overlap():
    x = np.arange(8.0).reshape(4, 2)
    sets = Sets.from_members(x, [[0, 1], [1, 3], [2]], weights=[[1, 2], [3, 4], [5]], ids="abc")
    assert_array_equal(sets.x, x[[0, 1, 1, 3, 2]])
    assert_array_equal(sets.theta, [1, 2, 3, 4, 5])
    assert sets.ids == ("a", "b", "c")


def test_column_names_of_frames_are_kept():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4, 5, 6]})
    assert Sets.from_members(frame, [[0, 2]]).input_names == ("a", "b")
    sets = Sets.from_arrays([frame.head(1), frame.tail(2)])
    assert sets.input_names == ("a", "b")
    assert_array_equal(sets.x, frame.to_numpy())
    with pytest.raises(InvalidSetError, match=r"set 1 has columns \('b', 'a'\); the first set"):
        Sets.from_arrays([frame, frame[["b", "a"]]])


def test_an_integral_is_a_fine_sum():
    """∫∫ (1 + x₀) · x₀² x₁ over [0, 1] × [1, 3], exactly 4 · (1/3 + 1/4)."""
    sets = Sets.from_integrals([[[0, 1], [1, 3]]], weight=lambda x: 1 + x[:, 0], bins=[400, 50])
    total = sets.theta @ (sets.x[:, 0] ** 2 * sets.x[:, 1])
    assert_allclose(total, 4 * (1 / 3 + 1 / 4), rtol=1e-5)
    assert_array_equal(sets.sizes, [20_000])


def test_an_integral_with_more_bins_converges_to_a_brute_force_sum():
    def error(bins):
        sets = Sets.from_integrals([[[-1.0, 2.0]]], weight=lambda x: np.exp(x[:, 0]), bins=bins)
        points = np.linspace(-1, 2, 2_000_001)
        values = np.exp(points) * np.sin(points)
        exact = np.sum((values[1:] + values[:-1]) / 2) * (points[1] - points[0])
        return abs(sets.theta @ np.sin(sets.x[:, 0]) - exact)

    assert error(64) < 1e-3
    assert error(128) < error(64) / 3.5  # midpoint rule: second order


def test_sets_are_taken_by_id_ids_slice_and_mask():
    sets = Sets.from_arrays([[[1.0]], [[2.0], [3.0]], [[4.0]]], ids=["a", "b", "c"])
    assert sets["b"].ids == ("b",)
    assert sets[["c", "a"]].x.tolist() == [[4.0], [1.0]]
    assert sets[1:].ids == ("b", "c")
    assert sets[::-1].x.tolist() == [[4.0], [2.0], [3.0], [1.0]]
    assert sets[np.array([True, False, True])].ids == ("a", "c")
    assert sets[pd.Series([False, True, False])].ids == ("b",)
    assert sets[[True, False, False]].ids == ("a",)
    assert sets.take([-1]).ids == ("c",)
    assert len(sets[:0]) == 0
    assert list(sets) == ["a", "b", "c"]
    assert "b" in sets
    assert "z" not in sets


def test_whole_numbers_are_ids_not_positions():
    sets = Sets.from_arrays([[[1.0]], [[2.0]]], ids=[7, 3])
    assert sets[7].x.tolist() == [[1.0]]
    assert sets[np.int64(3)].x.tolist() == [[2.0]]
    assert sets[np.array([3, 7])].ids == (3, 7)
    with pytest.raises(UnknownSetError, match=r"no set has the id 0; ids are 7, 3.*sets\[2:3\]"):
        sets[0]


def test_repr_says_what_is_inside():
    sets = Sets.from_frame(pd.DataFrame(TABLE), by="district", x=["lunch", "enroll"])
    assert repr(sets) == (
        "Sets: 3 sets of 1 to 2 instances (5 in all), 2 inputs (lunch, enroll); "
        "ids 'north', 'south', 'east'"
    )
    assert repr(sets["east"]).startswith("Sets: 1 set of 1 instances (1 in all)")
    assert repr(sets[:0]) == "Sets: no sets, 2 inputs"


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("arrays", "weights", "ids", "message"),
    [
        ([[[1.0]], [[NAN]]], None, "ab", r"row 0 of set 'b' has nan in input 0"),
        ([[[1.0], [-INF]]], None, "a", r"row 1 of set 'a' has -inf in input 0"),
        ([[[1.0]], [[1.0, 2.0]]], None, "ab", r"set 'b' has shape \(1, 2\); expected \(n >= 1, 1"),
        ([[[1.0]], np.empty((0, 1))], None, "ab", r"set 'b' has shape \(0, 1\)"),
        ([[1.0]], None, "a", r"set 'a' has shape \(1,\)"),
        ([], None, None, "no sets were given"),
        ([[[1.0]], [[2.0]]], None, "aa", r"id 'a' names two sets \(numbers 0 and 1\)"),
        ([[[1.0]], [[2.0]]], None, "abc", "3 ids were given for 2 sets"),
        ([[[1.0]]], None, [["a"]], r"id \['a'\] cannot name a set"),
        ([[[1.0]]], None, [NAN], "id of set number 0 is nan"),
        ([[[1.0]]], None, ["\ud800"], r"id '\\ud800' of set number 0 is not valid Unicode"),
        ([[[1.0]]], None, [("a", "\ud800")], "is not valid Unicode"),
        ([[[1.0], [2.0]]], [[1.0, NAN]], "a", "row 1 of set 'a' has weight nan"),
        ([[[1.0], [2.0]]], [[0.0, 0.0]], "a", "weights of set 'a' are all zero"),
        ([[[1.0]]], [[1e-200]], "a", "weights of set 'a' have a squared sum of 0.0"),
        ([[[1.0]]], [[1e200]], "a", "weights of set 'a' have a squared sum of inf"),
        ([[[1.0], [2.0]]], [[1.0]], "a", r"weights of set 'a' have shape \(1,\); it has 2"),
        ([[[1.0]]], [[1.0], [1.0]], "a", "weights were given for 2 sets; there are 1"),
        ([[["x"]]], None, "a", "array 0 must be an array of numbers"),
        ([[["3"]]], None, "a", "array 0 must be an array of numbers"),
        ([[[1.0]]], [["3"]], "a", "weights of set number 0 must be an array of numbers"),
        ([[[1j]]], None, "a", "array 0 must be an array of numbers"),
        ([[[None]]], None, "a", "nan|must be an array of numbers"),
        ([np.empty((1, 0))], None, "a", r"x has shape \(1, 0\)"),
    ],
)
def test_bad_arrays_are_refused_naming_the_set(arrays, weights, ids, message):
    with pytest.raises(InvalidSetError, match=message):
        Sets.from_arrays(arrays, weights, ids)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"lunch": [None] * 5}, {}, "'lunch' of the table has no value in any row"),
        ({"lunch": [1, 2, 3, INF, 5]}, {}, "row 3: 'lunch' is inf"),
        ({"district": ["a", None, "b", "a", "a"]}, {}, "row 1: 'district' is missing"),
        ({"district": [1.0, 2.0, 1.0, NAN, 2.0]}, {}, "row 3: 'district' is missing"),
        ({"district": [1, "1", 2.5, [1], "a"]}, {}, r"row 3: 'district' holds \[1\], which cannot"),
        ({}, {"x": "lnch"}, "no column 'lnch' .given as x.; it has 'district', 'year'"),
        ({}, {"by": "distric"}, "no column 'distric' .given as by."),
        ({"lunch": ["1", "2", "3", "4O", "5"]}, {}, "row 3: 'lunch' is '4O', not a number"),
        ({"lunch": ["1", "2", "3", "4", "5"]}, {}, "row 0: 'lunch' is '1', a number that is"),
        ({}, {"weights": "name"}, "row 0: 'name' is 'a', not a number"),
        ({}, {"weights": "weight"}, "no column 'weight' .given as weights.*'sum' or 'mean'"),
        ({}, {"weights": [1.0, 2.0]}, r"weights have shape \(2,\); give one for each of 5 rows"),
        ({"pupils": [0, 1, 0, 1, 1]}, {"weights": "pupils"}, "set 'north' are all zero"),
        ({"pupils": [0, 1, NAN, 1, 1]}, {"weights": "pupils"}, "row 2: 'pupils' is missing"),
    ],
)
def test_bad_frames_are_refused_naming_row_and_column(changes, options, message):
    frame = pd.DataFrame({**TABLE, **changes})
    with pytest.raises(InvalidSetError, match=message):
        Sets.from_frame(frame, **{"by": "district", "x": "lunch", **options})


def test_more_bad_frames_are_refused():
    with pytest.raises(InvalidSetError, match="from_frame was given list"):
        Sets.from_frame([1, 2], by="a", x="b")
    with pytest.raises(InvalidSetError, match="the table has no rows"):
        Sets.from_frame(pd.DataFrame({"a": [], "b": []}), by="a", x="b")
    with pytest.raises(SettingError, match="at least one column"):
        Sets.from_frame(pd.DataFrame(TABLE), by="district", x=[])
    with pytest.raises(SettingError, match="at least one column"):
        Sets.from_frame(pd.DataFrame(TABLE), by=[], x="lunch")
    lists = pl.DataFrame({"g": [[1], [2]], "x": [1.0, 2.0]})
    with pytest.raises(InvalidSetError, match="cannot name a group"):
        Sets.from_frame(lists, by="g", x="x")


def test_an_empty_column_that_holds_no_numbers_is_refused():
    model = AggregateRegressor("linear").fit(Sets.from_arrays([[[1.0]]]), [1.0])
    with pytest.raises(InvalidSetError, match="'x' is 'empty', not a number"):
        model.predict(pd.DataFrame({"x": pd.Series([], dtype=object)}))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([[0, 4]], "set 0 names row 4; x has rows 0 to 3"),
        ([[0], [-1]], "set 1 names row -1"),
        ([[]], "members of set 0 are"),
        ([[0.5]], "members of set 0 are"),
        ([], "no sets were given"),
    ],
)
def test_bad_members_are_refused(members, message):
    with pytest.raises(InvalidSetError, match=message):
        Sets.from_members(np.ones((4, 1)), members)


def test_members_need_a_table_of_rows():
    with pytest.raises(InvalidSetError, match=r"x has shape \(3,\)"):
        Sets.from_members(np.ones(3), [[0]])


@pytest.mark.parametrize(
    ("boxes", "options", "error", "message"),
    [
        ([[[1.0, 0.0]]], {}, InvalidSetError, "box 0 runs from 1.0 to 0.0 along input 0"),
        ([[[0.0, INF]]], {}, InvalidSetError, "box 0 runs from 0.0 to inf"),
        ([[0.0, 1.0]], {}, InvalidSetError, r"boxes have shape \(1, 2\)"),
        ([[[0.0, 1.0]]], {"bins": 0}, SettingError, "bins is 0"),
        ([[[0.0, 1.0]]], {"bins": 1.5}, SettingError, "bins is 1.5"),
        ([[[0.0, 1.0]]], {"weight": lambda x: x}, InvalidSetError, r"gave shape \(16, 1\)"),
        ([[[0.0, 1.0]]], {"weight": lambda x: 0 * x[:, 0]}, InvalidSetError, "all zero"),
    ],
)
def test_bad_integrals_are_refused(boxes, options, error, message):
    with pytest.raises(error, match=message):
        Sets.from_integrals(boxes, **options)


def test_unknown_weights_and_masks_are_refused():
    with pytest.raises(SettingError, match="weights is 'median'"):
        Sets.from_arrays([[[1.0]]], weights="median")
    with pytest.raises(InvalidSetError, match="the mask has 1 entries for 2 sets"):
        Sets.from_arrays([[[1.0]], [[2.0]]])[[True]]


def test_parts_that_do_not_fit_together_are_refused():
    x, theta = np.ones((2, 1)), np.ones(2)
    for parts, message in (
        (("a", x, theta, [0, 1]), "starts must have 2 entries"),
        (("ab", x, theta, [0, 0, 2]), "set 'a' is empty"),
        (("a", x, np.ones(2), [0, 2], ("u", "v")), "2 input names for 1 inputs"),
    ):
        ids, rows, weights, starts, *names = parts
        with pytest.raises(InvalidSetError, match=message):
            Sets(tuple(ids), rows.copy(), weights, np.array(starts), *names)


def test_patterns_name_inputs_as_in_the_shell():
    frame = pd.DataFrame({"g": [1, 2], "ses_b": [1.0, 2.0], "ses_a": [3.0, 4.0], 7: [5.0, 6.0]})
    made = Sets.from_frame(frame, by="g", x=["ses_a", "ses_*", 7])
    assert made.input_names == ("ses_a", "ses_b", 7)
    with pytest.raises(InvalidSetError, match="'sex_\\*'"):
        Sets.from_frame(frame, by="g", x="sex_*")


def test_sets_that_look_the_same_are_refused():
    frame = pd.DataFrame({"g": pd.Series([1, "1", 2], dtype=object), "x": [0.0, 1, 2]})
    with pytest.raises(InvalidSetError, match="called 1 and '1', which look the same"):
        Sets.from_frame(frame, by="g", x="x")
