"""A study as the page sees it: sets by position and text, expected totals, charts and rows."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any, Final, Generic, Literal, TypeVar

import numpy as np

from sumwise.data.sets import LazySets, Sets
from sumwise.errors import UnknownSetError
from sumwise.learning.insight import Insight
from sumwise.learning.parts import design_of, part_in_words
from sumwise.learning.propose import FEWEST, Answer, Ask, arrays_of
from sumwise.model import leave_one_out
from sumwise.model.bounded import within
from sumwise.model.predict import Predictions
from sumwise.report.page import Section
from sumwise.report.panels import PANELS
from sumwise.study.state import Fit
from sumwise.study.storage.records import Event, Snapshot, StudyRecord
from sumwise.study.study import Study
from sumwise.util.shapes import Bool, Float, Int
from sumwise.util.text import ByText, by_text, find, json_ready, shown
from sumwise.web.members import People, weighted

PATIENCE: Final = 10.0  # seconds to wait for others who write, while a page is waiting
LAG: Final = 10  # a model that checks new totals may miss one in ten answers
LEVEL: Final = 0.9  # of the intervals that are shown
SHOWN: Final = ("expected", "std", "lower", "upper")
GIVEN: Final = {"designed": False, "members": None, "bound": None, "fraction": None}
_DIGITS: Final = re.compile(r"([0-9]{1,18})")

Row = dict[str, Any]
K = TypeVar("K")
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """A value that takes long, kept until its key changes: one thread computes it, others wait.

    While changes pour in, a value for the key at the time of a request would never be ready in
    time. So a waiter accepts any value whose computation started after its request.
    """

    def __init__(self, now: Callable[[], K], work: Callable[[K], V]) -> None:
        """
        Args:
            now: Gives the key, which stays equal as long as nothing has changed.
            work: Computes the value of a key.
        """
        self._now, self._work = now, work
        self._lock = threading.Lock()
        self._held: tuple[K, float, V] | None = None  # key, start of the computation, value

    def get(self) -> V:
        came, key, held = time.monotonic(), self._now(), self._held
        if held is not None and held[0] == key:
            return held[2]
        with self._lock:
            held = self._held
            if held is None or not (held[0] == key or held[1] > came):
                begun = time.monotonic()  # before the key is read, so it is no newer than the key
                key = self._now()
                held = self._held = key, begun, self._work(key)
            return held[2]


class Known:
    """What follows from the sets of a study, worked out when it is first used."""

    def __init__(self, record: StudyRecord) -> None:
        self.record = record

    def text(self, position: int) -> str:
        """The id of a set as it is shown."""
        return shown(self.record.sets.ids[position])

    @cached_property
    def by_text(self) -> ByText:
        return by_text(self.record.sets.ids)

    @cached_property
    def sizes(self) -> Int[np.ndarray, " A"]:
        """How many individuals each set has."""
        return self.record.sets.sizes

    @cached_property
    def in_pool(self) -> Bool[np.ndarray, " A"]:
        """Which sets are part of the pool; others were before it changed, or were known."""
        found = np.ones(len(self.record.sets), dtype=bool)
        found[list(self.record.pool.retired)] = False
        found[self.record.sets.n_asked :] = False
        return found

    @cached_property
    def _joined(self) -> tuple[str, Int[np.ndarray, " A"]]:
        """All texts as one, without their case, and where each ends: a tenth of what many take."""
        texts = self._folded()
        return "".join(texts), np.cumsum([len(text) for text in texts])

    def _folded(self) -> list[str]:
        return [shown(set_id).casefold() for set_id in self.record.sets.ids]

    def holding(self, part: str) -> Bool[np.ndarray, " A"]:
        """Which sets have this in their id, in capitals or not."""
        part, (text, ends) = part.casefold(), self._joined
        found = np.full(len(ends), not part)
        if part:
            hits = re.finditer(f"(?={re.escape(part)})", text)
            at = np.fromiter((hit.start() for hit in hits), np.int64)
            own = np.searchsorted(ends, at, side="right")
            found[own[at + len(part) <= ends[own]]] = (
                True  # not where one text goes over to the next
            )
        return found

    @cached_property
    def rank(self) -> Int[np.ndarray, " A"]:
        """The rank of each set in natural order: "set 9" before "set 10"."""
        texts = self._folded()
        if all(_DIGITS.fullmatch(text) for text in texts):
            return np.argsort(np.argsort(np.fromiter(map(int, texts), np.int64), kind="stable"))
        keys = [
            [int(part) if i % 2 else part for i, part in enumerate(_DIGITS.split(text))]
            for text in texts
        ]
        return np.argsort(sorted(range(len(keys)), key=keys.__getitem__))


class Session:
    """One study, for many threads."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.state = study.state
        self._known = Known(self.state.record)
        self.status = self.per_change(lambda _: study.status())
        self._insight = self.per_change(lambda _: study.insight())
        self.panels = {kind: self._panel(draw) for kind, draw in PANELS.items()}

    def per_change(self, work: Callable[[Snapshot], V]) -> SingleFlight[Snapshot, V]:
        """A value that is computed once per change of the study."""
        return SingleFlight(lambda: self.state.snapshot(), work)

    def _panel(self, draw: Callable[[Insight], Section]) -> SingleFlight[Snapshot, Row]:
        return self.per_change(lambda _: as_json(draw(self._insight.get())))

    # --- sets ---------------------------------------------------------------------------------

    @property
    def record(self) -> StudyRecord:
        """What the study is; pools that were designed are added at its end."""
        return self.state.record

    @property
    def sets(self) -> Sets:
        """Its sets; individuals of a large study are read when first used."""
        return self.record.sets

    @property
    def known(self) -> Known:
        """What follows from the sets that there are now."""
        record, held = self.record, self._known
        if held.record is not record:
            held = self._known = Known(record)
        return held

    @cached_property
    def people(self) -> People | None:
        """The individuals whom sets are designed of, if that is so."""
        designing = self.record.designing
        return None if designing is None else People.of(designing, self.sets)

    def position(self, position: int | None, text: str | None = None) -> int:
        """The position of a set that a client has named in one of two ways."""
        if position is None:
            assert text is not None
            return self.sets.position(find(self.known.by_text, text))
        if not 0 <= position < len(self.sets):
            last = len(self.sets) - 1
            raise UnknownSetError(f"there is no set {position}; positions are 0 to {last}")
        return position

    def id_at(self, position: int | None, text: str | None = None) -> Hashable:
        """The id of that set."""
        return self.sets.ids[self.position(position, text)]

    def claimable(self, position: int | None, text: str | None = None) -> Hashable:
        """The same, or the name of a pool that may be proposed."""
        if position is None and self.people is not None and text not in self.known.by_text:
            return text
        return self.id_at(position, text)

    def name(self, position: int) -> Row:
        return {"position": position, "id": self.known.text(position)}

    def name_of(self, set_id: Hashable) -> Row:
        """The name of a set, or of a pool that is proposed and has no position."""
        if set_id in self.sets:
            return self.name(self.sets.position(set_id))
        return {"position": None, "id": shown(set_id)}

    @cached_property
    def members_by(self) -> Literal["id", "row"] | None:
        """How members of a set are named; None where individuals stay in their files."""
        if self.record.embedded is not None:
            return None
        lazy = isinstance(self.sets, LazySets)  # whose rows are not read to say this
        named = self.sets.origin.id if lazy else self.sets.row_ids
        return "row" if named is None else "id"

    def spent(self, seen: Snapshot) -> float | None:
        """The cost of all answers."""
        cost = self.record.aims.cost
        return None if cost is None else cost[[answer.position for answer in seen.answers]].sum()

    @property
    def input_names(self) -> list[str]:
        """The user's columns that inputs were made of."""
        names = self.sets.input_names if self.sets.recipe is None else self.sets.recipe.names
        return [f"x{d}" for d in range(self.sets.n_inputs)] if names is None else [*map(str, names)]

    # --- what totals are expected to be ---------------------------------------------------------

    def expected(self, position: int) -> Row | None:
        """The total as a recent model predicts it, which may miss the latest answers.

        None if too little is known, or if models take long to learn and none is there yet.
        """
        fit = self.state.recent_fit(LAG)
        if fit is None or len(fit.seen.answers) < FEWEST:
            return None
        return _judging(fit, position)

    def expected_without(self, position: int) -> Row | None:
        """The total of an answered set as all other answers predict it, or all but the latest.

        λ, β and the basis are those of a model that may know the answer. None also for a dropout
        network, from which an answer cannot be left out, and for a total that follows from others.
        """
        fit = self.state.recent_fit(LAG)
        if fit is None or all(told.position != position for told in fit.seen.answers):
            return self.expected(position)  # the model does not know the answer
        if fit.model.generalised is not None:
            others = tuple(told for told in fit.seen.answers if told.position != position)
            if len(others) < FEWEST:
                return None
            fit = self.state.fit_anew(replace(fit.seen, answers=others))
            return _judging(fit, position)
        told, known = fit.seen.answers, fit.model.labelled
        if known is not None and known.overlap is not None:
            told = tuple(told[i] for i in known.overlap.kept.tolist())
        at, y_bar, noise = arrays_of(told)
        if fit.model.log_evidence is None or len(at) <= FEWEST or position not in at:
            return None
        planned, place = self.record.aims.noise_std, at.index(position)
        noise[place] = 0.0 if planned is None else planned[position]  # a new answer brings its own
        rows = design_of(fit.design.rows, self.sets, fit.pool.basis, told)
        mean, std = leave_one_out.leave_one_out(fit.model, rows, y_bar[:, None], noise)
        ends = None
        if fit.model.mixture is not None:
            ends = leave_one_out.interval(fit.model, rows, LEVEL)[0][:, [place]]
        found = Predictions(mean[place], std[place], LEVEL, ends=ends)
        if fit.ranges is not None:
            found = within(found, *fit.ranges[:, [position]])
        return _rows(found, fit.ranges, [position])[0]

    # --- rows of responses ----------------------------------------------------------------------

    def question_rows(self, asked: Sequence[Ask], seen: Snapshot | None = None) -> list[Row]:
        """Questions, with what is expected of them at a moment, or now."""
        if not asked:
            return []
        fit = self.state.fitted(seen)  # at least as new as the sets that were claimed
        positions, new = [], list[Ask]()
        for each in asked:
            if each.pool is not None and not each.expires:  # it is no set yet, whatever its name
                positions.append(len(fit.pool.sets) + len(new))
                new.append(replace(each, set_id=("proposed", len(new))))
            else:
                positions.append(self.sets.position(each.set_id))
        fit = self.state.with_proposed(fit, new)[0]
        rows = zip(asked, positions, expectations(fit, positions), strict=True)
        return [self._question_row(each, at, row) for each, at, row in rows]

    def _question_row(self, ask: Ask, position: int, expected: Row) -> Row:
        row = asdict(replace(ask, pool=None)) | expected
        if ask.pool is None:
            row |= self.name(position) | self.design_of(position)
        else:
            assert self.people is not None
            pool, known = weighted(ask.pool), {"score": ask.score, "bound": ask.pool.bound}
            row |= self.name(position) if ask.expires else {"position": None, "id": ask.set_id}
            row |= self.people.designed(pool, self.name, known)
        size = self.known.sizes[position] if ask.pool is None else len(ask.pool.rows)
        return row | {
            "size": size,
            "runner_up": None if ask.runner_up is None else self.name_of(ask.runner_up),
            "score_per_cost": ask.score_per_cost,
            "runner_up_score_per_cost": ask.runner_up_score_per_cost,
            "expires": ask.expires or None,
        }

    def design_of(self, position: int, known: Mapping[str, Any] | None = None) -> Row:
        """Who is in a set, if it was designed.

        Args:
            known: What was known of it when it was asked for.
        """
        if self.people is None or position < self.people.designing.n_begun:
            return GIVEN
        return self.people.designed(self.people.of_set(self.sets, position), self.name, known)

    def claim_rows(self, seen: Snapshot) -> list[Row]:
        """Open questions, with what is expected of them now and why they were asked."""
        if not seen.claims:
            return []
        asked, cost = self.state.questions_of(seen.claims), self.record.aims.cost
        expected = expectations(self.state.fitted(seen), [each.position for each in seen.claims])
        return [
            {
                "why": None,
                "information": None,
                **asked.get(claim.position, {}),
                **asdict(claim),
                **self.name(claim.position),
                **row,
                **self.design_of(claim.position, asked.get(claim.position)),
                "size": self.known.sizes[claim.position],
                "cost": None if cost is None else cost[claim.position],
            }
            for claim, row in zip(seen.claims, expected, strict=True)
        ]

    def about(self, seen: Snapshot, position: int) -> Row:
        """Answer, claim and skip of one set, whichever it has."""
        groups: tuple[Sequence[Any], ...] = (seen.answers, seen.claims, seen.skips)
        answer, claim, skip = (
            next((each for each in group if each.position == position), None) for group in groups
        )
        asked = {} if claim is None else self.state.questions_of([claim])
        known = asked.get(position, {})
        return {
            "answer": None if answer is None else self.answer_row(answer),
            "claim": claim,
            "skip": skip,
            "why": known.get("why"),
            **self.design_of(position, known),
            "pools": self._pools_with(position),
        }

    def _pools_with(self, position: int) -> list[Row]:
        """Pools that an individual is in, where the study began with individuals."""
        sets, people = self.sets, self.people
        if people is None or not people.designing.alone or position >= people.designing.n_begun:
            return []
        assert sets.members is not None
        rows = np.flatnonzero(sets.members == sets.members[sets.starts[position]])
        owners = np.searchsorted(sets.starts, rows, side="right") - 1
        return [self.name(at) for at in owners.tolist() if at >= people.designing.n_begun]

    def open_pools(self, by: str | None) -> list[tuple[Hashable, list[str], np.ndarray]]:
        """Names, members and weights of designed pools that are being measured.

        Args:
            by: Only those that are claimed under this name; empty: without one.
        """
        people = self.people
        if people is None:
            return []
        mine = [c for c in self.state.snapshot().claims if by is None or (c.by or "") == by]
        found: list[tuple[Hashable, list[str], np.ndarray]] = []
        for at in (claim.position for claim in mine):
            if at >= people.designing.n_begun or people.designing.alone:
                which, theta = people.of_set(self.sets, at)
                found.append((self.known.text(at), [people.texts[n] for n in which], theta))
        return found

    def skip_rows(self) -> list[Row]:
        seen = self.state.snapshot()
        return [{**asdict(skip), **self.name(skip.position)} for skip in seen.skips]

    def answer_row(self, answer: Answer) -> Row:
        position = answer.position
        row = {**asdict(answer), **self.name(position), "total": answer.y_bar}
        if answer.of is not None:
            first, names = int(self.sets.starts[position]) - 1, self.sets.row_ids
            row["of"] = [str(n) if names is None else shown(names[first + n]) for n in answer.of]
        return {**row, "part": self._part(answer, position)}

    def _part(self, told: Answer | Event, position: int) -> str | None:
        return part_in_words(told.of, told.covers, int(self.known.sizes[position]))

    def event_row(self, event: Event) -> Row:
        row = {**asdict(event), "set": None, "total": event.y_bar, "part": None}
        if event.set_id is None:
            return row
        position = self.sets.position(event.set_id)
        return {**row, "set": self.name(position), "part": self._part(event, position)}


