"""Sets whose ids and sizes are known, and whose individuals are read when they are used."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from sumwise.data.sets import Sets
from sumwise.util.shapes import Float, Int


class LazySets(Sets):
    """A `Sets` that reads its individuals on demand; it can be used wherever a `Sets` can."""

    def __init__(
        self,
        ids: tuple[Hashable, ...] | Callable[[], tuple[Hashable, ...]],
        sizes: Sequence[int] | Int[np.ndarray, " A"],
        n_inputs: int,
        input_names: tuple[Hashable, ...] | None,
        load: Callable[[], Sets],
    ) -> None:
        starts = np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))])
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "input_names", input_names)
        self.__dict__.update(_ids=ids, _load=load, n_inputs=n_inputs)

    @cached_property
    def ids(self) -> tuple[Hashable, ...]:
        known = self.__dict__["_ids"]
        return known() if callable(known) else known

    @cached_property
    def _positions(self) -> dict[Hashable, int]:
        return {set_id: position for position, set_id in enumerate(self.ids)}

    @cached_property
    def _whole(self) -> Sets:
        return self.__dict__["_load"]()

    def __reduce__(self) -> Any:  # copies read for themselves
        known = self.__dict__
        return LazySets, (
            known["_ids"],
            self.sizes,
            self.n_inputs,
            self.input_names,
            known["_load"],
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def is_loaded(self) -> bool:
        """Whether the individuals have been read."""
        return "_whole" in self.__dict__

    def whole(self) -> Sets:
        return self._whole

    @property
    def x(self) -> Float[np.ndarray, "N D"]:
        return self._whole.x

    @property
    def theta(self) -> Float[np.ndarray, " N"]:
        return self._whole.theta

    @property
    def n_inputs(self) -> int:
        return int(self.__dict__["n_inputs"])

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.ids[:3])) + (", …" if len(self) > 3 else "")
        return (
            f"Sets: {len(self)} sets ({self.starts[-1]} individuals that are not in memory), "
            f"{self.n_inputs} inputs; ids {shown}"
        )


def whole(sets: Sets) -> Sets:
    """The sets with their individuals."""
    return sets.whole() if isinstance(sets, LazySets) else sets
