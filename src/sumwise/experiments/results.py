"""The paper's experiments, and ours beside them: run in parallel, stored run by run in one folder.

`runs.csv` has a line per query or, where intervals are counted, a line per run, with blank cells
at its end if the run had to stop for lack of sets. The lines of a run are appended together, so a
crash or Ctrl-C loses at most the runs under way, and a second call goes on where the first stopped.
Results of other settings, other data or another version are refused rather than mixed:
`settings.json` says what all runs have in common, and a line per run names the fingerprint of its
data.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Final

import numpy as np

import sumwise
from sumwise.errors import DataError
from sumwise.experiments import datasets, protocol
from sumwise.experiments.protocol import NEURAL, REPRODUCTIONS, Curve, Experiment, RunKey, Split
from sumwise.model.basis import Neural
from sumwise.util.files import lock, write_file
from sumwise.util.shapes import Float

FORMAT: Final = 1
WRITTEN: Final = ("runs.csv", "table.csv", "table.md", "report.html")  # beside settings.json
UNCHANGED: Final = "Choose another --out; nothing was changed."


@dataclass(frozen=True, slots=True)
class Results:
    """A folder of results."""

    folder: Path
    experiment: Experiment
    data: Mapping[str, str]  # fingerprint of each data set

    @property
    def runs(self) -> Path:
        return self.folder / "runs.csv"

    @property
    def settings(self) -> Path:
        return self.folder / "settings.json"

    @property
    def by_run(self) -> bool:
        """Whether `runs.csv` has a line per run, not per query."""
        return bool(self.experiment.checked)

    @property
    def fields(self) -> tuple[str, ...]:
        if not self.by_run:
            return ("dataset", "method", "split", "query", "mse", "seconds")
        known, checked = self.experiment.counted, self.experiment.checked
        shares = (f"{what}_{query}" for what in known for query in checked)
        errors = (f"mse_{query}" for query in range(1, self.experiment.queries + 1))
        return ("dataset", "line", "split", "data", *shares, *errors)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Refuse a second process that would write here at the same time."""
    folder.mkdir(parents=True, exist_ok=True)
    busy = f"another process is writing to {folder}; wait for it, or choose another --out"
    with lock(folder / "lock", busy):
        yield


def open_results(folder: Path, experiment: Experiment, data: Mapping[str, str]) -> Results:
    """Begin a folder of results, or go on with it; results that do not fit are refused.

    A last line that was cut off and runs that lack queries are dropped; a copy keeps them.

    Args:
        data: A fingerprint for each data set that will be run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = Results(folder, experiment, data)
    known = {} if results.by_run else _read_settings(results)
    curves, text = read(results), _text(results)
    if results.by_run:
        known = {line.split(",")[0]: line.split(",")[3] for line in _lines(results)}
    for name, fingerprint in data.items():
        if known.get(name, fingerprint) != fingerprint:
            raise DataError(
                f"the results in {folder} are of another {name}: its data have changed. {UNCHANGED}"
            )
    results = Results(folder, experiment, {**known, **data})
    if not results.by_run:
        settings = {**_settings(experiment), "data": results.data}
        write_file(results.settings, json.dumps(settings) + "\n")
    whole = "".join([_line(results.fields), *_rows(results, curves)])
    if text != whole:
        if text:
            write_file(results.runs.with_suffix(".csv.bak"), results.runs.read_bytes())
        write_file(results.runs, whole)
    return results


def _settings(experiment: Experiment) -> dict[str, object]:
    """What all runs of a folder have in common."""
    return {
        "format": FORMAT,
        "sumwise": sumwise.__version__,
        "table": experiment.name,
        "queries": experiment.queries,
    }


def _read_settings(results: Results) -> dict[str, str]:
    """The fingerprints in settings.json, which must be of this experiment."""
    path = results.settings
    if not path.is_file():
        for written in (results.folder / name for name in WRITTEN):
            if written.exists():
                raise DataError(
                    f"{written} has no settings.json beside it: it was not written by this "
                    f"program. {UNCHANGED}"
                )
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        known = dict(found["data"].items())
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"{path} cannot be read ({error}). Choose another --out.") from None
    for name, value in _settings(results.experiment).items():
        if found.get(name) != value:
            raise DataError(
                f"the results in {path.parent} are of {name} {found.get(name)!r}, not {value!r}. "
                + UNCHANGED
            )
    return known


# --- running --------------------------------------------------------------------------------------


def check(experiment: Experiment, data: Path | None) -> None:
    """Refuse data sets and numbers of queries that cannot be run, before any work."""
    if experiment.name == NEURAL.name:
        Neural.require()
    split = partial(_split, experiment, data)
    for name in sorted(experiment.datasets, key=datasets.LIBSVM.__contains__):  # downloads last
        most = len(split(name, experiment.first).sets)
        if experiment.stops_early:
            continue
        if 2 * experiment.queries > most:  # splits differ in their number of sets, but not so much
            most = min(len(split(name, n).sets) for n in experiment.numbers)
        protocol.check_queries(experiment.queries, most, name)


def run(
    results: Results,
    data: Path | None,
    jobs: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Curve]:
    """Run what the results lack, and return all they then hold, in the table's order."""
    experiment, have = results.experiment, {curve.key for curve in read(results)}
    split_of = partial(_split, experiment, data)
    for curves in protocol.run_all(experiment, split_of, jobs, on_progress, have):
        append(results, curves)
    names, methods = _known(experiment)
    return sorted(
        read(results), key=lambda c: (names.index(c.dataset), methods.index(c.method), c.split)
    )


