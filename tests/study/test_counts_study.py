"""A study of counts, shares or amounts: it survives restarts, export, import and a changed pool."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sumwise as sw
from sumwise.errors import DataError, InvalidSetError, LabelError, SettingError
from sumwise.study.storage.blobs import unpack_sets


def areas(n_sets=14, seed=0, size=4):
    """Areas with a population, of which `deaths` die."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"county": [f"c{a}" for a in np.repeat(range(n_sets), size)]})
    frame["area"] = np.arange(len(frame))
    frame["age"] = rng.uniform(0, 1, len(frame)).round(3)
    frame["people"] = rng.integers(50, 900, len(frame))
    frame["deaths"] = rng.poisson(frame.people * np.exp(-4 + 1.5 * frame.age))
    return frame


def sets_of(frame, **by):
    by = by or {"exposure": "people"}
    return sw.Sets.from_frame(frame, by="county", x=["age"], id="area", **by)


def totals_of(frame):
    return frame.groupby("county").deaths.sum().to_dict()


def asked(study, totals, n):
    """Ids of `n` questions, each answered before the next."""
    found = []
    for _ in range(n):
        question = study.ask()
        study.tell(question.set_id, totals[question.set_id])
        found.append(question.set_id)
    return found


def test_a_restarted_study_of_counts_asks_the_same_questions_as_a_learner(tmp_path):
    frame = areas()
    sets, totals = sets_of(frame), totals_of(areas())
    with sw.create_study(tmp_path / "a.db", sets, outputs="counts") as study:
        questions = asked(study, totals, 5)
    with sw.open_study(tmp_path / "a.db") as study:
        assert study.about.outputs == "counts"
        assert study.model.outputs == "counts"
        questions += asked(study, totals, 5)
        found = study.predict().to_pandas()
    learner = sw.ActiveLearner(sets, outputs="counts")
    assert asked(learner, totals, 10) == questions
    pd.testing.assert_frame_equal(found, learner.predict().to_pandas())
    sums = found.groupby("set")["mean"].sum()
    for name in questions:
        assert sums[name] == pytest.approx(totals[name], rel=1e-9)
    assert (found.lower >= 0).all()
    assert (found[["lower", "upper"]] % 1 == 0).all().all()
    np.testing.assert_allclose(found.rate, found["mean"] / sets.theta)


def test_an_exported_study_of_counts_comes_back_and_says_what_it_measures(tmp_path):
    frame = areas()
    about = {"outputs": "counts", "outcome": "deaths"}
    with sw.create_study(tmp_path / "a.db", sets_of(frame), **about) as study:
        asked(study, totals_of(frame), 3)
        study.export(tmp_path / "out")
        before = study.predict().to_pandas()
    with sw.import_study(tmp_path / "out", tmp_path / "b.db") as study:
        assert study.about.title == "count of deaths"
        assert study.sets.origin.weights == "people"
        pd.testing.assert_frame_equal(study.predict().to_pandas(), before)
        new = frame[["county", "age", "people"]]
        np.testing.assert_allclose(study.predict(new).mean, before["mean"])
        rates = study.predict(frame[["age"]]).to_pandas()
        assert (rates["mean"] == rates.rate).all()


@pytest.mark.parametrize(("line", "words"), [("2.5", "not a whole number"), ("-4", "at least 0")])
def test_an_edited_export_with_totals_that_no_counts_have_is_refused(tmp_path, line, words):
    import hashlib
    import json

    frame = areas()
    with sw.create_study(tmp_path / "a.db", sets_of(frame), outputs="counts") as study:
        study.tell("c1", 1234)
        study.export(tmp_path / "out")
    for name in ("answers.csv", "history.csv"):
        path = tmp_path / "out" / name
        path.write_text(path.read_text().replace("1234.0", line).replace("1234", line))
    head = json.loads((tmp_path / "out" / "study.json").read_text())
    for name in ("answers.csv", "history.csv"):
        content = (tmp_path / "out" / name).read_bytes()
        head["sha256"][name] = hashlib.sha256(content).hexdigest()
    (tmp_path / "out" / "study.json").write_text(json.dumps(head))
    with pytest.raises(DataError, match=words):
        sw.import_study(tmp_path / "out", tmp_path / "b.db")


