"""Strategies: functions that score every set of a pool; higher is asked sooner.

A strategy never picks, refits or changes anything. Keys are the paper's column heads; a user may
pass any callable of the same shape instead. Picking is written once, in `best`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, Protocol, runtime_checkable

import numpy as np

from sumwise.acquisition.committee import expected_model_change, query_by_committee
from sumwise.acquisition.dropout import dropout_entropy, dropout_mutual_information
from sumwise.acquisition.geometry import fewest_instances, input_variance, most_instances, random
from sumwise.acquisition.information import (
    aggregated_entropy,
    aggregated_mutual_information,
    entropy,
    mutual_information,
)
from sumwise.acquisition.prediction import (
    expected_predictive_information,
    integrated_variance_reduction,
)
from sumwise.data.frames import to_float
from sumwise.errors import InvalidSetError, NonFiniteScoreError, PoolExhaustedError, SettingError
from sumwise.model.design import Pool
from sumwise.model.posterior import Posterior
from sumwise.util.shapes import Bool, Float

TIE = 1e-9  # scores this close, relative to the best, count as equal


@runtime_checkable
class Acquisition(Protocol):
    """Pure: the same inputs and generator state give the same scores."""

    def __call__(
        self, pool: Pool, posterior: Posterior, rng: np.random.Generator, /
    ) -> Float[np.ndarray, " A"]: ...


ACQUISITIONS: Final[Mapping[str, Acquisition]] = {
    "AggMI": aggregated_mutual_information,
    "AggEnt": aggregated_entropy,
    "MI": mutual_information,
    "Ent": entropy,
    "QBC": query_by_committee,
    "EMCM": expected_model_change,
    "Var": input_variance,
    "MaxN": most_instances,
    "MinN": fewest_instances,
    "Rand": random,
    "DAMI": dropout_mutual_information,
    "DAEnt": dropout_entropy,
    "IVR": integrated_variance_reduction,
    "EPIG": expected_predictive_information,
}
DEFAULT: Final = "IVR"  # lowest error in docs/beyond.md
BY_DROPOUT: Final = ("DAMI", "DAEnt")  # defined for dropout networks only
GAINS: Final = ("AggMI", "MI", "QBC", "EMCM", "IVR", "EPIG")  # at least 0, and 0 is no gain
BY_PREDICTION: Final = ("IVR", "EPIG")  # beyond the paper: they look at targets


def named(strategy: str | Acquisition) -> Acquisition:
    """The strategy with this name; a user's own callable comes back as it is."""
    if isinstance(strategy, str):
        if strategy in ACQUISITIONS:
            return ACQUISITIONS[strategy]
        raise SettingError(
            f"no strategy is called {strategy!r}; there are {', '.join(ACQUISITIONS)}"
        )
    if not callable(strategy):
        raise SettingError(f"strategy is {strategy!r}; give a name or a function that scores sets")
    return strategy


def scores_of(
    strategy: str | Acquisition, pool: Pool, posterior: Posterior, rng: np.random.Generator
) -> Float[np.ndarray, " A"]:
    """One number per set; a user's own strategy is checked for that."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # refused below, by name
            returned = named(strategy)(pool, posterior, rng)
        scores = to_float(returned, "what the strategy returned")
    except InvalidSetError as error:
        raise SettingError(str(error)) from None
    if scores.shape != (len(pool.sets),):
        raise SettingError(
            f"the strategy gave scores of shape {scores.shape} for {len(pool.sets)} sets"
        )
    return scores


def refuse_non_finite(
    scores: Float[np.ndarray, " A"], allowed: Bool[np.ndarray, " A"], ids: tuple[Hashable, ...]
) -> None:
    if not np.isfinite(scores[allowed]).all():
        bad = int(np.flatnonzero(allowed & ~np.isfinite(scores))[0])
        raise NonFiniteScoreError(
            f"the strategy scored set {ids[bad]!r} with {scores[bad]}; a score must be a number"
        )


def best(
    scores: Float[np.ndarray, " A"], allowed: Bool[np.ndarray, " A"], ids: tuple[Hashable, ...]
) -> int:
    """Position of the best allowed set; of those that tie, the first."""
    if not allowed.any():
        raise PoolExhaustedError("every set is measured already; nothing is left to ask")
    refuse_non_finite(scores, allowed, ids)
    top = scores[allowed].max()
    return int(np.flatnonzero(allowed & (scores >= top - TIE * abs(top)))[0])


def per_cost(
    strategy: str | Acquisition,
    scores: Float[np.ndarray, " A"],
    cost: Float[np.ndarray, " A"] | None,
) -> Float[np.ndarray, " A"]:
    """What sets are ranked by: scores, or gain per cost where measuring costs something."""
    if cost is None:
        return scores
    if (isinstance(strategy, str) and strategy not in GAINS) or (scores < 0).any():
        raise SettingError(
            f"scores of {strategy!r:.60} are no gains that could be divided by a cost; with costs "
            f"use one of {', '.join(GAINS)}"
        )
    return scores / cost
