"""How the columns of a table become inputs: text as indicators, gaps filled and flagged.

    a number       itself; where some are missing, their mean instead, and a flag beside it
    a date         days since 1970
    with a period  also the sine and cosine of 2π value / period
    text           an indicator for each level; a gap is a level of its own

A recipe is learned from the individuals that sets are made of and kept with them, so that tables
of other individuals are read as they are. Of a row whose text is no known level, or that lacks a
number that was never missing, nothing is known there: `unknown` says so, and it is predicted as
the average of individuals that have what others have (`sample`).
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from sumwise.data.frames import NUMBER, Table, is_numeric
from sumwise.errors import SettingError
from sumwise.util.shapes import Bool, Float, Int

MOST_LEVELS: Final = 200  # of text that is an input
SAMPLE: Final = 32  # individuals that stand for what is unknown
PERIODS: Final = {"day": 1.0, "week": 7.0, "month": 365.2425 / 12, "year": 365.2425}
DAY: Final = 86_400_000_000  # microseconds
FEW: Final = 5  # rows that have each level, where numbers and other texts name categories
DATE: Final = re.compile(  # as people write it
    r"([0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.]([0-9]{4}|[0-9]{2}))"
    r"([ T][0-9:.]+Z?)?"
)


@dataclass(frozen=True, slots=True)
class Source:
    """A column of the user's table, and what becomes of it."""

    name: Hashable
    levels: tuple[str | None, ...] | None = None  # of text, None for a gap; numbers have none
    fill: float = 0.0  # what a missing number is taken for
    flagged: bool = False  # whether a column says where numbers are missing
    period: float | None = None
    is_date: bool = False

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """Names of the inputs it becomes."""
        if self.levels is not None:
            return tuple(f"{self.name} = {'?' if v is None else v}" for v in self.levels)
        waves = (f"sin {self.name}", f"cos {self.name}") if self.period is not None else ()
        return (self.name, *waves, *([f"{self.name} is missing"] if self.flagged else ()))


class Encoded(NamedTuple):
    """Inputs of individuals, and in which of the user's columns nothing is known of them."""

    x: Float[np.ndarray, "N D"]
    unknown: Bool[np.ndarray, "N S"]


