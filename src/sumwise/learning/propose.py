"""Questions: which sets to measure next while other questions are open.

Open questions are conditioned on exactly: variances do not depend on the values measured, so the
model may know now what it will know then (`Posterior.condition_on`). Asking for three sets is the
same as asking three times for one, unless a budget is to be spent on all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count as count_from
from itertools import islice
from typing import Final

import numpy as np
from numpy.random import Generator

from sumwise.acquisition.by_part import candidates
from sumwise.acquisition.information import teaches
from sumwise.acquisition.known_noise import given_answers, given_questions
from sumwise.acquisition.screening import Candidates, Ceiling
from sumwise.acquisition.strategies import TIE, Acquisition, Strategy, named
from sumwise.errors import PoolExhaustedError
from sumwise.learning import gain
from sumwise.model import predict
from sumwise.model.design import Design, Pool
from sumwise.model.fit import Model
from sumwise.model.posterior import Posterior
from sumwise.util import html
from sumwise.util.shapes import Float, Mask, PerSet
from sumwise.util.text import count, plain, shown

FEWEST: Final = 3  # other answers from which a total is expected well enough to question it
FAR: Final = 4.0  # standard deviations
ROUNDING: Final = 1e-12  # of a budget: sums of costs are rounded
UNKNOWN: Final = "Nothing is measured yet, so the model cannot say what to expect."

Draws = Callable[[int], Generator]  # a generator for the question with this number


@dataclass(frozen=True, slots=True)
class NewPool:
    """A pool that was designed for a question: whom to measure together."""

    rows: tuple[int, ...]  # of the study's individuals
    theta: tuple[float, ...]
    members: tuple[Hashable, ...]  # their names
    bound: float | None  # on the score of any pool; None where it was chosen by hand


@dataclass(frozen=True, slots=True)
class Ask:
    """A question: measure the total of this set."""

    set_id: Hashable  # the set to measure
    score: float  # by the strategy; the highest is asked first
    expected: float  # total by the model; before the first answer, 0 or a guess without meaning
    std: float  # of that expectation, noise included
    why: str  # the question in words, with its reason
    information: float = math.nan  # nats that the answer should teach, given open questions
    runner_up: Hashable = None  # the set that would have come next; None if there was no other
    runner_up_score: float | None = None  # its score
    number: int = 0  # questions asked before this one
    by: str | None = None  # who is to answer, in a study
    expires: str = ""  # when a study's claim on the set ends, UTC
    cost: float | None = None  # of measuring it; None where measuring has no cost
    runner_up_cost: float | None = None  # of measuring that set
    pool: NewPool | None = None  # where the set was designed
    # standard deviations; without a unit before any answer, and rounded as they were asked for
    individual_std: float | None = field(default=None, compare=False)  # of a typical individual
    individual_std_after: float | None = field(default=None, compare=False)  # given the answer

    @property
    def members(self) -> tuple[Hashable, ...] | None:
        """Whom to measure together, where the set was designed."""
        return None if self.pool is None else self.pool.members

    def __str__(self) -> str:
        known = f", expected {plain(self.expected)} ± {plain(self.std)}" if self._known else ""
        who = "" if self.pool is None else f" ({', '.join(map(shown, self.pool.members))})"
        return f"Measure {shown(self.set_id)}{who}{known}. {self.why}"

    @property
    def _known(self) -> bool:
        return bool(self.expected) and UNKNOWN not in self.why

    def _repr_html_(self) -> str:
        rows = [("measure", self.set_id), ("why", self.why), ("score", self.score)]
        if self._known:
            rows.append(("expected", f"{plain(self.expected)} ± {plain(self.std)}"))
        if self.pool is not None:
            rows.insert(1, ("members", ", ".join(map(shown, self.pool.members))))
        more = (("runner-up", self.runner_up), ("cost", self.cost), ("by", self.by))
        return html.table(("", ""), [*rows, *(row for row in more if row[1] is not None)])

    @property
    def score_per_cost(self) -> float | None:
        """Gain for each unit of cost, where measuring has a cost."""
        return None if self.cost is None else self.score / self.cost

    @property
    def runner_up_score_per_cost(self) -> float | None:
        """The same of the set that would have come next."""
        if self.runner_up_score is None or self.runner_up_cost is None:
            return None
        return self.runner_up_score / self.runner_up_cost


@dataclass(frozen=True, slots=True)
class Answer:
    """A measured total."""

    number: int  # in order of arrival, from 1
    set_id: Hashable  # the set that was measured
    y_bar: float  # its total, or what else measuring a set gives
    ask: Ask | None = None  # in a learner's history, the question it answers
    noise_std: float | None = None  # known noise of this measurement
    by: str | None = None  # who recorded it, in a study
    at: str = ""  # when, UTC
    note: str | None = None  # a remark
    position: int = field(default=-1, compare=False)  # of the set
    of: tuple[int, ...] | None = None  # numbers of the members it covers, from 1; None for all
    covers: float | None = (
        None  # the share of the set it was measured on, which y_bar was scaled by
    )


def arrays_of(
    answers: Sequence[Answer],
) -> tuple[list[int], Float[np.ndarray, " t"], Float[np.ndarray, " t"]]:
    """Positions, totals and known noise, 0 where there is none."""
    return (
        [answer.position for answer in answers],
        np.array([answer.y_bar for answer in answers]),
        np.array([answer.noise_std or 0.0 for answer in answers]),
    )


class Expected(tuple[float, float]):
    """Mean and standard deviation of a total, and for counts, shares and amounts what gives the
    probability of one at least as far out."""

    chance: Callable[[float], float] | None

    def __new__(
        cls, mean: float, std: float, chance: Callable[[float], float] | None = None
    ) -> Expected:
        made = super().__new__(cls, (mean, std))
        made.chance = chance
        return made


def far_from(
    expected: tuple[float, float] | None, total: float, noise: float | None
) -> tuple[float, float] | None:
    """Mean and standard deviation, known noise included, that a total is far from, if it is.

    It is if normal outputs are as far out with the same probability.
    """
    if expected is None:
        return None
    chance = expected.chance if isinstance(expected, Expected) else None
    if chance is not None:
        return expected if chance(total) < math.erfc(FAR / math.sqrt(2)) else None
    mean, std = expected[0], math.hypot(expected[1], noise or 0.0)
    std = max(std, ROUNDING * abs(mean))  # a total that follows from others is known to rounding
    return (mean, std) if abs(total - mean) > FAR * std else None


@dataclass(frozen=True, slots=True)
class PoolState:
    """Positions of the sets that are taken, and how many questions were asked so far."""

    answered: Sequence[int] = ()
    claimed: Sequence[int] = ()  # by open questions
    skipped: Sequence[int] = ()
    questions: int = 0
    gone: Sequence[int] = ()  # not part of the pool any more

    def free(self, n_sets: int, wanted: int | None = None, least: int = 0) -> Mask:
        """Which sets may be asked for; a set that the user wants always may.

        Args:
            least: Fewer than this many are refused.
        """
        free = np.ones(n_sets, dtype=bool)
        free[[*self.answered, *self.claimed, *self.skipped, *self.gone]] = False
        if wanted is not None:
            free[wanted] = True
        left = int(free.sum())
        if left >= least:
            return free
        if left:
            said = f"{least} sets were asked for and {left} are free; ask for fewer"
        elif self.claimed:
            waiting = count(len(self.claimed), "open question")
            said = f"every set is measured or being measured ({waiting}); answer one, or release it"
        elif self.skipped:
            said = f"every set is measured or skipped ({len(self.skipped)}); unskip some"
        else:
            said = "every set is measured already; nothing is left to ask"
        raise PoolExhaustedError(said)


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """What measuring each set costs, and what may be spent on all questions together."""

    cost: PerSet | None = None  # where it is given, questions are ranked by gain per cost
    budget: float = math.inf
    by_gain: float = 0  # so many questions, the first, are ranked by gain whatever they cost

    def affordable(self, free: Mask, paid: float) -> Mask:
        """Which free sets the budget still pays for."""
        if self.cost is None:
            return free
        # three sets that cost 0.1 are paid by 0.3, but for rounding
        return free & (paid + self.cost <= self.budget * (1 + ROUNDING))


UNPRICED: Final = Prices()
# `by_gain` of ways to spend a budget other than by gain per cost
WAYS: Final = {
    math.inf: "by gain",
    1: "on the set that gains most, and then by gain per unit of cost",
}


def propose(
    pool: Pool,
    model: Model,
    strategy: str | Acquisition,
    state: PoolState,
    draws: Draws,
    *,
    n: int = 1,
    wanted: int | None = None,
    prices: Prices = UNPRICED,
    runner_up: bool = True,
) -> list[Ask]:
    """The next `n` questions, or as many as a budget pays for; nothing is claimed.

    Gain per cost can spend on cheap sets what a dear set with most of the gain would need. A budget
    is therefore spent in three ways: by gain per cost, by gain, and on the set that gains most with
    others by gain per cost beside it. The questions that gain most in all are returned. Questions
    gain the sum of their scores, because each is scored as if those before it were answered.

    Args:
        pool: The sets under the model's basis, with the targets and known noise of the objective.
        wanted: Position of a set that the user has chosen as the first question.
        runner_up: Whether questions name the next best set, which costs a little on a large pool.
    """
    cost, limited = prices.cost, prices.budget < math.inf
    free = state.free(len(pool.sets), wanted, least=0 if limited else n)

    def gained(asked: Sequence[Ask]) -> list[Ask]:
        return with_gains(pool, model, state, asked) if runner_up else [*asked]

    def spent(by_gain: float) -> tuple[list[Ask], float]:
        seen, way = (pool, model, strategy, state, draws), replace(prices, by_gain=by_gain)
        asked = questions(*seen, wanted=wanted, prices=way, runner_up=runner_up)
        bought = [ask for ask, _ in islice(asked, n)]
        return bought, sum(ask.score for ask in bought)

    best, usual = spent(0)
    payable = prices.affordable(free, paid=0.0)
    if not limited or cost is None or len(best) == payable.sum() or not np.ptp(cost[payable]):
        return gained(best)  # all ways are the same
    most, how = usual, ""
    for by_gain, words in WAYS.items():
        bought, gain = spent(by_gain)
        if gain > most + TIE * abs(most):
            best, most, how = bought, gain, words
        if len(bought) == 1:
            break  # the set that gains most leaves nothing to spend on others
    if not how:
        return gained(best)
    more = f"{100 * (most / usual - 1):.3g} % more than" if usual > 0 else "more than"
    said = f"this purchase gains {more} by gain per unit of cost alone"
    why = f" The budget of {prices.budget:.9g} is spent {how}: {said}."
    return gained([replace(ask, why=ask.why + why) for ask in best])


def with_gains(pool: Pool, model: Model, state: PoolState, asks: Sequence[Ask]) -> list[Ask]:
    """The questions with how well a typical individual is known before and after each."""
    if not asks:
        return []
    which = [*state.claimed, *(pool.sets.position(ask.set_id) for ask in asks)]
    known, seen = gain.individuals(pool, model, state.gone), given_answers(pool, model)
    stds = gain.after_each(known, seen, model.posterior, which)[len(state.claimed) :].tolist()
    return [
        replace(ask, individual_std=before, individual_std_after=after)
        for ask, before, after in zip(asks, stds[:-1], stds[1:], strict=True)
    ]


def draws_of(seed: int) -> Draws:
    """Generators for questions; each depends on the seed and the question's number."""
    return lambda number: np.random.default_rng([seed, number])


