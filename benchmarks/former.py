"""`python -m benchmarks.former`: a question of the defaults, now and before set effects.

The former model is kept in the history of the project: `git archive` writes the sources of `FORMER`
into a folder, and both versions ask and learn in turns, each in a process of its own on one thread.
The former `auto` averaged candidate bases, with one noise for all individuals.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from statistics import median

FORMER = "b180345"  # the last revision before hypotheses were drawn
QUESTIONS = 30
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
LOOP = """
import sys, time
import numpy as np, sumwise as sw
n_sets, questions = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
sizes = rng.integers(1, 20, n_sets)
x = np.repeat(0.6 * rng.normal(size=(n_sets, 8)), sizes, axis=0) + rng.normal(size=(sizes.sum(), 8))
sets = sw.Sets.from_arrays(np.split(x, np.cumsum(sizes)[:-1]))
y = x[:, 0] + np.sin(x[:, 1]) + rng.normal(size=len(x))
totals = np.add.reduceat(y, sets.starts[:-1])
learner = sw.ActiveLearner(sets, seed=0)
learner.ask()
start = time.process_time()
for _ in range(questions):
    asked = learner.ask().set_id
    learner.tell(asked, float(totals[asked]))
spent = (time.process_time() - start) / questions
error = np.mean((learner.model.predict(x) - y) ** 2) / y.var()
print(spent, error)
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.former", description=__doc__)
    parser.add_argument("--sets", type=int, nargs="*", default=[1_000, 3_000, 10_000])
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    root = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "former.tar"
        subprocess.run(
            ["git", "archive", "--output", str(packed), FORMER, "src"], cwd=root, check=True
        )
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
        versions = {"former": Path(folder) / "src", "now": root / "src"}
        print("sets | former, CPU s per question | now | ratio | relative errors")
        for n_sets in given.sets:
            runs = [
                {name: _run(path, n_sets) for name, path in versions.items()}
                for _ in range(given.rounds)
            ]
            former, now = (median(run[name][0] for run in runs) for name in versions)
            ratio = median(run["now"][0] / run["former"][0] for run in runs)
            errors = ", ".join(f"{runs[0][name][1]:.3f}" for name in versions)
            print(f"{n_sets} | {former:.3f} | {now:.3f} | {ratio:.2f} | {errors}", flush=True)


def _run(source: Path, n_sets: int) -> tuple[float, float]:
    """CPU seconds of a question and its answer, and the squared error relative to the variance."""
    settings = {**os.environ, "PYTHONPATH": str(source), **dict.fromkeys(THREADS, "1")}
    command = [sys.executable, "-c", LOOP, str(n_sets), str(QUESTIONS)]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    spent, error = map(float, done.stdout.split())
    assert error < 1, f"it has learned nothing: {error}"
    return spent, error


if __name__ == "__main__":
    main()
