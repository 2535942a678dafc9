"""One algorithm, many places: a function on every part of a pool, and what each has found.

Scores, questions, joint batches, sums for the status and totals of all sets are a map over parts
and a small reduction. A pool in memory is one part. The parts of a design on disk may be worked on
by threads, processes or a cluster: a worker opens the rows of its part where they lie, and is sent
the function (with the posterior in it), the targets, and its share of what is known of each set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from secrets import token_hex
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from sumwise.data.targets import Targets
from sumwise.model.design import Pool
from sumwise.util.files import let_go
from sumwise.util.shapes import PerSet
from sumwise.util.threads import one_of_many

T = TypeVar("T")
KEPT: Final = 25 * 10**7  # bytes of a mapped file that stay in a worker's memory


class _Part(NamedTuple):
    number: int
    first: int  # position of its first set
    end: int
    noise_scale: PerSet | None  # if known noise was added to it
    by_set: Sequence[np.ndarray | None]


class _Work(NamedTuple):
    name: str
    source: Callable[[int, int], Pool]
    targets: Targets | None
    job: Callable[..., Any]


def each_part(pool: Pool, job: Callable[..., T], *by_set: np.ndarray | None) -> list[T]:
    """What a function finds in each part of a pool, in the order of the parts.

    Args:
        job: Takes the position of the first set of a part, the part as a pool, and its share of
            `by_set`. It must not depend on what it did with other parts.
        by_set: Arrays with an entry for each set, or None.
    """
    spread, design = pool.spread, pool.design
    if spread is None:
        return [job(0, pool, *by_set)]
    noisy = None if design.squares is None else design.noise_scale
    parts = []
    for number, (first, end) in enumerate(pairwise(spread.starts.tolist())):
        scale, *own = (None if v is None else v[first:end] for v in (noisy, *by_set))
        parts.append(_Part(number, first, end, scale, own))
    work = _Work(token_hex(), spread.source, pool.targets, job)
    found = dict(spread.run(partial(_on_part, work), parts))
    return [found[part.number] for part in parts]


@lru_cache(maxsize=2)
def _received(name: str) -> list[_Work]:
    del name
    return []


def _on_part(work: _Work, part: _Part) -> tuple[int, Any]:
    held = _received(work.name)  # what is worked out from its posterior serves the next part, too
    if not held:
        held.append(work)
    _, source, targets, job = held[0]
    pool = replace(source(part.first, part.end), targets=targets)
    if part.noise_scale is not None:
        design = replace(pool.design, noise_scale=part.noise_scale, squares=pool.design.noise_scale)
        pool = replace(pool, design=design)
    with one_of_many():  # as many parts at the same time as the map has threads
        found = job(part.first, pool, *part.by_set)
    if part.end * pool.design.u.strides[0] > KEPT:
        let_go(pool.design.u)
    return part.number, found


def whole(pool: Pool) -> Pool:
    """The pool as one part, which is worked on here."""
    return replace(pool, spread=None)


def joined(found: Sequence[Any]) -> Any:
    """Arrays of the parts as one."""
    return found[0] if len(found) == 1 else np.concatenate(found)
