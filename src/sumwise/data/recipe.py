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
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from sumwise.data.frames import GAPS, NUMBER, Table, is_number, is_numeric
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
            gap = "?" if "?" not in self.levels else "missing"
            return tuple(f"{self.name} = {gap if v is None else v}" for v in self.levels)
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
        """Names of the inputs, each its own; those of the user's columns stay as they are."""
        found: dict[Hashable, None] = {}
        for source in self.sources:
            for label in source.labels:
                while label != source.name and (label in found or label in self.names):
                    label = f"{label} (of {source.name})"
                found[label] = None
        return tuple(found)

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
        starts = np.arange(len(out)) * out.shape[1]  # of rows, in memory
        for s, source in enumerate(self.sources):
            at = np.flatnonzero(self.source_of == s)
            if source.levels is None:
                if read is None and not len(self.sample) and not source.flagged:
                    table.refuse_missing(source.name)
                values, missing = read[source.name] if read else _numbers(table, source)
                for d, column in zip(at.tolist(), _columns(source, values, missing), strict=True):
                    out[:, d] = column
                unknown[:, s] = missing & (not source.flagged)
            else:
                levels, codes = read[source.name] if read else _levels(table, source.name)
                known = {level: d for d, level in zip(at.tolist(), source.levels, strict=True)}
                places = np.array([known.get(level, -1) for level in levels], dtype=int)
                column, spots = places.take(codes), starts
                if (places < 0).any():
                    unknown[:, s] = column < 0
                    spots, column = spots[column >= 0], column[column >= 0]
                out.reshape(-1)[spots + column] = 1.0
        return Encoded(out, unknown)

    @classmethod
    def plain(cls, names: Sequence[Hashable]) -> Recipe:
        """Columns of numbers as they are."""
        return cls(tuple(map(Source, names)), np.empty((0, len(names))))

    def filled(self, known: Encoded) -> Float[np.ndarray, "N D"]:
        """Inputs with those of an average individual where nothing is known of a column."""
        return np.where(known.unknown[:, self.source_of], self.sample.mean(axis=0), known.x)

    def stand_ins(self, known: Encoded) -> Iterator[tuple[Int[np.ndarray, " r"], Any]]:
        """Rows of which a column is not known, and each with what every one of `sample` has there.

        As many rows as `sample` has follow one another for each.
        """
        for pattern in np.unique(known.unknown[known.unknown.any(axis=1)], axis=0):
            rows = np.flatnonzero((known.unknown == pattern).all(axis=1))
            at = pattern[self.source_of]
            some = np.repeat(known.x[rows], len(self.sample), axis=0)
            some[:, at] = np.tile(self.sample[:, at], (len(rows), 1))
            yield rows, some

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
    turns, sources, read = periods_of(names, periods), list[Source](), dict[Hashable, Any]()
    for name in names:
        seen, read[name] = look(table, name)
        sources.append(source_of(table, seen, turns.get(name)))
    draft = Recipe(tuple(sources), np.empty((0, 0)))
    x, _ = draft.encode(table, role, read)
    return with_sample(draft, x, read), x


def periods_of(
    names: Sequence[Hashable], periods: Mapping[Any, float | str] | None
) -> dict[Any, float | str]:
    """Periods by column; those of other columns are refused."""
    turns = dict(periods or {})
    for name in turns:
        if name not in names:
            raise SettingError(f"a period is given for {name!r:.80}, which is not an input")
    return turns


def with_sample(
    draft: Recipe, x: Float[np.ndarray, "N D"], read: Mapping[Hashable, Any] | None = None
) -> Recipe:
    """The recipe with some of these individuals, evenly from all kinds of them.

    Args:
        read: Their columns, by name, if they are at hand: text is found faster there than in x.
    """
    evenly = np.linspace(0, len(x) - 1, min(len(x), SAMPLE)).round().astype(int)
    places = _places(draft, x, read)
    sought = np.unique(np.sort(places)[evenly])
    rows = np.flatnonzero(np.isin(places, sought))
    if len(rows) == len(sought):  # one each; this takes a quarter of the time of a partition
        rows = rows[np.argsort(places[rows])]
    else:  # which of those at the same place are taken stays as it was in earlier versions
        rows = np.argpartition(places, evenly)[evenly]
    return Recipe(draft.sources, x[rows])


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
                raise SettingError(f"{source.name!r:.80} would be missing for all individuals")
            gaps = len(there) < len(own)
            fill = _sum(there) / (len(there) << 1126) if gaps else 0.0
            source = replace(source, fill=fill, flagged=gaps)
        sources.append(source)
    draft = Recipe(tuple(sources), np.empty((0, 0)))
    return with_sample(draft, draft.recast(recipe, x))


