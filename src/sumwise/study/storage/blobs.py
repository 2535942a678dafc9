"""What a study keeps of its sets, where, and how much of it is read when.

    sets         every individual, as Parquet; or `sets_file`, where that file is and its checksum;
                 or `embedded`, where a design on disk is, of individuals in the user's own files
    basis        what was drawn
    index        ids and sizes of the sets      } of large studies only, so that asking
    design       u_a, s_a and Σθ of every set   } need not read the individuals and embed them,
    moment       mean of φ φᵀ over individuals  } nor saying how much there is to learn
    sample       individuals that stand for all } nor scoring by their predictions
    aims         costs, known noise, targets and the threshold, where somebody gave them

A small study is read and checked whole when it is opened; of a large one, `index` at once and the
rest when somebody needs it. Each piece has a checksum that is compared when it is read.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import numpy as np
import sqlalchemy as sa

from sumwise.acquisition.objective import Aims
from sumwise.data.lazy import LazySets
from sumwise.data.sets import Sets
from sumwise.data.targets import thinned
from sumwise.errors import DataError, SettingError, StorageError
from sumwise.model.basis import Scaled, Trainable
from sumwise.model.design import Design, Pool, embed
from sumwise.model.fit import ModelConfig, Prepared
from sumwise.outofcore.design_store import Embedded
from sumwise.study.storage import packing, sqlite
from sumwise.study.storage.id_json import many_from_json, many_to_json
from sumwise.study.storage.schema import files
from sumwise.util.shapes import Float
from sumwise.util.threads import one_thread

LARGE: Final = 2**22  # features of individuals: from here on embedding them takes a while
LARGEST_DESIGN: Final = 2**29  # bytes; beyond, it is worked out anew by whoever asks
LARGEST_PIECE: Final = 10**9  # bytes that SQLite and PostgreSQL keep in one value


class StoredSets(LazySets):
    """The sets of a large study: ids and sizes now, individuals when somebody looks at them."""

    __slots__ = ()

    def __init__(self, index: bytes, load: Callable[[], Sets]) -> None:
        try:
            known = json.loads(index)
            ids, names = many_from_json(known["ids"]), known["inputs"]
            named = None if names is None else many_from_json(names)
            super().__init__(ids, known["sizes"], int(known["n_inputs"]), named, load)
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"the study's index of sets cannot be read ({error})") from error


# --- writing --------------------------------------------------------------------------------------


def pack(
    sets: Sets, config: ModelConfig, prepared: Prepared, sets_file: str | None, folder: str | None
) -> dict[str, bytes]:
    """The pieces of a study on these sets.

    Args:
        sets_file: Where the sets will be written (`write_file`) instead of being kept here.
        folder: Of the database, if that is a file: a `sets_file` inside it may move along with it.
    """
    parquet = packing.pack_sets(sets)
    kept = {"basis": packing.pack_prepared(prepared)}
    if sets_file is not None:
        kept["sets_file"] = _reference(parquet, sets_file, folder)
    elif len(parquet) < LARGEST_PIECE:
        kept["sets"] = parquet
    else:
        raise SettingError(
            f"the sets take {len(parquet) / 1e9:.1f} GB, and a database keeps up to 1 GB in one "
            "piece. Keep them in a file beside it: sets_file='sets.parquet'"
        )
    if isinstance(prepared.basis.basis, Trainable):
        return kept
    n_basis = prepared.basis(sets.x[:1]).shape[1]
    if len(sets.x) * n_basis >= LARGE:
        names = sets.input_names
        index = {
            "ids": many_to_json(sets.ids),
            "sizes": sets.sizes.tolist(),
            "inputs": None if names is None else many_to_json(names),
            "n_inputs": sets.n_inputs,
        }
        kept["index"] = json.dumps(index).encode()
        if 8 * len(sets) * (n_basis + 2) <= LARGEST_DESIGN:
            products = np.zeros((n_basis, n_basis))
            with one_thread():  # many small products: threads would wait for one another
                design = embed_drawn(sets, config, prepared, products)
            flat = [design.noise_scale, design.theta_sum, design.u.ravel()]
            kept["design"] = _pack_numbers(np.concatenate(flat))
            kept["moment"] = _pack_numbers(products.ravel() / len(sets.x))
            kept["sample"] = packing.pack_aims(Aims(thinned(sets.x)))
    return kept


def pack_embedded(made: Embedded, folder: str | None) -> dict[str, bytes]:
    """The pieces of a study on a design on disk, which stays where it is."""
    known = {"path": _inside(made.folder, folder), "sha256": made.digest}
    return {"basis": packing.pack_prepared(made.prepared), "embedded": json.dumps(known).encode()}


def read_embedded(reference: bytes, folder: str | None, what: str) -> Embedded:
    """The design on disk that a study is of."""
    path, known = _referred(reference, folder, what)
    made = Embedded.open(path)
    if made.digest != known["sha256"]:
        raise DataError(
            f"{path} holds another design than the one that {what} was made with. Restore it from "
            "a copy."
        )
    return made


def embed_drawn(
    sets: Sets,
    config: ModelConfig,
    prepared: Prepared,
    products: Float[np.ndarray, "K K"] | None = None,
) -> Design:
    """The design under the basis as it was drawn."""
    adam = config.hyperparameters == "adam"
    return embed(sets, prepared.basis, numba_anyway=adam, products=products)


def _pack_numbers(flat: Float[np.ndarray, " n"]) -> bytes:
    file = io.BytesIO()
    np.save(file, flat, allow_pickle=False)
    return file.getvalue()


def _reference(parquet: bytes, sets_file: str, folder: str | None) -> bytes:
    known = {
        "path": _inside(sets_file, folder),
        "bytes": len(parquet),
        "sha256": hashlib.sha256(parquet).hexdigest(),
    }
    return json.dumps(known).encode()


def _inside(where: str, folder: str | None) -> str:
    """A path beside the database as it is seen from there: both may move."""
    path = os.path.abspath(where)
    inside = folder is not None and os.path.commonpath([folder, path]) == folder
    return os.path.relpath(path, folder) if inside else path


def write_file(sets: Sets, sets_file: str) -> None:
    """The file that `pack` has referred to."""
    partial = f"{sets_file}.{os.getpid()}.part"
    try:
        with open(partial, "xb") as file:
            file.write(packing.pack_sets(sets))
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, sets_file)  # refuses what is there already, unlike a rename
    except FileExistsError:
        raise _exists(sets_file) from None
    except OSError as error:
        raise StorageError(
            f"the sets cannot be written to {sets_file} ({error.strerror}); choose another place"
        ) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial)


def refuse_existing(sets_file: str | None) -> None:
    """Before anything is made."""
    if sets_file is not None and os.path.lexists(sets_file):
        raise _exists(sets_file)


def _exists(sets_file: str) -> SettingError:
    return SettingError(f"{sets_file} exists; name another file for the sets")


# --- reading --------------------------------------------------------------------------------------


def pieces(connection: sa.Connection, study_id: int) -> frozenset[str]:
    """Which pieces there are. Their checksums lie behind them, and would cost reading them."""
    known = sa.select(files.c.name).where(files.c.study_id == study_id)
    return frozenset(connection.execute(known).scalars())


def read(connection: sa.Connection, study_id: int, piece: str, what: str) -> bytes:
    """A piece as it was written; one that was changed is refused."""
    here = (files.c.study_id == study_id) & (files.c.name == piece)
    if connection.dialect.name == "sqlite":
        row = sa.select(sa.literal_column("rowid"), files.c.sha256).where(here)
        number, digest = connection.execute(row).one()
        content = sqlite.read_blob(connection, files.name, "content", number)
    else:
        raw = sa.type_coerce(files.c.content, sa.types.NullType())
        content, digest = connection.execute(sa.select(raw, files.c.sha256).where(here)).one()
    if not isinstance(content, bytes) or hashlib.sha256(content).hexdigest() != digest:
        raise DataError(
            f"the {piece} of {what} are not what they were when it was made: their checksum "
            "differs. Restore the database from a copy."
        )
    return content


def read_file(reference: bytes, folder: str | None, what: str) -> Sets:
    """The sets from the file beside the database."""
    check_file(reference, folder, what)
    path, known = _referred(reference, folder, what)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise DataError(
            f"the sets of {what} are in {path}, which cannot be read ({error.strerror})"
        ) from error
    if hashlib.sha256(content).hexdigest() != known["sha256"]:
        raise _changed(path, what)
    return packing.unpack_sets(content)


def check_file(reference: bytes, folder: str | None, what: str) -> None:
    """Refuse a file that is gone or has another length, without reading it."""
    path, known = _referred(reference, folder, what)
    if not os.path.isfile(path):
        raise DataError(
            f"the sets of {what} are in {path}, and there is no such file; put it back there"
        )
    if os.path.getsize(path) != known.get("bytes"):
        raise _changed(path, what)


def _referred(reference: bytes, folder: str | None, what: str) -> tuple[str, Mapping[str, Any]]:
    try:
        known = json.loads(reference)
        path = os.path.join(folder or "", known["path"])
        os.fsencode(path)  # some text is no path
        if "\0" in path or not isinstance(known["sha256"], str):
            raise ValueError("it is no path with a checksum")
        return path, known
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"where the sets of {what} are cannot be read ({error})") from error


def _changed(path: str, what: str) -> DataError:
    return DataError(
        f"{path} holds the sets of {what}, and is not what it was when the study was made: its "
        "checksum differs. Restore it from a copy."
    )


def unpack_pool(sets: Sets, basis: Scaled, design: bytes, moment: bytes) -> Pool:
    n_sets = len(sets)
    try:
        flat = _view(design)
        u = flat[2 * n_sets :].reshape(n_sets, -1)
        kept = Design(u, flat[:n_sets], flat[n_sets : 2 * n_sets])
        square = _view(moment).reshape(u.shape[1], u.shape[1])
        return Pool(sets, basis, kept, moment=square)
    except ValueError as error:
        raise DataError(f"the study's design cannot be read ({error})") from error


def _view(content: bytes) -> np.ndarray:
    """The array that `np.save` wrote, without a copy of it."""
    head = io.BytesIO(content[:1024])
    if np.lib.format.read_magic(head) != (1, 0):
        raise ValueError("another version of NumPy's format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(head)
    if dtype != np.float64 or len(shape) != 1:
        raise ValueError(f"{dtype} of shape {shape}")
    return np.frombuffer(content, dtype, shape[0], head.tell())
