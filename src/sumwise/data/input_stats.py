"""Statistics of the inputs that a basis is drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from sumwise.data.targets import thinned
from sumwise.util.shapes import Float

SAMPLE: Final = 128  # individuals, evenly spaced, that the size of features is judged by


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Location, spread and range of inputs, and two samples of at least one individual."""

    shift: Float[np.ndarray, " D"]  # mean
    scale: Float[np.ndarray, " D"]  # standard deviation
    low: Float[np.ndarray, " D"]
    high: Float[np.ndarray, " D"]
    sample: Float[np.ndarray, "m D"]  # every k-th row
    subsample: Float[np.ndarray, "n D"]  # `targets.thinned`

    @classmethod
    def of(cls, x: Float[np.ndarray, "N D"]) -> Inputs:
        sample = x[:: max(1, len(x) // SAMPLE)]
        ends = x.min(axis=0), x.max(axis=0)
        return cls(*location_and_spread(x), *ends, sample, thinned(x).x)


def location_and_spread(
    x: Float[np.ndarray, "N D"],
) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]]:
    """Mean and standard deviation of each column; a constant column gets 1."""
    peak = np.maximum(abs(x).max(axis=0), np.finfo(float).tiny)
    unit = x / peak  # so that huge and tiny inputs neither overflow nor vanish when squared
    mean, spread = unit.mean(axis=0), unit.std(axis=0)
    # a column that varies by rounding alone is divided by its size, which makes it vanish
    scale = np.where(spread > 1e-14, spread * peak, peak)
    return mean * peak, np.where(abs(x).max(axis=0) > 0, scale, 1.0)
