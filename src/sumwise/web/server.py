"""The page on a port: an address to listen on, and a server that stops cleanly."""

from __future__ import annotations

import errno
import logging
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import uvicorn
from fastapi import FastAPI

from sumwise.errors import SettingError
from sumwise.study.study import Study
from sumwise.web.app import create_app, warm_up

PORT: Final = 8765
FURTHER: Final = 50  # ports to try for a free one
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
        port: If it is taken, that is an error which names a free one; without one, the usual
            port is used or the next that is free.
    """
    first = PORT if port is None else port
    for at in range(first, min(first + FURTHER, 2**16)):
        try:
            bound = _bind(host, at)
        except OSError as error:
            if at == first and error.errno != errno.EADDRINUSE:
                raise _refusal(host, first, error) from error
            continue
        if at == port or port is None:
            return Address(host, at, bound)
        bound.close()
        raise SettingError(
            f"port {port} is taken by another program, perhaps by sumwise serve; port {at} is "
            f"free: --port {at}"
        )
    raise SettingError(f"port {first} and those after it are taken; choose one with --port")


def _bind(host: str, port: int) -> socket.socket:
    """Listen there: from now on a browser waits instead of being refused."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, where = found[0][0], found[0][4]
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    return socket.create_server(where, family=family, backlog=128, dualstack_ipv6=both)


def _refusal(host: str, port: int, error: OSError) -> SettingError:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return SettingError(
            f"this machine has no address {host!r:.80}; leave --host out to serve this machine "
            "alone, or give one of its addresses"
        )
    return SettingError(
        f"the server cannot listen on {host}, port {port} ({os.strerror(error.errno or 0)}); "
        "choose another port with --port"
    )


def prepare(
    study: Study, address: Address, token: str, places: tuple[str, str] | None = None
) -> uvicorn.Server:
    """A server that only has to be run; settings that are wrong are refused here."""
    app = create_app(
        study,
        token=token,
        host=address.host,
        places=places,
        stopping=lambda: server.should_exit,
    )
    config = uvicorn.Config(
        app,
        log_config=None,  # uvicorn's own would close the log handlers of everything else here
        log_level=logging.WARNING,
        access_log=False,
        ws="none",
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=PATIENCE,
    )
    server = uvicorn.Server(config)
    return server


def run(server: uvicorn.Server, address: Address) -> None:
    """Serve until Ctrl-C; arithmetic leaves one core free for other requests."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(max(1, (os.cpu_count() or 2) - 1), user_api="blas")
    assert isinstance(server.config.app, FastAPI)
    warm_up(server.config.app.state.served)
    with suppress(KeyboardInterrupt):
        server.run(sockets=[address.socket])
