"""Algorithm 1: ask for a set, be told its total, learn, repeat.

`begin`, `ask` and `tell` are pure: they take a state and return a new one, or an answer.
`ActiveLearner` holds the current state for a notebook or script.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from sumwise import model as core
from sumwise import outputs
from sumwise.acquisition import BY_DROPOUT, DEFAULT, Acquisition, named
from sumwise.basis import Trainable, with_dropout
from sumwise.design import Pool, embed
from sumwise.embedded import Embedded, no_sets
from sumwise.errors import LabelError, SettingError
from sumwise.estimator import AggregateRegressor
from sumwise.labels import check_label
from sumwise.screening import Ceiling, leaders, with_squares
from sumwise.sets import Sets


@dataclass(frozen=True, slots=True)
class Ask:
    """A question: measure the total of this set."""

    set_id: Hashable
    score: float
    expected: float  # what the model thinks will be measured; 0 before the first answer
    std: float  # and how sure it is of that, noise included
    why: str


@dataclass(frozen=True, slots=True)
class Answer:
    """One line of the history."""

    number: int  # 1 for the first answer
    set_id: Hashable
    y_bar: float
    ask: Ask | None  # the question it answers; None if nobody asked


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """Where Algorithm 1 stands: what is labelled (𝒟) and the model learned from it."""

    config: core.ModelConfig
    prepared: core.Prepared
    pool: Pool
    labels: Mapping[int, float]  # position in the pool -> ȳ, in order of arrival
    model: core.Model
    ceiling: Ceiling | None = None  # of the scores, from an earlier question


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
    seen = progress.pool, fitted.posterior, rng, allowed
    found = leaders(strategy, *seen, ceiling=progress.ceiling)
    chosen = found.best()
    score = found.score(chosen)
    design = progress.pool.design.rows([chosen])
    mean, std = outputs.predict_sets(fitted, design, include_noise=True)
    size, left = int(sets.sizes[chosen]), int(allowed.sum())
    why = reason(strategy, score, size, left)
    if not progress.labels:
        why += " Nothing is measured yet, so what to expect is anybody's guess."
    asked = Ask(sets.ids[chosen], score, float(mean[0, 0]), float(std[0, 0]), why)
    return asked, replace(progress, ceiling=found.ceiling)


def tell(progress: Progress, index: int, y_bar: float) -> Progress:
    """Lines 5–9: label a set, estimate λ and β anew, and the posterior."""
    labels = {**progress.labels, index: y_bar}
    totals = np.array(list(labels.values()))[:, None]
    pool, at = progress.pool, list(labels)
    learns = isinstance(progress.prepared.basis.basis, Trainable)
    labelled, design = pool.sets.take(at) if learns else None, pool.design.rows(at)
    fitted = core.fit(progress.config, progress.prepared, labelled, design, totals, progress.model)
    told = replace(progress, labels=labels, model=fitted)
    if fitted.basis is not pool.basis:  # it has learned: every set looks different now
        design = embed(pool.sets, fitted.basis)
        pool = with_squares(Pool(pool.sets, fitted.basis, design))
        return replace(told, pool=pool, ceiling=None)
    return told


REASONS: Mapping[str, Callable[[float], str]] = {
    "AggMI": lambda score: f"measuring it is expected to teach {score:.3g} nats about the model",
    "AggEnt": lambda score: f"its total is the least certain (entropy {score:.3g} nats)",
    "MI": lambda score: f"its individuals would teach {score:.3g} nats one by one",
    "Ent": lambda score: f"its individuals are the least certain (entropy {score:.3g} nats)",
    "IVR": lambda score: (
        f"its total is expected to lower the variance of predictions by {score:.3g} on average"
    ),
    "EPIG": lambda score: (
        f"its total is expected to teach {score:.3g} nats about an individual's output on average"
    ),
    "QBC": lambda score: f"drawn models disagree most about its total (variance {score:.3g})",
    "EMCM": lambda score: f"its total would move the model most (by {score:.3g})",
    "Var": lambda score: f"its inputs vary most (variance {score:.3g})",
    "MaxN": lambda score: "it has the most individuals",
    "MinN": lambda score: "it has the fewest individuals",
    "Rand": lambda score: "it was drawn at random",
    "DAMI": lambda score: f"by dropout, measuring it is expected to teach {score:.3g} nats",
    "DAEnt": lambda score: f"by dropout, its total is the least certain ({score:.3g} nats)",
}


def reason(
    strategy: str | Acquisition, score: float, size: int, left: int, kind: str = "unmeasured"
) -> str:
    """Why this set of so many individuals comes first of those that are left, in a sentence.

    Of those that are "free", others are being measured or were proposed before it: it comes next.
    """
    individuals = "1 individual" if size == 1 else f"{size} individuals"
    known = REASONS.get(strategy) if isinstance(strategy, str) else None
    reason = known(score) if known else f"it has the highest score ({score:.4g})"
    if left == 1:
        return f"This is the only {kind} set that is left, of {individuals}: {reason}."
    turn = "next" if kind == "free" else "first"
    return f"Of {left} {kind} sets, this one of {individuals} comes {turn}: {reason}."


def settle(
    sets: Sets | Embedded,
    model: AggregateRegressor | None,
    strategy: str | Acquisition | None,
    seed: int,
    preset: str | None,
) -> tuple[AggregateRegressor, str | Acquisition]:
    """The model and strategy that these arguments mean; what makes no sense is refused."""
    if isinstance(sets, Embedded):
        model, preset = _as_embedded(sets, model, preset), None
    elif not isinstance(sets, Sets):
        raise no_sets(sets)
    if preset is not None:
        if preset != "paper":
            raise SettingError(f"no preset is called {preset!r}; there is 'paper'")
        if model is not None or strategy is not None:
            raise SettingError("a preset brings its own model and strategy; give one or the other")
        core.check_seed(seed, "seed")
        model = AggregateRegressor("fourier", hyperparameters="adam", random_state=int(seed))
        strategy = "AggMI"
    core.check_seed(seed, "seed")
    if model is None:
        model = AggregateRegressor(random_state=int(seed))
    elif not isinstance(model, AggregateRegressor):
        raise SettingError(
            f"model is {model!r}; give an AggregateRegressor, for example "
            "AggregateRegressor('linear')"
        )
    model = AggregateRegressor(**model.get_params())  # the caller's stays theirs
    strategy = DEFAULT if strategy is None else strategy
    named(strategy)  # refuses an unknown name now, not at the first question
    if isinstance(strategy, str) and strategy in BY_DROPOUT:
        model.set_params(basis=with_dropout(model.basis, model.n_basis))
    return model, strategy


def _as_embedded(
    sets: Embedded, model: AggregateRegressor | None, preset: str | None
) -> AggregateRegressor:
    """The model that the sets were embedded with: its basis is settled."""
    own = AggregateRegressor(
        **{field.name: getattr(sets.config, field.name) for field in fields(sets.config)}
    )
    same = model is None or (
        isinstance(model, AggregateRegressor) and model.get_params() == own.get_params()
    )
    if preset is not None or not same:
        raise SettingError(
            f"these sets are embedded with {own!r}; leave model and preset out, or embed them anew "
            "with another model"
        )
    return own


class ActiveLearner:
    """Algorithm 1 in memory.

    Args:
        sets: A `Sets`, or what `AggregateRegressor.embed` has written.
        model: An `AggregateRegressor`, whose settings are used; it is not changed.
        strategy: A name or a function; see `sumwise.score`.
        seed: Of the strategy's draws, and of the basis if no model is given.
        preset: `"paper"` takes the paper's model (128 Fourier features of length-scale 1, Adam)
            and AggMI in one word.

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
    ) -> None:
        self._estimator, self._strategy = settle(sets, model, strategy, seed, preset)
        self._seed = seed
        if isinstance(sets, Embedded):
            self._progress = begin_on(sets.config, sets.prepared, sets.pool)
        else:
            self._progress = begin(self._estimator.config(), sets)
        self._history: tuple[Answer, ...] = ()
        self._asked: Ask | None = None

    def ask(self) -> Ask:
        """The set to measure next; the same one until something is told."""
        if self._asked is None:
            rng = np.random.default_rng([self._seed, len(self._history)])
            self._asked, self._progress = look(self._progress, self._strategy, rng)
        return self._asked

    def tell(self, set_id: Hashable, y_bar: float) -> None:
        """The measured total of a set, asked for or not."""
        index = self._progress.pool.sets.position(set_id)
        value = check_label(y_bar, set_id)
        if index in self._progress.labels:
            raise LabelError(
                f"set {set_id!r} is measured already ({self._progress.labels[index]:g}); "
                "a learner keeps its answers. Start a new one to change them."
            )
        own_id = self._progress.pool.sets.ids[index]  # 4.0 finds the set 4, and is not its name
        asked = self._asked if self._asked and self._asked.set_id == own_id else None
        self._progress = tell(self._progress, index, value)
        self._history += (Answer(len(self._history) + 1, own_id, value, asked),)
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
