"""The first version: studies, their files, claims, answers, events, and the chain of models."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _study(primary_key: bool = True) -> sa.Column[int]:
    return sa.Column(
        "study_id",
        sa.Integer,
        sa.ForeignKey("sumwise_studies.id"),
        primary_key=primary_key,
        nullable=False,
        autoincrement=False,
    )


def _position() -> sa.Column[int]:
    return sa.Column("position", sa.Integer, primary_key=True, autoincrement=False)


def _required(kind: Any, *names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False) for name in names]


def upgrade() -> None:
    op.create_table(
        "sumwise_studies",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        *_required(sa.Text, "created", "config", "strategy", "seed"),
        *_required(sa.Float(53), "claim_days"),
        *_required(sa.Integer, "changes", "questions", "arrivals"),
    )
    op.create_table(
        "sumwise_files",
        _study(),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),  # in former versions, before sha256
    )
    op.create_table(
        "sumwise_claims",
        _study(),
        _position(),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("by", sa.Text),
        *_required(sa.Text, "asked", "expires"),
    )
    op.create_table(
        "sumwise_answers",
        _study(),
        _position(),
        sa.Column("arrival", sa.Integer, nullable=False),
        sa.Column("y_bar", sa.Float(53), nullable=False),
        sa.Column("noise_std", sa.Float(53)),
        sa.Column("by", sa.Text),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("note", sa.Text),
    )
    op.create_table(
        "sumwise_events",
        sa.Column("id", sa.Integer, primary_key=True),
        _study(primary_key=False),
        *_required(sa.Text, "at", "what"),
        sa.Column("position", sa.Integer),
        sa.Column("y_bar", sa.Float(53)),
        sa.Column("noise_std", sa.Float(53)),
        sa.Column("by", sa.Text),
        sa.Column("note", sa.Text),
        sa.Column("question", sa.Text),
    )
    op.create_index("sumwise_events_of_study", "sumwise_events", ["study_id", "id"])
    op.create_table(
        "sumwise_chain",
        _study(),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("length", sa.Integer, nullable=False),
        *_required(sa.Float(53), "prior_precision", "noise_precision"),
        sa.Column("basis", sa.LargeBinary),
    )
