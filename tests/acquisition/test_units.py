"""Units of candidates that go into pools together: their members, codes and conflicts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sumwise.acquisition import pool_units
from sumwise.acquisition.pool_units import Lists

lists = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), max_size=6)


def built(members):
    owner = np.repeat(np.arange(len(members)), [len(each) for each in members]).astype(int)
    flat = np.array([n for each in members for n in each], dtype=int)
    return Lists.of(owner, flat, len(members))


@given(lists, st.integers(0, 99))
def test_lists_give_what_was_put_in(members, seed):
    made, rng = built(members), np.random.default_rng(seed)
    assert [made[n].tolist() for n in range(len(members))] == members
    which = rng.permutation(len(members))[: len(members) // 2 + 1].astype(int)
    joined, sizes = made.joined(which)
    assert joined.tolist() == [n for at in which for n in members[at]]
    assert sizes.tolist() == [len(members[at]) for at in which]


@given(lists, st.lists(st.integers(0, 3), min_size=10, max_size=10))
def test_a_unit_has_the_code_that_all_its_candidates_have(members, codes):
    found = pool_units._same(np.array(codes), built(members))
    of_each = [{codes[n] for n in each} for each in members]
    assert found.tolist() == [min(each) if len(each) == 1 else -1 for each in of_each]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=12))
def test_units_with_two_of_one_class_are_conflicts(pairs):
    found = pool_units._without_conflict(np.array(pairs, dtype=int).reshape(-1, 2), 5)
    assert found.tolist() == [all(pairs.count((n, c)) < 2 for c in range(4)) for n in range(5)]
