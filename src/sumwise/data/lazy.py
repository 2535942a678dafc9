"""Sets whose ids and sizes are known, and whose individuals are read when they are used."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from sumwise.data.sets import Sets
from sumwise.util.shapes import Float, Int


class LazySets(Sets):
    """A `Sets` that reads its individuals on demand; it can be used wherever a `Sets` can."""

    __slots__ = ("_found", "_ids", "_load", "_n_inputs", "_whole")
    _found: dict[Hashable, int] | None
    _ids: tuple[Hashable, ...] | Callable[[], tuple[Hashable, ...]]
    _load: Callable[[], Sets]
    _n_inputs: int
    _whole: Sets | None

    def __init__(
        self,
        ids: tuple[Hashable, ...] | Callable[[], tuple[Hashable, ...]],
        sizes: Sequence[int] | Int[np.ndarray, " A"],
        n_inputs: int,
        input_names: tuple[Hashable, ...] | None,
        load: Callable[[], Sets],
    ) -> None:
        parts = {
            "starts": np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))]),
            "input_names": input_names,
            "_ids": ids,
            "_n_inputs": n_inputs,
            "_load": load,
            "_found": None,
            "_whole": None,
        }
        for name, value in parts.items():
            object.__setattr__(self, name, value)

    @property
    def ids(self) -> tuple[Hashable, ...]:
        if callable(self._ids):
            object.__setattr__(self, "_ids", self._ids())
        assert not callable(self._ids)
        return self._ids

    @property
    def _positions(self) -> dict[Hashable, int]:
        if self._found is None:
            found = {set_id: position for position, set_id in enumerate(self.ids)}
            object.__setattr__(self, "_found", found)
        assert self._found is not None
        return self._found

    def __len__(self) -> int:
        return len(self.starts) - 1

    def whole(self) -> Sets:
        whole = self._whole or self._load()
        object.__setattr__(self, "_whole", whole)
        return whole

    @property
    def x(self) -> Float[np.ndarray, "N D"]:
        return self.whole().x

    @property
    def theta(self) -> Float[np.ndarray, " N"]:
        return self.whole().theta

    @property
    def n_inputs(self) -> int:
        return self._n_inputs

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.ids[:3])) + (", …" if len(self) > 3 else "")
        return (
            f"Sets: {len(self)} sets ({self.starts[-1]} individuals that are not in memory), "
            f"{self.n_inputs} inputs; ids {shown}"
        )


def whole(sets: Sets) -> Sets:
    """The sets with their individuals."""
    return sets.whole() if isinstance(sets, LazySets) else sets
