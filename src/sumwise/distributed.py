"""The local functions on a Dask cluster.

`on(client)` is a map: what `AggregateRegressor.embed` and `predict_parquet` do in threads, they do
on the workers with `run=on(client)`, where all see the same folders.

`embed` keeps the design in the memory of the workers instead, in a slice for each part of the
files; nothing is written. A set that spans parts belongs to the slice in which it begins, and the
other parts send their shares of its row. For each question the posterior (t vectors of K numbers)
travels to the workers, and the few best sets of each slice travel back. If a worker dies, Dask
makes its slices again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from sumwise.acquisition import batches
from sumwise.acquisition.bounds import bounds
from sumwise.acquisition.screening import candidates
from sumwise.acquisition.strategies import ACQUISITIONS, TIE, Strategy
from sumwise.data.lazy import LazySets
from sumwise.data.parquet import Part, Scan
from sumwise.data.validate import check_labels
from sumwise.errors import InvalidSetError, PoolExhaustedError, SettingError, UnknownSetError
from sumwise.learning.estimator import AggregateRegressor, drawn_for
from sumwise.learning.selection import check_count
from sumwise.model import fit as core
from sumwise.model.basis import Scaled
from sumwise.model.design import Design, Pool
from sumwise.model.fit import Prepared
from sumwise.model.posterior import Posterior
from sumwise.outofcore.build import SMALLEST_SINGLE, check_dtype
from sumwise.outofcore.dask import connect, on, runs_on
from sumwise.outofcore.embed_part import Rows, columns, runs
from sumwise.outofcore.index import Index, PartSurvey, ids_of, index_of, refuse_ids, survey_part
from sumwise.util.shapes import Bool, Float, Int

__all__ = [
    "ClusterPool",
    "Scored",
    "Slice",
    "connect",
    "embed",
    "fit",
    "on",
    "positions_of",
    "rows_of",
    "runs_on",
    "score",
    "select",
]

SHORTLIST: Final = 128  # sets of each slice that a batch is looked for in first


@dataclass(frozen=True, slots=True)
class Scored:
    """A set that is among the best."""

    set_id: Hashable
    score: float
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """The sets that begin in one part, in the memory of a worker."""

    keys: Any  # an Arrow table with a row per set
    sizes: Int[np.ndarray, " a"]
    design: Design
    square: Float[np.ndarray, " a"]
    basis: Scaled

    def free(self, taken: Int[np.ndarray, " t"]) -> Bool[np.ndarray, " a"]:
        free = np.ones(len(self.sizes), dtype=bool)
        free[taken] = False
        return free

    def pool(self) -> Pool:
        sets = LazySets(partial(ids_of, self.keys), self.sizes, 1, None, _no_individuals)
        return Pool(sets, self.basis, self.design, square=self.square)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterPool:
    """A pool whose design is spread over the workers of a cluster; made by `embed`."""

    client: Any
    scan: Scan
    config: core.ModelConfig
    prepared: Prepared
    slices: tuple[Any, ...]  # futures of `Slice`
    starts: Int[np.ndarray, " p1"]  # position of the first set of each slice, and of the end

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __repr__(self) -> str:
        return f"ClusterPool: {len(self)} sets in {len(self.slices)} slices on {self.client}"

    def first(self, number: int) -> int:
        """Position of the first set of a slice."""
        return int(self.starts[number])

    def each(self, job: Callable[..., Any], positions: Sequence[int], *more: Any) -> list[Any]:
        """What `job(slice, places of these sets in it, …)` gives on the worker of each slice."""
        numbers = np.searchsorted(self.starts, positions, side="right") - 1
        places = np.asarray(positions, dtype=np.int64) - self.starts[numbers]
        mine = [places[numbers == number] for number in range(len(self.slices))]
        jobs = zip(self.slices, mine, strict=True)
        return self.client.gather([self.client.submit(job, *j, *more, pure=False) for j in jobs])


def _no_sets(scan: Scan) -> LazySets:
    """No sets, with the inputs of the files."""
    return LazySets((), (), len(scan.x), scan.x, _no_individuals)


def _no_individuals() -> Any:
    raise SettingError("this looks at individuals, which stay in their files on a cluster")


# --- embedding ------------------------------------------------------------------------------------


def embed(
    client: Any, scan: Scan, model: AggregateRegressor, *, dtype: str = "float64"
) -> ClusterPool:
    """Read the files on the workers and keep the design there.

    The rows of a set must follow one another, across files if need be. Sets come in order of first
    appearance, as everywhere.
    """
    check_dtype(dtype)
    prepared = drawn_for(model, scan)
    parts, config = scan.parts(), model.config()
    surveys = client.map(partial(_surveyed, scan, inputs=prepared is None), parts, pure=False)
    found: list[PartSurvey] = client.gather(surveys)
    index, counts = _contiguous(found), np.array([len(survey.lengths) for survey in found])
    if prepared is None:
        assert index.look is not None  # the inputs were read
        prepared = core.prepare_on(config, _no_sets(scan), index.look.inputs())
    if prepared.basis.learns:
        raise SettingError("a basis that learns cannot be embedded beforehand")
    firsts = np.array(index.first_sets)
    ends = firsts + counts
    starts = np.maximum(firsts, np.concatenate([[0], ends[:-1]]))  # of the sets that begin in it
    assert index.sizes is not None  # it is contiguous
    sizes = [index.sizes[first:end] for first, end in zip(firsts, ends, strict=True)]
    rows = [
        client.submit(_embedded, scan, part, prepared.basis, dtype, size, pure=False)
        for part, size in zip(parts, sizes, strict=True)
    ]
    shares: dict[int, list[Any]] = {}
    for number in np.flatnonzero(firsts < starts).tolist():
        owner = int(np.searchsorted(ends, firsts[number], side="right"))
        share = client.submit(lambda of: [c[:1] for c in columns(of)], rows[number], pure=False)
        shares.setdefault(owner, []).append(share)
    kept = np.flatnonzero(starts < ends).tolist()
    slices = tuple(
        client.submit(
            _closed, rows[p], surveys[p], sizes[p], shares.get(p, []), int(starts[p] - firsts[p]),
            prepared.basis, pure=False,
        )
        for p in kept
    )  # fmt: skip
    return ClusterPool(client, scan, config, prepared, slices, np.append(starts[kept], ends[-1]))


def _surveyed(scan: Scan, part: Part, *, inputs: bool) -> PartSurvey:
    found = survey_part(scan, part, inputs=inputs)
    refuse_ids(found.keys)
    return found


def _contiguous(surveys: Sequence[PartSurvey]) -> Index:
    """The sets of all parts; a set whose rows lie apart is refused."""
    index = index_of(surveys)
    if not index.contiguous:
        seen: set[Hashable] = set()
        last: Hashable = None
        for name in (name for survey in surveys for name in ids_of(survey.keys)):
            if name != last and name in seen:
                raise InvalidSetError(
                    f"the rows of set {name!r} do not follow one another. On a cluster they must: "
                    "write the files sorted by set, or let AggregateRegressor.embed sort them "
                    "locally."
                )
            seen.add(name)
            last = name
    return index


def _embedded(
    scan: Scan, part: Part, basis: Scaled, dtype: str, sizes: Int[np.ndarray, " r"]
) -> Rows:
    """The sets of a part, and its share of those that it has in common with others."""
    every = [rows for rows, _, _ in runs(scan, part, basis, np.dtype(dtype), sizes)]
    return Rows(*(np.concatenate(parts) for parts in zip(*map(columns, every), strict=True)))


def _closed(
    rows: Rows,
    survey: PartSurvey,
    sizes: Int[np.ndarray, " r"],
    shares: Sequence[Sequence[np.ndarray]],
    skip: int,
    basis: Scaled,
) -> Slice:
    """The sets that begin in a part, with the shares that other parts have of the last one."""
    mine = [values[skip:].copy() for values in columns(rows)]
    for share in shares:
        for values, more in zip(mine, share, strict=True):
            values[-1] += more[0]
    u, noise_scale, theta_sum = mine
    keys = survey.keys.slice(skip)
    least = SMALLEST_SINGLE if u.dtype == np.float32 else 0.0
    usable = np.isfinite(noise_scale) & (noise_scale > least)
    usable[-1] &= np.isfinite(u[-1]).all()
    if not usable.all():
        name = ids_of(keys.slice(int(np.argmin(usable)), 1))[0]
        raise InvalidSetError(
            f"weights of set {name!r} are all zero, or beyond what can be squared. Drop the set or "
            "rescale its weights."
        )
    square = np.einsum("ak,ak->a", u, u).astype(np.float64)
    return Slice(keys, sizes[skip:], Design(u, noise_scale, theta_sum), square, basis)


# --- questions ------------------------------------------------------------------------------------


def fit(pool: ClusterPool, totals: Mapping[Hashable, float]) -> AggregateRegressor:
    """The model after these totals, by id: only their sets' rows leave the workers."""
    labels = check_labels(list(totals.values()), tuple(totals))
    rows = rows_of(pool, positions_of(pool, totals))
    fitted = core.fit(pool.config, pool.prepared, None, rows, labels)
    model = AggregateRegressor.from_fitted(pool.config, fitted, _no_sets(pool.scan))
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
    record, posterior = _checked(pool, model, strategy, n)
    found = pool.each(_best, positions_of(pool, but), record, posterior, n)
    ranked = [
        Scored(set_id, value, pool.first(number) + place)
        for number, held in enumerate(found)
        for set_id, value, place in held
    ]
    if len(ranked) < n:
        raise PoolExhaustedError(f"{n} sets were asked for and {len(ranked)} are free")
    top = max(one.score for one in ranked)
    tied = [one for one in ranked if one.score >= top - TIE * abs(top)]
    first = min(tied, key=lambda one: one.position)
    ranked.sort(key=lambda one: (one is not first, -one.score, one.position))
    return ranked[:n]


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
    record, posterior = _checked(pool, model, strategy, n)
    waiting = positions_of(pool, pending)
    if waiting:
        posterior = posterior.condition_on(rows_of(pool, waiting))
    taken = [*positions_of(pool, but), *waiting]
    free = len(pool) - len(set(taken))
    if free < n:
        raise PoolExhaustedError(f"{n} sets were asked for and {free} are free; ask for fewer")
    picked, names, size = list[int](), dict[int, Hashable](), SHORTLIST
    while len(picked) < n:
        lists = pool.each(_shortlist, [*taken, *picked], record, posterior, size)
        at = np.concatenate([pool.first(k) + one.positions for k, (one, _) in enumerate(lists)])
        rows = _joined([one.rows for one, _ in lists])
        found = batches.Shortlist(at, rows, max(one.rest for one, _ in lists))
        names |= zip(at.tolist(), (name for _, ids in lists for name in ids), strict=True)
        root = posterior.root_times(np.eye(rows.u.shape[1]))
        blank = Pool(_no_sets(pool.scan), pool.prepared.basis, rows)
        new, _, _ = batches.greedy(record, blank, found, root, posterior, n - len(picked))
        picked += new
        if new:
            posterior = posterior.condition_on(rows.rows(np.searchsorted(at, new)))
        else:
            size *= 4
    return [names[position] for position in picked]


