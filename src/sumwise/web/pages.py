"""The pool and its individuals, page by page.

What is computed for all sets is kept until something changes; a page then costs a sort of one
array and a few rows. Individuals of a large study are read when a page first shows some.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from sumwise.acquisition.known_noise import given_answers, given_questions
from sumwise.errors import SettingError
from sumwise.learning import moment
from sumwise.learning.propose import information as teaches
from sumwise.model.predict import Predictions, input_columns
from sumwise.study.state import Fit
from sumwise.study.storage.records import Snapshot
from sumwise.util.shapes import Float, Int, Mask
from sumwise.util.text import shown
from sumwise.web.session import LEVEL, Session, SingleFlight, expectations

STATES: Final = ("free", "open", "answered", "skipped")
FREE, OPEN, ANSWERED, SKIPPED = range(4)


@dataclass(frozen=True, slots=True, eq=False)
class PoolView:
    """All sets at one moment; arrays have one entry per set."""

    seen: Snapshot
    fit: Fit
    size: Int[np.ndarray, " A"]
    state: Int[np.ndarray, " A"]  # an index into STATES
    expected: Float[np.ndarray, " A"]
    std: Float[np.ndarray, " A"]  # noise included
    information: Float[np.ndarray, " A"]
    answer: Float[np.ndarray, " A"]  # NaN where there is none
    by: dict[int, str | None]
    orders: dict[tuple[str, bool], Int[np.ndarray, " A"]] = field(default_factory=dict)


class PageQuery(NamedTuple):
    """Which rows a page wants."""

    page: int
    size: int
    sort: str = ""
    descending: bool = False
    search: str = ""

    def order(self, values: np.ndarray) -> Int[np.ndarray, " n"]:
        """Sorts values; NaN comes last in either direction."""
        return np.argsort(-values if self.descending else values, kind="stable")

    def of(self, rows: Any) -> Any:
        return rows[(self.page - 1) * self.size : self.page * self.size]

    def answer(self, rows: list[dict[str, Any]], total: int) -> dict[str, Any]:
        return {"rows": rows, "total": total, "page": self.page, "size": self.size}


class Pages:
    """Pages of the pool and of individuals."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.pool = session.per_change(lambda seen: _view(session, seen))
        # of all individuals, for sorting
        self._predictions = SingleFlight(
            session.state.fitted,
            lambda fit: predict(session, fit, np.arange(session.sets.n_rows))[0],
        )

    # --- sets ---------------------------------------------------------------------------------

    def sets(self, query: PageQuery, state: str = "") -> dict[str, Any]:
        view = self.pool.get()
        wanted, order = self._listed(view, query.search), self._order(view, query)
        if state:
            wanted &= view.state == STATES.index(state)
        found = order[wanted[order]]
        return query.answer(self.set_rows(view, query.of(found).tolist()), len(found))

    def _listed(self, view: PoolView, search: str) -> Mask:
        """Which sets are part of the pool, and have this text in their id.

        Where sets are designed, pools are listed with them, and found by their members, too; of
        individuals by themselves, those are listed that are measured or being measured.
        """
        people, n = self.session.people, len(view.state)
        wanted = self.session.known.holding(search)[:n]
        wanted[list(view.seen.gone)] = False
        if people is None:
            wanted[self.session.sets.n_asked :] = False  # known from the start
            return wanted
        begun = people.designing.n_begun
        if search and n > begun:
            sets, part = view.fit.pool.sets, search.casefold()
            rows = np.arange(sets.starts[begun], len(sets.x))
            found = np.array([part in text.casefold() for text in people.texts])
            within = found[people.at(sets, rows)]
            wanted[begun:] |= np.logical_or.reduceat(within, sets.starts[begun:-1] - rows[0])
        if people.designing.alone:
            wanted[:begun] &= np.isin(view.state[:begun], (OPEN, ANSWERED))
        return wanted

    def set_rows(self, view: PoolView, positions: list[int]) -> list[dict[str, Any]]:
        expected, people = expectations(view.fit, positions), self.session.people
        begun = len(view.state) if people is None else people.designing.n_begun
        return [
            {
                **self.session.name(position),
                **row,
                "size": view.size[position],
                "state": STATES[view.state[position]],
                "answer": view.answer[position],
                "information": view.information[position],
                "by": view.by.get(position),
                "designed": position >= begun,
            }
            for position, row in zip(positions, expected, strict=True)
        ]

    def _order(self, view: PoolView, query: PageQuery) -> Int[np.ndarray, " A"]:
        wanted = query.sort, query.descending
        if wanted not in view.orders:
            by_id = query.sort == "id"
            values = self.session.known.rank if by_id else getattr(view, query.sort)
            view.orders[wanted] = query.order(values[: len(view.state)])
        return view.orders[wanted]

    # --- individuals --------------------------------------------------------------------------

    def of_set(self, position: int, page: int, size: int) -> dict[str, Any]:
        """Individuals of one set."""
        return self._set_by_set(np.array([position]), PageQuery(page, size))

    def individuals(self, query: PageQuery) -> dict[str, Any]:
        known, own = self.session.known, self.session.sets.n_asked
        wanted = (self.session.known.holding(query.search) & known.in_pool)[:own]
        order = np.argsort(known.rank[:own]) if query.sort == "set" else np.arange(own)
        sorts = query.sort in ("mean", "std")
        if sorts and self.session.record.embedded is not None:
            raise SettingError(
                "individuals of this study stay in their files, and are listed set by set. A "
                "report shows those with the highest and the lowest predictions, and the files to "
                "download have all."
            )
        if self.session.people is None and not sorts:
            return self._set_by_set(order[wanted[order]], query)
        rows = np.repeat(wanted, known.sizes[:own])
        if sorts:
            found = query.order(getattr(self._predictions.get(), query.sort))
        else:
            found = np.argsort(np.repeat(np.argsort(order), known.sizes[:own]), kind="stable")
            found = found[::-1] if query.descending else found
        found = self._once(found[rows[found]])
        return query.answer(self._rows(query.of(found)), len(found))

    def _once(self, rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
        """Each individual once, where sets are designed of them."""
        if self.session.people is None:
            return rows
        first = np.unique(self.session.people.at(self.session.sets, rows), return_index=True)[1]
        return rows[np.sort(first)]

    def _set_by_set(self, order: Int[np.ndarray, " n"], query: PageQuery) -> dict[str, Any]:
        """A page of the individuals of these sets, without listing those of all pages."""
        sizes, starts = self.session.known.sizes, self.session.sets.starts
        ends = np.cumsum(sizes[order])
        total = int(ends[-1]) if len(ends) else 0
        numbers = range(total)[::-1] if query.descending else range(total)
        number = np.array(query.of(numbers), dtype=np.int64)
        at = np.searchsorted(ends, number, side="right")
        begins = ends[at] - sizes[order[at]]
        return query.answer(self._rows(starts[order[at]] + number - begins), total)

    def _rows(self, which: Int[np.ndarray, " n"]) -> list[dict[str, Any]]:
        if not len(which):
            return []
        sets, people = self.session.sets, self.session.people
        starts, own, rows = sets.starts, sets.row_ids, which
        weights: list[float | None] = [None] * len(which)
        names = [None if own is None else shown(own[row]) for row in which]
        if people is not None:  # members of pools are the study's individuals
            rows = people.own_rows(sets, which)
            for i, (row, at) in enumerate(zip(which, people.at(sets, which), strict=True)):
                if row >= starts[sets.n_asked]:
                    weights[i] = float(sets.theta[row])
                if weights[i] is not None or people.designing.alone:
                    names[i] = people.texts[at]
        found, inputs = predict(self.session, self.session.state.fitted(), rows)
        x = list(zip(*map(list, input_columns(sets, inputs).values()), strict=True))
        owners = np.searchsorted(starts, which, side="right") - 1
        values = zip(found.mean, found.std, found.lower, found.upper, strict=True)
        more = zip(*found.more.values(), strict=True) if found.more else [()] * len(which)
        columns = zip(owners.tolist(), which.tolist(), names, x, weights, values, more, strict=True)
        return [
            {
                "set": self.session.name(owner),
                "row": row - int(starts[owner]) + 1,
                "id": name,
                "inputs": [as_value(value) for value in inputs],
                "weight": weight,
                **{"mean": mean, "std": std, "lower": lower, "upper": upper},
                **dict(zip(("rate", "extrapolates"), rates, strict=False)),
            }
            for owner, row, name, inputs, weight, (mean, std, lower, upper), rates in columns
        ]


def predict(
    session: Session, fit: Fit, which: Int[np.ndarray, " n"]
) -> tuple[Predictions, Float[np.ndarray, "n D"]]:
    """What is predicted of some individuals, given the totals of the sets they are members of, and
    their inputs.

    Within bounds members of a set move together, so those that are not asked for are predicted,
    too; where sets overlap, everyone is.
    """
    sets, about = session.sets, session.record.about
    sets = sets if session.people is None else fit.pool.sets
    if about.bounded and sets.members is not None:
        everyone = session.study.model, lambda: sets, None, LEVEL, None, about
        _, first, same = np.unique(sets.members, return_index=True, return_inverse=True)
        found, at = moment.predict(*everyone), first[same[which]]
        ends = np.stack([found.lower, found.upper])
        found = Predictions(found.mean[at], found.std[at], LEVEL, ends=ends[:, at])
        return found, sets.rows_at(which)[0]
    return moment.predict_rows(fit.model, fit.seen.answers, sets, which, LEVEL, about)


def as_value(value: Any) -> float | str | None:
    """An input as JSON has it: a number, text, or None where it is missing."""
    return float(value) if isinstance(value, float | int) else value and shown(value)


def _view(session: Session, now: Snapshot) -> PoolView:
    """Predictions and information of all sets.

    Information is Eq. 21.
    """
    fit = session.state.fitted(now)
    posterior, left = fit.model.posterior, given_answers(fit.pool, fit.model)
    expected, std = fit.totals()
    information = teaches(left.design, posterior)
    held = [claim.position for claim in now.claims]
    if held:
        own, (left, after) = information[held], given_questions(left, posterior, held)
        information = teaches(left.design, after)
        information[held] = own
    state = np.zeros(len(expected), dtype=np.int64)
    answer, by = np.full(len(state), np.nan), dict[int, str | None]()
    for code, group in ((SKIPPED, now.skips), (OPEN, now.claims), (ANSWERED, now.answers)):
        for row in group:
            state[row.position], by[row.position] = code, row.by
    for each in now.answers:
        answer[each.position], information[each.position] = each.y_bar, 0.0
    size = session.known.sizes[: len(state)]
    return PoolView(now, fit, size, state, expected, std, information, answer, by)
