"""Algorithm 1: ask for a set, be told its total, learn, repeat.

`begin`, `ask` and `tell` are pure: they take a state and return a new one, or an answer.
`ActiveLearner` holds the current state for a notebook or script.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sumwise.acquisition import objective as aims
from sumwise.acquisition.objective import Aims
from sumwise.acquisition.screening import Ceiling, candidates, with_squares
from sumwise.acquisition.strategies import Acquisition, per_cost, price, reason
from sumwise.data.sets import Sets
from sumwise.data.validate import check_label, check_noise
from sumwise.errors import LabelError
from sumwise.learning.estimator import AggregateRegressor
from sumwise.learning.resolve_settings import settle
from sumwise.model import fit as core
from sumwise.model import predict
from sumwise.model.basis import Trainable
from sumwise.model.design import Pool, embed
from sumwise.outofcore.design_store import Embedded


@dataclass(frozen=True, slots=True)
class Ask:
    """A question: measure the total of this set."""

    set_id: Hashable
    score: float
    expected: float  # what the model thinks will be measured; 0 before the first answer
    std: float  # and how sure it is of that, noise included
    why: str
    cost: float | None = None  # of measuring it; None where measuring has no cost


@dataclass(frozen=True, slots=True)
class Answer:
    """One line of the history."""

    number: int  # 1 for the first answer
    set_id: Hashable
    y_bar: float
    ask: Ask | None  # the question it answers; None if nobody asked
    noise_std: float | None = None  # that this measurement is known to have


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """Where Algorithm 1 stands: what is labelled (𝒟) and the model learned from it."""

    config: core.ModelConfig
    prepared: core.Prepared
    pool: Pool
    labels: Mapping[int, float]  # position in the pool -> ȳ, in order of arrival
    model: core.Model
    ceiling: Ceiling | None = None  # of the scores, from an earlier question
    aims: Aims = field(default_factory=Aims)
    noise: Mapping[int, float] = field(
        default_factory=dict
    )  # of labels that have some of their own


def begin(config: core.ModelConfig, sets: Sets) -> Progress:
    """Lines 1–2: nothing is labelled; the model is its prior."""
    prepared = core.prepare(config, sets)
    adam = config.hyperparameters == "adam"
    pool = Pool(sets, prepared.basis, embed(sets, prepared.basis, numba_anyway=adam))
    return begin_on(config, prepared, pool)


def begin_on(config: core.ModelConfig, prepared: core.Prepared, pool: Pool) -> Progress:
    """The same, where the sets are embedded already."""
    nobody = pool.sets[:0] if isinstance(prepared.basis.basis, Trainable) else None
    fitted = core.fit(config, prepared, nobody, pool.design.rows([]), np.empty((0, 1)))
    return Progress(config, prepared, with_squares(pool), {}, fitted)


def ask(progress: Progress, strategy: str | Acquisition, rng: np.random.Generator) -> Ask:
    """Line 4: the unlabelled set that the strategy scores highest."""
    return look(progress, strategy, rng)[0]


def look(
    progress: Progress, strategy: str | Acquisition, rng: np.random.Generator
) -> tuple[Ask, Progress]:
    """The same, and what was seen on the way: the next question on a large pool costs less."""
    sets, fitted = progress.pool.sets, progress.model
    allowed = np.ones(len(sets), dtype=bool)
    allowed[list(progress.labels)] = False
    cost = progress.aims.cost
    pool = aims.aimed(progress.pool, fitted, progress.aims)
    blurred = progress.noise or progress.aims.noise_std is not None
    ceiling = None if blurred else progress.ceiling  # s_a + β r_a² moves with β, bounds do not
    found = candidates(strategy, pool, fitted.posterior, rng, allowed, ceiling=ceiling, cost=cost)
    chosen = found.best()
    score = found.score(chosen)
    design = pool.design.rows([chosen])
    mean, std = predict.predict_sets(fitted, design, include_noise=True)
    size, left = int(sets.sizes[chosen]), int(allowed.sum())
    why = reason(strategy, score, size, left)
    paid = None if cost is None else float(cost[chosen])
    if paid is not None:
        why += f" {price(score, paid)}"
    if not progress.labels:
        why += " Nothing is measured yet, so what to expect is anybody's guess."
    asked = Ask(sets.ids[chosen], score, float(mean[0, 0]), float(std[0, 0]), why, paid)
    return asked, replace(progress, ceiling=found.ceiling)


def tell(progress: Progress, index: int, y_bar: float, noise_std: float = 0.0) -> Progress:
    """Lines 5–9: label a set, estimate λ and β anew, and the posterior."""
    labels = {**progress.labels, index: y_bar}
    noise = {**progress.noise, index: noise_std} if noise_std else progress.noise
    blur = np.array([noise.get(a, 0.0) for a in labels]) if noise else None
    totals = np.array(list(labels.values()))[:, None]
    pool, at = progress.pool, list(labels)
    learns = isinstance(progress.prepared.basis.basis, Trainable)
    labelled, design = pool.sets.take(at) if learns else None, pool.design.rows(at)
    known = progress.config, progress.prepared, labelled, design, totals, progress.model
    fitted = core.fit(*known, noise_std=blur)
    told = replace(progress, labels=labels, model=fitted, noise=noise)
    if fitted.basis is not pool.basis:  # it has learned: every set looks different now
        design = embed(pool.sets, fitted.basis)
        pool = with_squares(Pool(pool.sets, fitted.basis, design))
        return replace(told, pool=pool, ceiling=None)
    return told


class ActiveLearner:
    """Algorithm 1 in memory.

    Args:
        sets: A `Sets`, or what `AggregateRegressor.embed` has written.
        model: An `AggregateRegressor`, whose settings are used; it is not changed.
        strategy: A name or a function; see `sumwise.score`.
        seed: Of the strategy's draws, and of the basis if no model is given.
        preset: `"paper"` takes the paper's model (128 Fourier features of length-scale 1, Adam)
            and AggMI in one word.
        targets: Individuals whose predictions count, as in `sumwise.score`, and `target_weights`.
        noise_std: Noise that measuring each set will have, as in `sumwise.score`; what an answer
            really had is said when it is told.
        cost: What measuring each set costs, as in `sumwise.select`: questions are asked by gain
            per cost.

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
        *,
        targets: Any = None,
        target_weights: Any = None,
        noise_std: Any = None,
        cost: Any = None,
    ) -> None:
        self._estimator, self._strategy = settle(sets, model, strategy, seed, preset)
        self._seed = seed
        wishes = aims.read(
            sets.sets if isinstance(sets, Embedded) else sets,
            wanted=targets,
            target_weights=target_weights,
            noise_std=noise_std,
            cost=cost,
        )
        per_cost(self._strategy, np.zeros(len(sets)), wishes.cost)  # refuses what has no gains
        if isinstance(sets, Embedded):
            begun = begin_on(sets.config, sets.prepared, sets.pool)
        else:
            begun = begin(self._estimator.config(), sets)
        self._progress = replace(begun, aims=wishes)
        self._history: tuple[Answer, ...] = ()
        self._asked: Ask | None = None

    def ask(self) -> Ask:
        """The set to measure next; the same one until something is told."""
        if self._asked is None:
            rng = np.random.default_rng([self._seed, len(self._history)])
            self._asked, self._progress = look(self._progress, self._strategy, rng)
        return self._asked

    def tell(self, set_id: Hashable, y_bar: float, noise_std: float | None = None) -> None:
        """The measured total of a set, asked for or not.

        Args:
            noise_std: Standard deviation of noise that this measurement is known to have beside
                that of its individuals, such as noise added for privacy.
        """
        index = self._progress.pool.sets.position(set_id)
        value = check_label(y_bar, set_id)
        noise = (0.0 if noise_std is None else check_noise(noise_std, set_id)) or None
        if index in self._progress.labels:
            raise LabelError(
                f"set {set_id!r} is measured already ({self._progress.labels[index]:g}); "
                "a learner keeps its answers. Start a new one to change them."
            )
        own_id = self._progress.pool.sets.ids[index]  # 4.0 finds the set 4, and is not its name
        asked = self._asked if self._asked and self._asked.set_id == own_id else None
        self._progress = tell(self._progress, index, value, noise or 0.0)
        self._history += (Answer(len(self._history) + 1, own_id, value, asked, noise),)
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
        face = AggregateRegressor(**self._estimator.get_params())
        return face.adopt(self._progress.model, self._progress.pool.sets)

    @property
    def labels(self) -> Mapping[Hashable, float]:
        """Measured totals by set id, in order of arrival."""
        ids = self._progress.pool.sets.ids
        return dict((ids[a], y_bar) for a, y_bar in self._progress.labels.items())

    @property
    def history(self) -> tuple[Answer, ...]:
        """Every answer with its question, in order."""
        return self._history
