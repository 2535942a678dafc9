"""A server that is killed while people write to it: what it answered with 2xx is stored."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import random
import select
import signal
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tests.reliability import killing
from tests.reliability.commands import SETS, Home
from tests.web.crowd import Connection

OFTEN = 2.0  # beside the weights of commands
PEOPLE = 4


@dataclass
class Request:
    """What one person wanted, and what the server has said."""

    label: str
    what: str  # the event that it makes
    position: int | None
    total: float | None = None
    status: int = 0  # 0 if there was no answer
    body: Any = None


def make_ready() -> None:
    """Import once what every child would import, and leave out the charts that nobody asks for."""
    for name in ("anyio._backends._asyncio", "uvicorn.loops.asyncio", "sumwise.web.server"):
        importlib.import_module(name)
    from sumwise.web import app

    app._vega = lambda: ""  # V8 would take most of the time


def kill_server(home: Home) -> dict[str, Any]:
    """Start a server, let people write to it, and kill it; gives its fate, as of any command."""
    before = home.plain().events
    words = ["serve", home.place, "--study", "plain", "--no-browser"]
    child = killing.started(words)
    requests: list[Request] = []
    link = _first_line(child.pipes[0])
    if link:
        address, _, token = link.partition("/#token=")
        host, _, port = address.removeprefix("http://").rpartition(":")
        server = SimpleNamespace(host=host, port=int(port), token=token)
        seconds = float(home.rng.uniform(0.02, 0.5))
        seed = int(home.rng.integers(2**31))
        asyncio.run(_people(server, child.pid, seconds, seed, requests))
    end = killing.ended(child)
    assert end.killed, end
    home.known.clear()
    after = home.plain()
    assert after.events[: len(before)] == before
    new: dict[str, list] = {}
    for event in after.events[len(before) :]:
        new.setdefault(event.by, []).append(event)
    assert new.keys() <= {request.label for request in requests}
    for request in requests:
        _held_to(request, new.get(request.label, []))
    fates = [bool(new.get(request.label)) for request in requests if not request.status]
    fate = "said" if not fates else "stored" if any(fates) else "not stored"
    fine = sum(request.status in (200, 201, 204) for request in requests)
    return {"fate": fate, "at": end.stage or "elsewhere", "acknowledged": fine}


def _held_to(request: Request, events: list) -> None:
    """What was acknowledged is stored, what was refused is not, and the rest is whole or not."""
    found = [(event.what, event.position) for event in events]
    if request.what == "asked" and request.position is None:
        assert [what for what, _ in found] in ([], ["asked"] * 3), (request, found)
        if request.status == 201:
            told = [question["position"] for question in request.body["questions"]]
            assert [at for _, at in found] == told, (request, found)
    else:
        assert found in ([], [(request.what, request.position)]), (request, found)
    if request.status:
        fine = request.status in (200, 201, 204)
        assert bool(found) == fine, (request, found)
    if found and request.total is not None:
        assert events[0].y_bar == request.total, (request, found)


def _first_line(pipe: int) -> str:
    text = b""
    while not text.endswith(b"\n") and select.select([pipe], [], [], killing.LONGEST)[0]:
        if not (more := os.read(pipe, 1)):
            break
        text += more
    return text.decode().strip()


async def _people(server: Any, pid: int, seconds: float, seed: int, requests: list) -> None:
    answered = asyncio.Event()

    async def killer() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(answered.wait(), 2 * random.Random(seed).expovariate(1.0))
        await asyncio.sleep(seconds)
        os.kill(pid, signal.SIGKILL)

    work = (_person(server, n, random.Random(seed + n), requests, answered) for n in range(PEOPLE))
    await asyncio.gather(killer(), *work)


async def _person(server: Any, n: int, rng: random.Random, requests: list, answered: Any) -> None:
    connection = Connection(server)
    with suppress(OSError, asyncio.IncompleteReadError, IndexError):
        for number in range(10_000):
            request, call = _made_up(f"p{n}/{number}", rng)
            requests.append(request)
            status, content = await connection.raw(*call)
            request.status, request.body = status, json.loads(content) if content else None
            answered.set()


def _made_up(label: str, rng: random.Random) -> tuple[Request, tuple]:
    """Something to write, and how it is sent."""
    at, total = rng.randrange(len(SETS)), float(rng.randrange(1, 10_000))
    body: dict[str, Any] = {"by": label}
    kind = rng.choice(["ask", "ask", "tell", "tell", "tell", "amend", "retract", "claim", "skip"])
    if kind == "ask":
        n = 3
        return Request(label, "asked", None), ("POST", "/api/questions", {**body, "n": n})
    if kind == "tell":
        sent = {**body, "position": at, "total": total, "sure": True}
        return Request(label, "told", at, total), ("POST", "/api/answers", sent)
    if kind == "amend":
        sent = {**body, "total": total, "sure": True}
        return Request(label, "amended", at, total), ("PATCH", f"/api/answers/{at}", sent)
    if kind == "retract":
        return Request(label, "retracted", at), ("POST", f"/api/answers/{at}/retract", body)
    sent = {**body, "position": at}
    if kind == "claim":
        return Request(label, "asked", at), ("POST", "/api/claims", sent)
    return Request(label, "skipped", at), ("POST", "/api/skips", sent)
