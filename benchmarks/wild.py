"""`python -m benchmarks.wild --out FOLDER`: an exact Gaussian process beside `reproduce wild`.

It is told the totals that the default asked for, question by question, and predicts the same test
individuals. Hyperparameters are estimated anew after each of the first five questions and after
every fifth. FOLDER is that of `sumwise reproduce wild`, whose table gets one more column.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import numpy as np
from joblib import Parallel, delayed

from benchmarks.timing import say
from sumwise.experiments import datasets, protocol, results, wild
from sumwise.experiments.protocol import EXACT, OURS, WILD, Curve, Experiment, Split

EVERY = 5  # questions
INTERVAL = NormalDist().inv_cdf(0.95)  # of 90 %: so many standard deviations either way


def run(experiment: Experiment, name: str, number: int) -> Curve:
    """The process on one split of a data set, after each question of our default."""
    os.environ.setdefault("NPROC", "1")  # XLA's threads, counted when JAX is loaded
    split = WILD.split(WILD.load(name, None), number)
    (ours,) = protocol.run_split(experiment.only([OURS]), name, number, split)
    start = time.perf_counter()
    mse, held = errors(split, ours.chosen)
    say(f"{name}, split {number}: {time.perf_counter() - start:.0f} s")
    shares = held[[min(query, len(held)) - 1 for query in experiment.checked]]
    return Curve(name, EXACT, number, mse, np.empty(0), shares, ours.chosen, ours.guess_mse)


def errors(split: Split, chosen: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Squared error and share of 90 % intervals that hold, after each of these sets."""
    from benchmarks import exact_gp

    x, log, found = exact_gp.standardized(split.x_test, split.sets), None, []
    for query in range(1, len(chosen) + 1):
        asked = list(chosen[:query])
        totals = exact_gp.measured(split.sets.take(asked), split.y_bar[asked], split.sets)
        if log is None or query <= EVERY or query % EVERY == 0:
            log = exact_gp.fit(totals, log)
        mean, std = exact_gp.predict(log, totals, x)
        error = mean - split.y_test
        found.append((np.mean(error**2), np.mean(abs(error) <= INTERVAL * std)))
    mse, held = np.array(found).T
    return mse, held


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wild", description=__doc__)
    parser.add_argument("--datasets", nargs="*", choices=WILD.datasets, default=WILD.datasets)
    parser.add_argument("--splits", type=int, default=WILD.splits)
    parser.add_argument("--queries", type=int, default=WILD.queries)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    names = tuple(name for name in WILD.datasets if name in given.datasets)
    experiment = replace(WILD, datasets=names, splits=given.splits, queries=given.queries)
    with results.only_writer(given.out):
        prints = {name: datasets.fingerprint(WILD.load(name, None)) for name in names}
        stored = results.open_results(given.out, experiment, prints)
        have = {curve.key for curve in results.read(stored)}
        missing = [
            delayed(run)(experiment, name, number)
            for number in range(given.splits)
            for name in names
            if (name, EXACT, number) not in have
        ]
        for curve in Parallel(given.jobs, return_as="generator_unordered")(missing):
            results.append(stored, [curve])
        curves = wild.wanted(results.run(stored, None, given.jobs), experiment)
        wild.write(given.out, curves)
    print((given.out / "table.md").read_text(), end="")


if __name__ == "__main__":
    main()
