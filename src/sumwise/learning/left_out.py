"""Each answer beside what all the others let expect: typical errors, and answers to check.

An answer is suspected if it is farther off than the farthest of as many right ones would be by
chance. Predictions from few answers have long tails, so what chance does is read off Student's t
with as many degrees of freedom as there are answers, scaled to a standard deviation of one.

Of few answers a wrong one sets level and scale of the outputs, beside which it looks right. There
the farthest is compared with a fit without it, and with Student's t of the others' freedom. A wrong
count, share or amount raises the dispersion of all, so the farthest are always compared so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final

import numpy as np

from sumwise.learning.parts import design_of
from sumwise.learning.propose import Answer, Expected, arrays_of
from sumwise.model import leave_one_out
from sumwise.model.design import Design, Pool
from sumwise.model.fit import Model
from sumwise.model.posterior import Posterior
from sumwise.util.shapes import Float
from sumwise.util.text import shown

FEWEST: Final = 3  # answers below which leaving one out says nothing: all set the level
CHANCE: Final = 0.01  # of suspecting any answer where all are right
NEAR: Final = 4.0  # standard deviations within which no answer is suspected
MOST: Final = 3  # suspects that models are fitted without
FEW: Final = 12  # answers up to which one may hide behind the level and scale that it sets
DOUBTFUL: Final = (
    2.5  # standard deviations from which counts, shares and amounts are looked at anew
)


@dataclass(frozen=True, slots=True)
class Judged:
    """Answers beside predictions by models that do not know them."""

    rows: tuple[tuple[int, float, float], ...] = ()  # number, mean, standard deviation with noise
    error: float | None = None  # typical one of an individual
    naive_error: float | None = None  # with the mean of the other answers as the prediction
    chances: tuple[float, ...] | None = None  # of being as far out; for counts, shares, amounts


@dataclass(frozen=True, slots=True)
class Suspect:
    """An answer that is farther from what all others let expect than chance explains."""

    set_id: Hashable
    position: int  # of the set
    total: float
    expected: float  # from all other answers
    std: float  # of that, noise included
    moves: float | None = None  # how far predictions move without it, per individual, if known
    chance: float | None = None  # of a total as far out, where that is not by standard deviations

    @property
    def id(self) -> str:
        """The set as people see it."""
        return shown(self.set_id)

    @property
    def z(self) -> float:
        """How many standard deviations the answer is above what is expected; of counts, shares and
        amounts, where normal outputs are as far out with the same probability."""
        if self.chance is not None:
            far = -NormalDist().inv_cdf(0.5 * self.chance)
            return math.copysign(far, self.total - self.expected)
        return (self.total - self.expected) / self.std


def left_out(pool: Pool, model: Model, answers: Sequence[Answer]) -> Judged:
    """Each answer predicted by the present model without it; none for a basis that learns.

    Errors are medians per individual (`Design.size`), of these predictions and of the mean of the
    other answers. The median keeps one large and unusual set from speaking for the rest. The mean
    is `scaling.offset_of` without each answer, from the sums before and after it, which do not
    cancel. That of counts, shares and amounts is their sum over their exposure.

    Args:
        pool: The sets under the model's basis; answers bring their own noise.
    """
    kept: Sequence[int] = range(len(answers))
    if model.labelled is not None and model.labelled.overlap is not None:
        kept = model.labelled.overlap.kept.tolist()  # others follow from these
    if len(kept) < FEWEST or pool.basis.learns:
        return Judged()
    some = [answers[i] for i in kept]
    _, y_bar, noise = arrays_of(some)
    rows = design_of(pool.design.rows, pool.sets, pool.basis, some)
    means, stds = leave_one_out.leave_one_out(model, rows, y_bar[:, None], noise)
    design = with_noise(rows, noise, model.posterior)
    pull = design.theta_sum / design.noise_scale
    if model.generalised is not None:
        pull = np.ones(len(pull))
    total, weight = _sums_of_others(pull * y_bar), _sums_of_others(pull * design.theta_sum)
    others = np.divide(total, weight, out=np.zeros(len(total)), where=weight > 0)
    error, naive = (
        float(np.median(abs((y_bar - expected) / rows.size)))
        for expected in (means[:, 0], others * design.theta_sum)
    )
    found = zip((i + 1 for i in kept), means[:, 0].tolist(), stds[:, 0].tolist(), strict=True)
    chances = leave_one_out.chances(model)
    out = None if chances is None else tuple(chances.tolist())
    return Judged(tuple(found), error, naive, out)


def with_noise(design: Design, noise_std: np.ndarray, scaled_by: Posterior) -> Design:
    """The design with known noise of answers, in units of this posterior."""
    noise = noise_std / float(scaled_by.output_scale[0])
    return design.with_known_noise(noise, scaled_by.noise_precision)


def _sums_of_others(values: Float[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
    """For each value, the sum of all others."""
    before, after = np.cumsum(values)[:-1], np.cumsum(values[::-1])[-2::-1]
    return np.concatenate([[0.0], before]) + np.concatenate([after, [0.0]])


# --- answers to check -----------------------------------------------------------------------------


def suspects(
    judged: Judged,
    answers: Sequence[Answer],
    moves: Callable[[Answer], float] | None,
    anew: Callable[[Answer], tuple[float, float]] | None = None,
) -> tuple[Suspect, ...]:
    """Answers that may be wrong, the one to check first before the others.

    Args:
        anew: Mean and standard deviation of an answer by a fit without it, if that is quick.
        moves: How far predictions move without an answer, which decides what comes first among
            the farthest; None where that takes long, and then the farthest comes first.
    """
    n, chances = len(judged.rows), judged.chances or [None] * len(judged.rows)
    every = [
        _suspect(answers[number - 1], mean, std, chance)
        for (number, mean, std), chance in zip(judged.rows, chances, strict=True)
    ]
    by_position = {told.position: told for told in answers}
    if anew is not None and judged.chances is not None:
        every = [each for each in every if abs(each.z) > DOUBTFUL]
        every = sorted(every, key=lambda each: -abs(each.z))[:MOST]
        every = [_anew(by_position[each.position], anew) for each in every]
    found = [each for each in every if _beyond(each, farthest(n))]
    if anew is not None and judged.chances is None and every and not found and n <= FEW:
        told = answers[judged.rows[int(np.argmax([abs(each.z) for each in every]))][0] - 1]
        found = [one for one in [_anew(told, anew)] if _beyond(one, farthest(n, n - 2))]
    found.sort(key=lambda suspect: -abs(suspect.z))
    if moves is None:
        return tuple(found)
    near = [replace(each, moves=moves(by_position[each.position])) for each in found[:MOST]]
    near.sort(key=lambda suspect: -(suspect.moves or 0.0))
    return (*near, *found[MOST:])


def _suspect(told: Answer, mean: float, std: float, chance: float | None) -> Suspect:
    return Suspect(told.set_id, told.position, told.y_bar, mean, std, chance=chance)


def _anew(told: Answer, anew: Callable[[Answer], tuple[float, float]]) -> Suspect:
    expected = anew(told)
    likely = expected.chance if isinstance(expected, Expected) else None
    return _suspect(told, *expected, None if likely is None else likely(told.y_bar))


def _beyond(suspect: Suspect, reach: float) -> bool:
    if suspect.chance is not None:
        return abs(suspect.z) > reach
    return abs(suspect.total - suspect.expected) > reach * suspect.std


def farthest(n: int, freedom: int | None = None) -> float:
    """How many standard deviations the farthest of `n` right answers may be off.

    Args:
        freedom: Of the others, where they alone set the scale.

    >>> [round(farthest(n), 2) for n in (3, 10, 100, 1000)]
    [4.95, 4.1, 4.01, 4.44]
    >>> [round(farthest(n, n - 2)) for n in (3, 4, 5, 8, 12)]
    [191, 20, 10, 6, 5]
    """
    from scipy.special import stdtrit

    if n < FEWEST:
        return math.inf
    if freedom is not None:
        return float(stdtrit(freedom, 1 - 0.5 * CHANCE / n))
    return max(NEAR, float(stdtrit(n, 1 - 0.5 * CHANCE / n)) * math.sqrt(1 - 2 / n))
