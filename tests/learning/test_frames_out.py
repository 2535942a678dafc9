"""Predictions come back as the kind of table the user has, with the user's ids and columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sumwise as sw

OURS = ["mean", "std", "lower", "upper"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    n = 30
    frame = pd.DataFrame({"who": [f"p{i}" for i in range(n)], "town": np.arange(n) % 10})
    frame["age"] = rng.uniform(20, 60, n)
    frame["kind"] = rng.choice(["a", "b"], n)
    return frame


@pytest.fixture(scope="module")
def learner(frame):
    sets = sw.Sets.from_frame(frame, by="town", x=["age", "kind"], id="who")
    learner = sw.ActiveLearner(sets, sw.AggregateRegressor("linear"))
    for town in range(6):
        learner.tell(town, frame.loc[frame["town"] == town, "age"].sum())
    return learner


def test_rows_of_a_frame_come_back_with_all_its_columns(learner, frame):
    shuffled = frame.sample(frac=1.0, random_state=0).assign(odd=[{"a": 1}, 2.5, "x"] * 10)
    found = learner.predict(shuffled)
    table = found.to_pandas()
    assert list(table.columns) == [*shuffled.columns, *OURS]
    pd.testing.assert_frame_equal(table[shuffled.columns], shuffled)  # its index, too
    np.testing.assert_array_equal(table["mean"], found.mean)
    assert "<th>odd</th>" in found._repr_html_()
    with pytest.raises(sw.DataError, match=r"a column that Arrow cannot hold .* to_pandas"):
        found.to_arrow()


@pytest.mark.parametrize("kind", [lambda f: f, pl.from_pandas, pa.Table.from_pandas])
def test_every_kind_of_table_gives_every_kind(learner, frame, kind):
    part = kind(frame.iloc[[7, 3]].reset_index(drop=True))
    found = learner.model.intervals(part, 0.5)
    columns = [*frame.columns, *OURS]
    assert list(found.to_pandas().columns) == columns
    assert found.to_polars().columns == columns
    assert found.to_arrow().column_names == columns
    assert found.to_polars()["who"].to_list() == ["p7", "p3"]
    np.testing.assert_allclose(found.to_arrow()["upper"].to_numpy(), found.upper)
    np.testing.assert_array_equal(found.mean, learner.model.predict(part))


def test_an_index_that_has_a_name_is_an_id(learner, frame):
    found = learner.predict(frame.set_index("who").iloc[[4, 2]])
    assert found.to_pandas().index.tolist() == ["p4", "p2"]
    assert found.to_arrow()["who"].to_pylist() == ["p4", "p2"]
    unnamed = learner.predict(frame.iloc[[4, 2]])
    assert unnamed.to_arrow().column_names == [*frame.columns, *OURS]


def test_individuals_of_the_sets_carry_their_ids(learner, frame):
    table = learner.predict().to_pandas()
    assert list(table.columns) == ["set", "row", "id", "age", "kind", *OURS]
    own = frame.set_index("who").loc[table["id"]]
    assert own["town"].tolist() == table["set"].tolist()
    np.testing.assert_allclose(own["age"], table["age"])
    assert learner.predict_sets().to_polars()["measured"].null_count() == 4


def test_names_that_clash_get_a_prefix(learner, frame):
    table = learner.predict(frame.assign(mean=1)).to_pandas()
    assert table["mean"].tolist() == [1] * 30
    assert list(table.columns)[-4:] == [f"sumwise_{name}" for name in OURS]


def test_arrays_have_no_columns(learner):
    assert learner.model.intervals(learner.sets.x[:2]).to_arrow().column_names == OURS
