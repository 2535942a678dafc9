"""What to ask next while other questions are open, and how much is left to learn.

Open questions are conditioned on exactly: variances do not depend on the values measured, so the
model may know now what it will know then (`Posterior.given`). Asking for three sets is the same as
asking three times for one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sumwise import outputs
from sumwise.acquisition import Acquisition
from sumwise.design import Pool, add_products, features
from sumwise.errors import PoolExhaustedError
from sumwise.loop import reason
from sumwise.model import Model
from sumwise.posterior import BLOCK, Posterior
from sumwise.screening import leaders
from sumwise.selection import nothing_affordable
from sumwise.shapes import Float

# when a total deserves a second look, in the shell and on the page alike
FEWEST: Final = 3  # other answers, before anything can be expected
FAR: Final = 4.0  # standard deviations from what is expected


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a study: measure the total of this set."""

    set_id: Hashable
    score: float
    expected: float  # what the model thinks will be measured; 0 before the first answer
    std: float  # and how sure it is of that, noise included
    why: str
    information: float  # nats that the answer is expected to teach, beside open questions
    runner_up: Hashable  # the set that would have come next; None if this was the last one
    runner_up_score: float | None
    number: int  # questions asked before this one
    by: str | None  # who is to answer
    expires: str  # when the set is free again if nobody answers, UTC


@dataclass(frozen=True, slots=True)
class Status:
    """Where a study stands; information in nats, variances in squared units of the outputs."""

    name: str
    strategy: str
    sets: int
    answers: int
    open_claims: int
    skipped: int  # set aside by somebody
    questions: int  # asked so far
    information_left: float  # that measuring every set that is left would teach
    mean_variance: float  # of an individual's noise-free output, over all individuals
    mean_variance_after: float  # expected once open claims and the next questions are answered
    next_questions: int  # how many: 5, or as many as are free
    noise_variance: float  # of an individual's own noise, which no question takes away
    enough: float | None = None  # improvement, in units of the outputs, below which to stop
    spent: float | None = None  # on answers so far; None where measuring has no cost
    next_cost: float | None = None  # of the next questions

    @property
    def improvement(self) -> float:
        """How much less uncertain predictions should be (standard deviation, in units of the
        outputs) once open claims and the next questions are answered."""
        return max(0.0, self.mean_variance**0.5 - self.mean_variance_after**0.5)

    @property
    def stop(self) -> bool | None:
        """Whether more questions have stopped paying; None without a threshold or an answer."""
        if self.enough is None or not self.answers:
            return None
        return self.improvement < self.enough

    @property
    def words(self) -> tuple[str, ...]:
        """The same in sentences."""
        free = self.sets - self.answers - self.open_claims - self.skipped
        said = [
            f"{self.answers} of {count(self.sets, 'set')} measured, {self.open_claims} being "
            f"measured, {free} free" + (f", {self.skipped} skipped." if self.skipped else ".")
        ]
        if not free and not self.open_claims:
            said.append("Nothing is left to ask.")
        else:
            left = figure(self.information_left)
            said.append(f"Measuring all that are left would teach {left} nats about the model.")
        before, after = self.mean_variance, self.mean_variance_after
        coming, share = self._coming(), 100 * (1 - after / before) if before > 0 else 0
        if not self.answers:
            less = f"; answers to {coming} should leave {share:.0f} % less variance"
            unit = "Nothing is measured yet, so uncertainty has no unit"
            said.append(f"{unit}{less if coming else ''}.")
            return (*said, *self._money())
        unsure = f"Predictions of individuals are uncertain by ± {figure(before**0.5)} (standard "
        unsure += "deviation) because of what the model does not know"
        if coming:
            unsure += f"; answers to {coming} should bring that to ± {figure(after**0.5)}, "
            unsure += f"{share:.0f} % less variance"
        noise = f"An individual's own noise, ± {figure(self.noise_variance**0.5)}, comes on top; "
        said += [f"{unsure}.", f"{noise}no answer takes it away."]
        return (*said, *self._verdict(coming), *self._money())

    def _verdict(self, coming: str) -> tuple[str, ...]:
        """Whether to go on, where a threshold says so."""
        if self.stop is None or self.enough is None or not coming:
            return ()
        gain = f"an expected improvement of {figure(self.improvement)}"
        if self.stop:
            return (
                f"You may stop: answers to {coming} promise {gain}, less than the "
                f"{figure(self.enough)} that is worth asking for.",
            )
        return (
            f"Go on: answers to {coming} promise {gain}, and {figure(self.enough)} is worth asking "
            "for.",
        )

    def _money(self) -> tuple[str, ...]:
        if self.spent is None:
            return ()
        ahead = "" if self.next_cost is None else f"; the next cost {figure(self.next_cost)}"
        return (f"Answers so far have cost {figure(self.spent)}{ahead}.",)

    def _coming(self) -> str:
        """The questions behind `mean_variance_after`."""
        n, waiting = self.next_questions, count(self.open_claims, "open question")
        if not self.open_claims:
            return "" if not n else "the next question" if n == 1 else f"the next {n} questions"
        return waiting if not n else f"{waiting} and the next" + (f" {n}" if n > 1 else "")


