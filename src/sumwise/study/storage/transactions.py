"""What may be done to a study, each rule inside a transaction that the caller has begun.

Every function takes the study's lock first, so that two people who do this at once take turns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, Final

import numpy as np
import sqlalchemy as sa

from sumwise.data.validate import as_list
from sumwise.errors import LabelError, SettingError, SumwiseError
from sumwise.learning.propose import Answer, Ask
from sumwise.study.storage import records
from sumwise.study.storage.database import Connection
from sumwise.study.storage.id_json import to_json
from sumwise.study.storage.records import Claim, Snapshot, StudyRecord
from sumwise.study.storage.schema import answers, claims, events, files, skips, studies
from sumwise.util.text import moment

_total: Final = attrgetter("y_bar", "noise_std")  # what makes two answers the same
Place = Callable[[int], str]  # where an answer of many comes from, in words
Check = Callable[[Hashable, Any, Any, Any, Any], Answer]


def create(connection: Connection, packed: Mapping[str, bytes], **settings: Any) -> int:
    """Add a study with these blobs and settings, which are columns of its row; gives its number."""
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
    for kind, content in packed.items():
        digest = hashlib.sha256(content).hexdigest()
        file = {"study_id": study_id, "name": kind, "content": content, "sha256": digest}
        connection.execute(files.insert(), file)
    connection.execute(events.insert(), {"study_id": study_id, "at": at, "what": "created"})
    return study_id


def restore(
    connection: Connection, study_id: int, happened: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    """Give a study that was just created the past of another: what `records.happened` gave."""
    connection.execute(events.delete().where(events.c.study_id == study_id))
    for name, (table, _) in records.HAPPENED.items():
        if happened[name]:
            rows = [{**row, "study_id": study_id} for row in happened[name]]
            connection.execute(table.insert(), rows)


# --- questions ------------------------------------------------------------------------------------


def ask(
    connection: Connection,
    record: StudyRecord,
    seen: Snapshot,
    questions: Sequence[Ask],
    owners: Sequence[str | None],
) -> list[Ask] | None:
    """Claim each question's set for its owner; None if outdated since the study was `seen`.

    Another question makes them wrong, as do an answer or a skip for one of these sets and the
    renewal of a claim that seemed to have expired. Answers for other sets that have come in
    meanwhile do not: otherwise a busy study would never hand out a question.
    """
    positions = [record.sets.position(question.set_id) for question in questions]
    state = records.state(connection, record, lock=True)
    if state.questions != seen.questions or _taken(connection, record, seen, positions):
        return None
    _advance(connection, record, questions=len(questions))
    moment = datetime.now(UTC)
    asked = records.stamp(moment)
    expires = records.stamp(moment + timedelta(days=record.claim_days))
    for claim in seen.expired:
        if _drop(connection, record, claims, claim.position):
            _log(connection, record, "expired", claim.position, at=asked, by=claim.by)
    owned = zip(questions, owners, strict=False)  # a budget may pay for fewer
    claimed = [replace(question, by=by, expires=expires) for question, by in owned]
    for question, position in zip(claimed, positions, strict=True):
        _drop(connection, record, skips, position)  # it was asked for by name
        row = {"study_id": record.id, "position": position, "asked": asked, "expires": expires}
        connection.execute(claims.insert(), {**row, "number": question.number, "by": question.by})
        known = asdict(question)
        known |= {name: to_json(known[name]) for name in ("set_id", "runner_up")}
        values = {"by": question.by, "question": json.dumps(known)}
        _log(connection, record, "asked", position, at=asked, **values)
    return claimed


def _taken(
    connection: Connection, record: StudyRecord, seen: Snapshot, positions: Sequence[int]
) -> bool:
    """Whether one of these sets was measured or skipped since, or an expired claim renewed."""
    for table, before in ((answers, ()), (skips, seen.skips)):
        here = (table.c.study_id == record.id) & table.c.position.in_(positions)
        found = set(connection.execute(sa.select(table.c.position).where(here)).scalars())
        if found - {known.position for known in before}:
            return True
    held = [records.claim_at(connection, record, claim.position) for claim in seen.expired]
    return any(now not in (None, then) for now, then in zip(held, seen.expired, strict=True))


def refuse_taken(seen: Snapshot, position: int) -> None:
    """A set that is measured or claimed cannot be claimed."""
    for answer in seen.answers:
        if answer.position == position:
            raise LabelError(f"set {answer.set_id!r} is measured already ({_said(answer)})")
    for claim in seen.claims:
        if claim.position == position:
            who = "somebody" if claim.by is None else repr(claim.by)
            raise SettingError(f"set {claim.set_id!r} is with {who} until {moment(claim.expires)}")


def release(connection: Connection, record: StudyRecord, set_id: Hashable, by: str | None) -> None:
    """Give a claimed set back, whoever holds it."""
    claim = _open_claim(connection, record, set_id)
    _drop(connection, record, claims, claim.position)
    _change(connection, record, "released", claim.position, by=by)


def renew(
    connection: Connection, record: StudyRecord, set_id: Hashable, days: float, by: str | None
) -> str:
    """Extend a claim; gives the new time it expires."""
    claim = _open_claim(connection, record, set_id)
    expires = records.stamp(datetime.now(UTC) + timedelta(days=days))
    here = _here(claims, record, claim.position)
    connection.execute(claims.update().where(here).values(expires=expires))
    _change(connection, record, "renewed", claim.position, by=by, note=expires)
    return expires


def _open_claim(connection: Connection, record: StudyRecord, set_id: Hashable) -> Claim:
    position = record.sets.position(set_id)
    records.state(connection, record, lock=True)
    claim = records.claim_at(connection, record, position)
    if claim is None or claim.expires <= records.now():
        raise SettingError(
            f"nobody holds set {set_id!r}: it was never asked for, or is answered, released or "
            "expired. Ask for it anew."
        )
    return claim


def skip(
    connection: Connection, record: StudyRecord, set_id: Hashable, by: str | None, note: str | None
) -> None:
    """Exclude a set from questions; a claim on it ends."""
    position = record.sets.position(set_id)
    records.state(connection, record, lock=True)
    if records.answer_at(connection, record, position) is not None:
        raise LabelError(
            f"set {set_id!r} is measured already, so there is nothing to skip; to take the answer "
            "back use retract"
        )
    _drop(connection, record, claims, position)
    _drop(connection, record, skips, position)
    at = _change(connection, record, "skipped", position, by=by, note=note)
    row = {"study_id": record.id, "position": position, "by": by, "at": at, "note": note}
    connection.execute(skips.insert(), row)


def unskip(connection: Connection, record: StudyRecord, set_id: Hashable, by: str | None) -> None:
    """Allow a skipped set to be asked for again."""
    position = record.sets.position(set_id)
    records.state(connection, record, lock=True)
    if not _drop(connection, record, skips, position):
        raise SettingError(f"set {set_id!r} is not skipped; there is nothing to undo")
    _change(connection, record, "unskipped", position, by=by)


# --- answers --------------------------------------------------------------------------------------


def tell(connection: Connection, record: StudyRecord, new: Answer) -> tuple[Answer, bool]:
    """Record an answer; the same one once more is fine, another is refused.

    Returns the answer as it is stored, and whether it is new.
    """
    position = record.sets.position(new.set_id)
    arrivals = records.state(connection, record, lock=True).arrivals
    known = records.answer_at(connection, record, position)
    if known is None:
        _record(connection, record, {position: new}, arrivals)
        return _answer(connection, record, new.set_id), True
    if _total(known) != _total(new):
        raise _another(known, new)
    return known, False


def tell_many(
    connection: Connection, record: StudyRecord, given: Sequence[Answer], where: Place
) -> int:
    """Record all of these answers or none; gives how many were new."""
    row = records.state(connection, record, lock=True)
    stored = sa.select(answers).where(answers.c.study_id == record.id)
    known: dict[int, Any] = {answer.position: answer for answer in connection.execute(stored)}
    fresh: dict[int, Answer] = {}
    for number, new in enumerate(given):
        position = record.sets.position(new.set_id)
        before = known.get(position) or fresh.get(position)
        if before is None:
            fresh[position] = new
        elif _total(before) != _total(new):
            twice = f"is there twice, with {_value(before)} and with {_value(new)}; keep one"
            error = LabelError(f"set {new.set_id!r} {twice}")
            raise _refusal(_another(before, new) if position in known else error, where(number))
    if fresh:
        _refuse_retracted(connection, record, given, fresh, where)
        _record(connection, record, fresh, row.arrivals)
    return len(fresh)


def answers_given(
    check: Check, set_ids: Any, y_bar: Any, by: Any, note: Any, noise_std: Any, where: Place
) -> list[Answer]:
    """Columns as answers that have no number yet; a single value stands for a whole column."""
    ids = as_list(set_ids, "set_ids")
    if not ids:
        raise SettingError("no answers were given; give at least one set id and its total")
    columns = {"y_bar": as_list(y_bar, "y_bar")}
    for name, values in (("noise_std", noise_std), ("by", by), ("note", note)):
        single = values is None or np.isscalar(values) or getattr(values, "ndim", 1) == 0
        columns[name] = [values] * len(ids) if single else as_list(values, name)
    for name, many in columns.items():
        if len(many) != len(ids):
            raise SettingError(
                f"{name} has {len(many)} values for {len(ids)} sets; give one for each"
            )
    given, rows = [], zip(ids, *columns.values(), strict=True)
    for number, (set_id, total, noise, who, why) in enumerate(rows):
        try:
            given.append(check(set_id, total, noise, who, why))
        except SumwiseError as error:
            raise _refusal(error, where(number)) from None
    return given


def _refusal(error: SumwiseError, place: str) -> SumwiseError:
    return type(error)(f"{place}: {str(error).rstrip('.')}. Nothing was stored.")


def _refuse_retracted(
    connection: Connection,
    record: StudyRecord,
    given: Sequence[Answer],
    fresh: Mapping[int, Answer],
    where: Place,
) -> None:
    """A file that is read again must not bring back answers that were withdrawn since."""
    kinds = ("told", "amended", "retracted")
    mine = (events.c.study_id == record.id) & events.c.what.in_(kinds)
    said: dict[int, set[Any]] = {}  # every answer a set ever had
    last: dict[int, Any] = {}  # its withdrawal
    for event in connection.execute(sa.select(events).where(mine).order_by(events.c.id)):
        if event.position in fresh:
            said.setdefault(event.position, set()).add(_total(event))
            last[event.position] = event
    for position, event in last.items():
        new = fresh[position]
        if _total(new) in said[position]:
            error = LabelError(
                f"set {new.set_id!r} was told {_value(new)} before, and that was taken "
                f"back{_signed(event)}. Drop the row; if it is right after all, tell this set alone"
            )
            raise _refusal(error, where(given.index(new)))


def _record(
    connection: Connection, record: StudyRecord, fresh: Mapping[int, Answer], arrivals: int
) -> None:
    """Store answers by position; claims and skips of their sets end."""
    same = {"study_id": record.id, "at": records.now()}
    told = [{**same, "position": at, **_values(new)} for at, new in fresh.items()]
    rows = [{**row, "arrival": arrivals + i} for i, row in enumerate(told)]
    connection.execute(answers.insert(), rows)
    connection.execute(events.insert(), [{**row, "what": "told"} for row in told])
    for position in fresh.keys() & set(connection.execute(_HELD, {"study": record.id}).scalars()):
        _drop(connection, record, claims, position)
        _drop(connection, record, skips, position)
    _advance(connection, record, arrivals=len(fresh))


def amend(
    connection: Connection, record: StudyRecord, new: Answer, *, keep_noise: bool
) -> tuple[Answer, bool]:
    """Correct an answer, which keeps its place in the order of arrival.

    Returns the answer as it is stored, and whether it has changed.
    """
    known = _answer(connection, record, new.set_id)
    new = replace(new, noise_std=known.noise_std) if keep_noise else new
    if _total(known) == _total(new):
        return known, False
    at = _change(connection, record, "amended", known.position, **_values(new))
    here = _here(answers, record, known.position)
    connection.execute(answers.update().where(here).values(at=at, **_values(new)))
    return _answer(connection, record, new.set_id), True


def retract(
    connection: Connection, record: StudyRecord, set_id: Hashable, by: str | None, note: str | None
) -> None:
    """Withdraw an answer; its set may be asked for again."""
    known = _answer(connection, record, set_id)
    _drop(connection, record, answers, known.position)
    values = {**_values(known), "by": by, "note": note}
    _change(connection, record, "retracted", known.position, **values)


def _answer(connection: Connection, record: StudyRecord, set_id: Hashable) -> Answer:
    position = record.sets.position(set_id)
    records.state(connection, record, lock=True)
    known = records.answer_at(connection, record, position)
    if known is None:
        raise LabelError(f"set {set_id!r} is not measured yet; use tell, which needs no question")
    return known


# --- rows -----------------------------------------------------------------------------------------

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


def _advance(
    connection: Connection, record: StudyRecord, *, questions: int = 0, arrivals: int = 0
) -> None:
    """Count a change."""
    more = {"study": record.id, "asked": questions, "arrived": arrivals}
    connection.execute(_ADVANCE, more)


def _log(
    connection: Connection, record: StudyRecord, what: str, position: int, *, at: str, **rest: Any
) -> None:
    """Add a line to the history."""
    row = {"study_id": record.id, "at": at, "what": what, "position": position, **rest}
    connection.execute(events.insert(), row)


def _change(
    connection: Connection, record: StudyRecord, what: str, position: int, **rest: Any
) -> str:
    """Count a change and add it to the history; gives its time."""
    at = records.now()
    _advance(connection, record)
    _log(connection, record, what, position, at=at, **rest)
    return at


def _drop(connection: Connection, record: StudyRecord, table: sa.Table, position: int) -> bool:
    """Delete the answer, claim or skip of a set; gives whether there was one."""
    here = {"study": record.id, "at": position}
    return connection.execute(_DELETE[table], here).rowcount == 1


def _values(new: Answer) -> dict[str, Any]:
    return {"y_bar": new.y_bar, "noise_std": new.noise_std, "by": new.by, "note": new.note}


def _here(table: sa.Table, record: StudyRecord, position: int) -> Any:
    return (table.c.study_id == record.id) & (table.c.position == position)


# --- words ----------------------------------------------------------------------------------------


def _another(known: Any, new: Answer) -> LabelError:
    return LabelError(
        f"set {new.set_id!r} is measured already ({_said(known)}), and this is another answer "
        f"({_value(new)}). To correct it use amend, to take it back retract."
    )


def _said(known: Any) -> str:
    return f"{_value(known)}{_signed(known)}"


def _signed(known: Any) -> str:
    """By whom and when."""
    return f"{'' if known.by is None else f' by {known.by!r}'} at {moment(known.at)}"


def _value(known: Any) -> str:
    noise = "" if known.noise_std is None else f" ± {known.noise_std:.12g}"
    return f"{known.y_bar:.12g}{noise}"