def _checked(
    pool: ClusterPool, model: AggregateRegressor, strategy: str, n: int
) -> tuple[Strategy, Posterior]:
    check_count(n)
    known = [record.name for record in ACQUISITIONS.values() if record.key is not None]
    if strategy not in known:
        raise SettingError(f"strategy is {strategy!r}; on a cluster there are {', '.join(known)}")
    fitted = model.fitted()
    if fitted.basis is not pool.prepared.basis:
        raise SettingError(
            "the model has another basis than the pool; make it with distributed.fit"
        )
    return ACQUISITIONS[strategy], fitted.posterior


def _best(
    held: Slice, taken: Int[np.ndarray, " t"], strategy: Strategy, posterior: Posterior, n: int
) -> list[tuple[Hashable, float, int]]:
    """Id, score and place of the best sets of a slice."""
    free = held.free(taken)
    if not free.any():
        return []
    found = candidates(strategy, held.pool(), posterior, np.random.default_rng(0), free, n)
    order = np.lexsort((found.positions, -found.scores))[:n]
    places, values = found.positions[order], found.scores[order].tolist()
    return list(zip(ids_of(held.keys.take(places)), values, places.tolist(), strict=True))


def _shortlist(
    held: Slice, taken: Int[np.ndarray, " t"], strategy: Strategy, posterior: Posterior, size: int
) -> tuple[batches.Shortlist, tuple[Hashable, ...]]:
    """Sets of a slice that may be among the best, and their ids."""
    assert strategy.key is not None  # as checked
    high = bounds(strategy.key, held.pool(), posterior)[1]
    found = batches.shortlist(held.design, high, held.free(taken), size)
    return found, ids_of(held.keys.take(found.positions))


