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
from typing import Any, Final

import numpy as np

from sumwise.acquisition.objective import CHEAPEST
from sumwise.data.dialect import Reading
from sumwise.data.frames import Table, as_frame, column_names, group_codes, listed
from sumwise.data.individuals import choose_inputs, read_individuals
from sumwise.data.recipe import Recipe, learn
from sumwise.data.tables import PLAIN
from sumwise.errors import DataError, InvalidSetError, SettingError
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
GET_AGAIN: Final = "Delete it and get it again."
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
    recipe: Recipe | None = None  # how x was made of a table, unless it was taken as it is
    exposure: Float[np.ndarray, " N"] | None = None  # weight of each in its total; None: 1
    cost: Float[np.ndarray, " A"] | None = None  # of measuring each group


@lru_cache(maxsize=len(NAMES))
def load(name: str, folder: Path | None = None) -> Dataset:
    """One of `NAMES`, from `folder` or, for LIBSVM files, from the cache; once in a process."""
    if name in CLIMATE:
        if folder is None:
            needed = f"pass --data DIR with {CLIMATE_FILE}, {CLIMATE_HELP}"
            raise DataError(f"the climate data have no download; {needed}")
        return read_climate(folder / CLIMATE_FILE, name)
    file, rows, attributes = LIBSVM[name]
    path = fetch(file, rows) if folder is None else folder / "libsvm" / file
    if not path.is_file():
        raise DataError(f"there is no file {path}; check --data, or leave it out to download it")
    x, y = read_libsvm(path, attributes)
    if len(y) != rows:
        raise DataError(f"{path} has {len(y)} rows; {name} has {rows}. {GET_AGAIN}")
    return Dataset(name, unit_range(x), unit_range(_varying(y, name, path)))


def unit_range(values: Float[np.ndarray, "N ..."]) -> Float[np.ndarray, "N ..."]:
    """To [-1, 1] by minimum and maximum; what does not vary becomes 0."""
    low, high = values.min(axis=0), values.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    return np.where(high > low, 2 * (values - low) / width - 1, 0.0)


def read_libsvm(
    path: Path, attributes: int
) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, " N"]]:
    """Lines of `y 1:x₁ 2:x₂ …`; attributes that are left out are zero."""
    lines = path.read_bytes().splitlines()
    x, y = np.zeros((len(lines), attributes)), np.zeros(len(lines))
    for row, line in enumerate(lines):
        try:
            target, *parts = line.split()
            y[row] = float(target)
            for index, value in (part.split(b":") for part in parts):
                x[row, int(index) - 1] = float(value)
            if not np.isfinite([y[row], *x[row]]).all():
                raise ValueError("a number is not finite")
        except (ValueError, IndexError) as error:
            said = f"{path}, line {row + 1}: not LIBSVM's format ({error})"
            raise DataError(f"{said}. {GET_AGAIN}") from None
    return x, y


def read_climate(path: Path, target: str) -> Dataset:
    """Locations in states: inputs are the place and the other 25 variables."""
    columns = [name.replace("-", "_") for name in CLIMATE]
    wanted = columns.pop(CLIMATE.index(target))
    try:
        inputs = (*PLACE, *columns)
        found = read_individuals(path, ["state"], inputs, aside={wanted: "needed"}, role="needed")
    except DataError as error:
        raise DataError(f"{str(error).rstrip('.')}. The file must be {CLIMATE_HELP}.") from error
    states = np.repeat(np.arange(len(found.sets)), found.sets.sizes)
    y = unit_range(_varying(found.by_row(found.aside[wanted]), target, path))
    group = _enough(found.by_row(states), found.by, path)
    return Dataset(target, unit_range(found.by_row(found.sets.x)), y, group)


def _varying(y: Float[np.ndarray, " N"], name: str, path: Path | str) -> Float[np.ndarray, " N"]:
    low, high = y.min(), y.max()
    if not 1e-100 < high / 2 - low / 2 < 1e100:
        needed = "a target must vary, and by less than 1e100"
        raise DataError(f"{path}: {name!r} goes from {low:g} to {high:g}; {needed}")
    return y


def _enough(
    group: Int[np.ndarray, " N"], by: Sequence[str], path: Path | str
) -> Int[np.ndarray, " N"]:
    n_groups = int(group.max()) + 1
    if n_groups < FEWEST_GROUPS:
        found = f"{path} has {count(n_groups, 'group')} by {listed(by)}"
        raise DataError(
            f"{found}; at least {FEWEST_GROUPS} are needed, to learn and to test. Name another "
            "column of groups."
        )
    return group


def fingerprint(dataset: Dataset) -> str:
    """Changes with any number of the data."""
    digest = hashlib.sha256(dataset.x.tobytes() + dataset.y.tobytes())
    for part in (dataset.group, dataset.exposure):
        digest.update(b"" if part is None else part.tobytes())
    return digest.hexdigest()[:16]


# --- download -------------------------------------------------------------------------------------


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sumwise" / "libsvm"


