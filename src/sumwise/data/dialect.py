"""CSV as offices write it: separators, decimal commas and encodings, found or given.

Each file is looked at by itself. What is found is certain, or the file is refused with what to do:
1,234 may be a thousand or one and a bit, and nothing but the rest of the file can tell.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from sumwise.errors import DataError, SettingError
from sumwise.util.shapes import Bool

SEPARATORS: Final = {",": "commas", ";": ";", "\t": "tabs", "|": "|"}
UTF8: Final = "utf-8-sig"
ENCODINGS: Final = {"latin-1": "Latin-1", "cp1252": "Windows-1252"}  # as people call them
HEAD: Final = 2**16  # bytes that the separator is found in
FEW: Final = 100  # cells that show whether a column of text may hold numbers


@dataclass(frozen=True, slots=True)
class Reading:
    """How tables are read, as a user gave it; None is found out for each file by itself."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None  # of an Excel file; or the layer of a GeoPackage
    centroid: bool = False  # whether geometries give two columns more
    say: Callable[[str], object] = str  # is given a sentence about what was found
    memory: int | None = None  # bytes that Parquet may take; half of the machine's if left out

    @property
    def typed(self) -> tuple[str, ...]:
        """The options as they are typed in a shell."""
        names = ("sep", "decimal", "encoding", "sheet")
        given = [(f"--{name}", getattr(self, name)) for name in names]
        words = [word for pair in given if pair[1] is not None for word in pair]
        return (*words, *(("--centroid",) if self.centroid else ()))

    def __post_init__(self) -> None:
        sep = {"tab": "\t", "\\t": "\t"}.get(self.sep or "", self.sep)
        if sep is not None and (len(sep) != 1 or sep.isalnum() or sep in '"\r\n\0' or sep > "~"):
            raise SettingError(f"--sep is {self.sep!r:.40}; give one character, such as ; or tab")
        if self.decimal not in (None, ".", ","):
            raise SettingError(f"--decimal is {self.decimal!r:.40}; give . or ,")
        object.__setattr__(self, "sep", sep)
        if self.encoding is not None:
            try:
                "".encode(self.encoding)  # refuses codecs that are not of text
            except (LookupError, ValueError):
                raise SettingError(
                    f"--encoding is {self.encoding!r:.40}, which is not known; give one such as "
                    "utf-8, latin-1, cp1252 or utf-16"
                ) from None


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one CSV file is written."""

    sep: str = ","
    decimal: str = "."
    encoding: str = UTF8
    skipped: int = 0  # lines before the heading

    @property
    def is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig", "ascii")

    def found(self, reading: Reading) -> str:
        """What is unusual and was not given, in words."""
        words = []
        if reading.sep is None and self.sep != ",":
            words.append(f"{SEPARATORS.get(self.sep, self.sep)} between columns")
        if reading.decimal is None and self.decimal != ".":
            words.append("decimal commas")
        if reading.encoding is None and not self.is_utf8:
            words.append(ENCODINGS.get(self.encoding, self.encoding.upper()))
        return ", ".join(words)


# --- separators and encodings ---------------------------------------------------------------------


def detect(path: Path, reading: Reading) -> Dialect:
    """The separator and the encoding, as far as the beginning of a file shows them."""
    with path.open("rb") as file:
        head = file.read(HEAD)
        whole = not file.read(1)
    encoding = reading.encoding or _unicode(head)
    if Dialect(encoding=encoding).is_utf8:
        _refuse_nul(path)
    text = head.decode(encoding, "replace")
    first = re.match("\ufeff?sep=([,;:|\t])\r?\n", text)  # as Excel writes and reads it
    sep = reading.sep or (first[1] if first else _separator(path, text, whole))
    encoding = UTF8 if encoding == "utf-8" else encoding
    return Dialect(sep, reading.decimal or ".", encoding, int(first is not None))


def _refuse_nul(path: Path) -> None:
    """Refuse a file that is not text."""
    with path.open("rb") as file:
        for start in itertools.count(0, 2**20):
            block = file.read(2**20)
            if not block:
                return
            if (at := block.find(b"\0")) >= 0:
                content = path.read_bytes()
                raise DataError(
                    f"{_line(path, content, start + at)}: {_near(content, start + at)} holds a "
                    "zero byte, which no text has. Give a CSV file, or a file whose name has "
                    "its own ending, such as .xlsx. In a CSV file, remove the byte."
                )


def refuse_odd_quotes(path: Path, dialect: Dialect) -> None:
    """Refuse quotation marks that hide the end of a line, and with it the rows that follow."""
    content = path.read_bytes() if dialect.is_utf8 else decoded(path, dialect.encoding)
    content = content.removeprefix(codecs.BOM_UTF8)
    sep = dialect.sep.encode()
    ends = (sep, b"\r", b"\n", b"")
    cell = re.compile(rb'"[^"]*"(?:"[^"]*")*')
    first = io.StringIO(content[:HEAD].decode("utf-8", "replace"), newline="")
    rows = filter(None, csv.reader(first, delimiter=dialect.sep))
    width = len(next(itertools.islice(rows, dialect.skipped, None), ()))
    stop = 0
    while (at := content.find(b'"', stop)) >= 0:
        stop = at + 1
        if content[max(at - 1, 0) : at] not in ends:
            continue  # a mark within a cell, such as 5"
        found = cell.match(content, at)
        after = b'"' if found is None else content[found.end() : found.end() + 1]
        why = "is not closed" if after == b'"' else "has text after the one that closes it"
        if found is not None and after in ends:
            stop = found.end()
            if b"\n" not in found[0] and b"\r" not in found[0]:
                continue
            begin = max(content.rfind(mark, 0, at) for mark in (b"\n", b"\r")) + 1
            last = re.compile(rb"[^\r\n]*").match(content, stop)
            lines = content[begin : last.end() if last else stop].splitlines()
            if width < 2 or any(line.count(sep) + 1 != width for line in lines if line):
                continue
            why = f"closes {len(lines) - 1} lines later, and each of these is a row by itself"
        raise DataError(
            f"{_line(path, content, at)}: the quotation mark in {_near(content, at)} {why}. Close "
            "it in its line; a mark within text in quotation marks is written twice."
        )


def _unicode(head: bytes) -> str:
    """UTF-16 with a byte-order mark or with every other byte empty; else UTF-8."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if 0 < 0.4 * len(head) < 2 * head[first::2].count(0) and 0 not in head[1 - first :: 2]:
            return encoding
    return UTF8


