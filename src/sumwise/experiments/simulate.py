"""Which strategy wins on data like mine? The paper's comparison on a user's own labelled table.

As with the paper's climate data (§5.1), four fifths of the groups are there to learn from, and only
their totals are told, one per query; the individuals of the other groups are there to be tested on.
Within a split every strategy sees the same groups and the same basis, so strategies are compared
split by split. The error is the root mean square over test individuals, in the user's unit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from sumwise.acquisition.strategies import ACQUISITIONS
from sumwise.errors import SettingError
from sumwise.experiments.labelled import NAME, Labelled
from sumwise.experiments.protocol import (
    QUERIES,
    TRAINING_SHARE,
    Split,
    make_split,
    run_split,
    seed_of,
)
from sumwise.model.fit import ModelConfig
from sumwise.util.shapes import Float

Errors: TypeAlias = (
    "Mapping[str, Float[np.ndarray, 'S T']]"  # by strategy: a split a row, a query a column
)

STRATEGIES: Final = tuple(s.name for s in ACQUISITIONS.values() if not s.needs_dropout)
RANDOM: Final = "Rand"
OURS: Final = "IVR"  # the strategy that we recommend, so the one to be judged first
SPLITS: Final = 20
WEIGHTS: Final = ("sum", "mean")
CHECKPOINTS: Final = (5, 10, 20)
LEVEL: Final = 0.05
ROUNDING: Final = 1 + 1e-6  # the same groups in another order give the same error but for this


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run; made by `plan`, which refuses what cannot be."""

    methods: tuple[str, ...]
    splits: int
    queries: int
    weights: str


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """What the runs gave, in the user's unit."""

    errors: Errors
    guess: Float[np.ndarray, " S"]  # error of the training individuals' mean as every prediction
    seconds: float


@dataclass(frozen=True, slots=True)
class Difference:
    """A paired difference and its 95 % interval; one split has no interval."""

    mean: float
    low: float | None
    high: float | None

    @property
    def sign(self) -> int:
        """-1 or 1 where the interval leaves out zero, else 0: chance could give the difference."""
        if self.low is None or self.high is None:
            return 0
        return -1 if self.high < 0 else int(self.low > 0)


@dataclass(frozen=True, slots=True)
class Standing:
    """How one strategy did; errors are averaged over all queries unless they say otherwise."""

    method: str
    average: float
    standard_error: float | None
    last: float  # after the last query
    difference: Difference | None  # to Random, below zero is better; None for Random itself
    random_needs: int | None  # queries, for this one's last error; None: more than were asked


@dataclass(frozen=True, slots=True)
class Saving:
    """What Random pays for the error that a strategy has after some queries, and the reverse."""

    query: int
    error: float
    random_error: float
    random_needs: int | None  # for `error`; None: more than were asked
    needs: int | None  # of the strategy, for good, for `random_error`


# --- running ------------------------------------------------------------------------------------


def plan(
    table: Labelled,
    methods: Sequence[str] = STRATEGIES,
    splits: int = SPLITS,
    queries: int | None = None,
    weights: str = "sum",
) -> Plan:
    """Random is always among the strategies: without it there is nothing to compare with."""
    for method in methods:
        if method not in STRATEGIES:
            known = ", ".join(STRATEGIES)
            raise SettingError(f"no strategy is called {method!r}; there are {known}")
    if splits < 1:
        raise SettingError(f"{splits} splits were wanted; give at least 1")
    if weights not in WEIGHTS:
        raise SettingError(f"weights is {weights!r}; give 'sum' or 'mean'")
    most = training_groups(table)
    wanted = min(QUERIES, most) if queries is None else queries
    if not 1 <= wanted <= most:
        raise SettingError(
            f"{queries} queries were wanted; of {table.n_groups} groups {most} are there to learn "
            f"from, so give 1 to {most}"
        )
    chosen = tuple(method for method in STRATEGIES if method in methods or method == RANDOM)
    if chosen == (RANDOM,):
        raise SettingError("name a strategy besides Rand, which all others are compared with")
    return Plan(chosen, splits, wanted, weights)


def training_groups(table: Labelled) -> int:
    return round(TRAINING_SHARE * table.n_groups)


