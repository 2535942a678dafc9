"""Results of many runs in one folder, kept run by run.

`runs.csv` has a line per query; the lines of a run are appended together, so a crash or Ctrl-C
loses at most the run under way, and a second call goes on where the first stopped. `settings.json`
says what the runs have in common; results of other settings, or of another version, are refused
rather than mixed.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from sumwise.errors import DataError
from sumwise.experiments.protocol import Curve
from sumwise.shapes import Float

FORMAT: Final = 1
FIELDS: Final = ("dataset", "method", "split", "query", "mse", "seconds")

Cell = tuple[str, str, int]  # data set, method, split


@dataclass(frozen=True, slots=True)
class Results:
    """A folder that results are kept in."""

    folder: Path
    queries: int

    @property
    def runs(self) -> Path:
        return self.folder / "runs.csv"


def open_results(folder: Path, table: str, queries: int) -> Results:
    """Begin a folder of results, or go on with it; whatever does not fit is refused."""
    settings = {"format": FORMAT, "table": table, "queries": queries}
    path = folder / "settings.json"
    results = Results(folder, queries)
    if path.is_file():
        _refuse_other_settings(path, settings)
    elif results.runs.exists():
        raise DataError(
            f"{results.runs} has no settings.json beside it: it was not written by this program. "
            "Choose another --out."
        )
    else:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings) + "\n", encoding="utf-8")
    _repair(results)
    return results


def _refuse_other_settings(path: Path, settings: Mapping[str, Any]) -> None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("it holds no settings")
    except ValueError as error:
        raise DataError(f"{path} cannot be read ({error}). Choose another --out.") from None
    if found.get("format") != FORMAT:
        raise DataError(
            f"{path} is of format {found.get('format')!r}; this version writes format {FORMAT}. "
            "Choose another --out; nothing was changed."
        )
    for name, value in settings.items():
        if found.get(name) != value:
            raise DataError(
                f"the results in {path.parent} are of {name} {found.get(name)!r}, not {value!r}. "
                "Choose another --out; nothing was changed."
            )


def _repair(results: Results) -> None:
    """Drop a last line that was cut off, and runs that lack queries."""
    if not results.runs.exists():
        _replace(results.runs, [])
        return
    curves = read(results)
    text = results.runs.read_text(encoding="utf-8")
    if text.count("\n") - 1 != sum(len(curve.mse) for curve in curves) or text[-1:] != "\n":
        _replace(results.runs, curves)


def _replace(path: Path, curves: Sequence[Curve]) -> None:
    partial = path.with_suffix(".part")
    with partial.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerow(FIELDS)
        csv.writer(file).writerows(line for curve in curves for line in _lines(curve))
    partial.replace(path)


def _lines(curve: Curve) -> Iterable[tuple[object, ...]]:
    for query, (mse, seconds) in enumerate(zip(curve.mse, curve.seconds, strict=True), start=1):
        # repr of a float gives the same float back
        yield (
            curve.dataset,
            curve.method,
            curve.split,
            query,
            repr(float(mse)),
            f"{seconds:.6f}",
        )


def append(results: Results, curves: Sequence[Curve]) -> None:
    """Keep these runs; when this returns they are on the disk."""
    with results.runs.open("a", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(line for curve in curves for line in _lines(curve))
        file.flush()
        os.fsync(file.fileno())


def read(results: Results) -> list[Curve]:
    """All whole runs, in the order they were kept."""
    found: dict[Cell, dict[int, tuple[float, float]]] = {}
    with results.runs.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    if not lines or tuple(lines[0]) != FIELDS:
        raise DataError(
            f"{results.runs} does not begin with {','.join(FIELDS)}. Choose another --out."
        )
    for number, line in enumerate(lines[1:], start=2):
        try:
            dataset, method, split, query, mse, seconds = line
            at = found.setdefault((dataset, method, int(split)), {})
            at.setdefault(int(query), (float(mse), float(seconds)))
        except ValueError:
            if number == len(lines):  # a crash cut it off
                break
            raise DataError(
                f"{results.runs}, line {number} is damaged: {','.join(line)!r:.80}. Delete it to "
                "have its run done again."
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
