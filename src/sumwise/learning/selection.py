"""Scores of sets under a fitted model, and joint batches."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final, Protocol, Unpack, runtime_checkable

import numpy as np

from sumwise.acquisition.batches import joint
from sumwise.acquisition.objective import ObjectiveOptions, read
from sumwise.acquisition.screening import candidates, screens
from sumwise.acquisition.strategies import (
    DEFAULT,
    Acquisition,
    Strategy,
    named,
    refuse_non_finite,
    scores_of,
)
from sumwise.data import validate
from sumwise.data.sets import Sets
from sumwise.errors import PoolExhaustedError, SettingError
from sumwise.model.design import Pool
from sumwise.model.fit import Model
from sumwise.model.posterior import Posterior
from sumwise.outofcore.design_store import Embedded, as_sets
from sumwise.util.shapes import Bool, Float

ROUNDING: Final = 1e-12  # of a budget: sums of costs are rounded


@runtime_checkable
class Fitted(Protocol):
    """Anything that holds a fitted model, such as an `AggregateRegressor`."""

    def fitted(self) -> Model: ...


def score(
    sets: Sets | Embedded,
    model: Fitted,
    strategy: str | Acquisition = DEFAULT,
    *,
    targets: Any = None,
    target_weights: Any = None,
    noise_std: Any = None,
    seed: int = 0,
) -> Float[np.ndarray, " A"]:
    """One number per set: higher is worth measuring sooner.

    Args:
        strategy: A name (AggMI, AggEnt, IVR, EPIG, MI, Ent, QBC, EMCM, Var, MaxN, MinN, Rand, and
            for dropout networks DAMI and DAEnt) or a function of (pool, posterior, rng).
        targets: Individuals whose predictions count, for IVR and EPIG: a table with the model's
            inputs. By default all individuals of `sets`.
        target_weights: How much each of them counts, at least 0.
        noise_std: Noise that measuring a set is known to have, beside that of its individuals: one
            number, one for each set, a dict by id, or a function of the sets.
        seed: For the strategies that draw: QBC, EMCM, Rand, DAMI and DAEnt.

    >>> import sumwise as sw
    >>> sets = sw.Sets.from_arrays([[[0.0]], [[3.0]], [[3.0], [3.1]]], ids=["a", "b", "c"])
    >>> model = sw.AggregateRegressor(basis="linear", hyperparameters=(1.0, 1.0))
    >>> sw.score(sets, model.fit(sets[["a"]], [1.0], pool=sets), "AggMI").round(3)
    array([0.294, 0.417, 0.654])
    """
    fitted, pool = _pool_under(sets, model)
    validate.count(seed, "seed", 0)
    rng = np.random.default_rng(seed)
    options = {"targets": targets, "target_weights": target_weights, "noise_std": noise_std}
    pool = read(pool.sets, options, "score").apply(pool, fitted)
    scores = scores_of(strategy, pool, fitted.posterior, rng)
    refuse_non_finite(scores, np.arange(len(scores)), pool)
    return scores


def select(
    sets: Sets | Embedded,
    model: Fitted,
    strategy: str | Acquisition = DEFAULT,
    n: int | None = None,
    *,
    but: Iterable[Hashable] = (),
    pending: Iterable[Hashable] = (),
    budget: float | None = None,
    seed: int = 0,
    **objective: Unpack[ObjectiveOptions],
) -> list[Hashable]:
    """Ids of `n` sets to measure together: a joint batch, never the n best one by one.

    After each pick the model is conditioned on it as if it were measured, so a batch does not ask
    the same thing twice. Any of `sets` may be picked: leave out those that are measured already,
    or name them.

    Args:
        n: How many; 1 if left out, or with a budget as many as it pays for.
        but: Ids in `sets` that are measured already, and not picked again.
        pending: Ids in `sets` that are being measured: conditioned on, and not picked again.
        budget: Pick only what this pays for, in all; fewer than `n` if it does not pay for more.
        **objective: `targets`, `target_weights` and `noise_std`, as in `score`; and `cost`: what
            measuring each set costs, given like `noise_std`. Sets are then picked by gain per cost.
    """
    if n is not None:
        validate.count(n, "n")
    fitted, pool = _pool_under(sets, model)
    validate.count(seed, "seed", 0)
    wanted = read(pool.sets, objective, "select")
    money, cost = check_budget(budget, wanted.cost), wanted.cost
    pool, ids, at = wanted.apply(pool, fitted), pool.sets.ids, pool.sets.position
    free = np.ones(len(ids), dtype=bool)
    waiting = [at(set_id) for set_id in pending or ()]
    free[[*waiting, *(at(set_id) for set_id in but or ())]] = False
    posterior = fitted.posterior
    if waiting:
        posterior = posterior.condition_on(pool.design.rows(waiting))
    most = int(n or (1 if budget is None else free.sum()))
    if budget is None and free.sum() < most:
        raise PoolExhaustedError(
            f"{n} sets were asked for and {free.sum()} of {len(ids)} are free; ask for fewer"
        )
    record = named(strategy)
    if cost is None and record.key is not None and screens(record, pool, posterior):
        return [ids[a] for a in joint(record, pool, posterior, free, most)]
    picked = _one_by_one(record, pool, posterior, free, most, cost, money, seed)
    if not picked:
        raise nothing_affordable(money, cost, free)
    return [ids[a] for a in picked]


def _one_by_one(
    strategy: Strategy,
    pool: Pool,
    posterior: Posterior,
    free: Bool[np.ndarray, " A"],
    most: int,
    cost: Float[np.ndarray, " A"] | None,
    budget: float,
    seed: int,
) -> list[int]:
    """Positions of the best sets, each given those before it; they are taken out of `free`."""
    picked, paid, source = list[int](), 0.0, np.random.default_rng(seed)
    while len(picked) < most:
        affordable = free if cost is None else free & pays_for(budget, paid, cost)
        if not affordable.any():
            break
        if picked:
            posterior = posterior.condition_on(pool.design.rows(picked[-1:]))
        rng = source.spawn(1)[0]
        picked.append(candidates(strategy, pool, posterior, rng, affordable, cost=cost).best())
        free[picked[-1]] = False
        paid += 0.0 if cost is None else float(cost[picked[-1]])
    return picked


def check_budget(budget: Any, cost: Float[np.ndarray, " A"] | None) -> float:
    """The budget as a number; infinite if there is none."""
    if budget is None:
        return float("inf")
    money = validate.amount(budget, "budget", "cost")
    if cost is None:
        raise SettingError(
            "a budget needs costs; give the cost of each set (in the shell: sumwise init --cost)"
        )
    return money


def pays_for(budget: float, paid: float, cost: Float[np.ndarray, " A"]) -> Bool[np.ndarray, " A"]:
    """Which sets the rest of a budget pays for; three that cost 0.1 are paid by 0.3."""
    return paid + cost <= budget * (1 + ROUNDING)


def nothing_affordable(
    budget: float, cost: Float[np.ndarray, " A"] | None, allowed: Bool[np.ndarray, " A"]
) -> PoolExhaustedError:
    if cost is None or not allowed.any():
        return PoolExhaustedError("every set is measured or being measured; nothing is left to ask")
    return PoolExhaustedError(
        f"the budget of {budget:g} pays for no set: the cheapest that is free costs "
        f"{cost[allowed].min():g}"
    )


def _pool_under(sets: Sets | Embedded, model: Fitted) -> tuple[Model, Pool]:
    if not isinstance(model, Fitted):
        raise SettingError(
            f"model is a {type(model).__name__}; give a fitted AggregateRegressor (a learner's is "
            "learner.model)"
        )
    fitted: Model = model.fitted()
    as_sets(sets)  # refuses what is none
    return fitted, sets.pool(fitted)
