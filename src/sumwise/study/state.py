"""A study as it stands in its database: moments, models, questions and changes, for many threads.

`Study` is what users hold; this is what it and the labelling page stand on. What was read or worked
out last is kept as long as nothing has changed. Questions are worked out without a lock and claimed
in a short transaction, if no others were asked meanwhile; after being overtaken twice they are
worked out while holding the lock.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from sumwise.data.sets import LazySets, Sets
from sumwise.learning.moment import Fitted, in_words
from sumwise.learning.propose import Answer, Ask, Prices, draws_of, propose
from sumwise.study.model_cache import ModelCache
from sumwise.study.storage import records
from sumwise.study.storage.database import Database
from sumwise.study.storage.records import Claim, Event, Snapshot, StudyRecord
from sumwise.study.storage.transactions import refuse_retired, refuse_taken, transaction
from sumwise.util.shapes import Float

Fit: TypeAlias = Fitted[Snapshot]
OVERTAKEN = 2  # attempts before the lock is held while questions are worked out


class StudyState:
    """One study in its database."""

    def __init__(self, database: Database, record: StudyRecord) -> None:
        self.database = database
        self.record = record
        self.models = ModelCache(database, record)
        self._seen: Snapshot | None = None
        self._fitted: Fit | None = None
        self._proposing = threading.Lock()
        self._proposed: tuple[Snapshot, list[Ask]] | None = None

    @cached_property
    def people(self) -> Sets:
        """The sets of the pool with their individuals, which are read now if they were not."""
        return self.record.pool.sets(self.whole)

    @property
    def whole(self) -> Sets:
        """The same with sets that are not part of the pool any more."""
        sets = self.record.sets
        return sets.whole if isinstance(sets, LazySets) else sets

    # --- moments ------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The study at this moment; the same object as long as nothing has changed."""
        with self.database.read() as connection:
            seen = self._seen = records.snapshot(connection, self.record, former=self._seen)
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
            return records.event_page(connection, self.record, page, size)

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
        model, pool = self.models.after(seen.answers, locked=locked)
        aimed = self.record.aims.apply(pool, model)
        return Fitted(model, aimed, pool.design, seen, self.ranges)

    @cached_property
    def ranges(self) -> Float[np.ndarray, "2 A"] | None:
        """The least and the greatest that each total can be, where outputs have bounds."""
        about = self.record.about
        return about.ranges(self.record.sets) if about.bounded else None

    def recent_fit(self, lag: int) -> Fit | None:
        """A fitted model that need not know the latest answers.

        If models of this study are fitted at once, it misses at most one in `lag` answers and no
        correction. If they take long it is the last that was fitted, or None.
        """
        held = self._fitted
        if not self.models.quick:
            return held
        if held is not None:
            with self.database.read() as connection:
                new, corrected = records.events_since(connection, self.record, held.seen.last_event)
            if not corrected and new * lag <= len(held.seen.answers):
                return held
        return self.fitted()

    # --- questions ----------------------------------------------------------------------------

    def propose(self, seen: Snapshot, n: int, budget: float = math.inf) -> list[Ask]:
        """The next n questions, not claimed, or as many as sets are free or a budget pays for."""
        free = seen.sets - len(seen.answers) - len(seen.claims) - len(seen.skips)
        n = min(n, free)
        if n > 0 and budget < math.inf:
            return self._questions(seen, n, budget=budget)
        return self._next(seen, n) if n > 0 else []

    def _next(self, seen: Snapshot, n: int) -> list[Ask]:
        """The next n questions; the last are kept, so that what was shown can be asked at once."""
        with self._proposing:
            held = self._proposed
            if held is None or held[0] != seen or len(held[1]) < n:
                held = self._proposed = seen, self._questions(seen, n)
        return held[1][:n]

    def _questions(
        self,
        seen: Snapshot,
        n: int,
        wanted: int | None = None,
        budget: float = math.inf,
        *,
        locked: bool = False,
    ) -> list[Ask]:
        if wanted is not None:
            refuse_retired(self.record, wanted)
            refuse_taken(seen, wanted)
        fit = self.fit_anew(seen, locked=True) if locked else self.fitted(seen)
        asked = propose(
            fit.pool,
            fit.model,
            self.record.strategy,
            seen.state,
            draws_of(self.record.seed),
            n=n,
            wanted=wanted,
            prices=Prices(self.record.aims.cost, budget),
        )
        known = self.record.about, self.record.sets, self.ranges
        return [in_words(ask, *known) for ask in asked]

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
            questions = self._next(seen, n) if plain else self._questions(seen, n, wanted, budget)
            with transaction(self.database, self.record) as change:
                claimed = change.ask(seen, questions, owners)
            if claimed is not None:
                return claimed
        with transaction(self.database, self.record) as change:
            seen = self.snapshot()
            questions = self._questions(seen, n, wanted, budget, locked=True)
            claimed = change.ask(seen, questions, owners)
        assert claimed is not None  # what is locked cannot change
        return claimed
