"""What a study stores of its sets, where, and how much of it is read when.

    sets         every individual, as Parquet; or `sets_file`, where that file is and its checksum;
                 or `embedded`, where a design on disk is, of individuals in the user's own files
    basis        what was drawn
    index        ids and sizes of the sets      } of large studies only: asking needs these, and
    design       u_a, s_a and Σθ of every set   } not the individuals,
    rounded, sums  in place of the design       } of the largest (`pieces`), where `sets` is only
    individuals/0, individuals/1, …             } `rows`, the user's own ids of individuals
    moment       mean of φ φᵀ over individuals  } nor does the expected improvement
    sample       a subsample of individuals     } nor scoring by their predictions
    aims         costs, known noise, targets and the threshold, where they were given
    about        the outcome, its unit and bounds, and how sets are weighed, where that was given
    geometry     of every individual, as GeoParquet, where the table had geometries
    map          shapes of sets or individuals with their ids, as GeoParquet, where one was given
    pool         how often the pool was changed, and which positions are retired, if it was
    rules        what a pool may be, in studies that design their sets

A small study is read and checked whole when it is opened; of a large one, `index` is read at once
and the rest when it is needed. Each blob has a checksum that is compared when it is read. Numbers
are Parquet and NumPy archives, never pickle.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import sqlalchemy as sa

from sumwise.acquisition.objective import Objective
from sumwise.data.about import About
from sumwise.data.geo import Geometry, from_geoparquet, to_geoparquet
from sumwise.data.maps import INDIVIDUALS, SETS, Map
from sumwise.data.origin import UNKNOWN, Origin
from sumwise.data.pool_mark import PoolMark
from sumwise.data.pool_rules import PoolRules
from sumwise.data.recipe import Recipe
from sumwise.data.sets import LazySets, Sets
from sumwise.data.targets import Targets, thinned
from sumwise.data.valid_sets import starts_of
from sumwise.errors import DataError, SettingError, StorageError
from sumwise.learning.learner import weighed
from sumwise.model import overlap, serialize
from sumwise.model.design import Design, Pool, add_products
from sumwise.model.fit import Prepared
from sumwise.model.serialize import pack_prepared
from sumwise.outofcore.design_store import Embedded, opened, with_digest
from sumwise.study.storage import pieces, sqlite
from sumwise.study.storage.database import Connection, Database
from sumwise.study.storage.id_json import from_json, many_from_json, many_to_json, to_json
from sumwise.study.storage.pieces import Pieces
from sumwise.study.storage.schema import files
from sumwise.util.files import atomic_write, parquet_table
from sumwise.util.shapes import Float, Int
from sumwise.util.threads import one_thread

LARGE: Final = 2**22  # features of individuals: from here on embedding them takes a while
LARGEST_DESIGN: Final = 2**29  # bytes; a larger design is computed anew when it is needed
ROW_ID: Final = "row_id"
OF: Final = "sumwise:of"  # in the metadata of a map: whose shapes it has
# blobs that are of the individuals and of nothing else, beside those of `pieces.PREFIX`
OF_SETS: Final = (
    "sets", "sets_file", "rows", "index", "design", "rounded", pieces.SUMS, "moment", "sample"
)  # fmt: skip
LARGEST_BLOB: Final = 10**9  # bytes that SQLite and PostgreSQL store in one value


# --- writing --------------------------------------------------------------------------------------


def pack(
    sets: Sets,
    prepared: Prepared,
    sets_file: str | None,
    folder: str | None,
    mark: PoolMark | None = None,
    rules: PoolRules | None = None,
) -> dict[str, bytes]:
    """The blobs of a study on these sets.

    Args:
        sets_file: Where the sets will be written (`write_file`) instead of into the database.
        folder: Of the database, if that is a file: a `sets_file` inside it may move along with it.
        mark: What became of the pool, if it was changed.
        rules: What a pool may be, if the study designs its sets.
    """
    if sets_file is not None and os.path.lexists(sets_file):
        raise SettingError(f"{sets_file} exists; name another file for the sets")
    packed = {"basis": pack_prepared(prepared)}
    mark = mark or PoolMark()
    cut = sets_file is None and rules is None and not prepared.looks_at_individuals
    cut = cut and pieces.worth_it(sets, prepared.n_basis)
    parquet = b"" if cut else pack_sets(sets)
    if rules is not None:
        packed["rules"] = rules.to_json().encode()
    if mark.changes:
        packed["pool"] = mark.to_json().encode()
    if sets_file is not None:
        digest = hashlib.sha256(parquet).hexdigest()
        known = {"path": _inside(sets_file, folder), "bytes": len(parquet), "sha256": digest}
        packed["sets_file"] = json.dumps(known).encode()
    elif cut:
        packed |= pieces.pack_individuals(sets)
        if sets.row_ids is not None:
            names = json.dumps([to_json(name) for name in sets.row_ids])
            packed["rows"] = zlib.compress(names.encode(), 1)
    elif len(parquet) < LARGEST_BLOB:
        packed["sets"] = parquet
    else:
        raise SettingError(
            f"the sets take {len(parquet) / 1e9:.1f} GB, and a database stores up to 1 GB in one "
            "piece. Keep them in a file beside it: sets_file='sets.parquet' (--sets-file in the "
            "shell)"
        )
    if prepared.basis.learns or rules is not None:  # all individuals are needed for a pool
        return packed
    n_basis = prepared.n_basis
    if len(sets.x) * n_basis >= LARGE:
        packed["index"] = _pack_index(sets)
        if cut or 8 * len(sets) * (n_basis + 2) <= LARGEST_DESIGN:
            packed |= _pack_design(sets, prepared, n_basis, mark.sets(sets).own_x, rounded=cut)
    return packed


def _pack_index(sets: Sets) -> bytes:
    names = sets.input_names
    index = {
        "ids": many_to_json(sets.ids),
        "sizes": sets.sizes.tolist(),
        "inputs": None if names is None else many_to_json(names),
        "n_inputs": sets.n_inputs,
    }
    if sets.members is not None:
        index["overlap"] = True
    if sets.recipe is not None:
        index["recipe"] = sets.recipe.to_json()
    return json.dumps(index | origin_json(sets.origin)).encode()


def _pack_design(
    sets: Sets, prepared: Prepared, n_basis: int, x: Float[np.ndarray, "N D"], *, rounded: bool
) -> dict[str, bytes]:
    products = np.zeros((n_basis, n_basis))
    with one_thread():  # many small products: threads would wait for one another
        design = prepared.pool(sets).design
        add_products(x, prepared.basis, products)
    if rounded:
        packed = pieces.pack_rounded(design, pieces.sets_in_a_piece(sets))
    else:
        flat = [design.noise_scale, design.theta_sum, design.u.ravel()]
        packed = {"design": _pack_numbers(np.concatenate(flat))}
    return {
        **packed,
        "moment": _pack_numbers(products.ravel() / len(x)),
        "sample": pack_aims(Objective(thinned(x))),
    }


def pack_embedded(
    made: Embedded, folder: str | None, manifests: Sequence[str] = ()
) -> dict[str, bytes]:
    """The blobs of a study on a design on disk, which stays where it is.

    Args:
        manifests: Of designs that the study has made by growing that one, the last of them this.
    """
    known: dict[str, Any] = {"path": _inside(made.folder, folder), "sha256": made.digest}
    if manifests:
        known["made"] = list(manifests)
    return {"basis": pack_prepared(made.prepared), "embedded": json.dumps(known).encode()}


def _inside(where: str, folder: str | None) -> str:
    """A path inside the database's folder, relative to it: both may move."""
    if "://" in where:
        return where
    path = os.path.abspath(where)
    inside = folder is not None and os.path.commonpath([folder, path]) == folder
    return os.path.relpath(path, folder) if inside else path


