"""The newest value of something that takes long: one thread works it out while others wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """One value, kept until its key changes.

    While changes pour in, a value for the key at the time of a request would never be ready in
    time. So a waiter accepts any value whose computation started after its request.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: tuple[K, float, V] | None = None  # key, start of the computation, value

    def get(self, now: Callable[[], K], work: Callable[[K], V]) -> V:
        """The value for the present key, or for one since the request.

        Args:
            now: Gives what the value depends on; it is equal as long as nothing has changed.
            work: Takes that, and gives the value.
        """
        came, key, held = time.monotonic(), now(), self._held
        if held is not None and held[0] == key:
            return held[2]
        with self._lock:
            held = self._held
            if held is not None and (held[0] == key or held[1] > came):
                return held[2]
            begun = time.monotonic()  # before the key is read, so that it is no newer than the key
            key = now()
            value = work(key)
            self._held = key, begun, value
            return value
