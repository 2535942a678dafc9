"""What may be done to a study, each rule inside a transaction that the caller has begun.

Every function takes the study's lock first, so two people who do this at once take turns.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from sumwise.errors import LabelError, SettingError
from sumwise.learning.propose import Question
from sumwise.study.storage import records
from sumwise.study.storage.records_values import Claim, Kept, Snapshot
from sumwise.study.storage.schema import answers, claims, skips
from sumwise.util.text import moment

_ANSWER: Final = sa.select(answers).where(
    answers.c.study_id == sa.bindparam("study"), answers.c.position == sa.bindparam("at")
)


def ask(
    connection: sa.Connection,
    kept: Kept,
    seen: Snapshot,
    questions: Sequence[Question],
    by: str | None,
) -> list[Question] | None:
    """Claim the sets of these questions; None if somebody else was quicker since it was `seen`.

    Another question makes them wrong, as do an answer or a skip for one of these sets and the
    renewal of a claim that seemed to have expired; answers for other sets that have come in
    meanwhile do not, and would otherwise keep people from ever getting one.
    """
    positions = [kept.sets.position(question.set_id) for question in questions]
    if records.state(connection, kept, lock=True).questions != seen.questions:
        return None
    if _taken(connection, kept, seen, positions):
        return None
    records.advance(connection, kept, questions=len(questions))
    moment = datetime.now(UTC)
    asked, expires = records.stamp(moment), _later(moment, kept.claim_days)
    for claim in seen.expired:
        if records.drop_claim(connection, kept, claim.position):
            records.log(connection, kept, "expired", claim.position, at=asked, by=claim.by)
    claimed = [replace(question, by=by, expires=expires) for question in questions]
    for question, position in zip(claimed, positions, strict=True):
        records.drop_skip(connection, kept, position)  # somebody wants it after all
        records.add_claim(connection, kept, question, asked)
    return claimed


def _taken(connection: sa.Connection, kept: Kept, seen: Snapshot, positions: Sequence[int]) -> bool:
    """Whether one of these sets was measured or skipped since, or an expired claim renewed."""
    for table, before in ((answers, ()), (skips, seen.skips)):
        here = (table.c.study_id == kept.id) & table.c.position.in_(positions)
        found = set(connection.execute(sa.select(table.c.position).where(here)).scalars())
        if found - {known.position for known in before}:
            return True
    held = [records.claim_of(connection, kept, claim.position) for claim in seen.expired]
    return any(now not in (None, then) for now, then in zip(held, seen.expired, strict=True))


def _later(moment: datetime, days: float) -> str:
    return records.stamp(moment + timedelta(days=days))


def tell(
    connection: sa.Connection,
    kept: Kept,
    set_id: Hashable,
    y_bar: float,
    noise_std: float | None,
    by: str | None,
    note: str | None,
) -> None:
    """Keep an answer; once more the same is fine, another is refused."""
    position = kept.sets.position(set_id)
    row = records.state(connection, kept, lock=True)
    known = connection.execute(_ANSWER, {"study": kept.id, "at": position}).first()
    if known is not None:
        if (known.y_bar, known.noise_std) == (y_bar, noise_std):
            return
        raise another_answer(set_id, known, y_bar, noise_std)
    at = records.now()
    values = {"y_bar": y_bar, "noise_std": noise_std, "by": by, "note": note}
    where = {"study_id": kept.id, "position": position, "arrival": row.arrivals, "at": at}
    connection.execute(answers.insert(), {**where, **values})
    records.drop_claim(connection, kept, position)
    records.drop_skip(connection, kept, position)
    records.log(connection, kept, "told", position, at=at, **values)
    records.advance(connection, kept, arrivals=1)


def another_answer(
    set_id: Hashable, known: Any, y_bar: float, noise_std: float | None
) -> LabelError:
    return LabelError(
        f"set {set_id!r} is measured already ({_said(known)}), and this is another answer "
        f"({value(y_bar, noise_std)}). To correct it use amend, to take it back retract."
    )


def amend(
    connection: sa.Connection,
    kept: Kept,
    set_id: Hashable,
    y_bar: float,
    noise_std: float | None,
    keep_noise: bool,
    by: str | None,
    note: str | None,
) -> None:
    """Another value for an answer, which keeps its place."""
    position = kept.sets.position(set_id)
    known = _answer(connection, kept, set_id, position)
    noise_std = known.noise_std if keep_noise else noise_std
    if (known.y_bar, known.noise_std) == (y_bar, noise_std):
        return
    values = {"y_bar": y_bar, "noise_std": noise_std, "by": by, "note": note}
    at = records.now()
    connection.execute(answers.update().where(_here(kept, position)).values(at=at, **values))
    records.log(connection, kept, "amended", position, at=at, **values)
    records.advance(connection, kept)


def retract(
    connection: sa.Connection, kept: Kept, set_id: Hashable, by: str | None, note: str | None
) -> None:
    """Take an answer back; its set may be asked for again."""
    position = kept.sets.position(set_id)
    known = _answer(connection, kept, set_id, position)
    connection.execute(answers.delete().where(_here(kept, position)))
    values = {"y_bar": known.y_bar, "noise_std": known.noise_std, "by": by, "note": note}
    records.log(connection, kept, "retracted", position, at=records.now(), **values)
    records.advance(connection, kept)


def release(connection: sa.Connection, kept: Kept, set_id: Hashable, by: str | None) -> None:
    """Give a claimed set back, whoever holds it."""
    claim = _open_claim(connection, kept, set_id)
    records.drop_claim(connection, kept, claim.position)
    records.log(connection, kept, "released", claim.position, at=records.now(), by=by)
    records.advance(connection, kept)


def refuse_taken(seen: Snapshot, position: int) -> None:
    """A set that is measured, or that somebody holds, cannot be claimed."""
    for answer in seen.answers:
        if answer.position == position:
            raise LabelError(f"set {answer.set_id!r} is measured already ({_said(answer)})")
    for claim in seen.claims:
        if claim.position == position:
            who = "somebody" if claim.by is None else repr(claim.by)
            until = moment(claim.expires)
            raise SettingError(f"set {claim.set_id!r} is with {who} until {until}")


def skip(
    connection: sa.Connection, kept: Kept, set_id: Hashable, by: str | None, note: str | None
) -> None:
    """Set a set aside, so that nobody is asked for it; whoever holds it lets go."""
    position = kept.sets.position(set_id)
    records.state(connection, kept, lock=True)
    if connection.execute(_ANSWER, {"study": kept.id, "at": position}).first() is not None:
        raise LabelError(
            f"set {set_id!r} is measured already, so there is nothing to skip; to take the answer "
            "back use retract"
        )
    at = records.now()
    records.drop_claim(connection, kept, position)
    records.drop_skip(connection, kept, position)
    row = {"study_id": kept.id, "position": position, "by": by, "at": at, "note": note}
    connection.execute(skips.insert(), row)
    records.log(connection, kept, "skipped", position, at=at, by=by, note=note)
    records.advance(connection, kept)


def unskip(connection: sa.Connection, kept: Kept, set_id: Hashable, by: str | None) -> None:
    """A set that was set aside may be asked for again."""
    position = kept.sets.position(set_id)
    records.state(connection, kept, lock=True)
    if not records.drop_skip(connection, kept, position):
        raise SettingError(f"set {set_id!r} is not skipped; there is nothing to undo")
    records.log(connection, kept, "unskipped", position, at=records.now(), by=by)
    records.advance(connection, kept)


def renew(
    connection: sa.Connection, kept: Kept, set_id: Hashable, days: float, by: str | None
) -> str:
    """Hold a claimed set for longer; gives the new time it expires."""
    claim = _open_claim(connection, kept, set_id)
    moment = datetime.now(UTC)
    expires = _later(moment, days)
    here = (claims.c.study_id == kept.id) & (claims.c.position == claim.position)
    connection.execute(claims.update().where(here).values(expires=expires))
    at = records.stamp(moment)
    records.log(connection, kept, "renewed", claim.position, at=at, by=by, note=expires)
    records.advance(connection, kept)
    return expires


def _here(kept: Kept, position: int) -> Any:
    return (answers.c.study_id == kept.id) & (answers.c.position == position)


def _answer(connection: sa.Connection, kept: Kept, set_id: Hashable, position: int) -> Any:
    records.state(connection, kept, lock=True)
    known = connection.execute(_ANSWER, {"study": kept.id, "at": position}).first()
    if known is None:
        raise LabelError(f"set {set_id!r} is not measured yet; use tell, which needs no question")
    return known


def _open_claim(connection: sa.Connection, kept: Kept, set_id: Hashable) -> Claim:
    position = kept.sets.position(set_id)
    records.state(connection, kept, lock=True)
    claim = records.claim_of(connection, kept, position)
    if claim is None or claim.expires <= records.now():
        raise SettingError(
            f"nobody holds set {set_id!r}: it was never asked for, or is answered, released or "
            "expired. Ask for it anew."
        )
    return claim


def _said(known: Any) -> str:
    return f"{value(known.y_bar, known.noise_std)}{signed(known)}"


def signed(known: Any) -> str:
    """By whom and when."""
    who = "" if known.by is None else f" by {known.by!r}"
    return f"{who} at {moment(known.at)}"


def value(y_bar: float, noise_std: float | None) -> str:
    return f"{y_bar:.12g}" + ("" if noise_std is None else f" ± {noise_std:.12g}")
