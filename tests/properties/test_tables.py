"""Tables with text, gaps and weights: what may not matter does not, from the table to answers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.data.frames import Table, as_frame
from tests.study.test_pool_change import assert_same

X = ["size", "kind", "gap"]
SETS = [f"s{a}" for a in range(5)]
KINDS = st.sampled_from(["a", "b", "c", None])
SIZES = st.integers(-64, 64).map(lambda n: n / 8)  # whose sums are exact in any order


@st.composite
def tables(draw):
    """Individuals with all levels and numbers in s0; others may lack either."""
    rows = [
        ("s0", kind, gap) for kind, gap in zip(["a", "b", "c", None], [1, 2.5, 3, -4], strict=True)
    ]
    extra = st.tuples(st.sampled_from(SETS[1:]), KINDS, st.none() | SIZES)
    rows += [(name, "a", None) for name in SETS[1:]] + draw(st.lists(extra, max_size=12))
    sizes = draw(st.lists(SIZES, min_size=len(rows), max_size=len(rows)))
    weights = draw(
        st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=len(rows), max_size=len(rows))
    )
    frame = pd.DataFrame(rows, columns=["set", "kind", "gap"])
    frame = frame.assign(size=sizes, w=[0.25, *weights[1:]], id=[f"p{n}" for n in range(len(rows))])
    return frame.astype({"gap": float})


def sets_of(frame, x=X):
    return sw.Sets.from_frame(frame, by="set", x=x, weights="w", id="id")


def fitted(sets, totals):
    return sw.AggregateRegressor("linear", hyperparameters=(0.5, 2.0)).fit(sets, totals)


totals = st.lists(st.floats(-50, 50), min_size=5, max_size=5).map(
    lambda y: dict(zip(SETS, y, strict=True))
)


@given(tables(), totals, st.randoms())
def test_the_order_of_rows_and_columns_changes_no_prediction(frame, told, random):
    rows, columns = list(range(len(frame))), list(X)
    random.shuffle(rows)
    random.shuffle(columns)
    other = frame.iloc[rows][[*columns, "w", "id", "set"]]
    one, two = fitted(sets_of(frame), told), fitted(sets_of(other, columns), told)
    for groups in (None, frame["set"]):
        expected = one.predict(frame, groups=groups, return_std=True)
        found = two.predict(frame, groups=groups, return_std=True)
        assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


@given(tables(), totals)
def test_a_raw_table_is_learned_from_as_the_encoded_one(frame, told):
    raw = sets_of(frame)
    inputs, unknown = raw.recipe.encode(Table(as_frame(frame)))
    assert not unknown.any()
    labels = list(raw.recipe.labels)
    encoded = pd.DataFrame(inputs, columns=labels).assign(**frame[["set", "w", "id"]])
    one, two = fitted(raw, told), fitted(sets_of(encoded, labels), told)
    for groups in (None, frame["set"]):
        expected = two.predict(encoded[labels], groups=groups, return_std=True)
        assert_allclose(one.predict(frame, groups=groups, return_std=True), expected, rtol=1e-9)
    decoded = raw.recipe.decode(inputs)
    assert [*decoded["kind"]] == [None if pd.isna(k) else k for k in frame["kind"]]
    np.testing.assert_array_equal(np.array(decoded["gap"], float), frame["gap"])


changes = st.lists(
    st.tuples(st.sampled_from(["add", "drop", "correct"]), st.integers(0, 99), KINDS, SIZES),
    min_size=1,
    max_size=5,
)


@settings(max_examples=6)
@given(tables(), changes)
def test_a_changed_pool_of_text_gaps_and_weights_equals_a_fresh_one(frame, changes):
    """What the recipe has learned stays what a fresh one learns: levels, and the mean of `gap`."""
    with tempfile.TemporaryDirectory() as folder:
        study = begun(Path(folder) / "a.db", frame)
        for step, (kind, at, level, size) in enumerate(changes):
            free = frame[~frame["set"].isin(["s0", "s1"])]
            one = free.iloc[at % len(free)]
            if kind == "add":
                new = {"set": one["set"], "kind": level, "gap": np.nan, "size": size, "w": 2.0}
                row = pd.DataFrame([new | {"id": f"new {step}"}]).astype(
                    {"gap": float, "kind": object}
                )
                study.change_pool(add=row, weights="w")
                frame = pd.concat([frame, row], ignore_index=True)
            elif kind == "drop":
                if not pd.isna(one["gap"]) or (frame["set"] == one["set"]).sum() == 1:
                    continue
                study.change_pool(drop=frame.loc[[one.name], ["id"]])
                frame = frame.drop(index=one.name)
            else:
                frame.loc[one.name, "size"] = size
                frame.loc[one.name, "kind"] = level
                study.change_pool(correct=frame.loc[[one.name], ["id", "size", "kind"]])
        frame = frame.sort_values("set", kind="stable")
        fresh = begun(Path(folder) / "b.db", frame)
        assert_same(study, fresh)
        study.close()
        fresh.close()


def begun(place, frame):
    model = sw.AggregateRegressor("linear", hyperparameters=(0.5, 2.0))
    study = sw.create_study(place, sets_of(frame), model=model, seed=3)
    study.tell("s0", 3.0)
    study.tell("s1", -2.0)
    return study
