"""What may be done to a study. Each rule runs inside a transaction that holds the study's lock.

Who changes a study takes the lock first, so that two people who do this at once take turns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from itertools import count as count_from
from typing import Any, Final

import sqlalchemy as sa

from sumwise.errors import LabelError, SettingError, SumwiseError
from sumwise.learning import rules
from sumwise.learning.pools import rows_in
from sumwise.learning.propose import Answer, Ask, NewPool
from sumwise.learning.told import Place, not_yet_known, refusal
from sumwise.study.storage import records
from sumwise.study.storage.blobs import OF_SETS
from sumwise.study.storage.database import Connection, Database
from sumwise.study.storage.id_json import to_json
from sumwise.study.storage.pieces import PREFIX
from sumwise.study.storage.records import Claim, Snapshot, StudyRecord
from sumwise.study.storage.schema import (
    answers,
    chain,
    claims,
    events,
    files,
    pools,
    skips,
    studies,
)
from sumwise.util.text import moment, shown

# built once: building a statement takes longer than running it
_STUDY: Final[sa.BindParameter[int]] = sa.bindparam("study")
_ADVANCE: Final = (
    studies.update()
    .where(studies.c.id == _STUDY)
    .values(
        changes=studies.c.changes + 1,
        questions=studies.c.questions + sa.bindparam("asked"),
        arrivals=studies.c.arrivals + sa.bindparam("arrived"),
    )
)
_DELETE: Final = {
    table: table.delete().where(table.c.study_id == _STUDY, table.c.position == sa.bindparam("at"))
    for table in (answers, claims, skips)
}
_HELD: Final = sa.union(
    *(sa.select(table.c.position).where(table.c.study_id == _STUDY) for table in (claims, skips))
)


def create(
    connection: Connection,
    packed: Mapping[str, bytes],
    settings: Mapping[str, Any],
    happened: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> None:
    """Add a study with these blobs.

    Args:
        settings: Columns of its row.
        happened: The past of another study, as `records.happened` gave it.
    """
    name = settings["name"]
    here = sa.select(studies.c.id).where(studies.c.name == name)
    if connection.execute(here).first():
        raise SettingError(
            f"there is a study called {name!r} already; open it, or give another name (--name in "
            "the shell)"
        )
    at = records.now()
    row = {"created": at, "changes": 0, "questions": 0, "arrivals": 0, **settings}
    connection.execute(studies.insert(), row)
    study_id = int(connection.execute(here).scalar_one())
    _store_files(connection, study_id, packed)
    past = {"history": [{"at": at, "what": "created"}]} if happened is None else happened
    for kind, rows in past.items():
        if rows:
            table = pools if kind == "pools" else records.HAPPENED[kind][0]
            connection.execute(table.insert(), [{**row, "study_id": study_id} for row in rows])


def _store_files(connection: Connection, study_id: int, packed: Mapping[str, bytes]) -> None:
    for kind, content in packed.items():
        digest = hashlib.sha256(content).hexdigest()
        file = {"study_id": study_id, "name": kind, "content": content, "sha256": digest}
        connection.execute(files.insert(), file)


@contextmanager
def transaction(database: Database, record: StudyRecord) -> Iterator[Transaction]:
    """A transaction on one study; durable once the block has ended, undone if it raises."""
    with database.write() as connection:
        yield Transaction(connection, record)


class Transaction:
    """A study while its lock is held."""

    def __init__(self, connection: Connection, record: StudyRecord) -> None:
        self.connection = connection
        self._record = record
        self._state = records.state(connection, record, lock=True)

    def go_on(self, record: StudyRecord) -> None:
        """Go on with the pools that were designed until the study was locked."""
        self._record = record

    # --- questions ----------------------------------------------------------------------------

    def ask(
        self, seen: Snapshot, questions: Sequence[Ask], owners: Sequence[str | None]
    ) -> list[Ask] | None:
        """Claim each question's set for its owner; None if outdated since the study was `seen`.

        Another question makes them wrong, as do an answer or a skip for one of these sets and the
        renewal of a claim that seemed to have expired. Answers for other sets that have come in
        meanwhile do not: otherwise a busy study would never hand out a question.
        """
        now = records.renewed(self.connection, self._record)
        if self._state.questions != seen.questions or now is not self._record:
            return None
        sets, places = self._record.sets, count_from(len(self._record.sets))
        positions = [
            sets.position(ask.set_id) if ask.set_id in sets else next(places) for ask in questions
        ]
        designed = [pool for ask in questions if (pool := ask.pool) and ask.set_id not in sets]
        if self._taken(seen, positions) or (designed and self._used(seen, designed)):
            return None
        moment = datetime.now(UTC)
        asked = records.stamp(moment)
        if any(claim.expires > asked for claim in seen.expired):  # the clock was put back since
            return None
        self._advance(questions=len(questions))
        expires = records.stamp(moment + timedelta(days=self._record.claim_days))
        for claim in seen.expired:
            if self._drop(claims, claim.position):
                self._log("expired", claim.position, asked, by=claim.by)
        owned = zip(questions, owners, strict=False)  # a budget may pay for fewer
        claimed = [replace(question, by=by, expires=expires) for question, by in owned]
        for question, position in zip(claimed, positions, strict=True):
            self._drop(skips, position)  # it was asked for by name
            row = {"asked": asked, "expires": expires, "number": question.number, "by": question.by}
            self._insert(claims, position=position, **row)
            known = asdict(replace(question, pool=None))
            known |= {name: to_json(known[name]) for name in ("set_id", "runner_up")}
            if question.pool is not None and position >= len(sets):
                known["bound"] = question.pool.bound
                members, theta = map(json.dumps, (question.pool.rows, question.pool.theta))
                row = {"name": question.set_id, "members": members, "theta": theta, "at": asked}
                self._insert(pools, position=position, **row)
            self._log("asked", position, asked, by=question.by, question=json.dumps(known))
        return claimed

    def _used(self, seen: Snapshot, designed: Sequence[NewPool]) -> bool:
        """Whether members of pools that were designed were used or set aside meanwhile."""
        designing, now = self._record.designing, records.snapshot(self.connection, self._record)
        assert designing is not None
        new = {row.position for group in (now.answers, now.skips) for row in group}
        new -= {row.position for group in (seen.answers, seen.skips) for row in group}
        members = {row for pool in designed for row in pool.rows}
        taken = rows_in(designing.candidates, self._record.sets.take(sorted(new)))
        return any(not members.isdisjoint(rows.tolist()) for rows, _ in taken)

    def _taken(self, seen: Snapshot, positions: Sequence[int]) -> bool:
        """Whether one of these sets was measured or skipped since, or an expired claim renewed."""
        for table, before in ((answers, ()), (skips, seen.skips)):
            here = (table.c.study_id == self._record.id) & table.c.position.in_(positions)
            found = set(self.connection.execute(sa.select(table.c.position).where(here)).scalars())
            if found - {known.position for known in before}:
                return True
        return any(self._claim_at(claim.position) not in (None, claim) for claim in seen.expired)

    def release(self, position: int, by: str | None) -> None:
        """Give a claimed set back; any user may, not only its holder."""
        self._open_claim(position)
        self._drop(claims, position)
        self._change("released", position, by=by)

    def renew(self, position: int, days: float, by: str | None) -> str:
        """Extend a claim; gives the new time it expires."""
        self._open_claim(position)
        expires = records.stamp(datetime.now(UTC) + timedelta(days=days))
        self._update(claims, position, expires=expires)
        self._change("renewed", position, by=by, note=expires)
        return expires

    def _claim_at(self, position: int) -> Claim | None:
        return records.claim_at(self.connection, self._record, position)

    def _open_claim(self, position: int) -> None:
        """Refuse a set that is not claimed."""
        claim = self._claim_at(position)
        if claim is None or claim.expires <= records.now():
            raise SettingError(
                f"set {self._id(position)!r} is not claimed: it was never asked for, or is "
                "answered, released or expired. Ask for it anew."
            )

    def skip(self, position: int, by: str | None, note: str | None) -> None:
        """Exclude a set from questions; a claim on it ends."""
        refuse_retired(self._record, position)
        if records.answer_at(self.connection, self._record, position) is not None:
            raise rules.nothing_to_skip(self._id(position))
        self._drop(claims, position)
        self._drop(skips, position)
        at = self._change("skipped", position, by=by, note=note)
        self._insert(skips, position=position, by=by, at=at, note=note)

    def unskip(self, position: int, by: str | None) -> None:
        """Allow a skipped set to be asked for again."""
        if not self._drop(skips, position):
            raise rules.not_skipped(self._id(position))
        self._change("unskipped", position, by=by)

    # --- answers ------------------------------------------------------------------------------

    def tell(self, new: Answer) -> tuple[Answer, bool]:
        """Record an answer; the same one once more is fine, another is refused.

        Returns the answer as it is stored, and whether it is new.
        """
        known = records.answer_at(self.connection, self._record, new.position)
        if known is None:
            refuse_retired(self._record, new.position)
            self._store([new])
            return self._answer(new.position), True
        if rules.total(known) != rules.total(new):
            raise rules.another_total(known, new)
        return known, False

    def tell_many(self, given: Sequence[Answer], where: Place) -> int:
        """Record all of these answers or none; gives how many were new."""
        seen = records.snapshot(self.connection, self._record)
        fresh = not_yet_known(given, seen.answers, where)
        for number, new in fresh.items():
            try:
                refuse_retired(self._record, new.position)
            except SumwiseError as retired:
                raise refusal(retired, where(number)) from None
        if fresh:
            self._refuse_retracted(fresh, where)
            self._store(list(fresh.values()))
        return len(fresh)

    def _refuse_retracted(self, fresh: Mapping[int, Answer], where: Place) -> None:
        """A file that is read again must not bring back answers that were withdrawn since."""
        kinds = ("told", "amended", "retracted")
        mine = (events.c.study_id == self._record.id) & events.c.what.in_(kinds)
        newest_first = sa.select(events).where(mine).order_by(events.c.id.desc())
        numbers = {new.position: number for number, new in fresh.items()}
        withdrawn: dict[int, Any] = {}  # by position: the last event of a set without an answer
        for event in self.connection.execute(newest_first):
            if event.position not in numbers:
                continue
            new = fresh[numbers[event.position]]
            last = withdrawn.setdefault(event.position, event)
            whole = replace(new, y_bar=event.y_bar, noise_std=event.noise_std, of=None, covers=None)
            if rules.total(replace(whole, **records.part_of(event.part))) == rules.total(new):
                error = LabelError(
                    f"set {new.set_id!r} was told {rules.value(new)} before, and that was "
                    f"withdrawn{rules.signed(last)}. Drop the row; if it is right after all, tell "
                    "this set alone"
                )
                raise refusal(error, where(numbers[event.position]))

    def _store(self, fresh: Sequence[Answer]) -> None:
        """Store answers; claims and skips of their sets end."""
        same = {"study_id": self._record.id, "at": records.now()}
        told = [{**same, "position": new.position, **_values(new)} for new in fresh]
        arrival = self._state.arrivals
        rows = [{**row, "arrival": arrival + i} for i, row in enumerate(told)]
        self.connection.execute(answers.insert(), rows)
        self.connection.execute(events.insert(), [{**row, "what": "told"} for row in told])
        held = set(self.connection.execute(_HELD, {"study": self._record.id}).scalars())
        for position in held & {new.position for new in fresh}:
            self._drop(claims, position)
            self._drop(skips, position)
        self._advance(arrivals=len(fresh))

    def amend(self, new: Answer, *, keep_noise: bool) -> tuple[Answer, bool]:
        """Correct an answer, which keeps its place in the order of arrival.

        Returns the answer as it is stored, and whether it has changed.
        """
        known = self._answer(new.position)
        new = replace(new, noise_std=rules.noise_of(known, new, keep=keep_noise))
        if rules.total(known) == rules.total(new) and known.noise_std == new.noise_std:
            return known, False
        at = self._change("amended", new.position, **_values(new))
        self._update(answers, new.position, at=at, **_values(new))
        return self._answer(new.position), True

    def retract(self, position: int, by: str | None, note: str | None) -> None:
        """Withdraw an answer; its set may be asked for again, if it ever was to be asked for."""
        known = self._answer(position)
        self._drop(answers, position)
        self._change("retracted", position, **{**_values(known), "by": by, "note": note})
        if position >= self._record.sets.n_asked and self._record.designing is None:
            self.skip(position, by, "it is not a set of the study, so it is not asked for")

    def _answer(self, position: int) -> Answer:
        known = records.answer_at(self.connection, self._record, position)
        if known is None:
            begin, ids = f"{shown(self._id(position))} (until ", self._record.sets.ids
            former = [ids[at] for at in self._record.pool.retired if str(ids[at]).startswith(begin)]
            raise rules.not_measured(self._id(position), former)
        return known

    # --- the pool -----------------------------------------------------------------------------

    def change_pool(
        self,
        seen: Snapshot,
        packed: Mapping[str, bytes],
        emptied: Sequence[int],
        new: int,
        by: str | None,
        note: str,
    ) -> bool:
        """Put other blobs in place of the study's own; False if outdated since it was `seen`.

        What models have learned is forgotten, because it came from other inputs.

        Args:
            emptied: Positions of sets that have no members any more; their skips end.
            new: How many positions come before those of what was known from the start.
        """
        if self._state.changes != seen.changes:
            return False
        mine = files.c.study_id == self._record.id
        pieces, replaced = files.c.name.like(f"{PREFIX}%"), {*packed, *OF_SETS}
        self.connection.execute(files.delete().where(mine, pieces | files.c.name.in_(replaced)))
        _store_files(self.connection, self._record.id, packed)
        self.connection.execute(chain.delete().where(chain.c.study_id == self._record.id))
        for position in emptied:
            self._drop(claims, position)  # expired
            self._drop(skips, position)
        for table in (answers, claims, skips, events):
            self._shift(table, self._record.sets.n_asked, new)
        self._advance()
        self._insert(events, at=records.now(), what="pool", by=by, note=note)
        return True

    def add_map(self, packed: bytes, by: str | None, note: str) -> None:
        """Store a map in place of the one that there may be."""
        mine = (files.c.study_id == self._record.id) & (files.c.name == "map")
        self.connection.execute(files.delete().where(mine))
        _store_files(self.connection, self._record.id, {"map": packed})
        self._advance()
        self._insert(events, at=records.now(), what="map", by=by, note=note)

    # --- rows ---------------------------------------------------------------------------------

    def _id(self, position: int) -> Hashable:
        return self._record.sets.ids[position]

    def _advance(self, *, questions: int = 0, arrivals: int = 0) -> None:
        """Count a change."""
        more = {"study": self._record.id, "asked": questions, "arrived": arrivals}
        self.connection.execute(_ADVANCE, more)

    def _log(self, what: str, position: int, at: str, **rest: Any) -> None:
        """Add a line to the history."""
        self._insert(events, at=at, what=what, position=position, **rest)

    def _change(self, what: str, position: int, **rest: Any) -> str:
        """Count a change and add it to the history; gives its time."""
        at = records.now()
        self._advance()
        self._log(what, position, at, **rest)
        return at

    def _insert(self, table: sa.Table, **row: Any) -> None:
        self.connection.execute(table.insert(), {"study_id": self._record.id, **row})

    def _update(self, table: sa.Table, position: int, **values: Any) -> None:
        here = (table.c.study_id == self._record.id) & (table.c.position == position)
        self.connection.execute(table.update().where(here).values(**values))

    def _shift(self, table: sa.Table, first: int, by: int) -> None:
        """Add to positions from the first on; by way of negative ones, which are nobody's."""
        mine, at = table.c.study_id == self._record.id, table.c.position
        for which, to in ((at >= first, -(at + by)), (at < 0, -at)):
            self.connection.execute(table.update().where(mine, which).values(position=to))

    def _drop(self, table: sa.Table, position: int) -> bool:
        """Delete the answer, claim or skip of a set; gives whether there was one."""
        here = {"study": self._record.id, "at": position}
        return self.connection.execute(_DELETE[table], here).rowcount == 1


def refuse_retired(record: StudyRecord, position: int) -> None:
    """A set that is not part of the pool any more is neither asked for nor told."""
    if position in record.pool.retired:
        became = record.pool.retired[position]
        now = "" if became is None else f"; it is {record.sets.ids[became]!r} now"
        raise SettingError(
            f"set {record.sets.ids[position]!r} is not part of the pool any more{now}. Its answer, "
            "if it has one, can be amended and retracted."
        )


def refuse_taken(seen: Snapshot, position: int) -> None:
    """A set that is measured or claimed cannot be claimed."""
    for answer in seen.answers:
        if answer.position == position:
            raise LabelError(f"set {answer.set_id!r} is measured already ({rules.said(answer)})")
    for claim in seen.claims:
        if claim.position == position:
            holder = "an unnamed user" if claim.by is None else repr(claim.by)
            until = moment(claim.expires)
            raise SettingError(f"set {claim.set_id!r} is claimed by {holder} until {until}")


def _values(new: Answer) -> dict[str, Any]:
    told = {"y_bar": new.y_bar, "noise_std": new.noise_std, "by": new.by, "note": new.note}
    return {**told, "part": records.part_json(new)}
