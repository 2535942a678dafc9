"""Sets that share individuals, against dense Gaussian conditioning on all individuals.

Nothing here goes through u or a whitened total: covariances are those of the N outputs, weights are
rows of Θ, and redundant totals are left to the pseudo-inverse.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.acquisition.known_noise import given_answers, given_questions
from sumwise.acquisition.strategies import scores_of
from sumwise.data import sets as data
from sumwise.errors import InvalidSetError
from sumwise.model import mixture_weights
from sumwise.model.design import features
from sumwise.model.leave_one_out import leave_one_out
from sumwise.model.mixture_algebra import per_feature
from sumwise.model.overlap import independent
from sumwise.study.storage import blobs
from sumwise.web import pages
from sumwise.web.session import Session
from tests.marks import slow

RNG = np.random.default_rng(7)
X = RNG.normal(size=(40, 2))
Y = 3 + X @ [2.0, -1.0] + np.sin(2 * X[:, 0]) + RNG.normal(0, 0.7, 40)

# lists of individuals, and which of the sets are measured
SHAPES = {
    "overlap": ([range(8), range(5, 15), range(12, 20), range(18, 40), range(3, 9)], [0, 1, 3]),
    "nested": ([range(6), range(6, 14), range(14), range(14, 40), range(40)], [0, 2, 3]),
    "repeated": ([range(10), range(10), range(10, 20), range(20), range(15, 40)], [0, 1, 2, 3]),
    "one member": ([[4], range(4, 12), range(5), [30], range(28, 40), range(12, 30)], [0, 1, 2, 4]),
}


def sets_of(shape, signed=False):
    lists, measured = SHAPES[shape]
    rng = np.random.default_rng(3)
    weights = None
    if signed:
        weights = [rng.uniform(0.4, 2, len(m)) * rng.choice([-1.0, 1.0], len(m)) for m in lists]
    sets = sw.Sets.from_members(X, [list(m) for m in lists], weights)
    return sets, dense_weights(sets, lists), np.array(measured)


def dense_weights(sets, lists):
    """Θ from the lists themselves."""
    theta = np.zeros((len(lists), len(X)))
    for a, some in enumerate(lists):
        for k, n in enumerate(some):
            theta[a, n] += sets.theta[sets.starts[a] + k]
    return theta


def effects_of(lists):
    """Z Zᵀ: whether two individuals have the same smallest set, the first of equal ones."""
    mine = np.full(len(X), -1)
    for n in range(len(X)):
        among = [(len(some), a) for a, some in enumerate(lists) if n in some]
        mine[n] = min(among)[1] if among else -1 - n
    return (mine[:, None] == mine).astype(float)


def conditioned(covariance, weights, y, noise=None):
    """Mean and covariance of all outputs given weighted sums of them."""
    across = covariance @ weights.T
    among = weights @ across + (0 if noise is None else np.diag(noise**2))
    gain = across @ np.linalg.pinv(among, rcond=1e-12, hermitian=True)
    return gain @ y, covariance - gain @ across.T


def groups_of(sets, n):
    """A set that individual n is in."""
    return int(np.searchsorted(sets.starts, np.flatnonzero(sets.members == n)[0], "right")) - 1


# --- the mixture ----------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [None, 2.0])
@pytest.mark.parametrize("signed", [*slow(False), True])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_mixture_is_dense_conditioning_on_all_individuals(shape, signed, noise):
    sets, theta, measured = sets_of(shape, signed)
    y_bar = theta[measured] @ Y
    known = np.zeros(len(measured))
    if noise is not None:
        known[-1] = noise  # the last total only
        y_bar[-1] += 1.5
    model = sw.AggregateRegressor(n_basis=12).fit(
        sets.take(measured), y_bar, pool=sets, noise_std=known
    )
    fitted = model.fitted()
    mixed, phi = fitted.mixture, features(fitted.basis, X)
    unit, offset = fitted.posterior.output_scale[0], fitted.offset[0]
    z = (y_bar - offset * theta[measured].sum(axis=1)) / unit
    together, parts = effects_of(SHAPES[shape][0]), []
    for h, chance in enumerate(mixed.probability):
        known_h = mixed.hypotheses.take([h])
        widths = [at.stop - at.start for at in mixed.totals.groups]
        prior = np.repeat(known_h.variances[0], widths)
        rho, share = known_h.correlation[0], known_h.noise[0]
        covariance = phi * prior @ phi.T + share * ((1 - rho) * np.eye(len(X)) + rho * together)
        scale = mixed.scale[h, 0]
        mean, left = conditioned(covariance, theta[measured], z, known / unit / scale**0.5)
        parts.append((chance, mean, left * mixed.spread[h, 0]))
    mean = sum(chance * each for chance, each, _ in parts)
    joint = sum(c * (left + np.outer(m - mean, m - mean)) for c, m, left in parts)
    for weights, found in (
        (theta, model.predict_sets(sets, return_std=True)),
        (
            np.eye(len(X))[(people := np.unique(sets.members))],
            model.predict(X[people], True, groups=[groups_of(sets, n) for n in people]),
        ),
    ):
        expected = offset * weights.sum(axis=1) + unit * (weights @ mean)
        assert_allclose(found[0], expected, rtol=1e-6, atol=1e-6)
        variance = unit**2 * np.einsum("an,nm,am->a", weights, joint, weights)
        assert_allclose(found[1] ** 2, variance, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("shape", ["overlap", "nested", "one member"])
def test_hypotheses_are_weighed_by_the_density_of_all_totals(shape):
    sets, theta, measured = sets_of(shape)
    fitted = sw.AggregateRegressor(n_basis=12).fit(sets.take(measured), theta[measured] @ Y)
    mixed = fitted.fitted().mixture
    totals, logs = mixed.totals, []
    phi, together = features(fitted.fitted().basis, X), effects_of(SHAPES[shape][0])
    if shape != "one member":
        assert len(totals) == len(measured)
    weights = theta[measured][: len(totals)]
    for h in range(len(mixed.probability)):
        known = mixed.hypotheses.take([h])
        prior = np.repeat(known.variances[0], [at.stop - at.start for at in totals.groups])
        rho = known.correlation[0]
        noise = known.noise[0] * ((1 - rho) * np.eye(len(X)) + rho * together)
        inside = weights @ (phi * prior @ phi.T + noise) @ weights.T
        misfit = mixture_weights.PRIOR_FREEDOM * totals.prior_scale[0]
        misfit += totals.z[:, 0] @ np.linalg.solve(inside, totals.z[:, 0])
        tail = mixture_weights.PRIOR_FREEDOM + len(totals) - 1
        logs.append(-0.5 * (np.linalg.slogdet(inside)[1] + tail * np.log(misfit)))
    chance = np.exp(np.array(logs) - max(logs)) ** 0.6  # with caution
    assert_allclose(mixed.probability, chance / chance.sum(), rtol=1e-6)


@pytest.mark.parametrize("noise", [5.0, *slow(0.1, 100.0)])
def test_totals_that_differ_by_known_noise_alone_have_the_density_of_all_totals(noise):
    lists = [list(range(20)), list(range(20, 30)), *[list(range(20))] * 9]
    sets = sw.Sets.from_members(X, lists)
    theta, known = dense_weights(sets, lists), np.full(11, noise)
    known[1] = 0.0
    y_bar = theta @ Y + known * np.linspace(-1, 1, 11)
    fitted = sw.AggregateRegressor(n_basis=12).fit(sets, y_bar, noise_std=known).fitted()
    phi, together, mixed = features(fitted.basis, X), effects_of(lists), fitted.mixture
    log_det, kappa, squares = mixture_weights._spectra(mixed.hypotheses, mixed.totals)
    z, blur = mixed.totals.z[:, 0], np.diag(known / fitted.posterior.output_scale[0]) ** 2
    for scale in (1e-5, 0.1, 1.0, 100.0):
        left = scale * (1 - kappa) + kappa
        found = log_det + np.log(left).sum(axis=1) + (squares / left).sum(axis=1)
        for h in range(0, len(found), 5):
            one = mixed.hypotheses.take([h])
            prior = per_feature(one.variances, mixed.totals.groups)[0]
            rho = one.correlation[0]
            own = one.noise[0] * ((1 - rho) * np.eye(len(X)) + rho * together)
            among = scale * theta @ (phi * prior @ phi.T + own) @ theta.T + blur
            expected = np.linalg.slogdet(among)[1] + z @ np.linalg.solve(among, z)
            assert_allclose(found[h], expected, rtol=1e-6, atol=1e-6)


# --- fixed bases ----------------------------------------------------------------------------------


def linear_model(sets, measured, y_bar, noise=None):
    model = sw.AggregateRegressor("linear", hyperparameters=(0.5, 1.7))
    return model.fit(sets.take(measured), y_bar, pool=sets, noise_std=noise)


@pytest.mark.parametrize("noise", [None, 1.3])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_fixed_basis_is_dense_conditioning_on_all_individuals(shape, signed, noise):
    sets, theta, measured = sets_of(shape, signed)
    known = np.zeros(len(measured))
    known[-1] = noise or 0.0
    y_bar = theta[measured] @ Y + known
    model = linear_model(sets, measured, y_bar, known)
    fitted = model.fitted()
    phi, offset = features(fitted.basis, X), fitted.offset[0]
    z = y_bar - offset * theta[measured].sum(axis=1)
    covariance = phi @ phi.T / 0.5 + np.eye(len(X)) / 1.7
    mean, left = conditioned(covariance, theta[measured], z, known)
    found = model.predict_sets(sets, return_std=True)
    assert_allclose(found[0], theta @ (mean + offset), rtol=1e-7, atol=1e-7)
    assert_allclose(found[1] ** 2, np.diagonal(theta @ left @ theta.T), rtol=1e-6, atol=1e-8)
    people = np.unique(sets.members)
    names = [groups_of(sets, n) for n in people]
    mean_of, std = model.predict(X[people], return_std=True, groups=names)
    assert_allclose(mean_of, (mean + offset)[people], rtol=1e-7)
    assert_allclose(std**2, np.diagonal(left)[people], rtol=1e-7, atol=1e-10)
    kept = fitted.labelled.overlap.kept
    some = theta[measured[kept]]
    among = some @ covariance @ some.T + np.diag(known[kept] ** 2)
    density = -0.5 * (z[kept] @ np.linalg.solve(among, z[kept]) + np.linalg.slogdet(among)[1])
    assert_allclose(model.log_evidence_, density - 0.5 * len(kept) * np.log(2 * np.pi), rtol=1e-8)
    design = sets.take(measured[kept]).pool(fitted).design
    mean, std = leave_one_out(fitted, design, y_bar[kept][:, None], known[kept])
    for i in range(len(kept)):
        others = np.delete(np.arange(len(kept)), i)
        across = among[i, others] @ np.linalg.inv(among[np.ix_(others, others)])
        expected = offset * some[i].sum() + across @ z[kept][others]
        assert_allclose(mean[i, 0], expected, rtol=1e-7)
        assert_allclose(std[i, 0] ** 2, among[i, i] - across @ among[others, i], rtol=1e-7)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_information_is_that_of_totals_given_all_that_is_known(shape, signed):
    sets, theta, measured = sets_of(shape, signed)
    first, pending = measured[:1], measured[1:]
    fitted = linear_model(sets, first, theta[first] @ Y).fitted()
    phi = features(fitted.basis, X)
    noise = np.eye(len(X)) / 1.7
    left = given_answers(sets.pool(fitted), fitted)
    for done, (pool, posterior) in (
        (first, (left, fitted.posterior)),
        (measured, given_questions(left, fitted.posterior, pending)),
    ):
        scores = scores_of("AggMI", pool, posterior, RNG)
        seen = theta[done]
        _, everything = conditioned(phi @ phi.T / 0.5 + noise, seen, np.zeros(len(seen)))
        _, alone = conditioned(noise, seen, np.zeros(len(seen)))
        for a, row in enumerate(theta):
            rest = row @ alone @ row
            if rest < 1e-9:
                assert scores[a] == 0
            else:
                assert_allclose(scores[a], 0.5 * np.log(row @ everything @ row / rest), rtol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_information_of_a_mixture_counts_effects_that_sets_share(shape):
    sets, theta, measured = sets_of(shape, signed=True)
    model = sw.AggregateRegressor(n_basis=12).fit(
        sets.take(measured), theta[measured] @ Y, pool=sets
    )
    posterior, phi = model.fitted().posterior, features(model.fitted().basis, X)
    assert posterior.effect > 0.01
    noise = np.eye(len(X)) + posterior.effect * effects_of(SHAPES[shape][0])
    noise /= posterior.noise_precision
    seen = theta[measured]
    pull = noise @ seen.T @ np.linalg.pinv(seen @ noise @ seen.T, rcond=1e-12, hermitian=True)
    scores = sw.score(sets, model, "AggMI")
    for a, row in enumerate(theta):
        rest = row @ (noise - pull @ seen @ noise) @ row
        along = (row - row @ pull @ seen) @ phi
        if rest < 1e-9:
            assert scores[a] == 0
        else:
            signal = posterior.variance_along(along[None])[0]
            assert_allclose(scores[a], 0.5 * np.log1p(signal / rest), rtol=1e-6)


def test_questions_that_follow_from_one_another_are_conditioned_on_once():
    sets, theta, _ = sets_of("nested")
    fitted = linear_model(sets, [3], theta[[3]] @ Y).fitted()
    left = given_answers(sets.pool(fitted), fitted)
    pool, after = given_questions(left, fitted.posterior, [0, 1])
    again, same = given_questions(left, fitted.posterior, [0, 1, 2, 4])  # sums of those
    assert_allclose(same.covariance_along(np.eye(3)), after.covariance_along(np.eye(3)), atol=1e-12)
    assert (pool.design.left[[2, 4]] < 1e-20).all()
    assert (again.design.left < 1e-20).all()


# --- what a user sees -----------------------------------------------------------------------------


@pytest.mark.parametrize("basis", ["auto", "linear", "fourier"])
def test_measuring_the_same_people_again_teaches_nothing_unless_measuring_is_noisy(basis):
    lists = [list(range(20)), list(range(20, 30)), *[list(range(20))] * 9]
    sets = sw.Sets.from_members(X, lists)
    y_bar = np.add.reduceat(Y[sets.members], sets.starts[:-1])

    def fitted(n_sets, noise):
        model = sw.AggregateRegressor(basis)
        return model.fit(sets[:n_sets], y_bar[:n_sets], noise_std=[noise, 0, *[noise] * 9][:n_sets])

    once, often = (fitted(n, 0.0).predict(X, return_std=True) for n in (2, 11))
    assert_allclose(often, once, rtol=1e-9)
    assert fitted(2, 0.0).predict_sets(sets, return_std=True)[1].max() < 1e-6
    once, often = (fitted(n, 5.0).predict_sets(sets[:1], return_std=True)[1][0] for n in (2, 11))
    assert often < 0.7 * once


def test_sums_of_members_add_up_to_county_and_state():
    county, rest = list(range(7)), list(range(7, 18))
    sets = sw.Sets.from_members(X, [county, county + rest, rest], ids=["county", "state", "rest"])
    model = sw.AggregateRegressor().fit(sets[["county", "state"]], [11.0, 60.0], pool=sets)
    mean, std = model.predict_sets(sets, return_std=True)
    assert_allclose(mean, [11, 60, 49], rtol=1e-9)
    assert (std < 1e-5).all()
    each = model.predict(sets.x, groups=np.repeat(sets.ids, sets.sizes))
    assert_allclose(np.add.reduceat(each, sets.starts[:-1]), [11, 60, 49], rtol=1e-9)
    found = model.intervals(sets.x, groups=np.repeat(sets.ids, sets.sizes))
    assert_allclose(found.mean, each)
    assert (found.lower < found.mean).all()


ALL_FOLLOW = ["AggMI", "IVR", "EPIG", "AggEnt", "QBC", "EMCM"]
FOLLOW = [("auto", "AggMI"), ("auto", "EPIG"), *(("linear", name) for name in ALL_FOLLOW)]
FOLLOW_SLOWLY = [("auto", name) for name in ALL_FOLLOW if ("auto", name) not in FOLLOW]


@pytest.mark.parametrize(
    ("basis", "strategy"),
    [*FOLLOW, *(pytest.param(*each, marks=pytest.mark.slow) for each in FOLLOW_SLOWLY)],
)
def test_a_set_that_follows_from_others_is_asked_last(basis, strategy):
    parts = [list(range(12)), list(range(12, 20)), list(range(20, 30)), list(range(30, 40))]
    sets = sw.Sets.from_members(X, [list(range(20)), *parts, list(range(40))])
    learner = sw.ActiveLearner(sets, sw.AggregateRegressor(basis), strategy=strategy)
    y_bar = np.add.reduceat(Y[sets.members], sets.starts[:-1])
    asked = []
    for _ in range(len(sets)):
        question = learner.ask()
        asked.append(question)
        learner.tell(question.set_id, y_bar[question.set_id])
    assert all(question.information > 1e-6 for question in asked[:4])
    for question in asked[4:]:  # four atoms are known by then
        assert question.information == 0
        assert question.std < 1e-4
        assert_allclose(question.expected, y_bar[question.set_id], rtol=1e-6)
        if strategy != "AggEnt":
            assert question.score <= 1e-20
    picked = sw.select(sets, learner.model.fit(sets[[1]], y_bar[[1]], pool=sets), "AggMI", 4)
    assert len(picked) == 4


def test_a_joint_batch_never_holds_a_set_that_follows_from_the_rest_before_others():
    sets, theta, _ = sets_of("nested")
    model = linear_model(sets, [0], theta[[0]] @ Y)
    batch = sw.select(sets, model, "AggMI", 4, but=[0])
    rows = theta[[0, *batch[:2]]]
    assert np.linalg.matrix_rank(rows) == 3


def test_gram_schmidt_drops_what_follows_from_vectors_before_it():
    rows = np.array([[1.0, 0, 0], [2, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1e-3]])
    assert independent(rows @ rows.T).tolist() == [0, 2, 4]


# --- sets and studies -----------------------------------------------------------------------------


def test_sets_know_who_is_who_only_where_they_overlap():
    assert sw.Sets.from_members(X, [[0, 1], [2]]).members is None
    sets = sw.Sets.from_members(X, [[0, 1, 2], [1, 2], [2, 3], [5]], ids="abcd")
    assert sets.members.tolist() == [0, 1, 2, 1, 2, 2, 3, 5]
    assert sets.effects.tolist() == [0, 1, 1, 1, 1, 1, 2, 3]
    some = sets[["c", "a"]]
    assert (some.members.tolist(), some.effects.tolist()) == ([2, 3, 0, 1, 2], [1, 2, 0, 1, 1])
    lazy = data.LazySets(sets.ids, sets.sizes, 2, None, lambda: sets, True)
    assert lazy.take([1]).members.tolist() == [1, 2]
    with pytest.raises(InvalidSetError, match="belong together"):
        data.Sets(("a",), X[:1], np.ones(1), np.array([0, 1]), None, np.array([3]))
    wrong = np.array([3.5]), np.array([0])
    with pytest.raises(InvalidSetError, match="members must be 1 whole numbers"):
        data.Sets(("a",), X[:1], np.ones(1), np.array([0, 1]), None, *wrong)


def test_numbers_of_other_people_mean_nothing():
    lists = [list(range(10)), list(range(5, 15)), list(range(15, 25))]
    sets = sw.Sets.from_members(X, lists)
    others = sw.Sets.from_members(X[::-1].copy(), lists)
    model = sw.AggregateRegressor("linear").fit(sets, [20.0, 30.0, 25.0])
    assert (model.predict_sets(sets, return_std=True)[1] < 1e-6).all()
    assert (model.predict_sets(others, return_std=True)[1] > 0.1).all()


@pytest.mark.parametrize("large", [*slow(False), True])
def test_studies_keep_the_membership(tmp_path, monkeypatch, large):
    if large:
        monkeypatch.setattr(blobs, "LARGE", 0)
    lists = [range(12), range(12, 20), range(20), range(15, 40), range(40)]
    sets = sw.Sets.from_members(X, [list(some) for some in lists], ids="abcde")
    learner = sw.ActiveLearner(sets)
    study = sw.create_study(tmp_path / "s.db", sets)
    for number in range(3):
        asked = learner.ask().set_id
        total = 10.0 + number
        if number == 2 and {asked, *learner.labels} == {"a", "b", "c"}:
            total = learner.labels["a"] + learner.labels["b"]
        assert study.ask().set_id == asked
        learner.tell(asked, total)
        study.tell(asked, total)
        study.close()
        study = sw.open_study(tmp_path / "s.db")
    study.export(tmp_path / "folder")
    copy = sw.import_study(tmp_path / "folder", tmp_path / "copy.db")
    expected = learner.model.predict_sets(sets, return_std=True)
    everyone = learner.model.predict(sets.x, True, groups=np.repeat(sets.ids, sets.sizes))
    for each in (study, copy):
        assert (each.sets.members == sets.members).all()
        assert (each.sets.effects == sets.effects).all()
        totals = each.predict_sets()
        assert_allclose([totals.mean, totals.std], expected, rtol=1e-7, atol=1e-7)
        assert each.status().answers == 3
        assert len(each.insight().steps) == 3
        people = each.predict()
        assert_allclose([people.mean, people.std], everyone, rtol=1e-7, atol=1e-7)
        each.close()


@pytest.mark.parametrize("basis", ["auto", "linear"])
def test_pages_show_members_of_overlapping_sets_given_their_totals(basis, tmp_path):
    sets, theta, measured = sets_of("overlap")
    with sw.create_study(tmp_path / "a.db", sets, model=sw.AggregateRegressor(basis)) as study:
        study.tell_many([sets.ids[at] for at in measured], theta[measured] @ Y)
        which, model = np.arange(2, len(sets.x), 3), study.model
        names = np.repeat(sets.ids, sets.sizes)[which]
        expected = model.predict(sets.x[which], return_std=True, groups=names)
        assert abs(expected[0] - model.predict(sets.x[which])).max() > 0.1
        found, _ = pages.predict(Session(study), study.state.fitted(), which)
        assert_allclose((found.mean, found.std), expected, rtol=1e-9)


def test_an_input_may_be_called_like_a_column_of_an_export(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(X, columns=["member", "effect"])
    for lists in ([[0, 1], [1, 2], [3]], [[0, 1], [2], [3]]):
        sets = sw.Sets.from_members(frame, lists)
        place = tmp_path / str(len(sets.x))
        study = sw.create_study(f"{place}.db", sets)
        study.export(place)
        study.close()
        copy = sw.import_study(place, f"{place}-copy.db")
        assert copy.sets.input_names == ("member", "effect")
        assert (copy.sets.x == sets.x).all()
        assert (copy.sets.members is None) == (sets.members is None)
        copy.close()


def test_members_of_overlapping_sets_are_streamed_given_their_totals(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    lists = [list(range(8)), list(range(5, 15)), list(range(12, 40))]
    sets = sw.Sets.from_members(X, lists, ids=["a", "b", "c"])
    totals = np.array([Y[some].sum() for some in lists])
    model = sw.AggregateRegressor().fit(sets[:2], totals[:2], pool=sets)
    owner, rows = np.repeat(sets.ids, sets.sizes), np.concatenate(lists)
    columns = {"set": owner.tolist(), "x0": X[rows, 0], "x1": X[rows, 1]}
    parquet.write_table(pa.table(columns), tmp_path / "all.parquet")
    scan = sw.Sets.scan_parquet(tmp_path / "all.parquet", by="set", x=["x0", "x1"])
    model.predict_parquet(scan, tmp_path / "out.parquet")
    found = parquet.read_table(tmp_path / "out.parquet")["mean"].to_numpy()
    assert_allclose([found[owner == name].sum() for name in "ab"], totals[:2], rtol=1e-9)
    shared = np.isin(rows, range(5, 8))  # a member of two sets has one output
    assert_allclose(found[shared & (owner == "a")], found[shared & (owner == "b")], rtol=1e-9)


@pytest.mark.parametrize("basis", ["auto", "fourier"])
@pytest.mark.parametrize("apart", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("noise_std", [1e-30, *slow(1e-8), 1e-5])
def test_repeats_that_differ_by_more_than_their_tiny_noise_leave_the_rest_alone(
    basis, apart, noise_std
):
    x = np.random.default_rng(0).normal(size=(10, 2))
    sets = sw.Sets.from_members(x, [[0, 1, 2], [0, 1, 2], [3, 4], [5, 6, 7], [8], [9]])
    y_bar = np.array([3.0, 3.0 + apart, 2.5, 3.7, 1.5, 0.2])
    model = sw.AggregateRegressor(basis).fit(sets, y_bar, noise_std=noise_std)
    once, middle = np.array([0, 2, 3, 4, 5]), y_bar + np.array([0.5, -0.5, 0, 0, 0, 0]) * apart
    exact = sw.AggregateRegressor(basis).fit(sets.take(once), middle[once], pool=sets)
    assert_allclose(model.predict_sets(sets), middle, rtol=1e-5)
    spreads = [each.predict(x, return_std=True)[1] for each in (model, exact)]
    assert spreads[0].max() < 2 * spreads[1].max()
    if basis == "auto" and not apart:  # the others take totals with known noise for independent
        assert_allclose(*spreads, rtol=0.1)
