"""Skipped sets, which are not asked for, with the reason."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "sumwise_skips",
        sa.Column(
            "study_id",
            sa.Integer,
            sa.ForeignKey("sumwise_studies.id"),
            primary_key=True,
            nullable=False,
            autoincrement=False,
        ),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("by", sa.Text),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("note", sa.Text),
    )
