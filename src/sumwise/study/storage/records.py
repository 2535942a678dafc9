"""A study as values, read from the rows of a database.

Every value read is checked: people edit, copy and damage database files, SQLite stores text in a
column of numbers on request, and a wrong position would attach an answer to another set.
"""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from sumwise.acquisition.objective import Objective
from sumwise.acquisition.strategies import ACQUISITIONS
from sumwise.data import validate
from sumwise.data.about import About
from sumwise.data.pool_mark import PoolMark
from sumwise.data.sets import Sets
from sumwise.errors import DataError, SettingError
from sumwise.learning.designed import Designing, weighted
from sumwise.learning.propose import Answer, NewPool, PoolState
from sumwise.model.fit import Prepared
from sumwise.model.serialize import unpack_config, unpack_prepared
from sumwise.outofcore.design_store import Embedded
from sumwise.study.storage.blobs import Blobs
from sumwise.study.storage.database import Connection, Database, has_studies
from sumwise.study.storage.id_json import from_json
from sumwise.study.storage.schema import answers, claims, events, pools, skips, studies

TO_MIXTURE: Final = {  # the line in the history of a study that was made with the former `auto`
    "what": "upgraded",
    "note": "the model is a mixture with set effects now",
}

# --- values ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class StudyRecord:
    """What a study is from its creation on."""

    id: int
    name: str
    created: str
    sets: Sets
    prepared: Prepared
    strategy: str
    seed: int
    claim_days: float
    blobs: Blobs
    embedded: Embedded | None = None  # the design on disk that the study refers to
    aims: Objective = field(default_factory=Objective)
    about: About = field(default_factory=About)
    pool: PoolMark = field(default_factory=PoolMark)  # positions that are not asked for any more
    designing: Designing | None = None  # in a study that designs its sets


@dataclass(frozen=True, slots=True)
class Claim:
    """An open question: a set that is being measured."""

    set_id: Hashable
    by: str | None
    number: int  # of the question
    asked: str  # UTC, as is `expires`
    expires: str
    position: int


@dataclass(frozen=True, slots=True)
class Skip:
    """A set that is not asked for."""

    set_id: Hashable
    by: str | None
    at: str  # UTC
    note: str | None  # the reason
    position: int


@dataclass(frozen=True, slots=True)
class Event:
    """A line of a study's history."""

    number: int  # 1 for the first
    at: str  # UTC
    what: str  # created, asked, told, amended, retracted, skipped, released, upgraded, pool, …
    set_id: Hashable
    y_bar: float | None
    noise_std: float | None
    by: str | None
    note: str | None
    question: Mapping[str, Any] | None  # what was known when it was asked
    of: tuple[int, ...] | None = None  # as in an answer
    covers: float | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A study at one moment."""

    changes: int
    questions: int
    last_event: int  # as the database numbers events
    answers: tuple[Answer, ...]  # in order of arrival
    claims: tuple[Claim, ...]  # open ones, in order of asking
    expired: tuple[Claim, ...]
    skips: tuple[Skip, ...]  # in order of the sets
    sets: int = 0  # that are part of the pool, or were measured when they were
    gone: tuple[int, ...] = ()  # positions that are neither

    @property
    def state(self) -> PoolState:
        """What `propose` needs to know of it."""
        return PoolState(
            tuple(answer.position for answer in self.answers),
            tuple(claim.position for claim in self.claims),
            tuple(skip.position for skip in self.skips),
            self.questions,
            self.gone,
        )


class Line(NamedTuple):
    """A study in an overview of a database."""

    study: str
    made: str  # UTC
    strategy: str
    measured: int
    being_measured: int
    asked: int


def now() -> str:
    return stamp(datetime.now(UTC))


def stamp(moment: datetime) -> str:
    """A time as text that sorts as time does."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


# --- what a study is ------------------------------------------------------------------------------


