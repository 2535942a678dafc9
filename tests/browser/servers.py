"""Servers for the browser: in a thread of the tests, or as the process that people start."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import sumwise as sw
from sumwise.web import server as web_server
from tests.browser.places import Place

TOKEN = "a-token-for-tests-only"


@dataclass
class Thread:
    """The page of a study from a thread: it starts at once, since all is imported already."""

    place: Place
    host: str = "127.0.0.1"
    closed: bool = False  # to those without a token
    url: str = ""
    address: str = ""  # with the token
    stop: Any = None

    def start(self) -> Thread:
        with socket.socket() as probe:  # any port that is free
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        listening = web_server.listen(self.host, port)
        study = sw.open_study(self.place.path)
        ready = web_server.prepare(study, listening, TOKEN, require_token_for_reading=self.closed)
        work = threading.Thread(target=ready.run, args=([listening.socket],), daemon=True)
        work.start()
        self.url, self.address = f"http://127.0.0.1:{port}", listening.url(TOKEN)

        def stop() -> None:
            ready.should_exit = True
            work.join(timeout=60)
            listening.socket.close()
            study.close()

        self.stop = stop
        return self


def free_port() -> int:
    """A port below those that connections leave from, which would be taken soon."""
    for port in random.sample(range(20_000, 32_000), 50):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    pytest.fail("there is no free port")


@dataclass
class Process:
    """`sumwise serve` on a study, which can be killed and started again on the same port."""

    place: Place
    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[str] | None = None
    address: str = ""  # with the token

    def start(self) -> Process:
        command = [sys.executable, "-m", "sumwise", "serve", str(self.place.path), "--no-browser"]
        environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state")}
        log = self.folder / f"serve-{self.port}.log"
        with open(log, "w") as out:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port)],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        self.address = self._said(log, r"http://\S+#token=[\w.~-]+")
        return self

    def _said(self, log: Path, pattern: str) -> str:
        """What the server prints when it listens, waiting for it."""
        for _ in range(600):
            found = re.search(pattern, log.read_text())
            if found:
                return found.group()
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")

    def kill(self) -> None:
        """As a crash would: nothing is tidied up."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    stop = kill

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"
