"""Beside the paper: our own model and strategies against the paper's, on the paper's splits.

Five lines on the same sets, test individuals and totals as `reproduce rff`: the paper's model with
AggMI, and `basis="auto"` with IVR, EPIG, AggMI and Random. Random with our model is there so that
the questions, and not only the model, have to earn their keep. Beside errors, 90 % intervals of
test individuals are counted after 10, 20 and 30 questions.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from sumwise.errors import DataError
from sumwise.experiments import datasets, protocol
from sumwise.experiments.protocol import QUERIES, Split, paper_model, seed_of
from sumwise.experiments.reproduce import load
from sumwise.experiments.tables import Grid, markdown
from sumwise.learning import learner
from sumwise.model.design import features
from sumwise.model.fit import ModelConfig
from sumwise.util.progress import quiet
from sumwise.util.shapes import Float

CHECKED: Final = (10, 20, 30)  # questions after which intervals are counted
LEVEL: Final = 0.9
PAPER, OURS, RANDOM = "paper", "auto IVR", "auto Rand"
LINES: Final = (PAPER, OURS, "auto EPIG", "auto AggMI", RANDOM)
FIELDS: Final = (
    "dataset", "line", "split", "data",
    *(f"inside_{n}" for n in CHECKED), *(f"mse_{n}" for n in range(1, QUERIES + 1)),
)  # fmt: skip
AT_MOST_WORSE: Final = 1.05


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One line on one split of a data set."""

    dataset: str
    line: str
    split: int
    data: str  # fingerprint
    inside: Float[np.ndarray, " 3"]  # share of test individuals in their 90 % intervals
    mse: Float[np.ndarray, " T"]


@dataclass(frozen=True, slots=True)
class Standing:
    """A data set: errors averaged over queries and splits."""

    dataset: str
    errors: dict[str, float]  # by line

    def ratio(self, line: str = OURS) -> float:
        return self.errors[line] / self.errors[PAPER]

    @property
    def earned(self) -> bool:
        """Our questions beat both the paper and Random with our own model."""
        return self.errors[OURS] < min(self.errors[PAPER], self.errors[RANDOM])


def auto_model(dataset: str, number: int) -> ModelConfig:
    """`basis="auto"` as anybody gets it, drawn with the seed of the paper's basis."""
    return ModelConfig(basis="auto", random_state=seed_of(dataset, "basis", number))


def run_split(name: str, number: int, split: Split, data: str) -> list[Run]:
    """All lines on one split."""
    begun: dict[bool, tuple[learner.Progress, Float[np.ndarray, "N K"]]] = {}
    for own, config in ((False, paper_model), (True, auto_model)):
        first = learner.begin(config(name, number), split.sets)
        begun[own] = first, features(first.prepared.basis, split.x_test)
    runs = []
    for line in LINES:
        progress, phi = begun[line != PAPER]
        method = "AggMI" if line == PAPER else line.removeprefix("auto ")
        seed = seed_of(name, method, number)
        mse, inside = np.empty(QUERIES), []
        for query in range(QUERIES):
            ask = learner.ask(progress, method, np.random.default_rng([seed, query]))
            index = split.sets.position(ask.set_id)
            progress = learner.tell(progress, index, float(split.y_bar[index]))
            error = _predicted(progress, phi) - split.y_test
            mse[query] = np.mean(error**2)
            if query + 1 in CHECKED:
                reach = NormalDist().inv_cdf(0.5 + 0.5 * LEVEL) * _spread(progress, phi)
                inside.append(float(np.mean(abs(error) <= reach)))
        runs.append(Run(name, line, number, data, np.array(inside), mse))
    return runs


def _predicted(
    progress: learner.Progress, phi: Float[np.ndarray, "N K"]
) -> Float[np.ndarray, " N"]:
    model = progress.model
    return model.offset[0] + model.posterior.output_scale[0] * (phi @ model.posterior.mean[:, 0])


