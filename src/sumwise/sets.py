"""`Sets`: individuals in groups, stacked flat.

Set a holds the instances x_an in rows `starts[a]:starts[a+1]` of `x`, each with its weight θ_an
in `theta`; what can be measured is ȳ_a = Σ_n θ_an y_an (Eq. 3). There is no padding and no list
of arrays. A `Sets` that exists is valid: ids are unique, every set has an instance, all numbers
are finite, no set has θ_a = 0, and the arrays are read-only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from sumwise import readers
from sumwise.errors import InvalidSetError, SettingError, UnknownSetError
from sumwise.shapes import Bool, Float, Int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sets:
    """Groups of individuals; make one with `from_frame`, `from_arrays` or a sibling.

    >>> sets = Sets.from_arrays([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]], ids=["north", "south"])
    >>> sets
    Sets: 2 sets of 1 to 2 instances (3 in all), 2 inputs; ids 'north', 'south'
    >>> sets["north"].x
    array([[1., 2.],
           [3., 4.]])
    """

    ids: tuple[Hashable, ...]
    x: Float[np.ndarray, "N D"]
    theta: Float[np.ndarray, " N"]
    starts: Int[np.ndarray, " A1"]
    input_names: tuple[str, ...] | None = None
    _positions: dict[Hashable, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_positions", _positions_of(self.ids))
        _refuse_bad_shapes(self)
        _refuse_bad_numbers(self)
        for array in (self.x, self.theta, self.starts):
            array.setflags(write=False)

    # --- constructors ---------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        by: str | Sequence[str],
        x: str | Sequence[str],
        weights: Any = "sum",
    ) -> Self:
        """Group the rows of a pandas, polars or Arrow table.

        Args:
            by: Column that names the group; several columns make tuples of ids.
            x: Input columns, numeric.
            weights: What a measurement of a group gives: the `"sum"` of its individuals, their
                `"mean"`, or a weighted sum with θ from a column or an array with one value a row.

        Groups come in order of first appearance, rows keep their order within a group.
        """
        table = readers.as_frame(frame)
        if table is None:
            raise InvalidSetError(
                f"from_frame was given {type(frame).__name__}; pass a pandas, polars or Arrow "
                "table, or use Sets.from_arrays."
            )
        names = (x,) if isinstance(x, str) else tuple(x)
        groups = (by,) if isinstance(by, str) else tuple(by)
        if not names or not groups:
            raise SettingError("name at least one input column (x) and one group column (by)")
        if len(table) == 0:
            raise InvalidSetError("the table has no rows; there is nothing to group")
        inputs = readers.numeric_columns(table, names, "x")
        for row, column in np.argwhere(~np.isfinite(inputs)).tolist():
            raise InvalidSetError(
                f"row {row} has {inputs[row, column]} in input {names[column]!r}. "
                "Fill it in or drop the row."
            )
        grouped = readers.group_rows(readers.group_keys(table, groups))
        if isinstance(weights, str) and weights not in ("sum", "mean"):
            weights = readers.numeric_columns(table, (weights,), "weights")[:, 0]
        if not isinstance(weights, str):
            weights = readers.to_float(weights, "weights")
            if weights.shape != (len(table),):
                raise InvalidSetError(
                    f"weights have shape {weights.shape}; give one for each of {len(table)} rows"
                )
            weights = weights[grouped.order]
        theta = _theta(weights, grouped.starts)
        return cls(grouped.ids, inputs[grouped.order], theta, grouped.starts, names)

    @classmethod
    def from_arrays(
        cls,
        arrays: Sequence[Any],
        weights: Any = None,
        ids: Sequence[Hashable] | None = None,
    ) -> Self:
        """One (n_a, D) array per set.

        Args:
            weights: None or `"sum"` (θ = 1), `"mean"` (θ = 1/n_a), or one array of θ per set.
            ids: Names of the sets; 0, 1, 2, … if left out.
        """
        blocks = [readers.to_float(block, f"array {a}") for a, block in enumerate(arrays)]
        names = _ids(ids, len(blocks))
        if not blocks:
            raise InvalidSetError("no sets were given; pass at least one array")
        width = blocks[0].shape[1] if blocks[0].ndim == 2 else "D"
        for set_id, block in zip(names, blocks, strict=True):
            if block.ndim != 2 or block.shape[0] == 0 or block.shape[1] != width:
                raise InvalidSetError(
                    f"set {set_id!r} has shape {block.shape}; expected (n >= 1, {width}), the "
                    "same width for all sets. Drop the set or fix its rows."
                )
        starts = _starts([len(block) for block in blocks])
        if weights is not None and not isinstance(weights, str):
            weights = _flat_weights(weights, names, np.diff(starts))
        return cls(names, np.concatenate(blocks), _theta(weights, starts), starts)

    @classmethod
    def from_members(
        cls,
        x: Any,
        members: Sequence[Sequence[int]],
        weights: Any = None,
        ids: Sequence[Hashable] | None = None,
    ) -> Self:
        """Sets as lists of row numbers of one (N, D) array; a row may be in several sets.

        Where sets overlap, the noise of one individual is shared between measurements in truth;
        the model treats the noise of different sets as independent, so it is a little too sure
        of itself there.
        """
        rows = readers.to_float(x, "x")
        names = _ids(ids, len(members))
        if rows.ndim != 2:
            raise InvalidSetError(f"x has shape {rows.shape}; expected (N, D)")
        if not len(members):
            raise InvalidSetError("no sets were given; pass at least one list of rows")
        picked = []
        for set_id, member in zip(names, members, strict=True):
            index = np.asarray(member)
            if index.ndim != 1 or index.size == 0 or index.dtype.kind not in "iu":
                raise InvalidSetError(
                    f"members of set {set_id!r} must be a list of at least one row number"
                )
            if index.min() < 0 or index.max() >= len(rows):
                out = index[(index < 0) | (index >= len(rows))][0]
                raise InvalidSetError(
                    f"set {set_id!r} names row {out}; x has rows 0 to {len(rows) - 1}"
                )
            picked.append(index)
        starts = _starts([len(index) for index in picked])
        if weights is not None and not isinstance(weights, str):
            weights = _flat_weights(weights, names, np.diff(starts))
        return cls(names, rows[np.concatenate(picked)], _theta(weights, starts), starts)

    @classmethod
    def from_integrals(
        cls,
        boxes: Any,
        weight: Callable[[Float[np.ndarray, "N D"]], Any] | None = None,
        bins: int | Sequence[int] = 16,
        ids: Sequence[Hashable] | None = None,
    ) -> Self:
        """ȳ_a = ∫ θ(x) y(x) dx over a box, by the midpoint rule (paper §4.1).

        Args:
            boxes: (A, D, 2) lower and upper ends of every box along every input.
            weight: θ(x) for an (n, D) array of points; 1 if left out.
            bins: Cells along each input, one number or one per input.

        The noise of an individual output belongs to a cell, so the noise of the integral falls
        as `bins` grows, as that of any mean of independent noise does.

        >>> line = Sets.from_integrals([[[0.0, 2.0]]], bins=4)
        >>> line.x.ravel(), line.theta
        (array([0.25, 0.75, 1.25, 1.75]), array([0.5, 0.5, 0.5, 0.5]))
        """
        ends = readers.to_float(boxes, "boxes")
        if ends.ndim != 3 or ends.shape[2] != 2 or 0 in ends.shape:
            raise InvalidSetError(f"boxes have shape {ends.shape}; expected (A, D, 2)")
        names, n_inputs = _ids(ids, len(ends)), ends.shape[1]
        low, high = ends[..., 0], ends[..., 1]
        for a, d in np.argwhere(~(np.isfinite(ends).all(2) & (low < high))).tolist():
            raise InvalidSetError(
                f"box of set {names[a]!r} runs from {low[a, d]} to {high[a, d]} along input {d}; "
                "the lower end must be below the upper, and both finite"
            )
        counts = np.broadcast_to(np.asarray(bins), n_inputs)
        if counts.dtype.kind not in "iu" or (counts < 1).any():
            raise SettingError(f"bins is {bins!r}; give whole numbers of at least 1")
        middles = [(np.arange(count) + 0.5) / count for count in counts]
        grid = np.stack(np.meshgrid(*middles, indexing="ij"), -1).reshape(-1, n_inputs)
        points = (low[:, None] + (high - low)[:, None] * grid).reshape(-1, n_inputs)
        theta = np.repeat(np.prod((high - low) / counts, axis=1), len(grid))
        if weight is not None:
            values = readers.to_float(weight(points), "the value of the weight function")
            if values.shape != theta.shape:
                raise InvalidSetError(
                    f"the weight function gave shape {values.shape} for {len(points)} points; "
                    "it must give one number a point"
                )
            theta = theta * values
        return cls(names, points, theta, _starts([len(grid)] * len(ends)))

    # --- looking inside ---------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.ids)

    def __contains__(self, set_id: object) -> bool:
        return set_id in self._positions

    @property
    def sizes(self) -> Int[np.ndarray, " A"]:
        """Instances in each set."""
        return np.diff(self.starts)

    @property
    def n_inputs(self) -> int:
        return int(self.x.shape[1])

    def position(self, set_id: Hashable) -> int:
        """Where a set stands in `ids`."""
        try:
            return self._positions[set_id]
        except (KeyError, TypeError):
            near = ", ".join(map(repr, self.ids[:3])) + (", …" if len(self) > 3 else "")
            raise UnknownSetError(
                f"no set has the id {set_id!r}; ids are {near}. "
                "(By position: sets[2:3] or sets.take([2]).)"
            ) from None

    def take(self, positions: Any) -> Self:
        """The sets at these positions, in this order."""
        index = np.asarray(positions, dtype=int).reshape(-1)
        index = np.arange(len(self))[index]  # resolves negative positions, refuses others
        sizes = self.sizes[index]
        starts = _starts(sizes)
        rows = np.repeat(self.starts[index] - starts[:-1], sizes) + np.arange(starts[-1])
        chosen = tuple(self.ids[a] for a in index)
        return type(self)(chosen, self.x[rows], self.theta[rows], starts, self.input_names)

    def __getitem__(self, key: Any) -> Self:
        """By id, list of ids, slice of positions, or mask with one entry a set."""
        if isinstance(key, slice):
            return self.take(np.arange(len(self))[key])
        if isinstance(key, Hashable) and not hasattr(key, "__array__"):
            return self.take([self.position(key)])
        if isinstance(key, np.generic):
            return self.take([self.position(key)])
        values = list(key)
        if values and all(isinstance(value, bool | np.bool_) for value in values):
            if len(values) != len(self):
                raise InvalidSetError(f"the mask has {len(values)} entries for {len(self)} sets")
            return self.take(np.flatnonzero(values))
        return self.take([self.position(value) for value in values])

    def __repr__(self) -> str:
        if not len(self):
            return f"Sets: no sets, {self.n_inputs} inputs"
        sizes = self.sizes
        span = f"{sizes.min()} to {sizes.max()}" if sizes.min() < sizes.max() else f"{sizes[0]}"
        shown = ", ".join(map(repr, self.ids[:3])) + (", …" if len(self) > 3 else "")
        plural = "" if len(self) == 1 else "s"
        inputs = f"{self.n_inputs} input" + ("" if self.n_inputs == 1 else "s")
        if self.input_names:
            inputs += f" ({', '.join(self.input_names[:6])}{', …' * (self.n_inputs > 6)})"
        return (
            f"Sets: {len(self)} set{plural} of {span} instances ({len(self.x)} in all), {inputs}; "
            f"id{plural} {shown}"
        )


# --- checks ---------------------------------------------------------------------------------


def _ids(ids: Sequence[Hashable] | None, n_sets: int) -> tuple[Hashable, ...]:
    names = tuple(range(n_sets)) if ids is None else tuple(ids)
    if len(names) != n_sets:
        raise InvalidSetError(f"{len(names)} ids were given for {n_sets} sets")
    return names


def _positions_of(ids: tuple[Hashable, ...]) -> dict[Hashable, int]:
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
        if set_id != set_id:
            raise InvalidSetError(f"id of set number {a} is NaN; give every set a name")
    return positions


def _starts(sizes: Sequence[int] | Int[np.ndarray, " A"]) -> Int[np.ndarray, " A1"]:
    return np.fromiter(itertools.accumulate(sizes, initial=0), np.int64, len(sizes) + 1)


def _theta(weights: Any, starts: Int[np.ndarray, " A1"]) -> Float[np.ndarray, " N"]:
    sizes = np.diff(starts)
    if weights is None or (isinstance(weights, str) and weights == "sum"):
        return np.ones(starts[-1])
    if isinstance(weights, str) and weights == "mean":
        return np.repeat(1.0 / sizes, sizes)
    if isinstance(weights, str):
        raise SettingError(f"weights is {weights!r}; give 'sum', 'mean' or numbers")
    return weights


def _flat_weights(
    weights: Any, ids: tuple[Hashable, ...], sizes: Int[np.ndarray, " A"]
) -> Float[np.ndarray, " N"]:
    per_set = [readers.to_float(w, f"weights of set number {a}") for a, w in enumerate(weights)]
    if len(per_set) != len(ids):
        raise InvalidSetError(f"weights were given for {len(per_set)} sets; there are {len(ids)}")
    for set_id, theta, size in zip(ids, per_set, sizes, strict=True):
        if theta.shape != (size,):
            raise InvalidSetError(
                f"weights of set {set_id!r} have shape {theta.shape}; it has {size} instances"
            )
    return np.concatenate(per_set)


def _refuse_bad_shapes(sets: Sets) -> None:
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
    if sets.input_names is not None and len(sets.input_names) != sets.n_inputs:
        raise InvalidSetError(f"{len(sets.input_names)} input names for {sets.n_inputs} inputs")
    empty = np.flatnonzero(np.diff(starts) < 1)
    if len(empty):
        raise InvalidSetError(f"set {sets.ids[empty[0]]!r} is empty; drop it or add its rows")


def _refuse_bad_numbers(sets: Sets) -> None:
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


def _where(sets: Sets, row: int) -> str:
    a = int(np.searchsorted(sets.starts, row, side="right")) - 1
    return f"row {row - sets.starts[a]} of set {sets.ids[a]!r}"
