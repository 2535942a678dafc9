"""Commands of the shell as processes that are killed: forked, so that thousands take minutes.

A process that has imported sumwise forks one child per command. The child runs the command as the
shell does, with pipes for stdout and stderr, and is killed by SIGKILL. What it has printed until
then has reached the pipe: that is what it has acknowledged.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tests.workers import watch

LONGEST = 60.0  # seconds that a command may take


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it had said."""

    code: int | None  # None if it was killed
    out: str
    err: str
    stage: str  # of its transaction: "", "writing" or "committing"
    seconds: float

    @property
    def killed(self) -> bool:
        return self.code is None


@dataclass(frozen=True, slots=True)
class Child:
    """A forked process, and the ends of its pipes: stdout, stderr, stages."""

    pid: int
    pipes: tuple[int, int, int]
    begun: float


def started(words: Sequence[str], *, tell_imports: bool = False) -> Child:
    """`sumwise WORDS` in a child; at its end it may tell on the pipe of stages what it imported."""
    pairs = [os.pipe() for _ in range(3)]
    begun = time.monotonic()
    pid = os.fork()
    if not pid:
        _be_the_shell(words, [theirs for _, theirs in pairs], tell_imports)
    for _, theirs in pairs:
        os.close(theirs)
    out, err, stages = (ours for ours, _ in pairs)
    return Child(pid, (out, err, stages), begun)


def _be_the_shell(words: Sequence[str], pipes: Sequence[int], tell_imports: bool) -> None:
    code = 70
    try:
        os.dup2(pipes[0], 1)
        os.dup2(pipes[1], 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        watch(lambda stage: os.write(pipes[2], f"{stage}\n".encode()))
        from sumwise.cli import main

        main.main(args=list(words), prog_name="sumwise")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
            if tell_imports:
                with open(pipes[2], "w", closefd=False) as stages:
                    json.dump([*sys.modules], stages)
        os._exit(code)


def wait_for(child: Child, seconds: float, stage: str = "") -> str:
    """Wait so long, or for the end; or for a stage of its transaction. Gives the stages so far."""
    ends, seen = time.monotonic() + seconds, ""
    while (left := ends - time.monotonic()) > 0:
        if not select.select([child.pipes[2]], [], [], left)[0]:
            break
        if not (more := os.read(child.pipes[2], 2**20).decode()):
            break  # it has ended
        seen += more
        if stage and stage in seen:
            break
    return seen


def ended(child: Child, seen: str = "") -> Ended:
    """Kill the child, if it still runs, and read what it has said."""
    os.kill(child.pid, signal.SIGKILL)  # nothing happens to one that has ended by itself
    _, status = os.waitpid(child.pid, 0)
    took = time.monotonic() - child.begun
    out, err, stages = map(_rest, child.pipes)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, (status, err)
    code = None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    last = [line for line in (seen + stages).splitlines() if line in ("writing", "committing")]
    return Ended(code, out, err, last[-1] if last else "", took)


def _rest(pipe: int) -> str:
    text = b""
    while more := os.read(pipe, 2**16):
        text += more
    os.close(pipe)
    return text.decode()


def run(words: Sequence[str]) -> Ended:
    """The command to its end; what it imports is imported here, for the next ones."""
    child = started(words, tell_imports=True)
    text = ""
    while more := wait_for(child, LONGEST):
        text += more
    done = ended(child)
    assert not done.killed, f"{words} took longer than {LONGEST:.0f} s: {done.err}"
    for name in json.loads(text[text.rindex("[") :]):
        if name not in sys.modules and name != "__main__":
            with suppress(Exception):  # parts that only their package can import
                importlib.import_module(name)
    return Ended(done.code, done.out, done.err, done.stage, time.monotonic() - child.begun)


def killed_at_random(words: Sequence[str], usual: float, rng) -> Ended:
    """Kill it at some moment of the time it usually takes, around its commit, or as it speaks."""
    child, seen = started(words), ""
    when = rng.choice(["any time", "writing", "committing", "said"], p=[0.45, 0.15, 0.2, 0.2])
    if when == "any time":
        seen = wait_for(child, usual * rng.uniform(0.0, 1.1))
    else:
        if when == "said":
            select.select([child.pipes[0]], [], [], 2 * usual)
        else:
            seen = wait_for(child, 2 * usual, str(when))
            time.sleep(rng.uniform(0.0, 0.006) * (rng.random() < 0.8))
    return ended(child, seen)
