"""What is read of a study, as the API shows it: questions, claims, skips, answers and history."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from sumwise.learning import propose
from sumwise.model import predict
from sumwise.study.storage.records import Claim
from sumwise.study.storage.schema import answers, events
from sumwise.web.answers import as_json
from sumwise.web.pages import interval
from sumwise.web.session import Inside, Seen, finite

Row = dict[str, Any]


def question(inside: Inside, asked: propose.Ask) -> Row:
    position, second = inside.sets.position(asked.set_id), asked.runner_up
    score = asked.runner_up_score
    return {
        **inside.name(position),
        **interval(asked.expected, asked.std),
        "size": inside.size(position),
        "information": finite(asked.information),
        "score": finite(asked.score),
        "why": asked.why,
        "runner_up": None if second is None else inside.name(inside.sets.position(second)),
        "runner_up_score": _finite(score),
        "cost": inside.cost(position),
        "score_per_cost": _finite(asked.score_per_cost),
        "runner_up_score_per_cost": _finite(asked.runner_up_score_per_cost),
        "number": asked.number,
        "by": asked.by,
        "expires": asked.expires or None,
    }


def _finite(value: float | None) -> float | None:
    return None if value is None else finite(value)


def claims(inside: Inside, seen: Seen) -> list[Row]:
    """Open questions, with what is expected of them now and why they were asked."""
    held = seen.snapshot.claims
    if not held:
        return []
    fitted, reasons = inside.fitted(seen), reasons_of(inside, held)
    rows = fitted.pool.design.rows([claim.position for claim in held])
    mean, std = predict.predict_sets(fitted.model, rows, include_noise=True)
    return [
        {
            **inside.name(claim.position),
            **interval(mean[i, 0], std[i, 0]),
            "size": inside.size(claim.position),
            **_holding(claim),
            "why": reasons.get(claim.position, {}).get("why"),
            "information": reasons.get(claim.position, {}).get("information"),
            "cost": inside.cost(claim.position),
        }
        for i, claim in enumerate(held)
    ]


def reasons_of(inside: Inside, held: Sequence[Claim]) -> dict[int, Row]:
    """What was said of these sets when they were asked for, by position."""
    where = (
        (events.c.study_id == inside.kept.id)
        & (events.c.what == "asked")
        & (events.c.at >= min(claim.asked for claim in held))
    )
    asked = sa.select(events.c.position, events.c.question).where(where).order_by(events.c.id)
    wanted = {claim.position for claim in held}
    with inside.database.read() as connection:
        rows = [row for row in connection.execute(asked) if row.position in wanted]
    return {row.position: json.loads(row.question) for row in rows if row.question is not None}


def _holding(claim: Claim) -> Row:
    return {
        "by": claim.by,
        "number": claim.number,
        "asked": claim.asked,
        "expires": claim.expires,
    }


def about(inside: Inside, seen: Seen, position: int) -> Row:
    """Answer, claim and skip of one set, whichever it has."""
    now = seen.snapshot
    answer = next((each for each in now.answers if each.position == position), None)
    claim = next((each for each in now.claims if each.position == position), None)
    aside = next((each for each in now.skips if each.position == position), None)
    reasons = {} if claim is None else reasons_of(inside, [claim])
    return {
        "answer": None if answer is None else as_json(inside, answer),
        "claim": None if claim is None else _holding(claim),
        "skip": None if aside is None else _setting_aside(aside),
        "why": reasons.get(position, {}).get("why"),
    }


def skips(inside: Inside) -> list[Row]:
    return [
        {**inside.name(each.position), **_setting_aside(each)}
        for each in inside.seen().snapshot.skips
    ]


def _setting_aside(skip: Any) -> Row:
    return {"by": skip.by, "at": skip.at, "note": skip.note}


# --- pages, the newest row first ------------------------------------------------------------------


def answer_page(inside: Inside, page: int, size: int) -> Row:
    mine = sa.select(answers).where(answers.c.study_id == inside.kept.id)
    total, rows = _page(inside, mine, answers.c.arrival, page, size)
    return _paged([as_json(inside, row) for row in rows], total, page, size)


def event_page(inside: Inside, page: int, size: int) -> Row:
    mine = sa.select(events).where(events.c.study_id == inside.kept.id)
    total, rows = _page(inside, mine, events.c.id, page, size)
    last = total - (page - 1) * size
    return _paged([_event(inside, row, last - i) for i, row in enumerate(rows)], total, page, size)


def _page(
    inside: Inside, wanted: Any, newest: Any, page: int, size: int
) -> tuple[int, Sequence[Any]]:
    part = wanted.order_by(newest.desc()).limit(size).offset((page - 1) * size)
    with inside.database.read() as connection:
        total = connection.execute(sa.select(sa.func.count()).select_from(wanted.subquery()))
        return total.scalar_one(), connection.execute(part).all()


def _paged(rows: list[Row], total: int, page: int, size: int) -> Row:
    return {"rows": rows, "total": total, "page": page, "size": size}


def _event(inside: Inside, row: Any, number: int) -> Row:
    return {
        "number": number,
        "at": row.at,
        "what": row.what,
        "set": None if row.position is None else inside.name(row.position),
        "total": row.y_bar,
        "noise_std": row.noise_std,
        "by": row.by,
        "note": row.note,
    }
