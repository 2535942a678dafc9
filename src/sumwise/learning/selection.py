"""Scores of sets under a fitted model, and joint batches."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Unpack

import numpy as np

from sumwise.acquisition import by_part
from sumwise.acquisition.batches import joint
from sumwise.acquisition.known_noise import given_answers
from sumwise.acquisition.objective import ObjectiveOptions, read
from sumwise.acquisition.screening import screens
from sumwise.acquisition.strategies import (
    DEFAULT,
    Acquisition,
    named,
    refuse_non_finite,
)
from sumwise.data import validate
from sumwise.data.sets import Sets
from sumwise.errors import SettingError
from sumwise.learning.estimator import AggregateRegressor
from sumwise.learning.propose import PoolState, Prices, propose
from sumwise.model.design import Pool
from sumwise.model.fit import Model
from sumwise.outofcore.build import Run
from sumwise.outofcore.design_store import Embedded, as_sets
from sumwise.outofcore.spread import over
from sumwise.util.shapes import PerSet


def score(
    sets: Sets | Embedded,
    model: AggregateRegressor,
    strategy: str | Acquisition = DEFAULT,
    *,
    targets: Any = None,
    target_weights: Any = None,
    noise_std: Any = None,
    seed: int = 0,
    run: Run | None = None,
) -> PerSet:
    """One number per set; measure the sets with the highest scores first.

    Args:
        strategy: A name (AggMI, AggEnt, IVR, EPIG, MI, Ent, QBC, EMCM, Var, MaxN, MinN, Rand, and
            for dropout networks DAMI and DAEnt) or a function of (pool, posterior, rng).
        targets: Individuals whose predictions count, for IVR and EPIG: a table with the model's
            inputs. By default all individuals of `sets`.
        target_weights: How much each of them counts, at least 0.
        noise_std: Known noise of measuring a set, in addition to that of its individuals: one
            number, one for each set, a dict by id, or a function of the sets.
        seed: For the strategies that use random draws: QBC, EMCM, Rand, DAMI and DAEnt.
        run: For a design on disk: where its parts are worked on, such as
            `sumwise.distributed.on(client)`.

    >>> import sumwise as sw
    >>> sets = sw.Sets.from_arrays([[[0.0]], [[3.0]], [[3.0], [3.1]]], ids=["a", "b", "c"])
    >>> model = sw.AggregateRegressor(basis="linear", hyperparameters=(1.0, 1.0))
    >>> sw.score(sets, model.fit(sets[["a"]], [1.0], pool=sets), "AggMI").round(3)
    array([0.294, 0.417, 0.654])
    """
    fitted, pool = _pool_under(sets, model, run)
    validate.count(seed, "seed", 0)
    rng = np.random.default_rng(seed)
    options = {"targets": targets, "target_weights": target_weights, "noise_std": noise_std}
    pool = given_answers(read(pool.sets, options, "score").apply(pool, fitted), fitted)
    scores = by_part.scores(strategy, pool, fitted.posterior, rng)
    refuse_non_finite(scores, np.arange(len(scores)), pool)
    return scores


def select(
    sets: Sets | Embedded,
    model: AggregateRegressor,
    strategy: str | Acquisition = DEFAULT,
    n: int | None = None,
    *,
    but: Iterable[Hashable] = (),
    pending: Iterable[Hashable] = (),
    budget: float | None = None,
    seed: int = 0,
    run: Run | None = None,
    **objective: Unpack[ObjectiveOptions],
) -> list[Hashable]:
    """Ids of `n` sets to measure together, chosen jointly: not the n highest scores.

    After each pick the model is conditioned on it as if it were measured, so a batch does not ask
    the same thing twice. Any of `sets` may be picked: leave out measured sets, or name them.

    Args:
        n: How many; 1 if left out, or with a budget as many as it pays for.
        but: Ids in `sets` that are measured already, and not picked again.
        pending: Ids in `sets` that are being measured: treated as measured, and not picked.
        budget: Pick only what this pays for, in total; fewer than `n` if it does not pay for `n`.
            Picking by gain per cost is compared with picking by gain, and with the set that gains
            most followed by picks by gain per cost; the batch that gains most in all is taken.
        run: As in `score`.
        **objective: `targets`, `target_weights` and `noise_std`, as in `score`; and `cost`: what
            measuring each set costs, given like `noise_std`. Sets are then picked by gain per cost.
    """
    if n is not None:
        validate.count(n, "n")
    fitted, pool = _pool_under(sets, model, run)
    validate.count(seed, "seed", 0)
    wanted = read(pool.sets, objective, "select")
    money, cost = check_budget(budget, wanted.cost), wanted.cost
    pool, ids, at = wanted.apply(pool, fitted), pool.sets.ids, pool.sets.position
    state = PoolState([at(name) for name in but or ()], [at(name) for name in pending or ()])
    free = state.free(len(ids), least=(n or 1) if budget is None else 0)
    most = int(n or (1 if budget is None else free.sum()))
    record, posterior = named(strategy), fitted.posterior
    screened = record.key is not None and screens(record, pool, posterior)
    if cost is None and screened and pool.sets.members is None:
        if state.claimed:
            posterior = posterior.condition_on(pool.design.rows(state.claimed))
        return [ids[a] for a in joint(record, pool, posterior, free, most)]

    def draws(number: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))

    prices = Prices(cost, money)
    asked = propose(pool, fitted, record, state, draws, n=most, prices=prices, runner_up=False)
    return [ask.set_id for ask in asked]


def check_budget(budget: Any, cost: PerSet | None) -> float:
    """The budget as a number; infinite if there is none."""
    if budget is None:
        return float("inf")
    money = validate.amount(budget, "budget", "cost")
    if cost is None:
        raise SettingError(
            "a budget needs costs; give the cost of each set (in the shell: sumwise init --cost)"
        )
    return money


def _pool_under(
    sets: Sets | Embedded, model: AggregateRegressor, run: Run | None
) -> tuple[Model, Pool]:
    if not isinstance(model, AggregateRegressor):
        raise SettingError(
            f"model is a {type(model).__name__}; give a fitted AggregateRegressor (a learner's is "
            "learner.model)"
        )
    fitted = model.fitted()
    as_sets(sets)  # refuses what is none
    return fitted, over(sets, run).pool(fitted)
