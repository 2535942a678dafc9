"""On a real Dask cluster of two processes: the same numbers, whoever dies."""

from __future__ import annotations

import os
import signal
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.data import parquet as scanning
from sumwise.outofcore import dask
from sumwise.outofcore.design_store import Embedded
from tests import parquet
from tests.builders import random_sets, totals
from tests.marks import slow

pytest.importorskip("distributed")
from sumwise import distributed

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


def _small():
    scanning.BATCH_ROWS = 11


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
                silence_logs=50,
            ) as cluster,
            Client(cluster) as client,
        ):  # fmt: skip
            client.run(_small)
            yield client


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(scanning, "PART_ROWS", 14)
    monkeypatch.setattr(scanning, "BATCH_ROWS", 11)


SIZES = (3, 1, 40, 2, 9, 5, 1, 1, 16, 4, 4, 8, 1, 2, 30)


def some_sets(ids=None, seed=0) -> sw.Sets:
    return random_sets(SIZES, np.random.default_rng(seed), ids=ids)


def answers_of(sets):
    y = 5 + np.sin(2 * sets.x[:, 0]) + sets.x[:, 1]
    return dict(zip(sets.ids, totals(sets, y).tolist(), strict=True))


@pytest.fixture
def model():
    return sw.AggregateRegressor(n_basis=10, lengthscale=2.0)


@pytest.mark.parametrize("weights", ["theta", *slow("mean")])
def test_embedding_to_disk_on_workers_gives_the_local_design(client, model, tmp_path, weights):
    table = parquet.table_of(some_sets())
    pool = parquet.scan(parquet.write(table, tmp_path / "d", cuts=[50]), weights=weights)
    far = model.embed(pool, tmp_path / "far", run=distributed.on(client))
    near = model.embed(pool, tmp_path / "near")
    assert far.ids == near.ids
    assert_allclose(far.own_pool.design.u, near.own_pool.design.u, rtol=1e-10, atol=1e-12)
    assert_allclose(far.own_pool.design.noise_scale, near.own_pool.design.noise_scale, rtol=1e-12)


@pytest.mark.parametrize("weights", ["theta", *slow("sum", "mean")])
@pytest.mark.parametrize("ids", [list("zyxwvutsrqponml"), *slow(None, [(1, n) for n in range(15)])])
def test_a_design_in_the_workers_memory_is_the_local_one(client, model, tmp_path, weights, ids):
    sets = some_sets(ids)
    by = ["p", "q"] if isinstance(sets.ids[0], tuple) else "set"
    folder = parquet.write(parquet.table_of(sets), tmp_path / "d", cuts=[50, 51])
    pool = parquet.scan(f"file://{folder}", weights=weights, by=by)
    far = distributed.embed(client, pool, model)
    near = model.embed(pool, tmp_path / "near")
    assert len(far) == len(sets)
    rows = far.rows(range(len(far)))
    assert_allclose(rows.u, near.own_pool.design.u, rtol=1e-10, atol=1e-12)
    assert_allclose(rows.noise_scale, near.own_pool.design.noise_scale, rtol=1e-10)
    assert_allclose(rows.theta_sum, near.own_pool.design.theta_sum, rtol=1e-10, atol=1e-12)
    backwards = far.rows(range(len(far))[::-1])
    assert_allclose(backwards.u, rows.u[::-1], rtol=1e-12)
    assert far.sets.ids == sets.ids
    assert far.sets.sizes.tolist() == sets.sizes.tolist()
    for held, first in zip(far.slices, far.starts, strict=False):
        inside = held.result().sets  # which Dask has sent from one process to another
        assert inside.ids == sets.ids[first : first + len(inside)]
        assert inside.sizes.tolist() == sets.sizes[first : first + len(inside)].tolist()


