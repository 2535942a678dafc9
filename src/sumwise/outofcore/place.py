"""Where a design is: a folder on a disk, or an address in a store that fsspec knows (s3://, …).

Small files are written and read whole. Large ones are mapped to memory if they are on a disk. From
a store some megabytes are fetched at a time and compared with their checksum; the last few are
kept. Objects of a store appear when they are whole, as files do here.
"""

from __future__ import annotations

import hashlib
import io
import os
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sumwise.errors import DataError, needs_extra
from sumwise.util.files import sha256_of, write_file
from sumwise.util.shapes import Int

FETCHED: Final = 2**23  # bytes of a region in a store, about
KEPT: Final = 2**28  # bytes of regions that a process keeps
SINGLE: Final = 16  # rows of a region that are fetched one by one; of more, all of it is


def is_address(folder: str) -> bool:
    """Whether it is a store, not a folder on a disk."""
    return "://" in os.fspath(folder)


def normal(folder: str) -> str:
    """An address without the slash at its end; `file://` is a folder."""
    if folder.startswith("file://"):
        return folder.removeprefix("file://")
    return folder.rstrip("/") if is_address(folder) else folder


def absolute(folder: str) -> str:
    """The same from wherever it is read."""
    return folder if is_address(folder) else os.path.abspath(folder)


def inside(folder: str, name: str) -> str:
    return f"{folder}/{name}" if is_address(folder) else os.path.join(folder, name)


def store_of(folder: str) -> tuple[Any, str]:
    """The store as fsspec has it, and the path in it."""
    with needs_extra(f"{folder.split('://', 1)[0]}://", "dask"):
        from fsspec.core import url_to_fs
    try:
        store, root = url_to_fs(folder)
    except (ImportError, ValueError) as error:
        raise DataError(f"{folder} cannot be opened ({error})") from error
    return store, str(root).rstrip("/")


@contextmanager
def _reached(folder: str) -> Iterator[None]:
    """What a store says when it cannot be reached, as a `DataError`."""
    try:
        yield
    except (FileNotFoundError, DataError):
        raise
    except Exception as error:  # each store has errors of its own
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise DataError(f"{folder} cannot be reached ({reason:.200})") from error


def read(folder: str, name: str) -> bytes:
    """A whole file."""
    if not is_address(folder):
        with open(os.path.join(folder, name), "rb") as file:
            return file.read()
    store, root = store_of(folder)
    with _reached(folder):
        return bytes(store.cat_file(f"{root}/{name}"))


def write(folder: str, name: str, content: bytes | str, *, durable: bool = False) -> None:
    """Write a whole file, which appears when it is complete."""
    if not is_address(folder):
        write_file(os.path.join(folder, name), content, durable=durable)
        return
    store, root = store_of(folder)
    with _reached(folder):
        store.pipe_file(f"{root}/{name}", content.encode() if isinstance(content, str) else content)


def exists(folder: str, name: str) -> bool:
    if not is_address(folder):
        return os.path.exists(os.path.join(folder, name))
    store, root = store_of(folder)
    with _reached(folder):
        return bool(store.exists(f"{root}/{name}"))


def listed(folder: str) -> list[str]:
    """Names of all files, those in folders inside included, with slashes."""
    if not is_address(folder):
        found = (
            os.path.relpath(os.path.join(path, name), folder)
            for path, _, names in os.walk(folder)
            for name in names
        )
        return sorted(name.replace(os.sep, "/") for name in found)
    store, root = store_of(folder)
    with _reached(folder):
        store.invalidate_cache()
        try:
            found = store.find(root)
        except FileNotFoundError:
            return []
        return sorted(str(path).split(f"{root}/", 1)[-1] for path in found)


def remove(folder: str, names: Sequence[str]) -> None:
    """Remove files, those that are there."""
    for name in names:
        if not is_address(folder):
            path = os.path.join(folder, name)
            if os.path.lexists(path):
                os.unlink(path)
            continue
        store, root = store_of(folder)
        with _reached(folder):
            if store.exists(f"{root}/{name}"):
                store.rm_file(f"{root}/{name}")


def sha256(folder: str, name: str) -> str:
    """SHA-256 of a file; the empty string if it is missing."""
    if not is_address(folder):
        return sha256_of(os.path.join(folder, name))
    try:
        return hashlib.sha256(read(folder, name)).hexdigest()
    except FileNotFoundError:
        return ""


