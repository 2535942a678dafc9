"""A design on disk: every set of a `Scan` as u_a, s_a and Σθ, made in one pass, mapped to memory.

A folder holds

    manifest.json   of what and with which settings, and checksums; there only when all is done
    ids.arrow       ids of the sets, and sizes.npy how many individuals each has
    basis.npz       what was drawn, and the scaling of inputs
    u.npy           u_a, single or double precision
    sums.npy        s_a, Σθ and ‖u_a‖²
    moment.npy      mean of φ φᵀ over individuals, of a sample if there are many

While it is being made there is `begun.json` instead of the manifest, and a small file for each
part that is finished: whoever is stopped goes on from there.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from sumwise import archives
from sumwise import model as core
from sumwise.basis import RandomFourierFeatures, Scaled, Trainable
from sumwise.design import Design, Pool, features
from sumwise.drawn import pack_config, pack_prepared, unpack_config, unpack_prepared
from sumwise.embedding import Job, embed_part, part_file, replace_file
from sumwise.errors import DataError, InvalidSetError, SettingError
from sumwise.lazy import LazySets
from sumwise.model import ModelConfig, Prepared
from sumwise.progress import Slow
from sumwise.regroup import BUCKET_BYTES, sorted_copy
from sumwise.scan import PART_ROWS, File, Scan, open_parquet
from sumwise.sets import Sets
from sumwise.shapes import Float, Int
from sumwise.survey import Index, ids_of, index_of, survey_part

FORMAT: Final = "sumwise design 1"
DTYPES: Final = ("float64", "float32")
PIECES: Final = ("ids.arrow", "sizes.npy", "basis.npz", "sums.npy", "moment.npy")
LARGEST_READ: Final = 2**33  # bytes of individuals that are read into memory if somebody looks

# runs a function on many jobs, anywhere, and gives the results in any order
Run: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Embedded:
    """A pool on disk, ready to be asked; make one with `AggregateRegressor.embed`."""

    folder: str
    scan: Scan
    config: ModelConfig
    prepared: Prepared
    pool: Pool
    digest: str  # of the manifest, and so of everything it has checksums of

    @classmethod
    def open(cls, folder: str | os.PathLike[str], *, check: bool = True) -> Embedded:
        """A design that was made before.

        Args:
            check: Compare all checksums, which means reading everything once.
        """
        return _open(os.fspath(folder), check)

    @property
    def ids(self) -> tuple[Hashable, ...]:
        return self.pool.sets.ids

    @property
    def sets(self) -> Sets:
        """Ids and sizes now; individuals are read if somebody looks at them."""
        return self.pool.sets

    def under(self, basis: Scaled) -> Pool:
        """The pool, for a model with this basis; under another one it would mean nothing."""
        own = self.prepared.basis
        if own is not basis and _numbers_of(own) != _numbers_of(basis):
            raise SettingError(
                f"the model has another basis than the one {self.folder} is embedded with. Fit the "
                "model on what was embedded, or embed with it."
            )
        return self.pool

    def __len__(self) -> int:
        return len(self.pool.sets)

    def __repr__(self) -> str:
        u = self.pool.design.u
        return f"Embedded: {len(u)} sets, {u.shape[1]} features in {u.dtype}, in {self.folder}"


def _numbers_of(basis: Scaled) -> tuple[Any, ...]:
    """What makes a basis itself, to be compared."""
    drawn = basis.basis
    if isinstance(drawn, RandomFourierFeatures):
        own: Any = drawn.frequencies.tobytes(), drawn.phases.tobytes()
    else:
        own = drawn
    return own, basis.shift.tobytes(), basis.scale.tobytes()


# --- making ---------------------------------------------------------------------------------------


def in_threads(job: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
    """The kernel and Arrow let go of Python's lock, so threads are enough."""
    with ThreadPoolExecutor(max(1, min(len(jobs), os.cpu_count() or 1))) as pool:
        futures = [pool.submit(job, one) for one in jobs]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
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
    if dtype not in DTYPES:
        raise SettingError(f"dtype is {dtype!r}; give 'float64' or 'float32'")
    folder = os.fspath(out)
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
        known = _json(folder, "manifest.json")
        if {name: known.get(name) for name in wanted} != wanted:
            raise _other(folder)
        return _open(folder, True)
    begun = os.path.join(folder, "begun.json")
    if not os.path.exists(begun):
        _begin(folder, scan, config, prepared, wanted, memory, run)
    known = _json(folder, "begun.json")
    if known["wanted"] != wanted:
        raise _other(folder)
    _work(folder, scan, known, run)
    _finish(folder, known)
    return _open(folder, False)


