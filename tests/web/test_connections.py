"""Connections that say nothing, half a thing, or too much: others must not notice."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

import sumwise as sw
from sumwise.web import addresses, connections
from sumwise.web.server import listen, prepare
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


def until(connection, end):
    """What comes until then."""
    found = b""
    while end not in found:
        part = connection.recv(65536)
        assert part, found
        found += part
    return found


def answer(server, call, *more):
    with connected(server, head(server, call, "Connection: close", *more)) as connection:
        return said(connection)


@pytest.fixture
def path(tmp_path):
    return small_study(tmp_path / "a.db")


@pytest.mark.slow
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


@pytest.mark.slow
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


# --- deadlines and limits, shorter and smaller than they are --------------------------------------


@contextmanager
def short(path, monkeypatch, **limits):
    """A server in this process, under other limits."""
    for name, value in limits.items():
        monkeypatch.setattr(connections, name, value)
    token = "t" * 32
    with sw.open_study(path) as study:
        at = listen("127.0.0.1", None)
        ready = prepare(study, at, token)
        thread = threading.Thread(target=ready.run, args=([at.socket],))
        thread.start()
        try:
            yield SimpleNamespace(host=at.host, port=at.port, token=token, ready=ready)
        finally:
            ready.should_exit = True
            thread.join()


def trickle(connection, text):
    """Send byte by byte, so that it is never silent; until the other side has ended it."""
    try:
        for byte in text.encode() * 1000:
            connection.sendall(bytes([byte]))
            time.sleep(0.05)
    except OSError:
        return True
    return False


@pytest.mark.slow
def test_heads_and_bodies_that_do_not_end_are_not_waited_for(path, monkeypatch):
    with short(path, monkeypatch, HEAD=1.5, BODY=0.5) as server:
        for begun in ("", "GET /", "GET /api/study HTTP/1.1\r\nHost: x\r\nA: "):
            with connected(server, begun) as connection:
                assert said(connection) == b""
        for call in ("GET /api/study", "POST /api/questions"):
            text = head(server, call, "Content-Length: 60000")
            with connected(server, text) as connection:
                assert b"201" not in said(connection)
            with connected(server, text) as connection:
                assert trickle(connection, "x")
        with connected(server, "GET / HTTP/1.1\r\n") as connection:
            assert trickle(connection, "a: b\r\n")
        with connected(server) as connection:  # one that is used is not ended
            for _ in range(5):
                connection.sendall(head(server, "GET /api/study").encode())
                assert until(connection, b"null}").startswith(b"HTTP/1.1 200 OK")
                time.sleep(0.4)
            connection.sendall(b"GET ")  # and waited for anew
            assert said(connection) == b""


@pytest.mark.slow
def test_one_who_takes_nothing_is_not_waited_for(tmp_path, monkeypatch):
    path = tmp_path / "large.db"
    sets = random_sets([400] * 400, np.random.default_rng(0))
    sw.create_study(path, sets, model=LINEAR).close()
    with short(path, monkeypatch, READER=0.3) as server:
        for call in ("GET /static/vega.js", "GET /api/individuals.csv"):
            with socket.socket() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.connect((server.host, server.port))
                connection.sendall(head(server, call).encode())
                assert connection.recv(10) == b"HTTP/1.1 2"
                deadline = time.monotonic() + 30
                while server.ready.server_state.connections and time.monotonic() < deadline:
                    time.sleep(0.05)
                assert not server.ready.server_state.connections


def test_the_one_that_has_kept_the_server_waiting_longest_makes_room(path, monkeypatch):
    with short(path, monkeypatch, MOST=4) as server, ExitStack() as stack:
        stream = stack.enter_context(connected(server, head(server, "GET /api/events")))
        assert stream.recv(100).startswith(b"HTTP/1.1 200 OK")
        silent = [stack.enter_context(connected(server)) for _ in range(2)]
        while len(server.ready.server_state.connections) < 3:
            time.sleep(0.01)
        used = stack.enter_context(connected(server, head(server, "GET /api/study")))
        assert used.recv(65536).startswith(b"HTTP/1.1 200 OK")
        for each in silent:
            assert answer(server, "GET /api/study").startswith(b"HTTP/1.1 200 OK")
            assert each.recv(10) == b""
            stack.enter_context(connected(server, "GET"))
        assert answer(server, "GET /api/study").startswith(b"HTTP/1.1 200 OK")
        with sw.open_study(path) as study:
            study.tell(0, 1.0)
        until(stream, b'{"changes": 2}')  # it is open, and was never in question


def test_streams_have_half_of_the_places(path, monkeypatch):
    with short(path, monkeypatch, MOST=8) as server, ExitStack() as stack:
        for _ in range(3):  # places are given back
            streams = [connected(server, head(server, "GET /api/events")) for _ in range(4)]
            for each in streams:
                assert each.recv(100).startswith(b"HTTP/1.1 200 OK")
            refused = answer(server, "GET /api/events")
            assert refused.startswith(b"HTTP/1.1 503")
            assert b'"code":"busy"' in refused
            assert answer(server, "GET /api/study").startswith(b"HTTP/1.1 200 OK")
            for each in streams:
                each.close()
            while server.ready.server_state.connections:
                time.sleep(0.01)
        server.ready.config.app.state.served.live.most = 8
        for _ in range(8):
            each = stack.enter_context(connected(server, head(server, "GET /api/events")))
            assert each.recv(100).startswith(b"HTTP/1.1 200 OK")
        with connected(server) as connection:  # nobody can make room
            assert said(connection) == connections.FULL


def test_another_machine_has_a_share_of_the_places(path, monkeypatch):
    monkeypatch.setattr(addresses, "is_loopback", lambda host: False)
    with short(path, monkeypatch, MOST=16) as server, ExitStack() as stack:
        server.ready.config.app.state.served.live.most = 16
        for _ in range(4):
            each = stack.enter_context(connected(server, head(server, "GET /api/events")))
            assert each.recv(100).startswith(b"HTTP/1.1 200 OK")
        with connected(server) as connection:
            assert said(connection) == connections.FULL
        where = (server.host, server.port)
        with socket.create_connection(where, 30, source_address=("127.0.0.2", 0)) as other:
            other.sendall(head(server, "GET /api/study", "Connection: close").encode())
            assert said(other).startswith(b"HTTP/1.1 200 OK")
        server.ready.config.app.state.served.live.most = 8
        with socket.create_connection(where, 30, source_address=("127.0.0.3", 0)) as other:
            for status in (b"200", b"200", b"503"):
                ask = head(server, "GET /api/events").encode()
                found = stack.enter_context(
                    socket.create_connection(where, 30, source_address=("127.0.0.3", 0))
                )
                found.sendall(ask)
                assert found.recv(100).startswith(b"HTTP/1.1 " + status)


def test_replies_are_sent_at_once(path, monkeypatch):
    with short(path, monkeypatch) as server, connected(server) as connection:
        connection.sendall(head(server, "GET /api/events").encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 200 OK")
        (other,) = server.ready.server_state.connections
        accepted = other.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_soft_limit_on_files_is_raised():
    script = (
        "import resource; from sumwise.web.connections import most_connections as most;"
        "limit = resource.RLIMIT_NOFILE; print(most(), *resource.getrlimit(limit))"
    )
    for soft, hard, expected in (
        (64, 512, "341 512 512"),
        (300, 5000, "2048 4096 5000"),
        (4500, 5000, "2048 4500 5000"),
    ):
        limits = f'ulimit -S -n {soft}; ulimit -H -n {hard}; exec "$@"'
        command = ["sh", "-c", limits, "sh", sys.executable, "-c", script]
        assert subprocess.check_output(command, text=True).strip() == expected


def test_a_failure_to_accept_is_logged_once_a_minute(monkeypatch, caplog):
    complain, others = connections.Complaints(), []
    loop = SimpleNamespace(default_exception_handler=others.append)
    full = {"message": "socket.accept() out of system resource", "exception": OSError(24, "full")}
    for _ in range(1000):
        complain(loop, full)
    assert len(caplog.records) == 1
    assert "full" in caplog.text
    complain(loop, {"message": "something else"})
    assert others == [{"message": "something else"}]
