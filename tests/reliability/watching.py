"""Workers that are watched through a pipe, killed, and held to what they were promised."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from tests.reliability.invariants import Replay
from tests.workers import processes, value_of

INSIDE = ("writing", "committing")  # of a transaction


@dataclass
class Worker:
    """A process at work, and everything it has said so far."""

    process: Any
    pipe: Connection
    said: list[dict] = field(default_factory=list)

    def listen(self, seconds: float = 0.0) -> dict | None:
        """The next thing it says, if it says something in time."""
        try:
            if not self.pipe.poll(seconds):
                return None
            self.said.append(json.loads(self.pipe.recv_bytes()))
        except (EOFError, ConnectionResetError):
            return None
        assert self.said[-1]["stage"] != "failed", self.said[-1]
        return self.said[-1]

    def drain(self) -> None:
        while self.listen() is not None:
            pass

    def wait_for(self, stage: str, times: int = 1) -> None:
        deadline = time.monotonic() + 120
        while times:
            heard = self.listen(seconds=1.0)
            times -= heard is not None and heard["stage"] == stage
            assert time.monotonic() < deadline, f"waited for {stage}, heard {self.said[-3:]}"

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()
        assert self.process.exitcode == -signal.SIGKILL, self.said[-3:]
        self.drain()
        self.pipe.close()


def start(target: Callable[..., None], *arguments: Any) -> Worker:
    """A process that runs `target` with these arguments and a pipe."""
    ours, theirs = processes.Pipe(duplex=False)
    process = processes.Process(target=target, args=(*arguments, theirs), daemon=True)
    process.start()
    theirs.close()
    return Worker(process, ours)


def kill_at_random(worker: Worker, rng) -> str:
    """Kill it at a random moment, most often inside a transaction; gives where it was."""
    stage = rng.choice(["begin", "writing", "committing", "done"], p=[0.15, 0.35, 0.4, 0.1])
    worker.drain()
    worker.wait_for(stage, int(rng.integers(1, 8)))
    time.sleep(rng.uniform(0.0, 0.004))
    worker.kill()
    return worker.said[-1]["stage"]


def check_promises(worker: Worker, replay: Replay) -> Counter:
    """Compare what it was told with what is there; counts the fates of unfinished steps."""
    mine: dict[str, list[int]] = {}
    told_at = {}
    for number, event in enumerate(replay.events):
        mine.setdefault(event.by, []).append(number)
        if event.what == "told":
            told_at[event.position] = number
            assert event.y_bar == value_of(event.position)
    steps: dict[str, dict] = {}
    for line in worker.said:
        if line["stage"] in ("begin", "done", "refused"):
            steps.setdefault(line["label"], {}).update(line)
    fates = Counter()
    for label, step in steps.items():
        stored = mine.get(label, [])
        positions = [replay.events[number].position for number in stored]
        if "kind" not in step:  # refused before it had begun
            assert not stored, step
            continue
        finished, kind = step["stage"] == "done", step["kind"]
        if kind == "ask":
            expected = step["ids"] if finished else positions
            assert positions == expected
            assert len(positions) in ((step["n"],) if finished else (0, step["n"]))
        else:
            assert set(positions) <= set(step["ids"])
            if finished or stored:  # whole, or not at all
                latest = stored[-1] if stored else len(replay.events)
                assert all(told_at[set_id] <= latest for set_id in step["ids"])
        if not finished:
            fates[f"{kind} {'stored' if stored else 'not stored'}"] += 1
    return fates
