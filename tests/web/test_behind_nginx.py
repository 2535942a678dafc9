"""The configuration of docs/security.md, in a real nginx with TLS."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import threading
import time
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import numpy as np
import pytest

import sumwise as sw
from sumwise.web import server

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "nginx"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
NAME, TOKEN = "labels.example.org", "a-token-for-tests-only"
WRITE = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ports(tmp_path_factory):
    """A study behind nginx: the ports of TLS and of plain HTTP."""
    got = subprocess.run([SCRIPT], capture_output=True, text=True)
    if got.returncode:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(got.stderr.strip()[-500:])
    folder = tmp_path_factory.mktemp("nginx")
    sets = sw.Sets.from_arrays([np.ones((n, 1)) * n for n in range(1, 9)])
    study = sw.create_study(f"{folder}/plots.db", sets, model=sw.AggregateRegressor("linear"))
    # under the public name, as if it led to this machine in /etc/hosts
    found = server.listen("127.0.0.1", None)
    address = server.Address(NAME, found.port, found.socket)
    ready = server.prepare(study, address, TOKEN)
    work = threading.Thread(target=ready.run, args=([address.socket],), daemon=True)
    work.start()
    taken = [server.listen("127.0.0.1", None) for _ in range(2)]
    for each in taken:
        each.socket.close()
    tls, plain = (each.port for each in taken)
    process = subprocess.Popen(["nginx", "-c", write(folder, tls, plain, found.port), "-p", folder])
    try:
        wait_for(plain)
        yield tls, plain
    finally:
        process.terminate()
        process.wait()
        ready.should_exit = True
        work.join()
        address.socket.close()
        study.close()


def write(folder: Path, tls: int, plain: int, upstream: int) -> str:
    """The configuration of the page with the ports and the certificate of this test."""
    key, certificate = folder / "labels.key", folder / "labels.pem"
    order = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={NAME}".split()
    order += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(order, check=True, capture_output=True)
    text = re.search(r"```nginx\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    for old, new in {
        "listen 443 ssl;": f"listen 127.0.0.1:{tls} ssl;",
        "listen 80;": f"listen 127.0.0.1:{plain};",
        "/etc/ssl/certs/labels.pem": str(certificate),
        "/etc/ssl/private/labels.key": str(key),
        "127.0.0.1:8765": f"127.0.0.1:{upstream}",
    }.items():
        assert old in text
        text = text.replace(old, new)
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""  # who may write to this test's folder
    whole = folder / "nginx.conf"
    whole.write_text(
        f"{user} daemon off; pid {folder}/pid; error_log {folder}/error.log;\nevents {{}}\n"
        f"http {{ access_log {folder}/access.log; {temporary}\n{text}}}\n"
    )
    return str(whole)


def wait_for(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            time.sleep(0.05)
    pytest.fail("nginx did not start")


@contextmanager
def answer(port: int, method: str, path: str, body=None, **headers: str):
    """An answer while it arrives."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE  # we signed it ourselves
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    with closing(HTTPSConnection("127.0.0.1", port, timeout=20, context=trusting)) as line:
        line.request(method, path, data, {"Host": NAME, **headers})
        with line.getresponse() as response:
            yield response


def asked(port: int, method: str, path: str, body=None, **headers: str):
    """Status, headers and text of an answer."""
    with answer(port, method, path, body, **headers) as response:
        return response.status, response.headers, response.read().decode()


def test_the_page_is_there_and_reading_needs_the_token(ports):
    status, headers, _ = asked(ports[0], "GET", "/")
    assert status == 200
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Strict-Transport-Security"]
    assert asked(ports[0], "GET", "/api/study")[0] == 401
    assert asked(ports[0], "GET", "/api/study", **WRITE)[0] == 200


def test_writes_come_from_our_own_page_only(ports):
    body = {"by": "ann"}
    ours = asked(ports[0], "POST", "/api/questions", body, **WRITE, Origin=f"https://{NAME}")
    assert ours[0] == 201
    other = asked(ports[0], "POST", "/api/questions", body, **WRITE, Origin="https://evil.example")
    assert (other[0], json.loads(other[2])["code"]) == (403, "origin")
    named = asked(ports[0], "GET", "/api/study", None, **WRITE | {"Host": "evil.example"})
    assert (named[0], json.loads(named[2])["code"]) == (400, "host")


def test_an_event_arrives_while_the_stream_is_open(ports):
    with answer(ports[0], "GET", "/api/events", **WRITE) as stream:

        def next_change() -> int:
            while not (line := stream.readline()).startswith(b"data:"):
                assert line
            return json.loads(line[5:])["changes"]

        before = next_change()
        assert asked(ports[0], "POST", "/api/questions", {"by": "bob"}, **WRITE)[0] == 201
        assert next_change() > before


def test_a_table_of_three_megabytes_reaches_the_server_and_six_do_not(ports):
    status, _, text = asked(ports[0], "POST", "/api/pool", b"a" * 3_000_000, **WRITE)
    assert (status, json.loads(text)["code"]) == (400, "not_json")  # from us, who have read it
    assert asked(ports[0], "POST", "/api/pool", b"a" * 6_000_000, **WRITE)[0] == 413


def test_plain_http_is_sent_to_tls(ports):
    with closing(HTTPConnection("127.0.0.1", ports[1], timeout=60)) as line:
        line.request("GET", "/", headers={"Host": NAME})
        with line.getresponse() as response:
            found = response.status, response.headers["Location"]
    assert found == (301, f"https://{NAME}/")
