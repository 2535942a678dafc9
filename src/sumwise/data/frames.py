"""One reader of columns, for data frames of pandas, polars and Arrow and for tables in files.

A `Table` gives columns as plain arrays and names the row of what it refuses. `Sets`, the command
line, `simulate` and predictions all read through it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Final
from unicodedata import decimal

import numpy as np

from sumwise.data.geo import Geometry
from sumwise.errors import DataError, InvalidSetError, SettingError, SumwiseError
from sumwise.util.shapes import Bool, Float, Int

NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

GAPS: Final = frozenset(("na", "n/a", "#n/a", "nan", "null", "none", "-", "--", "."))  # to people


def is_number(text: str) -> bool:
    """Whether a text is a number in any notation.

    >>> is_number(" (5) "), is_number("−3.5 %"), is_number("about 1")
    (True, True, False)
    """
    digits = "".join(str(decimal(each, each)) for each in text.strip())
    plain = digits.translate({0x2212: "-", 0x66B: "."}).removesuffix("%").strip()
    return bool(NUMBER.fullmatch(re.sub(r"^\((.*)\)$", r"\1", plain)))


def is_unicode(value: str) -> bool:
    """Whether UTF-8 can hold the text; half a surrogate pair has no encoding."""
    return re.search("[\ud800-\udfff]", value) is None


def group_codes(
    keys: Sequence[Hashable],
) -> tuple[tuple[Hashable, ...], Int[np.ndarray, " N"]]:
    """Distinct keys in order of first appearance, and the number of each row's key among them."""
    index: dict[Hashable, int] = {}
    codes = np.fromiter((index.setdefault(key, len(index)) for key in keys), int, len(keys))
    return tuple(index), codes


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A data frame, or the table in a file, whose refusals name the row."""

    frame: Any  # of narwhals
    name: str = "the table"
    where: Callable[[int], str] = "row {}".format
    in_file: bool = False  # empty text is a missing value there
    unclear: Mapping[str, str] = field(default_factory=dict)  # columns of numbers, and why not
    decimal: str = "."  # mark for decimals in text that is a number
    geometry: Geometry | None = None  # of each row

    def __post_init__(self) -> None:
        """Read objects of pandas that are True, False or missing as such."""
        import narwhals as nw

        for name in () if self.frame is None else self.frame.columns:
            if isinstance(name, str) and not name.isascii() and not is_unicode(name):
                raise self.refusal(f"column {name!r:.80} is not valid Unicode; correct its name")
        if isinstance(self.frame, nw.DataFrame) and self.frame.implementation.is_pandas_like():
            for name, dtype in self.frame.schema.items():
                column = self.frame.get_column(name) if dtype == nw.Object else None
                if column is not None and {*map(type, column.drop_nulls().to_list())} == {bool}:
                    flags = nw.from_native(column.to_native().astype("boolean"), series_only=True)
                    object.__setattr__(self, "frame", self.frame.with_columns(flags))

    @property
    def refusal(self) -> type[SumwiseError]:
        return DataError if self.in_file else InvalidSetError

    def require(self, wanted: Iterable[Any], role: str) -> None:
        """Refuse names that no column has.

        Args:
            role: What the columns are wanted for, in brackets: where the user has named them.
        """
        for name in wanted:
            if name not in self.frame.columns:
                raise self.refusal(no_column(self.frame.columns, name, role, self.name))

    def require_each(self, roles: Mapping[str, str | None]) -> None:
        """Refuse columns that are missing, each with its role; None is that of one that may be."""
        for name, role in roles.items():
            if role is not None:
                self.require([name], role)

    def matching(self, patterns: Iterable[Any], role: str) -> list[Any]:
        """Columns that these names and patterns (`ses_*`) mean, each once, in their order."""
        names, found = list(self.frame.columns), list[Any]()
        for pattern in patterns:
            text = pattern if isinstance(pattern, str) else ""
            hits = [n for n in names if isinstance(n, str) and text and fnmatchcase(n, text)]
            if pattern in names:
                hits = [pattern]
            elif not hits and not {*text} & {*"*?["} and "," in text:
                hits = self.matching([part.strip() for part in text.split(",")], role)
            elif not hits:
                self.require([pattern], role)
            found += hits
        return list(dict.fromkeys(found))

    def refuse_unclear(self, wanted: Iterable[Any]) -> None:
        """Refuse columns whose numbers can be read in two ways, or in none."""
        for name in self.unclear:
            if name in wanted:
                raise self.refusal(self.unclear[name])

    def keys(self, by: Sequence[Any], role: str = "given as by") -> list[Hashable]:
        """The id of each row's group: the value of a single column, or a tuple of several."""
        self.require(by, role)
        columns = []
        for name in by:
            column = self.frame.get_column(name)
            self.refuse_missing(name)
            try:
                columns.append(list(column.to_list()))
            except (ValueError, OverflowError) as error:  # Arrow's are ValueErrors
                reason = next(iter(str(error).splitlines()), type(error).__name__)
                raise self.refusal(
                    f"{name!r} holds values that cannot name a group ({reason:.200}). Use text, "
                    "numbers or dates."
                ) from error
            for row, value in enumerate(columns[-1]):
                if self.in_file and isinstance(value, str) and not value.strip():
                    raise self.refusal(
                        f"{self.where(row)}: {name!r} is {value!r:.80}, which is not a name. Fill "
                        "it in, or drop the row."
                    )
                if isinstance(value, str) and not value.isascii() and not is_unicode(value):
                    raise self.refusal(
                        f"{self.where(row)}: {name!r} is {value!r:.80}, which is not valid "
                        "Unicode; correct its text"
                    )
                try:
                    hash(value)
                except TypeError as error:
                    raise self.refusal(
                        f"{self.where(row)}: {name!r} holds {value!r:.80}, which cannot name a "
                        "group. Use text, numbers or dates."
                    ) from error
        return columns[0] if len(by) == 1 else list(zip(*columns, strict=True))

    def numbers(
        self, name: Any, missing: Bool[np.ndarray, " N"] | None = None
    ) -> Float[np.ndarray, " N"]:
        """A column of finite numbers.

        Args:
            missing: Where it may have none, and 0 is given; nowhere if left out.
        """
        import narwhals as nw

        column = self.frame.get_column(name)
        if missing is None:
            self.refuse_missing(name)
        elif missing.any():
            column = column.fill_null(False if column.dtype == nw.Boolean else 0)
        if not is_numeric(column):
            cells = column.to_list() or ["empty"]
            texts = [str(cell).strip() for cell in cells]
            odd = [row for row, text in enumerate(texts) if not NUMBER.fullmatch(text)]
            odd.sort(key=lambda row: texts[row].lower() in ("true", "false"))  # as good as 1 and 0
            row = next(iter(odd), 0)  # the first is shown if all of them are numbers as text
            raise self.refusal(
                f"{self.where(row)}: {name!r} is {cells[row]!r:.80}, not a number. Correct it, or "
                "turn the column into numbers."
            )
        try:
            values = column.cast(nw.Float64).to_numpy()
        except ValueError:  # Arrow will not round a whole number beyond 2⁵³
            values = column.to_numpy()
        values = np.asarray(values, dtype=np.float64)
        if missing is not None:
            values = np.where(missing, 0.0, values)
        for row in np.flatnonzero(~np.isfinite(values)).tolist():
            raise self.refusal(
                f"{self.where(row)}: {name!r} is {values[row]}; give a finite number"
            )
        return values

    def matrix(self, names: Sequence[Any], role: str) -> Float[np.ndarray, "N D"]:
        """Several columns of finite numbers."""
        self.require(names, role)
        out = np.empty((len(self.frame), len(names)))
        for d, name in enumerate(names):
            out[:, d] = self.numbers(name)
        return out

    def with_numbers(self, names: Iterable[str]) -> Table:
        """The table with numbers in text columns that name a group and are inputs as well."""
        import narwhals as nw

        frame = self.frame
        for name in names:
            if frame.schema[name] == nw.String:
                with suppress(ValueError):  # `numbers` names the first that is no number
                    frame = frame.with_columns(frame.get_column(name).cast(nw.Float64))
        return replace(self, frame=frame)

    def refuse_missing(self, name: Any) -> None:
        for row in np.flatnonzero(self.missing(name)).tolist():
            raise self.refusal(
                f"{self.where(row)}: {name!r} is missing. Fill it in, or drop the row."
            )

    def missing(self, name: Any) -> Bool[np.ndarray, " N"]:
        """Where a column has no value."""
        import narwhals as nw

        column = self.frame.get_column(name)
        missing = column.is_null()
        if column.dtype.is_float():
            missing = missing | column.is_nan()
        elif self.in_file and column.dtype == nw.String:
            missing = column.cast(nw.String).fill_null("") == ""  # Arrow cannot fill string_view
        return np.asarray(missing.to_numpy(), dtype=bool)


