"""Text, gaps and dates as inputs: what a recipe does, undone by hand, and predictions with it."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

import sumwise as sw
from sumwise.data import targets
from sumwise.data.frames import Table, as_frame
from sumwise.data.individuals import read_individuals
from sumwise.data.recipe import Recipe, learn, odd_date
from tests.builders import seeds

TEXTS = st.text("abcé '=", max_size=4)
tables = st.integers(2, 12).flatmap(
    lambda n: st.fixed_dictionaries(
        {
            "number": st.lists(st.floats(-1e6, 1e6), min_size=n, max_size=n),
            "gaps": st.lists(st.none() | st.floats(-10, 10), min_size=n, max_size=n),
            "text": st.lists(st.none() | TEXTS, min_size=n, max_size=n),
            "day": st.lists(st.none() | st.dates(), min_size=n, max_size=n),
        }
    ).filter(lambda columns: all(any(v is not None for v in c) for c in columns.values()))
)


def read(frame):
    return Table(as_frame(frame))


def learned(frame, **options):
    return learn(read(frame), list(as_frame(frame).columns), **options)


def arrow(columns):
    kinds = {"number": pa.float64(), "gaps": pa.float64(), "text": pa.string(), "day": pa.date32()}
    return pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})


@given(tables)
def test_decoding_gives_the_table_back(columns):
    recipe, x = learned(arrow(columns))
    got = recipe.decode(x)
    assert got["number"] == columns["number"]
    assert got["gaps"] == columns["gaps"]
    assert got["text"] == columns["text"]
    days = [None if day is None else day.date() for day in got["day"]]
    assert days == columns["day"]


@given(tables, st.randoms())
def test_the_order_of_rows_and_columns_does_not_matter(columns, random):
    frame = arrow(columns)
    recipe, x = learned(frame)
    rows, names = list(range(len(frame))), list(columns)
    random.shuffle(rows)
    random.shuffle(names)
    other, y = learned(frame.take(rows).select(names))
    by_label = {label: y[:, d] for d, label in enumerate(other.labels)}
    assert {*other.labels} == {*recipe.labels}
    for d, label in enumerate(recipe.labels):
        assert_allclose(by_label[label], x[rows, d], rtol=1e-12, atol=1e-12)


@given(tables)
def test_a_table_that_is_encoded_again_is_the_same_to_the_bit(columns):
    frame = arrow(columns)
    recipe, x = learned(frame)
    kept = Recipe.from_json(recipe.to_json())
    again, unknown = kept.encode(read(frame))
    assert (again == x).all()
    assert not unknown.any()
    assert kept.labels == recipe.labels
    assert (kept.sample == recipe.sample).all()


def test_pandas_polars_and_arrow_are_read_alike():
    frame = pd.DataFrame(
        {
            "a": [1.0, np.nan, 3.0, 4.0],
            "s": ["x", "y", None, "x"],
            "d": pd.to_datetime(["2020-01-01 00:00", "2021-06-01 12:00", None, "1969-12-31 00:00"]),
            "b": [True, False, True, True],
            "c": pd.Categorical(["u", "v", "u", "w"]),
        }
    )
    recipe, x = learned(frame, periods={"d": "year"})
    for other in (pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        again, y = learned(other, periods={"d": "year"})
        assert again.labels == recipe.labels
        assert_allclose(y, x, rtol=1e-14, atol=1e-14)
    days = x[:, recipe.labels.index("d")]
    assert days[0] == (dt.date(2020, 1, 1) - dt.date(1970, 1, 1)).days
    assert days[1] % 1 == 0.5
    assert days[3] == -1
    turn = recipe.labels.index("sin d")
    assert_allclose(x[0, turn : turn + 2], [math.sin(0), 1], atol=0.03)  # as the year begins


@given(tables)
def test_indicators_and_gaps_are_those_of_scikit_learn(columns):
    frame = arrow(columns)
    recipe, x = learned(frame)
    text = np.array([["none" if v is None else f"={v}"] for v in columns["text"]], dtype=object)
    theirs = OneHotEncoder(sparse_output=False).fit(text)
    names = {("none" if v is None else f"={v}"): v for v in columns["text"]}
    ours = [f"text = {'?' if names[c] is None else names[c]}" for c in theirs.categories_[0]]
    source, at = recipe.names.index("text"), recipe.source_of
    labels = list(recipe.sources[source].labels)
    got = x[:, at == source][:, [labels.index(name) for name in ours]]
    if len({*ours}) == len(ours):  # a text "?" and a gap look alike
        assert (got == theirs.transform(text)).all()
    if None in columns["gaps"]:
        filled = SimpleImputer(add_indicator=True).fit_transform(
            np.array(columns["gaps"], dtype=float)[:, None]
        )
        assert_allclose(x[:, at == recipe.names.index("gaps")], filled, rtol=1e-12, atol=1e-12)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ([f"name {i}" for i in range(300)], "300 different texts"),
        ([float("inf")] + [1.0] * 299, "row 0: 'a' is inf"),
        ([None] * 300, "no value in any row"),
        ([[1]] * 300, "cannot"),
        ([*map(str, range(20)), "about 3"], "row 20: 'a' is 'about 3', not a number like"),
        (["0", "1", "3+", "-"] * 2, "row 2: 'a' is '3[+]'"),
        (["2024-03-31", None, "31.3.2024"], "row 2: 'a' is '31.3.2024', and dates are understood"),
    ],
)
def test_columns_that_are_no_inputs_are_refused(column, said):
    with pytest.raises(sw.SumwiseError, match=said):
        learned(pa.table({"a": column}))


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["0", "1", "2", "3+"] * 5),
        pd.Series(["0", "1", "2"], dtype="category"),
        pl.Series(["1", "2"], dtype=pl.Enum(["1", "2"])),
    ],
)
def test_numbers_may_name_categories(column):
    kind = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    recipe, _ = learned(kind({"a": column}))
    assert recipe.sources[0].levels == tuple(sorted(map(str, column.unique())))


@pytest.mark.parametrize(
    ("periods", "said"),
    [
        ({"b": 24}, "'b', which is not an input"),
        ({"a": "fortnight"}, "fortnight"),
        ({"a": -1}, "positive number"),
        ({"s": 3}, "holds text"),
    ],
)
def test_periods_that_mean_nothing_are_refused(periods, said):
    frame = pd.DataFrame({"a": [1.0, 2.0], "s": ["x", "y"]})
    with pytest.raises(sw.SettingError, match=said):
        sw.Sets.from_frame(frame.assign(g=[0, 1]), by="g", x=["a", "s"], periods=periods)


def test_text_where_numbers_were_and_a_missing_column_are_refused():
    recipe, _ = learned(pd.DataFrame({"a": [1.0, 2.0], "d": pd.to_datetime(["2020", "2021"])}))
    with pytest.raises(sw.InvalidSetError, match="row 1: 'a' is 'x', not a number"):
        recipe.encode(read(pd.DataFrame({"a": ["1", "x"], "d": pd.to_datetime(["2020", "2021"])})))
    with pytest.raises(sw.InvalidSetError, match="no column 'a'"):
        recipe.encode(read(pd.DataFrame({"b": [1.0]})))
    with pytest.raises(sw.InvalidSetError, match="'d' is 3; it held dates before"):
        recipe.encode(read(pd.DataFrame({"a": [1.0], "d": [3]})))


# --- models ---------------------------------------------------------------------------------------


def pupils(n=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "pupil": [f"p{i}" for i in range(n)],
            "school": rng.integers(0, 60, n),
            "ses": rng.normal(size=n),
            "region": rng.choice(list("abcdef"), n),
        }
    )
    effect = frame.region.map(dict(zip("abcdef", (-5.0, -3, -1, 1, 3, 5), strict=True)))
    frame["y"] = frame.ses + effect + 0.3 * rng.normal(size=n)
    frame.loc[rng.choice(n, 40, replace=False), "ses"] = np.nan
    return frame


def fitted(frame):
    sets = sw.Sets.from_frame(frame, by="school", x=["ses", "region"], id="pupil")
    totals = frame.groupby("school").y.sum()
    return sets, sw.AggregateRegressor(random_state=0).fit(sets, totals.loc[list(sets.ids)])


def test_levels_are_learned_from_totals_and_new_ones_are_wider():
    frame = pupils()
    sets, model = fitted(frame)
    assert sets.input_names[:2] == ("ses", "ses is missing")
    assert model.score(frame[["ses", "region"]], frame.y) > 0.8
    assert list(model.feature_names_in_) == ["ses", "region"]
    rows = pd.DataFrame({"ses": [0.0] * 8, "region": [*"abcdef", "new", None]})
    mean, std = model.predict(rows, return_std=True)
    assert_allclose(mean[:6], [-5, -3, -1, 1, 3, 5], atol=1.2)
    assert abs(mean[6] - mean[:6].mean()) < 1.2  # the mean of levels
    assert std[6] > 2 * std[:6].max()  # and wider: levels differ by 3.4
    assert mean[7] == mean[6]
    found = model.intervals(rows)
    assert_allclose(found.mean, mean)
    assert_allclose(found.std, std)
    assert (found.upper - found.lower)[6] > 2 * (found.upper - found.lower)[:6].max()
    assert found.lower[6] < -3
    assert found.upper[6] > 3
    assert_allclose(model.predict(rows), mean)
    assert "region" in model.summary()
    assert "region =" not in model.summary()
    for call in (model.sample_y, lambda x: model.predict(x, return_cov=True)):
        with pytest.raises(sw.InvalidSetError, match="row 6, 'region' is missing or a text"):
            call(rows)


def test_a_raw_table_is_predicted_as_the_encoded_one():
    frame = pupils()
    sets, model = fitted(frame)
    places = frame.school.map({set_id: a for a, set_id in enumerate(sets.ids)})
    order = np.argsort(np.argsort(places, kind="stable"))
    raw = model.predict(frame, groups=frame.school, return_std=True)
    encoded = model.predict(sets.x, groups=np.repeat(sets.ids, sets.sizes), return_std=True)
    for mine, theirs in zip(raw, encoded, strict=True):
        assert_allclose(mine, theirs[order], rtol=1e-12)
    assert list(sets.row_ids[order]) == list(frame.pupil)
    measured = frame.groupby("school").y.sum()
    added = pd.Series(raw[0]).groupby(frame.school).sum()
    assert_allclose(added, measured, rtol=1e-9)


@given(seeds)
def test_many_levels_do_not_stretch_length_scales(seed):
    """With 26 indicators beside it, the waves of a number turn as fast as with one column more."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"g": np.arange(90) // 3, "z": rng.normal(size=90)})
    frame["letter"] = [chr(97 + i % 26) for i in range(90)]
    frame["two"] = rng.normal(size=90)

    def turns(columns):
        sets = sw.Sets.from_frame(frame, by="g", x=columns)
        config = sw.AggregateRegressor(random_state=3).config()
        basis = config.prepare(sets).basis.basis
        return basis.waves[0].frequencies[: int(basis.lengths[1].sum()), 0].std()

    assert 0.75 < turns(["z", "letter"]) / turns(["z", "two"]) < 1.33


