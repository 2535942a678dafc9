"""Whether a file lies on a network drive, where SQLite's log may lose what was acknowledged.

In WAL mode all programs share memory, which works within one machine only, and the locks of many
network drives do not hold between machines (https://sqlite.org/wal.html).
"""

from __future__ import annotations

import os
import re
import warnings
from typing import Final

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
