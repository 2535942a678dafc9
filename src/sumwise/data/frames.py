"""Data frames of pandas, polars and Arrow as plain arrays.

`Sets` builds on this module, so sets from a frame and sets from arrays pass the same checks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sumwise.errors import InvalidSetError
from sumwise.util.shapes import Float, Int


@dataclass(frozen=True, slots=True, eq=False)
class GroupedRows:
    """Rows of a table, brought together by group in order of first appearance."""

    ids: tuple[Hashable, ...]
    order: Int[np.ndarray, " N"]  # row of the table for each instance
    starts: Int[np.ndarray, " A1"]
    codes: Int[np.ndarray, " N"]  # number of the group of each row of the table


def group_rows(keys: Sequence[Hashable]) -> GroupedRows:
    """Bring equal keys together; neither rows nor groups need be sorted."""
    index: dict[Hashable, int] = {}
    codes = np.fromiter((index.setdefault(key, len(index)) for key in keys), int, len(keys))
    order = np.argsort(codes, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(index)))])
    return GroupedRows(tuple(index), order, starts, codes)


def as_frame(table: Any) -> Any:
    """A narwhals frame over `table`, or None if it is no data frame."""
    import narwhals as nw

    try:
        frame = nw.from_native(table, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise InvalidSetError(f"column names must be unique: {error}") from None
    if isinstance(frame, nw.LazyFrame):
        return frame.collect()
    return frame if isinstance(frame, nw.DataFrame) else None


def column_names(names: Any) -> tuple[Any, ...]:
    """One name or several, as a tuple."""
    if names is None:
        return ()
    return tuple(names) if isinstance(names, Iterable) and not isinstance(names, str) else (names,)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        return True


def require_columns(frame: Any, names: Sequence[str], role: str) -> None:
    for name in names:
        if name not in frame.columns:
            known = ", ".join(map(repr, frame.columns[:20]))
            columns = "Give 'sum', 'mean' or a column."
            hint = columns if role == "weights" else "Check the spelling."
            raise InvalidSetError(
                f"no column {name!r} (given as {role}); the table has {known}. {hint}"
            )


def _values(series: Any, name: str) -> list[Any]:
    try:
        return list(series.to_list())
    except (ValueError, OverflowError) as error:  # Arrow's errors are ValueErrors
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise InvalidSetError(
            f"group column {name!r} holds values that cannot name a group ({reason:.200}). Use "
            "text, numbers or dates."
        ) from error


def group_keys(frame: Any, by: Sequence[str]) -> list[Hashable]:
    """One id per row: the value of a single `by` column, or a tuple of several."""
    require_columns(frame, by, "by")
    columns = [_values(frame.get_column(name), name) for name in by]
    for name, values in zip(by, columns, strict=True):
        for row, value in enumerate(values):
            if not isinstance(value, Hashable):
                raise InvalidSetError(
                    f"row {row} of group column {name!r} holds {value!r:.60}, which cannot name a "
                    "group. Use text, numbers or dates."
                )
            if is_missing(value):
                raise InvalidSetError(
                    f"row {row} has no value in group column {name!r}. "
                    "Fill it in, or drop rows without a group."
                )
    return columns[0] if len(by) == 1 else list(zip(*columns, strict=True))


def numeric_columns(frame: Any, names: Sequence[str], role: str) -> Float[np.ndarray, "N D"]:
    """The named columns as float64; a missing value becomes NaN, for the caller to refuse."""
    import narwhals as nw

    require_columns(frame, names, role)
    out = np.empty((len(frame), len(names)))
    for column, name in enumerate(names):
        series = frame.get_column(name)
        if not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
            raise InvalidSetError(
                f"column {name!r} (given as {role}) holds {series.dtype}, not numbers. "
                "Convert it, or encode categories as numeric columns."
            )
        try:
            out[:, column] = series.cast(nw.Float64).to_numpy()
        except ValueError:  # Arrow will not round a whole number beyond 2⁵³
            out[:, column] = series.to_numpy().astype(np.float64)
    return out


def matrix_and_names(
    table: Any, what: str
) -> tuple[Float[np.ndarray, "..."], tuple[Hashable, ...] | None]:
    """An array as it is; a data frame as its columns, with their names."""
    frame = as_frame(table) if hasattr(table, "columns") else None
    if frame is None:
        return to_float(table, what), None
    return numeric_columns(frame, frame.columns, what), tuple(frame.columns)


def input_matrix(
    x: Any, names: Sequence[str] | None, n_inputs: int, what: str = "X"
) -> Float[np.ndarray, "N D"]:
    """Individuals to predict, as an array; of a frame, the columns the model was fitted on."""
    frame = None if isinstance(x, np.ndarray) else as_frame(x)
    if frame is None:
        matrix = to_float(x, what)
    else:
        matrix = numeric_columns(frame, frame.columns if names is None else names, "input")
    if matrix.ndim != 2 or matrix.shape[1] != n_inputs:
        raise InvalidSetError(
            f"{what} has shape {matrix.shape}; the model was fitted on {n_inputs} inputs, so give "
            f"(n, {n_inputs})."
        )
    for row, column in np.argwhere(~np.isfinite(matrix)).tolist():
        label = repr(names[column]) if names is not None else str(column)
        raise InvalidSetError(
            f"{what} has {matrix[row, column]} in row {row}, input {label}. Fill it in or drop the "
            "row."
        )
    return matrix


def to_float(values: Any, what: str) -> Float[np.ndarray, "..."]:
    """A float64 copy; values that are not numbers are refused."""
    try:
        if type(values) is not np.ndarray and np.ma.is_masked(values):
            raise TypeError("some of it is masked. Fill it in, or drop it")
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":  # text like "3" must not slip through as a number
            if array.dtype.kind != "O":
                raise TypeError(f"its type is {array.dtype}")
            if any(isinstance(value, str | bytes) for value in array.flat):
                raise TypeError("it holds text")
        return np.array(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidSetError(f"{what} must be an array of numbers: {error}") from error