def write_file(sets: Sets, sets_file: str) -> None:
    """The file that `pack` has referred to."""
    try:
        with atomic_write(sets_file, overwrite=False, durable=True) as file:
            file.write(pack_sets(sets))
    except OSError as error:
        raise StorageError(
            f"the sets cannot be written to {sets_file} ({error.strerror}); choose another place"
        ) from error


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Blobs:
    """The blobs of one study, each read and compared with its checksum when it is needed."""

    study_id: int
    what: str  # names the study in messages
    folder: str | None  # of the database, if that is a file
    names: frozenset[str]
    version: str | None = None  # of the pool, if it was changed: the checksum of "pool"

    @classmethod
    def of(cls, connection: Connection, study_id: int, what: str, folder: str | None) -> Blobs:
        """Which ones there are. Their checksums lie behind them, and would cost reading them."""
        known = sa.select(files.c.name).where(files.c.study_id == study_id)
        known = known.where(files.c.name.not_like(f"{pieces.PREFIX}%"))
        names = frozenset(connection.execute(known).scalars())
        if "basis" not in names or not names & {"sets", "sets_file", "embedded", "rounded"}:
            raise DataError(f"{what} is incomplete; restore it from a copy")
        return cls(study_id, what, folder, names, version_of(connection, study_id))

    def refuse_outdated(self, connection: Connection) -> None:
        """Refuse to go on with sets that are not those of the study any more."""
        if version_of(connection, self.study_id) != self.version:
            raise StorageError(
                f"the pool of {self.what} has just been changed by another program, and nothing "
                "was stored. Do this again."
            )

    def mark(self, connection: Connection, n_sets: int) -> PoolMark:
        """What became of the pool since the study was made."""
        if "pool" not in self.names:
            return PoolMark()
        try:
            return PoolMark.from_json(self.read(connection, "pool"), n_sets)
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(
                f"what became of the pool of {self.what} cannot be read ({error})"
            ) from (error)

    def read(self, connection: Connection, name: str) -> bytes:
        """A blob as it was written; one that was changed is refused."""
        self.refuse_outdated(connection)
        here = (files.c.study_id == self.study_id) & (files.c.name == name)
        if connection.dialect.name == "sqlite":
            row = sa.select(sa.literal_column("rowid"), files.c.sha256).where(here)
            number, digest = connection.execute(row).one()
            content = sqlite.read_blob(connection, files.name, "content", number)
        else:
            raw = sa.type_coerce(files.c.content, sa.types.NullType())
            content, digest = connection.execute(sa.select(raw, files.c.sha256).where(here)).one()
        return self._checked(name, content, digest)

    def read_many(self, connection: Connection, names: Sequence[str]) -> dict[str, bytes]:
        """Small blobs by name, as they were written."""
        self.refuse_outdated(connection)
        found: dict[str, bytes] = {}
        for low in range(0, len(names), 500):
            here = files.c.study_id == self.study_id, files.c.name.in_(names[low : low + 500])
            raw = sa.type_coerce(files.c.content, sa.types.NullType())
            known = sa.select(files.c.name, raw, files.c.sha256).where(*here)
            for name, content, digest in connection.execute(known):
                found[name] = self._checked(name, content, digest)
        if missing := set(names) - found.keys():
            raise DataError(
                f"{min(missing)} of {self.what} is missing. Restore the database from a copy."
            )
        return found

    def _checked(self, name: str, content: Any, digest: str) -> bytes:
        if not isinstance(content, bytes) or hashlib.sha256(content).hexdigest() != digest:
            raise DataError(
                f"the {name} of {self.what} have changed since it was made: their "
                "checksum differs. Restore the database from a copy."
            )
        return content

    def sets(self, connection: Connection, database: Database) -> Sets:
        """The sets; of a large study, their individuals are read when they are needed."""
        if "index" not in self.names:
            return self._sets(connection)
        if "sets_file" in self.names:
            self._sets_file(connection, read=False)

        known = json.loads(self.read(connection, "index"))
        names = None if known["inputs"] is None else many_from_json(known["inputs"])
        ids = many_from_json(known["ids"])

        def load() -> Sets:
            if "rounded" in self.names:
                return self._from_pieces(ids, names, known, database)
            with database.read() as later:
                return self._sets(later)

        about = known["sizes"], known["n_inputs"], names, load, known.get("overlap", False)
        return LazySets(ids, *about, recipe_of(known), origin_of(known))

    def _from_pieces(
        self,
        ids: tuple[Hashable, ...],
        names: tuple[Hashable, ...] | None,
        known: Mapping[str, Any],
        database: Database,
    ) -> Sets:
        starts, rows = starts_of(known["sizes"]), None
        with database.read() as connection:
            sums = pieces.unpack_sums(self.read(connection, pieces.SUMS))
            if "rows" in self.names:
                rows = row_ids_of(json.loads(zlib.decompress(self.read(connection, "rows"))))
        x, theta = self._pieces(starts, known["n_inputs"], sums, database).all()
        about = names, None, None, recipe_of(known), rows, origin_of(known)
        return Sets(ids, x, theta, starts, *about)

    def _pieces(
        self,
        starts: Int[np.ndarray, " A1"],
        n_inputs: int,
        sums: Mapping[str, np.ndarray],
        database: Database,
    ) -> Pieces:
        def read(names: Sequence[str]) -> Mapping[str, bytes]:
            with database.read() as connection:
                return self.read_many(connection, names)

        return Pieces(starts, n_inputs, int(sums["each"]), read)

    def _sets(self, connection: Connection) -> Sets:
        if "sets_file" in self.names:
            return unpack_sets(self._sets_file(connection))
        return unpack_sets(self.read(connection, "sets"))

    def _sets_file(self, connection: Connection, *, read: bool = True) -> bytes:
        """The file beside the database; if it is not read, only its length is compared."""
        path, known = self._referred(connection, "sets_file")
        if not os.path.isfile(path):
            raise DataError(
                f"the sets of {self.what} are in {path}, and there is no such file; put it back "
                "there"
            )
        try:
            same = os.path.getsize(path) == known.get("bytes")
            content = Path(path).read_bytes() if same and read else b""
        except OSError as error:
            raise DataError(
                f"the sets of {self.what} are in {path}, which cannot be read ({error.strerror})"
            ) from error
        if not same or (read and hashlib.sha256(content).hexdigest() != known.get("sha256")):
            raise DataError(
                f"{path} holds the sets of {self.what}, and has changed since the study was "
                "made: its checksum differs. Restore it from a copy."
            )
        return content

    def sets_path(self, connection: Connection) -> str:
        """The file that the sets are in."""
        return self._referred(connection, "sets_file")[0]

    def _referred(self, connection: Connection, name: str) -> tuple[str, Mapping[str, Any]]:
        """The path that a blob refers to, and all it says of it."""
        try:
            known = json.loads(self.read(connection, name))
            path = known["path"]
            return path if "://" in path else os.path.join(self.folder or "", path), known
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(
                f"where the sets of {self.what} are cannot be read ({error})"
            ) from error

    def rules(self, connection: Connection, sets: Sets) -> PoolRules | None:
        """What a pool may be, in studies that design their sets."""
        if "rules" not in self.names:
            return None
        return PoolRules.from_json(self.read(connection, "rules"), sets.n_individuals)

    def embedded(self, connection: Connection) -> Embedded | None:
        """The design on disk that the study refers to, if it does."""
        if "embedded" not in self.names:
            return None
        path, known = self._referred(connection, "embedded")
        made = opened(path, with_digest(path, known["sha256"]))
        if made.digest != known["sha256"]:
            raise DataError(
                f"{path} holds another design than the one that {self.what} was made with. Restore "
                "it from a copy."
            )
        return made

    def made_designs(self, connection: Connection) -> list[str]:
        """Manifests of designs that the study has made."""
        return list(self._referred(connection, "embedded")[1].get("made", ()))

    def aims(self, connection: Connection, name: str = "aims") -> Objective:
        """What the study is for; empty where nothing was said."""
        return unpack_aims(self.read(connection, name)) if name in self.names else Objective()

    def about(self, connection: Connection, sets: Sets | Embedded) -> About:
        """What the study measures; of older studies, θ alone says how sets are weighed."""
        if "about" in self.names:
            return About.unpack(self.read(connection, "about"))
        if isinstance(sets, LazySets) and sets.origin is not UNKNOWN:  # as new as what is missing
            return About(weights="mean" if sets.origin.mean else "sum")
        return About(weights=weighed(sets))

    def geometry(self, connection: Connection) -> bytes | None:
        """Geometries of individuals as GeoParquet, where the table had them."""
        return self.read(connection, "geometry") if "geometry" in self.names else None

    def map(self, connection: Connection) -> bytes | None:
        """The map as it was packed, whoever has added it and when."""
        here = (files.c.study_id == self.study_id) & (files.c.name == "map")
        known = connection.execute(sa.select(files.c.name).where(here)).first()
        return None if known is None else self.read(connection, "map")

    def pool(
        self,
        connection: Connection,
        database: Database,
        sets: Sets,
        prepared: Prepared,
        mark: PoolMark,
    ) -> Pool:
        """The sets as a strategy sees them, as they were stored when the study was made."""
        n_sets, basis = len(sets), prepared.basis
        if "rounded" in self.names:
            design = self._rounded(connection, database, sets, prepared)
        else:
            flat = _view(self.read(connection, "design"))
            u = flat[2 * n_sets :].reshape(n_sets, -1)
            effect = None if sets.members is None else overlap.scales(sets)[1]
            design = Design(u, flat[:n_sets], flat[n_sets : 2 * n_sets], effect)
        moment = _view(self.read(connection, "moment")).reshape(design.n_basis, design.n_basis)
        targets = self.aims(connection, "sample").targets  # None in studies of older versions
        if targets is not None:
            everyone = sets.sizes[mark.positions(sets.n_asked)].sum()
            targets = replace(targets, everyone=int(everyone))
        return Pool(sets, basis, design, moment=moment, targets=targets)

    def _rounded(
        self, connection: Connection, database: Database, sets: Sets, prepared: Prepared
    ) -> Design:
        codes = self.read(connection, "rounded")
        sums = pieces.unpack_sums(self.read(connection, pieces.SUMS))
        found = self._pieces(sets.starts, sets.n_inputs, sums, database)
        every = partial(_all_rows, prepared, sets)
        return pieces.unpack_rounded(codes, sums, found, prepared.basis, every)


