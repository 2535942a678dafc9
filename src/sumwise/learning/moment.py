"""A learner or a study at one moment: what its model expects, where it stands, what was learned.

`ActiveLearner` keeps answers in memory and `Study` in a database; all they say of their answers is
said here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from sumwise.acquisition.known_noise import given_answers
from sumwise.acquisition.objective import Objective
from sumwise.data.about import About
from sumwise.data.sets import Sets, rows_among
from sumwise.errors import SettingError
from sumwise.learning import gain
from sumwise.learning.contradictions import contradictions
from sumwise.learning.designed import Designing
from sumwise.learning.left_out import Judged, left_out, suspects
from sumwise.learning.parts import covered, some_members, weights_in_totals
from sumwise.learning.propose import UNKNOWN, Answer, Ask, Expected, PoolState
from sumwise.learning.status import Status, brings, outlook
from sumwise.model.bounded import possible, totals_of, within, within_overlapping
from sumwise.model.design import Design, Pool
from sumwise.model.fit import Model
from sumwise.model.leave_one_out import chance_of
from sumwise.model.predict import (
    Members,
    Predictions,
    check_level,
    in_common,
    individuals,
    interval,
    interval_sets,
    members_at,
    members_of,
    predict_sets,
)
from sumwise.model.spread import each_part, joined
from sumwise.outofcore.scanned_sets import ScannedSets
from sumwise.util import html
from sumwise.util.shapes import Float, Int, PerSet

if TYPE_CHECKING:
    from sumwise.learning.estimator import AggregateRegressor
    from sumwise.learning.insight import Halving, Insight

AHEAD: Final = 5  # questions that status and insight look at
SAMPLE: Final = 2000  # sets whose predictions are compared with and without an answer
NOTHING_SAID: Final = About()


class Seen(Protocol):
    """What is known at one moment."""

    @property
    def answers(self) -> tuple[Answer, ...]: ...

    @property
    def state(self) -> PoolState: ...


S = TypeVar("S", bound=Seen)


class Fitted(NamedTuple, Generic[S]):
    """The model after the answers of one moment, and the sets as it sees them."""

    model: Model
    pool: Pool  # with targets, and with the noise that measurements are known to have
    design: Design  # without that noise: answers bring their own
    seen: S
    ranges: Float[np.ndarray, "2 A"] | None = None  # of totals, where outputs have bounds

    def totals(self, which: Any = slice(None)) -> tuple[PerSet, PerSet]:
        """Mean and standard deviation of the totals of some sets, noise included.

        Those that are measured are expected to be what was measured.
        """
        rows, own = self.rows(which)
        mean, std = predict_sets(self.model, rows, include_noise=True, own=own)
        if self.ranges is not None:
            mean = np.clip(mean, *self.ranges[:, which, None])
        return mean[:, 0], std[:, 0]

    def intervals(self, level: float, which: Any = slice(None)) -> Predictions:
        """The same with intervals."""
        if self.pool.spread is not None and isinstance(which, slice):
            known = self.model.labelled
            plain = replace(self.model, labelled=known and replace(known, sets=None))
            parts = each_part(self.pool, partial(_intervals, plain, level), self.numbers)
            mean, std = (joined([getattr(one, v) for one in parts])[which] for v in ("mean", "std"))
            ends = np.hstack([[one.lower, one.upper] for one in parts])[:, which]
            found = Predictions(mean, std, level, ends=ends)
        else:
            rows, own = self.rows(which)
            found = interval_sets(self.model, rows, level, own)
        return found if self.ranges is None else within(found, *self.ranges[:, which])

    def means(self, which: Int[np.ndarray, " n"]) -> gain.Known | None:
        """How well the means of sets are known, of some that stand for all of these."""
        some = which[:: max(1, -(-len(which) // gain.SAMPLE))]
        plain = self._replace(pool=replace(self.pool, design=self.design))
        rows, own = plain.rows(some)
        return gain.means(rows, self.model, some, plain.totals(some)[1], own)

    def expected(self, answer: Answer) -> Expected:
        """Mean and standard deviation of an answer that the model does not know."""
        if answer.of is None:
            mean, std = self.totals([answer.position])
            rows = self.pool.design.rows([answer.position])
            return Expected(float(mean[0]), float(std[0]), chance_of(self.model, rows))
        some = some_members(self.pool.sets, [answer])
        some = some if self.model.generalised is None else covered(some)
        design = some.pool(self.model).design
        own = in_common(self.model, some, design)
        means, stds = predict_sets(self.model, design, include_noise=True, own=own)
        return Expected(float(means[0, 0]), float(stds[0, 0]), chance_of(self.model, design))

    def rows(self, which: Any) -> tuple[Design, Members | None]:
        """Some sets, with the noise that is planned where they are not measured, and what they
        have in common with those that are."""
        total, design = self.numbers[which], self.pool.design.rows(which)
        scale = np.where(total >= 0, self.design.noise_scale[which], design.noise_scale)
        rows, sets = replace(design, noise_scale=scale), self.pool.sets
        if self.model.labelled is None:  # a dropout network does not know its totals
            return rows, None
        if sets.members is None:
            known = self.model.labelled
            return rows, None if known is None else Members.of_measured(total, rows, known)
        some = sets.take(np.arange(len(sets))[which])
        return rows, in_common(self.model, some, rows)

    @property
    def numbers(self) -> Int[np.ndarray, " A"]:
        """The number of each set among the answers, −1 for those without one."""
        numbers = np.full(len(self.pool.sets), -1)
        numbers[[answer.position for answer in self.seen.answers]] = range(len(self.seen.answers))
        return numbers


def _intervals(
    model: Model, level: float, first: int, pool: Pool, numbers: Int[np.ndarray, " n"]
) -> Predictions:
    """Totals of the sets of a part, with the number of each among the answers; see `Fitted`."""
    del first
    scale = np.where(numbers >= 0, pool.design.own_scale, pool.design.noise_scale)
    rows, known = replace(pool.design, noise_scale=scale), model.labelled
    own = None if known is None else Members.of_measured(numbers, rows, known)
    return interval_sets(model, rows, level, own)


@dataclass(frozen=True, slots=True, eq=False)
class Moment(Generic[S]):
    """A learner or a study, with the questions that come next."""

    name: str
    strategy: str
    fit: Fitted[S]
    aims: Objective
    ahead: Sequence[Ask]
    without: Callable[[Answer], Fitted[S]] | None  # the fit without an answer; None if not quick
    about: About = field(default_factory=About)  # what is measured
    designing: Designing | None = None  # where sets are designed

    def status(self) -> Status:
        """Where it stands, and how much there is still to learn."""
        return self._status(self._judged())

    def insight(self, along: Callable[[Sequence[int]], Iterator[Model]], level: float) -> Insight:
        """What each answer was expected to be and what it taught; see `Study.insight`.

        Args:
            along: Gives the model after the first n answers, for each n of a rising sequence.
        """
        from sumwise.learning.insight import review, trace

        share, model, answers = check_level(level), self.fit.model, self.fit.seen.answers
        pool, judged = self._pool, self._judged()
        steps = trace(pool, along, answers)
        told = answers, self._status(judged), judged
        found = review(pool, model, steps, *told, level=share, ahead=self.ahead)
        return replace(found, halving=self._halving())

    def _halving(self) -> Halving | None:
        from sumwise.learning.insight import Halving

        fit, state, cost = self.fit, self.fit.seen.state, self.aims.cost
        free = np.flatnonzero(replace(state, claimed=()).free(len(fit.pool.sets)))
        if not gain.is_complete(fit.pool) or not len(free) or not state.answered:
            return None
        known, seen = (
            gain.individuals(fit.pool, fit.model, state.gone),
            given_answers(fit.pool, fit.model),
        )
        found = gain.to_halve(known, seen, fit.model.posterior, free, cost)
        most = free if found is None else found
        paid = None if cost is None else float(cost[most].sum())
        return Halving(None if found is None else len(found), paid)

    @property
    def _pool(self) -> Pool:
        return replace(self.fit.pool, design=self.fit.design)  # answers bring their own noise

    def _judged(self) -> Judged:
        return left_out(self._pool, self.fit.model, self.fit.seen.answers)

    def _status(self, judged: Judged) -> Status:
        fit, aims, state = self.fit, self.aims, self.fit.seen.state
        sets, designing = fit.pool.sets, self.designing
        open_to = state
        if designing is not None:  # every individual, but for those who were measured alone
            pools = range(designing.n_begun, len(sets))
            open_to = replace(state, gone=(*state.gone, *pools))
        left = outlook(fit.pool, fit.model, state, open_to, self.ahead, aims.cost)
        if designing is None:
            left |= self._means(state)
        answers, skipped = (
            sum(at < sets.n_asked for at in some) for some in (state.answered, state.skipped)
        )
        taken = answers, len(state.claimed), skipped
        left |= {"enough": aims.enough, "aimed": aims.targets is not None}
        quick = self.without is not None
        checks = (self._moves, self._expected) if quick else (None, None)
        left["suspects"] = suspects(judged, fit.seen.answers, *checks)
        left |= {"typical_error": judged.error, "typical_naive_error": judged.naive_error}
        left |= {"known": len(state.answered) - answers}
        left["contradictions"] = contradictions(sets, fit.seen.answers, self.about)
        counts = sets.n_asked - len(state.gone), *taken, state.questions
        if designing is not None:
            counts = *designing.counts(state), state.questions
            used = int((designing.used(sets, state) > 0).sum())
            left |= {"known": 0, "candidates": len(designing.candidates), "used": used}
            left["alone"] = designing.alone
        return Status(self.name, self.strategy, *counts, **left, about=self.about)

    def _means(self, state: PoolState) -> dict[str, float | None]:
        """How well the means of sets are known, now and once the next questions are answered."""
        fit, sets = self.fit, self.fit.pool.sets
        known = fit.means(
            np.flatnonzero(PoolState(gone=state.gone).free(len(sets))[: sets.n_asked])
        )
        if known is None:
            return {}
        if fit.model.generalised is not None:
            return {"set_std": known.std}
        coming = [*state.claimed, *(sets.position(question.set_id) for question in self.ahead)]
        seen = given_answers(fit.pool, fit.model)
        after = gain.after_each(known, seen, fit.model.posterior, coming)
        return {"set_std": known.std, "set_std_after": float(after[-1])}

    def _moves(self, answer: Answer) -> float:
        """How far predictions move if an answer is left out: root mean square over individuals,
        those of a set taken together."""
        assert self.without is not None
        sets, some = self.fit.pool.sets, slice(None, None, -(-len(self.fit.pool.sets) // SAMPLE))
        moved = self.fit.totals(some)[0] - self.without(answer).totals(some)[0]
        design, sizes = self.fit.design, sets.sizes[some]
        if self.fit.model.generalised is not None:  # per exposure
            exposure = design.theta_sum[some]
            return float(np.sqrt((moved**2 / exposure).sum() / exposure.sum()))
        squares = moved**2 / design.noise_scale[some]
        return float(np.sqrt(squares.sum() / sizes.sum()))

    def _expected(self, answer: Answer) -> tuple[float, float]:
        """Mean and standard deviation of an answer, by a fit without it."""
        assert self.without is not None
        found = self.without(answer).expected(answer)
        std = float(np.hypot(found[1], answer.noise_std or 0.0))
        return Expected(found[0], std, found.chance)


def in_words(
    ask: Ask, about: About, sets: Sets, ranges: Float[np.ndarray, "2 A"] | None, aimed: bool
) -> Ask:
    """A question whose reason begins with what it does for a typical individual, and calls what is
    measured by its name, with a total that can be.

    Args:
        aimed: Whether targets were named.
    """
    why, expected = about.worded(ask.why), ask.expected
    if ask.individual_std is not None and ask.individual_std_after is not None:
        ends, known = (ask.individual_std, ask.individual_std_after), UNKNOWN not in ask.why
        why = f"{brings(f'This {about.word}', *ends, about, known, aimed)}. {why}"
    if ranges is not None:
        expected = float(np.clip(expected, *ranges[:, sets.position(ask.set_id)]))
    return replace(ask, why=why, expected=expected)


def answers_html(said: str, answers: Sequence[Answer]) -> str:
    """For notebooks: a line, and the latest answers before earlier ones."""
    rows = [
        (told.number, told.set_id, told.y_bar, told.by) for told in answers[: -html.FEW - 1 : -1]
    ]
    table = html.table(("", "set", "total", "by"), rows, len(answers)) if rows else ""
    return html.paragraphs([said]) + table


def predict(
    model: AggregateRegressor,
    sets: Callable[[], Sets],
    frame: Any,
    level: float,
    groups: Any,
    measured: About = NOTHING_SAID,
    whole: Callable[[], Sets] | None = None,
    exposure: Any = None,
) -> Predictions:
    """Outputs of all individuals of the sets, or of the rows of a table; see `Study.predict`.

    Args:
        whole: Gives all sets that may be measured, if `sets` are only some of them.
        exposure: Of the rows of a table.
    """
    share, ends = check_level(level), {"low": measured.low, "high": measured.high}
    if frame is not None:
        return model.intervals(frame, share, groups=groups, exposure=exposure, **ends)
    if exposure is not None:
        raise SettingError("exposure goes with a table; individuals of the sets have their own")
    about, known = individuals(own := sets()), model.fitted().labelled
    if measured.bounded and known is not None and known.overlap is not None:
        everyone = own if whole is None else whole()
        found = model.intervals(everyone.own_x, share, groups=individuals(everyone)["ids"])
        found = within_overlapping(found, everyone, known.overlap.measured, *measured.ends)
        at = rows_among(everyone, own.ids[: own.n_asked])
        ends_of = np.stack([found.lower, found.upper])[:, at]
        found = replace(found, mean=found.mean[at], std=found.std[at], ends=ends_of)
    else:
        e = None if measured.outputs == "numbers" else own.theta[: len(own.own_x)]
        found = model.intervals(own.own_x, share, groups=about["ids"], exposure=e, **ends)
    return replace(found, **about)


def predict_rows(
    model: Model,
    answers: Sequence[Answer],
    sets: Sets,
    which: Int[np.ndarray, " n"],
    level: float,
    about: About,
) -> tuple[Predictions, Float[np.ndarray, "n D"]]:
    """Outputs of some individuals, by their rows, given the totals of the sets they are members of,
    and their inputs.

    Within bounds members of a set move together, so those that are not asked for are predicted,
    too, unless individuals stay in their files: there each is cut on its own.

    Args:
        answers: Those that the model knows.
    """
    in_files = isinstance(sets, ScannedSets)
    rows, at = which, np.arange(len(which))
    if about.bounded and not in_files:
        owners = np.unique(np.searchsorted(sets.starts, which, side="right") - 1)
        rows = np.concatenate([np.arange(*sets.starts[a : a + 2]) for a in owners])
        at = np.searchsorted(rows, which)
    x, theta = sets.rows_at(rows)
    own = _members(model, answers, sets, rows, theta)
    found = interval(model, x, level, own, None if model.generalised is None else theta)
    if about.bounded:
        known = None if in_files else model.labelled
        squares = np.empty(0) if known is None else known.design.own_scale
        found = within(found, *about.ends, None if in_files else totals_of(own, squares))
        ends = np.stack([found.lower, found.upper])
        found = replace(found, mean=found.mean[at], std=found.std[at], ends=ends[:, at])
    return found, x[at]


def _members(
    model: Model,
    answers: Sequence[Answer],
    sets: Sets,
    rows: Int[np.ndarray, " n"],
    theta: Float[np.ndarray, " n"],
) -> Members:
    known = model.labelled
    if known is not None and known.overlap is not None:
        return Members.of_sparse(*known.overlap.of_rows(rows))
    owners = np.searchsorted(sets.starts, rows, side="right") - 1
    theta = weights_in_totals(sets, answers, rows, theta)
    return members_at(model, [sets.ids[owner] for owner in owners], theta)


def predict_totals(
    fit: Fitted[S],
    level: float,
    about: About = NOTHING_SAID,
    which: Sequence[int] | None = None,
) -> Predictions:
    """The total of every set to ask for, measured or not, or of those at some positions."""
    some = slice(fit.pool.sets.n_asked) if which is None else which
    found, ids = fit.intervals(check_level(level), some), fit.pool.sets.ids
    if about.bounded and fit.model.labelled is not None and fit.model.labelled.overlap is not None:
        found = _as_members(fit, found, some, about, fit.model.labelled.overlap.measured)
    measured = np.full(len(ids), np.nan)
    for answer in fit.seen.answers:
        if answer.of is None:
            measured[answer.position] = answer.y_bar
    own = ids[some] if isinstance(some, slice) else tuple(ids[at] for at in some)
    return replace(found, ids=own, beside={"measured": np.ma.masked_invalid(measured[some])})


def _as_members(
    fit: Fitted[S], found: Predictions, some: Any, about: About, measured: Sets
) -> Predictions:
    """Totals of overlapping sets that are those of their members' means within bounds, with
    intervals of what can be."""
    sets, model = fit.pool.sets, fit.model
    own = members_of(model, individuals(sets)["ids"], sets.own_x)
    each = interval(model, sets.own_x, found.level, own)
    each = within_overlapping(each, sets, measured, *about.ends)
    assert sets.members is not None  # they overlap
    _, first, same = np.unique(sets.members, return_index=True, return_inverse=True)
    shares = sets.theta * each.mean[first[same]]  # the first of them are those of `own_x`
    mean = np.add.reduceat(shares, sets.starts[:-1])[some]
    moved, ends = mean - found.mean, about.ranges(sets)[:, some]
    reach = [found.lower + np.minimum(moved, 0.0), found.upper + np.maximum(moved, 0.0)]
    exact = [answer for answer in fit.seen.answers if not answer.noise_std]
    free = np.flatnonzero(found.std > 0)  # others are known already
    if exact and len(free):
        told = some_members(sets, exact), np.array([answer.y_bar for answer in exact])
        at = np.arange(len(sets))[some][free]
        can = possible(sets.take(at), *told, about.ends)
        ends[:, free] = np.where(np.isnan(can), ends[:, free], can)
    return within(replace(found, mean=mean, ends=np.stack(reach)), *ends)
