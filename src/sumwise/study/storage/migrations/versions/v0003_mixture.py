"""Studies with the former `auto` get the hypotheses of the mixture, and a line in their history.

The features stay the same, and so do stored designs. A damaged study is left as it is: opening it
says what is wrong.
"""

from __future__ import annotations

import hashlib

import numpy as np
import sqlalchemy as sa
from alembic import op

from sumwise.data.sets import Sets
from sumwise.errors import DataError
from sumwise.model.fit import ModelConfig
from sumwise.model.serialize import from_bytes, pack_prepared, unpack_config, unpack_prepared
from sumwise.study.storage import records

revision = "0003"
down_revision = "0002"

_studies = sa.table("sumwise_studies", *map(sa.column, ("id", "config", "changes")))
_files = sa.table(
    "sumwise_files",
    *map(sa.column, ("study_id", "name", "sha256")),
    sa.column("content", sa.LargeBinary),
)
_events = sa.table("sumwise_events", *map(sa.column, ("study_id", "at", "what", "note")))


def upgrade() -> None:
    connection = op.get_bind()
    every = sa.select(_studies.c.id, _studies.c.config).order_by(_studies.c.id)
    for study_id, settings in connection.execute(every).all():
        try:
            config = unpack_config(settings)
            if config.basis != "auto":
                continue
            basis = _with_hypotheses(connection, study_id, config)
        except DataError:
            continue
        counted = _studies.update().where(_studies.c.id == study_id)
        connection.execute(counted.values(changes=_studies.c.changes + 1))
        here = (_files.c.study_id == study_id) & (_files.c.name == "basis")
        digest = hashlib.sha256(basis).hexdigest()
        connection.execute(_files.update().where(here).values(content=basis, sha256=digest))
        line = {"study_id": study_id, "at": records.now(), **records.TO_MIXTURE}
        connection.execute(_events.insert().values(**line))


def _with_hypotheses(connection: sa.Connection, study_id: int, config: ModelConfig) -> bytes:
    """The basis of a study with hypotheses, for sets with as many inputs as it knows."""
    wanted = (_files.c.study_id == study_id) & (_files.c.name == "basis")
    found = connection.execute(sa.select(_files).where(wanted)).one_or_none()
    if found is None or hashlib.sha256(found.content).hexdigest() != found.sha256:
        raise DataError("a new checksum would hide the damage")
    n_inputs = len(from_bytes(found.content, "the basis")["shift"])
    sets = Sets((), np.empty((0, n_inputs)), np.empty(0), np.zeros(1, int))
    return pack_prepared(unpack_prepared(found.content, config, sets))
