"""Files that are written whole or not at all, a lock between processes, and checksums."""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import secrets
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Final

import numpy as np

from sumwise.errors import DataError
from sumwise.util.memory import read_parquet

PARTIAL: Final = ".sumwise-"  # temporary files are called .sumwise-<random>.part


def temporary_name(path: str | os.PathLike[str], suffix: str = ".part") -> str:
    """A name beside `path` that no other file has."""
    folder = os.path.dirname(os.path.abspath(os.fspath(path)))
    return os.path.join(folder, f"{PARTIAL}{secrets.token_hex(8)}{suffix}")


@contextmanager
def atomic_write(
    path: str | os.PathLike[str],
    *,
    overwrite: bool = True,
    durable: bool = False,
    mode: int = 0o666,
) -> Iterator[IO[bytes]]:
    """A file to write to; it appears as `path` when the block ends, and not if the block fails.

    Args:
        overwrite: Without it, a file that is there already raises `FileExistsError`.
        durable: Wait for the file's name to be on the disk, not only for its content.
        mode: Permissions, from the first moment on; the umask applies.
    """
    partial = temporary_name(path)
    try:  # "x" makes a new file and follows no link
        with open(partial, "x+b", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        (os.replace if overwrite else _link)(partial, path)
        if durable:
            sync_folder(os.path.dirname(partial))
    finally:
        with suppress(OSError):  # it has its final name, or was never made
            os.unlink(partial)


def _link(partial: str, path: str | os.PathLike[str]) -> None:
    """Give a file another name; unlike a rename this refuses to overwrite."""
    try:
        os.link(partial, path)
    except FileExistsError:
        raise
    except OSError:  # a disk without hard links
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "File exists", os.fspath(path)) from None
        os.replace(partial, path)


def write_file(
    path: str | os.PathLike[str], content: bytes | str, *, durable: bool = False
) -> None:
    """Write a whole file atomically; text is stored as UTF-8."""
    with atomic_write(path, durable=durable) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name != "posix":  # other systems cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def lock(path: str | os.PathLike[str], refusal: str) -> Iterator[None]:
    """Hold a lock between processes; raises `DataError(refusal)` if another process holds it.

    The file exists only while the lock is held. Where the system has no such locks, every process
    gets it; where only the disk has none, with a warning.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    while True:
        file = os.fdopen(os.open(path, flags, 0o666), "r+b")
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                break
        except BlockingIOError:
            file.close()
            raise DataError(refusal) from None
        except FileNotFoundError:  # its last holder removed it before we had locked it
            pass
        except ImportError:
            break
        except OSError as error:
            warnings.warn(
                f"{os.fspath(path)!r} cannot be locked ({error.strerror}): do not run two programs "
                "there at once, because what one of them writes could be lost.",
                stacklevel=4,
            )
            break
        file.close()
    try:
        yield
    finally:
        with file, suppress(OSError):
            os.unlink(path)


def sha256_of(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file; the empty string if it is missing."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, IsADirectoryError):
        return ""


def copied(path: str | os.PathLike[str], to: str | os.PathLike[str]) -> str:
    """Copy a file to a place where none is; gives the SHA-256 of what was copied."""
    digest = hashlib.sha256()
    with open(path, "rb") as file, open(to, "xb") as copy:
        while content := file.read(2**20):
            digest.update(content)
            copy.write(content)
        copy.flush()
        os.fsync(copy.fileno())
    return digest.hexdigest()


def parquet_table(content: bytes) -> Any:
    """The table in a Parquet file, read without Arrow's threads.

    One that still held `content` at exit would abort the program (apache/arrow 34314).
    """
    from pyarrow import BufferReader, parquet

    file = parquet.ParquetFile(BufferReader(content), pre_buffer=False)
    return read_parquet(file, "the table")


def let_go(rows: np.ndarray) -> None:
    """Give back the memory of rows of a mapped file, which stay in the system's cache of files."""
    whole: Any = rows
    while isinstance(whole, np.ndarray):
        whole = whole.base
    if isinstance(whole, mmap.mmap) and hasattr(whole, "madvise"):
        begin = rows.ctypes.data - np.frombuffer(whole, np.uint8).ctypes.data
        first, last = -(-begin // mmap.PAGESIZE), (begin + rows.nbytes) // mmap.PAGESIZE
        if last > first:
            whole.madvise(mmap.MADV_DONTNEED, first * mmap.PAGESIZE, (last - first) * mmap.PAGESIZE)
