"""`sumwise serve`: as a process that is started, used by many, and stopped."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from click.testing import CliRunner

import sumwise as sw
from sumwise.cli import main
from sumwise.cli.serve import WARNING
from sumwise.study.storage.database import Database
from sumwise.web import server as web_server
from tests.builders import random_sets
from tests.marks import slow
from tests.studies import SETS, small_study
from tests.web.apps import client_of
from tests.web.crowd import Connection, work
from tests.web.server import running


@pytest.fixture
def path(tmp_path):
    return str(small_study(tmp_path / "a.db"))


def run(*arguments, **env):
    return CliRunner(env={"COLUMNS": "90", **env}).invoke(main, ["serve", *map(str, arguments)])


def one_line(text):
    return " ".join(text.replace("│", " ").split())


def taken():
    """A port that somebody listens on."""
    other = socket.create_server(("127.0.0.1", 0))
    return other, other.getsockname()[1]


# --- a process ------------------------------------------------------------------------------------


def test_it_serves_says_where_and_ends_with_ctrl_c(path, tmp_path):
    async def look(server):
        connection = Connection(server)
        assert (await connection.send("GET", "/api/study"))[1]["answers"] == 1
        status, page = await connection.raw("GET", "/")
        assert status == 200
        assert b"<html" in page
        status, body = await connection.send("POST", "/api/questions", {"by": "ann"})
        assert status == 201
        await connection.close()
        return body["questions"][0]["id"]

    async def listen(server):
        """An open page must not keep the server from ending."""
        reader, writer = await asyncio.open_connection(server.host, server.port)
        head = f"GET /api/events HTTP/1.1\r\nHost: {server.host}:{server.port}\r\n\r\n"
        writer.write(head.encode())
        await reader.readuntil(b"changes")
        begun = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        while await reader.read(1000):
            pass
        writer.close()
        return time.monotonic() - begun

    with running(path, tmp_path / "state") as server:
        asked = asyncio.run(look(server))
        assert asyncio.run(listen(server)) < 30
        server.process.wait(timeout=60)
        said = (tmp_path / "state" / "log").read_text()
        assert server.process.returncode == 0
        assert "Study 'study' is served at" in said
        assert "The server has ended." in said
        assert "Traceback" not in said
    with sw.open_study(path) as study:
        assert [str(claim.set_id) for claim in study.claims] == [asked]
        assert [claim.by for claim in study.claims] == ["ann"]


@pytest.mark.slow
def test_a_page_that_is_open_survives_a_restart(path, tmp_path):
    tokens = []
    for arguments in ((), (), ("--new-token",)):
        with running(path, tmp_path / "state", *arguments) as server:
            tokens.append(server.token)
    assert tokens[0] == tokens[1] != tokens[2]


@pytest.mark.slow
def test_a_crowd_loses_nothing(tmp_path):
    """The small form of the load that `python -m benchmarks web` measures."""
    rng = np.random.default_rng(0)
    sets = random_sets(rng.integers(1, 5, 300).tolist(), rng)
    totals = rng.normal(size=300)
    place = tmp_path / "a.db"
    sw.create_study(place, sets, model=sw.AggregateRegressor("fourier", n_basis=16)).close()
    with running(str(place), tmp_path / "state") as server:
        seen = asyncio.run(work(server, 20, 4.0, totals))
    assert seen.errors == []
    assert seen.twice == []
    assert len(seen.acknowledged) >= 20
    with sw.open_study(place) as study:
        kept = {answer.position: answer.y_bar for answer in study.answers}
        assert kept == seen.acknowledged
        told = [event for event in study.history() if event.what == "told"]
        assert len(told) == len(kept)


@pytest.mark.slow  # without a server it is quick, in test_backends
def test_what_was_acknowledged_survives_a_kill(tmp_path):
    sets = random_sets([1] * 200, np.random.default_rng(0))
    place = tmp_path / "a.db"
    sw.create_study(place, sets, model=sw.AggregateRegressor("linear")).close()

    async def until_killed(server):
        acknowledged, connection = {}, Connection(server)
        for position in range(200):
            body = {"position": position, "total": float(position), "sure": True}
            try:
                status, _ = await connection.send("POST", "/api/answers", body)
            except (OSError, IndexError, asyncio.IncompleteReadError):
                break
            assert status == 201
            acknowledged[position] = float(position)
            if position == 20:
                asyncio.get_running_loop().call_later(0.05, server.process.kill)
        connection.writer.close()
        return acknowledged

    with running(str(place), tmp_path / "state") as server:
        acknowledged = asyncio.run(until_killed(server))
    with sw.open_study(place) as study:
        kept = {answer.position: answer.y_bar for answer in study.answers}
    assert 20 < len(acknowledged) <= len(kept) <= len(acknowledged) + 1
    assert acknowledged.items() <= kept.items()


@pytest.mark.slow  # in one process it is quick, in test_problems
def test_reading_goes_on_while_somebody_else_writes_for_long(path, tmp_path):
    async def look(server):
        connection = Connection(server)
        for name in ("study", "sets", "next", "history"):
            assert (await connection.send("GET", f"/api/{name}"))[0] == 200
        await connection.close()

    with running(path, tmp_path / "state") as server:
        lock = sqlite3.connect(path, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        asyncio.run(look(server))
        lock.execute("ROLLBACK")
        lock.close()


# --- addresses ------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_refused_with_a_remedy(path, tmp_path):
    other, port = taken()
    with other:
        refused = run(path, "--port", port, "--no-browser", XDG_STATE_HOME=str(tmp_path))
    assert refused.exit_code == 1
    said = one_line(refused.stderr)
    assert f"port {port} is taken by another program" in said
    assert "leave --port out" in said


def test_without_a_port_the_next_free_one_is_taken(path, tmp_path, monkeypatch):
    other, port = taken()
    with other:
        monkeypatch.setattr(web_server, "PORT", port)
        address = web_server.listen("127.0.0.1", None)
    with address.socket:
        assert port < address.port < port + 50
        assert address.url("T") == f"http://127.0.0.1:{address.port}/#token=T"


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_this_machine_does_not_have(path, tmp_path, host):
    refused = run(path, "--host", host, "--no-browser", XDG_STATE_HOME=str(tmp_path))
    assert refused.exit_code == 1
    assert f"cannot listen on '{host}'" in one_line(refused.stderr)
    assert "an address of this machine" in one_line(refused.stderr)


def test_links_name_an_address_that_can_be_opened():
    for host, shown in (("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]")):
        assert web_server.Address(host, 80, None).url("T") == f"http://{shown}:80/#token=T"


# --- options --------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """The command without the server: what it says before."""
    monkeypatch.setattr(web_server, "run", lambda ready, address: None)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    return opened


def test_others_are_warned_of(path, quick):
    assert WARNING.split(".")[0] in one_line(run(path, "--host", "0.0.0.0", "--no-browser").stderr)
    assert WARNING.split(".")[0] not in one_line(run(path, "--no-browser").stderr)


def test_a_browser_is_opened_where_there_are_windows(path, quick):
    run(path, DISPLAY=":0")
    _opened()
    (address,) = quick
    assert address.startswith("file:///")
    quick.clear()
    run(path, "--no-browser", DISPLAY=":0")
    if sys.platform == "linux":
        run(path, DISPLAY="", WAYLAND_DISPLAY="")
    _opened()
    assert quick == []


def test_the_browser_is_given_a_file_for_this_user_alone_which_leads_to_the_page(
    path, quick, monkeypatch
):
    seen = []

    def look(ready, address):
        _opened()
        (file,) = (Path(unquote(urlsplit(each).path)) for each in quick)
        seen.append((file, stat.S_IMODE(file.stat().st_mode), file.read_text()))

    monkeypatch.setattr(web_server, "run", look)
    link = run(path, DISPLAY=":0").stdout.strip()
    ((file, mode, text),) = seen
    assert mode == 0o600
    assert f'content="0; url={link}"' in text
    assert not file.exists()  # the server has ended


def test_files_of_servers_that_were_killed_are_removed(path, quick, tmp_path):
    folder = tmp_path / "state" / "sumwise"
    folder.mkdir(parents=True)
    old, new = folder / "open-1.html", folder / "open-2.html"
    for file in (old, new):
        file.touch()
    os.utime(old, (1, 1))
    run(path, DISPLAY=":0")
    _opened()
    assert not old.exists()
    assert new.exists()  # of a server that starts now


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are listed in /proc")
def test_no_argument_of_any_program_shows_the_token(path, tmp_path):
    """A browser that looks at the list of processes while it is being started."""
    browser, found = tmp_path / "browser", tmp_path / "found"
    browser.write_text(f'#!/bin/sh\ncat /proc/[0-9]*/cmdline > "{found}.new"\n'
                       f'mv "{found}.new" "{found}"\n')  # fmt: skip
    browser.chmod(0o755)
    command = [sys.executable, "-m", "sumwise", "serve", path]
    state = str(tmp_path / "state")
    env = {**os.environ, "BROWSER": f"{browser} %s", "DISPLAY": ":0", "XDG_STATE_HOME": state}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        token = process.stdout.readline().strip().partition(b"#token=")[2]
        for _ in range(600):
            if found.exists():
                break
            time.sleep(0.05)
        arguments = found.read_bytes()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert b"open-" in arguments  # it saw itself
    assert len(token) >= 43
    assert token not in arguments
    assert list((tmp_path / "state" / "sumwise").glob("open-*")) == []


def test_reading_can_be_made_to_need_the_token(path, quick, monkeypatch):
    made = []
    monkeypatch.setattr(web_server, "run", lambda ready, address: made.append(ready.config.app))
    run(path, "--no-browser")
    run(path, "--no-browser", "--require-token-for-reading")
    seen = [client_of(app, token=False).get("/api/study").status_code for app in made]
    assert seen == [200, 401]


def _opened():
    """Wait until browsers that were to be opened are open."""
    for thread in threading.enumerate():
        if thread.name == "browser":
            thread.join(60)


def test_the_token_is_printed_once(path, quick):
    result = run(path, "--no-browser")
    token = result.stdout.strip().partition("#token=")[2]
    assert result.output.count(token) == 1
    assert result.exit_code == 0


def test_logs_of_the_program_around_it_are_left_alone(path, quick):
    """Some handlers close their stream with themselves, and the stream may be everybody's."""
    handler = logging.StreamHandler(io.StringIO())
    handler.close = handler.stream.close
    before = [each() for each in logging._handlerList]
    assert run(path, "--no-browser").exit_code == 0
    assert not handler.stream.closed
    assert [each() for each in logging._handlerList] == before


