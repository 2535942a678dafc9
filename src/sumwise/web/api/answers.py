"""Routes: answers. Each is on disk when it is acknowledged."""

from __future__ import annotations

import math
from typing import Any

from fastapi import APIRouter, Response

from sumwise.errors import LabelError
from sumwise.learning.propose import FAR
from sumwise.util.text import plain
from sumwise.web import requests, responses, rows
from sumwise.web.dependencies import BEARER, Here, writing
from sumwise.web.problems import MEANINGS, READING, WRITING, Refused, conflicts, documented
from sumwise.web.requests import Page, Position, Size
from sumwise.web.session import Expectation, Session, interval

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
    found = here.session.state.snapshot().answers[::-1]
    part = found[(page - 1) * size : page * size]
    return rows.page([rows.answer(here.session, each) for each in part], len(found), page, size)


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
    session = here.session
    position = session.position(body.position, body.set)
    own = session.sets.ids[position]
    if not body.sure:
        unlikely = _unlikely(body.total, body.noise_std, session.expected(position))
        if unlikely is not None and session.state.answer(position) is None:
            raise unlikely  # an answered set is refused for that below
    try:
        values = (body.total, body.by, body.note, body.noise_std)
        answer, new = session.study.record(own, *values)
    except LabelError as error:
        known = session.state.answer(position)
        more = {} if known is None else {"answer": rows.answer(session, known)}
        raise Refused(409, "answered", str(error), **more) from error
    if not new:
        response.status_code = 200
    return rows.answer(session, answer)


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
    session = here.session
    own = session.id_at(position)
    if not body.sure:
        _refuse_unlikely_correction(session, position, body)
    with conflicts({LabelError: "not_answered"}):
        values = (body.total, body.by, body.note, body.noise_std)
        answer, _ = session.study.record(own, *values, correct=True)
    return rows.answer(session, answer)


@router.post(
    "/answers/{position}/retract",
    status_code=204,
    summary="Take an answer back",
    operation_id="retract",
    responses=documented(404, 409),
)
@writing
def retract(here: Here, position: Position, body: requests.Remark | None = None) -> None:
    """Its set may be asked for again, and history keeps what was said."""
    wanted = body or requests.Remark()
    with conflicts({LabelError: "not_answered"}):
        here.session.study.retract(here.session.id_at(position), wanted.by, wanted.note)


def _refuse_unlikely_correction(session: Session, position: int, body: requests.Correction) -> None:
    """The answer that is corrected has no part in what is expected."""
    known = session.state.answer(position)
    if known is None or known.y_bar == body.total:
        return  # there is nothing to correct, or only the noise changes
    noise = known.noise_std if body.noise_std is None else body.noise_std
    unlikely = _unlikely(body.total, noise, session.expected_without(position))
    if unlikely is not None:
        raise unlikely


def _unlikely(total: float, noise: float | None, expectation: Expectation | None) -> Refused | None:
    """A refusal if a total is far from what is expected of it."""
    if expectation is None:
        return None
    mean, spread = expectation[0], math.hypot(expectation[1], noise or 0.0)
    if not abs(total - mean) > FAR * spread:
        return None
    return Refused(
        409,
        "unlikely",
        f"{total:.12g} is far from what is expected, {plain(mean)} ± {plain(spread)}; nothing "
        "was stored. If it is right, send it again and say so (sure: true).",
        **interval(mean, spread),
    )
