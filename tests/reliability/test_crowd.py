"""Many people at once: nothing is lost, nothing is handed out twice, and nobody sees an error."""

from __future__ import annotations

import time

import numpy as np
import pytest

import sumwise as sw
from tests.builders import random_sets
from tests.reliability import invariants
from tests.reliability.scale import sized
from tests.workers import ask_and_tell, processes, value_of


def crowd(place, n_workers, each):
    """What each process was asked and has told, by its name."""
    out, together = processes.Queue(), processes.Barrier(n_workers)
    names = [f"worker {i}" for i in range(n_workers)]
    workers = [
        processes.Process(target=ask_and_tell, args=(place, name, each, out, together))
        for name in names
    ]
    for worker in workers:
        worker.start()
    results = dict(out.get(timeout=6000) for _ in workers)
    for worker in workers:
        worker.join()
    return results


def check_crowd(place, results, total, asked_before=0):
    """Every question once, every answer there and from the one who gave it."""
    assert [result for result in results.values() if isinstance(result, str)] == []
    claimed = [pair for result in results.values() for pair in result]
    assert sorted(number for number, _ in claimed) == list(
        range(asked_before, asked_before + total)
    )
    whose = {set_id: name for name, result in results.items() for _, set_id in result}
    assert len(whose) == len(claimed) == total
    with sw.open_study(place) as study:
        told = {answer.set_id: (answer.y_bar, answer.by) for answer in study.answers}
        assert told == {set_id: (value_of(set_id), name) for set_id, name in whose.items()}
        assert study.claims == ()
    replay = invariants.check(place)
    assert replay.changes == 2 * total + (asked_before > 0)


@pytest.mark.slow
def test_sixteen_processes_ask_and_tell_a_thousand_times(place):
    n_workers, each = 16, sized(63)
    total = n_workers * each
    sets = random_sets([1, 2] * (total * 11 // 20), np.random.default_rng(0), n_inputs=2)
    sw.create_study(place, sets, model=sw.AggregateRegressor("linear")).close()
    start = time.perf_counter()
    results = crowd(place, n_workers, each)
    took = time.perf_counter() - start
    print(f"{total} asks and {total} tells by {n_workers} processes: {took:.1f} s")
    check_crowd(place, results, total)


@pytest.mark.slow
def test_a_crowd_with_a_model_that_is_kept_step_by_step(place):
    """With "adam" every question also writes what was learned: more to get in each other's way."""
    n_workers, each = 5, sized(10)
    total = n_workers * each
    sets = random_sets([1, 2] * total, np.random.default_rng(0), n_inputs=2)
    model = sw.AggregateRegressor("linear", hyperparameters="adam")
    sw.create_study(place, sets, model=model).close()
    check_crowd(place, crowd(place, n_workers, each), total)
