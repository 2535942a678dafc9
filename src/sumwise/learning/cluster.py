"""Questions and batches on a pool that is spread over workers: each slice sends its best."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sumwise.acquisition import batches
from sumwise.acquisition.bounds import Key, bounds
from sumwise.acquisition.screening import candidates
from sumwise.acquisition.strategies import ACQUISITIONS, TIE, named
from sumwise.data.lazy import LazySets
from sumwise.data.validate import check_labels
from sumwise.errors import PoolExhaustedError, SettingError, UnknownSetError
from sumwise.learning.cluster_pool import ClusterPool, Slice, nobody
from sumwise.learning.estimator import AggregateRegressor
from sumwise.model import fit as core
from sumwise.model.design import Design
from sumwise.model.posterior import Posterior
from sumwise.outofcore.index import ids_of

SHORTLIST: Final = 128  # sets of each slice that a batch is looked for in first


@dataclass(frozen=True, slots=True)
class Scored:
    """A set that is among the best."""

    set_id: Hashable
    score: float
    position: int


def fit(pool: ClusterPool, totals: Mapping[Hashable, float]) -> AggregateRegressor:
    """The model after these totals, by id: only their sets' rows leave the workers."""
    labels = check_labels(list(totals.values()), tuple(totals))
    rows = rows_of(pool, positions_of(pool, totals))
    config = pool.config
    fitted = core.fit(config, pool.prepared, None, rows, labels)
    inputs = LazySets((), (), len(pool.scan.x), pool.scan.x, nobody)
    face = AggregateRegressor.from_fitted(config, fitted, inputs)
    face.prepared_ = pool.prepared
    return face


def score(
    pool: ClusterPool,
    model: AggregateRegressor,
    strategy: str = "AggMI",
    n: int = 1,
    *,
    but: Iterable[Hashable] = (),
) -> list[Scored]:
    """The `n` best sets one by one, the best first, with their scores.

    Args:
        strategy: AggMI or AggEnt.
        but: Ids of sets that are measured already.
    """
    posterior = _checked(pool, model, strategy, n)
    taken = _by_slice(pool, positions_of(pool, but))
    found = [one for held in pool.each(_lead, strategy, posterior, taken, n) for one in held]
    if len(found) < n:
        raise PoolExhaustedError(f"{n} sets were asked for and {len(found)} are free")
    ranked = [Scored(set_id, value, pool.first(number) + at) for number, at, set_id, value in found]
    ranked.sort(key=lambda one: (-one.score, one.position))
    top = ranked[0].score
    first = min(
        (one for one in ranked if one.score >= top - TIE * abs(top)), key=lambda one: one.position
    )
    return [first, *(one for one in ranked if one is not first)][:n]


def select(
    pool: ClusterPool,
    model: AggregateRegressor,
    strategy: str = "AggMI",
    n: int = 1,
    *,
    but: Iterable[Hashable] = (),
    pending: Iterable[Hashable] = (),
) -> list[Hashable]:
    """Ids of a joint batch of `n` sets, those that `sumwise.select` would pick.

    Args:
        but: Ids of sets that are measured already.
        pending: Ids of sets that are being measured: conditioned on, and not picked again.
    """
    posterior = _checked(pool, model, strategy, n)
    waiting = positions_of(pool, pending)
    if waiting:
        posterior = posterior.condition_on(rows_of(pool, waiting))
    taken = [*positions_of(pool, but), *waiting]
    if len(pool) - len(set(taken)) < n:
        free = len(pool) - len(set(taken))
        raise PoolExhaustedError(f"{n} sets were asked for and {free} are free; ask for fewer")
    picked: list[int] = []
    names: dict[int, Hashable] = {}
    now, size, record = posterior, SHORTLIST, named(strategy)
    key = record.key
    while len(picked) < n:
        job = (key, now, _by_slice(pool, [*taken, *picked]), size)
        lists = [one for one in pool.each(_shortlist, *job) if one is not None]
        found, known = _merged(pool, lists)
        names |= known
        root = now.root_times(np.eye(len(now.mean)))
        stub = Slice(None, np.empty(0, int), found.rows, np.empty(0)).pool()
        new, _, _ = batches.greedy(record, stub, found, root, now, n - len(picked))
        picked += new
        if new:
            at = np.searchsorted(found.positions, new)
            now = now.condition_on(found.rows.rows(at))
        else:
            size *= 4
    return [names[position] for position in picked]


