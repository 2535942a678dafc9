"""Run an experiment on the paper's data sets: in parallel, resumable, stored as it goes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from sumwise.experiments import datasets, protocol, results
from sumwise.experiments.protocol import NEURAL, REPRODUCTIONS, Curve, Experiment, Split
from sumwise.model.basis import Neural


def check(experiment: Experiment, data: Path | None) -> None:
    """Refuse data sets and numbers of queries that cannot be run, before any work."""
    if experiment.name == NEURAL.name:
        Neural.require()
    for name in sorted(experiment.datasets, key=datasets.LIBSVM.__contains__):  # downloads last
        most = len(_split(data, name, 0).sets)
        if 2 * experiment.queries > most:  # splits differ in their number of sets, but not so much
            most = min(len(_split(data, name, n).sets) for n in range(experiment.splits))
        protocol.check_queries(experiment.queries, most, name)


def fingerprints(experiment: Experiment, data: Path | None) -> dict[str, str]:
    return {name: datasets.fingerprint(datasets.load(name, data)) for name in experiment.datasets}


def run(
    experiment: Experiment,
    data: Path | None,
    stored: results.Results,
    jobs: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Curve]:
    """Run what `stored` lacks, and return all it then holds, in the paper's order."""
    have = {curve.key for curve in results.read(stored)}
    for curves in protocol.run_all(experiment, partial(_split, data), jobs, on_progress, have):
        results.append(stored, curves)
    names, methods = datasets.NAMES, REPRODUCTIONS[experiment.name].columns
    return sorted(
        results.read(stored),
        key=lambda c: (names.index(c.dataset), methods.index(c.method), c.split),
    )


def _split(data: Path | None, name: str, number: int) -> Split:
    return protocol.make_split(datasets.load(name, data), number)
