"""Questions on a Dask cluster whose workers hold the design in memory; nothing is written.

Each part of the files becomes a slice of the pool. A set that spans parts belongs to the slice in
which it begins, and the other parts send their shares of its row. For each question the posterior
(t vectors of K numbers) travels to the workers, and the few best sets of each slice travel back. If
a worker dies, Dask makes its slices again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np

from sumwise.acquisition.batches import Shortlist, grow, shortlist
from sumwise.acquisition.screening import Candidates, candidates, with_squares
from sumwise.acquisition.strategies import ACQUISITIONS, Acquisition, Strategy, named
from sumwise.data.parquet import Part, Scan
from sumwise.data.sets import LazySets, Sets
from sumwise.data.targets import Inputs, Targets, subsample
from sumwise.data.validate import check_labels, count
from sumwise.errors import InvalidSetError, SettingError
from sumwise.learning.estimator import AggregateRegressor, drawn_for
from sumwise.learning.propose import PoolState
from sumwise.model import fit as core
from sumwise.model.basis import Scaled
from sumwise.model.design import Design, Pool
from sumwise.model.posterior import Posterior
from sumwise.outofcore.build import SMALLEST_SINGLE, check_dtype, surveyed
from sumwise.outofcore.dask import on
from sumwise.outofcore.design_store import lazy_sets
from sumwise.outofcore.embed_part import Rows, runs
from sumwise.outofcore.index import (
    PartSurvey,
    ids_of,
    index_of,
    refuse_ids,
    survey_part,
)
from sumwise.util.shapes import Int, Mask

SHORTLIST: Final = 128  # sets of each slice that a batch is looked for in first
# on the worker that holds a slice: given the slice and which of its sets are free, finds some
Job = Callable[[Pool, Mask], Shortlist | Candidates]


class Scored(NamedTuple):
    """A set that is among the best."""

    set_id: Hashable
    score: float
    position: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterPool:
    """A pool whose design is spread over the workers of a cluster; made by `embed`."""

    client: Any  # of the cluster, from `connect`
    prepared: core.Prepared  # what the model knows before any answer
    sets: Sets  # ids and sizes
    slices: tuple[Any, ...]  # futures of `Pool`
    starts: Int[np.ndarray, " p1"]  # position of the first set of each slice, and of the end

    def __len__(self) -> int:
        return len(self.sets)

    def __repr__(self) -> str:
        return f"ClusterPool: {len(self)} sets in {len(self.slices)} slices on {self.client}"

    def each(self, job: Job, taken: Sequence[int]) -> list[Any]:
        """What a job finds in each slice, whose sets at these positions are taken."""
        at = np.sort(np.asarray(taken, dtype=np.int64))
        inside = np.split(at, np.searchsorted(at, self.starts[1:-1]))
        jobs = zip(self.slices, self.starts[:-1], inside, strict=True)
        found = [self.client.submit(_on_slice, job, *one, pure=False) for one in jobs]
        return self.client.gather(found)

    def rows(self, positions: Sequence[int]) -> Design:
        """The rows of some sets, in this order."""
        found = _joined(self.each(_rows_of_taken, positions))
        return found.rows.rows(np.searchsorted(found.positions, positions))


def _on_slice(job: Job, held: Pool, first: int, taken: Int[np.ndarray, " t"]) -> Any:
    free = np.ones(len(held.design), dtype=bool)
    free[taken - first] = False
    found = job(held, free)
    return replace(found, positions=first + found.positions)


def _rows_of_taken(held: Pool, free: Mask) -> Shortlist:
    places = np.flatnonzero(~free)
    return Shortlist(places, held.design.rows(places), rest=np.inf)


def _joined(lists: Sequence[Shortlist]) -> Shortlist:
    rows = [(one.rows.u, one.rows.noise_scale, one.rows.theta_sum) for one in lists]
    u, noise_scale, theta_sum = map(np.concatenate, zip(*rows, strict=True))
    design = Design(u, noise_scale, theta_sum)
    at = np.concatenate([one.positions for one in lists])
    return Shortlist(at, design, max(one.rest for one in lists))


# --- embedding ------------------------------------------------------------------------------------


def embed(
    client: Any, scan: Scan, model: AggregateRegressor, *, dtype: str = "float64"
) -> ClusterPool:
    """Read the files on the workers and keep the design there.

    The rows of a set must follow one another, across files if need be. Sets come in order of first
    appearance, as everywhere.
    """
    check_dtype(dtype)
    if model.outputs != "numbers":
        raise SettingError(
            f"a cluster holds the design of numbers, and that of {model.outputs} changes after "
            "every answer: use AggregateRegressor.embed, which writes individuals to a folder"
        )
    (prepared, scan), parts = drawn_for(model, scan), scan.parts()

    def survey(scan: Scan) -> tuple[list[Any], list[PartSurvey]]:
        surveys = client.map(partial(survey_part, scan, inputs=True), parts, pure=False)
        return surveys, client.gather(surveys)

    scan, (surveys, found) = surveyed(scan, survey, on(client), prepared)
    index = index_of(found)
    refuse_ids(index.keys)
    if index.sizes is None:
        names = groupby(name for survey in found for name in ids_of(survey.keys))
        raise InvalidSetError(
            f"the rows of set {Counter(name for name, _ in names).most_common(1)[0][0]!r} do not "
            "follow one another. On a cluster they must: write the files sorted by set, or let "
            "AggregateRegressor.embed sort them locally."
        )
    sets = lazy_sets(partial(ids_of, index.keys), index.sizes, scan)
    statistics = Inputs.combine(index.statistics)
    targets = Targets(statistics.subsample, subsample(scan.rows)[1], scan.rows)
    if prepared is None:
        prepared = model.config().prepare(sets, statistics)
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
        slices.append(client.submit(_slice, *mine, prepared.basis, targets, pure=False))
    bounds = np.append(starts[kept], ends[-1])
    return ClusterPool(client, prepared, sets, tuple(slices), bounds)


def _embedded(
    scan: Scan, basis: Scaled, dtype: str, part: Part, sizes: Int[np.ndarray, " r"]
) -> Rows:
    """The sets of a part, and its share of those that it has in common with others."""
    every = [rows for rows, _, _ in runs(scan, part, basis, np.dtype(dtype), sizes)]
    return Rows(*map(np.concatenate, zip(*every, strict=True)))


def _slice(
    rows: Rows,
    survey: PartSurvey,
    sizes: Int[np.ndarray, " r"],
    shares: Sequence[Sequence[np.ndarray]],
    skip: int,
    basis: Scaled,
    targets: Targets,
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
    return with_squares(Pool(sets, basis, Design(u, noise_scale, theta_sum), targets=targets))


def _no_individuals() -> Any:
    raise SettingError(
        "individuals stay in their files on a cluster, so strategies that use them (MI, Ent, Var) "
        "do not work there"
    )


# --- questions ------------------------------------------------------------------------------------


def fit(pool: ClusterPool, totals: Mapping[Hashable, float]) -> AggregateRegressor:
    """The model after these totals, by id: only their sets' rows leave the workers."""
    labels = check_labels(list(totals.values()), tuple(totals))
    rows = pool.rows([pool.sets.position(set_id) for set_id in totals])
    fitted = core.fit(pool.prepared, None, rows, labels)
    model = AggregateRegressor.from_fitted(pool.prepared.config, fitted, pool.sets)
    model.prepared_ = pool.prepared
    return model


