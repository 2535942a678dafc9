"""Where Parquet files are, and whether they are still what they were.

A file is known by the checksum of its footer, which says where each column lies, how long it is
and from what to what its values go. Whoever reads a file that was looked at before compares it: a
design whose parts come from different versions of a file would be of nothing at all.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sumwise.errors import DataError, MissingExtraError, SettingError

TAIL: Final = 8  # bytes at the end of a file: the length of its footer, and PAR1


@dataclass(frozen=True, slots=True)
class File:
    """A Parquet file as its footer describes it."""

    path: str
    n_bytes: int
    group_rows: tuple[int, ...]  # rows of each row group
    footer: str = ""  # its checksum; files that were scanned by earlier versions have none

    @property
    def rows(self) -> int:
        return sum(self.group_rows)


def find_files(path: Any) -> list[str]:
    """The Parquet files of a file, a folder, an address, or several of these, in order.

    Paths become absolute, so that they mean the same wherever a study is opened.
    """
    found = list(_under(path))
    if not found:
        raise SettingError("the list of files is empty; name at least one file or folder")
    real: dict[str, str] = {}
    for name in found:
        where = name if "://" in name else os.path.realpath(name)
        if where in real:
            raise SettingError(
                f"{name} is there twice (also as {real[where]}), so its rows would count twice; "
                "name it once"
            )
        real[where] = name
    return found


def _under(path: Any) -> Iterator[str]:
    if isinstance(path, list | tuple):
        for one in path:
            yield from _under(one)
        return
    if not isinstance(path, str | os.PathLike) or not isinstance(where := os.fspath(path), str):
        raise SettingError(f"path is {path!r:.60}; give the path of a Parquet file or of a folder")
    if "://" in where:
        yield from _at_address(where)
        return
    place = Path(os.path.abspath(where)) if where else Path("")
    if where and place.is_dir():
        found = sorted(p for p in place.rglob("*.parquet") if p.is_file())  # folders may end so too
        kept = [str(p) for p in found if not _is_hidden(p.relative_to(place).parts)]
        if not kept:
            raise DataError(f"there are no files that end in .parquet in the folder {where}")
        yield from kept
    elif where and place.is_file():
        yield str(place)
    else:
        raise DataError(f"there is no file or folder {where}. Check the name.")


def _is_hidden(parts: tuple[str, ...]) -> bool:
    """What writers put beside their data, and what is not finished."""
    return any(part[:1] in (".", "_") for part in parts)


def _at_address(where: str) -> Iterator[str]:
    files, root = _remote(where)
    try:
        if files.isfile(root):
            yield where
            return
        named = sorted(name for name in files.find(root) if name.endswith(".parquet"))
    except OSError as error:
        raise DataError(f"{where} cannot be looked into ({error})") from error
    below = len(root.rstrip("/")) + 1
    kept = [name for name in named if not _is_hidden(tuple(name[below:].split("/")))]
    if not kept:
        raise DataError(f"there are no files that end in .parquet under {where}")
    for name in kept:
        yield name if "://" in name else files.unstrip_protocol(name)


def _remote(where: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise MissingExtraError(
            f"reading {where.split('://', 1)[0]}:// needs fsspec: pip install 'sumwise[dask]'"
        ) from error
    try:
        files, root = url_to_fs(where)
    except (ImportError, ValueError) as error:
        raise DataError(f"{where} cannot be opened ({error})") from error
    return files, root


def open_parquet(path: str, footer: str = "") -> Any:
    """A `pyarrow.parquet.ParquetFile`; what cannot be read is refused by name.

    Args:
        footer: What the checksum was; a file that has changed since is refused as well.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        if footer and footer_of(path) != footer:
            raise DataError(
                f"{path} is not what it was when it was scanned: somebody has written to it. "
                "Put the old file back, or scan again and embed into a new folder."
            )
        if "://" in path:
            files, root = _remote(path)
            return parquet.ParquetFile(files.open(root, "rb"))
        return parquet.ParquetFile(path)
    except FileNotFoundError as error:
        raise DataError(
            f"there is no file {path} (any more). Individuals are read from it; put it back."
        ) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(f"{path} cannot be read as Parquet ({reason:.200})") from error


def footer_of(path: str) -> str:
    """The checksum of a file's footer."""
    files, root = _remote(path) if "://" in path else (None, path)
    with open(root, "rb") if files is None else files.open(root, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - TAIL - length))
        return hashlib.sha256(file.read(length + TAIL)).hexdigest()


def size_of(path: str) -> int:
    if "://" not in path:
        return os.path.getsize(path)
    files, root = _remote(path)
    return int(files.size(root) or 0)
