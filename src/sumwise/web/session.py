"""A study as the server sees it: one snapshot and one model for many readers, writers in turn.

This is the one part of the page that looks inside a `Study`, for three things its methods do not
give: what was read last is kept as long as nothing has changed, many people are answered in one
transaction, and a database file that has been taken away is noticed. SQLite would go on writing to
a file that was deleted, and what was acknowledged would be gone with the last connection.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import sqlalchemy as sa

from sumwise.data import validate
from sumwise.errors import StorageError, UnknownSetError
from sumwise.learning.propose import FEWEST, Ask, propose
from sumwise.model import predict
from sumwise.model.design import Design, Pool
from sumwise.model.fit import Model
from sumwise.model.leave_one_out import leave_one_out
from sumwise.study import model_cache
from sumwise.study.storage import records
from sumwise.study.storage.database import Database
from sumwise.study.storage.records import Snapshot
from sumwise.study.storage.schema import events
from sumwise.study.study import Study
from sumwise.util.text import by_text, find, shown

PATIENCE: Final = 10.0  # seconds to wait for others who write: somebody looks at a page meanwhile
BEHIND: Final = 10  # a model may miss one in so many answers where a rough idea will do

# written once: putting a statement together takes longer than running it
_MINE: Final = events.c.study_id == sa.bindparam("study")
_LAST: Final = sa.select(sa.func.max(events.c.id)).where(_MINE)
_SINCE: Final = sa.select(
    sa.func.count().filter(events.c.what == "told"),
    sa.func.count().filter((events.c.what == "amended") | (events.c.what == "retracted")),
).where(_MINE, events.c.id > sa.bindparam("last"))


def open_here(url: Any, name: str | None) -> Study:
    """`open_study`, with less patience."""
    named = validate.text(name, "name")
    database = Database(url, PATIENCE)
    try:
        database.require()
        with database.read() as connection:
            return Study(database, records.load(connection, named, database))
    except BaseException:
        database.close()
        raise


@dataclass(frozen=True, slots=True)
class Seen:
    """A study at one moment; two are the same if nothing has happened in between."""

    changes: int
    open_claims: int  # these expire without a change in the database
    snapshot: Snapshot = field(compare=False)
    last_event: int = field(compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A model, and the sets as it sees them."""

    model: Model
    pool: Pool  # with targets and known noise
    design: Design  # without: answers bring their own
    answers: int
    last_event: int


