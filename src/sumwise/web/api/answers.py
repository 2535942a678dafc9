"""Routes: answers. Each is on disk when it is acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter, Response

from sumwise.errors import LabelError
from sumwise.learning.parts import rows_of
from sumwise.learning.propose import Expected, far_from
from sumwise.learning.told import Measured, Told
from sumwise.util.text import plain
from sumwise.web import requests, responses
from sumwise.web.api import Here, route, writing
from sumwise.web.pages import PageQuery
from sumwise.web.problems import MEANINGS, Refused, conflicts
from sumwise.web.requests import Page, Position, Size
from sumwise.web.session import Row, Session, widened

router = APIRouter(tags=["answers"])


@route(router, "GET /answers", responses.Answers)
def get_answers(here: Here, page: Page = 1, size: Size = 50) -> Any:
    """The present answers, the newest first."""
    found = here.session.state.snapshot().answers[::-1]
    query = PageQuery(page, size)
    return query.answer([here.session.answer_row(each) for each in query.of(found)], len(found))


@route(
    router,
    "POST /answers",
    responses.Answer,
    404,
    responses={
        200: {"model": responses.Answer, "description": "The same was told before."},
        409: {
            "model": responses.Unlikely | responses.Answered | responses.Problem,
            "description": MEANINGS[409],
        },
    },
)
@writing
def tell(here: Here, response: Response, body: requests.NewAnswer) -> Any:
    """The measured total of a set.

    Kept for good once this is answered; asked for or not.

    A total that is more than four standard deviations from what is expected is refused with the
    code `unlikely`, unless it comes with `sure`. That is checked from the third answer on, against
    a model that may miss the last tenth of them.
    """
    session = here.session
    position = session.position(body.position, body.set)
    own = session.id_at(position)
    known = session.state.answer(position)
    _check_members(session, position, body.of)
    if not (body.sure or body.of or body.covers or known):  # another answer is refused below
        _check_likely(session, position, body, body.noise_std, session.expected)
    try:
        values = (body.total, body.by, body.note, body.noise_std)
        answer, new = session.study.record(own, *values, of=body.of, covers=body.covers)
    except LabelError as error:
        known = session.state.answer(position)
        if known is None:
            raise  # the total itself is refused
        more = {"answer": responses.Answer(**session.answer_row(known)).model_dump()}
        raise Refused(409, "answered", str(error), **more) from error
    if not new:
        response.status_code = 200
    return session.answer_row(answer)


@route(
    router,
    "PATCH /answers/{position}",
    responses.Answer,
    404,
    responses={
        409: {"model": responses.Unlikely | responses.Problem, "description": MEANINGS[409]}
    },
)
@writing
def amend(here: Here, position: Position, body: requests.Correction) -> Any:
    """Correct an answer.

    History keeps the former answer.

    Another total is refused with the code `unlikely`, unless it comes with `sure`, if it is more
    than four standard deviations from what all other answers predict. That is checked if there are
    at least three others.
    """
    session = here.session
    own = session.id_at(position)
    known = session.state.answer(position)
    _check_members(session, position, body.of)
    part = body.of or body.covers or (known is not None and (known.of or known.covers))
    if not (body.sure or part or known is None or known.y_bar == body.total):
        noise = known.noise_std if body.noise_std is None else body.noise_std
        _check_likely(session, position, body, noise, session.expected_without)
    values = (body.total, body.by, body.note, body.noise_std)
    try:
        answer, _ = session.study.record(own, *values, correct=True, of=body.of, covers=body.covers)
    except LabelError as error:
        if session.state.answer(position) is not None:
            raise  # the total itself is refused
        raise Refused(409, "not_answered", str(error)) from error
    return session.answer_row(answer)


@route(router, "POST /answers/{position}/retract", None, 404)
@writing
def retract(here: Here, position: Position, body: requests.Remark | None = None) -> None:
    """Withdraw an answer.

    Its set may be asked for again, and history keeps the answer.
    """
    wanted = body or requests.Remark()
    with conflicts({LabelError: "not_answered"}):
        here.session.study.retract(here.session.id_at(position), wanted.by, wanted.note)


def _check_members(session: Session, position: int, of: Sequence[str | int] | None) -> None:
    """Refuse members that are not those of the set, apart from refusals of the total."""
    if of is None or session.members_by is None:
        return
    try:
        rows_of(session.sets, position, of)
    except LabelError as error:
        raise Refused(422, "of", str(error)) from error


def _check_likely(
    session: Session,
    position: int,
    body: requests.NewAnswer | requests.Correction,
    noise: float | None,
    expecting: Callable[[int], Row | None],
) -> None:
    """Refuse a total that is far from what is expected of it, or that cannot be at all."""
    about = session.record.about
    if about.outputs != "numbers":  # nobody is asked to be sure of what is impossible
        Measured(session.sets, about).checked(Told(session.id_at(position), body.total, noise))
    expected = expecting(position)
    if expected is None:
        return
    chance = expected.pop("chance", None)
    likely = Expected(expected["expected"], expected["std"], chance)
    missed = far_from(likely, body.total, noise)
    if missed is not None:
        if about.bounded:
            about.check(body.total, noise, session.sets.take([position]))
        mean, std = map(plain, missed)
        raise Refused(
            409,
            "unlikely",
            f"{body.total:.12g} is far from the prediction, {mean} ± {std}; nothing was stored. "
            "If it is right, send it again and say so (sure: true).",
            **responses.Expectation(**widened(expected, missed[1])).model_dump(),
        )
