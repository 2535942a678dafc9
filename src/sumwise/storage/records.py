"""Studies as rows: reading them into values, and writing values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from sumwise.acquisition import ACQUISITIONS
from sumwise.errors import DataError, SettingError
from sumwise.model import ModelConfig, Prepared
from sumwise.questions import Question
from sumwise.sets import Sets
from sumwise.storage import packing
from sumwise.storage.names import from_json, to_json
from sumwise.storage.schema import answers, claims, events, files, studies


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
class Event:
    """A line of a study's history."""

    number: int  # 1 for the first
    at: str  # UTC
    what: str  # created, asked, told, amended, retracted, released, renewed or expired
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


def now() -> str:
    return stamp(datetime.now(UTC))


def stamp(moment: datetime) -> str:
    """Text that sorts as time does."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


# --- studies --------------------------------------------------------------------------------------


def create(
    connection: sa.Connection,
    name: str,
    packed: Mapping[str, bytes],
    config: str,
    strategy: str,
    seed: int,
    claim_days: float,
) -> None:
    if connection.execute(sa.select(studies.c.id).where(studies.c.name == name)).first():
        raise SettingError(
            f"there is a study called {name!r} already; open it with open_study, or give another "
            "name"
        )
    moment = now()
    row = {
        "name": name,
        "created": moment,
        "config": config,
        "strategy": strategy,
        "seed": str(int(seed)),
        "claim_days": claim_days,
        "changes": 0,
        "questions": 0,
        "arrivals": 0,
    }
    study = connection.execute(studies.insert().values(row)).inserted_primary_key
    assert study is not None
    for kind, content in packed.items():
        digest = hashlib.sha256(content).hexdigest()
        file = {"study_id": study[0], "name": kind, "content": content, "sha256": digest}
        connection.execute(files.insert().values(file))
    connection.execute(events.insert().values(study_id=study[0], at=moment, what="created"))


def load(connection: sa.Connection, name: str | None, shown: str) -> Kept:
    """The study with this name, or the only one there is."""
    names = list(connection.execute(sa.select(studies.c.name).order_by(studies.c.id)).scalars())
    listed = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
    if not names:
        raise DataError(f"{shown} holds no studies; make one with create_study")
    if name is None and len(names) > 1:
        raise DataError(f"{shown} holds {len(names)} studies: {listed}. Say which, by name.")
    if name is not None and name not in names:
        raise DataError(f"{shown} holds no study called {name!r}; there is {listed}")
    name = names[0] if name is None else name
    row = connection.execute(sa.select(studies).where(studies.c.name == name)).one()
    content = {}
    raw = sa.select(
        files.c.name, sa.type_coerce(files.c.content, sa.types.NullType()), files.c.sha256
    )
    for kind, kept, digest in connection.execute(raw.where(files.c.study_id == row.id)):
        if not isinstance(kept, bytes) or hashlib.sha256(kept).hexdigest() != digest:
            raise DataError(
                f"the {kind} of study {name!r} in {shown} are not what they were when it was "
                "made: their checksum differs. Restore the database from a copy."
            )
        content[kind] = kept
    if content.keys() != {"sets", "basis"} or row.strategy not in ACQUISITIONS:
        raise DataError(f"study {name!r} in {shown} is incomplete; restore it from a copy")
    sets = packing.unpack_sets(content["sets"])
    config = packing.unpack_config(row.config)
    prepared = packing.unpack_prepared(content["basis"], config, sets)
    shape = (sets, config, prepared, row.strategy, int(row.seed), row.claim_days)
    return Kept(row.id, name, row.created, *shape)


def snapshot(connection: sa.Connection, kept: Kept, *, lock: bool = False) -> Snapshot:
    """The study as it stands; with `lock`, as it will stand until the transaction ends."""
    row = state(connection, kept, lock=lock)
    ids, moment = kept.sets.ids, now()
    mine = answers.c.study_id == kept.id
    told = connection.execute(sa.select(answers).where(mine).order_by(answers.c.arrival))
    open_ = sa.select(claims).where(claims.c.study_id == kept.id).order_by(claims.c.number)
    try:
        given = tuple(
            Told(ids[a.position], a.y_bar, a.noise_std, a.by, a.at, a.note, a.position)
            for a in told
        )
        claimed = [_claim(c, ids) for c in connection.execute(open_)]
    except IndexError:
        raise DataError(
            f"study {kept.name!r} has an answer for a set that it does not have; restore the "
            "database from a copy"
        ) from None
    return Snapshot(
        row.changes,
        row.questions,
        row.arrivals,
        given,
        tuple(claim for claim in claimed if claim.expires > moment),
        tuple(claim for claim in claimed if claim.expires <= moment),
    )


def state(connection: sa.Connection, kept: Kept, *, lock: bool) -> Any:
    """The study's counters. SQLite has the lock already, from the beginning of the transaction."""
    counters = sa.select(studies.c.changes, studies.c.questions, studies.c.arrivals)
    query = counters.where(studies.c.id == kept.id)
    row = connection.execute(query.with_for_update() if lock else query).first()
    if row is None:
        raise DataError(f"study {kept.name!r} is no longer there")
    return row


