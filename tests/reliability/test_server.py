"""The PostgreSQL server itself dies, and comes back."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import make_url

import sumwise as sw
from sumwise.outofcore import spread
from tests import parquet, postgres
from tests.builders import random_sets
from tests.reliability import invariants
from tests.reliability.scale import sized
from tests.reliability.watching import check_promises, start
from tests.workers import work_until_killed

SETS = random_sets([1, 2] * 1500, np.random.default_rng(0), n_inputs=2)


def program():
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=str)
    return str(installed[-1]) if installed else str(shutil.which("pg_ctl"))


def as_server():
    """What runs a command as the user that the server runs as."""
    return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


def control(folder, *arguments):
    """pg_ctl, as that user."""
    command = [*as_server(), program(), "--pgdata", f"{folder}/data", "--log", f"{folder}/log"]
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


@pytest.fixture
def shared_folder():
    """A folder that the server's user may have."""
    folder = tempfile.mkdtemp(prefix="sumwise-standby-")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


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


def kill_all_of(folder):
    """Every process of a server at the same moment, as if its machine had lost power."""
    pid = int((Path(folder) / "data" / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for each in (pid, *map(int, children)):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    (Path(folder) / "data" / "postmaster.pid").unlink()


def standby_of(url, folder, port=None):
    """Another server that follows this one, which waits for it before it acknowledges."""
    primary = make_url(url)
    bin_folder = Path(program()).parent
    shutil.rmtree(Path(folder) / "data", ignore_errors=True)
    address = f"host=127.0.0.1 port={primary.port} user=sumwise password={primary.password}"
    copy = [bin_folder / "pg_basebackup", "-d", address, "-D", f"{folder}/data", "-R", "-c", "fast"]
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    subprocess.run([*as_server(), *copy], cwd="/", check=True, capture_output=True)
    for free in np.random.default_rng().integers(20_000, 32_000, 8).tolist():
        port = port or free
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        if control(folder, f"--options={options}", "start").returncode == 0:
            break
        port = None
    with connected(url) as connection:
        deadline = time.monotonic() + 60
        while not connection.execute("SELECT 1 FROM pg_stat_replication").fetchone():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        connection.execute("SELECT pg_reload_conf()")
    return primary.set(port=port).render_as_string(hide_password=False)


def connected(url):
    import psycopg

    return psycopg.connect(url, autocommit=True)


def promote(url, folder):
    """The standby becomes the server; there is no other that it could wait for."""
    assert control(folder, "promote").returncode == 0
    with connected(url) as connection:
        connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
        connection.execute("SELECT pg_reload_conf()")


@pytest.mark.slow
def test_a_standby_that_takes_over_has_all_that_was_acknowledged(server, shared_folder):
    """The server dies at once, with its machine; then the same the other way round."""
    (url, folder), rng, fates = server, np.random.default_rng(7), Counter()
    here, there = (url, folder), (standby_of(url, shared_folder), shared_folder)
    hosts = "&".join(f"host=127.0.0.1:{make_url(each).port}" for each in (here[0], there[0]))
    user, password = make_url(url).username, make_url(url).password
    both = f"postgresql://{user}:{password}@/postgres?{hosts}&target_session_attrs=read-write"
    sw.create_study(both, SETS, model=sw.AggregateRegressor("linear")).close()
    workers = [start(work_until_killed, both, "study", f"w{k}", k) for k in range(3)]
    try:
        for number in range(sized(1)):
            if number:
                again = standby_of(there[0], here[1], make_url(here[0]).port)
                here, there = there, (again, here[1])
            for worker in workers:
                worker.wait_for("done", int(rng.integers(3, 9)))
            time.sleep(rng.uniform(0.0, 0.03))
            kill_all_of(here[1])
            for worker in workers:
                worker.drain()
            time.sleep(rng.uniform(0.0, 1.0))  # the other may only be read meanwhile
            promote(*there)
            for worker in workers:
                worker.wait_for("done", 3)
            replay = invariants.check(both)
            for worker in workers:
                fates |= check_promises(worker, replay)
    finally:
        for worker in workers:
            worker.kill()
        control(shared_folder, "--mode", "immediate", "stop")
    refusals = [line["error"] for worker in workers for line in worker.said if "error" in line]
    acknowledged = sum(line["stage"] == "done" for worker in workers for line in worker.said)
    print(f"{sized(1)} promotions: {acknowledged} steps acknowledged, {len(refusals)} refused")
    assert refusals
    for text in refusals:
        assert "cannot be reached" in text or "look at the study" in text, text


@pytest.mark.slow
def test_a_server_that_says_nothing_cannot_be_reached():
    """Another program has its port, or its machine is busy."""
    pytest.importorskip("psycopg")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://ann@127.0.0.1:{silent.getsockname()[1]}/lab?connect_timeout=2"
        with pytest.raises(sw.StorageError, match=r"cannot be reached .*timeout"):
            sw.open_study(url)


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
