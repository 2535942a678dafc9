"""Networks at the edges: every strategy, kept weights, JAX that is not there, data of any scale."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sumwise as sw
from sumwise import Sets
from sumwise.acquisition.strategies import ACQUISITIONS
from tests.builders import totals
from tests.marks import slow
from tests.networks import TINY, problem, restored, state_of

R = sw.AggregateRegressor
EXACT = replace(TINY, dtype="float64")


@pytest.mark.parametrize("strategy", ACQUISITIONS)
def test_every_strategy_asks_and_learns_with_a_network(strategy):
    sets, y_bar = problem()
    model = R(replace(TINY, epochs=3, samples=5))
    learner = sw.ActiveLearner(sets, model, strategy)
    for _ in range(2):
        question = learner.ask()
        assert np.isfinite([question.score, question.expected, question.std]).all()
        learner.tell(question.set_id, float(y_bar[question.set_id]))
    assert len(learner.labels) == 2
    mean, std = learner.model.predict(sets.x, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert learner.model.basis.dropout == (0.1 if ACQUISITIONS[strategy].needs_dropout else 0.0)
    assert model.basis.dropout == 0  # the caller's stays as it was


# --- weights that are kept ------------------------------------------------------------------------


def drawn(seed=0, settings=TINY):
    return settings.draw(problem()[0], np.random.default_rng(seed))


@pytest.mark.parametrize("settings", [TINY, EXACT], ids=["float32", "float64"])
def test_kept_weights_give_the_same_features_and_training_bit_for_bit(settings):
    sets, y_bar = problem()
    basis = R(settings).fit(sets, y_bar).fitted().basis.basis
    again = restored(drawn(1, settings), state_of(basis))
    assert_array_equal(again(sets.x), basis(sets.x))
    assert state_of(again) == state_of(basis)
    further = [
        state_of(b.train(sets, y_bar[:, None], np.zeros(2), pull=None, fixed=False)[0])
        for b in (basis, again)
    ]
    assert further[0] == further[1]


def test_kept_weights_are_numbers_and_nothing_that_could_be_run():
    basis = drawn()
    network = basis.network
    with np.load(io.BytesIO(state_of(basis)), allow_pickle=False) as kept:
        arrays = [kept[name] for name in kept.files]
    for found, expected in zip(arrays, [*network.weights, *network.biases], strict=True):
        assert found.dtype == np.float32
        assert_array_equal(found, expected)


def test_weights_of_another_network_are_refused():
    for other in (replace(TINY, width=5), replace(TINY, depth=3), replace(TINY, n_basis=7), EXACT):
        with pytest.raises(sw.DataError, match="of another network: their shapes or precision"):
            restored(drawn(), state_of(drawn(0, other)))


def archive(**arrays) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def one_array() -> bytes:
    file = io.BytesIO()
    np.save(file, np.ones(3))
    return file.getvalue()


@pytest.mark.parametrize(
    "kept",
    [
        b"",
        b"garbage",
        b"PK\x03\x04 garbage",
        b"\x93NUMPY garbage",
        b"\x80\x04N.",  # a pickle
        bytes(1000),
        one_array(),
        archive(),
        archive(other=np.ones(3)),
        archive(arr_0=np.array([{}], dtype=object)),
    ],
)
def test_bytes_that_are_no_weights_are_refused(kept):
    with pytest.raises(sw.DataError, match="weights"):
        restored(drawn(), kept)


def test_truncated_weights_are_refused():
    whole = state_of(drawn())
    for length in range(0, len(whole), 23):
        with pytest.raises(sw.DataError, match="weights"):
            restored(drawn(), whole[:length])


def test_damaged_weights_are_refused_unless_nothing_was_lost():
    basis, rng = drawn(), np.random.default_rng(0)
    whole = state_of(basis)
    for position in range(0, len(whole), 11):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        try:
            again = restored(drawn(1), bytes(damaged))
        except sw.DataError:
            continue
        assert state_of(again) == whole


# --- without JAX ----------------------------------------------------------------------------------

WITHOUT_JAX = """
import sys
import sumwise as sw
sw.AggregateRegressor(sw.Neural(width=4))
assert not {"jax", "equinox", "optax"} & set(sys.modules)
sys.modules["jax"] = None
sets = sw.Sets.from_arrays([[[0.0], [1.0]], [[2.0]], [[3.0]]])
print(sw.AggregateRegressor("fourier", n_basis=8).fit(sets, [1.0, 2.0, 3.0]).predict([[1.0]]).shape)
for ask in (
    lambda: sw.AggregateRegressor("neural").fit(sets, [1.0, 2.0, 3.0]),
    lambda: sw.ActiveLearner(sets, sw.AggregateRegressor("neural"), "DAMI"),
):
    try:
        ask()
    except sw.MissingExtraError as error:
        print(error)
