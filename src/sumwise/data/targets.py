"""Target individuals, whose predictions count, a subsample of many, and statistics of inputs.

Of more than `MOST` individuals, `MOST` are taken deterministically: number k is the one at the
fraction frac(k · 0.618…) of the cumulative weight. Multiples of the golden ratio fill the range
evenly and do not resonate with the order of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sumwise.data.frames import Table, as_frame, input_matrix, to_float
from sumwise.data.sets import Sets
from sumwise.errors import SettingError
from sumwise.util.shapes import Float, Int

MOST: Final = 512
SAMPLE: Final = 128  # individuals, evenly spaced, that the size of features is judged by
GOLDEN: Final = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Individuals whose predictions matter; weights add up to 1."""

    x: Float[np.ndarray, "N D"]
    weight: Float[np.ndarray, " N"]
    everyone: int = 0  # how many individuals they stand for; 0 if they are not all of a pool's

    def __post_init__(self) -> None:
        self.x.setflags(write=False)
        self.weight.setflags(write=False)


def thinned(x: Float[np.ndarray, "N D"], weight: Float[np.ndarray, " N"] | None = None) -> Targets:
    """These individuals, or a subsample of them.

    Args:
        weight: At least 0, not all 0; equal if left out.
    """
    if weight is None:
        at, share = subsample(len(x))
        return Targets(np.array(x[at], dtype=np.float64), share)
    if len(x) <= MOST:
        return Targets(np.array(x, dtype=np.float64), weight / weight.sum())
    ends = np.cumsum(weight)
    at = np.searchsorted(ends, _golden_fractions() * ends[-1], side="right")
    at, counts = np.unique(np.minimum(at, np.flatnonzero(weight)[-1]), return_counts=True)
    return Targets(np.array(x[at], dtype=np.float64), counts / MOST)


