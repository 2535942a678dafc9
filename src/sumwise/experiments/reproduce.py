"""Run an experiment on the paper's data sets: in parallel, resumable, stored as it goes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from sumwise.errors import SettingError
from sumwise.experiments import datasets, protocol, results
from sumwise.experiments.protocol import NEURAL, REPRODUCTIONS, Curve, Experiment
from sumwise.model.basis import Neural
from sumwise.util.progress import quiet


def check(experiment: Experiment, data: Path | None) -> None:
    """Refuse data sets and numbers of queries that cannot be run, before any work."""
    if experiment.name == NEURAL.name:
        Neural.require()
    for name in sorted(experiment.datasets, key=datasets.LIBSVM.__contains__):  # downloads last
        dataset = datasets.load(name, data)
        most = len(protocol.make_split(dataset, 0).sets)
        if 2 * experiment.queries > most:  # splits differ in their number of sets, but not so much
            numbers = range(experiment.splits)
            most = min(len(protocol.make_split(dataset, number).sets) for number in numbers)
        if experiment.queries > most:
            raise SettingError(
                f"{experiment.queries} queries were wanted; {name} has {most} sets to ask for in "
                "one of its splits"
            )


def fingerprints(experiment: Experiment, data: Path | None) -> dict[str, str]:
    return {name: datasets.fingerprint(datasets.load(name, data)) for name in experiment.datasets}


def run(
    experiment: Experiment,
    data: Path | None,
    stored: results.Results,
    jobs: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Curve]:
    """Run what `stored` lacks, and return all it then holds, in the paper's order.

    The figures do not depend on `jobs`: each run is seeded by its names and keeps to one BLAS
    thread.
    """
    have = {(curve.dataset, curve.method, curve.split) for curve in results.read(stored)}
    tasks = []
    for number in range(experiment.splits):
        for name in experiment.datasets:
            missing = [m for m in experiment.columns if (name, m, number) not in have]
            if missing:
                tasks.append((experiment.only(missing), name, number, data))
    total = len(experiment.datasets) * len(experiment.methods) * experiment.splits
    done = total - sum(len(task[0].methods) for task in tasks)
    on_progress(done, total)
    for curves in protocol.in_parallel(_run, tasks, jobs):
        results.append(stored, curves)
        done += len(curves)
        on_progress(done, total)
    return in_order(results.read(stored), REPRODUCTIONS[experiment.name])


def in_order(curves: Sequence[Curve], experiment: Experiment) -> list[Curve]:
    """By data set, method and split, whatever order they were run in."""
    names, methods = experiment.datasets, experiment.columns
    return sorted(curves, key=lambda c: (names.index(c.dataset), methods.index(c.method), c.split))


def _run(experiment: Experiment, name: str, number: int, data: Path | None) -> list[Curve]:
    from threadpoolctl import threadpool_limits

    if experiment.name == NEURAL.name:
        os.environ.setdefault("NPROC", "1")  # XLA's threads, counted when JAX is loaded
        Neural.require()  # loads the linear algebra that the next line limits
    with threadpool_limits(1), quiet():
        split = protocol.make_split(datasets.load(name, data), number)
        return protocol.run_split(experiment, name, number, split)
