"""A map over the workers of a Dask cluster."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sumwise.errors import SettingError, SumwiseError, needs_extra
from sumwise.outofcore.build import Run
from sumwise.util.text import count

PATIENCE = 10  # seconds that a scheduler may take to answer, and be without workers


def connect(address: str) -> Any:
    """A client of the scheduler at this address, which must have workers."""
    with needs_extra("a cluster", "dask"):
        from distributed import Client
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is said by errors
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
    try:
        _refuse_other_versions(client)
    except BaseException:
        client.close()
        raise
    return client


def _refuse_other_versions(client: Any) -> None:
    """Refuse workers, and a scheduler, that do not have this version of the program.

    A worker that cannot import what it is sent would end, and its work would wait for ever.
    """

    def look() -> str:  # Dask sends such a function as it is; others would have to be imported
        import sumwise.outofcore.spread

        return sumwise.__version__

    ours, found = look(), client.run(look, on_error="return")
    try:
        found["the scheduler"] = client.run_on_scheduler(look)
    except Exception as error:
        found["the scheduler"] = error
    for where, theirs in found.items():
        if theirs != ours:
            what = "cannot use sumwise" if isinstance(theirs, Exception) else "has another version"
            raise SettingError(
                f"{where} {what} ({theirs}). Install sumwise {ours}, with the same extras, "
                "where the scheduler and the workers run."
            )


def on(client: Any) -> Run:
    """A map over the workers of a client; the work of a worker that dies is repeated."""

    def run(job: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
        from distributed import CancelledError, KilledWorker, as_completed
        from distributed.comm import CommClosedError

        with warnings.catch_warnings():  # of megabytes that are sent: the posterior, for each part
            warnings.simplefilter("ignore", UserWarning)
            futures = client.map(job, jobs, pure=False)
        try:
            left = set(futures)
            ready = as_completed(left, timeout=PATIENCE)
            while left:
                try:
                    future = next(ready)
                except TimeoutError:  # which says nothing yet: work may take long
                    _refuse_without_workers(client, len(left))
                    ready = as_completed(left, timeout=PATIENCE)
                else:
                    left.remove(future)
                    yield future.result()
        except KilledWorker as error:
            raise SumwiseError(
                f"several workers died at the same task ({error}), perhaps for lack of memory. Try "
                "again with more memory for each worker; an embedding keeps its finished parts."
            ) from error
        except (CancelledError, CommClosedError) as error:
            raise SumwiseError(
                f"the Dask scheduler was lost while its workers had work ({error}). Start it "
                "again, and repeat the call; an embedding keeps its finished parts."
            ) from error
        finally:
            client.cancel(futures)

    return run


def _refuse_without_workers(client: Any, waiting: int) -> None:
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        raise SumwiseError(
            f"the Dask scheduler at {client.scheduler.address} has had no workers for {PATIENCE} s "
            f"or more, and {count(waiting, 'piece')} of work waited for them. Start some (dask "
            f"worker {client.scheduler.address}), and repeat the call; an embedding keeps its "
            "finished parts."
        ) from None


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
