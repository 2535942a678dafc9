"""Raw columns in files that stay in files are what they are in memory, to the bit."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from itertools import pairwise
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sumwise as sw
from sumwise.data.parquet import batches
from sumwise.outofcore import learn_recipe
from sumwise.outofcore.build import in_threads

X = ["text", "level", "flag", "day", "real", "whole", "single"]
PERIODS = {"day": "year", "real": 7.0}
finite = st.floats(-1e100, 1e100) | st.sampled_from([5e-324, 1e-320])
CELLS = {
    "text": st.sampled_from(["a", "b", "ü", "<b>", None]),
    "level": st.sampled_from(["1", "2", None]),
    "flag": st.sampled_from([True, False, None]),
    "day": st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)) | st.none(),
    "real": finite | st.none() | st.just(float("nan")),
    "whole": st.integers(-(2**40), 2**40),
    "single": st.floats(-(2.0**90), 2.0**90, width=32) | st.none(),
}
SCHEMA = {
    "text": pa.string(), "level": pa.dictionary(pa.int8(), pa.string()), "flag": pa.bool_(),
    "day": pa.date32(), "real": pa.float64(), "whole": pa.int32(), "single": pa.float32(),
}  # fmt: skip


@st.composite
def tables(draw):
    n = draw(st.integers(2, 12))
    columns = {"set": pa.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))}
    for name, cells in CELLS.items():
        values = draw(st.lists(cells, min_size=n, max_size=n))
        values[draw(st.integers(0, n - 1))] = {"text": "a", "level": "1", "flag": True,
            "day": dt.date(2024, 3, 31), "real": 1.5, "whole": 3, "single": 0.5}[name]  # fmt: skip
        kind = pa.int64() if name == "whole" else SCHEMA[name]
        columns[name] = pa.array(values, kind)
    return pa.table(columns)


def written(table, folder, order, cuts):
    """The rows in files of row groups of two; `order` puts groups of rows in another order."""
    bounds = sorted({0, table.num_rows, *cuts})
    pieces = [table.slice(low, high - low) for low, high in pairwise(bounds)]
    for number, at in enumerate(order(list(range(len(pieces))))):
        pq.write_table(pieces[at], f"{folder}/{number:03}.parquet", row_group_size=2)
    return sw.Sets.scan_parquet(folder, by="set", x=X, periods=PERIODS)


def learned(scan):
    return learn_recipe.learn(scan, learn_recipe.look_at(scan, in_threads, scan.x))


def inputs(scan, **how):
    found = [batch for part in scan.parts() for batch in batches(scan, part, **how)]
    return np.concatenate([batch.inputs.T for batch in found]), found


@settings(deadline=None, max_examples=min(25, settings.default.max_examples // 3))
@given(tables(), st.randoms(use_true_random=False), st.lists(st.integers(1, 11), max_size=3))
def test_a_scan_has_the_recipe_and_the_inputs_of_the_table_in_any_order(table, random, cuts):
    sets = sw.Sets.from_frame(table, by="set", x=X, periods=PERIODS)
    there = [Fraction(v) for v in table["real"].to_pylist() if v is not None and v == v]
    mean = float(sum(there) / len(there)) if len(there) < table.num_rows else 0.0
    assert sets.recipe.sources[X.index("real")].fill == mean
    cuts = [cut for cut in cuts if cut < table.num_rows]
    for order in (lambda numbers: numbers, lambda numbers: random.sample(numbers, len(numbers))):
        with TemporaryDirectory() as folder:
            scan = learned(written(table, folder, order, cuts))
            assert scan.recipe.sources == sets.recipe.sources
            assert np.array_equal(scan.recipe.sample, sets.recipe.sample)
            x, found = inputs(scan)
            keys = np.concatenate([batch.keys[0].to_pylist() for batch in found])
            for a, set_id in enumerate(sets.ids):
                mine, own = x[keys == set_id], sets.x[sets.starts[a] : sets.starts[a + 1]]
                assert sorted(map(tuple, mine.tolist())) == sorted(map(tuple, own.tolist()))


@settings(deadline=None, max_examples=min(10, settings.default.max_examples // 4))
@given(tables(), tables())
def test_predictions_of_files_are_those_of_the_table_whatever_is_unknown(table, others):
    new = others.set_column(1, "text", pa.array(["never seen", *others["text"].to_pylist()[1:]]))
    with TemporaryDirectory() as folder, TemporaryDirectory() as other, TemporaryDirectory() as out:
        model = sw.AggregateRegressor("linear", hyperparameters=(1.0, 1.0))
        scan = written(table, folder, list, [2])
        design = model.embed(scan, f"{out}/a.design")
        model.fit(design, {design.ids[0]: 3.0})
        pool = written(new.set_column(0, "set", pa.array([9] * new.num_rows)), other, list, [1])
        model.predict_parquet(pool, f"{out}/p.parquet")
        found = pq.read_table(f"{out}/p.parquet")
        expected = model.intervals(new)
        for name in ("mean", "std", "lower", "upper"):
            assert np.allclose(found[name], getattr(expected, name), rtol=1e-12, atol=0)


def test_what_is_kept_of_columns_does_not_grow_with_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(learn_recipe, "KEPT", 100)
    kept = []
    for n in (2_000, 20_000):
        table = pa.table({"set": np.zeros(n), "name": [str(i) + "x" for i in range(n)]})
        pq.write_table(table, tmp_path / "d.parquet", row_group_size=500)
        scan = sw.Sets.scan_parquet(tmp_path / "d.parquet", by="set", x="name")
        monkeypatch.setattr("sumwise.data.parquet.PART_ROWS", 500)
        found = learn_recipe.look_at(scan, in_threads, scan.x)
        rows = sum(len(columns["name"]) for columns in found.rows.values())
        kept.append((rows, len(found.seen["name"].texts)))
        assert found.seen["name"].rows == n
        with pytest.raises(sw.DataError, match="row 201: 'name' holds more than 200 different"):
            learn_recipe.learn(scan, found)
    assert kept == [(100, 202), (100, 202)]
