"""Open pages and slow clients by the hundred, beside people who work."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import time
from contextlib import suppress

import numpy as np
import pytest

import sumwise as sw
from tests.builders import random_sets
from tests.reliability import invariants
from tests.reliability.scale import FACTOR, sized
from tests.web.crowd import Connection
from tests.web.server import running

SECONDS = sized(3)
STREAMS, SLOW = min(1000, sized(125)), min(100, sized(13))
NORMAL = min(20, sized(3))
SETS = random_sets([3] * 2000, np.random.default_rng(0), n_inputs=3)


def nuisances(server, seconds, out):
    """A process with open pages and slow clients; what the pages were told, and what went wrong."""
    out.put(asyncio.run(disturb(server, time.monotonic() + seconds)))


async def disturb(server, end):
    told, errors = [0] * STREAMS, []

    async def page(n):
        await asyncio.sleep(0.003 * n)
        while time.monotonic() < end:
            with suppress(ConnectionError):  # before it was accepted: a page tries again
                reader, writer = await asyncio.open_connection(server.host, server.port)
                writer.write(head(server, "GET /api/events"))
                if (await reader.readline()).startswith(b"HTTP/1.1 200 OK"):
                    break
        try:
            while time.monotonic() < end:
                with suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        line = await reader.readline()
                        assert line, "a stream has ended"
                        told[n] += line.startswith(b"event: change")
        except (OSError, AssertionError) as error:
            errors.append(repr(error))
        writer.close()

    async def slow(n):
        """Sends byte by byte, stops in the middle of a body, or reads as through a straw."""
        text = (
            head(server, "GET /api/study"),
            head(server, "POST /api/answers", "Content-Length: 500") + b" " * 400,
            head(server, "GET /static/vega.js"),
        )[n % 3]
        while time.monotonic() < end:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(server.host, server.port, limit=1024)
                for at in range(len(text)):
                    if n % 3 == 2 or writer.is_closing() or time.monotonic() > end:
                        break
                    writer.write(text[at : at + 1])
                    await asyncio.sleep(0.1)
                else:
                    await reader.read(100)
                if n % 3 == 2:
                    writer.write(text)
                while n % 3 == 2 and time.monotonic() < end and await reader.read(512):
                    await asyncio.sleep(0.1)
                writer.close()

    async with asyncio.timeout(max(1, end - time.monotonic() + 60)):
        await asyncio.gather(*map(page, range(STREAMS)), *map(slow, range(SLOW)))
    return told, errors


def head(server, call, *more):
    lines = [f"{call} HTTP/1.1", f"Host: {server.host}:{server.port}", *more]
    return "\r\n".join([*lines, f"Authorization: Bearer {server.token}", "", ""]).encode()


async def people(server, seconds):
    """Seconds that reading and telling took; each person thinks for a second between."""
    end, took, acknowledged = time.monotonic() + seconds, [], {}

    async def person(n):
        connection, rng = Connection(server), random.Random(n)
        for position in range(n, len(SETS), NORMAL):
            await asyncio.sleep(rng.uniform(0.5, 1.5))
            if time.monotonic() > end:
                break
            body = {"position": position, "total": float(position), "sure": True}
            for call in (("POST", "/api/answers", body), ("GET", "/api/study", None)):
                begun = time.perf_counter()
                status, _ = await connection.send(*call)
                took.append(time.perf_counter() - begun)
                assert status in (200, 201)
            acknowledged[position] = float(position)
        await connection.close()

    await asyncio.gather(*map(person, range(NORMAL)))
    return took, acknowledged


@pytest.mark.slow
def test_open_pages_and_slow_clients_disturb_nobody(tmp_path):
    path = tmp_path / "a.db"
    sw.create_study(path, SETS, model=sw.AggregateRegressor("linear")).close()
    processes = multiprocessing.get_context("spawn")
    with running(str(path), tmp_path / "state") as server:
        address = type(server)(server.host, server.port, server.token, None)
        out = processes.Queue()
        others = processes.Process(target=nuisances, args=(address, SECONDS + 12, out))
        others.start()
        time.sleep(8 if FACTOR > 1 else 4)
        took, acknowledged = asyncio.run(people(server, SECONDS))
        told, errors = out.get(timeout=300)
        others.join()
    assert errors == []
    assert min(told) >= 2
    assert len(acknowledged) >= NORMAL
    with sw.open_study(path) as study:
        assert {each.position: each.y_bar for each in study.answers} == acknowledged
    invariants.check(path)
    assert (tmp_path / "state" / "log").read_text().count("\n") < 5
    most, usual = max(took), float(np.median(took))
    print(
        f"{STREAMS} streams and {SLOW} slow clients beside {NORMAL} people: {len(took)} requests, "
        f"median {usual * 1000:.0f} ms, 99 % {np.quantile(took, 0.99) * 1000:.0f} ms, "
        f"longest {most * 1000:.0f} ms, "
        f"{np.mean(np.array(took) > 0.2):.1%} over 200 ms; "
        f"load {os.getloadavg()[0]:.1f} (factor {FACTOR})"
    )
