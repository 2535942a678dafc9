"""Studies that begin with what is known, and totals of overlapping sets that contradict."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import sumwise as sw

RNG = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {
        "pupil": np.arange(60),
        "school": RNG.integers(0, 10, 60),
        "x": RNG.normal(size=60),
        "z": RNG.normal(size=60),
    }
)
FRAME["county"] = np.where(FRAME.school < 5, "east", "west")
FRAME["y"] = 2 * FRAME.x + 5 + 0.3 * RNG.normal(size=60)
TOTALS = FRAME.groupby("school")["y"].sum()
KNOWN = [
    TOTALS[[3]],
    FRAME[["pupil", "y"]].iloc[:4],
    FRAME.groupby("county", as_index=False)["y"].sum(),
]


def _sets():
    return sw.Sets.from_frame(FRAME, by="school", x=["x", "z"], id="pupil", areas="county")


@pytest.fixture
def study(tmp_path):
    cost = dict.fromkeys(range(10), 2.0)
    with sw.create_study(tmp_path / "s.db", _sets(), known=KNOWN, cost=cost) as made:
        yield made


def test_what_is_known_is_told_never_asked_for_and_in_history(study):
    assert repr(study).startswith("Study 'study': 1 of 10 sets measured")
    assert [each.what for each in study.history()] == ["created", *["told"] * 7]
    assert {each.note for each in study.answers} == {"known from the start"}
    status = study.status()
    assert (status.sets, status.answers, status.known, status.spent) == (10, 1, 6, 2.0)
    assert "6 individuals and areas were known from the start" in " ".join(status.words)
    asked = [question.set_id for question in study.ask(n=9)]
    assert sorted(asked) == [school for school in range(10) if school != 3]


def test_predictions_list_every_individual_once_and_keep_what_is_known(study):
    found = study.predict()
    assert len(found) == 60
    mean = pd.Series(found.mean, study.sets.row_ids[:60])
    assert_allclose(mean[range(4)], FRAME.y[:4], atol=1e-8)
    by_county = mean[FRAME.pupil].groupby(FRAME.county.to_numpy()).sum()
    assert_allclose(by_county, FRAME.groupby("county").y.sum())
    assert_allclose(mean[FRAME.pupil[FRAME.school == 3]].sum(), TOTALS[3])


def test_an_area_that_is_retracted_is_still_not_asked_for(study):
    study.retract(("county", "west"), note="wrong year")
    assert [skip.set_id for skip in study.skips] == [("county", "west")]
    assert ("county", "west") not in [question.set_id for question in study.ask(n=9)]
    assert study.status().skipped == 0  # of the sets that may be asked for
    study.tell(("county", "west"), 12.0)
    assert study.answers[-1].y_bar == 12.0


def test_export_and_import_keep_columns_answers_and_questions(study, tmp_path):
    study.export(tmp_path / "out")
    with sw.import_study(tmp_path / "out", tmp_path / "t.db") as other:
        origin = other.sets.origin
        assert (origin.by, origin.id, origin.mean, origin.extra) == (("school",), "pupil", False, 6)
        assert other.answers == study.answers
        assert other.propose(3) == study.propose(3)
        assert_allclose(other.predict().mean, study.predict().mean)


def test_a_study_begins_with_what_is_known_or_not_at_all(tmp_path):
    with pytest.raises(sw.LabelError, match="names 'county' 'north'"):
        sw.create_study(
            tmp_path / "s.db", _sets(), known=pd.DataFrame({"county": ["north"], "y": [1.0]})
        )
    assert not (tmp_path / "s.db").exists()


def test_tell_many_takes_totals_by_id(study):
    assert study.tell_many(TOTALS[[1, 2]]) == 2
    assert study.tell_many(TOTALS[[4, 5]].reset_index()) == 2
    assert study.tell_many({6: TOTALS[6]}) == 1
    assert {a.set_id: a.y_bar for a in study.answers}[5] == TOTALS[5]
    for wrong, message in (
        ({"1": 2.0}, "ids are numbers here: write 1"),
        ([1, 2], "totals are missing"),
    ):
        with pytest.raises(sw.SumwiseError, match=message):
            study.tell_many(wrong)


def _overlapping(tmp_path, *told):
    sets = sw.Sets.from_members(
        [[0.0], [1.0], [2.0], [3.0]],
        [[0], [1], [2, 3], [0, 1], [0, 1, 2, 3]],
        ids=["e", "w", "n", "ew", "all"],
    )
    with sw.create_study(tmp_path / "o.db", sets) as study:
        for set_id, total, *noise in told:
            study.tell(set_id, total, noise_std=noise[0] if noise else None)
        return study.status()


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([("e", 3), ("w", 6), ("ew", 1000)], "ew is 1000, and e and w make it 9"),
        ([("all", 20), ("n", 5), ("e", 3), ("w", 10)], "w is 10, and all, n and e make it 12"),
        ([("e", 3), ("w", 6), ("n", 1), ("ew", 9), ("all", 11)], "all is 11, and e, w and n make"),
    ],
)
def test_totals_that_contradict_each_other_are_named_first(tmp_path, told, said):
    status = _overlapping(tmp_path, *told)
    assert said in status.headline[0]
    assert status.words[0] == status.headline[0]


@pytest.mark.parametrize(
    "told",
    [
        [("e", 3), ("w", 6), ("ew", 9)],
        [("e", 0.1), ("w", 0.2), ("ew", 0.3)],
        [("e", 3), ("w", 6), ("ew", 1000, 2000)],
        [("e", 3), ("ew", 1000)],
    ],
)
def test_totals_that_agree_or_are_not_exact_are_no_contradiction(tmp_path, told):
    assert _overlapping(tmp_path, *told).contradictions == ()
