"""Bounds in single precision never hide the best set, and batches are those of one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.acquisition import batches, screening
from sumwise.acquisition import bounds as bounding
from sumwise.acquisition.batches import joint
from sumwise.acquisition.bounds import (
    bounds,
    squares,
    variance_reduction_below,
    variance_reduction_between,
)
from sumwise.acquisition.screening import candidates
from sumwise.acquisition.strategies import ACQUISITIONS, TIE, scores_of
from sumwise.data.targets import Targets
from sumwise.model import rounded
from sumwise.model.design import Design, Pool
from sumwise.model.posterior import Hyperparameters, condition, decompose, from_covariance
from sumwise.model.rounded import Exact, Rounded, RoundedDesign
from tests.builders import random_sets, seeds, unscaled

KEYED = sorted(strategy.name for strategy in ACQUISITIONS.values() if strategy.key is not None)
SCALES = st.sampled_from([1e-25, 1e-12, 1e-3, 1.0, 1e3, 1e12, 1e25])
KINDS = st.sampled_from(["plain", "collinear", "twins", "one size", "uneven"])
KEPT = st.sampled_from(["float64", "float32", "rounded"])  # how u is in memory


@pytest.fixture(autouse=True)
def screen_everything(monkeypatch):
    monkeypatch.setattr(screening, "SCREENED_FROM", 1)
    monkeypatch.setattr(screening, "LOOK_FROM", 1)
    monkeypatch.setattr(bounding, "SPARE", 1)
    monkeypatch.setattr(batches, "SHORTLIST", 2)
    monkeypatch.setattr(bounding, "BLOCK", 7)
    monkeypatch.setattr(screening, "SAMPLE", 2)
    monkeypatch.setattr(screening, "SAMPLE_READ", 2)
    monkeypatch.setattr(rounded, "FEW", 1)
    monkeypatch.setattr(screening, "FEW", 2)


def a_pool(kind, n_sets, n_basis, scale, seed, kept="float64") -> Pool:
    """Rows u and s as they are, without a basis."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n_sets, n_basis))
    if kind == "collinear":
        u = np.outer(u[:, 0], u[0])
    if kind == "twins":
        u = u[rng.integers(0, max(1, n_sets // 3), n_sets)]
    if kind == "uneven":
        u *= 10.0 ** rng.integers(-2, 2, u.shape)
    s = np.ones(n_sets) if kind == "one size" else rng.uniform(0.1, 9.0, n_sets)
    sets = sw.Sets.from_arrays(np.zeros((n_sets, 1, 1)))
    sums, u = (s * scale**2, scale * rng.normal(size=n_sets)), scale * u
    if kept == "rounded":
        exact = Exact(u.shape, lambda which: u[which], lambda: u)
        design = RoundedDesign(Rounded.of(u), *sums, exact)
    else:
        design = Design(u.astype(kept), *sums)
    return Pool(sets, unscaled(lambda x: x, 1), design)


def learned(pool, n_seen, lam, beta, rng):
    """λ is in units of u², so that what is learned does not depend on its scale."""
    seen = rng.permutation(len(pool.design))[:n_seen]
    power = float(np.mean(pool.design.u.astype(float) ** 2)) or 1.0
    hyper = Hyperparameters(lam * power, beta * power)
    return seen, with_effect(pool.design.rows(seen), hyper, float(rng.choice([0.0, 0.5])))


def with_effect(rows, hyper, effect):
    """The posterior after totals of these rows, whose sets have effects of their own."""
    noisy = replace(rows, noise_scale=rows.noise_scale + effect * rows.theta_sum**2)
    found = condition(decompose(noisy, np.ones((len(rows), 1))), hyper)
    return replace(found, effect=effect)


def best(scores, allowed):
    """Position of the first allowed set whose score ties with the highest."""
    top = scores[allowed].max()
    return int(np.flatnonzero(allowed & (scores >= top - TIE * abs(top)))[0])


cases = given(
    KINDS, st.integers(1, 30), st.integers(1, 9), st.integers(0, 14), SCALES,
    st.sampled_from([1e-6, 1.0, 1e6]), st.sampled_from(KEYED), KEPT, seeds,
)  # fmt: skip


@settings(deadline=None)
@cases
def test_the_best_by_bounds_is_the_best_from_scratch(
    kind, n_sets, n_basis, n_seen, scale, beta, strategy, kept, seed
):
    rng = np.random.default_rng(seed)
    pool = a_pool(kind, n_sets, n_basis, scale, seed, kept)
    seen, posterior = learned(pool, min(n_seen, n_sets - 1), 1.0, beta, rng)
    allowed = np.ones(n_sets, dtype=bool)
    allowed[seen] = False
    scores = scores_of(strategy, pool, posterior, rng)
    found = candidates(
        strategy,
        pool,
        posterior,
        rng,
        allowed,
        n=2,
        also=int(seen[0]) if n_seen and n_sets > 1 else None,
    )
    first = best(scores, allowed)
    assert_allclose(found.score(found.best()), scores[first], rtol=1e-8, atol=1e-12)
    near = np.flatnonzero(allowed & (scores >= scores[first] - 3e-9 * abs(scores[first])))
    assert found.best() in near  # rounding may decide between twins
    if len(near) == 1:
        assert found.best() == first
    assert allowed[found.positions].all()
    if allowed.sum() > 1:
        allowed[found.best()] = False
        assert_allclose(
            found.score(found.best(but=found.best())), scores[allowed].max(), rtol=1e-8, atol=1e-12
        )


@settings(deadline=None)
@cases
def test_bounds_hold(kind, n_sets, n_basis, n_seen, scale, beta, strategy, kept, seed):
    rng = np.random.default_rng(seed)
    pool = a_pool(kind, n_sets, n_basis, scale, seed, kept)
    if not squares(pool).max() < 1e36:
        return  # too large for single precision: nothing is screened
    _, posterior = learned(pool, min(n_seen, n_sets), 1.0, beta, rng)
    of = ACQUISITIONS[strategy].key
    low, high = bounds(of, pool, posterior)
    signal = posterior.variance_along(pool.design.u)
    key = of(signal, posterior.noise_scale(pool.design), posterior.noise_precision)
    assert (low <= key * (1 + 1e-12)).all()
    assert (high >= key * (1 - 1e-12)).all()


@settings(deadline=None)
@cases
def test_a_joint_batch_is_that_of_one_after_another(
    kind, n_sets, n_basis, n_seen, scale, beta, strategy, kept, seed
):
    rng = np.random.default_rng(seed)
    pool = a_pool(kind, n_sets, n_basis, scale, seed, kept)
    if not squares(pool).max() < 1e36:
        return
    seen, posterior = learned(pool, min(n_seen, n_sets - 1), 1.0, beta, rng)
    allowed = np.ones(n_sets, dtype=bool)
    allowed[seen] = False
    n = min(5, int(allowed.sum()))
    picked = joint(ACQUISITIONS[strategy], pool, posterior, allowed, n)
    assert len(set(picked)) == n
    assert allowed[picked].all()
    for chosen in picked:  # each is as good as any, given those before it
        scores = scores_of(strategy, pool, posterior, rng)
        top = scores[best(scores, allowed)]
        assert scores[chosen] >= top - 1e-7 * abs(top) - 1e-12
        allowed[chosen] = False
        posterior = posterior.condition_on(pool.design.rows([chosen]))


@pytest.mark.parametrize("strategy", ["AggMI", "AggEnt", "MaxN"])
def test_learner_and_batch_do_the_same_with_and_without_screening(monkeypatch, strategy):
    rng = np.random.default_rng(4)
    sets = random_sets(rng.integers(1, 6, 60).tolist(), rng)
    answers = np.add.reduceat(sets.theta * np.sin(sets.x[:, 0]), sets.starts[:-1])
    runs = []
    for smallest in (1, 10**9):
        monkeypatch.setattr(screening, "SCREENED_FROM", smallest)
        learner = sw.ActiveLearner(sets, sw.AggregateRegressor(n_basis=12), strategy=strategy)
        for _ in range(16):  # beyond the number of features
            learner.tell(chosen := learner.ask().set_id, float(answers[chosen]))
        left = [name for name in sets if name not in learner.labels]
        batch = sw.select(sets[left], learner.model, strategy, n=12, pending=left[:2])
        runs.append(([(a.set_id, a.ask.score) for a in learner.history], batch))
    assert [name for name, _ in runs[0][0]] == [name for name, _ in runs[1][0]]
    assert_allclose([s for _, s in runs[0][0]], [s for _, s in runs[1][0]], rtol=1e-8)
    assert runs[0][1] == runs[1][1]


@settings(deadline=None)
@given(
    KINDS, st.integers(3, 40), st.integers(1, 9), st.lists(st.tuples(
        st.sampled_from([1e-3, 0.3, 1.0, 1.1, 30.0]), st.sampled_from([1e-4, 1.0, 1.3, 1e4])
    ), min_size=2, max_size=6), KEPT, st.sampled_from([0.0, 2.0]), seeds,
)  # fmt: skip
def test_ceilings_hold_whatever_is_answered_and_however_the_prior_moves(
    kind, n_sets, n_basis, precisions, kept, effect, seed
):
    rng = np.random.default_rng(seed)
    pool = a_pool(kind, n_sets, n_basis, 1.0, seed, kept)
    allowed, seen, ceiling = np.ones(n_sets, dtype=bool), [], None
    for lam, beta in precisions[: n_sets - 1]:
        posterior = with_effect(pool.design.rows(seen), Hyperparameters(lam, beta), effect)
        found = candidates("AggMI", pool, posterior, rng, allowed, n=2, ceiling=ceiling)
        scores = scores_of("AggMI", pool, posterior, rng)
        first = best(scores, allowed)
        assert_allclose(found.score(found.best()), scores[first], rtol=1e-8, atol=1e-13)
        if allowed.sum() > 1:
            left = allowed.copy()
            left[found.best()] = False
            second = found.score(found.best(but=found.best()))
            assert_allclose(second, scores[left].max(), rtol=1e-8, atol=1e-13)
        ceiling = found.ceiling
        signal = posterior.variance_along(pool.design.u)
        assert (ceiling.high >= signal / posterior.noise(pool.design) * (1 - 1e-12)).all()
        for chosen in {found.best(), int(rng.choice(np.flatnonzero(allowed)))}:
            if allowed.sum() > 1:
                allowed[chosen] = False
                seen.append(chosen)


def test_ceilings_that_rounding_has_broken_are_not_believed():
    """Where next to nothing is left to learn, what rounding leaves may rise with a label."""
    rng = np.random.default_rng(0)
    pool = a_pool("plain", 30, 5, 1.0, 0)
    _, posterior = learned(pool, 3, 1.0, 1.0, rng)
    allowed = np.ones(30, dtype=bool)
    broken = screening.Ceiling(np.full(30, 1e-9), 1.0)
    found = candidates("AggMI", pool, posterior, rng, allowed, ceiling=broken)
    scores = scores_of("AggMI", pool, posterior, rng)
    assert found.best() == best(scores, allowed)


def aimed(pool, n_basis, rng) -> Pool:
    """With targets whose features are their inputs."""
    scale = float(np.abs(pool.design.u).max()) or 1.0
    weight = rng.uniform(0.1, 1.0, 5)
    everyone = int(rng.choice([0, 7]))
    targets = Targets(scale * rng.normal(size=(5, n_basis)), weight / weight.sum(), everyone)
    return replace(pool, basis=unscaled(lambda x: x, n_basis), targets=targets)


def from_anywhere(pool, n_seen, scale, beta, rng):
    """A posterior like that of a mixture, with some features that are known, and its covariance."""
    n_sets, n_basis = pool.design.u.shape
    amplitude = rng.choice([0.0, 0.1, 1.0, 30.0], n_basis)
    seen = rng.permutation(n_sets)[: min(n_seen, n_sets - 1)]
    rows = pool.design.rows(seen)
    u = rows.u.astype(float) * amplitude
    within = scale**2 * np.eye(n_basis)
    within += beta * scale**2 * (u / rows.noise_scale[:, None]).T @ u
    dense = amplitude[:, None] * np.linalg.inv(within) * amplitude
    if not amplitude.any():
        dense[0, 0] = scale**-2
    noise = 1 / (beta * scale**2)
    effect = float(rng.choice([0.0, 0.5, 4.0])) * noise
    posterior = from_covariance(np.zeros((n_basis, 1)), dense, (noise, effect), np.ones(1))
    return seen, posterior, dense, (noise, effect)


by_prediction = given(
    KINDS, st.integers(2, 30), st.integers(1, 9), st.integers(0, 14), SCALES,
    st.sampled_from([1e-6, 1.0, 1e3]), st.sampled_from(["IVR", *KEYED]), KEPT,
    st.booleans(), seeds,
)  # fmt: skip


@settings(deadline=None)
@by_prediction
def test_the_best_by_bounds_is_that_of_dense_formulas(
    kind, n_sets, n_basis, n_seen, scale, beta, strategy, kept, priced, seed
):
    rng = np.random.default_rng(seed)
    pool = a_pool(kind, n_sets, n_basis, scale, seed, kept)
    pool = aimed(pool, n_basis, rng)
    seen, posterior, dense, (own, effect) = from_anywhere(pool, n_seen, scale, beta, rng)
    allowed = np.ones(n_sets, dtype=bool)
    allowed[seen] = False
    cost = rng.uniform(0.1, 10.0, n_sets) if priced and strategy != "AggEnt" else None
    found = candidates(strategy, pool, posterior, rng, allowed, n=2, cost=cost)
    u = pool.design.u.astype(float)
    signal = np.einsum("ak,kl,al->a", u, dense, u)
    sizes = pool.design.noise_scale
    noise = own * sizes + effect * pool.design.theta_sum**2
    scores = 0.5 * np.log1p(signal / noise)
    if strategy == "AggEnt":
        scores = 0.5 * (np.log(noise + signal) + np.log(2 * np.pi) + 1)
    if strategy == "IVR":
        along = pool.targets.x @ dense @ u.T
        drop = pool.targets.weight @ along**2
        if pool.targets.everyone:
            drop += (2 * noise / sizes * signal + noise**2 / sizes) / pool.targets.everyone
        scores = drop / (noise + signal)
    ranked = scores if cost is None else scores / cost
    top = ranked[allowed].max()
    assert_allclose(ranked[found.best()], top, rtol=1e-6, atol=1e-12)
    assert_allclose(found.score(found.best()), scores[found.best()], rtol=1e-6, atol=1e-9)


@settings(deadline=None)
@by_prediction
def test_bounds_on_drops_of_variance_hold(
    kind, n_sets, n_basis, n_seen, scale, beta, strategy, kept, plain, seed
):
    del strategy
    rng = np.random.default_rng(seed)
    pool = a_pool(kind, n_sets, n_basis, scale, seed, kept)
    pool = aimed(pool, n_basis, rng)
    if plain:
        _, posterior = learned(pool, min(n_seen, n_sets), 1.0, beta, rng)
    else:
        _, posterior, _, _ = from_anywhere(pool, n_seen, scale, beta, rng)
    if not squares(pool).max() * 900 < 1e36:
        return
    scores = scores_of("IVR", pool, posterior, rng)
    found = variance_reduction_between(pool, posterior)
    if found is None:
        return
    assert (found[0] <= scores * (1 + 1e-9)).all()
    assert (found[1] >= scores * (1 - 1e-9)).all()
    for rows in (0, 1, n_basis // 2, n_basis):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bounding, "_needed", lambda *_, n=rows: n)
            below = variance_reduction_below(pool, posterior)
        assert below is None or (below >= scores * (1 - 1e-9)).all()


@settings(deadline=None)
@given(KINDS, st.integers(2, 30), st.integers(1, 9), seeds)
def test_with_costs_the_best_gain_most_for_theirs(kind, n_sets, n_basis, seed):
    rng = np.random.default_rng(seed)
    pool = a_pool(kind, n_sets, n_basis, 1.0, seed)
    _, posterior = learned(pool, 0, 1.0, 1.0, rng)
    cost, allowed = rng.uniform(0.1, 10.0, n_sets), rng.random(n_sets) < 0.7
    allowed[:2] = True
    found = candidates("AggMI", pool, posterior, rng, allowed, n=2, cost=cost)
    scores = scores_of("AggMI", pool, posterior, rng)
    first = best(scores / cost, allowed)
    assert found.best() == first
    assert found.score(first) == scores[first]
    allowed[first] = False
    assert found.best(but=first) == best(scores / cost, allowed)
