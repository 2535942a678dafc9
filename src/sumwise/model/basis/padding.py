"""How much room compiled training is given: few sizes, so that it is seldom compiled again."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sumwise.data.sets import Sets
from sumwise.util.shapes import Float

FIRST_SETS = 4  # labels that the first compilation is for; the second is for 32
MANY_TIMES = 3  # the average of the pool, which the first few labels may well have
MARGIN = 1.15  # instances expected beyond the average of the first labels


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """What is known of set sizes before any label."""

    mean: float
    largest: Float[np.ndarray, " A"]  # instances in the 1, 2, 3 … largest sets together

    @classmethod
    def of(cls, sets: Sets) -> Room:
        sizes = np.sort(sets.sizes)[::-1]
        return cls(float(sizes.mean()) if len(sizes) else 1.0, np.cumsum(sizes).astype(float))


def room_for(sets: Sets, room: Room) -> tuple[int, int]:
    """Sets and instances to make room for, the labelled `sets` and some to come.

    Sets come in steps of 4, 32, 48, 64, 96 …; instances in as many as those sets are likely to
    have, judged by the pool and then by the first labels, and at most what its largest sets have.
    """
    if len(sets) <= FIRST_SETS:
        n_sets, expected = FIRST_SETS, MANY_TIMES * FIRST_SETS * room.mean
    else:
        n_sets = max(32, step_up(len(sets), steps=2))
        typical = max(room.mean, float(sets.sizes[:FIRST_SETS].mean()))
        expected = MARGIN * n_sets * typical
    if len(room.largest):
        expected = min(expected, room.largest[min(n_sets, len(room.largest)) - 1])
    return n_sets, step_up(max(len(sets.x), math.ceil(expected)))


def step_up(number: int, steps: int = 8, least: int = 16) -> int:
    """The next size up, so many steps to each doubling."""
    number = max(number, least)
    step = 2 ** max(math.floor(math.log2(number)), 0) // steps
    return -(-number // step) * step
