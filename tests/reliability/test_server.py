"""The PostgreSQL server itself dies, and comes back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import sumwise as sw
from sumwise.outofcore import spread
from tests import parquet, postgres
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
    bring_back(folder)


def bring_back(folder):
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


def _slowly(job, one):
    time.sleep(0.2)
    return job(one)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("back", [False, True])
def test_a_server_that_dies_while_a_cluster_looks_for_a_question_loses_nothing(
    server, client, tmp_path, monkeypatch, back
):
    """Whether or not it is back when the question is to be claimed."""
    from sumwise import distributed

    monkeypatch.setattr(spread, "PART_SETS", 300)
    url, folder = server
    files = parquet.write(parquet.table_of(SETS), tmp_path / "files")
    scan = parquet.scan(files, n_inputs=2)
    design = sw.AggregateRegressor("linear").embed(scan, tmp_path / "design")
    with sw.create_study(url, design) as study:
        study.tell_many(SETS.ids[:5], [1.0, 3.0, 2.0, 5.0, 4.0])
        (expected,), before = study.propose(1), study.history()
    killed = []

    def run(job, jobs):
        pieces = iter(distributed.on(client)(partial(_slowly, job), jobs))
        yield next(pieces)
        if not killed:
            killed.append(control(folder, "--mode", "immediate", "stop").returncode)
            if back:
                bring_back(folder)
        yield from pieces

    with sw.open_study(url, run=run) as study:
        if not back:
            with pytest.raises(sw.StorageError, match="cannot be reached"):
                study.ask()
            bring_back(folder)
            assert study.history() == before
        asked = study.ask()
        assert asked.set_id == expected.set_id
        assert [claim.set_id for claim in study.claims] == [asked.set_id]
        study.tell(asked.set_id, 2.5)
    assert killed == [0]
    assert len(invariants.check(url).answers) == 6
