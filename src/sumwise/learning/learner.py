"""Algorithm 1: ask for a set, take its total, learn, repeat.

`begin`, `ask` and `tell` are pure: they take a state and return a new one, or a question.
`ActiveLearner` holds the current state for a notebook or script.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Unpack

import numpy as np

from sumwise.acquisition.objective import Objective, ObjectiveOptions, read
from sumwise.acquisition.screening import Ceiling, with_squares
from sumwise.acquisition.strategies import Acquisition, per_cost
from sumwise.data import validate
from sumwise.data.known import KNOWN, Known, with_known
from sumwise.data.sets import Sets
from sumwise.errors import LabelError
from sumwise.learning.estimator import AggregateRegressor, resolve
from sumwise.learning.propose import Answer, Ask, PoolState, Prices, arrays_of, draws_of, questions
from sumwise.model import fit as core
from sumwise.model.basis import Scaled
from sumwise.model.design import Design, Pool, embed
from sumwise.model.overlap import Overlap
from sumwise.model.posterior import Hyperparameters
from sumwise.outofcore.design_store import Embedded, as_sets


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """Where Algorithm 1 stands: the answers so far (𝒟) and the model learned from them."""

    prepared: core.Prepared
    pool: Pool
    model: core.Model
    answers: tuple[Answer, ...] = ()
    ceiling: Ceiling | None = None  # of the scores, from an earlier question
    objective: Objective = field(default_factory=Objective)

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
    return Progress(prepared, pool, fitted, objective=objective or Objective())


def ask(progress: Progress, strategy: str | Acquisition, seed: int) -> tuple[Ask, Progress]:
    """Line 4: the unlabelled set that the strategy scores highest.

    Gives also the state with bounds that make the next question on a large pool cheaper.
    """
    wanted, model, answers = progress.objective, progress.model, progress.answers
    pool = wanted.apply(progress.pool, model)
    noisy = wanted.noise_std is not None or any(answer.noise_std for answer in answers)
    # s_a + β r_a² moves with β, a mixture may become less certain, and noise of overlapping sets
    # becomes known; bounds hold for none of these
    moves = noisy or model.mixture is not None or pool.sets.members is not None
    ceiling = None if moves else progress.ceiling
    state = PoolState([answer.position for answer in answers], questions=len(answers))
    seen, prices = (pool, model, strategy, state, draws_of(seed)), Prices(wanted.cost)
    found, kept = next(questions(*seen, prices=prices, ceiling=ceiling, runner_up=False))
    return found, replace(progress, ceiling=kept)


def tell(
    progress: Progress,
    position: int,
    y_bar: float,
    noise_std: float | None = None,
    asked: Ask | None = None,
) -> Progress:
    """Lines 5–9: label a set, estimate λ and β anew, and the posterior."""
    pool, number = progress.pool, len(progress.answers) + 1
    set_id = pool.sets.ids[position]
    new = Answer(number, set_id, y_bar, asked, noise_std, position=position)
    answers = (*progress.answers, new)
    data = pool.sets, pool.design.rows, answers
    fitted = fit_answers(progress.prepared, *data, progress.model)
    after = replace(progress, answers=answers, model=fitted)
    if fitted.basis is pool.basis:
        return after
    learned = with_squares(pool.sets.pool(fitted))  # the basis has
    return replace(after, pool=learned, ceiling=None)


def tell_known(progress: Progress, known: Sequence[Known]) -> Progress:
    """What was known from the start, as answers; the model is fitted once, with the last."""
    if not known:
        return progress
    *before, last = known
    ids = progress.pool.sets
    answers = tuple(
        Answer(number, each.set_id, each.y_bar, None, each.noise_std, note=KNOWN, position=at)
        for number, each in enumerate(before, start=1)
        for at in [ids.position(each.set_id)]
    )
    position = ids.position(last.set_id)
    after = tell(replace(progress, answers=answers), position, last.y_bar, last.noise_std)
    return replace(after, answers=(*answers, replace(after.answers[-1], note=KNOWN)))


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
    labelled = None
    if prepared.basis.learns:
        labelled = sets.take(at)
        design = embed(labelled, prepared.basis)
    else:
        design = rows(at)
    data = labelled, design, totals[:, None]
    members = tuple(answer.set_id for answer in answers), partial(sets.take, at)
    known = None if sets.members is None else Overlap.of(sets, sets.take(at), noise)
    return core.fit(
        prepared, *data, start, noise_std=noise, learned=learned, members=members, overlap=known
    )


class ActiveLearner:
    """Algorithm 1 in memory.

    Args:
        sets: A `Sets`, or what `AggregateRegressor.embed` has written.
        model: An `AggregateRegressor`, whose settings are used; it is not changed.
        strategy: A name or a function; see `sumwise.score`.
        seed: Of the strategy's draws, and of the basis if no model is given.
        preset: `"paper"` takes the paper's model (128 Fourier features of length-scale 1, Adam)
            and AggMI in one word.
        known: Totals, outputs of individuals and totals of areas that are known already, as in
            `AggregateRegressor.fit`; they are among the answers, and never asked for.
        **objective: `targets` and `target_weights`: individuals whose predictions count, as in
            `sumwise.score`. `noise_std`: noise that measuring each set will have; `tell` takes the
            noise that an answer really had. `cost`: what measuring each set costs, as in
            `sumwise.select`; questions are then asked by gain per cost.

    The same seed and answers give the same questions. A learner belongs to one thread.

    >>> import numpy as np, sumwise as sw
    >>> rng = np.random.default_rng(1)
    >>> sets = sw.Sets.from_arrays([rng.normal(size=(n, 2)) for n in (2, 5, 1, 3)])
    >>> learner = sw.ActiveLearner(sets, strategy="AggMI", seed=0)
    >>> ask = learner.ask()
    >>> ask.set_id
    1
    >>> learner.tell(ask.set_id, 12.5)
    >>> learner.labels
    {1: 12.5}
    """

    def __init__(
        self,
        sets: Sets | Embedded,
        model: AggregateRegressor | None = None,
        strategy: str | Acquisition | None = None,
        seed: int = 0,
        preset: str | None = None,
        known: Any = None,
        **objective: Unpack[ObjectiveOptions],
    ) -> None:
        plain = as_sets(sets)
        config, self._strategy = resolve(model, strategy, seed, preset, sets)
        self._seed = seed
        wanted = read(plain, objective, "ActiveLearner")
        per_cost(self._strategy, np.zeros(len(plain)), wanted.cost)  # refuses costs without gains
        more, told = with_known(plain, known)
        if more is plain:
            self._progress = begin(config, sets, wanted)
        else:
            self._progress = begin(config, more, wanted.extended(len(more)))
        self._progress = tell_known(self._progress, told)
        self._asked: Ask | None = None

    def ask(self) -> Ask:
        """The set to measure next; the same one until a total is recorded."""
        if self._asked is None:
            self._asked, self._progress = ask(self._progress, self._strategy, self._seed)
        return self._asked

    def tell(self, set_id: Hashable, y_bar: float, noise_std: float | None = None) -> None:
        """Record the measured total of a set, whether or not it was asked for.

        Args:
            noise_std: Standard deviation of noise that this measurement is known to have beside
                that of its individuals, such as noise added for privacy.
        """
        position = self._progress.pool.sets.position(set_id)
        value = validate.total(y_bar, set_id)
        noise = (0.0 if noise_std is None else validate.noise(noise_std, set_id)) or None
        measured = self._progress.labels.get(position)
        if measured is not None:
            raise LabelError(
                f"set {set_id!r} is measured already ({measured:g}); a learner keeps its answers. "
                "Start a new one to change them."
            )
        own_id = self._progress.pool.sets.ids[position]  # 4.0 finds the set 4, and is not its name
        asked = self._asked if self._asked and self._asked.set_id == own_id else None
        self._progress = tell(self._progress, position, value, noise, asked)
        self._asked = None

    def __repr__(self) -> str:
        answered, total = len(self.history), len(self._progress.pool.sets)
        return (
            f"ActiveLearner: {answered} of {total} sets measured, strategy {self._strategy!r}, "
            f"{AggregateRegressor.from_config(self._progress.prepared.config)!r}"
        )

    @property
    def model(self) -> AggregateRegressor:
        """The model after all answers so far; before the first, the prior."""
        now = self._progress
        return AggregateRegressor.from_fitted(now.prepared.config, now.model, now.pool.sets)

    @property
    def labels(self) -> Mapping[Hashable, float]:
        """Measured totals by set id, in order of arrival."""
        return {answer.set_id: answer.y_bar for answer in self.history}

    @property
    def history(self) -> tuple[Answer, ...]:
        """Every answer with its question, in order."""
        return self._progress.answers
