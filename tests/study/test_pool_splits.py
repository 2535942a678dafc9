"""Sets that are split and merged, with all that a study may know; by several programs at once."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import sumwise as sw

from .test_pool_change import X, assert_same, table, with_lunch

THETA = {"sum": "sum", "mean": "mean", "own": "theta"}
MERGED = {"s1": "s2", "s5": "s5 north"}  # s1 joins s2, and half of s5 becomes another set


def people(weights):
    frame = with_lunch(table())
    rng = np.random.default_rng(5)
    theta = rng.uniform(0.5, 2, len(frame)) * rng.choice([-1.0, 1.0], len(frame))
    return frame.assign(theta=theta if weights == "own" else 1.0)


def moved(frame):
    which = (frame["set"] == "s1") | frame["id"].isin([121, 122])
    return frame[which].assign(set=frame["set"].map(MERGED))


def begin(place, frame, weights="own", known=("cost", "noise_std"), **options):
    sets = sw.Sets.from_frame(frame, by="set", x=X, id="id", weights=THETA[weights])
    at = {name: i for i, name in enumerate([f"s{a}" for a in range(6)])}
    number = np.array([at.get(name, 6) for name in sets.ids])
    options |= {"cost": 1.0 + number, "noise_std": number / 8} if known else {}
    return sw.create_study(place, sets, seed=3, **options)


@pytest.mark.parametrize(
    "weights", [w if w == "own" else pytest.param(w, marks=pytest.mark.slow) for w in THETA]
)
def test_splitting_and_merging_equal_a_fresh_study(tmp_path, weights):
    frame, targets = people(weights), with_lunch(table(1))[X].iloc[:5]
    study = begin(tmp_path / "a.db", frame, weights, targets=targets, target_weights=range(5))
    for set_id, total, noise in (("s0", 3.0, 0.2), ("s4", 2.25, None)):
        study.tell(set_id, total, noise_std=noise)
    study.skip("s1", by="ann")
    move = moved(frame)
    said = study.change_pool(correct=move[["id", "set"]], cost=7.0, noise_std=0.75)
    assert said == "5 individuals moved to 2 sets, 1 set new, 1 set gone"
    assert study.skips == ()
    order = pd.concat([frame[~frame["id"].isin(move["id"])], move])
    fresh = begin(tmp_path / "b.db", order, weights, targets=targets, target_weights=range(5))
    for set_id, total, noise in (("s0", 3.0, 0.2), ("s4", 2.25, None)):
        fresh.tell(set_id, total, noise_std=noise)
    assert_same(study, fresh, 1e-12)  # a set that is gone keeps a row, and sums are rounded so
    for name in ("cost", "noise_std"):
        np.testing.assert_array_equal(getattr(study.aims, name), getattr(fresh.aims, name))
    study.export(tmp_path / "out")
    with sw.import_study(tmp_path / "out", tmp_path / "c.db") as again:
        assert_same(study, again)


def test_a_set_that_is_claimed_is_not_merged_and_one_that_comes_back_is_not_skipped(tmp_path):
    frame = people("own")
    study = begin(tmp_path / "a.db", frame, known=())
    study.claim("s1", by="ann")
    move = moved(frame)[["id", "set"]]
    with pytest.raises(sw.SettingError, match=r"set 's1' would lose its last member, and 'ann'"):
        study.change_pool(correct=move)
    study.release("s1")
    study.skip("s1", note="refuses")
    study.change_pool(correct=move)
    study.change_pool(correct=move.assign(set="s1").iloc[:3])
    assert study.skips == ()
    assert "s1" in {ask.set_id for ask in study.propose(9)}
    np.testing.assert_array_equal(sorted(study.sets["s1"].row_ids), [104, 105, 106])


def test_networks_learn_anew_from_the_changed_pool(tmp_path):
    frame, told = people("sum"), [("s0", 3.0), ("s2", -1.5)]
    basis = sw.Neural(width=4, depth=2, n_basis=3, epochs=5)
    model = sw.AggregateRegressor(basis, random_state=1)
    drop = pd.DataFrame({"id": [104]})
    study = begin(tmp_path / "a.db", frame, "sum", (), model=model, strategy="AggMI")
    study.tell_many(dict(told))
    study.predict()  # what was learned is kept, and must not be used any more
    study.change_pool(drop=drop)
    fresh = begin(
        tmp_path / "b.db", frame[frame["id"] != 104], "sum", (), model=model, strategy="AggMI"
    )
    fresh.tell_many(dict(told))
    assert_same(study, fresh)


ADDS = """
import sys, pandas as pd, sumwise as sw
study, first = sw.open_study(sys.argv[1]), int(sys.argv[2])
sys.stdin.readline()
for own in range(first, first + 3):
    row = {"set": ["s0"], "id": [own], "size": [0.5], "lunch": [own / 1e3], "theta": [1.0]}
    while True:
        try:
            study.change_pool(add=pd.DataFrame(row), weights="theta")
            break
        except sw.StorageError as error:
            assert "Do this again" in str(error), error
"""


def test_programs_that_change_a_pool_at_once_take_turns(place):
    with begin(place, people("own"), known=()) as study:
        study.tell("s0", 3.0)
        command = [sys.executable, "-c", ADDS, str(place)]
        options = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "env": os.environ}
        running = [subprocess.Popen([*command, at], **options) for at in ("1000", "2000")]
        errors = [each.communicate(b"go\n", timeout=60)[1] for each in running]
        assert [each.returncode for each in running] == [0, 0], errors
        ids = {int(i) for i in study.sets["s0"].row_ids}
        assert ids == {100, 101, 102, 103, *range(1000, 1003), *range(2000, 2003)}
        assert sum(event.what == "pool" for event in study.history()) == 6
        assert study.state.record.pool.changes == 6
