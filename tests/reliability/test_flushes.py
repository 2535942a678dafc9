"""What is acknowledged is on the disk: a recorder of system calls sees every flush.

After a power failure a file may lack what was written and not flushed, and a folder the names that
were given in it and not flushed.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import sumwise as sw
from tests import parquet
from tests.builders import random_sets
from tests.marks import slow
from tests.reliability import tracing
from tests.reliability.children import run
from tests.reliability.test_every_write import ACTS, LINEAR, SETS, _traced

__all__ = ["_traced"]  # a fixture: tests are skipped where processes may not be traced


def in_turn(job, jobs):
    """Parts in this thread, because one thread is traced."""
    return map(job, jobs)


def opened(folder):
    with sw.create_study(folder / "a.db", SETS, model=LINEAR) as study:
        study.tell_many(range(10), np.arange(10.0))
    return sw.open_study(folder / "a.db")


def scanned(folder):
    sets = random_sets([3] * 40, np.random.default_rng(0), ids=[f"s{a:02}" for a in range(40)])
    return parquet.scan(
        parquet.write(parquet.table_of(sets), folder / "data", [50, 80]), weights="sum"
    )


def embedded(folder, **settings):
    model = sw.AggregateRegressor("linear", **settings)
    return lambda scan: model.embed(scan, folder / "here" / "design", run=in_turn)


def grown(folder):
    made = embedded(folder)(scanned(folder))
    more = random_sets([2] * 9, np.random.default_rng(1), ids=[f"t{a}" for a in range(9)])
    parquet.write(parquet.table_of(more), folder / "data" / "more", cuts=[])
    return made


WORK = {
    **{name: (opened, lambda folder, act=act: act) for name, act in ACTS.items()},
    "export": (opened, lambda folder: lambda study: study.export(folder / "here" / "out")),
    "design": (scanned, embedded),
    "design of counts": (scanned, partial(embedded, outputs="counts")),
    "design that grows": (grown, lambda folder: lambda made: made.update(run=in_turn)),
}


@pytest.mark.parametrize(
    "name",
    [
        "tell",
        "export",
        "design",
        "design of counts",
        "design that grows",
        *slow("tell_many", "amend", "retract", "ask"),
    ],
)
def test_nothing_is_acknowledged_before_it_is_on_the_disk(name, tmp_path):
    run(record, tmp_path, name)


def record(folder: str, name: str) -> None:
    place = Path(folder) / "traced"
    prepare, work = WORK[name]
    for trial in ("first", "second"):
        (place / trial / "here").mkdir(parents=True)
    work(place / "first")(prepare(place / "first"))  # imports what the second needs
    here = place / "second"
    left = tracing.unflushed(partial(prepare, here), work(here), here)
    assert not left, left
