"""The strategies: functions that score every set of a pool; the highest score is asked first.

A strategy never picks, refits or changes anything. All that the program knows of a strategy stands
in one record of `ACQUISITIONS`, whose keys are the paper's column heads; a user may pass any
callable of the same shape instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from sumwise.acquisition import baselines, information, prediction
from sumwise.acquisition.bounds import (
    Between,
    Key,
    signal_to_noise,
    total_variance,
    variance_reduction_below,
    variance_reduction_between,
)
from sumwise.data.frames import to_float
from sumwise.errors import NonFiniteScoreError, SettingError
from sumwise.model.design import Pool
from sumwise.model.posterior import Posterior
from sumwise.util.shapes import Float, Int, PerSet

TIE = 1e-9  # scores this close, relative to the best, count as equal
DEFAULT: Final = "IVR"  # lowest error in docs/beyond.md


@runtime_checkable
class Acquisition(Protocol):
    """Pure: the same inputs and generator state give the same scores."""

    def __call__(self, pool: Pool, posterior: Posterior, rng: Generator, /) -> PerSet: ...


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy and all that the program knows of it; calling it gives the scores."""

    name: str
    score: Acquisition
    asks_for: str  # completes "It asks for …"
    reason: str  # why a set was chosen
    is_gain: bool = False  # scores are at least 0, and 0 means no gain: costs may divide them
    is_information: bool = False  # scores are what the total teaches about the model, in nats
    needs_dropout: bool = False  # defined for dropout networks only
    uses_targets: bool = False  # looks at the individuals whose predictions count
    in_parts: bool = False  # scores a part of a pool as it does within the whole, without inputs
    # Of many sets, bounds from a pass in single precision say which to score in full: bounds on a
    # key that rises with the score and never rises when more is known, or on the score itself.
    key: Key | None = None
    bounds: Callable[[Pool, Posterior], Between | None] | None = None
    below: Callable[[Pool, Posterior], PerSet | None] | None = None  # upper ones, from few rows

    def __call__(self, pool: Pool, posterior: Posterior, rng: Generator, /) -> PerSet:
        return self.score(pool, posterior, rng)


_TABLE: Final = (
    Strategy(
        "AggMI",
        information.aggregated_mutual_information,
        "the total that should teach the model most",
        "its total should teach the model most",
        is_gain=True,
        is_information=True,
        key=signal_to_noise,
        in_parts=True,
    ),
    Strategy(
        "AggEnt",
        information.aggregated_entropy,
        "the total that is least certain",
        "its total is the least certain",
        key=total_variance,
        in_parts=True,
    ),
    Strategy(
        "MI",
        information.mutual_information,
        "the total that would teach most if its individuals were unrelated",
        "its total would teach most if its individuals were unrelated",
        is_gain=True,
    ),
    Strategy(
        "Ent",
        information.entropy,
        "the group whose individuals are least certain",
        "its individuals are the least certain",
    ),
    Strategy(
        "QBC",
        baselines.query_by_committee,
        "the total that drawn models disagree about most",
        "drawn models disagree most about its total",
        is_gain=True,
        in_parts=True,
    ),
    Strategy(
        "EMCM",
        baselines.expected_model_change,
        "the total that would move the model most",
        "its total would move the model most",
        is_gain=True,
        in_parts=True,
    ),
    Strategy(
        "Var",
        baselines.input_variance,
        "the group whose inputs vary most",
        "its inputs vary most",
    ),
    Strategy(
        "MaxN",
        baselines.most_instances,
        "the largest group",
        "it has the most individuals",
        in_parts=True,
    ),
    Strategy(
        "MinN",
        baselines.fewest_instances,
        "the smallest group",
        "it has the fewest individuals",
        in_parts=True,
    ),
    Strategy("Rand", baselines.random, "any group, drawn at random", "it was drawn at random"),
    Strategy(
        "DAMI",
        baselines.dropout_mutual_information,
        "the total that should teach the model most, by dropout",
        "by dropout, its total should teach the model most",
        needs_dropout=True,
    ),
    Strategy(
        "DAEnt",
        baselines.dropout_entropy,
        "the total that is least certain, by dropout",
        "by dropout, its total is the least certain",
        needs_dropout=True,
    ),
    Strategy(
        "IVR",
        prediction.integrated_variance_reduction,
        "the total that should make predictions most certain",
        "its total should make predictions most certain",
        is_gain=True,
        uses_targets=True,
        bounds=variance_reduction_between,
        in_parts=True,
        below=variance_reduction_below,
    ),
    Strategy(
        "EPIG",
        prediction.expected_predictive_information,
        "the total that should teach most about an individual's output",
        "its total should teach most about an individual's output",
        is_gain=True,
        uses_targets=True,
        in_parts=True,
    ),
)
ACQUISITIONS: Final[Mapping[str, Strategy]] = {strategy.name: strategy for strategy in _TABLE}


def named(strategy: str | Acquisition) -> Strategy:
    """The record of a strategy, given by name or as a user's own function."""
    if isinstance(strategy, Strategy):
        return strategy
    if isinstance(strategy, str) and strategy in ACQUISITIONS:
        return ACQUISITIONS[strategy]
    if not callable(strategy):
        known = ", ".join(ACQUISITIONS)
        raise SettingError(f"no strategy is called {strategy!r}; give {known} or a function")
    name, why = f"{strategy!r:.60}", "it has the highest score"
    return Strategy(name, strategy, "the highest score", why, is_gain=True)


def scores_of(
    strategy: str | Acquisition, pool: Pool, posterior: Posterior, rng: Generator
) -> PerSet:
    """One number per set; a user's own strategy is checked for that."""
    with np.errstate(over="ignore", invalid="ignore"):  # callers refuse them by name
        returned = named(strategy)(pool, posterior, rng)
    scores = to_float(returned, "what the strategy returned", SettingError)
    if scores.shape != (len(pool.sets),):
        raise SettingError(
            f"the strategy gave scores of shape {scores.shape} for {len(pool.sets)} sets"
        )
    return scores


def refuse_non_finite(
    scores: Float[np.ndarray, " c"], positions: Int[np.ndarray, " c"], pool: Pool
) -> None:
    for at in np.flatnonzero(~np.isfinite(scores)):
        set_id = pool.sets.ids[positions[at]]
        raise NonFiniteScoreError(f"the strategy scored set {set_id!r} with {scores[at]}")


def per_cost(strategy: str | Acquisition, scores: PerSet, cost: PerSet | None) -> PerSet:
    """The scores that rank sets: gain per cost where measuring has a cost."""
    if cost is None:
        return scores
    record = named(strategy)
    if not record.is_gain or (scores < 0).any():
        gains = ", ".join(known.name for known in ACQUISITIONS.values() if known.is_gain)
        raise SettingError(f"scores of {record.name} are not gains; with a cost use one of {gains}")
    return scores / cost
