"""Individuals as scikit-learn hands them over: a row each, the group of each row, and totals.

Sets are made of them as `Sets.from_frame` makes them. Totals come by group, or once for each row,
where rows of a group repeat its total: only that survives a splitter, which cuts what it is given
by rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sumwise.data.frames import Table, as_frame, group_codes, input_matrix, to_float
from sumwise.data.matching import IDS, counts_rows, is_series, match
from sumwise.data.origin import UNKNOWN, Origin
from sumwise.data.recipe import Recipe, learn
from sumwise.data.sets import Sets, group_individuals
from sumwise.data.validate import as_list
from sumwise.errors import InvalidSetError, LabelError, SettingError
from sumwise.util.shapes import Float, Int


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The group of each row; without groups, every row is a group of one."""

    keys: Sequence[Any]
    ids: tuple[Hashable, ...]
    codes: Int[np.ndarray, " N"]  # number of each row's group
    name: Hashable = None  # of the column that they were

    def match(self, totals: Any, x: Any) -> tuple[Int[np.ndarray, " t"], Float[np.ndarray, "..."]]:
        """Numbers of the groups that totals are given for, and the totals; see `matching.match`."""
        made = Sets.from_arrays([[[0.0]]] * len(self.ids), ids=self.ids)
        plain = replace(made, origin=self.origin)
        return match(self.of_groups(totals, x), plain, "totals", LabelError)

    @property
    def origin(self) -> Origin:
        """What totals may call the groups."""
        return UNKNOWN if self.name is None else Origin((self.name,))

    def of_groups(self, totals: Any, x: Any = None) -> Any:
        """Totals with one entry a group, of totals that may have one a row.

        A pandas object whose index has the ids of groups is read by id; a dict stays as it is, and
        so does a frame with a column of ids.

        Args:
            x: The rows, whose index says which is which.
        """
        if totals is None:
            raise LabelError("fit requires y to be passed, but the target y is None; give totals")
        if not hasattr(totals, "__len__"):
            totals = to_float(totals, "totals", LabelError)
        n_rows, is_one = len(self.keys), not getattr(totals, "ndim", 1)
        if isinstance(totals, Mapping) or is_one or self._named_by(totals):
            return totals
        named = list(totals.index) if hasattr(totals, "loc") and self.keys is not self.ids else []
        is_frame = bool(named) and totals.ndim > 1
        if is_frame and counts_rows(totals.index):
            named = []  # one of its columns may hold the ids
        if len(named) == len(self.ids) and set(named) == set(self.ids):
            if named == list(range(n_rows)) and named != list(self.ids):
                raise LabelError(
                    "totals have the index 0, 1, 2 … of rows, which are also the names of groups "
                    "of one row. Give a dict by group, or an array in the order of rows."
                )
            if is_frame:
                return totals
            at = {name: a for a, name in enumerate(named)}
            return to_float(totals, "totals", LabelError)[[at[name] for name in self.ids]]
        if len(totals) != n_rows:
            return totals
        values = to_float(aligned(x, totals, "totals"), "totals", LabelError)
        first = np.full(len(self.ids), len(values))
        np.minimum.at(first, self.codes, np.arange(len(values)))
        of_first = values[first][self.codes]
        differs = (values != of_first) & ~(np.isnan(values) & np.isnan(of_first))
        for row in np.flatnonzero(differs.reshape(len(values), -1).any(axis=1)).tolist():
            raise LabelError(
                f"rows of group {self.keys[row]!r:.80} have different totals: "
                f"{of_first[row].tolist()} in row {first[self.codes[row]]}, {values[row].tolist()} "
                f"in row {row}. Repeat the total of the whole group in each of its rows, or give a "
                "dict of totals by group."
            )
        return values[first]

    def _named_by(self, totals: Any) -> bool:
        """Whether totals are a frame with a column that names groups."""
        bare = isinstance(totals, np.ndarray | list | tuple) or is_series(totals)
        frame = None if bare or self.keys is self.ids else as_frame(totals)
        return frame is not None and bool({*frame.columns} & {*IDS, *self.origin.by})

    def theta(self, weights: Any, sample_weight: Any) -> Float[np.ndarray, " N"]:
        """θ of each row."""
        if sample_weight is not None:
            if weights not in (None, "sum"):
                raise SettingError("give weights or sample_weight, not both")
            theta = to_float(sample_weight, "sample_weight")
            if theta.shape != self.codes.shape:
                raise InvalidSetError(
                    f"sample_weight has shape {theta.shape}; give one number for each of "
                    f"{len(self.keys)} rows"
                )
            return theta
        if not isinstance(weights, str) or weights not in ("sum", "mean"):
            raise SettingError(
                f"weights is {weights!r:.60}; give 'sum' or 'mean', or a weight for each row as "
                "sample_weight"
            )
        return np.ones(len(self.codes)) if weights == "sum" else 1 / self.sizes[self.codes]

    @property
    def sizes(self) -> Int[np.ndarray, " A"]:
        """Rows of each group."""
        return np.bincount(self.codes)


def groups_of(groups: Any, n_rows: int) -> Groups:
    """The groups of some rows, from one id a row; None for a group of its own for each row."""
    if groups is None:
        numbers = tuple(range(n_rows))
        return Groups(numbers, numbers, np.arange(n_rows))
    keys = ids_of(groups, n_rows)
    name = getattr(groups, "name", None)
    return Groups(keys, *group_codes(keys), name if isinstance(name, Hashable) else None)


