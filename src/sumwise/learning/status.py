"""Where a study stands: what was measured and spent, what is left to learn, and when to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np

from sumwise.acquisition.known_noise import (
    given_answers,
    given_questions,
    independent_of_others,
    independent_rows,
)
from sumwise.data.about import About
from sumwise.learning.contradictions import Contradiction
from sumwise.learning.left_out import Suspect
from sumwise.learning.propose import Ask, PoolState
from sumwise.model.design import Pool, add_products, features
from sumwise.model.fit import Model
from sumwise.model.posterior import BLOCK, Posterior
from sumwise.util import html
from sumwise.util.shapes import Float, PerSet
from sumwise.util.text import count, figure, label, plain

NAMED: Final = 4  # answers beside the one to check first that are named
USUAL: Final = {"numbers": "mean", "counts": "rate", "shares": "share", "amounts": "mean"}
PREDICTED: Final = {  # of individuals
    "numbers": "Predictions",
    "counts": "Predicted rates",
    "shares": "Predicted shares",
    "amounts": "Predicted amounts",
}


@dataclass(frozen=True, slots=True)
class Status:
    """Where a study stands; information in nats, variances in squared units of the outputs.

    Those of counts, shares and amounts are per exposure, as are errors (`per`).
    """

    name: str
    strategy: str
    sets: int
    answers: int
    open_claims: int
    skipped: int
    questions: int  # asked so far
    information_left: float  # that measuring every set that is left would teach
    mean_variance: float  # of an individual's noise-free output, over all or over targets
    mean_variance_after: float  # expected once open claims and the next questions are answered
    next_questions: int  # how many: 5, or as many as are free
    noise_variance: float  # of an individual's own noise, which no question takes away
    enough: float | None = None  # improvement, in units of the outputs, below which to stop
    spent: float | None = None  # on answers so far; None where measuring has no cost
    next_cost: float | None = None  # of open claims and the next questions
    aimed: bool = False  # whether targets were named, and variances are theirs
    suspects: tuple[Suspect, ...] = ()  # answers that may be wrong, the one to check first first
    typical_error: float | None = None  # of an individual: answers predicted from all the others
    typical_naive_error: float | None = None  # with the mean of the others as the prediction
    about: About = field(default_factory=About)  # what is measured
    known: int = 0  # individuals and areas that were known from the start, beside the answers
    contradictions: tuple[Contradiction, ...] = ()  # totals that cannot all be right
    candidates: int = 0  # individuals whom sets are designed of; 0 where all sets are given
    used: int = 0  # of them, in sets that are or were measured
    alone: bool = False  # whether all sets are designed

    def _repr_html_(self) -> str:
        heads = ("sets", "measured", "being measured", "skipped", "asked so far")
        row = (self.sets, self.answers, self.open_claims, self.skipped, self.questions)
        return html.paragraphs(self.words) + html.table(heads, [row])

    @property
    def improvement(self) -> float:
        """How much less uncertain predictions should be (standard deviation, in units of the
        outputs) once open claims and the next questions are answered."""
        return max(0.0, self.mean_variance**0.5 - self.mean_variance_after**0.5)

    @property
    def stop(self) -> bool | None:
        """Whether more questions have stopped paying; None without a threshold or an answer."""
        if self.enough is None or not self.answers + self.known:
            return None
        return self.improvement < self.enough

    @property
    def outputs(self) -> str:
        """Numbers, counts, shares or amounts."""
        return self.about.outputs

    @property
    def per(self) -> str:
        """What errors are divided by."""
        if self.outputs == "numbers" or self.about.weights == "sum":
            return "individual"
        return "trial" if self.outputs == "shares" else "unit of exposure"

    @property
    def usual(self) -> str:
        """What is guessed for everyone without a model."""
        return USUAL[self.outputs]

    @property
    def headline(self) -> tuple[str, ...]:
        """What to know first, in sentences: which answer to check, and that the model is no use."""
        now, naive = self.typical_error, self.typical_naive_error
        said = [self.contradicted, self.to_check]
        if now is not None and naive is not None and now >= naive:
            said.append(
                f"So far the model does not beat guessing the {self.usual}: where each of "
                f"{self.answers + self.known} answers is predicted from the others, its median "
                f"error per {self.per} is {plain(now)}, and that of guessing their {self.usual} is "
                f"{plain(naive)}."
            )
        return tuple(filter(None, said))

    @property
    def contradicted(self) -> str | None:
        """Which totals cannot all be right, in sentences; None if all can."""
        if not self.contradictions:
            return None
        more = len(self.contradictions) - 1
        rest = f" {count(more, 'more total')} of overlapping sets cannot be right." if more else ""
        return self.contradictions[0].words + rest

    @property
    def to_check(self) -> str | None:
        """Which answer to check first and why, in a sentence; None if none looks wrong."""
        if not self.suspects:
            return None
        first, *others = self.suspects
        usual = f"{plain(first.expected)} ± {plain(first.std)}"
        said = (
            f"Check {label(first.set_id)} first: it is {figure(abs(first.z), 2)} standard "
            f"deviations from what the other answers let expect ({first.total:.9g} in place of "
            f"{usual})"
        )
        if first.chance is not None:
            rare = "less than 1e-12" if first.chance < 1e-12 else plain(first.chance)
            said = (
                f"Check {label(first.set_id)} first: the other answers suggest {usual}; a "
                f"{self.about.word} as far out as {first.total:.9g} has a probability of {rare}"
            )
        if first.moves is not None:
            most = f"of {len(self.suspects)} such answers it moves predictions most,"
            moves = f"{most if others else 'it moves predictions'} by {plain(first.moves)}"
            said += f", and {moves} per {self.per}"
        if others:
            more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
            names = ", ".join(label(each.set_id) for each in others[:NAMED])
            said += f". Because of it, right ones may look wrong: {names}{more}"
        return f"{said}."

    @property
    def words(self) -> tuple[str, ...]:
        """The same in sentences, the headline first."""
        free = self.sets - self.answers - self.open_claims - self.skipped
        free = self.next_questions if self.candidates else free
        said = [*self.headline, self._counts(free)]
        if self.known:
            one = self.known == 1
            what = "individual or area" if one else "individuals and areas"
            said.append(
                f"{self.known} {what} {'was' if one else 'were'} known from the start and "
                f"{'is' if one else 'are'} never asked for."
            )
        if free or self.open_claims:
            left = plain(self.information_left)
            rest = "every individual" if self.alone else "all remaining sets"
            said.append(f"Measuring {rest} would teach {left} nats about the model.")
        else:
            said.append("Nothing is left to ask.")
        said += self._uncertainty()
        if self.advice is not None:
            said.append(self.advice)
        if self.spent is not None:
            ahead = self._coming()
            known = ahead and self.next_cost is not None
            cost = f"; {ahead} will cost {self.next_cost:.6g}" if known else ""
            said.append(f"Answers so far have cost {self.spent:.6g}{cost}.")
        return tuple(said)

    def _counts(self, free: int) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        done = f"{self.answers} of {count(self.sets, 'set')}"
        done = count(self.answers, "pool") if self.alone else done
        done += f" measured, {self.open_claims} being measured"
        if not self.candidates:
            return f"{done}, {free} free{skipped}."
        among = f"{self.used} of {count(self.candidates, 'individual')} are in them"
        return f"{done}{skipped}; {among}."

    def _uncertainty(self) -> list[str]:
        unit = self.about.per_exposure
        before, after, ahead = self.mean_variance, self.mean_variance_after, self._coming()
        less = f"{100 * (1 - after / before) if before > 0 else 0:.0f} % less variance"
        if not self.answers + self.known:
            then = f"; {ahead} should leave {less}" if ahead else ""
            return [f"Nothing is measured yet, so uncertainty has no unit{then}."]
        whose = "the individuals that count" if self.aimed else "individuals"
        then = (
            f"; {ahead} should reduce that to ± {unit(plain(after**0.5))} ({less})" if ahead else ""
        )
        noise = unit(plain(self.noise_variance**0.5))
        each = f" per {self.per}" if self.per == "unit of exposure" else ""
        own = f"Noise of each individual, estimated at ± {noise}, adds to that"
        if self.outputs != "numbers":
            chance = "by what individuals and sets have of their own"
            chance = chance if self.outputs == "amounts" else f"by chance and {chance}"
            own = f"Around these, {self.outputs} of individuals vary {chance}, by ± {noise}{each}"
        return [
            f"{PREDICTED[self.outputs]} of {whose} are uncertain by ± {unit(plain(before**0.5))}"
            f"{each} (standard deviation) because of what the model does not know{then}.",
            f"{own}, and no answer reduces it.",
        ]

    @property
    def advice(self) -> str | None:
        """Whether to go on, in a sentence; None where no threshold says so."""
        ahead = self._coming()
        if self.stop is None or self.enough is None or not ahead:
            return None
        start, only = ("You may stop", "only ") if self.stop else ("Keep going", "")
        return (
            f"{start}: {ahead} should reduce uncertainty by {only}{plain(self.improvement)} "
            f"(your threshold: {plain(self.enough)})."
        )

    def _coming(self) -> str:
        """The answers behind `mean_variance_after`, as a subject; empty if there are none."""
        n, waiting = self.next_questions, count(self.open_claims, "open question")
        if not self.open_claims:
            return "" if not n else "the next answer" if n == 1 else f"the next {n} answers"
        more = "" if not n else " and the next" + (f" {n}" if n > 1 else "")
        return f"the answers to {waiting}{more}"


def outlook(
    pool: Pool, model: Model, state: PoolState, ahead: Sequence[Ask], cost: PerSet | None
) -> dict[str, Any]:
    """What `Status` says is left to learn, and what the questions `ahead` should do about it."""
    left = replace(state, claimed=()).free(len(pool.sets))
    coming = [*state.claimed, *(pool.sets.position(question.set_id) for question in ahead)]
    posterior, seen = model.posterior, given_answers(pool, model)
    after = given_questions(seen, posterior, coming)[1] if coming else posterior
    moment = second_moment(pool)
    return {
        "information_left": joint_information(seen, posterior, np.flatnonzero(left)),
        "mean_variance": mean_variance(posterior, *moment),
        "mean_variance_after": mean_variance(after, *moment),
        "next_questions": len(ahead),
        "noise_variance": float((posterior.output_scale**2).mean()) * posterior.individual_noise,
        "spent": None if cost is None else float(cost[list(state.answered)].sum()),
        "next_cost": None if cost is None or not coming else float(cost[coming].sum()),
    }


def joint_information(pool: Pool, posterior: Posterior, which: np.ndarray) -> float:
    """½ log det(I + β S^½ Σ_a u_a u_aᵀ/s_a S^½): what measuring all these sets would teach.

    It is too much where sets overlap and there are more of them than one block holds.
    """
    n_basis = pool.design.u.shape[1]
    gram = np.zeros((n_basis, n_basis))
    alone, whitened = independent_of_others(pool, which), partial(independent_rows, pool, posterior)
    for some, rows in ((which[alone], pool.design.rows), (which[~alone], whitened)):
        for low in range(0, len(some), BLOCK):
            design = rows(some[low : low + BLOCK])
            half = posterior.root_times(design.u) / np.sqrt(posterior.noise(design))[:, None]
            gram += half.T @ half
    gains = np.maximum(np.linalg.eigvalsh(gram), 0.0)
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
        add_products(pool.sets.own_x, pool.basis, moment)
        moment /= len(pool.sets.own_x)
    powers, axes = np.linalg.eigh(moment)
    return np.maximum(powers, 0.0), axes.T


def mean_variance(posterior: Posterior, powers: np.ndarray, axes: np.ndarray) -> float:
    """Mean variance of noise-free outputs, in squared units of the outputs; see `second_moment`."""
    unit = float((posterior.output_scale**2).mean())
    return unit * float(powers @ posterior.variance_along(axes))
