"""What makes `Sets` valid: names, weights, shapes and finite numbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sumwise.data import frames
from sumwise.data.validate import as_list
from sumwise.errors import InvalidSetError, SettingError
from sumwise.util.shapes import Float, Int

if TYPE_CHECKING:
    from sumwise.data.sets import Sets


def is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def names_of(ids: Sequence[Hashable] | None, n_sets: int) -> tuple[Hashable, ...]:
    if not n_sets:
        raise InvalidSetError("no sets were given; pass at least one")
    names = tuple(range(n_sets)) if ids is None else tuple(as_list(ids, "ids"))
    if len(names) != n_sets:
        raise InvalidSetError(f"{len(names)} ids were given for {n_sets} sets")
    return names


def starts_of(sizes: Sequence[int] | Int[np.ndarray, " A"]) -> Int[np.ndarray, " A1"]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def one_of(weights: Any, exposure: Any, trials: Any) -> tuple[Any, str]:
    """θ by any of its names, and the name; `weights` is None, "sum" or "mean" by default."""
    named = {"exposure": exposure, "trials": trials}
    given = {name: value for name, value in named.items() if value is not None}
    plain = weights is None or (isinstance(weights, str) and weights == "sum")
    if len(given) + (not plain) > 1:
        raise SettingError(
            "weights, exposure and trials all say how much of each individual a total contains; "
            "give one of them"
        )
    return next(((value, name) for name, value in given.items()), (weights, "weights"))


def theta_in(rows: frames.Table, weights: Any, said: str) -> tuple[Any, Any]:
    """θ of each row of a table, or "sum", "mean" or None; and the column that it is, if it is one.

    Args:
        said: The name by which it was given.
    """
    if isinstance(weights, str) and (said != "weights" or weights not in ("sum", "mean")):
        more = ", which may also be 'sum' or 'mean'" if said == "weights" else ""
        return rows.matrix([weights], f"given as {said}{more}")[:, 0], weights
    if weights is None or isinstance(weights, str):
        return weights, None
    theta = frames.to_float(weights, said)
    if theta.shape != (len(rows.frame),):
        raise InvalidSetError(
            f"{said} have shape {theta.shape}; give one for each of {len(rows.frame)} rows"
        )
    return theta, None


def theta_of(
    weights: Any, ids: tuple[Hashable, ...], starts: Int[np.ndarray, " A1"], said: str = "weights"
) -> Float[np.ndarray, " N"]:
    """θ of every instance: "sum", "mean", or one array of numbers for each set."""
    sizes = np.diff(starts)
    if weights is None or (isinstance(weights, str) and weights == "sum"):
        return np.ones(starts[-1])
    if isinstance(weights, str) and weights == "mean":
        return np.repeat(1.0 / sizes, sizes)
    if isinstance(weights, str):
        raise SettingError(f"{said} is {weights!r}; give 'sum', 'mean' or numbers")
    given = as_list(weights, said)
    per_set = [frames.to_float(w, f"{said} of set number {a}") for a, w in enumerate(given)]
    if len(per_set) != len(ids):
        raise InvalidSetError(f"{said} were given for {len(per_set)} sets; there are {len(ids)}")
    for set_id, theta, size in zip(ids, per_set, sizes, strict=True):
        if theta.shape != (size,):
            raise InvalidSetError(
                f"{said} of set {set_id!r} have shape {theta.shape}; it has {size} instances"
            )
    return np.concatenate(per_set)


def refuse_shapes(sets: Sets) -> None:
    n, starts = len(sets.x), sets.starts
    if sets.x.ndim != 2 or sets.x.shape[1] == 0:
        raise InvalidSetError(f"x has shape {sets.x.shape}; expected (N, D) with D >= 1")
    if len(starts) != len(sets.ids) + 1 or starts[0] != 0 or starts[-1] != n:
        raise InvalidSetError(
            f"starts must have {len(sets.ids) + 1} entries running from 0 to {n}, one more than "
            "there are ids"
        )
    if sets.theta.shape != (n,):
        raise InvalidSetError(f"theta has shape {sets.theta.shape}; expected ({n},) like x")
    for name, numbers in (("members", sets.members), ("effects", sets.effects)):
        if numbers is not None and (numbers.shape != (n,) or numbers.dtype.kind != "i"):
            raise InvalidSetError(f"{name} must be {n} whole numbers, one for each row of x")
    if (sets.members is None) != (sets.effects is None):
        raise InvalidSetError("members and effects belong together; give both or none")
    if sets.input_names is not None and len(sets.input_names) != sets.x.shape[1]:
        raise InvalidSetError(f"{len(sets.input_names)} input names for {sets.x.shape[1]} inputs")
    empty = np.flatnonzero(np.diff(starts) < 1)
    if len(empty):
        raise InvalidSetError(f"set {sets.ids[empty[0]]!r} is empty; drop it or add its rows")


def refuse_numbers(sets: Sets) -> None:
    for row, column in np.argwhere(~np.isfinite(sets.x)).tolist():
        label = repr(sets.input_names[column]) if sets.input_names else str(column)
        raise InvalidSetError(
            f"{_place_of(sets, row)} has {sets.x[row, column]} in input {label}. "
            "Fill it in or drop the row."
        )
    for row in np.flatnonzero(~np.isfinite(sets.theta)).tolist():
        raise InvalidSetError(f"{_place_of(sets, row)} has weight {sets.theta[row]}; give a number")
    if not len(sets.ids):
        return
    with np.errstate(over="ignore"):
        noise_scale = np.add.reduceat(sets.theta**2, sets.starts[:-1])
    for bad in np.flatnonzero(~(np.isfinite(noise_scale) & (noise_scale > 0))).tolist():
        theta = sets.theta[sets.starts[bad] : sets.starts[bad + 1]]
        problem = "are all zero" if not theta.any() else f"have a squared sum of {noise_scale[bad]}"
        raise InvalidSetError(
            f"weights of set {sets.ids[bad]!r} {problem}: nothing can be learned from its "
            "total. Drop the set or rescale its weights."
        )


def _place_of(sets: Sets, row: int) -> str:
    a = int(np.searchsorted(sets.starts, row, side="right")) - 1
    return f"row {row - sets.starts[a]} of set {sets.ids[a]!r}"