def _places(
    recipe: Recipe, x: Float[np.ndarray, "N D"], read: Mapping[Hashable, Any] | None
) -> Float[np.ndarray, " N"]:
    """A number for each row, whatever the order of rows and columns: similar rows are close."""
    places = np.zeros(len(x))
    for s, source in enumerate(recipe.sources):
        at = np.flatnonzero(recipe.source_of == s)
        weight = zlib.crc32(str(source.name).encode("utf-8", "replace")) / 2**32 + 1
        own, ranks = x[:, at[0]], np.linspace(0.0, 1.0, len(at))
        if source.levels is not None and read:
            levels, codes = read[source.name]
            rank = dict(zip(source.levels, ranks, strict=True))
            own = np.array([rank[level] for level in levels]).take(codes)
        elif source.levels is not None:
            own = x[:, at[0] : at[0] + len(at)] @ ranks
        places += weight * (own / max(abs(own).max(initial=0.0), np.finfo(float).tiny))
    return places


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What a column holds, in all rows of a table or in some that follow one another."""

    name: Hashable
    rows: int
    known: int  # rows that have a value
    texts: Mapping[str | None, tuple[int, int]] | None  # how often, and the first row; of text
    many: bool = False  # whether there are more texts than these
    is_category: bool = False
    is_date: bool = False
    total: int = 0  # exact sum of numbers, in units of 2⁻¹¹²⁶
    low: float = math.inf
    high: float = -math.inf
    counts: int | None = None  # what whole numbers that count rows would count the first row as

    @property
    def is_same(self) -> bool:
        """Whether all of several rows have the same value."""
        same = self.low == self.high if self.texts is None else len(self.texts) == 1
        return same and self.known == self.rows > 1

    def __add__(self, other: Seen) -> Seen:
        """What the column holds in the rows of both; few more texts are kept than can be inputs."""
        texts = None if self.texts is None else dict(self.texts)
        for text, (times, first) in (other.texts or {}).items():
            assert texts is not None  # columns have one kind in all files
            before = texts.get(text, (0, first))
            texts[text] = before[0] + times, min(before[1], first)
        many = self.many or other.many
        if texts is not None and len(texts) > MOST_LEVELS + 2:
            order = sorted(texts.items(), key=lambda item: item[1][1])
            texts, many = dict(order[: MOST_LEVELS + 2]), True
        return replace(
            self,
            rows=self.rows + other.rows,
            known=self.known + other.known,
            texts=texts,
            many=many,
            is_category=self.is_category or other.is_category,
            total=self.total + other.total,
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            counts=self.counts if self.counts == other.counts else None,
        )


def look(table: Table, name: Hashable, first: int | None = None) -> tuple[Seen, tuple[Any, Any]]:
    """What a column holds, and the column as `_levels` or `_numbers` reads it.

    Args:
        first: The number of the first row, if these are some rows of a larger table.
    """
    import narwhals as nw

    at = first or 0

    column = table.frame.get_column(name)
    n, is_date = len(column), is_moment(column)
    if not is_date and not is_numeric(column):
        levels, codes = _levels(table, name)
        times, rows = np.bincount(codes, minlength=len(levels)), np.zeros(len(levels), dtype=int)
        rows[codes[::-1]] = np.arange(at, at + n)[::-1]
        each = zip(times.tolist(), rows.tolist(), strict=True)
        texts = dict(zip(levels, each, strict=True))
        category = column.dtype == nw.Categorical or column.dtype == nw.Enum
        known = n - texts.get(None, (0, 0))[0]
        return Seen(name, n, known, texts, is_category=category), (levels, codes)
    values, missing = _numbers(table, Source(name, is_date=is_date))
    there = values[~missing] if missing.any() else values
    counts = None
    if column.dtype.is_integer() and len(there) == n:
        counted = np.array_equal(values, values[0] + np.arange(n)) if n else False
        counts = int(values[0]) - at if counted else None
    ends = (float(there.min()), float(there.max())) if len(there) else (math.inf, -math.inf)
    total = _sum(there) if first is not None or len(there) < n else 0  # where gaps are filled
    seen = Seen(name, n, len(there), None, False, False, is_date, total, *ends, counts)
    return seen, (values, missing)


def _sum(values: Float[np.ndarray, " N"]) -> int:
    """The sum of finite numbers in units of 2⁻¹¹²⁶, exact, so that their order does not matter."""
    total = 0
    for low in range(0, len(values), 2**20):  # of which sums of 27 bits are exact
        part, exponent = np.frexp(values[low : low + 2**20])
        whole, least = np.ldexp(part, 53).astype(np.int64), int(exponent.min())
        for bits, shift in ((whole >> 27, 27), (whole & (2**27 - 1), 0)):
            sums = np.bincount(exponent - least, bits)
            at = np.flatnonzero(sums)
            pairs = zip(sums[at].tolist(), at.tolist(), strict=True)
            total += sum(int(each) << (e + least + 1073 + shift) for each, e in pairs)
    return total


def source_of(table: Table, seen: Seen, period: float | str | None = None) -> Source:
    """What becomes of a column; one that cannot be an input is refused in the table's words."""
    name, turns = seen.name, None if period is None else _period(seen.name, period)
    if seen.texts is not None and turns is not None:
        raise SettingError(f"{name!r:.80} has a period and holds text; give numbers or dates")
    if not seen.known:
        raise table.refusal(
            f"{name!r:.80} of {table.name} has no value in any row. Leave the column out."
        )
    if seen.texts is None:
        plain = Source(name, period=turns, is_date=seen.is_date)
        if seen.known == seen.rows:
            return plain
        return replace(plain, fill=seen.total / (seen.known << 1126), flagged=True)
    known = [level for level in seen.texts if level is not None]
    if day := odd_date(known):
        raise table.refusal(
            f"{table.where(seen.texts[day][1])}: {name!r:.80} is {day!r:.80}, and dates are "
            "understood as 2024-03-31. Write all of them so."
        )
    _refuse_numbers(table, seen, known)
    if seen.many or len(known) > MOST_LEVELS:
        number = f"more than {MOST_LEVELS}" if seen.many else f"{len(known)}"
        raise table.refusal(
            f"{table.where(seen.texts[known[MOST_LEVELS]][1])}: {name!r:.80} holds {number} "
            f"different texts, such as {known[0]!r:.40}; up to {MOST_LEVELS} can be an input. "
            "Leave the column out, or write numbers in it."
        )
    gap = (None,) if len(known) < len(seen.texts) else ()
    return Source(name, (*sorted(known), *gap))


