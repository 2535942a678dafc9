"""Questions on a Dask cluster whose workers hold the design in memory; nothing is written.

Each part of the files becomes a slice of the pool. A set that spans parts belongs to the slice in
which it begins, and the other parts send their shares of its row. For each question the posterior
(t vectors of K numbers) travels to the workers, and the few best sets of each slice travel back. If
a worker dies, Dask makes its slices again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np

from sumwise.acquisition import batches
from sumwise.acquisition.bounds import bounds
from sumwise.acquisition.screening import Candidates, candidates, with_squares
from sumwise.acquisition.strategies import ACQUISITIONS, Strategy
from sumwise.data.parquet import Part, Scan
from sumwise.data.sets import LazySets, Sets
from sumwise.data.validate import check_labels, count
from sumwise.errors import InvalidSetError, PoolExhaustedError, SettingError
from sumwise.learning.estimator import AggregateRegressor, drawn_for
from sumwise.model import fit as core
from sumwise.model.basis import Scaled
from sumwise.model.design import Design, Pool
from sumwise.model.posterior import Posterior
from sumwise.outofcore.build import SMALLEST_SINGLE, check_dtype
from sumwise.outofcore.design_store import lazy_sets
from sumwise.outofcore.embed_part import Rows, runs
from sumwise.outofcore.index import (
    PartSurvey,
    ids_of,
    index_of,
    inputs_of,
    refuse_ids,
    survey_part,
)
from sumwise.util.shapes import Bool, Int

SHORTLIST: Final = 128  # sets of each slice that a batch is looked for in first


class Scored(NamedTuple):
    """A set that is among the best."""

    set_id: Hashable
    score: float
    position: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterPool:
    """A pool whose design is spread over the workers of a cluster; made by `embed`."""

    client: Any
    config: core.ModelConfig
    prepared: core.Prepared
    sets: Sets  # ids and sizes
    slices: tuple[Any, ...]  # futures of `Pool`
    starts: Int[np.ndarray, " p1"]  # position of the first set of each slice, and of the end

    def __len__(self) -> int:
        return len(self.sets)

    def __repr__(self) -> str:
        return f"ClusterPool: {len(self)} sets in {len(self.slices)} slices on {self.client}"

    def each(self, job: Callable[..., Any], positions: Sequence[int], *more: Any) -> list[Any]:
        """What `job(slice, places of these sets in it, …)` gives on the worker of each slice."""
        numbers = np.searchsorted(self.starts, positions, side="right") - 1
        places = np.asarray(positions, dtype=np.int64) - self.starts[numbers]
        jobs = ((held, places[numbers == number]) for number, held in enumerate(self.slices))
        return self.client.gather([self.client.submit(job, *j, *more, pure=False) for j in jobs])

    def rows(self, positions: Sequence[int]) -> Design:
        """The rows of some sets, in this order."""
        rows = _joined(self.each(lambda held, places: held.design.rows(places), positions))
        by_slice = np.argsort(np.searchsorted(self.starts, positions, side="right"), kind="stable")
        return rows.rows(np.argsort(by_slice))


# --- embedding ------------------------------------------------------------------------------------


def embed(
    client: Any, scan: Scan, model: AggregateRegressor, *, dtype: str = "float64"
) -> ClusterPool:
    """Read the files on the workers and keep the design there.

    The rows of a set must follow one another, across files if need be. Sets come in order of first
    appearance, as everywhere.
    """
    check_dtype(dtype)
    parts, config, prepared = scan.parts(), model.config(), drawn_for(model, scan)
    surveys = client.map(partial(_surveyed, scan, inputs=prepared is None), parts, pure=False)
    found: list[PartSurvey] = client.gather(surveys)
    index = index_of(found)
    if index.sizes is None:
        names = groupby(name for survey in found for name in ids_of(survey.keys))
        raise InvalidSetError(
            f"the rows of set {Counter(name for name, _ in names).most_common(1)[0][0]!r} do not "
            "follow one another. On a cluster they must: write the files sorted by set, or let "
            "AggregateRegressor.embed sort them locally."
        )
    sets = lazy_sets(partial(ids_of, index.keys), index.sizes, scan)
    if prepared is None:
        prepared = core.prepare(config, sets, inputs_of(index.statistics))
    if prepared.basis.learns:
        raise SettingError("a basis that learns cannot be embedded beforehand")
    firsts = np.array(index.first_sets)
    ends = firsts + [len(survey.lengths) for survey in found]
    starts = np.maximum(firsts, np.concatenate([[0], ends[:-1]]))  # of the sets that begin in it
    sizes = [index.sizes[first:end] for first, end in zip(firsts, ends, strict=True)]
    job = partial(_embedded, scan, prepared.basis, dtype)
    rows = client.map(job, parts, sizes, pure=False)
    heads = client.map(lambda of: [column[:1] for column in of], rows, pure=False)
    kept = np.flatnonzero(starts < ends).tolist()
    slices = []
    for p in kept:
        shares = [heads[p + 1 + q] for q in np.flatnonzero(firsts[p + 1 :] == ends[p] - 1)]
        mine = rows[p], surveys[p], sizes[p], shares, int(starts[p] - firsts[p])
        slices.append(client.submit(_slice, *mine, prepared.basis, pure=False))
    bounds = np.append(starts[kept], ends[-1])
    return ClusterPool(client, config, prepared, sets, tuple(slices), bounds)


def _surveyed(scan: Scan, part: Part, *, inputs: bool) -> PartSurvey:
    found = survey_part(scan, part, inputs=inputs)
    refuse_ids(found.keys)
    return found


def _embedded(
    scan: Scan, basis: Scaled, dtype: str, part: Part, sizes: Int[np.ndarray, " r"]
) -> Rows:
    """The sets of a part, and its share of those that it has in common with others."""
    every = [rows for rows, _, _ in runs(scan, part, basis, np.dtype(dtype), sizes)]
    return Rows(*(np.concatenate(parts) for parts in zip(*every, strict=True)))


def _slice(
    rows: Rows,
    survey: PartSurvey,
    sizes: Int[np.ndarray, " r"],
    shares: Sequence[Sequence[np.ndarray]],
    skip: int,
    basis: Scaled,
) -> Pool:
    """The sets that begin in a part, with the shares that other parts have of the last one."""
    u, noise_scale, theta_sum = mine = [values[skip:].copy() for values in rows]
    for share in shares:
        for values, more in zip(mine, share, strict=True):
            values[-1] += more[0]
    keys, least = survey.keys.slice(skip), SMALLEST_SINGLE if u.dtype == np.float32 else 0.0
    usable = np.isfinite(noise_scale) & (noise_scale > least)
    usable[-1] &= np.isfinite(u[-1]).all()
    if not usable.all():
        name = ids_of(keys.slice(int(np.argmin(usable)), 1))[0]
        raise InvalidSetError(
            f"weights of set {name!r} are all zero, or beyond what can be squared. Drop the set or "
            "rescale its weights."
        )
    sets = LazySets(partial(ids_of, keys), sizes[skip:], 1, None, _no_individuals)
    return with_squares(Pool(sets, basis, Design(u, noise_scale, theta_sum)))


def _no_individuals() -> Any:
    raise SettingError("this looks at individuals, which stay in their files on a cluster")


# --- questions ------------------------------------------------------------------------------------


def fit(pool: ClusterPool, totals: Mapping[Hashable, float]) -> AggregateRegressor:
    """The model after these totals, by id: only their sets' rows leave the workers."""
    labels = check_labels(list(totals.values()), tuple(totals))
    rows = pool.rows([pool.sets.position(set_id) for set_id in totals])
    fitted = core.fit(pool.config, pool.prepared, None, rows, labels)
    model = AggregateRegressor.from_fitted(pool.config, fitted, pool.sets)
    model.prepared_ = pool.prepared
    return model


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
    record, posterior, taken = _checked(pool, model, strategy, n, but)
    lists = pool.each(_best, taken, record, posterior, n)
    at = np.concatenate([first + p for first, (p, _) in zip(pool.starts, lists, strict=False)])
    found = Candidates(at, np.concatenate([scores for _, scores in lists]))
    order = np.lexsort((at, -found.scores, at != found.best()))[:n]
    names = (pool.sets.ids[position] for position in at[order])
    return list(map(Scored, names, found.scores[order].tolist(), at[order].tolist()))


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
    waiting = list(pending)
    record, posterior, taken = _checked(pool, model, strategy, n, [*waiting, *but])
    if waiting:
        posterior = posterior.condition_on(pool.rows(taken[: len(waiting)]))
    picked, size = list[int](), SHORTLIST
    while len(picked) < n:
        lists = pool.each(_shortlist, [*taken, *picked], record, posterior, size)
        firsts = zip(pool.starts, lists, strict=False)
        at = np.concatenate([first + one.positions for first, one in firsts])
        rows = _joined([one.rows for one in lists])
        found = batches.Shortlist(at, rows, max(one.rest for one in lists))
        root = posterior.root_times(np.eye(rows.u.shape[1]))
        blank = Pool(pool.sets, pool.prepared.basis, rows)
        new, _, _ = batches.greedy(record, blank, found, root, posterior, n - len(picked))
        picked += new
        if new:
            posterior = posterior.condition_on(rows.rows(np.searchsorted(at, new)))
        else:
            size *= 4
    return [pool.sets.ids[position] for position in picked]


