"""Routes: questions, claims and skips."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import APIRouter, Response

from sumwise.errors import LabelError, SettingError
from sumwise.web import requests, responses, rows
from sumwise.web.dependencies import BEARER, Here, thinking, writing
from sumwise.web.problems import READING, WRITING, conflicts, documented
from sumwise.web.requests import Position

NAMED: Final = documented(404, 409)
reading = APIRouter(prefix="/api", tags=["asking"], responses=documented(*READING))
router = APIRouter(
    prefix="/api", tags=["asking"], responses=documented(*WRITING), dependencies=[BEARER]
)


@router.post(
    "/questions",
    status_code=201,
    summary="Ask which sets to measure next, and claim them",
    operation_id="ask",
    response_model=responses.Questions,
    responses=documented(409),
)
async def ask(here: Here, body: requests.Asking | None = None) -> Any:
    """Each set is held by whoever asked until it is answered, released, or expires.

    People who ask at the same time are served together, which gives the same questions as one
    after the other.
    """
    wanted = body or requests.Asking()
    asked = await asyncio.wrap_future(here.asker.ask(wanted.n, wanted.by))
    return {"questions": [rows.question(here.inside, each) for each in asked]}


@thinking
def _found(here: Here, body: requests.OneSet) -> int:
    """The set that is meant; to find an id, and those like it, may take a look at all of them."""
    return here.inside.position(body.position, body.set)


@router.post(
    "/claims",
    status_code=201,
    summary="Claim a set of one's own choice",
    operation_id="claim",
    response_model=responses.Question,
    responses=NAMED,
)
async def claim(here: Here, body: requests.OneSet) -> Any:
    """As if it had been asked for. A set that was skipped is no longer skipped then."""
    position = await _found(here=here, body=body)
    with conflicts({LabelError: "answered", SettingError: "held"}):
        (asked,) = await asyncio.wrap_future(here.asker.ask(1, body.by, position))
    return rows.question(here.inside, asked)


@router.post(
    "/claims/{position}/renew",
    summary="Hold a claimed set for longer",
    operation_id="renew",
    response_model=responses.Expires,
    responses=NAMED,
)
@writing
def renew(here: Here, position: Position, body: requests.Longer | None = None) -> Any:
    wanted, inside = body or requests.Longer(), here.inside
    own = inside.sets.ids[inside.position(position)]
    with conflicts({SettingError: "not_held"}), inside.turn():
        return {"expires": inside.study.renew(own, wanted.days, wanted.by)}


@router.post(
    "/claims/{position}/release",
    status_code=204,
    summary="Give a claimed set back",
    operation_id="release",
    responses=NAMED,
)
@writing
def release(here: Here, position: Position, body: requests.Signed | None = None) -> Response:
    inside = here.inside
    own = inside.sets.ids[inside.position(position)]
    with conflicts({SettingError: "not_held"}), inside.turn():
        inside.study.release(own, None if body is None else body.by)
    return Response(status_code=204)


@reading.get(
    "/skips",
    summary="Sets that nobody is asked for",
    operation_id="getSkips",
    response_model=responses.Skips,
)
def skips(here: Here) -> Any:
    found = rows.skips(here.inside)
    return {"rows": found, "total": len(found)}


@router.post(
    "/skips",
    status_code=201,
    summary="Set a set aside that cannot be measured",
    operation_id="skip",
    response_model=responses.Skip,
    responses=NAMED,
)
@writing
def skip(here: Here, body: requests.Skipping) -> Any:
    """Nobody is asked for it then. Once more with another note puts that in its place."""
    inside = here.inside
    position = inside.position(body.position, body.set)
    with conflicts({LabelError: "answered"}), inside.turn():
        inside.study.skip(inside.sets.ids[position], body.by, body.note)
    found = [row for row in rows.skips(inside) if row["position"] == position]
    lost = {**inside.name(position), "by": body.by, "at": "", "note": body.note}
    return found[0] if found else lost  # somebody else wants it again already


@router.post(
    "/skips/{position}/undo",
    status_code=204,
    summary="A set that was skipped may be asked for again",
    operation_id="unskip",
    responses=NAMED,
)
@writing
def unskip(here: Here, position: Position, body: requests.Signed | None = None) -> Response:
    inside = here.inside
    own = inside.sets.ids[inside.position(position)]
    with conflicts({SettingError: "not_skipped"}), inside.turn():
        inside.study.unskip(own, None if body is None else body.by)
    return Response(status_code=204)
