"""The newest value of something that takes long: worked out once, by one, while others wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, eq=False)
class _Held(Generic[K, V]):
    key: K
    begun: float
    value: V


class Latest(Generic[K, V]):
    """One value, kept until it is asked for at another moment.

    While changes pour in, a value of the very moment at which one has asked is never there in time.
    So whoever had to wait is content with a value that was begun after they came.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: _Held[K, V] | None = None

    def get(self, now: Callable[[], K], work: Callable[[K], V]) -> V:
        """The value of now, or of a moment since.

        Args:
            now: Gives what the value depends on; the same as long as nothing has happened.
            work: Takes that, and gives the value.
        """
        came, key, held = time.monotonic(), now(), self._held
        if held is not None and held.key == key:
            return held.value
        with self._lock:
            held = self._held
            if held is not None and (held.key == key or held.begun > came):
                return held.value
            begun, key = time.monotonic(), now()  # in this order: it is no older than it says
            value = work(key)
            self._held = _Held(key, begun, value)
            return value
