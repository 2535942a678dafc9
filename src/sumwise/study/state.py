"""A study as it stands in its database: moments, models, questions and changes, for many threads.

`Study` is what users hold; this is what it and the labelling page stand on. What was read or worked
out last is kept as long as nothing has changed. Questions are worked out without a lock and claimed
in a short transaction, if no others were asked meanwhile; after being overtaken twice they are
worked out while holding the lock.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from sumwise.acquisition.objective import Objective
from sumwise.data.sets import LazySets, Sets
from sumwise.learning.designed import Sought, chosen_set, of_first, propose_pools, with_asked
from sumwise.learning.moment import Fitted, in_words
from sumwise.learning.propose import Answer, Ask, Prices, draws_of, propose, with_gains
from sumwise.model.design import Pool
from sumwise.model.fit import Model
from sumwise.study.model_cache import ModelCache
from sumwise.study.storage import records
from sumwise.study.storage.database import Connection, Database
from sumwise.study.storage.records import Claim, Event, Snapshot, StudyRecord
from sumwise.study.storage.transactions import refuse_retired, refuse_taken, transaction
from sumwise.util.shapes import Float

Fit: TypeAlias = Fitted[Snapshot]
MOST_PROPOSED = 5  # that may be claimed by name
OVERTAKEN = 2  # attempts before the lock is held while questions are worked out


class StudyState:
    """One study in its database."""

    def __init__(self, database: Database, record: StudyRecord) -> None:
        self.database = database
        self._known = record, ModelCache(database, record)
        self._renewing = threading.Lock()
        self._seen: Snapshot | None = None
        self._bounds: tuple[Sets, Float[np.ndarray, "2 A"]] | None = None
        self._fitted: Fit | None = None
        self._proposing = threading.Lock()
        self._proposed: tuple[Snapshot, int, list[Ask]] | None = None

    @property
    def record(self) -> StudyRecord:
        """What the study is, with the pools that were designed so far."""
        return self._known[0]

    @property
    def models(self) -> ModelCache:
        """Its models."""
        return self._known[1]

    def renew(self, connection: Connection) -> None:
        """Take note of pools that were designed meanwhile, by whatever program."""
        with self._renewing:
            record, models = self._known
            now = records.renewed(connection, record)
            if now is not record:
                self._known = now, models.extended(now)

    @cached_property
    def _in_pool(self) -> Sets:
        return self.record.pool.sets(self.whole)

    @property
    def people(self) -> Sets:
        """The sets of the pool with their individuals, which are read now if they were not, unless
        they stay in the user's own files."""
        return self.record.sets if self.record.designing is not None else self._in_pool

    @property
    def whole(self) -> Sets:
        """The same with sets that are not part of the pool any more."""
        sets, in_files = self.record.sets, self.record.embedded is not None
        return sets.whole if isinstance(sets, LazySets) and not in_files else sets

    # --- moments ------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The study at this moment; the same object as long as nothing has changed."""
        with self.database.read() as connection:
            seen = self._seen = records.snapshot(connection, self.record, former=self._seen)
            self.renew(connection)  # afterwards: what was seen names no pool that is not known
        return seen

    def changes(self) -> int:
        """A counter that rises with every change, made by whatever program."""
        with self.database.read() as connection:
            return int(records.state(connection, self.record, lock=False).changes)

    def answer(self, position: int) -> Answer | None:
        """The answer of one set, if there is one."""
        with self.database.read() as connection:
            return records.answer_at(connection, self.record, position)

    def history_page(self, page: int, size: int) -> tuple[int, tuple[Event, ...]]:
        """How many events there are, and one page of them, counted from 1, the newest first."""
        with self.database.read() as connection:
            found = records.event_page(connection, self.record, page, size)
            self.renew(connection)  # afterwards, as in `snapshot`
        return found

    def questions_of(self, claims: Sequence[Claim]) -> Mapping[int, Mapping[str, Any]]:
        """What was known of claimed sets when they were asked for, by their positions."""
        with self.database.read() as connection:
            return records.questions_of(connection, self.record, claims)

    # --- models -------------------------------------------------------------------------------

    def fitted(self, at: Snapshot | None = None) -> Fit:
        """The model after all answers of a moment, or of now; that of the latest is kept."""
        seen, held = at or self.snapshot(), self._fitted
        if held is not None and held.seen is seen:
            return held
        fit = self.fit_anew(seen)
        if held is None or held.seen.changes <= seen.changes:
            self._fitted = fit
        return fit

    def fit_anew(self, seen: Snapshot, *, locked: bool = False) -> Fit:
        """The same for any answers, such as those of all other sets; it is not kept."""
        record, models = self._known
        return self._fit(record, *models.after(seen.answers, locked=locked), seen)

    def _fit(self, record: StudyRecord, model: Model, pool: Pool, seen: Snapshot) -> Fit:
        aimed = record.aims.apply(pool, model)
        return Fitted(model, aimed, pool.design, seen, self._ranges(record))

    def _seeing_all(self, fit: Fit) -> Fit:
        """The same model, and the sets with pools that were designed since it was fitted."""
        record, models = self._known
        if len(fit.pool.sets) == len(record.sets):
            return fit
        return self._fit(record, fit.model, models.seen_by(fit.model), fit.seen)

    def _ranges(self, record: StudyRecord) -> Float[np.ndarray, "2 A"] | None:
        """The least and the greatest that each total can be, where outputs have bounds."""
        if not record.about.bounded:
            return None
        held = self._bounds
        if held is None or held[0] is not record.sets:
            held = self._bounds = record.sets, record.about.ranges(record.sets)
        return held[1]

    def recent_fit(self, lag: int) -> Fit | None:
        """A fitted model that need not know the latest answers.

        If models of this study are fitted at once, it misses at most one in `lag` answers and no
        correction. If they take long it is the last that was fitted, or None.
        """
        held = self._fitted
        if not self.models.quick:
            return held and self._seeing_all(held)
        if held is not None:
            with self.database.read() as connection:
                new, corrected = records.events_since(connection, self.record, held.seen.last_event)
            if not corrected and new * lag <= len(held.seen.answers):
                return self._seeing_all(held)
        return self.fitted()

    # --- questions ----------------------------------------------------------------------------

    def propose(self, seen: Snapshot, n: int, budget: float = math.inf) -> list[Ask]:
        """The next n questions, not claimed, or as many as sets are free or a budget pays for."""
        if self.record.designing is None:
            free = seen.sets - len(seen.answers) - len(seen.claims) - len(seen.skips)
            n = min(n, free)
        if n > 0 and budget < math.inf:
            return self._questions(seen, n, budget=budget, fewer=True)
        return self._next(seen, n) if n > 0 else []

    def _next(self, seen: Snapshot, n: int) -> list[Ask]:
        """The next n questions; the last are kept, so that what was shown can be asked at once."""
        with self._proposing:
            held = self._proposed
            if held is None or held[0] != seen or held[1] < n:
                held = self._proposed = seen, n, self._questions(seen, n, fewer=True)
        return held[2][:n]

    def _questions(
        self,
        seen: Snapshot,
        n: int,
        wanted: int | None = None,
        budget: float = math.inf,
        *,
        locked: bool = False,
        fewer: bool = False,
    ) -> list[Ask]:
        """
        Args:
            fewer: Give fewer questions, or none, where no more sets can be designed.
        """
        if wanted is not None:
            refuse_retired(self.record, wanted)
            refuse_taken(seen, wanted)
        fit, record = self._fit_of(seen, locked=locked)
        draws, designing = draws_of(record.seed), record.designing
        if designing is None:
            seek = fit.pool, fit.model, record.strategy, seen.state, draws
            asked = propose(*seek, n=n, wanted=wanted, prices=Prices(record.aims.cost, budget))
            known = record.about, record.sets, fit.ranges, record.aims.targets is not None
            return [in_words(ask, *known) for ask in asked]
        people = record.aims.of_targets(self.models.people(fit.model))
        sought = Sought(fit.pool, people, fit.model, record.strategy, seen.state, record.aims)
        if wanted is not None:
            asked = [chosen_set(sought, designing, draws, wanted)]
        else:
            asked = propose_pools(sought, designing, draws, n, budget, fewer=fewer)
        pool = with_asked(fit.pool, fit.model, designing, record.aims, asked)[0]
        asked = with_gains(pool, fit.model, seen.state, asked)
        ranges = record.about.ranges(pool.sets) if record.about.bounded else None
        known = record.about, pool.sets, ranges, record.aims.targets is not None
        return [in_words(ask, *known) for ask in asked]

    def _fit_of(self, seen: Snapshot, *, locked: bool) -> tuple[Fit, StudyRecord]:
        """The model of a moment, and the study with the sets that it sees."""
        fit = self.fit_anew(seen, locked=True) if locked else self.fitted(seen)
        record, models = self._known
        if len(fit.pool.sets) != len(record.sets):  # a pool was designed meanwhile
            fit = self._fit(record, fit.model, models.seen_by(fit.model), seen)
        return fit, record

    def with_proposed(self, fit: Fit, ahead: Sequence[Ask]) -> tuple[Fit, Objective]:
        """A model with the sets of questions that were not asked yet, and what is known of them."""
        record = self.record
        if record.designing is None or not ahead:
            return fit, record.aims
        known = fit.model, record.designing, of_first(record.aims, len(fit.pool.sets)), ahead
        pool, aims = with_asked(fit.pool, *known)
        plain = with_asked(replace(fit.pool, design=fit.design), *known)[0].design
        ranges = record.about.ranges(pool.sets) if record.about.bounded else None
        return fit._replace(pool=pool, design=plain, ranges=ranges), aims

    def claim(
        self, owners: Sequence[str | None], wanted: int | None = None, budget: float = math.inf
    ) -> list[Ask]:
        """Claimed questions, one for each owner, or as many as a budget pays for.

        Without a budget they are the same as if the owners had asked one after the other.

        Args:
            wanted: The position of a set to claim in place of the next one.
        """
        n, plain = len(owners), wanted is None and budget == math.inf
        for _ in range(OVERTAKEN):
            seen = self.snapshot()
            questions = self._next(seen, n) if plain else []
            if len(questions) < n:
                questions = self._questions(seen, n, wanted, budget)
            claimed = self._claimed(seen, questions, owners)
            if claimed is not None:
                return claimed
        with transaction(self.database, self.record) as change:
            claimed = None
            while claimed is None:  # what is locked cannot change, unless the clock is put back now
                seen = self.snapshot()
                change.go_on(self.record)
                questions = self._questions(seen, n, wanted, budget, locked=True)
                claimed = change.ask(seen, questions, owners)
        return claimed

    def claim_proposed(self, name: Hashable, owner: str | None) -> list[Ask] | None:
        """A pool that was proposed and is claimed by its name; None if none has that name now."""
        for _ in range(OVERTAKEN):
            seen = self.snapshot()
            named = _named(self._next(seen, MOST_PROPOSED), name, seen)
            claimed = self._claimed(seen, named, [owner]) if named else None
            if claimed is not None or not named:
                return claimed
        with transaction(self.database, self.record) as change:
            seen = self.snapshot()
            change.go_on(self.record)
            asked = self._questions(seen, MOST_PROPOSED, locked=True, fewer=True)
            named = _named(asked, name, seen)
            return change.ask(seen, named, [owner]) if named else None

    def _claimed(
        self, seen: Snapshot, questions: Sequence[Ask], owners: Sequence[str | None]
    ) -> list[Ask] | None:
        with transaction(self.database, self.record) as change:
            return change.ask(seen, questions, owners)


def _named(asked: Sequence[Ask], name: Hashable, seen: Snapshot) -> list[Ask]:
    """The question with this name, in case it is the next that is asked."""
    return [replace(ask, number=seen.questions) for ask in asked if ask.set_id == name]
