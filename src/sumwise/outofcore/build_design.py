"""A design on disk is made: one look through the files, then part after part, wherever.

What is finished is written down part by part, so whoever is stopped goes on from there; when all
parts are done, what they share is added up, and the manifest says that the design is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import asdict
from functools import partial
from itertools import islice
from numbers import Real
from typing import Any, Final, TypeAlias

import numpy as np

from sumwise.data.scan import PART_ROWS, Scan
from sumwise.errors import DataError, InvalidSetError, SettingError
from sumwise.model import archives
from sumwise.model import fit as core
from sumwise.model.basis import Trainable
from sumwise.model.design import features
from sumwise.model.fit import ModelConfig, Prepared
from sumwise.model.serialize import pack_config, pack_prepared, unpack_config
from sumwise.outofcore.design_lock import SORTED, only_writer, read_begun, write_begun
from sumwise.outofcore.design_store import (
    DTYPES,
    FORMAT,
    PIECES,
    Embedded,
    checksum_of,
    ids_in,
    lazy_sets,
    open_folder,
    prepared_in,
    read_json,
    scan_from,
)
from sumwise.outofcore.embed_part import Job, embed_part, part_file, write_all
from sumwise.outofcore.external_sort import BUCKET_BYTES, sorted_copy
from sumwise.outofcore.index import Index, ids_of, index_of, refuse_ids, survey_part
from sumwise.util.files import sha256_of, write_file
from sumwise.util.progress import Slow
from sumwise.util.shapes import Float

SMALLEST_SINGLE: Final = 1e-60  # s_a from which on u_a has all its digits in single precision

# runs a function on many jobs, anywhere, and gives the results in any order
Run: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]


def in_threads(job: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
    """The kernel and Arrow let go of Python's lock, so threads are enough."""
    count, left = max(1, min(len(jobs), os.cpu_count() or 1)), iter(jobs)
    with ThreadPoolExecutor(count) as pool:
        begun = {pool.submit(job, one) for one in islice(left, 2 * count)}
        try:
            while begun:  # few at a time: what is done and not yet taken is held in memory
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
    """Stream a scan to a design in the folder `out`; an unfinished one there is gone on with.

    Args:
        prepared: The basis, if it is drawn already; otherwise it is drawn for these inputs, which
            are read once more for their mean and spread.
        memory: Bytes that sorting by set may take, if that is necessary.
        run: Where parts are worked on.
    """
    check_dtype(dtype)
    if memory is not None and not (isinstance(memory, Real) and 0 < memory < np.inf):
        raise SettingError(f"memory is {memory!r}; give a number of bytes, such as 2 * 10**9")
    if not isinstance(out, str | os.PathLike) or not isinstance(folder := os.fspath(out), str):
        raise SettingError(f"out is {out!r:.60}; give the path of a new folder")
    if not folder:
        raise SettingError("out is empty; give the path of a new folder")
    wanted = {
        "format": FORMAT,
        "config": pack_config(config),
        "dtype": dtype,
        "scan": asdict(scan),
        "part_rows": PART_ROWS,
        "basis": None if prepared is None else hashlib.sha256(pack_prepared(prepared)).hexdigest(),
    }
    wanted = json.loads(json.dumps(wanted))
    if os.path.exists(os.path.join(folder, "manifest.json")):
        known = read_json(folder, "manifest.json")
        if {name: known.get(name) for name in wanted} != wanted:
            raise _other(folder)
        return open_folder(folder, True)
    try:
        with only_writer(folder):
            if not os.path.exists(os.path.join(folder, "manifest.json")):
                if not os.path.exists(os.path.join(folder, "begun.json")):
                    _begin(folder, scan, config, prepared, wanted, memory, run)
                known = read_begun(folder)
                if known["wanted"] != wanted:
                    raise _other(folder)
                _work(folder, scan, known, run)
                _finish(folder, known)
    except OSError as error:
        raise DataError(
            f"the design cannot be written to {folder} ({error.strerror or error}). Make room "
            "there and call again, which goes on where it stopped; or choose another place."
        ) from error
    return open_folder(folder, False)