def overview(url: Any) -> list[Line]:
    """One line per study, the oldest first, without opening any."""
    measured = _count_of(answers.c.study_id)
    held = _count_of(claims.c.study_id, claims.c.expires > now())
    row = studies.c
    listed = sa.select(row.name, row.created, row.strategy, measured, held, row.questions)
    with closing(Database(url)) as database:
        database.require()
        with database.read() as connection:
            lines = [Line(*found) for found in connection.execute(listed.order_by(row.id))]
    with as_written("in the list"):
        for line in lines:
            if [*map(type, line)] != [str, str, str, int, int, int]:
                raise TypeError(f"{line!r:.200} is not a study")
    return lines


def _count_of(study_id: sa.Column[Any], *conditions: Any) -> Any:
    counted = sa.select(sa.func.count()).where(study_id == studies.c.id, *conditions)
    return counted.scalar_subquery()


def names(url: Any) -> list[str]:
    """The studies that a database holds; none where there is no database yet."""
    with closing(Database(url)) as database:
        if database.path is not None and not os.path.exists(database.path):
            return []
        with database.read() as connection:
            begun = has_studies(connection)
    return [line.study for line in overview(url)] if begun else []


def load(connection: Connection, name: str | None, database: Database) -> StudyRecord:
    """The study with this name, or the only one there is."""
    shown = database.shown
    known = list(connection.execute(sa.select(studies.c.name).order_by(studies.c.id)).scalars())
    listed = ", ".join(map(repr, known[:20])) + (", …" if len(known) > 20 else "")
    if not known:
        raise DataError(f"{shown} holds no studies; begin one with create_study or sumwise init")
    if name is None and len(known) > 1:
        raise DataError(
            f"{shown} holds {len(known)} studies: {listed}. Say which (--study NAME in the shell)."
        )
    if name is not None and name not in known:
        raise DataError(f"{shown} holds no study called {name!r}; there is {listed}")
    name = known[0] if name is None else name
    row = connection.execute(sa.select(studies).where(studies.c.name == name)).one()
    what = f"study {name!r} in {shown}"
    with as_written(str(name)):
        _refuse_kinds(studies, row)
    if row.strategy not in ACQUISITIONS:
        raise DataError(f"{what} has a strategy {row.strategy!r}, which this sumwise does not know")
    blobs = Blobs.of(connection, row.id, what, database.folder)
    made = blobs.embedded(connection)
    sets = made.sets if made else blobs.sets(connection, database)
    config = unpack_config(row.config)
    basis = blobs.read(connection, "basis")  # compared even where the design has its own
    prepared = made.prepared if made else unpack_prepared(basis, config, sets)
    with as_written(name):
        days = validate.days(row.claim_days, "claim_days")
        seed = int(row.seed)
        validate.count(seed, "seed", 0)
    rules = None if made else blobs.rules(connection, sets)
    record = StudyRecord(
        id=row.id,
        name=name,
        created=row.created,
        sets=sets,
        prepared=prepared,
        strategy=row.strategy,
        seed=seed,
        claim_days=days,
        blobs=blobs,
        embedded=made,
        aims=blobs.aims(connection),
        about=replace(blobs.about(connection, made or sets), outputs=config.outputs),
        pool=blobs.mark(connection, len(sets)),
        designing=None if rules is None else Designing.of(rules, sets),
    )
    return renewed(connection, record)


def renewed(connection: Connection, record: StudyRecord) -> StudyRecord:
    """The same with the pools that were designed since it was read."""
    designing = record.designing
    if designing is None:
        return record
    known = {"study": record.id, "first": len(record.sets)}
    rows = connection.execute(_POOLS, known).all()
    if not rows:
        return record
    with as_written(record.name):
        new = [pool_of(row, len(designing.candidates)) for row in rows]
        if [row.position for row in rows] != [
            *range(len(record.sets), len(record.sets) + len(new))
        ]:
            raise ValueError("pools are missing")
        each = [weighted(pool) for pool in new]
        sets = designing.joined(record.sets, each, [row.name for row in rows])
    return replace(record, sets=sets, aims=designing.extended(record.aims, each))


