"""One BLAS thread for many small decompositions.

Threads that share a matrix of a few hundred rows mostly wait for one another, and long on a busy
machine: 600 fits took 125 s on two threads and 6 s on one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

_lock = Lock()
_inside: list[Any] = []  # one entry per caller inside; the first holds the former limits


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS uses one thread in here; the last caller to leave restores the former number."""
    from threadpoolctl import threadpool_limits

    with _lock:
        _inside.append(None if _inside else threadpool_limits(1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            last = _inside[0] if len(_inside) == 1 else None
            _inside.pop()
            if last is not None:
                last.restore_original_limits()
