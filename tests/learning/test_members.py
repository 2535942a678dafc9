"""Members of a measured set add up to its total, wherever they are predicted."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.cli import main
from tests import oracles, parquet
from tests.builders import totals

MODELS = {
    "auto": {"basis": "auto", "n_basis": 16},
    "fourier": {"basis": "fourier", "n_basis": 24},
    "linear": {"basis": "linear"},
    "given": {"basis": "linear", "hyperparameters": (0.5, 2.0), "standardize": False},
    "auto given": {"basis": "auto", "n_basis": 16, "hyperparameters": (0.5, 2.0)},
}
SIZES = (1, 4, 2, 5, 3, 1, 2, 4, 3, 2)
N_SEEN = 7
every_model = pytest.mark.parametrize("kind", MODELS)


def problem(weights="own", seed=0, n_outputs=1):
    """Sets with duplicates among the inputs of members, and outputs with effects of sets."""
    rng = np.random.default_rng(seed)
    blocks = [rng.normal(size=(n, 3)) for n in SIZES]
    blocks[1][2] = blocks[1][0]  # members 0 and 2 of set b have the same inputs
    blocks[1][2, 0] += 0.0
    theta = [rng.uniform(0.3, 2.0, n) * rng.choice([-1.0, 1.0], n) for n in SIZES]
    if weights == "mean":
        theta = [np.full(n, 1 / n) for n in SIZES]
    if weights == "sum":
        theta = [np.ones(n) for n in SIZES]
    sets = sw.Sets.from_arrays(blocks, theta, ids=list("abcdefghij"))
    effect = np.repeat(rng.normal(size=len(SIZES)), SIZES)
    y = 40 + 3 * sets.x[:, 0] + effect + rng.normal(size=len(sets.x))
    return sets, totals(sets, y)


def owners(sets):
    return np.repeat(sets.ids, sets.sizes).tolist()


def fitted(kind, sets, y_bar, **more):
    model = sw.AggregateRegressor(**MODELS[kind])
    return model.fit(sets[:N_SEEN], y_bar[:N_SEEN], pool=sets, **more)


def add_up(sets, mean, y_bar, rtol=1e-9):
    size = abs(y_bar).max() + totals(sets, abs(mean)).max()
    assert_allclose(totals(sets, mean)[:N_SEEN], y_bar[:N_SEEN], rtol=rtol, atol=rtol * size)


@every_model
@pytest.mark.parametrize("weights", ["own", "mean", "sum"])
def test_members_add_up_to_what_was_measured(kind, weights):
    sets, y_bar = problem(weights)
    model, groups = fitted(kind, sets, y_bar), owners(sets)
    mean, std = model.predict(sets.x, return_std=True, groups=groups)
    add_up(sets, mean, y_bar)
    assert_allclose(model.predict(sets.x, groups=groups), mean, rtol=1e-9)
    add_up(sets, model.intervals(sets.x, groups=groups).mean, y_bar)
    total, spread = model.predict_sets(sets, return_std=True)
    add_up(sets, mean, total)
    assert_allclose(total[:N_SEEN], y_bar[:N_SEEN], rtol=1e-9)
    assert (spread[:N_SEEN] < 1e-5 * spread[N_SEEN:].min()).all()
    assert (std[:1] < 1e-5 * std[1]).all()  # the one member of a
    assert mean[0] * sets.theta[0] == pytest.approx(y_bar[0])
    unseen = np.arange(len(sets.x)) >= sets.starts[N_SEEN]
    assert_allclose(mean[unseen], model.predict(sets.x[unseen]))
    assert_allclose(std[unseen], model.predict(sets.x[unseen], return_std=True)[1])


@every_model
def test_order_and_duplicates_of_rows_do_not_matter(kind):
    sets, y_bar = problem()
    model, groups = fitted(kind, sets, y_bar), np.array(owners(sets))
    order = np.random.default_rng(1).permutation(len(sets.x))
    order = np.concatenate([order[order == 1], order[order != 1]])  # the twins keep their order
    mean = model.predict(sets.x, groups=groups)
    again = model.predict(sets.x[order], groups=groups[order])
    assert_allclose(again, mean[order], rtol=1e-9)
    # a member that is named twice is there once; the other row is not in the total
    twice = model.predict(sets.x[[0, 0]], return_std=True, groups=["a", "a"])
    assert twice[1][0] < 1e-5 * twice[1][1]


@every_model
def test_predictions_without_noise_know_no_members(kind):
    sets, y_bar = problem()
    model, groups = fitted(kind, sets, y_bar), owners(sets)
    got = model.predict(sets.x, return_std=True, include_noise=False, groups=groups)
    plain = model.predict(sets.x, return_std=True, include_noise=False)
    assert_allclose(got, plain)
    expected = model.predict_sets(sets, include_noise=False)
    assert_allclose(totals(sets, plain[0]), expected, rtol=1e-6, atol=1e-6)


def test_another_individual_of_a_measured_set_shares_its_effect_only():
    sets, y_bar = problem()
    x = np.array([[0.1, 0.2, 0.3]])
    for kind in MODELS:
        model = fitted(kind, sets, y_bar)
        alone, there = model.predict(x), model.predict(x, groups=["d"])
        shares = kind == "auto"  # of the others, sets have no effects
        assert (abs(alone - there) > 1e-6).all() == shares
        spread = [model.predict(x, return_std=True, groups=g)[1] for g in (None, ["d"])]
        assert (spread[1] < spread[0]).all() or not shares
        assert_allclose(model.predict(x, groups=["nobody's"]), alone)


@every_model
def test_several_outputs_add_up_each(kind):
    sets, y_bar = problem()
    both = np.stack([y_bar, -3 * y_bar + np.arange(len(y_bar))], axis=1)
    model = sw.AggregateRegressor(**MODELS[kind]).fit(sets[:N_SEEN], both[:N_SEEN], pool=sets)
    mean = model.predict(sets.x, groups=owners(sets))
    for m in range(2):
        add_up(sets, mean[:, m], both[:, m])
    assert_allclose(model.predict_sets(sets)[:N_SEEN], both[:N_SEEN], rtol=1e-8)


@every_model
def test_noisy_totals_are_drawn_towards_what_the_others_say(kind):
    sets, y_bar = problem("sum")
    blur, groups = np.full(N_SEEN, 3.0), owners(sets)
    noisy = fitted(kind, sets, y_bar, noise_std=blur)
    got = totals(sets, noisy.predict(sets.x, groups=groups))[:N_SEEN]
    expected = noisy.predict_sets(sets, include_noise=False)[:N_SEEN]
    share = (got - expected) / (y_bar[:N_SEEN] - expected)
    assert ((share > 0) & (share < 0.99)).all()
    assert_allclose(noisy.predict_sets(sets)[:N_SEEN], got, rtol=1e-8)
    assert (noisy.predict_sets(sets, return_std=True)[1][:N_SEEN] > 0.01).all()


def test_members_under_given_precisions_are_those_of_dense_conditioning():
    """Variances too, with known noise and without, for a model that is one Gaussian."""
    sets, y_bar = problem()
    phi = np.column_stack([sets.x, np.ones(len(sets.x))])
    seen = np.arange(N_SEEN)
    for blur in (None, np.linspace(0.0, 2.0, N_SEEN)):
        model = fitted("given", sets, y_bar, noise_std=blur)
        known = np.zeros(len(sets))
        if blur is not None:
            known[seen] = blur**2
        scale = np.ones(phi.shape[1]) / 0.5
        inside = model.fitted().basis
        phi = inside(sets.x)
        dense = oracles.world(sets, phi, scale, 1 / 2.0, 0.0, known)
        mean, spread = oracles.outputs_given(dense, seen, y_bar[:N_SEEN])
        got = model.predict(sets.x, return_std=True, groups=owners(sets))
        assert_allclose(got[0], mean, rtol=1e-7)
        assert_allclose(got[1], np.sqrt(np.maximum(np.diag(spread), 0.0)), rtol=1e-6, atol=1e-6)
        total = dense.sums @ spread @ dense.sums.T
        std = model.predict_sets(sets, return_std=True)[1]
        assert_allclose(std, np.sqrt(np.maximum(np.diag(total), 0)), rtol=1e-6, atol=1e-6)


def test_intervals_hold_what_the_mixture_says():
    sets, y_bar = problem()
    model, groups = fitted("auto", sets, y_bar), owners(sets)
    found = model.intervals(sets.x, level=0.8, groups=groups)
    assert found.lower[0] == pytest.approx(found.mean[0])
    assert found.upper[0] == pytest.approx(found.mean[0])
    wide = found.std > 1e-9  # but for sets of one member
    assert wide.sum() > 10
    assert (found.lower[wide] < found.mean[wide]).all()
    assert (found.upper[wide] > found.mean[wide]).all()
    wider = model.intervals(sets.x, level=0.95, groups=groups)
    assert (wider.upper[wide] > found.upper[wide]).all()


# --- studies, files, shell and API ----------------------------------------------------------------


@pytest.fixture(params=["auto", "fourier", "given"])
def study(request, tmp_path):
    sets, y_bar = problem()
    model = sw.AggregateRegressor(**MODELS[request.param])
    with sw.create_study(tmp_path / "s.db", sets, model=model) as made:
        for name, total in zip("gdafbce", y_bar[[6, 3, 0, 5, 1, 2, 4]], strict=True):
            made.tell(name, float(total))
        yield made


def test_a_study_predicts_members_and_sets_as_measured(study):
    sets, y_bar = problem()
    add_up(sets, study.predict().mean, y_bar)
    found = study.predict_sets()
    assert_allclose(found.mean[:N_SEEN], y_bar[:N_SEEN], rtol=1e-8)
    for ends in (found.lower, found.upper, found.std + found.mean):
        assert_allclose(ends[:N_SEEN], y_bar[:N_SEEN], rtol=1e-4)
    assert (found.upper > found.lower)[N_SEEN:].all()
    frame = pd.DataFrame(sets.x)
    again = study.predict(frame, groups=owners(sets))
    assert_allclose(again.mean, study.predict().mean, rtol=1e-8)
    assert_allclose(again.upper, study.predict().upper, rtol=1e-6)


def test_the_shell_says_the_same(study, tmp_path):
    sets, y_bar = problem()
    out = tmp_path / "members.parquet"

    def run(*words):
        done = CliRunner().invoke(main, [str(word) for word in words])
        assert done.exit_code == 0, done.output
        return done.output

    run("predict", tmp_path / "s.db", "-o", out)
    add_up(sets, pq.read_table(out)["mean"].to_numpy(), y_bar)
    run("predict", tmp_path / "s.db", "--sets", "-o", tmp_path / "sets.parquet")
    found = pq.read_table(tmp_path / "sets.parquet")
    assert_allclose(found["mean"].to_numpy()[:N_SEEN], y_bar[:N_SEEN], rtol=1e-8)


def test_the_page_and_the_api_say_the_same(study):
    web = pytest.importorskip("sumwise.web")
    from tests.web.apps import client_of, got

    sets, y_bar = problem()
    client = client_of(web.create_app(study))
    rows = got(client.get("/api/individuals", params={"size": 100}))["rows"]
    expected = {(row["set"]["id"], row["row"]): row["mean"] for row in rows}
    pairs = [(name, n + 1) for a, name in enumerate(sets.ids) for n in range(sets.sizes[a])]
    assert len(expected) == len(sets.x), json.dumps(rows)[:500]
    add_up(sets, np.array([expected[pair] for pair in pairs]), y_bar)
    listed = {row["id"]: row for row in got(client.get("/api/sets", params={"size": 100}))["rows"]}
    assert_allclose([listed[name]["expected"] for name in "abcdefg"], y_bar[:N_SEEN], rtol=1e-8)
    # the twins have weights of their own, on whatever page they are
    few = []
    for page in range(1, len(sets.x) + 1):
        part = got(client.get("/api/individuals", params={"size": 1, "page": page}))["rows"]
        few += part
    for row in few:
        assert row["mean"] == pytest.approx(expected[row["set"]["id"], row["row"]], rel=1e-9)


@pytest.mark.parametrize("kind", ["auto", "fourier", "given"])
@pytest.mark.parametrize("weights", ["own", "mean", "sum"])
def test_streams_of_parquet_files_say_the_same(kind, weights, tmp_path):
    sets, y_bar = problem(weights)
    folder = parquet.write(parquet.table_of(sets), tmp_path / "in", cuts=(9, 17))
    scan = parquet.scan(folder, weights={"own": "theta"}.get(weights, weights))
    model = fitted(kind, scan.read() if hasattr(scan, "read") else sets, y_bar)
    model.predict_parquet(scan, tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    add_up(sets, found["mean"].to_numpy(), y_bar)
    assert found["upper"].to_numpy()[0] == pytest.approx(found["mean"].to_numpy()[0], rel=1e-4)


def test_rows_in_single_precision_are_the_members_they_were_rounded_from():
    rng = np.random.default_rng(0)
    sets = sw.Sets.from_arrays([rng.normal(size=(n, 2)) for n in (3, 1, 4)], ids=list("abc"))
    model = sw.AggregateRegressor().fit(sets, [5.0, -1.0, 9.0])
    groups = np.repeat(list("abc"), sets.sizes)
    exact, order = model.predict(sets.x, groups=groups), rng.permutation(len(groups))
    rounded = sets.x.astype(np.float32)[order]
    assert_allclose(model.predict(rounded, groups=groups[order]), exact[order], atol=1e-5)
    near = np.nextafter(sets.x[3], 9.0)[None]  # another individual, if the member is there too
    both = model.predict(np.vstack([near, sets.x[3:4]]), groups=["b", "b"])
    assert both[1] == pytest.approx(-1.0)
    assert abs(both[0] + 1.0) > 0.1


@pytest.mark.parametrize("groups", [[["a"]] * 2, np.array([["a"], ["a"]]), {0: "a", 1: "a"}])
def test_groups_that_are_no_list_of_ids_are_refused(groups):
    sets = sw.Sets.from_arrays([[[0.0], [1.0]], [[2.0]]], ids=["a", "b"])
    model = sw.AggregateRegressor().fit(sets, [5.0, -1.0])
    with pytest.raises(sw.SumwiseError, match="give the id of a set for each row"):
        model.predict(sets.x[:2], groups=groups)


def test_a_learner_uses_the_set_column_of_a_table_by_itself():
    frame = pd.DataFrame({"g": [1, 1, 2, 2, 3, 3], "x": np.arange(6.0)})
    sets = sw.Sets.from_frame(frame, by="g", x=["x"])
    learner = sw.ActiveLearner(sets, model=sw.AggregateRegressor("linear"))
    learner.tell(1, 30.0)
    learner.tell(2, 10.0)
    learner.tell(3, 20.0)
    assert learner.predict(frame).mean[:2].sum() == pytest.approx(30)
    as_text = learner.predict(frame.assign(g=frame["g"].astype(str)))
    np.testing.assert_allclose(as_text.mean, learner.predict(frame).mean)
    assert learner.predict(frame[["x"]]).mean[:2].sum() != pytest.approx(30)


@pytest.mark.parametrize("basis", ["auto", "linear"])
def test_the_rounding_of_an_individual_that_is_known_is_no_uncertainty(basis):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"g": np.repeat(range(8), 4), "id": range(32), "x": rng.normal(size=32)})
    sets = sw.Sets.from_frame(frame, by="g", x="x", id="id")
    known = pd.DataFrame({"id": [0, 5, 9, 20], "y": [50.0, 60.0, 72.0, 41.0]})
    learner = sw.ActiveLearner(sets, model=sw.AggregateRegressor(basis), known=known)
    learner.tell(1, 210.0)
    std = learner.predict().std
    assert (std[known["id"]] == 0).all()
    assert (np.delete(std, known["id"]) > 0.01).all()
