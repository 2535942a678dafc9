"""When numbers with a point cannot be thousands: 1.234 may be, 1.5 and 0.123 may not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sumwise as sw
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


def test_one_cell_in_a_box_is_its_midpoint_and_less_is_refused():
    sets = sw.Sets.from_integrals([[[0.0, 2.0], [1.0, 5.0]]], bins=1)
    assert sets.x.tolist() == [[1.0, 3.0]]
    assert sets.theta.tolist() == [8.0]
    assert sw.Sets.from_integrals([[[0.0, 2.0], [1.0, 5.0]]], bins=[1, 2]).sizes.tolist() == [2]
    for bins in (0, -1, [1, 0], [1, 1, 1], 1.5):
        with pytest.raises(sw.SettingError, match="whole number of at least 1"):
            sw.Sets.from_integrals([[[0.0, 2.0], [1.0, 5.0]]], bins=bins)
