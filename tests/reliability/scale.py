"""How much of everything: as in CI, or `SUMWISE_SOAK` times as much (`make soak`)."""

from __future__ import annotations

import os

FACTOR = int(os.environ.get("SUMWISE_SOAK", "1"))


def sized(n: int) -> int:
    return n * FACTOR
