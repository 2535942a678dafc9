"""Run the paper's table: every data set, method and split, in parallel, kept as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from sumwise.errors import SettingError
from sumwise.experiments import datasets, protocol, results
from sumwise.experiments.protocol import Curve


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run."""

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
    for given, known, what in (
        (plan.names, datasets.NAMES, "data set"),
        (plan.methods, protocol.METHODS, "method"),
    ):
        for name in given:
            if name not in known:
                raise SettingError(f"no {what} is called {name!r}; there are {', '.join(known)}")
    for name in sorted(plan.names, key=lambda name: name in datasets.LIBSVM):  # downloads last
        dataset = load(name, plan.data)
        most = len(protocol.make_split(dataset, 0).sets)
        if plan.queries > most:
            raise SettingError(
                f"{plan.queries} queries were wanted; {name} has about {most} sets to ask for"
            )


def run(
    plan: Plan,
    kept: results.Results,
    jobs: int,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Curve]:
    """Run what is missing in `kept`, and return all that the plan asks for.

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
    curves_by_cell = {(c.dataset, c.method, c.split): c for c in results.read(kept)}
    return [
        curves_by_cell[name, method, number]
        for name in plan.names
        for method in plan.methods
        for number in range(plan.splits)
    ]


def _in_parallel(todo: Sequence[_Job], plan: Plan, jobs: int) -> Iterator[list[Curve]]:
    from joblib import Parallel, delayed

    if jobs == 1:
        yield from (_run(job, plan) for job in todo)
        return
    workers: Any = Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from workers(delayed(_run)(job, plan) for job in todo)


def _run(job: _Job, plan: Plan) -> list[Curve]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        split = protocol.make_split(load(job.name, plan.data), job.number)
        config = protocol.paper_model(job.name, job.number)
        return protocol.run_split(job.name, job.number, split, config, job.methods, plan.queries)


@lru_cache(maxsize=40)
def load(name: str, folder: Path | None) -> datasets.Dataset:
    """A data set, read once in a process."""
    return datasets.load(name, folder)