def check_dtype(dtype: Any) -> None:
    if dtype not in DTYPES:
        raise SettingError(f"dtype is {dtype!r}; give 'float64' or 'float32'")


def _other(folder: str) -> SettingError:
    return SettingError(
        f"{folder} holds a design of other files, or with other settings, which a study may need; "
        "name another folder"
    )


def _begin(
    folder: str,
    scan: Scan,
    config: ModelConfig,
    prepared: Prepared | None,
    wanted: Mapping[str, Any],
    memory: int | None,
    run: Run,
) -> None:
    """Look through the files once, sort them if need be, and draw the basis."""
    shutil.rmtree(os.path.join(folder, "parts"), ignore_errors=True)  # of another beginning
    os.makedirs(os.path.join(folder, "parts"))
    index = survey(scan, inputs=prepared is None, run=run)
    refuse_ids(index.keys)
    source, look = scan, index.look
    if not index.contiguous:
        place = os.path.join(folder, SORTED)
        shutil.rmtree(place, ignore_errors=True)
        bucket = BUCKET_BYTES if memory is None else max(2**20, int(memory) // 4)
        source = sorted_copy(scan, place, ids_of(index.keys), bucket)
        index = survey(source, inputs=False, run=run)
    if prepared is None:
        assert look is not None  # it was wanted
        blank = lazy_sets((), np.empty(0, int), scan)
        prepared = core.prepare_on(config, blank, look.inputs())
    if isinstance(prepared.basis.basis, Trainable):
        raise SettingError(
            "a basis that learns looks at the individuals again after every answer, so there is "
            "nothing to embed beforehand. Use basis='auto', 'fourier', 'polynomial' or 'linear'."
        )
    n_basis = features(prepared.basis, np.zeros((1, len(scan.x)))).shape[1]
    assert index.sizes is not None  # what was not sorted is now
    _write_ids(os.path.join(folder, "ids.arrow"), index.keys)
    np.save(os.path.join(folder, "sizes.npy"), index.sizes, allow_pickle=False)
    write_file(os.path.join(folder, "basis.npz"), pack_prepared(prepared))
    u = np.lib.format.open_memmap(
        os.path.join(folder, "u.npy"), "w+", np.dtype(wanted["dtype"]), (len(index), n_basis)
    )
    known = {
        "wanted": wanted,
        "source": asdict(source),
        "first_sets": index.first_sets,
        "sets": len(index),
        "features": n_basis,
        "offset": u.offset,
    }
    del u
    write_begun(folder, known)


def survey(scan: Scan, *, inputs: bool, run: Run = in_threads) -> Index:
    """Which sets there are, and where; with `inputs`, how these are spread."""
    parts = scan.parts()
    with Slow("looking through the files", len(parts)) as slow:
        return index_of(in_order(run(partial(_surveyed, scan, inputs), parts), slow.at))


def in_order(found: Iterable[tuple[int, Any]], seen: Callable[[int], None]) -> Iterator[Any]:
    """Numbered pieces from 0 on, each as soon as all before it are there; no others are held."""
    ahead: dict[int, Any] = {}
    following = 0
    for count, (number, piece) in enumerate(found, start=1):
        seen(count)
        ahead[number] = piece
        while following in ahead:
            yield ahead.pop(following)
            following += 1


def _surveyed(scan: Scan, inputs: bool, part: Any) -> tuple[int, Any]:
    return part.number, survey_part(scan, part, inputs=inputs)


def _write_ids(path: str, keys: Any) -> None:
    import pyarrow as pa

    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, keys.schema) as writer:
        writer.write_table(keys)


def _work(folder: str, scan: Scan, known: Mapping[str, Any], run: Run) -> None:
    """Embed the parts that are not there yet."""
    os.makedirs(os.path.join(folder, "parts"), exist_ok=True)
    source = scan_from(known["source"])
    prepared = prepared_in(folder, unpack_config(known["wanted"]["config"]), scan)
    parts = source.parts()
    place = os.path.abspath(folder)  # workers may run in another folder
    jobs = [
        Job(source, part, prepared.basis, known["features"], first, place, known["offset"],
            known["wanted"]["dtype"])
        for part, first in zip(parts, known["first_sets"], strict=True)
        if not _is_done(folder, part.number, first, known)
    ]  # fmt: skip
    total = sum(part.rows for part in parts)
    done = total - sum(job.part.rows for job in jobs)
    with Slow("embedding", total) as slow:
        for rows in run(embed_part, jobs):
            done += rows
            slow.at(done)


