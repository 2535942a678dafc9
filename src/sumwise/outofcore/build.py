"""Make a design on disk: index the files once, then embed part after part, anywhere.

Each finished part is recorded, so a run that was stopped resumes with the others. When all parts
are done, the sets that parts share are added up and the manifest is written; without one, a design
is not whole.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from numbers import Real
from typing import Any, Final, TypeAlias

import numpy as np

from sumwise.data.parquet import PART_ROWS, GapError, Part, Scan, holds_numbers
from sumwise.data.targets import Inputs
from sumwise.errors import DataError, InvalidSetError, SettingError
from sumwise.model import serialize
from sumwise.model.basis import Neural, Scaled
from sumwise.model.design import add_products, features
from sumwise.model.fit import ModelConfig, Prepared
from sumwise.model.serialize import pack_config, pack_prepared, unpack_config
from sumwise.outofcore import design_store as store
from sumwise.outofcore import place
from sumwise.outofcore.design_store import DesignManifest, Embedded, Region, Settings
from sumwise.outofcore.embed_part import (
    MOMENT_SAMPLE,
    embed_part,
    keep_part,
    part_file,
    rows_file,
    write_all,
)
from sumwise.outofcore.external_sort import BUCKET_BYTES, sorted_copy
from sumwise.outofcore.index import Index, ids_of, index_of, refuse_ids, survey_part
from sumwise.outofcore.learn_recipe import learn, look_at
from sumwise.util.files import PARTIAL, lock, sync_folder
from sumwise.util.progress import Slow
from sumwise.util.shapes import Float, Int

LOCK: Final = "lock"
SHARED: Final = "u/shared.rows"  # in a store, rows of sets that parts share
SORTED: Final = "_sorted"  # the underscore keeps scans of a folder around it from reading it
SMALLEST_SINGLE: Final = 1e-60  # s_a from which on u_a has all its digits in single precision

# runs a function on many jobs, anywhere, and gives the results in any order
Run: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]


def in_threads(job: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
    """Run jobs in threads: the kernel and Arrow release Python's lock."""
    count, left = max(1, min(len(jobs), os.cpu_count() or 1)), iter(jobs)
    with ThreadPoolExecutor(count) as pool:
        begun = {pool.submit(job, one) for one in islice(left, 2 * count)}
        try:
            while begun:  # few at a time, because results are held in memory until they are taken
                done, begun = wait(begun, return_when=FIRST_COMPLETED)
                for future in done:
                    begun |= {pool.submit(job, one) for one in islice(left, 1)}
                    yield future.result()
        finally:
            for future in begun:
                future.cancel()


def embed_scan(
    scan: Scan,
    config: ModelConfig,
    out: str | os.PathLike[str],
    *,
    prepared: Prepared | None = None,
    dtype: str = "float64",
    memory: int | None = None,
    run: Run = in_threads,
) -> Embedded:
    """Stream a scan to a design in the folder `out`; an unfinished one there is resumed.

    Args:
        out: A folder, or an address in a store that fsspec knows.
        prepared: The basis, if there is one already; otherwise it is drawn for these inputs, after
            a pass over them for their mean and spread.
        memory: Bytes that sorting by set may take, if that is necessary.
        run: Runs a function on many jobs, here or elsewhere.
    """
    check_dtype(dtype)
    if memory is not None and not (isinstance(memory, Real) and 0 < memory < np.inf):
        raise SettingError(f"memory is {memory!r}; give a number of bytes, such as 2 * 10**9")
    folder = os.fspath(out) if isinstance(out, str | os.PathLike) else ""
    if not folder or not isinstance(folder, str):
        raise SettingError(f"out is {out!r:.60}; give the path of a new folder")
    folder = place.normal(folder)
    if config.basis == "neural" or isinstance(config.basis, Neural):
        raise SettingError(
            "a basis that learns reads the individuals again after every answer, so it cannot be "
            "embedded beforehand. Use basis='auto', 'fourier', 'polynomial' or 'linear', "
            "or keep the individuals in memory."
        )
    if config.likelihood is not None:
        _refuse_for_individuals(config.outputs, scan, dtype, folder)
    basis = None if prepared is None else hashlib.sha256(pack_prepared(prepared)).hexdigest()
    plain = replace(scan, recipe=None)  # files and columns say what it is
    settings = Settings(pack_config(config), dtype, plain, PART_ROWS, basis)
    check = place.exists(folder, store.MANIFEST)  # what is made now has been checked
    try:
        if not check:
            if not place.is_address(folder):
                os.makedirs(folder, exist_ok=True)
            _refuse_other_files(folder)
            with alone(folder):
                if not place.exists(folder, store.MANIFEST):
                    if not place.exists(folder, store.BEGUN):
                        _begin(folder, settings, scan, prepared, memory, run)
                    begun = read_begun(folder)
                    if begun.settings != settings:
                        raise _other(folder)
                    _embed_parts(folder, begun, run)
                    _finish(folder, begun)
    except OSError as error:
        raise DataError(
            f"the design cannot be written to {folder} ({error.strerror or error}). Make room "
            "there and call again to continue, or choose another place."
        ) from error
    if store.read_manifest(folder).settings != settings:
        raise _other(folder)
    return Embedded.open(folder, check=check)