def run(
    table: Labelled,
    plan: Plan,
    jobs: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> Simulation:
    """All strategies on all splits; the result does not depend on `jobs`.

    Args:
        on_progress: Called with (splits done, splits in all).
    """
    from joblib import Parallel, delayed

    start = time.perf_counter()
    if on_progress is not None:
        on_progress(0, plan.splits)
    errors = {method: np.empty((plan.splits, plan.queries)) for method in plan.methods}
    guess = np.empty(plan.splits)
    workers = Parallel(n_jobs=min(jobs, plan.splits), return_as="generator_unordered")
    runs = workers(delayed(run_one)(table, plan, number) for number in range(plan.splits))
    for done, (number, curves, mean_error) in enumerate(runs, start=1):
        for method, curve in curves.items():
            errors[method][number] = curve
        guess[number] = mean_error
        if on_progress is not None:
            on_progress(done, plan.splits)
    return Simulation(errors, guess, time.perf_counter() - start)


def run_one(
    table: Labelled, plan: Plan, number: int
) -> tuple[int, dict[str, Float[np.ndarray, " T"]], float]:
    """One split: its number, each strategy's error per query, and that of the mean as a guess."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # the last bit of a product depends on the number of threads
        split = make_split(table.data, number)
        n_individuals, total = len(split.sets.x), float(split.y_bar.sum())
        if plan.weights == "mean":
            split = averaged(split)
        config = ModelConfig(random_state=seed_of(NAME, "basis", number))
        curves = run_split(NAME, number, split, config, plan.methods, plan.queries)
        guess = float(np.sqrt(np.mean((total / n_individuals - split.y_test) ** 2)))
        return number, {curve.method: np.sqrt(curve.mse) for curve in curves}, guess


def averaged(split: Split) -> Split:
    """The split with a mean told for each group in place of a sum."""
    sizes = split.sets.sizes
    sets = replace(split.sets, theta=split.sets.theta / np.repeat(sizes, sizes))
    return replace(split, sets=sets, y_bar=split.y_bar / sizes)


# --- reading the numbers ------------------------------------------------------------------------


def standings(errors: Errors) -> list[Standing]:
    """All strategies, the lowest average error first."""
    random = errors[RANDOM].mean(axis=0)
    found = []
    for method, runs in errors.items():
        average, curve = runs.mean(axis=1), runs.mean(axis=0)
        n_splits = len(average)
        spread = float(average.std(ddof=1) / math.sqrt(n_splits)) if n_splits > 1 else None
        found.append(
            Standing(
                method,
                float(average.mean()),
                spread,
                float(curve[-1]),
                None if method == RANDOM else difference(errors, method, RANDOM),
                reaches(random, float(curve[-1])),
            )
        )
    return sorted(found, key=lambda standing: standing.average)


def difference(errors: Errors, one: str, other: str, comparisons: int = 1) -> Difference:
    """Average error of `one` less that of `other`, split by split, with Student's interval.

    Args:
        comparisons: How many differences this one was picked from: the best of several looks good
            by luck alone, so its interval is widened (Bonferroni).
    """
    from scipy.special import stdtrit

    each = errors[one].mean(axis=1) - errors[other].mean(axis=1)
    mean, n_splits = float(each.mean()), len(each)
    if n_splits == 1:
        return Difference(mean, None, None)
    quantile = float(stdtrit(n_splits - 1, 1 - LEVEL / (2 * comparisons)))
    half = quantile * float(each.std(ddof=1)) / math.sqrt(n_splits)
    return Difference(mean, mean - half, mean + half)


def savings(errors: Errors, method: str) -> list[Saving]:
    """After 5, 10, 20 queries and the last: what each needs for the other's error."""
    curve, random = errors[method].mean(axis=0), errors[RANDOM].mean(axis=0)
    shown = sorted({query for query in CHECKPOINTS if query < len(curve)} | {len(curve)})
    return [
        Saving(
            q,
            float(curve[q - 1]),
            float(random[q - 1]),
            reaches(random, float(curve[q - 1])),
            settles(curve, float(random[q - 1])),
        )
        for q in shown
    ]


def reaches(curve: Float[np.ndarray, " T"], error: float) -> int | None:
    """The first query with this error or less; for Random, that is to give it its best moment."""
    found = np.flatnonzero(curve <= error * ROUNDING)
    return int(found[0]) + 1 if len(found) else None


def settles(curve: Float[np.ndarray, " T"], error: float) -> int | None:
    """The query from which on the error is no more than this; a lucky dip does not count."""
    above = np.flatnonzero(curve > error * ROUNDING)
    first = int(above[-1]) + 2 if len(above) else 1
    return first if first <= len(curve) else None
