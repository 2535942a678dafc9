"""What the answers of a study have taught so far, and how far to trust the model.

Each answer is judged twice. Looking ahead, as it came in: what did the model before it expect, and
how much did it teach? Looking back from now: what does the model predict for it if it is left out
(`leave_one_out`)? Forecasts show how knowledge grew, but early errors say nothing of the present
model. Leaving answers out judges that one model: its errors and its intervals. A basis that learns
has learned from all answers, also from the one left out, so it is judged by its forecasts. Answers
count as they stand now; those that were withdrawn do not appear.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from sumwise.acquisition.known_noise import given_answers
from sumwise.learning.left_out import Judged, with_noise
from sumwise.learning.parts import covered, design_of, some_members
from sumwise.learning.propose import Answer, Ask, arrays_of, information
from sumwise.learning.status import Status, mean_variance, second_moment
from sumwise.model import leave_one_out, predict, scaling
from sumwise.model.calibration import Coverage, coverage, verdict
from sumwise.model.design import Pool, features
from sumwise.model.fit import Model
from sumwise.model.leave_one_out import NO_CLOSED_FORM
from sumwise.util.progress import Slow, quiet
from sumwise.util.threads import one_thread

WINDOW: Final = 10  # forecasts that the typical error is taken over
MOST: Final = 300  # answers; beyond this, replay an evenly spaced subset
MOST_SLOW: Final = 50  # the same of counts, shares and amounts, whose fits take longer
SAMPLE: Final = 2000  # individuals that uncertainty is averaged over while a basis still learns
LEFT_OUT, FORECAST = "each predicted from the others", "each forecast before it was told"
SPLIT: Final = ", with ties at the ends of intervals split evenly"
HAS_LEARNED: Final = (
    "The network has learned from all answers, so it would still know an answer that is left out."
)


@dataclass(frozen=True, slots=True)
class Step:
    """An answer and what it changed, in the units of the answers.

    Errors are of forecasts made before the answer was known, divided by `|Σθ|` so that sets of
    different sizes compare: the error of their mean, not that of each individual.
    """

    number: int  # 1 for the first answer
    set_id: Hashable
    answer: float
    information: float  # nats that it taught, by the model before it
    forecast: float | None  # None for the first: before it the units are not known
    forecast_std: float | None  # noise included
    error: float | None
    naive_error: float | None  # of the mean so far as the forecast for every set
    individual_std: float  # after it: root of the mean variance of noise-free individuals
    noise_std: float  # after it: of an individual's noise, its set's effect included
    typical_error: float | None = None  # root mean square over the last ten forecasts
    typical_naive_error: float | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """An answer, and what is predicted for it by a model that does not know it."""

    number: int  # of the answer
    set_id: Hashable
    answer: float
    predicted: float
    std: float  # noise included
    lower: float
    upper: float
    weight: float  # Σθ of the set: for a sum, how many individuals

    @property
    def z(self) -> float:
        """How many standard deviations the answer is above."""
        return (self.answer - self.predicted) / self.std

    @property
    def outside(self) -> bool:
        return not self.lower <= self.answer <= self.upper


@dataclass(frozen=True, slots=True)
class Halving:
    """About how many more answers halve the uncertainty of a typical individual."""

    questions: int | None  # None if measuring every set that is left does not
    cost: float | None = None  # of these, or of all that are left; None where there are no costs


@dataclass(frozen=True, slots=True)
class Insight:
    """A review of a study; see `Study.insight`."""

    status: Status
    level: float  # of the intervals in `compared`
    steps: tuple[Step, ...]
    compared: tuple[Compared, ...]  # with the present model without the answer, or with forecasts
    typical_error: float | None  # of `compared`, per individual; with forecasts, of the last ten
    typical_naive_error: float | None  # of the mean of the other answers as the prediction
    unit: str | None  # of weight, by which totals may be divided to compare sets of many sizes
    by_forecast: str  # why forecasts were used, in words; empty where answers were left out
    calibration: tuple[Coverage, ...]
    trust: str  # whether the intervals are right, in words
    next_questions: tuple[Ask, ...]  # not claimed
    halving: Halving | None = None  # None before an answer, or where that is not known

    def plot(self, panel: str = "progress") -> Any:
        """An Altair chart of the report: "progress", "information", "predicted", "calibration" or
        "next". It is refused as long as there are too few answers for it."""
        from sumwise.report.notebook import panel_chart

        return panel_chart(self, panel)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """For notebooks: the panels of the report, with charts as pictures."""
        from sumwise.report.notebook import insight_html

        del include, exclude
        return {"text/plain": "\n".join(self.status.words), "text/html": insight_html(self)}


# --- looking ahead, as it was ---------------------------------------------------------------------


def trace(
    pool: Pool, models: Callable[[Sequence[int]], Iterator[Model]], answers: Sequence[Answer]
) -> tuple[Step, ...]:
    """What each answer was expected to be and what it taught; beyond `MOST`, of a subset.

    Args:
        pool: The sets under the basis of the latest model.
        models: Gives the model after the first n answers, for each n of a rising sequence.
    """
    n = len(answers)
    most = MOST if pool.basis.tangent is None else MOST_SLOW
    numbers = np.unique(np.linspace(1, n, min(n, most)).round().astype(int)).tolist()
    lengths = sorted({length for number in numbers for length in (number - 1, number)})
    spread, steps, errors = _spread_under(pool), list[Step](), list[tuple[Any, Any]]()
    before: Model | None = None
    with one_thread(), Slow("looking back", len(lengths)) as slow, quiet():
        for done, (length, model) in enumerate(zip(lengths, models(lengths), strict=True)):
            if length in numbers:
                assert before is not None  # every number comes after the one before it
                step = _step(pool, before, model, answers[:length], spread(model))
                if step.error is not None:
                    errors.append((step.error, step.naive_error))
                    typical = np.sqrt(np.mean(np.square(errors[-WINDOW:]), axis=0)).tolist()
                    step = replace(step, typical_error=typical[0], typical_naive_error=typical[1])
                steps.append(step)
            before = model
            slow.at(done + 1)
    return tuple(steps)


def _step(
    pool: Pool, before: Model, after: Model, answers: Sequence[Answer], individual_std: float
) -> Step:
    """The last of these answers, between the models before and after it."""
    at, y_bar, noise = arrays_of(answers)
    latest = len(at) - 1
    if before.basis is pool.basis:
        design = design_of(pool.design.rows, pool.sets, pool.basis, answers)
    else:
        some = some_members(pool.sets, answers)
        some = some if before.generalised is None else covered(some)
        design = some.pool(before).design
    # before the first answer the model has no units, so those after it scale its known noise
    scaled_by = (before if latest else after).posterior
    design = with_noise(design, noise, scaled_by)
    new, y = design.rows([latest]), float(y_bar[latest])
    own, left = None, new
    if pool.sets.members is not None:
        only = some_members(pool.sets, answers[latest:])
        own = predict.in_common(before, only, new)
        left = given_answers(replace(pool, sets=only, design=new), before).design
    taught = information(left, before.posterior)
    forecast = std = error = naive = None
    if latest:
        mean, stds = predict.predict_sets(before, new, include_noise=True, own=own)
        forecast, std = float(mean[0, 0]), float(stds[0, 0])
        so_far = scaling.offset_of(design.rows(slice(latest)), y_bar[:latest, None])
        if before.generalised is not None:
            so_far = np.array([y_bar[:latest].sum() / design.theta_sum[:latest].sum()])
        each = float(new.size[0])
        error, naive = (y - forecast) / each, (y - float((so_far * new.theta_sum)[0])) / each
    return Step(
        number=len(at),
        set_id=answers[latest].set_id,
        answer=y,
        information=float(taught[0]),
        forecast=forecast,
        forecast_std=std,
        error=error,
        naive_error=naive,
        individual_std=individual_std,
        noise_std=float(after.posterior.output_scale[0])
        * math.sqrt(after.posterior.individual_noise),
    )


def _spread_under(pool: Pool) -> Callable[[Model], float]:
    """Root of the mean variance of individuals, noise-free, under one model after another.

    Under a fixed basis the mean of φ φᵀ over all individuals is worked out once; a basis that
    learns, or is a tangent, is looked at on a sample of them, the same for all models.
    """
    if not pool.basis.learns and pool.basis.tangent is None:
        moment = second_moment(pool)
        return lambda model: math.sqrt(mean_variance(model.posterior, *moment))
    x = pool.sets.own_x[:: -(-len(pool.sets.own_x) // SAMPLE)]
    shares = np.ones(len(x)) / len(x)
    return lambda model: math.sqrt(mean_variance(model.posterior, shares, features(model.basis, x)))


# --- all of it ------------------------------------------------------------------------------------


def review(
    pool: Pool,
    model: Model,
    steps: tuple[Step, ...],
    answers: Sequence[Answer],
    status: Status,
    judged: Judged,
    *,
    level: float,
    ahead: Sequence[Ask],
) -> Insight:
    """Everything together.

    Args:
        pool: The sets under the model's basis.
        steps: From `trace`.
        judged: From `left_out`.
        ahead: The next questions.
    """
    learns = pool.basis.learns
    judged = _forecasts(steps) if learns else judged
    reach = NormalDist().inv_cdf(0.5 + 0.5 * level)
    told = [answers[number - 1] for number, _, _ in judged.rows]
    rows = design_of(pool.design.rows, pool.sets, pool.basis, told)
    mean, std = np.array(judged.rows).reshape(-1, 3)[:, 1:].T
    score = (np.array([answers[n - 1].y_bar for n, _, _ in judged.rows]) - mean) / std
    lower, upper = mean - reach * std, mean + reach * std
    if (model.mixture is not None or model.generalised is not None) and told:
        (lower, upper), score = leave_one_out.interval(model, rows, level)
    compared = tuple(
        Compared(
            number=number,
            set_id=answers[number - 1].set_id,
            answer=answers[number - 1].y_bar,
            predicted=mean,
            std=std,
            lower=low,
            upper=high,
            weight=weight,
        )
        for (number, mean, std), low, high, weight in zip(
            judged.rows, lower.tolist(), upper.tolist(), rows.theta_sum.tolist(), strict=True
        )
    )
    calibration, how = coverage(score.tolist(), level), FORECAST if learns else LEFT_OUT
    if model.generalised is not None and model.generalised.likelihood.whole:
        how += SPLIT
    return Insight(
        status=status,
        level=level,
        steps=steps,
        compared=compared,
        typical_error=judged.error,
        typical_naive_error=judged.naive_error,
        unit=_unit(pool, status),
        by_forecast=(NO_CLOSED_FORM if model.spectrum is None else HAS_LEARNED) if learns else "",
        calibration=calibration,
        trust=status.about.worded(verdict(calibration, level, how)),
        next_questions=tuple(ahead),
    )


def _unit(pool: Pool, status: Status) -> str | None:
    """What a unit of weight is; None where totals are comparable as they are, or never."""
    weights, sizes = pool.design.theta_sum, pool.sets.sizes
    if (weights <= 0).any() or weights.max() < 1.5 * weights.min():
        return None
    if status.outputs != "numbers":
        return status.per
    plain = (weights == sizes).all() and (pool.design.noise_scale == sizes).all()  # Σ(θ − 1)² = 0
    return "individual" if plain else "unit of weight"


def _forecasts(steps: Sequence[Step]) -> Judged:
    """Answers judged by the models before each; errors are typical of the last ones."""
    made = tuple(
        (step.number, step.forecast, step.forecast_std)
        for step in steps
        if step.forecast is not None and step.forecast_std  # 0 of a total that is known
    )
    errors = (steps[-1].typical_error, steps[-1].typical_naive_error) if steps else (None, None)
    return Judged(made, *errors)
