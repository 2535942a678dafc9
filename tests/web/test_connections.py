"""Connections that say nothing, half a thing, or too much: others must not notice."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

import numpy as np
import pytest

import sumwise as sw
from tests.builders import random_sets
from tests.studies import LINEAR, small_study
from tests.web.server import running

HEAD = "{} HTTP/1.1\r\nHost: {}:{}\r\nAuthorization: Bearer {}\r\n"


def connected(server, text=""):
    found = socket.create_connection((server.host, server.port), timeout=30)
    found.sendall(text.encode())
    return found


def head(server, call, *more):
    """The head of a request, with its empty line."""
    text = HEAD.format(call, server.host, server.port, server.token)
    return text + "".join(f"{line}\r\n" for line in more) + "\r\n"


def said(connection):
    """All that comes until the other side ends."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def answer(server, call, *more):
    with connected(server, head(server, call, "Connection: close", *more)) as connection:
        return said(connection)


@pytest.fixture
def path(tmp_path):
    return small_study(tmp_path / "a.db")


def test_a_thousand_silent_connections_are_in_nobodys_way(path, tmp_path):
    """More than the system gives this server; the next visitor comes from the same machine."""
    with running(path, tmp_path / "state", files=1024) as server, ExitStack() as stack:
        for n in range(1060):
            stack.enter_context(connected(server, "GET /" if n % 3 == 0 else ""))
        for _ in range(3):
            assert answer(server, "GET /api/study").startswith(b"HTTP/1.1 200 OK")
            time.sleep(1)
        log = (tmp_path / "state" / "log").read_text().splitlines()
    assert len(log) < 10, log[:20]


CUT_OFF = {
    "no body": ("Content-Length: 20", ""),
    "half a body": ("Content-Length: 20", '{"by": "ann"'),
    "half a chunk": ("Transfer-Encoding: chunked", 'c\r\n{"by": '),
    "no last chunk": ("Transfer-Encoding: chunked", 'd\r\n{"by": "ann"}\r\n'),
}


def test_a_request_that_was_cut_off_is_not_carried_out(path, tmp_path):
    calls = ("/api/answers/1/retract", "/api/questions", "/api/claims/2/renew")
    with running(path, tmp_path / "state") as server, sw.open_study(path) as study:
        study.claim(2)
        before = study.history(), study.claims
        for length, begun in CUT_OFF.values():
            for call in calls:
                text = head(server, f"POST {call}", "Content-Type: application/json", length)
                connected(server, text + begun).close()
                with connected(server, text + begun) as connection:
                    connection.shutdown(socket.SHUT_WR)  # and it listens for an answer
                    assert b"HTTP/1.1 20" not in said(connection)
        assert answer(server, "GET /api/study").startswith(b"HTTP/1.1 200 OK")
        time.sleep(0.5)
        assert (study.history(), study.claims) == before


def test_a_length_beside_chunks_is_refused(path, tmp_path):
    smuggled = "2\r\n{}\r\n0\r\n\r\nGET /api/study HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    lengths = ("Content-Length: 2", "Transfer-Encoding: chunked")
    with running(path, tmp_path / "state") as server:
        for both in (lengths, lengths[::-1]):
            for call in ("POST /api/answers/1/retract", "GET /api/study"):
                json = "Content-Type: application/json"
                with connected(server, head(server, call, json, *both) + smuggled) as connection:
                    found = said(connection)
                assert found.startswith(b"HTTP/1.1 400")
                assert found.count(b"HTTP/1.1") == 1  # the rest may be anybody's
        with sw.open_study(path) as study:
            assert len(study.answers) == 1


def test_downloads_that_are_cancelled_leave_nothing_behind(tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    path = tmp_path / "large.db"
    sets = random_sets([400] * 400, np.random.default_rng(0))
    sw.create_study(path, sets, model=LINEAR).close()
    with running(path, tmp_path / "state") as server:
        for kind in ("csv", "parquet"):
            for _ in range(2):
                with connected(server, head(server, f"GET /api/individuals.{kind}")) as connection:
                    assert connection.recv(100).startswith(b"HTTP/1.1 200 OK")
        whole = answer(server, "GET /api/individuals.csv")
        assert whole.count(b"\n") > 160_000
        patient = connected(server, head(server, "GET /api/individuals.csv"))
        assert patient.recv(100).startswith(b"HTTP/1.1 200 OK")
        time.sleep(1)
        assert folder_size(temporary) == 0  # also while one is being sent
        server.process.kill()
        patient.close()


def folder_size(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