def questions(
    pool: Pool,
    model: Model,
    strategy: str | Acquisition,
    state: PoolState,
    draws: Draws,
    *,
    wanted: int | None = None,
    prices: Prices = UNPRICED,
    ceiling: Ceiling | None = None,
    runner_up: bool = True,
) -> Iterator[tuple[Ask, Ceiling | None]]:
    """One question after another, each as if those before it were answered; see `propose`.

    Args:
        ceiling: Bounds on the scores from an earlier question, if there is one.

    Yields:
        A question, and bounds that make the next one on a large pool cheaper.
    """
    record, posterior, cost, paid = named(strategy), model.posterior, prices.cost, 0.0
    left = given_answers(pool, model)
    free, pending = state.free(len(pool.sets), wanted, least=1), list(state.claimed)
    waiting = len(pending)
    for asked in count_from():
        affordable = prices.affordable(free, paid)
        if not affordable.any():
            if cost is None or asked:
                return
            cheapest = f"the cheapest that is free costs {cost[free].min():g}"
            raise PoolExhaustedError(f"the budget of {prices.budget:g} pays for no set: {cheapest}")
        number, ranking = state.questions + asked, None if asked < prices.by_gain else cost
        if pending:
            left, posterior = given_questions(left, posterior, pending)
        seen = record, left, posterior, draws(number), affordable
        found = candidates(*seen, 1 + runner_up, also=wanted, ceiling=ceiling, cost=ranking)
        best = found.best()
        chosen = best if wanted is None else wanted
        second = found.best(but=chosen) if runner_up and len(found.positions) > 1 else None
        teaches = float(information(left.design.rows([chosen]), posterior)[0])
        ask = _described(pool, model, teaches, found, (chosen, second), number, cost)
        among = _among(affordable, free, int(pool.sets.sizes[chosen]), waiting)
        said = among if chosen == best else None
        why = _why(record, ask, said, by_gain=ranking is None, first=not state.answered)
        paid += ask.cost or 0.0
        yield replace(ask, why=why), found.ceiling
        free[chosen] = False
        pending, waiting, wanted, ceiling = [chosen], waiting + 1, None, found.ceiling


