"""`sumwise init` on Parquet files beyond memory: scanned, embedded to a folder, studied there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import rich_click as click

from sumwise import AggregateRegressor, Embedded, Sets
from sumwise.cli.output import talk, visible
from sumwise.data.parquet import find_files, open_parquet
from sumwise.data.tables import Individuals, listed
from sumwise.errors import DataError, SettingError

UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
COPIES: Final = 4  # of a table that are in memory while it is grouped and packed


class Size(click.ParamType):  # type: ignore[type-arg]
    """So many bytes, as people write them."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", str(value).strip(), re.IGNORECASE)
        if found is None:
            self.fail(f"{value!r} is no size; write 500MB or 2GB", param, ctx)
        size = float(found[1]) * UNITS[found[2].upper()]
        if not size < 2**63:
            self.fail(f"{str(value)[:20]!r}… is more than any machine has", param, ctx)
        return int(size)


class Table(click.ParamType):  # type: ignore[type-arg]
    """A path; or an address, whose slashes a path would lose."""

    name = "path"

    def convert(self, value: Any, param: Any, ctx: Any) -> Path | str:
        return str(value) if "://" in str(value) else Path(value)


def default_limit() -> int:
    """Half of the machine's memory."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (ValueError, OSError, AttributeError):  # a system that does not say
        return 4 * 10**9


def is_beyond(data: Path | str, limit: int) -> bool:
    """Whether the table is in several files or elsewhere, or would not fit."""
    if isinstance(data, str) or data.is_dir():
        return True
    if data.suffix.lower() != ".parquet" or not data.is_file():
        return False
    with open_parquet(str(data)) as file:
        about = file.metadata
        return bool(8 * about.num_rows * about.num_columns * COPIES > limit)


def embed_files(
    data: Path | str,
    by: Sequence[str],
    x: Sequence[str],
    weights: str,
    model: AggregateRegressor,
    place: Path,
    limit: int,
    dask: str | None,
    hidden: Sequence[str] = (),
) -> tuple[Embedded, Individuals]:
    """The design in the folder `place`, single precision if double would take half the limit."""
    groups, inputs = tuple(dict.fromkeys(by)), tuple(dict.fromkeys(x))
    taken, silent = (inputs, ()) if inputs else _numeric(data, (*groups, weights, *hidden))
    scan = Sets.scan_parquet(str(data), by=groups, x=taken, weights=weights)
    n_basis = model.n_basis * (3 if model.basis == "auto" else 1)  # or a little more
    widest = 8 * scan.rows * n_basis
    dtype = "float64" if widest <= limit // 2 else "float32"
    settings: dict[str, Any] = {"dtype": dtype, "memory": max(1, limit // 4)}
    if dask is None:
        made = model.embed(scan, place, **settings)
    else:
        from sumwise.distributed import connect, on

        with connect(dask) as client:
            made = model.embed(scan, place, run=on(client), **settings)
    return made, Individuals(made.sets, groups, taken, silent)


def _numeric(data: Path | str, used: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Columns that hold numbers, and those that do not, of the first file, but for those used."""
    import pyarrow as pa

    with open_parquet(find_files(str(data))[0]) as file:
        schema = file.schema_arrow
    t, rest = pa.types, [name for name in schema.names if name not in used]
    kinds = (t.is_integer, t.is_floating, t.is_decimal, t.is_boolean)
    taken = tuple(n for n in rest if any(kind(schema.field(n).type) for kind in kinds))
    if not taken:
        known = [name for name in schema.names if name in used]
        raise DataError(
            f"{data} has no input columns: nothing but {listed(known)} holds numbers. What is "
            "known of each individual must be there, as numbers."
        )
    return taken, tuple(name for name in rest if name not in taken)


def design_folder(url: str, data: Path | str, name: str | None) -> Path:
    """Beside a study in a file; else in the folder that we are in. Each name has its own."""
    more = "" if name is None else f"-{quote(name, safe=' ')}"
    if "://" in url:
        return Path(f"{Path(data).stem}{more}.design")
    place = Path(url)
    if not place.name or place.is_dir():
        raise SettingError(f"{url!r} is a folder; give the path of a file in it")
    return place.with_name(f"{place.stem}{more}.design")


def refuse_existing(url: str, name: str | None) -> None:
    """A study that is there already, before work on another that may take hours."""
    from sumwise.study.storage.records import names

    named = "study" if name is None else name
    if named in names(url):
        raise SettingError(
            f"there is a study called {named!r} already; give another name with --name, or begin "
            "anew in another file"
        )


@contextmanager
def going_on(place: Path) -> Iterator[None]:
    """Whoever stops it learns that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        talk(f"Stopped. What is done is in {visible(str(place), 200)}; the same command goes on.")
        raise


def refuse_options(sets_file: Path | None, basis: str | None) -> None:
    if sets_file is not None:
        raise SettingError("these individuals stay in their own files; leave --sets-file out")
    if basis == "neural":
        raise SettingError(
            "a network looks at all individuals after every answer, and these are beyond memory; "
            "choose another --basis, or raise --memory-limit"
        )