def _all_rows(prepared: Prepared, sets: Sets) -> Float[np.ndarray, "A K"]:
    return prepared.pool(sets).design.u


_VERSION: Final = sa.select(files.c.sha256).where(
    files.c.study_id == sa.bindparam("study"), files.c.name == "pool"
)


def version_of(connection: Connection, study_id: int) -> str | None:
    """What tells one state of a study's pool from another; None if it was never changed."""
    return connection.execute(_VERSION, {"study": study_id}).scalar()


# --- formats --------------------------------------------------------------------------------------


def pack_sets(sets: Sets) -> bytes:
    """A Parquet table with a row per individual: set number, weight, and the inputs.

    Where sets overlap, there are the numbers of the individual and of its effect, too; the user's
    own ids of rows come last.
    """
    import pyarrow as pa

    columns = {
        "set": np.repeat(np.arange(len(sets), dtype=np.int32), sets.sizes),
        "theta": sets.theta,
        **{f"x{d}": sets.x[:, d] for d in range(sets.n_inputs)},
    }
    if sets.members is not None and sets.effects is not None:
        columns |= {"member": sets.members, "effect": sets.effects}
    names: dict[str, Any] = {"ids": [to_json(name) for name in sets.ids]}
    if sets.input_names is not None:
        names["inputs"] = [to_json(name) for name in sets.input_names]
    if sets.recipe is not None:
        names["recipe"] = sets.recipe.to_json()
    names |= origin_json(sets.origin)
    if sets.row_ids is not None:
        columns[ROW_ID] = pa.array([to_json(name) for name in sets.row_ids])
    table = pa.table(columns).replace_schema_metadata({"sumwise": json.dumps(names)})
    return pack_table(table, ["set"])


