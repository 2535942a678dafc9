"""What the answers of a study have taught so far, and how far to trust the model.

Two questions are put to each answer. Looking ahead, as it came in: what did the model before it
expect, and how much did it teach? Looking back from now: what would the model say of it, had it
not been told (`leave_one_out`)? The first shows how knowledge grew, and nothing of the answer was
known; but the errors of the first forecasts tell nothing of the model of now. The second is of that
one model: how far off it is, and whether its intervals are right. A basis that learns has learned
from all answers and would not forget the one left out: it is judged by the forecasts. All is of the
answers as they stand: what was taken back is not there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final

import numpy as np

from sumwise.learning.propose import Ask
from sumwise.learning.status import Status, second_moment
from sumwise.model import predict, scaling
from sumwise.model.basis import Trainable
from sumwise.model.calibration import Coverage, coverage, verdict
from sumwise.model.design import Pool, embed, features
from sumwise.model.fit import Model
from sumwise.model.leave_one_out import NO_CLOSED_FORM, leave_one_out
from sumwise.util.progress import Slow, quiet
from sumwise.util.shapes import Float
from sumwise.util.threads import one_thread

WINDOW: Final = 10  # forecasts that the typical error is taken over
FEWEST: Final = 3  # answers from which leaving one out says anything: the level is taken from all
MOST: Final = 300  # answers that are looked at one by one; of more, evenly many are passed over
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
    naive_error: float | None  # had the forecast been the same for everybody: the mean so far
    typical_error: float | None  # root mean square over the last ten forecasts
    typical_naive_error: float | None
    individual_std: float  # after it: root of the mean variance of noise-free individuals
    noise_std: float  # after it: of an individual's own noise


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
    """A study looked back on; see `Study.insight`."""

    status: Status
    level: float  # of the intervals in `compared`
    steps: tuple[Step, ...]
    compared: tuple[Compared, ...]  # with the model of now less the answer, or with forecasts
    typical_error: float | None  # of `compared`, per individual; with forecasts, of the last ten
    typical_naive_error: float | None  # had everybody been given the mean of the other answers
    unit: str | None  # of weight, by which totals may be divided to compare sets of many sizes
    by_forecast: str  # why with forecasts, in words; empty where answers could be left out
    calibration: tuple[Coverage, ...]
    trust: str  # whether the intervals are right, in words
    next_questions: tuple[Ask, ...]  # not claimed


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Answers in order of arrival."""

    positions: Sequence[int]  # of their sets
    y_bar: Float[np.ndarray, " t"]
    noise_std: Float[np.ndarray, " t"]  # known noise; 0 where there is none


# --- looking ahead, as it was ---------------------------------------------------------------------


def trace(
    pool: Pool, models: Callable[[Sequence[int]], Iterator[Model]], answers: Answers
) -> tuple[Step, ...]:
    """What each answer was expected to be and what it taught; of very many answers, of some.

    Args:
        pool: The sets under the basis of the latest model.
        models: The model after the first so many answers, for each of rising numbers.
    """
    n = len(answers.positions)
    numbers = np.unique(np.linspace(1, n, min(n, MOST)).round().astype(int)).tolist()
    lengths = sorted({length for number in numbers for length in (number - 1, number)})
    spread, steps = _spread_under(pool), list[Step]()
    before: Model | None = None
    with one_thread(), Slow("looking back", len(lengths)) as slow, quiet():
        for done, (length, model) in enumerate(zip(lengths, models(lengths), strict=True)):
            if length in numbers:
                assert before is not None  # every number comes after the one before it
                steps.append(_step(pool, before, model, answers, length, spread(model)))
            before = model
            slow.at(done + 1)
    return tuple(_with_typical(steps, i) for i in range(len(steps)))


def _step(
    pool: Pool, before: Model, after: Model, answers: Answers, number: int, individual_std: float
) -> Step:
    """The answer with this number, between the models before and after it."""
    at, latest = list(answers.positions[:number]), number - 1
    if before.basis is pool.basis:
        design = pool.design.rows(at)
    else:
        design = embed(pool.sets.take(at), before.basis)
    # before the first answer the model has no units, so known noise is measured by those after it
    measure = (before if latest else after).posterior
    noise = answers.noise_std[:number] / float(measure.output_scale[0])
    design = design.with_known_noise(noise, measure.noise_precision)
    new, y = design.rows([latest]), float(answers.y_bar[latest])
    ratio = before.posterior.variance_along(new.u) / new.noise_scale
    forecast = std = error = naive = None
    if latest:
        mean, stds = predict.predict_sets(before, new, include_noise=True)
        forecast, std = float(mean[0, 0]), float(stds[0, 0])
        so_far = scaling.offset_of(design.rows(slice(latest)), answers.y_bar[:latest, None])
        each = math.sqrt(new.noise_scale[0])
        error, naive = (y - forecast) / each, (y - float((so_far * new.theta_sum)[0])) / each
    return Step(
        number=number,
        set_id=pool.sets.ids[at[latest]],
        answer=y,
        information=float(0.5 * np.log1p(before.posterior.noise_precision * ratio[0])),
        forecast=forecast,
        forecast_std=std,
        error=error,
        naive_error=naive,
        typical_error=None,
        typical_naive_error=None,
        individual_std=individual_std,
        noise_std=float(after.posterior.output_scale[0])
        / math.sqrt(after.posterior.noise_precision),
    )


