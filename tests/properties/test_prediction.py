"""IVR and EPIG against refitting on every candidate, and batches against all subsets."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.acquisition.strategies import ACQUISITIONS
from sumwise.data.sets import Sets
from sumwise.data.targets import MOST, Targets, read, thinned
from sumwise.errors import SettingError
from sumwise.model.basis import Linear
from sumwise.model.design import Pool, embed
from sumwise.model.posterior import Hyperparameters, condition, decompose, from_covariance
from tests import oracles
from tests.builders import linear_pool, phi_of, precisions, random_sets, seeds, set_sizes, unscaled
from tests.marks import slow

shares_seen = st.sampled_from([0.0, 0.5, 1.0])


def posterior_of(pool, n_seen, lam, beta, effect=0.0):
    design = pool.design.rows(np.arange(n_seen))
    design = replace(design, noise_scale=design.noise_scale + effect * design.theta_sum**2)
    spectrum = decompose(design, np.zeros((n_seen, 1)))
    return replace(condition(spectrum, Hyperparameters(lam, beta)), effect=effect)


def scores(name, pool, posterior):
    return ACQUISITIONS[name](pool, posterior, np.random.default_rng(0))


def doubled(sets):
    """Each set twice: once as measured, once with individuals of its own that may be asked for."""
    spans = list(zip(sets.starts[:-1], sets.starts[1:], strict=True))
    x = [sets.x[low:high] for low, high in spans]
    return Sets.from_arrays(x * 2, [sets.theta[low:high] for low, high in spans] * 2)


def case(sizes, seed, share_seen, collinear=False):
    """Random sets, all askable, and how many of them are measured."""
    sets = random_sets(sizes, np.random.default_rng(seed))
    if collinear:
        sets = Sets(sets.ids, np.repeat(sets.x[:, :1], 3, axis=1), sets.theta, sets.starts)
    return sets, round(share_seen * len(sets))


def variance_of_targets(sets, phi_sets, seen, phi_new, lam, beta):
    """Covariance of the targets' noise-free outputs, by conditioning the joint Gaussian."""
    model = oracles.joint(sets, phi_sets, lam, beta)
    _, latent = oracles.given_totals(model, seen, np.zeros(len(seen)), phi_new, lam, phi_sets)
    return latent


@given(set_sizes, precisions, precisions, seeds, shares_seen, st.booleans())
def test_variance_reduction_is_what_refitting_on_each_candidate_gives(
    sizes, lam, beta, seed, share_seen, collinear
):
    sets, n_seen = case(sizes, seed, share_seen, collinear)
    twice = doubled(sets)
    pool, rng = linear_pool(sets), np.random.default_rng(seed + 1)
    weight = rng.dirichlet(np.ones(len(sets.x)))
    pool = replace(pool, targets=Targets(sets.x.copy(), weight))
    phi = phi_of(pool)
    both = np.vstack([phi, phi])
    before = np.diag(variance_of_targets(twice, both, list(range(n_seen)), phi, lam, beta))
    expected = []
    for a in range(len(sets)):
        seen = [*range(n_seen), len(sets) + a]
        after = np.diag(variance_of_targets(twice, both, seen, phi, lam, beta))
        expected.append(weight @ (before - after))
    got = scores("IVR", pool, posterior_of(pool, n_seen, lam, beta))
    assert_allclose(got, expected, rtol=1e-6, atol=1e-9 * before.max())


@given(set_sizes, precisions, precisions, seeds, shares_seen, st.booleans())
def test_predictive_information_is_that_of_the_joint_gaussian(
    sizes, lam, beta, seed, share_seen, collinear
):
    """½ log of the determinants of (one new individual, one total) given what is seen."""
    sets, n_seen = case(sizes, seed, share_seen, collinear)
    pool, rng = linear_pool(sets), np.random.default_rng(seed + 1)
    x_new = rng.normal(size=(4, 3))
    weight = rng.dirichlet(np.ones(4))
    pool = replace(pool, targets=Targets(x_new, weight))
    twice = doubled(sets)
    phi, phi_new = phi_of(pool), np.column_stack([x_new, np.ones(4)])
    both = np.vstack([phi, phi])
    seen = list(range(n_seen))
    expected = np.zeros(len(sets))
    for a in range(len(sets)):
        row = np.zeros(len(phi))
        row[sets.starts[a] : sets.starts[a + 1]] = sets.theta[sets.starts[a] : sets.starts[a + 1]]
        together = np.vstack([phi_new, row @ phi])
        cov = variance_of_targets(twice, both, seen, together, lam, beta)
        cov[np.diag_indices(4 + 1)] += np.append(np.full(4, 1 / beta), row @ row / beta)
        for j in range(4):
            pair = cov[np.ix_([j, 4], [j, 4])]
            gain = 0.5 * (np.log(pair[0, 0]) + np.log(pair[1, 1]) - np.linalg.slogdet(pair)[1])
            expected[a] += weight[j] * gain
    got = scores("EPIG", pool, posterior_of(pool, n_seen, lam, beta))
    assert_allclose(got, expected, rtol=1e-6, atol=1e-9)