def _checked(pool: ClusterPool, model: AggregateRegressor, strategy: str, n: int) -> Posterior:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise SettingError(f"n is {n!r}; give a whole number of at least 1")
    keyed = [known.name for known in ACQUISITIONS.values() if known.key is not None]
    if strategy not in keyed:
        raise SettingError(f"strategy is {strategy!r}; on a cluster there are {', '.join(keyed)}")
    fitted = model.fitted()
    if fitted.basis is not pool.prepared.basis:
        raise SettingError(
            "the model has another basis than the pool; make it with distributed.fit"
        )
    return fitted.posterior


def _lead(
    held: Slice,
    number: int,
    strategy: str,
    posterior: Posterior,
    taken: Mapping[int, list[int]],
    n: int,
) -> list[tuple[int, int, Hashable, float]]:
    allowed = np.ones(len(held.sizes), dtype=bool)
    allowed[taken.get(number, [])] = False
    if not allowed.any():
        return []
    rng = np.random.default_rng(0)
    found = candidates(strategy, held.pool(), posterior, rng, allowed, n)
    order = np.lexsort((found.positions, -found.scores))[:n]
    ids = ids_of(held.keys.take(found.positions[order]))
    where = zip(found.positions[order].tolist(), ids, found.scores[order].tolist(), strict=True)
    return [(number, at, name, value) for at, name, value in where]


def _shortlist(
    held: Slice,
    number: int,
    key: Key,
    posterior: Posterior,
    taken: Mapping[int, list[int]],
    size: int,
) -> tuple[int, batches.Shortlist, tuple[Hashable, ...]] | None:
    allowed = np.ones(len(held.sizes), dtype=bool)
    allowed[taken.get(number, [])] = False
    if not allowed.any():
        return None
    high = bounds(key, held.pool(), posterior)[1]
    found = batches.shortlist(held.design, high, allowed, size)
    return number, found, ids_of(held.keys.take(found.positions))


def _merged(
    pool: ClusterPool,
    lists: Sequence[tuple[int, batches.Shortlist, tuple[Hashable, ...]]],
) -> tuple[batches.Shortlist, dict[int, Hashable]]:
    positions = np.concatenate([pool.first(number) + one.positions for number, one, _ in lists])
    rows = Design(
        np.concatenate([one.rows.u for _, one, _ in lists]),
        np.concatenate([one.rows.noise_scale for _, one, _ in lists]),
        np.concatenate([one.rows.theta_sum for _, one, _ in lists]),
    )
    names = [name for _, _, ids in lists for name in ids]
    rest = max(one.rest for _, one, _ in lists)
    return batches.Shortlist(positions, rows, rest), dict(
        zip(positions.tolist(), names, strict=True)
    )


# --- some sets ------------------------------------------------------------------------------------


def positions_of(pool: ClusterPool, ids: Iterable[Hashable]) -> list[int]:
    """Where sets are; an id that nobody has is refused."""
    wanted = list(ids)
    if not wanted:
        return []
    found: dict[Hashable, int] = {}
    for number, held in enumerate(pool.each(_find, wanted)):
        found |= {name: pool.first(number) + at for name, at in held.items()}
    for name in wanted:
        if name not in found:
            raise UnknownSetError(f"no set has the id {name!r}")
    return [found[name] for name in wanted]


def _find(held: Slice, number: int, wanted: Sequence[Hashable]) -> dict[Hashable, int]:
    del number
    known = set(wanted)
    return {name: at for at, name in enumerate(ids_of(held.keys)) if name in known}


def rows_of(pool: ClusterPool, positions: Sequence[int]) -> Design:
    """The rows of some sets, in this order."""
    by_slice = _by_slice(pool, positions)
    rows: dict[int, tuple[Any, ...]] = {}
    for number, held in enumerate(pool.each(_rows, by_slice)):
        for at, row in zip(by_slice.get(number, []), held, strict=True):
            rows[pool.first(number) + at] = row
    n_basis = len(pool.prepared.basis(np.zeros((1, len(pool.scan.x))))[0])
    picked = [rows[position] for position in positions]
    return Design(
        np.array([row[0] for row in picked]).reshape(len(picked), n_basis),
        np.array([row[1] for row in picked]),
        np.array([row[2] for row in picked]),
    )


def _rows(held: Slice, number: int, by_slice: Mapping[int, list[int]]) -> list[tuple[Any, ...]]:
    rows = held.design.rows(by_slice.get(number, []))
    return list(zip(rows.u, rows.noise_scale, rows.theta_sum, strict=True))


def _by_slice(pool: ClusterPool, positions: Sequence[int]) -> dict[int, list[int]]:
    """Places within slices, by slice."""
    ends = np.cumsum(pool.counts)
    out: dict[int, list[int]] = {}
    for position in positions:
        number = int(np.searchsorted(ends, position, side="right"))
        out.setdefault(number, []).append(position - pool.first(number))
    return out
