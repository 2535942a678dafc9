"""Disks whose locks do not keep others out: SQLite refuses in words, and nothing is damaged."""

from __future__ import annotations

import os

import pytest

import sumwise as sw
from tests.marks import slow
from tests.reliability import children, invariants, preload
from tests.reliability.children import run
from tests.studies import small_study


@pytest.fixture
def path(tmp_path):
    return small_study(tmp_path / "a.db")


@pytest.mark.parametrize("locks", ["refused", *slow("ignored")])
def test_a_disk_without_locks_is_refused_in_words(path, tmp_path, locks):
    calls = tmp_path / "calls"
    calls.mkdir()
    here = preload.before(preload.LOCKS, calls, LOCKS=locks)
    run(children.is_told_that_locks_are_missing, path, within=here)
    assert sorted(os.listdir(tmp_path)) == ["a.db", "calls"]
    invariants.check(path)
    with sw.open_study(path) as study:
        assert [answer.y_bar for answer in study.answers] == [5.0]


@pytest.mark.slow
def test_tokens_on_a_disk_without_locks_are_kept_with_a_warning(tmp_path):
    here = preload.before(preload.LOCKS, tmp_path, LOCKS="refused")
    run(children.is_warned_that_tokens_are_not_locked, tmp_path, within=here)