def test_one_of_several_studies(path, quick):
    sw.create_study(path, SETS, name="other").close()
    refused = run(path, "--no-browser")
    assert "Say which (--study NAME" in one_line(refused.stderr)
    assert "Study 'other' is served" in run(path, "--study", "other", "--no-browser").stderr


@pytest.mark.parametrize("places", ["lon", "lon,", "a,b,c", ",", "a,a"])
def test_a_map_takes_two_inputs(path, quick, places):
    refused = run(path, "--map", places, "--no-browser")
    assert refused.exit_code == 2
    assert "name two inputs, longitude first" in one_line(refused.stderr)


def test_inputs_of_a_map_must_exist(path, quick):
    refused = run(path, "--map", "lon,lat", "--no-browser")
    assert refused.exit_code == 1
    assert "no input is called 'lon'; the inputs are 'x0', 'x1', 'x2'" in one_line(refused.stderr)
    assert refused.stdout == ""
    assert run(path, "--map", "x0,x2", "--no-browser").exit_code == 0


def test_what_is_no_study_is_refused(tmp_path, quick):
    refused = run(tmp_path / "nothing.db", "--no-browser")
    assert refused.exit_code == 1
    assert "there is no file" in one_line(refused.stderr)


def test_a_token_that_cannot_be_kept_is_said(path, quick, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    result = run(path, "--no-browser")
    assert result.exit_code == 0
    assert "will not work after a restart" in one_line(result.stderr)
    assert "/#token=" in result.stdout


def test_a_password_is_not_shown_and_does_not_name_the_token(quick, postgres_url):
    sw.create_study(postgres_url, SETS).close()
    result = run(postgres_url, "--no-browser")
    assert result.exit_code == 0, result.output
    secret = postgres_url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    assert secret
    assert secret not in result.output
    shown = {Database(postgres_url.replace(secret, other)).shown for other in ("one", "two")}
    assert len(shown) == 1  # which is what a token is kept under


@pytest.mark.parametrize("package", ["fastapi", *slow("uvicorn")])
def test_a_missing_extra_is_named(path, tmp_path, package):
    """In a fresh interpreter, where the package cannot be found."""
    script = (
        "import sys, sumwise.cli\n"
        f"sys.modules[{package!r}] = None\n"
        "sys.argv = ['sumwise', 'serve', sys.argv[1], '--no-browser']\n"
        "sumwise.cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, path],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
    )
    assert done.returncode == 1
    assert "pip install 'sumwise[web]'" in one_line(done.stderr)
    if package == "uvicorn":
        return  # the application runs on other servers as well
    made = "import sys, sumwise.web\n" + script.splitlines()[1] + "\nsumwise.web.create_app('a.db')"
    done = subprocess.run([sys.executable, "-c", made], capture_output=True, text=True, timeout=120)
    assert "pip install 'sumwise[web]'" in done.stderr
