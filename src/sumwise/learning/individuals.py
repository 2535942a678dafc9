"""Individuals that a model predicts: their inputs, what is unknown of them, and their sets."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sumwise.data.frames import Table, as_frame, input_matrix, to_float
from sumwise.data.recipe import Encoded, Recipe
from sumwise.data.sets import Sets
from sumwise.data.validate import as_list
from sumwise.errors import InvalidSetError, SettingError
from sumwise.learning import rows as by_row
from sumwise.model import predict as outputs
from sumwise.model.fit import Model
from sumwise.model.generalised import refusals
from sumwise.util.shapes import Float
from sumwise.util.text import shown


def encode(x: Any, fitted: Model, recipe: Recipe | None) -> Encoded:
    """Inputs of the rows of an array or a data frame, as numbers."""
    if isinstance(x, Sets):
        raise InvalidSetError(
            "predict takes individuals: use predict(sets.x), or predict_sets(sets) for totals"
        )
    if isinstance(x, Encoded):
        return x
    by_row.refuse_sparse(x)
    if recipe is not None:
        frame = None if isinstance(x, np.ndarray | list | tuple) else as_frame(x)
        if frame is not None:
            return recipe.encode(Table(frame, "X", "X, row {}".format))
    matrix = input_matrix(x, fitted.input_names, len(fitted.basis.shift))
    return Encoded(matrix, np.zeros((len(matrix), 0), dtype=bool))


def groups_in(sets: Any, frame: Any) -> list[Any] | None:
    """The set that each row of a data frame names, in the columns that the sets were made by."""
    table, by = as_frame(frame), sets.origin.by
    if table is None or not by or not {*by} <= {*table.columns}:
        return None
    keys = [*zip(*(table.get_column(name).to_list() for name in by), strict=True)]
    return own_ids(sets, [key[0] for key in keys] if len(by) == 1 else keys)


def own_ids(sets: Any, names: Sequence[Any]) -> list[Any]:
    """The ids of sets for their names as a table has them; others stay what they are.

    Names are compared as ids first, since ids that differ may be shown alike, and then as text.
    """
    own = {shown(set_id): set_id for set_id in sets.ids}
    return [name if name in sets else own.get(shown(name), name) for name in names]


def exposure_in(sets: Any, frame: Any) -> Any:
    """The column of a data frame by which the sets were made, if it has that column."""
    table, name = as_frame(frame), sets.origin.weights
    return None if table is None or name not in table.columns else table.get_column(name).to_numpy()


def fill_unknown(
    recipe: Recipe | None, known: Encoded, groups: Any, exposure: Any = None
) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Rows of which a column is not known, the same with what others have there, their groups and
    exposures."""
    if recipe is None or not known.unknown.any():
        return
    names = None if groups is None else as_list(groups, "groups")
    for rows, some in recipe.stand_ins(known):
        each = None if names is None else [names[r] for r in rows for _ in recipe.sample]
        more = None if exposure is None else np.repeat(exposure[rows], len(recipe.sample))
        yield rows, some, each, more


def exposures(fitted: Model, given: Any, x: Any, n_rows: int) -> Float[np.ndarray, " N"] | None:
    """Exposures that are given for the rows of x, checked."""
    if given is None:
        return None
    known = fitted.generalised
    if known is None:
        raise SettingError("exposure is for counts, shares and amounts; this model has numbers")
    given = by_row.aligned(x, given, "exposure")
    e = (
        np.broadcast_to(to_float(given, "exposure"), (n_rows,))
        if np.ndim(given) == 0
        else (to_float(given, "exposure"))
    )
    if e.shape != (n_rows,):
        raise SettingError(f"exposure has shape {e.shape}; give one for each of {n_rows} rows")
    refusals.refuse_exposures(known.likelihood.name, e, "row {}".format)
    return e


def refuse_covariance(fitted: Model, recipe: Recipe | None, known: Encoded, what: str) -> None:
    """Refuse what is joint of individuals who are not Gaussian, or not known in full."""
    if fitted.generalised is not None:
        kind = fitted.generalised.likelihood.name
        raise SettingError(f"{what} is for numbers, not for {kind}; ask for return_std")
    refuse_unknown(recipe, known, what)


def refuse_unknown(recipe: Recipe | None, known: Encoded, what: str) -> None:
    """Refuse rows of which a column is not known."""
    for row, column in np.argwhere(known.unknown).tolist():
        name = recipe.names[column] if recipe else column
        raise InvalidSetError(
            f"{what} needs complete rows; in row {row}, {name!r:.80} is missing "
            "or a text that was not there before. Leave the row out."
        )


def members(
    fitted: Model, groups: Any, x: Float[np.ndarray, "N D"], exposure: Any = None
) -> outputs.Members | None:
    """Which members of measured sets these rows are, by the groups that they are said to be of."""
    if groups is None:
        return None
    names, known = by_row.ids_of(groups, len(x)), fitted.labelled
    if known is not None:
        ids = known.ids if known.overlap is None else known.overlap.pool.ids
        _refuse_look_alikes(names, ids)
    return outputs.members_of(fitted, names, x, exposure)


def refuse_cut(
    fitted: Model,
    learned: Mapping[Any, list[float]],
    groups: by_row.Groups,
    totals: Mapping[int, list[float]],
    x: Float[np.ndarray, "N D"],
) -> None:
    """Refuse groups of which `fit` had the totals, but other rows."""
    again = [a for a in totals if groups.ids[a] in learned]
    if not again or any(learned[groups.ids[a]] != totals[a] for a in again):
        return  # new groups, or new totals of groups that were measured before
    own = outputs.members_of(fitted, groups.keys, x)
    found = np.bincount(groups.codes[own.row], abs(own.theta), len(groups.ids))
    for a in again:
        if not found[a]:
            raise SettingError(
                f"group {groups.ids[a]!r:.80} has rows here that fit did not have, and the "
                "total that fit had: it was cut in two. Keep groups whole, for example with "
                "cv=GroupKFold()."
            )


def _refuse_look_alikes(groups: Sequence[Hashable], ids: Sequence[Hashable]) -> None:
    """Refuse "1" where a measured set has the id 1: its members would miss their total."""
    others = {*groups} - {*ids}
    texts = {shown(set_id): set_id for set_id in ids} if others else {}
    for name in others:
        if shown(name) in texts:
            raise SettingError(
                f"groups names {name!r:.80}, and no set has that id; ids are of another type here: "
                f"write {texts[shown(name)]!r:.80}"
            )
