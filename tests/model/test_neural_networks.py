"""Networks that users bring, settings of ours, and what is refused in which words."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import sumwise as sw
from sumwise import Neural
from sumwise.model.basis import with_dropout
from sumwise.model.basis.neural_config import ACTIVATIONS
from tests.networks import phi_by_hand, problem

R = sw.AggregateRegressor


def trained(model):
    return model.fitted().basis.basis


# --- networks that users bring --------------------------------------------------------------------


class Own(eqx.Module):
    """Arrays of NumPy and of JAX, whole numbers, a function, text and nothing at all."""

    weight: np.ndarray
    bias: jax.Array
    columns: np.ndarray  # whole numbers: not to be trained
    activation: Callable
    name: str
    slope: float
    nothing: None = None

    def __call__(self, row):
        return self.activation(self.weight @ row[self.columns] + self.slope * self.bias)


def own() -> Own:
    weight = np.random.default_rng(4).normal(size=(5, 3))
    return Own(weight, jnp.zeros(5), np.array([2, 0, 1]), jnp.tanh, "mine", 0.5)


def function(parameters, row):
    more = parameters["more"]
    return more["size"] * jnp.tanh(parameters["weight"] @ row + more["bias"])


def parameters() -> dict:
    weight = np.random.default_rng(4).normal(size=(5, 3))
    return {"weight": weight, "more": {"bias": np.zeros(5), "size": 1.0}}


def test_a_module_is_a_basis_and_a_network():
    sets, y_bar = problem()
    bare, wrapped = (R(basis).fit(sets, y_bar) for basis in (own(), Neural(network=own())))
    assert_array_equal(bare.predict(sets.x), wrapped.predict(sets.x))
    untrained = R(Neural(network=own(), epochs=0)).fit(sets, y_bar)
    assert bare.log_evidence_ > untrained.log_evidence_ + 1
    network = trained(bare).network
    assert (network.name, network.slope, network.activation) == ("mine", 0.5, jnp.tanh)
    assert_array_equal(network.columns, [2, 0, 1])
    assert abs(np.asarray(network.weight) - own().weight).max() > 0.01
    assert abs(np.asarray(network.bias)).max() > 0.01
    x = (sets.x - sets.x.mean(axis=0)) / sets.x.std(axis=0)
    by_hand = np.tanh(x[:, [2, 0, 1]] @ network.weight.T + 0.5 * np.asarray(network.bias))
    assert_allclose(trained(bare)(x), by_hand, atol=1e-6)


@pytest.mark.slow  # a module of one's own is quick
def test_a_module_of_equinox_is_a_basis():
    sets, y_bar = problem()
    network = eqx.nn.MLP(3, 6, 4, 1, key=jax.random.key(0))
    models = [R(Neural(network=network, epochs=n)).fit(sets, y_bar) for n in (0, 50)]
    assert models[1].log_evidence_ > models[0].log_evidence_
    assert np.isfinite(models[1].predict(sets.x)).all()


def test_a_function_with_parameters_is_a_network_and_they_stay_the_callers():
    sets, y_bar = problem()
    given = parameters()
    models = [
        R(Neural(network=function, parameters=given, epochs=n)).fit(sets, y_bar) for n in (0, 200)
    ]
    assert models[1].log_evidence_ > models[0].log_evidence_
    assert_array_equal(given["weight"], parameters()["weight"])
    assert_array_equal(given["more"]["bias"], 0.0)
    for model in models:
        learned = trained(model).network.args[0]
        x = (sets.x - sets.x.mean(axis=0)) / sets.x.std(axis=0)
        by_hand = np.tanh(x @ learned["weight"].T + np.asarray(learned["more"]["bias"]))
        assert_allclose(trained(model)(x), float(learned["more"]["size"]) * by_hand, atol=1e-6)
    assert abs(np.asarray(learned["weight"]) - given["weight"]).max() > 0.01
    assert abs(float(learned["more"]["size"]) - 1) > 0.01  # a plain number is a parameter too


def raises(parameters, row):
    raise RuntimeError("out of paint")


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (lambda p, row: p @ row, r"shape=\(\).*it must give a row of real features"),
        (lambda p, row: p * jnp.ones((2, 3)), r"\(2, 3\).*it must give a row"),
        (lambda p, row: (p * row)[:0], r"\(0,\).*it must give a row"),
        (lambda p, row: (p * row).astype(int), "int64.*a row of real features"),
        (lambda p, row: p * row * 1j, "complex.*a row of real features"),
        (lambda p, row: (p * row, row), "it must give a row of real features"),
        (lambda p, row: None, "None.*it must give a row of real features"),
        (lambda p, row: p[:2] @ row, "the network fails on a row of 3 inputs"),
        (lambda row: row, "the network fails on a row of 3 inputs: .*positional argument"),
        (raises, "the network fails on a row of 3 inputs: RuntimeError: out of paint"),
    ],
)
def test_a_network_of_the_wrong_kind_is_refused_in_words(network, words):
    sets, y_bar = problem()
    model = R(Neural(network=network, parameters=np.ones(3)))
    with pytest.raises(sw.SettingError, match=words):
        model.fit(sets, y_bar)


def test_a_module_of_the_wrong_kind_is_refused_too():
    sets, y_bar = problem()
    with pytest.raises(sw.SettingError, match="the network fails on a row of 3 inputs"):
        R(eqx.nn.Linear(2, 4, key=jax.random.key(0))).fit(sets, y_bar)
    with pytest.raises(sw.SettingError, match="must give a row of real features"):
        R(eqx.nn.Linear(3, "scalar", key=jax.random.key(0))).fit(sets, y_bar)


def test_a_function_without_parameters_is_refused_and_told_what_to_do():
    sets, y_bar = problem()
    with pytest.raises(sw.SettingError, match=r"nothing to train.*parameters=.*as the basis"):
        R(Neural(network=jnp.tanh)).fit(sets, y_bar)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_features_are_those_of_the_layers_by_hand(activation):
    sets, _ = problem()
    settings = Neural(width=4, depth=3, n_basis=6, activation=activation, dtype="float64")
    basis = settings.draw(sets, np.random.default_rng(0))
    assert_allclose(basis(sets.x), phi_by_hand(basis.network, sets.x), rtol=1e-12, atol=1e-14)


def test_layers_are_drawn_within_one_over_the_root_of_what_feeds_them():
    sets, _ = problem()
    settings = Neural(width=400, depth=3, n_basis=300, dtype="float64")
    network = settings.draw(sets, np.random.default_rng(0)).network
    assert [weight.shape for weight in network.weights] == [(400, 3), (400, 400), (300, 400)]
    for weight, bias in zip(network.weights, network.biases, strict=True):
        reach = weight.shape[1] ** -0.5
        assert bias.shape == weight.shape[:1]
        for drawn in (np.asarray(weight), np.asarray(bias)):
            assert abs(drawn).max() <= reach
            error = reach / np.sqrt(3 * drawn.size)  # standard error of the mean
            assert abs(drawn.mean()) < 5 * error
            assert abs(drawn).max() > 0.97 * reach
    assert len(Neural(depth=1).draw(sets, np.random.default_rng(0)).network.weights) == 1


# --- a loss that is not finite --------------------------------------------------------------------


def fenced(parameters, row):
    """Not a number once `weight` has moved further than `fence` tenths of a step."""
    far = abs(parameters["weight"][0, 0] - 1) > parameters["fence"] * 1e-4
    return jnp.where(far, jnp.nan, parameters["weight"] @ row)


def fence(tenths, epochs=9) -> Neural:
    given = {"weight": np.ones((4, 3)), "fence": np.array(tenths)}
    return Neural(network=fenced, parameters=given, epochs=epochs, learning_rate=1e-3)


STOPS = [(5, 2), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((15, 3), (55, 7)))]


@pytest.mark.parametrize(("tenths", "epoch"), STOPS)
def test_a_loss_that_is_not_finite_stops_at_its_epoch(tenths, epoch, monkeypatch):
    """Steps this small are all of the learning rate's length, for the slope hardly changes."""
    monkeypatch.setattr("sumwise.model.basis.training.EPOCHS_AT_ONCE", 4)
    sets, y_bar = problem()
    words = rf"at epoch {epoch} of 9: .*smaller learning_rate \(it is 0.001\).*dtype='float64'"
    with pytest.raises(sw.SumwiseError, match=words):
        R(fence(tenths)).fit(sets, y_bar)
    assert jnp.ones(1).dtype == np.float32


