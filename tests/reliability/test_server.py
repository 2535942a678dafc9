"""The PostgreSQL server itself dies, and comes back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import sumwise as sw
from tests import postgres
from tests.builders import random_sets
from tests.reliability import invariants
from tests.reliability.scale import sized
from tests.reliability.watching import check_promises, start
from tests.workers import work_until_killed

SETS = random_sets([1, 2] * 1500, np.random.default_rng(0), n_inputs=2)


def control(folder, *arguments):
    """pg_ctl, as the user that the server runs as."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=str)
    program = str(installed[-1]) if installed else shutil.which("pg_ctl")
    somebody = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    command = [*somebody, program, "--pgdata", f"{folder}/data", "--log", f"{folder}/log"]
    return subprocess.run(
        [*command, "--wait", *arguments], cwd="/", stdout=subprocess.DEVNULL, check=False
    )


@pytest.fixture
def server():
    """A server of one's own, that may be treated badly: its URL and folder."""
    pytest.importorskip("psycopg")
    known = postgres.start()
    if "url" not in known:
        reason = f"PostgreSQL could not be started: {known['failed']}"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    yield known["url"], known["folder"]
    subprocess.run([postgres.SCRIPT, "stop", known["folder"]], check=True, capture_output=True)


def crash(folder, politely):
    """Without a word to anybody, either way; the server is back when this returns."""
    if politely:
        assert control(folder, "--mode", "immediate", "stop").returncode == 0
    else:
        pid = int((Path(folder) / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while control(folder, "restart").returncode:  # its children may not have noticed yet
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.slow
def test_a_server_that_dies_loses_nothing_that_was_acknowledged(server):
    url, folder = server
    rng, fates = np.random.default_rng(3), Counter()
    sw.create_study(url, SETS, model=sw.AggregateRegressor("linear")).close()
    workers = [start(work_until_killed, url, "study", f"w{k}", k) for k in range(3)]
    for number in range(sized(3)):
        for worker in workers:
            worker.wait_for("done", int(rng.integers(3, 9)))
        time.sleep(rng.uniform(0.0, 0.01))
        crash(folder, politely=number % 2)
        for worker in workers:
            worker.drain()
            worker.wait_for("done", 3)  # they go on by themselves
        replay = invariants.check(url)
        for worker in workers:
            fates |= check_promises(worker, replay)
    for worker in workers:
        worker.kill()
    refusals = [line["error"] for worker in workers for line in worker.said if "error" in line]
    print(f"{len(refusals)} refusals; unfinished {dict(fates)}")
    assert refusals
    for text in refusals:
        assert "cannot be reached" in text or "look at the study" in text, text
    assert len(invariants.check(url).answers) > 20
