"""Rounds of killed commands, in a process of its own that forks them and says how each ended."""

from __future__ import annotations

import gc
import itertools
import json
import os
import re
import shutil
import traceback
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import sumwise as sw
from tests.reliability import commands, killing, served
from tests.reliability.commands import COMMANDS, Attempt, Home

PER_ROUND = 80  # attempts on the same studies
AGAIN = 0.1  # of commands that were killed before they had stored anything are tried again


def kill_commands(place: str, folder: str, seed: int, n: int, only: Sequence[str], pipe) -> None:
    """Kill n commands on studies there, in a folder or on a server; say of each how it ended."""

    def say(stage: str, **more) -> None:
        pipe.send_bytes(json.dumps({"stage": stage, **more}).encode())

    rng, usual, done = np.random.default_rng(seed), {}, 0
    os.environ.update(OPENBLAS_NUM_THREADS="1", COLUMNS="300")
    try:
        served.make_ready()
        for number in itertools.count():
            here = Path(folder) / f"round {number}"
            here.mkdir()
            on_server = place.startswith("postgresql")
            home = commands.begun(place if on_server else str(here / "a.db"), here, seed + number)
            gc.unfreeze()
            gc.collect()
            gc.freeze()  # children then share what they do not change
            for _ in range(PER_ROUND):
                name = _chosen(only, rng)
                done += _one(home, name, usual, say)
                if done == n:
                    say("done")
                    return
            if on_server:
                commands.cleared(place)
            shutil.rmtree(here)
    except BaseException:
        if os.environ.get("SUMWISE_KEEP"):
            traceback.print_exc()
        say("failed", error=traceback.format_exc())


def _chosen(only: Sequence[str], rng) -> str:
    weights = {name: often for name, (_, often) in COMMANDS.items()} | {"serve": served.OFTEN}
    weights = {name: often for name, often in weights.items() if not only or name in only}
    total = sum(weights.values())
    return str(rng.choice([*weights], p=[often / total for often in weights.values()]))


def _one(home: Home, name: str, usual: dict[str, float], say) -> int:
    """Run a command, kill it, and look at what is there; gives how many were killed."""
    if name == "serve":
        say("killed", command=name, **served.kill_server(home))
        return 1
    attempt = COMMANDS[name][0](home)
    if attempt is None:
        return 0
    if name not in usual:  # the first one lives: it imports, and tells how long it takes
        first = killing.run(attempt.words)
        home.known.clear()
        assert first.code == 0, (attempt.words, first)
        assert _said(attempt, first), first
        assert attempt.stored()
        attempt.printed(first.out)
        usual[name] = first.seconds
        return 0
    end = killing.killed_at_random(attempt.words, usual[name], home.rng)
    home.known.clear()
    said, stored = _said(attempt, end), attempt.stored()
    where = f"{name} {attempt.words}: {end}"
    assert stored or not said, f"LOST {where}"
    assert end.killed or (end.code == 0 and said), where
    if said:
        attempt.printed(end.out)
    if not end.killed:
        usual[name] = end.seconds
        say("ended", command=name)
        return 0
    fate = "said" if said else "stored" if stored else "not stored"
    say("killed", command=name, fate=fate, at=end.stage or "elsewhere", acknowledged=int(said))
    if not stored and home.rng.random() < AGAIN:
        again = killing.run(attempt.words)
        home.known.clear()
        assert again.code == 0, (where, again)
        assert attempt.stored(), where
    if home.rng.random() < AGAIN:
        with sw.open_study(home.place, "plain") as study:
            study.predict()
            study.status()
    return 1


def _said(attempt: Attempt, end: killing.Ended) -> bool:
    return re.search(attempt.says, " ".join(end.out.split())) is not None