# --- tables in files, and studies -----------------------------------------------------------------


@pytest.fixture
def csv(tmp_path):
    frame = pupils(300).drop(columns="y")
    frame.insert(0, "number", range(1, 301))
    frame["ses_2"], frame["empty"] = frame.ses**2, None
    frame.to_csv(tmp_path / "pupils.csv", index=False)
    return tmp_path / "pupils.csv"


def test_columns_are_chosen_and_what_is_left_out_has_a_reason(csv):
    found = read_individuals(csv, ["school"], [])
    assert found.x == ("ses", "region", "ses_2")
    assert found.left_out == {
        "number": "it counts rows; --id number makes it their id",
        "pupil": "it holds 300 different texts",
        "empty": "it is empty",
    }
    assert read_individuals(csv, ["school"], ["ses*"]).x == ("ses", "ses_2")
    assert read_individuals(csv, ["school"], ["region,ses"]).x == ("region", "ses")
    assert read_individuals(csv, ["school"], [], without=["ses_?"]).x == ("ses", "region")
    assert read_individuals(csv, ["school"], ["number", "ses"]).x == ("number", "ses")
    with pytest.raises(sw.DataError, match="no column 'sos"):
        read_individuals(csv, ["school"], ["sos*"])
    with pytest.raises(sw.DataError, match="no input columns"):
        read_individuals(csv, ["school"], [], without=["*"])


