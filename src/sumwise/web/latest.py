"""The newest value of something that takes long: worked out once, by one, while others wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V")


@dataclass(frozen=True, slots=True, eq=False)
class _Held(Generic[V]):
    key: Hashable
    begun: float
    value: V


class Latest(Generic[V]):
    """One value, kept until it is asked for under another key.

    While changes pour in, a value of the moment at which one has asked is never there in time. So
    whoever had to wait is content with a value that was begun after they came.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: _Held[V] | None = None

    def get(self, key: Hashable, work: Callable[[], V]) -> V:
        """The value under this key, or a later one; what `work` gives is no older than the key."""
        held = self._held
        if held is not None and held.key == key:
            return held.value
        came = time.monotonic()
        with self._lock:
            held = self._held
            if held is not None and (held.key == key or held.begun >= came):
                return held.value
            begun = time.monotonic()
            value = work()
            self._held = _Held(key, begun, value)
            return value
