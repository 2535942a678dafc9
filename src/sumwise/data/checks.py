"""What makes parts fit together as `Sets`, and the words in which anything else is refused."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Any, Final, Protocol

import numpy as np

from sumwise.data import frames
from sumwise.data.validate import is_unicode
from sumwise.errors import InvalidSetError, SettingError
from sumwise.util.shapes import Bool, Float, Int

LONGEST_NUMBER: Final = 13_000  # bits of an id; Python does not print numbers of 4,300 digits


class SetsLike(Protocol):
    """The parts of a `Sets`."""

    @property
    def ids(self) -> tuple[Hashable, ...]: ...
    @property
    def x(self) -> Float[np.ndarray, "N D"]: ...
    @property
    def theta(self) -> Float[np.ndarray, " N"]: ...
    @property
    def starts(self) -> Int[np.ndarray, " A1"]: ...
    @property
    def input_names(self) -> tuple[Hashable, ...] | None: ...


def as_list(values: Any, what: str) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        raise InvalidSetError(f"{what} is {values!r:.60}; give a list") from None


def is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def name_sets(ids: Sequence[Hashable] | None, n_sets: int) -> tuple[Hashable, ...]:
    names = tuple(range(n_sets)) if ids is None else tuple(as_list(ids, "ids"))
    if len(names) != n_sets:
        raise InvalidSetError(f"{len(names)} ids were given for {n_sets} sets")
    return names


def positions_of(ids: tuple[Hashable, ...]) -> dict[Hashable, int]:
    positions: dict[Hashable, int] = {}
    for a, set_id in enumerate(ids):
        try:
            first = positions.setdefault(set_id, a)
        except TypeError:
            raise InvalidSetError(
                f"id {set_id!r} cannot name a set; use text, numbers, dates or tuples of them"
            ) from None
        if first != a:
            raise InvalidSetError(
                f"id {set_id!r} names two sets (numbers {first} and {a}); ids must be unique"
            )
        if type(set_id) is not str or not set_id.isascii():
            _refuse_name(set_id, a)
    return positions


def _refuse_name(set_id: Hashable, a: int) -> None:
    """Refuse ids that are missing, or that no file or database could hold."""
    if frames.is_missing(set_id):
        raise InvalidSetError(f"id of set number {a} is {set_id!r}; give every set a name")
    for part in set_id if isinstance(set_id, tuple) else (set_id,):
        if isinstance(part, str) and not is_unicode(part):
            raise InvalidSetError(
                f"id {set_id!r} of set number {a} is not valid Unicode; correct its text"
            )
        if isinstance(part, int) and part.bit_length() > LONGEST_NUMBER:
            raise InvalidSetError(
                f"id of set number {a} is a whole number of {part.bit_length()} bits; use text"
            )


def starts_of(sizes: Sequence[int] | Int[np.ndarray, " A"]) -> Int[np.ndarray, " A1"]:
    return np.fromiter(itertools.accumulate(sizes, initial=0), np.int64, len(sizes) + 1)


def theta_of(weights: Any, starts: Int[np.ndarray, " A1"]) -> Float[np.ndarray, " N"]:
    sizes = np.diff(starts)
    if weights is None or (isinstance(weights, str) and weights == "sum"):
        return np.ones(starts[-1])
    if isinstance(weights, str) and weights == "mean":
        return np.repeat(1.0 / sizes, sizes)
    if isinstance(weights, str):
        raise SettingError(f"weights is {weights!r}; give 'sum', 'mean' or numbers")
    return weights


def flat_weights(
    weights: Any, ids: tuple[Hashable, ...], sizes: Int[np.ndarray, " A"]
) -> Float[np.ndarray, " N"]:
    given = as_list(weights, "weights")
    per_set = [frames.to_float(w, f"weights of set number {a}") for a, w in enumerate(given)]
    if len(per_set) != len(ids):
        raise InvalidSetError(f"weights were given for {len(per_set)} sets; there are {len(ids)}")
    for set_id, theta, size in zip(ids, per_set, sizes, strict=True):
        if theta.shape != (size,):
            raise InvalidSetError(
                f"weights of set {set_id!r} have shape {theta.shape}; it has {size} instances"
            )
    return np.concatenate(per_set)


def refuse_bad_shapes(sets: SetsLike) -> None:
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
    if sets.input_names is not None and len(sets.input_names) != sets.x.shape[1]:
        raise InvalidSetError(f"{len(sets.input_names)} input names for {sets.x.shape[1]} inputs")
    empty = np.flatnonzero(np.diff(starts) < 1)
    if len(empty):
        raise InvalidSetError(f"set {sets.ids[empty[0]]!r} is empty; drop it or add its rows")


def refuse_bad_numbers(sets: SetsLike) -> None:
    bad = _first(~np.isfinite(sets.x).all(axis=1))
    if bad is not None:
        column = int(np.flatnonzero(~np.isfinite(sets.x[bad]))[0])
        label = repr(sets.input_names[column]) if sets.input_names else str(column)
        raise InvalidSetError(
            f"{_where(sets, bad)} has {sets.x[bad, column]} in input {label}. "
            "Fill it in or drop the row."
        )
    bad = _first(~np.isfinite(sets.theta))
    if bad is not None:
        raise InvalidSetError(f"{_where(sets, bad)} has weight {sets.theta[bad]}; give a number")
    if not len(sets.ids):
        return
    with np.errstate(over="ignore"):
        noise_scale = np.add.reduceat(sets.theta**2, sets.starts[:-1])
    bad = _first(~(np.isfinite(noise_scale) & (noise_scale > 0)))
    if bad is not None:
        theta = sets.theta[sets.starts[bad] : sets.starts[bad + 1]]
        problem = "are all zero" if not theta.any() else f"have a squared sum of {noise_scale[bad]}"
        raise InvalidSetError(
            f"weights of set {sets.ids[bad]!r} {problem}: its total would say nothing that can "
            "be computed with. Drop the set or rescale its weights."
        )


def _first(bad: Bool[np.ndarray, " n"]) -> int | None:
    return int(np.argmax(bad)) if bad.any() else None


def _where(sets: SetsLike, row: int) -> str:
    a = int(np.searchsorted(sets.starts, row, side="right")) - 1
    return f"row {row - sets.starts[a]} of set {sets.ids[a]!r}"
