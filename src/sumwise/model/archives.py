"""Arrays as bytes and back: NumPy archives, which hold numbers and nothing that could be run."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from sumwise.errors import DataError

# what NumPy and zipfile raise over bytes that are no archive, or one that was damaged
_UNREADABLE = (
    AttributeError,
    EOFError,
    KeyError,
    NotImplementedError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def to_bytes(arrays: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **{name: np.asarray(a) for name, a in arrays.items()})
    return file.getvalue()


def from_bytes(kept: bytes, what: str) -> dict[str, np.ndarray]:
    """The arrays that `to_bytes` kept; anything else is refused as no `what`."""
    try:
        with np.load(io.BytesIO(kept), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except _UNREADABLE as error:
        raise DataError(f"{what} cannot be read ({error})") from error