def _separator(path: Path, head: str, whole: bool) -> str:
    """What divides the heading, and all other lines into as many cells."""
    widths = {}
    for sep in SEPARATORS:
        try:
            rows = [*map(len, csv.reader(io.StringIO(head, newline=""), delimiter=sep))]
        except csv.Error:
            rows = []
        widths[sep] = [n for n in (rows if whole else rows[:-1]) if n] or [1]
    divide = [sep for sep, found in widths.items() if found[0] > 1]
    fits = [sep for sep in divide if len({*widths[sep]}) == 1]
    if len(divide) > 1 and len(fits) != 1:
        marks = " or ".join("tab" if sep == "\t" else sep for sep in divide)
        raise DataError(
            f"{path}, line 1: the columns may be separated by {marks}. Say which with --sep."
        )
    return (fits or divide or [","])[0]


def before_unicode(path: Path) -> str:
    """Latin-1 or Windows-1252, for a file that is not UTF-8; one that is neither is refused."""
    content = path.read_bytes()
    try:
        content.decode()
    except UnicodeDecodeError as error:
        first = error.start
    if re.search(rb"[\xc2\xc3][\x80-\xbf]", content):
        raise DataError(
            f"{_line(path, content, first)}: {_near(content, first)} is not UTF-8, and other lines "
            "are. Save the file in one encoding, or name it with --encoding."
        )
    try:
        content.decode("cp1252")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{_line(path, content, error.start)}: {_near(content, error.start)} is neither UTF-8 "
            "nor Windows-1252. Name its encoding with --encoding, such as cp850."
        ) from None
    return "cp1252" if re.search(rb"[\x80-\x9f]", content) else "latin-1"


