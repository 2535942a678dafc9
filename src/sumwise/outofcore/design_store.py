"""A design on disk: every set of a `Scan` as u_a, s_a and Σθ, made in one pass, mapped to memory.

A folder holds

    manifest.json   what the design is of, and checksums; written last, when all else is on the disk
    ids.arrow       ids of the sets, and sizes.npy how many individuals each has
    basis.npz       the basis, and the scaling of inputs
    u.npy           u_a, single or double precision
    sums.npy        s_a, Σθ and ‖u_a‖²
    recipe.json     how columns become inputs, unless they are taken as they are
    moment.npy      mean of φ φᵀ over individuals, over a sample if there are many
    stand_ins.npy   a subsample of individuals (`targets`); older designs have none

Counts, shares and amounts have no u before they are fitted, and another after every answer. Their
folder holds `x.npy`, inputs and exposures of individuals by set, in place of the last four but the
recipe (`kept_sets`).

While it is being made there is `begun.json` instead of the manifest, and a small file for each
finished part, so that a run that was stopped can resume (`build`).
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from sumwise.data.parquet import File, Scan, batches
from sumwise.data.recipe import Recipe
from sumwise.data.sets import LazySets, Sets, group_individuals
from sumwise.data.targets import Targets, subsample
from sumwise.errors import DataError, InvalidSetError, SettingError
from sumwise.model.design import Design, Pool
from sumwise.model.fit import Model, ModelConfig, Prepared
from sumwise.model.serialize import unpack_config, unpack_prepared
from sumwise.outofcore.index import ascends, ids_of
from sumwise.outofcore.kept_sets import KeptSets
from sumwise.outofcore.scanned_sets import ScannedSets, refuse_many
from sumwise.util.files import sha256_of
from sumwise.util.shapes import Int

MANIFEST: Final = "manifest.json"
BEGUN: Final = "begun.json"  # in its place until the design is whole
SUBSAMPLE: Final = "stand_ins.npy"
RECIPE: Final = "recipe.json"
FORMAT: Final = "sumwise design 1"
DTYPES: Final = ("float64", "float32")
BEGUN_PIECES: Final = ("ids.arrow", "sizes.npy", "basis.npz")  # written before parts are embedded
PIECES: Final = (*BEGUN_PIECES, "sums.npy", "moment.npy", SUBSAMPLE)
ARRAYS: Final = ("u.npy", "x.npy")
OPTIONAL: Final = (SUBSAMPLE, RECIPE)  # which not all designs have
UNREADABLE: Final = (
    AttributeError, EOFError, LookupError, OSError, OverflowError, TypeError, ValueError
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """What a design is made from; a folder holds a design with one of these."""

    config: str
    dtype: str
    scan: Scan
    part_rows: int
    basis: str | None  # checksum of the basis, if the caller gave one


@dataclass(frozen=True, slots=True)
class DesignManifest:
    """What is in the folder of a design: `manifest.json`, or `begun.json` while it is made."""

    settings: Settings
    sets: int
    features: int
    offset: int  # of the first row in u.npy, in bytes
    home: str | None  # where the folder was when the design was made
    pieces: Mapping[str, str]  # SHA-256 by name of file
    source: Scan  # what parts are read from: the files themselves, or a copy sorted by set
    first_sets: tuple[int, ...] = ()  # position of the first set of each part, while it is made
    regions: tuple[tuple[int, int, int], ...] = ()  # first row, rows and CRC-32, all of u.npy
    ids_in_order: bool = False  # whether ids.arrow has the order of u.npy, whatever the ids are
    width: int = 0  # of a row of x.npy; 0 for designs that have u.npy
    grouped: bool = False  # whether the rows of each set are known to follow one another in files

    @property
    def outputs(self) -> str:
        return unpack_config(self.settings.config).outputs

    @property
    def array(self) -> str:
        """The large file."""
        return ARRAYS[self.width > 0]

    @property
    def shape(self) -> tuple[int, int]:
        """Of that."""
        return (self.settings.scan.rows, self.width) if self.width else (self.sets, self.features)

    @property
    def names(self) -> tuple[str, ...]:
        """The other files of a whole design."""
        return BEGUN_PIECES if self.width else PIECES

    def to_json(self) -> str:
        settings = replace(self.settings, scan=replace(self.settings.scan, recipe=None))
        plain = replace(self, settings=settings, source=replace(self.source, recipe=None))
        known = asdict(plain)  # the recipe is a file of its own
        if self.regions:  # the design is whole
            del known["source"], known["first_sets"]
        if not self.width:
            del known["width"]
        return json.dumps({"format": FORMAT, **known.pop("settings"), **known})

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> DesignManifest:
        scan = _scan_from(known["scan"])
        part_rows, basis = known.get("part_rows", 0), known.get("basis")
        return cls(
            Settings(known["config"], known["dtype"], scan, part_rows, basis),
            known["sets"],
            known["features"],
            known["offset"],
            known.get("home"),
            known["pieces"],
            _scan_from(known.get("source", known["scan"])),
            tuple(known.get("first_sets", ())),
            tuple((first, rows, checksum) for first, rows, checksum in known["regions"]),
            known.get("ids_in_order") is True,
            known.get("width", 0),
            known.get("grouped") is True,
        )

    def checksum_of(self, folder: str, first: int, rows: int) -> int:
        """CRC-32 of some rows of the large file; -1 if it is too short."""
        width = self.shape[1] * np.dtype(self.settings.dtype).itemsize
        left, checksum = rows * width, 0
        with open(os.path.join(folder, self.array), "rb") as file:
            file.seek(self.offset + first * width)
            while left > 0:
                content = file.read(min(left, 2**24))
                if not content:
                    return -1
                checksum, left = zlib.crc32(content, checksum), left - len(content)
        return checksum


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Embedded:
    """A pool on disk; make one with `AggregateRegressor.embed`."""

    folder: str  # where its files are
    scan: Scan  # the Parquet files that it was made from
    config: ModelConfig  # settings of the model
    prepared: Prepared  # what the model knows before any answer
    own_pool: Pool  # the rows of the design
    digest: str  # of the manifest, and so of all files it has checksums of

    @classmethod
    def open(cls, folder: str | os.PathLike[str], *, check: bool = True) -> Embedded:
        """Open a design that was made before.

        Args:
            check: Compare all checksums, which reads every file once.
        """
        place = os.fspath(folder)
        manifest = read_manifest(place)
        try:
            if check:
                _compare(place, manifest)
            refuse_ids_out_of_order(place, manifest)
            return _opened(place, manifest)
        except UNREADABLE as error:
            raise _unreadable(place, error) from error

    @property
    def ids(self) -> tuple[Hashable, ...]:
        """Ids of the sets, in the order of the design."""
        return self.own_pool.sets.ids

    @property
    def sets(self) -> Sets:
        """Ids and sizes now; individuals are read when they are used."""
        return self.own_pool.sets

    def some(self, positions: Sequence[int]) -> Sets:
        """The sets at these positions; their individuals are not read either."""
        return self.sets.take(list(positions))

    def prepare(self, config: ModelConfig) -> Prepared:
        """What a model knows before any answer: what it knew when the design was made."""
        del config
        return self.prepared

    def pool(self, model: Prepared | Model) -> Pool:
        """The sets as strategies see them under a model, which must have the same basis."""
        tangent = model.basis.tangent
        kept, fitted = isinstance(self.sets, KeptSets), tangent is not None
        if isinstance(model, Model) and kept != fitted:
            raise SettingError(
                f"{self.folder} is embedded for outputs={self.config.outputs!r}, and the model "
                "has others. Fit the model on what was embedded, or embed with it."
            )
        if not self.prepared.basis.same_as(tangent.scaled if fitted else model.basis):
            raise SettingError(
                f"the model has another basis than the one {self.folder} is embedded with. Fit the "
                "model on what was embedded, or embed with it."
            )
        return self.sets.pool(model) if fitted else self.own_pool

    def __len__(self) -> int:
        return len(self.own_pool.sets)

    def __repr__(self) -> str:
        u = self.own_pool.design.u
        if isinstance(self.sets, KeptSets):
            return f"Embedded: {len(u)} sets, {self.scan.rows} individuals, in {self.folder}"
        return f"Embedded: {len(u)} sets, {u.shape[1]} features in {u.dtype}, in {self.folder}"


def as_sets(given: Any, name: str = "sets") -> Sets:
    """The sets; of a design on disk, with individuals that are read when they are used."""
    if isinstance(given, Embedded):
        return given.sets
    if isinstance(given, Sets):
        return given
    if isinstance(given, Scan):
        raise InvalidSetError(
            f"{name} is a scan of files; embed it first: "
            "AggregateRegressor().embed(scan, 'a.design') gives what can be used here"
        )
    raise InvalidSetError(
        f"{name} is a {type(given).__name__}; make a Sets first, for example with "
        "Sets.from_frame(df, by=..., x=...)"
    )


# --- opening --------------------------------------------------------------------------------------


def read_manifest(folder: str, name: str = MANIFEST) -> DesignManifest:
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        hint = ": it was not finished; embed once more with the same settings to go on"
        begun = os.path.exists(os.path.join(folder, BEGUN))
        raise DataError(f"{folder} holds no design{hint if begun else ''}")
    try:
        with open(path, "rb") as file:
            known = json.loads(file.read())
        found = known.get("format")
        if found != FORMAT:
            raise DataError(f"{folder} has the format {found!r:.60}, not {FORMAT!r}")
        return DesignManifest.from_json(known)
    except UNREADABLE as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: Exception) -> DataError:
    return DataError(
        f"{path} cannot be read ({type(error).__name__}: {error}). Restore it from a copy, or "
        "embed again into a new folder."
    )


def _opened(folder: str, manifest: DesignManifest) -> Embedded:
    n_sets, n_basis, here = manifest.sets, manifest.features, os.path.abspath(folder)
    scan = _moved_along(manifest.settings.scan, manifest.home, here)
    scan = replace(scan, recipe=recipe_in(folder, manifest))
    config = unpack_config(manifest.settings.config)
    digest = sha256_of(os.path.join(folder, MANIFEST))
    large = _array(folder, manifest.array, manifest.shape, mapped=True)
    if large.dtype.name not in DTYPES:
        raise damaged(folder, manifest.array)
    sizes = _array(folder, "sizes.npy", (n_sets,))
    if sizes.sum() != scan.rows:
        raise damaged(folder, "sizes.npy")
    lazy = lazy_sets(partial(ids_in, here, n_sets), sizes, scan)
    sets = ScannedSets.of(lazy, scan, manifest.grouped)
    prepared = prepared_in(folder, config, scan, sets)
    if manifest.width:
        pool = KeptSets.on(sets, large.view(np.ndarray), here).unseen(prepared)
        return Embedded(folder, scan, config, prepared, pool, digest)
    sums = _array(folder, "sums.npy", (3, n_sets))
    moment = _array(folder, "moment.npy", (n_basis, n_basis))
    targets = None
    if SUBSAMPLE in manifest.pieces:
        chosen, weights = subsample(scan.rows)
        few = _array(folder, SUBSAMPLE, (len(chosen), scan.n_inputs))
        targets = Targets(few, weights, scan.rows)
    design = Design(large.view(np.ndarray), sums[0], sums[1])
    pool = Pool(sets, prepared.basis, design, moment=moment, targets=targets, square=sums[2])
    return Embedded(folder, scan, config, prepared, pool, digest)


def _array(folder: str, name: str, shape: tuple[int, ...], mapped: bool = False) -> Any:
    path = os.path.join(folder, name)
    array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    if array.shape != shape:
        raise damaged(folder, name)
    return array


def _compare(folder: str, manifest: DesignManifest) -> None:
    """Compare all checksums; they must be of every file and of every row of the large one."""
    if {*manifest.pieces, *OPTIONAL} != {*manifest.names, *OPTIONAL}:
        raise damaged(folder, MANIFEST)
    compare_pieces(folder, manifest)
    end = 0
    for first, rows, checksum in sorted(region for region in manifest.regions if region[1]):
        if first != end or rows < 0:
            raise damaged(folder, MANIFEST)
        if manifest.checksum_of(folder, first, rows) != checksum:
            raise damaged(folder, manifest.array)
        end += rows
    if end != manifest.shape[0]:
        raise damaged(folder, MANIFEST)


def compare_pieces(folder: str, manifest: DesignManifest) -> None:
    for name, checksum in manifest.pieces.items():
        if sha256_of(os.path.join(folder, name)) != checksum:
            raise damaged(folder, name)


def damaged(folder: str, name: str) -> DataError:
    return DataError(
        f"{os.path.join(folder, name)} has changed since it was written: its checksum "
        "differs. Restore it from a copy, or embed again into a new folder."
    )


def _scan_from(known: Mapping[str, Any]) -> Scan:
    files = tuple(
        File(f["path"], f["n_bytes"], tuple(f["group_rows"]), f.get("footer", ""))
        for f in known["files"]
    )
    periods = tuple((name, period) for name, period in known.get("periods", ()))
    return Scan(files, tuple(known["by"]), tuple(known["x"]), known["weights"], periods)


def recipe_in(folder: str, manifest: DesignManifest) -> Recipe | None:
    """How columns become inputs; None if they are taken as they are."""
    if RECIPE not in manifest.pieces:
        return None
    with open(os.path.join(folder, RECIPE), "rb") as file:
        return Recipe.from_json(file.read())


def _moved_along(scan: Scan, home: str | None, here: str) -> Scan:
    """Look for files that were beside the design beside it: both may have moved."""
    if home is None or home == here:
        return scan
    beside = os.path.join(os.path.dirname(home), "")

    def now(file: File) -> File:
        moved = os.path.join(os.path.dirname(here), file.path.removeprefix(beside))
        inside = file.path.startswith(beside) and os.path.exists(moved)
        return replace(file, path=moved) if inside else file

    return replace(scan, files=tuple(map(now, scan.files)))


def ids_in(folder: str, n_sets: int) -> tuple[Any, ...]:
    ids: tuple[Any, ...] = _read_ids(folder, ids_of)
    if len(ids) != n_sets:
        raise damaged(folder, "ids.arrow")
    return ids


def refuse_ids_out_of_order(folder: str, manifest: DesignManifest) -> None:
    """Refuse a design whose ids may belong to other rows of u.npy.

    Former versions grouped ids that do not ascend with Arrow, which does not keep their order.
    """
    if not manifest.ids_in_order and not _read_ids(folder, ascends):
        raise DataError(
            f"the design in {folder} was made by a former version of sumwise from sets whose ids "
            "do not ascend. That version could store such ids in another order than the sets, and "
            "then a total counts for the wrong set. Embed the files again into another folder, and "
            "record the totals of a study that uses this design in a new study."
        )


def _read_ids(folder: str, use: Callable[[Any], Any]) -> Any:
    import pyarrow as pa

    path = os.path.join(folder, "ids.arrow")
    try:
        with pa.OSFile(path) as file:
            return use(pa.ipc.open_file(file).read_all())
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(f"{path} cannot be read ({error})") from error


def prepared_in(folder: str, config: ModelConfig, scan: Scan, sets: Sets | None = None) -> Prepared:
    with open(os.path.join(folder, "basis.npz"), "rb") as file:
        return unpack_prepared(file.read(), config, sets or lazy_sets((), np.empty(0, int), scan))


def lazy_sets(ids: Any, sizes: Int[np.ndarray, " A"], scan: Scan) -> LazySets:
    load = partial(read_whole, scan, ids)
    return LazySets(ids, sizes, scan.n_inputs, scan.input_names, load, recipe=scan.recipe)


def read_whole(scan: Scan, ids: Any) -> Sets:
    """All individuals in memory, where they fit, by set in the order of `ids`."""
    import pyarrow as pa

    refuse_many(scan, scan.rows)
    found = [batch for part in scan.parts() for batch in batches(scan, part)]
    inputs = np.concatenate([batch.inputs.T for batch in found]).astype(np.float64, copy=False)
    keys = [pa.chunked_array([batch.keys[d] for batch in found]) for d in range(len(scan.by))]
    weights: Any = scan.weights
    if scan.theta_column is not None:
        weights = np.concatenate([batch.theta for batch in found])
    names = ids_of(pa.table(keys, names=list(scan.by)))
    sets, _ = group_individuals(names, (scan.recipe or Recipe.plain(scan.x), inputs), weights)
    wanted = ids() if callable(ids) else ids  # former versions had another order in unsorted files
    return sets if sets.ids == wanted else sets.take([sets.position(name) for name in wanted])