def alone(folder: str) -> AbstractContextManager[None]:
    """Hold the lock of a folder; a store has none."""
    if place.is_address(folder):
        return nullcontext()
    busy = f"another process is embedding to {folder}; wait for it, or name another folder"
    return lock(os.path.join(folder, LOCK), busy)


def check_dtype(dtype: Any) -> None:
    if dtype not in store.DTYPES:
        raise SettingError(f"dtype is {dtype!r}; give 'float64' or 'float32'")


def _refuse_for_individuals(outputs: str, scan: Scan, dtype: str, folder: str) -> None:
    if place.is_address(folder):
        raise SettingError(
            f"of {outputs}, individuals are stored in a file that is mapped to memory, which "
            f"{folder} does not allow; name a folder on a disk"
        )
    if dtype != "float64":
        raise SettingError(
            f"of {outputs}, inputs and exposures of individuals are stored, in double precision: "
            "leave dtype out"
        )
    if scan.weights == "mean":
        raise SettingError(
            f"weights='mean' is for numbers on disk, not for {outputs}: scan the files with the "
            "column of exposures or trials as weights, or without weights if all have 1"
        )


def _other(folder: str) -> SettingError:
    return SettingError(
        f"{folder} holds a design of other files, or with other settings, which a study may need; "
        "name another folder, or in the shell another study with --name. If files have changed, "
        "Embedded.open(folder).update() or Study.refresh_pool() embeds what has changed"
    )


def _refuse_other_files(folder: str) -> None:
    """Refuse a folder that holds anything but a design in the making."""
    if place.exists(folder, store.BEGUN):
        return
    ours = (*store.PIECES, store.RECIPE, *store.ARRAYS, SORTED, "parts", "u", LOCK, store.BEGUN)
    partial = (PARTIAL, *(f"{name}." for name in ours))  # also basis.npz.77.part of old
    for name in dict.fromkeys(name.split("/")[0] for name in place.listed(folder)):
        if name not in ours and not (name.startswith(partial) and name.endswith(".part")):
            raise SettingError(f"{folder} is a folder with other files in it; name a new one")


# --- beginning ------------------------------------------------------------------------------------


def read_begun(folder: str) -> DesignManifest:
    """What was begun; a file that has changed since is refused."""
    manifest = store.read_manifest(folder, store.BEGUN)
    store.compare_pieces(folder, manifest)
    if not (place.is_address(folder) or os.path.isfile(os.path.join(folder, manifest.array))):
        raise store.damaged(folder, manifest.array)
    store.refuse_ids_out_of_order(folder, manifest)
    recipe = store.recipe_in(folder, manifest)
    return replace(manifest, source=replace(manifest.source, recipe=recipe))


