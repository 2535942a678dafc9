"""Positions from the shell: recognised, from geometries, named and refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import shapely
from click.testing import CliRunner

import sumwise as sw
from sumwise.cli import main
from tests.cli.test_real_tables import write
from tests.data.test_geo import features, write_geojson


def run(*words, code=0):
    result = CliRunner(env={"COLUMNS": "300"}).invoke(main, list(map(str, words)))
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(0, 50, (24, 4)), columns=["a", "lat", "b", "lon"])
    frame.assign(g=[f"g{n % 6}" for n in range(24)]).to_csv(tmp_path / "d.csv", index=False)
    return tmp_path / "d.csv"


def position_in(study):
    """Names of the inputs that are a position, and in how many dimensions."""
    with sw.open_study(str(study)) as opened:
        place = opened.state.record.prepared.basis.basis.spatial
        names = opened.sets.input_names
        return None if place is None else ([names[d] for d in place.pair], len(place.centre))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), (["lon", "lat"], 3)),
        (("--spatial", "none"), None),
        (("--spatial", "b, a"), (["b", "a"], 2)),
        (("--not", "lat"), None),
    ],
)
def test_a_study_has_the_position_that_is_there_or_named(tmp_path, table, words, expected):
    study = tmp_path / "s.db"
    run("init", study, table, "--by", "g", *words)
    assert position_in(study) == expected
    asked = json.loads(run("ask", study, "--json").stdout)
    assert asked


def test_what_is_no_position_is_refused(tmp_path, table):
    made = ("init", tmp_path / "s.db", table, "--by", "g", "--spatial")
    said = " ".join(run(*made, "a,c", code=1).output.split())
    assert (
        "spatial names 'c', which is none of the inputs ['a', 'lat', 'b', 'lon']; name two" in said
    )
    assert "give two inputs' names" in " ".join(run(*made, "a", code=1).output.split())
    assert run(*made, "a,b", "--preset", "paper", code=1)
    assert "leave it out with" in " ".join(
        run(*made, "a,b", "--basis", "linear", code=1).output.split()
    )


def test_centroids_are_a_position_on_the_globe_or_in_a_plane(tmp_path):
    rng = np.random.default_rng(1)
    points = rng.uniform(0, 50, (12, 2))
    shapes = [f"POINT ({x} {y})" for x, y in points]
    data = write_geojson(tmp_path / "d.geojson", features(shapes))
    run("init", tmp_path / "globe.db", data, "--by", "g", "--centroid")
    assert position_in(tmp_path / "globe.db") == (["longitude", "latitude"], 3)
    frame = pd.DataFrame({"g": [f"g{n % 4}" for n in range(12)], "a": rng.normal(size=12)})
    write(tmp_path / "d.gpkg", frame, [shapely.Point(1e5 * x, 1e5 * y) for x, y in points])
    for words, expected in (((), (["x", "y"], 2)), (("--spatial", "none"), None)):
        study = tmp_path / f"plane{len(words)}.db"
        run("init", study, tmp_path / "d.gpkg", "--by", "g", "--centroid", *words)
        assert position_in(study) == expected