def decoded(path: Path, encoding: str) -> bytes:
    """A whole file as UTF-8."""
    content = path.read_bytes()
    if codecs.lookup(encoding).name in ("iso8859-1", "cp1252"):
        _refuse_unicode(path, content, encoding)
    try:
        return content.decode(encoding).removeprefix("\ufeff").encode()
    except UnicodeError as error:
        at = getattr(error, "start", 0)
        raise DataError(
            f"{_line(path, content, at)}: {_near(content, at)} is not {encoding}. Name the "
            "encoding of the file with --encoding."
        ) from None


def _refuse_unicode(path: Path, content: bytes, encoding: str) -> None:
    """Refuse to read UTF-8 in another encoding, which would give two wrong letters for each."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return
    if found := re.search(rb"[\x80-\xff]", content):
        at = found.start()
        raise DataError(
            f"{_line(path, content, at)}: {_near(content, at)} is UTF-8, and --encoding says "
            f"{encoding}. Leave --encoding out."
        )


def _line(path: Path, content: bytes, at: int) -> str:
    return f"{path}, line {content.count(10, 0, at) + 1}"


def _near(content: bytes, at: int) -> str:
    around = content[max(0, at - 10) : at + 10].decode("ascii", "backslashreplace")
    return f"{around!r}"


def place(path: Path, dialect: Dialect) -> Callable[[int], str]:
    """A function that gives the place of a row, counting lines as an editor does."""

    def line(row: int) -> str:
        with path.open(encoding=dialect.encoding, errors="replace", newline="") as lines:
            reader = csv.reader(lines, delimiter=dialect.sep)
            filled = (reader.line_num for cells in reader if cells)  # Arrow skips blank lines
            try:
                number = next(itertools.islice(filled, row + 1 + dialect.skipped, None), row + 2)
            except csv.Error:  # a cell that is too long to be read
                return f"{path}, row {row + 1}"
        return f"{path}, line {number}"

    return line


# --- numbers --------------------------------------------------------------------------------------

_POWER: Final = "([eE][+-]?[0-9]+)?"
_WHOLE: Final = f"[+-]?[0-9]+{_POWER}"
_WITH: Final = {mark: rf"[+-]?([0-9]+[{mark}][0-9]*|[{mark}][0-9]+){_POWER}" for mark in (".", ",")}
_EITHER: Final = "[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}"  # decimals or thousands
_GAP: Final = " '\N{RIGHT SINGLE QUOTATION MARK}\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
_GROUPS: Final = {  # with this mark for decimals, and certain of it
    ".": rf"[+-]?[0-9]{{1,3}}(([,{_GAP}][0-9]{{3}})+\.[0-9]+|(,[0-9]{{3}}){{2,}})",
    ",": rf"[+-]?[0-9]{{1,3}}(([.{_GAP}][0-9]{{3}})+,[0-9]+|(\.[0-9]{{3}}){{2,}})",
}
_SPACED: Final = rf"[+-]?[0-9]{{1,3}}([{_GAP}][0-9]{{3}})+"
_ANY: Final = "|".join((_WHOLE, *_WITH.values(), *_GROUPS.values(), _SPACED))
_LIKE_A_NUMBER: Final = re.compile(rf"\s*({_ANY})\s*")


def may_be_numbers(column: Any, missing: frozenset[str]) -> bool:
    """Whether the first cells of a column of text are numbers in anybody's way of writing."""
    first = column.slice(0, FEW).to_pylist()
    cells = [cell for cell in first if cell is not None and cell not in missing]
    return bool(cells) and all(map(_LIKE_A_NUMBER.fullmatch, cells))


