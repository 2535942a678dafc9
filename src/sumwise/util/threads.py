"""One BLAS thread for many small decompositions.

Threads that share a matrix of a few hundred rows mostly wait for one another, and long on a busy
machine: 600 fits took 125 s on two threads and 6 s on one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import Lock
from typing import Any

_lock = Lock()
_one_of_many: ContextVar[bool] = ContextVar("_one_of_many", default=False)
_inside: list[Any] = []  # one entry per caller inside; the first holds the former limits


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> Any:
    """The loaded libraries: they are looked for again only after an import."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS uses one thread in here; the last caller to leave restores the former number."""
    with _lock:
        blas = None if _inside else _libraries(len(sys.modules))
        _inside.append(blas and blas.limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            last = _inside[0] if len(_inside) == 1 else None
            _inside.pop()
            if last is not None:
                last.restore_original_limits()


@contextmanager
def one_of_many() -> Iterator[None]:
    """Work in here is one piece of many that run at the same time, so it takes a single core."""
    token = _one_of_many.set(True)
    try:
        with one_thread():
            yield
    finally:
        _one_of_many.reset(token)


def n_cores() -> int:
    """How many threads the work that asks may use."""
    if _one_of_many.get():
        return 1
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))  # of all cores, those that this process may use
    return os.cpu_count() or 1
