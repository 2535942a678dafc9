"""Which strategy wins on data like mine? The paper's comparison on a user's own labelled table.

As with the paper's climate data (§5.1), four fifths of the groups are there to learn from, and only
their totals are told, one per query; the individuals of the other groups are there to be tested on.
The error is the root mean square over test individuals, in the user's unit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from sumwise.acquisition.strategies import ACQUISITIONS
from sumwise.data.pool_rules import PoolRules
from sumwise.data.sets import Sets
from sumwise.errors import SettingError
from sumwise.experiments import pooled, protocol
from sumwise.experiments.comparison import (
    MEASUREMENTS,
    RANDOM,
    Errors,
    Scale,
    Verdict,
    verdict,
)
from sumwise.experiments.datasets import OWN, Labelled
from sumwise.experiments.protocol import QUERIES, TRAINING_SHARE, Curve, Experiment, Split
from sumwise.experiments.results import by_dataset
from sumwise.model.generalised.likelihoods import LIKELIHOODS
from sumwise.model.generalised.refusals import check_totals
from sumwise.util.shapes import Float, Int

STRATEGIES: Final = tuple(s.name for s in ACQUISITIONS.values() if not s.needs_dropout)
SPLITS: Final = 20
WEIGHTS: Final = ("sum", "mean")


@dataclass(frozen=True, slots=True)
class InTheEnd:
    """Predictions after the last measurement, of individuals and groups of the test."""

    group_error: float  # root mean square error of the means of groups
    covered: float  # share of individuals in their 90 % intervals
    group_covered: float  # share of the means of groups in theirs
    measurements: float  # on average; they differ where a budget is spent


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """What the runs gave, in the user's unit."""

    errors: Errors
    guess_errors: Float[np.ndarray, " S"]  # of the training individuals' mean as every prediction
    curves: Sequence[Curve]
    seconds: float
    usual: str = "mean"  # or rate, where there are exposures: what is guessed for everyone
    scale: Scale = MEASUREMENTS  # what the columns of `errors` stand for

    @property
    def designs(self) -> bool:
        """Whether designed pools were compared with other ways to measure, and not strategies."""
        return pooled.DESIGNED in self.errors

    @property
    def guess_error(self) -> float:
        return float(self.guess_errors.mean())

    @property
    def verdict(self) -> Verdict:
        """Whether the questions beat random ones, or pools pay, and the model beats the mean."""
        if self.designs:
            return pooled.verdict(self.errors, self.guess_errors)
        return verdict(self.errors, "split", self.guess_errors, self.usual, self.scale)

    @property
    def in_the_end(self) -> dict[str, InTheEnd]:
        """How each method predicts after its last measurement, on average over splits."""
        found = {}
        for method in self.errors:
            curves = [curve for curve in self.curves if curve.method == method]
            groups = [curve.group_mse[-1] for curve in curves if len(curve.group_mse)]
            shares = np.array([curve.covered for curve in curves if len(curve.group_mse)])
            individuals, means = shares.mean(axis=0).tolist() if groups else (math.nan, math.nan)
            n = float(np.mean([len(curve.mse) for curve in curves]))
            error = float(np.mean(np.sqrt(groups))) if groups else math.nan
            found[method] = InTheEnd(error, individuals, means, n)
        return found


def experiment(
    table: Labelled,
    methods: Sequence[str] | None = None,
    splits: int = SPLITS,
    queries: int | None = None,
    weights: str = "sum",
    outputs: str = "numbers",
    rules: PoolRules | None = None,
) -> Experiment:
    """What to run; Random is always there, because without it there is nothing to compare with.

    Args:
        methods: All strategies if left out.
        rules: Of designed pools, which are then compared with other ways to measure.
    """
    if outputs == "numbers" and table.data.exposure is not None:
        raise SettingError("exposures and trials go with outputs of counts, shares or amounts")
    if rules is not None:
        _refuse_beside_pools(methods, outputs, table)
    if outputs != "numbers":
        _check(table, outputs, weights)
    most = training_groups(table)
    wanted = min(QUERIES, most) if queries is None else queries
    protocol.check_queries(wanted, most, table.file)
    if rules is not None:
        numbers = range(splits)
        n = min(len(protocol.make_split(table.data, number).sets.x) for number in numbers)
        pooled.check(n, rules, wanted)
        rules = replace(rules, mean=weights == "mean")
        plan = Experiment(OWN, pooled.METHODS, (OWN,), splits, wanted, weights, rules=rules)
        return replace(plan, in_groups=True)
    methods = STRATEGIES if methods is None else methods
    chosen = [method for method in STRATEGIES if method in methods or method == RANDOM]
    if chosen == [RANDOM]:
        raise SettingError("name a strategy besides Rand, which all others are compared with")
    model = partial(protocol.auto_model, outputs=outputs)
    columns = protocol.methods_with(model, chosen)
    budget = None if table.data.cost is None else wanted * float(table.data.cost.mean())
    plan = Experiment(OWN, columns, (OWN,), splits, wanted, weights)
    return replace(plan, in_groups=True, budget=budget)