@pytest.mark.parametrize("large", [False, True])
def test_a_study_keeps_recipe_and_ids_of_rows(csv, tmp_path, monkeypatch, large):
    from sumwise.study.storage import blobs

    if large:
        monkeypatch.setattr(blobs, "LARGE", 0)
    sets = read_individuals(csv, ["school"], [], row_id="pupil").sets
    with sw.create_study(tmp_path / "a.db", sets) as study:
        for a, set_id in enumerate(sets.ids[:12]):
            study.tell(set_id, float(a))
        new = pd.DataFrame({"ses": [0.1, None], "region": ["a", "zzz"], "ses_2": [0.2, 0.3]})
        before, everyone = study.predict(new), study.predict()
        study.export(tmp_path / "out")
    assert {"id", "region", "ses"} < {*everyone.to_arrow().column_names}
    assert not any("=" in name for name in everyone.to_arrow().column_names)
    with sw.open_study(tmp_path / "a.db") as again:
        assert_allclose(again.predict(new).mean, before.mean, rtol=1e-12)
        assert list(again.sets.row_ids) == list(sets.row_ids)
    with sw.import_study(tmp_path / "out", tmp_path / "b.db") as moved:
        assert_allclose(moved.predict(new).upper, before.upper, rtol=1e-12)
        assert list(moved.sets.row_ids) == list(sets.row_ids)
        assert moved.sets.recipe.to_json() == sets.recipe.to_json()


