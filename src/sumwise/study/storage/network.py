"""Whether a file lies where SQLite is not safe: on a network drive, or on a disk without locks.

In WAL mode all programs share memory, which works within one machine only, and the locks of many
network drives do not hold between machines (https://sqlite.org/wal.html). Without any locks two
programs would write at once; SQLite takes their absence for another program that never ends.
"""

from __future__ import annotations

import os
import re
import struct
import sys
import warnings
from functools import cache
from typing import Final

from sumwise.errors import StorageError
from sumwise.util.files import temporary_name

MOUNTS: Final = "/proc/self/mountinfo"  # of Linux; elsewhere only Windows' \\server\… is known
KINDS: Final = frozenset(
    (
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "smb2",
        "smb3",
        "smbfs",
        "curlftpfs",
        "gcsfuse",
        "gvfsd-fuse",
        "rclone",
        "s3fs",
        "sshfs",
    )
)


def warn(path: str) -> None:
    """Warn of a study on a network drive; Python shows the same warning once."""
    kind = kind_of(path)
    if kind is not None:
        warnings.warn(
            f"{path!r} is on a network drive ({kind}), where SQLite is not safe: answers can be "
            "lost or the file damaged if several machines use it. Keep it on a local disk, or use "
            "PostgreSQL for several machines.",
            stacklevel=2,
        )


def kind_of(path: str) -> str | None:
    """The kind of network drive on which a file lies; None on a local disk, or if unknown."""
    place = os.path.realpath(path)
    if place.startswith("\\\\"):
        return "a share"
    try:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.split() for line in file]
    except OSError:
        return None
    longest, found = 0, ""
    for words in lines:
        if "-" not in words[6:-1]:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), words[4])
        if (place + "/").startswith(point.rstrip("/") + "/") and len(point) >= longest:
            longest, found = len(point), words[words.index("-", 6) + 1]  # the last one is on top
    kind = found.removeprefix("fuse.")
    return kind if kind in KINDS else None


def refuse_without_locks(path: str) -> None:
    """Refuse a folder in which no lock keeps other programs out."""
    folder = os.path.dirname(path)
    try:
        missing = _missing_locks(folder, os.stat(folder).st_dev)
    except OSError:  # no file can be made there; SQLite says why
        return
    if missing:
        raise StorageError(
            f"{folder!r} is on a disk without file locks ({missing}): two programs could write at "
            "once and damage the study. Keep it on a local disk, or use PostgreSQL."
        )


@cache
def _missing_locks(folder: str, device: int) -> str:
    """Why locks do not work in a folder, tried on a file that is removed at once; "" if they do."""
    del device  # another disk may be mounted there later
    try:
        import fcntl
    except ImportError:
        return ""  # Windows, where every disk has them
    probe = temporary_name(os.path.join(folder, "lock"))
    with open(probe, "x+b") as one:
        try:
            other = open(probe, "r+b")  # noqa: SIM115
        finally:
            os.unlink(probe)
        with other:
            try:
                fcntl.lockf(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                return str(error.strerror)
            if not hasattr(fcntl, "F_OFD_SETLK") or sys.maxsize < 2**32:
                return ""
            lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            try:  # this lock belongs to `other` and not to the process, so it must be refused
                fcntl.fcntl(other, fcntl.F_OFD_SETLK, lock)
            except OSError:
                return ""
    return "they are given to two programs at once"
