"""Run the paper's table: every data set, method and split, in parallel, kept as it comes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from sumwise.errors import SettingError, SumwiseError
from sumwise.experiments import datasets, protocol, results
from sumwise.experiments.protocol import NEURAL, Curve, Experiment
from sumwise.model.basis import Neural
from sumwise.util.progress import quiet


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run."""

    experiment: Experiment
    names: tuple[str, ...]
    methods: tuple[str, ...]
    splits: int
    queries: int
    data: Path | None


@dataclass(frozen=True, slots=True)
class _Job:
    """The methods still to be run on one split of one data set."""

    name: str
    number: int
    methods: tuple[str, ...]


def check(plan: Plan) -> None:
    """Refuse names that do not exist and numbers that cannot be run, before any work."""
    if plan.experiment.name == NEURAL.name:
        Neural.require()
    for given, known, what in (
        (plan.names, datasets.NAMES, "data set"),
        (plan.methods, plan.experiment.methods, "method"),
    ):
        for name in given:
            if name not in known:
                raise SettingError(f"no {what} is called {name!r}; there are {', '.join(known)}")
    for name in sorted(plan.names, key=lambda name: name in datasets.LIBSVM):  # downloads last
        dataset = load(name, plan.data)
        most = len(protocol.make_split(dataset, 0).sets)
        if 2 * plan.queries > most:  # splits differ in their number of sets, but not by that much
            splits = range(plan.splits)
            most = min(len(protocol.make_split(dataset, number).sets) for number in splits)
        if plan.queries > most:
            raise SettingError(
                f"{plan.queries} queries were wanted; {name} has {most} sets to ask for in one of "
                "its splits"
            )


def run(
    plan: Plan,
    kept: results.Results,
    jobs: int,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Curve]:
    """Run what is missing in `kept`, and return all that is in it.

    The same figures come out whatever `jobs` is: each run is seeded by its names and keeps to one
    BLAS thread.
    """
    have = results.read(kept)
    finished = results.done(have)
    todo = [
        _Job(name, number, missing)
        for number in range(plan.splits)
        for name in plan.names
        if (missing := tuple(m for m in plan.methods if (name, m, number) not in finished))
    ]
    total = len(plan.names) * len(plan.methods) * plan.splits
    count = total - sum(len(job.methods) for job in todo)
    if on_progress is not None:
        on_progress(count, total)
    for curves in _in_parallel(todo, plan, jobs):
        results.append(kept, curves)
        count += len(curves)
        if on_progress is not None:
            on_progress(count, total)
    return in_order(results.read(kept))


def in_order(curves: Sequence[Curve]) -> list[Curve]:
    """As the paper's table has them, whatever order they were run in."""
    return sorted(
        curves,
        key=lambda c: (datasets.NAMES.index(c.dataset), NEURAL.methods.index(c.method), c.split),
    )


def fingerprints(plan: Plan) -> dict[str, str]:
    return {name: datasets.fingerprint(load(name, plan.data)) for name in plan.names}


def _in_parallel(todo: Sequence[_Job], plan: Plan, jobs: int) -> Iterator[list[Curve]]:
    from joblib import Parallel, delayed

    jobs = min(jobs, len(todo))
    if jobs <= 1:
        yield from (_run(job, plan) for job in todo)
        return
    workers: Any = Parallel(n_jobs=jobs, return_as="generator_unordered")
    try:
        yield from workers(delayed(_run)(job, plan) for job in todo)
    except BrokenProcessPool as error:
        raise SumwiseError(
            "a worker process died, perhaps for lack of memory. Finished runs are kept; the same "
            "command goes on, with fewer --jobs if need be."
        ) from error


def _run(job: _Job, plan: Plan) -> list[Curve]:
    from threadpoolctl import threadpool_limits

    if plan.experiment.name == NEURAL.name:
        os.environ.setdefault("NPROC", "1")  # XLA's threads, counted when JAX is loaded
        Neural.require()  # loads the linear algebra that the next line limits
    with threadpool_limits(1), quiet():
        split = protocol.make_split(load(job.name, plan.data), job.number)
        config = plan.experiment.model(job.name, job.number)
        return protocol.run_split(job.name, job.number, split, config, job.methods, plan.queries)


@lru_cache(maxsize=40)
def load(name: str, folder: Path | None) -> datasets.Dataset:
    """A data set, read once in a process."""
    return datasets.load(name, folder)
