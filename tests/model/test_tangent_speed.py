"""The design of counts, shares and amounts, by the compiled kernel and over large sets."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import sumwise as sw
from sumwise.model import design as designs
from sumwise.model import fit as fitting
from sumwise.model.generalised import tangent as tangents


def fitted(kind: str, sizes: tuple[int, ...]) -> tuple[sw.Sets, tangents.Tangent]:
    rng = np.random.default_rng(3)
    x = [rng.normal(size=(n, 2)) for n in sizes]
    theta = [rng.integers(1, 5, n).astype(float) for n in sizes]
    sets = sw.Sets.from_arrays(x, theta)
    totals = {a: float(rng.integers(1, e.sum() + 1)) for a, e in enumerate(theta[:4])}
    model = sw.AggregateRegressor(outputs=kind).fit(sets, totals)
    return sets, model.fitted().basis.tangent


def by_hand(sets: sw.Sets, tangent: tangents.Tangent) -> np.ndarray:
    """u of every set, from ψ of its members one after the other."""
    rows = tangent(sets.x) * sets.theta[:, None]
    return np.array([rows[i:j].sum(axis=0) for i, j in pairwise(sets.starts)])


@pytest.mark.parametrize("kind", ["counts", "shares", "amounts"])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_design_is_the_sum_over_members_whatever_computes_it(kind, compiled, monkeypatch):
    if compiled:
        pytest.importorskip("numba")
    sets, tangent = fitted(kind, (3, 1, 7, 2, 5000, 4))  # one set spans many blocks
    monkeypatch.setattr(designs, "worth_compiling", lambda *_, **__: compiled)
    found = tangents.linearised(sets, tangent, 1.0)
    np.testing.assert_allclose(found.u, by_hand(sets, tangent), rtol=1e-9, atol=1e-12)
    eta = tangent.model.level + tangent.scaled(sets.x) @ tangent.model.mean
    means = sets.theta * tangent.model.likelihood.mean(eta)
    expected = np.add.reduceat(means, sets.starts[:-1])
    np.testing.assert_allclose(found.nonlinear.mean, expected, rtol=1e-10)


def test_inputs_too_large_for_the_kernel_are_left_to_numpy(monkeypatch):
    pytest.importorskip("numba")
    sets, _ = fitted("counts", (3, 2, 4, 2))
    far = sw.Sets(sets.ids, sets.x * 1e9, sets.theta, sets.starts)
    basis = sw.AggregateRegressor("fourier").config().prepare(sets).basis
    ((_, _, phi),) = designs.feature_blocks(far.x, basis, compiled=True)
    np.testing.assert_array_equal(phi, basis(far.x))


@pytest.mark.parametrize("kept", [True, False])
def test_questions_are_the_same_whether_features_are_kept(kept, monkeypatch, tmp_path):
    rng = np.random.default_rng(1)
    sets = sw.Sets.from_arrays([rng.normal(size=(n, 2)) for n in rng.integers(1, 6, 30)])
    totals = rng.poisson(3.0 * sets.sizes).astype(float)
    monkeypatch.setattr(fitting, "AGAIN_FROM", 2**23 if kept else 0)
    model = sw.AggregateRegressor(n_basis=20, outputs="counts")
    learner = sw.ActiveLearner(sets, model)
    with sw.create_study(tmp_path / "s.db", sets, model=model) as study:
        for _ in range(4):
            ours, theirs = learner.ask(), study.ask()
            assert (ours.set_id, ours.score) == (theirs.set_id, theirs.score)
            for each in (learner, study):
                each.tell(ours.set_id, totals[ours.set_id])
    pool = learner._progress.pool
    assert (pool.phi is not None) == kept
    fresh = tangents.linearised(sets, pool.basis.tangent, 1.0)
    np.testing.assert_allclose(pool.design.u, fresh.u, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(pool.design.theta_sum, fresh.theta_sum, rtol=1e-12)