def test_targets_with_a_new_level_are_average_individuals_there():
    sets, _ = fitted(pupils())
    rows = pd.DataFrame({"ses": [0.5, 0.5], "region": ["a", "new"]})
    known, new = targets.read(rows, None, sets).x
    of_region = sets.recipe.source_of == 1
    assert known[of_region].tolist() == [1, 0, 0, 0, 0, 0]
    assert_allclose(new[of_region], sets.recipe.sample[:, of_region].mean(axis=0))
    assert (known[~of_region] == new[~of_region]).all()


@pytest.mark.parametrize("n_rows", [1000, 1015, 1035])  # the row is in the sample or not
def test_what_one_row_alone_has_is_uncertain_within_reason(n_rows):
    """Whether or not that row is in the sample that the basis is drawn by.

    The effect of a level is as uncertain as that of any other level. A number that is standardised
    lies √N standard deviations from its mean in that row, and its slope may count as much.
    """
    rng = np.random.default_rng(n_rows)
    kind, once = rng.choice(["a", "b"], n_rows).tolist(), np.zeros(n_rows)
    kind[-1], once[-1] = "typo", 1.0
    table = pd.DataFrame({"set": np.arange(n_rows) % 40, "kind": kind, "once": once})
    table["x"] = rng.normal(size=n_rows)
    y = table.x + (table.kind == "a") + rng.normal(size=n_rows)
    totals = y.groupby(table.set).sum().iloc[:10]
    for name, most in (("kind", 2), ("once", 2 * math.sqrt(n_rows))):
        sets = sw.Sets.from_frame(table, by="set", x=["x", name])
        model = sw.AggregateRegressor(random_state=0).fit(sets, totals)
        _, std = model.predict(table, return_std=True)
        assert std[-1] < most * std[:-1].max()


# --- truth values ---------------------------------------------------------------------------------


