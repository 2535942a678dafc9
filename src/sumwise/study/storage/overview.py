"""The studies of a database at a glance, without opening any."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import sqlalchemy as sa

from sumwise.study.storage import records
from sumwise.study.storage.database import Database
from sumwise.study.storage.schema import VERSION_TABLE, answers, claims, studies


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


def names(url: Any) -> list[str]:
    """Of the studies that a database holds; none where there is no database yet."""
    database = Database(url)
    try:
        if database.path is not None and not os.path.exists(database.path):
            return []
        with database.read() as connection:
            if not sa.inspect(connection).has_table(VERSION_TABLE):
                return []
        database.require()
        with database.read() as connection:
            return list(connection.execute(sa.select(studies.c.name)).scalars())
    finally:
        database.close()


def _number_of(study_id: sa.Column[Any], *conditions: Any) -> Any:
    counted = sa.select(sa.func.count()).where(study_id == studies.c.id, *conditions)
    return counted.scalar_subquery()
