"""The system's clock is put forward and back under processes that work: numbers, not times, order.

The processes see another clock than this one, by a library that is put before the system's own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import pytest

import sumwise as sw
from tests.builders import random_sets
from tests.reliability import children, invariants, preload
from tests.reliability.children import ROOT, put, run
from tests.reliability.scale import sized
from tests.workers import value_of

JUMPS = (-400.0, -30.0, -1.0, -0.001, 0.0, 0.0, 0.001, 3.0, 8.0, 400.0)  # days


@pytest.fixture
def clock(tmp_path):
    """The file that says how far a process's clock is ahead, and what starts such a process."""
    folder = tmp_path / "calls"
    folder.mkdir()
    put(folder / "ahead", 0)
    return folder / "ahead", preload.before(preload.CLOCK, folder, CLOCK_AHEAD=folder / "ahead")


@pytest.mark.parametrize(
    "check",
    [
        children.holds_claims_while_the_clock_jumps,
        pytest.param(children.ends_tokens_while_the_clock_jumps, marks=pytest.mark.slow),
    ],
)
def test_nothing_ends_at_once_or_comes_back_when_the_clock_jumps(tmp_path, clock, check):
    ahead, jumping = clock
    run(check, tmp_path, ahead, within=jumping)


@pytest.mark.slow
def test_people_whose_clocks_jump_lose_nothing(place, tmp_path, clock):
    """Several at once, while their common clock jumps by up to 400 days every few milliseconds."""
    (ahead, jumping), rng = clock, np.random.default_rng(6)
    sets = random_sets([1, 2] * sized(60), np.random.default_rng(0), n_inputs=2)
    sw.create_study(place, sets, model=sw.AggregateRegressor("linear")).close()
    program = [*jumping, sys.executable, "-m", "tests.reliability.children"]
    job, n = children.works_while_the_clock_jumps.__name__, str(sized(60))
    said = {by: tmp_path / f"said by {by}" for by in ("ann", "bob", "eve")}
    workers = [
        subprocess.Popen([*program, job, place, by, n, file], cwd=ROOT, stderr=subprocess.PIPE)
        for by, file in said.items()
    ]
    jumps = 0
    while any(worker.poll() is None for worker in workers):
        put(ahead, float(rng.choice(JUMPS)))
        jumps += 1
        time.sleep(rng.uniform(0.0, 0.03))
    for worker in workers:
        errors = worker.communicate()[1].decode()
        assert worker.returncode == 0, errors[-3000:]
    replay = invariants.check(place)
    told = {by: [*map(int, file.read_text().split())] for by, file in said.items()}
    assert sum(map(len, told.values())) > sized(60)
    for by, positions in told.items():
        order = [at for event in replay.events if event.what == "told" for at in [event.position]]
        mine = [order.index(at) for at in positions]
        assert mine == sorted(mine), by
        assert all(replay.answers[at][1] == value_of(at) for at in positions)
    backwards = sum(one.at > two.at for one, two in pairwise(replay.events))
    print(f"{jumps} jumps; {len(replay.events)} events, {backwards} of them before the last one's")
    assert backwards > 5