def _with_typical(steps: Sequence[Step], at: int) -> Step:
    """A step with the typical errors of it and those before it."""
    made = [step for step in steps[: at + 1] if step.error is not None][-WINDOW:]
    if not made:
        return steps[at]
    error, naive = (
        math.sqrt(math.fsum(value**2 for value in values) / len(made))
        for values in zip(*((step.error, step.naive_error) for step in made), strict=True)
    )
    return replace(steps[at], typical_error=error, typical_naive_error=naive)


def _spread_under(pool: Pool) -> Callable[[Model], float]:
    """Root of the mean variance of individuals, noise-free, under one model after another.

    Under a fixed basis the mean of φ φᵀ over all individuals is worked out once; a basis that
    learns is looked at on a sample of them, the same for all models.
    """
    if isinstance(pool.basis.basis, Trainable):
        x = pool.sets.x[:: -(-len(pool.sets.x) // SAMPLE)]
        return lambda model: _root_mean(model, features(model.basis, x), np.ones(len(x)) / len(x))
    powers, axes = second_moment(pool)
    return lambda model: _root_mean(model, axes, powers)


def _root_mean(
    model: Model, phi: Float[np.ndarray, "N K"], shares: Float[np.ndarray, " N"]
) -> float:
    variance = float(shares @ model.posterior.variance_along(phi))
    return float(model.posterior.output_scale[0]) * math.sqrt(variance)


# --- all of it ------------------------------------------------------------------------------------


def review(
    pool: Pool,
    model: Model,
    steps: tuple[Step, ...],
    answers: Answers,
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
    learns = isinstance(pool.basis.basis, Trainable)
    rows = _forecasts(steps) if learns else _left_out(pool, model, answers)
    reach = NormalDist().inv_cdf(0.5 + 0.5 * level)
    weights = pool.design.theta_sum
    compared = tuple(
        Compared(
            number=number,
            set_id=pool.sets.ids[answers.positions[number - 1]],
            answer=float(answers.y_bar[number - 1]),
            predicted=mean,
            std=std,
            lower=mean - reach * std,
            upper=mean + reach * std,
            weight=float(weights[answers.positions[number - 1]]),
        )
        for number, mean, std in rows
    )
    calibration = coverage([row.z for row in compared], level)
    error, naive = _last_typical(steps) if learns else _typical(pool, model, answers, compared)
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


def _left_out(pool: Pool, model: Model, answers: Answers) -> list[tuple[int, float, float]]:
    """Number, mean and standard deviation of each answer by the model of now without it."""
    n = len(answers.positions)
    if n < FEWEST:
        return []
    design = pool.design.rows(list(answers.positions))
    mean, std = leave_one_out(model, design, answers.y_bar[:, None], answers.noise_std)
    return list(zip(range(1, n + 1), mean[:, 0].tolist(), std[:, 0].tolist(), strict=True))


def _typical(
    pool: Pool, model: Model, answers: Answers, compared: Sequence[Compared]
) -> tuple[float | None, float | None]:
    """Median errors of answers left out, per √s_a; and had the rest's mean been given.

    One large set that is unlike all others must not speak for the rest, hence the median. The mean
    is `scaling.offset_of` without each answer, from the sums before and after it, which
    do not cancel.
    """
    if not compared:
        return None, None
    posterior, design = model.posterior, pool.design.rows(list(answers.positions))
    noise = answers.noise_std / float(posterior.output_scale[0])
    design = design.with_known_noise(noise, posterior.noise_precision)
    pull = design.theta_sum / design.noise_scale
    told, weight = _sums_of_others(pull * answers.y_bar), _sums_of_others(pull * design.theta_sum)
    mean = np.divide(told, weight, out=np.zeros(len(told)), where=weight > 0)
    predicted = np.array([row.predicted for row in compared])
    error, naive = (
        (answers.y_bar - expected) / np.sqrt(design.noise_scale)
        for expected in (predicted, mean * design.theta_sum)
    )
    return float(np.median(abs(error))), float(np.median(abs(naive)))


def _sums_of_others(values: Float[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
    """For each value, the sum of all others."""
    before, after = np.cumsum(values)[:-1], np.cumsum(values[::-1])[-2::-1]
    return np.concatenate([[0.0], before]) + np.concatenate([after, [0.0]])


def _last_typical(steps: Sequence[Step]) -> tuple[float | None, float | None]:
    return (steps[-1].typical_error, steps[-1].typical_naive_error) if steps else (None, None)


def _forecasts(steps: Sequence[Step]) -> list[tuple[int, float, float]]:
    """The same, by the models before each answer."""
    return [
        (step.number, step.forecast, step.forecast_std)
        for step in steps
        if step.forecast is not None and step.forecast_std is not None
    ]
