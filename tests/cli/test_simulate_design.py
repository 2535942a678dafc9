"""`sumwise simulate --design`, as a user runs it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.cli.test_simulate import one_line, run
from tests.tables import write_csv

WORDS = ("--by", "g", "--y", "y", "--design", "--splits", 2, "--queries", 3, "--jobs", 1)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("design")
    data, out = write_csv(folder / "data.csv"), folder / "report.html"
    return run(data, *WORDS, "--size", "1-3", "--uses", 2, "--out", out), out


def test_it_says_what_it_does_and_what_came_out(shown):
    result, out = shown
    assert result.exit_code == 0, result.output
    talk, text = one_line(result.stderr), one_line(result.stdout)
    assert (
        "3 measurements each are made of designed pools (1 to 3 members, each individual in "
        in (talk)
    )
    assert "8/8" in talk
    for words in ("designed pools", "given groups", "random pools", "individuals", "95 % interval"):
        assert words in text
    assert "±" not in text
    assert "<h1>Simulation on data.csv: Designed pools " in out.read_text(encoding="utf-8")
    lines = (result.stdout + result.stderr).splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith("Report: "))


def test_json_is_the_whole_result(tmp_path):
    data, noise = write_csv(tmp_path / "data.csv"), ("--pool-noise-std", 0.5)
    each = ("--pool-noise-std-per-member", "0.25", "--size", 2)
    result = run(data, *WORDS, *noise, *each, "--out", tmp_path / "r.html", "--json")
    found = json.loads(result.stdout)
    pools = {"size": [2, 2], "uses": None, "noise_std": 0.5, "noise_std_per_member": 0.25}
    assert found["pools"] == pools
    assert np.shape(found["errors"]["random pools"]) == (2, 3)
    ways = {way["method"]: way for way in found["ways"]}
    assert {*ways} == {"designed pools", "given groups", "random pools", "individuals"}
    gap = np.mean(found["errors"]["designed pools"]) - np.mean(found["errors"]["individuals"])
    assert ways["individuals"]["difference"]["mean"] == pytest.approx(gap)
    assert found["verdict"]["subject"] == "designed pools"
    assert not {"strategies", "savings"} & {*found}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--outputs", "counts"), "pools are designed for plain numbers"),
        (("--methods", "IVR"), "leave methods out"),
        (("--size", "3-1"), "size is (3, 1)"),
        (("--pool-noise-std", "loud"), "--pool-noise-std"),
        (("--size", "9-20", "--uses", 1), "each in at most 1 pool, can need more than the"),
    ],
)
def test_what_does_not_go_with_it_is_refused_in_words(tmp_path, words, message):
    result = run(write_csv(tmp_path / "data.csv"), *WORDS, *words, "--out", tmp_path / "r.html")
    assert result.exit_code == 1
    assert message in one_line(result.stderr)
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    "words", [("--size", "1-3"), ("--uses", 1), ("--pool-noise-std-per-member", 1)]
)
def test_options_of_pools_need_the_design(tmp_path, words):
    data = write_csv(tmp_path / "data.csv")
    result = run(data, "--by", "g", "--y", "y", *words)
    assert result.exit_code == 2
    assert f"{words[0]} describes designed pools; add --design" in one_line(result.stderr)
