"""Studies on designs on disk that ask on a cluster, from the shell."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sumwise as sw
from sumwise.data import parquet as scanning
from sumwise.outofcore import spread
from tests import parquet
from tests.builders import random_sets, totals
from tests.cli.test_init_parquet import done, one_line, run

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(scanning, "PART_ROWS", 30)
    monkeypatch.setattr(spread, "PART_SETS", 8)


@pytest.fixture
def begun(place, tmp_path):
    """The place of a study on files, after six answers."""
    rng = np.random.default_rng(2)
    sets = random_sets(rng.integers(1, 9, 30).tolist(), rng, ids=[f"m{a}" for a in range(30)])
    folder = parquet.write(parquet.table_of(sets), tmp_path / "data", cuts=[50])
    scan = parquet.scan(folder)
    design = sw.AggregateRegressor(n_basis=8).embed(scan, tmp_path / "m.design")
    cost = dict(zip(sets.ids, rng.uniform(0.5, 2, 30), strict=True))
    with sw.create_study(place, design, cost=cost) as study:
        y = totals(sets, sets.x[:, 0])
        study.tell_many(dict(zip(sets.ids[:6], y[:6].tolist(), strict=True)))
    return place


def on_both(cluster, *arguments):
    """What a command prints as JSON, without a cluster and on one."""
    here, there = (
        json.loads(done(*arguments, "--json", *more).stdout) for more in ((), ("--dask", cluster))
    )
    return here, there


def close(value, other):
    """Whether JSON values are the same, numbers to nine digits."""
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(close(value[k], other[k]) for k in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(close, value, other))
    if isinstance(value, float) and isinstance(other, float):
        return np.isclose(value, other, rtol=1e-9, atol=1e-9)
    return value == other


def test_a_study_is_asked_on_a_cluster_what_it_is_asked_here(begun, cluster):
    assert close(*on_both(cluster, "ask", begun, "--preview", "-n", 3))
    assert close(*on_both(cluster, "status", begun))
    assert close(*on_both(cluster, "predict", begun, "--sets"))
    asked = json.loads(done("ask", begun, "--json", "--dask", cluster).stdout)
    done("claim", begun, "m20", "--dask", cluster)
    with sw.open_study(begun) as study:
        held = [claim.set_id for claim in study.claims]
        assert held == [asked["questions"][0]["set"], "m20"]
    assert close(*on_both(cluster, "ask", begun, "--preview"))  # with open questions
    said = one_line(done("ask", begun, "--preview", "--dask", cluster).output)
    assert f"--dask {cluster}" in said


def test_a_study_whose_sets_are_in_the_database_is_refused(cluster, tmp_path):
    sets = random_sets([2, 3], np.random.default_rng(0))
    sw.create_study(tmp_path / "m.db", sets).close()
    for command in ("ask", "status"):
        result = run(command, tmp_path / "m.db", "--dask", cluster)
        assert result.exit_code == 1
        assert "is for a design on disk" in one_line(result.stderr)


def test_an_address_without_a_scheduler_is_refused(begun, monkeypatch):
    monkeypatch.setattr("sumwise.outofcore.dask.PATIENCE", 1)
    result = run("ask", begun, "--dask", "tcp://127.0.0.1:1")
    assert result.exit_code == 1
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in one_line(result.stderr)
    with sw.open_study(begun) as study:
        assert not study.claims
