"""The paper's 32 data sets: six from LIBSVM, 26 from one climate table (§5.1).

A data set is individuals with known outputs, scaled to [-1, 1] by minimum and maximum over all of
them, inputs and outputs alike, as LIBSVM's own `_scale` files are; a constant column becomes 0.
Files are read from a folder (`libsvm/abalone`, …, `climate/na_3deg.csv`). Without a folder the
LIBSVM files are fetched once from their public home into a cache.
"""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import Final

import numpy as np

from sumwise.data.frames import group_rows, listed
from sumwise.data.tables import read_individuals
from sumwise.errors import DataError
from sumwise.util.files import write_file
from sumwise.util.shapes import Float, Int
from sumwise.util.text import count

LIBSVM_HOME: Final = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/regression/"
# name in the paper -> (file, rows, attributes)
LIBSVM: Final[Mapping[str, tuple[str, int, int]]] = {
    "Abalone": ("abalone", 4177, 8),
    "Cadata": ("cadata", 20640, 8),
    "Cpu": ("cpusmall", 8192, 12),
    "Housing": ("housing", 506, 13),
    "Mg": ("mg", 1385, 6),
    "Space": ("space_ga", 3107, 6),
}
FEWEST_GROUPS: Final = 3  # two to learn from and one to be tested on
CLIMATE_FILE: Final = "climate/na_3deg.csv"
PLACE: Final = ("lon", "lat", "elev")
# in the order of the paper's table; the file writes _ for -
CLIMATE: Final = (
    "eFFP", "bFFP", "Tave-wt", "Tave-sm", "TD", "SHM", "RH", "PPT-wt", "PPT-sm", "PAS", "NFFD",
    "MWMT", "MSP", "MCMT", "MAT", "MAP", "FFP", "Eref", "EXT", "EMT", "DD-18", "DD-0", "DD5",
    "DD18", "CMD", "AHM",
)  # fmt: skip
NAMES: Final = (*LIBSVM, *CLIMATE)
CLIMATE_HELP: Final = (
    "a CSV with the columns lon, lat, elev, state and the 26 variables; docs/reproduction.md says "
    "where to get one"
)


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Individuals with known outputs; `group` is given where sets are not drawn but found."""

    name: str
    x: Float[np.ndarray, "N D"]
    y: Float[np.ndarray, " N"]
    group: Int[np.ndarray, " N"] | None = None


@lru_cache(maxsize=len(NAMES))
def load(name: str, folder: Path | None = None) -> Dataset:
    """One of `NAMES`, from `folder` or, for LIBSVM files, from the cache; once in a process."""
    if name in LIBSVM:
        file, rows, attributes = LIBSVM[name]
        path = fetch(file, rows) if folder is None else _existing(folder / "libsvm" / file)
        x, y = read_libsvm(path, attributes)
        if len(y) != rows:
            raise DataError(
                f"{path} has {len(y)} rows; {name} has {rows}. Delete it and get it again."
            )
        return Dataset(name, unit_range(x), _varying(y, path))
    if name in CLIMATE:
        if folder is None:
            raise DataError(
                f"the climate data have no download; pass --data DIR with {CLIMATE_FILE}, "
                + CLIMATE_HELP
            )
        return read_climate(_existing(folder / CLIMATE_FILE), name)
    raise DataError(f"no data set is called {name!r}; there are {', '.join(NAMES)}")


def unit_range(values: Float[np.ndarray, "N ..."]) -> Float[np.ndarray, "N ..."]:
    """To [-1, 1] by minimum and maximum; what does not vary becomes 0."""
    low, high = values.min(axis=0), values.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    return np.where(high > low, 2 * (values - low) / width - 1, 0.0)


def read_libsvm(
    path: Path, attributes: int
) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, " N"]]:
    """Lines of `y 1:x₁ 2:x₂ …`; attributes that are left out are zero."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text in UTF-8; save it as such") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from None
    x, y = [], []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        target, *parts = line.split()
        row = [0.0] * attributes
        try:
            y.append(float(target))
            for index, value in (part.split(":") for part in parts):
                if not 1 <= int(index) <= attributes:
                    raise ValueError(f"attribute {index} of {attributes}")
                row[int(index) - 1] = float(value)
        except ValueError as error:
            raise DataError(f"{path}, line {number}: not LIBSVM's format ({error})") from None
        x.append(row)
    if not y:
        raise DataError(f"{path} has no rows")
    return _finite(np.array(x), path), _finite(np.array(y), path)


def read_climate(path: Path, target: str) -> Dataset:
    """Locations in states: inputs are the place and the other 25 variables."""
    columns = [name.replace("-", "_") for name in CLIMATE]
    wanted = columns.pop(CLIMATE.index(target))
    try:
        others = dict.fromkeys((*columns, wanted), "needed")
        found = read_individuals(path, ["state"], PLACE, aside=others, role="needed")
    except DataError as error:
        raise DataError(f"{str(error).rstrip('.')}. The file must be {CLIMATE_HELP}.") from error
    x = np.column_stack([found.sets.x, *(found.aside[name] for name in columns)])
    states = np.repeat(np.arange(len(found.sets)), found.sets.sizes)
    if len(found.sets) < FEWEST_GROUPS:
        raise DataError(
            f"{path} has {len(found.sets)} states; at least {FEWEST_GROUPS} are needed, to learn "
            "from some and be tested on others"
        )
    y = _varying(found.by_row(found.aside[wanted]), path)
    return Dataset(target, unit_range(found.by_row(x)), y, found.by_row(states))


