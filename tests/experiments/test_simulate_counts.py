"""Simulations of counts and of shares, from Python and from the shell."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sumwise as sw
from sumwise.errors import LabelError, SettingError
from tests.cli.test_simulate import run
from tests.study.test_counts_study import areas

FEW = {"by": "county", "x": ["age"], "methods": ["IVR"], "splits": 2, "queries": 6}


def test_counts_are_simulated_with_their_exposures_and_beat_guessing():
    found = sw.simulate(areas(25), y="deaths", outputs="counts", exposure="people", **FEW)
    last = {row["strategy"]: row["last_error"] for row in found.table}
    assert set(last) == {"IVR", "Rand"}
    assert last["IVR"] < 0.8 * found.simulation.guess_error
    assert found.simulation.usual == "rate"
    plain = sw.simulate(areas(25), y="deaths", **FEW)  # which does not know the populations
    assert plain.simulation.usual == "mean"
    assert last["IVR"] < 0.5 * {row["strategy"]: row["last_error"] for row in plain.table}["IVR"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"outputs": "counts", "y": "age", "x": ["people"]}, "give the count, not the rate"),
        ({"outputs": "shares", "y": "people", "trials": "deaths"}, "more successes than trials"),
        ({"outputs": "counts", "y": "deaths", "weights": "mean"}, "are told as sums"),
        ({"y": "deaths", "exposure": "people"}, "go with outputs of counts"),
        ({"outputs": "ranks", "y": "deaths"}, "give one of numbers, counts, shares, amounts"),
        ({"y": "deaths", "exposure": "people", "trials": "people"}, "give one of them"),
        ({"y": "deaths", "exposures": "people"}, "simulate has no argument 'exposures'"),
    ],
)
def test_what_cannot_be_simulated_is_refused_in_words(given, words):
    frame = areas(25).assign(deaths=lambda f: f.deaths + 1)
    with pytest.raises((SettingError, LabelError), match=words):
        sw.simulate(frame, **{**FEW, **given})


def test_the_shell_simulates_shares(tmp_path):
    areas(20).to_csv(tmp_path / "areas.csv", index=False)
    given = ("--outputs", "shares", "--trials", "people", "--x", "age", "--methods", "IVR")
    asked = ("--by", "county", "--y", "deaths", "--splits", "1", "--queries", "4", "--jobs", "1")
    out = ("--out", tmp_path / "a.html", "--json")
    found = json.loads(run(tmp_path / "areas.csv", *asked, *given, *out).stdout)
    assert found["plan"]["outputs"] == "shares"
    assert np.isfinite(found["guess_error"])
    assert min(found["errors"]["IVR"][0]) < found["guess_error"]
