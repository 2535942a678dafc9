"""Many people at once, over plain sockets: so little work here that the server is what is timed."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

from tests.web.server import Running


@dataclass(slots=True)
class Connection:
    """One person's browser."""

    server: Running
    reader: Any = None
    writer: Any = None

    async def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        status, content = await self.raw(method, path, body)
        return status, json.loads(content) if content else None

    async def raw(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        if self.writer is None:
            where = (self.server.host, self.server.port)
            self.reader, self.writer = await asyncio.open_connection(*where)
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self.server.host}:{self.server.port}\r\n"
            f"Authorization: Bearer {self.server.token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        self.writer.write(head.encode() + content)
        status = int((await self.reader.readline()).split()[1])
        length = 0
        while (line := await self.reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return status, await self.reader.readexactly(length)

    async def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
            await self.writer.wait_closed()


@dataclass(slots=True)
class Seen:
    """What a crowd has seen."""

    asked: list[float] = field(default_factory=list)  # seconds
    told: list[float] = field(default_factory=list)
    acknowledged: dict[int, float] = field(default_factory=dict)  # totals by position
    twice: list[int] = field(default_factory=list)  # sets that were handed out twice
    errors: list[str] = field(default_factory=list)


async def work(server: Running, n: int, seconds: float, totals: Any) -> Seen:
    """n people ask and answer as fast as they can for so many seconds."""
    seen, end, given = Seen(), time.monotonic() + seconds, set[int]()

    async def person(name: str) -> None:
        connection = Connection(server)
        while time.monotonic() < end:
            begun = time.perf_counter()
            status, body = await connection.send("POST", "/api/questions", {"by": name})
            if status != 201:
                if body.get("code") != "exhausted":
                    seen.errors.append(f"ask: {status} {body}")
                break
            seen.asked.append(time.perf_counter() - begun)
            position = body["questions"][0]["position"]
            if position in given:
                seen.twice.append(position)
            given.add(position)
            answer = {"position": position, "total": float(totals[position]), "by": name}
            begun = time.perf_counter()
            status, body = await connection.send("POST", "/api/answers", answer)
            seen.told.append(time.perf_counter() - begun)
            if status == 409 and body["code"] == "unlikely":
                status, body = await connection.send(
                    "POST", "/api/answers", {**answer, "sure": True}
                )
            if status != 201:
                seen.errors.append(f"tell: {status} {body}")
                continue
            seen.acknowledged[position] = body["total"]
        await connection.close()

    await asyncio.gather(*(person(f"person {i}") for i in range(n)))
    return seen