def pack_table(table: Any, repetitive: list[str] | bool) -> bytes:
    """An Arrow table as Parquet; columns with few different values are stored as dictionaries."""
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd", use_dictionary=repetitive)
    return file.getvalue()


def unpack_sets(packed: bytes) -> Sets:
    """The same sets, to the bit; anything else than `pack_sets` wrote is refused."""
    import pyarrow as pa

    try:
        table = parquet_table(packed)
        names = json.loads(table.schema.metadata[b"sumwise"])
        rows = None
        if table.column_names[-1] == ROW_ID:
            rows = row_ids_of(table.column(ROW_ID).to_pylist())
            table = table.drop_columns([ROW_ID])
        owner, theta, *inputs = map(_array, table.columns)
        members = effects = None
        if table.column_names[-1] == "effect":
            members, effects = (np.array(column) for column in inputs[-2:])
            inputs = inputs[:-2]
        starts = np.searchsorted(owner, np.arange(len(names["ids"]) + 1))
        x = np.empty((len(theta), len(inputs)))
        for d, column in enumerate(inputs):
            x[:, d] = column
        ids, named = (
            None if given is None else many_from_json(f"[{','.join(given)}]")
            for given in (names["ids"], names.get("inputs"))
        )
        more = named, members, effects, recipe_of(names), rows, origin_of(names)
        return Sets(ids or (), x, np.array(theta), starts, *more)
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f"the study's sets cannot be read ({error})") from error


