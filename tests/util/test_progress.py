"""A bar for people who wait, and for nobody else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from dataclasses import replace

import pytest

from sumwise import AggregateRegressor
from sumwise.model.basis import training
from sumwise.util import progress
from tests.networks import TINY, problem

COUNT = """
import time
from sumwise.util import progress
from sumwise.util.progress import Slow, quiet, waiting

def count(steps=4, patience=0.02):
    progress.PATIENCE = patience
    with Slow("training", steps) as slow:
        for step in range(1, steps + 1):
            time.sleep(0.03)
            slow.at(step)

"""
PLAIN = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR", "CI")}
ENVIRONMENT = {**PLAIN, "TERM": "xterm-256color", "COLUMNS": "80"}
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"  # what a terminal does with its cursor


def seen_on_a_terminal(program) -> str:
    """What standard error shows where it is a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", COUNT + program]
    child = subprocess.Popen(command, stderr=theirs, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 4096):
            seen += part
    except OSError:  # Linux: the other end is closed
        pass
    finally:
        os.close(ours)
        child.wait(60)
    return seen.decode()


def seen_in_a_pipe(program) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", COUNT + program]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)


def test_a_bar_appears_where_somebody_waits_and_goes_when_it_is_done():
    seen = seen_on_a_terminal("count()")
    assert "training" in seen
    assert "%" in seen
    assert seen.count(HIDE) == seen.count(SHOW) == 1
    assert seen.rstrip().endswith("\x1b[2K")  # the line is wiped


def test_nothing_appears_for_work_that_is_quick():
    assert seen_on_a_terminal("count(patience=2.0)") == ""


def test_nothing_appears_when_the_last_step_was_the_slow_one():
    assert seen_on_a_terminal("count(steps=1)") == ""


def test_nothing_appears_where_somebody_shows_a_bar_already():
    assert seen_on_a_terminal("with quiet(): count()") == ""
    assert "training" in seen_on_a_terminal("with quiet(): pass\ncount()")


def test_slow_work_inside_a_command_says_what_it_is_in_the_same_display():
    seen = seen_on_a_terminal(
        "progress.PATIENCE = 0.02\n"
        "with waiting('writing the report'):\n"
        "    time.sleep(0.3)\n"
        "    with Slow('predicting', 9): count()\n"
        "    time.sleep(0.3)"
    )
    assert "writing the report" in seen
    first = seen.index("training")
    assert "writing the report" in seen[first:]  # it stays, and the bar is below
    assert "%" in seen[first:]
    assert "%" not in seen[:first]  # of the whole nobody knows how much is done
    assert seen.count(HIDE) == seen.count(SHOW) == 1
    assert seen.rstrip().endswith("\x1b[2K")


def test_work_in_threads_shares_a_display():
    seen = seen_on_a_terminal(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(3) as threads: list(threads.map(count, [9, 12, 15]))"
    )
    assert seen.count("training") >= 3
    assert seen.count(HIDE) == seen.count(SHOW) == 1


def test_an_error_takes_the_bar_away_first():
    seen = seen_on_a_terminal(
        "progress.PATIENCE = 0.02\n"
        "with Slow('training', 9) as slow:\n"
        "    time.sleep(0.03); slow.at(1)\n"
        "    raise RuntimeError('no such luck')"
    )
    assert "training" in seen
    assert seen.index(HIDE) < seen.index(SHOW) < seen.index("no such luck")


def test_a_pipe_sees_nothing_at_all():
    done = seen_in_a_pipe("count()")
    assert done.stderr == done.stdout == ""


def test_what_draws_the_bar_is_not_even_loaded_before_it_is_needed():
    program = "import sys; count(patience=2.0); print('rich' in sys.modules)"
    assert seen_in_a_pipe(program).stdout == "False\n"


def test_people_wait_two_seconds():
    assert progress.PATIENCE == 2.0


def test_a_pipe_is_looked_at_once(monkeypatch):
    """Whether anybody is looking is not asked again at every step."""
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    asked = []
    begin = progress.Slow._begin
    monkeypatch.setattr(progress.Slow, "_begin", lambda slow: (asked.append(1), begin(slow)))
    with progress.Slow("training", 5) as slow:
        for step in range(5):
            slow.at(step)
    assert len(asked) == 1


def test_quiet_ends_even_with_an_error(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    begun = []
    monkeypatch.setattr(progress.Slow, "_begin", lambda slow: begun.append(slow))

    def fail():
        with progress.quiet():
            progress.Slow("training", 5).at(1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert begun == []
    progress.Slow("training", 5).at(1)
    assert len(begun) == 1


def test_training_says_how_far_it_is(monkeypatch):
    said = []

    class Recorder(progress.Slow):
        def __init__(self, what, total):
            said.append((what, total))
            super().__init__(what, total)

        def at(self, done):
            said.append(done)

    monkeypatch.setattr(training, "Slow", Recorder)
    AggregateRegressor(replace(TINY, epochs=250)).fit(*problem())
    assert said == [("training", 250), 100, 200, 250]
