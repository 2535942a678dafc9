"""Predictions of a fitted model, of individuals and of sets' totals, in the user's units.

`Predictions` is the same as a table: a mean, a standard deviation and an interval for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from sumwise.data.sets import Sets
from sumwise.errors import DataError, InvalidSetError, SettingError
from sumwise.model.design import Design, blocks, features
from sumwise.model.fit import Model
from sumwise.model.posterior import BLOCK
from sumwise.util.shapes import Float
from sumwise.util.text import shown

PREFIX: Final = "sumwise_"


def predict_sets(
    model: Model, design: Design, *, include_noise: bool
) -> tuple[Float[np.ndarray, "A M"], Float[np.ndarray, "A M"]]:
    """Mean and standard deviation of each set's total (Eq. 14)."""
    variance = model.posterior.variance_along(design.u)
    if include_noise:
        variance = variance + design.noise_scale / model.posterior.noise_precision
    scale = model.posterior.output_scale
    total = np.empty((len(design), model.posterior.n_outputs))
    for low in range(0, len(design), BLOCK):  # of a design in single precision no copy is made
        total[low : low + BLOCK] = design.u[low : low + BLOCK] @ model.posterior.mean
    mean = design.theta_sum[:, None] * model.offset + scale * total
    return mean, scale * np.sqrt(variance)[:, None]


def predict_mean(model: Model, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N M"]:
    """Mean of each individual's output (Eq. 23)."""
    mean = np.empty((len(x), model.posterior.n_outputs))
    for low, high in blocks(x, model.basis):
        with np.errstate(all="ignore"):
            mean[low:high] = features_of(model, x[low:high]) @ model.posterior.mean
    return finite_rows(model.offset + model.posterior.output_scale * mean)


def predict_individuals(
    model: Model,
    x: Float[np.ndarray, "N D"],
    *,
    include_noise: bool = True,
    on_progress: Callable[[int], None] = lambda rows: None,
) -> tuple[Float[np.ndarray, "N M"], Float[np.ndarray, "N M"]]:
    """Mean and standard deviation of each individual's output (Eq. 23), with its noise or without.

    Args:
        on_progress: Called with the number of rows that are done.
    """
    mean, variance = np.empty((len(x), model.posterior.n_outputs)), np.empty(len(x))
    for low, high in blocks(x, model.basis):
        with np.errstate(all="ignore"):
            phi = features_of(model, x[low:high])
            mean[low:high] = phi @ model.posterior.mean
            variance[low:high] = model.posterior.variance_along(phi)
        on_progress(high)
    if include_noise:
        variance += 1 / model.posterior.noise_precision
    scale = model.posterior.output_scale
    return finite_rows(model.offset + scale * mean), finite_rows(scale * np.sqrt(variance)[:, None])


def features_of(model: Model, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N K"]:
    """φ of every row, as many features as the model knows."""
    return features(model.basis, x, len(model.posterior.mean))


def finite_rows(values: Float[np.ndarray, "N M"]) -> Float[np.ndarray, "N M"]:
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0, 0])
        raise InvalidSetError(
            f"row {row} has no finite prediction: its inputs are too far from those the model was "
            "fitted on, or the basis is not defined there. Leave it out, or choose another basis."
        )
    return values


# --- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Predictions:
    """What is expected of individuals or of sets, in the units of the answers."""

    mean: Float[np.ndarray, " n"]
    std: Float[np.ndarray, " n"]  # noise included
    level: float  # the share of values that should lie between lower and upper
    ids: tuple[Hashable, ...] | None = None  # the set of each row, if rows belong to sets
    beside: Mapping[str, Any] = field(default_factory=dict)  # ours in a table: row, or measured
    inputs: Mapping[str, Any] = field(default_factory=dict)  # the user's own columns
    lower: Float[np.ndarray, " n"] = field(init=False)
    upper: Float[np.ndarray, " n"] = field(init=False)

    def __post_init__(self) -> None:
        reach = NormalDist().inv_cdf(0.5 + 0.5 * self.level) * self.std
        object.__setattr__(self, "lower", self.mean - reach)
        object.__setattr__(self, "upper", self.mean + reach)

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        return f"Predictions: {len(self)} rows with intervals of {100 * self.level:g} %"

    def to_arrow(self) -> Any:
        """An Arrow table: set, what comes along, mean, std, lower and upper.

        Whole numbers and text stay what they are; other ids become the text that is shown of them.
        Our columns are called sumwise_mean and so on where one of the user's has such a name.
        """
        import pyarrow as pa

        first = {} if self.ids is None else {"set": _id_column(self.ids), **self.beside}
        last = {name: getattr(self, name) for name in ("mean", "std", "lower", "upper")}
        ours = own_names([*first, *last], self.inputs)
        first, last = ({ours[name]: part[name] for name in part} for part in (first, last))
        return pa.table({**first, **self.inputs, **last})


def own_names(names: Sequence[str], theirs: Collection[str]) -> dict[str, str]:
    """What our columns are called beside the user's: all get a prefix if one would clash."""
    prefix = PREFIX if set(names) & set(theirs) else ""
    for name in names:
        if prefix + name in theirs:
            raise DataError(f"there is a column {prefix + name!r} already; rename it")
    return {name: prefix + name for name in names}


def _id_column(ids: Sequence[Hashable]) -> Any:
    import pyarrow as pa

    if set(map(type, ids)) in ({str}, {int}):
        with suppress(pa.ArrowInvalid, OverflowError):  # a whole number may be of any size
            return pa.array(ids)
    return pa.array([shown(name) for name in ids], pa.string())


def individuals(sets: Sets, rows: int | None = None) -> dict[str, Any]:
    """Set ids, numbers within the set and inputs of the first `rows` individuals, or of all."""
    owners = np.repeat(np.arange(len(sets)), sets.sizes)[:rows]
    names = sets.input_names or tuple(f"x{d}" for d in range(sets.n_inputs))
    return {
        "ids": tuple(sets.ids[a] for a in owners),
        "beside": {"row": np.arange(len(owners)) - sets.starts[owners] + 1},
        "inputs": {str(name): sets.x[:rows, d] for d, name in enumerate(names)},
    }


def check_level(level: Any) -> float:
    number = isinstance(level, int | float | np.number) and not isinstance(level, bool)
    if not (number and level > 0 and 0.5 + 0.5 * level < 1):
        raise SettingError(f"level is {level!r}; give a number between 0 and 1, such as 0.9")
    return float(level)
