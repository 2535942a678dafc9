"""How alike inputs are within sets, against an analysis of variance written out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sumwise.data.targets import BatchInputs, Inputs
from sumwise.model.basis.auto import CLUSTERS, DRAWN, PANELS, prior_correlation
from tests.builders import seeds


def share_between(x, starts):
    """What sets explain of the variance, less what sets at random explain: one-way ANOVA."""
    out = []
    for column in x.T:
        sets = [column[low:high] for low, high in pairwise(starts)]
        grand = column.mean()
        whole = sum((v - grand) ** 2 for v in column)
        if len(sets) == len(column) or not whole:
            out.append(0.0)
            continue
        inside = sum((v - s.mean()) ** 2 for s in sets for v in s)
        by_chance = (len(sets) - 1) * inside / (len(column) - len(sets))
        out.append(min(1.0, max(0.0, (whole - inside - by_chance) / whole)))
    return out


def some(sizes, effect, rng):
    """Inputs whose variance is 1, of which `effect` is between sets."""
    means = rng.normal(size=(len(sizes), len(effect)))
    noise = rng.normal(size=(sum(sizes), len(effect)))
    x = np.sqrt(effect) * np.repeat(means, sizes, axis=0) + np.sqrt(1 - np.array(effect)) * noise
    return x, np.cumsum([0, *sizes])


sizes = st.lists(st.integers(1, 6), min_size=1, max_size=9)


@given(sizes, seeds, st.sampled_from([1e-8, 1.0, 1e8]), st.sampled_from([0.0, 1.0, -50.0]))
def test_inputs_are_as_alike_as_an_analysis_of_variance_says(sizes, seed, unit, away):
    x, starts = some(sizes, [0.0, 0.5, 1.0], np.random.default_rng(seed))
    x = unit * (x + away)
    assert_allclose(Inputs.of(x, starts).alike, share_between(x, starts), rtol=1e-6, atol=1e-6)


@given(sizes, st.sets(st.integers(1, 40)), seeds)
def test_batches_are_as_alike_as_all_at_once_wherever_they_end(sizes, cuts, seed):
    rng = np.random.default_rng(seed)
    x, starts = some(sizes, [0.1, 0.9], rng)
    x = rng.normal(0, 1e3, 2) + x
    ends = sorted({0, *(cut for cut in cuts if cut < len(x)), len(x)})
    batches = []
    for low, high in pairwise(ends):
        inside = [start - low for start in starts if low < start < high]
        batch = BatchInputs.of(x[low:high], np.array([0, *inside]), x[low : low + 1], x[low:high])
        batches.append(replace(batch, continues=low not in starts))
    expected = share_between(x, starts)
    assert_allclose(Inputs.combine(batches).alike, expected, rtol=1e-6, atol=1e-6)


def test_sets_of_one_member_and_constant_inputs_have_nothing_in_common():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=12), np.full(12, 0.1), np.zeros(12)])
    assert (Inputs.of(x, np.arange(13)).alike == 0).all()
    assert (Inputs.of(x).alike == 0).all()  # sets that are not known
    assert (Inputs.of(x, np.array([0, 5, 12])).alike[1:] == 0).all()
    assert (Inputs.of(x, np.array([0, 12])).alike < 1e-15).all()  # one set has no others beside it


@pytest.mark.parametrize("size", [2, 30])
def test_the_share_between_sets_is_that_of_the_draw(size):
    """Random pools share nothing, an input of the set all, and others what they were made of."""
    truth = [0.0, 0.3, 0.7, 1.0]
    sizes = np.random.default_rng(1).integers(size, 2 * size, 2_000).tolist()
    x, starts = some(sizes, truth, np.random.default_rng(2))
    assert_allclose(Inputs.of(x, starts).alike, truth, atol=0.04)


@pytest.mark.parametrize(
    ("sizes", "effect", "expected"),
    [
        ([10] * 50, [0.0, 0.0], DRAWN),
        ([5, 10, 15] * 20, [0.0, 0.0], DRAWN),
        ([1] * 30, [0.5, 0.5], DRAWN),
        ([10] * 50, [0.9, 0.5], PANELS),
        ([10] * 500, [0.1, 0.1], CLUSTERS),
        ([5, 10, 15] * 20, [0.9, 0.5], CLUSTERS),
        ([50], [0.9, 0.9], DRAWN),
    ],
)
def test_sets_show_of_which_kind_they_are(sizes, effect, expected):
    """Drawn at random, repeated observations of units, or groups as they are."""
    x, starts = some(sizes, effect, np.random.default_rng(0))
    assert prior_correlation(np.array(sizes), Inputs.of(x, starts)) == expected


def test_inputs_that_do_not_vary_say_nothing_of_the_kind_of_sets():
    x, starts = some([6] * 30, [0.9, 0.5], np.random.default_rng(0))
    with_constants = np.column_stack([x, np.ones((len(x), 20 * x.shape[1]))])
    sizes = np.diff(starts)
    assert prior_correlation(sizes, Inputs.of(x, starts)) == PANELS
    assert prior_correlation(sizes, Inputs.of(with_constants, starts)) == PANELS
    assert prior_correlation(sizes, Inputs.of(np.ones((len(x), 2)), starts)) == DRAWN
