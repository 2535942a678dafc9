"""Sets that were designed: which individuals are measured together."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "sumwise_pools",
        sa.Column(
            "study_id",
            sa.Integer,
            sa.ForeignKey("sumwise_studies.id"),
            primary_key=True,
            nullable=False,
            autoincrement=False,
        ),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("members", sa.Text, nullable=False),
        sa.Column("theta", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
    )