@dataclass(frozen=True, eq=False)
class Recipe:
    """What becomes of each input column of a table; see the module."""

    sources: tuple[Source, ...]
    sample: Float[np.ndarray, "m D"]  # inputs of some individuals

    @cached_property
    def labels(self) -> tuple[Hashable, ...]:
        """Names of the inputs."""
        return tuple(label for source in self.sources for label in source.labels)

    @cached_property
    def source_of(self) -> Int[np.ndarray, " D"]:
        """The number of the column that each input comes from."""
        widths = [len(source.labels) for source in self.sources]
        return np.repeat(np.arange(len(widths)), widths)

    @property
    def names(self) -> tuple[Hashable, ...]:
        """Names of the user's columns."""
        return tuple(source.name for source in self.sources)

    @property
    def is_plain(self) -> bool:
        """Whether every column is taken as it is."""
        return all(source == Source(source.name) for source in self.sources)

    def encode(
        self, table: Table, role: str = "an input", read: Mapping[Hashable, Any] | None = None
    ) -> Encoded:
        """The inputs of the rows of a table, and where nothing is known of a column.

        Args:
            read: Columns that were read before, by name.
        """
        table.require(self.names, role)
        out = np.zeros((len(table.frame), len(self.labels)))
        unknown = np.zeros((len(out), len(self.sources)), dtype=bool)
        for s, source in enumerate(self.sources):
            at = np.flatnonzero(self.source_of == s)
            if source.levels is None:
                if read is None and not len(self.sample):  # nothing to average over
                    table.refuse_missing(source.name)
                values, missing = read[source.name] if read else _numbers(table, source)
                for d, column in zip(at.tolist(), _columns(source, values, missing), strict=True):
                    out[:, d] = column
                unknown[:, s] = missing & (not source.flagged)
            else:
                levels, codes = read[source.name] if read else _levels(table, source.name)
                known = {level: d for d, level in zip(at.tolist(), source.levels, strict=True)}
                column = np.array([known.get(level, -1) for level in levels], dtype=int)[codes]
                unknown[:, s] = column < 0
                seen = np.flatnonzero(column >= 0)
                out[seen, column[seen]] = 1.0
        return Encoded(out, unknown)

    @classmethod
    def plain(cls, names: Sequence[Hashable]) -> Recipe:
        """Columns of numbers as they are."""
        return cls(tuple(map(Source, names)), np.empty((0, len(names))))

    def filled(self, known: Encoded) -> Float[np.ndarray, "N D"]:
        """Inputs with those of an average individual where nothing is known of a column."""
        return np.where(known.unknown[:, self.source_of], self.sample.mean(axis=0), known.x)

    def recast(self, other: Recipe, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N M"]:
        """Inputs that another recipe has made of the same columns, as this one would make them.

        A text that is no level here becomes an average individual's.
        """
        out = np.zeros((len(x), len(self.labels)))
        for s, (source, former) in enumerate(zip(self.sources, other.sources, strict=True)):
            own, at = x[:, other.source_of == s], np.flatnonzero(self.source_of == s)
            if source.levels is None:
                missing = own[:, -1] != 0 if former.flagged else np.zeros(len(x), dtype=bool)
                for d, column in zip(at, _columns(source, own[:, 0], missing), strict=True):
                    out[:, d] = column
                continue
            known = {level: d for d, level in zip(at.tolist(), source.levels, strict=True)}
            for level, column in zip(former.levels or (), own.T, strict=True):
                if level in known:
                    out[:, known[level]] = column
                elif len(self.sample):
                    out[:, at] += np.outer(column, self.sample[:, at].mean(axis=0))
        return out

    def decode(self, x: Float[np.ndarray, "N D"]) -> dict[Hashable, list[Any]]:
        """The user's columns of these inputs; what was missing is None."""
        columns: dict[Hashable, list[Any]] = {}
        for s, source in enumerate(self.sources):
            own = x[:, self.source_of == s]
            if source.levels is not None:
                columns[source.name] = [source.levels[code] for code in own.argmax(axis=1).tolist()]
                continue
            values = own[:, 0].tolist()
            if source.is_date:
                days = np.array(values) * DAY
                values = days.round().astype("datetime64[us]").astype(object).tolist()
            gaps = own[:, -1].tolist() if source.flagged else [0.0] * len(values)
            columns[source.name] = [None if gap else v for v, gap in zip(values, gaps, strict=True)]
        return columns

    def to_json(self) -> str:
        """All of it as text."""
        sources = [asdict(source) for source in self.sources]
        return json.dumps({"sources": sources, "sample": self.sample.tolist()})

    @classmethod
    def from_json(cls, text: str | bytes) -> Recipe:
        """What `to_json` has written."""
        known = json.loads(text)
        sources = []
        for each in known["sources"]:
            levels = each.pop("levels")
            sources.append(Source(levels=None if levels is None else tuple(levels), **each))
        made = cls(tuple(sources), np.array(known["sample"], dtype=np.float64))
        if made.sample.ndim != 2 or made.sample.shape[1] != len(made.labels):
            raise ValueError("its sample does not fit its columns")
        return made


def learn(
    table: Table,
    names: Sequence[Hashable],
    periods: Mapping[Any, float | str] | None = None,
    role: str = "given as x",
) -> tuple[Recipe, Float[np.ndarray, "N D"]]:
    """The recipe for these columns of a table of all individuals, and their inputs.

    Args:
        periods: Of columns that go round, in their own unit, or of dates: day, week, month, year.
    """
    table.require(names, role)
    turns = dict(periods or {})
    for name in turns:
        if name not in names:
            raise SettingError(f"a period is given for {name!r:.80}, which is no input")
    found = [_source(table, name, turns.get(name)) for name in names]
    sources = tuple(source for source, _ in found)
    draft = Recipe(sources, np.empty((0, 0)))
    x, _ = draft.encode(table, role, {source.name: column for source, column in found})
    return _with_sample(draft, x), x


def _with_sample(draft: Recipe, x: Float[np.ndarray, "N D"]) -> Recipe:
    evenly = np.linspace(0, len(x) - 1, min(len(x), SAMPLE)).round().astype(int)
    return Recipe(draft.sources, x[np.argpartition(_places(draft, x), evenly)[evenly]])


def widened(recipe: Recipe, tables: Sequence[Table]) -> Recipe:
    """The same with all texts that these tables have in its columns."""
    sources = []
    for source in recipe.sources:
        here = [table for table in tables if source.name in table.frame.columns]
        if source.levels is not None:
            known = {*source.levels}
            more = {text for table in here for text in _levels(table, source.name)[0]} - known
            levels = sorted({text for text in more | known if text is not None})
            gap = (None,) if None in known else ()
            source = replace(source, levels=(*levels, *gap))
        sources.append(source)
    made = Recipe(tuple(sources), np.empty((0, 0)))
    return Recipe(made.sources, made.recast(recipe, recipe.sample))


def learned_again(recipe: Recipe, x: Float[np.ndarray, "N D"]) -> Recipe:
    """What `learn` would have made of the table of individuals whose inputs these are."""
    sources = []
    for s, source in enumerate(recipe.sources):
        own = x[:, recipe.source_of == s]
        if source.levels is not None:
            levels = tuple(source.levels[d] for d in np.flatnonzero(own.any(axis=0)))
            if len(levels) > MOST_LEVELS:
                raise SettingError(
                    f"{source.name!r:.80} would hold {len(levels)} different texts; up to "
                    f"{MOST_LEVELS} can be an input. Write fewer, or begin a study without it."
                )
            source = replace(source, levels=levels)
        elif source.flagged:
            there = own[own[:, -1] == 0, 0]
            if not len(there):
                raise SettingError(f"{source.name!r:.80} would be missing of all individuals")
            gaps = len(there) < len(own)
            source = replace(source, fill=2 * float((there / 2).mean()) if gaps else 0.0)
            source = replace(source, flagged=gaps)
        sources.append(source)
    draft = Recipe(tuple(sources), np.empty((0, 0)))
    return _with_sample(draft, draft.recast(recipe, x))


def _places(recipe: Recipe, x: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " N"]:
    """A number for each row, whatever the order of rows and columns: similar rows are close."""
    places = np.zeros(len(x))
    for s, source in enumerate(recipe.sources):
        at = np.flatnonzero(recipe.source_of == s)
        weight = zlib.crc32(str(source.name).encode("utf-8", "replace")) / 2**32 + 1
        ranks = np.linspace(0.0, 1.0, len(at)) if source.levels is not None else np.ones(1)
        own = x[:, at[0] : at[0] + len(ranks)] @ ranks
        places += weight * own / max(abs(own).max(initial=0.0), np.finfo(float).tiny)
    return places


def _source(
    table: Table, name: Hashable, period: float | str | None
) -> tuple[Source, tuple[Any, Any]]:
    """What becomes of a column, and the column as `_levels` or `_numbers` reads it."""
    column = table.frame.get_column(name)
    turns = None if period is None else _period(name, period)
    is_date = is_moment(column)
    if not is_date and not is_numeric(column):
        if turns is not None:
            raise SettingError(f"{name!r:.80} has a period and holds text; give numbers or dates")
        levels, codes = _levels(table, name)
        known = [level for level in levels if level is not None]
        if not known:
            raise table.refusal(_empty(table, name))
        if day := odd_date(known):
            raise table.refusal(
                f"{table.where(int(np.argmax(codes == levels.index(day))))}: {name!r:.80} is "
                f"{day!r:.80}, and dates are understood as 2024-03-31. Write all of them so."
            )
        odd = [level for level in known if not NUMBER.fullmatch(level.strip())]
        if 2 * len(odd) <= len(known) and not _are_names(column, known, odd, levels, codes):
            row = int(np.argmax(codes == levels.index(odd[0]))) if odd else 0
            raise table.refusal(
                f"{table.where(row)}: {name!r:.80} is {levels[codes[row]]!r:.80}, "
                + ("not a number as others are" if odd else "a number that is written as text")
                + ". Correct it, or leave it empty if it is missing; if these are names of "
                "categories, put a letter before each."
            )
        if len(known) > MOST_LEVELS:
            raise table.refusal(
                f"{table.where(int(np.argmax(codes == MOST_LEVELS)))}: {name!r:.80} holds "
                f"{len(known)} different texts, such as {known[0]!r:.40}; up to {MOST_LEVELS} can "
                "be an input. Leave the column out, or write numbers in it."
            )
        gap = (None,) if len(known) < len(levels) else ()
        return Source(name, (*sorted(known), *gap)), (levels, codes)
    plain = Source(name, period=turns, is_date=is_date)
    values, missing = _numbers(table, plain)
    if missing.all():
        raise table.refusal(_empty(table, name))
    if not missing.any():
        return plain, (values, missing)
    known_values = values[~missing]
    half = known_values / 2  # whose mean is finite where that of the values might not be
    filled = Source(name, None, 2 * float(half.mean()), True, turns, is_date)
    return filled, (values, missing)


def _are_names(
    column: Any,
    known: Sequence[str],
    odd: Sequence[str],
    levels: Sequence[str | None],
    codes: Int[np.ndarray, " N"],
) -> bool:
    """Whether texts that are numbers, but for the `odd` ones, name categories: 0, 1, 2, 3+."""
    import narwhals as nw

    if column.dtype == nw.Categorical or column.dtype == nw.Enum:
        return True
    times = np.bincount(codes, minlength=len(levels))
    repeated = all(times[levels.index(each)] >= FEW for each in odd)
    return bool(odd) and repeated and FEW * len(known) <= len(codes)


def odd_date(texts: Sequence[Any]) -> str | None:
    """The first text that is no ISO date, if all of them are dates; otherwise None.

    >>> odd_date(["2024-03-30", "31.3.2024"])
    '31.3.2024'
    >>> odd_date(["31.3.2024", "later"])
    """
    if not all(isinstance(text, str) and DATE.fullmatch(text.strip()) for text in texts):
        return None
    return next((text for text in texts if not text.strip()[:4].isdigit()), None)


def _empty(table: Table, name: Hashable) -> str:
    return f"{name!r:.80} of {table.name} has no value in any row. Leave the column out."


def is_moment(column: Any) -> bool:
    """Whether a column holds dates or times of a date."""
    import narwhals as nw

    return column.dtype == nw.Date or column.dtype == nw.Datetime


def _period(name: Hashable, period: float | str) -> float:
    try:
        turns = PERIODS[period] if isinstance(period, str) and period in PERIODS else float(period)
    except ValueError:
        turns = math.nan
    if not turns > 0 or math.isinf(turns):
        raise SettingError(
            f"the period of {name!r:.80} is {period!r:.80}; give a positive number, or of dates "
            f"{', '.join(PERIODS)}"
        )
    return turns


def _columns(
    source: Source, values: Float[np.ndarray, " N"], missing: Bool[np.ndarray, " N"]
) -> list[np.ndarray]:
    filled = np.where(missing, source.fill, values) if missing.any() else values
    columns = [filled]
    if source.period is not None:
        angle = 2 * np.pi * np.remainder(filled / source.period, 1.0)
        columns += [np.where(missing, 0.0, turn(angle)) for turn in (np.sin, np.cos)]
    return [*columns, missing] if source.flagged else columns


def _numbers(
    table: Table, source: Source
) -> tuple[Float[np.ndarray, " N"], Bool[np.ndarray, " N"]]:
    """A column of numbers or dates, and where it has none."""
    import pyarrow as pa
    from pyarrow import compute

    column = table.frame.get_column(source.name)
    if source.is_date:
        if not is_moment(column):
            found = column.head(1).to_list()
            raise table.refusal(
                f"{table.where(0)}: {source.name!r:.80} is {found[0] if found else None!r:.80}; "
                "dates were there before. Give dates."
            )
        moments = column.to_arrow()
        missing = np.asarray(compute.is_null(moments).to_numpy(zero_copy_only=False))
        whole = compute.cast(moments, pa.timestamp("us"), safe=False)
        ticks = compute.fill_null(compute.cast(whole, pa.int64()), 0)
        return ticks.to_numpy(zero_copy_only=False) / DAY, missing
    missing = table.missing(source.name)
    if missing.all():
        return np.zeros(len(missing)), missing
    return table.numbers(source.name, missing), missing


def _levels(table: Table, name: Hashable) -> tuple[list[str | None], Int[np.ndarray, " N"]]:
    """Distinct texts of a column in order of appearance, None for gaps, and each row's number."""
    import pyarrow as pa
    from pyarrow import compute

    column = table.frame.get_column(name).to_arrow()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = compute.cast(column, column.type.value_type)
    if not pa.types.is_string(column.type):
        try:
            column = compute.cast(column, pa.string())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            raise table.refusal(
                f"{name!r:.80} of {table.name} holds {column.type}, which cannot be an input. "
                "Leave the column out, or turn it into numbers or text."
            ) from None
    coded = column.dictionary_encode(null_encoding="encode")
    raw = coded.dictionary.to_pylist()
    blank = table.in_file
    merged: dict[str | None, int] = {}
    to = [merged.setdefault(None if (blank and v == "") else v, len(merged)) for v in raw]
    return list(merged), np.array(to, dtype=np.int64)[coded.indices.to_numpy(zero_copy_only=False)]
