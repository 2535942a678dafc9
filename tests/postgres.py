"""A real PostgreSQL for tests: one server for all workers, a database for each test."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.marks import slow

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "postgres"
NUMBERS = itertools.count()


@contextmanager
def locked(folder):
    """What the workers know of the server; one of them at a time may read and change it."""
    with open(folder / "postgres.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        file = folder / "postgres.json"
        known = json.loads(file.read_text()) if file.exists() else {"users": 0}
        yield known
        file.write_text(json.dumps(known))


def start(*options: str) -> dict[str, str]:
    """A server with a folder of its own, or why there is none."""
    if shutil.which("bash") is None:
        return {"failed": "there is no bash to run scripts/postgres with"}
    folder = tempfile.mkdtemp(prefix="sumwise-postgres-")
    done = subprocess.run(
        [SCRIPT, "start", folder, *options], capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        return {"failed": done.stderr.strip()[-500:]}
    return {"url": done.stdout.strip(), "folder": folder}


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory):
    """The URL of a server that the first worker starts and the last one stops."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with locked(folder) as known:
        if not known["users"]:
            known |= start("-c fsync=off")  # it will not have to outlive the machine
        known["users"] += "url" in known
    if "url" not in known:
        reason = f"PostgreSQL could not be started: {known['failed']}"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    yield known["url"]
    with locked(folder) as known:
        known["users"] -= 1
        if not known["users"]:
            subprocess.run([SCRIPT, "stop", known["folder"]], check=True, capture_output=True)


@pytest.fixture
def postgres_url(postgres_server):
    """The URL of an empty database."""
    psycopg = pytest.importorskip("psycopg")
    name = f"test_{os.getpid()}_{next(NUMBERS)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    yield postgres_server.rpartition("/")[0] + f"/{name}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _where(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "study.db")
    return request.getfixturevalue("postgres_url")


@pytest.fixture(params=["sqlite", *slow("postgresql")])
def place(request, tmp_path):
    """Where a study may be kept: on SQLite in every run, on PostgreSQL with the slow tests."""
    return _where(request, tmp_path)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """Like `place`, for the tests that run on both databases every time."""
    return _where(request, tmp_path)
