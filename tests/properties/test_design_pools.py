"""Designed pools against all pools that the rules allow, valued by the joint Gaussian."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.acquisition.known_noise import given_answers
from sumwise.acquisition.objective import read
from sumwise.acquisition.strategies import scores_of
from sumwise.data.sets import Sets
from sumwise.data.targets import Targets
from sumwise.model.design import features
from tests import pool_oracles as oracle
from tests.builders import seeds
from tests.marks import at_most, slow

STRATEGIES = ("AggMI", "IVR", "EPIG")
MODELS = ("prior", "linear", "fourier", "auto")
KINDS = (
    "size", "together", "apart", "strata", "within", "neighbours", "uses", "cost", "noise", "mean",
    "effect",
)  # fmt: skip
N_INPUTS = 2


# --- plain numbers to objects ---------------------------------------------------------------------


@cache
def model_of(kind, unit=1.0, collinear=False):
    """A model that knows no answer, or those of six sets of other individuals."""
    rng = np.random.default_rng(5)
    x = [inputs(rng, rng.integers(1, 6), collinear) for _ in range(6)]
    sets = Sets.from_arrays(x)
    y_bar = unit * np.array([np.sum(3 + 2 * np.sin(b[:, 0]) + b[:, 1]) for b in x])
    if kind == "auto":
        return sw.AggregateRegressor(n_basis=12).fit(sets, y_bar + unit * rng.normal(size=6))
    if kind == "evidence":
        return sw.AggregateRegressor("linear").fit(sets, y_bar + unit * rng.normal(size=6))
    basis, known = ("fourier", (0.4, 3.0)) if kind == "fourier" else ("linear", (0.5, 1.7))
    model = sw.AggregateRegressor(basis, n_basis=10, hyperparameters=known)
    seen = 0 if kind == "prior" else 6
    return model.fit(sets[:seen], y_bar[:seen], pool=sets)


def inputs(rng, n, collinear=False):
    x = rng.normal(size=(n, N_INPUTS))
    return np.repeat(x[:, :1], N_INPUTS, axis=1) if collinear else x


def world_of(model, x, *, effect=False, seen=None):
    """All that the model knows as one Gaussian; w from its prior and all totals if λ is given.

    Args:
        seen: Θ of pools of these candidates among the answers of the model, and their noise.
    """
    fitted = model.fitted()
    behind, phi = fitted.posterior, features(fitted.basis, x)
    covariance = behind.covariance_along(np.eye(phi.shape[1]))
    unit = float(behind.output_scale[0]) ** 2
    about = {"kappa": behind.effect, "effect": effect, "unit": unit, "seen": seen}
    return oracle.world(phi, covariance, behind.noise_precision, **about)


def as_sets(x, theta, *, effect=False, first=0):
    """Pools of these candidates, a row of θ each."""
    rows = [np.flatnonzero(some) for some in theta]
    members = np.concatenate(rows)
    starts = np.concatenate([[0], np.cumsum([len(some) for some in rows])])
    own = members.copy()
    if effect:
        own = len(x) + first + np.repeat(np.arange(len(rows)), np.diff(starts))
    weights = np.concatenate([some[at] for some, at in zip(theta, rows, strict=True)])
    names = tuple(f"earlier {first + number}" for number in range(len(rows)))
    return Sets(names, x[members], weights.astype(float), starts, None, members, own)


def weights_in(pools, n):
    """Θ of pools, from their members."""
    theta = np.zeros((len(pools), n))
    for a in range(len(pools)):
        for at in range(pools.starts[a], pools.starts[a + 1]):
            theta[a, pools.members[at]] += pools.theta[at]
    return theta


@dataclass(frozen=True)
class Problem:
    """Candidates, a model and rules, and the same for the oracle."""

    x: np.ndarray
    model: sw.AggregateRegressor
    strategy: str
    rules: dict = field(default_factory=dict)
    targets: np.ndarray | None = None
    target_weights: np.ndarray | None = None
    pending: np.ndarray | None = None  # Θ
    size: tuple[int, int] = (1, 20)

    @property
    def mean(self):
        return self.rules.get("weights") == "mean"

    def design(self, n=1, **more):
        pending = None if self.pending is None else as_sets(self.x, self.pending)
        about = {"targets": self.targets, "target_weights": self.target_weights}
        about |= {"pending": pending, "size": self.size, **self.rules, **more}
        return sw.design_pools(self.x, self.model, n, strategy=self.strategy, **about)

    @property
    def known(self):
        made = world_of(self.model, self.x, effect=self.rules.get("effect", False))
        if self.pending is None:
            return made
        return oracle.given(made, self.pending, self.noise(self.pending))

    @property
    def aim(self):
        phi = features(self.model.fitted().basis, self.x)
        if self.targets is None:
            every = oracle.of_candidates(phi)
            # EPIG of a pool of one would be infinite if noise of its own member counted
            return replace(every, everyone=0) if self.strategy == "EPIG" else every
        weight = np.ones(len(self.targets)) if self.target_weights is None else self.target_weights
        phi = features(self.model.fitted().basis, self.targets)
        return oracle.Aim(phi, weight / weight.sum())

    def noise(self, theta):
        """Variance of what measuring pools adds, in the model's units."""
        fixed, each = (self.rules.get(f"noise_std{part}", 0.0) for part in ("", "_per_member"))
        unit = float(self.model.fitted().posterior.output_scale[0])
        members = (np.asarray(theta) != 0).sum(axis=1)
        each = each**2 * (1 / members if self.mean else members)
        return (fixed**2 + each) / unit**2

    def values(self, theta, known=None):
        known = self.known if known is None else known
        return oracle.values(self.strategy, known, theta, self.aim, self.noise(theta))

    def costs(self, theta):
        if self.rules.get("cost") is None:
            return np.ones(len(theta))
        each = self.rules.get("cost_per_member", 0.0)
        return self.rules["cost"] + each * (np.asarray(theta) != 0).sum(axis=1)

    @property
    def pools(self):
        """All that the rules allow."""
        names = ("together", "apart", "strata", "within", "neighbours", "uses")
        rules = {name: self.rules[name] for name in names if name in self.rules}
        used = None if self.pending is None else (self.pending != 0).sum(axis=0)
        found = oracle.allowed_pools(len(self.x), self.size, used=used, **rules)
        return found / found.sum(axis=1, keepdims=True) if self.mean else found


