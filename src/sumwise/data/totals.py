"""Measured totals in files, and numbers as people write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from sumwise.data.about import About
from sumwise.data.dialect import Reading
from sumwise.data.frames import NUMBER, Table, listed
from sumwise.data.known import NOTHING_SAID, Known, areas_of, individuals_of, named
from sumwise.data.sets import Sets
from sumwise.data.tables import PLAIN, read_table
from sumwise.errors import DataError, LabelError, SumwiseError
from sumwise.util.text import BETWEEN, by_text, find, sentence, shown

_THOUSANDS: Final = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+\.[0-9]*")
TOTALS: Final = ("total", "y_bar")
OPTIONAL: Final = ("by", "note", "noise_std")
PARTS: Final = ("covers", "of")  # columns of totals that cover a part of their set
Naming = tuple[tuple[str, ...], Callable[[str], Any]]  # columns, and what their text stands for


def read_totals(
    path: Path,
    sets: Sets,
    by: str | None,
    reading: Reading = PLAIN,
    about: About = NOTHING_SAID,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Measured totals of these sets as arguments of `Study.tell_many`, and ignored columns.

    Sets are named by a column `set`, by the columns that they were grouped by, or by that of the
    areas or individuals that were known from the start. A column `of` has the members that a total
    covers, separated by ";".

    Args:
        by: Who measured the rows that have no name of their own.
        reading: As in `read_table`.
        about: What is measured: its word and its name are understood as names of the column, too.
    """
    known = by_text(sets.ids)
    extra = {each[0] for each in sets.ids[sets.n_asked :] if isinstance(each, tuple)}

    def naming(table: Table) -> Naming:
        columns = _group_columns(table, sets.origin.by)
        if not columns:
            columns = tuple(name for name in table.frame.columns if name in extra)[:1]
            if columns:
                return columns, lambda text: find(known, f"{columns[0]}{BETWEEN}{text}")
        return columns, lambda text: find(known, text)

    more = (about.word, *(() if about.outcome is None else (about.outcome, about.title)))
    return _read_totals(path, by, naming, sets.origin.by, reading, PARTS, more)


def read_known(
    path: Path, sets: Sets, reading: Reading = PLAIN
) -> tuple[list[Known], tuple[str, ...]]:
    """Totals and outputs that are known when a study is made, and ignored columns.

    Individuals are named by their id column, sets as in `read_totals`, areas by other columns of
    the table that the sets were made of.
    """
    origin = sets.origin
    own = str(origin.id)

    def naming(table: Table) -> Naming:
        names, columns = table.frame.columns, tuple[str, ...]()
        if origin.id is not None and own in names:
            columns, rows_of = (own,), individuals_of(sets)
        elif columns := _group_columns(table, origin.by):
            ids = by_text(sets.ids)
            return columns, lambda text: Known(find(ids, text), np.nan)
        else:
            columns = tuple(str(name) for name in (*origin.by, *origin.areas) if name in names)
            rows_of = areas_of(sets, columns) if columns else {}
        keys = by_text(list(rows_of))

        def whose(text: str) -> Known:
            key = find(keys, text, what=" and ".join(columns))
            return named(sets, columns, key, rows_of[key])

        return columns, whose

    told, ignored = _read_totals(path, None, naming, (*origin.by, *origin.areas), reading)
    rows = zip(told["set_ids"], told["y_bar"], told["noise_std"], strict=True)
    return [who._replace(y_bar=total, noise_std=std) for who, total, std in rows], ignored


def _group_columns(table: Table, by: Sequence[Hashable]) -> tuple[str, ...]:
    """The columns that name sets, if there are any."""
    names, own = table.frame.columns, tuple(map(str, by))
    if "set" in names:
        return ("set",)
    usable = own and {*own} <= {*names} and not {*own} & {*TOTALS, *OPTIONAL, *PARTS}
    return own if usable else ()


