"""Predictions as a table: a mean, a standard deviation and an interval for each row."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from sumwise.errors import SettingError
from sumwise.shapes import Float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Predictions:
    """What is expected of individuals or of sets, in the units of the answers."""

    ids: tuple[Hashable, ...] | None  # the set of each row; None for rows that belong to none
    mean: Float[np.ndarray, " n"]
    std: Float[np.ndarray, " n"]  # noise included
    lower: Float[np.ndarray, " n"]
    upper: Float[np.ndarray, " n"]
    level: float  # the share of values that should lie between lower and upper

    @classmethod
    def of(
        cls,
        ids: tuple[Hashable, ...] | None,
        mean: Float[np.ndarray, " n"],
        std: Float[np.ndarray, " n"],
        level: float,
    ) -> Predictions:
        reach = NormalDist().inv_cdf(0.5 + 0.5 * level) * std
        return cls(ids, mean, std, mean - reach, mean + reach, level)

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        return f"Predictions: {len(self)} rows with intervals of {100 * self.level:g} %"

    def to_arrow(self) -> Any:
        """An Arrow table; ids that no single column type can hold become text."""
        import pyarrow as pa

        columns: dict[str, Any] = {}
        if self.ids is not None:
            try:
                columns["set"] = pa.array(self.ids)
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
                columns["set"] = pa.array([str(name) for name in self.ids])
        for name in ("mean", "std", "lower", "upper"):
            columns[name] = getattr(self, name)
        return pa.table(columns)


def check_level(level: Any) -> float:
    if isinstance(level, bool) or not isinstance(level, int | float | np.number):
        raise SettingError(f"level is {level!r}; give a number between 0 and 1, such as 0.9")
    if not 0 < level < 1:
        raise SettingError(f"level is {level}; give a number between 0 and 1, such as 0.9")
    return float(level)