def _described(
    pool: Pool,
    model: Model,
    information: float,
    found: Candidates,
    places: tuple[int, int | None],
    number: int,
    cost: PerSet | None,
) -> Ask:
    """The question for a set, but for why it is asked; and the runner-up, if there is one."""
    ids, (chosen, second) = pool.sets.ids, places
    design = pool.design.rows([chosen])
    own = None
    if pool.sets.members is not None:
        own = predict.in_common(model, pool.sets.take([chosen]), design)
    mean, std = predict.predict_sets(model, design, include_noise=True, own=own)
    return Ask(
        set_id=ids[chosen],
        score=found.score(chosen),
        expected=float(mean[0, 0]),
        std=float(std[0, 0]),
        why="",
        information=information,
        runner_up=None if second is None else ids[second],
        runner_up_score=None if second is None else found.score(second),
        number=number,
        cost=None if cost is None else float(cost[chosen]),
        runner_up_cost=None if cost is None or second is None else float(cost[second]),
    )


def information(design: Design, posterior: Posterior) -> PerSet:
    """What the total of each set should teach about the model, in nats (Eq. 21)."""
    return teaches(design, posterior, posterior.variance_along(design.u))


def _among(affordable: Mask, free: Mask, size: int, waiting: int) -> str:
    left = int(affordable.sum())
    kind = "available" if left == free.sum() else "affordable"
    best = f"Best of {left} {kind} sets" if left > 1 else f"The only {kind} set"
    given = f", allowing for {count(waiting, 'open question')}" if waiting else ""
    return f"{best} ({count(size, 'individual')}){given}"


def _why(record: Strategy, ask: Ask, among: str | None, *, by_gain: bool, first: bool) -> str:
    """Why a set is asked for; `among` is None where the user prefers it to the best."""
    if among is None:
        why = f"This set was chosen by hand; {record.name} would have asked for another first."
    else:
        why = f"{among}: {record.reason}."
    if ask.cost is not None:
        each = ", and its gain per unit of cost is the highest" if among and not by_gain else ""
        why += f" It costs {ask.cost:.6g}{each}."
    if first:
        why += f" {UNKNOWN}"
    return why