def _finite(values: Float[np.ndarray, "N ..."], path: Path) -> Float[np.ndarray, "N ..."]:
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0, 0])
        raise DataError(f"{path}: row {row + 1} has a number that is not finite")
    return values


def _varying(y: Float[np.ndarray, " N"], path: Path) -> Float[np.ndarray, " N"]:
    if y.min() == y.max():
        raise DataError(f"{path}: the target is {y[0]:g} in all rows; there is nothing to learn")
    return unit_range(y)


def fingerprint(dataset: Dataset) -> str:
    """Changes with any number of the data."""
    digest = hashlib.sha256(dataset.x.tobytes() + dataset.y.tobytes())
    digest.update(b"" if dataset.group is None else dataset.group.tobytes())
    return digest.hexdigest()[:16]


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise DataError(
            f"there is no file {path}. Check --data (or SUMWISE_DATA); without it the LIBSVM "
            "files are downloaded."
        )
    return path


# --- download -------------------------------------------------------------------------------------


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sumwise" / "libsvm"


def fetch(file: str, rows: int, home: str = LIBSVM_HOME) -> Path:
    """The file from its public home, once; size and rows are checked before it is kept."""
    path = cache_folder() / file
    if path.is_file():
        return path
    try:
        with urllib.request.urlopen(home + file, timeout=30) as answer:
            promised, body = answer.headers.get("Content-Length"), answer.read()
            promised = None if promised is None else int(promised)
    except (OSError, HTTPException, ValueError) as error:  # URLError and timeouts are OSErrors
        raise DataError(
            f"{home + file} cannot be reached ({error}). Without a network, put the files in "
            "DIR/libsvm/ and pass --data DIR (or set SUMWISE_DATA)."
        ) from error
    found = sum(1 for line in body.splitlines() if line.strip())
    if promised not in (None, len(body)) or found != rows:
        raise DataError(
            f"{home + file} came with {len(body)} bytes and {found} rows; expected "
            f"{promised or 'any'} bytes and {rows} rows. Try again later."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, body)
    return path


# --- a user's own table ---------------------------------------------------------------------------

OWN: Final = "simulate"  # in seeds: the name of the file does not change the splits


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Individuals with groups and outputs, and the columns they came from."""

    file: str
    by: tuple[str, ...]
    y: str
    x: tuple[str, ...]
    left_out: tuple[str, ...]  # columns without a use that do not hold numbers
    data: Dataset

    @property
    def n_groups(self) -> int:
        assert self.data.group is not None
        return int(self.data.group.max()) + 1


def read_labelled(path: Path, by: Sequence[str], y: str, x: Sequence[str] = ()) -> Labelled:
    """The table in `path`, CSV or Parquet, in which every individual's output is known.

    Args:
        by: Column that names the group; several columns together name it.
        y: The output, known for every row here.
        x: Inputs; if left out, all other columns that hold numbers.
    """
    _refuse_double_roles(by, y, x)
    found = read_individuals(path, by, x, aside={y: "given as --y"})
    outputs, ids = found.by_row(found.aside[y]), found.sets.ids
    _refuse_target(outputs, y, path)
    columns = [ids] if len(found.by) == 1 else zip(*ids, strict=True)
    codes = np.column_stack([group_rows(column).codes for column in columns])
    order = np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    if len(ids) < FEWEST_GROUPS:
        raise DataError(
            f"{path} has {count(len(ids), 'group')} by {listed(found.by)}; at least "
            f"{FEWEST_GROUPS} are needed, to learn from some and be tested on others. Name another "
            "column with --by."
        )
    group = found.by_row(np.repeat(order, found.sets.sizes))
    data = Dataset(OWN, found.by_row(found.sets.x), outputs, group)
    return Labelled(path.name, found.by, y, found.x, found.left_out, data)


def _refuse_double_roles(by: Sequence[str], y: str, x: Sequence[str]) -> None:
    if not by:
        raise DataError("no group column was named; give one with --by")
    if y in by:
        raise DataError(f"{y!r} is given as --by and as --y; a target cannot name its own group")
    if y in x:
        raise DataError(
            f"{y!r} is given as --y and as --x; a target that is an input is no longer to be "
            "predicted. Leave it out of --x."
        )


def _refuse_target(y: Float[np.ndarray, " N"], name: str, path: Path) -> None:
    if y.min() == y.max():
        raise DataError(
            f"{path}: every {name!r} is {y[0]:g}; a constant target leaves nothing to learn"
        )
    if not 1e-100 < y.max() / 2 - y.min() / 2 < 1e100:
        raise DataError(
            f"{path}: {name!r} goes from {y.min():g} to {y.max():g}, whose squares leave the range "
            "of double precision. Use another unit."
        )