def _other(folder: str) -> SettingError:
    return SettingError(
        f"{folder} holds a design of other files, or with other settings; name another folder, or "
        "remove it"
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
    if os.path.isdir(folder) and set(os.listdir(folder)) - {*PIECES, "u.npy", "sorted", "parts"}:
        raise SettingError(f"{folder} is a folder with other files in it; name a new one")
    os.makedirs(os.path.join(folder, "parts"), exist_ok=True)
    index = survey(scan, inputs=prepared is None, run=run)
    source, first_look = scan, index
    if not index.contiguous:
        place = os.path.join(folder, "sorted")
        shutil.rmtree(place, ignore_errors=True)
        bucket = BUCKET_BYTES if memory is None else max(2**20, memory // 4)
        source = sorted_copy(scan, place, ids_of(index.keys), bucket)
        index = survey(source, inputs=False, run=run)
    if prepared is None:
        shift, scale = np.zeros(len(scan.x)), np.ones(len(scan.x))
        if config.standardize and first_look.moments is not None:
            shift, scale = first_look.moments.location_and_spread()
        blank = _lazy((), np.empty(0, int), scan)
        prepared = core.prepare_on(config, blank, shift, scale, first_look.sample)
    if isinstance(prepared.basis.basis, Trainable):
        raise SettingError(
            "a basis that learns looks at the individuals again after every answer, so there is "
            "nothing to embed beforehand. Use basis='fourier', 'polynomial' or 'linear'."
        )
    n_basis = features(prepared.basis, np.zeros((1, len(scan.x)))).shape[1]
    assert index.sizes is not None  # what was not sorted is now
    _write_ids(os.path.join(folder, "ids.arrow"), index.keys)
    np.save(os.path.join(folder, "sizes.npy"), index.sizes, allow_pickle=False)
    replace_file(os.path.join(folder, "basis.npz"), pack_prepared(prepared))
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
    replace_file(os.path.join(folder, "begun.json"), json.dumps(known).encode())


def survey(scan: Scan, *, inputs: bool, run: Run = in_threads) -> Index:
    """Which sets there are, and where; with `inputs`, how these are spread."""
    parts = scan.parts()
    found: dict[int, Any] = {}
    with Slow("looking through the files", len(parts)) as slow:
        for number, survey in run(partial(_surveyed, scan, inputs), parts):
            found[number] = survey
            slow.at(len(found))
    return index_of(found.pop(part.number) for part in parts)


def _surveyed(scan: Scan, inputs: bool, part: Any) -> tuple[int, Any]:
    return part.number, survey_part(scan, part, inputs=inputs)


def _write_ids(path: str, keys: Any) -> None:
    import pyarrow as pa

    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, keys.schema) as writer:
        writer.write_table(keys)


def _work(folder: str, scan: Scan, known: Mapping[str, Any], run: Run) -> None:
    """Embed the parts that are not there yet."""
    source = scan_from(known["source"])
    prepared = _prepared(folder, unpack_config(known["wanted"]["config"]), scan)
    parts = source.parts()
    jobs = [
        Job(source, part, prepared.basis, known["features"], first, folder, known["offset"],
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
    with open(path, "rb") as file:
        checksum, written, _ = archives.from_bytes(file.read(), path)["counts"].tolist()
    return _checksum(folder, known, first + 1, written) == checksum


def _checksum(folder: str, known: Mapping[str, Any], first: int, rows: int) -> int:
    """Of some rows of u.npy."""
    dtype = known["wanted"]["dtype"] if "wanted" in known else known["dtype"]
    width = known["features"] * np.dtype(dtype).itemsize
    left, checksum = rows * width, 0
    with open(os.path.join(folder, "u.npy"), "rb") as file:
        file.seek(known["offset"] + first * width)
        while left > 0:
            content = file.read(min(left, 2**24))
            if not content:
                return -1
            checksum, left = zlib.crc32(content, checksum), left - len(content)
    return checksum


def _finish(folder: str, known: Mapping[str, Any]) -> None:
    """Add up what parts share, and write the manifest."""
    n_sets, n_basis = known["sets"], known["features"]
    sums = np.zeros((3, n_sets))
    products, sampled = np.zeros((n_basis, n_basis)), 0
    shared: dict[int, Float[np.ndarray, " K"]] = {}
    regions = []
    for number, first in enumerate(known["first_sets"]):
        with open(part_file(folder, number), "rb") as file:
            kept = archives.from_bytes(file.read(), f"part {number} of {folder}")
        count = kept["sums"].shape[1]
        sums[:, first : first + count] += kept["sums"]
        for at, edge in zip((first, first + count - 1), kept["edges"], strict=False):
            shared[at] = shared.get(at, 0.0) + edge
        checksum, written, seen = kept["counts"].tolist()
        regions.append([first + 1, written, checksum])
        products += kept["products"]
        sampled += seen
    u = np.load(os.path.join(folder, "u.npy"), mmap_mode="r+")
    for at, edge in shared.items():
        u[at] = edge
        sums[2, at] = float(edge @ edge)
    u.flush()
    del u
    with np.errstate(over="ignore"):
        bad = np.flatnonzero(~(np.isfinite(sums[0]) & (sums[0] > 0)))
    if len(bad):
        raise InvalidSetError(
            f"weights of set {_ids(folder)[int(bad[0])]!r} are all zero, or beyond what can be "
            "squared: its total would say nothing that can be computed with. Drop the set or "
            "rescale its weights, and embed into a new folder."
        )
    np.save(os.path.join(folder, "sums.npy"), sums, allow_pickle=False)
    np.save(os.path.join(folder, "moment.npy"), products / sampled, allow_pickle=False)
    regions += [[at, 1, _checksum(folder, known, at, 1)] for at in sorted(shared)]
    manifest = {
        **known["wanted"],
        "sets": n_sets,
        "features": n_basis,
        "offset": known["offset"],
        "regions": regions,
        "pieces": {name: _sha256(os.path.join(folder, name)) for name in PIECES},
    }
    replace_file(os.path.join(folder, "manifest.json"), json.dumps(manifest).encode())
    os.unlink(os.path.join(folder, "begun.json"))
    for left in ("parts", "sorted"):
        shutil.rmtree(os.path.join(folder, left), ignore_errors=True)


# --- opening --------------------------------------------------------------------------------------


def _open(folder: str, check: bool) -> Embedded:
    if not os.path.exists(os.path.join(folder, "manifest.json")):
        hint = "it was not finished; embed once more with the same settings to go on"
        begun = os.path.exists(os.path.join(folder, "begun.json"))
        raise DataError(f"{folder} holds no design" + (f": {hint}" if begun else ""))
    known = _json(folder, "manifest.json")
    if known.get("format") != FORMAT:
        raise DataError(f"{folder} has the format {known.get('format')!r}, not {FORMAT!r}")
    if check:
        for name, digest in known["pieces"].items():
            if not os.path.exists(path := os.path.join(folder, name)) or _sha256(path) != digest:
                raise _damaged(folder, name)
        for first, rows, checksum in known["regions"]:
            if _checksum(folder, known, first, rows) != checksum:
                raise _damaged(folder, "u.npy")
    scan = scan_from(known["scan"])
    config = unpack_config(known["config"])
    try:
        u = np.load(os.path.join(folder, "u.npy"), mmap_mode="r", allow_pickle=False)
        sums = np.load(os.path.join(folder, "sums.npy"), allow_pickle=False)
        moment = np.load(os.path.join(folder, "moment.npy"), allow_pickle=False)
        sizes = np.load(os.path.join(folder, "sizes.npy"), allow_pickle=False)
    except (ValueError, OSError) as error:
        raise DataError(f"the design in {folder} cannot be read ({error})") from error
    if u.shape != (known["sets"], known["features"]):
        raise _damaged(folder, "u.npy")
    sets = _lazy(partial(_ids, folder), sizes, scan)
    prepared = _prepared(folder, config, scan, sets)
    design = Design(u.view(np.ndarray), sums[0], sums[1])
    pool = Pool(sets, prepared.basis, design, moment=moment, square=sums[2])
    return Embedded(folder, scan, config, prepared, pool, _sha256_of(folder))


def _damaged(folder: str, name: str) -> DataError:
    return DataError(
        f"{os.path.join(folder, name)} is not what it was when the design was made: its checksum "
        "differs. Restore it from a copy, or embed again into a new folder."
    )


def _json(folder: str, name: str) -> Any:
    path = os.path.join(folder, name)
    try:
        with open(path, "rb") as file:
            return json.loads(file.read())
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error})") from error


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sha256_of(folder: str) -> str:
    return _sha256(os.path.join(folder, "manifest.json"))


def scan_from(known: Mapping[str, Any]) -> Scan:
    files = tuple(File(f["path"], f["n_bytes"], tuple(f["group_rows"])) for f in known["files"])
    return Scan(files, tuple(known["by"]), tuple(known["x"]), known["weights"])


def _ids(folder: str) -> tuple[Any, ...]:
    import pyarrow as pa

    path = os.path.join(folder, "ids.arrow")
    try:
        with pa.OSFile(path) as file:
            return ids_of(pa.ipc.open_file(file).read_all())
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read ({error})") from error


def _prepared(folder: str, config: ModelConfig, scan: Scan, sets: Sets | None = None) -> Prepared:
    with open(os.path.join(folder, "basis.npz"), "rb") as file:
        return unpack_prepared(file.read(), config, sets or _lazy((), np.empty(0, int), scan))


def _lazy(ids: Any, sizes: Int[np.ndarray, " A"], scan: Scan) -> LazySets:
    return LazySets(ids, sizes, len(scan.x), scan.x, partial(read_whole, scan))


def read_whole(scan: Scan) -> Sets:
    """All individuals in memory, where they fit."""
    import pyarrow as pa

    n_bytes = 8 * scan.rows * (len(scan.x) + 2)
    if n_bytes > LARGEST_READ:
        raise SettingError(
            f"this looks at every individual, and {scan.rows} of them would take "
            f"{n_bytes / 1e9:.0f} GB of memory. Use a strategy that needs totals only (AggMI, "
            "AggEnt, MaxN, MinN, Rand), and stream predictions to files."
        )
    columns = list(dict.fromkeys((*scan.by, *scan.x, *filter(None, [scan.theta_column]))))
    tables = []
    for file in scan.files:
        with open_parquet(file.path) as parquet:
            tables.append(parquet.read(columns=columns))
    by: Any = scan.by[0] if len(scan.by) == 1 else scan.by
    return Sets.from_frame(pa.concat_tables(tables), by=by, x=scan.x, weights=scan.weights)