def figure(value: float) -> str:
    """Three digits, or as many as a whole number has, for people.

    >>> figure(1199.54), figure(9.4243), figure(0.01234), figure(-3.2e12)
    ('1200', '9.42', '0.0123', '-3.2e+12')
    """
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def count(number: int, thing: str) -> str:
    """So many of a thing, in the singular or plural."""
    return f"{number} {thing}" + ("" if number == 1 else "s")


def propose(
    pool: Pool,
    model: Model,
    strategy: str | Acquisition,
    *,
    seed: int,
    first: int,
    n: int,
    answered: Sequence[int],
    claimed: Sequence[int],
    skipped: Sequence[int] = (),
    wanted: int | None = None,
    cost: Float[np.ndarray, " A"] | None = None,
    budget: float = math.inf,
) -> list[Question]:
    """The next `n` questions, the first of them with number `first`; nobody has claimed them yet.

    Args:
        answered: Positions of sets that are measured.
        claimed: Positions of sets that somebody is measuring.
        skipped: Positions of sets that nobody is to be asked for.
        wanted: Position of a set that somebody has chosen, as the first question.
        cost: Of measuring each set; questions are then ranked by gain per cost.
        budget: For all questions together; there are fewer than `n` if it pays for no more.
    """
    sets = pool.sets
    allowed = np.ones(len(sets), dtype=bool)
    allowed[[*answered, *claimed, *skipped]] = False
    if wanted is not None:
        allowed[wanted] = True
    if allowed.sum() < n and budget == math.inf:
        raise _exhausted(n, int(allowed.sum()), len(claimed), len(skipped))
    posterior = model.posterior
    asked: list[Question] = []
    if claimed:
        posterior = posterior.given(pool.design.rows(list(claimed)))
    for number in range(first, first + min(n, int(allowed.sum()))):
        affordable = allowed if cost is None else allowed & (cost <= budget)
        if not affordable.any():
            break
        rng = np.random.default_rng([seed, number])
        seen = pool, posterior, rng, affordable
        found = leaders(strategy, *seen, n=2, also=wanted, cost=cost)
        chosen, left = found.best(), int(affordable.sum())
        by_hand = wanted is not None and number == first and chosen != wanted
        chosen = wanted if by_hand and wanted is not None else chosen
        allowed[chosen] = False
        second = found.best(but=chosen) if left > 1 else None
        design = pool.design.rows([chosen])
        mean, std = outputs.predict_sets(model, design, include_noise=True)
        waiting = len(claimed) + len(asked)
        kind = "free" if waiting else "unmeasured"
        why = reason(strategy, found.score(chosen), int(sets.sizes[chosen]), left, kind)
        if cost is not None:
            budget -= float(cost[chosen])
            why += f" It costs {figure(float(cost[chosen]))}, and gains most for that."
        if by_hand:
            why = f"This set was chosen by hand; {strategy} would have asked for another first."
        if waiting:
            others = "a question that is" if waiting == 1 else f"{waiting} questions that are"
            why += f" It adds to {others} not answered yet."
        if not len(answered):
            why += " Nothing is measured yet, so what to expect is anybody's guess."
        ratio = posterior.noise_precision * posterior.variance_along(design.u) / design.noise_scale
        asked.append(
            Question(
                set_id=sets.ids[chosen],
                score=found.score(chosen),
                expected=float(mean[0, 0]),
                std=float(std[0, 0]),
                why=why,
                information=float(0.5 * posterior.n_outputs * np.log1p(ratio[0])),
                runner_up=None if second is None else sets.ids[second],
                runner_up_score=None if second is None else found.score(second),
                number=number,
                by=None,
                expires="",
            )
        )
        if number < first + n - 1:
            posterior = posterior.given(design)
    if not asked and n:
        raise nothing_affordable(budget, cost, allowed)
    return asked


