"""What a user wants of the questions, beside answers.

    targets      whose predictions count, and how much
    noise_std    r_a: noise that measuring a set is known to have, beside that of its individuals
    cost         what measuring a set costs; questions are then ranked by gain per cost
    enough       stop when the next questions improve predictions by less than this

Noise that is known beforehand enters scores as it enters the fit: s_a becomes s_a + β r_a².
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypedDict

import numpy as np

from sumwise.data import targets, validate
from sumwise.data.frames import to_float
from sumwise.data.matching import match
from sumwise.data.sets import Sets
from sumwise.data.targets import Targets
from sumwise.errors import SettingError
from sumwise.model.design import Pool, freeze
from sumwise.model.fit import Model
from sumwise.util.shapes import PerSet

CHEAPEST: Final = 1e-100  # below, gains per cost would overflow; above its inverse, vanish
MOST_NOISE: Final = 1e100  # in units of the outputs; with more, nothing is learned either


class ObjectiveOptions(TypedDict, total=False):
    """Keyword arguments of `select` and `ActiveLearner`."""

    targets: Any
    target_weights: Any
    noise_std: Any
    cost: Any


class StudyOptions(ObjectiveOptions, total=False):
    """Keyword arguments of `create_study`."""

    enough: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """Checked options; None where an option was left out."""

    targets: Targets | None = None
    noise_std: PerSet | None = None
    cost: PerSet | None = None
    enough: float | None = None

    def __post_init__(self) -> None:
        freeze(*(array for array in (self.noise_std, self.cost) if array is not None))

    def __bool__(self) -> bool:
        """Whether any option was given."""
        options = (self.targets, self.noise_std, self.cost, self.enough)
        return any(option is not None for option in options)

    def extended(self, n_sets: int) -> Objective:
        """The same for more sets, which are known from the start and cost nothing."""

        def longer(values: PerSet | None, value: float) -> PerSet | None:
            if values is None:
                return None
            return np.append(values, np.full(n_sets - len(values), value))

        return replace(
            self, noise_std=longer(self.noise_std, 0.0), cost=longer(self.cost, CHEAPEST)
        )

    def of_targets(self, pool: Pool) -> Pool:
        """The pool with targets, where some are named."""
        if self.targets is None:
            return pool
        return replace(pool, targets=self.targets, moment=None)  # of all individuals

    def apply(self, pool: Pool, model: Model) -> Pool:
        """The pool as strategies are to see it: with targets, and with known noise in s_a."""
        pool = self.of_targets(pool)
        if self.noise_std is None or not self.noise_std.any():
            return pool
        if model.posterior.n_outputs != 1:
            raise SettingError(
                "known measurement noise (noise_std) works with one output, and the model has "
                f"{model.posterior.n_outputs}; score with a model for each, or leave noise_std out"
            )
        with np.errstate(over="ignore"):
            noise = self.noise_std / float(model.posterior.output_scale[0])
        noise = np.minimum(noise, MOST_NOISE)
        design = pool.design.with_known_noise(noise, model.posterior.noise_precision)
        return replace(pool, design=design)


def read(
    sets: Sets,
    options: Mapping[str, Any],
    function: str,
    known: type[ObjectiveOptions] = ObjectiveOptions,
    needed: Iterable[int] | None = None,
) -> Objective:
    """The keyword arguments of a public function, checked.

    Args:
        options: As in `ObjectiveOptions`. `noise_std` and `cost` are one number for all sets, or
            one for each: an array in the order of `sets.ids`, a dict, pandas Series or data frame
            by id, or a function of the sets.
        function: Named where an option is unknown.
        needed: Positions of the sets that `noise_std` must name; all if left out.
    """
    for name in options:
        if name not in known.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
    aims = targets.read(options.get("targets"), options.get("target_weights"), sets)
    noise, cost, enough = (options.get(name) for name in ("noise_std", "cost", "enough"))
    if enough is not None:
        enough = validate.amount(enough, "enough", "the outputs", or_zero=True)
    if noise is not None:
        noise = _per_set("noise_std", noise, sets, "at least 0, and finite", 0.0, needed=needed)
    if cost is not None:
        ends = CHEAPEST, 1 / CHEAPEST
        must = f"above 0, and between {ends[0]:g} and {ends[1]:g}"
        cost = _per_set("cost", cost, sets, must, *ends)
    return Objective(aims, noise, cost, enough)


def _per_set(
    name: str,
    given: Any,
    sets: Sets,
    must: str,
    least: float,
    most: float = np.inf,
    needed: Iterable[int] | None = None,
) -> PerSet:
    """One number for each set, `least` where none is needed; a refusal names the first set."""
    if callable(given):
        given = given(sets)
    if isinstance(given, int | float | np.number) or getattr(given, "ndim", 1) == 0:
        values = np.full(len(sets), to_float(given, name, SettingError))
    else:
        at, numbers = match(given, sets, name, SettingError)
        if numbers.ndim != 1:
            raise SettingError(
                f"{name} has shape {numbers.shape}; give one number for each of {len(sets)} sets"
            )
        values, unsaid = np.full(len(sets), least), np.ones(len(sets), dtype=bool)
        values[at], unsaid[at] = numbers, False
        for bad in np.flatnonzero(unsaid) if needed is None else filter(unsaid.item, needed):
            raise SettingError(
                f"{name} has no number for set {sets.ids[bad]!r}; give one for each set"
            )
    usable = np.isfinite(values) & (values >= least) & (values <= most)
    for bad in np.flatnonzero(~usable):
        raise SettingError(f"{name} of set {sets.ids[bad]!r} is {values[bad]:g}; it must be {must}")
    return values
