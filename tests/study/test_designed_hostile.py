"""Designed pools and studies under bad and extreme input: refused in words, or right."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from click.testing import CliRunner

import sumwise as sw
from sumwise.cli import main
from sumwise.data.pool_rules import read_rules

X = np.random.default_rng(0).normal(size=(12, 3))
LINEAR = sw.AggregateRegressor("linear")
PEOPLE = sw.Sets.from_arrays([row[None] for row in X])
MODEL = LINEAR.fit(sw.Sets.from_arrays([X[:2], X[2:4]]), [1.0, 3.0])


def begin(place, sets=PEOPLE, **rules):
    return sw.create_study(place / "a.db", sets, model=LINEAR, design={"size": (1, 3), **rules})


# --- pools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "strategy"), [(1e80, "IVR"), (1e300, "IVR"), (1e300, "AggMI"), (1e300, "EPIG")]
)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_pools_of_enormous_numbers_are_refused(scale, strategy):
    with pytest.raises(sw.NonFiniteScoreError, match="too large for the model; rescale them"):
        sw.design_pools(X * scale, MODEL, size=(1, 3), strategy=strategy)


def test_a_budget_beyond_all_costs_is_no_limit():
    costs = {"cost_per_member": 1e-320, "budget": 1e300}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gains per cost overflow
        assert len(sw.design_pools(X, MODEL, 2, size=(2, 2), cost=1.0, **costs)) == 2


def test_costs_of_members_alone_raise_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pools = sw.design_pools(X, MODEL, 2, size=(1, 3), cost_per_member=2.0)
    assert pools.costs == tuple(2.0 * len(rows) for rows in pools.rows)


@pytest.mark.parametrize("weights", [(0, 1e-300), (1e299, 1e300), (-1e300, 1e300)])
def test_weights_that_cannot_be_computed_with_are_refused(weights):
    with pytest.raises(sw.SettingError, match="ends nearer to 1, or infinity"):
        read_rules(4, None, {"weights": weights})


def test_candidates_without_a_block_are_said_to_have_none():
    with pytest.raises(sw.PoolExhaustedError, match="within: no free candidate has a label"):
        sw.design_pools(X, MODEL, within=[None] * 12)


@pytest.mark.parametrize("strategy", ["IVR", "AggMI"])
def test_moves_that_gain_only_by_rounding_come_to_an_end(strategy):
    x = np.random.default_rng(3).normal(size=(3, 2))
    model = LINEAR.fit(sw.Sets.from_arrays([x[:1]]), [1.0])
    rules = {"size": 3, "noise_std_per_member": 0.01, "cost": 1.0}
    pools = sw.design_pools(x, model, 3, strategy=strategy, **rules)
    assert [rows.tolist() for rows in pools.rows] == [[0, 1, 2]] * 3


# --- studies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [10**17 - 1, 10**18 - 1, 10**18, 10**30])
def test_names_of_pools_go_on_after_very_large_numbers(tmp_path, last):
    ids = [f"pool {last}", *map(str, range(11))]
    people = sw.Sets.from_arrays([row[None] for row in X], ids=ids)
    with begin(tmp_path, people) as study:
        names = [study.ask().set_id for _ in range(3)]
        assert len({*names, *ids}) == 15
        assert [*study.pools] == names


@pytest.mark.parametrize("n", [1001, 10**12, 10**30])
def test_more_questions_than_anybody_needs_are_refused_at_once(tmp_path, n):
    with begin(tmp_path) as study:
        for way in (study.ask, study.propose):
            with pytest.raises(sw.SettingError, match="at most 1000 sets at once"):
                way(n)
        assert not study.claims


# --- the command line -----------------------------------------------------------------------------


def sumwise(*words, code=0):
    done = CliRunner().invoke(main, words, env={"COLUMNS": "400"})
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"S{n},{n / 10},{7 * n % 5}\n" for n in range(6))
    (tmp_path / "t.csv").write_text(f"id,x,z\n{rows}")
    return "init", "a.db", "t.csv", "--design", "--id", "id", "--size", "2-3", "--basis", "linear"


def test_fewer_individuals_than_the_screen_has_rows_are_predicted_beside_pools(small):
    sumwise(*small)
    sumwise("ask", "a.db")
    sumwise("tell", "a.db", "pool 1", "3")
    said = sumwise("predict", "a.db")
    assert "S5" in said
    assert "The first 6 of 6" in said


def test_a_table_of_neighbours_that_begins_with_a_pair_is_refused(small, tmp_path):
    (tmp_path / "pairs.csv").write_text("S0,S1\nS1,S2\n")
    said = sumwise(*small, "--neighbours", "pairs.csv", code=1)
    assert "begins with a pair of individuals, 'S0' and 'S1'; give it a heading" in said
    assert not (tmp_path / "a.db").exists()