def truths(kind, values, folder):
    """Sets from the same truth values, None for gaps, in a file or a frame of this kind."""
    groups = ["a", "b", "c"] * (len(values) // 3)
    if kind == "csv":
        cells = ["" if value is None else str(value).lower() for value in values]
        rows = "".join(f"{g},{cell}\n" for g, cell in zip(groups, cells, strict=True))
        (folder / "d.csv").write_text(f"g,b\n{rows}")
        return read_individuals(folder / "d.csv", ["g"], []).sets
    if kind == "xlsx":
        book = openpyxl.Workbook()
        for row in [("g", "b"), *zip(groups, values, strict=True)]:
            book.active.append(row)
        book.save(folder / "d.xlsx")
        return read_individuals(folder / "d.xlsx", ["g"], []).sets
    if kind in ("arrow", "polars"):
        made = {"arrow": pa.table, "polars": pl.DataFrame}[kind]({"g": groups, "b": values})
    else:
        made = pd.DataFrame({"g": groups, "b": pd.Series(values, dtype=kind)})
    return sw.Sets.from_frame(made, by="g", x=["b"])


@pytest.mark.parametrize(
    "kind", ["csv", "xlsx", "arrow", "polars", "boolean", "bool[pyarrow]", "object"]
)
@pytest.mark.parametrize("gap", [None, True])
def test_truth_values_with_gaps_are_numbers_wherever_they_come_from(kind, gap, tmp_path):
    values = [True, False, gap, False, True, True]
    sets = truths(kind, values, tmp_path)
    gaps = [[0.6, 1], [1, 0]] if gap is None else [[1], [1]]
    assert sets.input_names == (("b", "b is missing") if gap is None else ("b",))
    assert sets[["c"]].x.tolist() == gaps
    assert sets[["a"]].x[:, 0].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("texts", "odd"),
    [
        (["2024/03/01", "2024/03/02"], "2024/03/01"),
        (["2024-03-01", "2024-13-45"], "2024-13-45"),
        (["2024-03-01", "2024-3-2"], "2024-3-2"),
        (["2024-03-01", "2024-02-29 12:00"], None),
    ],
)
def test_a_date_that_is_not_written_as_iso_or_does_not_exist_is_odd(texts, odd):
    assert odd_date(texts) == odd
    frame = pd.DataFrame({"day": texts * 3, "g": list("abcabc")})
    if odd is not None:
        with pytest.raises(sw.InvalidSetError, match=f"'day' is '{odd}', and dates are understood"):
            sw.Sets.from_frame(frame, by="g", x=["day"])


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["5%", "6 %", "7.5%"], "'v' is '5%', a number that is not written like -1.5"),
        (["(5)", "(6)", "7"], r"'v' is '\(5\)', a number that is not"),
        (["\N{MINUS SIGN}3.5", "2", "1"], "'v' is '\N{MINUS SIGN}3.5', a number that is not"),
        (["\N{ARABIC-INDIC DIGIT THREE}", "\N{ARABIC-INDIC DIGIT FOUR}"], "a number that is not"),
        (["1", "n/a", "-", "NULL"], "'v' is 'n/a', not a number like the others"),
        (["1", "2", "n/a"], "'v' is 'n/a', not a number like the others"),
        (["low", "5%", "high"], None),
        (["n/a", "-"], None),
        (["0", "1", "3+"], None),
        (["(a)", "x%", "-"], None),
    ],
)
def test_numbers_in_other_notations_and_words_for_gaps_are_no_categories(texts, said):
    frame = pd.DataFrame({"v": texts * 12})
    frame["g"] = ["a", "b", "c"] * (len(frame) // 3)
    if said is None:
        assert len(sw.Sets.from_frame(frame, by="g", x=["v"]).input_names) == len(texts)
    else:
        with pytest.raises(sw.InvalidSetError, match=said):
            sw.Sets.from_frame(frame, by="g", x=["v"])
    named = frame.assign(v=frame["v"].astype("category"))  # names, whatever they look like
    assert len(sw.Sets.from_frame(named, by="g", x=["v"]).input_names) == len(texts)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([10**30 + n for n in range(12)], "holds values of several kinds, numbers beyond 64"),
        (pd.Categorical([1, "1", 2.5] * 4), "holds values of several kinds, numbers beyond 64"),
        (pd.to_timedelta(range(12), "D"), r"'v' of .* holds duration.*, which cannot be an"),
    ],
)
def test_what_can_be_neither_numbers_nor_text_is_refused_by_its_kind(values, said):
    frame = pd.DataFrame({"g": list("abc") * 4, "v": values})
    with pytest.raises(sw.InvalidSetError, match=said):
        sw.Sets.from_frame(frame, by="g", x=["v"])


def test_every_input_has_a_label_of_its_own():
    columns = {
        "b": ["?", "x", None],
        "b = x": [1.0, 2.0, 3.0],
        "c": [1.5, None, 2.0],
        "c is missing": [1.0, 5.0, 2.0],
    }
    recipe, x = learn(read(pl.DataFrame(columns)), [*columns])
    assert recipe.labels == (
        *("b = ?", "b = x (of b)", "b = missing", "b = x", "c", "c is missing (of c)"),
        "c is missing",
    )
    assert recipe.decode(x) == columns


@pytest.mark.filterwarnings("error")
def test_the_mean_of_the_largest_numbers_fills_a_gap():
    recipe, x = learn(read(pl.DataFrame({"v": [1.7e308] * 4 + [None]})), ["v"])
    assert x[-1].tolist() == [1.7e308, 1.0]
    assert np.isfinite(recipe.sample).all()


@pytest.mark.parametrize(
    ("column", "said"),
    [("g", "row 1: 'g' is .* not valid Unicode"), ("id", "row 1: 'id' is .* not valid Unicode"),
     ("t", "'t' of .* holds .* text that is not Unicode")],
)  # fmt: skip
def test_half_a_surrogate_pair_is_refused_wherever_it_is(column, said):
    frame = pd.DataFrame({"g": list("abc"), "id": list("pqr"), "t": list("xyz"), "v": [1, 2, 3]})
    frame = frame.astype({"g": object, "id": object, "t": object})
    frame.loc[1, column] = "s\ud800"
    with pytest.raises(sw.InvalidSetError, match=said):
        sw.Sets.from_frame(frame, by="g", x=["v", "t"], id="id")
