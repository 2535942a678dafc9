"""Pools that are designed round after round, as a user of Python does it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.data.pool_rules import PoolRules
from sumwise.learning.pools import candidates_of, design

PEOPLE = pd.DataFrame(
    {
        "id": [f"p{n}" for n in range(12)],
        "age": [30.0, 41, 35, 62, 58, 44, 71, 39, 66, 50, 33, 47],
        "sex": list("fmfmffmmfmfm"),
    }
)
SETS = sw.Sets.from_arrays([[[0.0, 1.0]], [[1.0, 0.5]]])
OUTCOME = PEOPLE["age"] / 10 + 2 * (PEOPLE["sex"] == "f")


def fitted(pools=None):
    everyone = sw.Sets.from_frame(PEOPLE, by="id", x=["age", "sex"])
    if pools is None:
        return sw.AggregateRegressor("linear").fit(everyone[:0], [], pool=everyone)
    sums = np.add.reduceat(pools.theta * OUTCOME.to_numpy()[pools.members], pools.starts[:-1])
    return sw.AggregateRegressor("linear").fit(
        pools, dict(zip(pools.ids, sums, strict=True)), pool=everyone
    )


def rounds(n, **rules):
    pools = None
    for _ in range(n):
        more = sw.design_pools(PEOPLE, fitted(pools), n=2, size=(2, 3), **rules)
        pools = more if pools is None else sw.Sets.concat([pools, more])
    return pools


def test_told_pools_keep_their_names_and_members_and_tables_stay_readable():
    pools = rounds(2, uses=1)
    assert pools.ids == ("pool 1", "pool 2", "pool 3", "pool 4")
    assert len(np.unique(pools.members)) == len(pools.members)
    predicted = fitted(pools).predict(PEOPLE)  # text columns and all
    assert np.abs(predicted - OUTCOME).max() < 0.5


def test_members_have_an_effect_in_common_with_their_own_pool_only():
    pools = rounds(3, effect=True)
    own = [set(pools[name].effects.tolist()) for name in pools.ids]
    assert [len(each) for each in own] == [1] * 6
    assert len(set.union(*own)) == 6
    assert min(set.union(*own)) >= len(PEOPLE)  # nor with one who is measured alone


def test_pools_that_are_being_measured_keep_their_names():
    first = sw.design_pools(PEOPLE, fitted(), n=2, size=2, effect=True)
    second = sw.design_pools(PEOPLE, fitted(), size=2, effect=True, pending=first)
    assert second.ids == ("pool 3",)
    assert second.effects.min() > first.effects.max()


def test_a_notebook_lists_members_by_the_users_ids_and_rows_otherwise():
    named = sw.Sets.from_frame(PEOPLE, by="id", x=["age", "sex"], id="id")
    pools = sw.design_pools(named, fitted(), size=2)
    rows = pools.rows[0].tolist()
    assert f"<td>p{rows[0]}, p{rows[1]}</td>" in pools._repr_html_()
    assert f"{100 * pools.certificates[0].fraction:.0f} %" in pools._repr_html_()
    plain = sw.design_pools(PEOPLE, fitted(), size=2)
    assert f"<td>{rows[0]}, {rows[1]}</td>" in plain._repr_html_()
    assert repr(plain).startswith("Pools: 1 set of 2 instances")


def test_nobody_to_choose_from_and_pools_of_others_are_refused():
    with pytest.raises(sw.SettingError, match="there are no candidates"):
        sw.design_pools(PEOPLE[:0], fitted())
    with pytest.raises(sw.SettingError, match="give pools that design_pools made"):
        sw.design_pools(PEOPLE, fitted(), pending=["pool 1"])


def test_the_effect_of_a_pool_that_is_expected_is_none_of_those_that_were_measured():
    x = np.random.default_rng(0).normal(size=(40, 2))
    first = sw.design_pools(x, sw.AggregateRegressor().fit(SETS[:0], [], pool=SETS), 4, effect=True)
    model = sw.AggregateRegressor().fit(first, [9.0, -4.0, 5.0, 2.0], pool=first)
    people, rules = candidates_of(model.sets_of(x), natural=False), PoolRules(effect=True)
    (found,) = design(people, model.fitted(), "IVR", rules)
    pools = sw.design_pools(x, model, effect=True)
    assert pools.rows[0].tolist() == list(found.rows)
    mean, std = model.predict_sets(pools, return_std=True)
    assert_allclose([found.expected, found.std], [mean[0], std[0]], rtol=1e-9)
