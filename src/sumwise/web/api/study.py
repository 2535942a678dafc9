"""Routes: the study as a whole, what to ask next, what has happened, charts and live changes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from sumwise import __version__
from sumwise.learning.status import Status
from sumwise.study.storage.records import Snapshot
from sumwise.util.text import shown
from sumwise.web import responses
from sumwise.web.api import Here, computing, route
from sumwise.web.live import Live
from sumwise.web.pages import PageQuery
from sumwise.web.problems import Refused
from sumwise.web.requests import DIGITS, MOST_ASKED, Page, Size
from sumwise.web.session import LEVEL, Row, Session
from sumwise.web.tokens import HOLDER, KEY_ID, NONCE, Tokens

router = APIRouter(tags=["study"])
STREAM = "\n\n".join(["retry: 2000", 'event: change\ndata: {"changes": 17}', ": still here", ""])


@route(router, "GET /study", responses.Study)
def get_study(here: Here) -> Any:
    """What the study is, and how far."""
    session, places, holder = here.session, here.pictures.places, HOLDER.get()
    now, kept = session.state.snapshot(), session.record
    about, origin, designing, own = (
        kept.about,
        session.sets.origin,
        kept.designing,
        session.known.sizes,
    )
    asked = session.sets.n_asked  # without what was known from the start
    answers, skips = (
        sum(each.position < asked for each in told) for told in (now.answers, now.skips)
    )
    sets, claimed, known, designs = now.sets - origin.extra, len(now.claims), 0, Row()
    if designing is None:
        known = len(now.answers) - answers
    else:
        sets, answers, claimed, skips = designing.counts(now.state)
        designs = _designing(session, now)
    drawn = {key: designs[key] for key in ("candidates", "used", "alone") if designs}
    counts = sets, answers, claimed, skips, now.questions
    counted = Status(kept.name, kept.strategy, *counts, 0.0, 0.0, 0.0, 0, 0.0, **drawn)
    return {
        **asdict(counted),
        "open": counted.open_claims,
        "about": {**asdict(about), "word": about.word, "title": about.title},
        "designing": designs or None,
        "individuals": designs.get("candidates", int(own[session.known.in_pool].sum())),
        "inputs": session.input_names,
        "known": known,
        "members_by": session.members_by,
        "set_columns": [*map(shown, origin.by)],
        "id_column": None if origin.id is None else shown(origin.id),
        "spent": session.spent(now),
        "words": counted.words[:1],
        "claim_days": kept.claim_days,
        "changes": now.changes,
        "level": LEVEL,
        "version": __version__,
        "map": here.pictures.has_map.get(),
        "places": None if places is None else dict(zip("xy", places, strict=True)),
        "writable": holder is None or holder.writes,
        "you": None if holder is None else holder.name,
    }


@route(router, "GET /proof", responses.Proof)
async def get_proof(
    request: Request,
    key: Annotated[str, Query(pattern=f"^{KEY_ID}$", description="Id of the token's key.")],
    nonce: Annotated[str, Query(pattern=f"^{NONCE}$", description="New for each request.")],
) -> Any:
    """Prove that this is the server that has a token, without saying it.

    What pages ask before they send anything; programs need it not.
    """
    tokens: Tokens = request.app.state.tokens
    proof = tokens.proof(key, nonce)
    if proof is None:
        raise Refused(401, "token", "there is no token with this id")
    return {"run": tokens.run, "proof": proof}


def _designing(session: Session, now: Snapshot) -> Row:
    """Of what the study designs its sets, and how much of that is used."""
    designing = session.record.designing
    assert designing is not None
    rules, used = designing.rules, designing.used(session.sets, now.state)
    skipped = sum(each.position < designing.n_begun for each in now.skips)
    return {
        "alone": designing.alone,
        "begun": designing.n_begun,
        "candidates": len(used),
        "used": int((used > 0).sum()),
        "aside": skipped if designing.alone else 0,
        "uses": rules.uses,
        "smallest": rules.size[0],
        "largest": rules.size[1],
    }


@route(router, "GET /status", responses.Status, 409)
@computing
def get_status(here: Here) -> Any:
    """How much there is still to learn.

    In numbers and in words. Looks at every individual, so it may take a while.
    """
    return responses.Status.model_validate(here.session.status.get(), from_attributes=True)


@route(router, "GET /next", responses.Next, 409)
@computing
def get_next(
    here: Here, n: Annotated[int, Query(ge=0, le=MOST_ASKED, description="How many."), DIGITS] = 5
) -> Any:
    """What would be asked next, and what is being measured.

    Nothing is claimed by looking. There are fewer questions if fewer sets are free.
    """
    session = here.session
    seen = session.state.snapshot()
    questions = session.question_rows(session.state.propose(seen, n), seen)
    return {"questions": questions, "claims": session.claim_rows(seen)}


@route(router, "GET /history", responses.Events)
def get_history(here: Here, page: Page = 1, size: Size = 50) -> Any:
    """Everything that has happened, the newest first."""
    total, found = here.session.state.history_page(page, size)
    return PageQuery(page, size).answer([here.session.event_row(each) for each in found], total)


@route(router, "GET /charts/{kind}", responses.Chart, 409)
@computing
def get_chart(
    here: Here, kind: Literal["progress", "information", "predicted", "calibration", "next"]
) -> Any:
    """A chart of what was learned.

    The charts of `sumwise report`. May take a while after a change.
    """
    return here.session.panels[kind].get()


@route(router, "GET /picture", responses.Chart, 404, 409)
@computing
def get_picture(
    here: Here,
    kind: Annotated[
        Literal["pca", "map", "tsne", "prediction", "uncertainty", "status"],
        Query(
            description="`map` needs `sumwise serve --map`; `tsne` may take tens of seconds; the "
            "last three are maps of the study's shapes, where it has any."
        ),
    ] = "pca",
) -> Any:
    """Individuals as points, by what became of their sets."""
    return here.pictures.get(kind)


class Stream(StreamingResponse):
    """The events of one page, which has a place among all of them for as long."""

    def __init__(self, live: Live) -> None:
        super().__init__(live.events(), media_type="text/event-stream")
        self._live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._live.listening((scope.get("client") or ("",))[0]):
            await super().__call__(scope, receive, send)


@route(
    router,
    "GET /events",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "`change` at once and with every change, by whatever program; `trouble` "
            "while the database cannot be read. A comment every 15 seconds shows that the server "
            "is there.",
            "content": {"text/event-stream": {"schema": {"type": "string"}, "example": STREAM}},
        }
    },
)
async def get_events(here: Here) -> StreamingResponse:
    """Changes as they happen, as server-sent events."""
    return Stream(here.live)
