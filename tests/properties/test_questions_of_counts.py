"""Laws of all strategies and learners for totals that are counts, shares or amounts."""

from __future__ import annotations

import numpy as np
import pytest

import sumwise as sw
from sumwise.acquisition.strategies import ACQUISITIONS
from sumwise.model.generalised.likelihoods import LIKELIHOODS
from tests.model.generalised.test_predictions import simulated, sums

KINDS = tuple(LIKELIHOODS)
NAMES = [name for name, strategy in ACQUISITIONS.items() if not strategy.needs_dropout]


def pool_and_totals(kind, seed=0, n_sets=14, units=(1.0, 1.0)):
    x, e, y, sizes = simulated(kind, seed, n_sets=n_sets)
    ends = np.cumsum(sizes)[:-1]
    sets = sw.Sets.from_arrays(np.split(x * units, ends), np.split(e, ends))
    return sets, sums(y, sizes)


def fitted(kind, sets, totals, n=6, **settings):
    settings = {"basis": "linear", **settings}
    model = sw.AggregateRegressor(outputs=kind, **settings)
    return model.fit(sets.take(np.arange(n)), totals[:n], pool=sets)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("basis", ["linear", "auto"])
def test_scores_are_finite_pure_and_the_same_in_chunks(kind, basis):
    sets, totals = pool_and_totals(kind)
    model = fitted(kind, sets, totals, basis=basis)
    pool, posterior = sets.pool(model.fitted_), model.fitted_.posterior
    parts = [np.arange(0, 5), np.arange(5, 14)]
    for name in NAMES:
        scores = sw.score(sets, model, name)
        assert np.isfinite(scores).all(), name
        assert not ACQUISITIONS[name].is_gain or (scores >= 0).all(), name
        np.testing.assert_array_equal(scores, sw.score(sets, model, name), err_msg=name)
        if name in ("Rand", "IVR", "EPIG"):
            continue  # one draws, and targets are the individuals of all sets
        each = [sw.score(sets.take(part), model, name) for part in parts]
        np.testing.assert_allclose(np.concatenate(each), scores, rtol=1e-9, err_msg=name)
    rows = pool.design.rows(parts[1])
    for array, whole in (
        (rows.u, pool.design.u),
        (rows.nonlinear.mean, pool.design.nonlinear.mean),
    ):
        np.testing.assert_array_equal(array, whole[parts[1]])
    assert posterior.noise(rows).tolist() == posterior.noise(pool.design)[parts[1]].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_targets_decide_what_is_asked(kind):
    """IVR and EPIG of given targets, in chunks; what is far from them is worth less."""
    sets, totals = pool_and_totals(kind)
    model, targets = fitted(kind, sets, totals), sets.x[:7]
    for name in ("IVR", "EPIG"):
        scores = sw.score(sets, model, name, targets=targets)
        each = [
            sw.score(sets.take(part), model, name, targets=targets)
            for part in (np.arange(0, 5), np.arange(5, 14))
        ]
        np.testing.assert_allclose(np.concatenate(each), scores, rtol=1e-9)
        assert not np.allclose(scores, sw.score(sets, model, name))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["AggMI", "IVR"])
def test_batches_are_chosen_jointly(kind, name):
    """A set and its copy are the best two one by one, and never asked together first."""
    sets, totals = pool_and_totals(kind)
    model = fitted(kind, sets, totals)
    best = int(np.argmax(sw.score(sets, model, name)))
    blocks = [sets.x[sets.starts[a] : sets.starts[a + 1]] for a in [*range(len(sets)), best]]
    weights = [sets.theta[sets.starts[a] : sets.starts[a + 1]] for a in [*range(len(sets)), best]]
    twice = sw.Sets.from_arrays(blocks, weights)
    scores = sw.score(twice, model, name, targets=sets.x)
    assert set(np.argsort(-scores, kind="stable")[:2]) == {best, len(sets)}
    batch = sw.select(twice, model, name, 2, targets=sets.x)
    assert not {best, len(sets)} <= set(batch)


@pytest.mark.parametrize("kind", KINDS)
def test_open_questions_lower_what_others_teach(kind):
    from sumwise.acquisition.known_noise import given_questions

    sets, totals = pool_and_totals(kind)
    model = fitted(kind, sets, totals)
    pool, posterior = sets.pool(model.fitted_), model.fitted_.posterior
    score = ACQUISITIONS["AggMI"].score
    before = score(pool, posterior, np.random.default_rng(0))
    after = score(*given_questions(pool, posterior, [9]), np.random.default_rng(0))
    assert (after <= before * (1 + 1e-9)).all()
    assert after[9] < 0.95 * before[9]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_answers_give_the_same_bits(kind):
    sets, totals = pool_and_totals(kind)

    def run():
        learner = sw.ActiveLearner(sets, sw.AggregateRegressor(outputs=kind))
        asked = []
        for _ in range(4):
            question = learner.ask()
            asked.append((question.set_id, question.score.hex(), question.expected.hex()))
            learner.tell(question.set_id, float(totals[question.set_id]))
        found = learner.predict()
        return asked, found.mean.tobytes(), found.std.tobytes(), found.upper.tobytes()

    assert run() == run()


