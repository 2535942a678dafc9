"""Values of a study as the API shows them: questions, claims, skips, answers and events."""

from __future__ import annotations

from typing import Any

from sumwise.learning.propose import Answer, Ask
from sumwise.model import predict
from sumwise.study.storage.records import Claim, Event, Skip, Snapshot
from sumwise.web.session import Session, finite, interval

Row = dict[str, Any]


def question(session: Session, asked: Ask) -> Row:
    position, second = session.sets.position(asked.set_id), asked.runner_up
    return {
        **session.name(position),
        **interval(asked.expected, asked.std),
        "size": session.size(position),
        "information": finite(asked.information),
        "score": finite(asked.score),
        "why": asked.why,
        "runner_up": None if second is None else session.name(session.sets.position(second)),
        "runner_up_score": finite(asked.runner_up_score),
        "cost": session.cost(position),
        "score_per_cost": finite(asked.score_per_cost),
        "runner_up_score_per_cost": finite(asked.runner_up_score_per_cost),
        "number": asked.number,
        "by": asked.by,
        "expires": asked.expires or None,
    }


def claims(session: Session, seen: Snapshot) -> list[Row]:
    """Open questions, with what is expected of them now and why they were asked."""
    if not seen.claims:
        return []
    fit, asked = session.state.fitted(seen), session.state.questions_of(seen.claims)
    rows = fit.pool.design.rows([claim.position for claim in seen.claims])
    mean, std = predict.predict_sets(fit.model, rows, include_noise=True)
    return [
        {
            **session.name(claim.position),
            **interval(mean[i, 0], std[i, 0]),
            "size": session.size(claim.position),
            **_claim(claim),
            "why": asked.get(claim.position, {}).get("why"),
            "information": finite(asked.get(claim.position, {}).get("information")),
            "cost": session.cost(claim.position),
        }
        for i, claim in enumerate(seen.claims)
    ]


def _claim(claim: Claim) -> Row:
    names = ("by", "number", "asked", "expires")
    return {name: getattr(claim, name) for name in names}


def about(session: Session, seen: Snapshot, position: int) -> Row:
    """Answer, claim and skip of one set, whichever it has."""
    told = next((each for each in seen.answers if each.position == position), None)
    claim = next((each for each in seen.claims if each.position == position), None)
    aside = next((each for each in seen.skips if each.position == position), None)
    asked = {} if claim is None else session.state.questions_of([claim])
    return {
        "answer": None if told is None else answer(session, told),
        "claim": None if claim is None else _claim(claim),
        "skip": None if aside is None else _skip(aside),
        "why": asked.get(position, {}).get("why"),
    }


def skips(session: Session) -> list[Row]:
    seen = session.state.snapshot()
    return [{**session.name(each.position), **_skip(each)} for each in seen.skips]


def _skip(skip: Skip) -> Row:
    return {"by": skip.by, "at": skip.at, "note": skip.note}


def answer(session: Session, told: Answer) -> Row:
    return {
        **session.name(told.position),
        "total": told.y_bar,
        "noise_std": told.noise_std,
        "by": told.by,
        "at": told.at,
        "note": told.note,
    }


def event(session: Session, event: Event) -> Row:
    position = None if event.set_id is None else session.sets.position(event.set_id)
    return {
        "number": event.number,
        "at": event.at,
        "what": event.what,
        "set": None if position is None else session.name(position),
        "total": event.y_bar,
        "noise_std": event.noise_std,
        "by": event.by,
        "note": event.note,
    }


def page(rows: list[Row], total: int, number: int, size: int) -> Row:
    return {"rows": rows, "total": total, "page": number, "size": size}
