"""Routes: questions, claims and skips."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter

from sumwise.errors import LabelError, SettingError, UnknownSetError
from sumwise.learning.designed import NAME
from sumwise.web import requests, responses
from sumwise.web.api import Here, computing, route, writing
from sumwise.web.problems import Refused, conflicts
from sumwise.web.requests import Position

router = APIRouter(tags=["asking"])


@route(router, "POST /questions", responses.Questions)
async def ask(here: Here, body: requests.Asking | None = None) -> Any:
    """Ask which sets to measure next, and claim them.

    Each set is held by the one who asked until it is answered, released, or expires.

    People who ask at the same time are served together, which gives the same questions as one
    after the other.
    """
    wanted = body or requests.Asking()
    asked = await asyncio.wrap_future(here.asker.ask(wanted.n, wanted.by))
    return {"questions": await asyncio.to_thread(here.session.question_rows, asked)}


@route(router, "POST /claims", responses.Question, 404)
@computing
def claim(here: Here, body: requests.ChosenSet) -> Any:
    """Claim a set of your own choice.

    As if it had been asked for. A set that was skipped is no longer skipped then.

    A pool that is proposed has no position, and is claimed by its id.
    """
    session = here.session
    own = session.claimable(body.position, body.set)
    try:
        with conflicts({LabelError: "answered", SettingError: "held"}):
            return session.question_rows([session.study.claim(own, body.by)])[0]
    except UnknownSetError as error:
        if session.people is None or not NAME.fullmatch(str(own)):
            raise
        words = f"{own} is no longer proposed; look at the present proposals"
        raise Refused(409, "not_proposed", words) from error


@route(router, "POST /claims/{position}/renew", responses.Expires, 404)
@writing
def renew(here: Here, position: Position, body: requests.Longer | None = None) -> Any:
    """Extend a claim."""
    wanted, session = body or requests.Longer(), here.session
    with conflicts({SettingError: "not_held"}):
        return {"expires": session.study.renew(session.id_at(position), wanted.days, wanted.by)}


@route(router, "POST /claims/{position}/release", None, 404)
@writing
def release(here: Here, position: Position, body: requests.Signed | None = None) -> None:
    """Give up a claim."""
    own, wanted = here.session.id_at(position), body or requests.Signed()
    with conflicts({SettingError: "not_held"}):
        here.session.study.release(own, wanted.by)


@route(router, "GET /skips", responses.Skips)
def get_skips(here: Here) -> Any:
    """Sets that are not asked for."""
    session = here.session
    last = len(session.sets) if session.people is not None else session.sets.n_asked
    found = [row for row in session.skip_rows() if row["position"] < last]
    return {"rows": found, "total": len(found)}


@route(router, "POST /skips", responses.Skip, 404)
@writing
def skip(here: Here, body: requests.Skipping) -> Any:
    """Skip a set that cannot be measured.

    It is not asked for then. Skipping it again replaces the note.
    """
    session = here.session
    position = session.position(body.position, body.set)
    with conflicts({LabelError: "answered"}):
        session.study.skip(session.id_at(position), body.by, body.note)
    found = [row for row in session.skip_rows() if row["position"] == position]
    undone = {**session.name(position), "by": body.by, "at": "", "note": body.note}
    return found[0] if found else undone  # by another request, meanwhile


@route(router, "POST /skips/{position}/undo", None, 404)
@writing
def unskip(here: Here, position: Position, body: requests.Signed | None = None) -> None:
    """Allow a skipped set to be asked for again."""
    own, wanted = here.session.id_at(position), body or requests.Signed()
    with conflicts({SettingError: "not_skipped"}):
        here.session.study.unskip(own, wanted.by)
