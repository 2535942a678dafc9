"""Answers into the database: each in its own transaction, durable when the function returns."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, Final

import sqlalchemy as sa

from sumwise.data import validate
from sumwise.errors import LabelError
from sumwise.learning.propose import FAR
from sumwise.study.storage import records, transactions
from sumwise.study.storage.schema import answers
from sumwise.util.text import plain
from sumwise.web.problems import Refused
from sumwise.web.session import Inside, finite

LEVEL: Final = 0.9  # of the intervals that are shown
REACH: Final = NormalDist().inv_cdf(0.5 + 0.5 * LEVEL)
# written once: putting a statement together takes longer than running it
_ANSWER: Final = sa.select(answers).where(
    answers.c.study_id == sa.bindparam("study"), answers.c.position == sa.bindparam("at")
)


def tell(
    inside: Inside,
    position: int,
    total: float,
    noise_std: float | None,
    by: str | None,
    note: str | None,
    sure: bool,
) -> tuple[dict[str, Any], bool]:
    """Keep an answer; gives it as it is kept, and whether it is new."""
    own, value, noise = inside.study._checked(inside.sets.ids[position], total, noise_std)
    who, why = validate.text(by, "by"), validate.text(note, "note")
    if not sure:
        _refuse_unlikely(inside, position, value, noise)
    with inside.turn(), inside.database.write() as connection:
        records.state(connection, inside.kept, lock=True)
        known = _row(connection, inside, position)
        try:
            transactions.tell(connection, inside.kept, own, value, noise, who, why)
        except LabelError as error:
            answer = as_json(inside, known)
            raise Refused(409, "answered", str(error), answer=answer) from error
        return as_json(inside, _row(connection, inside, position)), known is None


def amend(
    inside: Inside,
    position: int,
    total: float,
    noise_std: float | None,
    by: str | None,
    note: str | None,
    sure: bool,
) -> dict[str, Any]:
    """Correct an answer; gives it as it is kept."""
    own, value, noise = inside.study._checked(inside.sets.ids[position], total, noise_std)
    who, why = validate.text(by, "by"), validate.text(note, "note")
    if not sure:
        _refuse_unlikely_change(inside, position, value, noise, noise_std is None)
    with inside.turn(), inside.database.write() as connection:
        try:
            transactions.amend(
                connection, inside.kept, own, value, noise, noise_std is None, who, why
            )
        except LabelError as error:
            raise Refused(409, "not_answered", str(error)) from error
        return as_json(inside, _row(connection, inside, position))


def _refuse_unlikely(inside: Inside, position: int, total: float, noise: float | None) -> None:
    """A slip of a finger is cheapest to mend before it is stored."""
    unlikely = _unlikely(total, noise, inside.rough_expectation(position))
    if unlikely is None:
        return
    with inside.database.read() as connection:
        if _row(connection, inside, position) is None:  # otherwise something else is wrong with it
            raise unlikely


def _refuse_unlikely_change(
    inside: Inside, position: int, total: float, noise: float | None, keep_noise: bool
) -> None:
    """The same for a correction; what is corrected has no say in what is expected."""
    with inside.database.read() as connection:
        known = _row(connection, inside, position)
    if known is None:
        return  # there is nothing to correct: that is said elsewhere
    noise = known.noise_std if keep_noise else noise
    if known.y_bar == total:
        return  # only what is known of its noise, or nothing, is to change
    unlikely = _unlikely(total, noise, inside.expectation_without(position))
    if unlikely is not None:
        raise unlikely


def _unlikely(
    total: float, noise: float | None, expectation: tuple[float, float] | None
) -> Refused | None:
    """A refusal if a total is far from what is expected of it."""
    if expectation is None:
        return None
    mean, spread = expectation[0], math.hypot(expectation[1], noise or 0.0)
    if not abs(total - mean) > FAR * spread:
        return None
    lower, upper = mean - REACH * spread, mean + REACH * spread
    return Refused(
        409,
        "unlikely",
        f"{total:.12g} is far from what is expected, {plain(mean)} ± {plain(spread)}; nothing "
        "was stored. If it is right, send it again and say so (sure: true).",
        expected=finite(mean),
        std=finite(spread),
        lower=finite(lower),
        upper=finite(upper),
    )


def _row(connection: sa.Connection, inside: Inside, position: int) -> Any:
    return connection.execute(_ANSWER, {"study": inside.kept.id, "at": position}).first()


def as_json(inside: Inside, row: Any) -> dict[str, Any]:
    """An answer as a row of the database, or as a study gives it."""
    return {
        **inside.name(row.position),
        "total": row.y_bar,
        "noise_std": row.noise_std,
        "by": row.by,
        "at": row.at,
        "note": row.note,
    }
