"""λ, β and what a basis has learned after each answer, stored so that it is not learned again.

A state is found by a hash of the answers that led to it. Losing one costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Final, NamedTuple

import sqlalchemy as sa

from sumwise.study.storage.database import Connection
from sumwise.study.storage.schema import chain

EVERY: Final = 10  # of what a basis has learned, each tenth state is stored, and the newest two


class ModelState(NamedTuple):
    """A model after some answers."""

    length: int  # how many answers
    key: str  # their hash
    prior_precision: float
    noise_precision: float
    basis: bytes | None  # what it has learned, if it learns


def longest(
    connection: Connection, study_id: int, keys: Sequence[str], beyond: int
) -> ModelState | None:
    """The stored state after the most of these answers, if that is more than `beyond`.

    Args:
        keys: Hashes of no answers, of the first, of the first two, and so on.
    """
    mine = (chain.c.study_id == study_id) & (chain.c.length > beyond)
    known = sa.select(chain.c.key, chain.c.length).where(mine).order_by(chain.c.length.desc())
    for key, length in connection.execute(known).all():
        if length < len(keys) and keys[length] == key:
            columns = [chain.c[name] for name in ModelState._fields]
            here = (chain.c.study_id == study_id) & (chain.c.key == key)
            return ModelState(*connection.execute(sa.select(*columns).where(here)).one())
    return None


def save(connection: Connection, study_id: int, states: Sequence[ModelState]) -> None:
    """Store states, the last one the longest, and delete older ones that are not needed."""
    insert = import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert
    for state in states:
        row = insert(chain).values(study_id=study_id, **state._asdict())
        connection.execute(row.on_conflict_do_nothing())  # another process may have been as quick
    old = (chain.c.length < states[-1].length - 1) & (chain.c.length % EVERY != 0)
    learned = chain.c.basis.is_not(None)
    connection.execute(chain.delete().where((chain.c.study_id == study_id) & old & learned))