def recipe_of(known: Mapping[str, Any]) -> Recipe | None:
    """How inputs were made of a table, if they were not taken as they are."""
    return None if known.get("recipe") is None else Recipe.from_json(known["recipe"])


def origin_json(origin: Origin) -> dict[str, Any]:
    """Names of the columns that sets were made of, to be kept beside other names."""
    if not origin.by and not origin.extra and origin.id is None:
        return {}
    names = many_to_json([*origin.by, origin.id])
    theta = {} if origin.weights is None else {"weights": to_json(origin.weights)}
    return {"origin": {"names": names, "mean": origin.mean, "extra": origin.extra, **theta}}


def origin_of(known: Mapping[str, Any]) -> Origin:
    """What `origin_json` gave; studies from before it know no columns."""
    if "origin" not in known:
        return UNKNOWN
    *by, own = many_from_json(known["origin"]["names"])
    mean, extra = known["origin"]["mean"], known["origin"]["extra"]
    if not isinstance(mean, bool) or type(extra) is not int or extra < 0:
        raise DataError(f"origin is {known['origin']!r:.80}, which no study has")
    theta = known["origin"].get("weights")
    return Origin(tuple(by), own, mean, extra, None if theta is None else from_json(theta))


def row_ids_of(texts: Sequence[str]) -> np.ndarray:
    """Ids of rows that were written as JSON."""
    rows = np.empty(len(texts), dtype=object)
    rows[:] = many_from_json(f"[{','.join(texts)}]")
    return rows


