"""`Sets`: individuals in groups, stacked flat.

Set a holds the instances x_an in rows `starts[a]:starts[a+1]` of `x`, each with its weight θ_an
in `theta`; what can be measured is ȳ_a = Σ_n θ_an y_an (Eq. 3). There is no padding and no list
of arrays. A `Sets` that exists is valid: ids are unique, every set has an instance, all numbers
are finite, no set has θ_a = 0, and the arrays are read-only.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sumwise.data import frames
from sumwise.data.frames import is_unicode
from sumwise.data.integrals import midpoints
from sumwise.data.origin import UNKNOWN, Origin
from sumwise.data.parquet import Scan, scan_parquet
from sumwise.data.recipe import Recipe, learn
from sumwise.data.valid_sets import (
    is_whole,
    names_of,
    one_of,
    refuse_numbers,
    refuse_shapes,
    starts_of,
    theta_in,
    theta_of,
)
from sumwise.data.validate import as_list
from sumwise.errors import InvalidSetError, SettingError, UnknownSetError
from sumwise.util import html
from sumwise.util.places import Places
from sumwise.util.shapes import Float, Int
from sumwise.util.text import count, shown


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sets:
    """Groups of individuals; make one with `from_frame`, `from_arrays` or another `from_` method.

    >>> sets = Sets.from_arrays([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]], ids=["north", "south"])
    >>> sets
    Sets: 2 sets of 1 to 2 instances (3 in all), 2 inputs; ids 'north', 'south'
    >>> sets["north"].x
    array([[1., 2.],
           [3., 4.]])
    """

    ids: tuple[Hashable, ...]  # one for each set
    x: Float[np.ndarray, "N D"]  # inputs: rows of individuals, set by set
    theta: Float[np.ndarray, " N"]  # weight of each row in the total of its set
    starts: Int[np.ndarray, " A1"]  # first row of each set, and the number of rows at the end
    input_names: tuple[Hashable, ...] | None = None  # one for each column of x
    members: Int[np.ndarray, " N"] | None = None  # the individual that each row is, if sets overlap
    effects: Int[np.ndarray, " N"] | None = None  # number of the set whose effect it has
    recipe: Recipe | None = (
        None  # how the inputs were made of a table, unless they were taken as is
    )
    row_ids: np.ndarray | None = None  # the user's own id of each row
    origin: Origin = UNKNOWN  # names of the columns that sets and individuals are named by
    _positions: Mapping[Hashable, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_positions", positions_of(self.ids))
        refuse_shapes(self)
        refuse_numbers(self)
        for array in (self.x, self.theta, self.starts, self.members, self.effects, self.row_ids):
            if array is not None:
                array.setflags(write=False)

    # --- constructors ---------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        by: Any,
        x: Any,
        weights: Any = "sum",
        id: Any = None,
        periods: Mapping[Any, float | str] | None = None,
        areas: Any = (),
        exposure: Any = None,
        trials: Any = None,
    ) -> Sets:
        """Group the rows of a pandas, polars or Arrow table.

        Args:
            by: Column that names the group; several columns make tuples of ids.
            x: Input columns, `*` and `?` standing for any characters. Text and categories become
                indicators, missing numbers are filled with the mean and flagged, and dates become
                days. `recipe` stores this, so predictions take tables with the same columns.
            weights: What a measurement of a group gives: the `"sum"` of its individuals, their
                `"mean"`, or a weighted sum with θ from a column or an array with one value a row.
            id: Column with the name of each row; predictions have this column too.
            periods: Periods of periodic inputs, such as `{"hour": 24}`; for dates `"day"`,
                `"week"`, `"month"` or `"year"`.
            areas: Columns of larger or other areas, such as the county of each individual, of which
                totals are known (`known` of `AggregateRegressor.fit` and of studies).
            exposure: For counts or amounts, the column (or array) that they are proportional to,
                such as the population. For shares, `trials` is the number of trials. Both are other
                names of `weights`.

        Groups come in order of first appearance, rows keep their order within a group.
        """
        table = frames.as_frame(frame)
        if table is None:
            raise InvalidSetError(
                f"from_frame was given {type(frame).__name__}; pass a pandas, polars or Arrow "
                "table, or use Sets.from_arrays."
            )
        groups = frames.column_names(by, "by")
        names = frames.Table(table).matching(frames.column_names(x, "x"), "given as x")
        if len(table) == 0:
            raise InvalidSetError("the table has no rows; there is nothing to group")
        rows = frames.Table(table)
        weights, column = theta_in(rows, *one_of(weights, exposure, trials))
        made = learn(rows, names, periods)
        own = None if id is None else rows.keys([id], "given as id")
        wide = frames.column_names(areas, "areas") if areas != () else ()
        larger = {name: as_objects(rows.keys([name], "given as areas")) for name in wide}
        mean = isinstance(weights, str) and weights == "mean"
        origin = Origin(groups, id, mean, weights=column, areas=larger)
        return group_individuals(rows.keys(groups), made, weights, own, origin)[0]

    @classmethod
    def from_arrays(
        cls,
        arrays: Sequence[Any],
        weights: Any = None,
        ids: Sequence[Hashable] | None = None,
        *,
        exposure: Any = None,
        trials: Any = None,
    ) -> Sets:
        """One (n_a, D) array per set.

        Args:
            weights: None or `"sum"` (θ = 1), `"mean"` (θ = 1/n_a), or one array of θ per set.
            ids: Names of the sets; 0, 1, 2, … if left out.
            exposure, trials: Other names of `weights`, as in `from_frame`.
        """
        weights, said = one_of(weights, exposure, trials)
        given = as_list(arrays, "arrays")
        read = [frames.matrix_and_names(block, f"array {a}") for a, block in enumerate(given)]
        names = names_of(ids, len(read))
        first, inputs = read[0]
        width = first.shape[1] if first.ndim == 2 else "D"
        for set_id, (block, columns) in zip(names, read, strict=True):
            if columns != inputs:
                raise InvalidSetError(
                    f"set {set_id!r} has columns {columns}; the first set has {inputs}"
                )
            if block.ndim != 2 or block.shape[0] == 0 or block.shape[1] != width:
                raise InvalidSetError(
                    f"set {set_id!r} has shape {block.shape}; expected (n >= 1, {width}), the "
                    "same width for all sets. Drop the set or fix its rows."
                )
        blocks = [block for block, _ in read]
        starts = starts_of([len(block) for block in blocks])
        theta = theta_of(weights, names, starts, said)
        return cls(names, np.concatenate(blocks), theta, starts, inputs)

    @classmethod
    def from_members(
        cls,
        x: Any,
        members: Sequence[Any],
        weights: Any = None,
        ids: Sequence[Hashable] | None = None,
    ) -> Sets:
        """Sets as lists of row numbers of one (N, D) array; a row may be in several sets.

        If sets overlap, are nested or repeat, their totals share the noise of the individuals in
        common. A total that follows from others then teaches nothing. Individuals are predicted
        given all totals that contain them. A set that follows from measured ones is known. An
        individual has the effect of its smallest set, or of the first of equal ones. Sets from
        different calls are assumed to have different individuals.
        """
        rows, inputs = frames.matrix_and_names(x, "x")
        members = as_list(members, "members")
        names = names_of(ids, len(members))
        if rows.ndim != 2:
            raise InvalidSetError(f"x has shape {rows.shape}; expected (N, D)")
        picked = []
        for set_id, member in zip(names, members, strict=True):
            index = as_list(member, f"members of set {set_id!r}")
            if not index or not all(map(is_whole, index)):
                raise InvalidSetError(
                    f"members of set {set_id!r} are {member!r:.60}; give at least one, as numbers "
                    "of rows in x"
                )
            for row in index:
                if not 0 <= row < len(rows):
                    raise InvalidSetError(
                        f"set {set_id!r} names row {row}; x has rows 0 to {len(rows) - 1}"
                    )
            picked.append(np.array(index, dtype=int))
        starts = starts_of([len(index) for index in picked])
        theta, flat = theta_of(weights, names, starts), np.concatenate(picked)
        known = names, rows[flat], theta, starts, inputs
        if len(np.unique(flat)) == len(flat):
            return cls(*known)
        effects = np.empty(len(rows), dtype=int)
        for a in np.argsort(np.diff(starts), kind="stable")[::-1]:
            effects[picked[a]] = a  # the smallest set comes last
        return cls(*known, flat, effects[flat])

    @classmethod
    def concat(cls, several: Sequence[Sets]) -> Sets:
        """Several sets of the same individuals as one, such as pools of several rounds.

        Numbers of individuals (`members`) keep their meaning, so that sets may overlap.
        """
        parts = as_list(several, "several")
        if not parts or not all(isinstance(each, Sets) for each in parts):
            raise SettingError("give a list of at least one Sets to put together")
        for name in ("input_names", "n_inputs"):
            if len({getattr(each, name) for each in parts}) > 1:
                raise InvalidSetError("these sets have different inputs; give sets of the same")
        if len({each.members is None for each in parts}) > 1:
            raise InvalidSetError(
                "some of these sets say which individuals are in them (members) and others do not; "
                "give sets that were made of the same individuals"
            )

        def joined(name: str) -> Any:
            found = [getattr(each, name) for each in parts]
            return None if any(each is None for each in found) else np.concatenate(found)

        starts = starts_of(np.concatenate([each.sizes for each in parts]))
        known = tuple(name for each in parts for name in each.ids), joined("x"), joined("theta")
        about = parts[0].input_names, joined("members"), joined("effects"), parts[0].recipe
        return cls(*known, starts, *about, joined("row_ids"))

    @classmethod
    def from_integrals(
        cls,
        boxes: Any,
        weight: Callable[[Float[np.ndarray, "N D"]], Any] | None = None,
        bins: int | Sequence[int] = 16,
        ids: Sequence[Hashable] | None = None,
    ) -> Sets:
        """ȳ_a = ∫ θ(x) y(x) dx over a box, by the midpoint rule (paper §4.1).

        Args:
            boxes: (A, D, 2) lower and upper ends of every box along every input.
            weight: θ(x) for an (n, D) array of points; 1 if left out.
            bins: Cells along each input, one number or one per input.

        Each cell has the noise of an individual output, so the noise of the integral falls as
        `bins` grows, like that of any mean with independent noise.

        >>> line = Sets.from_integrals([[[0.0, 2.0]]], bins=4)
        >>> line.x.ravel(), line.theta
        (array([0.25, 0.75, 1.25, 1.75]), array([0.5, 0.5, 0.5, 0.5]))
        """
        points, theta, n_cells = midpoints(boxes, weight, bins)
        starts = np.arange(0, len(points) + 1, n_cells)
        return cls(names_of(ids, len(starts) - 1), points, theta, starts)

    @staticmethod
    def scan_parquet(
        path: Any,
        *,
        by: Any,
        x: Any,
        weights: str = "sum",
        periods: Mapping[str, float | str] | None = None,
        exposure: str | None = None,
        trials: str | None = None,
    ) -> Scan:
        """A pool in Parquet files that need not fit in memory; nothing is read yet.

        Args:
            path: A file, a folder with files that end in .parquet, an address that fsspec knows
                (such as s3://bucket/meters), or a list of these.
            by: Column that names the group; several columns make tuples of ids.
            x: Input columns, as in `from_frame`: numbers with or without gaps, text, dates. Empty
                text is a gap, as in other files.
            weights: `"sum"`, `"mean"`, or the name of a column with θ.
            periods, exposure, trials: As in `from_frame`.

        Sets come in order of first appearance. Rows need not be sorted by set, but reading is
        cheaper if the rows of a set follow one another (docs/scale.md). What to do with it:
        `AggregateRegressor.embed`.
        """
        theta, _ = one_of(weights, exposure, trials)
        return scan_parquet(path, by=by, x=x, weights=theta, periods=periods)

    # --- looking inside ---------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.ids)

    def __contains__(self, set_id: object) -> bool:
        return isinstance(set_id, Hashable) and set_id in self._positions

    @property
    def sizes(self) -> Int[np.ndarray, " A"]:
        """Instances in each set."""
        return np.diff(self.starts)

    @property
    def n_inputs(self) -> int:
        """Number of inputs D of each individual."""
        return int(self.x.shape[1])

    def position(self, set_id: Hashable) -> int:
        """The position of a set in `ids`."""
        try:
            return self._positions[set_id]
        except (KeyError, TypeError):
            raise UnknownSetError(f"no set has the id {set_id!r}; {self.hint(set_id)}") from None

    def hint(self, set_id: Any) -> str:
        """What to write instead of an id that does not exist."""
        alike = look_alike(set_id, self.ids)
        if alike is not None:
            kind = {str: "text ", int: "numbers "}.get(type(alike), "")
            return f"ids are {kind or 'of another type '}here: write {alike!r}."
        return f"ids are {self._first_ids()}. (By position: sets[2:3] or sets.take([2]).)"

    def _first_ids(self) -> str:
        return ", ".join(map(repr, self.ids[:3])) + (", …" if len(self) > 3 else "")

    def prepare(self, config: Any) -> Any:
        """What a model with these settings derives from the inputs before any answer."""
        return config.prepare(self)

    def pool(self, model: Any) -> Any:
        """The sets as strategies see them under a model, fitted or only prepared."""
        return model.pool(self)

    def with_origin(self, origin: Origin) -> Sets:
        """The same sets, of another origin."""
        return replace(self, origin=origin)

    def take(self, positions: Any) -> Sets:
        """The sets at these positions, in this order."""
        wanted = as_list(positions, "positions")
        for position in wanted:
            if not is_whole(position) or not -len(self) <= position < len(self):
                raise UnknownSetError(
                    f"there is no position {position!r}; {len(self)} sets have positions from 0"
                )
        index = np.arange(len(self))[np.asarray(wanted, dtype=int)]
        sizes = self.sizes[index]
        starts = starts_of(sizes)
        rows = np.repeat(self.starts[index] - starts[:-1], sizes) + np.arange(starts[-1])
        chosen = tuple(self.ids[a] for a in index)
        members, effects, row_ids = (
            None if each is None else each[rows]
            for each in (self.members, self.effects, self.row_ids)
        )
        known = chosen, self.x[rows], self.theta[rows], starts, self.input_names
        return Sets(*known, members, effects, self.recipe, row_ids, self.origin.rows(rows))

    def rows_at(
        self, which: Int[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "n D"], Float[np.ndarray, " n"]]:
        """Inputs and weights of some rows; where individuals stay in files, only these are read."""
        return np.asarray(self.x[which]), np.asarray(self.theta[which])

    def weight_sums(self) -> tuple[Float[np.ndarray, " A"], Float[np.ndarray, " A"]]:
        """Of each set, the sum of its positive and that of its negative weights."""
        first = self.starts[:-1]
        above = np.add.reduceat(np.maximum(self.theta, 0.0), first)
        return above, np.add.reduceat(np.minimum(self.theta, 0.0), first)

    @property
    def n_rows(self) -> int:
        """Number of rows of `own_x`."""
        return int(self.starts[self.n_asked])

    @property
    def n_asked(self) -> int:
        """Number of sets that may be asked for, without what was known from the start."""
        return len(self) - self.origin.extra

    @property
    def n_individuals(self) -> int:
        """Number of individuals, each counted once."""
        n = int(self.starts[self.n_asked])
        return n if self.members is None else len(np.unique(self.members[:n]))

    @property
    def own_x(self) -> Float[np.ndarray, "N D"]:
        """Inputs of the individuals, each only once."""
        return self.x[: int(self.starts[self.n_asked])]

    def __getitem__(self, key: Any) -> Sets:
        """By id, list of ids, slice of positions, or mask with one entry a set."""
        if isinstance(key, slice):
            try:
                return self.take(range(len(self))[key])
            except (TypeError, ValueError) as error:
                raise SettingError(f"{key} is not a slice of positions: {error}") from None
        if (isinstance(key, Hashable) and not hasattr(key, "__len__")) or isinstance(
            key, str | tuple
        ):
            return self.take([self.position(key)])
        values = [key.item()] if isinstance(key, np.ndarray) and not key.ndim else list(key)
        if values and all(isinstance(value, bool | np.bool_) for value in values):
            if len(values) != len(self):
                raise InvalidSetError(f"the mask has {len(values)} entries for {len(self)} sets")
            return self.take(np.flatnonzero(values))
        return self.take([self.position(value) for value in values])

    def _repr_html_(self) -> str:
        rows = list(zip(self.ids, self.sizes[: html.FEW].tolist(), strict=False))
        return html.paragraphs([repr(self)]) + html.table(("set", "individuals"), rows, len(self))

    def __repr__(self) -> str:
        if not len(self):
            return f"Sets: no sets, {self.n_inputs} inputs"
        sizes = self.sizes
        span = f"{sizes.min()} to {sizes.max()}" if sizes.min() < sizes.max() else f"{sizes[0]}"
        inputs = count(self.n_inputs, "input")
        if self.input_names:
            inputs += f" ({', '.join(map(str, self.input_names[:6]))}{', …' * (self.n_inputs > 6)})"
        return (
            f"Sets: {count(len(self), 'set')} of {span} instances ({len(self.x)} in all), "
            f"{inputs}; id{'s' * (len(self) > 1)} {self._first_ids()}"
        )


class LazySets(Sets):
    """A `Sets` that reads its individuals on demand; it can be used wherever a `Sets` can."""

    def __init__(
        self,
        ids: tuple[Hashable, ...] | Callable[[], tuple[Hashable, ...]],
        sizes: Sequence[int] | Int[np.ndarray, " A"],
        n_inputs: int,
        input_names: tuple[Hashable, ...] | None,
        load: Callable[[], Sets],
        overlap: bool = False,
        recipe: Recipe | None = None,
        origin: Origin | None = None,
    ) -> None:
        object.__setattr__(self, "starts", starts_of(sizes))
        object.__setattr__(self, "input_names", input_names)
        object.__setattr__(self, "recipe", recipe)
        object.__setattr__(self, "origin", origin or UNKNOWN)
        self.__dict__.update(_ids=ids, _load=load, n_inputs=n_inputs, overlap=overlap)

    @cached_property
    def ids(self) -> tuple[Hashable, ...]:
        known = self.__dict__["_ids"]
        return known() if callable(known) else known

    @cached_property
    def _positions(self) -> Mapping[Hashable, int]:
        return Places(self.ids)

    @cached_property
    def whole(self) -> Sets:
        """The sets with their individuals, which are read now if they were not."""
        return self.__dict__["_load"]()

    def __reduce__(self) -> Any:  # copies read for themselves
        known = self.__dict__
        about = self.sizes, self.n_inputs, self.input_names, known["_load"], known["overlap"]
        return LazySets, (known["_ids"], *about, self.recipe, self.origin)

    def with_origin(self, origin: Origin) -> Sets:
        made = copy.copy(self)
        object.__setattr__(made, "origin", origin)
        return made

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def x(self) -> Float[np.ndarray, "N D"]:
        return self.whole.x

    @property
    def theta(self) -> Float[np.ndarray, " N"]:
        return self.whole.theta

    @property
    def members(self) -> Int[np.ndarray, " N"] | None:
        return self.whole.members if self.__dict__["overlap"] else None

    @property
    def effects(self) -> Int[np.ndarray, " N"] | None:
        return self.whole.effects if self.__dict__["overlap"] else None

    @property
    def row_ids(self) -> np.ndarray | None:
        return self.whole.row_ids

    @property
    def n_inputs(self) -> int:
        return int(self.__dict__["n_inputs"])

    def __repr__(self) -> str:
        return (
            f"Sets: {len(self)} sets ({self.starts[-1]} individuals that are not in memory), "
            f"{self.n_inputs} inputs; ids {self._first_ids()}"
        )


def group_individuals(
    keys: Sequence[Hashable],
    made: tuple[Recipe, Float[np.ndarray, "N D"]],
    weights: Any,
    names: Sequence[Hashable] | None = None,
    origin: Origin | None = None,
) -> tuple[Sets, Int[np.ndarray, " N"]]:
    """Rows of a table as sets, and the row of the table that each individual comes from.

    Args:
        made: From `recipe.learn`.
        weights: `"sum"`, `"mean"`, or an array of θ with one value a row.
        names: The id of each row.
        origin: Names of columns, and areas in the order of the table.
    """
    recipe, x = made
    ids, codes = frames.group_codes(keys)
    _refuse_look_alikes(ids)
    order = np.argsort(codes, kind="stable")
    starts = starts_of(np.bincount(codes))
    if weights is None or isinstance(weights, str):
        theta = theta_of(weights, ids, starts)
    else:
        theta = weights[order]
    own = None if names is None else as_objects(names)[order]
    kept = None if recipe.is_plain else recipe
    about = None, None, kept, own, (origin or UNKNOWN).rows(order)
    return Sets(ids, x[order], theta, starts, recipe.labels, *about), order


def as_objects(values: Sequence[Hashable]) -> np.ndarray:
    """Ids as an array of one dimension, tuples among them."""
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def _refuse_look_alikes(ids: Sequence[Hashable]) -> None:
    """Refuse ids of different types that are shown alike, such as 1 and "1"."""
    seen: dict[str, Hashable] = {}
    for each in ids if len({*map(type, ids)}) > 1 else ():
        if type(seen.setdefault(shown(each), each)) is not type(each):
            raise InvalidSetError(
                f"sets are called {seen[shown(each)]!r:.80} and {each!r:.80}, which look the same; "
                "give ids of one type, such as frame['set'].astype(str)"
            )


def look_alike(name: Any, known: Iterable[Hashable]) -> Hashable | None:
    """Of these ids, one that is shown like `name` and is of another type, such as 1 for "1"."""
    text = shown(name)
    return next((each for each in known if shown(each) == text), None)


# --- names and rows -------------------------------------------------------------------------------


def rows_among(sets: Sets, ids: Sequence[Hashable]) -> Int[np.ndarray, " n"]:
    """The rows of the sets with these ids, set by set."""
    ends = [sets.starts[at : at + 2] for at in map(sets.position, ids)]
    return np.concatenate([np.arange(low, high) for low, high in ends])


def positions_of(ids: tuple[Hashable, ...]) -> dict[Hashable, int]:
    kinds, positions = {*map(type, ids)}, dict[Hashable, int]()
    if kinds <= {int} or (kinds == {str} and all(str.isascii(str(each)) for each in ids)):
        positions = dict(zip(ids, range(len(ids)), strict=True))
        if len(positions) == len(ids):
            return positions
        positions = {}
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
    try:
        missing = set_id is None or bool(set_id != set_id)  # NaN, NaT
    except (TypeError, ValueError):  # pandas' NA
        missing = True
    if missing:
        raise InvalidSetError(f"id of set number {a} is {set_id!r}; give every set a name")
    for part in set_id if isinstance(set_id, tuple) else (set_id,):
        if isinstance(part, str) and not is_unicode(part):
            raise InvalidSetError(
                f"id {set_id!r} of set number {a} is not valid Unicode; correct its text"
            )