class Inside:
    """One study, for many threads."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.kept = study._kept
        self.sets = study._kept.sets  # individuals of a large study are read when they are wanted
        self.database = study._database
        self._seen: Seen | None = None
        self._turn = threading.Lock()
        self._fitting = threading.Lock()
        self._fitted: Fitted | None = None
        self._proposing = threading.Lock()
        self._proposed: tuple[Seen, list[Ask]] | None = None

    # --- sets ---------------------------------------------------------------------------------

    @cached_property
    def texts(self) -> Sequence[str]:
        """Ids as they are shown."""
        return tuple(map(shown, self.sets.ids))

    @cached_property
    def _by_text(self) -> Mapping[str, Hashable | None]:
        return by_text(self.sets.ids)

    def position(self, position: int | None, text: str | None = None) -> int:
        """The position of a set that a client has named in one of two ways."""
        if position is None:
            assert text is not None
            return self.sets.position(find(self._by_text, text))
        if not 0 <= position < len(self.sets):
            last = len(self.sets) - 1
            raise UnknownSetError(f"there is no set {position}; positions are 0 to {last}")
        return position

    def name(self, position: int) -> dict[str, Any]:
        return {"position": position, "id": self.texts[position]}

    def size(self, position: int) -> int:
        """How many individuals a set has."""
        low, high = self.sets.starts[position : position + 2].tolist()
        return int(high - low)

    def cost(self, position: int) -> float | None:
        """Of measuring a set; None where measuring has no cost."""
        cost = self.kept.aims.cost
        return None if cost is None else finite(cost[position])

    def spent(self, now: Snapshot) -> float | None:
        """On the answers of a moment."""
        cost = self.kept.aims.cost
        if cost is None:
            return None
        return finite(cost[[answer.position for answer in now.answers]].sum())

    # --- moments ------------------------------------------------------------------------------

    def changes(self) -> int:
        """One more with every change by anybody."""
        with self.database.read() as connection:
            return int(records.state(connection, self.kept, lock=False).changes)

    def seen(self) -> Seen:
        """The study as it stands; read anew only if something has happened."""
        with self.database.read() as connection:
            state, held = records.state(connection, self.kept, lock=False), self._seen
            if held is not None and held.snapshot.changes == state.changes and _in_force(held):
                return held
            last = connection.execute(_LAST, {"study": self.kept.id}).scalar() or 0
            now = records.snapshot(connection, self.kept)
        seen = Seen(now.changes, len(now.claims), now, last)
        self._seen = seen
        return seen

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Writers take turns here: SQLite would have them sleep and try again."""
        if not self._turn.acquire(timeout=PATIENCE):
            raise StorageError(
                f"many people are writing, and {PATIENCE:.0f} seconds were not enough. Nothing of "
                "this was stored; try again."
            )
        try:
            yield
        finally:
            self._turn.release()

    # --- models -------------------------------------------------------------------------------

    def fitted(self, seen: Seen) -> Fitted:
        """The model after all answers of that moment."""
        with self._fitting:
            answers = seen.snapshot.answers
            model, plain = self.study._models.after(answers)
            pool = self.kept.aims.apply(plain, model)
            held = self._fitted
            if held is None or held.model is not model or held.last_event < seen.last_event:
                held = self._fitted = Fitted(
                    model, pool, plain.design, len(answers), seen.last_event
                )
            return held

    def propose(self, seen: Seen, n: int) -> list[Ask]:
        """The next n questions; nobody has claimed them."""
        held = self._proposed
        if held is None or held[0] != seen or len(held[1]) < n:
            with self._proposing:
                held = self._proposed
                if held is None or held[0] != seen or len(held[1]) < n:
                    fitted, asking = self.fitted(seen), self.study._asking(seen.snapshot)
                    parts = (fitted.pool, fitted.model, self.kept.strategy)
                    held = self._proposed = seen, propose(*parts, n=n, **asking)
        return held[1][:n]

    def free(self, seen: Seen) -> int:
        """Sets that may be asked for."""
        now = seen.snapshot
        return len(self.sets) - len(now.answers) - len(now.claims) - len(now.skips)

    def rough_expectation(self, position: int) -> tuple[float, float] | None:
        """Mean and standard deviation of a total by a model that knows nearly all answers.

        None if too little is known. Where a model is quickly fitted, it misses at most one in ten
        answers and no correction; otherwise it is the latest that somebody else had to wait for.
        """
        fitted = self._rough()
        if fitted is None or fitted.answers < FEWEST:
            return None
        rows = fitted.pool.design.rows([position])
        mean, std = predict.predict_sets(fitted.model, rows, include_noise=True)
        return float(mean[0, 0]), float(std[0, 0])

    def expectation_without(self, position: int) -> tuple[float, float] | None:
        """The same for a set that is answered, as if it were not: by all other answers.

        The settings and the basis are those of a model that may know it. None for a dropout
        network too, which cannot forget.
        """
        fitted, told = self._rough(), self.seen().snapshot.answers
        at = [answer.position for answer in told]
        if fitted is None or fitted.model.spectrum is None or position not in at:
            return None
        if len(told) <= FEWEST:
            return None
        y_bar = np.array([[answer.y_bar] for answer in told])
        noise = np.array([answer.noise_std or 0.0 for answer in told])
        planned = self.kept.aims.noise_std  # that of the new answer may be another
        noise[at.index(position)] = 0.0 if planned is None else planned[position]
        mean, std = leave_one_out(fitted.model, fitted.design.rows(at), y_bar, noise)
        return float(mean[at.index(position), 0]), float(std[at.index(position), 0])

    def _rough(self) -> Fitted | None:
        fitted = self._fitted
        if model_cache.quick(self.kept) and (fitted is None or not self._recent(fitted)):
            fitted = self.fitted(self.seen())
        return fitted

    def _recent(self, fitted: Fitted) -> bool:
        since = {"study": self.kept.id, "last": fitted.last_event}
        with self.database.read() as connection:
            told, corrected = connection.execute(_SINCE, since).one()
        return not corrected and told * BEHIND <= fitted.answers


def _in_force(seen: Seen) -> bool:
    moment = records.now()
    return all(claim.expires > moment for claim in seen.snapshot.claims)


def finite(value: Any) -> float | None:
    """A number as JSON can hold it."""
    return float(value) if np.isfinite(value) else None