def _split(experiment: Experiment, data: Path | None, name: str, number: int) -> Split:
    return experiment.split(experiment.load(name, data), number)


def _known(experiment: Experiment) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Data sets and columns that results may have, in the order of the table."""
    whole = REPRODUCTIONS[experiment.name]
    return whole.datasets, (*whole.columns, *whole.beside)


# --- runs.csv -------------------------------------------------------------------------------------


def append(results: Results, curves: Sequence[Curve]) -> None:
    """Store these runs; when this returns they are on the disk."""
    with results.runs.open("a", encoding="utf-8", newline="") as file:
        file.write("".join(_rows(results, curves)))
        file.flush()
        os.fsync(file.fileno())


def _rows(results: Results, curves: Iterable[Curve]) -> Iterator[str]:
    for curve in curves:
        errors = curve.mse.tolist()  # written so that the same floats are read back
        if results.by_run:
            blank = [""] * (results.experiment.queries - len(errors))
            fingerprint, shares = results.data[curve.dataset], curve.inside.tolist()
            yield _line((*curve.key, fingerprint, *shares, *errors, *blank))
            continue
        for query, (mse, seconds) in enumerate(zip(errors, curve.seconds, strict=True), start=1):
            yield _line((*curve.key, query, mse, f"{seconds:.6f}"))


def _line(cells: Iterable[object]) -> str:
    return ",".join(map(str, cells)) + "\n"


def _text(results: Results) -> str:
    try:
        return results.runs.read_text(encoding="utf-8") if results.runs.exists() else ""
    except UnicodeDecodeError as error:
        raise DataError(f"{results.runs} cannot be read ({error}). Choose another --out.") from None


def _lines(results: Results) -> list[str]:
    """The lines below the heading, without a last one that a crash cut off."""
    text = _text(results)
    heading, *lines = text.split("\n")
    if text and heading != ",".join(results.fields):
        raise DataError(
            f"{results.runs} does not begin with {','.join(results.fields)}. Choose another --out."
        )
    return lines[:-1]


def read(results: Results) -> list[Curve]:
    """All whole runs, in the order in which they were stored."""
    names, methods = _known(results.experiment)
    least = len(results.fields)
    if results.experiment.stops_early:
        least -= results.experiment.queries - 1
    found: dict[RunKey, dict[int, list[float]]] = {}
    for number, line in enumerate(_lines(results), start=2):
        try:
            cells = line.rstrip(",").split(",")
            dataset, method, split, at, *rest = cells
            numbers = [float(value) for value in rest]
            whole = line.count(",") + 1 == len(results.fields) and len(cells) >= least
            whole = whole and all(0 <= n < inf for n in numbers)
            if dataset not in names or method not in methods or not whole:
                raise ValueError
            query = 0 if results.by_run else int(at)
            found.setdefault((dataset, method, int(split)), {}).setdefault(query, numbers)
        except ValueError:
            raise DataError(
                f"{results.runs}, line {number} is damaged: {line!r:.80}. Delete it to have its "
                "run done again."
            ) from None
    queries = [0] if results.by_run else list(range(1, results.experiment.queries + 1))
    return [
        _curve(results, key, np.array([rows[query] for query in queries]))
        for key, rows in found.items()
        if sorted(rows) == queries
    ]


def _curve(results: Results, key: RunKey, numbers: Float[np.ndarray, "Q C"]) -> Curve:
    if not results.by_run:
        return Curve(*key, numbers[:, 0], numbers[:, 1])
    experiment = results.experiment
    inside, mse = np.split(numbers[0], [len(experiment.checked) * len(experiment.counted)])
    return Curve(*key, mse, np.empty(0), inside)


def by_dataset(
    curves: Iterable[Curve], part: str = "mse"
) -> dict[str, dict[str, Float[np.ndarray, "S T"]]]:
    """For each data set and method the errors, a split a row, over the splits all methods have.

    Args:
        part: Of the runs, in place of errors: "seconds" or "inside".
    """
    cells: dict[str, dict[str, dict[int, Float[np.ndarray, " T"]]]] = {}
    for c in curves:
        cells.setdefault(c.dataset, {}).setdefault(c.method, {})[c.split] = getattr(c, part)
    out = {}
    for dataset, methods in cells.items():
        shared = sorted(set.intersection(*(set(splits) for splits in methods.values())))
        if shared:
            out[dataset] = {m: np.array([runs[s] for s in shared]) for m, runs in methods.items()}
    return out
