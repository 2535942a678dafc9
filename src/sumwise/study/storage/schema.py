"""The tables of studies. A set is its position in the study's sets; times are UTC, as text.

A change here is a new file in `migrations/versions` and a new `VERSION`; a test compares the two.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy import Column, Float, ForeignKey, Integer, LargeBinary, Table, Text

VERSION: Final = "0005"
VERSION_TABLE: Final = "sumwise_version"

metadata = sa.MetaData()

version = Table(VERSION_TABLE, metadata, Column("version_num", Text, primary_key=True))

studies = Table(
    "sumwise_studies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created", Text, nullable=False),
    Column("config", Text, nullable=False),  # of the model, JSON
    Column("strategy", Text, nullable=False),
    Column("seed", Text, nullable=False),  # a whole number of any size
    Column("claim_days", Float(53), nullable=False),
    Column("changes", Integer, nullable=False),  # one more with every write
    Column("questions", Integer, nullable=False),  # asked so far: the number of the next one
    Column("arrivals", Integer, nullable=False),  # answers so far, those taken back included
)

# apart from the study's row, which every write changes: a database would copy them each time
files = Table(
    "sumwise_files",
    metadata,
    Column("study_id", ForeignKey(studies.c.id), primary_key=True),
    Column("name", Text, primary_key=True),  # "sets" (Parquet), "basis" (NumPy archive)
    Column("sha256", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),  # last: SQLite reads it all to reach the next
)

claims = Table(
    "sumwise_claims",
    metadata,
    Column("study_id", ForeignKey(studies.c.id), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, nullable=False),  # of the question
    Column("by", Text),
    Column("asked", Text, nullable=False),
    Column("expires", Text, nullable=False),
)

# sets that are not asked for
skips = Table(
    "sumwise_skips",
    metadata,
    Column("study_id", ForeignKey(studies.c.id), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("by", Text),
    Column("at", Text, nullable=False),
    Column("note", Text),
)

answers = Table(
    "sumwise_answers",
    metadata,
    Column("study_id", ForeignKey(studies.c.id), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("arrival", Integer, nullable=False),
    Column("y_bar", Float(53), nullable=False),
    Column("noise_std", Float(53)),
    Column("by", Text),
    Column("at", Text, nullable=False),
    Column("note", Text),
    Column("part", Text),  # of the set that the total covers, JSON: row numbers, or a share
)

events = Table(
    "sumwise_events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("study_id", Integer, nullable=False),
    Column("at", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("position", Integer),
    Column("y_bar", Float(53)),
    Column("noise_std", Float(53)),
    Column("by", Text),
    Column("note", Text),
    Column("question", Text),  # as asked, JSON
    Column("part", Text),
    sa.ForeignKeyConstraint(["study_id"], [studies.c.id]),
    sa.Index("sumwise_events_of_study", "study_id", "id"),
)

# sets that were designed: they follow those that the study began with, and are never deleted
pools = Table(
    "sumwise_pools",
    metadata,
    Column("study_id", ForeignKey(studies.c.id), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("members", Text, nullable=False),  # numbers of individuals, JSON
    Column("theta", Text, nullable=False),  # their weights, JSON
    Column("at", Text, nullable=False),
)

# λ, β and what the basis has learned after each answer; computing it again takes long
chain = Table(
    "sumwise_chain",
    metadata,
    Column("study_id", ForeignKey(studies.c.id), primary_key=True),
    Column("key", Text, primary_key=True),  # a hash of the answers so far, in order
    Column("length", Integer, nullable=False),
    Column("prior_precision", Float(53), nullable=False),
    Column("noise_precision", Float(53), nullable=False),
    Column("basis", LargeBinary),
)
