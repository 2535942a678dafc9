"""The folder of a design that is being made: whose it is, and what was begun there."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from sumwise.errors import DataError, SettingError
from sumwise.outofcore.design_store import PIECES, read_json
from sumwise.util.files import PARTIAL, lock, sha256_of, write_file

LOCK: Final = "lock"
SORTED: Final = "_sorted"  # which no scan of a folder around it would read


@contextmanager
def only_writer(folder: str) -> Iterator[None]:
    """Refuse a second process that would write to the same design at the same time."""
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, "begun.json")):
        _refuse_others(folder)
    busy = f"another process is embedding to {folder}; wait for it, or name another folder"
    with lock(os.path.join(folder, LOCK), busy):
        yield


def _refuse_others(folder: str) -> None:
    """What is in the folder must be ours, or leftovers of a run that was stopped."""
    ours = (*PIECES, "u.npy", SORTED, "parts", LOCK, "begun.json")
    begun = (PARTIAL, *(f"{name}." for name in ours))  # a former version wrote basis.npz.77.part
    for name in os.listdir(folder):
        if name not in ours and not (name.startswith(begun) and name.endswith(".part")):
            raise SettingError(f"{folder} is a folder with other files in it; name a new one")


def read_begun(folder: str) -> Any:
    """What was written when the design was begun, and not by somebody else since."""
    known = read_json(folder, "begun.json")
    if not isinstance(known, dict) or known.pop("sha256", None) != _digest(known):
        raise _damaged(folder, "begun.json")
    for name, digest in known["pieces"].items():
        if sha256_of(os.path.join(folder, name)) != digest:
            raise _damaged(folder, name)
    if not os.path.isfile(os.path.join(folder, "u.npy")):
        raise _damaged(folder, "u.npy")
    return known


def _damaged(folder: str, name: str) -> DataError:
    return DataError(
        f"{os.path.join(folder, name)} is not what it was when the design was begun. Remove "
        f"{folder} and embed again."
    )


def write_begun(folder: str, known: Mapping[str, Any]) -> None:
    """The last thing that is written before parts are worked on."""
    pieces = {name: sha256_of(os.path.join(folder, name)) for name in PIECES[:3]}
    plain = json.loads(json.dumps({**known, "pieces": pieces}))
    content = json.dumps({**plain, "sha256": _digest(plain)}).encode()
    write_file(os.path.join(folder, "begun.json"), content)


def _digest(known: Any) -> str:
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
