"""What other processes do to a study while a test watches."""

from __future__ import annotations

import multiprocessing
import os

import sumwise as sw

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["sumwise.study", "pyarrow.parquet", "tests.workers"])


def value_of(set_id: int) -> float:
    return 1.5 * set_id - 7.0


def ask_and_tell(place: str, by: str, n: int, out) -> None:
    """Ask and tell n times; report which sets, or what went wrong."""
    try:
        with sw.open_study(place) as study:
            mine = []
            for _ in range(n):
                question = study.ask(by=by)
                study.tell(question.set_id, value_of(question.set_id), by=by)
                mine.append((question.number, question.set_id))
        out.put((by, mine))
    except Exception as error:
        out.put((by, repr(error)))


def tell_until_killed(place: str, acknowledged: str) -> None:
    """Ask, tell, and write down what was acknowledged, for ever."""
    log = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with sw.open_study(place) as study:
        os.write(log, b"ready\n")
        while True:
            question = study.ask(by="worker")
            os.write(log, f"asked {question.set_id}\n".encode())
            study.tell(question.set_id, value_of(question.set_id))
            os.write(log, f"told {question.set_id}\n".encode())
