"""`ActiveLearner`: Algorithm 1 for a notebook or script, with the answers in memory."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from sumwise.acquisition.objective import Objective, StudyOptions, read
from sumwise.acquisition.strategies import Acquisition, named, per_cost
from sumwise.data import validate
from sumwise.data.about import About, AboutOptions, weights_of
from sumwise.data.known import KNOWN, with_known
from sumwise.data.sets import LazySets, Sets
from sumwise.learning import rules, told
from sumwise.learning.algorithm import (
    Progress,
    along,
    ask,
    begin,
    fit_answers,
    quick,
    revise,
    tell_all,
)
from sumwise.learning.estimator import AggregateRegressor
from sumwise.learning.individuals import exposure_in, groups_in
from sumwise.learning.moment import (
    AHEAD,
    Fitted,
    Moment,
    answers_html,
    in_words,
    predict,
    predict_totals,
)
from sumwise.learning.parts import rows_of
from sumwise.learning.propose import FEWEST, Answer, Ask, Prices, draws_of, propose
from sumwise.learning.resolve import resolve
from sumwise.learning.selection import check_budget
from sumwise.learning.status import Status
from sumwise.learning.told import Measured, Told, check_known
from sumwise.model import fit as core
from sumwise.model.generalised.refusals import refuse_noise
from sumwise.model.predict import Predictions
from sumwise.outofcore.build import Run
from sumwise.outofcore.design_store import Embedded, as_sets
from sumwise.outofcore.spread import over
from sumwise.util.shapes import Float

if TYPE_CHECKING:
    from sumwise.learning.insight import Insight
    from sumwise.report.maps import Plot


def weighed(sets: Sets | Embedded) -> str:
    """How sets are weighed, as a key of `about.WORDS`."""
    if isinstance(sets, Sets):
        return weights_of(sets)
    return sets.scan.weights if sets.scan.weights in ("sum", "mean") else "weighted"


class LearnerOptions(StudyOptions, AboutOptions, total=False):
    """What a learner is for, and what it measures."""


def read_options(
    sets: Sets | Embedded, outputs: str, options: Mapping[str, Any], function: str
) -> tuple[Objective, About]:
    """The same, checked.

    Args:
        outputs: Of the model.
        options: As in `LearnerOptions`.
        function: Named where an option is unknown.
    """
    measured: dict[str, Any] = {name: options.get(name) for name in AboutOptions.__annotations__}
    wanted = {name: value for name, value in options.items() if name not in measured}
    if wanted.get("noise_std") is not None:
        refuse_noise(outputs)
    wishes = read(as_sets(sets), wanted, function, StudyOptions)
    return wishes, About(**{**measured, "weights": weighed(sets), "outputs": outputs})


class ActiveLearner:
    """Ask for sets and learn from their totals, in memory (the paper's Algorithm 1).

    Args:
        sets: A `Sets`, or what `AggregateRegressor.embed` has written.
        model: An `AggregateRegressor`, whose settings are used; it is not changed.
        strategy: A name or a function; see `sumwise.score`.
        seed: Of the strategy's draws, and of the basis if no model is given.
        preset: `"paper"` takes the paper's model (128 Fourier features of length-scale 1, Adam) and
            its strategy AggMI.
        known: Totals, outputs of individuals and totals of areas that are known already, as in
            `AggregateRegressor.fit`; they are among the answers, and never asked for.
        run: For a design on disk: where its parts are worked on, as in `sumwise.score`.
        **options: `outputs`, `outcome`, `unit`, `individual`, `low`, `high`, `targets`,
            `target_weights`, `noise_std`, `cost` and `enough`, as in `sumwise.create_study`.

    A learner has the same methods as a study, without names and times. The same seed and history
    give the same questions, in a study too. Use a learner in one thread only.

    >>> import numpy as np, sumwise as sw
    >>> rng = np.random.default_rng(1)
    >>> sets = sw.Sets.from_arrays([rng.normal(size=(n, 2)) for n in (2, 5, 1, 3)])
    >>> learner = sw.ActiveLearner(sets, strategy="AggMI", seed=0)
    >>> ask = learner.ask()
    >>> ask.set_id
    1
    >>> learner.tell(ask.set_id, 12.5)
    >>> learner.amend(1, 13)
    >>> learner.skip(3)
    >>> [ask.set_id for ask in learner.ask(n=2)]
    [0, 2]
    >>> learner.tell_many({2: 4.0})
    1
    >>> learner.tell(0, 3.5, of=[2])  # its second member alone
    >>> learner.labels
    {1: 13.0, 2: 4.0, 0: 3.5}
    """

    def __init__(
        self,
        sets: Sets | Embedded,
        model: AggregateRegressor | None = None,
        strategy: str | Acquisition | None = None,
        seed: int = 0,
        preset: str | None = None,
        known: Any = None,
        run: Run | None = None,
        **options: Unpack[LearnerOptions],
    ) -> None:
        plain, sets = as_sets(sets), over(sets, run)
        kind = options.get("outputs")
        config, self._strategy = resolve(model, strategy, seed, preset, sets, kind)
        self._seed, self._in_files = seed, isinstance(sets, Embedded)
        wanted, self._about = read_options(sets, config.outputs, options, "ActiveLearner")
        per_cost(self._strategy, np.zeros(len(plain)), wanted.cost)  # refuses costs without gains
        more, known_answers = with_known(plain, known, self._about)
        check_known(more, known_answers, self._about)
        if more is plain:
            self._progress = begin(config, sets, wanted)
        else:
            self._progress = begin(config, more, wanted.extended(len(more)))
        answers = [
            Answer(0, each.set_id, each.y_bar, None, each.noise_std, note=KNOWN, position=at)
            for each in known_answers
            for at in [more.position(each.set_id)]
        ]
        self._progress = tell_all(self._progress, answers)

    # --- asking and telling -------------------------------------------------------------------

    def ask(self, n: int | None = None, *, budget: float | None = None) -> Any:
        """The set to measure next, or a list of `n`, chosen jointly.

        The questions stay the same until an answer or a skipped set changes what is known.

        Args:
            n: One question if left out, or with a budget a list of as many as it pays for.
            budget: Ask only for what this pays for, as in `Study.ask`. Earlier questions are not
                subtracted from it.
        """
        now, wanted = self._progress, 1 if n is None else validate.count(n, "n")
        before = now.open
        if budget is None:
            now = ask(now, self._strategy, self._seed, wanted, runner_up=True)
            said = now.open[: len(before)], map(self._in_words, now.open[len(before) :])
            now = replace(now, open=(*said[0], *said[1]))
        else:
            money = check_budget(budget, now.objective.cost)
            now = replace(now, open=(), questions=now.questions - len(now.open))
            now.state.free(len(now.pool.sets), least=1)  # refuses to ask where nothing is left
            wanted = len(now.pool.sets) if n is None else wanted
            bought = self._next(now, wanted, money)
            now = replace(now, open=tuple(bought), questions=now.questions + len(bought))
        self._progress = now
        one = n == 1 or (n is None and budget is None)
        return now.open[0] if one else list(now.open[:wanted])

    def propose(self, n: int = 5, *, budget: float | None = None) -> list[Ask]:
        """The questions that follow the open ones; fewer if fewer sets are free.

        This asks for nothing: the result of `ask` stays the same.

        Args:
            budget: As in `ask`.
        """
        wanted, money = validate.count(n, "n"), check_budget(budget, self.aims.cost)
        return self._next(self._progress, wanted, money)

    def _next(self, now: Progress, n: int, budget: float = math.inf) -> list[Ask]:
        n = min(n, int(now.state.free(len(now.pool.sets)).sum()))
        if not n:
            return []
        seen = self._fit(now).pool, now.model, self._strategy, now.state, draws_of(self._seed)
        asks = propose(*seen, n=n, prices=Prices(now.objective.cost, budget))
        return [self._in_words(each) for each in asks]

    def _in_words(self, question: Ask) -> Ask:
        now = self._progress
        aimed = now.objective.targets is not None
        return in_words(question, self._about, now.pool.sets, self._ranges, aimed)

    def tell(
        self,
        set_id: Hashable,
        y_bar: float,
        noise_std: float | None = None,
        *,
        of: Sequence[Hashable] | None = None,
        covers: float | None = None,
    ) -> None:
        """Record the measured total of a set, whether or not it was asked for.

        Args:
            noise_std: Standard deviation of this measurement's known noise, in addition to that of
                its individuals, such as noise added for privacy.
            of, covers: The part of the set that the total covers, as in `Study.tell`.
        """
        new = self._measured.checked(Told(set_id, y_bar, noise_std, of, covers))
        known = self._answer(new.position)
        if known is None:
            self._progress = tell_all(self._progress, self._with_noise([new]))
        elif rules.total(known) != rules.total(new):
            raise rules.another_total(known, new)

    def tell_many(
        self,
        set_ids: Any,
        y_bar: Any = None,
        noise_std: Any = None,
        *,
        of: Any = None,
        covers: Any = None,
    ) -> int:
        """Record totals of many sets, all of them or none; returns how many were new.

        Args:
            set_ids, y_bar, noise_std, of, covers: As in `Study.tell_many`.
        """
        where, sets = "row {}".format, self._progress.pool.sets
        many = told.listed(sets, set_ids, y_bar, noise_std=noise_std, of=of, covers=covers)
        given = self._with_noise(self._measured.all_checked(many, where))
        fresh = told.not_yet_known(given, self.answers, where)
        self._progress = tell_all(self._progress, list(fresh.values()))
        return len(fresh)

    def amend(
        self,
        set_id: Hashable,
        y_bar: float,
        noise_std: float | None = None,
        *,
        of: Sequence[Hashable] | None = None,
        covers: float | None = None,
    ) -> None:
        """Correct an answer; without `noise_std` it keeps its known noise, and 0 removes it.

        Args:
            of, covers: The part of the set that it covers; as in `Study.amend`.
        """
        said = Told(set_id, y_bar, noise_std, of, covers)
        new = self._measured.checked(said, self._answer)
        known = self._known(new.position)
        (new,) = self._with_noise([new])
        noise = rules.noise_of(known, new, keep=said.keeps_noise)
        new = replace(known, y_bar=new.y_bar, noise_std=noise, of=new.of, covers=new.covers)
        if new != known:
            changed = [new if each is known else each for each in self.answers]
            self._progress = revise(self._progress, changed)

    def retract(self, set_id: Hashable) -> None:
        """Withdraw an answer: its set may be asked for again, unless known from the start."""
        known = self._known(self._progress.pool.sets.position(set_id))
        kept = [each for each in self.answers if each is not known]
        now = revise(self._progress, kept)
        extra = [known.position] if known.position >= now.pool.sets.n_asked else []
        self._progress = replace(now, skipped=tuple(sorted({*now.skipped, *extra})))

    def skip(self, set_id: Hashable) -> None:
        """Exclude a set that cannot be measured: it is not asked for."""
        now, position = self._progress, self._progress.pool.sets.position(set_id)
        if self._answer(position) is not None:
            raise rules.nothing_to_skip(now.pool.sets.ids[position])
        skipped = tuple(sorted({*now.skipped, position}))
        self._progress = replace(now, skipped=skipped, open=())

    def unskip(self, set_id: Hashable) -> None:
        """Allow a skipped set to be asked for again."""
        now, position = self._progress, self._progress.pool.sets.position(set_id)
        if position not in now.skipped:
            raise rules.not_skipped(now.pool.sets.ids[position])
        left = tuple(other for other in now.skipped if other != position)
        self._progress = replace(now, skipped=left, open=(), ceiling=None)

    @property
    def _measured(self) -> Measured:
        return Measured(self._progress.pool.sets, self._about, self._in_files)

    def _with_noise(self, new: list[Answer]) -> list[Answer]:
        now = self._progress

        def model() -> core.Model:
            answers = told.together(now.answers, new)
            data = now.pool.sets, now.pool.design.rows, answers
            return fit_answers(now.prepared, *data, now.model)

        return told.with_sampling_noise(new, now.pool.sets, model)

    def _answer(self, position: int) -> Answer | None:
        return next((each for each in self.answers if each.position == position), None)

    def _known(self, position: int) -> Answer:
        known = self._answer(position)
        if known is None:
            raise rules.not_measured(self._progress.pool.sets.ids[position])
        return known

    # --- looking ------------------------------------------------------------------------------

    def predict(
        self,
        frame: Any = None,
        level: float = 0.9,
        *,
        groups: Any = None,
        exposure: Any = None,
    ) -> Predictions:
        """Predict the outputs of all individuals, set by set, or of the rows of a table.

        Args:
            frame, level, groups, exposure: As in `Study.predict`.
        """
        sets, about = self._progress.pool.sets, self._about
        groups = groups_in(sets, frame) if groups is None else groups
        if exposure is None and about.outputs != "numbers":
            exposure = exposure_in(sets, frame)
        people = self.model, lambda: self.sets
        return predict(*people, frame, level, groups, about, exposure=exposure)

    def predict_sets(self, level: float = 0.9) -> Predictions:
        """Predict the total of every set, measured or not."""
        return predict_totals(self._fit(self._progress), level, self._about)

    def expected(
        self, set_id: Hashable, of: Sequence[Hashable] | None = None
    ) -> tuple[float, float] | None:
        """Mean and standard deviation of a set's total, predicted from the answers of other sets.

        None where `Study.expected` has none.

        Args:
            of: Of the total of these members alone, as in `tell`.
        """
        now, sets = self._progress, self._progress.pool.sets
        position = sets.position(set_id)
        rows = None if of is None else rows_of(sets, position, of)
        others = [each for each in self.answers if each.position != position]
        if len(others) < FEWEST or not quick(now.prepared):
            return None
        whole = Answer(0, sets.ids[position], 0.0, position=position, of=rows)
        return self._fit(revise(now, others)).expected(whole)

    def status(self) -> Status:
        """The progress of the learner, and how much there is still to learn."""
        return self._moment().status()

    def insight(self, level: float = 0.9) -> Insight:
        """The prediction and the information of each answer, the coverage of intervals, and what to
        ask next.

        Args:
            level: Probability of the intervals that answers are compared with.
        """
        return self._moment().insight(partial(along, self._progress, self.answers), level)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write a page that opens in any browser, offline, such as "report.html"."""
        from sumwise.report.study_page import write

        return write(self, path)

    @property
    def plot(self) -> Plot:
        """Charts: `plot.map(map="districts.geojson", map_id="code")`, and those of the report."""
        from sumwise.report.maps import Plot

        return Plot(self)

    def _fit(self, now: Progress) -> Fitted[Progress]:
        pool = now.objective.apply(now.pool, now.model)
        return Fitted(now.model, pool, now.pool.design, now, self._ranges)

    @cached_property
    def _ranges(self) -> Float[np.ndarray, "2 A"] | None:
        sets = self._progress.pool.sets
        return self._about.ranges(sets) if self._about.bounded else None

    def _moment(self) -> Moment[Progress]:
        now, name = self._progress, named(self._strategy).name
        without = self._without if quick(now.prepared) else None
        ahead = self._next(now, AHEAD)
        return Moment("learner", name, self._fit(now), now.objective, ahead, without, self._about)

    def _without(self, answer: Answer) -> Fitted[Progress]:
        others = [each for each in self.answers if each is not answer]
        return self._fit(revise(self._progress, others))

    def _repr_html_(self) -> str:
        return answers_html(repr(self), self.answers)

    def __repr__(self) -> str:
        total = self._progress.pool.sets.n_asked
        answered = sum(each.position < total for each in self.answers)
        return (
            f"ActiveLearner: {answered} of {total} sets measured, strategy {self._strategy!r}, "
            f"{AggregateRegressor.from_config(self._progress.prepared.config)!r}"
        )

    @property
    def model(self) -> AggregateRegressor:
        """The model after all answers so far; before the first, the prior."""
        now = self._progress
        return AggregateRegressor.from_fitted(now.prepared.config, now.model, now.pool.sets)

    @property
    def labels(self) -> Mapping[Hashable, float]:
        """Measured totals by set id, in order of arrival."""
        return {answer.set_id: answer.y_bar for answer in self.answers}

    @property
    def sets(self) -> Sets:
        """The sets that the learner asks for."""
        sets = self._progress.pool.sets
        return sets.whole if isinstance(sets, LazySets) and not self._in_files else sets

    @property
    def seed(self) -> int:
        """Seed of the strategy's random draws."""
        return self._seed

    @property
    def aims(self) -> Objective:
        """Costs, known noise, targets and the threshold that the learner was made with."""
        return self._progress.objective

    @property
    def about(self) -> About:
        """What is measured: the outcome, its unit and bounds, and how sets are weighted."""
        return self._about

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The present answers with their questions, in order of arrival."""
        return self._progress.answers

    @property
    def history(self) -> tuple[Answer, ...]:
        """The same as `answers`."""
        return self.answers
