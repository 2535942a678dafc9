"""A design in the memory of the workers: which sets a part begins with, who adds what to whom.

A part's first set may have begun in an earlier one. Then that one owns it, and is sent this part's
share of its row; everything else of a part stays with its worker.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

import numpy as np

from sumwise.data.lazy import LazySets
from sumwise.data.parquet import Part, Scan
from sumwise.errors import InvalidSetError, SettingError
from sumwise.learning.estimator import AggregateRegressor
from sumwise.model import fit as core
from sumwise.model.basis import Scaled, Trainable
from sumwise.model.design import Design, Pool
from sumwise.model.fit import Prepared
from sumwise.outofcore.build import SMALLEST_SINGLE, check_dtype
from sumwise.outofcore.embed_part import Rows, columns, runs
from sumwise.outofcore.index import Look, PartSurvey, ascends, ids_of, refuse_ids, survey_part
from sumwise.util.shapes import Float, Int

BUCKETS: Final = 8  # of ids that are compared with one another, where files are not in order


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Some sets, in the memory of a worker."""

    keys: Any  # an Arrow table with a row per set
    sizes: Int[np.ndarray, " a"]
    design: Design
    square: Float[np.ndarray, " a"]

    def pool(self) -> Pool:
        sets = LazySets(partial(ids_of, self.keys), self.sizes, 1, None, nobody)
        basis = Scaled(_no_basis, np.zeros(1), np.ones(1))
        return Pool(sets, basis, self.design, square=self.square)


def nobody() -> Any:
    raise SettingError("this looks at individuals, which stay in their files on a cluster")


