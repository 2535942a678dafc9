"""What a study keeps comes back to the bit, and what was tampered with is refused."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import sumwise as sw
from sumwise.model import fit as core
from sumwise.model import serialize
from sumwise.study.storage import blobs, id_json
from tests.builders import random_sets

plain_names = (
    st.text()
    | st.integers()
    | st.booleans()
    | st.none()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.dates()
    | st.datetimes(timezones=st.none() | st.just(datetime.UTC))
)


@given(
    st.recursive(plain_names, lambda parts: st.lists(parts, max_size=4).map(tuple), max_leaves=6)
)
def test_a_name_comes_back_as_it_was(name):
    back = id_json.from_json(id_json.to_json(name))
    assert back == name
    assert type(back) is type(name)


@pytest.mark.parametrize("name", [np.int64(3), np.float64(0.1), np.str_("a"), np.bool_(True)])
def test_numpy_values_come_back_as_equal_plain_ones(name):
    assert id_json.from_json(id_json.to_json(name)) == name


def test_numpy_and_pandas_times_come_back():
    for name in (np.datetime64("2020-01-02"), pd.Timestamp("2020-01-02 03:04")):
        assert id_json.from_json(id_json.to_json(name)) == name


@pytest.mark.parametrize("name", [object(), frozenset({1}), b"bytes", float("inf"), 1j])
def test_other_names_are_refused(name):
    with pytest.raises(sw.InvalidSetError, match="cannot be kept in a study"):
        id_json.to_json(name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1,2",
        "{",
        "[1]",
        "1.5",
        '{"real":1}',
        '{"code":"x"}',
        "{}",
        '{"a":1,"b":2}',
        '{"tuple":1}',
    ],
)
def test_text_that_is_no_name_is_refused(text):
    with pytest.raises(sw.DataError, match=r"is not a (list of )?stored id"):
        id_json.from_json(text)


# --- sets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_inputs", [1, 3])
def test_sets_come_back_to_the_bit(n_inputs):
    ids = ["a", 7, (2.5, "b"), "ü\u202e<script>", ""]
    sets = random_sets([1, 4, 2, 3, 1], np.random.default_rng(0), n_inputs, ids)
    back = blobs.unpack_sets(blobs.pack_sets(sets))
    assert back.ids == sets.ids
    for part in ("x", "theta", "starts"):
        assert_array_equal(getattr(back, part), getattr(sets, part))
    assert back.input_names is None


def test_input_names_are_kept():
    frame = pd.DataFrame({"g": ["a", "b"], "age": [1.0, 2.0], 5: [3.0, 4.0]})
    sets = sw.Sets.from_frame(frame, by="g", x=["age", 5])
    assert blobs.unpack_sets(blobs.pack_sets(sets)).input_names == ("age", 5)


@pytest.mark.parametrize("spoil", [lambda b: b"", lambda b: b[:-20], lambda b: b"x" * len(b)])
def test_spoilt_sets_are_refused(spoil):
    kept = blobs.pack_sets(random_sets([1, 2], np.random.default_rng(0)))
    with pytest.raises(sw.DataError, match="sets cannot be read"):
        blobs.unpack_sets(spoil(kept))


# --- models ---------------------------------------------------------------------------------------

CONFIGS = [
    core.ModelConfig(),
    core.ModelConfig("linear", hyperparameters=(0.5, 20.0)),
    core.ModelConfig("polynomial", degree=3, standardize=False),
    core.ModelConfig("fourier", n_basis=16, hyperparameters="adam", random_state=9),
    core.ModelConfig(sw.Neural(width=4, depth=2, n_basis=6, epochs=5), random_state=3),
    core.ModelConfig(sw.Neural(width=4, depth=2, n_basis=6, dropout=0.2, samples=7)),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: repr(config.basis))
def test_a_model_comes_back_and_predicts_the_same(config):
    sets = random_sets([2, 3, 1, 4], np.random.default_rng(1))
    prepared = config.prepare(sets)
    again = serialize.unpack_config(serialize.pack_config(config))
    assert repr(again) == repr(config)
    back = serialize.unpack_prepared(serialize.pack_prepared(prepared), again, sets)
    assert_array_equal(back.basis(sets.x), prepared.basis(sets.x))
    assert (back.power, back.start) == (prepared.power, prepared.start)


def test_what_was_drawn_is_kept_and_not_drawn_again():
    """Settings with another seed stand for a NumPy whose generators have changed."""
    sets = random_sets([2, 3, 1, 4], np.random.default_rng(1))
    for config in CONFIGS[3:5]:
        prepared = config.prepare(sets)
        other = core.ModelConfig(config.basis, n_basis=config.n_basis, random_state=1234)
        back = serialize.unpack_prepared(serialize.pack_prepared(prepared), other, sets)
        assert_array_equal(back.basis(sets.x), prepared.basis(sets.x))


@pytest.mark.parametrize("basis", [lambda x: x, sw.Neural(network=len, parameters=1.0)])
def test_code_of_the_users_own_is_refused(basis):
    with pytest.raises(sw.SettingError, match="is your own code"):
        serialize.pack_config(core.ModelConfig(basis))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"basis": "fourier", "colour": 1}', "null"])
def test_settings_that_make_no_sense_are_refused(text):
    with pytest.raises(sw.DataError, match="model settings cannot be read"):
        serialize.unpack_config(text)


@pytest.mark.parametrize("kept", [b"", b"PK", b"x" * 100])
def test_a_spoilt_basis_is_refused(kept):
    sets = random_sets([2], np.random.default_rng(0))
    with pytest.raises(sw.DataError, match="basis cannot be read"):
        serialize.unpack_prepared(kept, core.ModelConfig(), sets)