def _checked(
    pool: ClusterPool, model: AggregateRegressor, strategy: str, n: int, taken: Iterable[Hashable]
) -> tuple[Strategy, Posterior, list[int]]:
    """The strategy, the posterior, and the positions of sets that are taken."""
    count(n, "n")
    known = [record.name for record in ACQUISITIONS.values() if record.key is not None]
    if strategy not in known:
        raise SettingError(f"strategy is {strategy!r}; on a cluster there are {', '.join(known)}")
    fitted = model.fitted()
    if fitted.basis is not pool.prepared.basis:
        raise SettingError(
            "the model has another basis than the pool; make it with distributed.fit"
        )
    positions = [pool.sets.position(set_id) for set_id in taken]
    free = len(pool) - len(set(positions))
    if free < n:
        raise PoolExhaustedError(f"{n} sets were asked for and {free} are free; ask for fewer")
    return ACQUISITIONS[strategy], fitted.posterior, positions


def _free(held: Pool, taken: Int[np.ndarray, " t"]) -> Bool[np.ndarray, " a"]:
    free = np.ones(len(held.design), dtype=bool)
    free[taken] = False
    return free


def _best(
    held: Pool, taken: Int[np.ndarray, " t"], strategy: Strategy, posterior: Posterior, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Places and scores of the best sets of a slice, in order of place."""
    free = _free(held, taken)
    if not free.any():
        return np.empty(0, dtype=np.int64), np.empty(0)
    found = candidates(strategy, held, posterior, np.random.default_rng(0), free, n)
    best = np.sort(np.lexsort((found.positions, -found.scores))[:n])
    return found.positions[best], found.scores[best]


def _shortlist(
    held: Pool, taken: Int[np.ndarray, " t"], strategy: Strategy, posterior: Posterior, size: int
) -> batches.Shortlist:
    """Sets of a slice that may be among the best."""
    assert strategy.key is not None  # as checked
    high = bounds(strategy.key, held, posterior)[1]
    return batches.shortlist(held.design, high, _free(held, taken), size)


def _joined(designs: Sequence[Design]) -> Design:
    parts = [(design.u, design.noise_scale, design.theta_sum) for design in designs]
    return Design(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