def _begin(
    folder: str,
    settings: Settings,
    scan: Scan,
    prepared: Prepared | None,
    memory: int | None,
    run: Run,
) -> None:
    """Index the files, sort them if need be, draw the basis, and make room for rows."""
    _clear(folder, "parts")  # of an earlier beginning
    scan, index = surveyed(scan, partial(survey, run=run, inputs=prepared is None), run, prepared)
    refuse_ids(index.keys)
    source, statistics, runs = scan, index.statistics, None
    if index.sizes is None:
        bucket = BUCKET_BYTES if memory is None else max(2**20, int(memory) // 4)
        source, runs = _sorted(folder, scan, index, bucket)
        index = survey(source, inputs=prepared is None, run=run)
    assert index.sizes is not None  # the source is sorted
    runs = index.runs() if runs is None else runs
    if prepared is None:
        by_set = Inputs.combine(index.statistics).alike
        inputs = replace(Inputs.combine(statistics), alike=by_set)
        blank = store.lazy_sets(partial(ids_of, index.keys), index.sizes, scan)
        prepared = unpack_config(settings.config).prepare(blank, inputs)
    n_basis = features(prepared.basis, np.zeros((1, scan.n_inputs))).shape[1]
    place.write(folder, "ids.arrow", packed_keys(index.keys))
    place.write(folder, "sizes.npy", place.saved(index.sizes))
    place.write(folder, "basis.npz", pack_prepared(prepared))
    names: tuple[str, ...] = store.BEGUN_PIECES
    if scan.recipe is not None:
        place.write(folder, store.RECIPE, scan.recipe.to_json())
        names = (*names, store.RECIPE)
    width = scan.n_inputs + 1 if prepared.config.likelihood is not None else 0
    if not width:
        place.write(folder, store.RUNS, place.saved(runs))
        names = (*names, store.RUNS)
    shape, pieces = (len(index.sizes), n_basis), _checksums(folder, names)
    home, firsts = place.absolute(folder), index.first_sets
    manifest = DesignManifest(
        settings, *shape, 0, home, pieces, source, firsts, ids_in_order=True, width=width
    )
    if not place.is_address(folder):
        path, kind = os.path.join(folder, manifest.array), np.dtype(settings.dtype)
        with suppress(FileNotFoundError):  # what is there may be a link to a file of others
            os.unlink(path)
        large = np.lib.format.open_memmap(path, "w+", kind, manifest.shape)
        manifest = replace(manifest, offset=large.offset)
        del large
    place.write(folder, store.BEGUN, manifest.to_json(), durable=True)


def packed_keys(keys: Any) -> bytes:
    """Ids of sets as they are stored."""
    import pyarrow as pa

    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, keys.schema) as writer:
        writer.write_table(keys)
    return bytes(out.getvalue())


def _clear(folder: str, name: str) -> None:
    """Remove a folder inside; on a disk, make it anew where parts are written."""
    if place.is_address(folder):
        place.remove(folder, [each for each in place.listed(folder) if each.startswith(f"{name}/")])
        return
    shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    if name == "parts":
        os.makedirs(os.path.join(folder, name))


def _sorted(
    folder: str, scan: Scan, index: Index, bucket: int
) -> tuple[Scan, Int[np.ndarray, "M 3"]]:
    """A copy of the files inside the folder, sorted by set, and what `sorted_copy` gives."""
    ids = ids_of(index.keys)
    _clear(folder, SORTED)
    if not place.is_address(folder):
        return sorted_copy(scan, os.path.join(folder, SORTED), ids, bucket)
    root, found = place.store_of(folder), []
    with tempfile.TemporaryDirectory() as here:
        made, runs = sorted_copy(scan, here, ids, bucket)
        for file in made.files:
            name = f"{SORTED}/{os.path.basename(file.path)}"
            root[0].put_file(file.path, f"{root[1]}/{name}")
            found.append(replace(file, path=place.inside(folder, name)))
    return replace(made, files=tuple(found)), runs


def _checksums(folder: str, names: Sequence[str]) -> dict[str, str]:
    return {name: place.sha256(folder, name) for name in names}


def surveyed(
    scan: Scan, survey: Callable[[Scan], Any], run: Run, prepared: Prepared | None = None
) -> tuple[Scan, Any]:
    """The scan with its recipe, if it needs one, and its survey.

    Numbers are taken as they are until one is missing, so that most files are read once for both.
    """
    if scan.recipe is not None or prepared is not None:
        return scan, survey(scan)
    if holds_numbers(scan) and not scan.periods:
        try:
            return scan, survey(scan)
        except GapError:
            pass
    scan = learn(scan, look_at(scan, run, scan.x))
    return scan, survey(scan)


def survey(scan: Scan, *, inputs: bool, run: Run = in_threads) -> Index:
    """Which sets there are, and where; with `inputs`, also the distribution of inputs."""
    parts = scan.parts()
    with Slow("looking through the files", len(parts)) as slow:
        found = run(partial(survey_part, scan, inputs=inputs), parts)
        return index_of(in_order(((one.number, one) for one in found), slow.at))


