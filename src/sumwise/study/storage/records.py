"""Studies as rows: reading them into values, and writing values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Set
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa

from sumwise.acquisition.objective import Aims
from sumwise.acquisition.strategies import ACQUISITIONS
from sumwise.data.sets import Sets
from sumwise.errors import DataError, SettingError
from sumwise.learning.propose import Question
from sumwise.model.design import Pool
from sumwise.study.storage import arguments, blobs, packing
from sumwise.study.storage.database import Database
from sumwise.study.storage.id_json import from_json, to_json
from sumwise.study.storage.records_values import Claim, Event, Kept, Skip, Snapshot, Told
from sumwise.study.storage.row_checks import as_written, count, seed, set_at, total
from sumwise.study.storage.schema import answers, claims, events, files, skips, studies

# written once: putting a statement together takes longer than running it
_STATE: Final = sa.select(studies.c.changes, studies.c.questions, studies.c.arrivals).where(
    studies.c.id == sa.bindparam("study")
)
_LOCK: Final = _STATE.with_for_update()
_ADVANCE: Final = (
    studies.update()
    .where(studies.c.id == sa.bindparam("study"))
    .values(
        changes=studies.c.changes + 1,
        questions=studies.c.questions + sa.bindparam("asked"),
        arrivals=studies.c.arrivals + sa.bindparam("arrived"),
    )
)
_DROP: Final = claims.delete().where(
    claims.c.study_id == sa.bindparam("study"), claims.c.position == sa.bindparam("at")
)


_SKIPS: Final = (
    sa.select(skips).where(skips.c.study_id == sa.bindparam("study")).order_by(skips.c.position)
)
_UNSKIP: Final = skips.delete().where(
    skips.c.study_id == sa.bindparam("study"), skips.c.position == sa.bindparam("at")
)


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


def load(connection: sa.Connection, name: str | None, database: Database) -> Kept:
    """The study with this name, or the only one there is."""
    shown = database.shown
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
    what = f"study {name!r} in {database.shown}"
    there = blobs.pieces(connection, row.id)
    if "basis" not in there or not there & {"sets", "sets_file", "embedded"}:
        raise DataError(f"{what} is incomplete; restore it from a copy")
    if row.strategy not in ACQUISITIONS:
        raise DataError(f"{what} has a strategy {row.strategy!r}, which this sumwise does not know")

    def piece(kind: str) -> bytes:
        return blobs.read(connection, row.id, kind, what)

    folder = database.folder
    made = None
    if "embedded" in there:
        made = blobs.read_embedded(piece("embedded"), folder, what)
        sets: Sets = made.sets
    elif "index" in there:
        if "sets_file" in there:
            blobs.check_file(piece("sets_file"), folder, what)
        sets = blobs.StoredSets(piece("index"), lambda: _reopened(database, row.id, there, what))
    else:
        sets = _sets(connection, row.id, there, folder, what)
    config = packing.unpack_config(row.config)
    basis = piece("basis")  # read and compared, even where the design has its own
    prepared = made.prepared if made else packing.unpack_prepared(basis, config, sets)
    with as_written(name):
        days = arguments.days(row.claim_days, "claim_days")
        shape = (sets, config, prepared, row.strategy, seed(row.seed), days)
    has_design = "design" in there or made is not None
    aims = packing.unpack_aims(piece("aims"), sets) if "aims" in there else Aims()
    return Kept(row.id, name, row.created, *shape, has_design, made, aims)


def _sets(
    connection: sa.Connection, study_id: int, there: Set[str], folder: Any, what: str
) -> Sets:
    """All the individuals."""
    if "sets_file" in there:
        reference = blobs.read(connection, study_id, "sets_file", what)
        return blobs.read_file(reference, folder, what)
    return packing.unpack_sets(blobs.read(connection, study_id, "sets", what))


def _reopened(database: Database, study_id: int, there: Set[str], what: str) -> Sets:
    with database.read() as connection:
        return _sets(connection, study_id, there, database.folder, what)


def pool_of(connection: sa.Connection, kept: Kept) -> Pool:
    """The sets as a strategy sees them, as they were kept when the study was made."""
    if kept.embedded is not None:
        return kept.embedded.pool
    what = f"study {kept.name!r}"
    design, moment = (blobs.read(connection, kept.id, p, what) for p in ("design", "moment"))
    pool = blobs.unpack_pool(kept.sets, kept.prepared.basis, design, moment)
    if "sample" not in blobs.pieces(connection, kept.id):  # a study of an older version
        return pool
    sample = packing.unpack_aims(blobs.read(connection, kept.id, "sample", what), kept.sets)
    return replace(pool, targets=sample.targets)


def snapshot(connection: sa.Connection, kept: Kept, *, lock: bool = False) -> Snapshot:
    """The study as it stands; with `lock`, as it will stand until the transaction ends."""
    row = state(connection, kept, lock=lock)
    ids, moment = kept.sets.ids, now()
    mine = answers.c.study_id == kept.id
    told = connection.execute(sa.select(answers).where(mine).order_by(answers.c.arrival))
    open_ = sa.select(claims).where(claims.c.study_id == kept.id).order_by(claims.c.number)
    with as_written(kept.name):
        given = tuple(
            Told(
                set_at(ids, a.position),
                total(a.y_bar),
                None if a.noise_std is None else total(a.noise_std),
                a.by,
                a.at,
                a.note,
                a.position,
            )
            for a in told
        )
        claimed = [_claim(c, ids) for c in connection.execute(open_)]
        aside = tuple(
            Skip(set_at(ids, s.position), s.by, s.at, s.note, s.position)
            for s in connection.execute(_SKIPS, {"study": kept.id})
        )
    return Snapshot(
        row.changes,
        row.questions,
        row.arrivals,
        given,
        tuple(claim for claim in claimed if claim.expires > moment),
        tuple(claim for claim in claimed if claim.expires <= moment),
        aside,
    )


def state(connection: sa.Connection, kept: Kept, *, lock: bool) -> Any:
    """The study's counters. SQLite has the lock already, from the beginning of the transaction."""
    row = connection.execute(_LOCK if lock else _STATE, {"study": kept.id}).first()
    if row is None:
        raise DataError(f"study {kept.name!r} is no longer there")
    with as_written(kept.name):
        for value in (row.changes, row.questions, row.arrivals):
            count(value)
    return row