def pool_of(row: Any, n: int) -> NewPool:
    """A stored pool of a study with so many individuals."""
    rows, theta = json.loads(row.members), json.loads(row.theta)
    fits = isinstance(rows, list) and all(type(at) is int and 0 <= at < n for at in rows)
    if not fits or not rows or len({*rows}) < len(rows):
        raise ValueError(f"{row.members!r:.40} are not members of a pool")
    numbers = isinstance(theta, list) and all(type(each) is float for each in theta)
    if not numbers or len(theta) != len(rows):
        raise ValueError(f"{row.theta!r:.40} are not weights of {len(rows)} members")
    if not isinstance(row.name, str):
        raise TypeError(f"{row.name!r:.40} is not a name of a pool")
    return NewPool(tuple(rows), tuple(theta), (), None)


# --- how it stands --------------------------------------------------------------------------------

# built once: building a statement takes longer than running it
_STUDY: Final[sa.BindParameter[int]] = sa.bindparam("study")
_STATE: Final = sa.select(studies.c.changes, studies.c.questions, studies.c.arrivals).where(
    studies.c.id == _STUDY
)
_LOCK: Final = _STATE.with_for_update()
_ANSWERS: Final = sa.select(answers).where(answers.c.study_id == _STUDY).order_by(answers.c.arrival)
_ANSWER: Final = _ANSWERS.where(answers.c.position == sa.bindparam("at"))
_CLAIMS: Final = sa.select(claims).where(claims.c.study_id == _STUDY).order_by(claims.c.number)
_CLAIM: Final = _CLAIMS.where(claims.c.position == sa.bindparam("at"))
_SKIPS: Final = sa.select(skips).where(skips.c.study_id == _STUDY).order_by(skips.c.position)
_EVENTS: Final = sa.select(events).where(events.c.study_id == _STUDY)
_POOLS: Final = (
    sa.select(pools)
    .where(pools.c.study_id == _STUDY, pools.c.position >= sa.bindparam("first"))
    .order_by(pools.c.position)
)
HAPPENED: Final = {  # the tables of what has happened, and their rows in order
    "answers": (answers, _ANSWERS),
    "claims": (claims, _CLAIMS),
    "skips": (skips, _SKIPS),
    "history": (events, _EVENTS.order_by(events.c.id)),
}
_LAST_EVENT: Final = sa.select(sa.func.max(events.c.id)).where(events.c.study_id == _STUDY)
_SINCE: Final = sa.select(
    sa.func.count().filter(events.c.what == "told"),
    sa.func.count().filter(events.c.what.in_(("amended", "retracted"))),
).where(events.c.study_id == _STUDY, events.c.id > sa.bindparam("last"))


def state(connection: Connection, record: StudyRecord, *, lock: bool) -> Any:
    """The study's counters. SQLite has the lock already, from the beginning of the transaction."""
    row = connection.execute(_LOCK if lock else _STATE, {"study": record.id}).first()
    if row is None:
        raise DataError(f"study {record.name!r} is no longer there")
    with as_written(record.name):
        for value in (row.changes, row.questions, row.arrivals):
            if not isinstance(value, int) or not 0 <= value < 2**53:
                raise ValueError(f"{value!r:.40} is not a count")
    record.blobs.refuse_outdated(connection)
    return row


def snapshot(
    connection: Connection, record: StudyRecord, former: Snapshot | None = None
) -> Snapshot:
    """The study as it stands.

    Args:
        former: A former snapshot, which is returned if nothing has changed since.
    """
    row = state(connection, record, lock=False)
    moment = now()
    same = former is not None and former.changes == row.changes
    held = former and all(claim.expires > moment for claim in former.claims)
    if former and same and held and all(claim.expires <= moment for claim in former.expired):
        return former
    mine = {"study": record.id}
    last = connection.execute(_LAST_EVENT, mine).scalar() or 0
    found = [connection.execute(each, mine).all() for each in (_ANSWERS, _CLAIMS, _SKIPS)]
    ids = ids_of(connection, record)
    with as_written(record.name):
        for table, rows in zip((answers, claims, skips), found, strict=True):
            for each in rows:
                _refuse_kinds(table, each)
        told = tuple(_answer(row, ids) for row in found[0])
        claimed = [_claim(row, ids) for row in found[1]]
        skipped = tuple(_skip(row, ids) for row in found[2])
    running = tuple(claim for claim in claimed if claim.expires > moment)
    expired = tuple(claim for claim in claimed if claim.expires <= moment)
    gone = tuple(sorted({*record.pool.retired} - {answer.position for answer in told}))
    counted = len(ids) - len(gone), gone
    return Snapshot(row.changes, row.questions, last, told, running, expired, skipped, *counted)