def _refuse_beside_pools(methods: Sequence[str] | None, outputs: str, table: Labelled) -> None:
    """What does not go with designed pools."""
    if outputs != "numbers":
        raise SettingError(
            f"pools are designed for plain numbers; leave outputs {outputs!r} out, or simulate "
            "without designed pools"
        )
    if table.data.cost is not None:
        raise SettingError(
            "a cost is of the groups of the table, and designed pools are none of them; leave it "
            "out, or simulate without designed pools"
        )
    if methods is not None:
        raise SettingError(
            "designed pools are compared with groups and individuals by IVR and with random pools; "
            "leave methods out"
        )


def _check(table: Labelled, outputs: str, weights: str) -> None:
    """Refuse outputs and exposures of individuals that cannot be, by the number of the row."""
    data = table.data
    if weights == "mean":
        raise SettingError(f"{outputs} are told as sums; leave weights='mean' out")
    e = np.ones(len(data.y)) if data.exposure is None else data.exposure
    names = tuple(f"{table.y} of row {row}" for row in range(1, len(data.y) + 1))
    alone = Sets(names, data.x.copy(), e.copy(), np.arange(len(data.y) + 1))
    check_totals(LIKELIHOODS[outputs], alone, data.y[:, None])


def training_groups(table: Labelled) -> int:
    return round(TRAINING_SHARE * table.n_groups)


def splits_of(table: Labelled) -> Callable[[str, int], Split]:
    """The split with a number, whatever the name: a table holds one data set."""
    return lambda name, number: protocol.make_split(table.data, number)


def run(
    plan: Experiment,
    split_of: Callable[[str, int], Split],
    jobs: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Simulation:
    """All strategies on all splits of one data set; see `protocol.run_all`."""
    start = time.perf_counter()
    finished = protocol.run_all(plan, split_of, jobs, on_progress)
    curves = sorted((c for each in finished for c in each), key=lambda curve: curve.split)
    guess = {curve.split: curve.guess_mse for curve in curves}  # the same for all strategies
    guesses = np.sqrt([guess[split] for split in sorted(guess)])
    scale = MEASUREMENTS
    if plan.budget is not None:
        scale = Scale(plan.budget / plan.queries, costs=True)
    (by_method,) = by_dataset(spread(curves, plan)).values()
    errors = {method: np.sqrt(mse) for method, mse in by_method.items()}
    usual = "mean" if split_of(plan.datasets[0], 0).exposure is None else "rate"
    return Simulation(errors, guesses, curves, time.perf_counter() - start, usual, scale)


def spread(curves: Sequence[Curve], plan: Experiment) -> list[Curve]:
    """The curves at equal costs: the error once so much was spent, in as many equal steps as there
    are queries; before the first measurement that of guessing the mean. Without costs, as they are.
    """
    if plan.budget is None:
        return list(curves)
    spent = plan.budget * np.arange(1, plan.queries + 1) / plan.queries
    return [
        replace(curve, mse=np.append(curve.guess_mse, curve.mse)[paid_for(curve.paid, spent)])
        for curve in curves
    ]


def paid_for(
    paid: Float[np.ndarray, " T"], spent: Float[np.ndarray, " Q"]
) -> Int[np.ndarray, " Q"]:
    """How many measurements, which have cost `paid` after each, so much money pays for."""
    return np.searchsorted(paid, spent * (1 + 1e-12), side="right")