def test_positions_are_those_of_the_local_design(client, model, tmp_path):
    table = parquet.table_of(some_sets()).rename_columns(["set", "lat", "lon", "z", "theta"])
    folder, inputs = parquet.write(table, tmp_path / "d", cuts=[50]), ["lat", "lon", "z"]
    pool = sw.Sets.scan_parquet(folder, by="set", x=inputs, weights="theta")
    far = distributed.embed(client, pool, model)
    near = model.embed(pool, tmp_path / "near")
    assert far.prepared.basis.basis.spatial.pair.tolist() == [1, 0]
    rows = far.rows(range(len(far)))
    assert_allclose(rows.u, near.own_pool.design.u, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("strategy", ["AggMI", *slow("AggEnt")])
def test_questions_and_batches_are_the_local_ones(client, model, tmp_path, strategy):
    sets = some_sets(seed=2)  # at random, also where batches end within sets
    answers = answers_of(sets)
    pool = parquet.scan(parquet.write(parquet.table_of(sets), tmp_path / "d"))
    far = distributed.embed(client, pool, model)
    assert "15 sets in" in repr(far)
    near = sw.ActiveLearner(sets, model, strategy=strategy)
    told: dict = {}
    for _ in range(8):
        fitted = distributed.fit(far, told)
        (best,) = distributed.score(far, fitted, strategy, but=told)
        ask = near.ask()
        assert best.set_id == ask.set_id
        assert_allclose(best.score, ask.score, rtol=1e-8)
        told[best.set_id] = answers[best.set_id]
        near.tell(ask.set_id, answers[ask.set_id])
    left = [name for name in sets if name not in told]
    fitted = distributed.fit(far, told)
    assert distributed.select(far, fitted, strategy, n=4, but=told, pending=left[:1]) == sw.select(
        sets[left], near.model, strategy, n=4, pending=left[:1]
    )
    ranked = distributed.score(far, fitted, strategy, n=5, but=told)
    scores = sw.score(sets[left], near.model, strategy)
    assert_allclose([one.score for one in ranked], np.sort(scores)[::-1][:5], rtol=1e-8)


@pytest.mark.parametrize("strategy", ["IVR", "own", *slow("EPIG", "QBC", "EMCM", "MaxN", "MinN")])
def test_other_strategies_score_and_pick_as_they_do_locally(client, tmp_path, strategy):
    """IVR and EPIG aim at the same individuals, and drawn models are the same on all workers."""
    sets = some_sets()
    if strategy == "own":
        strategy = lambda pool, posterior, rng: pool.design.noise_scale  # noqa: E731
    pool = parquet.scan(parquet.write(parquet.table_of(sets), tmp_path / "d"))
    far = distributed.embed(client, pool, sw.AggregateRegressor(n_basis=10, lengthscale=2.0))
    answers = answers_of(sets)
    fitted = distributed.fit(far, {name: answers[name] for name in sets.ids[:4]})
    found = {one.set_id: one.score for one in distributed.score(far, fitted, strategy, n=15)}
    scores = sw.score(sets, fitted, strategy)
    assert_allclose([found[name] for name in sets.ids], scores, rtol=1e-8)
    if strategy not in ("QBC", "EMCM"):  # whose picks draw models of their own
        picked = distributed.select(far, fitted, strategy, n=4, but=[0], pending=[1])
        assert picked == sw.select(sets, fitted, strategy, n=4, but=[0], pending=[1])


def test_predictions_are_written_by_the_workers(client, model, tmp_path):
    sets = some_sets()
    pool = parquet.scan(parquet.write(parquet.table_of(sets), tmp_path / "d"))
    model.fit(sets[:5], [1.0, 2.0, 3.0, 4.0, 5.0], pool=sets)
    assert model.predict_parquet(pool, tmp_path / "out", run=distributed.on(client)) == len(sets.x)
    groups = [name for name, n in zip(sets.ids, sets.sizes, strict=True) for _ in range(n)]
    expected = model.predict(sets.x, groups=groups)
    assert_allclose(pq.read_table(tmp_path / "out")["mean"].to_numpy(), expected, rtol=1e-9)


def test_what_cannot_be_is_refused_in_words(client, model, tmp_path, monkeypatch):
    sets = some_sets()
    table = parquet.table_of(sets)
    pool = parquet.scan(parquet.write(table, tmp_path / "d"))
    far = distributed.embed(client, pool, model)
    prior = distributed.fit(far, {})
    for strategy in ("MI", "Ent", "Var"):
        with pytest.raises(sw.SettingError, match="individuals stay in their files"):
            distributed.score(far, prior, strategy)
    with pytest.raises(sw.SettingError, match=r"Rand .* needs no cluster"):
        distributed.score(far, prior, "Rand")
    with pytest.raises(sw.SettingError, match="no strategy is called 'MinMax'"):
        distributed.select(far, prior, "MinMax")
    for n in (0, -1, True, 1.5):
        with pytest.raises(sw.SettingError, match="whole number of at least 1"):
            distributed.score(far, prior, n=n)
        with pytest.raises(sw.SettingError, match="whole number of at least 1"):
            distributed.select(far, prior, n=n)
    with pytest.raises(sw.SettingError, match="give 'float64' or 'float32'"):
        distributed.embed(client, pool, model, dtype="int32")
    with pytest.raises(sw.InvalidSetError, match="in that order"):
        distributed.embed(client, replace(pool, x=pool.x[::-1]), prior)
    with pytest.raises(sw.SettingError, match="another basis"):
        distributed.score(far, model.fit(sets, np.ones(15)))
    with pytest.raises(sw.UnknownSetError, match="no set has the id 'x'"):
        distributed.fit(far, {"x": 1.0})
    with pytest.raises(sw.PoolExhaustedError, match="16 sets were asked for"):
        distributed.select(far, prior, n=16)
    with pytest.raises(sw.PoolExhaustedError, match="nothing is left"):
        distributed.score(far, prior, but=sets.ids)
    monkeypatch.setattr(dask, "PATIENCE", 1)
    with pytest.raises(sw.SettingError, match="no Dask scheduler answers"):
        distributed.connect("tcp://127.0.0.1:1")
    for name, order in {"near": [1, 0, *range(2, 127)], "far": [*range(1, 127), 0]}.items():
        mixed = parquet.scan(parquet.write(table.take(order), tmp_path / name))
        other = distributed.embed(client, mixed, model) if name == "near" else None
        assert other is None or len(other) == 15  # rows of one set in another order are fine
        if name == "far":
            with pytest.raises(sw.InvalidSetError, match="rows of set 0 do not follow"):
                distributed.embed(client, mixed, model)
    shuffled = table.take(np.random.default_rng(0).permutation(127))
    with pytest.raises(sw.InvalidSetError, match="do not follow one another"):
        distributed.embed(client, parquet.scan(parquet.write(shuffled, tmp_path / "s")), model)


# --- workers that die -----------------------------------------------------------------------------


def _dies_once(marker, job, one):
    """A worker that is killed in the middle of its first piece of work."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return job(one)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_costs_a_retry_and_not_the_answer(client, model, tmp_path):
    sets = some_sets()
    pool = parquet.scan(parquet.write(parquet.table_of(sets), tmp_path / "d"))

    def run(job, jobs):
        return distributed.on(client)(partial(_dies_once, str(tmp_path / "marker"), job), jobs)

    far = model.embed(pool, tmp_path / "far", run=run)
    assert (tmp_path / "marker").exists()
    near = model.embed(pool, tmp_path / "near")
    assert_allclose(far.own_pool.design.u, near.own_pool.design.u, rtol=1e-10, atol=1e-12)
    assert Embedded.open(tmp_path / "far").ids == sets.ids


@pytest.mark.slow
def test_slices_of_a_killed_worker_are_made_again(client, model, tmp_path):
    sets = some_sets()
    pool = parquet.scan(parquet.write(parquet.table_of(sets), tmp_path / "d"))
    far = distributed.embed(client, pool, model)
    prior = distributed.fit(far, {})
    before = distributed.score(far, prior, n=3)
    holder = next(iter(client.who_has(far.slices[0]).values()))[0]
    pid = client.run(os.getpid, workers=[holder])[holder]
    os.kill(pid, signal.SIGKILL)
    after = distributed.score(far, prior, n=3)
    assert [one.set_id for one in after] == [one.set_id for one in before]
    assert_allclose([one.score for one in after], [one.score for one in before], rtol=1e-12)