def is_numeric(column: Any) -> bool:
    import narwhals as nw

    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        return True
    return str(getattr(column.to_native(), "type", "")).startswith("decimal")  # Arrow's decimal256


def no_column(names: Sequence[Any], wanted: Any, role: str, table: str) -> str:
    """A message that names a missing column, the columns there are, and a remedy."""
    known = listed(names[:20]) + (", …" if len(names) > 20 else "")
    hint = "Check the spelling."
    if len(names) == 1 and any(mark in str(names[0]) for mark in ";\t|"):
        hint = "It seems to be separated by something else; say by what with --sep."
    parts = str(wanted).split(",")
    if len(parts) > 1 and set(parts) <= set(names):
        hint = "One column at a time: repeat the option."
    return f"{table} has no column {wanted!r:.80} ({role}); it has {known}. {hint}"


def listed(names: Iterable[Any]) -> str:
    return ", ".join(f"{name!r:.80}" for name in names)


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


def with_columns(frame: Any, columns: Mapping[str, np.ndarray]) -> Any:
    """A data frame as it came, as one of narwhals, with more columns at its right."""
    import narwhals as nw

    table = as_frame(frame)
    kind = table.implementation
    return table.with_columns(
        *(nw.new_series(name, values, backend=kind) for name, values in columns.items())
    )


