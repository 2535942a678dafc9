"""What may be done to a study, each rule inside a transaction that the caller has begun.

Every function takes the study's lock first, so two people who do this at once take turns.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from sumwise.errors import LabelError, SettingError
from sumwise.questions import Question
from sumwise.storage import records
from sumwise.storage.records import Claim, Kept, Snapshot
from sumwise.storage.schema import answers, claims


def ask(
    connection: sa.Connection,
    kept: Kept,
    seen: Snapshot,
    questions: Sequence[Question],
    by: str | None,
) -> list[Question] | None:
    """Claim the sets of these questions; None if the study has changed since it was `seen`."""
    if not records.advance(connection, kept, seen=seen.changes, questions=len(questions)):
        return None
    moment = datetime.now(UTC)
    asked, expires = records.stamp(moment), _later(moment, kept.claim_days)
    for claim in seen.expired:
        records.drop_claim(connection, kept, claim.position)
        records.log(connection, kept, "expired", claim.position, at=asked, by=claim.by)
    claimed = [replace(question, by=by, expires=expires) for question in questions]
    for question in claimed:
        records.add_claim(connection, kept, question, asked)
    return claimed


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
    known = connection.execute(sa.select(answers).where(_here(kept, position))).first()
    if known is not None:
        if (known.y_bar, known.noise_std) == (y_bar, noise_std):
            return
        raise LabelError(
            f"set {set_id!r} is measured already ({_said(known)}), and this is another answer "
            f"({_value(y_bar, noise_std)}). To correct it use amend, to take it back retract."
        )
    at = records.now()
    values = {"y_bar": y_bar, "noise_std": noise_std, "by": by, "note": note}
    where = {"study_id": kept.id, "position": position, "arrival": row.arrivals, "at": at}
    connection.execute(answers.insert().values(**where, **values))
    records.drop_claim(connection, kept, position)
    records.log(connection, kept, "told", position, at=at, **values)
    records.advance(connection, kept, arrivals=1)


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
    known = connection.execute(sa.select(answers).where(_here(kept, position))).first()
    if known is None:
        raise LabelError(f"set {set_id!r} is not measured yet; use tell to give its answer")
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
    who = "" if known.by is None else f" by {known.by!r}"
    return f"{_value(known.y_bar, known.noise_std)}{who} at {known.at}"


def _value(y_bar: float, noise_std: float | None) -> str:
    return f"{y_bar:.12g}" + ("" if noise_std is None else f" ± {noise_std:.12g}")
