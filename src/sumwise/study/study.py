"""`Study`: ask and tell over weeks, by several people, kept in a database.

What changes over time lives in the database alone: a `Study` object can be thrown away at any
moment, and any number of them may work on the same study.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from sumwise.acquisition.objective import Objective
from sumwise.data import validate
from sumwise.data.matching import by_id
from sumwise.data.parquet import Scan
from sumwise.data.sets import LazySets, Sets
from sumwise.errors import LabelError, SettingError, SumwiseError
from sumwise.learning.contradictions import contradictions
from sumwise.learning.estimator import AggregateRegressor
from sumwise.learning.left_out import Judged, left_out, suspects
from sumwise.learning.propose import FEWEST, Answer, Ask
from sumwise.learning.selection import check_budget
from sumwise.learning.status import Status, outlook
from sumwise.model.predict import Predictions, check_level, individuals
from sumwise.study.state import Fit, StudyState
from sumwise.study.storage import records
from sumwise.study.storage.database import Database
from sumwise.study.storage.records import Claim, Event, Skip, StudyRecord
from sumwise.study.storage.transactions import Transaction, refusal, transaction
from sumwise.util.text import count

if TYPE_CHECKING:
    from sumwise.learning.insight import Insight

AHEAD: Final = 5  # questions that status and insight look at
SAMPLE: Final = 2000  # sets whose predictions are compared with and without an answer
T = TypeVar("T")


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
        self.state = StudyState(database, kept)  # what the labelling page needs beside the methods

    # --- asking and telling -------------------------------------------------------------------

    def ask(
        self, n: int | None = None, by: str | None = None, *, budget: float | None = None
    ) -> Any:
        """The set to measure next, or a list of `n` that are good together.

        Each is claimed for `by` until it is told, released, or expires. Questions are chosen as if
        all open ones were answered, so no set is asked for twice.

        Args:
            n: One question if left out, or with a budget a list of as many as it pays for.
            budget: Ask only for what this pays for, in the units of the study's costs: the sets
                that gain most in all, of three ways to spend it; see `sumwise.select`.
        """
        money = check_budget(budget, self._kept.aims.cost)
        most = 1 if budget is None else len(self._kept.sets)
        most = most if n is None else validate.count(n, "n")
        claimed = self.state.claim([validate.text(by, "by")] * most, budget=money)
        return claimed[0] if n == 1 or (n is None and budget is None) else claimed

    def claim(self, set_id: Hashable, by: str | None = None) -> Ask:
        """Hold a set of one's own choice, as if it had been asked for."""
        position = self._kept.sets.position(set_id)
        return self.state.claim([validate.text(by, "by")], wanted=position)[0]

    def propose(self, n: int = 5) -> list[Ask]:
        """The next questions, without claiming anything; there are fewer if fewer sets are free."""
        wanted = validate.count(n, "n")
        return self.state.propose(self.state.snapshot(), wanted)

    def tell(
        self,
        set_id: Hashable,
        y_bar: float,
        by: str | None = None,
        note: str | None = None,
        noise_std: float | None = None,
    ) -> None:
        """Record the measured total of a set, asked for or not; it is on disk when this returns.

        Args:
            noise_std: Standard deviation of noise that this measurement is known to have beside
                that of its individuals, such as noise added for privacy.
        """
        self.record(set_id, y_bar, by, note, noise_std)

    def tell_many(
        self,
        set_ids: Any,
        y_bar: Any = None,
        by: Any = None,
        note: Any = None,
        noise_std: Any = None,
        where: Callable[[int], str] = "row {}".format,
    ) -> int:
        """Record totals of many sets, all of them or none; gives how many were new.

        Args:
            set_ids: Ids of the sets; `y_bar` has their totals in the same order. Or both in one: a
                dict, a pandas Series or a data frame by id, as in `AggregateRegressor.fit`.
            by: One name for all answers, or one for each; `note` and `noise_std` likewise.
            where: Takes the number of an answer, from 0, and says in a refusal where it is.
        """
        if y_bar is None:
            named = by_id(set_ids, self._kept.sets, "totals", LabelError)
            if named is None:
                raise SettingError("totals are missing; give y_bar, or a dict of totals by id")
            set_ids, y_bar = named
        ids = validate.as_list(set_ids, "set_ids")
        if not ids:
            raise SettingError("no answers were given; give at least one set id and its total")
        columns = [_column("y_bar", validate.as_list(y_bar, "y_bar"), len(ids))]
        for name, values in (("noise_std", noise_std), ("by", by), ("note", note)):
            columns.append(_column(name, values, len(ids)))
        given = []
        for number, row in enumerate(zip(ids, *columns, strict=True)):
            try:
                given.append(self._checked(*row))
            except SumwiseError as error:
                raise refusal(error, where(number)) from None
        with transaction(self._database, self._kept) as change:
            return change.tell_many(given, where)

    def amend(
        self,
        set_id: Hashable,
        y_bar: float,
        by: str | None = None,
        note: str | None = None,
        noise_std: float | None = None,
    ) -> None:
        """Correct an answer; without `noise_std` it keeps the noise it had, and 0 takes it away."""
        self.record(set_id, y_bar, by, note, noise_std, correct=True)

    def record(
        self,
        set_id: Hashable,
        y_bar: float,
        by: str | None = None,
        note: str | None = None,
        noise_std: float | None = None,
        *,
        correct: bool = False,
    ) -> tuple[Answer, bool]:
        """`tell`, or `amend` if `correct`; gives the answer as stored, and whether it is new."""
        new = self._checked(set_id, y_bar, noise_std, by, note)
        with transaction(self._database, self._kept) as change:
            if correct:
                return change.amend(new, keep_noise=noise_std is None)
            return change.tell(new)

    def retract(self, set_id: Hashable, by: str | None = None, note: str | None = None) -> None:
        """Withdraw an answer: its set may be asked for again, and history keeps what was said."""
        self._change(Transaction.retract, set_id, by=by, note=note)

    def release(self, set_id: Hashable, by: str | None = None) -> None:
        """Give a claimed set back, so that others may be asked for it."""
        self._change(Transaction.release, set_id, by=by)

    def skip(self, set_id: Hashable, by: str | None = None, note: str | None = None) -> None:
        """Set a set aside that cannot be measured, with a reason: it is not asked for."""
        self._change(Transaction.skip, set_id, by=by, note=note)

    def unskip(self, set_id: Hashable, by: str | None = None) -> None:
        """Let a set that was skipped be asked for again."""
        self._change(Transaction.unskip, set_id, by=by)

    def renew(self, set_id: Hashable, days: float | None = None, by: str | None = None) -> str:
        """Hold a claimed set for some more days from now; gives the new time it expires."""
        longer = self._kept.claim_days if days is None else validate.days(days, "days")
        return self._change(Transaction.renew, set_id, longer, by=by)

    def _change(self, rule: Callable[..., T], set_id: Hashable, *values: Any, **texts: Any) -> T:
        position = self._kept.sets.position(set_id)
        checked = {name: validate.text(text, name) for name, text in texts.items()}
        with transaction(self._database, self._kept) as change:
            return rule(change, position, *values, **checked)

    def _checked(self, set_id: Hashable, y_bar: Any, noise_std: Any, by: Any, note: Any) -> Answer:
        position = self._kept.sets.position(set_id)
        own = self._kept.sets.ids[position]  # 4.0 finds the set 4
        return Answer(
            number=0,
            set_id=own,
            y_bar=validate.total(y_bar, own),
            noise_std=(None if noise_std is None else validate.noise(noise_std, own)) or None,
            by=validate.text(by, "by"),
            note=validate.text(note, "note"),
            position=position,
        )

    # --- looking ------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the study in its database."""
        return self._kept.name

    @property
    def location(self) -> str:
        """The path or the URL of the database, without its password."""
        return self._database.shown

    @property
    def seed(self) -> int:
        """Seed of the strategy's random draws."""
        return self._kept.seed

    @property
    def aims(self) -> Objective:
        """Costs, known noise, targets and the threshold that the study was made with."""
        return self._kept.aims

    @property
    def sets(self) -> Sets:
        """The sets that the study asks for."""
        sets = self._kept.sets
        return sets.whole if isinstance(sets, LazySets) else sets

    @property
    def ids(self) -> tuple[Hashable, ...]:
        """Ids of the sets; of a large study, without reading their individuals."""
        return self._kept.sets.ids

    @property
    def scan(self) -> Scan | None:
        """The Parquet files of the individuals, if the study is on a design on disk."""
        return None if self._kept.embedded is None else self._kept.embedded.scan

    @property
    def answers(self) -> tuple[Answer, ...]:
        """Answers as they stand, in order of arrival."""
        return self.state.snapshot().answers

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Open questions, in order of asking."""
        return self.state.snapshot().claims

    @property
    def skips(self) -> tuple[Skip, ...]:
        """Sets that are not asked for."""
        return self.state.snapshot().skips

    @property
    def progress(self) -> tuple[int, int]:
        """How many sets are measured, and how many may be asked for."""
        asked = self._kept.sets.n_asked
        return sum(answer.position < asked for answer in self.answers), asked

    def history(self) -> tuple[Event, ...]:
        """All events, the oldest first."""
        with self._database.read() as connection:
            return records.history(connection, self._kept)

    @property
    def model(self) -> AggregateRegressor:
        """The model after all answers so far; before the first, the prior."""
        kept, fitted = self._kept, self.state.fitted().model
        return AggregateRegressor.from_fitted(kept.prepared.config, fitted, kept.sets)

    def predict(self, frame: Any = None, level: float = 0.9, *, groups: Any = None) -> Predictions:
        """Predict the outputs of all individuals, set by set, or of the rows of a table.

        Members of a measured set are predicted given its total, so that they add up to it.

        Args:
            frame: A data frame with the study's input columns, or an (n, D) array.
            level: Probability of the interval from `lower` to `upper`.
            groups: Id of the set that each row of `frame` belongs to, as in
                `AggregateRegressor.predict`.
        """
        share = check_level(level)
        x, about = (frame, {}) if frame is not None else (self.sets.own_x, individuals(self.sets))
        return dataclasses.replace(
            self.model.intervals(x, share, groups=about.get("ids", groups)), **about
        )

    def predict_sets(self, level: float = 0.9) -> Predictions:
        """Predict the total of every set, measured or not."""
        share = check_level(level)
        fit, ids = self.state.fitted(), self._kept.sets.ids
        found = fit.intervals(share)
        measured = np.full(len(ids), np.nan)
        for answer in fit.seen.answers:
            measured[answer.position] = answer.y_bar
        told = {"measured": np.ma.masked_invalid(measured)}
        return dataclasses.replace(found, ids=ids, beside=told)

    def expected(self, set_id: Hashable) -> tuple[float, float] | None:
        """Mean and standard deviation of a set's total, predicted from the answers of other sets.

        None before there are three of them, and for models that take long to learn.
        """
        position = self._kept.sets.position(set_id)
        seen = self.state.snapshot()
        others = tuple(a for a in seen.answers if a.position != position)
        if len(others) < FEWEST or not self.state.models.quick:
            return None
        fit = self.state.fit_anew(dataclasses.replace(seen, answers=others))
        mean, std = fit.totals([position])
        return float(mean[0]), float(std[0])

    def status(self) -> Status:
        """Where the study stands, and how much there is still to learn."""
        fit = self.state.fitted()
        pool = dataclasses.replace(fit.pool, design=fit.design)  # answers bring their own noise
        judged = left_out(pool, fit.model, fit.seen.answers)
        return self._status(fit, self.state.propose(fit.seen, AHEAD), judged)

    def insight(self, level: float = 0.9) -> Insight:
        """What each answer was expected to be and what it taught, whether intervals are right, and
        what to ask next; nothing is claimed.

        Args:
            level: Probability of the intervals that answers are compared with.
        """
        from sumwise.learning.insight import review, trace

        share, fit = check_level(level), self.state.fitted()
        seen = fit.seen
        pool = dataclasses.replace(fit.pool, design=fit.design)  # answers bring their own noise
        steps = trace(pool, partial(self.state.models.along, seen.answers), seen.answers)
        ahead = self.state.propose(seen, AHEAD)
        judged = left_out(pool, fit.model, seen.answers)
        told = seen.answers, self._status(fit, ahead, judged), judged
        return review(pool, fit.model, steps, *told, level=share, ahead=ahead)

    def _status(self, fit: Fit, ahead: Sequence[Ask], judged: Judged) -> Status:
        kept, seen = self._kept, fit.seen
        left = outlook(fit.pool, fit.model, seen.state, ahead, kept.aims.cost)
        extra = [a for a in seen.answers if a.position >= kept.sets.n_asked]
        answers = len(seen.answers) - len(extra)
        skips = sum(skip.position < kept.sets.n_asked for skip in seen.skips)
        counts = (kept.sets.n_asked, answers, len(seen.claims), skips)
        left |= {"enough": kept.aims.enough, "aimed": kept.aims.targets is not None}
        quick = self.state.models.quick
        moves = partial(self._moves, fit) if quick else None
        anew = partial(self._expected, fit) if quick else None
        left["suspects"] = suspects(judged, seen.answers, moves, anew)
        left |= {"known": len(extra), "contradictions": contradictions(kept.sets, seen.answers)}
        left |= {"typical_error": judged.error, "typical_naive_error": judged.naive_error}
        return Status(kept.name, kept.strategy, *counts, seen.questions, **left)

    def _moves(self, fit: Fit, answer: Answer) -> float:
        """How far predictions move if an answer is left out: root mean square over individuals,
        those of a set taken together."""
        without = self._without(fit, answer)
        some = slice(None, None, -(-len(self._kept.sets) // SAMPLE))
        moved = fit.totals(some)[0] - without.totals(some)[0]
        squares, sizes = moved**2 / fit.design.noise_scale[some], self._kept.sets.sizes[some]
        return float(np.sqrt(squares.sum() / sizes.sum()))

    def _expected(self, fit: Fit, answer: Answer) -> tuple[float, float]:
        """Mean and standard deviation of an answer, by a fit without it."""
        mean, std = self._without(fit, answer).totals([answer.position])
        return float(mean[0]), float(np.hypot(std[0], answer.noise_std or 0.0))

    def _without(self, fit: Fit, answer: Answer) -> Fit:
        others = tuple(told for told in fit.seen.answers if told is not answer)
        return self.state.fit_anew(dataclasses.replace(fit.seen, answers=others))

    def export(self, folder: Any) -> Path:
        """Write everything to a folder of CSV, Parquet and JSON, for `import_study` or others.

        Args:
            folder: A folder that does not exist yet or is empty.
        """
        from sumwise.study import export as exported

        return exported.write(folder, self._database, self._kept, self.sets)

    def close(self) -> None:
        """Close the connections to the database."""
        self._database.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        seen, (measured, sets) = self.state.snapshot(), self.progress
        return (
            f"Study {self.name!r}: {measured} of {sets} sets measured, "
            f"{count(len(seen.claims), 'open question')}, strategy {self._kept.strategy!r}"
        )


def _column(name: str, values: Any, length: int) -> list[Any]:
    """One value for each answer; a single one stands for all."""
    if values is None or np.isscalar(values) or getattr(values, "ndim", 1) == 0:
        return [values] * length
    column = validate.as_list(values, name)
    if len(column) != length:
        raise SettingError(f"{name} has {len(column)} values for {length} sets; give one for each")
    return column
