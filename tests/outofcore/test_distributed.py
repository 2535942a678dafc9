"""On a real Dask cluster of two processes: the same numbers, whoever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.data import parquet as scanning
from sumwise.outofcore import dask, spread
from sumwise.outofcore.design_store import Embedded
from tests import parquet
from tests.builders import random_sets
from tests.marks import slow

pytest.importorskip("distributed")
from sumwise import distributed

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


def _small():
    scanning.BATCH_ROWS = 11


@pytest.fixture(autouse=True)
def small_parts(monkeypatch, client):
    client.run(_small)
    monkeypatch.setattr(scanning, "PART_ROWS", 14)
    monkeypatch.setattr(scanning, "BATCH_ROWS", 11)
    monkeypatch.setattr(spread, "PART_SETS", 4)


SIZES = (3, 1, 40, 2, 9, 5, 1, 1, 16, 4, 4, 8, 1, 2, 30)


def some_sets(ids=None, seed=0) -> sw.Sets:
    return random_sets(SIZES, np.random.default_rng(seed), ids=ids)


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


def test_predictions_are_written_by_the_workers(client, model, tmp_path):
    sets = some_sets()
    pool = parquet.scan(parquet.write(parquet.table_of(sets), tmp_path / "d"))
    model.fit(sets[:5], [1.0, 2.0, 3.0, 4.0, 5.0], pool=sets)
    assert model.predict_parquet(pool, tmp_path / "out", run=distributed.on(client)) == len(sets.x)
    groups = [name for name, n in zip(sets.ids, sets.sizes, strict=True) for _ in range(n)]
    expected = model.predict(sets.x, groups=groups)
    assert_allclose(pq.read_table(tmp_path / "out")["mean"].to_numpy(), expected, rtol=1e-9)


@pytest.fixture
def design(model, tmp_path):
    pool = parquet.scan(parquet.write(parquet.table_of(some_sets()), tmp_path / "d"))
    return model.embed(pool, tmp_path / "near")


def asked(learner):
    learner.tell(2, 12.5)
    return [(ask.set_id, ask.score) for ask in learner.ask(n=3)]


@pytest.mark.parametrize("strategy", ["IVR", "QBC", *slow("AggMI", "MinN")])
def test_questions_are_the_local_ones(client, model, design, strategy):
    near = asked(sw.ActiveLearner(design, model, strategy))
    far = asked(sw.ActiveLearner(design, model, strategy, run=distributed.on(client)))
    assert [name for name, _ in far] == [name for name, _ in near]
    assert_allclose([score for _, score in far], [score for _, score in near], rtol=1e-9)


# --- what cannot be -------------------------------------------------------------------------------


def test_a_scheduler_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(dask, "PATIENCE", 1)
    with pytest.raises(sw.SettingError, match="no Dask scheduler answers"):
        distributed.connect("tcp://127.0.0.1:1")


def test_a_design_that_workers_do_not_see_is_refused(client, model, design, tmp_path):
    learner = sw.ActiveLearner(design, model, run=distributed.on(client))
    os.rename(design.folder, tmp_path / "elsewhere")
    with pytest.raises(
        sw.DataError, match=r"a worker cannot use the design: .*near holds no design"
    ):
        learner.ask()
    os.rename(tmp_path / "elsewhere", design.folder)
    assert learner.ask().number == 0


@pytest.fixture
def scheduler(tmp_path):
    """The address of a scheduler, with a worker whose `sumwise` is this file's text, if any."""
    started = []

    def start(text=None):
        place = tmp_path / "other" / "sumwise"
        place.mkdir(parents=True)
        own = dict(os.environ)
        if text is not None:
            (place / "__init__.py").write_text(text)
            own["PYTHONPATH"] = str(place.parent)
        run = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
        file = tmp_path / "scheduler.json"
        run += ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)]
        quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "cwd": tmp_path}
        started.append(subprocess.Popen(run, **quiet))
        while not file.exists():
            time.sleep(0.05)
        run = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-dashboard", "--no-nanny"]
        run += ["--nthreads", "1", "--scheduler-file", str(file), "--host", "127.0.0.1"]
        started.append(subprocess.Popen(run, env=own, **quiet))
        return json.loads(file.read_text())["address"], *started

    yield start
    for process in started[::-1]:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise ImportError('no module that it needs')", "cannot use sumwise .no module that"),
        ("__version__ = '0.0.1'\n__path__ = []", "cannot use sumwise"),
    ],
)
def test_workers_without_the_program_are_refused_before_they_get_work(scheduler, text, said):
    with pytest.raises(sw.SettingError, match=said):
        distributed.connect(scheduler(text)[0])


@pytest.mark.slow
def test_a_scheduler_that_is_lost_is_said_in_words(scheduler):
    address, process, _ = scheduler()
    with distributed.connect(address) as client:
        pieces = iter(distributed.on(client)(time.sleep, [0.1] + [3] * 5))
        next(pieces)
        process.kill()
        with pytest.raises(sw.SumwiseError, match="the Dask scheduler was lost"):
            list(pieces)


@pytest.mark.slow
def test_workers_that_are_gone_are_not_waited_for(scheduler, design, tmp_path, monkeypatch):
    address, _, worker = scheduler()
    sw.create_study(tmp_path / "m.db", design).close()
    with distributed.connect(address) as client:
        monkeypatch.setattr(dask, "PATIENCE", 1)

        def run(job, jobs):
            worker.kill()
            return distributed.on(client)(job, jobs)

        with sw.open_study(tmp_path / "m.db", run=run) as study:
            with pytest.raises(sw.SumwiseError, match=r"has had no workers for .* 4 pieces"):
                study.ask()
            assert not study.claims
            assert [event.what for event in study.history()] == ["created"]


@pytest.mark.slow
def test_long_work_is_waited_for(client, monkeypatch):
    monkeypatch.setattr(dask, "PATIENCE", 0.2)
    assert list(distributed.on(client)(time.sleep, [1.0, 0.5])) == [None, None]


# --- workers that die -----------------------------------------------------------------------------


def _dies_once(marker, job, one):
    """A worker that is killed in the middle of its first piece of work."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return job(one)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def deadly(client, tmp_path):
    """A map over the workers, of whom one dies."""

    def run(job, jobs):
        return distributed.on(client)(partial(_dies_once, str(tmp_path / "marker"), job), jobs)

    yield run
    assert (tmp_path / "marker").exists()


def test_a_worker_killed_while_it_embeds_costs_a_retry(deadly, model, tmp_path):
    sets = some_sets()
    pool = parquet.scan(parquet.write(parquet.table_of(sets), tmp_path / "d"))
    far = model.embed(pool, tmp_path / "far", run=deadly)
    near = model.embed(pool, tmp_path / "near")
    assert_allclose(far.own_pool.design.u, near.own_pool.design.u, rtol=1e-10, atol=1e-12)
    assert Embedded.open(tmp_path / "far").ids == sets.ids


def test_a_worker_killed_while_it_scores_costs_a_retry(deadly, model, design):
    near, far = (asked(sw.ActiveLearner(design, model, run=run)) for run in (None, deadly))
    assert [name for name, _ in far] == [name for name, _ in near]
    assert_allclose([score for _, score in far], [score for _, score in near], rtol=1e-9)
