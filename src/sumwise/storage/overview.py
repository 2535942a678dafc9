"""The studies of a database at a glance, without opening any."""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa

from sumwise.storage import records
from sumwise.storage.database import Database
from sumwise.storage.schema import answers, claims, studies


class Line(NamedTuple):
    """A study: its name, and counts."""

    study: str
    made: str  # UTC
    strategy: str
    measured: int
    being_measured: int
    asked: int


def overview(url: Any) -> list[Line]:
    """One line a study, the oldest first."""
    told = _number_of(answers.c.study_id)
    held = _number_of(claims.c.study_id, claims.c.expires > records.now())
    listed = sa.select(
        studies.c.name, studies.c.created, studies.c.strategy, told, held, studies.c.questions
    )
    database = Database(url)
    try:
        database.require()
        with database.read() as connection:
            return [Line(*row) for row in connection.execute(listed.order_by(studies.c.id))]
    finally:
        database.close()


def _number_of(study_id: sa.Column[Any], *conditions: Any) -> Any:
    counted = sa.select(sa.func.count()).where(study_id == studies.c.id, *conditions)
    return counted.scalar_subquery()
