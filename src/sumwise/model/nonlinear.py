"""How far totals of counts, shares and amounts are from linear in w, for the scores of questions.

A question is scored around what is expected of its total. The predictor of a set may be off by
s = (uᵀSu)^½ / V. Where it is off by δ, its slope V and its noise are others: noise over V(δ)² is
`relative(δ)` times what it is at δ = 0. Scores are averages over δ ~ N(0, s²), with three nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sumwise.util.shapes import Float, Numbers, PerSet

NODES: Final = ((0.0, 2 / 3), (3**0.5, 1 / 6), (-(3**0.5), 1 / 6))  # of a standard normal


@dataclass(frozen=True, slots=True, eq=False)
class Nonlinear:
    """What a linear design lacks of totals that are not linear in w."""

    mean: Float[np.ndarray, " A"]  # expected totals at E[w]
    slope: Float[np.ndarray, " A"]  # V
    moving: Float[np.ndarray, " A"]  # share of the noise, over V², that changes with δ
    centre: Float[np.ndarray, " A"]  # predictor of a typical member
    growth: Callable[[Numbers, Numbers], Numbers]  # how that share grows with δ, given the centre

    def rows(self, index: Any) -> Nonlinear:
        some = {name: getattr(self, name)[index] for name in self.__slots__[:-1]}
        return Nonlinear(**some, growth=self.growth)

    def relative(self, signal: PerSet, node: float) -> PerSet:
        """Noise over V² at a node, in units of what it is at δ = 0.

        Args:
            signal: uᵀSu.
        """
        off = np.clip(node * np.sqrt(signal) / self.slope, -30.0, 30.0)
        return self.moving * self.growth(off, self.centre) + (1 - self.moving)
