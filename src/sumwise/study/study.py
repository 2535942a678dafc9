"""`Study`: ask and tell over weeks, by several people, kept in a database.

What changes over time lives in the database alone: a `Study` object can be thrown away at any
moment, and any number of them may work on the same study.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sumwise.acquisition.objective import Objective
from sumwise.data import validate
from sumwise.data.about import About
from sumwise.data.geo import Geometry, from_geoparquet
from sumwise.data.maps import Map, read_map
from sumwise.data.parquet import Scan
from sumwise.data.sets import Sets, rows_among
from sumwise.errors import SettingError
from sumwise.learning import told
from sumwise.learning.estimator import AggregateRegressor
from sumwise.learning.individuals import exposure_in, groups_in
from sumwise.learning.moment import AHEAD, Moment, answers_html, predict, predict_totals
from sumwise.learning.parts import rows_of
from sumwise.learning.pools import rows_in
from sumwise.learning.propose import FEWEST, Answer, Ask
from sumwise.learning.selection import check_budget
from sumwise.learning.status import Status
from sumwise.learning.told import Measured, Told
from sumwise.model.fit import Model
from sumwise.model.predict import Predictions
from sumwise.study.state import Fit, StudyState
from sumwise.study.storage import records
from sumwise.study.storage.blobs import pack_map, unpack_map, version_of
from sumwise.study.storage.database import Database
from sumwise.study.storage.records import Claim, Event, Skip, Snapshot, StudyRecord
from sumwise.study.storage.transactions import Transaction, transaction
from sumwise.util.text import count

if TYPE_CHECKING:
    from sumwise.learning.insight import Insight
    from sumwise.report.maps import Plot

T = TypeVar("T")
MOST_AT_ONCE: Final = 1000  # questions, where there are not more sets


class Study:
    """A study in a database; make one with `create_study` or `open_study`.

    The same answers in the same order give the same questions, also after restarts.

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
        self._state = StudyState(database, kept)
        self._reading = threading.Lock()

    @property
    def state(self) -> StudyState:
        """The data that methods and the labelling page use; replaced when the pool changes.

        A method reads it once, so that it uses the same sets throughout.
        """
        with self._reading:
            kept = self._state.record
            with self._database.read() as connection:
                if version_of(connection, kept.id) != kept.blobs.version:
                    anew = records.load(connection, kept.name, self._database)
                    self._state = StudyState(self._database, anew)
                self._state.renew(connection)
            return self._state

    # --- asking and telling -------------------------------------------------------------------

    def ask(
        self, n: int | None = None, by: str | None = None, *, budget: float | None = None
    ) -> Any:
        """The set to measure next, or a list of `n`, chosen jointly.

        Each is claimed for `by` until it is told, released, or expires. New questions are chosen as
        if all open ones were answered, so no set is asked for twice.

        Args:
            n: One question if left out, or with a budget a list of as many as it pays for.
            budget: Ask only for what this pays for, in the units of the study's costs. Of three
                ways to spend it, the one that gains most is used; see `sumwise.select`.
        """
        state = self.state
        money = check_budget(budget, state.record.aims.cost)
        most = 1 if budget is None else len(state.record.sets)
        most = most if n is None else _questions(state, n)
        claimed = state.claim([validate.text(by, "by")] * most, budget=money)
        return claimed[0] if n == 1 or (n is None and budget is None) else claimed

    def claim(self, set_id: Hashable, by: str | None = None) -> Ask:
        """Reserve a set of your own choice, as if it had been asked for.

        In a study that designs its sets, it may be one of the first five that `propose` gives.
        """
        state, owner = self.state, validate.text(by, "by")
        if state.record.designing is not None and set_id not in state.record.sets:
            claimed = state.claim_proposed(set_id, owner)
            if claimed is not None:
                return claimed[0]
        position = state.record.sets.position(set_id)
        return state.claim([owner], wanted=position)[0]

    def propose(self, n: int = 5, *, budget: float | None = None) -> list[Ask]:
        """The next questions, without claiming anything; fewer if fewer sets are free.

        Args:
            budget: As in `ask`.
        """
        state = self.state
        wanted = validate.count(n, "n") if state.record.designing is None else _questions(state, n)
        money = check_budget(budget, state.record.aims.cost)
        return state.propose(state.snapshot(), wanted, money)

    def tell(
        self,
        set_id: Hashable,
        y_bar: float,
        by: str | None = None,
        note: str | None = None,
        noise_std: float | None = None,
        *,
        of: Sequence[Hashable] | None = None,
        covers: float | None = None,
    ) -> None:
        """Record the measured total of a set, asked for or not; it is on disk when this returns.

        Args:
            noise_std: Standard deviation of this measurement's known noise, in addition to that of
                its individuals, such as noise added for privacy. If it is left out, a designed pool
                has the noise in the study's rules.
            of: The members that the total covers, if it does not cover all: ids of rows if the sets
                have them (`Sets.row_ids`), otherwise their numbers within the set, from 1. The
                others are predicted as members outside the total. If means are measured, it is the
                mean of these members.
            covers: The share of the set's weight that the total covers, if its members are not
                known. They are assumed to be a random sample of the set. The total is divided by
                the share (a mean is not), and gets the noise of sampling without replacement: the
                standard deviation within the set that the model expects after the answers so far
                and this one, times √((1 − c) / c · Σθ²). Both are stored and do not change later.
        """
        self.record(set_id, y_bar, by, note, noise_std, of=of, covers=covers)

    def tell_many(
        self,
        set_ids: Any,
        y_bar: Any = None,
        by: Any = None,
        note: Any = None,
        noise_std: Any = None,
        where: Callable[[int], str] = "row {}".format,
        *,
        of: Any = None,
        covers: Any = None,
    ) -> int:
        """Record totals of many sets, all of them or none; returns how many were new.

        Args:
            set_ids: Ids of the sets; `y_bar` has their totals in the same order. Or both in one: a
                dict, a pandas Series or a data frame by id, as in `AggregateRegressor.fit`.
            by: One name for all answers, or one for each; `note`, `noise_std` and `covers` as well.
            of: The members that each total covers as in `tell`, and None for a whole set.
            where: Takes the number of an answer, from 0, and says in a refusal where it is.
        """
        state = self.state
        columns = {"noise_std": noise_std, "of": of, "covers": covers, "by": by, "note": note}
        many = told.listed(state.record.sets, set_ids, y_bar, **columns)
        given = self._with_noise(state, _measured(state).all_checked(many, where))
        with transaction(self._database, state.record) as change:
            return change.tell_many(given, where)

    def amend(
        self,
        set_id: Hashable,
        y_bar: float,
        by: str | None = None,
        note: str | None = None,
        noise_std: float | None = None,
        *,
        of: Sequence[Hashable] | None = None,
        covers: float | None = None,
    ) -> None:
        """Correct an answer; without `noise_std` it keeps its known noise, and 0 removes it.

        It covers the same members as before, unless `of` or `covers` say otherwise; `covers=1`
        means the whole set. An answer that was scaled up from a share needs one of the two.
        """
        self.record(set_id, y_bar, by, note, noise_std, correct=True, of=of, covers=covers)

    def record(
        self,
        set_id: Hashable,
        y_bar: float,
        by: str | None = None,
        note: str | None = None,
        noise_std: float | None = None,
        *,
        correct: bool = False,
        of: Sequence[Hashable] | None = None,
        covers: float | None = None,
    ) -> tuple[Answer, bool]:
        """`tell`, or `amend` if `correct`; returns the answer as stored, and whether it is new."""
        state = self.state
        said = Told(set_id, y_bar, noise_std, of, covers, by, note)
        new = _measured(state).checked(said, state.answer if correct else None)
        (new,) = self._with_noise(state, [new])
        with transaction(self._database, state.record) as change:
            if correct:
                return change.amend(new, keep_noise=said.keeps_noise)
            return change.tell(new)

    def retract(self, set_id: Hashable, by: str | None = None, note: str | None = None) -> None:
        """Withdraw an answer: its set may be asked for again, and the history keeps the answer."""
        self._change(Transaction.retract, set_id, by=by, note=note)

    def release(self, set_id: Hashable, by: str | None = None) -> None:
        """Give up a claim, so that others may be asked for the set."""
        self._change(Transaction.release, set_id, by=by)

    def skip(self, set_id: Hashable, by: str | None = None, note: str | None = None) -> None:
        """Exclude a set that cannot be measured, with a reason: it is not asked for.

        If a study designs its sets, a skipped individual is in no further pool, and members of a
        skipped pool count as used.
        """
        self._change(Transaction.skip, set_id, by=by, note=note)

    def unskip(self, set_id: Hashable, by: str | None = None) -> None:
        """Allow a skipped set to be asked for again."""
        self._change(Transaction.unskip, set_id, by=by)

    def renew(self, set_id: Hashable, days: float | None = None, by: str | None = None) -> str:
        """Extend a claim by some days from now; returns the new time it expires."""
        longer = self._state.record.claim_days if days is None else validate.days(days, "days")
        return self._change(Transaction.renew, set_id, longer, by=by)

    def change_pool(
        self,
        *,
        add: Any = None,
        drop: Any = None,
        correct: Any = None,
        group: Any = None,
        id: Any = None,
        weights: Any = None,
        cost: float | None = None,
        noise_std: float | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> str:
        """Let individuals join, leave, move or be corrected, all of them or none.

        An answer belongs to the members that its set had when it was measured. If they change, the
        former set keeps the answer under another name, and the set may be asked for again.
        Corrected inputs do not change members, so answers stay with their sets. The basis is drawn
        again, as if the study had begun with this pool. Returns what has changed, in words.

        Args:
            add: A table of individuals that join, with their set and the study's input columns.
                Sets that do not exist yet are added.
            drop: A table of individuals that leave. A set without members leaves the pool.
            correct: A table of individuals with the columns to correct. If rows have ids, another
                set in the column of the set moves them. This splits and merges sets.
            group: The column that names the set, or several as in `Sets.from_frame`; if left out,
                those that the sets were made with, or `set`.
            id: The column with the individual's id; the one that the sets were made with, or `id`.
                If the study's rows have no ids, they are named by their set and a column `row` (1
                for the first), as in predictions.
            weights: The column with θ of those who join, where individuals have weights.
            cost: What measuring each new set costs, in a study with costs.
            noise_std: Known noise of each new set, in a study with known noise.

        >>> import tempfile, pandas as pd, sumwise as sw
        >>> table = pd.DataFrame({"set": list("aabb"), "id": [1, 2, 3, 4], "x": [0.0, 1, 2, 4]})
        >>> sets = sw.Sets.from_frame(table, by="set", x=["x"], id="id")
        >>> study = sw.create_study(tempfile.mkdtemp() + "/small.db", sets)
        >>> study.tell("a", 3.0)
        >>> study.change_pool(add=pd.DataFrame({"set": ["b", "c"], "id": [5, 6], "x": [1.0, 3]}))
        '2 individuals joined 2 sets, 1 set new'
        >>> study.ids
        ('a', 'b', 'c')
        """
        from sumwise.data.pool_tables import columns_of
        from sumwise.study import pool_change

        tables = pool_change.read_tables({"add": add, "drop": drop, "correct": correct})
        state = self.state
        named = columns_of(state.record.sets, tables.values(), group, id)
        columns = dataclasses.replace(named, weights=weights)
        who, said = validate.text(by, "by"), validate.text(note, "note")
        of_new = {"cost": cost, "noise_std": noise_std}
        return pool_change.change(state, tables, columns, of_new, who, said)

    def refresh_pool(
        self,
        files: Any = None,
        *,
        cost: float | None = None,
        noise_std: float | None = None,
        by: str | None = None,
        note: str | None = None,
        run: Any = None,
    ) -> str:
        """Take the Parquet files of a study on a design as they are now.

        Finds new, changed and removed files, and embeds again only what has changed. Sets of new
        files join the pool. An answer belongs to the members that its set had when it was measured:
        if a set has more or fewer rows now, its former members keep the answer under another name,
        and the set may be asked for again. A set with as many rows as before counts as corrected,
        and keeps its answer. The basis stays as it was drawn. Returns what has changed, in words.

        Args:
            files: Where to look, as in `Sets.scan_parquet`; where they were found if left out.
            cost: What measuring each new set costs, in a study with costs.
            noise_std: Known noise of each new set, in a study with known noise.
            run: As in `AggregateRegressor.embed`.
        """
        from sumwise.study import pool_refresh

        who, said = validate.text(by, "by"), validate.text(note, "note")
        of_new = {"cost": cost, "noise_std": noise_std}
        return pool_refresh.refresh(self.state, files, of_new, who, said, run)

    def add_map(
        self, map: Any, map_id: str | Sequence[str] | None = None, by: str | None = None
    ) -> str:
        """Store a map, in place of the one that there may be; gives what was matched, in words.

        Args:
            map: A file (GeoJSON, GeoPackage or GeoParquet), a GeoDataFrame, or GeoJSON as Python
                has it: a shape for each set or for each individual, found out by their ids.
            map_id: Its column with the ids, or several; if left out, those that the sets or their
                rows were made with.
        """
        who, state = validate.text(by, "by"), self.state
        found, said = read_map(map, map_id, state.record.sets)
        if isinstance(found, Geometry):
            raise SettingError(
                "the map names each set as often as it has individuals; give map_id, a column in "
                "which each shape has its own id"
            )
        with transaction(self._database, state.record) as change:
            change.add_map(pack_map(found), who, said)
        return said

    def _change(self, rule: Callable[..., T], set_id: Hashable, *values: Any, **texts: Any) -> T:
        kept = self.state.record
        position = kept.sets.position(set_id)
        checked = {name: validate.text(text, name) for name, text in texts.items()}
        with transaction(self._database, kept) as change:
            return rule(change, position, *values, **checked)

    def _with_noise(self, state: StudyState, new: list[Answer]) -> list[Answer]:
        def model() -> Model:
            seen = state.snapshot()
            answers = told.together(seen.answers, new)
            return state.fit_anew(dataclasses.replace(seen, answers=answers)).model

        return told.with_sampling_noise(new, state.record.sets, model)

    # --- looking ------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the study in its database."""
        return self._state.record.name

    @property
    def location(self) -> str:
        """The path or the URL of the database, without its password."""
        return self._database.shown

    @property
    def seed(self) -> int:
        """Seed of the strategy's random draws."""
        return self._state.record.seed

    @property
    def aims(self) -> Objective:
        """Costs, known noise, targets and the threshold that the study was made with."""
        kept = self.state.record
        if not kept.pool.retired:
            return kept.aims
        some = kept.pool.positions(len(kept.sets))
        noise, cost = (v if v is None else v[some] for v in (kept.aims.noise_std, kept.aims.cost))
        return dataclasses.replace(kept.aims, noise_std=noise, cost=cost)

    @property
    def about(self) -> About:
        """What is measured: the outcome, its unit and bounds, and how sets are weighted."""
        return self._state.record.about

    @property
    def sets(self) -> Sets:
        """The sets that the study asks for; if it designs sets, its individuals and pools."""
        return self.state.people

    @property
    def ids(self) -> tuple[Hashable, ...]:
        """Ids of the sets; of a large study, without reading their individuals.

        If a study designs its sets, those that exist: pools are named `pool 1`, `pool 2`, …
        """
        kept = self.state.record
        if kept.designing is not None:
            return tuple(kept.sets.ids[at] for at in kept.designing.positions(len(kept.sets)))
        if not kept.pool.retired:
            return kept.sets.ids
        return tuple(kept.sets.ids[at] for at in kept.pool.positions(len(kept.sets)))

    @property
    def pools(self) -> dict[Hashable, tuple[Hashable, ...]]:
        """The members of each designed pool, in order; their weights are in `sets`."""
        kept = self.state.record
        if kept.designing is None:
            return {}
        names, places = kept.designing.names, range(kept.designing.n_begun, len(kept.sets))
        each = rows_in(kept.designing.candidates, kept.sets.take(places))
        members = (tuple(names[row] for row in rows.tolist()) for rows, _ in each)
        return dict(zip((kept.sets.ids[at] for at in places), members, strict=True))

    @property
    def scan(self) -> Scan | None:
        """The Parquet files of the individuals, if the study is on a design on disk."""
        made = self._state.record.embedded
        return None if made is None else made.scan

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The present answers, in order of arrival."""
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
        """Number of sets that are measured, and number that may be asked for or were designed."""
        state = self.state
        seen, sets, designing = state.snapshot(), state.record.sets, state.record.designing
        if designing is not None:
            counted, done, *_ = designing.counts(seen.state)
            return done, counted
        measured = sum(answer.position < sets.n_asked for answer in seen.answers)
        return measured, seen.sets - sets.origin.extra

    def history(self) -> tuple[Event, ...]:
        """All events, the oldest first."""
        kept = self.state.record
        with self._database.read() as connection:
            return records.history(connection, kept)

    @property
    def model(self) -> AggregateRegressor:
        """The model after all answers so far; before the first, the prior."""
        return _model(self.state)

    def predict(
        self,
        frame: Any = None,
        level: float = 0.9,
        *,
        groups: Any = None,
        exposure: Any = None,
    ) -> Predictions:
        """Predict the outputs of all individuals, set by set, or of the rows of a table.

        Members of a measured set are predicted given its total, and add up to it. If the study has
        bounds (`low`, `high`), means are moved within them and intervals are cut there; `std` is
        not changed.

        Args:
            frame: A data frame with the study's input columns, or an (n, D) array.
            level: Probability of the interval from `lower` to `upper`.
            groups: Id of the set that each row of `frame` belongs to, as in
                `AggregateRegressor.predict`. If left out, the columns that name the study's sets,
                if `frame` has them all.
            exposure: Of each row of `frame`, or its number of trials, if counts, shares or amounts
                are measured. If left out, the column that the study's sets were made with. If
                `frame` lacks it, rates are predicted. The study's own individuals have their own
                exposures.
        """
        state = self.state
        sets, about = state.record.sets, state.record.about
        groups = groups_in(sets, frame) if groups is None else groups
        if exposure is None and about.outputs != "numbers":
            exposure = exposure_in(sets, frame)
        people = _model(state), lambda: state.people
        whole = lambda: state.whole  # noqa: E731
        return predict(*people, frame, level, groups, about, whole, exposure)

    def predict_sets(self, level: float = 0.9) -> Predictions:
        """Predict the total of every set, measured or not."""
        state = self.state
        kept = state.record
        which = kept.pool.positions(kept.sets.n_asked) if kept.pool.retired else None
        if kept.designing is not None:
            which = kept.designing.positions(len(kept.sets))
        return predict_totals(state.fitted(), level, state.record.about, which)

    def expected(
        self, set_id: Hashable, of: Sequence[Hashable] | None = None
    ) -> tuple[float, float] | None:
        """Mean and standard deviation of a set's total, predicted from the answers of other sets.

        None before there are three of them, and for models that take long to learn.

        Args:
            of: Of the total of these members alone, as in `tell`.
        """
        state = self.state
        position, seen = state.record.sets.position(set_id), state.snapshot()
        others = tuple(a for a in seen.answers if a.position != position)
        if len(others) < FEWEST or not state.models.quick:
            return None
        fit, sets = state.fit_anew(dataclasses.replace(seen, answers=others)), state.record.sets
        rows = None if of is None else rows_of(sets, position, of)
        return fit.expected(Answer(0, sets.ids[position], 0.0, position=position, of=rows))

    def status(self) -> Status:
        """The progress of the study, and how much there is still to learn."""
        return self._moment(self.state).status()

    def insight(self, level: float = 0.9) -> Insight:
        """The prediction and the information of each answer, the coverage of intervals, and what to
        ask next; nothing is claimed.

        Args:
            level: Probability of the intervals that answers are compared with.
        """
        state = self.state
        moment = self._moment(state)
        return moment.insight(partial(state.models.along, moment.fit.seen.answers), level)

    def _moment(self, state: StudyState) -> Moment[Snapshot]:
        kept, fit = state.record, state.fitted()
        ahead = state.propose(fit.seen, AHEAD)
        without = partial(self._without, state, fit, ahead) if state.models.quick else None
        fit, aims = state.with_proposed(fit, ahead)
        about = kept.about, kept.designing
        return Moment(kept.name, kept.strategy, fit, aims, ahead, without, *about)

    def _without(self, state: StudyState, fit: Fit, ahead: Sequence[Ask], answer: Answer) -> Fit:
        others = tuple(told for told in fit.seen.answers if told is not answer)
        found = state.fit_anew(dataclasses.replace(fit.seen, answers=others))
        return state.with_proposed(found, ahead)[0]

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the study as a page that opens in any browser, offline, such as "report.html"."""
        from sumwise.report.study_page import write

        return write(self, path)

    @property
    def geometry(self) -> tuple[bytes | None, ...] | None:
        """The geometry of each individual as WKB, in the order of `sets.x`, if there are any."""
        known = self.shapes
        return None if known is None else tuple(known.wkb)

    @property
    def map(self) -> Map | None:
        """The map that was given, its shapes as they came; None if there is none."""
        state = self.state
        with self._database.read() as connection:
            packed = state.record.blobs.map(connection)
        return None if packed is None else unpack_map(packed)

    @property
    def shapes(self) -> Geometry | None:
        """Geometries of individuals as `geometry` has them, with their coordinate system."""
        state = self.state
        with self._database.read() as connection:
            packed = state.record.blobs.geometry(connection)
        if packed is None:
            return None
        known, ids = from_geoparquet(packed)[0], state.people.ids[: state.people.n_asked]
        rows = rows_among(state.record.sets, ids)
        return dataclasses.replace(known, wkb=[known.wkb[row] for row in rows])

    @property
    def plot(self) -> Plot:
        """Charts: `plot.map()`, and those of the report, such as `plot.panel("progress")`."""
        from sumwise.report.maps import Plot

        return Plot(self)

    def export(self, folder: Any) -> Path:
        """Write everything to a folder of CSV, Parquet and JSON, for `import_study` or others.

        Args:
            folder: A folder that does not exist yet or is empty.
        """
        from sumwise.study import export as exported

        state = self.state
        return exported.write(folder, self._database, state.record, state.whole)

    def close(self) -> None:
        """Close the connections to the database."""
        self._database.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        return answers_html(repr(self), self.answers)

    def __repr__(self) -> str:
        state = self.state
        seen, strategy, (measured, sets) = state.snapshot(), state.record.strategy, self.progress
        designing = state.record.designing
        done = f"{measured} of {sets} sets"
        if designing is not None:
            done = count(measured, "pool" if designing.alone else "set")
        return (
            f"Study {self.name!r}: {done} measured, "
            f"{count(len(seen.claims), 'open question')}, strategy {strategy!r}"
        )


def _questions(state: StudyState, n: Any) -> int:
    """How many questions are asked for at once."""
    wanted, most = validate.count(n, "n"), max(MOST_AT_ONCE, len(state.record.sets))
    if wanted > most:
        raise SettingError(f"n is {wanted!r:.60}; ask for at most {most} sets at once")
    return wanted


def _measured(state: StudyState) -> Measured:
    kept = state.record
    planned = None if kept.designing is None else kept.designing.planned(kept.aims)
    return Measured(kept.sets, kept.about, kept.embedded is not None, planned)


def _model(state: StudyState) -> AggregateRegressor:
    kept, fitted = state.record, state.fitted().model
    return AggregateRegressor.from_fitted(kept.prepared.config, fitted, kept.sets)
