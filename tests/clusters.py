"""A real Dask cluster of two processes for tests, one for all tests of a worker of pytest."""

from __future__ import annotations

import pickle
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed

import pytest

from tests.workers import processes


@pytest.fixture(scope="session")
def cluster():
    """Its address."""
    pytest.importorskip("distributed")
    from distributed import LocalCluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
            silence_logs=50,
        ) as started:  # fmt: skip
            yield started.scheduler_address


@pytest.fixture(scope="session")
def client(cluster):
    from distributed import Client

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Client(cluster) as connected:
            yield connected


@pytest.fixture(scope="session")
def in_processes():
    """A map over two processes, with results in the order in which they are done."""
    with ProcessPoolExecutor(2, mp_context=processes) as pool:

        def run(job, jobs):
            return (done.result() for done in as_completed([pool.submit(job, one) for one in jobs]))

        yield run


def backwards(job, jobs):
    """A map that sends everything as bytes, as to another machine, and gives the last first."""
    sent = [pickle.dumps((job, one)) for one in jobs]
    done = [pickle.dumps(call(one)) for call, one in map(pickle.loads, sent[::-1])]
    return [*map(pickle.loads, done)]
