"""The labelling page: a JSON API over a study, and a page for the people who measure.

It stands on `Study` and has no rules of its own: what may be done is decided where studies are
stored. `create_app` makes the application, `sumwise serve` runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sumwise.errors import needs_extra

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["create_app"]


def create_app(study: Any, **settings: Any) -> FastAPI:
    """The page of a study, as an ASGI application; see `sumwise.web.app.create_app`."""
    with needs_extra("the labelling page", "web"):
        from sumwise.web.app import create_app as create
    return create(study, **settings)
