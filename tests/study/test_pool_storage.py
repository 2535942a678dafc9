"""A changed pool in its database: others notice, exports carry it, crashes leave the former."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import sumwise as sw
from sumwise.study.storage import blobs

from .test_pool_change import X, assert_same, sets_of, table, with_lunch

NEW = pd.DataFrame({"set": ["s2", "z"], "id": [7, 8], "size": [0.5, 2.0], "lunch": [1.0, 0.0]})


@pytest.fixture
def study(place):
    with sw.create_study(place, sets_of(with_lunch(table()), weights="mean"), seed=3) as made:
        made.tell("s0", 3.0)
        made.tell("s2", -1.5)
        yield made


def test_other_open_studies_notice(study, place):
    with sw.open_study(place) as other:
        stale = other.state
        assert other.ask().set_id in study.ids
        study.change_pool(add=NEW)
        with pytest.raises(sw.StorageError, match="has just been changed by another program"):
            stale.snapshot()
        with pytest.raises(sw.StorageError, match="nothing was stored"):
            stale.claim(["ann"])
        other.tell("z", 4.0)  # a set that was not there when it was opened
        other.tell("s2", 5.0)  # of the members it has now
        assert [a.y_bar for a in study.answers] == [3.0, -1.5, 4.0, 5.0]
        assert_same(study, other)


def test_export_and_import_carry_it(study, tmp_path):
    study.change_pool(add=NEW, drop=pd.DataFrame({"id": [112, 113]}))  # all of s3
    assert "s3" not in study.ids
    study.export(tmp_path / "out")
    with sw.import_study(tmp_path / "out", tmp_path / "b.db") as other:
        assert_same(study, other)
        assert [e.note for e in other.history()] == [e.note for e in study.history()]
        again = pd.DataFrame({"set": ["s3"], "id": [113], "size": [0.1], "lunch": [0.2]})
        for each in (study, other):
            each.change_pool(add=again)  # it comes back where it was
        assert_same(study, other)
        assert study.ids.index("s3") == 2


def test_means_stay_means(study):
    study.change_pool(add=NEW)
    sets = study.sets
    np.testing.assert_array_equal(sets.theta, np.repeat(1 / sets.sizes, sets.sizes))


def test_a_former_set_is_neither_asked_for_nor_told(study):
    study.change_pool(add=NEW)
    former = study.answers[1].set_id
    with pytest.raises(sw.SettingError, match="not part of the pool any more; it is 's2' now"):
        study.claim(former)
    study.amend(former, -1.0)
    study.retract(former)
    with pytest.raises(sw.SettingError, match="not part of the pool"):
        study.tell(former, 2.0)
    assert former not in [ask.set_id for ask in study.propose(20)]
    assert len(study.propose(20)) == len(study.ids) - 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"drop": {"id": [100, 9]}}, "drop, row 1: no individual in the pool has the id '9'"),
        ({"drop": {"id": [100, 100]}}, "row 1 of set 's0' is named twice"),
        ({"drop": {"id": [120, 121, 122]}}, "'ann' is measuring it"),
        (
            {"add": {"set": ["z"], "id": [100], "size": [1.0], "lunch": [2.0]}},
            "with the id '100' alr",
        ),
        (
            {"add": {"set": ["z"], "id": [7], "size": ["big"], "lunch": [2.0]}},
            "'size' is 'big', not",
        ),
        ({"add": {"set": ["z"], "id": [7], "size": [None], "lunch": [2.0]}}, "'size' is missing"),
        ({"add": {"set": ["z"], "id": [7], "size": [1.0]}}, "no column 'lunch'"),
        ({"add": {"id": [7], "size": [1.0], "lunch": [2.0]}}, "no column 'set'"),
        ({"correct": {"id": [100], "set": ["s0"]}}, "nothing would change"),
        ({"correct": {"id": [100], "size": [1.0]}, "drop": {"id": [100]}}, "is named twice"),
        ({"drop": {"id": list(range(100, 123))}}, "no set would be left"),
        ({}, "give add, drop or correct"),
    ],
)
def test_refusals_change_nothing(study, given, said):
    study.claim("s5", by="ann")
    before = study.state.changes(), study.ids
    with pytest.raises(sw.SumwiseError, match=said):
        study.change_pool(**{kind: pd.DataFrame(rows) for kind, rows in given.items()})
    assert (study.state.changes(), study.ids) == before


def test_without_ids_individuals_are_named_by_set_and_row(tmp_path):
    frame = with_lunch(table())
    kept = sw.Sets.from_frame(frame, by="set", x=X)
    with sw.create_study(tmp_path / "a.db", kept, cost=2.0) as study:
        study.change_pool(
            drop=pd.DataFrame({"set": ["s1"], "row": [2]}),
            correct=pd.DataFrame({"set": ["s1"], "row": [3], "lunch": [8.0]}),
        )
        np.testing.assert_array_equal(study.sets["s1"].x[:, 0], frame["size"][[4, 6]])
        assert study.sets["s1"].x[1, 1] == 8.0
        with pytest.raises(sw.SettingError, match="set 'z' is new, and the study has for each"):
            study.change_pool(add=NEW)
        study.change_pool(add=NEW, cost=5.0)
        assert study.aims.cost.tolist() == [*[2.0] * 6, 5.0]


def test_a_large_study_and_its_file_change_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(blobs, "LARGE", 1)
    frame = with_lunch(table())
    file = tmp_path / "sets.parquet"
    made = [
        sw.create_study(tmp_path / "a.db", sets_of(frame), seed=3, sets_file=file),
        sw.create_study(tmp_path / "b.db", sets_of(pd.concat([frame, NEW])), seed=3),
    ]
    made[0].change_pool(add=NEW)
    for study in made:
        study.tell("s0", 3.0)
    assert (tmp_path / "sets-1.parquet").exists()
    assert_same(*made)
    (tmp_path / "sets-2.parquet").write_bytes(b"of a program that was killed before it was done")
    made[0].change_pool(drop=pd.DataFrame({"id": [100]}))
    assert sw.open_study(tmp_path / "a.db").predict_sets().ids[-1] == "s0"


KILLED = """
import sys, os, signal, pandas as pd, sumwise as sw
from sumwise.study.storage.transactions import Transaction
study = sw.open_study(sys.argv[1])
advance = Transaction._advance
def die(self, **counts):  # when all blobs are replaced and nothing is committed
    os.kill(os.getpid(), signal.SIGKILL)
Transaction._advance = die
study.change_pool(drop=pd.DataFrame({"id": [100]}))
"""


def test_a_program_that_is_killed_leaves_the_former_pool(study, place):
    before = study.predict().mean
    done = subprocess.run([sys.executable, "-c", KILLED, str(place)], env=os.environ)
    assert done.returncode == -signal.SIGKILL
    for _ in range(50):  # a server notices a moment later
        time.sleep(0.1)
        with sw.open_study(place) as other:
            if len(other.history()) == 3:
                break
    np.testing.assert_array_equal(other.predict().mean, before)
    study.change_pool(drop=pd.DataFrame({"id": [100]}))
    assert len(study.predict().mean) == len(before) - 1
