"""The individuals of `sumwise init`: a table in memory, or Parquet files and a design on disk."""

from __future__ import annotations

import os
import re
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import rich_click as click

from sumwise import AggregateRegressor, Embedded, Sets
from sumwise.cli.common import waiting
from sumwise.cli.objective_options import Objective
from sumwise.cli.options import Address
from sumwise.cli.output import talk, visible
from sumwise.data.parquet import find_files, open_parquet
from sumwise.data.tables import Individuals, read_individuals, split_inputs
from sumwise.distributed import connect, on
from sumwise.errors import SettingError

UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
COPIES: Final = 4  # of a table that are in memory while it is grouped and packed


def size(text: str) -> int:
    """A number of bytes, such as 2GB."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if found is None:
        raise click.BadParameter(f"{text!r} is no size; write 500MB or 2GB")
    given = float(found[1]) * UNITS[found[2].upper()]
    if not given < 2**63:
        raise click.BadParameter(f"{text[:20]!r}… is more than any machine has")
    return int(given)


def path_or_address(text: str) -> Path | str:
    """A path; or an address as text, because a path would lose its slashes."""
    return text if "://" in text else Path(text)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of individuals as it was named on the command line."""

    data: Path | str
    by: tuple[str, ...]
    x: tuple[str, ...]
    weights: str
    memory_limit: int | None
    dask: str | None

    @property
    def limit(self) -> int:
        """Bytes that the table may take in memory: as given, or half of the machine's memory."""
        if self.memory_limit is not None:
            return self.memory_limit
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        except (ValueError, OSError, AttributeError):  # the system does not tell
            return 4 * 10**9

    @property
    def is_large(self) -> bool:
        """Whether the table stays in its files: a folder, an address, or above the limit."""
        data = self.data
        if self.dask is not None or isinstance(data, str) or data.is_dir():
            return True
        if data.suffix.lower() != ".parquet" or not data.is_file():
            return False
        with open_parquet(str(data)) as file:
            about = file.metadata
            return bool(8 * about.num_rows * about.num_columns * COPIES > self.limit)


def read(
    table: Table,
    address: Address,
    model: AggregateRegressor,
    objective: Objective,
    sets_file: Path | None,
) -> tuple[Sets | Embedded, Individuals]:
    """The sets that a study is made of, and the columns they come from."""
    if table.is_large:
        if sets_file is not None:
            raise SettingError("these individuals stay in their own files; leave --sets-file out")
        return _embed(table, address, model, objective)
    path = Path(table.data)
    with waiting(f"reading {visible(path.name)}"):
        made = read_individuals(
            path, table.by, table.x, table.weights, objective.columns, objective.hidden
        )
    return made.sets, made


def _embed(
    table: Table, address: Address, model: AggregateRegressor, objective: Objective
) -> tuple[Embedded, Individuals]:
    """A design on disk, in single precision if double precision would take half the limit."""
    objective.refuse_columns()
    place = _design_folder(table.data, address)
    _refuse_existing(address)
    by, inputs = tuple(dict.fromkeys(table.by)), tuple(dict.fromkeys(table.x))
    used = {*by, table.weights, *objective.columns, *objective.hidden}
    x, left_out = inputs, tuple[str, ...]()
    if not inputs:
        with open_parquet(find_files(str(table.data))[0]) as file:
            first = file.schema_arrow.empty_table()
        x, left_out = split_inputs(first, used, table.data)
    scan = Sets.scan_parquet(str(table.data), by=by, x=x, weights=table.weights)
    n_basis = model.n_basis * (3 if model.basis == "auto" else 1)  # or a little more
    dtype = "float64" if 8 * scan.rows * n_basis <= table.limit // 2 else "float32"
    where = visible(str(place), 200)
    try:
        with nullcontext() if table.dask is None else connect(table.dask) as client:
            run = None if client is None else on(client)
            memory = max(1, table.limit // 4)
            made = model.embed(scan, place, dtype=dtype, memory=memory, run=run)
    except KeyboardInterrupt:
        talk(f"Stopped. Finished parts are in {where}; the same command continues.")
        raise
    talk(f"The design of {visible(str(table.data), 200)} is in {where}.")
    return made, Individuals(made.sets, by, x, left_out)


def _design_folder(data: Path | str, address: Address) -> Path:
    """Beside a study in a file, else in the current folder; each name has its own."""
    more = "" if address.name is None else f"-{quote(address.name, safe=' ')}"
    if "://" in address.url:
        return Path(f"{Path(data).stem}{more}.design")
    place = Path(address.url)
    if not place.name or place.is_dir():
        raise SettingError(f"{address.url!r} is a folder; give the path of a file in it")
    return place.with_name(f"{place.stem}{more}.design")


def _refuse_existing(address: Address) -> None:
    """Refuse a name that is taken, before work that may take hours."""
    from sumwise.study.storage.records import names

    named = "study" if address.name is None else address.name
    if named in names(address.url):
        raise SettingError(
            f"there is a study called {named!r} already; give another name with --name, or name "
            "another database"
        )
