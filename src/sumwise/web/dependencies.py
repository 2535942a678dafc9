"""What all routes share: the study, what was worked out of it, and lanes for those who wait.

A request waits in the lane of its kind. There are threads for quick reads, for writes, and for
what takes thought, so that many people who wait for one kind do not hold up another.
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

from sumwise.web.asking import Asker
from sumwise.web.charts import Insights
from sumwise.web.live import Live
from sumwise.web.pages import Views
from sumwise.web.picture import Pictures
from sumwise.web.session import Inside

P = ParamSpec("P")
R = TypeVar("R")

THINKERS: Final = 6
WRITERS: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """A study that is being served."""

    inside: Inside
    asker: Asker
    views: Views
    insights: Insights
    pictures: Pictures
    live: Live
    places: tuple[str, str] | None
    thinking: anyio.CapacityLimiter
    writing: anyio.CapacityLimiter


async def _served(request: Request) -> Served:
    return request.app.state.served


Here = Annotated[Served, Depends(_served)]

# the guard asks for the token; this says so in the OpenAPI document
BEARER: Final = Depends(
    HTTPBearer(
        auto_error=False,
        scheme_name="token",
        description="The token from the address that `sumwise serve` has printed.",
    )
)


def _in_lane(name: str) -> Callable[[Callable[P, R]], Callable[P, Awaitable[R]]]:
    """A handler that waits in a lane without taking a thread; it has a parameter `here`."""

    def wrap(function: Callable[P, R]) -> Callable[P, Awaitable[R]]:
        @functools.wraps(function)
        async def run(*args: P.args, **kwargs: P.kwargs) -> R:
            lane: anyio.CapacityLimiter = getattr(kwargs["here"], name)
            job: Any = functools.partial(function, *args, **kwargs)
            return await anyio.to_thread.run_sync(job, limiter=lane)

        return run

    return wrap


thinking: Final = _in_lane("thinking")
writing: Final = _in_lane("writing")