def subsample(n: int) -> tuple[Int[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """The subsample of `n` individuals of equal weight, in order, and the weight of each."""
    if n <= MOST:
        return np.arange(n), np.full(n, 1 / max(n, 1))
    at, counts = np.unique((_golden_fractions() * n).astype(np.int64), return_counts=True)
    return at, counts / MOST


def _golden_fractions() -> Float[np.ndarray, " m"]:
    return np.modf(np.arange(1, MOST + 1) * GOLDEN)[0]


def read(targets: Any, weights: Any, sets: Sets) -> Targets | None:
    """The targets that `targets` and `target_weights` describe; None if both are left out.

    Args:
        targets: A data frame with the input columns, or an (n, D) array; all individuals if None.
        weights: One number for each row of `targets`, or for each individual of all sets.
    """
    if targets is None and weights is None:
        return None
    rows = sets.x if targets is None else _rows(targets, sets)
    if not len(rows):
        raise SettingError("targets has no rows; name at least one individual, or leave it out")
    if weights is None:
        return thinned(rows)
    weight = to_float(weights, "target_weights")
    if weight.shape != (len(rows),):
        what = "target" if targets is not None else "individual"
        raise SettingError(
            f"target_weights has shape {weight.shape}; give one number for each of the "
            f"{len(rows)} {what}s"
        )
    if not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise SettingError(
            "target_weights must be finite, at least 0, and not all 0: 0 leaves an individual out"
        )
    return thinned(rows, weight / weight.max())


def _rows(targets: Any, sets: Sets) -> Float[np.ndarray, "n D"]:
    """Inputs of targets; where nothing is known of a column, those of an average individual."""
    frame = None if isinstance(targets, np.ndarray | list | tuple) else as_frame(targets)
    if frame is None or sets.recipe is None:
        return input_matrix(targets, sets.input_names, sets.n_inputs, "targets")
    table = Table(frame, "targets", "targets, row {}".format)
    return sets.recipe.filled(sets.recipe.encode(table))


# --- statistics of inputs, which a basis is drawn from --------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Location, spread and range of inputs, and two samples of at least one individual."""

    shift: Float[np.ndarray, " D"]  # mean
    scale: Float[np.ndarray, " D"]  # standard deviation
    low: Float[np.ndarray, " D"]
    high: Float[np.ndarray, " D"]
    sample: Float[np.ndarray, "m D"]  # every k-th row
    subsample: Float[np.ndarray, "n D"]  # `thinned`
    alike: Float[np.ndarray, " D"]  # intra-class correlation: share of the variance between sets
    source: Int[np.ndarray, " D"] | None = None  # the user's column that each input comes from

    @classmethod
    def of(
        cls, x: Float[np.ndarray, "N D"], starts: Int[np.ndarray, " A1"] | None = None
    ) -> Inputs:
        """Of all individuals; `starts` says where the rows of each set begin, if they are known."""
        sample = x[:: max(1, len(x) // SAMPLE)]
        first = np.arange(len(x)) if starts is None else starts[:-1]
        return cls.combine([BatchInputs.of(x, first, sample, thinned(x).x)])

    @classmethod
    def combine(cls, batches: Sequence[BatchInputs]) -> Inputs:
        """Statistics of the inputs of all batches, in their order."""
        count = np.array([batch.count for batch in batches])[:, None]
        peaks = np.array([batch.peak for batch in batches])
        peak = peaks.max(axis=0)
        unit = peaks / peak
        means = unit * [batch.mean for batch in batches]
        mean = (count / count.sum() * means).sum(axis=0)
        apart = (count * (means - mean) ** 2).sum(axis=0)
        squares, between = (
            apart + (unit**2 * [getattr(batch, name) for batch in batches]).sum(axis=0)
            for name in ("squares", "between")
        )
        spread = np.sqrt(squares / count.sum())
        # a set that goes on in the next batch is one run, not two
        runs, length, total = sum(batch.runs for batch in batches), 0, mean
        for batch, size, away in zip(batches, unit, means - mean, strict=True):
            ends = size * batch.ends + batch.lengths[:, None] * away
            if batch.continues:
                both = length + batch.lengths[0], total + ends[0]
                between += both[1] ** 2 / both[0] - total**2 / length
                between -= ends[0] ** 2 / batch.lengths[0]
                runs -= 1
            whole = batch.continues and batch.runs == 1
            length, total = both if whole else (batch.lengths[1], ends[1])
        # less what sets of individuals at random would show
        within = (squares - between) / max(1, int(count.sum()) - runs)
        alike = np.maximum(between - (runs - 1) * within, 0.0) / np.where(squares > 0, squares, 1.0)
        alike = np.where(runs < count.sum(), np.minimum(alike, 1.0), 0.0)
        # a column that varies by rounding alone is divided by its size, which makes it vanish
        scale = np.where(spread > 1e-14, spread * peak, peak)
        low = np.min([batch.low for batch in batches], axis=0)
        high = np.max([batch.high for batch in batches], axis=0)
        sample = np.concatenate([batch.sample for batch in batches])
        few = np.concatenate([batch.subsample for batch in batches])
        scale = np.where((low == 0) & (high == 0), 1.0, scale)
        return cls(mean * peak, scale, low, high, sample, few, alike)


@dataclass(frozen=True, slots=True, eq=False)
class BatchInputs:
    """Statistics of the inputs of some individuals, and their share of both samples."""

    count: int
    low: Float[np.ndarray, " D"]
    high: Float[np.ndarray, " D"]
    peak: Float[np.ndarray, " D"]  # largest absolute value; as unit, it keeps squares in range
    mean: Float[np.ndarray, " D"]  # in this unit
    squares: Float[np.ndarray, " D"]  # sum of squared deviations from the mean, in this unit
    between: Float[np.ndarray, " D"]  # the same of the means of runs of one set, for each row
    runs: int
    lengths: Int[np.ndarray, " 2"]  # of the first and the last run
    ends: Float[np.ndarray, "2 D"]  # sums of these runs' deviations from the mean, in this unit
    sample: Float[np.ndarray, "m D"]
    subsample: Float[np.ndarray, "n D"]
    continues: bool = False  # the last run of the batch before

    @classmethod
    def of(
        cls,
        x: Float[np.ndarray, "N D"],
        starts: Int[np.ndarray, " r"],
        sample: Float[np.ndarray, "m D"],
        subsample: Float[np.ndarray, "n D"],
    ) -> BatchInputs:
        """Of a batch in which a run of rows of one set begins at each of `starts`."""
        low, high = (end.astype(np.float64) for end in (x.min(axis=0), x.max(axis=0)))
        peak = np.maximum(np.maximum(abs(low), abs(high)), np.finfo(float).tiny)
        unit = x / peak  # in double precision
        mean = unit.mean(axis=0)
        unit -= mean
        sums, lengths = np.add.reduceat(unit, starts), np.diff(starts, append=len(x))
        between = (sums**2 / lengths[:, None]).sum(axis=0)
        unit *= unit
        about = len(starts), lengths[[0, -1]], sums[[0, -1]], sample, subsample
        return cls(len(x), low, high, peak, mean, unit.sum(axis=0), between, *about)
