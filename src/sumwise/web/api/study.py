"""Routes: the study as a whole, what to ask next, what has happened, charts and live changes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from sumwise import __version__
from sumwise.learning.status import Status
from sumwise.web import responses, rows
from sumwise.web.dependencies import Here, computing
from sumwise.web.problems import READING, documented
from sumwise.web.requests import MOST_ASKED, Page, Size
from sumwise.web.session import LEVEL, finite

router = APIRouter(prefix="/api", tags=["study"], responses=documented(*READING))
STREAM = "\n\n".join(["retry: 2000", 'event: change\ndata: {"changes": 17}', ": still here", ""])


@router.get(
    "/study",
    summary="What the study is, and how far",
    operation_id="getStudy",
    response_model=responses.Study,
)
def study(here: Here) -> Any:
    session = here.session
    now, kept = session.state.snapshot(), session.record
    counts = (len(session.sets), len(now.answers), len(now.claims), len(now.skips), now.questions)
    said = Status(kept.name, kept.strategy, *counts, 0.0, 0.0, 0.0, 0, 0.0)
    return {
        "name": kept.name,
        "sets": counts[0],
        "individuals": int(session.sets.starts[-1]),
        "inputs": session.input_names,
        "strategy": kept.strategy,
        "answers": counts[1],
        "open": counts[2],
        "skipped": counts[3],
        "questions": counts[4],
        "spent": session.spent(now),
        "words": said.words[:1],
        "claim_days": kept.claim_days,
        "changes": now.changes,
        "level": LEVEL,
        "version": __version__,
        "places": None if here.places is None else dict(zip("xy", here.places, strict=True)),
        "writable": True,
    }


@router.get(
    "/status",
    summary="How much there is still to learn",
    operation_id="getStatus",
    response_model=responses.Status,
    responses=documented(409),
)
@computing
def status(here: Here) -> Any:
    """In numbers and in words. Looks at every individual, so it may take a while."""
    found = here.charts.status()
    values = asdict(found).items()
    numbers = {name: finite(value) if isinstance(value, float) else value for name, value in values}
    verdict = {"stop": found.stop, "advice": found.advice, "words": found.words}
    return {**numbers, **verdict, "improvement": finite(found.improvement)}


@router.get(
    "/next",
    summary="What would be asked next, and what is being measured",
    operation_id="getNext",
    response_model=responses.Next,
    responses=documented(409),
)
@computing
def next_questions(
    here: Here, n: Annotated[int, Query(ge=0, le=MOST_ASKED, description="How many.")] = 5
) -> Any:
    """Nothing is claimed by looking. There are fewer questions if fewer sets are free."""
    session = here.session
    seen = session.state.snapshot()
    proposed = session.state.propose(seen, n)
    return {
        "questions": [rows.question(session, each) for each in proposed],
        "claims": rows.claims(session, seen),
    }


@router.get(
    "/history",
    summary="Everything that has happened, the newest first",
    operation_id="getHistory",
    response_model=responses.Events,
)
def history(here: Here, page: Page = 1, size: Size = 50) -> Any:
    total, found = here.session.state.history_page(page, size)
    return rows.page([rows.event(here.session, each) for each in found], total, page, size)


@router.get(
    "/charts/{kind}",
    summary="A chart of what was learned",
    operation_id="getChart",
    response_model=responses.Chart,
    responses=documented(409),
)
@computing
def chart(
    here: Here, kind: Literal["progress", "information", "predicted", "calibration", "next"]
) -> Any:
    """The charts of `sumwise report`. May take a while after a change."""
    return here.charts.panel(kind)


@router.get(
    "/picture",
    summary="Individuals as points, by what became of their sets",
    operation_id="getPicture",
    response_model=responses.Chart,
    responses=documented(404, 409),
)
@computing
def picture(
    here: Here,
    kind: Annotated[
        Literal["pca", "map", "tsne"],
        Query(description="`map` needs `sumwise serve --map`; `tsne` may take tens of seconds."),
    ] = "pca",
) -> Any:
    return here.pictures.get(kind)


@router.get(
    "/events",
    summary="Changes as they happen, as server-sent events",
    operation_id="getEvents",
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
async def events(here: Here) -> StreamingResponse:
    return StreamingResponse(here.live.events(), media_type="text/event-stream")
