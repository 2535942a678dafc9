"""A design on disk: every set of a `Scan` as u_a, s_a and Σθ, made in one pass, mapped to memory.

A folder, or an address in a store (`place`), holds

    manifest.json   what the design is of, and checksums; written last, when all else is there
    ids.arrow       ids of the sets, and sizes.npy how many individuals each has
    basis.npz       the basis, and the scaling of inputs
    u.npy           u_a, single or double precision; in a store an object for each part
    runs.npy        how many rows of which set each part of the files has; older designs have none
    sample.npy      individuals that represent all, each with how many; older designs have none
    sums.npy        s_a, Σθ and ‖u_a‖²
    recipe.json     how columns become inputs, unless they are taken as they are
    moment.npy      mean of φ φᵀ over individuals, over a sample if there are many
    stand_ins.npy   a subsample of individuals (`targets`); older designs have none

The rows u_a are a list of *regions*: a region says in which file it lies, where, and its checksum.
So a design can grow (`grow`): new rows lie in a file of their own, what has changed gets a number
(`sizes-2.npy`), and another manifest names them together with what stayed.

Counts, shares and amounts have no u before they are fitted, and another after every answer. Their
folder holds `x.npy`, inputs and exposures of individuals by set, in place of what follows the
basis, but for the recipe (`kept_sets`).

While it is being made there is `begun.json` instead of the manifest, and a small file for each
finished part, so that a run that was stopped can resume (`build`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np

from sumwise.data.parquet import File, Scan, batches
from sumwise.data.recipe import Recipe
from sumwise.data.sets import LazySets, Sets, group_individuals
from sumwise.data.targets import Targets, subsample
from sumwise.errors import DataError, InvalidSetError, SettingError
from sumwise.model.design import Design, Pool
from sumwise.model.fit import Model, ModelConfig, Prepared
from sumwise.model.serialize import unpack_config, unpack_prepared
from sumwise.outofcore import place
from sumwise.outofcore.index import ascends, ids_of
from sumwise.outofcore.kept_sets import KeptSets
from sumwise.outofcore.scanned_sets import ScannedSets, refuse_many
from sumwise.util.parted import Parted, Rows
from sumwise.util.shapes import Int

MANIFEST: Final = "manifest.json"
BEGUN: Final = "begun.json"  # in its place until the design is whole
SUBSAMPLE: Final = "stand_ins.npy"
RECIPE: Final = "recipe.json"
RUNS: Final = "runs.npy"
STANDING: Final = "sample.npy"
FORMAT: Final = "sumwise design 2"
FORMER: Final = "sumwise design 1"  # all rows lie in one file, in order
DTYPES: Final = ("float64", "float32")
BEGUN_PIECES: Final = ("ids.arrow", "sizes.npy", "basis.npz")  # written before parts are embedded
PIECES: Final = (*BEGUN_PIECES, "sums.npy", "moment.npy", SUBSAMPLE, RUNS, STANDING)
ARRAYS: Final = ("u.npy", "x.npy")
OPTIONAL: Final = (SUBSAMPLE, RECIPE, RUNS, STANDING)  # which not all designs have
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


class Region(NamedTuple):
    """Rows of a design that lie together, and have a checksum together."""

    first: int  # row of the design
    rows: int
    checksum: int  # CRC-32
    file: str
    offset: int  # in bytes


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
    regions: tuple[Region, ...] = ()  # of all rows
    ids_in_order: bool = False  # whether ids.arrow has the order of u.npy, whatever the ids are
    width: int = 0  # of a row of x.npy; 0 for designs that have u.npy
    files: Mapping[str, str] = field(default_factory=dict)  # what pieces are called that grew
    gone: tuple[int, ...] = ()  # positions of sets that have no rows in the files any more
    former: tuple[tuple[int, str], ...] = ()  # what some of them are called now
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

    @property
    def row_bytes(self) -> int:
        """Of the large file."""
        return self.shape[1] * np.dtype(self.settings.dtype).itemsize

    def name_of(self, piece: str) -> str:
        """The file that has a piece."""
        return os.path.basename(self.files.get(piece, piece))

    def to_json(self) -> str:
        settings = replace(self.settings, scan=replace(self.settings.scan, recipe=None))
        plain = replace(self, settings=settings, source=replace(self.source, recipe=None))
        known = asdict(plain)  # the recipe is a file of its own
        if self.regions:  # the design is whole
            del known["source"], known["first_sets"]
        for name in ("width", "files", "gone", "former", "grouped"):
            if not known[name]:
                del known[name]
        return json.dumps({"format": FORMAT, **known.pop("settings"), **known})

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> DesignManifest:
        scan = _scan_from(known["scan"])
        part_rows, basis = known.get("part_rows", 0), known.get("basis")
        made = cls(
            Settings(known["config"], known["dtype"], scan, part_rows, basis),
            known["sets"],
            known["features"],
            known["offset"],
            known.get("home"),
            known["pieces"],
            _scan_from(known.get("source", known["scan"])),
            tuple(known.get("first_sets", ())),
            (),
            known.get("ids_in_order") is True,
            known.get("width", 0),
            dict(known.get("files", {})),
            tuple(known.get("gone", ())),
            tuple((at, name) for at, name in known.get("former", ())),
            known.get("grouped") is True,
        )
        return replace(made, regions=tuple(made._region(*each) for each in known["regions"]))

    def _region(
        self, first: int, rows: int, checksum: int, file: str | None = None, offset: int = 0
    ) -> Region:
        if file is None:  # of a former version
            file, offset = self.array, self.offset + first * self.row_bytes
        if os.path.basename(file) != file.removeprefix("u/") or offset < 0:
            raise ValueError(f"{file!r:.80} cannot be a file of a design")
        return Region(first, rows, checksum, file, offset)

    def checksum_of(self, folder: str, first: int, rows: int) -> int:
        """CRC-32 of some rows of the large file; -1 if it is too short."""
        width = self.row_bytes
        return place.checksum(folder, self.array, self.offset + first * width, rows * width)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Embedded:
    """A pool on disk; make one with `AggregateRegressor.embed`."""

    folder: str  # where its files are
    scan: Scan  # the Parquet files that it was made from
    config: ModelConfig  # settings of the model
    prepared: Prepared  # what the model knows before any answer
    own_pool: Pool  # the rows of the design
    digest: str  # of the manifest, and so of all files it has checksums of
    manifest: DesignManifest  # the same as a value

    @classmethod
    def open(cls, folder: str | os.PathLike[str], *, check: bool = True) -> Embedded:
        """Open a design that was made before.

        Args:
            check: Compare all checksums, which reads every file once.
        """
        return opened(place.normal(os.fspath(folder)), MANIFEST, check=check)

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

    def update(self, scan: Scan | None = None, *, run: Any = None) -> Embedded:
        """The design of the files as they are now; what has not changed is not embedded again.

        Files are identified by the checksum of their footer and by when they were written. Parts of
        changed and new files are read, and parts that share a set with a changed one. Basis and
        scaling stay as they were drawn. The folder then holds the new design, and studies go on
        with the one that they were made with; `Study.refresh_pool` brings a study up to date.

        Args:
            scan: Of the files as they are now; scanned again where they were found if left out.
            run: As in `AggregateRegressor.embed`.
        """
        from sumwise.outofcore import grow

        return grow.updated(self, scan, run)

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


def opened(folder: str, name: str, *, check: bool = True) -> Embedded:
    """The design that a manifest in a folder describes."""
    manifest, digest = _read_manifest(folder, name)
    try:
        if check:
            _compare(folder, manifest)
        refuse_ids_out_of_order(folder, manifest)
        return _opened(folder, manifest, digest)
    except UNREADABLE as error:
        raise _unreadable(folder, error) from error


def with_digest(folder: str, digest: str) -> str:
    """The manifest with this checksum among those of a folder, where a design has grown.

    Without one, that of the folder.
    """
    if place.sha256(folder, MANIFEST) != digest:
        for name in place.listed(folder):
            if name.startswith("manifest-") and place.sha256(folder, name) == digest:
                return name
    return MANIFEST


def read_manifest(folder: str, name: str = MANIFEST) -> DesignManifest:
    return _read_manifest(folder, name)[0]


def _read_manifest(folder: str, name: str) -> tuple[DesignManifest, str]:
    """The manifest, and its SHA-256."""
    path = place.inside(folder, name)
    if not place.exists(folder, name):
        hint = ": it was not finished; embed once more with the same settings to go on"
        begun = place.exists(folder, BEGUN)
        raise DataError(f"{folder} holds no design{hint if begun else ''}")
    try:
        content = place.read(folder, name)
        known = json.loads(content)
        found = known.get("format")
        if found not in (FORMAT, FORMER):
            raise DataError(f"{folder} has the format {found!r:.60}, not {FORMAT!r}")
        return DesignManifest.from_json(known), hashlib.sha256(content).hexdigest()
    except UNREADABLE as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: Exception) -> DataError:
    return DataError(
        f"{path} cannot be read ({type(error).__name__}: {error}). Restore it from a copy, or "
        "embed again into a new folder."
    )


def _opened(folder: str, manifest: DesignManifest, digest: str) -> Embedded:
    n_sets, n_basis, here = manifest.sets, manifest.features, place.absolute(folder)
    scan = _moved_along(manifest.settings.scan, manifest.home, here)
    scan = replace(scan, recipe=recipe_in(folder, manifest))
    config = unpack_config(manifest.settings.config)
    large = rows_of(here, manifest)
    sizes = piece(folder, manifest, "sizes.npy", (n_sets,))
    if sizes.sum() != scan.rows + sizes[list(manifest.gone)].sum():
        raise damaged(folder, manifest.name_of("sizes.npy"))
    lazy = lazy_sets(partial(ids_in, here, manifest), sizes, scan, manifest.gone)
    sets = ScannedSets.of(lazy, scan, manifest.grouped, manifest.gone)
    prepared = prepared_in(folder, config, scan, sets)
    if manifest.width:
        pool = KeptSets.on(sets, large, here).unseen(prepared)
        return Embedded(folder, scan, config, prepared, pool, digest, manifest)
    sums = piece(folder, manifest, "sums.npy", (3, n_sets))
    moment = piece(folder, manifest, "moment.npy", (n_basis, n_basis))
    targets = None
    if SUBSAMPLE in manifest.pieces:
        targets = _targets(folder, manifest, scan)
    design = Design(large, sums[0], sums[1])
    pool = Pool(sets, prepared.basis, design, moment=moment, targets=targets, square=sums[2])
    return Embedded(folder, scan, config, prepared, pool, digest, manifest)


def _targets(folder: str, manifest: DesignManifest, scan: Scan) -> Targets:
    """Those who represent all; of a design that has grown, with their weights."""
    if SUBSAMPLE not in manifest.files:
        chosen, weights = subsample(scan.rows)
        few = piece(folder, manifest, SUBSAMPLE, (len(chosen), scan.n_inputs))
        return Targets(few, weights, scan.rows)
    found = place.load(folder, manifest.name_of(SUBSAMPLE))
    if found.ndim != 2 or found.shape[1] != scan.n_inputs + 1 or not len(found):
        raise damaged(folder, manifest.name_of(SUBSAMPLE))
    return Targets(found[:, :-1].copy(), found[:, -1].copy(), scan.rows)


def rows_of(folder: str, manifest: DesignManifest) -> Rows:
    """The rows of the large file: one array where they lie in one file on a disk, in order."""
    kind, width = np.dtype(manifest.settings.dtype), manifest.shape[1]
    if kind.name not in DTYPES:
        raise damaged(folder, MANIFEST)
    regions = sorted(region for region in manifest.regions if region.rows)
    if place.is_address(folder):

        def remote(region: Region) -> place.Remote:
            shape = (region.rows, width)
            where = folder, region.file, region.offset, shape, kind, region.checksum
            return place.Remote(*where, partial(damaged, folder, region.file))

        found: Any = Parted([remote(region) for region in regions])
        return found
    whole: dict[str, Any] = {}
    pieces = []

    def line(region: Region) -> tuple[str, int]:
        """The same for regions that follow one another in a file as they do in the design."""
        return region.file, region.offset - region.first * manifest.row_bytes

    for _, joined in groupby(regions, line):
        some = list(joined)
        first, rows = some[0], sum(region.rows for region in some)
        if first.file not in whole:
            whole[first.file] = _mapped(folder, manifest, first.file)
        low, odd = divmod(first.offset - whole[first.file][0], manifest.row_bytes)
        if odd or low < 0 or low + rows > len(whole[first.file][1]):
            raise damaged(folder, first.file)
        pieces.append(whole[first.file][1][low : low + rows])
    found = pieces[0] if len(pieces) == 1 else Parted(pieces)
    if found.shape != manifest.shape:
        raise damaged(folder, manifest.array)
    return found


def _mapped(folder: str, manifest: DesignManifest, name: str) -> tuple[int, np.ndarray]:
    """Where the rows of a file begin, and all of them."""
    begin = manifest.offset if name == manifest.array else 0
    rows = (os.path.getsize(os.path.join(folder, name)) - begin) // manifest.row_bytes
    kind = np.dtype(manifest.settings.dtype)
    return begin, place.mapped(folder, name, begin, (rows, manifest.shape[1]), kind)


def piece(folder: str, manifest: DesignManifest, name: str, shape: tuple[int, ...]) -> Any:
    array = place.load(folder, manifest.name_of(name))
    if array.shape != shape:
        raise damaged(folder, manifest.name_of(name))
    return array


def _compare(folder: str, manifest: DesignManifest) -> None:
    """Compare all checksums; they must be of every file and of every row of the large one.

    In a store, those of rows are compared when they are read.
    """
    if {*manifest.pieces, *OPTIONAL} != {*manifest.names, *OPTIONAL}:
        raise damaged(folder, MANIFEST)
    compare_pieces(folder, manifest)
    end, width = 0, manifest.row_bytes
    for region in sorted(region for region in manifest.regions if region.rows):
        first, rows, checksum, file, offset = region
        if first != end or rows < 0:
            raise damaged(folder, MANIFEST)
        here = not place.is_address(folder)
        if here and place.checksum(folder, file, offset, rows * width) != checksum:
            raise damaged(folder, file)
        end += rows
    if end != manifest.shape[0]:
        raise damaged(folder, MANIFEST)


def compare_pieces(folder: str, manifest: DesignManifest) -> None:
    for name, checksum in manifest.pieces.items():
        if place.sha256(folder, manifest.name_of(name)) != checksum:
            raise damaged(folder, manifest.name_of(name))


def damaged(folder: str, name: str) -> DataError:
    return DataError(
        f"{place.inside(folder, name)} has changed since it was written: its checksum "
        "differs. Restore it from a copy, or embed again into a new folder."
    )


def _scan_from(known: Mapping[str, Any]) -> Scan:
    files = tuple(
        File(
            f["path"],
            f["n_bytes"],
            tuple(f["group_rows"]),
            f.get("footer", ""),
            f.get("version", ""),
        )
        for f in known["files"]
    )
    periods = tuple((name, period) for name, period in known.get("periods", ()))
    about = tuple(known["by"]), tuple(known["x"]), known["weights"], periods
    return Scan(files, *about, paths=tuple(known.get("paths", ())))


def recipe_in(folder: str, manifest: DesignManifest) -> Recipe | None:
    """How columns become inputs; None if they are taken as they are."""
    if RECIPE not in manifest.pieces:
        return None
    return Recipe.from_json(place.read(folder, manifest.name_of(RECIPE)))


def _moved_along(scan: Scan, home: str | None, here: str) -> Scan:
    """Look for files that were beside the design beside it: both may have moved."""
    if home is None or home == here or place.is_address(here):
        return scan
    beside = os.path.join(os.path.dirname(home), "")

    def now(path: str) -> str:
        moved = os.path.join(os.path.dirname(here), path.removeprefix(beside))
        return moved if path.startswith(beside) and os.path.exists(moved) else path

    files = tuple(replace(file, path=now(file.path)) for file in scan.files)
    return replace(scan, files=files, paths=tuple(map(now, scan.paths)))


def ids_in(folder: str, manifest: DesignManifest) -> tuple[Any, ...]:
    ids = list(_read_ids(folder, manifest, ids_of))
    if len(ids) != manifest.sets:
        raise damaged(folder, manifest.name_of("ids.arrow"))
    for at, name in manifest.former:
        ids[at] = name
    return tuple(ids)


def keys_in(folder: str, manifest: DesignManifest) -> Any:
    """Ids as Arrow has them; those of former sets are what they were."""
    return _read_ids(folder, manifest, lambda keys: keys)


def refuse_ids_out_of_order(folder: str, manifest: DesignManifest) -> None:
    """Refuse a design whose ids may belong to other rows of u.npy.

    Former versions grouped ids that do not ascend with Arrow, which does not keep their order.
    """
    if not manifest.ids_in_order and not _read_ids(folder, manifest, ascends):
        raise DataError(
            f"the design in {folder} was made by a former version of sumwise from sets whose ids "
            "do not ascend. That version could store such ids in another order than the sets, and "
            "then a total counts for the wrong set. Embed the files again into another folder, and "
            "record the totals of a study that uses this design in a new study."
        )


def _read_ids(folder: str, manifest: DesignManifest, use: Callable[[Any], Any]) -> Any:
    import pyarrow as pa

    name = manifest.name_of("ids.arrow")
    try:
        with pa.BufferReader(place.read(folder, name)) as file:
            return use(pa.ipc.open_file(file).read_all())
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(f"{place.inside(folder, name)} cannot be read ({error})") from error


def prepared_in(folder: str, config: ModelConfig, scan: Scan, sets: Sets | None = None) -> Prepared:
    basis = place.read(folder, "basis.npz")
    return unpack_prepared(basis, config, sets or lazy_sets((), np.empty(0, int), scan))


def lazy_sets(
    ids: Any, sizes: Int[np.ndarray, " A"], scan: Scan, gone: Sequence[int] = ()
) -> LazySets:
    load = partial(read_whole, scan, ids, {at: int(sizes[at]) for at in gone})
    return LazySets(ids, sizes, scan.n_inputs, scan.input_names, load, recipe=scan.recipe)


def read_whole(scan: Scan, ids: Any, gone: Mapping[int, int] | None = None) -> Sets:
    """All individuals in memory, where they fit, by set in the order of `ids`.

    Args:
        gone: Sizes of sets by position that have no rows in the files any more. Copies of the first
            individual stand for their members, of whom nothing is known.
    """
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
    gone = gone or {}
    if sets.ids == wanted:
        return sets
    at = [0 if at in gone else sets.position(name) for at, name in enumerate(wanted)]
    if not gone:
        return sets.take(at)
    rows = [np.arange(sets.starts[a], sets.starts[a + 1]) for a in at]
    for former, size in gone.items():
        rows[former] = np.zeros(size, dtype=np.int64)
    sizes, flat = [len(each) for each in rows], np.concatenate(rows)
    theta = 1 / np.repeat(sizes, sizes) if scan.weights == "mean" else sets.theta[flat]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return Sets(wanted, sets.x[flat], theta, starts, sets.input_names, recipe=sets.recipe)
