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

from sumwise.learning.propose import Answer, Ask, arrays_of
from sumwise.learning.status import Status, mean_variance, second_moment
from sumwise.model import predict, scaling
from sumwise.model.calibration import Coverage, coverage, verdict
from sumwise.model.design import Design, Pool, embed, features
from sumwise.model.fit import Model
from sumwise.model.leave_one_out import NO_CLOSED_FORM, leave_one_out
from sumwise.model.posterior import Posterior
from sumwise.util.progress import Slow, quiet
from sumwise.util.shapes import Float
from sumwise.util.threads import one_thread

WINDOW: Final = 10  # forecasts that the typical error is taken over
FEWEST: Final = 3  # answers below which leaving one out says nothing: all set the level
MOST: Final = 300  # answers; beyond this, replay an evenly spaced subset
SAMPLE: Final = 2000  # individuals that uncertainty is averaged over while a basis still learns
HAS_LEARNED: Final = (
    "The network has learned from all answers, so it would still know an answer that is left out."
)


@dataclass(frozen=True, slots=True)
class Step:
    """An answer and what it changed, in the units of the answers.

    Errors are of forecasts made before the answer was known, divided by √s_a so that sets of
    different sizes compare: the error of one individual, if those of several are independent.
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
    noise_std: float  # after it: of an individual's own noise
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
    numbers = np.unique(np.linspace(1, n, min(n, MOST)).round().astype(int)).tolist()
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
        design = pool.design.rows(at)
    else:
        design = embed(pool.sets.take(at), before.basis)
    # before the first answer the model has no units, so those after it scale its known noise
    scaled_by = (before if latest else after).posterior
    design = _with_noise(design, noise, scaled_by)
    new, y = design.rows([latest]), float(y_bar[latest])
    ratio = before.posterior.variance_along(new.u) / new.noise_scale
    forecast = std = error = naive = None
    if latest:
        mean, stds = predict.predict_sets(before, new, include_noise=True)
        forecast, std = float(mean[0, 0]), float(stds[0, 0])
        so_far = scaling.offset_of(design.rows(slice(latest)), y_bar[:latest, None])
        each = math.sqrt(new.noise_scale[0])
        error, naive = (y - forecast) / each, (y - float((so_far * new.theta_sum)[0])) / each
    return Step(
        number=len(at),
        set_id=answers[latest].set_id,
        answer=y,
        information=float(0.5 * np.log1p(before.posterior.noise_precision * ratio[0])),
        forecast=forecast,
        forecast_std=std,
        error=error,
        naive_error=naive,
        individual_std=individual_std,
        noise_std=float(after.posterior.output_scale[0])
        / math.sqrt(after.posterior.noise_precision),
    )


def _with_noise(design: Design, noise_std: np.ndarray, scaled_by: Posterior) -> Design:
    noise = noise_std / float(scaled_by.output_scale[0])
    return design.with_known_noise(noise, scaled_by.noise_precision)


def _spread_under(pool: Pool) -> Callable[[Model], float]:
    """Root of the mean variance of individuals, noise-free, under one model after another.

    Under a fixed basis the mean of φ φᵀ over all individuals is worked out once; a basis that
    learns is looked at on a sample of them, the same for all models.
    """
    if not pool.basis.learns:
        moment = second_moment(pool)
        return lambda model: math.sqrt(mean_variance(model.posterior, *moment))
    x = pool.sets.x[:: -(-len(pool.sets.x) // SAMPLE)]
    shares = np.ones(len(x)) / len(x)
    return lambda model: math.sqrt(mean_variance(model.posterior, shares, features(model.basis, x)))


# --- all of it ------------------------------------------------------------------------------------


def review(
    pool: Pool,
    model: Model,
    steps: tuple[Step, ...],
    answers: Sequence[Answer],
    status: Status,
    *,
    level: float,
    ahead: Sequence[Ask],
) -> Insight:
    """Everything together.

    Args:
        pool: The sets under the model's basis.
        steps: From `trace`.
        ahead: The next questions.
    """
    learns = pool.basis.learns
    rows, error, naive = _forecasts(steps) if learns else _left_out(pool, model, answers)
    reach = NormalDist().inv_cdf(0.5 + 0.5 * level)
    compared = tuple(
        Compared(
            number=number,
            set_id=answers[number - 1].set_id,
            answer=answers[number - 1].y_bar,
            predicted=mean,
            std=std,
            lower=mean - reach * std,
            upper=mean + reach * std,
            weight=float(pool.design.theta_sum[answers[number - 1].position]),
        )
        for number, mean, std in rows
    )
    calibration = coverage([row.z for row in compared], level)
    return Insight(
        status=status,
        level=level,
        steps=steps,
        compared=compared,
        typical_error=error,
        typical_naive_error=naive,
        unit=_unit(pool),
        by_forecast=(NO_CLOSED_FORM if model.spectrum is None else HAS_LEARNED) if learns else "",
        calibration=calibration,
        trust=verdict(calibration, level),
        next_questions=tuple(ahead),
    )


def _unit(pool: Pool) -> str | None:
    """What a unit of weight is; None where totals are comparable as they are, or never."""
    weights, sizes = pool.design.theta_sum, pool.sets.sizes
    if (weights <= 0).any() or weights.max() < 1.5 * weights.min():
        return None
    plain = (weights == sizes).all() and (pool.design.noise_scale == sizes).all()  # Σ(θ − 1)² = 0
    return "individual" if plain else "unit of weight"


Judged = tuple[list[tuple[int, float, float]], float | None, float | None]


def _left_out(pool: Pool, model: Model, answers: Sequence[Answer]) -> Judged:
    """Number, mean and standard deviation of each answer by the present model without it.

    And median errors per √s_a, of these means and of the mean of the other answers. The median
    keeps one large and unusual set from speaking for the rest. The mean is `scaling.offset_of`
    without each answer, from the sums before and after it, which do not cancel.
    """
    if len(answers) < FEWEST:
        return [], None, None
    at, y_bar, noise = arrays_of(answers)
    rows = pool.design.rows(at)
    means, stds = leave_one_out(model, rows, y_bar[:, None], noise)
    design = _with_noise(rows, noise, model.posterior)
    pull = design.theta_sum / design.noise_scale
    total, weight = _sums_of_others(pull * y_bar), _sums_of_others(pull * design.theta_sum)
    others = np.divide(total, weight, out=np.zeros(len(total)), where=weight > 0)
    error, naive = (
        float(np.median(abs((y_bar - expected) / np.sqrt(design.noise_scale))))
        for expected in (means[:, 0], others * design.theta_sum)
    )
    found = zip(range(1, len(at) + 1), means[:, 0].tolist(), stds[:, 0].tolist(), strict=True)
    return list(found), error, naive


def _sums_of_others(values: Float[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
    """For each value, the sum of all others."""
    before, after = np.cumsum(values)[:-1], np.cumsum(values[::-1])[-2::-1]
    return np.concatenate([[0.0], before]) + np.concatenate([after, [0.0]])


def _forecasts(steps: Sequence[Step]) -> Judged:
    """The same, by the models before each answer; errors are typical of the last ones."""
    if not steps:
        return [], None, None
    made = [
        (step.number, step.forecast, step.forecast_std)
        for step in steps
        if step.forecast is not None and step.forecast_std is not None
    ]
    return made, steps[-1].typical_error, steps[-1].typical_naive_error
