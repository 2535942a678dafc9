"""Texts, gaps and what was known from the start, in a pool that changes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sumwise as sw
from tests.marks import each_with_one

from .test_pool_change import assert_same

SIZES = (4, 3, 5, 2, 6, 3)
X = ["size", "kind", "day"]


def table():
    rng = np.random.default_rng(0)
    n = sum(SIZES)
    size = np.where(rng.uniform(size=n) < 0.2, np.nan, rng.normal(size=n))
    frame = pd.DataFrame({"set": np.repeat([f"s{a}" for a in range(6)], SIZES)})
    frame = frame.assign(id=np.arange(100, 100 + n), size=size)
    frame["kind"] = rng.choice(["primary", "middle"], n)
    frame.loc[[5, 16], "kind"] = ["high", None]
    frame["day"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")
    frame["county"] = np.where(np.arange(n) < 12, "east", "west")
    return frame


def begin(place, frame, name="a", known=(), weights="sum", **options):
    sets = sw.Sets.from_frame(
        frame, by="set", x=X, id="id", areas="county", periods={"day": "year"}, weights=weights
    )
    path = place / f"{name}.db" if isinstance(place, Path) else place
    return sw.create_study(path, sets, seed=3, known=list(known) or None, **options)


NEW = pd.DataFrame(
    {"set": ["s3", "z"], "id": [7, 8], "size": [0.5, None], "kind": ["charter", "middle"]}
).assign(day=pd.Timestamp("2026-03-31"), county="north")


def edited(frame):
    """The table after `EDIT`: 7 and 8 join, 105 (the only high school) and 114 leave."""
    frame = frame.copy()
    frame.loc[frame["id"] == 104, ["size", "kind"]] = [2.5, "boarding"]
    frame.loc[frame["id"] == 119, "set"] = "s5"
    moved = frame["id"] == 119
    frame = pd.concat([frame[~frame["id"].isin([105, 114]) & ~moved], frame[moved], NEW])
    return frame.sort_values("set", kind="stable", ignore_index=True)


EDIT = {
    "add": NEW,
    "drop": pd.DataFrame({"id": [105, 114]}),
    "correct": pd.DataFrame(
        {"id": [104, 119], "set": ["s1", "s5"], "size": [2.5, None], "kind": ["boarding", None]}
    ),
}


def edit_of(frame):
    """`EDIT` with the values that those who only move have already."""
    fixed = EDIT["correct"].copy()
    row = frame.set_index("id").loc[119]
    fixed.loc[1, ["size", "kind"]] = [row["size"], row["kind"]]
    return {**EDIT, "correct": fixed}


COUNTY = pd.DataFrame({"county": ["east"], "total": [5.5], "noise_std": [0.5]})
WEST = pd.DataFrame({"id": [112, 115, 104], "total": [0.3, -0.2, 1.0]})


@pytest.mark.parametrize(
    ("known", "weights"), each_with_one([(), (WEST,), (WEST, {"s0": 2.0})], ["sum", "mean"])
)
def test_new_texts_and_gaps_are_read_as_if_they_had_been_there_from_the_start(
    tmp_path, known, weights
):
    frame = table()
    targets = frame.iloc[[1, 8, 20]][X]
    made = begin(tmp_path, frame, known=known, weights=weights, targets=targets)
    fresh = begin(tmp_path, edited(frame), "b", known, weights, targets=targets)
    said = made.change_pool(**edit_of(frame))
    assert "new in 'kind': 'boarding', 'charter'" in said
    for study in (made, fresh):
        study.tell("s2" if "s2" in study.ids else "s0", 1.25)
        study.tell("s4", -2.0)
    assert made.sets.recipe.to_json() == fresh.sets.recipe.to_json()
    assert made.sets.input_names == fresh.sets.input_names
    np.testing.assert_array_equal(made.aims.targets.x, fresh.aims.targets.x)
    assert_same(made, fresh)
    assert made.status().words == fresh.status().words
    assert made.progress == fresh.progress
    new = pd.DataFrame({"size": [None, 1], "kind": ["charter", "none such"], "day": NEW["day"]})
    np.testing.assert_array_equal(made.predict(new).mean, fresh.predict(new).mean)


def test_what_is_known_keeps_meaning_what_was_measured(place, tmp_path):
    """An area stays that of those who were in it, and who leaves keeps the output."""
    frame = table()
    study = begin(str(place), frame, known=[COUNTY.drop(columns="noise_std"), WEST])
    study.tell("s1", 3.0)  # of 104, whose output is known, and two more
    known = {answer.set_id: answer.y_bar for answer in study.answers}
    study.claim("s3", by="ann")
    study.skip("s5")
    for change in (edit_of(frame), {"drop": pd.DataFrame({"id": [104, 100]})}):
        study.change_pool(**change)
    told = {answer.set_id: answer.y_bar for answer in study.answers}
    former = next(name for name in told if str(name).startswith("s1 (until"))
    assert told == {former if name == "s1" else name: known[name] for name in known}
    assert [claim.set_id for claim in study.claims] == ["s3"]
    assert [skip.set_id for skip in study.skips] == ["s5"]
    whole = study.state.whole
    at = whole.position(("county", "east"))
    rows = slice(*whole.starts[at : at + 2])
    assert whole.row_ids[rows].tolist() == list(range(100, 112))
    extra = [("county", "east"), ("id", 112), ("id", 115), ("id", 104)]
    assert study.ids[-6:] == ("s1", "z", *extra)
    assert ("id", 104) not in {ask.set_id for ask in study.propose(20)}
    names = [e.set_id for e in study.history() if e.what in ("told", "asked", "skipped")]
    assert names == [*extra, former, "s3", "s5"]
    means = dict(zip(study.sets.row_ids.tolist(), study.predict().mean, strict=False))
    assert (means[112], means[115]) == pytest.approx((0.3, -0.2))
    study.amend(("id", 104), 2.0)
    study.retract(("id", 104))  # and it is not asked for
    assert ("id", 104) in {skip.set_id for skip in study.skips}
    study.export(tmp_path / "out")
    with sw.import_study(tmp_path / "out", tmp_path / "again.db") as again:
        assert_same(study, again)
        assert again.status().words == study.status().words
        join = NEW.assign(id=[17, 18])
        for each in (study, again):
            each.change_pool(add=join)
        assert_same(study, again)


def test_geometries_go_along_where_areas_are_known(tmp_path):
    frame, shapes = table(), [f"shape {i}".encode() for i in table()["id"]]
    study = begin(tmp_path, frame, known=[COUNTY, WEST], geometry=shapes, cost=2.0)
    study.change_pool(**edit_of(frame), cost=3.0)
    ids = study.sets.row_ids[: len(study.sets.own_x)]
    assert study.geometry == tuple(None if i < 100 else f"shape {i}".encode() for i in ids)
    cost = dict(zip(study.ids, study.aims.cost.tolist(), strict=True))
    assert (cost["s0"], cost["z"]) == (2.0, 3.0)
    assert cost["id", 112] < 1e-9


def test_gaps_where_there_were_none_and_too_many_texts_are_refused(tmp_path):
    frame = table().assign(kind="primary")
    study = begin(tmp_path, frame)
    with pytest.raises(sw.SumwiseError, match="add, row 1: 'kind' is missing"):
        study.change_pool(add=NEW.assign(kind=["primary", None]))
    many = pd.concat([NEW.iloc[:1]] * 200).assign(
        id=range(200, 400), kind=[f"k{i}" for i in range(200)]
    )
    with pytest.raises(sw.SettingError, match="'kind' would hold 201 different texts; up to 200"):
        study.change_pool(add=many)


def test_a_number_is_corrected_to_unknown_where_the_column_has_gaps(tmp_path):
    frame = table()
    who = int(frame["id"][frame["size"].notna()].iloc[0])
    fixed = frame.assign(size=frame["size"].mask(frame["id"] == who))
    made, fresh = begin(tmp_path, frame), begin(tmp_path, fixed, "b")
    made.change_pool(correct=pd.DataFrame({"id": [who], "size": [None]}))
    assert made.sets.recipe.to_json() == fresh.sets.recipe.to_json()
    np.testing.assert_array_equal(made.sets.x, fresh.sets.x)
    whole = begin(tmp_path, frame.assign(size=1.0), "c")
    with pytest.raises(sw.SumwiseError, match=r"'size' is missing\. Fill it in"):
        whole.change_pool(correct=pd.DataFrame({"id": [who], "size": [None]}))
