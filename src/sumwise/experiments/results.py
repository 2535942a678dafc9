"""Results of many runs in one folder, kept run by run.

`runs.csv` has a line per query; the lines of a run are appended together, so a crash or Ctrl-C
loses at most the run under way, and a second call goes on where the first stopped. `settings.json`
says what the runs have in common; results of other settings, other data or another version are
refused rather than mixed.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import sumwise
from sumwise.errors import DataError
from sumwise.experiments.datasets import NAMES
from sumwise.experiments.protocol import NEURAL, Curve
from sumwise.util.files import lock, write_file
from sumwise.util.shapes import Float

FORMAT: Final = 1
FIELDS: Final = ("dataset", "method", "split", "query", "mse", "seconds")
OURS: Final = ("runs.csv", "table.csv", "table.md", "report.html")  # what we write beside it

Cell = tuple[str, str, int]  # data set, method, split


@dataclass(frozen=True, slots=True)
class Results:
    """A folder that results are kept in."""

    folder: Path
    queries: int

    @property
    def runs(self) -> Path:
        return self.folder / "runs.csv"

    @property
    def settings(self) -> Path:
        return self.folder / "settings.json"


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Refuse a second process that would write here at the same time."""
    folder.mkdir(parents=True, exist_ok=True)
    busy = f"another process is writing to {folder}; wait for it, or choose another --out"
    with lock(folder / "lock", busy):
        yield


def open_results(
    folder: Path, table: str, queries: int, data: Mapping[str, str] | None = None
) -> Results:
    """Begin a folder of results, or go on with it; whatever does not fit is refused.

    Args:
        data: A fingerprint for each data set that will be run.
    """
    results = Results(folder, queries)
    settings: dict[str, Any] = {
        "format": FORMAT,
        "sumwise": sumwise.__version__,
        "table": table,
        "queries": queries,
    }
    known: dict[str, str] = {}
    if results.settings.is_file():
        known = _refuse_other_settings(results.settings, settings, data or {})
    else:
        for name in OURS:
            if (folder / name).exists():
                raise DataError(
                    f"{folder / name} has no settings.json beside it: it was not written by this "
                    "program. Choose another --out; nothing was changed."
                )
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**settings, "data": {**known, **(data or {})}}) + "\n"
    write_file(results.settings, text)
    _repair(results)
    return results


def _refuse_other_settings(
    path: Path, settings: Mapping[str, Any], data: Mapping[str, str]
) -> dict[str, str]:
    """The fingerprints that are known already."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        known = found["data"]
        if not isinstance(known, dict):
            raise TypeError("its data are no list of names")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"{path} cannot be read ({error}). Choose another --out.") from None
    for name, value in settings.items():
        if found.get(name) != value:
            raise DataError(
                f"the results in {path.parent} are of {name} {found.get(name)!r}, not {value!r}. "
                "Choose another --out; nothing was changed."
            )
    for name, fingerprint in data.items():
        if known.get(name, fingerprint) != fingerprint:
            raise DataError(
                f"the results in {path.parent} are of another {name}: its data have changed. "
                "Choose another --out; nothing was changed."
            )
    return {str(name): str(fingerprint) for name, fingerprint in known.items()}


def _repair(results: Results) -> None:
    """Drop a last line that was cut off, and runs that lack queries; keep a copy of what was."""
    text = results.runs.read_text(encoding="utf-8", errors="replace") if _size(results) else ""
    curves = read(results) if text else []
    whole = "".join([_line(FIELDS), *(line for curve in curves for line in _lines(curve))])
    if text.count("\n") != whole.count("\n") or text[-1:] != "\n":
        if text:
            shutil.copy(results.runs, results.runs.with_suffix(".csv.bak"))
        write_file(results.runs, whole)


def _size(results: Results) -> int:
    return results.runs.stat().st_size if results.runs.exists() else 0


def _line(cells: Iterable[object]) -> str:
    return ",".join(map(str, cells)) + "\n"


def _lines(curve: Curve) -> Iterator[str]:
    for query, (mse, seconds) in enumerate(zip(curve.mse, curve.seconds, strict=True), start=1):
        # repr of a float gives the same float back
        cells = (curve.dataset, curve.method, curve.split, query, repr(float(mse)))
        yield _line((*cells, f"{seconds:.6f}"))


def append(results: Results, curves: Sequence[Curve]) -> None:
    """Keep these runs; when this returns they are on the disk."""
    with results.runs.open("a", encoding="utf-8", newline="") as file:
        file.write("".join(line for curve in curves for line in _lines(curve)))
        file.flush()
        os.fsync(file.fileno())


def read(results: Results) -> list[Curve]:
    """All whole runs, in the order they were kept."""
    try:
        *lines, rest = results.runs.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{results.runs} cannot be read ({error}). Choose another --out.") from None
    del rest  # without an end of line: a crash cut it off
    if not lines or lines[0] != ",".join(FIELDS):
        raise DataError(
            f"{results.runs} does not begin with {','.join(FIELDS)}. Choose another --out."
        )
    found: dict[Cell, dict[int, tuple[float, float]]] = {}
    for number, line in enumerate(lines[1:], start=2):
        try:
            dataset, method, split, query, mse, seconds = line.split(",")
            if not 0 <= float(mse) < math.inf:
                raise ValueError("an error is a number of at least 0")
            if dataset not in NAMES or method not in NEURAL.methods:  # all there are
                raise ValueError("no such data set or method")
            at = found.setdefault((dataset, method, int(split)), {})
            at.setdefault(int(query), (float(mse), float(seconds)))
        except ValueError:
            raise DataError(
                f"{results.runs}, line {number} is damaged: {line!r:.80}. Delete it to have its "
                "run done again."
            ) from None
    whole = set(range(1, results.queries + 1))
    curves = []
    for cell, at in found.items():
        if set(at) == whole:
            mse, seconds = np.array([at[query] for query in sorted(at)]).T
            curves.append(Curve(*cell, mse, seconds))
    return curves


def done(curves: Iterable[Curve]) -> set[Cell]:
    return {(curve.dataset, curve.method, curve.split) for curve in curves}


def by_dataset(curves: Iterable[Curve]) -> dict[str, dict[str, Float[np.ndarray, "S T"]]]:
    """For each data set and method the errors, a split a row, over the splits all methods have."""
    cells: dict[str, dict[str, dict[int, Float[np.ndarray, " T"]]]] = {}
    for curve in curves:
        cells.setdefault(curve.dataset, {}).setdefault(curve.method, {})[curve.split] = curve.mse
    out = {}
    for dataset, methods in cells.items():
        shared = sorted(set.intersection(*(set(splits) for splits in methods.values())))
        if shared:
            out[dataset] = {m: np.array([runs[s] for s in shared]) for m, runs in methods.items()}
    return out