def load(folder: str, name: str) -> np.ndarray:
    """An array that was saved."""
    content: Any = os.path.join(folder, name)
    if is_address(folder):
        content = io.BytesIO(read(folder, name))
    found: np.ndarray = np.load(content, allow_pickle=False)
    return found


def saved(array: Any) -> bytes:
    """What `load` reads."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


# --- rows -----------------------------------------------------------------------------------------


def checksum(folder: str, name: str, offset: int, n_bytes: int) -> int:
    """CRC-32 of some bytes of a file; -1 if it is too short."""
    found, left = 0, n_bytes
    if is_address(folder):
        content = _range(folder, name, offset, n_bytes)
        return zlib.crc32(content) if len(content) == n_bytes else -1
    with open(os.path.join(folder, name), "rb") as file:
        file.seek(offset)
        while left > 0:
            content = file.read(min(left, 2**24))
            if not content:
                return -1
            found, left = zlib.crc32(content, found), left - len(content)
    return found


def _range(folder: str, name: str, offset: int, n_bytes: int) -> bytes:
    store, root = store_of(folder)
    try:
        with _reached(folder):
            return bytes(store.cat_file(f"{root}/{name}", start=offset, end=offset + n_bytes))
    except FileNotFoundError:
        return b""


def mapped(
    folder: str, name: str, offset: int, shape: tuple[int, int], dtype: np.dtype[Any]
) -> np.ndarray:
    """Rows of a file on a disk, mapped to memory."""
    path = os.path.join(folder, name)
    return np.memmap(path, dtype, "r", offset, shape).view(np.ndarray)


@dataclass(frozen=True, eq=False, repr=False)
class Remote:
    """Rows of an object in a store; see `Parted`. What is read whole is compared."""

    folder: str
    name: str
    offset: int
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    checksum: int
    damaged: Callable[[], Exception]
    reading: Any = field(default_factory=threading.Lock)  # of two threads, one fetches it

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: slice | Int[np.ndarray, " n"]) -> np.ndarray:
        if isinstance(index, slice):
            return self._whole()[index]
        if len(index) > SINGLE or len(index) == self.shape[0]:
            return self._whole()[index]
        held = REGIONS.get(self._key)
        return held[index] if held is not None else self._some(index)

    @property
    def _key(self) -> tuple[str, str, int, int]:
        return self.folder, self.name, self.offset, self.checksum

    def _some(self, rows: Int[np.ndarray, " n"]) -> np.ndarray:
        """Some rows, each by a range of its own, all at once."""
        store, root = store_of(self.folder)
        width = self.shape[1] * self.dtype.itemsize
        begin = [self.offset + width * row for row in rows.tolist()]
        ends = [at + width for at in begin]
        with _reached(self.folder):
            names = [f"{root}/{self.name}"] * len(begin)
            found = store.cat_ranges(names, begin, ends, on_error="raise")
        content = b"".join(bytes(each) for each in found)
        if len(content) != width * len(begin):
            raise self.damaged()
        return np.frombuffer(content, self.dtype).reshape(len(rows), self.shape[1])

    def _whole(self) -> np.ndarray:
        with self.reading:
            held = REGIONS.get(self._key)
            if held is None:
                n_bytes = self.shape[0] * self.shape[1] * self.dtype.itemsize
                content = _range(self.folder, self.name, self.offset, n_bytes)
                if len(content) != n_bytes or zlib.crc32(content) != self.checksum:
                    raise self.damaged()
                held = np.frombuffer(content, self.dtype).reshape(self.shape)
                REGIONS.put(self._key, held)
            return held


class _Cache:
    """The regions that were read last, by all designs of a process."""

    def __init__(self) -> None:
        self._held: OrderedDict[Any, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def n_bytes(self) -> int:
        """What they take."""
        return sum(each.nbytes for each in self._held.values())

    def get(self, key: Any) -> np.ndarray | None:
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
            return found

    def put(self, key: Any, rows: np.ndarray) -> None:
        with self._lock:
            self._held[key] = rows
            while self.n_bytes > KEPT:
                self._held.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._held.clear()


REGIONS: Final = _Cache()