def ids_of(groups: Any, n_rows: int) -> list[Any]:
    """One id a row, as plain values."""
    if isinstance(groups, str):
        raise SettingError(
            f"groups is {groups!r:.60}; give the ids themselves, one for each row, and X without "
            "them"
        )
    names = as_list(groups.tolist() if isinstance(groups, np.ndarray) else groups, "groups")
    if len(names) != n_rows:
        raise SettingError(f"groups has {len(names)} ids for {n_rows} rows; give one for each")
    if isinstance(groups, Mapping) or not all(isinstance(name, Hashable) for name in names):
        raise SettingError("groups is not a list of ids; give the id of a set for each row")
    return names


def sets_of(x: Any, groups: Any, weights: Any, sample_weight: Any) -> tuple[Sets, Groups]:
    """The sets that the rows of an array or a data frame make, and the group of each row."""
    refuse_sparse(x)
    if groups is None and sample_weight is not None:
        raise SettingError(
            "sample_weight is the part of each row in its group's total, not the importance of a "
            "row; give groups as well"
        )
    frame = None if isinstance(x, np.ndarray | list | tuple) else as_frame(x)
    if frame is None:
        inputs = to_float(x, "X")
        if inputs.ndim != 2:
            raise InvalidSetError(
                f"X has shape {inputs.shape}. Reshape your data to rows of inputs, (n, D), or make "
                "sets of it, for example with Sets.from_arrays."
            )
        refuse_empty(inputs.shape)
        inputs = input_matrix(inputs, None, inputs.shape[1])
        made = Recipe.plain(range(inputs.shape[1])), inputs
    else:
        refuse_empty(frame.shape)
        made = learn(Table(frame, "X", "X, row {}".format), frame.columns, role="an input")
    known = groups_of(aligned(x, groups, "groups"), len(made[1]))
    sample_weight = aligned(x, sample_weight, "sample_weight")
    sets, _ = group_individuals(known.keys, made, known.theta(weights, sample_weight))
    sets = replace(sets, origin=known.origin)
    return sets if frame is not None else replace(sets, input_names=None), known


def sets_and_totals(
    x: Any, y: Any, groups: Any, weights: Any, sample_weight: Any, exposure: Any
) -> tuple[Sets, Any, Any]:
    """The sets that rows make, their totals, and `weights` where these have no θ of their own.

    Args:
        exposure: Another name of `sample_weight`, with which rows without groups are sets, too.
    """
    if exposure is not None:
        if sample_weight is not None or weights != "sum":
            raise SettingError(
                "exposure, sample_weight and weights mean the same; give one of them"
            )
        groups = range(len(x)) if groups is None else groups
    theta = sample_weight if exposure is None else exposure
    sets, known = sets_of(x, groups, weights, theta)
    totals = warn_of_repeats(known.of_groups(y, x), groups)
    return sets, totals, weights if theta is None else None


def warn_of_repeats(y: Any, groups: Any) -> Any:
    """Warn of outputs, one for each row without a group, that repeat as totals of groups do.

    Counts, marks and rounded values repeat too, but a gap between two of them is about as wide as
    the next, or some occur once; totals are scattered, and each is in all rows of its group.
    """
    plain = groups is None and isinstance(y, np.ndarray) and y.ndim == 1 and len(y) >= 20
    if not plain or not np.isfinite(y).all():
        return y
    values, times = np.unique(y, return_counts=True)
    gaps = np.diff(values)
    gaps = gaps[gaps > 1e-9 * (values[-1] - values[0])]  # others are rounding
    few = len(gaps) < 6 or 2 * len(values) >= len(y) or (times == 1).mean() > 0.1
    if few or np.median(np.exp(-abs(np.diff(np.log(gaps))))) >= 0.5:  # 1/3 at random
        return y
    warnings.warn(
        f"y has {len(values)} different values in {len(y)} rows, as if rows repeat totals of their "
        "groups, and fit has no groups, so each counts as the output of its row. If these are "
        "totals, give fit groups=…; in cross_val_score, sklearn.set_config(enable_metadata_routing="
        "True), model.set_fit_request(groups=True).set_score_request(groups=True) and params=…",
        UserWarning,
        stacklevel=4,
    )
    return y


def aligned(x: Any, given: Any, what: str) -> Any:
    """What pandas has for each row of X, in the order of X: by label where both have the same ones.

    An index that only counts rows goes by position, unless X has these numbers in another order:
    then nobody can know which was meant. Other labels are refused.
    """
    if not (hasattr(x, "loc") and hasattr(given, "loc")) or len(x) != len(given):
        return given
    mine, theirs = x.index, given.index
    if mine.equals(theirs):
        return given
    same = mine.is_unique and theirs.is_unique and bool(mine.isin(theirs).all())
    if same and not counts_rows(theirs):
        return given.loc[mine]
    if not same and (counts_rows(mine) or counts_rows(theirs)):
        return given
    how = "the labels of X in another order" if same else "other labels than that of X"
    raise SettingError(
        f"the index of {what} has {how}, such as {theirs[0]!r:.60} first; give one with the index "
        "of X, or an array in the order of rows"
    )


def refuse_empty(shape: tuple[int, int]) -> None:
    for size, what in zip(shape, ("sample", "feature"), strict=True):
        if not size:
            raise InvalidSetError(
                f"X has 0 {what}(s) (shape={shape}) while a minimum of 1 is required."
            )


def refuse_sparse(x: Any) -> None:
    """Say what to do with a sparse matrix, which transformers may give."""
    if hasattr(x, "toarray") and hasattr(x, "nnz"):
        raise InvalidSetError(
            "X is sparse; give X.toarray(), or have transformers write arrays "
            "(sparse_output=False, and sparse_threshold=0 of a ColumnTransformer)"
        )
