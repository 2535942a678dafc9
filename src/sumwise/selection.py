"""Scores of sets under a fitted model, and joint batches."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Protocol, runtime_checkable

import numpy as np

from sumwise import model as core
from sumwise import outputs
from sumwise.acquisition import Acquisition, best, refuse_non_finite, scores_of
from sumwise.design import Pool, embed
from sumwise.embedded import Embedded, no_sets
from sumwise.errors import PoolExhaustedError, SettingError
from sumwise.model import Model
from sumwise.screening import joint, screens
from sumwise.sets import Sets
from sumwise.shapes import Float


@runtime_checkable
class Fitted(Protocol):
    """Anything that holds a fitted model, such as an `AggregateRegressor`."""

    def fitted(self) -> Model: ...


def score(
    sets: Sets | Embedded, model: Fitted, strategy: str | Acquisition = "AggMI", *, seed: int = 0
) -> Float[np.ndarray, " A"]:
    """One number per set: higher is worth measuring sooner.

    Args:
        strategy: A name (AggMI, AggEnt, MI, Ent, QBC, EMCM, Var, MaxN, MinN, Rand, and for dropout
            networks DAMI and DAEnt) or a function of (pool, posterior, rng).
        seed: For the strategies that draw: QBC, EMCM, Rand, DAMI and DAEnt.

    >>> import sumwise as sw
    >>> sets = sw.Sets.from_arrays([[[0.0]], [[3.0]], [[3.0], [3.1]]], ids=["a", "b", "c"])
    >>> model = sw.AggregateRegressor(basis="linear", hyperparameters=(1.0, 1.0))
    >>> sw.score(sets, model.fit(sets[["a"]], [1.0], pool=sets)).round(3)
    array([0.294, 0.417, 0.654])
    """
    fitted = _fitted(model)
    core.check_seed(seed, "seed")
    rng = np.random.default_rng(seed)
    pool = pool_of(sets, fitted)
    scores = scores_of(strategy, pool, fitted.posterior, rng)
    refuse_non_finite(scores, np.ones(len(scores), dtype=bool), pool.sets.ids)
    return scores


def select(
    sets: Sets | Embedded,
    model: Fitted,
    strategy: str | Acquisition = "AggMI",
    n: int = 1,
    *,
    but: Iterable[Hashable] = (),
    pending: Iterable[Hashable] = (),
    seed: int = 0,
) -> list[Hashable]:
    """Ids of `n` sets to measure together: a joint batch, never the n best one by one.

    After each pick the model is conditioned on it as if it were measured, so a batch does not ask
    the same thing twice. Any of `sets` may be picked: leave out those that are measured already,
    or name them.

    Args:
        but: Ids in `sets` that are measured already, and not picked again.
        pending: Ids in `sets` that are being measured: conditioned on, and not picked again.
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise SettingError(f"n is {n!r}; give a whole number of at least 1")
    fitted = _fitted(model)
    core.check_seed(seed, "seed")
    pool = pool_of(sets, fitted)
    sets = pool.sets
    allowed = np.ones(len(sets), dtype=bool)
    allowed[[sets.position(set_id) for set_id in but or ()]] = False
    posterior = fitted.posterior
    waiting = [sets.position(set_id) for set_id in pending or ()]
    if waiting:
        allowed[waiting] = False
        posterior = posterior.given(pool.design.rows(waiting))
    if allowed.sum() < n:
        raise PoolExhaustedError(
            f"{n} sets were asked for and {allowed.sum()} of {len(sets)} are free; ask for fewer"
        )
    if isinstance(strategy, str) and screens(strategy, pool):
        return [sets.ids[a] for a in joint(strategy, pool, posterior, allowed, int(n))]
    rngs = np.random.default_rng(seed).spawn(int(n))
    picked: list[int] = []
    for rng in rngs:
        chosen = best(scores_of(strategy, pool, posterior, rng), allowed, sets.ids)
        picked.append(chosen)
        allowed[chosen] = False
        posterior = posterior.given(pool.design.rows([chosen]))
    return [sets.ids[a] for a in picked]


def _fitted(model: Fitted) -> Model:
    if not isinstance(model, Fitted):
        raise SettingError(
            f"model is a {type(model).__name__}; give a fitted AggregateRegressor (a learner's is "
            "learner.model)"
        )
    return model.fitted()


def pool_of(sets: Sets | Embedded, model: Model) -> Pool:
    """`sets` as strategies see them under `model`."""
    if isinstance(sets, Embedded):
        return sets.under(model.basis)
    if not isinstance(sets, Sets):
        raise no_sets(sets)
    outputs.check_inputs(model, sets)
    return Pool(sets, model.basis, embed(sets, model.basis))
