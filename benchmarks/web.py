"""The labelling page: fifty people at once, and how soon a page is there."""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import sumwise as sw
from benchmarks.pools import ragged
from benchmarks.report import Row, at_most, seconds
from benchmarks.timing import say
from tests.web.crowd import Connection, Seen, work
from tests.web.server import Running, running

PEOPLE = 50
SECONDS = 60.0
CROWD_SETS = 10_000
PAGE_SETS = 100_000
PER_SET = 10.5  # individuals, on average
ANSWERS = 200
ROUNDS = 5
CLAIMS = 20
WARM = 60.0  # seconds to wait at most until what the first page needs is worked out
API = ("/api/study", "/api/next?n=5", "/api/history?page=1&size=20")


def run(full: bool) -> list[Row]:
    del full
    with tempfile.TemporaryDirectory(prefix="sumwise-bench-") as folder:
        return [*_crowd(Path(folder)), *_page(Path(folder))]


# --- many people ----------------------------------------------------------------------------------


def _crowd(folder: Path) -> list[Row]:
    say(f"web: {PEOPLE} people ask and answer for {SECONDS:.0f} seconds")
    place = folder / "crowd.db"
    sets, y_bar = ragged(int(CROWD_SETS * PER_SET))
    sw.create_study(place, sets).close()
    with running(str(place), folder) as server:
        seen = asyncio.run(work(server, PEOPLE, SECONDS, y_bar))
    _check_crowd(place, seen)
    size = f"{PEOPLE} people, {len(sets):,} sets, {len(seen.acknowledged):,} answers on SQLite"
    note = (
        "Wall time at the client, which asks and answers without a pause; the server is a process "
        f"of its own. Load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
    )
    told, asked = statistics.median(seen.told), statistics.median(seen.asked)
    return [
        at_most("answer over HTTP, median", size, 1000 * told, 100.0, "{:.0f} ms", note),
        Row("answer over HTTP, slowest of 100", size, seconds(_slow(seen.told)), note=note),
        Row("question over HTTP, median", size, seconds(asked), note=note),
        Row("question over HTTP, slowest of 100", size, seconds(_slow(seen.asked)), note=note),
    ]


def _slow(times: list[float]) -> float:
    return float(np.quantile(times, 0.99))


def _check_crowd(place: Path, seen: Seen) -> None:
    """No error, nothing given to two people, and every answer that was acknowledged is there."""
    if seen.errors or seen.twice:
        raise AssertionError(
            f"{len(seen.errors)} errors, such as {seen.errors[:1]}; {seen.twice[:5]}"
        )
    with sw.open_study(place) as study:
        kept = {answer.position: answer.y_bar for answer in study.answers}
    if kept != seen.acknowledged:
        raise AssertionError(f"{len(kept)} answers are kept, {len(seen.acknowledged)} acknowledged")


# --- one page -------------------------------------------------------------------------------------


def _page(folder: Path) -> list[Row]:
    say(f"web: the first page of {PAGE_SETS:,} sets")
    place = folder / "page.db"
    sets, y_bar = ragged(int(PAGE_SETS * PER_SET))
    order = np.random.default_rng(1).permutation(len(sets))[:ANSWERS]
    with sw.create_study(place, sets) as study:
        study.tell_many(order.tolist(), y_bar[order])
    size = f"{len(sets):,} sets, {len(sets.x):,} individuals, {ANSWERS} answers"
    with running(str(place), folder) as server:
        return asyncio.run(_pages(server, size))


async def _pages(server: Running, size: str) -> list[Row]:
    cold, volume = await _first_page(server)
    end = time.monotonic() + WARM
    while (await _timed(server, "/api/sets"))[0] > 0.2 and time.monotonic() < end:
        await asyncio.sleep(0.5)
    warm = statistics.median([(await _first_page(server))[0] for _ in range(ROUNDS)])
    table = statistics.median(
        [
            (await _timed(server, f"/api/sets?sort={sort}&search=7&page=3"))[0]
            for sort in ("information", "std", "size", "expected", "answer")
        ]
    )
    news = await _news(server)
    note = "HTML, style, scripts and the first calls of the API, one after the other."
    late = f"The slowest of {CLAIMS}, by server-sent events."
    right = "The server has just started, and works out five questions first."
    return [
        at_most("first page of the labelling page", size, warm, 1.0, "{:.2f} s", note),
        Row("first page, server just started", size, seconds(cold), note=right),
        at_most("first page, transferred", size, volume / 1000, 500.0, "{:.0f} kB", note),
        at_most("a page of the pool, sorted and searched", size, 1000 * table, 200.0, "{:.0f} ms"),
        at_most("a claim, known to another page", size, news, 2.0, "{:.2f} s", late),
    ]


async def _news(server: Running) -> float:
    """Seconds from a claim until another page is told, at most."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    host = f"{server.host}:{server.port}"
    writer.write(f"GET /api/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    await reader.readuntil(b'"changes"')
    connection, times = Connection(server), list[float]()
    for position in range(CLAIMS):
        begun = time.perf_counter()
        status, _ = await connection.send("POST", "/api/claims", {"position": position})
        if status == 409:
            continue  # it is answered
        await reader.readuntil(b'"changes"')
        times.append(time.perf_counter() - begun)
    writer.close()
    await connection.close()
    return max(times)


async def _first_page(server: Running) -> tuple[float, int]:
    """Seconds and bytes until a browser has all it asks for."""
    connection, begun, volume = Connection(server), time.perf_counter(), 0
    status, page = await connection.raw("GET", "/")
    waiting = re.findall(r'(?:href|src)="(/static/[^"]+)"', page.decode())
    seen, volume = set[str](), len(page)
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        status, content = await connection.raw("GET", path)
        _expect(status, path)
        volume += len(content)
        if path.endswith(".js"):
            imported = re.findall(r'^(?:import|export)[^;]*?"\./([\w.-]+)"', content.decode(), re.M)
            waiting += [f"/static/{name}" for name in imported]
    for path in API:
        status, content = await connection.raw("GET", path)
        _expect(status, path)
        volume += len(content)
    spent = time.perf_counter() - begun
    await connection.close()
    return spent, volume


async def _timed(server: Running, path: str) -> tuple[float, int]:
    connection, begun = Connection(server), time.perf_counter()
    status, content = await connection.raw("GET", path)
    _expect(status, path)
    await connection.close()
    return time.perf_counter() - begun, len(content)


def _expect(status: int, path: str) -> None:
    if status != 200:
        raise AssertionError(f"{path} gives {status}")
