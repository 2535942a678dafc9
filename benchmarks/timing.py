"""CPU time of jobs that take turns."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Times:
    """CPU seconds of each job, round by round."""

    rounds: Mapping[str, tuple[float, ...]]

    def median(self, job: str) -> float:
        return statistics.median(self.rounds[job])

    def ratio(self, job: str, reference: str) -> float:
        """How many times longer `job` takes: the median over rounds of the ratio in a round."""
        pairs = zip(self.rounds[job], self.rounds[reference], strict=True)
        return statistics.median(mine / other for mine, other in pairs)


def in_turns(jobs: Mapping[str, Callable[[], object]], rounds: int, warm: bool = True) -> Times:
    """Run every job once a round; a first round that is not counted warms caches."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(rounds + warm):
        for name, job in jobs.items():
            _, spent = timed(job)
            if number >= warm:
                seconds[name].append(spent)
    return Times({name: tuple(values) for name, values in seconds.items()})


def timed(job: Callable[[], T]) -> tuple[T, float]:
    """What the job returns, and its CPU seconds."""
    start = time.process_time()
    result = job()
    return result, time.process_time() - start


def say(message: str) -> None:
    """Progress, on stderr: stdout is for the table."""
    print(message, file=sys.stderr, flush=True)