def ids_of(connection: Connection, record: StudyRecord) -> tuple[Hashable, ...]:
    """Ids of all sets, those of pools that were designed meanwhile among them.

    Rows that name sets are read before, so that none names a set that is not known yet.
    """
    return renewed(connection, record).sets.ids


def answer_at(connection: Connection, record: StudyRecord, position: int) -> Answer | None:
    """The answer for a set, if it is measured."""
    row = connection.execute(_ANSWER, {"study": record.id, "at": position}).first()
    with as_written(record.name):
        return None if row is None else _answer(row, record.sets.ids)


def claim_at(connection: Connection, record: StudyRecord, position: int) -> Claim | None:
    """The claim on a set, expired or not."""
    row = connection.execute(_CLAIM, {"study": record.id, "at": position}).first()
    with as_written(record.name):
        return None if row is None else _claim(row, record.sets.ids)


# --- what has happened ----------------------------------------------------------------------------


def history(connection: Connection, record: StudyRecord) -> tuple[Event, ...]:
    """All events, the first one first."""
    rows = connection.execute(_EVENTS.order_by(events.c.id), {"study": record.id}).all()
    ids = ids_of(connection, record)
    with as_written(record.name):
        for row in rows:
            _refuse_kinds(events, row)
        return tuple(_event(row, ids, number) for number, row in enumerate(rows, start=1))


def happened(connection: Connection, record: StudyRecord) -> dict[str, list[dict[str, Any]]]:
    """Everything that has happened, as it is stored: the rows of each of `HAPPENED`, in order."""
    found = {
        name: [dict(row) for row in connection.execute(rows, {"study": record.id}).mappings()]
        for name, (_, rows) in HAPPENED.items()
    }
    ids = ids_of(connection, record)
    with as_written(record.name):
        for name, rows in found.items():
            for row in rows:
                check_row(name, row, ids)
                _refuse_kinds(HAPPENED[name][0], row.values())
    return found


def designed(connection: Connection, record: StudyRecord) -> list[dict[str, Any]]:
    """Pools that were designed, as they are stored."""
    if record.designing is None:
        return []
    known = {"study": record.id, "first": record.designing.n_begun}
    return [dict(row) for row in connection.execute(_POOLS, known).mappings()]


def event_page(
    connection: Connection, record: StudyRecord, page: int, size: int
) -> tuple[int, tuple[Event, ...]]:
    """How many events there are, and those of a page (from 1), the latest first."""
    mine, skipped = {"study": record.id}, (page - 1) * size
    counted = sa.select(sa.func.count()).select_from(_EVENTS.subquery())
    total = connection.execute(counted, mine).scalar_one()
    part = _EVENTS.order_by(events.c.id.desc()).limit(size).offset(skipped)
    rows, last = connection.execute(part, mine).all(), total - skipped
    ids = ids_of(connection, record)
    with as_written(record.name):
        for row in rows:
            _refuse_kinds(events, row)
        return total, tuple(_event(row, ids, last - i) for i, row in enumerate(rows))


def events_since(connection: Connection, record: StudyRecord, last: int) -> tuple[int, int]:
    """How many answers were recorded, and how many corrected or withdrawn, after an event."""
    told, corrected = connection.execute(_SINCE, {"study": record.id, "last": last}).one()
    return told, corrected


def questions_of(
    connection: Connection, record: StudyRecord, held: Sequence[Claim]
) -> dict[int, Mapping[str, Any]]:
    """What was known of claimed sets when they were asked for, by position."""
    if not held:
        return {}
    since = min(claim.asked for claim in held)
    asked = _EVENTS.where(events.c.what == "asked", events.c.at >= since).order_by(events.c.id)
    wanted = {claim.position for claim in held}
    with as_written(record.name):
        return {
            row.position: question(row.question)
            for row in connection.execute(asked, {"study": record.id})
            if row.position in wanted and row.question is not None
        }


