"""What has changed in the files of a design, and the sums over what has to be read again.

A set's row is a sum over all its rows in all files. If a file is new, what it has of a set is added
to it. If a file has changed or is gone, nobody knows what it had; then the sets that had rows in it
are summed again, over the rows that they have now. Only parts with such rows are read: changed and
new ones, and of others those that share a set with a changed one. In files sorted by set, these are
one or two parts beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from sumwise.data.parquet import Batch, File, Part, Scan, batches, run_starts
from sumwise.errors import SettingError
from sumwise.model.basis import Scaled
from sumwise.model.serialize import unpack_config
from sumwise.outofcore import design_store as store
from sumwise.outofcore import place
from sumwise.outofcore.design_store import DesignManifest
from sumwise.outofcore.embed_part import MOMENT_SAMPLE, sum_runs
from sumwise.outofcore.kept_sets import room
from sumwise.util.progress import Slow
from sumwise.util.shapes import Bool, Float, Int

SUMMED: Final = 2**14  # rows whose sums by set are taken at once

Name = tuple[Hashable, ...]  # of a set, a value for each column
Run = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]


# --- files ----------------------------------------------------------------------------------------


class Files(NamedTuple):
    """The files of a design then and now."""

    same: dict[int, int]  # numbers now and then of files that have not changed
    changed: frozenset[int]  # numbers now of files with a path that there was
    new: frozenset[int]
    gone: int  # how many there were and are not

    def __str__(self) -> str:
        total = len(self.same) + len(self.changed) + len(self.new)
        said = [f"{len(self.changed)} of {total} file{'s' * (total > 1)} changed"]
        said += [f"{len(self.new)} new"] if self.new else []
        return ", ".join(said + ([f"{self.gone} gone"] if self.gone else []))


def compare(then: Sequence[File], now: Sequence[File]) -> Files:
    """Which files are the same: by what they hold, wherever they are."""
    known: dict[tuple[str, str], list[int]] = {}
    for number, file in enumerate(then):
        known.setdefault((file.footer, file.version), []).append(number)
    same: dict[int, int] = {}
    for number, file in enumerate(now):
        twins = known.get((file.footer, file.version), [])
        found = [old for old in twins if then[old].path == file.path] or twins[:1]
        if found and file.footer and file.version:
            same[number] = found[0]
            twins.remove(found[0])
    rest = Counter(file.path for n, file in enumerate(then) if n not in {*same.values()})
    others = [n for n in range(len(now)) if n not in same]
    changed = frozenset(n for n in others if now[n].path in rest)
    return Files(same, changed, frozenset(others) - changed, rest.total() - len(changed))


def by_file(scan: Scan, parts: Sequence[Part]) -> list[list[Part]]:
    """The parts of each file."""
    found: list[list[Part]] = []
    left = list(parts)
    for file in scan.files:
        rows, mine = sum(file.group_rows), list[Part]()
        while rows:
            mine.append(left.pop(0))
            rows -= mine[-1].rows
        found.append(mine)
    return found


# --- one part -------------------------------------------------------------------------------------


class Found(NamedTuple):
    """Sums over the rows of a part by set, in the order in which sets appear."""

    number: int
    names: list[Name]
    rows: Int[np.ndarray, " a"]
    sums: Float[np.ndarray, "a K2"]  # Σ θ φ, Σ θ² and Σ θ; of means, with θ = 1
    sample: Float[np.ndarray, "m D"]  # every so many rows
    owner: Int[np.ndarray, " m"]  # the set of each, as a number from 0


def sum_part(
    scan: Scan, basis: Scaled, n_rows: int, job: tuple[Part, Sequence[Name] | None]
) -> Found:
    """Read a part and add up what it has of each set, or of some sets.

    Args:
        n_rows: How many are read in all parts.
    """
    part, wanted = job
    step = max(1, n_rows // MOMENT_SAMPLE)
    numbers = {name: number for number, name in enumerate(wanted or ())}
    sums, rows = np.zeros((max(1, len(numbers)), 0)), np.zeros(0, dtype=np.int64)
    sample, owner = [np.empty((0, scan.n_inputs))], [np.empty(0, dtype=np.int64)]
    for batch in batches(scan, part):
        at = _numbered(batch, numbers, add=wanted is None)
        theta = np.ones(len(batch)) if batch.theta is None else batch.theta
        order = np.argsort(at, kind="stable")
        order = order[np.searchsorted(at[order], 0) :]
        rows = _longer(rows, len(numbers))
        rows += np.bincount(at[order], minlength=len(rows))
        for low in range(0, len(order), SUMMED):
            some = order[low : low + SUMMED]
            begin = run_starts_of(at[some])
            weighed = theta[some]
            inputs = np.ascontiguousarray(batch.inputs[:, some])
            bounds = np.append(begin, len(some))
            u = sum_runs(n_rows, inputs, weighed, bounds, basis, np.dtype(np.float64))
            squares = np.add.reduceat(weighed**2, begin), np.add.reduceat(weighed, begin)
            if not sums.shape[1]:
                sums = np.zeros((len(sums), u.shape[1] + 2))
            sums = _longer(sums, len(numbers))
            sums[at[some][begin]] += np.column_stack([u, *squares])
        chosen = order[::step] if wanted is not None else np.arange(0, len(batch), step)
        sample.append(batch.inputs[:, chosen].T.astype(np.float64))
        owner.append(at[chosen])
    n = len(numbers)
    return Found(
        part.number,
        list(numbers),
        rows[:n],
        sums[:n],
        np.concatenate(sample),
        np.concatenate(owner),
    )


def _numbered(batch: Batch, numbers: dict[Name, int], *, add: bool) -> Int[np.ndarray, " n"]:
    """The number of each row's set; -1 of those that are not wanted."""
    starts = run_starts(batch.keys)
    names = zip(*(column.take(starts).to_pylist() for column in batch.keys), strict=True)
    if add:
        found = [numbers.setdefault(name, len(numbers)) for name in names]
    else:
        found = [numbers.get(name, -1) for name in names]
    return np.repeat(np.array(found, dtype=np.int64), np.diff(starts, append=len(batch)))