def test_the_pool_of_a_study_of_counts_changes_where_nothing_is_measured(tmp_path):
    frame = areas()
    with sw.create_study(tmp_path / "a.db", sets_of(frame), outputs="counts") as study:
        study.tell("c0", totals_of(frame)["c0"])
        new = pd.DataFrame({"county": ["c1", "new"], "area": [900, 901], "age": [0.2, 0.4]})
        said = study.change_pool(add=new.assign(people=[100, 200]))
        assert said.startswith("2 individuals joined 2 sets, 1 set new")
        assert "people" not in said
        assert study.sets.theta.sum() == frame.people.sum() + 300
        study.change_pool(drop=pd.DataFrame({"county": ["c2"], "area": [8]}))
        study.change_pool(correct=pd.DataFrame({"county": ["c0"], "area": [0], "age": [0.9]}))
        found = study.predict().to_pandas()
        sums = found.groupby("set")["mean"].sum()
        assert sums["c0"] == pytest.approx(totals_of(frame)["c0"])
        with pytest.raises(SettingError, match="Retract its answer first"):
            study.change_pool(drop=pd.DataFrame({"county": ["c0"], "area": [1]}))
        with pytest.raises(InvalidSetError, match="exposure is 0; it must be above 0"):
            study.change_pool(add=new.assign(people=[100, 0], area=[910, 911]))
        assert "c0" in study.ids


def test_answers_that_cannot_be_are_refused_and_nothing_is_stored(tmp_path):
    frame = areas()
    sets = sets_of(frame, trials="people")
    with sw.create_study(tmp_path / "a.db", sets, outputs="shares") as study:
        most = int(frame.people[frame.county == "c3"].sum())
        for total, words in (
            (2.5, "give the count, not the rate or the share"),
            (-1, "a count is at least 0"),
            (most + 1, "more successes than trials"),
        ):
            with pytest.raises(LabelError, match=words):
                study.tell("c3", total)
            with pytest.raises(LabelError, match=words):
                study.tell_many({"c1": 5, "c3": total})
        own = frame.people[frame.area == 12].item()
        with pytest.raises(LabelError, match=f"it has {own} trials"):
            study.tell("c3", own + 1, of=[12])
        assert study.answers == ()
        study.tell("c3", most)
        with pytest.raises(LabelError, match="at least 0"):
            study.amend("c3", -1)
        assert study.answers[0].y_bar == most


def test_known_totals_of_counts_are_first_answers_and_checked(tmp_path):
    frame = areas()
    sets = sets_of(frame)
    with sw.create_study(tmp_path / "a.db", sets, outputs="counts", known={"c1": 7}) as study:
        assert study.answers[0].y_bar == 7
        assert study.predict().to_pandas().groupby("set")["mean"].sum()["c1"] == pytest.approx(7)
    for known, words in (
        ({"c1": 7.5}, "not a whole number"),
        (pd.DataFrame({"area": [1], "deaths": [3]}), "would overlap"),
        (pd.DataFrame({"set": ["c1"], "total": [3], "noise_std": [2.0]}), "noise of their own"),
    ):
        with pytest.raises((LabelError, SettingError), match=words):
            sw.create_study(tmp_path / "b.db", sets, outputs="counts", known=known)
    assert not (tmp_path / "b.db").exists()


def test_the_column_of_exposures_is_stored_with_the_sets(tmp_path):
    from sumwise.study.storage.blobs import pack_sets

    sets = sets_of(areas())
    assert unpack_sets(pack_sets(sets)).origin.weights == "people"
