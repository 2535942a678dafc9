"""`Neural`, what is refused of it, and what happens without JAX."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
from sklearn.base import clone

from sumwise import AggregateRegressor, Neural, SettingError, SumwiseError
from tests.marks import slow
from tests.networks import TINY, problem


def test_the_defaults_are_the_papers():
    paper = {"width": 32, "depth": 4, "n_basis": 128, "epochs": 1000, "learning_rate": 1e-3}
    for name, value in paper.items():
        assert getattr(Neural(), name) == value
    assert Neural().dropout == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width is 0; give a whole number from 1 to 100000"),
        ({"width": 2.0}, "width is 2.0; give a whole number"),
        ({"width": True}, "width is True; give a whole number"),
        ({"width": 100_001}, "width is 100001; give a whole number from 1 to 100000"),
        ({"depth": 0}, "depth is 0; give a whole number from 1 to 100"),
        ({"depth": "4"}, "depth is '4'; give a whole number"),
        ({"n_basis": -1}, "n_basis is -1; give a whole number from 1 to"),
        ({"n_basis": None}, "n_basis is None; give a whole number"),
        ({"epochs": -1}, "epochs is -1; give a whole number from 0 to"),
        ({"epochs": 1e3}, "epochs is 1000.0; give a whole number"),
        ({"samples": 1}, "samples is 1; give a whole number from 2 to"),
        ({"learning_rate": 0}, "learning_rate is 0; give a number from"),
        ({"learning_rate": 11.0}, "learning_rate is 11.0; give a number from 1e-30 to 10"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast'; give a number"),
        ({"learning_rate": True}, "learning_rate is True; give a number"),
        ({"dropout": -0.1}, "dropout is -0.1; give a number from 0"),
        ({"dropout": 1.0}, "dropout is 1.0; give a number from 0 to 0.95"),
        ({"dropout": float("nan")}, "dropout is nan"),
        ({"dropout": "some"}, "dropout is 'some'; give a number"),
        ({"activation": "swish"}, "activation is 'swish'; give relu, tanh, gelu, silu, softplus"),
        ({"activation": None}, "activation is None; give relu"),
        ({"dtype": "float16"}, "dtype is 'float16'; give float32, float64"),
        ({"dtype": np.float64}, "dtype is .*; give float32, float64"),
        ({"network": 3}, "network is 3; give an Equinox module, or a function of"),
        ({"parameters": [1.0]}, "parameters were given without the network they belong to"),
        ({"network": abs, "dropout": 0.1}, "dropout is built into our own network only"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(SettingError, match=f"^{message}"):
        Neural(**options)


def test_the_ends_of_every_range_are_fine():
    Neural(width=1, depth=1, n_basis=1, epochs=0, samples=2, learning_rate=10, dropout=0)
    Neural(width=np.int64(3), epochs=np.int32(5), learning_rate=np.float32(0.1), dropout=0.95)


def test_repr_shows_what_differs_from_the_default():
    assert repr(Neural()) == "Neural()"
    assert repr(Neural(width=32, epochs=300)) == "Neural(epochs=300)"
    assert repr(Neural(activation="tanh", dropout=0.1)) == "Neural(activation='tanh', dropout=0.1)"
    assert repr(AggregateRegressor(TINY)) == (
        "AggregateRegressor(basis=Neural(width=4, depth=2, n_basis=6, epochs=30))"
    )
    assert "parameters=array([1., 2.])" in repr(Neural(network=abs, parameters=np.array([1.0, 2])))


def test_clones_and_parameters_are_those_of_scikit_learn():
    model = AggregateRegressor(TINY, random_state=3)
    assert model.get_params()["basis"] is TINY
    again = AggregateRegressor(**model.get_params())
    assert again.basis is TINY
    cloned = clone(model)
    assert repr(cloned) == repr(model)
    assert cloned.get_params().keys() == model.get_params().keys()
    for field in fields(Neural):
        assert getattr(cloned.basis, field.name) == getattr(TINY, field.name)
    model.set_params(basis=replace(TINY, epochs=1))
    assert model.basis.epochs == 1
    assert cloned.basis.epochs == 30


def test_a_clone_learns_the_same():
    sets, y_bar = problem()
    model = AggregateRegressor(TINY).fit(sets, y_bar)
    assert (clone(model).fit(sets, y_bar).predict(sets.x) == model.predict(sets.x)).all()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])  # noqa: S301
def test_a_trained_model_can_be_copied(copied):
    sets, y_bar = problem()
    model = AggregateRegressor(TINY).fit(sets, y_bar)
    assert (copied(model).predict(sets.x) == model.predict(sets.x)).all()


WITHOUT = """
import sys
import numpy as np
import sumwise as sw

