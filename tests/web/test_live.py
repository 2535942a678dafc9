"""Changes as they happen, and what is said while the database is away."""

from __future__ import annotations

import asyncio
import json

import pytest

import sumwise as sw
from sumwise.web import live
from sumwise.web.live import Live
from tests.web.server import running


class Counter:
    """A study whose counter a test can turn."""

    def __init__(self):
        self.value, self.looks, self.trouble = 0, 0, None

    def __call__(self):
        self.looks += 1
        if self.trouble is not None:
            raise self.trouble
        return self.value


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(live, "EVERY", 0.02)


async def next_event(stream):
    """Kind and data of the next block that is no comment."""
    while True:
        block = await asyncio.wait_for(anext(stream), 10)
        lines = dict(line.split(": ", 1) for line in block.strip().splitlines() if line[0] != ":")
        if "event" in lines:
            return lines["event"], json.loads(lines["data"])


def test_a_page_is_told_at_once_and_with_every_change():
    async def story():
        counter = Counter()
        counter.value = 7
        stream = Live(counter, lambda: False).events()
        assert (await anext(stream)).startswith("retry: ")
        assert await next_event(stream) == ("change", {"changes": 7})
        counter.value = 8
        assert await next_event(stream) == ("change", {"changes": 8})
        await stream.aclose()

    asyncio.run(story())


def test_however_many_pages_are_open_the_counter_is_read_once_for_all():
    async def story():
        counter = Counter()
        watched = Live(counter, lambda: False)
        streams = [watched.events() for _ in range(30)]
        for stream in streams:
            assert await next_event(stream) == ("change", {"changes": 0})
        waiting = [asyncio.create_task(next_event(stream)) for stream in streams]
        before = counter.looks
        await asyncio.sleep(0.5)
        assert 2 <= counter.looks - before <= 30
        counter.value = 1
        for page in waiting:
            assert await page == ("change", {"changes": 1})
        for stream in streams:
            await stream.aclose()
        await asyncio.sleep(0.1)
        before = counter.looks
        await asyncio.sleep(0.2)
        assert counter.looks == before  # nobody listens, nobody looks
        again = watched.events()
        counter.value = 5
        assert await next_event(again) == ("change", {"changes": 5})
        await again.aclose()

    asyncio.run(story())


def test_a_page_that_comes_later_is_told_at_once():
    async def story():
        watched = Live(Counter(), lambda: False)
        first = watched.events()
        await next_event(first)
        second = watched.events()
        assert await next_event(second) == ("change", {"changes": 0})
        await first.aclose()
        await second.aclose()

    asyncio.run(story())


def test_silence_is_broken_by_comments(monkeypatch):
    monkeypatch.setattr(live, "HEARTBEAT", 0.05)

    async def story():
        stream = Live(Counter(), lambda: False).events()
        await next_event(stream)
        assert (await asyncio.wait_for(anext(stream), 10)).startswith(":")
        assert (await asyncio.wait_for(anext(stream), 10)).startswith(":")
        await stream.aclose()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (sw.StorageError("the disk is gone"), "the disk is gone"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (RuntimeError("secret"), "The study cannot be read; the server's log says why."),
    ],
)
def test_trouble_is_said_once_and_its_end(trouble, words):
    async def story():
        counter = Counter()
        stream = Live(counter, lambda: False).events()
        await next_event(stream)
        counter.trouble = trouble
        kind, data = await next_event(stream)
        assert kind == "trouble"
        assert words in data["detail"]
        end = asyncio.create_task(next_event(stream))
        before = counter.looks
        await asyncio.sleep(0.2)
        assert counter.looks > before + 1  # it goes on trying
        counter.trouble = None
        assert await end == ("change", {"changes": 0})
        await stream.aclose()

    asyncio.run(story())


def test_streams_end_when_the_server_stops():
    async def story():
        stop = []
        stream = Live(Counter(), lambda: bool(stop)).events()
        await next_event(stream)
        stop.append(1)
        async with asyncio.timeout(10):
            async for _ in stream:
                pass

    asyncio.run(story())


def test_a_page_sees_what_other_processes_do(place, problem, tmp_path):
    """The server is a process, the change is made by this one."""
    with sw.create_study(place, problem[0], model=sw.AggregateRegressor("linear")) as study:

        async def story(server):
            reader, writer = await asyncio.open_connection(server.host, server.port)
            head = f"GET /api/events HTTP/1.1\r\nHost: {server.host}:{server.port}\r\n\r\n"
            writer.write(head.encode())

            async def until(text):
                found = b""
                while text not in found:
                    found += await asyncio.wait_for(reader.read(1000), 30)
                return found

            first = await until(b'data: {"changes": 0}')
            assert b"200 OK" in first
            assert b"text/event-stream" in first
            assert b"no-store" in first
            study.tell("set 3", 1.0)
            assert b"event: change" in await until(b'data: {"changes": 1}')
            writer.close()
            await writer.wait_closed()

        with running(place, tmp_path) as server:
            asyncio.run(story(server))
