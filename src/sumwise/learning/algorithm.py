"""Algorithm 1: ask for a set, take its total, learn, repeat.

`begin`, `ask`, `tell` and `revise` are pure: they take a state and return a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from sumwise.acquisition.objective import Objective
from sumwise.acquisition.screening import Ceiling, with_squares
from sumwise.acquisition.strategies import Acquisition
from sumwise.data.sets import Sets
from sumwise.learning.parts import covered, design_of, in_whole_sets, not_covered, some_members
from sumwise.learning.propose import (
    Answer,
    Ask,
    PoolState,
    Prices,
    arrays_of,
    draws_of,
    questions,
    with_gains,
)
from sumwise.model import fit as core
from sumwise.model.basis import Scaled
from sumwise.model.design import Design, Pool, embed
from sumwise.model.overlap import Overlap
from sumwise.model.posterior import Hyperparameters
from sumwise.outofcore.design_store import Embedded

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """Where Algorithm 1 stands: the answers so far (𝒟) and the model learned from them."""

    prepared: core.Prepared
    pool: Pool
    model: core.Model
    answers: tuple[Answer, ...] = ()
    ceiling: Ceiling | None = None  # of the scores, from an earlier question
    objective: Objective = field(default_factory=Objective)
    skipped: tuple[int, ...] = ()  # positions of sets that are not asked for
    open: tuple[Ask, ...] = ()  # questions that were asked since anything changed
    questions: int = 0  # asked so far
    arrived: int = 0  # answers so far, those that were retracted included

    @property
    def state(self) -> PoolState:
        """What `propose` needs to know of it."""
        place = self.pool.sets.position
        claimed = tuple(place(question.set_id) for question in self.open)
        return PoolState(tuple(self.labels), claimed, self.skipped, self.questions)

    @property
    def labels(self) -> Mapping[int, float]:
        """Totals by position of their sets, in order of arrival."""
        return {answer.position: answer.y_bar for answer in self.answers}


def begin(
    config: core.ModelConfig, sets: Sets | Embedded, objective: Objective | None = None
) -> Progress:
    """Lines 1–2: nothing is labelled; the model is its prior."""
    prepared = sets.prepare(config)
    pool = with_squares(sets.pool(prepared))
    fitted = fit_answers(prepared, pool.sets, pool.design.rows, ())
    return _seen_by(Progress(prepared, pool, fitted, objective=objective or Objective()), fitted)


def ask(
    progress: Progress, strategy: str | Acquisition, seed: int, n: int = 1, *, runner_up: bool
) -> Progress:
    """Line 4: the state with `n` open questions, those that are open already among them.

    It keeps bounds that make the next question on a large pool cheaper.

    Args:
        runner_up: As in `propose`.
    """
    wanted, model, answers = progress.objective, progress.model, progress.answers
    state, before = progress.state, progress.open
    replace(state, claimed=()).free(len(progress.pool.sets), least=n)  # refuses too many
    if len(before) >= n:
        return progress
    pool = wanted.apply(progress.pool, model)
    noisy = wanted.noise_std is not None or any(answer.noise_std for answer in answers)
    # s_a + β r_a² moves with β, a mixture may become less certain, and noise of overlapping sets
    # becomes known; bounds hold for none of these
    moves = noisy or model.mixture is not None or pool.sets.members is not None
    ceiling = None if moves else progress.ceiling
    seen, prices = (pool, model, strategy, state, draws_of(seed)), Prices(wanted.cost)
    asked = questions(*seen, prices=prices, ceiling=ceiling, runner_up=runner_up)
    found = list(islice(asked, n - len(before)))
    new = [question for question, _ in found]
    return replace(
        progress,
        open=(*before, *(with_gains(pool, model, state, new) if runner_up else new)),
        questions=progress.questions + len(found),
        ceiling=progress.ceiling if before else found[0][1],  # others allow for open questions
    )


def tell(
    progress: Progress, position: int, y_bar: float, noise_std: float | None = None
) -> Progress:
    """Lines 5–9: label a set, estimate λ and β anew, and the posterior."""
    own = progress.pool.sets.ids[position]
    return tell_all(progress, [Answer(0, own, y_bar, noise_std=noise_std, position=position)])


def tell_all(progress: Progress, new: Sequence[Answer]) -> Progress:
    """The same for several sets, one after the other."""
    if not new:
        return progress
    prepared, pool, before = progress.prepared, progress.pool, len(progress.answers)
    asked = {question.set_id: question for question in progress.open}
    answers = (
        *progress.answers,
        *(
            replace(each, number=number, ask=asked.get(each.set_id))
            for number, each in enumerate(new, start=progress.arrived + 1)
        ),
    )
    fitted, seen = progress.model, (pool.sets, pool.design.rows)
    for n in range(len(answers) if quick(prepared) else before + 1, len(answers) + 1):
        fitted = fit_answers(prepared, *seen, answers[:n], fitted)
    told = {each.position for each in new}
    after = replace(
        progress,
        answers=answers,
        model=fitted,
        skipped=tuple(other for other in progress.skipped if other not in told),
        open=(),
        arrived=progress.arrived + len(new),
    )
    return _seen_by(after, fitted)


def revise(progress: Progress, answers: Sequence[Answer]) -> Progress:
    """The state after these answers in place of those it has, learned from the beginning."""
    kept = tuple(answers)
    (fitted,) = along(progress, kept, [len(kept)])
    after = replace(progress, answers=kept, model=fitted, open=(), ceiling=None)
    return _seen_by(after, fitted)


def _seen_by(progress: Progress, fitted: core.Model) -> Progress:
    """The state with the sets as a model sees them: its basis may have learned."""
    pool = progress.pool
    if fitted.basis is pool.basis:
        return progress
    known = pool.sets.pool(fitted) if pool.phi is None else fitted.pool(pool.sets, pool.phi)
    return replace(progress, pool=with_squares(known), ceiling=None)


def quick(prepared: core.Prepared) -> bool:
    """Whether a model depends on nothing but the answers, and is fitted at once."""
    return not prepared.basis.learns and prepared.config.hyperparameters != "adam"


def along(
    progress: Progress, answers: Sequence[Answer], lengths: Sequence[int]
) -> Iterator[core.Model]:
    """The models after the first n of these answers, for each n of rising `lengths`.

    Each answer is fitted from where the one before has left λ, β and the basis, if that matters.
    """
    pool, prepared = progress.pool, progress.prepared
    fit, done = partial(fit_answers, prepared, pool.sets, pool.design.rows), 0
    model = fit(())
    for length in lengths:
        for n in (length,) if quick(prepared) else range(done + 1, length + 1):
            model = fit(answers[:n], model)
        done = length
        yield model


def fit_answers(
    prepared: core.Prepared,
    sets: Sets,
    rows: Callable[[list[int]], Design],
    answers: Sequence[Answer],
    start: core.Model | None = None,
    learned: tuple[Scaled, Hyperparameters] | None = None,
) -> core.Model:
    """The model after these answers.

    Args:
        rows: Gives rows of the design; not used where the basis learns.
        start, learned: As in `core.fit`.
    """
    at, totals, noise = arrays_of(answers)
    labelled, measured = None, partial(some_members, sets, answers)
    if prepared.looks_at_individuals:
        labelled = measured()
        if prepared.config.likelihood is not None:
            labelled = covered(labelled)
        design = embed(labelled, prepared.basis)
    else:
        design = design_of(rows, sets, prepared.basis, answers)
    data = labelled, design, totals[:, None]
    members = tuple(answer.set_id for answer in answers), measured
    known = None if sets.members is None else Overlap.of(sets, measured(), noise)
    fitted = core.fit(
        prepared, *data, start, noise_std=noise, learned=learned, members=members, overlap=known
    )
    if fitted.labelled is None or all(answer.of is None for answer in answers):
        return fitted
    whole = sets.take(at).pool(fitted).design
    both, rest = in_whole_sets(sets, answers), None
    if fitted.generalised is not None:
        numbers, others = not_covered(sets, answers)
        rest = numbers, others.pool(fitted).design
    left = replace(fitted.labelled, whole=whole, in_whole=both, rest=rest)
    return replace(fitted, labelled=left)
