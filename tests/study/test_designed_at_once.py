"""Studies that design their sets, while others work on them: every moment holds together."""

from __future__ import annotations

import numpy as np
import pytest

import sumwise as sw
from tests.studies import LINEAR


def single(n=12, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 2))
    return sw.Sets.from_arrays([row[None] for row in x], ids=[f"tube {k}" for k in range(n)])


@pytest.fixture
def designs(tmp_path):
    design = {"size": (2, 3), "uses": 1, "cost": 5.0, "cost_per_member": 1.0, "noise_std": 0.1}
    with sw.create_study(tmp_path / "a.db", single(), model=LINEAR, design=design) as study:
        yield study


def test_members_are_named_rightly_where_given_sets_overlap(tmp_path):
    x = np.random.default_rng(1).normal(size=(8, 2))
    members = [[0, 1, 2], [2, 3], [4, 5], [6, 7, 0]]
    sets = sw.Sets.from_members(x, members, ids=list("abcd"))
    with sw.create_study(tmp_path / "a.db", sets, model=LINEAR, design={"size": (2, 8)}) as study:
        designing = study.state.record.designing
        for row, (owner, number) in enumerate(designing.names):
            own = sets[owner].x[number - 1]
            np.testing.assert_array_equal(designing.candidates.x[row], own)
            np.testing.assert_array_equal(sets.x[designing.rows[row]], own)
        assert len(designing.names) == len(x)


def test_questions_for_an_earlier_moment_do_not_wait_for_a_later_one(designs, tmp_path):
    state = designs.state
    before = state.snapshot()
    state.fitted(before)
    with sw.open_study(tmp_path / "a.db") as other:
        asked = other.ask()
    state.snapshot()  # which takes note of the pool
    found = state.propose(before, 2)
    assert found[0].pool.rows == asked.pool.rows
    fit, aims = state.with_proposed(state.fitted(before), found)
    assert len(fit.pool.sets) == len(aims.cost) == len(aims.noise_std)


def test_a_pool_that_is_newer_than_the_model_has_an_expectation(designs):
    state = designs.state
    for total in range(3):
        designs.tell(designs.ask().set_id, float(total))
    held = state.fitted()
    asked = designs.ask()
    position = designs.state.record.sets.position(asked.set_id)
    assert state.recent_fit(1).model is held.model  # which knew of no such pool
    assert position >= len(held.pool.sets)
    mean, std = state.recent_fit(1).totals([position])
    assert mean[0] == pytest.approx(asked.expected)
    assert std[0] == pytest.approx(asked.std)


def test_individuals_who_are_set_aside_are_in_no_pool(designs):
    first = designs.ask()
    designs.skip("tube 0" if 0 not in first.pool.rows else "tube 1")
    words = designs.status().words[0]
    assert f"{len(first.pool.rows)} of 12 individuals are in them" in words
    assert designs.progress == (0, 1)
    designs.release(first.set_id)
    assert "0 of 12 individuals are in them" in designs.status().words[0]
