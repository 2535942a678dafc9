"""Each answer beside what all the others let expect: typical errors, and answers to check.

An answer is suspected if it is farther off than the farthest of as many right ones would be by
chance. Predictions from few answers have long tails, so what chance does is read off Student's t
with as many degrees of freedom as there are answers, scaled to a standard deviation of one.

Of few answers a wrong one sets level and scale of the outputs, beside which it looks right. There
the farthest is compared with a fit without it, and with Student's t of the others' freedom.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sumwise.learning.parts import design_of
from sumwise.learning.propose import Answer, arrays_of
from sumwise.model.design import Design, Pool
from sumwise.model.fit import Model
from sumwise.model.leave_one_out import leave_one_out
from sumwise.model.posterior import Posterior
from sumwise.util.shapes import Float
from sumwise.util.text import shown

FEWEST: Final = 3  # answers below which leaving one out says nothing: all set the level
CHANCE: Final = 0.01  # of suspecting any answer where all are right
NEAR: Final = 4.0  # standard deviations within which no answer is suspected
MOST: Final = 3  # suspects that models are fitted without
FEW: Final = 12  # answers up to which one may hide behind the level and scale that it sets


@dataclass(frozen=True, slots=True)
class Judged:
    """Answers beside predictions by models that do not know them."""

    rows: tuple[tuple[int, float, float], ...] = ()  # number, mean, standard deviation with noise
    error: float | None = None  # typical one of an individual
    naive_error: float | None = None  # with the mean of the other answers as the prediction


@dataclass(frozen=True, slots=True)
class Suspect:
    """An answer that is farther from what all others let expect than chance explains."""

    set_id: Hashable
    position: int  # of the set
    total: float
    expected: float  # from all other answers
    std: float  # of that, noise included
    moves: float | None = None  # how far predictions move without it, per individual, if known

    @property
    def id(self) -> str:
        """The set as people see it."""
        return shown(self.set_id)

    @property
    def z(self) -> float:
        """How many standard deviations the answer is above what is expected."""
        return (self.total - self.expected) / self.std


def left_out(pool: Pool, model: Model, answers: Sequence[Answer]) -> Judged:
    """Each answer predicted by the present model without it; none for a basis that learns.

    Errors are medians per individual (`Design.size`), of these predictions and of the mean of the
    other answers. The median keeps one large and unusual set from speaking for the rest. The mean
    is `scaling.offset_of` without each answer, from the sums before and after it, which do not
    cancel.

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
    means, stds = leave_one_out(model, rows, y_bar[:, None], noise)
    design = with_noise(rows, noise, model.posterior)
    pull = design.theta_sum / design.noise_scale
    total, weight = _sums_of_others(pull * y_bar), _sums_of_others(pull * design.theta_sum)
    others = np.divide(total, weight, out=np.zeros(len(total)), where=weight > 0)
    error, naive = (
        float(np.median(abs((y_bar - expected) / rows.size)))
        for expected in (means[:, 0], others * design.theta_sum)
    )
    found = zip((i + 1 for i in kept), means[:, 0].tolist(), stds[:, 0].tolist(), strict=True)
    return Judged(tuple(found), error, naive)


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
    found, reach = list[Suspect](), farthest(len(judged.rows))
    for number, mean, std in judged.rows:
        told = answers[number - 1]
        if abs(told.y_bar - mean) > reach * std:
            found.append(Suspect(told.set_id, told.position, told.y_bar, mean, std))
    if anew is not None and judged.rows and not found and len(judged.rows) <= FEW:
        off = [abs(answers[n - 1].y_bar - mean) / std for n, mean, std in judged.rows]
        told = answers[judged.rows[int(np.argmax(off))][0] - 1]
        mean, std = anew(told)
        if abs(told.y_bar - mean) > farthest(len(off), len(off) - 2) * std:
            found.append(Suspect(told.set_id, told.position, told.y_bar, mean, std))
    found.sort(key=lambda suspect: -abs(suspect.z))
    if moves is None:
        return tuple(found)
    by_position = {told.position: told for told in answers}
    near = [replace(each, moves=moves(by_position[each.position])) for each in found[:MOST]]
    near.sort(key=lambda suspect: -(suspect.moves or 0.0))
    return (*near, *found[MOST:])


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
