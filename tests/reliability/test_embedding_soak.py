"""Embedding while workers are killed, and after being killed itself.

Small by default; `make soak` takes ten million instances.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sumwise as sw
from sumwise.outofcore.embed_part import embed_part
from tests.reliability import children
from tests.reliability.scale import FACTOR

pytest.importorskip("distributed")
from sumwise import distributed

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
SOAK = FACTOR > 1
N_SETS, PARTS = (1_000_000, 40) if SOAK else (4_000, 20)
INPUTS = [f"x{d}" for d in range(8)]


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """Sets of 1 to 19, in files that end in the middle of one."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 20, N_SETS)
    owner = np.repeat(np.arange(N_SETS), sizes)
    folder = tmp_path_factory.mktemp("soak") / "data"
    folder.mkdir()
    for number, (low, high) in enumerate(
        pairwise(np.linspace(0, len(owner), PARTS + 1, dtype=int))
    ):
        x = rng.random((8, high - low), dtype=np.float32)
        table = pa.table([owner[low:high], *x], names=["set", *INPUTS])
        pq.write_table(table, folder / f"{number:03}.parquet")
    return sw.Sets.scan_parquet(folder, by="set", x=INPUTS)


@pytest.fixture(scope="module")
def expected(pool, tmp_path_factory):
    out = tmp_path_factory.mktemp("soak") / "local"
    return sw.AggregateRegressor(n_basis=32).embed(pool, out).own_pool.design.u


@pytest.mark.slow
def test_a_worker_killed_three_times_costs_time_and_nothing_else(pool, expected, tmp_path):
    from distributed import Client, LocalCluster

    killed: list[int] = []
    interrupted: list[int] = []  # parts that it had when it was killed

    def first_worker():
        client.wait_for_workers(2, timeout=60)
        workers = client.scheduler_info()["workers"]
        where = next(at for at, worker in workers.items() if worker["name"] == 0)
        return where, client.run(os.getpid, workers=[where])[where]

    def slowly(job, one):
        time.sleep(0 if SOAK else 0.2)  # a small part would be over before anybody is killed
        return job(one)

    def run(job, jobs):
        for some in (jobs[i::4] for i in range(4)):
            where, victim = first_worker()
            pieces = iter(distributed.on(client)(partial(slowly, job), some))
            yield next(pieces)
            if job.func is embed_part and len(killed) < 3:
                interrupted.append(len(client.processing()[where]))
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)
            yield from pieces

    with (
        warnings.catch_warnings(),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        warnings.simplefilter("ignore")
        made = sw.AggregateRegressor(n_basis=32).embed(pool, tmp_path / "far", run=run)
    assert len(set(killed)) == 3
    assert min(interrupted) > 0
    np.testing.assert_allclose(made.own_pool.design.u, expected, rtol=0, atol=1e-10)


CHILD = """
import sys, time, sumwise as sw
from sumwise.outofcore.build import in_threads
pool = sw.Sets.scan_parquet(sys.argv[1], by="set", x=[f"x{d}" for d in range(8)])
def slowly(job, jobs):
    for piece in in_threads(job, jobs):
        time.sleep(float(sys.argv[3]))
        yield piece
sw.AggregateRegressor(n_basis=32).embed(pool, sys.argv[2], run=slowly)
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_without_starting_over(pool, expected, tmp_path):
    out, folder = tmp_path / "out", os.path.dirname(pool.files[0].path)
    child = subprocess.Popen([sys.executable, "-c", CHILD, folder, str(out), "0.2"])
    try:
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and child.poll() is None:
            parts = len(list((out / "parts").glob("*.npz"))) if (out / "parts").exists() else 0
            if parts >= 3 and (out / "begun.json").exists():
                break
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGKILL)
    finally:
        child.wait()
    before = len(list((out / "parts").glob("*.npz")))
    assert before >= 3
    left: list[int] = []

    def counting(job, jobs):
        left.append(len(jobs))
        return map(job, jobs)

    made = sw.AggregateRegressor(n_basis=32).embed(pool, out, run=counting)
    assert left[-1] <= PARTS - before + 1
    np.testing.assert_allclose(made.own_pool.design.u, expected, rtol=0, atol=1e-10)


class StoppedError(Exception):
    """The process that embeds is stopped."""


@pytest.mark.slow
def test_a_part_that_vanishes_is_made_again(pool, expected, tmp_path):
    def stopped(job, jobs):
        for number, piece in enumerate(map(job, jobs)):
            if job.func is embed_part and number == 6:
                raise StoppedError
            yield piece

    model, out, again = sw.AggregateRegressor(n_basis=32), tmp_path / "out", []
    with pytest.raises(StoppedError):
        model.embed(pool, out, run=stopped)
    done = sorted((out / "parts").glob("*.npz"))
    assert len(done) >= 6
    done[0].unlink()
    done[1].write_bytes(done[1].read_bytes()[:50])

    def counting(job, jobs):
        again.append(len(jobs))
        return map(job, jobs)

    made = model.embed(pool, out, run=counting)
    assert again[-1] == len(pool.parts()) - len(done) + 2
    np.testing.assert_allclose(made.own_pool.design.u, expected, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.skipif(not children.may_mount(), reason="this system lets nobody mount a file system")
def test_a_full_disk_that_workers_share_is_named_and_the_rest_is_done_later(tmp_path):
    children.run(children.embeds_on_a_small_disk, tmp_path, within=children.MOUNTING)