def _exhausted(n: int, free: int, claimed: int, skipped: int) -> PoolExhaustedError:
    if free:
        return PoolExhaustedError(f"{n} sets were asked for and {free} are free; ask for fewer")
    if claimed:
        return PoolExhaustedError(
            f"every set is measured or being measured ({claimed} open questions); answer one, or "
            "release it"
        )
    if skipped:
        return PoolExhaustedError(f"every set is measured or skipped ({skipped}); unskip some")
    return PoolExhaustedError("every set is measured already; nothing is left to ask")


def outlook(
    pool: Pool,
    model: Model,
    strategy: str | Acquisition,
    *,
    seed: int,
    first: int,
    answered: Sequence[int],
    claimed: Sequence[int],
    skipped: Sequence[int] = (),
    cost: Float[np.ndarray, " A"] | None = None,
    ahead: int = 5,
) -> dict[str, Any]:
    """What `Status` says is left to learn, and what the next questions should do about it."""
    left = np.ones(len(pool.sets), dtype=bool)
    left[[*answered, *skipped]] = False
    ahead = min(ahead, int(left.sum()) - len(claimed))
    coming = list(claimed)
    if ahead:
        asked = propose(
            pool,
            model,
            strategy,
            seed=seed,
            first=first,
            n=ahead,
            answered=answered,
            claimed=claimed,
            skipped=skipped,
            cost=cost,
        )
        coming += [pool.sets.position(question.set_id) for question in asked]
    posterior = model.posterior
    after = posterior.given(pool.design.rows(coming)) if coming else posterior
    powers, axes = second_moment(pool)
    unit = float((posterior.output_scale**2).mean())
    return {
        "information_left": joint_information(pool, posterior, np.flatnonzero(left)),
        "mean_variance": unit * float(powers @ posterior.variance_along(axes)),
        "mean_variance_after": unit * float(powers @ after.variance_along(axes)),
        "next_questions": ahead,
        "noise_variance": unit / posterior.noise_precision,
        "spent": None if cost is None else float(cost[list(answered)].sum()),
        "next_cost": None if cost is None or not coming else float(cost[coming].sum()),
    }


def joint_information(pool: Pool, posterior: Posterior, which: np.ndarray) -> float:
    """½ log det(I + β S^½ Σ_a u_a u_aᵀ/s_a S^½): what measuring all these sets would teach."""
    n_basis = pool.design.u.shape[1]
    gram = np.zeros((n_basis, n_basis))
    for low in range(0, len(which), BLOCK):
        design = pool.design.rows(which[low : low + BLOCK])
        half = posterior.root_times(design.u) / np.sqrt(design.noise_scale)[:, None]
        gram += half.T @ half
    gains = posterior.noise_precision * np.maximum(np.linalg.eigvalsh(gram), 0.0)
    return float(0.5 * posterior.n_outputs * np.log1p(gains).sum())


def second_moment(pool: Pool) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, "K K"]]:
    """Mean of φ φᵀ over all individuals, as powers and the axes (rows) they lie along; over
    targets with their weights, where some are named."""
    moment = pool.moment
    if moment is None and pool.targets is not None:
        phi = features(pool.basis, pool.targets.x)
        moment = (phi * pool.targets.weight[:, None]).T @ phi
    elif moment is None:
        n_basis = pool.design.u.shape[1]
        moment = np.zeros((n_basis, n_basis))
        add_products(pool.sets.x, pool.basis, moment)
        moment /= len(pool.sets.x)
    powers, axes = np.linalg.eigh(moment)
    return np.maximum(powers, 0.0), axes.T
