"""Answers for a part of a set: which of its members, or what share of it, as JSON."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    for table in ("sumwise_answers", "sumwise_events"):
        op.add_column(table, sa.Column("part", sa.Text))