def column_names(names: Any, argument: str) -> tuple[Any, ...]:
    """One name or several, as a tuple; at least one."""
    several = isinstance(names, Iterable) and not isinstance(names, str)
    found = tuple(names) if several else (names,)
    if found in ((), (None,)):
        raise SettingError(f"{argument} is {names!r}; name at least one column")
    return found


def matrix_and_names(
    table: Any, what: str, names: Sequence[Any] | None = None
) -> tuple[Float[np.ndarray, "..."], tuple[Hashable, ...] | None]:
    """An array as it is; of a data frame these columns, or all of them, with their names."""
    frame = None if isinstance(table, np.ndarray | list | tuple) else as_frame(table)
    if frame is None:
        return to_float(table, what), None
    wanted = tuple(frame.columns if names is None else names)
    rows = Table(frame, what, lambda row: f"{what}, row {row}")
    return rows.matrix(wanted, "an input"), wanted


def input_matrix(
    x: Any, names: Sequence[Any] | None, n_inputs: int, what: str = "X"
) -> Float[np.ndarray, "N D"]:
    """Individuals to predict, as an array; of a frame, the columns the model was fitted on."""
    matrix, _ = matrix_and_names(x, what, names)
    if matrix.ndim != 2 or matrix.shape[1] != n_inputs:
        problem = "the model was fitted on"
        if what == "X":  # in scikit-learn's words, which its checks look for
            problem = "Reshape your data: the model was fitted on"
            if matrix.ndim == 2:
                problem = (
                    f"X has {matrix.shape[1]} features, but AggregateRegressor is expecting "
                    f"{n_inputs} features as input: it was fitted on"
                )
        raise InvalidSetError(
            f"{what} has shape {matrix.shape}; {problem} {n_inputs} inputs, so give "
            f"(n, {n_inputs})."
        )
    for row, column in np.argwhere(~np.isfinite(matrix)).tolist():
        label = repr(names[column]) if names is not None else str(column)
        raise InvalidSetError(
            f"{what} has {matrix[row, column]} in row {row}, input {label}. NaN and infinity "
            "cannot be used: fill it in or drop the row."
        )
    return matrix


def to_float(
    values: Any, what: str, refusal: type[SumwiseError] = InvalidSetError
) -> Float[np.ndarray, "..."]:
    """A float64 copy; values that are not numbers are refused."""
    try:
        masks = "numpy.ma" in sys.modules  # which takes a while to import
        if masks and type(values) is not np.ndarray and np.ma.is_masked(values):
            raise TypeError("some values are masked. Fill them in, or drop them")
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":  # text like "3" must not slip through as a number
            if array.dtype.kind == "c":
                raise TypeError("Complex data not supported")
            if array.dtype.kind != "O":
                raise TypeError(f"its type is {array.dtype}")
            if any(isinstance(value, str | bytes) for value in array.flat):
                raise TypeError("it holds text")
            if any(isinstance(value, np.datetime64 | np.timedelta64) for value in array.flat):
                raise TypeError("it holds dates")
        return np.array(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise refusal(f"{what} must be an array of numbers: {error}") from error
