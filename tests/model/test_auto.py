"""basis="auto" in the loop and in studies: kept as drawn, the same after a restart."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.model.design import embed
from sumwise.model.fit import ModelConfig
from sumwise.model.serialize import pack_prepared, unpack_prepared
from sumwise.study.storage import blobs
from tests.builders import smooth_problem


@pytest.mark.parametrize("strategy", ["AggMI", "IVR", "EPIG"])
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
    mean = study.predict().mean
    groups = np.repeat(sets.ids, sets.sizes)
    assert_allclose(mean, learner.model.predict(sets.x, groups=groups), rtol=1e-9)
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
