"""A study as values: what it is, and how it stands at one moment."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sumwise.acquisition.objective import Aims
from sumwise.data.sets import Sets
from sumwise.model.fit import ModelConfig, Prepared
from sumwise.outofcore.design_store import Embedded


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What a study is from its first day on."""

    id: int
    name: str
    created: str
    sets: Sets
    config: ModelConfig
    prepared: Prepared
    strategy: str
    seed: int
    claim_days: float
    has_design: bool  # of all sets, in the database
    embedded: Embedded | None = None  # the design on disk that it is a study of
    aims: Aims = field(default_factory=Aims)


@dataclass(frozen=True, slots=True)
class Told:
    """An answer as it stands."""

    set_id: Hashable
    y_bar: float
    noise_std: float | None  # known noise of the measurement
    by: str | None
    at: str  # UTC
    note: str | None
    position: int  # of the set


@dataclass(frozen=True, slots=True)
class Claim:
    """An open question: somebody is measuring this set."""

    set_id: Hashable
    by: str | None
    number: int  # of the question
    asked: str  # UTC, as is
    expires: str
    position: int


@dataclass(frozen=True, slots=True)
class Skip:
    """A set that is not asked for."""

    set_id: Hashable
    by: str | None
    at: str  # UTC
    note: str | None  # why
    position: int


@dataclass(frozen=True, slots=True)
class Event:
    """A line of a study's history."""

    number: int  # 1 for the first
    at: str  # UTC
    what: str  # created, asked, told, amended, retracted, skipped, released, renewed, expired, …
    set_id: Hashable
    y_bar: float | None
    noise_std: float | None
    by: str | None
    note: str | None
    question: Mapping[str, Any] | None  # what was known when it was asked


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A study at one moment."""

    changes: int
    questions: int
    arrivals: int
    answers: tuple[Told, ...]  # in order of arrival
    claims: tuple[Claim, ...]  # open ones, in order of asking
    expired: tuple[Claim, ...]
    skips: tuple[Skip, ...]  # in order of the sets
