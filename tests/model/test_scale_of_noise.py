"""Scales that are found beside known noise, in other units of the outputs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sumwise.model import scaling
from tests.builders import linear_pool, plain, random_sets


@pytest.mark.parametrize("known", [1e-3, 0.3, 30.0])
@pytest.mark.parametrize("with_offset", [True, False])
@pytest.mark.parametrize("n", [2, 6])
def test_the_least_credible_variance_is_in_the_square_of_the_unit(known, with_offset, n):
    rng = np.random.default_rng(n)
    design = linear_pool(random_sets([2, 3, 1, 4, 2, 5][:n], rng)).design
    y, noise = rng.normal(size=(n, 1)), np.full(n, known)
    raw = replace(plain(design, y), noise_std=noise)
    ordinary = 2 * math.log(float(scaling.scale_of(design, y, np.zeros(1))[0]))
    least = scaling._least_log_variance(raw, ordinary, with_offset)
    for unit in (1e-2, 50.0):
        other = replace(plain(design, unit * y), noise_std=unit * noise)
        moved = scaling._least_log_variance(other, ordinary + 2 * math.log(unit), with_offset)
        assert moved - least == pytest.approx(2 * math.log(unit), abs=1e-9)
