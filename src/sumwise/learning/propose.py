"""What to ask next while other questions are open.

Open questions are conditioned on exactly: variances do not depend on the values measured, so the
model may know now what it will know then (`Posterior.given`). Asking for three sets is the same as
asking three times for one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sumwise.acquisition.screening import candidates
from sumwise.acquisition.strategies import Acquisition, price, reason
from sumwise.errors import PoolExhaustedError
from sumwise.learning.selection import nothing_affordable, pays_for
from sumwise.model import predict
from sumwise.model.design import Pool
from sumwise.model.fit import Model
from sumwise.util.shapes import Float

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
    cost: float | None = None  # of measuring it; None where measuring has no cost
    runner_up_cost: float | None = None

    @property
    def score_per_cost(self) -> float | None:
        """What it was chosen by where measuring has a cost."""
        return None if self.cost is None else self.score / self.cost

    @property
    def runner_up_score_per_cost(self) -> float | None:
        if self.runner_up_score is None or self.runner_up_cost is None:
            return None
        return self.runner_up_score / self.runner_up_cost


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
    asked, paid = list[Question](), 0.0
    if claimed:
        posterior = posterior.condition_on(pool.design.rows(list(claimed)))
    for number in range(first, first + min(n, int(allowed.sum()))):
        affordable = allowed if cost is None else allowed & pays_for(budget, paid, cost)
        if not affordable.any():
            break
        rng = np.random.default_rng([seed, number])
        seen = pool, posterior, rng, affordable
        found = candidates(strategy, *seen, n=2, also=wanted, cost=cost)
        chosen, left, free = found.best(), int(affordable.sum()), int(allowed.sum())
        by_hand = wanted is not None and number == first and chosen != wanted
        chosen = wanted if by_hand and wanted is not None else chosen
        allowed[chosen] = False
        second = found.best(but=chosen) if left > 1 else None
        design = pool.design.rows([chosen])
        mean, std = predict.predict_sets(model, design, include_noise=True)
        waiting = len(claimed) + len(asked)
        kind, turn = ("free", "next") if waiting else ("unmeasured", "first")
        if left < free:
            kind = "affordable"  # others are left, and cost more than the budget has
        why = reason(strategy, found.score(chosen), int(sets.sizes[chosen]), left, kind, turn)
        if by_hand:
            why = f"This set was chosen by hand; {strategy} would have asked for another first."
        if cost is not None:
            paid += float(cost[chosen])
            why += f" {price(found.score(chosen), float(cost[chosen]), best=not by_hand)}"
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
                cost=None if cost is None else float(cost[chosen]),
                runner_up_cost=None if cost is None or second is None else float(cost[second]),
            )
        )
        if number < first + n - 1:
            posterior = posterior.condition_on(design)
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