def fetch(file: str, rows: int, home: str = LIBSVM_HOME) -> Path:
    """The file from its public home, once; rows are counted before it is kept."""
    path = cache_folder() / file
    if path.is_file():
        return path
    try:
        with urllib.request.urlopen(home + file, timeout=30) as answer:
            body = answer.read()
    except (OSError, HTTPException) as error:  # URLError and timeouts are OSErrors
        by_hand = "Put the files in DIR/libsvm/ by hand and pass --data DIR."
        raise DataError(f"{home + file} cannot be reached ({error}). {by_hand}") from error
    found = len(body.splitlines())
    if found != rows:
        raise DataError(f"{home + file} came with {found} of {rows} rows. Try again later.")
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
    left_out: Mapping[str, str]  # columns that are not used, and why
    data: Dataset

    @property
    def n_groups(self) -> int:
        assert self.data.group is not None
        return int(self.data.group.max()) + 1


def read_labelled(
    path: Path,
    by: Sequence[str],
    y: str,
    x: Sequence[str] = (),
    without: Sequence[str] = (),
    reading: Reading = PLAIN,
    exposure: tuple[str, str] | None = None,
    cost: str | None = None,
) -> Labelled:
    """The table in `path`, CSV or Parquet, in which every individual's output is known.

    Args:
        by: Column that names the group; several columns together name it.
        y: The output, known for every row here.
        x: Inputs; if left out, all other columns.
        without: Columns that are not inputs.
        reading: As in `read_table`.
        exposure: Column of exposures or trials, and the option that named it.
        cost: Column with what measuring a group costs, the same in all of its rows.
    """
    for option, names in (("--by", by), ("--x", x)):
        if y in names:
            raise DataError(f"{y!r} is given as --y and as {option}; give it as --y alone")
    aside: dict[str, str | None] = {y: "given as --y"}
    aside |= {} if exposure is None else {exposure[0]: f"given as {exposure[1]}"}
    aside |= {} if cost is None else {cost: "given as --cost"}
    found = read_individuals(path, by, x, aside=aside, without=without, reading=reading)
    order = _numbered(found.sets.ids, found.by)
    in_sets = np.repeat(order, found.sets.sizes)
    group = _enough(found.by_row(in_sets), found.by, path)
    target = _varying(found.by_row(found.aside[y]), y, path)
    e = None if exposure is None else found.by_row(found.aside[exposure[0]])
    prices = None if cost is None else _prices(found.aside[cost], in_sets, cost, found.where)
    data = Dataset(OWN, found.by_row(found.sets.x), target, group, found.sets.recipe, e, prices)
    return Labelled(path.name, found.by, y, found.x, found.left_out, data)


def labelled_frame(
    frame: Any,
    by: Any,
    y: Any,
    x: Any = None,
    exposure: tuple[Any, str] | None = None,
    cost: Any = None,
) -> Labelled:
    """The same of a data frame."""
    table = as_frame(frame)
    if table is None:
        kind = type(frame).__name__
        raise InvalidSetError(f"frame is a {kind}; pass a pandas, polars or Arrow table")
    groups, wanted = column_names(by, "by"), () if x is None else column_names(x, "x")
    for option, names in (("by", groups), ("x", wanted)):
        if y in names:
            raise SettingError(f"{y!r} is given as y and as {option}; give it as y alone")
    rows = Table(table, "the frame")
    rows.require([y], "given as y")
    keys = rows.keys(groups)
    theta = {} if exposure is None else {exposure[0]: f"given as {exposure[1]}"}
    costs = {} if cost is None else {cost: "given as cost"}
    for name, role in {**theta, **costs}.items():
        rows.require([name], role)
    aside = {*groups, y, *theta, *costs}
    taken, left_out = choose_inputs(rows, aside, wanted, role="given as x")
    (recipe, matrix), target = learn(rows, taken), rows.numbers(y)
    ids, codes = group_codes(keys)
    group = _enough(_numbered(ids, groups)[codes], groups, rows.name)
    made = None if recipe.is_plain else recipe
    e = next(map(rows.numbers, theta), None)
    prices = None if cost is None else _prices(rows.numbers(cost), group, cost, rows.where)
    data = Dataset(OWN, matrix, _varying(target, y, rows.name), group, made, e, prices)
    return Labelled(rows.name, groups, y, taken, left_out, data)


def _prices(
    values: Float[np.ndarray, " N"], group: Int[np.ndarray, " N"], name: str, where: Any
) -> Float[np.ndarray, " A"]:
    """What measuring each group costs, from a column with the same number in all of its rows."""
    bad = ~((values >= CHEAPEST) & (values <= 1 / CHEAPEST))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"{where(row)}: {name!r:.80} is {values[row]:g}; a cost is a number above 0, from "
            f"{CHEAPEST:g} to {1 / CHEAPEST:g}. Correct it, or name another column."
        )
    prices = values[np.unique(group, return_index=True)[1]]
    others = np.flatnonzero(values != prices[group])
    if len(others):
        row = int(others[0])
        raise DataError(
            f"{where(row)}: {name!r:.80} is {values[row]:g}, and {prices[group[row]]:g} in the "
            "first row of its group. A cost is of the whole group; give all its rows the same."
        )
    return prices


def _numbered(ids: Sequence[Any], by: Sequence[str]) -> Int[np.ndarray, " A"]:
    """Numbers of groups: in order of first appearance, of values of the first column first."""
    columns = [ids] if len(by) == 1 else zip(*ids, strict=True)
    codes = np.column_stack([group_codes(column)[1] for column in columns])
    return np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