def _spread(progress: learner.Progress, phi: Float[np.ndarray, "N K"]) -> Float[np.ndarray, " N"]:
    posterior = progress.model.posterior
    variance = posterior.variance_along(phi) + 1 / posterior.noise_precision
    return posterior.output_scale[0] * np.sqrt(variance)


# --- many of them ---------------------------------------------------------------------------------


def run(
    names: Sequence[str],
    splits: int,
    folder: Path | None,
    kept: Path,
    jobs: int,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Run]:
    """Run what is missing in the file `kept`, and return what was wanted."""
    prints = {name: datasets.fingerprint(load(name, folder)) for name in names}
    have = read(kept)
    for known in have:
        if prints.get(known.dataset, known.data) != known.data:
            raise DataError(
                f"the results in {kept} are of another {known.dataset}: its data have changed. "
                "Choose another --out; nothing was changed."
            )
    done = {(known.dataset, known.split) for known in have if known.line == LINES[-1]}
    todo = [(name, i) for i in range(splits) for name in names if (name, i) not in done]
    count, total = splits * len(names) - len(todo), splits * len(names)
    if on_progress is not None:
        on_progress(count, total)
    for runs in _in_parallel(todo, folder, jobs):
        append(kept, runs)
        count += 1
        if on_progress is not None:
            on_progress(count, total)
    wanted = {(name, i) for i in range(splits) for name in names}
    found = [run for run in read(kept) if (run.dataset, run.split) in wanted]
    return sorted(found, key=lambda r: (names.index(r.dataset), LINES.index(r.line), r.split))


def _in_parallel(
    todo: Sequence[tuple[str, int]], folder: Path | None, jobs: int
) -> Iterator[list[Run]]:
    from joblib import Parallel, delayed

    if jobs <= 1 or len(todo) <= 1:
        yield from (_run(name, number, folder) for name, number in todo)
        return
    workers: Any = Parallel(n_jobs=min(jobs, len(todo)), return_as="generator_unordered")
    yield from workers(delayed(_run)(name, number, folder) for name, number in todo)


def _run(name: str, number: int, folder: Path | None) -> list[Run]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), quiet():  # the last bit of a product depends on threads
        dataset = load(name, folder)
        split = protocol.make_split(dataset, number)
        return run_split(name, number, split, datasets.fingerprint(dataset))


