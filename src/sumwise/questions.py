"""What to ask next while other questions are open, and how much is left to learn.

Open questions are conditioned on exactly: variances do not depend on the values measured, so the
model may know now what it will know then (`Posterior.given`). Asking for three sets is the same as
asking three times for one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sumwise import model as core
from sumwise.acquisition import Acquisition, best, scores_of
from sumwise.design import Pool, blocks, features
from sumwise.errors import PoolExhaustedError
from sumwise.loop import reason
from sumwise.model import Model
from sumwise.posterior import BLOCK, Posterior
from sumwise.shapes import Float


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
    questions: int  # asked so far
    information_left: float  # that measuring every set that is left would teach
    mean_variance: float  # of an individual's noise-free output, over all individuals
    mean_variance_after: float  # expected once open claims and the next questions are answered
    next_questions: int  # how many: 5, or as many as are free
    noise_variance: float  # of an individual's own noise, which no question takes away


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
) -> list[Question]:
    """The next `n` questions, the first of them with number `first`; nobody has claimed them yet.

    Args:
        answered: Positions of sets that are measured.
        claimed: Positions of sets that somebody is measuring.
    """
    sets = pool.sets
    allowed = np.ones(len(sets), dtype=bool)
    allowed[[*answered, *claimed]] = False
    if allowed.sum() < n:
        raise _exhausted(n, int(allowed.sum()), len(claimed))
    posterior = model.posterior
    asked: list[Question] = []
    if claimed:
        posterior = posterior.given(pool.design.rows(list(claimed)))
    for number in range(first, first + n):
        scores = scores_of(strategy, pool, posterior, np.random.default_rng([seed, number]))
        chosen, left = best(scores, allowed, sets.ids), int(allowed.sum())
        allowed[chosen] = False
        second = best(scores, allowed, sets.ids) if left > 1 else None
        design = pool.design.rows([chosen])
        mean, std = core.predict_sets(model, design, include_noise=True)
        waiting = len(claimed) + len(asked)
        kind = "free" if waiting else "unmeasured"
        why = reason(strategy, float(scores[chosen]), int(sets.sizes[chosen]), left, kind)
        if waiting:
            others = "a question that is" if waiting == 1 else f"{waiting} questions that are"
            why += f" It adds to {others} not answered yet."
        if not len(answered):
            why += " Nothing is measured yet, so what to expect is anybody's guess."
        ratio = posterior.noise_precision * posterior.variance_along(design.u) / design.noise_scale
        asked.append(
            Question(
                set_id=sets.ids[chosen],
                score=float(scores[chosen]),
                expected=float(mean[0, 0]),
                std=float(std[0, 0]),
                why=why,
                information=float(0.5 * posterior.n_outputs * np.log1p(ratio[0])),
                runner_up=None if second is None else sets.ids[second],
                runner_up_score=None if second is None else float(scores[second]),
                number=number,
                by=None,
                expires="",
            )
        )
        if number < first + n - 1:
            posterior = posterior.given(design)
    return asked


def _exhausted(n: int, free: int, claimed: int) -> PoolExhaustedError:
    if free:
        return PoolExhaustedError(f"{n} sets were asked for and {free} are free; ask for fewer")
    if claimed:
        return PoolExhaustedError(
            f"every set is measured or being measured ({claimed} open questions); answer one, or "
            "release it"
        )
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
    ahead: int = 5,
) -> dict[str, Any]:
    """What `Status` says is left to learn, and what the next questions should do about it."""
    left = np.ones(len(pool.sets), dtype=bool)
    left[list(answered)] = False
    ahead = min(ahead, int(left.sum()) - len(claimed))
    coming = list(claimed)
    if ahead:
        taken = {"answered": answered, "claimed": claimed}
        asked = propose(pool, model, strategy, seed=seed, first=first, n=ahead, **taken)
        coming += [pool.sets.position(question.set_id) for question in asked]
    posterior = model.posterior
    after = posterior.given(pool.design.rows(coming)) if coming else posterior
    powers, axes = _second_moment(pool)
    unit = float((posterior.output_scale**2).mean())
    return {
        "information_left": joint_information(pool, posterior, np.flatnonzero(left)),
        "mean_variance": unit * float(powers @ posterior.variance_along(axes)),
        "mean_variance_after": unit * float(powers @ after.variance_along(axes)),
        "next_questions": ahead,
        "noise_variance": unit / posterior.noise_precision,
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


def _second_moment(pool: Pool) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, "K K"]]:
    """Mean of φ φᵀ over all individuals, as powers and the axes (rows) they lie along."""
    x, n_basis = pool.sets.x, pool.design.u.shape[1]
    moment = np.zeros((n_basis, n_basis))
    for low, high in blocks(x, pool.basis):
        phi = features(pool.basis, x[low:high], n_basis)
        moment += phi.T @ phi
    powers, axes = np.linalg.eigh(moment / len(x))
    return np.maximum(powers, 0.0), axes.T
