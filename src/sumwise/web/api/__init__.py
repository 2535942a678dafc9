"""Routes, and what they share: a declaration, the study, and limits on threads.

Quick reads, writes and long computations have threads of their own, so that many requests of one
kind do not hold up another.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from fastapi import APIRouter, Depends, Request
from fastapi.security import HTTPBearer

from sumwise.web.ask_queue import AskQueue
from sumwise.web.live import Live
from sumwise.web.pages import Pages
from sumwise.web.picture import Pictures
from sumwise.web.problems import READING, WRITING, Responses, documented
from sumwise.web.session import Session

P = ParamSpec("P")
R = TypeVar("R")
Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """A study that is being served, and all that routes need."""

    session: Session
    asker: AskQueue
    pages: Pages
    pictures: Pictures
    live: Live
    computing: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(6))
    writing: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(8))


def _served(request: Request) -> Served:
    """The study as it is served; made anew where another program has changed its pool."""
    return request.app.state.serve()


Here = Annotated[Served, Depends(_served)]

# the guard checks the token; this documents it in OpenAPI
BEARER: Final = Depends(
    HTTPBearer(
        auto_error=False,
        scheme_name="token",
        description="The token from the address that `sumwise serve` has printed.",
    )
)


def route(
    router: APIRouter,
    call: str,
    model: Any = None,
    *refusals: int,
    responses: Responses | None = None,
    **more: Any,
) -> Callable[[Handler], Handler]:
    """Declare a route. The docstring of its handler is its summary and description, and the name of
    the handler, in camel case, is the id of the operation.

    Args:
        call: Method and path, such as "GET /study". A POST to a collection is answered with 201.
        model: The shape of what it gives; a write without one is answered with 204.
        refusals: Statuses to document, beside those of any such request.
        responses: Responses to document that need more words.
    """
    method, path = call.split()
    writes = method != "GET"
    if writes and model is None:
        more["status_code"] = 204
    elif method == "POST" and "{" not in path:
        more["status_code"] = 201

    def add(handler: Handler) -> Handler:
        first, *rest = handler.__name__.split("_")
        summary, _, description = (inspect.getdoc(handler) or "").partition("\n\n")
        router.add_api_route(
            f"/api{path}",
            handler,
            methods=[method],
            summary=summary.rstrip("."),
            description=description,
            operation_id=first + "".join(map(str.capitalize, rest)),
            response_model=model,
            responses=documented(*(WRITING if writes else READING), *refusals) | (responses or {}),
            dependencies=[BEARER] if writes else [],
            **more,
        )
        return handler

    return add


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