def in_order(found: Iterable[tuple[int, Any]], seen: Callable[[int], None]) -> Iterator[Any]:
    """Numbered pieces in order from 0, each as soon as all before it are there."""
    ahead: dict[int, Any] = {}
    following = 0
    for count, (number, piece) in enumerate(found, start=1):
        seen(count)
        ahead[number] = piece
        while following in ahead:
            yield ahead.pop(following)
            following += 1


# --- parts ----------------------------------------------------------------------------------------


def _embed_parts(folder: str, manifest: DesignManifest, run: Run) -> None:
    """Embed the parts that are not finished."""
    if not place.is_address(folder):
        os.makedirs(os.path.join(folder, "parts"), exist_ok=True)
    settings = manifest.settings
    prepared = store.prepared_in(folder, unpack_config(settings.config), manifest.source)
    parts = manifest.source.parts()
    where = place.absolute(folder)  # workers may run in another folder
    jobs = [
        (part, first)
        for part, first in zip(parts, manifest.first_sets, strict=True)
        if not _is_done(folder, part, first, manifest)
    ]
    total = sum(part.rows for part in parts)
    done = total - sum(part.rows for part, _ in jobs)
    job = partial(embed_part, prepared.basis, manifest, where)
    with Slow("embedding", total) as slow:
        for rows in run(partial(keep_part, manifest, where) if manifest.width else job, jobs):
            done += rows
            slow.at(done)


def _is_done(folder: str, part: Part, first: int, manifest: DesignManifest) -> bool:
    """Whether a part was finished and its rows are on the disk: the power may have failed."""
    try:
        known = _part(folder, part.number)
        chunks = known["chunks"].tolist()
    except (DataError, KeyError, OSError, ValueError):  # it is not there, or was cut off
        return False
    if place.is_address(folder):  # where objects appear when they are whole
        return True
    at = part.first_individual if manifest.width else first + 1
    return all(manifest.checksum_of(folder, at, rows) == found for rows, found in chunks)


def _part(folder: str, number: int) -> Mapping[str, Any]:
    content = place.read(folder, part_file(number))
    return serialize.from_bytes(content, f"part {number} of {folder}")


# --- finishing ------------------------------------------------------------------------------------


def _finish(folder: str, manifest: DesignManifest) -> None:
    """Add up what parts share, and write the manifest."""
    regions = _individuals(folder, manifest) if manifest.width else _sums(folder, manifest)
    home = place.absolute(folder)
    names = [name for name in manifest.names if name != store.RUNS]  # begun by a former version
    pieces = _checksums(folder, list(dict.fromkeys((*names, *manifest.pieces))))
    grouped = manifest.source.files == manifest.settings.scan.files
    whole = replace(manifest, home=home, pieces=pieces, regions=tuple(regions), grouped=grouped)
    place.write(folder, store.MANIFEST, whole.to_json(), durable=True)
    place.remove(folder, [store.BEGUN])
    if place.is_address(folder):
        for left in ("parts", SORTED):
            _clear(folder, left)
        return
    sync_folder(os.path.dirname(home))  # which has the folder's own name
    for left in ("parts", SORTED):
        shutil.rmtree(os.path.join(folder, left), ignore_errors=True)


def _regions(
    folder: str, manifest: DesignManifest, number: int, first: int, chunks: Any
) -> Iterator[Region]:
    """Where the rows of a part are."""
    width, begun = manifest.row_bytes, first
    for rows, checksum in chunks.tolist():
        file, offset = manifest.array, manifest.offset + first * width
        if place.is_address(folder):
            file, offset = rows_file(number), (first - begun) * width
        yield Region(first, rows, checksum, file, offset)
        first += rows


def _individuals(folder: str, manifest: DesignManifest) -> list[Region]:
    """The regions of x.npy."""
    with open(os.path.join(folder, manifest.array), "rb") as file:
        os.fsync(file.fileno())
    found: list[Region] = []
    for part in manifest.source.parts():
        chunks = _part(folder, part.number)["chunks"]
        found += _regions(folder, manifest, part.number, part.first_individual, chunks)
    return found