"""
COMMAND = """
import sys
sys.modules["jax"] = None
from sumwise.cli import main
main(sys.argv[1:])
"""
MESSAGE = "needs jax, which is not installed. Run: pip install 'sumwise[neural]'"


def python(program, *arguments):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_without_jax_all_else_works_and_a_network_names_the_extra():
    done = python(WITHOUT_JAX)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["(1,)", *[f"a neural basis {MESSAGE}"] * 2]


def test_without_jax_the_command_stops_before_it_does_anything(tmp_path):
    out = tmp_path / "out"
    done = python(COMMAND, "reproduce", "neural", "--data", tmp_path / "none", "--out", out)
    assert done.returncode == 1
    assert MESSAGE in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not out.exists()


# --- data of any scale ----------------------------------------------------------------------------


def arranged(kind) -> tuple[Sets, np.ndarray]:
    """Thirty individuals each, in up to 32 sets: trained in the same room as the problem."""
    sets, _ = problem()
    x, theta = sets.x.copy(), sets.theta
    if kind == "collinear":
        x[:, 1:] = x[:, :1] * [2.0, -0.5]
    if kind == "constant":
        x[:, 1] = 7.0
    if kind == "negative":
        theta = -abs(theta)
    if kind == "singles":
        sets = Sets(range(30), x, theta, np.arange(31))
    sets = Sets(sets.ids, x, theta, sets.starts)
    return sets, totals(sets, 3 + np.sin(2 * x[:, 0]) + x[:, 1])


@pytest.mark.parametrize("kind", ["plain", "collinear", "constant", "singles", "negative"])
@pytest.mark.parametrize(
    ("of_x", "of_y", "of_theta"),
    [(1e8, 1e-8, 1.0), (1e-8, 1e8, 1.0), (1e8, 1e8, 1e8), (1e-8, 1e-8, 1e-8)],
)
def test_predictions_scale_with_the_data(kind, of_x, of_y, of_theta):
    sets, y_bar = arranged(kind)
    model = R(EXACT).fit(sets, y_bar)
    mean, std = model.predict(sets.x, return_std=True)
    scaled = Sets(sets.ids, sets.x * of_x, sets.theta * of_theta, sets.starts)
    other = R(EXACT).fit(scaled, y_bar * of_y * of_theta)
    other_mean, other_std = other.predict(scaled.x, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert_allclose(other_mean / of_y, mean, rtol=1e-6, atol=1e-6)
    assert_allclose(other_std / of_y, std, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-8, *slow(1e8)])
def test_in_single_precision_predictions_scale_as_well_as_it_can_tell(scale):
    sets, y_bar = problem()
    mean = R(TINY).fit(sets, y_bar).predict(sets.x)
    scaled = replace(sets, x=sets.x * scale)
    assert_allclose(
        R(TINY).fit(scaled, y_bar / scale).predict(scaled.x) * scale, mean, rtol=1e-3, atol=1e-3
    )


def test_inputs_beyond_single_precision_are_refused_and_not_warned_of():
    sets, y_bar = problem()
    huge = replace(sets, x=sets.x * 1e200)
    with pytest.raises(sw.SettingError, match=r"not finite in set 0.*standardize=True"):
        R(TINY, standardize=False).fit(huge, y_bar)
    assert np.isfinite(R(TINY).fit(huge, y_bar).predict(huge.x)).all()
