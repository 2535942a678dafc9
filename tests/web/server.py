"""`sumwise serve` as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers."""

    host: str
    port: int
    token: str
    process: subprocess.Popen[str]


@contextmanager
def running(place: str, state: Path, *arguments: str, files: int | None = None):
    """The server of a study; it is told to stop at the end as by Ctrl-C, and must obey.

    What it says on stderr is in the file `log` of the folder `state`.

    Args:
        files: The limit on open files, as `ulimit -n` sets it.
    """
    command = [sys.executable, "-m", "sumwise", "serve", str(place), "--no-browser", *arguments]
    if files is not None:
        command = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command]
    state.mkdir(exist_ok=True)
    with (state / "log").open("w") as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, "XDG_STATE_HOME": str(state)},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"the server did not start: {(state / 'log').read_text()}")
        address, _, token = line.partition("/#token=")
        host, _, port = address.removeprefix("http://").rpartition(":")
        yield Running(host, int(port), token, process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