def advance(
    connection: sa.Connection,
    kept: Kept,
    *,
    seen: int | None = None,
    questions: int = 0,
    arrivals: int = 0,
) -> bool:
    """Count a change; with `seen`, only if nobody has changed anything since."""
    change = studies.update().where(studies.c.id == kept.id)
    if seen is not None:
        change = change.where(studies.c.changes == seen)
    done = connection.execute(
        change.values(
            changes=studies.c.changes + 1,
            questions=studies.c.questions + questions,
            arrivals=studies.c.arrivals + arrivals,
        )
    )
    return done.rowcount == 1


# --- claims and events ----------------------------------------------------------------------------


def _claim(row: Any, ids: tuple[Hashable, ...]) -> Claim:
    return Claim(ids[row.position], row.by, row.number, row.asked, row.expires, row.position)


def claim_of(connection: sa.Connection, kept: Kept, position: int) -> Claim | None:
    """The claim on a set, expired or not."""
    here = (claims.c.study_id == kept.id) & (claims.c.position == position)
    row = connection.execute(sa.select(claims).where(here)).first()
    return None if row is None else _claim(row, kept.sets.ids)


def drop_claim(connection: sa.Connection, kept: Kept, position: int) -> None:
    here = (claims.c.study_id == kept.id) & (claims.c.position == position)
    connection.execute(claims.delete().where(here))


def add_claim(connection: sa.Connection, kept: Kept, question: Question, asked: str) -> None:
    position = kept.sets.position(question.set_id)
    row = {
        "study_id": kept.id,
        "position": position,
        "number": question.number,
        "by": question.by,
        "asked": asked,
        "expires": question.expires,
    }
    connection.execute(claims.insert().values(row))
    known = asdict(question)
    known["set_id"], known["runner_up"] = to_json(question.set_id), to_json(question.runner_up)
    log(connection, kept, "asked", position, at=asked, by=question.by, question=json.dumps(known))


def log(
    connection: sa.Connection, kept: Kept, what: str, position: int, *, at: str, **rest: Any
) -> None:
    """A line of history."""
    row = {"study_id": kept.id, "at": at, "what": what, "position": position, **rest}
    connection.execute(events.insert().values(row))


def history(connection: sa.Connection, kept: Kept) -> tuple[Event, ...]:
    rows = sa.select(events).where(events.c.study_id == kept.id).order_by(events.c.id)
    ids = kept.sets.ids
    return tuple(
        Event(
            number,
            row.at,
            row.what,
            None if row.position is None else ids[row.position],
            row.y_bar,
            row.noise_std,
            row.by,
            row.note,
            None if row.question is None else _asked(row.question),
        )
        for number, row in enumerate(connection.execute(rows), start=1)
    )


def _asked(text: str) -> dict[str, Any]:
    known = json.loads(text)
    return {**known, **{name: from_json(known[name]) for name in ("set_id", "runner_up")}}