assert not {"jax", "jaxlib", "equinox", "optax"} & set(sys.modules), "loaded too soon"
sys.modules[MISSING] = None  # as if it were not installed

sets = sw.Sets.from_arrays([np.array([[float(n)]]) for n in range(3)])
assert np.isfinite(sw.AggregateRegressor().fit(sets, [1.0, 2.0, 3.0]).predict([[0.5]])).all()
sw.Neural(width=4)
sw.AggregateRegressor(sw.Neural(width=4))
for attempt in (
    lambda: sw.AggregateRegressor("neural").fit(sets, [1.0, 2.0, 3.0]),
    lambda: sw.AggregateRegressor(sw.Neural(dropout=0.1)).fit(sets, [1.0, 2.0, 3.0]),
    lambda: sw.ActiveLearner(sets, model=sw.AggregateRegressor("neural")),
    lambda: sw.ActiveLearner(sets, model=sw.AggregateRegressor("neural"), strategy="DAMI"),
):
    try:
        attempt()
    except sw.MissingExtraError as error:
        print(error)
"""


@pytest.mark.parametrize("missing", ["jax", *slow("optax")])
def test_without_jax_all_else_works_and_a_network_says_what_to_install(missing):
    command = [sys.executable, "-c", WITHOUT.replace("MISSING", repr(missing))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (
        done.stdout.splitlines()
        == [
            f"a neural basis needs {missing}, which is not installed. "
            "Run: pip install 'sumwise[neural]'"
        ]
        * 4
    )


def test_precisions_that_are_given_stay_as_they_are():
    model = AggregateRegressor(TINY, hyperparameters=(0.3, 7.0)).fit(*problem())
    assert (model.prior_precision_, model.noise_precision_) == (0.3, 7.0)


def test_parameters_that_are_not_numbers_are_refused():
    settings = Neural(network=lambda p, row: row, parameters={"weight": "heavy"})
    with pytest.raises(SettingError, match="parameters of the network are not all real numbers"):
        AggregateRegressor(settings).fit(*problem())


@pytest.mark.parametrize("leaf", [1j, np.ones(2) * 1j, "text", object(), np.array(["a"])])
def test_parameters_that_are_not_real_are_refused(leaf):
    settings = Neural(network=lambda p, row: row, parameters={"weight": leaf, "bias": 1.0})
    with pytest.raises(SettingError, match="not all real numbers"):
        AggregateRegressor(settings).fit(*problem())


@pytest.mark.parametrize("nothing", [{}, {"a": None}, {"a": np.arange(3)}])
def test_a_network_without_anything_to_train_is_refused(nothing):
    settings = Neural(network=lambda p, row: row, parameters=nothing)
    with pytest.raises(SettingError, match="no real numbers that could be trained"):
        AggregateRegressor(settings).fit(*problem())


def test_numbers_wider_than_jax_are_taken():
    wide = Neural(
        network=lambda p, row: row * p, parameters=np.longdouble(2), epochs=2, learning_rate=1
    )
    model = AggregateRegressor(replace(wide, learning_rate=np.longdouble(1))).fit(*problem())
    assert np.isfinite(model.predict(problem()[0].x)).all()


@pytest.mark.slow  # test_neural_networks has a quick one
def test_weights_spoilt_by_the_last_step_are_noticed():
    """The slope of √0 is infinite, and times 0 it is no number, while the loss was one."""
    import jax.numpy as jnp

    settings = Neural(
        network=lambda p, row: row * (1 + jnp.sqrt(0.0 * p)), parameters=1.0, epochs=1
    )
    with pytest.raises(SumwiseError, match="epoch 1 of 1"):
        AggregateRegressor(settings).fit(*problem())


def test_draws_far_from_the_data_are_refused_like_predictions():
    sets, y_bar = problem()
    model = AggregateRegressor(TINY).fit(sets, y_bar)
    with pytest.raises(SumwiseError, match="row 0 has no finite prediction"):
        model.sample_y(np.full((1, sets.n_inputs), 1e39))


@pytest.mark.parametrize(
    ("setting", "value"),
    [("jax_numpy_dtype_promotion", "strict"), ("jax_numpy_rank_promotion", "raise")],
)
@pytest.mark.parametrize("dropout", [0.0, *slow(0.1)])
def test_strict_settings_of_the_users_own_do_not_matter(setting, value, dropout):
    import jax

    before = getattr(jax.config, setting)
    jax.config.update(setting, value)
    try:
        sets, y_bar = problem()
        model = AggregateRegressor(replace(TINY, dropout=dropout, width=3)).fit(sets, y_bar)
        assert np.isfinite(model.predict(sets.x)).all()
        assert getattr(jax.config, setting) == value
    finally:
        jax.config.update(setting, before)
