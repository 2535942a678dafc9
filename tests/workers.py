"""What other processes do to a study while a test watches, and may kill them."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import time
from contextlib import suppress
from datetime import UTC, datetime

import numpy as np
import sqlalchemy as sa

import sumwise as sw

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    ["sumwise.study.study", "pyarrow.parquet", "tests.workers", "tests.reliability.children"]
)


def value_of(set_id: int) -> float:
    return 1.5 * set_id - 7.0


def ask_and_tell(place: str, by: str, n: int, out, together=None) -> None:
    """Ask and tell n times; report which sets, or what went wrong."""
    try:
        with sw.open_study(place) as study:
            mine = []
            if together is not None:
                together.wait(timeout=120)
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
            own = question.set_id if question.pool is None else sum(question.pool.rows)
            study.tell(question.set_id, value_of(own))
            os.write(log, f"told {question.set_id}\n".encode())


def renew_at_the_last_moment(place: str, n: int, over, out) -> None:
    """Hold the one set there is, and renew it n times as close to its end as this machine can."""
    renewed, late, ahead, rng = 0, 0, 0.02, np.random.default_rng(4)
    ends = time.monotonic() + 60
    try:
        with sw.open_study(place) as study:
            while renewed < n and time.monotonic() < ends:
                with suppress(sw.PoolExhaustedError):
                    expires = datetime.fromisoformat(study.ask(by="holder").expires)
                    with suppress(sw.SettingError):  # too late
                        while renewed < n:
                            left = (expires - datetime.now(UTC)).total_seconds()
                            time.sleep(max(0.0, left - ahead * rng.uniform(0.3, 1.0)))
                            expires = datetime.fromisoformat(study.renew(0, by="holder"))
                            renewed, ahead = renewed + 1, 0.9 * ahead
                    late, ahead = late + 1, min(0.2, 1.5 * ahead)
        out.put(("holder", (renewed, late)))
    except Exception as error:
        out.put(("holder", repr(error)))
    over.set()


def ask_all_the_time(place: str, over, out) -> None:
    """Want the one set there is, and let it expire."""
    got = 0
    try:
        with sw.open_study(place) as study:
            while not over.is_set():
                with suppress(sw.PoolExhaustedError):
                    study.ask(by="asker")
                    got += 1
        out.put(("asker", got))
    except Exception as error:
        out.put(("asker", repr(error)))


# --- work that says where it is -------------------------------------------------------------------


def watch(say) -> None:
    """Say when a transaction has begun to write, and when it is about to be committed."""

    def changed(connection, cursor, statement, *rest) -> None:
        if statement.startswith(("INSERT", "UPDATE", "DELETE", "CREATE")):
            say("writing")

    def committing(connection) -> None:
        if connection.get_execution_options().get("sumwise_writes"):
            say("committing")

    sa.event.listen(sa.Engine, "after_cursor_execute", changed)
    sa.event.listen(sa.Engine, "commit", committing)


def work_until_killed(place: str, study_name: str, name: str, seed: int, pipe) -> None:
    """Ask, tell and tell in bulk at random, for ever, and say what was begun and what is done.

    Every step has a label, which is kept as `by` of all that it stores.
    """

    def say(stage: str, **more) -> None:
        pipe.send_bytes(json.dumps({"stage": stage, "label": label, **more}).encode())

    label, rng, held = name, np.random.default_rng(seed), []
    try:
        with sw.open_study(place, study_name) as study:
            watch(say)
            for number in itertools.count():
                label = f"{name}/{number}"
                try:
                    _step(study, label, rng, held, say)
                except sw.StorageError as error:
                    say("refused", error=str(error))
                    time.sleep(0.05)
    except Exception as error:
        say("failed", error=repr(error))


def _step(study: sw.Study, label: str, rng, held: list[int], say) -> None:
    kind, n_sets = rng.choice(["ask", "tell", "bulk"], p=[0.4, 0.35, 0.25]), len(study.sets)
    if kind == "ask":
        n = int(rng.integers(1, 4))
        say("begin", kind=kind, n=n)
        asked = study.ask(n, by=label)
        told = [question.set_id for question in (asked if n > 1 else [asked])]
        held += told
    elif kind == "tell":
        told = [held.pop() if held else int(rng.integers(n_sets))]
        say("begin", kind=kind, ids=told)
        study.tell(told[0], value_of(told[0]), by=label)
    else:
        told = rng.choice(n_sets, int(rng.integers(5, 60)), replace=False).tolist()
        say("begin", kind=kind, ids=told)
        study.tell_many(told, [value_of(set_id) for set_id in told], by=label)
    say("done", kind=kind, ids=told)


def move_until_killed(place: str, study_name: str, name: str, folders: str, pipe) -> None:
    """Export a study and import it under another name, for ever."""

    def say(stage: str, **more) -> None:
        pipe.send_bytes(json.dumps({"stage": stage, **more}).encode())

    try:
        watch(say)
        with sw.open_study(place, study_name) as study:
            for number in itertools.count():
                copy = f"{name}-{number}"
                folder = os.path.join(folders, copy)
                say("begin", kind="export", name=copy)
                study.export(folder)
                say("done", kind="export", name=copy)
                say("begin", kind="import", name=copy)
                sw.import_study(folder, place, name=copy).close()
                say("done", kind="import", name=copy)
    except Exception as error:
        say("failed", error=repr(error))