def test_a_network_that_leaves_the_finite_with_its_last_step_is_refused():
    sets, y_bar = problem()
    with pytest.raises(sw.SettingError, match="not finite in set 0"):
        R(fence(85)).fit(sets, y_bar)


def test_a_learner_whose_training_failed_is_as_before():
    sets, y_bar = problem()
    learner = sw.ActiveLearner(sets, R(fence(5)))
    question = learner.ask()
    with pytest.raises(sw.SumwiseError, match="at epoch 2 of 9"):
        learner.tell(question.set_id, float(y_bar[question.set_id]))
    assert (learner.labels, learner.history) == ({}, ())
    assert learner.ask() == question


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name in ("width", "depth", "n_basis") for value in (0, -1, True, 2.5, "4")]
    + [("width", 100_001), ("depth", 101), ("n_basis", None), ("samples", 1), ("samples", True)]
    + [("epochs", value) for value in (-1, True, 1e3, "many")]
    + [("learning_rate", value) for value in (0, -1e-3, np.nan, np.inf, 11, "x", True, None, 1j)]
    + [("learning_rate", np.complex128(1)), ("dropout", np.complex128(0.1))]
    + [("dropout", value) for value in (1, 0.96, -0.1, np.nan, "0.1", False, None)]
    + [("activation", value) for value in ("sine", "ReLU", None, 3, jnp.tanh)]
    + [("dtype", value) for value in ("float16", "double", None, np.float32)]
    + [("network", value) for value in ("MLP", 3, np.ones(3))],
)
def test_settings_that_make_no_sense_are_refused(name, value):
    with pytest.raises(sw.SettingError, match=f"{name} is .*give "):
        Neural(**{name: value})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"parameters": {"w": np.ones(3)}}, "parameters were given without the network"),
        ({"network": jnp.tanh, "dropout": 0.1}, "dropout is built into our own network only"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, words):
    with pytest.raises(sw.SettingError, match=words):
        Neural(**settings)


