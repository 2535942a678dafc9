"""Which strategy wins on data like mine? The paper's comparison on a user's own labelled table.

As with the paper's climate data (§5.1), four fifths of the groups are there to learn from, and only
their totals are told, one per query; the individuals of the other groups are there to be tested on.
The error is the root mean square over test individuals, in the user's unit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sumwise.acquisition.strategies import ACQUISITIONS
from sumwise.errors import SettingError
from sumwise.experiments import protocol
from sumwise.experiments.datasets import OWN, Labelled
from sumwise.experiments.paired import RANDOM, Errors
from sumwise.experiments.protocol import QUERIES, TRAINING_SHARE, Curve, Experiment
from sumwise.util.shapes import Float

STRATEGIES: Final = tuple(s.name for s in ACQUISITIONS.values() if not s.needs_dropout)
SPLITS: Final = 20
WEIGHTS: Final = ("sum", "mean")


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """What the runs gave, in the user's unit."""

    errors: Errors
    guess: Float[np.ndarray, " S"]  # error of the training individuals' mean as every prediction
    seconds: float


def experiment(
    table: Labelled,
    methods: Sequence[str] = STRATEGIES,
    splits: int = SPLITS,
    queries: int | None = None,
    weights: str = "sum",
) -> Experiment:
    """What to run; Random is always there, because without it there is nothing to compare with."""
    most = training_groups(table)
    wanted = min(QUERIES, most) if queries is None else queries
    if not 1 <= wanted <= most:
        raise SettingError(
            f"{queries} queries were wanted; of {table.n_groups} groups {most} are there to learn "
            f"from, so give 1 to {most}"
        )
    chosen = [method for method in STRATEGIES if method in methods or method == RANDOM]
    if chosen == [RANDOM]:
        raise SettingError("name a strategy besides Rand, which all others are compared with")
    columns = protocol.methods_with(protocol.auto_model, chosen)
    return Experiment(OWN, columns, (OWN,), splits, wanted, weights)


def training_groups(table: Labelled) -> int:
    return round(TRAINING_SHARE * table.n_groups)


def run(
    table: Labelled,
    plan: Experiment,
    jobs: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Simulation:
    """All strategies on all splits; the result does not depend on `jobs`.

    Args:
        on_progress: Called with (splits done, splits in all).
    """
    start = time.perf_counter()
    on_progress(0, plan.splits)
    errors = {method: np.empty((plan.splits, plan.queries)) for method in plan.columns}
    guess = np.empty(plan.splits)
    tasks = [(table, plan, number) for number in range(plan.splits)]
    for done, (curves, off) in enumerate(protocol.in_parallel(run_one, tasks, jobs), start=1):
        for curve in curves:
            errors[curve.method][curve.split] = np.sqrt(curve.mse)
        guess[curves[0].split] = off
        on_progress(done, plan.splits)
    return Simulation(errors, guess, time.perf_counter() - start)


def run_one(table: Labelled, plan: Experiment, number: int) -> tuple[list[Curve], float]:
    """One split: each strategy's run, and the error of the mean as a guess."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # the last bit of a product depends on the number of threads
        split = protocol.make_split(table.data, number)
        mean = float(split.y_bar.sum()) / len(split.sets.x)
        curves = protocol.run_split(plan, OWN, number, split)
        return curves, float(np.sqrt(np.mean((mean - split.y_test) ** 2)))
