"""Studies in a database: asking from the shell, telling beside Optuna, ten thousand answers."""

from __future__ import annotations

import json
import logging
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import sumwise as sw
from benchmarks.pools import ragged
from benchmarks.report import Row, at_most, faster, seconds
from benchmarks.timing import say

SIZES = (1_000, 10_000, 100_000)  # sets
PER_SET = 10.5  # individuals, on average
ANSWERS = 200
FIXED = "fourier with AggMI"
SETTINGS = {
    FIXED: {"basis": "fourier", "strategy": "AggMI"},
    "the defaults": {"basis": "auto", "strategy": "IVR"},
}
TELLS = 200
MANY = 10_000
ROUNDS = 5
WALL = "Wall time of the whole command."


def run(full: bool) -> list[Row]:
    del full
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="sumwise-bench-") as folder:
        for n_sets in SIZES:
            say(f"studies: a study of {n_sets:,} sets")
            sets, y_bar = ragged(int(n_sets * PER_SET))
            order = np.random.default_rng(1).permutation(len(sets))
            for name, settings in SETTINGS.items():
                model = sw.AggregateRegressor(settings["basis"], random_state=0)
                place = Path(folder) / f"{n_sets} {name}.db"
                with sw.create_study(
                    place, sets, model=model, strategy=settings["strategy"]
                ) as study:
                    study.tell_many(order[:ANSWERS].tolist(), y_bar[order[:ANSWERS]])
                target = n_sets == SIZES[-1]
                rows += _ask(place, name, sets, y_bar, order[:ANSWERS], target)
        rows += _tell(Path(folder), place, y_bar, order[ANSWERS:].tolist())
        rows += _many(Path(folder), place, y_bar, order[ANSWERS + TELLS :][:MANY].tolist())
        rows += _moved(Path(folder), sets[: 2 * MANY], y_bar)
    return rows


# --- asking from the shell ------------------------------------------------------------------------


def _ask(
    place: Path, name: str, sets: Any, y_bar: np.ndarray, told: np.ndarray, target: bool
) -> list[Row]:
    _check_ask(place, name, sets, y_bar, told)
    spent = []
    for _ in range(ROUNDS):
        start, _ = _cpu_of([sys.executable, "-c", "pass"])
        whole, shown = _shell("ask", place, "--json")
        spent.append(whole - start)
        _shell("release", place, str(_asked(shown)))
    size = f"{len(sets):,} sets, {len(sets.x):,} individuals, {len(told)} answers"
    note = "CPU time of the whole command less that of an interpreter that does nothing."
    asked = f"sumwise ask, {name}", size
    memory = Row(f"its peak memory, {name}", size, f"{peak_of(place):.2f} GB")
    kept, cpu = place.stat().st_size / 1e6, statistics.median(spent)
    of_file = f"the study's file, {name}", size
    if target:
        return [
            at_most(*asked, cpu, 1.0, "{:.2f} s", note),
            memory,
            at_most(*of_file, kept, 150.0, "{:.0f} MB", "Inputs are random in all their digits."),
        ]
    return [Row(*asked, seconds(cpu), note=note), memory, Row(*of_file, f"{kept:.1f} MB")]


def _check_ask(place: Path, name: str, sets: Any, y_bar: np.ndarray, told: np.ndarray) -> None:
    """The question is the best one by the plain functions, on all sets at once."""
    chosen = SETTINGS[name]
    model = sw.AggregateRegressor(chosen["basis"], random_state=0)
    scores = sw.score(sets, model.fit(sets.take(told), y_bar[told], pool=sets), chosen["strategy"])
    scores[told] = -np.inf
    asked = _asked(_shell("ask", place, "--json")[1])
    _shell("release", place, str(asked))
    if scores[asked] < scores.max() * (1 - 1e-9):
        raise AssertionError(f"asked for set {asked}; set {scores.argmax()} scores more")


def _asked(shown: str) -> int:
    (question,) = json.loads(shown)["questions"]
    return int(question["set"])


def _shell(command: str, place: Path, *arguments: str) -> tuple[float, str]:
    return _cpu_of([sys.executable, "-m", "sumwise", command, str(place), *arguments])


