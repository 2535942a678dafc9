"""A design grows with its files: what has changed is embedded again, and all else stays.

The basis and the scaling of inputs stay as they were drawn; that is what keeps all other rows
valid. Rows that changed, and those of new sets, go to a file of their own. A new manifest names it
together with the regions that stayed. No file that was there is written to, so programs that have
the design open, or that are killed, are left with the design as it was.

In a study, positions of sets never change. A measured set whose members changed keeps its position,
its row and its answer under another name, and the set as it is now follows behind.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from sumwise.data.parquet import Scan, scan_parquet
from sumwise.data.pool_edits import former_name
from sumwise.data.pool_mark import PoolMark
from sumwise.data.targets import thinned
from sumwise.errors import DataError, SettingError
from sumwise.model.serialize import unpack_config
from sumwise.outofcore import design_store as store
from sumwise.outofcore import place
from sumwise.outofcore.build import (
    SMALLEST_SINGLE,
    alone,
    bad_weights,
    in_threads,
    moment_of,
    packed_keys,
)
from sumwise.outofcore.design_store import DesignManifest, Embedded, Region
from sumwise.outofcore.embed_part import MOMENT_SAMPLE, add_rows, rows_at_once, write_all
from sumwise.outofcore.reread import Reread, name_of, reread
from sumwise.util.parted import Rows
from sumwise.util.shapes import Bool, Float, Int
from sumwise.util.text import count, shown

BLOCK: Final = 2**11  # rows that are worked out and written at a time
GAP: Final = 2**8  # fewer rows than these between others that changed are copied
NUMBERED: Final = re.compile(r"(?:manifest|u|ids|sizes|sums|moment|stand_ins|runs|sample)-(\d+)\.")


# --- files ----------------------------------------------------------------------------------------


def rescan(made: Embedded, path: Any = None) -> Scan:
    """The files of a design as they are now, and those that came.

    Args:
        path: As in `Sets.scan_parquet`; where the design's files were found if left out.
    """
    then = made.scan
    where = list(then.paths) if path is None else path
    if not where:
        raise SettingError(
            f"{made.folder} was made by a former version of sumwise, which did not keep where its "
            "files were found; name the file or the folder"
        )
    columns, periods = (list(then.by), list(then.x)), dict(then.periods)
    now = scan_parquet(where, by=columns[0], x=columns[1], weights=then.weights, periods=periods)
    return replace(now, recipe=then.recipe)


def updated(made: Embedded, scan: Scan | None, run: Any) -> Embedded:
    """What `Embedded.update` does."""
    now = rescan(made) if scan is None else replace(scan, recipe=made.scan.recipe)
    with alone(made.folder):
        manifest = store.read_manifest(made.folder)
        known = replace(manifest.settings.scan, recipe=made.scan.recipe)
        then = made.scan if manifest == made.manifest else known
        read = reread(made.folder, manifest, then, now, run or in_threads)
        if read is None:
            return Embedded.open(made.folder, check=False)
        number = next_number(made.folder)
        former = place.read(made.folder, store.MANIFEST)
        rows = store.rows_of(made.folder, manifest)
        where = compact(placed(read, manifest, rows))
        grown = write(made.folder, manifest, read, where, number + 1)
        place.write(made.folder, f"manifest-{number}.json", former, durable=True)
        place.write(made.folder, store.MANIFEST, grown.to_json(), durable=True)
    return Embedded.open(made.folder, check=False)


def write_all_of(made: Embedded, read: Reread, where: Placed, number: int) -> str:
    """Write a design that a study is to switch to; gives the name of its manifest."""
    grown = write(made.folder, made.manifest, read, where, number)
    name = f"manifest-{number}.json"
    place.write(made.folder, name, grown.to_json(), durable=True)
    return name


def forget(folder: str, manifests: Sequence[str]) -> None:
    """Remove designs from a folder, and files that no other one there has."""
    every = place.listed(folder)
    others = [n for n in every if re.fullmatch(r"manifest(-\d+)?\.json", n) and n not in manifests]
    named: set[str] = set(others)
    for name in others:
        known = store.read_manifest(folder, name)
        named |= {region.file for region in known.regions} | {*known.files.values()}
    place.remove(folder, [name for name in every if NUMBERED.match(name) and name not in named])


def next_number(folder: str) -> int:
    """A number that no file of a design that has grown has."""
    found = (NUMBERED.match(name) for name in place.listed(folder))
    return 1 + max((int(each[1]) for each in found if each), default=0)


# --- where sets go --------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Placed:
    """Sets of the design as it grows. Rows come from what there was and from what was read."""

    keys: list[Any]  # position of the id as it was; (number of what was read,) of new sets
    old: list[int]  # position of the row as it was, of which some is kept; -1 without
    read: list[int]  # number of what was read, which is added; -1 without
    sizes: list[int]
    now: Int[np.ndarray, " A"]  # position of what a set is now, by the position it had; -1 if gone
    former: dict[int, str]  # names of measured sets with other members than now
    mark: PoolMark
    came_from: list[int | None] = field(default_factory=list)  # of positions that are new
    emptied: list[int] = field(default_factory=list)
    joined: int = 0  # individuals
    left: int = 0
    grew: int = 0  # sets that individuals joined
    shrank: int = 0
    corrected: int = 0
    new: int = 0


class Change(NamedTuple):
    """A set that was there and has changed."""

    at: int
    number: int  # of what was read; -1 if nothing is left
    rows: int
    keeps: bool  # whether its row as it was is part of what it is now


def placed(
    read: Reread,
    manifest: DesignManifest,
    rows: Rows,
    answered: Collection[int] = (),
    mark: PoolMark | None = None,
    today: str = "",
) -> Placed:
    """Where each set goes.

    Args:
        rows: Of the design as it was.
        answered: Positions of measured sets, in a study.
        mark: What became of the study's pool so far.
    """
    n_sets, mark = manifest.sets, mark or PoolMark()
    every = np.arange(n_sets)
    out = Placed(
        every.tolist(), every.tolist(), [-1] * n_sets, read.sizes.tolist(), every, {}, mark
    )
    retired, texts = dict(mark.retired), {*map(shown, read.ids)}
    earlier: dict[int | None, list[int]] = {}
    for before, became in retired.items():
        earlier.setdefault(became, []).append(before)
    changes, new = _changes(read, manifest)
    for change in changes:
        at, was = change.at, 0 if change.at in retired else int(read.sizes[change.at])
        if not change.rows:
            retired[at], out.now[at] = None, -1
            out.emptied.append(at)
        elif _same_members(read, manifest, rows, change, was):
            out.read[at], out.old[at] = change.number, -1
            out.corrected += 1
            continue
        elif at in answered:
            out.former[at] = former_name(read.ids[at], texts, today)
            texts.add(out.former[at])
            others = [one for one in earlier.get(at, ()) if retired.get(one) == at]
            retired |= dict.fromkeys([*others, at], len(out.old))
            out.now[at] = len(out.old)
            _append(out, at if change.keeps else -1, change.number, change.rows, at)
        else:
            out.old[at], out.read[at] = at if change.keeps else -1, change.number
            out.sizes[at] = change.rows
            out.now[at] = at
            retired.pop(at, None)
        out.joined += max(0, change.rows - was)
        out.left += max(0, was - change.rows)
        out.grew += change.rows > was
        out.shrank += change.rows < was
    for number in new:
        _append(out, -1, number, int(read.read.rows[number]), None)
        out.joined += int(read.read.rows[number])
        out.new += 1
    if len(retired) == len(out.old):
        raise SettingError("no set would be left in the files; nothing was changed")
    out.mark = PoolMark(mark.changes + 1, retired)
    return out


def _append(out: Placed, old: int, number: int, rows: int, origin: int | None) -> None:
    out.keys.append((number,) if origin is None else origin)
    out.old.append(old)
    out.read.append(number)
    out.sizes.append(rows)
    out.came_from.append(origin)


def _changes(read: Reread, manifest: DesignManifest) -> tuple[list[Change], list[int]]:
    """Sets that were there and have changed, and numbers of those that were not."""
    former = {at for at, _ in manifest.former}
    here = (at for at in range(manifest.sets) if at not in former)
    position = {name_of(read.ids[at], read.scan): at for at in here}
    known = {position[name]: n for n, name in enumerate(read.read.names) if name in position}
    new = [n for n, name in enumerate(read.read.names) if name not in position]
    gone, found = {*manifest.gone}, []
    for at in sorted({*known, *np.flatnonzero(read.affected).tolist()}):
        number = known.get(at, -1)
        rows = 0 if number < 0 else int(read.read.rows[number])
        keeps = not read.affected[at] and at not in gone
        found.append(Change(at, number, rows + keeps * int(read.sizes[at]), keeps))
    return found, new


def _same_members(
    read: Reread, manifest: DesignManifest, rows: Rows, change: Change, was: int
) -> bool:
    """Whether a set has as many rows as before, and only in files that were there.

    Rows that moved to a new file are the same if they add up to the same.
    """
    if change.keeps or change.rows != was:
        return False
    if not read.read.in_new[change.number]:
        return True
    kind = np.dtype(manifest.settings.dtype)
    mine = read.read.sums[change.number, :-2] / (was if read.scan.weights == "mean" else 1)
    former = rows[change.at]
    rounding = 1e3 * np.finfo(kind).eps * max(1.0, float(abs(former).max()))
    return bool(np.allclose(mine, former, rtol=0, atol=rounding))


def compact(made: Placed) -> Placed:
    """The same without sets that are gone, where no study has answers for positions."""
    stay = np.ones(len(made.old), dtype=bool)
    stay[list(made.mark.retired)] = False
    at = np.cumsum(stay) - 1
    keep = np.flatnonzero(stay).tolist()
    return replace(
        made,
        old=[made.old[i] for i in keep],
        read=[made.read[i] for i in keep],
        sizes=[made.sizes[i] for i in keep],
        keys=[made.keys[i] for i in keep],
        now=np.where(made.now < 0, -1, at[made.now]),
        mark=PoolMark(),
    )


def words(read: Reread, made: Placed, measured: str = "total") -> str:
    """What has changed, in a line."""
    said = [
        (made.joined, count(made.joined, "individual") + " joined"),
        (made.grew, count(made.grew, "set") + " grew"),
        (made.new, count(made.new, "set") + " new"),
        (made.left, count(made.left, "individual") + " left"),
        (made.shrank, count(made.shrank, "set") + " shrank"),
        (len(made.emptied), count(len(made.emptied), "set") + " gone"),
        (made.corrected, count(made.corrected, "set") + " read again with as many individuals"),
    ]
    found = ", ".join(text for n, text in said if n)
    seen = f"{read.seen:,} of {read.scan.rows:,} rows were read again"
    out = f"{read.files}: {found}; {seen}" if found else f"{read.files}; {seen}"
    if made.former:
        names = ", ".join(f"{name!r:.80}" for name in [*made.former.values()][:5])
        more = ", …" if len(made.former) > 5 else ""
        out += f"; {measured}s of former members kept as {names}{more}"
    return out


# --- writing --------------------------------------------------------------------------------------


def write(
    folder: str, manifest: DesignManifest, read: Reread, made: Placed, number: int
) -> DesignManifest:
    """Write what is new under a number; gives the manifest, which is not written."""
    sizes = np.array(made.sizes, dtype=np.int64)
    gone = sorted(made.mark.retired)
    if sizes.sum() != read.scan.rows + sizes[gone].sum():
        raise DataError("the files do not have the rows that they had; scan them again")
    regions, sums = _rows(folder, manifest, read, made, f"u-{number}.rows")
    standing = _standing(folder, manifest, read, made)
    config = unpack_config(manifest.settings.config)
    basis = store.prepared_in(folder, config, read.scan).basis
    few = thinned(standing[:, :-2], standing[:, -1])
    new = {
        "ids.arrow": packed_keys(_keys(folder, manifest, read, made)),
        "sizes.npy": place.saved(sizes),
        "sums.npy": place.saved(sums),
        "moment.npy": place.saved(moment_of(standing, basis, manifest.features)),
        store.SUBSAMPLE: place.saved(np.column_stack([few.x, few.weight])),
        store.RUNS: place.saved(_runs(read, made)),
        store.STANDING: place.saved(standing),
    }
    files, pieces = dict(manifest.files), dict(manifest.pieces)
    for name, content in new.items():
        stem, ending = os.path.splitext(name)
        files[name] = f"{stem}-{number}{ending}"
        pieces[name] = hashlib.sha256(content).hexdigest()
        place.write(folder, files[name], content)
    return replace(
        manifest,
        settings=replace(manifest.settings, scan=read.scan),
        source=read.scan,
        sets=len(sizes),
        home=place.absolute(folder),
        pieces=pieces,
        files=files,
        regions=tuple(regions),
        gone=tuple(gone),
        former=(*manifest.former, *sorted(made.former.items())),
        ids_in_order=True,
        grouped=False,
    )


def _keys(folder: str, manifest: DesignManifest, read: Reread, made: Placed) -> Any:
    """Ids in an Arrow table; former sets have what they were called."""
    import pyarrow as pa

    known = store.keys_in(folder, manifest)
    old = [key for key in made.keys if isinstance(key, int)]
    new = [read.read.names[key[0]] for key in made.keys if not isinstance(key, int)]
    try:
        columns = zip(*new, strict=True) if new else [()] * known.num_columns
        each = zip(columns, known.schema.types, strict=True)
        more = [pa.array(list(values), type=kind) for values, kind in each]
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise DataError(
            f"the columns {', '.join(known.column_names)} hold other values than before ({error})"
        ) from error
    both = [known.take(old), pa.table(more, names=known.column_names)]
    return pa.concat_tables(both).combine_chunks()


def _runs(read: Reread, made: Placed) -> Int[np.ndarray, "M 3"]:
    kept, more = read.kept.copy(), read.read.runs.copy()
    kept[:, 1] = made.now[kept[:, 1]]
    more[:, 1] = _position_of(read, made)[more[:, 1]]
    return np.concatenate([kept, more])


def _position_of(read: Reread, made: Placed) -> Int[np.ndarray, " n"]:
    """The position of each set that was read."""
    numbers = np.array(made.read)
    found = np.zeros(len(read.read.names), dtype=np.int64)
    found[numbers[numbers >= 0]] = np.flatnonzero(numbers >= 0)
    return found


def _standing(
    folder: str, manifest: DesignManifest, read: Reread, made: Placed
) -> Float[np.ndarray, "m D2"]:
    """Individuals that represent all: those that did and have stayed, and some that were read.

    What they stand for adds up to the individuals that there are.
    """
    known = place.load(folder, manifest.name_of(store.STANDING))
    at = known[:, -2].astype(np.int64)
    stays = ~read.affected
    stays[list(manifest.gone)] = False
    known, at = known[stays[at]], at[stays[at]]
    known[:, -2] = made.now[at]
    known[:, -1] *= read.sizes[stays].sum() / max(known[:, -1].sum(), 1.0)
    x, n = read.read.sample, int(read.read.rows.sum())
    more = np.empty((len(x), known.shape[1]))
    if len(x):
        more[:, :-2], more[:, -2] = x, _position_of(read, made)[read.read.owner]
        more[:, -1] = n / len(x)
    both = np.concatenate([known, more])
    if len(both) > 2 * MOMENT_SAMPLE:
        both = both[::2]
        both[:, -1] *= read.scan.rows / both[:, -1].sum()
    return both


# --- rows -----------------------------------------------------------------------------------------


def _rows(
    folder: str, manifest: DesignManifest, read: Reread, made: Placed, name: str
) -> tuple[list[Region], Float[np.ndarray, "3 A"]]:
    """Write the rows that are new; gives all regions, and s_a, Σθ and ‖u_a‖²."""
    rows = store.rows_of(folder, manifest)
    then = store.piece(folder, manifest, "sums.npy", (3, manifest.sets))
    old, number = np.array(made.old), np.array(made.read)
    sums = np.where(old >= 0, then[:, np.maximum(old, 0)], 0.0)
    fresh, width = _fresh(number), manifest.row_bytes
    ends = np.flatnonzero(np.diff(fresh) | (~fresh[1:] & (np.diff(old) != 1))) + 1
    regions, at = list[Region](), 0
    with _new_file(folder, name) as file:
        for low, high in zip([0, *ends], [*ends, len(old)], strict=True):
            if not fresh[low]:
                regions += _stayed(folder, manifest, int(old[low]), int(low), int(high - low))
                continue
            chunks = list[list[int]]()
            for first in range(low, high, BLOCK):
                here = slice(first, min(first + BLOCK, high))
                block, sums[:, here] = _block(manifest, read, made, rows, sums[:, here], here)
                content = block.reshape(-1).view(np.uint8).data
                add_rows(chunks, content, width, rows_at_once(folder, width))
                write_all(file, content)
            for n, checksum in chunks:
                regions.append(Region(int(low), n, checksum, name, at))
                low, at = low + n, at + n * width
    return regions, sums


def _fresh(number: Int[np.ndarray, " A"]) -> Bool[np.ndarray, " A"]:
    """Which rows are written: those that changed, and short runs between these."""
    fresh = number >= 0
    changed = np.flatnonzero(fresh)
    for low, gap in zip(changed, np.diff(changed) - 1, strict=False):
        if 0 < gap < GAP:
            fresh[low : low + gap + 1] = True
    return fresh


def _block(
    manifest: DesignManifest,
    read: Reread,
    made: Placed,
    rows: Rows,
    then: Float[np.ndarray, "3 n"],
    here: slice,
) -> tuple[np.ndarray, Float[np.ndarray, "3 n"]]:
    """Some rows as they are now, in the precision of the design, and their three sums."""
    kind, mean = np.dtype(manifest.settings.dtype), read.scan.weights == "mean"
    old, number, sizes = (np.array(each[here]) for each in (made.old, made.read, made.sizes))
    block, now = np.zeros((len(old), manifest.features)), then.copy()
    has, more = old >= 0, number >= 0
    block[has] = rows[old[has]]
    if mean:
        block[has & more] *= read.sizes[old[has & more], None]
    block[more] += read.read.sums[number[more], :-2]
    now[:2, more] += read.read.sums[number[more], -2:].T
    if mean:
        block[more] /= sizes[more, None]
        now[0, more], now[1, more] = 1 / sizes[more], 1.0
    with np.errstate(over="ignore"):
        out = np.ascontiguousarray(block, dtype=kind)
        now[2, more] = np.einsum("ak,ak->a", block[more], block[more])
    least = SMALLEST_SINGLE if kind == np.float32 else 0.0
    bad = more & ~(np.isfinite(out).all(axis=1) & np.isfinite(now[0]) & (now[0] > least))
    if bad.any():
        name = read.read.names[number[int(np.argmax(bad))]]
        raise bad_weights(name[0] if len(name) == 1 else name, kind)
    return out, now


@contextmanager
def _new_file(folder: str, name: str) -> Iterator[Any]:
    if place.is_address(folder):
        files, root = place.store_of(folder)
        with files.open(f"{root}/{name}", "wb") as file:
            yield file
        return
    path = os.path.join(folder, name)
    with suppress(FileNotFoundError):
        os.unlink(path)  # of a refresh that was killed
    with open(path, "xb", buffering=0) as file:  # which follows no link
        yield file
        os.fsync(file.fileno())


def _stayed(
    folder: str, manifest: DesignManifest, old: int, first: int, rows: int
) -> Iterator[Region]:
    """The regions of rows that stayed; where only a part of one did, with its own checksum."""
    width, move = manifest.row_bytes, first - old
    for region in sorted(region for region in manifest.regions if region.rows):
        low, high = max(old, region.first), min(old + rows, region.first + region.rows)
        if low >= high:
            continue
        offset = region.offset + (low - region.first) * width
        checksum = region.checksum
        if high - low < region.rows:
            whole = place.checksum(folder, region.file, region.offset, region.rows * width)
            if whole != checksum:
                raise store.damaged(folder, region.file)
            checksum = place.checksum(folder, region.file, offset, (high - low) * width)
        yield Region(low + move, high - low, checksum, region.file, offset)
