"""A study whose pool has changed is what it would be if it had begun with that pool."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import sumwise as sw
from sumwise.data.pool_mark import PoolMark
from sumwise.study import create
from tests.marks import each_with_one, slow

X = ["size", "lunch"]


def table(seed=0, sizes=(4, 3, 5, 2, 6, 3)):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    sets = np.repeat([f"s{a}" for a in range(len(sizes))], sizes)
    return pd.DataFrame({"set": sets, "id": np.arange(100, 100 + n), "size": rng.normal(size=n)})


def with_lunch(frame):
    return frame.assign(lunch=np.sin(7.0 * frame["size"]) + frame["id"] / 50)


def sets_of(frame, **options):
    return sw.Sets.from_frame(frame, by="set", x=X, id="id", **options)


def begin(tmp_path, frame, name="a", told=(), **options):
    study = sw.create_study(tmp_path / f"{name}.db", sets_of(frame), seed=3, **options)
    for set_id, total in told:
        study.tell(set_id, total)
    return study


def assert_same(one, other, rtol=0.0):
    assert one.ids == other.ids
    for mine, theirs in zip(
        (one.predict(), one.predict_sets()), (other.predict(), other.predict_sets()), strict=True
    ):
        assert mine.ids == theirs.ids
        np.testing.assert_allclose(mine.mean, theirs.mean, rtol, rtol)
        np.testing.assert_allclose(mine.std, theirs.std, rtol, rtol)
    asked = [study.propose(9) for study in (one, other)]
    assert [a.set_id for a in asked[0]] == [a.set_id for a in asked[1]]
    scores = [[a.score for a in each] for each in asked]
    np.testing.assert_allclose(*scores, rtol=rtol)


EDITS = {
    "join": lambda f: (
        {"add": pd.DataFrame({"set": ["s3", "s1"], "id": [7, 8], "size": [0.5, 2], "lunch": 1.0})},
        lambda g: pd.concat(
            [f, pd.DataFrame({"set": ["s3", "s1"], "id": [7, 8], "size": [0.5, 2], "lunch": 1.0})]
        ),
    ),
    "leave": lambda f: (
        {"drop": pd.DataFrame({"id": [104, 120]})},
        lambda g: g[~g["id"].isin([104, 120])],
    ),
    "correct": lambda f: (
        {"correct": pd.DataFrame({"id": [112, 104, 100], "size": [9.0, -1.0, 2.0]})},
        lambda g: g.assign(
            size=[
                {112: 9.0, 104: -1.0, 100: 2.0}.get(i, v)
                for i, v in zip(g["id"], g["size"], strict=True)
            ]
        ),
    ),
    "new set": lambda f: (
        {"add": pd.DataFrame({"set": ["z", "z"], "id": [7, 8], "size": [0.5, 2], "lunch": 1.0})},
        lambda g: pd.concat(
            [g, pd.DataFrame({"set": ["z", "z"], "id": [7, 8], "size": [0.5, 2], "lunch": 1.0})]
        ),
    ),
    "split": lambda f: (
        {"correct": pd.DataFrame({"id": [113, 112], "set": "s3b"}).iloc[:1]},
        lambda g: g.assign(set=g["set"].where(g["id"] != 113, "s3b")).pipe(
            lambda h: pd.concat([h[h["id"] != 113], h[h["id"] == 113]])
        ),
    ),
}


@pytest.mark.parametrize(("kind", "strategy"), each_with_one(EDITS, ["IVR", "AggMI"]))
def test_a_change_of_sets_without_answers_equals_a_fresh_study(tmp_path, kind, strategy):
    frame, told = with_lunch(table()), [("s0", 3.0), ("s2", -1.5), ("s4", 2.25)]
    edits, expected = EDITS[kind](frame)
    study = begin(tmp_path, frame, told=told, strategy=strategy)
    study.change_pool(**edits)
    assert_same(study, begin(tmp_path, expected(frame), "b", told, strategy=strategy))


@pytest.mark.parametrize("seed", [0, 1, *slow(2, 3)])
def test_random_changes_one_after_another_equal_a_fresh_study(tmp_path, seed):
    rng = np.random.default_rng(seed)
    frame = with_lunch(table(seed))
    study = begin(tmp_path, frame, told=[("s0", 3.0)])
    free = [f"s{a}" for a in range(1, 6)]
    for step in range(4):
        at = frame.index[frame["set"].isin(free)]
        gone = [
            i
            for i in rng.choice(at, 2, replace=False)
            if (frame["set"] == frame["set"][i]).sum() > 2
        ]
        fixed = [i for i in rng.choice(at, 3, replace=False) if i not in gone]
        new = pd.DataFrame(
            {"set": rng.choice(free, 2), "id": [500 + step, 600 + step]}
            | {name: rng.normal(size=2) for name in X}
        )
        frame.loc[fixed, X] = rng.normal(size=(len(fixed), 2))
        drop = frame.loc[gone, ["id"]] if gone else None
        study.change_pool(add=new, drop=drop, correct=frame.loc[fixed, ["id", *X]])
        frame = pd.concat([frame.drop(index=gone), new], ignore_index=True)
    # a fresh table has the sets in the same order, and members in that of their arrival
    frame = frame.sort_values("set", kind="stable")
    assert_same(study, begin(tmp_path, frame, "b", [("s0", 3.0)]))


def test_an_answer_belongs_to_the_members_that_its_set_had(tmp_path):
    frame, told = with_lunch(table()), [("s0", 3.0), ("s2", -1.5), ("s4", 2.25)]
    study = begin(tmp_path, frame, told=told)
    new = pd.DataFrame({"set": ["s2"], "id": [7], "size": [0.5], "lunch": [1.0]})
    said = study.change_pool(
        add=new,
        drop=pd.DataFrame({"id": [100]}),
        correct=pd.DataFrame({"id": [113], "set": ["s4"], "size": [1.5]}),
        by="ann",
        note="autumn",
    )
    former = [a.set_id for a in study.answers]
    assert [name.split(" (until ")[0] for name in former] == ["s0", "s2", "s4"]
    assert study.ids == ("s1", "s3", "s5", "s0", "s2", "s4")
    assert "1 individual joined 1 set, 1 left 1 set, 1 moved to 1 set, 1 corrected" in said
    last = study.history()[-1]
    assert (last.what, last.by) == ("pool", "ann")
    assert last.note == f"{said}: autumn"

    # the same by hand: former memberships are sets of their own, in the same order
    frame.loc[frame["id"] == 113, "size"] = 1.5
    x = pd.concat([frame, new])[["id", *X]].set_index("id")
    before = [x.index.get_indexer(frame["id"][frame["set"] == f"s{a}"]).tolist() for a in range(6)]
    at = {i: n for n, i in enumerate(x.index)}
    now = {"s0": before[0][1:], "s2": [*before[2], at[7]], "s4": [*before[4], at[113]]}
    members = [*before, *now.values()]
    members[3] = [m for m in before[3] if m != at[113]]
    own = sw.Sets.from_members(
        x, members, ids=[*former[:1], "s1", former[1], "s3", former[2], "s5", *now]
    )
    became = {0: 6, 2: 7, 4: 8}
    effects = np.array([became.get(e, e) for e in own.effects.tolist()])
    own = replace(own, effects=effects)
    pool = PoolMark(1, became)
    config = study.state.record.prepared.config
    settings = {"name": "b", "strategy": "IVR", "seed": "3", "claim_days": 7.0}
    from sumwise.model.serialize import pack_config

    settings["config"] = pack_config(config)
    prepared = config.prepare(pool.sets(own))
    other = create._store(
        tmp_path / "b.db",
        own,
        prepared,
        create.Said(study.aims, study.about),
        settings,
        None,
        {
            "history": [],
            "answers": [
                {"position": a.position, "arrival": n, "y_bar": a.y_bar, "at": a.at}
                for n, a in enumerate(study.answers)
            ],
        },
        pool,
    )
    assert_same(study, other)
    assert study.status().words == other.status().words
    # and measured members add up to their total, which former sets still hold
    found = study.predict()
    by_id = dict(
        zip(
            found.beside["id"].to_pylist()
            if hasattr(found.beside["id"], "to_pylist")
            else found.beside["id"],
            found.mean,
            strict=True,
        )
    )
    assert sum(by_id[i] for i in frame["id"][frame["set"] == "s2"]) == pytest.approx(-1.5)


def test_a_column_that_is_not_used_is_named(tmp_path):
    study = begin(tmp_path, with_lunch(table()))
    new = pd.DataFrame({"set": ["s2"], "id": [7], "size": [0.5], "lunch": [1.0], "w": [4.0]})
    assert study.change_pool(add=new).endswith("; not used: 'w'")
    assert "not used" not in study.change_pool(add=new.assign(id=8).drop(columns="w"))


def test_numbers_become_text_where_ids_are_text(tmp_path):
    frame = pd.DataFrame({"set": list("778"), "id": list("123"), "size": [0.0, 1, 2]})
    pool = sw.Sets.from_frame(frame, by="set", x=["size"], id="id")
    study = sw.create_study(tmp_path / "a.db", pool, model=sw.AggregateRegressor("linear"))
    study.change_pool(add=pd.DataFrame({"set": [7, 9], "id": [4, 5], "size": [3.0, 4]}))
    assert study.ids == ("7", "8", "9")
    assert sorted(study.sets.row_ids) == list("12345")