def peak_of(place: Path) -> float:
    """Peak memory of `sumwise ask` in GB, as the process itself says: Linux only.

    What the system says of a child begins with the memory of this process.
    """
    program = (
        "import sys; from sumwise.cli import main; main(sys.argv[1:], standalone_mode=False); "
        "print([line for line in open('/proc/self/status') if 'VmHWM' in line][0].split()[1])"
    )
    if not sys.platform.startswith("linux"):
        return float("nan")
    _, shown = _cpu_of([sys.executable, "-c", program, "ask", str(place), "--preview"])
    return float(shown.split()[-1]) / 1e6


def _cpu_of(command: list[str]) -> tuple[float, str]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


# --- telling --------------------------------------------------------------------------------------


def _tell(folder: Path, place: Path, y_bar: np.ndarray, order: list[int]) -> list[Row]:
    """One answer at a time, each on disk before the next: ours and Optuna's, in turns."""
    import optuna

    optuna.logging.set_verbosity(logging.ERROR)
    say("studies: telling, in turns with Optuna")
    storage = optuna.storages.RDBStorage(f"sqlite:///{folder / 'optuna.db'}")
    theirs = optuna.create_study(storage=storage)
    trials = [theirs.ask({"x": _uniform(optuna)}) for _ in range(TELLS)]
    wall: dict[str, list[float]] = {"ours": [], "theirs": []}
    cpu: dict[str, list[float]] = {"ours": [], "theirs": []}
    with sw.open_study(place) as study:
        before = len(study.answers)
        for a, trial in zip(order, trials, strict=False):
            value = float(y_bar[a])
            _timed(lambda a=a, v=value: study.tell(a, v), wall["ours"], cpu["ours"])
            _timed(lambda t=trial, v=value: theirs.tell(t, v), wall["theirs"], cpu["theirs"])
        with sw.open_study(place) as again:
            if len(again.answers) != before + TELLS:
                raise AssertionError("an answer is missing")
    if len(theirs.get_trials(states=[optuna.trial.TrialState.COMPLETE])) != TELLS:
        raise AssertionError("Optuna misses an answer")
    size = f"{TELLS} answers on SQLite"
    rows = []
    for what, times in (("wall time", wall), ("CPU time", cpu)):
        mine, other = (statistics.median(times[name]) for name in ("ours", "theirs"))
        least = 5 if what == "wall time" else None
        name = f"optuna {optuna.__version__}"
        rows.append(faster(f"tell, {what}", size, mine, name, other, other / mine, least))
    return rows


def _uniform(optuna: Any) -> Any:
    return optuna.distributions.FloatDistribution(0.0, 1.0)


def _timed(job: Callable[[], None], wall: list[float], cpu: list[float]) -> None:
    begun, spent = time.perf_counter(), time.process_time()
    job()
    wall.append(time.perf_counter() - begun)
    cpu.append(time.process_time() - spent)


# --- many answers at once -------------------------------------------------------------------------


def _many(folder: Path, place: Path, y_bar: np.ndarray, which: list[int]) -> list[Row]:
    say(f"studies: {MANY:,} answers at once")
    labels = folder / "labels.csv"
    lines = [f"{a},{float(y_bar[a])!r}" for a in which]
    labels.write_text("set,total\n" + "\n".join(lines) + "\n")
    begun = time.perf_counter()
    _shell("tell", place, "--from", str(labels))
    told = time.perf_counter() - begun
    with sw.open_study(place) as study:
        if [answer.y_bar for answer in study.answers[-MANY:]] != y_bar[which].tolist():
            raise AssertionError("the answers differ from the file's")
        size = f"{MANY:,} answers, {len(study.sets):,} sets"
    return [at_most("sumwise tell --from labels.csv", size, told, 2.0, "{:.2f} s", WALL)]


def _moved(folder: Path, sets: Any, y_bar: np.ndarray) -> list[Row]:
    say("studies: a study with all its answers, from a folder")
    with sw.create_study(folder / "many.db", sets) as study:
        study.tell_many(range(MANY), y_bar[:MANY])
        study.export(folder / "exported")
    begun = time.perf_counter()
    command = [sys.executable, "-m", "sumwise", "import"]
    _cpu_of([*command, str(folder / "exported"), str(folder / "imported.db")])
    imported = time.perf_counter() - begun
    with sw.open_study(folder / "imported.db") as study:
        if [answer.y_bar for answer in study.answers] != y_bar[:MANY].tolist():
            raise AssertionError("an answer was lost on the way")
    size = f"{MANY:,} answers, {len(sets):,} sets, {len(sets.x):,} individuals"
    return [at_most("sumwise import", size, imported, 2.0, "{:.2f} s", WALL)]