def _refuse_numbers(table: Table, seen: Seen, known: Sequence[str]) -> None:
    """Refuse texts that are numbers, in any notation, but for a few that are not or mean gaps."""
    assert seen.texts is not None
    numbers = {level for level in known if is_number(level)}
    odd = [level for level in known if not NUMBER.fullmatch(level.strip())]
    words = [level for level in odd if level not in numbers and level.strip().lower() not in GAPS]
    if not numbers or (words and 2 * len(odd) > len(known)) or _are_names(seen, known, words):
        return
    text = (words or odd or known)[0]
    what = "not a number like the others" if odd else "a number that is written as text"
    if odd and text in numbers:
        what = "a number that is not written like -1.5"
    raise table.refusal(
        f"{table.where(seen.texts[text][1])}: {seen.name!r:.80} is {text!r:.80}, {what}. Correct "
        "it, or leave it empty if it is missing; if these are names of categories, put a letter "
        "before each."
    )


def _are_names(seen: Seen, known: Sequence[str], odd: Sequence[str]) -> bool:
    """Whether texts that are numbers, but for the `odd` ones, name categories: 0, 1, 2, 3+."""
    assert seen.texts is not None
    repeated = all(seen.texts[each][0] >= FEW for each in odd)
    return seen.is_category or (bool(odd) and repeated and FEW * len(known) <= seen.rows)


def odd_date(texts: Sequence[Any]) -> str | None:
    """The first text that is no ISO date, if all of them are dates; otherwise None.

    >>> odd_date(["2024-03-30", "31.3.2024"])
    '31.3.2024'
    >>> odd_date(["2024-03-30", "2024-13-45"])
    '2024-13-45'
    >>> odd_date(["31.3.2024", "later"])
    """
    if not all(isinstance(text, str) and DATE.fullmatch(text.strip()) for text in texts):
        return None
    for text in texts:
        try:
            date.fromisoformat(text.strip()[:10])
        except ValueError:
            return str(text)
    return None


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
            f"the period of {name!r:.80} is {period!r:.80}; give a positive number, or for dates "
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
                "it held dates before. Give dates."
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

    held = "values of several kinds, numbers beyond 64 bits, or text that is not Unicode"
    try:
        column = table.frame.get_column(name).to_arrow()
        held = str(column.type)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = compute.cast(column, column.type.value_type)
        if pa.types.is_duration(column.type):
            raise TypeError("a length of time is not a name")
        column = compute.cast(column, pa.string())
    except (pa.ArrowException, OverflowError, TypeError, UnicodeError):
        raise table.refusal(
            f"{name!r:.80} of {table.name} holds {held}, which cannot be an input. Leave the "
            "column out, or turn it into numbers or text."
        ) from None
    coded = column.dictionary_encode(null_encoding="encode")
    raw = coded.dictionary.to_pylist()
    blank = table.in_file
    merged: dict[str | None, int] = {}
    to = [merged.setdefault(None if (blank and v == "") else v, len(merged)) for v in raw]
    return list(merged), np.array(to, dtype=np.int64).take(coded.indices)
