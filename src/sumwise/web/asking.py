"""Questions for many people at once.

To work out a question costs a look at every set, and a model if there are new answers. People who
ask at the same time are served together: one model, one run of questions, one transaction, and
each of them gets their own. That is the same as if they had asked one after the other, since a
question is chosen as if all open ones were answered. One thread does all of this, so however many
wait, nobody else's request is held up.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Final

import sqlalchemy as sa

from sumwise.errors import PoolExhaustedError
from sumwise.learning.propose import Ask, propose
from sumwise.study.storage import records, transactions
from sumwise.study.storage.records import Snapshot
from sumwise.study.study import OVERTAKEN
from sumwise.web.session import Inside

TOGETHER: Final = 16  # questions worked out together; more would only make the first of them wait


@dataclass(frozen=True, slots=True, eq=False)
class Wish:
    """Somebody who waits for questions."""

    n: int
    by: str | None
    wanted: int | None  # the position of a set of their own choice
    granted: Future[list[Ask]]


class _Overtaken(Exception):
    """Somebody in another process has asked, or answered one of these sets, meanwhile."""


class Asker:
    """Takes wishes from any thread and grants them in one of its own."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self._wishes: queue.SimpleQueue[Wish] = queue.SimpleQueue()
        self._next: Wish | None = None  # taken from the queue, and for the round after this one
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def ask(self, n: int, by: str | None, wanted: int | None = None) -> Future[list[Ask]]:
        wish = Wish(n, by, wanted, Future())
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="asking", daemon=True)
                self._thread.start()
        self._wishes.put(wish)
        return wish.granted

    def _work(self) -> None:
        while True:
            wishes = [wish for wish in self._together() if _still_wanted(wish)]
            if wishes:
                self._grant(wishes)

    def _together(self) -> list[Wish]:
        """The first wish, and whoever else is waiting."""
        wishes = [self._next or self._wishes.get()]
        self._next, asked = None, wishes[0].n
        while wishes[0].wanted is None and asked < TOGETHER:
            try:
                wish = self._wishes.get_nowait()
            except queue.Empty:
                break
            if wish.wanted is not None or asked + wish.n > TOGETHER:
                self._next = wish
                break
            wishes.append(wish)
            asked += wish.n
        return wishes

    def _grant(self, wishes: Sequence[Wish]) -> None:
        try:
            granted = self._claimed(wishes)
        except PoolExhaustedError as error:
            if len(wishes) == 1:
                wishes[0].granted.set_exception(error)
                return
            for wish in wishes:  # too few are free for all of them, but perhaps not for some
                self._grant([wish])
            return
        except Exception as error:
            for wish in wishes:
                wish.granted.set_exception(error)
            return
        for wish, questions in zip(wishes, granted, strict=True):
            wish.granted.set_result(questions)

    def _claimed(self, wishes: Sequence[Wish]) -> list[list[Ask]]:
        inside, first = self._inside, wishes[0]
        if first.wanted is not None:
            return [[inside.study.claim(inside.sets.ids[first.wanted], first.by)]]
        n = sum(wish.n for wish in wishes)
        for _ in range(OVERTAKEN):
            seen = inside.seen()
            questions = inside.propose(seen, n)
            try:
                with inside.turn(), inside.database.write() as connection:
                    return self._handed_out(connection, seen.snapshot, questions, wishes)
            except _Overtaken:
                continue
        with inside.turn(), inside.database.write() as connection:
            locked = records.snapshot(connection, inside.kept, lock=True)
            model, pool = inside.study._aimed(locked, connection)
            asking = inside.study._asking(locked)
            questions = propose(pool, model, inside.kept.strategy, n=n, **asking)
            return self._handed_out(connection, locked, questions, wishes)

    def _handed_out(
        self,
        connection: sa.Connection,
        seen: Snapshot,
        questions: Sequence[Ask],
        wishes: Sequence[Wish],
    ) -> list[list[Ask]]:
        """Claimed, each by who has asked; all of them or none."""
        granted: list[list[Ask]] = []
        for wish in wishes:
            mine, questions = questions[: wish.n], questions[wish.n :]
            claimed = transactions.ask(connection, self._inside.kept, seen, mine, wish.by)
            if claimed is None:
                raise _Overtaken
            seen = replace(seen, questions=seen.questions + wish.n, expired=())
            granted.append(claimed)
        return granted


def _still_wanted(wish: Wish) -> bool:
    """Whether whoever has asked is still there: a page that was closed gets no question."""
    return wish.granted.set_running_or_notify_cancel()
