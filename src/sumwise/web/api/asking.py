"""Routes: questions, claims and skips."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import APIRouter

from sumwise.errors import LabelError, SettingError
from sumwise.web import requests, responses, rows
from sumwise.web.dependencies import BEARER, Here, computing, writing
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
    """Each set is held by the one who asked until it is answered, released, or expires.

    People who ask at the same time are served together, which gives the same questions as one
    after the other.
    """
    wanted = body or requests.Asking()
    asked = await asyncio.wrap_future(here.asker.ask(wanted.n, wanted.by))
    return {"questions": [rows.question(here.session, each) for each in asked]}


@computing
def _found(here: Here, body: requests.OneSet) -> int:
    """The position of a set; finding an id, or similar ones, may take a look at all of them."""
    return here.session.position(body.position, body.set)


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
    return rows.question(here.session, asked)


@router.post(
    "/claims/{position}/renew",
    summary="Hold a claimed set for longer",
    operation_id="renew",
    response_model=responses.Expires,
    responses=NAMED,
)
@writing
def renew(here: Here, position: Position, body: requests.Longer | None = None) -> Any:
    wanted, session = body or requests.Longer(), here.session
    with conflicts({SettingError: "not_held"}):
        return {"expires": session.study.renew(session.id_at(position), wanted.days, wanted.by)}


@router.post(
    "/claims/{position}/release",
    status_code=204,
    summary="Give a claimed set back",
    operation_id="release",
    responses=NAMED,
)
@writing
def release(here: Here, position: Position, body: requests.Signed | None = None) -> None:
    own, wanted = here.session.id_at(position), body or requests.Signed()
    with conflicts({SettingError: "not_held"}):
        here.session.study.release(own, wanted.by)


@reading.get(
    "/skips",
    summary="Sets that are not asked for",
    operation_id="getSkips",
    response_model=responses.Skips,
)
def skips(here: Here) -> Any:
    found = rows.skips(here.session)
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
    """It is not asked for then. Skipping it again replaces the note."""
    session = here.session
    position = session.position(body.position, body.set)
    with conflicts({LabelError: "answered"}):
        session.study.skip(session.sets.ids[position], body.by, body.note)
    found = [row for row in rows.skips(session) if row["position"] == position]
    undone = {**session.name(position), "by": body.by, "at": "", "note": body.note}
    return found[0] if found else undone  # by another request, meanwhile


@router.post(
    "/skips/{position}/undo",
    status_code=204,
    summary="A set that was skipped may be asked for again",
    operation_id="unskip",
    responses=NAMED,
)
@writing
def unskip(here: Here, position: Position, body: requests.Signed | None = None) -> None:
    own, wanted = here.session.id_at(position), body or requests.Signed()
    with conflicts({SettingError: "not_skipped"}):
        here.session.study.unskip(own, wanted.by)