# --- some sets ------------------------------------------------------------------------------------


def positions_of(pool: ClusterPool, ids: Iterable[Hashable]) -> list[int]:
    """Where sets are; an unknown id is refused."""
    wanted = list(ids)
    places = pool.each(_find, [], wanted) if wanted else []
    found = {name: pool.first(k) + at for k, held in enumerate(places) for name, at in held.items()}
    for name in wanted:
        if name not in found:
            raise UnknownSetError(f"no set has the id {name!r}")
    return [found[name] for name in wanted]


def _find(
    held: Slice, places: Int[np.ndarray, " t"], wanted: Sequence[Hashable]
) -> dict[Hashable, int]:
    del places
    known = set(wanted)
    return {name: at for at, name in enumerate(ids_of(held.keys)) if name in known}


def rows_of(pool: ClusterPool, positions: Sequence[int]) -> Design:
    """The rows of some sets, in this order."""
    rows = _joined(pool.each(lambda held, places: held.design.rows(places), positions))
    by_slice = np.argsort(np.searchsorted(pool.starts, positions, side="right"), kind="stable")
    return rows.rows(np.argsort(by_slice))


def _joined(designs: Sequence[Design]) -> Design:
    parts = [(design.u, design.noise_scale, design.theta_sum) for design in designs]
    return Design(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
