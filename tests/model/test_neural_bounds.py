"""Settings of a network: what is taken if nothing is said, and the bounds of each."""

from __future__ import annotations

import math

import pytest

import sumwise as sw

DEFAULTS = {  # docs/neural.md has the figures of these
    "width": 32, "depth": 4, "n_basis": 128, "activation": "relu", "epochs": 1000,
    "learning_rate": 1e-3, "dtype": "float32", "dropout": 0.0, "samples": 50, "network": None,
    "parameters": None,
}  # fmt: skip
BOUNDS = {"width": (1, None), "depth": (1, 100), "n_basis": (1, None), "epochs": (0, 10**9),
          "samples": (2, None), "learning_rate": (1e-30, 10), "dropout": (0, 0.95)}  # fmt: skip


def test_a_network_of_which_nothing_is_said_has_the_documented_settings():
    made = sw.Neural()
    assert {name: getattr(made, name) for name in DEFAULTS} == DEFAULTS
    assert repr(made) == "Neural()"


@pytest.mark.parametrize("name", BOUNDS)
def test_a_setting_at_its_bound_is_taken_and_one_beyond_it_is_refused(name):
    low, high = BOUNDS[name]
    whole = isinstance(DEFAULTS[name], int)
    for bound, beyond in ((low, -math.inf), (high, math.inf)):
        if bound is None:
            continue
        made = sw.Neural(**{name: bound})
        assert getattr(made, name) == bound
        if bound != DEFAULTS[name]:
            assert repr(made) == f"Neural({name}={bound!r})"
        away = bound + math.copysign(1, beyond) if whole else math.nextafter(bound, beyond)
        with pytest.raises(sw.SettingError, match=name):
            sw.Neural(**{name: int(away) if whole else away})


@pytest.mark.parametrize("name", ["relu", "tanh", "gelu", "silu", "softplus", "elu"])
def test_every_documented_activation_is_taken(name):
    assert sw.Neural(activation=name).activation == name
    with pytest.raises(sw.SettingError, match=name):
        sw.Neural(activation=name + "s")