def surely_points(values: np.ndarray) -> bool:
    """Whether numbers that were read with decimal points cannot be whole ones, as 1.234 may be."""
    size = np.abs(values[np.isfinite(values)])
    thousands = (size >= 1) & (size < 1000) & (np.abs(np.rint(1000 * size) - 1000 * size) < 1e-6)
    return bool(np.any((size != np.floor(size)) & ~thousands))


def judge(
    columns: Mapping[str, Any],
    missing: frozenset[str],
    given: str | None,
    points: bool,
    commas_separate: bool,
) -> tuple[str, dict[str, tuple[int, str]]]:
    """The mark for decimals; and columns of numbers that it does not explain: row, and the words.

    Args:
        columns: Columns of text, which may be numbers.
        missing: Texts that mean that there is no value.
        given: The mark, if the user gave it.
        points: Whether other columns have decimal points for sure.
        commas_separate: Whether columns are separated by commas, so that points are for decimals.
    """
    numbers: dict[str, dict[str, Bool[np.ndarray, " N"]]] = {}
    sure = {".": points, ",": False}
    doubtful = False
    for name, column in columns.items():
        if not _matches(column, _ANY, missing).all():
            continue
        is_ = numbers[name] = {mark: _matches(column, _WITH[mark]) for mark in _WITH}
        is_["either"] = _matches(column, _EITHER)
        for mark in sure:
            certain = is_[mark] & ~is_["either"] | _matches(column, _GROUPS[mark])
            sure[mark] |= bool(certain.any())
        if commas_separate:
            sure["."] |= bool(is_["."].any())
        doubtful |= bool(is_["either"].any())
    decimal = given or ("," if sure[","] and not sure["."] else ".")
    doubtful = doubtful and given is None and not any(sure.values())
    unclear = {}
    for name, is_ in numbers.items():
        fine = is_[decimal] | _matches(columns[name], _WHOLE, missing)
        odd = ~fine | (is_["either"] if doubtful else False)
        for row in np.flatnonzero(odd)[:1].tolist():
            unclear[name] = row, _unclear(name, columns[name][row].as_py(), decimal, doubtful)
    return decimal, unclear


def _matches(
    column: Any, pattern: str, missing: frozenset[str] = frozenset()
) -> Bool[np.ndarray, " N"]:
    """Where a text is of this form; or, where `missing` is given, there is none."""
    import pyarrow.compute as pc

    found = pc.match_substring_regex(column, rf"^\s*({pattern})\s*$")
    if missing:
        import pyarrow as pa

        found = pc.or_kleene(found, pc.is_in(column, pa.array([None, *missing], pa.string())))
    return np.asarray(found.fill_null(bool(missing)).to_numpy(), dtype=bool)


def _unclear(name: str, text: str, decimal: str, doubtful: bool) -> str:
    cell = text.strip()
    digits = re.sub(rf"[.,{_GAP}]", "", cell)
    whole, _, rest = cell.replace(".", ",").rpartition(",")
    fraction = re.sub(rf"[,{_GAP}]", "", whole) + decimal + rest
    if doubtful and re.fullmatch(_EITHER, cell):
        mark = "," if "," in cell else "."
        return (
            f"{name!r:.80} is {text!r:.80}, which may be {digits} or {fraction}. If it has "
            f"decimals, pass --decimal {mark}; if not, write {digits}."
        )
    used = "points" if decimal == "." else "commas"
    if re.fullmatch(_EITHER, cell):
        write = f"{digits} or {fraction}, whichever is meant"
    elif re.fullmatch(f"{_SPACED}|[+-]?[0-9]{{1,3}}((,[0-9]{{3}})+|(\\.[0-9]{{3}})+)", cell):
        write = digits
    else:
        write = fraction
    return (
        f"{name!r:.80} is {text!r:.80}, and numbers are read with decimal {used} and without "
        f"marks for thousands. Write {write}."
    )