def append(kept: Path, runs: Sequence[Run]) -> None:
    """Keep these runs; when this returns they are on the disk."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    if not kept.exists() or not kept.stat().st_size:
        lines.writerow(FIELDS)
    for run in runs:
        numbers = [repr(float(value)) for value in (*run.inside, *run.mse)]
        lines.writerow((run.dataset, run.line, run.split, run.data, *numbers))
    with kept.open("a", encoding="utf-8", newline="") as file:
        file.write(text.getvalue())
        file.flush()
        os.fsync(file.fileno())


def read(kept: Path) -> list[Run]:
    """All whole runs; a last line that a crash cut off does not count."""
    if not kept.exists():
        return []
    lines = kept.read_text(encoding="utf-8").split("\n")[:-1]
    if lines and lines[0] != ",".join(FIELDS):
        raise DataError(f"{kept} was not written by this program. Choose another --out.")
    runs = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            dataset, name, split, data, *rest = line.split(",")
            numbers = np.array([float(value) for value in rest])
            if name not in LINES or len(rest) != len(FIELDS) - 4 or not np.isfinite(numbers).all():
                raise ValueError("not a run")
            runs.append(Run(dataset, name, int(split), data, numbers[:3], numbers[3:]))
        except ValueError:
            raise DataError(
                f"{kept}, line {number} is damaged: {line!r:.60}. Delete it to have its run done "
                "again."
            ) from None
    return list({(r.dataset, r.line, r.split): r for r in runs}.values())


# --- reading the numbers --------------------------------------------------------------------------


def standings(runs: Sequence[Run]) -> list[Standing]:
    """A row per data set, in the order they come."""
    found: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        found.setdefault(run.dataset, {}).setdefault(run.line, []).append(float(run.mse.mean()))
    return [
        Standing(name, {line: float(np.mean(each)) for line, each in lines.items()})
        for name, lines in found.items()
    ]


def coverage(runs: Sequence[Run], line: str) -> Float[np.ndarray, " 3"]:
    """Share in 90 % intervals after 10, 20 and 30 questions, every data set counting alike."""
    found: dict[str, list[Float[np.ndarray, " 3"]]] = {}
    for run in runs:
        if run.line == line:
            found.setdefault(run.dataset, []).append(run.inside)
    return np.mean([np.mean(each, axis=0) for each in found.values()], axis=0)


def findings(rows: Sequence[Standing], runs: Sequence[Run]) -> list[str]:
    """In words: how often better, by how much, at worst, and whether intervals hold."""
    ratios, n = [row.ratio() for row in rows], len(rows)
    worst = max(rows, key=Standing.ratio)
    said = [
        f"{OURS} has a lower error than the paper's model with AggMI on "
        f"{sum(r < 1 for r in ratios)} of {n} data sets; the geometric mean of the ratio is "
        f"{math.exp(np.mean(np.log(ratios))):.3f}, at worst {worst.ratio():.2f} ({worst.dataset}).",
        f"It is below both the paper's model with AggMI and Random with our own model on "
        f"{sum(row.earned for row in rows)} of {n}.",
    ]
    for line in LINES:
        shares = ", ".join(f"{100 * share:.1f} %" for share in coverage(runs, line))
        said.append(
            f"90 % intervals of {line} hold {shares} of test individuals after "
            f"{', '.join(map(str, CHECKED))} questions (mean over data sets)."
        )
    return said


def grid(rows: Sequence[Standing]) -> Grid:
    """Errors by line and the ratio to the paper's; the lowest of a row is bold."""
    text, bold = [], set()
    for r, row in enumerate(rows):
        errors = [row.errors[line] for line in LINES]
        bold.add((r, 1 + int(np.argmin(errors))))
        text.append((row.dataset, *(f"{e:.4f}" for e in errors), f"{row.ratio():.2f}"))
    means = [math.exp(np.mean([math.log(row.ratio(line)) for row in rows])) for line in LINES]
    text.append(("ratio, geometric mean", *(f"{mean:.3f}" for mean in means), ""))
    return Grid(("", *LINES, f"{OURS} / {PAPER}"), tuple(text), frozenset(bold))


def intervals(runs: Sequence[Run], line: str = OURS) -> Grid:
    """Coverage of one line, data set by data set."""
    rows = []
    for name in dict.fromkeys(run.dataset for run in runs):
        mine = [run.inside for run in runs if (run.dataset, run.line) == (name, line)]
        rows.append((name, *(f"{share:.3f}" for share in np.mean(mine, axis=0))))
    mean = coverage(runs, line)
    rows.append(("mean", *(f"{share:.3f}" for share in mean)))
    return Grid(("", *(f"after {n}" for n in CHECKED)), tuple(rows), frozenset())


def write(folder: Path, runs: Sequence[Run]) -> list[Path]:
    """table.md and table.csv."""
    rows = standings(runs)
    splits = len({run.split for run in runs})
    parts = [
        "# Beside the paper",
        f"Data sets: {len(rows)}. Splits: {splits}. Queries: {QUERIES}. Mean squared error of "
        "individual outputs scaled to [-1, 1], averaged over queries and splits. `paper`: the "
        'paper\'s model with AggMI; `auto …`: `basis="auto"` with that strategy.',
        *findings(rows, runs),
        "## Errors",
        "Bold: the lowest of the row.",
        markdown(grid(rows)),
        f"## Intervals of {OURS}",
        "Share of test individuals in their 90 % intervals.",
        markdown(intervals(runs)),
    ]
    page, table = folder / "table.md", folder / "table.csv"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    with table.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(("dataset", *LINES, "ratio"))
        for row in rows:
            errors = (f"{row.errors[line]:.6g}" for line in LINES)
            lines.writerow((row.dataset, *errors, f"{row.ratio():.4f}"))
    return [page, table]
