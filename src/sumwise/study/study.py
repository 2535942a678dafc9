"""`Study`: ask and tell over weeks, by several people, kept in a database.

What changes over time lives in the database alone: a `Study` object can be thrown away at any
moment, and any number of them may work on the same study. Questions are worked out without a lock
and claimed in a short transaction, if nobody else has been asked meanwhile; whoever is overtaken
twice works them out while holding the lock.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from sumwise.acquisition.objective import Objective
from sumwise.data import validate
from sumwise.data.lazy import whole
from sumwise.data.parquet import Scan
from sumwise.data.sets import Sets
from sumwise.learning.estimator import AggregateRegressor
from sumwise.learning.propose import FEWEST, Answer, Ask, propose
from sumwise.learning.selection import check_budget
from sumwise.learning.status import Status, outlook
from sumwise.model import predict as outputs
from sumwise.model.design import Pool
from sumwise.model.fit import Model
from sumwise.model.prediction_table import Predictions, check_level, individuals
from sumwise.study import model_cache
from sumwise.study.storage import records, transactions
from sumwise.study.storage.database import Database
from sumwise.study.storage.records import Claim, Event, Skip, Snapshot, StudyRecord
from sumwise.util.text import count

if TYPE_CHECKING:
    from sumwise.learning.insight import Insight

OVERTAKEN = 2  # how often before the lock is held while thinking


class Study:
    """A study in a database; make one with `create_study` or `open_study`.

    The same answers in the same order give the same questions, whatever was restarted in between.

    >>> import tempfile, numpy as np, sumwise as sw
    >>> rng = np.random.default_rng(1)
    >>> sets = sw.Sets.from_arrays([rng.normal(size=(n, 2)) for n in (2, 5, 1, 3)])
    >>> path = tempfile.mkdtemp() + "/schools.db"
    >>> study = sw.create_study(path, sets, seed=0)
    >>> study.ask(by="ann").set_id
    1
    >>> study.tell(1, 12.5, by="ann")
    >>> study.close()
    >>> sw.open_study(path)
    Study 'study': 1 of 4 sets measured, 0 open questions, strategy 'IVR'
    """

    def __init__(self, database: Database, kept: StudyRecord) -> None:
        self._database = database
        self._kept = kept
        self._models = model_cache.Models(database, kept)

    # --- asking and telling -------------------------------------------------------------------

    def ask(
        self, n: int | None = None, by: str | None = None, *, budget: float | None = None
    ) -> Any:
        """The set to measure next, or a list of `n` that are good together.

        Each is claimed by whoever asked until it is told, released, or expires. Questions are
        chosen as if all open ones were answered, so nobody is asked the same thing twice.

        Args:
            n: One question if left out, or with a budget a list of as many as it pays for.
            budget: Ask only for what this pays for, in the units of the study's costs.
        """
        money = check_budget(budget, self._kept.aims.cost)
        most = 1 if budget is None else len(self._kept.sets)
        most = most if n is None else validate.count(n, "n")
        claimed = self._claimed(most, validate.text(by, "by"), budget=money)
        return claimed[0] if n == 1 or (n is None and budget is None) else claimed

    def claim(self, set_id: Hashable, by: str | None = None) -> Ask:
        """Hold a set of one's own choice, as if it had been asked for."""
        own, who = self._own(set_id), validate.text(by, "by")
        return self._claimed(1, who, self._kept.sets.position(own))[0]

    def propose(self, n: int = 5) -> list[Ask]:
        """What would be asked next, without claiming anything; fewer if not so many are free."""
        wanted, seen = validate.count(n, "n"), self._snapshot()
        taken = len(seen.answers) + len(seen.claims) + len(seen.skips)
        free = min(wanted, len(self._kept.sets) - taken)
        return self._propose(seen, free) if free > 0 else []

    def tell(
        self,
        set_id: Hashable,
        y_bar: float,
        by: str | None = None,
        note: str | None = None,
        noise_std: float | None = None,
    ) -> None:
        """The measured total of a set, asked for or not; kept for good when this returns.

        Args:
            noise_std: Standard deviation of noise that this measurement is known to have beside
                that of its individuals, such as noise added for privacy.
        """
        own, value, noise = self._checked(set_id, y_bar, noise_std)
        who, why = validate.text(by, "by"), validate.text(note, "note")
        with self._database.write() as connection:
            transactions.tell(connection, self._kept, own, value, noise, who, why)

    def tell_many(
        self,
        set_ids: Any,
        y_bar: Any,
        by: Any = None,
        note: Any = None,
        noise_std: Any = None,
        where: Callable[[int], str] = "row {}".format,
    ) -> int:
        """Totals of many sets, all or none of them kept; gives how many were new.

        Args:
            set_ids: Ids of the sets, and `y_bar` their totals in the same order.
            by: Of all answers, or one for each; `note` and `noise_std` likewise.
            where: Names an answer, by its number from 0, where it is refused.
        """
        rows = transactions.answers_given(self._checked, set_ids, y_bar, by, note, noise_std, where)
        with self._database.write() as connection:
            return transactions.tell_many(connection, self._kept, rows, where)

    def amend(
        self,
        set_id: Hashable,
        y_bar: float,
        by: str | None = None,
        note: str | None = None,
        noise_std: float | None = None,
    ) -> None:
        """Correct an answer; without `noise_std` it keeps the noise it had, and 0 takes it away."""
        own, value, noise = self._checked(set_id, y_bar, noise_std)
        who, why = validate.text(by, "by"), validate.text(note, "note")
        with self._database.write() as connection:
            transactions.amend(
                connection, self._kept, own, value, noise, noise_std is None, who, why
            )

    def retract(self, set_id: Hashable, by: str | None = None, note: str | None = None) -> None:
        """Take an answer back: its set may be asked for again, and history keeps what was said."""
        own, who, why = self._own(set_id), validate.text(by, "by"), validate.text(note, "note")
        with self._database.write() as connection:
            transactions.retract(connection, self._kept, own, who, why)

    def release(self, set_id: Hashable, by: str | None = None) -> None:
        """Give a claimed set back, so that others may be asked for it."""
        own, who = self._own(set_id), validate.text(by, "by")
        with self._database.write() as connection:
            transactions.release(connection, self._kept, own, who)

    def skip(self, set_id: Hashable, by: str | None = None, note: str | None = None) -> None:
        """Set a set aside that cannot be measured, with a reason: nobody is asked for it."""
        own, who, why = self._own(set_id), validate.text(by, "by"), validate.text(note, "note")
        with self._database.write() as connection:
            transactions.skip(connection, self._kept, own, who, why)

    def unskip(self, set_id: Hashable, by: str | None = None) -> None:
        """A set that was skipped may be asked for again."""
        own, who = self._own(set_id), validate.text(by, "by")
        with self._database.write() as connection:
            transactions.unskip(connection, self._kept, own, who)

    def renew(self, set_id: Hashable, days: float | None = None, by: str | None = None) -> str:
        """Hold a claimed set for some more days from now; gives the new time it expires."""
        own, who = self._own(set_id), validate.text(by, "by")
        longer = self._kept.claim_days if days is None else validate.days(days, "days")
        with self._database.write() as connection:
            return transactions.renew(connection, self._kept, own, longer, who)

    # --- looking ------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the study in its database."""
        return self._kept.name

    @property
    def seed(self) -> int:
        """Of the strategy's draws."""
        return self._kept.seed

    @property
    def aims(self) -> Objective:
        """Costs, known noise, targets and the threshold that the study was made with."""
        return self._kept.aims

    @property
    def sets(self) -> Sets:
        """The sets that the study asks for."""
        return whole(self._kept.sets)

    @property
    def ids(self) -> tuple[Hashable, ...]:
        """Ids of the sets; of a large study, without reading their individuals."""
        return self._kept.sets.ids

    @property
    def scan(self) -> Scan | None:
        """The Parquet files that the individuals are in, of a study on a design on disk."""
        return None if self._kept.embedded is None else self._kept.embedded.scan

    @property
    def answers(self) -> tuple[Answer, ...]:
        """Answers as they stand, in order of arrival."""
        return self._snapshot().answers

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Open questions, in order of asking."""
        return self._snapshot().claims

    @property
    def skips(self) -> tuple[Skip, ...]:
        """Sets that nobody is asked for."""
        return self._snapshot().skips

    def history(self) -> tuple[Event, ...]:
        """Everything that ever happened, in order."""
        with self._database.read() as connection:
            return records.history(connection, self._kept)

    @property
    def model(self) -> AggregateRegressor:
        """The model after all answers so far; before the first, the prior."""
        fitted, _ = self._models.after(self._snapshot().answers)
        return AggregateRegressor.from_fitted(self._kept.config, fitted, self._kept.sets)

    def predict(self, frame: Any = None, level: float = 0.9) -> Predictions:
        """Outputs of individuals: of all in the study, set by set, or of the rows of a table.

        Args:
            frame: A data frame with the study's input columns, or an (n, D) array.
            level: Of the interval from `lower` to `upper`.
        """
        share, model = check_level(level), self.model
        if frame is not None:
            mean, std = model.predict(frame, return_std=True)
            return Predictions.of(mean, std, share)
        fitted, sets = model.fitted(), self.sets
        mean = outputs.predict_mean(fitted, sets.x)[:, 0]
        std = outputs.predict_std(fitted, sets.x, include_noise=True)[:, 0]
        return Predictions.of(mean, std, share, **individuals(sets))

    def predict_sets(self, level: float = 0.9) -> Predictions:
        """What measuring each set is expected to give, sets that are measured included."""
        share = check_level(level)
        seen, ids = self._snapshot(), self._kept.sets.ids
        (fitted, pool), answers = self._aimed(seen), seen.answers
        mean, std = outputs.predict_sets(fitted, pool.design, include_noise=True)
        measured = np.full(len(ids), np.nan)
        measured[[answer.position for answer in answers]] = [answer.y_bar for answer in answers]
        told = {"measured": np.ma.masked_invalid(measured)}
        return Predictions.of(mean[:, 0], std[:, 0], share, ids, told)

    def expected(self, set_id: Hashable) -> tuple[float, float] | None:
        """Mean and standard deviation of a set's total by the answers of all other sets.

        None before three of them are there, and for models that take long to learn.
        """
        position = self._kept.sets.position(set_id)
        seen = self._snapshot()
        others = tuple(a for a in seen.answers if a.position != position)
        if len(others) < FEWEST or not model_cache.quick(self._kept):
            return None
        fitted, pool = self._aimed(dataclasses.replace(seen, answers=others))
        rows = pool.design.rows([position])
        mean, std = outputs.predict_sets(fitted, rows, include_noise=True)
        return float(mean[0, 0]), float(std[0, 0])

    def status(self) -> Status:
        """Where the study stands, and how much there is still to learn."""
        return self._status(self._snapshot())

    def insight(self, level: float = 0.9) -> Insight:
        """What each answer was expected to be and what it taught, whether intervals are right, and
        what to ask next; nothing is claimed.

        Args:
            level: Of the intervals that answers are compared with.
        """
        from sumwise.learning.insight import Answers, review, trace

        share, seen = check_level(level), self._snapshot()
        told = Answers(
            [answer.position for answer in seen.answers],
            np.array([answer.y_bar for answer in seen.answers]),
            np.array([answer.noise_std or 0.0 for answer in seen.answers]),
        )
        fitted, pool = self._models.after(seen.answers)
        whose = dataclasses.replace(self._kept.aims, noise_std=None)  # answers bring their own
        pool = whose.apply(pool, fitted)
        steps = trace(pool, partial(self._models.along, seen.answers), told)
        status, ahead = self._status(seen), list[Ask]()
        if status.next_questions:
            ahead = self._propose(seen, status.next_questions)
        return review(pool, fitted, steps, told, status, level=share, ahead=ahead)

    def _status(self, seen: Snapshot) -> Status:
        kept = self._kept
        fitted, pool = self._aimed(seen)
        left = outlook(pool, fitted, kept.strategy, **self._asking(seen))
        counts = (len(kept.sets), len(seen.answers), len(seen.claims), len(seen.skips))
        left |= {"enough": kept.aims.enough, "aimed": kept.aims.targets is not None}
        return Status(kept.name, kept.strategy, *counts, seen.questions, **left)

    def export(self, folder: Any) -> Path:
        """Write everything to a new folder of CSV, Parquet and JSON, for `import_study` or others.

        Args:
            folder: Must not be there yet, or be empty.
        """
        from sumwise.study import export as exported

        return exported.write(folder, self._database, self._kept, self.sets)

    def close(self) -> None:
        """Let go of the database; the study stays as it is."""
        self._database.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        seen = self._snapshot()
        return (
            f"Study {self.name!r}: {len(seen.answers)} of {len(self._kept.sets)} sets measured, "
            f"{count(len(seen.claims), 'open question')}, strategy {self._kept.strategy!r}"
        )

    # --- helpers ------------------------------------------------------------------------------

    def _snapshot(self) -> Snapshot:
        with self._database.read() as connection:
            return records.snapshot(connection, self._kept)

    def _asking(self, seen: Snapshot) -> dict[str, Any]:
        return {
            "state": seen.state,
            "seed": self._kept.seed,
            "cost": self._kept.aims.cost,
        }

    def _aimed(self, seen: Snapshot, connection: sa.Connection | None = None) -> tuple[Model, Pool]:
        """The model, and the sets as strategies see them: with targets and known noise."""
        fitted, pool = self._models.after(seen.answers, connection)
        return fitted, self._kept.aims.apply(pool, fitted)

    def _claimed(
        self,
        n: int,
        owner: str | None,
        wanted: int | None = None,
        budget: float = math.inf,
    ) -> list[Ask]:
        """Questions that are claimed; worked out without a lock as long as nobody is quicker."""
        for _ in range(OVERTAKEN):
            seen = self._snapshot()
            questions = self._propose(seen, n, wanted=wanted, budget=budget)
            with self._database.write() as connection:
                claimed = transactions.ask(connection, self._kept, seen, questions, owner)
            if claimed is not None:
                return claimed
        with self._database.write() as connection:
            seen = records.snapshot(connection, self._kept, lock=True)
            questions = self._propose(seen, n, connection, wanted=wanted, budget=budget)
            claimed = transactions.ask(connection, self._kept, seen, questions, owner)
        assert claimed is not None  # nobody can change what is locked
        return claimed

    def _propose(
        self,
        seen: Snapshot,
        n: int,
        connection: sa.Connection | None = None,
        *,
        wanted: int | None = None,
        budget: float = math.inf,
    ) -> list[Ask]:
        if wanted is not None:
            transactions.refuse_taken(seen, wanted)
        fitted, pool = self._aimed(seen, connection)
        asking = {**self._asking(seen), "n": n, "wanted": wanted, "budget": budget}
        return propose(pool, fitted, self._kept.strategy, **asking)

    def _own(self, set_id: Hashable) -> Hashable:
        return self._kept.sets.ids[self._kept.sets.position(set_id)]  # 4.0 finds the set 4

    def _checked(
        self, set_id: Hashable, y_bar: Any, noise_std: Any
    ) -> tuple[Hashable, float, float | None]:
        own = self._own(set_id)
        value = validate.total(y_bar, own)
        noise = None if noise_std is None else validate.noise(noise_std, own)
        return own, value, noise or None