# --- rows as values -------------------------------------------------------------------------------


@contextmanager
def as_written(name: str) -> Iterator[None]:
    """Refuse rows that sumwise cannot have written."""
    try:
        yield
    except (SettingError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as e:
        raise DataError(
            f"study {name!r} has rows that are not as sumwise wrote them ({e}); restore the "
            "database from a copy"
        ) from None


def _set_at(ids: Sequence[Hashable], position: Any) -> Hashable:
    if not isinstance(position, int) or not 0 <= position < len(ids):
        raise IndexError(f"there is no set at {position!r:.40}")
    return ids[position]


def _total(value: Any) -> float:
    if not isinstance(value, float) or not abs(value) <= validate.LARGEST_TOTAL:
        raise ValueError(f"{value!r:.40} is not a total")
    return value


KINDS: Final = {
    table: [
        (each.type.python_type, type(None) if each.nullable else each.type.python_type)
        for each in table.columns
    ]
    for table in (studies, answers, claims, skips, events)
}


def _refuse_kinds(table: sa.Table, row: Iterable[Any]) -> None:
    """Refuse a row with values of other kinds than its columns have: SQLite stores any."""
    for value, kinds in zip(row, KINDS[table], strict=True):
        if type(value) not in kinds:
            raise TypeError(f"{value!r:.40} is not a value of {table.name}")


def _answer(row: Any, ids: Sequence[Hashable]) -> Answer:
    return Answer(
        number=row.arrival + 1,
        set_id=_set_at(ids, row.position),
        y_bar=_total(row.y_bar),
        noise_std=None if row.noise_std is None else _total(row.noise_std),
        by=row.by,
        at=row.at,
        note=row.note,
        position=row.position,
        **part_of(row.part),
    )


def part_of(text: str | None) -> dict[str, Any]:
    """The part of a set that an answer covers, as it is stored: row numbers, or a share."""
    known = None if text is None else json.loads(text)
    if known is None:
        return {}
    if isinstance(known, float) and 0 < known < 1:
        return {"covers": known}
    rising = isinstance(known, list) and known and all(type(row) is int for row in known)
    if not rising or known[0] < 1 or any(b <= a for a, b in pairwise(known)):
        raise ValueError(f"{text!r:.40} is not a part of a set")
    return {"of": tuple(known)}


def part_json(answer: Answer) -> str | None:
    """What `part_of` reads."""
    if answer.of is None:
        return None if answer.covers is None else json.dumps(answer.covers)
    return json.dumps(answer.of)


def _claim(row: Any, ids: Sequence[Hashable]) -> Claim:
    set_id = _set_at(ids, row.position)
    return Claim(set_id, row.by, row.number, row.asked, row.expires, row.position)


def _skip(row: Any, ids: Sequence[Hashable]) -> Skip:
    return Skip(_set_at(ids, row.position), row.by, row.at, row.note, row.position)


def _event(row: Any, ids: Sequence[Hashable], number: int = 0) -> Event:
    set_id = None if row.position is None else _set_at(ids, row.position)
    asked = None if row.question is None else question(row.question)
    values = (row.y_bar, row.noise_std, row.by, row.note)
    return Event(number, row.at, row.what, set_id, *values, asked, **part_of(row.part))


def check_row(table: str, row: Mapping[str, Any], ids: Sequence[Hashable]) -> None:
    """Refuse a row of one of the tables of `HAPPENED` that sumwise cannot have written."""
    values = {"answers": _answer, "claims": _claim, "skips": _skip, "history": _event}
    values[table](SimpleNamespace(**row), ids)


def question(text: str) -> dict[str, Any]:
    """A question as it was asked."""
    known = json.loads(text)
    if "\\ud" in text:
        json.dumps(known, ensure_ascii=False).encode()  # half a surrogate pair has no encoding
    return {**known, **{name: from_json(known[name]) for name in ("set_id", "runner_up")}}
