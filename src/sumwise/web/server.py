"""The page on a port: an address to listen on, and a server that stops cleanly."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import uvicorn
from fastapi import FastAPI

from sumwise.errors import SettingError
from sumwise.study.study import Study
from sumwise.web.app import create_app, warm_up
from sumwise.web.connections import BACKLOG, Complaints, Connection, most_connections

PORT: Final = 8765
FURTHER: Final = 50  # ports to try for a free one
SWITCH: Final = 0.0005  # seconds that a thread may keep others waiting; a write takes many turns
COLLECTED: Final = 1_000, 20, 200  # garbage: seldom all of it, which stops every answer for 0.2 s
PATIENCE: Final = 5  # seconds for running requests when the server stops


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """Where the server listens."""

    host: str
    port: int
    socket: socket.socket

    def url(self, token: str) -> str:
        """What to open in a browser; the token is in the fragment, which is never sent."""
        named = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        shown = f"[{named}]" if ":" in named else named
        return f"http://{shown}:{self.port}/#token={token}"


def listen(host: str, port: int | None) -> Address:
    """The address to serve on.

    Args:
        port: An error if it is taken; if left out, the usual port or the next that is free.
    """
    ports = range(PORT, PORT + FURTHER) if port is None else [port]
    for at in ports:
        try:
            return Address(host, at, _bind(host, at))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise SettingError(
                    f"the server cannot listen on {host!r:.80}: {error.strerror}. Give an address "
                    "of this machine as --host, or another --port."
                ) from error
    other = "leave --port out to use one that is free" if port else "choose one with --port"
    raise SettingError(f"port {ports[0]} is taken by another program; {other}")


def _bind(host: str, port: int) -> socket.socket:
    """Listen there: from now on a browser waits instead of being refused."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, where = found[0][0], found[0][4]
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    bound = socket.create_server(where, family=family, backlog=BACKLOG, dualstack_ipv6=both)
    # or a reply waits for 40 ms; asyncio does it for sockets that say that they are TCP only
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


def prepare(
    study: Study,
    address: Address,
    token: str,
    places: tuple[str, str] | None = None,
    *,
    require_token_for_reading: bool = False,
) -> uvicorn.Server:
    """A server that only has to be run; settings that are wrong are refused here."""
    app = create_app(
        study,
        token=token,
        host=address.host,
        places=places,
        stopping=lambda: server.should_exit,
        require_token_for_reading=require_token_for_reading,
    )
    most = most_connections()
    app.state.served.live.most = most // 2  # the other half is for requests that end
    config = uvicorn.Config(
        app,
        http=Connection,
        loop="asyncio",
        backlog=BACKLOG,
        limit_concurrency=most + 1,
        log_config=None,  # uvicorn's own would close the log handlers of everything else here
        log_level=logging.ERROR,  # strangers cause warnings, as many as they like
        access_log=False,
        ws="none",
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=PATIENCE,
    )
    server = _Server(config)
    return server


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(Complaints())
        await super().startup(sockets)


def run(server: uvicorn.Server, address: Address) -> None:
    """Serve until Ctrl-C; arithmetic leaves one core free for other requests."""
    from threadpoolctl import threadpool_limits

    sys.setswitchinterval(SWITCH)
    gc.set_threshold(*COLLECTED)
    threadpool_limits(max(1, (os.cpu_count() or 2) - 1), user_api="blas")
    assert isinstance(server.config.app, FastAPI)
    warm_up(server.config.app.state.served)
    with suppress(KeyboardInterrupt):
        server.run(sockets=[address.socket])