def _array(column: Any) -> np.ndarray:
    """A column of numbers; Arrow's own `to_numpy` would import pandas where it is installed."""
    return np.concatenate([np.from_dlpack(chunk) for chunk in column.chunks])


def arrays_of_aims(aims: Objective) -> dict[str, np.ndarray]:
    """Costs, known noise, targets and the threshold, as far as they were given."""
    arrays = {"noise_std": aims.noise_std, "cost": aims.cost, "enough": aims.enough}
    if aims.targets is not None:
        arrays |= {"targets": aims.targets.x, "target_weights": aims.targets.weight}
    return {name: np.asarray(value) for name, value in arrays.items() if value is not None}


def pack_geometry(geometry: Geometry) -> bytes:
    """Geometries as GeoParquet, which `to_geoparquet` describes."""
    return _small_enough(to_geoparquet(geometry))


def pack_map(known: Map) -> bytes:
    """The same of a map, with the ids of its shapes."""
    geometry = replace(known.geometry, about={**known.geometry.about, OF: known.of})
    return _small_enough(to_geoparquet(geometry, list(map(to_json, known.ids))))


def unpack_map(packed: bytes) -> Map:
    """The map that `pack_map` packed."""
    geometry, ids = from_geoparquet(packed)
    about = dict(geometry.about)
    of = about.pop(OF, None)
    if of not in (SETS, INDIVIDUALS) or ids is None or len(ids) != len(geometry.wkb):
        raise DataError("the study's map cannot be read: it does not say whose shapes it has")
    return Map(of, tuple(map(from_json, ids)), replace(geometry, about=about))


def _small_enough(packed: bytes) -> bytes:
    if len(packed) >= LARGEST_BLOB:
        raise SettingError(
            f"the geometries take {len(packed) / 1e9:.1f} GB, and a database stores up to 1 GB in "
            "one piece. Simplify them."
        )
    return packed


def pack_aims(aims: Objective) -> bytes:
    return serialize.to_bytes(arrays_of_aims(aims))


def unpack_aims(packed: bytes) -> Objective:
    """What `pack_aims` packed."""
    arrays = serialize.from_bytes(packed, "what the study is for")
    targets = None
    if "targets" in arrays:
        targets = Targets(arrays["targets"], arrays["target_weights"])
    enough = float(arrays["enough"]) if "enough" in arrays else None
    return Objective(targets, arrays.get("noise_std"), arrays.get("cost"), enough)


def _pack_numbers(flat: Float[np.ndarray, " n"]) -> bytes:
    file = io.BytesIO()
    np.save(file, flat, allow_pickle=False)
    return file.getvalue()


def _view(packed: bytes) -> np.ndarray:
    """The array that `np.save` wrote, without a copy of it."""
    head = io.BytesIO(packed[:1024])
    np.lib.format.read_magic(head)
    shape, _, dtype = np.lib.format.read_array_header_1_0(head)
    return np.frombuffer(packed, dtype, shape[0], head.tell())
