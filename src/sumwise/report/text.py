"""Ids and numbers as charts and tables show them.

Ids and names come from users: they are made one line, shortened, and what nobody sees is taken out.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Hashable
from typing import Final

from sumwise.util.text import shown

LONGEST: Final = 30  # characters of an id in a chart
JOINERS: Final = "\u200c\u200d"  # unseen, and needed: they make one sign of several
NONE: Final = "–"


def label(name: Hashable, longest: int = LONGEST) -> str:
    """An id for a chart or a cell: one line, nothing unseen, not too long.

    Long ones lose their middle, for names that begin alike often end differently.

    >>> label("Ann Arbor"), label(("MI", 81010)), label("district of the north 17", 12), label(" ")
    ('Ann Arbor', 'MI / 81010', 'distric…h 17', '(blank)')
    """
    text = " ".join(shown(name).split())
    # what is unseen may turn the text after it round, or break a file
    seen = (c for c in text if c in JOINERS or not unicodedata.category(c).startswith("C"))
    text = " ".join("".join(seen).split())
    if len(text) > longest:
        tail = longest // 3
        head = text[: longest - 1 - tail].rstrip(" " + JOINERS)
        text = f"{head}…{text[-tail:].lstrip(' ' + JOINERS)}"
    return text or "(blank)"


def figure(value: float, digits: int = 3) -> str:
    """A number as people write it: so many digits, or as many as a whole number has.

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
    """A number that somebody gave, without the zeros that they did not write.

    >>> as_given(843.0), as_given(98765.4), as_given(0.1 + 0.2), as_given(1e12)
    ('843', '98,765.4', '0.3', '1e12')
    """
    number, mark, exponent = figure(value, 6).partition("e")
    return (number.rstrip("0").rstrip(".") if "." in number else number) + mark + exponent
