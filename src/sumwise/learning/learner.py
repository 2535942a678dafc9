"""Algorithm 1: ask for a set, take its total, learn, repeat.

`begin`, `ask` and `tell` are pure: they take a state and return a new one, or a question.
`ActiveLearner` holds the current state for a notebook or script.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import numpy as np

from sumwise.acquisition.objective import Objective, ObjectiveOptions, read
from sumwise.acquisition.screening import Ceiling, with_squares
from sumwise.acquisition.strategies import Acquisition, per_cost
from sumwise.data import validate
from sumwise.data.sets import Sets
from sumwise.errors import LabelError, PoolExhaustedError
from sumwise.learning.estimator import AggregateRegressor, resolve
from sumwise.learning.propose import Answer, Ask, PoolState, questions
from sumwise.model import fit as core
from sumwise.model.basis import Scaled
from sumwise.model.design import Design, Pool, embed
from sumwise.model.posterior import Hyperparameters
from sumwise.outofcore.design_store import Embedded, as_sets


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """Where Algorithm 1 stands: what is labelled (𝒟) and the model learned from it."""

    config: core.ModelConfig
    prepared: core.Prepared
    pool: Pool
    labels: Mapping[int, float]  # position in the pool -> ȳ, in order of arrival
    model: core.Model
    ceiling: Ceiling | None = None  # of the scores, from an earlier question
    objective: Objective = field(default_factory=Objective)
    noise: Mapping[int, float] = field(default_factory=dict)  # known noise of some labels


def begin(config: core.ModelConfig, sets: Sets | Embedded) -> Progress:
    """Lines 1–2: nothing is labelled; the model is its prior."""
    prepared = sets.prepare(config)
    pool = with_squares(sets.pool(prepared))
    fitted = fit_labels(config, prepared, pool.sets, pool.design.rows, {}, {})
    return Progress(config, prepared, pool, {}, fitted)


def ask(progress: Progress, strategy: str | Acquisition, seed: int) -> Ask:
    """Line 4: the unlabelled set that the strategy scores highest."""
    return ask_next(progress, strategy, seed)[0]


def ask_next(progress: Progress, strategy: str | Acquisition, seed: int) -> tuple[Ask, Progress]:
    """The same, and bounds that make the next question on a large pool cheaper."""
    wanted, model = progress.objective, progress.model
    pool = wanted.apply(progress.pool, model)
    noisy = progress.noise or wanted.noise_std is not None
    ceiling = None if noisy else progress.ceiling  # s_a + β r_a² moves with β, bounds do not
    state = PoolState(answered=tuple(progress.labels), questions=len(progress.labels))
    by: dict[str, Any] = {"seed": seed, "cost": wanted.cost, "ceiling": ceiling}
    found = next(questions(pool, model, strategy, state, runner_up=False, **by), None)
    if found is None:
        raise PoolExhaustedError("every set is measured already; nothing is left to ask")
    return found[0], replace(progress, ceiling=found[1])


def tell(progress: Progress, index: int, y_bar: float, noise_std: float = 0.0) -> Progress:
    """Lines 5–9: label a set, estimate λ and β anew, and the posterior."""
    labels = {**progress.labels, index: y_bar}
    noise = {**progress.noise, index: noise_std} if noise_std else progress.noise
    pool = progress.pool
    known = progress.config, progress.prepared, pool.sets, pool.design.rows, labels, noise
    fitted = fit_labels(*known, progress.model)
    after = replace(progress, labels=labels, model=fitted, noise=noise)
    if fitted.basis is pool.basis:
        return after
    learned = with_squares(pool.sets.pool(fitted))  # the basis has
    return replace(after, pool=learned, ceiling=None)


def fit_labels(
    config: core.ModelConfig,
    prepared: core.Prepared,
    sets: Sets,
    rows: Callable[[list[int]], Design],
    labels: Mapping[int, float],
    noise: Mapping[int, float],
    start: core.Model | None = None,
    learned: tuple[Scaled, Hyperparameters] | None = None,
) -> core.Model:
    """The model after these totals, by position of their sets.

    Args:
        rows: Gives rows of the design; not used where the basis learns.
        noise: Known noise of some totals.
        start, learned: As in `core.fit`.
    """
    at, labelled = list(labels), None
    if prepared.basis.learns:
        labelled = sets.take(at)
        design = embed(labelled, prepared.basis)
    else:
        design = rows(at)
    totals = np.array(list(labels.values())).reshape(len(at), 1)
    known = np.array([noise.get(a, 0.0) for a in at]) if any(noise.values()) else None
    data = labelled, design, totals
    return core.fit(config, prepared, *data, start, noise_std=known, learned=learned)


class ActiveLearner:
    """Algorithm 1 in memory.

    Args:
        sets: A `Sets`, or what `AggregateRegressor.embed` has written.
        model: An `AggregateRegressor`, whose settings are used; it is not changed.
        strategy: A name or a function; see `sumwise.score`.
        seed: Of the strategy's draws, and of the basis if no model is given.
        preset: `"paper"` takes the paper's model (128 Fourier features of length-scale 1, Adam)
            and AggMI in one word.
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
        **objective: Unpack[ObjectiveOptions],
    ) -> None:
        plain = as_sets(sets)
        self._estimator, self._strategy = resolve(model, strategy, seed, preset, sets)
        self._seed = seed
        wanted = read(plain, objective, "ActiveLearner")
        per_cost(self._strategy, np.zeros(len(plain)), wanted.cost)  # refuses costs without gains
        self._progress = replace(begin(self._estimator.config(), sets), objective=wanted)
        self._history: tuple[Answer, ...] = ()
        self._asked: Ask | None = None

    def ask(self) -> Ask:
        """The set to measure next; the same one until a total is recorded."""
        if self._asked is None:
            self._asked, self._progress = ask_next(self._progress, self._strategy, self._seed)
        return self._asked

    def tell(self, set_id: Hashable, y_bar: float, noise_std: float | None = None) -> None:
        """Record the measured total of a set, whether or not it was asked for.

        Args:
            noise_std: Standard deviation of noise that this measurement is known to have beside
                that of its individuals, such as noise added for privacy.
        """
        index = self._progress.pool.sets.position(set_id)
        value = validate.total(y_bar, set_id)
        noise = (0.0 if noise_std is None else validate.noise(noise_std, set_id)) or None
        if index in self._progress.labels:
            raise LabelError(
                f"set {set_id!r} is measured already ({self._progress.labels[index]:g}); "
                "a learner keeps its answers. Start a new one to change them."
            )
        own_id = self._progress.pool.sets.ids[index]  # 4.0 finds the set 4, and is not its name
        asked = self._asked if self._asked and self._asked.set_id == own_id else None
        self._progress = tell(self._progress, index, value, noise or 0.0)
        number = len(self._history) + 1
        self._history += (Answer(number, own_id, value, asked, noise, position=index),)
        self._asked = None

    def __repr__(self) -> str:
        answered, total = len(self._history), len(self._progress.pool.sets)
        return (
            f"ActiveLearner: {answered} of {total} sets measured, strategy {self._strategy!r}, "
            f"{self._estimator!r}"
        )

    @property
    def model(self) -> AggregateRegressor:
        """The model after all answers so far; before the first, the prior."""
        now = self._progress
        return AggregateRegressor.from_fitted(now.config, now.model, now.pool.sets)

    @property
    def labels(self) -> Mapping[Hashable, float]:
        """Measured totals by set id, in order of arrival."""
        ids = self._progress.pool.sets.ids
        return dict((ids[a], y_bar) for a, y_bar in self._progress.labels.items())

    @property
    def history(self) -> tuple[Answer, ...]:
        """Every answer with its question, in order."""
        return self._history