def test_whole_numbers_of_numpy_will_do():
    settings = Neural(width=np.int64(4), depth=np.int32(2), learning_rate=np.float32(0.5))
    assert settings.draw(problem()[0], np.random.default_rng(0)).network.weights[0].shape == (4, 3)


def test_what_is_shown_is_what_differs():
    assert repr(Neural()) == "Neural()"
    assert repr(Neural(width=32, epochs=3, dropout=0.2)) == "Neural(epochs=3, dropout=0.2)"
    assert repr(R(Neural(width=4))) == "AggregateRegressor(basis=Neural(width=4))"


@pytest.mark.parametrize("network", [None, own()], ids=["ours", "theirs"])
def test_a_model_with_a_network_can_be_cloned(network):
    model = R(Neural(width=4, depth=2, n_basis=6, epochs=7, network=network), random_state=3)
    copy = clone(model)
    assert copy is not model
    assert copy.random_state == 3
    assert copy.basis is not model.basis
    assert (copy.basis.width, copy.basis.epochs) == (4, 7)
    sets, y_bar = problem()
    ours, theirs = (each.fit(sets, y_bar).predict(sets.x) for each in (model, copy))
    assert_array_equal(ours, theirs)


def test_dropout_is_added_to_our_own_networks_only():
    assert repr(with_dropout("neural", 6)) == "Neural(n_basis=6, dropout=0.1)"
    assert repr(with_dropout(Neural(width=4), 6)) == "Neural(width=4, dropout=0.1)"
    assert repr(with_dropout(Neural(dropout=0.3), 6)) == "Neural(dropout=0.3)"
    for basis in ("fourier", own(), Neural(network=own()), np.cos):
        with pytest.raises(sw.SettingError, match=r"need a dropout network.*Neural\(dropout=0.1\)"):
            sw.ActiveLearner(problem()[0], R(basis), "DAMI")