# --- effects of sets ------------------------------------------------------------------------------

effects = st.sampled_from([0.0, 0.2, 3.0])


def alike(sets, rng):
    """The sets with one weight for all members of each."""
    each = rng.uniform(0.3, 2.0, len(sets)) * rng.choice([-1.0, 1.0], len(sets))
    return replace(sets, theta=np.repeat(each, sets.sizes))


def everything(sets, phi, lam, beta, effect, blur=None):
    """The Gaussian of two copies of all individuals: those measured before, and those asked for."""
    known = None if blur is None else np.concatenate([np.zeros(len(sets)), blur])
    noise, rho = (1 + effect) / beta, effect / (1 + effect)
    variances = np.full(phi.shape[1], 1 / lam)
    return oracles.world(doubled(sets), np.vstack([phi, phi]), variances, noise, rho, known)


def covariance_given(world, seen):
    """Of all outputs, given some totals."""
    return oracles.outputs_given(world, seen, np.zeros((len(seen), 1)))[1]


def gains(world, n_sets, seen, a):
    """Variances of those asked for, before total a is known and after."""
    inside, row = covariance_given(world, seen), world.sums[n_sets + a]
    asked = slice(len(inside) // 2, None)
    total = row @ inside @ row + world.known[n_sets + a]
    after = covariance_given(world, [*seen, n_sets + a])
    before, left = np.diag(inside)[asked], np.diag(after)[asked]
    assert_allclose(before - left, (inside @ row)[asked] ** 2 / total, rtol=1e-5, atol=1e-9)
    return before, left


@given(set_sizes, precisions, precisions, seeds, shares_seen, effects, st.booleans())
def test_totals_say_more_of_their_own_members(sizes, lam, beta, seed, share_seen, effect, noisy):
    """Where weights are alike, and targets are all individuals: exactly as much."""
    rng = np.random.default_rng(seed)
    sets, n_seen = case(sizes, seed, share_seen)
    pool = linear_pool(alike(sets, rng))
    posterior = posterior_of(pool, n_seen, lam, beta, effect)
    blur = rng.uniform(0, 9, len(sets)) if noisy else np.zeros(len(sets))
    world = everything(pool.sets, phi_of(pool), lam, beta, effect, blur)
    if noisy:
        pool = replace(pool, design=pool.design.with_known_noise(np.sqrt(blur), beta))
    both = [gains(world, len(sets), list(range(n_seen)), a) for a in range(len(sets))]
    expected = [(before - after).mean() for before, after in both]
    got = scores("IVR", pool, posterior)
    assert_allclose(got, expected, rtol=1e-6, atol=1e-9 * max(expected))


@given(set_sizes, precisions, precisions, seeds, shares_seen, effects)
def test_information_is_that_of_all_outputs_together(sizes, lam, beta, seed, share_seen, effect):
    sets, n_seen = case(sizes, seed, share_seen)
    pool = linear_pool(sets)
    posterior = posterior_of(pool, n_seen, lam, beta, effect)
    world = everything(sets, phi_of(pool), lam, beta, effect)
    inside = covariance_given(world, list(range(n_seen)))[-len(sets.x) :, -len(sets.x) :]
    prior = everything(sets, 0 * phi_of(pool), lam, beta, effect).outputs
    sums = world.sums[len(sets) :, -len(sets.x) :]
    whole = np.diag(sums @ inside @ sums.T)
    noise = np.diag(sums @ prior[-len(sets.x) :, -len(sets.x) :] @ sums.T)
    assert_allclose(
        scores("AggMI", pool, posterior), 0.5 * np.log(whole / noise), rtol=1e-6, atol=1e-9
    )
    entropy = 0.5 * np.log(2 * np.pi * np.e * whole)
    assert_allclose(scores("AggEnt", pool, posterior), entropy, rtol=1e-7, atol=1e-7)


@given(set_sizes, precisions, precisions, seeds, shares_seen, effects)
def test_information_about_others_counts_effects_as_noise(
    sizes, lam, beta, seed, share_seen, effect
):
    """Targets of their own, each in a set of its own: EPIG of the joint Gaussian."""
    sets, n_seen = case(sizes, seed, share_seen)
    pool, rng = linear_pool(sets), np.random.default_rng(seed + 1)
    x_new = rng.normal(size=(3, 3))
    pool = replace(pool, targets=Targets(x_new, np.full(3, 1 / 3)))
    posterior = posterior_of(pool, n_seen, lam, beta, effect)
    more = Sets.from_arrays([*(sets.x[low:high] for low, high in spans(sets)), *x_new[:, None]])
    more = replace(more, theta=np.concatenate([sets.theta, np.ones(3)]))
    phi = np.column_stack([more.x, np.ones(len(more.x))])
    world = everything(more, phi, lam, beta, effect)
    inside = covariance_given(world, list(range(n_seen)))
    expected = np.zeros(len(sets))
    for a in range(len(sets)):
        row = world.sums[len(more) + a]
        for n in range(-3, 0):
            squared = (inside[n] @ row) ** 2 / (inside[n, n] * (row @ inside @ row))
            expected[a] -= 0.5 * np.log1p(-squared) / 3
    assert_allclose(scores("EPIG", pool, posterior), expected, rtol=1e-6, atol=1e-9)


@given(set_sizes, precisions, precisions, seeds, effects, st.booleans())
def test_information_about_members_is_exact_where_they_are_alike(
    sizes, lam, beta, seed, effect, noisy
):
    """Members with the same inputs, and features that have one length for all individuals."""
    rng = np.random.default_rng(seed)
    turns = np.repeat(rng.uniform(0, 2 * np.pi, len(sizes)), sizes)[:, None]
    whole = Sets.from_arrays([turns[low:high] for low, high in spans_of(sizes)])
    sets = alike(whole, rng)
    basis = unscaled(lambda x: np.column_stack([np.cos(x), np.sin(x)]), 1)
    pool = Pool(sets, basis, embed(sets, basis))
    posterior = posterior_of(pool, 0, lam, beta, effect)
    blur = rng.uniform(0, 9, len(sets)) if noisy else np.zeros(len(sets))
    world = everything(sets, basis(sets.x), lam, beta, effect, blur)
    if noisy:
        pool = replace(pool, design=pool.design.with_known_noise(np.sqrt(blur), beta))
    both = [gains(world, len(sets), [], a) for a in range(len(sets)) if sizes[a] > 1]
    known = [0.5 * np.log(before / after).mean() for before, after in both]
    got = scores("EPIG", pool, posterior)[np.array(sizes) > 1]  # one member alone: no end
    assert_allclose(got, known, rtol=1e-6, atol=1e-9)


def spans_of(sizes):
    ends = np.cumsum([0, *sizes])
    return list(pairwise(ends))


def spans(sets):
    return list(zip(sets.starts[:-1], sets.starts[1:], strict=True))


def random_covariance(rng, n=4, rank=4):
    half = rng.normal(size=(n, rank)) * np.exp(rng.normal(size=rank))
    return half @ half.T


@given(seeds, st.integers(1, 4), effects)
def test_a_covariance_is_a_posterior(seed, rank, effect):
    """Of a mixture, say; directions of no variance are known for certain."""
    rng = np.random.default_rng(seed)
    dense, sigma = random_covariance(rng, rank=rank), float(rng.uniform(0.1, 3.0))
    noise = sigma, effect * sigma
    posterior = from_covariance(rng.normal(size=(4, 1)), dense, noise, np.ones(1))
    u = rng.normal(size=(5, 4))
    near = dict(rtol=1e-7, atol=1e-8 * abs(dense).max())
    assert_allclose(posterior.covariance_along(u), u @ dense @ u.T, **near)
    assert_allclose(posterior.variance_along(u), np.diag(u @ dense @ u.T), **near)
    assert_allclose(posterior.times(u), u @ dense, **near)
    assert posterior.individual_noise == pytest.approx(sigma * (1 + effect))
    design = linear_pool(random_sets([2, 3], rng)).design
    own = design.noise_scale * sigma + effect * sigma * design.theta_sum**2
    assert_allclose(posterior.noise(design), own)
    cross = dense @ design.u.T
    inside = np.linalg.inv(design.u @ cross + np.diag(own))
    left = dense - cross @ inside @ cross.T
    after = posterior.condition_on(design)
    assert_allclose(after.covariance_along(u), u @ left @ u.T, **near)


def test_draws_have_the_covariance_they_were_made_with():
    dense = random_covariance(np.random.default_rng(0), rank=3)
    posterior = from_covariance(np.ones((4, 1)), dense, (1.0, 0.0), np.ones(1))
    drawn = posterior.sample(200_000, np.random.default_rng(1))[:, :, 0]
    spread = np.sqrt(np.outer(np.diag(dense), np.diag(dense)) * 2 / len(drawn))
    assert (abs(np.cov(drawn.T) - dense) < 5 * spread).all()


# --- batches --------------------------------------------------------------------------------------


def value_of(name, pool, posterior, batch):
    """What a batch gains together: scores of one after the other, each given those before."""
    gain = 0.0
    for a in batch:
        gain += float(scores(name, pool, posterior)[a])
        posterior = posterior.condition_on(pool.design.rows([a]))
    return gain


@given(st.lists(st.integers(1, 4), min_size=3, max_size=6), precisions, precisions, seeds, effects)
@pytest.mark.parametrize("name", ["AggMI", "IVR", *slow("AggEnt", "EPIG")])
def test_what_a_batch_gains_does_not_depend_on_its_order(name, sizes, lam, beta, seed, effect):
    """So greedy scores add up to a joint value, which is what a batch is compared by.

    What totals say of their own members is left out: that adds up approximately.
    """
    sets, n_seen = case(sizes, seed, 0.5)
    pool = replace(linear_pool(sets), targets=thinned(sets.x))
    posterior = posterior_of(pool, n_seen, lam, beta, effect)
    for batch in combinations(range(len(sets)), 2):
        there, back = (value_of(name, pool, posterior, order) for order in (batch, batch[::-1]))
        assert_allclose(there, back, rtol=1e-6, atol=1e-9)


@given(st.lists(st.integers(1, 4), min_size=3, max_size=6), precisions, precisions, seeds)
def test_a_pair_is_as_good_as_greedy_promises(sizes, lam, beta, seed):
    """AggMI is monotone and submodular: two greedy picks reach 1 − (1 − ½)² of the best pair."""
    sets, n_seen = case(sizes, seed, 0.5)
    pool = linear_pool(sets)
    posterior = posterior_of(pool, n_seen, lam, beta)
    model = oracles.joint(sets, phi_of(pool), lam, beta)
    seen = list(range(n_seen))
    free = [a for a in range(len(sets)) if a not in seen]
    if len(free) < 2:
        return

    def brute_force(pair):
        both, noise = oracles.total_covariance(model), oracles.total_noise(model)
        inside = both[np.ix_(pair, pair)]
        if seen:
            cross = both[np.ix_(pair, seen)]
            inside = inside - cross @ np.linalg.solve(both[np.ix_(seen, seen)], cross.T)
        return 0.5 * (np.linalg.slogdet(inside)[1] - np.log(noise[list(pair)]).sum())

    first = max(free, key=lambda a: scores("AggMI", pool, posterior)[a])
    after = posterior.condition_on(pool.design.rows([first]))
    second = max((a for a in free if a != first), key=lambda a: scores("AggMI", pool, after)[a])
    best = max(brute_force(pair) for pair in combinations(free, 2))
    got = brute_force((first, second))
    assert_allclose(value_of("AggMI", pool, posterior, (first, second)), got, rtol=1e-6, atol=1e-9)
    assert got >= 0.75 * best - 1e-9


@pytest.mark.parametrize("name", ["AggMI", "AggEnt", "IVR", "EPIG"])
def test_a_batch_is_not_the_best_one_by_one(name):
    """Of three twins and one set that is different, the batch takes one twin and the other."""
    x = [[[3.0, 0.0]], [[3.0, 0.0]], [[3.0, 0.0]], [[0.0, 2.0]]]
    sets = Sets.from_arrays(x, ids=["twin", "twin 2", "twin 3", "other"])
    model = sw.AggregateRegressor("linear", hyperparameters=(1.0, 10.0), standardize=False)
    model.fit(sets[:0], [])
    assert sw.select(sets, model, name, n=2) == ["twin", "other"]
    assert sw.select(sets, model, name, n=1, pending=["twin 2"]) == ["other"]


def test_batches_are_those_of_bmdal(monkeypatch):
    """Greedy AggMI is `maxdet` of Holzmüller et al. on the rows u_a/√s_a with σ² = λ/β."""
    bmdal = pytest.importorskip("bmdal_reg.bmdal.selection")
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(np, "Inf", np.inf, raising=False)  # which bmdal_reg 3.0.2 still says
    from bmdal_reg.bmdal.feature_data import TensorFeatureData
    from bmdal_reg.bmdal.feature_maps import IdentityFeatureMap
    from bmdal_reg.bmdal.features import Features

    def features(rows):
        data = TensorFeatureData(torch.from_numpy(np.ascontiguousarray(rows)))
        return Features(IdentityFeatureMap(n_features=rows.shape[1]), data)

    for seed in range(5):
        rng = np.random.default_rng(seed)
        sets = random_sets(rng.integers(1, 9, 300).tolist(), rng, n_inputs=6)
        lam, beta = 2.0, 0.7
        model = sw.AggregateRegressor("linear", hyperparameters=(lam, beta), standardize=False)
        measured, free = sets[:5], sets[5:]
        model.fit(measured, np.zeros(5))
        ours = sw.select(free, model, "AggMI", n=20)
        design = embed(sets, unscaled(Linear(), 6))
        rows = design.u / np.sqrt(design.noise_scale)[:, None]
        method = bmdal.MaxDetSelectionMethod(
            features(rows[5:]),
            features(rows[:5]),
            sel_with_train=True,
            noise_sigma=(lam / beta) ** 0.5,
        )
        theirs = method.select(20)
        assert ours == [free.ids[a] for a in theirs.tolist()]


# --- targets --------------------------------------------------------------------------------------


def test_whoever_counts_decides_what_is_asked():
    x = [[[-4.0]], [[4.0]]]
    sets = Sets.from_arrays(x, ids=["left", "right"])
    wave = unscaled(lambda z: np.exp(-((z - np.array([[-4.0, 4.0]])) ** 2)), 1)
    model = sw.AggregateRegressor(wave, hyperparameters=(1.0, 10.0), standardize=False)
    model.fit(sets[:0], [])
    for name in ("IVR", "EPIG"):
        left = sw.select(sets, model, name, targets=[[-4.1]])
        right = sw.select(sets, model, name, target_weights=[0.0, 1.0])
        assert (left, right) == (["left"], ["right"])


def test_many_targets_are_thinned_evenly_and_by_weight():
    x = np.arange(100_000.0)[:, None]
    few = thinned(x)
    assert len(few.x) == MOST
    assert few.weight.sum() == pytest.approx(1)
    assert np.histogram(few.x, 8, (0, 1e5))[0] == pytest.approx(MOST / 8, abs=2)
    assert np.bincount(few.x[:, 0].astype(int) % 4) == pytest.approx(MOST / 4, rel=0.2)
    weight = np.where(x[:, 0] < 1000, 99.0, 1.0)  # half of all weight on a hundredth of them
    heavy = thinned(x, weight)
    assert heavy.weight[heavy.x[:, 0] < 1000].sum() == pytest.approx(0.5, abs=0.02)
    alone = np.zeros(len(x))
    alone[77] = 1e-300
    assert thinned(x, alone).x.tolist() == [[77.0]]


def test_few_targets_are_taken_as_they_are():
    x = np.arange(6.0).reshape(3, 2)
    sets = Sets.from_arrays([x])
    assert read(None, None, sets) is None
    kept = read(None, [1, 0, 3], sets)
    assert kept.x.tolist() == x.tolist()
    assert kept.weight.tolist() == [0.25, 0.0, 0.75]


@pytest.mark.parametrize(
    ("targets", "weights", "said"),
    [
        (np.empty((0, 2)), None, "no rows"),
        (None, [1.0], "one number for each of the 3 individuals"),
        ([[1.0, 2.0]], [1.0, 2.0], "each of the 1 targets"),
        (None, [1.0, -1.0, 2.0], "at least 0"),
        (None, [0.0, 0.0, 0.0], "not all 0"),
        (None, [1.0, np.nan, 2.0], "finite"),
    ],
)
def test_targets_that_make_no_sense_are_refused(targets, weights, said):
    with pytest.raises(SettingError, match=said):
        read(targets, weights, Sets.from_arrays([np.zeros((3, 2))]))


def test_a_hundred_thousand_individuals_are_scored_like_their_sample():
    sets = random_sets([50] * 40, np.random.default_rng(3))
    pool = linear_pool(sets)
    posterior = posterior_of(pool, 5, 1.0, 1.0)
    few = replace(thinned(sets.x), everyone=len(sets.x))
    for name in ("IVR", "EPIG"):
        by_hand = scores(name, replace(pool, targets=few), posterior)
        assert_allclose(scores(name, pool, posterior), by_hand, rtol=0)
    assert isinstance(pool.basis.basis, Linear)