def run_starts_of(at: Int[np.ndarray, " n"]) -> Int[np.ndarray, " r"]:
    """Where a run of equal numbers begins."""
    return np.flatnonzero(np.diff(at, prepend=-1))


def _longer(array: np.ndarray, n: int) -> np.ndarray:
    """An array with room for at least n rows."""
    if len(array) >= n:
        return array
    longer = np.zeros((max(n, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


# --- all parts that are read again ----------------------------------------------------------------


class Sums(NamedTuple):
    """What was read of all parts together."""

    names: list[Name]  # of sets
    rows: Int[np.ndarray, " n"]  # of each
    in_new: Bool[np.ndarray, " n"]  # whether it has rows in a new file
    sums: Float[np.ndarray, "n K2"]  # as in `Found`
    runs: Int[np.ndarray, "m 3"]  # part now, number of the name and rows, of parts read whole
    sample: Float[np.ndarray, "s D"]
    owner: Int[np.ndarray, " s"]  # number of the name


@dataclass(frozen=True, slots=True, eq=False)
class Reread:
    """What was read again of the files of a design."""

    files: Files
    scan: Scan  # of the files as they are now
    ids: tuple[Hashable, ...]  # of the design's sets, as they were
    sizes: Int[np.ndarray, " A"]
    affected: Bool[np.ndarray, " A"]  # which of them had rows in files that changed or are gone
    kept: Int[np.ndarray, "M 3"]  # part now, position and rows, of what has not changed
    seen: int  # rows of all parts that were read
    read: Sums


def reread(folder: str, manifest: DesignManifest, then: Scan, now: Scan, run: Run) -> Reread | None:
    """Read what has changed; None if nothing has.

    Args:
        then: The files of the design.
    """
    _refuse(folder, manifest, then, now)
    files = compare(then.files, now.files)
    if len(files.same) == len(then.files) == len(now.files):
        return None
    least = manifest.settings.part_rows
    before, parts = by_file(then, then.parts(least)), by_file(now, now.parts(least))
    renumbered = np.full(len(then.parts(least)), -1)
    for new, old in files.same.items():
        for one, other in zip(before[old], parts[new], strict=True):
            renumbered[one.number] = other.number
    runs = place.load(folder, manifest.name_of(store.RUNS))
    kept = runs[renumbered[runs[:, 0]] >= 0]
    kept[:, 0] = renumbered[kept[:, 0]]
    ids = store.ids_in(folder, manifest)
    sizes = store.piece(folder, manifest, "sizes.npy", (manifest.sets,))
    left = np.bincount(kept[:, 1], kept[:, 2], minlength=manifest.sets).astype(np.int64)
    affected = left != sizes
    affected[list(manifest.gone)] = False
    jobs = _jobs(now, kept, affected, [name_of(each, now) for each in ids], files, parts)
    total = sum(part.rows for part, _ in jobs)
    config = unpack_config(manifest.settings.config)
    basis = store.prepared_in(folder, config, now).basis
    job = partial(sum_part, now, basis, total)
    found = _in_order(run(job, jobs), [part for part, _ in jobs])
    whole = {part.number for number in files.changed | files.new for part in parts[number]}
    added = {part.number for number in files.new for part in parts[number]}
    read = _collected(room((1, manifest.features + 2), folder), folder, found, whole, added)
    return Reread(files, now, ids, sizes, affected, kept, total, read)


def _refuse(folder: str, manifest: DesignManifest, then: Scan, now: Scan) -> None:
    if manifest.width:
        raise SettingError(
            f"{folder} holds the individuals of a model of counts, shares or amounts, and such a "
            "design cannot grow; embed the files into a new folder"
        )
    if not {store.RUNS, store.STANDING} <= {*manifest.pieces}:
        raise SettingError(
            f"the design in {folder} was made by a former version of sumwise, which did not keep "
            "what a design needs to grow; embed the files into a new folder"
        )
    told = ("by", "x", "weights", "periods")
    for name in told:
        if getattr(then, name) != getattr(now, name):
            raise SettingError(
                f"{folder} is embedded with {name}={getattr(then, name)!r:.80}, and these files "
                f"are scanned with {getattr(now, name)!r:.80}; scan them in the same way"
            )


def name_of(set_id: Any, scan: Scan) -> Name:
    """A set's name as files have it."""
    return (set_id,) if len(scan.by) == 1 else tuple(set_id)


def _jobs(
    now: Scan,
    kept: Int[np.ndarray, "M 3"],
    affected: Bool[np.ndarray, " A"],
    names: Sequence[Name],
    files: Files,
    parts: Sequence[Sequence[Part]],
) -> list[tuple[Part, list[Name] | None]]:
    """Parts to read, and the sets to read of those that have not changed."""
    wanted: dict[int, list[Name]] = {}
    for number, position, _ in kept[affected[kept[:, 1]]].tolist():
        wanted.setdefault(number, []).append(names[position])
    jobs: list[tuple[Part, list[Name] | None]] = []
    for number, mine in enumerate(parts):
        if number not in files.same:
            jobs += [(part, None) for part in mine]
        else:
            jobs += [(part, wanted[part.number]) for part in mine if part.number in wanted]
    return jobs


def _in_order(found: Iterable[Found], parts: Sequence[Part]) -> Iterator[Found]:
    """The parts in their order, whichever is ready first, so that sums are always the same."""
    ahead, following = dict[int, Found](), iter(parts)
    wanted, done = next(following, None), 0
    with Slow("reading what has changed", sum(part.rows for part in parts)) as slow:
        for each in found:
            ahead[each.number] = each
            while wanted is not None and wanted.number in ahead:
                yield ahead.pop(wanted.number)
                done += wanted.rows
                slow.at(done)
                wanted = next(following, None)


def _collected(
    sums: Float[np.ndarray, "r K2"],
    folder: str,
    found: Iterable[Found],
    whole: set[int],
    added: set[int],
) -> Sums:
    """All parts together; `whole` are read whole, `added` are of new files."""
    numbers: dict[Name, int] = {}
    rows, in_new, held = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool), 0
    runs, owner = [np.zeros((0, 3), dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    sample: list[Float[np.ndarray, "m D"]] = []
    for each in found:
        at = np.array([numbers.setdefault(name, len(numbers)) for name in each.names], np.int64)
        if len(numbers) > len(sums):
            more = room((max(len(numbers), 2 * len(sums)), sums.shape[1]), folder)
            more[:held] = sums[:held]
            sums = more
        held = len(numbers)
        rows, in_new = _longer(rows, held), _longer(in_new, held)
        sample.append(each.sample)
        if not len(at):
            continue
        sums[at] += each.sums
        rows[at] += each.rows
        in_new[at] |= each.number in added
        owner.append(at[each.owner])
        if each.number in whole:
            runs.append(np.stack([np.full(len(at), each.number), at, each.rows], axis=1))
    x = np.concatenate(sample) if sample else np.empty((0, 0))
    some = rows[:held], in_new[:held], sums[:held]
    return Sums(list(numbers), *some, np.concatenate(runs), x, np.concatenate(owner))
