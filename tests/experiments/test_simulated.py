"""`sumwise.simulate` on a data frame."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd
import polars as pl
import pytest

import sumwise as sw
from sumwise.experiments import simulate as experiment
from sumwise.experiments.datasets import labelled_frame, read_labelled

WAY = {"by": ["state", "town"], "y": "income", "methods": ["IVR"], "splits": 2, "queries": 4}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"state": np.repeat([2, 1], 40), "town": rng.integers(0, 6, 80)})
    frame["age"], frame["kind"] = rng.uniform(20, 60, 80), rng.choice(["x", "y"], 80)
    frame["income"] = 2 * frame["age"] + rng.normal(size=80)
    return frame


def test_a_frame_gives_what_its_file_gives(frame, tmp_path):
    frame.to_csv(tmp_path / "towns.csv", index=False)
    file = read_labelled(tmp_path / "towns.csv", WAY["by"], "income")
    here = labelled_frame(frame, WAY["by"], "income")
    assert here.x == file.x == ("age", "kind")
    for name in ("x", "y", "group"):
        np.testing.assert_array_equal(getattr(here.data, name), getattr(file.data, name))
    found = sw.simulate(pl.from_pandas(frame), **WAY)
    plan = experiment.experiment(file, ["IVR"], 2, 4)
    errors = experiment.run(plan, experiment.splits_of(file)).errors
    np.testing.assert_array_equal(found.simulation.errors["IVR"], errors["IVR"])
    assert [row["strategy"] for row in found.table] in (["IVR", "Rand"], ["Rand", "IVR"])
    assert found.verdict.headline in repr(found)
    assert isinstance(found.plot(), alt.TopLevelMixin)
    assert "All strategies" in found._repr_mimebundle_()["text/html"]
    page = found.report(tmp_path / "simulation.html").read_text()
    assert found.verdict.headline in page


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"y": "town"}, "'town' is given as y and as by"),
        ({"y": "pay"}, "no column is called 'pay'|no column 'pay'|'pay'"),
        ({"methods": ["Best"]}, "no strategy is called 'Best'"),
        ({"methods": []}, "name a strategy besides Rand"),
        ({"weights": "age"}, "give 'sum' or 'mean'"),
        ({"splits": 0}, "splits is 0"),
        ({"queries": 100}, "100"),
    ],
)
def test_bad_wishes_are_refused(frame, change, said):
    with pytest.raises(sw.SumwiseError, match=said):
        sw.simulate(frame, **{**WAY, **change})


def test_what_is_no_frame_is_refused():
    with pytest.raises(sw.InvalidSetError, match="frame is a list"):
        sw.simulate([1], **WAY)
