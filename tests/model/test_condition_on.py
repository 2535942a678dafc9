"""Posteriors as if more sets were measured, where LAPACK's divide and conquer fails."""

from __future__ import annotations

import numpy as np

from sumwise.model.design import Design
from sumwise.model.posterior import from_covariance


def test_a_decomposition_that_does_not_converge_is_made_of_the_transpose(monkeypatch):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    known = from_covariance(np.zeros((6, 1)), root @ root.T, (0.5, 0.0), np.ones(1))
    more = Design(rng.normal(size=(2, 6)), np.ones(2), np.ones(2))
    expected = known.condition_on(more)
    svd = np.linalg.svd

    def fails_once(rows, **options):
        monkeypatch.setattr(np.linalg, "svd", svd)
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(np.linalg, "svd", fails_once)
    found = known.condition_on(more)
    u = rng.normal(size=(5, 6))
    np.testing.assert_allclose(found.variance_along(u), expected.variance_along(u), rtol=1e-10)
    assert (found.variance_along(u) < known.variance_along(u)).all()