def _is_done(folder: str, number: int, first: int, known: Mapping[str, Any]) -> bool:
    """Whether a part was finished, and what it wrote is there; a machine may have lost power."""
    path = part_file(folder, number)
    if not os.path.exists(path):
        return False
    try:
        with open(path, "rb") as file:
            checksum, written, _ = archives.from_bytes(file.read(), path)["counts"].tolist()
    except (DataError, KeyError, ValueError):  # cut off: it is done again
        return False
    return checksum_of(folder, known, first + 1, written) == checksum


def _finish(folder: str, known: Mapping[str, Any]) -> None:
    """Add up what parts share, and write the manifest."""
    n_sets, n_basis = known["sets"], known["features"]
    sums = np.zeros((3, n_sets))
    products, sampled = np.zeros((n_basis, n_basis)), 0
    shared: dict[int, Float[np.ndarray, " K"]] = {}
    regions, subsample = [], []
    for number, first in enumerate(known["first_sets"]):
        with open(part_file(folder, number), "rb") as file:
            kept = archives.from_bytes(file.read(), f"part {number} of {folder}")
        count = kept["sums"].shape[1]
        following = [*known["first_sets"], n_sets][number + 1]
        if first + count not in (following, following + 1):
            raise DataError(f"part {number} of the files has changed since the design was begun")
        sums[:, first : first + count] += kept["sums"]
        for at, edge in zip((first, first + count - 1), kept["edges"], strict=False):
            shared[at] = shared.get(at, 0.0) + edge
        checksum, written, seen = kept["counts"].tolist()
        regions.append([first + 1, written, checksum])
        products += kept["products"]
        subsample.append(kept["stand_ins"])
        sampled += seen
    kind = np.dtype(known["wanted"]["dtype"])
    least = SMALLEST_SINGLE if kind == np.float32 else 0.0
    bad = ~(np.isfinite(sums[0]) & (sums[0] > least))
    with open(os.path.join(folder, "u.npy"), "r+b", buffering=0) as out:  # a full disk says so here
        for at, edge in shared.items():
            with np.errstate(over="ignore"):
                row, sums[2, at] = np.asarray(edge, dtype=kind), float(edge @ edge)
            bad[at] |= not np.isfinite(row).all()
            out.seek(known["offset"] + at * n_basis * kind.itemsize)
            write_all(out, row.view(np.uint8).data)
        os.fsync(out.fileno())
    if bad.any():
        name = ids_in(folder, n_sets)[int(np.argmax(bad))]
        hint = "" if kind == np.float64 else "; dtype='float64' holds smaller and larger ones"
        raise InvalidSetError(
            f"weights of set {name!r} are all zero, or beyond what can be squared in {kind}: its "
            "total would say nothing that can be computed with. Drop the set or rescale its "
            f"weights, and embed into a new folder{hint}."
        )
    np.save(os.path.join(folder, "sums.npy"), sums, allow_pickle=False)
    np.save(os.path.join(folder, "moment.npy"), products / sampled, allow_pickle=False)
    np.save(os.path.join(folder, "stand_ins.npy"), np.concatenate(subsample), allow_pickle=False)
    regions += [[at, 1, checksum_of(folder, known, at, 1)] for at in sorted(shared)]
    manifest = {
        **known["wanted"],
        "sets": n_sets,
        "features": n_basis,
        "offset": known["offset"],
        "home": os.path.abspath(folder),
        "regions": regions,
        "pieces": {name: sha256_of(os.path.join(folder, name)) for name in PIECES},
    }
    write_file(os.path.join(folder, "manifest.json"), json.dumps(manifest).encode())
    os.unlink(os.path.join(folder, "begun.json"))
    for left in ("parts", SORTED):
        shutil.rmtree(os.path.join(folder, left), ignore_errors=True)
