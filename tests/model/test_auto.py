"""basis="auto" in the loop and in studies: kept as drawn, the same after a restart."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.model.basis.auto import OF_CURVES, OF_HYPOTHESES
from sumwise.model.design import embed
from sumwise.model.fit import ModelConfig
from sumwise.model.serialize import from_bytes, pack_prepared, to_bytes, unpack_prepared
from sumwise.study.storage import blobs
from tests.builders import former_auto, smooth_problem
from tests.marks import slow


@pytest.mark.parametrize("strategy", ["IVR", *slow("AggMI", "EPIG")])
def test_a_study_asks_what_a_learner_asks_and_goes_on_after_a_restart(tmp_path, strategy):
    sets, _, y_bar = smooth_problem()
    model = sw.AggregateRegressor("auto")
    learner = sw.ActiveLearner(sets, model=model, strategy=strategy, seed=3)
    expected = []
    for _ in range(8):
        asked = learner.ask().set_id
        expected.append(asked)
        learner.tell(asked, float(y_bar[sets.position(asked)]))
    path, got = tmp_path / "s.db", []
    study = sw.create_study(path, sets, model=model, strategy=strategy, seed=3)
    for _ in range(8):
        asked = study.ask().set_id
        got.append(asked)
        study.tell(asked, float(y_bar[sets.position(asked)]))
        study.close()
        study = sw.open_study(path)
    assert got == expected
    found = study.predict()
    assert_allclose(found.mean, learner.model.predict(sets.x, groups=found.ids), rtol=1e-9)
    assert study.model.summary() == learner.model.summary()
    assert len(study.insight().steps) == 8
    study.close()


def test_what_was_drawn_is_kept_to_the_bit():
    sets, _, _ = smooth_problem()
    config = ModelConfig(basis="auto", n_basis=20)
    prepared = config.prepare(sets)
    again = unpack_prepared(pack_prepared(prepared), config, sets)
    assert (again.basis(sets.x) == prepared.basis(sets.x)).all()
    assert again.power == prepared.power
    stored, drawn = again.basis.arrays(), prepared.basis.arrays()
    assert stored.keys() == drawn.keys() > OF_HYPOTHESES | OF_CURVES
    assert all(stored[name].tobytes() == drawn[name].tobytes() for name in drawn)


def two_inputs_of_three():
    sets = smooth_problem()[0][:20]
    x = np.column_stack([sets.x, np.full(len(sets.x), 3.0)])  # the last input does not vary
    return sw.Sets(sets.ids, x, sets.theta, sets.starts)


def as_former(config, sets, names):
    """What was stored of a basis without curves and centred waves, and its features."""
    prepared = config.prepare(sets)
    arrays, features = former_auto(prepared.basis, sets.x, n_waves=10)
    kept = {name: array for name, array in arrays.items() if name not in names}
    stored = from_bytes(pack_prepared(prepared), "what was drawn")
    stored = {name: array for name, array in stored.items() if not name.startswith("auto_")}
    return to_bytes(stored | kept), arrays, features


@pytest.mark.parametrize("random_state", [None, 0, 7])
def test_an_archive_of_former_versions_gets_hypotheses_for_its_sets(random_state):
    sets = two_inputs_of_three()
    config = ModelConfig(n_basis=20, random_state=random_state)
    former, arrays, features = as_former(config, sets, OF_HYPOTHESES)
    got, again = (unpack_prepared(former, config, sets).basis for _ in range(2))
    assert got.same_as(again)
    assert_allclose(got(sets.x), features, rtol=1e-12, atol=1e-13)
    assert_allclose(got.basis.power, arrays["auto_power"], rtol=1e-9)
    assert got.basis.variances.shape == (400, len(got.basis.groups)) == (400, 6 + 6 + 1)
    by_group = [(got(sets.x)[:, at] ** 2).sum(axis=1) for at in got.basis.groups[:-1]]
    signal = got.basis.variances[:, :-1] @ np.mean(by_group, axis=1)
    assert_allclose(signal, 1 - got.basis.noise, rtol=1e-9)  # of the variance of an individual


def test_an_archive_without_curves_keeps_its_features_and_its_hypotheses():
    sets = two_inputs_of_three()
    config = ModelConfig(n_basis=20)
    former, arrays, features = as_former(config, sets, ())
    basis = unpack_prepared(former, config, sets).basis
    assert_allclose(basis(sets.x), features, rtol=1e-12, atol=1e-13)
    assert (basis.basis.variances == arrays["auto_variances"]).all()
    plain, compiled = (embed(sets, basis, compiled=c) for c in (False, True))
    expected = np.add.reduceat(sets.theta[:, None] * features, sets.starts[:-1])
    assert_allclose(plain.u, expected, rtol=1e-11, atol=1e-12)
    assert_allclose(compiled.u, expected, rtol=1e-11, atol=1e-12)
    stored = basis.arrays()
    assert stored.keys() > OF_CURVES
    again = unpack_prepared(to_bytes(from_bytes(former, "it") | stored), config, sets).basis
    assert again.same_as(basis)  # once it is stored anew


def test_an_archive_with_half_of_the_hypotheses_is_refused():
    sets, _, _ = smooth_problem()
    config = ModelConfig(n_basis=20)
    arrays = from_bytes(pack_prepared(config.prepare(sets)), "what was drawn")
    for name in ("auto_noise", "auto_phases", "auto_curve", "auto_means"):
        rest = {key: array for key, array in arrays.items() if key != name}
        with pytest.raises(sw.DataError, match=f"basis cannot be read .*{name}"):
            unpack_prepared(to_bytes(rest), config, sets)


def test_a_large_study_keeps_its_design(tmp_path, monkeypatch):
    monkeypatch.setattr(blobs, "LARGE", 0)
    sets, _, y_bar = smooth_problem()
    model = sw.AggregateRegressor("auto", n_basis=16)
    study = sw.create_study(tmp_path / "large.db", sets, model=model, strategy="IVR")
    learner = sw.ActiveLearner(sets, model=model, strategy="IVR")
    for _ in range(3):
        assert study.ask().set_id == learner.ask().set_id
        asked = learner.ask().set_id
        learner.tell(asked, float(y_bar[sets.position(asked)]))
        study.tell(asked, float(y_bar[sets.position(asked)]))
    study.close()


def test_it_is_cheap_enough_to_be_fitted_again_and_does_not_depend_on_order():
    sets, _, y_bar = smooth_problem()
    order = np.random.default_rng(0).permutation(20)
    one = sw.AggregateRegressor("auto").fit(sets[:20], y_bar[:20], pool=sets)
    other = sw.AggregateRegressor("auto").fit(sets.take(order), y_bar[order], pool=sets)
    assert_allclose(one.predict(sets.x), other.predict(sets.x), rtol=1e-6)


def test_defaults_are_what_wins_and_the_papers_are_one_word_away():
    sets, _, _ = smooth_problem()
    plain, paper = sw.ActiveLearner(sets), sw.ActiveLearner(sets, preset="paper")
    assert "strategy 'IVR', AggregateRegressor()" in repr(plain)
    assert "strategy 'AggMI'" in repr(paper)
    assert paper.model.get_params()["basis"] == "fourier"


def test_the_lengthscale_is_a_unit_for_those_that_are_chosen_from():
    sets, _, y_bar = smooth_problem()
    once, twice = (
        sw.AggregateRegressor(lengthscale=unit).fit(sets[:1], [1.0]).fitted().basis.basis
        for unit in (1.0, 2.0)
    )
    assert_allclose(once.frequencies, 2 * twice.frequencies)
    words = sw.AggregateRegressor(lengthscale=3.0).fit(sets[:9], y_bar[:9], pool=sets).summary()
    assert "% at 1.5√D" in words
    assert "% at 6√D" in words


def test_nothing_changes_from_half_a_range_beyond_all_individuals_on():
    sets, _, _ = smooth_problem()
    basis = ModelConfig(n_basis=8).prepare(sets).basis
    low, high = sets.x.min(axis=0), sets.x.max(axis=0)
    ends = np.array([high + share * (high - low) for share in (0.4, 0.5, 0.6, 1e3)])
    near, border, far, farther = basis.basis.scaled((ends - basis.shift) / basis.scale)[0]
    assert_allclose(far, border)
    assert_allclose(farther, border)
    assert (near < border).all()


def test_compiled_sums_are_those_of_the_features():
    sets, _, _ = smooth_problem()
    basis = ModelConfig(n_basis=30).prepare(sets).basis
    plain, compiled = (embed(sets, basis, compiled=c) for c in (False, True))
    assert_allclose(compiled.u, plain.u, rtol=1e-11, atol=1e-12)
