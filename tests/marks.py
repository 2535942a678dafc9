"""What only `make test-all` and `make check` try."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import settings


def slow(*values: Any) -> list[Any]:
    """Values of a parameter."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def each_with_one(first: Iterable[Any], second: Sequence[Any]) -> list[Any]:
    """All pairs of values of two parameters; each of the first is quick with one of the second.

    For laws in which the two do not meet: quick tests still try every value of both.
    """
    pairs = [(i, a, j, b) for i, a in enumerate(first) for j, b in enumerate(second)]
    of = len(second)
    return [
        pytest.param(a, b, marks=() if i % of == j else pytest.mark.slow) for i, a, j, b in pairs
    ]


def at_most(examples: int) -> int:
    """As many examples of a property, or as few as the quick profile has."""
    return min(examples, settings.default.max_examples)
