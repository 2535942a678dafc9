"""What only `make test-all` and `make check` try."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings


def slow(*values: Any) -> list[Any]:
    """Values of a parameter."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def at_most(examples: int) -> int:
    """As many examples of a property, or as few as the quick profile has."""
    return min(examples, settings.default.max_examples)
