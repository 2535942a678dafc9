"""What a table said of sets beside the inputs of their individuals."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from sumwise.util.shapes import Int


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Names of columns, so that totals and outputs that are known are found by them."""

    by: tuple[Hashable, ...] = ()  # columns that name the sets
    id: Hashable = None  # column that names the individuals
    mean: bool = False  # whether measuring a set gives its mean
    extra: int = 0  # how many of the last sets are areas or individuals that are never asked for
    weights: Hashable = None  # column that holds θ
    areas: Mapping[Hashable, np.ndarray] = field(default_factory=dict)  # columns of larger areas

    def rows(self, which: Int[np.ndarray, " n"]) -> Origin:
        """The same of some individuals, of which no set is extra."""
        some = {name: values[which] for name, values in self.areas.items()}
        return replace(self, extra=0, areas=some)


UNKNOWN: Final = Origin()  # of sets that were made of no table