def _sums(folder: str, manifest: DesignManifest) -> list[Region]:
    """The same of u.npy; writes what is beside it."""
    sums = np.zeros((3, manifest.sets))
    shared: dict[int, Float[np.ndarray, " K"]] = {}
    regions, subsample, sample = list[Region](), [], []
    for number, first in enumerate(manifest.first_sets):
        part = _part(folder, number)
        count = part["sums"].shape[1]
        following = [*manifest.first_sets, manifest.sets][number + 1]
        if first + count not in (following, following + 1):
            raise DataError(f"part {number} of the files has changed since the design was begun")
        sums[:, first : first + count] += part["sums"]
        for at, edge in zip((first, first + count - 1), part["edges"], strict=False):
            shared[at] = shared.get(at, 0.0) + edge
        regions += _regions(folder, manifest, number, first + 1, part["chunks"])
        subsample.append(part["stand_ins"])
        sample.append(part["sample"])
    regions += _write_shared(folder, manifest, shared, sums)
    standing = _standing(folder, manifest, np.concatenate(sample))
    config = unpack_config(manifest.settings.config)
    basis = store.prepared_in(folder, config, manifest.source).basis
    place.write(folder, "sums.npy", place.saved(sums))
    place.write(folder, "moment.npy", place.saved(moment_of(standing, basis, manifest.features)))
    place.write(folder, store.SUBSAMPLE, place.saved(np.concatenate(subsample)))
    place.write(folder, store.STANDING, place.saved(standing))
    return regions


def _standing(
    folder: str, manifest: DesignManifest, x: Float[np.ndarray, "m D"]
) -> Float[np.ndarray, "m D2"]:
    """Individuals that represent all: inputs, the position of the set, and how many each is for."""
    rows, sizes = manifest.source.rows, place.load(folder, "sizes.npy")
    which = np.arange(0, rows, max(1, rows // MOMENT_SAMPLE))
    position = np.searchsorted(np.cumsum(sizes), which, side="right")
    return np.column_stack([x, position, np.full(len(x), rows / len(x))])


def moment_of(
    standing: Float[np.ndarray, "m D2"], basis: Scaled, n_basis: int
) -> Float[np.ndarray, "K K"]:
    """The mean of φ φᵀ over these individuals, each for as many as it is for."""
    products, total = np.zeros((n_basis, n_basis)), standing[:, -1].sum()
    for weight in np.unique(standing[:, -1]).tolist():
        each = np.zeros((n_basis, n_basis))
        add_products(standing[standing[:, -1] == weight, :-2], basis, each)
        products += weight / total * each
    return products


def _write_shared(
    folder: str,
    manifest: DesignManifest,
    shared: Mapping[int, Float[np.ndarray, " K"]],
    sums: Float[np.ndarray, "3 A"],
) -> list[Region]:
    """Write the sets that parts share, and ‖u_a‖² to `sums`; refuse bad weights."""
    kind = np.dtype(manifest.settings.dtype)
    least = SMALLEST_SINGLE if kind == np.float32 else 0.0
    bad = ~(np.isfinite(sums[0]) & (sums[0] > least))
    rows: dict[int, Any] = {}
    for at, edge in sorted(shared.items()):
        with np.errstate(over="ignore"):
            row, sums[2, at] = np.asarray(edge, dtype=kind), float(edge @ edge)
        bad[at] |= not np.isfinite(row).all()
        rows[at] = row.view(np.uint8).data
    if bad.any():
        name = store.ids_in(folder, manifest)[int(np.argmax(bad))]
        raise bad_weights(name, kind)
    if place.is_address(folder):
        place.write(folder, SHARED, b"".join(rows.values()))
    else:
        path = os.path.join(folder, manifest.array)
        with open(path, "r+b", buffering=0) as out:  # unbuffered: a full disk raises here
            for at, content in rows.items():
                out.seek(manifest.offset + at * manifest.row_bytes)
                write_all(out, content)
            os.fsync(out.fileno())
    found = []
    for number, (at, content) in enumerate(rows.items()):
        file, offset = manifest.array, manifest.offset + at * manifest.row_bytes
        if place.is_address(folder):
            file, offset = SHARED, number * manifest.row_bytes
        found.append(Region(at, 1, zlib.crc32(content), file, offset))
    return found


def bad_weights(name: Any, kind: np.dtype[Any]) -> InvalidSetError:
    """What is said of a set whose total cannot be used."""
    hint = "" if kind == np.float64 else "; dtype='float64' holds smaller and larger ones"
    return InvalidSetError(
        f"weights of set {name!r} are all zero, or beyond what can be squared in {kind}: its "
        "total cannot be used. Drop the set or rescale its "
        f"weights, and embed into a new folder{hint}."
    )