def score(
    pool: ClusterPool,
    model: AggregateRegressor,
    strategy: str | Acquisition = "AggMI",
    n: int = 1,
    *,
    but: Iterable[Hashable] = (),
) -> list[Scored]:
    """The `n` best sets one by one, the best first, with their scores.

    Args:
        strategy: As in `sumwise.score`, but for MI, Ent and Var, which look at individuals, and
            Rand. IVR and EPIG aim at 512 individuals that stand for all.
        but: Ids of sets that are measured already.
    """
    record, posterior, taken = _checked(pool, model, strategy, n, but)
    at, scores = _ranked(pool, record, posterior, taken, n)
    return list(map(Scored, (pool.sets.ids[position] for position in at), scores, at))


def select(
    pool: ClusterPool,
    model: AggregateRegressor,
    strategy: str | Acquisition = "AggMI",
    n: int = 1,
    *,
    but: Iterable[Hashable] = (),
    pending: Iterable[Hashable] = (),
) -> list[Hashable]:
    """Ids of a joint batch of `n` sets, those that `sumwise.select` would pick.

    Args:
        strategy: As in `score`.
        but: Ids of sets that are measured already.
        pending: Ids of sets that are being measured: conditioned on, and not picked again.
    """
    waiting = list(pending)
    record, posterior, taken = _checked(pool, model, strategy, n, [*waiting, *but])
    if waiting:
        posterior = posterior.condition_on(pool.rows(taken[: len(waiting)]))

    def list_best(posterior: Posterior, picked: Sequence[int], size: int) -> Shortlist:
        job = partial(shortlist, record, posterior, size)
        return _joined(pool.each(job, [*taken, *picked]))

    picked: list[int] = []
    if record.key is not None:
        blank = Pool(pool.sets, pool.prepared.basis, pool.rows([]))
        picked = grow(record, blank, posterior, n, SHORTLIST, list_best)
    while len(picked) < n:
        picked += _ranked(pool, record, posterior, [*taken, *picked], 1)[0]
        posterior = posterior.condition_on(pool.rows(picked[-1:]))
    return [pool.sets.ids[position] for position in picked]


def _checked(
    pool: ClusterPool,
    model: AggregateRegressor,
    strategy: str | Acquisition,
    n: int,
    taken: Iterable[Hashable],
) -> tuple[Strategy, Posterior, list[int]]:
    """The strategy, the posterior, and the positions of sets that are taken."""
    count(n, "n")
    record, fitted = named(strategy), model.fitted()
    if record is ACQUISITIONS["Rand"]:
        raise SettingError("Rand uses no data, so it needs no cluster; draw from sets.ids")
    if fitted.basis is not pool.prepared.basis:
        raise SettingError(
            "the model has another basis than the pool; make it with distributed.fit"
        )
    positions = [pool.sets.position(set_id) for set_id in taken]
    PoolState(positions).free(len(pool), least=n)
    return record, fitted.posterior, positions


def _ranked(
    pool: ClusterPool, strategy: Strategy, posterior: Posterior, taken: Sequence[int], n: int
) -> tuple[list[int], list[float]]:
    """Positions and scores of the best sets that are not taken, the best first."""
    lists = pool.each(partial(_best, strategy, posterior, n), taken)
    at = np.concatenate([one.positions for one in lists])
    scores = np.concatenate([one.scores for one in lists])
    best = Candidates(at, scores, scores).best()
    order = np.lexsort((at, -scores, at != best))[:n]
    return at[order].tolist(), scores[order].tolist()


def _best(strategy: Strategy, posterior: Posterior, n: int, held: Pool, free: Mask) -> Candidates:
    """The best sets of a slice, in order of position."""
    if not free.any():
        return Candidates(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0))
    found = candidates(strategy, held, posterior, np.random.default_rng(0), free, n)
    best = np.sort(np.lexsort((found.positions, -found.scores))[:n])
    return Candidates(found.positions[best], found.scores[best], found.ranked[best])
