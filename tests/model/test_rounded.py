"""A rounded design knows how far it is off, whatever the magnitudes, and gives rows as they are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from sumwise.model import rounded
from sumwise.model.rounded import Exact, Rounded, RoundedDesign

ANY = st.floats(allow_nan=False, allow_infinity=False, width=64)
USUAL = st.floats(-1e3, 1e3)


@given(arrays(float, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=ANY | USUAL))
def test_no_row_is_further_off_than_is_said(u):
    found = Rounded.of(u)
    assert found.codes.dtype == np.int16
    for row, codes, step, off in zip(u, found.codes, found.step, found.off, strict=True):
        near = [int(code) * Fraction(float(step)) for code in codes]
        squared = sum((Fraction(a) - b) ** 2 for a, b in zip(row.tolist(), near, strict=True))
        assert off == np.inf or squared <= Fraction(float(off)) ** 2


@given(arrays(float, (4, 5), elements=st.floats(-1e9, 1e9)))
def test_rows_of_usual_magnitudes_are_off_by_half_a_step(u):
    found = Rounded.of(u)
    largest = abs(u).max(axis=1)
    assert (found.off <= np.sqrt(5) * 0.501 * largest / 32767 + 1e-30).all()
    near = found.codes * found.step[:, None].astype(float)
    np.testing.assert_allclose(found.square, (near**2).sum(axis=1), rtol=1e-12)


def a_design(n_sets=40, seed=0):
    rng = np.random.default_rng(seed)
    u, asked = rng.normal(size=(n_sets, 3)), []

    def some(which):
        asked.append(which.tolist())
        return u[which]

    def every():
        asked.append("all")
        return u

    own = np.arange(n_sets) + 1.0, np.arange(n_sets) - 5.0
    return RoundedDesign(Rounded.of(u), *own, Exact(u.shape, some, every)), u, asked


def test_rows_are_exact_and_read_once():
    design, u, asked = a_design()
    assert (len(design), design.n_basis) == (40, 3)
    for which in ([7, 2], np.array([2, -1]), np.arange(40) == 2, []):
        rows = design.rows(which)
        np.testing.assert_array_equal(rows.u, u[which])
        np.testing.assert_array_equal(rows.noise_scale, design.noise_scale[which])
        np.testing.assert_array_equal(rows.theta_sum, design.theta_sum[which])
    assert asked == [[7, 2], [39]]


def test_many_rows_are_read_with_all_others_and_stay(monkeypatch):
    design, u, asked = a_design()
    np.testing.assert_array_equal(design.rows([1, 2, 3]).u, u[1:4])
    np.testing.assert_array_equal(design.u, u)
    np.testing.assert_array_equal(design.rows([5]).u, u[[5]])
    assert asked == ["all"]


def test_no_more_rows_than_a_few_thousand_stay(monkeypatch):
    monkeypatch.setattr(rounded, "KEPT", 3)
    design, u, asked = a_design()
    for which in ([0, 1], [2], [3, 1], [3, 2]):
        np.testing.assert_array_equal(design.rows(which).u, u[which])
    assert asked == [[0, 1], [2], [3], [2]]


def test_a_part_with_known_noise_has_the_rows_of_its_sets():
    design, u, _ = a_design()
    noisy = design.with_known_noise(np.arange(40.0), 2.0)
    part = noisy.part([30, 4]).part([1, 0])
    assert isinstance(part, RoundedDesign)
    np.testing.assert_array_equal(part.rounded.codes, design.rounded.codes[[4, 30]])
    np.testing.assert_array_equal(part.rows([1, 0]).u, u[[30, 4]])
    np.testing.assert_array_equal(part.u, u[[4, 30]])
    np.testing.assert_array_equal(part.noise_scale, np.array([5, 31]) + 2.0 * np.array([16, 900]))
    np.testing.assert_array_equal(part.own_scale, [5, 31])
    np.testing.assert_array_equal(part.rows([0]).own_scale, [5])
