"""`Study`: answers, corrections, and what is refused as an answer."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import numpy as np
import pytest

import sumwise as sw
from tests.builders import random_sets


def test_telling_the_same_again_changes_nothing_and_another_value_is_refused(study):
    study.tell("set 1", 5.0, by="ann", note="scale 3")
    before = study.history()
    study.tell("set 1", 5, by="bob")
    assert study.history() == before
    with pytest.raises(sw.LabelError, match=r"measured already \(5 by 'ann' at .*use amend"):
        study.tell("set 1", 6.0)
    with pytest.raises(sw.LabelError, match="± 2"):
        study.tell("set 1", 5.0, noise_std=2.0)
    assert study.history() == before


def test_amending_and_retracting_keep_everything_in_history(study):
    study.tell("set 1", 5.0, by="ann", note="first", noise_std=2.0)
    study.tell("set 2", 7.0)
    study.amend("set 1", 6.0, by="bob", note="misread")
    study.amend("set 1", 6.0)  # nothing new
    study.amend("set 1", 6.0, noise_std=0, by="bob")
    told = [(t.set_id, t.y_bar, t.noise_std, t.by) for t in study.answers]
    assert told == [("set 1", 6.0, None, "bob"), ("set 2", 7.0, None, None)]
    study.retract("set 1", by="eve", note="broken")
    assert [t.set_id for t in study.answers] == ["set 2"]
    study.tell("set 1", 9.0)
    assert [t.set_id for t in study.answers] == ["set 2", "set 1"]  # it has arrived anew
    lines = [(e.what, e.y_bar, e.noise_std, e.by, e.note) for e in study.history()[1:]]
    assert lines == [
        ("told", 5.0, 2.0, "ann", "first"),
        ("told", 7.0, None, None, None),
        ("amended", 6.0, 2.0, "bob", "misread"),
        ("amended", 6.0, None, "bob", None),
        ("retracted", 6.0, None, "eve", "broken"),
        ("told", 9.0, None, None, None),
    ]
    assert [event.number for event in study.history()] == list(range(1, 8))
    assert all(datetime.fromisoformat(e.at).utcoffset() == timedelta(0) for e in study.history())


@pytest.mark.parametrize("act", ["amend", "retract"])
def test_what_was_never_told_cannot_be_changed(study, act):
    with pytest.raises(sw.LabelError, match="'set 1' is not measured yet"):
        getattr(study, act)(*{"amend": ("set 1", 2.0), "retract": ("set 1",)}[act])


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, "5", "1,234.5", None, [1.0], 1e200, 1j, "nan"]
)
def test_a_total_that_is_no_number_is_refused_and_nothing_is_stored(study, value):
    with pytest.raises(sw.LabelError, match="total of set 'set 1' is"):
        study.tell("set 1", value)
    with pytest.raises(sw.LabelError, match="noise_std of set 'set 1' is"):
        study.tell("set 1", 1.0, noise_std="x" if value is None else value)
    assert study.answers == ()
    assert len(study.history()) == 1


@pytest.mark.parametrize("value", [-1.0, math.nan])
def test_noise_below_zero_is_refused(study, value):
    with pytest.raises(sw.LabelError, match="at least 0"):
        study.amend("set 1", 1.0, noise_std=value)


def test_unknown_sets_are_refused(study):
    for act in (study.release, study.renew, study.retract):
        with pytest.raises(sw.UnknownSetError):
            act("nowhere")
    for act in (study.tell, study.amend):
        with pytest.raises(sw.UnknownSetError):
            act("nowhere", 1.0)
    with pytest.raises(sw.UnknownSetError):
        study.tell(["set 1"], 1.0)


@pytest.mark.parametrize("text", [5, "a\0b", "\ud800", "x" * 10_001, b"ann"])
def test_text_that_no_database_keeps_is_refused(study, text):
    for call in (
        lambda: study.ask(by=text),
        lambda: study.tell("set 1", 1.0, by=text),
        lambda: study.tell("set 1", 1.0, note=text),
    ):
        with pytest.raises(sw.SettingError, match=r"(by|note) is"):
            call()
    assert len(study.history()) == 1


@pytest.mark.parametrize("n", [0, -1, True, 1.0, "2"])
def test_a_batch_is_a_whole_number(study, n):
    with pytest.raises(sw.SettingError, match="whole number of at least 1"):
        study.ask(n)


def test_an_id_that_is_equal_finds_the_set(tmp_path):
    sets = random_sets([1, 2, 3], np.random.default_rng(0))  # ids 0, 1, 2
    with sw.create_study(tmp_path / "a.db", sets) as study:
        study.tell(np.float64(2.0), np.float32(1.5))
        assert study.answers[0].set_id == 2
        assert isinstance(study.answers[0].set_id, int)
        study.tell(0, -0.0)
        assert math.copysign(1, study.answers[1].y_bar) == 1
