"""Ids of sets, times and figures as people type and read them: in a shell, in a file, on a page.

An id may be text, a number, a date or a tuple of such; what people see of it is text.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from sumwise.errors import UnknownSetError

BETWEEN: Final = " / "  # the parts of an id of several columns
MOST_COMPARED: Final = 20_000  # ids that a mistyped one is compared with


def shown(set_id: Hashable) -> str:
    """An id as text.

    >>> shown("Ann Arbor"), shown(7), shown(("MI", 81010))
    ('Ann Arbor', '7', 'MI / 81010')
    """
    return BETWEEN.join(map(shown, set_id)) if isinstance(set_id, tuple) else str(set_id)


def by_text(ids: Sequence[Hashable]) -> Mapping[str, Hashable | None]:
    """Ids by what is shown of them; None where several look the same."""
    found: dict[str, Hashable | None] = {}
    for set_id in ids:
        text = shown(set_id)
        found[text] = None if text in found else set_id
    return found


def find(known: Mapping[str, Hashable | None], text: str) -> Hashable:
    """The id that is shown as `text`, of those in `by_text(ids)`."""
    found = known.get(text)
    if found is not None:
        return found
    if text in known:
        raise UnknownSetError(
            f"several sets are shown as {text!r}; name it in Python, where the number 7 is not the "
            "text '7'"
        )
    compared = list(known)[:MOST_COMPARED]
    near = get_close_matches(text, compared, n=3) or compared[:3]
    listed = ", ".join(f"{name!r:.80}" for name in near)
    raise UnknownSetError(f"no set is called {text!r:.80}; there is {listed}. Check the spelling.")


def moment(stamp: str) -> str:
    """A time that was kept, to the minute.

    >>> moment("2026-11-23T03:16:26.024332+00:00")
    '2026-11-23 03:16 UTC'
    """
    return f"{stamp[:10]} {stamp[11:16]} UTC"


def figure(value: float) -> str:
    """Three digits, or as many as a whole number has, for people.

    >>> figure(1199.54), figure(9.4243), figure(0.01234), figure(-3.2e12)
    ('1200', '9.42', '0.0123', '-3.2e+12')
    """
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def count(number: int, thing: str) -> str:
    """So many of a thing, in the singular or plural."""
    return f"{number} {thing}" + ("" if number == 1 else "s")