def _read_totals(
    path: Path,
    by: str | None,
    naming: Callable[[Table], Naming],
    own: Sequence[Hashable],
    reading: Reading,
    parts: Sequence[str] = (),
    words: Sequence[str] = (),
) -> tuple[dict[str, Any], tuple[str, ...]]:
    table, columns, whose, held = _opened(path, naming, own, reading, parts, words)
    names = table.frame.columns
    cells = {name: [""] * len(table.frame) for name in (*columns, held, *OPTIONAL, *parts)}
    for name in {*names} & {*cells}:
        values = table.frame.get_column(name).to_list()
        cells[name] = ["" if value is None else shown(value) for value in values]
    names_of = zip(*(cells[name] for name in columns), strict=True)
    called = [BETWEEN.join(each) if all(each) else "" for each in names_of]

    def each(name: str, read: Callable[[str], Any]) -> list[Any]:
        out = []
        for row, text in enumerate(called if name == "" else cells[name]):
            try:
                out.append(read(text))
            except SumwiseError as error:
                of = "" if name == "" else f"{name!r} of set {called[row]!r:.80}: "
                said = f"{table.where(row)}: {of}{sentence(error)} Nothing was stored."
                raise type(error)(said) from None
        return out

    def find_set(text: str) -> Any:
        if not text:
            raise DataError(f"{listed(columns)} is missing. Fill it in, or drop the row.")
        return whose(text)

    def total(text: str) -> float:
        if not text.strip():
            raise LabelError("it is missing; fill it in, or drop the row")
        return number(text, table.decimal)

    def optional(text: str) -> float | None:
        return number(text, table.decimal) if text.strip() else None

    told = {
        "set_ids": each("", find_set),
        "y_bar": each(held, total),
        "by": [text or by for text in cells["by"]],
        "note": [text or None for text in cells["note"]],
        "noise_std": each("noise_std", optional),
        "where": table.where,
    }
    if parts:
        told |= {"covers": each("covers", optional), "of": each("of", _members)}
    return told, tuple(name for name in names if name not in cells)


def _opened(
    path: Path,
    naming: Callable[[Table], Naming],
    own: Sequence[Hashable],
    reading: Reading,
    parts: Sequence[str],
    words: Sequence[str],
) -> tuple[Table, tuple[str, ...], Callable[[str], Any], str]:
    """A table, the columns that name sets, what their text stands for, and the column of totals."""
    numeric, said = (*TOTALS, *words, "noise_std", *parts[:1]), list[str]()
    first = replace(reading, say=said.append)
    table = read_table(path, lambda name: True, first, numeric.__contains__)
    columns, whose = naming(table)
    if not columns:
        table.require(["set"], " or ".join(["the set's id", *(f"as {name!r}" for name in own)]))
    other = (*columns, *OPTIONAL, *parts)
    held = _value_column(table, [name for name in words if name not in other], other)
    if held not in numeric:  # so that its own numbers show which mark is for decimals
        numeric, said = (*numeric, held), []
        again = replace(reading, say=said.append)
        table = read_table(path, lambda name: True, again, numeric.__contains__)
        said.append(f"{path.name}: totals are in the column {held!r:.80}.")
    for each in said:
        reading.say(each)
    table.refuse_unclear(numeric)
    return table, columns, whose, held


def _value_column(table: Table, words: Sequence[str], other: Sequence[str]) -> str:
    """The column of totals: by our names, by the study's own, or the only one that is left."""
    names = table.frame.columns
    held = [name for name in TOTALS if name in names]
    held = held or [name for name in dict.fromkeys(words) if name in names]
    left = [name for name in names if name not in other]
    held = held or (left if len(left) == 1 else [])
    if len(held) > 1:
        both = " and ".join(map(repr, held))
        raise DataError(f"{table.name} has columns {both}; leave one of them out")
    table.require(held or TOTALS[:1], "the measured total; y_bar is understood too")
    return held[0]


def _members(text: str) -> list[str] | None:
    return [name.strip() for name in text.split(";")] if text.strip() else None


def number(text: str, decimal: str = ".") -> float:
    """A finite number; other text is refused with what to write instead.

    Args:
        decimal: The mark for decimals.

    >>> number(" -1.5e3 ")
    -1500.0
    >>> number("1,5", decimal=",")
    1.5
    >>> number("1,234.5")
    Traceback (most recent call last):
    sumwise.errors.LabelError: '1,234.5' is not a number here; write 1234.5
    """
    cleaned = text.strip()
    if decimal == ",":
        cleaned = cleaned.translate({ord(","): ".", ord("."): ","})
    if NUMBER.fullmatch(cleaned):
        value = float(cleaned)
        if abs(value) == float("inf"):
            raise LabelError(f"{text!r:.80} is too large a number; is it mistyped? Rescale it")
        return value
    if _THOUSANDS.fullmatch(cleaned):
        hint = f"write {cleaned.replace(',', '').replace('.', decimal)}"
    elif not cleaned:
        hint = "give a number such as 1234.5"
    elif re.fullmatch(r"[+-]?(nan|inf(inity)?)", cleaned, re.IGNORECASE):
        hint = "give a finite number"
    else:
        mark = "point" if decimal == "." else "comma"
        hint = f"write digits alone, with a {mark} for decimals and no unit, such as 1234{decimal}5"
    raise LabelError(f"{text!r:.80} is not a number here; {hint}")
