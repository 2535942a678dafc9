"""A map over the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sumwise.errors import SettingError, SumwiseError, needs_extra
from sumwise.outofcore.build import Run

PATIENCE = 10  # seconds that a scheduler may take to answer, and be without workers


def connect(address: str) -> Any:
    """A client of the scheduler at this address, which must have workers."""
    with needs_extra("a cluster", "dask"):
        from distributed import Client
    try:
        client = Client(address, timeout=PATIENCE)
    except (OSError, ValueError, TimeoutError) as error:
        raise SettingError(f"no Dask scheduler answers at {address} ({error})") from error
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        client.close()
        raise SettingError(
            f"the Dask scheduler at {address} has no workers; start some: dask worker {address}"
        ) from None
    return client


def on(client: Any) -> Run:
    """A map over the workers of a client; the work of a worker that dies is repeated."""

    def run(job: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
        from distributed import KilledWorker, as_completed

        futures = client.map(job, jobs, pure=False)
        try:
            for future in as_completed(futures):
                yield future.result()
        except KilledWorker as error:
            raise SumwiseError(
                f"several workers died at the same task ({error}), perhaps for lack of "
                "memory. Finished parts are kept; try again with more memory "
                "for each worker."
            ) from error
        finally:
            client.cancel(futures)

    return run


@contextmanager
def runs_on(address: str | None, jobs: int) -> Iterator[int]:
    """Send independent runs to the workers of this scheduler, if one is given.

    Gives how many run at the same time: `jobs` on this machine, or as many as the workers have
    threads. Workers must see the same files.
    """
    if address is None:
        yield jobs
        return
    from joblib import parallel_config

    with connect(address) as client:
        threads = sum(client.nthreads().values())
        with parallel_config(backend="dask", wait_for_workers_timeout=10):
            yield threads
