"""Where a study stands: what was measured and spent, what is left to learn, and when to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from sumwise.acquisition.known_noise import given_answers, given_questions
from sumwise.data.about import About
from sumwise.learning import gain
from sumwise.learning.contradictions import Contradiction
from sumwise.learning.left_out import Suspect
from sumwise.learning.propose import Ask, PoolState
from sumwise.model.design import Pool, add_products, features
from sumwise.model.fit import Model
from sumwise.model.posterior import Posterior
from sumwise.util import html
from sumwise.util.shapes import Float, PerSet
from sumwise.util.text import count, figure, label, plain

NAMED: Final = 4  # answers beside the one to check first that are named
USUAL: Final = {"numbers": "mean", "counts": "rate", "shares": "share", "amounts": "mean"}
FEW: Final = 10  # answers, below which noise and hyperparameters are hardly known
LITTLE: Final = 0.05  # of a typical uncertainty: questions that take off less help little
HARDLY: Final = 0.01  # and that take off less than this, hardly at all


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
    # A typical individual's standard deviation, as `predict` gives it (root mean square); that of
    # counts, shares and amounts is of what is predicted per exposure. Before any answer: no unit.
    individual_std: float | None = None
    individual_std_after: float | None = None  # after open claims and the next questions
    individual_std_all: float | None = None  # if all sets were measured; None if that is not known
    guess_std: float | None = None  # of individuals around their mean: what guessing it is off by
    set_std: float | None = None  # of the mean of a typical set's individuals
    set_std_after: float | None = None

    def _repr_html_(self) -> str:
        heads = ("sets", "measured", "being measured", "skipped", "asked so far")
        row = (self.sets, self.answers, self.open_claims, self.skipped, self.questions)
        return html.paragraphs(self.words) + html.table(heads, [row])

    @property
    def improvement(self) -> float:
        """How much less uncertain predictions should be (standard deviation, in units of the
        outputs, noise of individuals left out) once open claims and the next questions are
        answered."""
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
        said += [*self.known_now, *([self.own_noise] if self.own_noise else [])]
        said += [self.next_buys] if self.next_buys else []
        if not free and not self.open_claims:
            said.append("Nothing is left to ask.")
        if self.going_on is not None:
            said.append(self.going_on)
        if self.spent is not None:
            ahead = self.coming
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

    @property
    def typical(self) -> str:
        """Whose uncertainty is spoken of."""
        return typical(self.about, self.aimed)

    @property
    def explained(self) -> float | None:
        """By how much the variance of individuals around what is predicted for them is smaller than
        that around their mean, as a share, by the model; None while that says nothing."""
        if self.typical_error is None or not self.guess_std or self.outputs != "numbers":
            return None
        assert self.individual_std is not None
        return 1 - (self.individual_std / self.guess_std) ** 2

    @property
    def known_now(self) -> tuple[str, ...]:
        """How well a typical individual and the means of sets are known, in sentences."""
        if not self.answers + self.known or self.individual_std is None:
            return ("Nothing is measured yet, so uncertainty has no unit.",)
        unit, about = self.about.per_exposure, self.about
        said = f"{self.typical} is known to within {unit(f'±{plain(self.individual_std)}')}"
        if self.set_std is not None:
            set_std = unit(f"±{plain(self.set_std)}")
            said += f", and the {self.usual} of a typical set to within {set_std}"
        said += "" if self.per != "unit of exposure" else " per unit of exposure"
        few = "" if self.answers + self.known >= FEW else "; a rough figure with so few answers"
        said = f"{said[0].upper()}{said[1:]} (one standard deviation{few})."
        now, naive = self.typical_error, self.typical_naive_error
        no_use = now is not None and naive is not None and now >= naive
        if self.explained is None or self.guess_std is None or no_use:
            return (said,)  # what the model says of itself is not borne out
        guess = unit(f"±{plain(self.guess_std)}")
        return said, (
            f"Predicting the same for every {about.one} would be off by {guess}: the model "
            f"explains {100 * self.explained:.0f} % of what varies from {about.one} to {about.one}."
        )

    @property
    def own_noise(self) -> str | None:
        """What no model explains, in a sentence; None before an answer."""
        if not self.answers + self.known:
            return None
        noise = f"±{self.about.per_exposure(plain(self.noise_variance**0.5))}"
        if self.outputs == "numbers":
            return (
                f"Every {self.about.one} has noise of its own, estimated at {noise}, which only "
                "answers about its own set reduce."
            )
        chance = "by what individuals and sets have of their own"
        chance = chance if self.outputs == "amounts" else f"by chance and {chance}"
        each = f" per {self.per}" if self.per == "unit of exposure" else ""
        return f"Around that, {self.outputs} of individuals vary {chance}, by {noise}{each}."

    @property
    def next_buys(self) -> str | None:
        """What open claims and the next questions should do, in a sentence; None if there are
        none."""
        before, after, ahead = self.individual_std, self.individual_std_after, self.coming
        if before is None or after is None or not ahead:
            return None
        known = bool(self.answers + self.known)
        said = brings(ahead[0].upper() + ahead[1:], before, after, self.about, known, self.aimed)
        if not known:
            return f"{said}."
        if self.set_std is not None and self.set_std_after is not None:
            means = "means of sets" if self.usual == "mean" else f"{self.usual}s of sets"
            fall = self.about.per_exposure(from_to(self.set_std, self.set_std_after))
            said += f", and {means} {fall}"
        if self.individual_std_all is not None and self.individual_std_all < (1 - 1e-6) * after:
            all_of_it = self.about.per_exposure(f"±{plain(self.individual_std_all)}")
            said += f"; measuring all sets that are left would bring {self.typical} to {all_of_it}"
        return f"{said}."

    @property
    def advice(self) -> str | None:
        """Whether to go on, in a sentence; None where no threshold says so."""
        if self.stop is None or self.enough is None or not self.coming:
            return None
        start, only = ("You may stop", "only ") if self.stop else ("Keep going", "")
        less, enough = map(self.about.per_exposure, map(plain, (self.improvement, self.enough)))
        noise = ", apart from its own noise," if self.outputs == "numbers" else ""
        return (
            f"{start}: {self.coming} should reduce the uncertainty of {self.typical}{noise} by "
            f"{only}{less} (your threshold: {enough})."
        )

    @property
    def going_on(self) -> str | None:
        """The same, and without a threshold whether the next questions still help; None before an
        answer, and where nothing is left to ask."""
        before, after = self.individual_std, self.individual_std_after
        if self.enough is not None or not before or after is None:
            return self.advice
        if not self.coming or not self.answers + self.known:
            return None
        less = 1 - after / before
        helps = "hardly helps" if less < HARDLY else "helps little" if less < LITTLE else "helps"
        share = f"{100 * less:.2g} %" if HARDLY <= less < LITTLE else plain_percent(100 * less)
        cut = f"should reduce the uncertainty of {self.typical} by {share}"
        return f"Going on {helps}: {self.coming} {cut}."

    @property
    def worth(self) -> bool | None:
        """Whether to go on: by the threshold where there is one, otherwise whether the next
        questions should lower a typical standard deviation by 1 % or more; None before an answer,
        and where nothing is left to ask."""
        if self.enough is not None:
            return None if self.advice is None else not self.stop
        if self.going_on is None or not self.individual_std:
            return None
        assert self.individual_std_after is not None
        return self.individual_std_after <= (1 - HARDLY) * self.individual_std

    @property
    def coming(self) -> str:
        """The answers behind `mean_variance_after`, as a subject; empty if there are none."""
        n, waiting = self.next_questions, count(self.open_claims, "open question")
        if not self.open_claims:
            return "" if not n else "the next answer" if n == 1 else f"the next {n} answers"
        more = "" if not n else " and the next" + (f" {n}" if n > 1 else "")
        return f"the answers to {waiting}{more}"


# --- sentences ------------------------------------------------------------------------------------


def typical(about: About, aimed: bool) -> str:
    """A typical individual, or what is predicted of one.

    >>> typical(About(individual="school"), aimed=False), typical(About(outputs="counts"), True)
    ('a typical school', 'the rate of a typical individual among the targets')
    """
    one = f"a typical {about.one}{' among the targets' if aimed else ''}"
    return one if about.outputs == "numbers" else f"the {USUAL[about.outputs]} of {one}"


def brings(
    subject: str, before: float, after: float, about: About, known: bool, aimed: bool = False
) -> str:
    """What answers do for a typical individual, as a sentence without its full stop.

    Args:
        known: Whether anything is measured; before, a standard deviation has no unit.

    >>> about = About(individual="school", unit="points")
    >>> brings("It", 12, 10.5, about, known=True)
    'It should bring a typical school from ±12.0 to ±10.5 points'
    >>> brings("It", 1.0, 0.9, about, known=False)
    'It should reduce the uncertainty of a typical school by 10 %'
    """
    whom = typical(about, aimed)
    if not known:
        less = 100 * (1 - after / before) if before > 0 else 0.0
        return f"{subject} should reduce the uncertainty of {whom} by {plain_percent(less)}"
    return f"{subject} should bring {whom} {about.per_exposure(from_to(before, after))}"


def plain_percent(share: float) -> str:
    return "less than 1 %" if share < 1 else f"{share:.0f} %"


def from_to(before: float, after: float) -> str:
    """Two uncertainties with as many digits as show that they differ, but no more than five.

    >>> from_to(12.04, 10.5), from_to(12.04, 12.0367), from_to(0.0, 0.0)
    ('from ±12.0 to ±10.5', 'from ±12.040 to ±12.037', 'from ±0 to ±0')
    """
    for digits in (3, 4, 5):
        ends = [plain(value, digits) for value in (before, after)]
        if ends[0] != ends[1]:
            break
    return f"from ±{ends[0]} to ±{ends[1]}"


# --- numbers --------------------------------------------------------------------------------------


def outlook(
    pool: Pool,
    model: Model,
    state: PoolState,
    open_to: PoolState,
    ahead: Sequence[Ask],
    cost: PerSet | None,
) -> dict[str, Any]:
    """What `Status` says is left to learn, and what the questions `ahead` should do about it.

    Args:
        open_to: The state in which sets that were designed of individuals count as gone.
    """
    left = np.flatnonzero(replace(open_to, claimed=()).free(len(pool.sets)))
    coming = [*state.claimed, *(pool.sets.position(question.set_id) for question in ahead)]
    posterior, seen = model.posterior, given_answers(pool, model)
    after = given_questions(seen, posterior, coming)[1] if coming else posterior
    moment, gram = second_moment(pool), gain.joint_gram(seen, posterior, left)
    known = gain.individuals(pool, model, state.gone)
    return {
        "information_left": information_in(gram, posterior),
        "mean_variance": mean_variance(posterior, *moment),
        "mean_variance_after": mean_variance(after, *moment),
        "next_questions": len(ahead),
        "noise_variance": float((posterior.output_scale**2).mean()) * posterior.individual_noise,
        "spent": None if cost is None else float(cost[list(state.answered)].sum()),
        "next_cost": None if cost is None or not coming else float(cost[coming].sum()),
        "individual_std": known.std,
        "individual_std_after": float(gain.after_each(known, seen, posterior, coming)[-1]),
        "individual_std_all": gain.after_all(known, seen, posterior, left, gram)
        if gain.is_complete(pool)
        else None,
        "guess_std": gain.guessed(pool, model, known, state.gone),
    }


def information_in(gram: np.ndarray, posterior: Posterior) -> float:
    """½ log det(I + β S^½ Σ_a u_a u_aᵀ/s_a S^½): what measuring these sets would teach."""
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
        n_basis = pool.design.n_basis
        moment = np.zeros((n_basis, n_basis))
        add_products(pool.sets.own_x, pool.basis, moment)
        moment /= len(pool.sets.own_x)
    powers, axes = np.linalg.eigh(moment)
    return np.maximum(powers, 0.0), axes.T


def mean_variance(posterior: Posterior, powers: np.ndarray, axes: np.ndarray) -> float:
    """Mean variance of noise-free outputs, in squared units of the outputs; see `second_moment`."""
    unit = float((posterior.output_scale**2).mean())
    return unit * float(powers @ posterior.variance_along(axes))
