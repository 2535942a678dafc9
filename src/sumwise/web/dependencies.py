"""What all routes share: the study, what was computed from it, and limits on threads.

Quick reads, writes and long computations have threads of their own, so that many requests of one
kind do not hold up another.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from sumwise.web.asking import AskQueue
from sumwise.web.charts import Charts
from sumwise.web.live import Live
from sumwise.web.pages import Pages
from sumwise.web.picture import Pictures
from sumwise.web.session import Session

P = ParamSpec("P")
R = TypeVar("R")

COMPUTE_THREADS: Final = 6
WRITE_THREADS: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """A study that is being served, and all that routes need."""

    session: Session
    asker: AskQueue
    pages: Pages
    charts: Charts
    pictures: Pictures
    live: Live
    places: tuple[str, str] | None
    computing: anyio.CapacityLimiter
    writing: anyio.CapacityLimiter


async def _served(request: Request) -> Served:
    return request.app.state.served


Here = Annotated[Served, Depends(_served)]

# the guard checks the token; this documents it in OpenAPI
BEARER: Final = Depends(
    HTTPBearer(
        auto_error=False,
        scheme_name="token",
        description="The token from the address that `sumwise serve` has printed.",
    )
)


def _limited_by(name: str) -> Callable[[Callable[P, R]], Callable[P, Awaitable[R]]]:
    """Run handlers in threads, as many at once as the limiter of this name in `here` allows."""

    def wrap(function: Callable[P, R]) -> Callable[P, Awaitable[R]]:
        @functools.wraps(function)
        async def run(*args: P.args, **kwargs: P.kwargs) -> R:
            limiter: anyio.CapacityLimiter = getattr(kwargs["here"], name)
            job: Any = functools.partial(function, *args, **kwargs)
            return await anyio.to_thread.run_sync(job, limiter=limiter)

        return run

    return wrap


computing: Final = _limited_by("computing")
writing: Final = _limited_by("writing")
