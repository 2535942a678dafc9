"""What holds in a study's database at every moment, whatever happened to whom.

Everything is replayed from the events alone, by rules that are written down here once more, and
compared with the tables row by row: an answer without its event, an event without its answer, a
counter that ran ahead or a claim that outlived its answer are all found.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from itertools import pairwise

import sqlalchemy as sa

from sumwise.study.storage.database import Database
from sumwise.study.storage.schema import (
    VERSION,
    answers,
    claims,
    events,
    files,
    pools,
    skips,
    studies,
    version,
)


@dataclass
class Replay:
    """A study as its events tell it."""

    answers: dict[int, tuple] = field(default_factory=dict)  # position: arrival, total, noise, …
    claims: dict[int, tuple] = field(default_factory=dict)  # position: number, by, asked, expires
    skips: dict[int, tuple] = field(default_factory=dict)  # position: by, note, at
    numbers: list[int] = field(default_factory=list)  # of questions, in order of asking
    events: list = field(default_factory=list)
    seen: set[int] = field(default_factory=set)  # positions
    arrivals: int = 0
    changes: int = 0

    def apply(self, event) -> None:
        """One line of history; raises where it could not have happened."""
        position, what = event.position, event.what
        self.events.append(event)
        self.seen |= {position} - {None}
        if what == "asked":
            question = json.loads(event.question)
            assert position not in self.answers, f"{position} was asked after it was measured"
            assert position not in self.claims, f"{position} was claimed twice"
            assert question["by"] == event.by
            self.numbers.append(question["number"])
            held = question["number"], event.by, event.at, question["expires"]
            self.claims[position] = held
            self.skips.pop(position, None)
        elif what == "told":
            assert position not in self.answers, f"{position} was told twice"
            said = event.y_bar, event.noise_std, event.by, event.note, event.at
            self.answers[position] = (self.arrivals, *said)
            self.arrivals += 1
            self.claims.pop(position, None)
            self.skips.pop(position, None)
        elif what == "amended":
            said = event.y_bar, event.noise_std, event.by, event.note, event.at
            self.answers[position] = (self.answers[position][0], *said)
        elif what == "retracted":
            assert self.answers.pop(position)[1:3] == (event.y_bar, event.noise_std)
        elif what == "renewed":
            self.claims[position] = (*self.claims[position][:3], event.note)
        elif what in ("released", "expired"):
            *_, expires = self.claims.pop(position)
            assert what == "released" or expires <= event.at, f"{position} was still held"
        elif what == "skipped":
            assert position not in self.answers, f"{position} was skipped after it was measured"
            self.claims.pop(position, None)
            self.skips[position] = event.by, event.note, event.at
        elif what == "unskipped":
            del self.skips[position]
        elif what == "upgraded":
            assert position is None
        else:
            raise AssertionError(f"nobody knows what {what!r} is")


def replayed(rows) -> Replay:
    """Events that were written by one transaction have the same time and count as one change."""
    assert rows[0].what == "created"
    assert rows[0].position is None
    replay = Replay()
    for before, event in pairwise(rows):
        replay.apply(event)
        replay.changes += (before.at, before.what == "told") != (event.at, event.what == "told")
    return replay


def check(place, name: str = "study") -> Replay:
    """Find anything that is not as it must be with this study; gives what its events tell."""
    database = Database(place)
    try:
        with database.read() as connection:
            if database.path is not None:
                assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
                assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
            assert connection.execute(sa.select(version)).scalars().all() == [VERSION]
            mine = sa.select(studies).where(studies.c.name == name)
            return _check_study(connection, connection.execute(mine).one())
    finally:
        database.close()


def names(place) -> list[str]:
    """Of the studies there."""
    database = Database(place)
    try:
        with database.read() as connection:
            return list(connection.execute(sa.select(studies.c.name)).scalars())
    finally:
        database.close()


def _check_study(connection: sa.Connection, study) -> Replay:
    def rows(table, order=None):
        mine = sa.select(table).where(table.c.study_id == study.id)
        return connection.execute(mine if order is None else mine.order_by(order)).all()

    for file in rows(files):
        assert hashlib.sha256(file.content).hexdigest() == file.sha256, file.name
    replay = replayed(rows(events, events.c.id))
    told = {
        row.position: (row.arrival, row.y_bar, row.noise_std, row.by, row.note, row.at)
        for row in rows(answers)
    }
    held = {row.position: (row.number, row.by, row.asked, row.expires) for row in rows(claims)}
    assert told == replay.answers
    assert held == replay.claims
    assert {row.position: (row.by, row.note, row.at) for row in rows(skips)} == replay.skips
    assert replay.numbers == list(range(study.questions)), "question numbers have gaps"
    assert (study.arrivals, study.changes) == (replay.arrivals, replay.changes)
    assert not told.keys() & held.keys(), "a measured set is still claimed"
    designed = [row.position for row in rows(pools, pools.c.position)]
    begun = designed[0] if designed else 1 + max(replay.seen, default=0)
    assert designed == [*range(begun, begun + len(designed))], "pools are missing"
    assert {at for at in replay.seen if at >= begun} == {*designed}, "a pool and no question"
    return replay
