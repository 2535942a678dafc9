"""Routes: answers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from sumwise.errors import LabelError
from sumwise.web import answers as write
from sumwise.web import requests, responses, rows
from sumwise.web.dependencies import BEARER, Here, writing
from sumwise.web.problems import MEANINGS, READING, WRITING, conflicts, documented
from sumwise.web.requests import Page, Position, Size

reading = APIRouter(prefix="/api", tags=["answers"], responses=documented(*READING))
router = APIRouter(
    prefix="/api", tags=["answers"], responses=documented(*WRITING), dependencies=[BEARER]
)


@reading.get(
    "/answers",
    summary="Answers as they stand, the newest first",
    operation_id="getAnswers",
    response_model=responses.Answers,
)
def answers(here: Here, page: Page = 1, size: Size = 50) -> Any:
    return rows.answer_page(here.inside, page, size)


@router.post(
    "/answers",
    status_code=201,
    summary="The measured total of a set",
    operation_id="tell",
    response_model=responses.Answer,
    responses={
        **documented(404),
        200: {"model": responses.Answer, "description": "The same was told before."},
        409: {
            "model": responses.Unlikely | responses.Answered | responses.Problem,
            "description": MEANINGS[409],
        },
    },
)
@writing
def tell(here: Here, response: Response, body: requests.NewAnswer) -> Any:
    """Kept for good once this is answered; asked for or not.

    A total that is more than four standard deviations from what is expected is refused with the
    code `unlikely`, unless it comes with `sure`. That is checked from the third answer on, against
    a model that may miss the last tenth of them.
    """
    position = here.inside.position(body.position, body.set)
    values = (position, body.total, body.noise_std, body.by, body.note, body.sure)
    answer, new = write.tell(here.inside, *values)
    if not new:
        response.status_code = 200
    return answer


@router.patch(
    "/answers/{position}",
    summary="Correct an answer",
    operation_id="amend",
    response_model=responses.Answer,
    responses={
        **documented(404),
        409: {"model": responses.Unlikely | responses.Problem, "description": MEANINGS[409]},
    },
)
@writing
def amend(here: Here, position: Position, body: requests.Correction) -> Any:
    """History keeps what was said before.

    Another total is refused with the code `unlikely`, unless it comes with `sure`, if it is more
    than four standard deviations from what all other answers, of which there have to be three, let
    one expect.
    """
    inside = here.inside
    values = (inside.position(position), body.total, body.noise_std, body.by, body.note, body.sure)
    return write.amend(inside, *values)


@router.post(
    "/answers/{position}/retract",
    status_code=204,
    summary="Take an answer back",
    operation_id="retract",
    responses=documented(404, 409),
)
@writing
def retract(here: Here, position: Position, body: requests.Remark | None = None) -> Response:
    """Its set may be asked for again, and history keeps what was said."""
    wanted, inside = body or requests.Remark(), here.inside
    own = inside.sets.ids[inside.position(position)]
    with conflicts({LabelError: "not_answered"}), inside.turn():
        inside.study.retract(own, wanted.by, wanted.note)
    return Response(status_code=204)