def _no_basis(x: Any) -> Any:
    return nobody()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClusterPool:
    """A pool whose design is spread over the workers of a cluster; made by `embed`."""

    client: Any
    scan: Scan
    config: core.ModelConfig
    prepared: Prepared
    slices: tuple[Any, ...]  # futures of `Slice`
    counts: tuple[int, ...]  # sets in each

    def __len__(self) -> int:
        return sum(self.counts)

    def __repr__(self) -> str:
        return f"ClusterPool: {len(self)} sets in {len(self.slices)} slices on {self.client}"

    def first(self, number: int) -> int:
        """Position of the first set of a slice."""
        return sum(self.counts[:number])

    def each(self, job: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What `job(slice, its number, …)` gives on the worker of each slice."""
        futures = [
            self.client.submit(job, held, number, *arguments, pure=False)
            for number, held in enumerate(self.slices)
        ]
        return self.client.gather(futures)


@dataclass(frozen=True, slots=True, eq=False)
class _Summary:
    """Of the survey of a part, what the client needs to know."""

    runs: int
    first: Any  # ids of the first and last run
    last: Any
    first_rows: int
    last_rows: int
    ascends: bool  # ids of one column, each greater than the one before
    repeated: Hashable | None  # an id with two runs in this part
    look: Look | None


def embed(
    client: Any, scan: Scan, model: AggregateRegressor, *, dtype: str = "float64"
) -> ClusterPool:
    """Read the files on the workers and keep the design there.

    The rows of a set must follow one another, across files if need be. Sets come in order of first
    appearance, as everywhere.
    """
    check_dtype(dtype)
    parts = scan.parts()
    prepared: Prepared | None = vars(model).get("prepared_")
    if prepared is not None and prepared.input_names not in (None, scan.x):
        raise InvalidSetError(
            f"the scan has the inputs {scan.x}; the model knows {prepared.input_names}, in that "
            "order"
        )
    config = model.config()
    surveys = client.map(partial(_surveyed, scan, inputs=prepared is None), parts, pure=False)
    summaries: list[_Summary] = client.gather(client.map(_summary, surveys, pure=False))
    _refuse_repeats(client, surveys, summaries)
    if prepared is None:
        prepared = _prepared(config, scan, summaries)
    if isinstance(prepared.basis.basis, Trainable):
        raise SettingError("a basis that learns cannot be embedded beforehand")
    owners = _owners(summaries)
    sizes = _border_sizes(summaries, owners)
    rows = [
        client.submit(_embedded, scan, part, prepared.basis, dtype, survey, ends, pure=False)
        for part, survey, ends in zip(parts, surveys, sizes, strict=True)
    ]
    firsts = {
        number: client.submit(_first_row, rows[number], pure=False)
        for number, owner in enumerate(owners)
        if owner != number
    }
    slices, counts = [], []
    for number, (summary, owner) in enumerate(zip(summaries, owners, strict=True)):
        goes_on = owner != number
        mine = [firsts[later] for later in firsts if owners[later] == number]
        kept = summary.runs - goes_on
        if kept:
            ends = (sizes[number][0], sizes[number][1])
            slices.append(
                client.submit(
                    _closed, rows[number], surveys[number], goes_on, ends, mine, pure=False
                )
            )
            counts.append(kept)
    return ClusterPool(client, scan, config, prepared, tuple(slices), tuple(counts))


def _surveyed(scan: Scan, part: Part, *, inputs: bool) -> PartSurvey:
    found = survey_part(scan, part, inputs=inputs)
    refuse_ids(found.keys)
    return found


def _summary(survey: PartSurvey) -> _Summary:
    keys, lengths = survey.keys, survey.lengths
    rises, repeated = ascends(keys), None
    if not rises:
        repeated = _first_repeat([ids_of(keys)])
    first, last = (ids_of(keys.slice(at, 1))[0] for at in (0, keys.num_rows - 1))
    ends = first, last, int(lengths[0]), int(lengths[-1])
    return _Summary(len(lengths), *ends, rises, repeated, survey.look)


def _prepared(config: core.ModelConfig, scan: Scan, summaries: Sequence[_Summary]) -> Prepared:
    """The basis, drawn for the inputs of all parts."""
    looks = (summary.look for summary in summaries if summary.look is not None)
    blank = LazySets((), (), len(scan.x), scan.x, nobody)
    return core.prepare_on(config, blank, reduce(Look.plus, looks).inputs())


def _owners(summaries: Sequence[_Summary]) -> list[int]:
    """For each part, the one in which its first set begins."""
    owners: list[int] = []
    for number, summary in enumerate(summaries):
        before = summaries[number - 1] if number else None
        if before is None or before.last != summary.first:
            owners.append(number)
        else:
            owners.append(owners[-1] if before.runs == 1 else number - 1)
    return owners


def _border_sizes(summaries: Sequence[_Summary], owners: Sequence[int]) -> list[tuple[int, int]]:
    """Rows of the first and of the last set of each part, all parts counted."""
    total = [summary.last_rows for summary in summaries]
    for number, owner in enumerate(owners):
        if owner != number:
            total[owner] += summaries[number].first_rows
    sizes = []
    for number, (summary, owner) in enumerate(zip(summaries, owners, strict=True)):
        first = total[owner] if owner != number else summary.first_rows
        if summary.runs == 1:
            first = total[owner]
        sizes.append((first, first if summary.runs == 1 else total[number]))
    return sizes


def _refuse_repeats(client: Any, surveys: Sequence[Any], summaries: Sequence[_Summary]) -> None:
    """A set whose rows lie apart would become two; ids are compared on the workers."""
    found = [summary.repeated for summary in summaries if summary.repeated is not None]
    in_order = all(summary.ascends for summary in summaries) and all(
        before.last <= after.first for before, after in pairwise(summaries)
    )
    if not found and not in_order:
        goes_on = [False, *(a.last == b.first for a, b in pairwise(summaries))]
        splits = client.map(_split, surveys, goes_on, pure=False)
        checks = [
            client.submit(
                _first_repeat,
                [client.submit(itemgetter(b), split, pure=False) for split in splits],
                pure=False,
            )
            for b in range(BUCKETS)
        ]
        found = [name for name in client.gather(checks) if name is not None]
    if found:
        raise InvalidSetError(
            f"the rows of set {found[0]!r} do not follow one another. On a cluster they must: "
            "write the files sorted by set, or let AggregateRegressor.embed sort them locally."
        )


def _split(survey: PartSurvey, goes_on: bool) -> list[list[Hashable]]:
    """Ids by a hash that is the same on every worker."""
    buckets: list[list[Hashable]] = [[] for _ in range(BUCKETS)]
    for name in ids_of(survey.keys)[goes_on:]:
        buckets[zlib.crc32(repr(name).encode()) % BUCKETS].append(name)
    return buckets


def _first_repeat(lists: Sequence[Sequence[Hashable]]) -> Hashable | None:
    seen: set[Hashable] = set()
    for names in lists:
        for name in names:
            if name in seen:
                return name
            seen.add(name)
    return None


def _embedded(
    scan: Scan,
    part: Part,
    basis: Scaled,
    dtype: str,
    survey: PartSurvey,
    ends: tuple[int, int],
) -> Rows:
    """The sets of a part, and its share of those that it has in common with others."""
    every = [rows for rows, _, _ in runs(scan, part, basis, np.dtype(dtype), _sizes(survey, ends))]
    return Rows(*(np.concatenate(parts) for parts in zip(*map(columns, every), strict=True)))


def _sizes(survey: PartSurvey, ends: tuple[int, int]) -> Int[np.ndarray, " r"]:
    sizes = survey.lengths.copy()
    sizes[0], sizes[-1] = ends
    return sizes


def _first_row(rows: Rows) -> Rows:
    return Rows(*(values[:1] for values in columns(rows)))


def _closed(
    rows: Rows, survey: PartSurvey, goes_on: bool, ends: tuple[int, int], more: Sequence[Rows]
) -> Slice:
    """The sets that begin in a part, with what other parts have of the last one."""
    u, noise_scale, theta_sum = (values[int(goes_on) :].copy() for values in columns(rows))
    for share in more:
        u[-1] += share.u[0]
        noise_scale[-1] += share.noise_scale[0]
        theta_sum[-1] += share.theta_sum[0]
    keys = survey.keys.slice(int(goes_on))
    least = SMALLEST_SINGLE if u.dtype == np.float32 else 0.0
    usable = np.isfinite(noise_scale) & (noise_scale > least)
    usable[-1] &= np.isfinite(u[-1]).all()
    bad = np.flatnonzero(~usable)
    if len(bad):
        name = ids_of(keys.slice(int(bad[0]), 1))[0]
        raise InvalidSetError(
            f"weights of set {name!r} are all zero, or beyond what can be squared. Drop the set or "
            "rescale its weights."
        )
    square = np.einsum("ak,ak->a", u, u).astype(np.float64)
    sizes = _sizes(survey, ends)[int(goes_on) :]
    return Slice(keys, sizes, Design(u, noise_scale, theta_sum), square)
