"""Ids of sets, times and numbers as people type and read them: in a shell, in a file, on a page.

An id may be text, a number, a date or a tuple of these; people see it as text. Numbers for people
have three digits (`figure` with typographic signs, `plain` without); files hold `repr` of a float.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Hashable, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sumwise.errors import UnknownSetError

if TYPE_CHECKING:
    from sumwise.util.places import Places

BETWEEN: Final = " / "  # the parts of an id of several columns
LONGEST: Final = 30  # characters of an id in a chart
JOINERS: Final = "\u200c\u200d"  # invisible, but they join characters into one sign
NONE: Final = "–"
MOST_COMPARED: Final = 20_000  # ids that a mistyped one is compared with
# what spreadsheets take for a formula, behind apostrophes or not; numbers are not
FORMULA_SIGNS: Final = r"[=+\-@\t\r\n]"
_FORMULA: Final = re.compile(
    rf"'*(?![+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z){FORMULA_SIGNS}"
)


def shown(set_id: Hashable) -> str:
    """An id as text.

    >>> shown("Ann Arbor"), shown(7), shown(("MI", 81010))
    ('Ann Arbor', '7', 'MI / 81010')
    """
    return BETWEEN.join(map(shown, set_id)) if isinstance(set_id, tuple) else str(set_id)


def by_text(ids: Sequence[Hashable]) -> ByText:
    """Ids by what is shown of them."""
    from sumwise.util.places import Places

    return ByText(ids, Places(ids, shown))


class ByText(NamedTuple):
    """Ids, and where each is by what is shown of it."""

    ids: Sequence[Hashable]
    places: Places

    def __contains__(self, text: object) -> bool:
        return text in self.places

    def get(self, text: str) -> Hashable | None:
        """The id that is shown as `text`; None if there is no such id, or several."""
        found = self.places.every(text)
        return self.ids[found[0]] if len(found) == 1 else None


def find(known: ByText, text: str, what: str = "set") -> Hashable:
    """The id that is shown as `text`, of those in `by_text(ids)`."""
    found = known.get(text)
    if found is not None:
        return found
    if text in known:
        raise UnknownSetError(f"several {what}s are shown as {text!r}; in Python their ids differ")
    compared = [*dict.fromkeys(islice(known.places, MOST_COMPARED))]
    near = get_close_matches(text, compared, n=3) or compared[:3]
    listed = ", ".join(f"{name!r:.80}" for name in near)
    raise UnknownSetError(
        f"no {what} is called {text!r:.80}; there is {listed}. Check the spelling."
    )


def label(name: Hashable, longest: int = LONGEST) -> str:
    """An id for a chart or a cell: one line, no invisible characters, not too long.

    A long one loses its middle, because names that begin alike often end differently.

    >>> label("Ann Arbor"), label(("MI", 81010)), label("district of the north 17", 12), label(" ")
    ('Ann Arbor', 'MI / 81010', 'distric…h 17', '(blank)')
    """
    text = " ".join(shown(name).split())
    # invisible characters may reverse the text after them, or break a file
    seen = (c for c in text if c in JOINERS or not unicodedata.category(c).startswith("C"))
    text = " ".join("".join(seen).split())
    if len(text) > longest:
        tail = longest // 3
        head = text[: longest - 1 - tail].rstrip(" " + JOINERS)
        text = f"{head}…{text[-tail:].lstrip(' ' + JOINERS)}"
    return text or "(blank)"


def moment(stamp: str) -> str:
    """A stored time, to the minute.

    >>> moment("2026-11-23T03:16:26.024332+00:00")
    '2026-11-23 03:16 UTC'
    """
    return f"{stamp[:10]} {stamp[11:16]} UTC"


def figure(value: float, digits: int = 3) -> str:
    """A number for people to read: so many digits, or as many as a whole number has.

    >>> figure(0.01234), figure(-1234.5), figure(2.5e-7), figure(0), figure(30)
    ('0.0123', '−1,234', '2.50e−7', '0', '30.0')
    """
    size = abs(value)
    if size == 0 or not math.isfinite(size):
        return f"{value:g}".replace("-", "−")
    if not 1e-4 <= size < 1e9:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    return f"{value:,.{decimals}f}".replace("-", "−")


def as_given(value: float) -> str:
    """A number that a user gave, without trailing zeros.

    >>> as_given(843.0), as_given(98765.4), as_given(0.1 + 0.2), as_given(1e12)
    ('843', '98,765.4', '0.3', '1e12')
    """
    number, mark, exponent = figure(value, 6).partition("e")
    return (number.rstrip("0").rstrip(".") if "." in number else number) + mark + exponent


def plain(value: float, digits: int = 3) -> str:
    """So many digits, or as many as a whole number has, in the characters that people can type.

    >>> plain(1199.54), plain(9.4243), plain(0.01234), plain(-3.2e12)
    ('1200', '9.42', '0.0123', '-3.2e+12')
    """
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits}g}"
    return figure(value, digits).replace(",", "").replace("−", "-")


def tamed(text: str, mark: str = "'") -> str:
    """Text for a CSV file, marked in front if a spreadsheet would take it for a formula.

    >>> tamed("=1+1"), tamed("'=1+1"), tamed("-5"), tamed("-b"), tamed("b")
    ("'=1+1", "''=1+1", '-5', "'-b", 'b')
    """
    return f"{mark}{text}" if _FORMULA.match(text) else text


def untamed(text: str) -> str:
    """The text that `tamed` gave to a CSV file.

    >>> untamed("'=1+1"), untamed("''=1+1"), untamed("'-5"), untamed("'b")
    ('=1+1', "'=1+1", "'-5", "'b")
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def json_ready(value: Any) -> Any:
    """The value with None for numbers that JSON cannot hold.

    >>> json_ready({"a": [1.5, float("nan")], "b": "text"})
    {'a': [1.5, None], 'b': 'text'}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: json_ready(part) for name, part in value.items()}
    return [json_ready(part) for part in value] if isinstance(value, list | tuple) else value


def sentence(error: object) -> str:
    """What is said, with a mark at its end.

    >>> sentence("it is missing"), sentence("Is it mistyped?")
    ('it is missing.', 'Is it mistyped?')
    """
    said = str(error)
    return said if said.endswith((".", "?")) else f"{said}."


def count(number: int, thing: str) -> str:
    """So many of a thing, in the singular or plural."""
    return f"{number} {thing}" + ("" if number == 1 else "s")
