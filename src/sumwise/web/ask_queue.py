"""Questions for many people at once.

A question costs a look at every set, and a model if there are new answers. People who ask at the
same time are served together: one model, one batch of questions, one transaction. They get the same
questions as if they had asked one after the other, since a question is chosen as if all open ones
were answered. One thread does all of this, so those who wait hold up no other request.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Final

from sumwise.errors import PoolExhaustedError, SettingError
from sumwise.learning.propose import Ask
from sumwise.study.state import StudyState

TOGETHER: Final = 16  # questions worked out together; with more, the first would wait too long
TOO_MANY: Final = (PoolExhaustedError, SettingError)  # no more pools keep to all rules


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A person who waits for questions."""

    n: int
    by: str | None
    questions: Future[list[Ask]]


class AskQueue:
    """Takes requests from any thread and answers them in one of its own."""

    def __init__(self, state: StudyState) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._requests: deque[Request] = deque()
        self._working = False

    def ask(self, n: int, by: str | None) -> Future[list[Ask]]:
        request = Request(n, by, Future())
        with self._lock:
            self._requests.append(request)
            if not self._working:
                self._working = True
                threading.Thread(target=self._work, name="asking", daemon=True).start()
        return request.questions

    def _work(self) -> None:
        while requests := self._together():
            # a page that was closed meanwhile has cancelled its request, and gets no question
            waiting = [each for each in requests if each.questions.set_running_or_notify_cancel()]
            if waiting:
                self._answer(waiting)

    def _together(self) -> list[Request]:
        """The first request, and others that are waiting; none ends the thread."""
        with self._lock:
            requests: list[Request] = []
            asked = 0
            while self._requests and (not requests or asked + self._requests[0].n <= TOGETHER):
                requests.append(self._requests.popleft())
                asked += requests[-1].n
            self._working = bool(requests)
            return requests

    def _answer(self, requests: Sequence[Request]) -> None:
        try:
            claimed = iter(self._state.claim([each.by for each in requests for _ in range(each.n)]))
        except Exception as error:
            for request in requests:
                if isinstance(error, TOO_MANY) and len(requests) > 1:
                    self._answer([request])  # too few sets are free for all, perhaps not for some
                else:
                    request.questions.set_exception(error)
        else:
            for request in requests:
                request.questions.set_result(list(islice(claimed, request.n)))
