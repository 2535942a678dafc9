"""A design on disk: every set of a `Scan` as u_a, s_a and Σθ, made in one pass, mapped to memory.

A folder holds

    manifest.json   of what and with which settings, and checksums; there only when all is done
    ids.arrow       ids of the sets, and sizes.npy how many individuals each has
    basis.npz       what was drawn, and the scaling of inputs
    u.npy           u_a, single or double precision
    sums.npy        s_a, Σθ and ‖u_a‖²
    moment.npy      mean of φ φᵀ over individuals, of a sample if there are many
    stand_ins.npy   individuals that stand for all (`targets`); older designs have none

While it is being made there is `begun.json` instead of the manifest, and a small file for each
part that is finished: whoever is stopped goes on from there.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from sumwise.data.lazy import LazySets
from sumwise.data.parquet import File, open_parquet
from sumwise.data.scan import Scan
from sumwise.data.sets import Sets
from sumwise.data.targets import Targets, subsample
from sumwise.errors import DataError, InvalidSetError, SettingError
from sumwise.model.basis import Auto, RandomFourierFeatures, Scaled
from sumwise.model.design import Design, Pool
from sumwise.model.fit import ModelConfig, Prepared
from sumwise.model.serialize import unpack_config, unpack_prepared
from sumwise.outofcore.index import ids_of
from sumwise.util.files import sha256_of
from sumwise.util.shapes import Int

STAND_INS: Final = "stand_ins.npy"
FORMAT: Final = "sumwise design 1"
DTYPES: Final = ("float64", "float32")
# the first three come first
PIECES: Final = ("ids.arrow", "sizes.npy", "basis.npz", "sums.npy", "moment.npy", STAND_INS)
_UNREADABLE: Final = (
    AttributeError, EOFError, LookupError, OSError, OverflowError, TypeError, ValueError
)  # fmt: skip
LARGEST_READ: Final = 2**33  # bytes of individuals that are read into memory if somebody looks


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
        return open_folder(os.fspath(folder), check)

    @property
    def ids(self) -> tuple[Hashable, ...]:
        """Ids of the sets, in the order of the design."""
        return self.pool.sets.ids

    @property
    def sets(self) -> Sets:
        """Ids and sizes now; individuals are read if somebody looks at them."""
        return self.pool.sets

    def some(self, positions: Sequence[int]) -> LazySets:
        """The sets at these positions, whose individuals are not read either."""
        ids, sizes = tuple(self.ids[at] for at in positions), self.sets.sizes[list(positions)]
        known = ids, sizes, self.sets.n_inputs, self.sets.input_names
        return LazySets(*known, lambda: self.sets.take(positions))

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
    own: Any
    if isinstance(drawn, RandomFourierFeatures):
        own = drawn.frequencies.tobytes(), drawn.phases.tobytes()
    elif isinstance(drawn, Auto):
        own = tuple(values.tobytes() for values in drawn.arrays().values())
    else:
        own = drawn
    return own, basis.shift.tobytes(), basis.scale.tobytes()


def no_sets(given: Any, name: str = "sets") -> InvalidSetError:
    """What to say to somebody who gave something else for sets."""
    if isinstance(given, Scan):
        return InvalidSetError(
            f"{name} is a scan of files, which nobody has looked through yet; embed it first: "
            "AggregateRegressor().embed(scan, 'a.design') gives what can be used here"
        )
    return InvalidSetError(
        f"{name} is a {type(given).__name__}; make a Sets first, for example with "
        "Sets.from_frame(df, by=..., x=...)"
    )


# --- opening --------------------------------------------------------------------------------------


def open_folder(folder: str, check: bool) -> Embedded:
    if not os.path.exists(os.path.join(folder, "manifest.json")):
        hint = "it was not finished; embed once more with the same settings to go on"
        begun = os.path.exists(os.path.join(folder, "begun.json"))
        raise DataError(f"{folder} holds no design" + (f": {hint}" if begun else ""))
    known = read_json(folder, "manifest.json")
    if not isinstance(known, dict) or known.get("format") != FORMAT:
        found = known.get("format") if isinstance(known, dict) else None
        raise DataError(f"{folder} has the format {found!r:.60}, not {FORMAT!r}")
    try:
        return _opened(folder, known, check)
    except _UNREADABLE as error:
        raise DataError(
            f"the design in {folder} cannot be read ({type(error).__name__}: {error}). Restore it "
            "from a copy, or embed again into a new folder."
        ) from error


def _opened(folder: str, known: Mapping[str, Any], check: bool) -> Embedded:
    if check:
        _compare(folder, known)
    scan = _moved_along(scan_from(known["scan"]), known.get("home"), os.path.abspath(folder))
    config = unpack_config(known["config"])
    n_sets, n_basis = known["sets"], known["features"]
    arrays = {
        name: np.load(
            os.path.join(folder, name),
            mmap_mode="r" if name == "u.npy" else None,
            allow_pickle=False,
        )
        for name in ("u.npy", "sums.npy", "moment.npy", "sizes.npy")
    }
    shapes = (n_sets, n_basis), (3, n_sets), (n_basis, n_basis), (n_sets,)
    for (name, array), shape in zip(arrays.items(), shapes, strict=True):
        if array.shape != shape or (name == "u.npy" and array.dtype.name not in DTYPES):
            raise _damaged(folder, name)
    u, sums, moment, sizes = arrays.values()
    if sizes.sum() != scan.rows:
        raise _damaged(folder, "sizes.npy")
    few = None
    if STAND_INS in known["pieces"]:
        few = np.load(os.path.join(folder, STAND_INS), allow_pickle=False)
        if few.shape != (len(subsample(scan.rows)[0]), len(scan.x)):
            raise _damaged(folder, STAND_INS)
    sets = lazy_sets(partial(ids_in, os.path.abspath(folder), n_sets), sizes, scan)
    prepared = prepared_in(folder, config, scan, sets)
    design = Design(u.view(np.ndarray), sums[0], sums[1])
    aimed = None if few is None else Targets(few, subsample(scan.rows)[1])
    pool = Pool(sets, prepared.basis, design, moment=moment, targets=aimed, square=sums[2])
    return Embedded(
        folder, scan, config, prepared, pool, sha256_of(os.path.join(folder, "manifest.json"))
    )


def _compare(folder: str, known: Mapping[str, Any]) -> None:
    """All checksums with what is there; they must be of everything, and of nothing else."""
    if sorted(known["pieces"]) != sorted(PIECES):
        raise _damaged(folder, "manifest.json")
    for name in PIECES:
        if sha256_of(os.path.join(folder, name)) != known["pieces"][name]:
            raise _damaged(folder, name)
    end = 0
    for first, rows, checksum in sorted(region for region in known["regions"] if region[1]):
        if first != end or rows < 0:
            raise _damaged(folder, "manifest.json")
        if checksum_of(folder, known, first, rows) != checksum:
            raise _damaged(folder, "u.npy")
        end += rows
    if end != known["sets"]:
        raise _damaged(folder, "manifest.json")


def _damaged(folder: str, name: str) -> DataError:
    return DataError(
        f"{os.path.join(folder, name)} is not what it was when the design was made: its checksum "
        "differs. Restore it from a copy, or embed again into a new folder."
    )


def read_json(folder: str, name: str) -> Any:
    path = os.path.join(folder, name)
    try:
        with open(path, "rb") as file:
            return json.loads(file.read())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read ({error})") from error


def scan_from(known: Mapping[str, Any]) -> Scan:
    files = tuple(
        File(f["path"], f["n_bytes"], tuple(f["group_rows"]), f.get("footer", ""))
        for f in known["files"]
    )
    return Scan(files, tuple(known["by"]), tuple(known["x"]), known["weights"])


def _moved_along(scan: Scan, home: str | None, here: str) -> Scan:
    """Files that were beside the design are looked for beside it: both may have moved."""
    if home is None or home == here:
        return scan
    beside = os.path.join(os.path.dirname(home), "")

    def now(file: File) -> File:
        moved = os.path.join(os.path.dirname(here), file.path.removeprefix(beside))
        inside = file.path.startswith(beside) and os.path.exists(moved)
        return replace(file, path=moved) if inside else file

    return replace(scan, files=tuple(map(now, scan.files)))


def ids_in(folder: str, n_sets: int) -> tuple[Any, ...]:
    import pyarrow as pa

    path = os.path.join(folder, "ids.arrow")
    try:
        with pa.OSFile(path) as file:
            ids = ids_of(pa.ipc.open_file(file).read_all())
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(f"{path} cannot be read ({error})") from error
    if len(ids) != n_sets:
        raise _damaged(folder, "ids.arrow")
    return ids


def prepared_in(folder: str, config: ModelConfig, scan: Scan, sets: Sets | None = None) -> Prepared:
    with open(os.path.join(folder, "basis.npz"), "rb") as file:
        return unpack_prepared(file.read(), config, sets or lazy_sets((), np.empty(0, int), scan))


def lazy_sets(ids: Any, sizes: Int[np.ndarray, " A"], scan: Scan) -> LazySets:
    return LazySets(ids, sizes, len(scan.x), scan.x, partial(read_whole, scan))


def read_whole(scan: Scan) -> Sets:
    """All individuals in memory, where they fit."""
    import pyarrow as pa

    n_bytes = 8 * scan.rows * (len(scan.x) + 2)
    if n_bytes > LARGEST_READ:
        raise SettingError(
            f"this looks at every individual, and {scan.rows} of them would take "
            f"{n_bytes / 1e9:.0f} GB of memory. Reports, exports, lists of individuals and the "
            "strategies MI, Ent and Var do so; AggMI and the other strategies, totals of sets and "
            "predictions that are streamed to Parquet files do not."
        )
    columns = list(dict.fromkeys((*scan.by, *scan.x, *filter(None, [scan.theta_column]))))
    numbers = {*scan.x, scan.theta_column} - {*scan.by}
    tables = []
    for file in scan.files:
        with open_parquet(file.path, file.footer) as parquet:
            try:
                table = parquet.read(columns=columns).select(columns)
            except (pa.ArrowException, OSError) as error:
                reason = next(iter(str(error).splitlines()), type(error).__name__)
                raise DataError(f"{file.path} cannot be read ({reason:.200})") from error
        kinds = ((f.name, pa.float64() if f.name in numbers else f.type) for f in table.schema)
        tables.append(table.cast(pa.schema(list(kinds)), safe=False))  # files may differ in these
    by: Any = scan.by[0] if len(scan.by) == 1 else scan.by
    return Sets.from_frame(pa.concat_tables(tables), by=by, x=scan.x, weights=scan.weights)


def checksum_of(folder: str, known: Mapping[str, Any], first: int, rows: int) -> int:
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