def _judging(fit: Fit, position: int) -> Row:
    """What a total is expected to be, and what gives the probability of one as far out, if that
    judges it."""
    chance = leave_one_out.chance_of(fit.model, fit.pool.design.rows([position]))
    return {**expectations(fit, [position])[0], "chance": chance}


def expectations(fit: Fit, positions: Sequence[int]) -> list[Row]:
    """What the totals of some sets are expected to be, with the intervals that are shown."""
    rows, known = _rows(fit.intervals(LEVEL, list(positions)), fit.ranges, positions), fit.model
    if known.generalised is not None:
        kind = known.generalised.likelihood
        for row, exposure in zip(rows, fit.design.theta_sum[list(positions)], strict=True):
            ends = 0.0 if kind.whole else None, exposure if kind.capped else None
            row |= {"low": ends[0], "high": ends[1], "exposure": exposure}
    return rows


def _rows(
    found: Predictions, ranges: Float[np.ndarray, "2 A"] | None, positions: Sequence[int]
) -> list[Row]:
    """Predictions of sets with what their totals can be, where that has bounds."""
    columns = dict(zip(SHOWN, (found.mean, found.std, found.lower, found.upper), strict=True))
    if ranges is not None:
        columns["low"], columns["high"] = ranges[:, list(positions)]
    table = np.column_stack([*columns.values()]).tolist()
    return [dict(zip(columns, row, strict=True)) for row in table]


def widened(row: Row, std: float) -> Row:
    """What is expected with a larger standard deviation, and its interval in proportion.

    >>> widened({"expected": 5.0, "std": 1.0, "lower": 4.0, "upper": 7.0}, 2.0)
    {'expected': 5.0, 'std': 2.0, 'lower': 3.0, 'upper': 9.0}
    """
    mean, factor = row["expected"], std / row["std"] if row["std"] else 1.0
    ends = {end: mean + factor * (row[end] - mean) for end in ("lower", "upper")}
    return {**row, "std": std, **ends}


def as_json(panel: Section) -> Row:
    columns = list(panel.rows[0]) if panel.rows else []
    rows = [[row[column] for column in columns] for row in panel.rows]
    return {
        "title": panel.title,
        "chart": json_ready(panel.charts[0].to_dict()) if panel.charts else None,
        "words": list(panel.words),
        "table": {"columns": columns, "rows": json_ready(rows)},
    }
