"""When numbers with a point cannot be thousands: 1.234 may be, 1.5 and 0.123 may not."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sumwise.data.dialect import surely_points


@given(st.integers(-10_000_000, 10_000_000), st.integers(0, 5))
def test_numbers_are_surely_decimal_if_their_digits_say_so(number, decimals):
    text = f"{number / 10**decimals:.{decimals}f}"
    value = float(text)
    digits = text.lstrip("-").partition(".")
    three = len(digits[2].rstrip("0")) <= 3 and 1 <= abs(value) < 1000
    whole = value == int(value)
    assert surely_points(np.array([value])) == (not whole and not three)
    assert surely_points(np.array([7.0, np.nan, np.inf, value])) == (not whole and not three)