def advance(
    connection: sa.Connection, kept: Kept, *, questions: int = 0, arrivals: int = 0
) -> None:
    """Count a change."""
    more = {"study": kept.id, "asked": questions, "arrived": arrivals}
    connection.execute(_ADVANCE, more)


# --- claims and events ----------------------------------------------------------------------------


def _claim(row: Any, ids: tuple[Hashable, ...]) -> Claim:
    return Claim(
        set_at(ids, row.position), row.by, row.number, row.asked, row.expires, row.position
    )


def claim_of(connection: sa.Connection, kept: Kept, position: int) -> Claim | None:
    """The claim on a set, expired or not."""
    here = (claims.c.study_id == kept.id) & (claims.c.position == position)
    row = connection.execute(sa.select(claims).where(here)).first()
    return None if row is None else _claim(row, kept.sets.ids)


def drop_claim(connection: sa.Connection, kept: Kept, position: int) -> bool:
    """Whether there was one."""
    return connection.execute(_DROP, {"study": kept.id, "at": position}).rowcount == 1


def drop_skip(connection: sa.Connection, kept: Kept, position: int) -> bool:
    """Whether there was one."""
    return connection.execute(_UNSKIP, {"study": kept.id, "at": position}).rowcount == 1


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
    connection.execute(claims.insert(), row)
    known = asdict(question)
    known["set_id"], known["runner_up"] = to_json(question.set_id), to_json(question.runner_up)
    log(connection, kept, "asked", position, at=asked, by=question.by, question=json.dumps(known))


def log(
    connection: sa.Connection, kept: Kept, what: str, position: int, *, at: str, **rest: Any
) -> None:
    """A line of history."""
    row = {"study_id": kept.id, "at": at, "what": what, "position": position, **rest}
    connection.execute(events.insert(), row)


def history(connection: sa.Connection, kept: Kept) -> tuple[Event, ...]:
    rows = sa.select(events).where(events.c.study_id == kept.id).order_by(events.c.id)
    ids = kept.sets.ids
    with as_written(kept.name):
        return tuple(
            Event(
                number,
                row.at,
                row.what,
                None if row.position is None else set_at(ids, row.position),
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
