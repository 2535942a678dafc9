"""Which sets are part of the pool, after individuals have joined and left."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sumwise.data.sets import Sets


@dataclass(frozen=True, slots=True)
class PoolMark:
    """How often the pool was changed, and the positions that are not part of it any more."""

    changes: int = 0
    retired: Mapping[int, int | None] = field(default_factory=dict)  # and what each became

    def to_json(self) -> str:
        """Both as text."""
        return json.dumps({"changes": self.changes, "retired": [*self.retired.items()]})

    @classmethod
    def from_json(cls, text: str | bytes, n_sets: int) -> PoolMark:
        """What `to_json` has written for so many sets."""
        known = json.loads(text)
        made = cls(known["changes"], {at: became for at, became in known["retired"]})
        places = [*made.retired, *(at for at in made.retired.values() if at is not None)]
        if type(made.changes) is not int or made.changes < 0:
            raise ValueError(f"{made.changes!r:.40} is not a number of changes")
        for at in places:
            if type(at) is not int or not 0 <= at < n_sets:
                raise ValueError(f"there is no set at {at!r:.40}")
        return made

    def positions(self, n_sets: int) -> list[int]:
        """Positions of the sets that are part of the pool."""
        return [at for at in range(n_sets) if at not in self.retired]

    def sets(self, sets: Sets) -> Sets:
        """The sets of the pool, without retired ones."""
        if not self.retired:
            return sets
        some = self.positions(len(sets))
        return _taken(sets, some, sum(at >= sets.n_asked for at in some))

    def asked(self, sets: Sets) -> Sets:
        """The same without what was known from the start."""
        return _taken(sets, self.positions(sets.n_asked), 0)


def _taken(sets: Sets, positions: Sequence[int], extra: int) -> Sets:
    some = sets.take(positions)
    some = some.with_origin(replace(some.origin, extra=extra))
    if some.members is None or len(np.unique(some.members)) < len(some.members):
        return some
    return replace(some, members=None, effects=None)  # they overlapped with others only