def random_rules(kind, n, rng):
    """Rules of one kind, and pools that are being measured."""
    rules, pending = {}, None
    if kind in ("together", "apart"):
        rules[kind] = rng.integers(-1, n // 2, n)
    elif kind == "strata":
        rules[kind] = np.concatenate([[0, 1], rng.integers(-1, 3, n - 2)])
    elif kind == "within":
        rules[kind] = np.concatenate([[0, 0], rng.integers(-1, 3, n - 2)])
    elif kind == "neighbours":
        both = rng.integers(0, n, (2 * n, 2))
        rules[kind] = both[both[:, 0] != both[:, 1]]
    elif kind == "uses":
        pending = (rng.random((2, n)) < 0.3).astype(float)
        pending[:, 0] = 1.0
        rules[kind] = int(rng.integers(1, 4))
    elif kind == "cost":
        rules |= {"cost": float(rng.uniform(0.1, 3)), "cost_per_member": float(rng.uniform(0, 1))}
    elif kind in ("noise", "mean"):
        rules["noise_std"] = float(rng.uniform(0, 2))
        rules["noise_std_per_member"] = float(rng.uniform(0, 1))
        if kind == "mean":
            rules["weights"] = "mean"
            pending = (rng.random((1, n)) < 0.3).astype(float)
            pending[:, 0] = 1.0
            pending /= pending.sum()
    elif kind == "effect":
        rules["effect"] = True
    return rules, pending


def random_problem(seed, strategy, kind, model=None, *, most=12, targets=None, collinear=False):
    """Candidates, rules and targets at random; there is a pool that the rules allow."""
    rng = np.random.default_rng(seed)
    if model is None:
        model = MODELS[int(rng.integers(len(MODELS)))]
    if isinstance(model, str):
        model = model_of("auto" if kind == "effect" else model, collinear=collinear)
    n = int(rng.integers(4, most + 1))
    x = inputs(rng, n, collinear) * rng.uniform(0.3, 2.0)
    if targets is None:
        targets = bool(rng.integers(2)) and strategy != "AggMI"
    aims = (inputs(rng, 5), rng.uniform(0.1, 1, 5)) if targets else (None, None)
    while True:
        rules, pending = random_rules(kind, n, rng)
        low = int(rng.integers(1, 4)) if rng.integers(2) else 1
        size = low, int(rng.integers(low, n + 1))
        made = Problem(x, model, strategy, rules, *aims, pending, size)
        if len(made.pools):
            return made


# --- the optimum ----------------------------------------------------------------------------------


def assert_sound(problem):
    """A pool of the rules, worth what it says, close to the best, below the bound; the best."""
    pools = problem.design()
    assert len(pools) == 1
    theta, every = weights_in(pools, len(problem.x)), problem.pools
    assert (every == theta[0]).all(axis=1).any(), "the pool breaks a rule"
    said, worth = pools.certificates[0], problem.values(theta)[0]
    values, costs = problem.values(every), problem.costs(every)
    top = (values / costs).max()
    reached = worth / problem.costs(theta)[0]
    floor = 1e-9 * values.max() + 1e-14 * problem.known.unit
    assert_allclose(said.value, worth, rtol=1e-9, atol=floor)
    assert reached >= 0.99 * top - floor
    assert said.bound >= said.value - floor
    assert said.bound >= (values.max() if problem.rules.get("cost") is None else worth) - floor
    return reached >= top - floor


@settings(max_examples=at_most(60))
@given(seeds, st.sampled_from(STRATEGIES), st.sampled_from(KINDS), st.sampled_from(MODELS))
def test_a_pool_obeys_its_rules_is_nearly_the_best_and_the_bound_holds(seed, strategy, kind, model):
    assert_sound(random_problem(seed, strategy, kind, model))


@settings(max_examples=at_most(30))
@given(seeds, st.sampled_from(STRATEGIES), st.sampled_from(KINDS))
def test_collinear_inputs_are_no_matter(seed, strategy, kind):
    model = "auto" if seed % 2 else "linear"
    assert_sound(random_problem(seed, strategy, kind, model, most=9, collinear=True))


@pytest.mark.parametrize("n_problems", [3, *slow(200)])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_best_pool_of_all_is_found_nearly_always(strategy, n_problems):
    found = [
        [assert_sound(random_problem([seed, at], strategy, kind)) for seed in range(n_problems)]
        for at, kind in enumerate(KINDS)
    ]
    assert np.mean(found) >= 0.95
    assert n_problems < 100 or np.mean(found, axis=1).min() >= 0.95  # of every kind of rules


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_bound_is_of_use_where_pools_that_are_measured_share_candidates(strategy):
    rng = np.random.default_rng(4)
    x, pending = inputs(rng, 12), np.repeat((rng.random((3, 12)) < 0.4).astype(float), 2, axis=0)
    problem = Problem(x, model_of("linear"), strategy, {}, pending=pending)
    said = problem.design().certificates[0]
    assert said.value <= said.bound <= 3 * said.value


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_single_candidate_is_the_pool(strategy):
    problem = Problem(np.array([[0.3, -1.0]]), model_of("linear"), strategy)
    pools = problem.design()
    assert pools.sizes.tolist() == [1]
    assert_allclose(pools.certificates[0].value, problem.values([[1.0]])[0], rtol=1e-9)
    assert pools.certificates[0].bound >= pools.certificates[0].value * (1 - 1e-9)


# --- values ---------------------------------------------------------------------------------------


def scored(problem, sets, noise_std=0.0):
    """`sw.score`; of all candidates, where no targets are given."""
    fitted = problem.model.fitted()
    if problem.targets is not None:
        aims = {"targets": problem.targets, "target_weights": problem.target_weights}
        return sw.score(sets, problem.model, problem.strategy, noise_std=noise_std, **aims)
    n = len(problem.x)
    pool = read(sets, {"noise_std": noise_std}, "score").apply(fitted.pool(sets), fitted)
    pool = replace(pool, targets=Targets(problem.x.copy(), np.full(n, 1 / n), problem.aim.everyone))
    generator = np.random.default_rng(0)
    return scores_of(problem.strategy, given_answers(pool, fitted), fitted.posterior, generator)


@pytest.mark.parametrize("effect", [False, True])
@pytest.mark.parametrize("basis", ["linear", "auto"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_joint_gaussian_gives_the_scores_of_sets(strategy, basis, effect):
    """The oracle itself, where answers are totals of the same candidates."""
    rng = np.random.default_rng(3)
    x, before = inputs(rng, 8), (rng.random((3, 8)) < 0.5).astype(float)
    before[:, 0] = 1.0
    known = {} if basis == "auto" else {"hyperparameters": (0.7, 2.0)}
    measured = as_sets(x, before, effect=effect)
    model = sw.AggregateRegressor(basis, n_basis=12, **known).fit(measured, before @ x[:, 0] + 3)
    every = oracle.allowed_pools(8)
    for targets in (None, inputs(rng, 4)):
        problem = Problem(x, model, strategy, {"effect": effect, "noise_std": 0.3}, targets)
        behind = world_of(model, x, effect=effect, seen=(before, np.zeros(3)))
        found = scored(problem, as_sets(x, every, effect=effect, first=3), 0.3)
        assert_allclose(problem.values(every, behind), found, rtol=1e-8, atol=1e-12)


@settings(max_examples=at_most(30))
@given(seeds, st.sampled_from(STRATEGIES), st.sampled_from(("size", "noise", "effect", "cost")))
def test_values_are_the_scores_of_the_sets(seed, strategy, kind):
    problem = random_problem(seed, strategy, kind)
    pools = problem.design()
    noise = np.sqrt(problem.noise(weights_in(pools, len(problem.x))) * problem.known.unit)
    (score,) = scored(problem, pools, noise)
    assert_allclose(pools.certificates[0].value, score, rtol=1e-9)


@settings(max_examples=at_most(20))
@given(seeds, st.sampled_from(STRATEGIES), st.booleans(), st.booleans())
def test_answers_of_pools_that_share_candidates_are_taken_into_account(
    seed, strategy, average, effect
):
    rng = np.random.default_rng(seed)
    x = inputs(rng, 9)
    before = (rng.random((3, 9)) < 0.4).astype(float)
    before[:, 0] = 1.0
    known = {} if average else {"hyperparameters": (0.5, 2.0)}
    model = sw.AggregateRegressor("auto" if average else "linear", n_basis=12, **known)
    measured = as_sets(x, before, effect=effect)
    model.fit(measured, before @ (2 + x[:, 0]) + rng.normal(size=3), pool=measured)
    problem = Problem(x, model, strategy, {"effect": effect}, inputs(rng, 5), size=(2, 9))
    behind = world_of(model, x, effect=effect, seen=(before, np.zeros(3)))
    pools, every = problem.design(), problem.pools
    values = problem.values(every, behind)
    worth = problem.values(weights_in(pools, 9), behind)[0]
    said, floor = pools.certificates[0], 1e-9 * values.max()
    assert_allclose(said.value, worth, rtol=1e-8)
    assert worth >= 0.99 * values.max() - floor
    assert said.bound >= values.max() - floor


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_total_of_a_pool_that_is_measured_already_teaches_nothing(strategy):
    rng = np.random.default_rng(1)
    x = inputs(rng, 6)
    problem = Problem(
        x, model_of("linear"), strategy, {}, inputs(rng, 4), pending=np.ones((1, 6)), size=(6, 6)
    )
    pools = problem.design()
    assert abs(pools.certificates[0].value) <= 1e-12
    part = replace(problem, pending=np.repeat(np.eye(6)[:5], 1, axis=0), size=(5, 6)).design()
    assert 5 in part.members


# --- units ----------------------------------------------------------------------------------------


@settings(max_examples=at_most(12))
@given(
    seeds, st.sampled_from(STRATEGIES), st.integers(-12, 12), st.sampled_from(["auto", "evidence"])
)
def test_other_units_of_outputs_leave_pools_alone_and_scale_variances(seed, strategy, power, kind):
    problem = random_problem(seed, strategy, "size", kind)
    unit = 10.0**power
    other = replace(problem, model=model_of(kind, unit))
    first, second = problem.design(), other.design()
    change = unit**2 if strategy == "IVR" else 1.0
    mine, theirs = first.certificates[0], second.certificates[0]
    assert_allclose(theirs.value, mine.value * change, rtol=1e-6)
    assert_allclose(theirs.bound, mine.bound * change, rtol=1e-6)
    worth = problem.values(weights_in(second, len(problem.x)))[0]
    assert_allclose(worth, mine.value, rtol=1e-6)  # the same pool, or one as good


# --- batches --------------------------------------------------------------------------------------


@settings(max_examples=at_most(20))
@given(seeds, st.sampled_from(STRATEGIES), st.sampled_from(KINDS))
def test_a_batch_is_one_pool_after_another(seed, strategy, kind):
    problem = random_problem(seed, strategy, kind, targets=True, most=10)
    if "uses" in problem.rules:
        problem = replace(problem, rules={"uses": 4})
    batch = problem.design(3)
    theta, pending = weights_in(batch, len(problem.x)), problem.pending
    effect = problem.rules.get("effect", False)
    for number in range(3):
        left = np.zeros((0, len(problem.x))) if pending is None else pending
        left = np.vstack([left, theta[:number]])
        alone = replace(problem, pending=left if len(left) else None)
        if not effect:  # effects of earlier pools are their own
            single = alone.design()
            said = single.certificates[0], batch.certificates[number]
            assert_allclose(said[0].value, said[1].value, rtol=1e-7, atol=1e-12)
        every, costs = alone.pools, alone.costs(alone.pools)
        top = (alone.values(every) / costs).max()
        here = theta[number : number + 1]
        worth = alone.values(here)[0]
        assert (every == theta[number]).all(axis=1).any()
        assert_allclose(batch.certificates[number].value, worth, rtol=1e-7, atol=1e-12)
        assert worth / alone.costs(here)[0] >= 0.99 * top - 1e-12


@settings(max_examples=at_most(12))
@given(seeds, st.sampled_from(STRATEGIES), st.integers(1, 2))
def test_no_candidate_is_used_more_often_than_allowed(seed, strategy, uses):
    rng = np.random.default_rng(seed)
    pending = (rng.random((1, 12)) < 0.3).astype(float)
    pending[0, 0] = 1.0
    rules = {"uses": uses}
    problem = Problem(
        inputs(rng, 12), model_of("linear"), strategy, rules, pending=pending, size=(1, 3)
    )
    theta = weights_in(problem.design(3), 12)
    assert ((theta != 0).sum(axis=0) + (pending[0] != 0) <= uses).all()


@settings(max_examples=at_most(12))
@given(seeds, st.sampled_from(STRATEGIES), st.floats(2.0, 9.0))
def test_a_batch_stays_within_its_budget(seed, strategy, budget):
    rng = np.random.default_rng(seed)
    rules = {"cost": 1.0, "cost_per_member": 0.3}
    problem = Problem(inputs(rng, 9), model_of("linear"), strategy, rules, size=(1, 9))
    pools = problem.design(5, budget=budget)
    spent = problem.costs(weights_in(pools, 9))
    assert 1 <= len(pools) <= 5
    assert spent.sum() <= budget * (1 + 1e-12)
    assert_allclose(pools.costs, spent, rtol=1e-12)


# --- free weights ---------------------------------------------------------------------------------


def top_direction(problem):
    """The weights of the largest ratio, from the dense pencil of all candidates."""
    from scipy.linalg import eigh

    known, aim, n = problem.known, problem.aim, len(problem.x)
    k = known.phi.shape[1]
    rows = np.hstack([known.phi, np.eye(n)])
    total = rows @ known.joint @ rows.T
    if problem.strategy == "AggMI":
        upper, lower = total - known.noise, known.noise
    else:
        across = aim.phi @ known.joint[:k] @ rows.T
        upper, lower = across.T @ np.diag(aim.weight) @ across, total
        if aim.everyone:
            own = known.own
            upper = upper + (2 * own * (total - known.noise) + own**2 * np.eye(n)) / aim.everyone
    values, vectors = eigh(upper, lower)
    return values, vectors[:, -1]


@settings(max_examples=at_most(30))
@given(seeds, st.sampled_from(["AggMI", "IVR"]), st.booleans(), st.sampled_from(MODELS))
def test_free_weights_without_bounds_are_the_top_eigenvector(seed, strategy, targets, model):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 15))
    aims = inputs(rng, 5) if targets else None
    rules = {"weights": (-np.inf, np.inf)}
    problem = Problem(inputs(rng, n), model_of(model), strategy, rules, aims, size=(1, n))
    pools = problem.design()
    (theta,), (values, best) = weights_in(pools, n), top_direction(problem)
    said = pools.certificates[0]
    worth = 0.5 * np.log1p(values[-1]) if strategy == "AggMI" else problem.known.unit * values[-1]
    assert_allclose(said.value, worth, rtol=1e-8)
    assert_allclose(said.bound, worth, rtol=1e-8)
    if values[-1] > 1.001 * values[-2]:  # otherwise directions are not unique
        theta, best = theta / np.linalg.norm(theta), best / np.linalg.norm(best)
        assert_allclose(theta * np.sign(theta @ best), best, atol=1e-8)


@settings(max_examples=at_most(20))
@given(seeds, st.sampled_from(STRATEGIES), st.sampled_from([(-1.0, 1.0), (0.0, 1.0), (0.5, 2.0)]))
def test_free_weights_stay_within_bounds_and_gain_over_equal_ones(seed, strategy, ends):
    rng = np.random.default_rng(seed)
    rules = {"weights": ends}
    problem = Problem(
        inputs(rng, 8), model_of("fourier"), strategy, rules, inputs(rng, 5), size=(1, 8)
    )
    pools = problem.design()
    theta, said = weights_in(pools, 8), pools.certificates[0]
    inside = theta[0][theta[0] != 0]
    assert (inside >= ends[0] - 1e-12).all()
    assert (inside <= ends[1] + 1e-12).all()
    values = problem.values(oracle.allowed_pools(8))
    assert_allclose(said.value, problem.values(theta)[0], rtol=1e-8)
    assert said.value >= 0.99 * values.max()
    assert said.bound >= max(said.value, values.max()) * (1 - 1e-9)