@pytest.mark.parametrize("kind", KINDS)
def test_units_of_inputs_do_not_matter(kind):
    """Metres or kilometres: standardised inputs are the same, and so are all scores."""
    sets, totals = pool_and_totals(kind)
    other, _ = pool_and_totals(kind, units=(1000.0, 0.01))
    a, b = fitted(kind, sets, totals), fitted(kind, other, totals)
    for name in ("Var", "AggMI", "IVR", "EPIG", "MI", "Ent"):
        here, there = sw.score(sets, a, name), sw.score(other, b, name)
        np.testing.assert_allclose(here, there, rtol=1e-6, err_msg=name)


def test_splitting_an_exposure_leaves_predictions_and_scores_of_others():
    """Of Poisson counts, by the public methods."""
    x, e, y, sizes = simulated("counts", 4, 1e12)
    ends, totals = np.cumsum(sizes)[:-1], sums(y, sizes)
    settings = {"basis": "linear", "hyperparameters": (2.0, 1e12), "standardize": False}
    models = []
    for times in (1, 2):
        parts = np.split(np.repeat(e / times, times), times * ends)
        sets = sw.Sets.from_arrays(np.split(np.repeat(x, times, axis=0), times * ends), parts)
        model = sw.AggregateRegressor(outputs="counts", **settings)
        model.fit(sets.take(np.arange(8)), totals[:8])
        models.append((model, sets.take(np.arange(8, len(sets)))))
    (one, rest), (two, split) = models
    found = one.predict(x, return_std=True, exposure=e), two.predict(x, return_std=True, exposure=e)
    np.testing.assert_allclose(*found, rtol=1e-6)
    for name in ("AggMI", "AggEnt", "IVR"):
        scores = [sw.score(s, m, name, targets=x) for m, s in ((one, rest), (two, split))]
        np.testing.assert_allclose(*scores, rtol=1e-6, err_msg=name)


def test_before_any_answer_large_sets_teach_more_of_counts():
    """And nothing is known of the rate."""
    x = np.random.default_rng(0).normal(size=(12, 2))
    sets = sw.Sets.from_arrays([x[:4], x[4:5], x[5:]], [np.full(n, 2.0) for n in (4, 1, 7)])
    learner = sw.ActiveLearner(sets, sw.AggregateRegressor(outputs="counts"), strategy="AggMI")
    assert learner.ask().set_id == 2


EDGES = ["zero totals", "one set", "more sets than features", "collinear", "exposures 1e9", "1e-9"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("edge", EDGES)
def test_edges_are_finite(kind, edge):
    x, e, y, sizes = simulated(kind, 7, n_sets=9)
    if edge == "zero totals":
        y = 0 * y + (1e-9 if kind == "amounts" else 0.0)
    if edge == "collinear":
        x = np.column_stack([x, x, x[:, :1] - x[:, 1:]])
    if edge in ("exposures 1e9", "1e-9"):
        e = np.ceil(e * 1e6) if kind == "shares" else e * float(edge.split()[-1])
    ends, totals = np.cumsum(sizes)[:-1], sums(y, sizes)
    sets = sw.Sets.from_arrays(np.split(x, ends), np.split(e, ends))
    n = 1 if edge == "one set" else 8
    for basis in ("linear", "auto"):
        model = fitted(kind, sets, totals, n, basis=basis)
        found = model.intervals(x, exposure=e, groups=np.repeat(sets.ids, sizes))
        for values in (found.mean, found.std, found.lower, found.upper):
            assert np.isfinite(values).all()
        scores = sw.score(sets, model, "AggMI"), sw.score(sets, model, "IVR")
        assert np.isfinite(scores).all()


@pytest.mark.parametrize(
    ("kind", "total", "said"),
    [
        ("counts", -1.0, "at least 0"),
        ("counts", 0.5, "give the count"),
        ("shares", 1e6, "more successes than trials"),
        ("amounts", 0.0, "above 0"),
    ],
)
def test_totals_that_cannot_be_are_refused_in_words(kind, total, said):
    sets, _ = pool_and_totals(kind)
    learner = sw.ActiveLearner(sets, sw.AggregateRegressor(outputs=kind))
    with pytest.raises(sw.LabelError, match=said):
        learner.tell(0, total)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", [(1e-3, 1e-6), (1e-3, 1e30), (1e12, 1e12), (1.0, 1e-6)])
def test_any_given_precisions_are_finite(kind, given):
    x, e, y, sizes = simulated(kind, 7, n_sets=6)
    ends, totals = np.cumsum(sizes)[:-1], sums(y, sizes)
    sets = sw.Sets.from_arrays(np.split(x, ends), np.split(e, ends))
    for basis in ("linear", "auto"):
        model = fitted(kind, sets, totals, 5, basis=basis, hyperparameters=given)
        found = model.intervals(x, exposure=e, groups=np.repeat(sets.ids, sizes))
        for values in (found.mean, found.std, found.lower, found.upper):
            assert np.isfinite(values).all()
        scores = sw.score(sets, model, "AggMI"), sw.score(sets, model, "IVR")
        assert np.isfinite(scores).all()


def test_priors_beyond_all_numbers_are_refused():
    with pytest.raises(sw.SettingError, match=r"at least 0\.001"):
        sw.AggregateRegressor(outputs="counts", hyperparameters=(1e-6, 1.0)).config()
