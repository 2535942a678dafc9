"""Questions for many people at once.

A question costs a look at every set, and a model if there are new answers. People who ask at the
same time are served together: one model, one batch of questions, one transaction. They get the same
questions as if they had asked one after the other, since a question is chosen as if all open ones
were answered. One thread does all of this, so those who wait hold up no other request.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from sumwise.errors import PoolExhaustedError
from sumwise.learning.propose import Ask
from sumwise.study.state import StudyState

TOGETHER: Final = 16  # questions worked out together; with more, the first would wait too long


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A person who waits for questions."""

    n: int
    by: str | None
    wanted: int | None  # the position of a set of their own choice
    questions: Future[list[Ask]]


class AskQueue:
    """Takes requests from any thread and answers them in one of its own."""

    def __init__(self, state: StudyState) -> None:
        self._state = state
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._next: Request | None = None  # taken from the queue, and left for the next round
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def ask(self, n: int, by: str | None, wanted: int | None = None) -> Future[list[Ask]]:
        request = Request(n, by, wanted, Future())
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="asking", daemon=True)
                self._thread.start()
        self._requests.put(request)
        return request.questions

    def _work(self) -> None:
        while True:
            # a page that was closed meanwhile has cancelled its request, and gets no question
            waiting = [
                request
                for request in self._together()
                if request.questions.set_running_or_notify_cancel()
            ]
            if waiting:
                self._answer(waiting)

    def _together(self) -> list[Request]:
        """The first request, and others that are waiting."""
        requests = [self._next or self._requests.get()]
        self._next, asked = None, requests[0].n
        while requests[0].wanted is None and asked < TOGETHER:
            try:
                request = self._requests.get_nowait()
            except queue.Empty:
                break
            if request.wanted is not None or asked + request.n > TOGETHER:
                self._next = request
                break
            requests.append(request)
            asked += request.n
        return requests

    def _answer(self, requests: Sequence[Request]) -> None:
        first = requests[0]
        try:
            if first.wanted is not None:
                claimed = [self._state.claim([first.by], first.wanted)]
            else:
                claimed = self._state.ask_for([(each.n, each.by) for each in requests])
        except PoolExhaustedError as error:
            if len(requests) == 1:
                first.questions.set_exception(error)
                return
            for request in requests:  # too few sets are free for all, but perhaps not for some
                self._answer([request])
        except Exception as error:
            for request in requests:
                request.questions.set_exception(error)
        else:
            for request, questions in zip(requests, claimed, strict=True):
                request.questions.set_result(questions)
