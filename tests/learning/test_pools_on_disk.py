"""Pools of candidates in Parquet files are those of the same candidates in memory."""

from __future__ import annotations

import tracemalloc
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.data import parquet as scanning
from sumwise.model import design
from tests import parquet
from tests.marks import each_with_one

N = 300
INPUTS = ["x0", "x1", "x2"]
RULES = {
    "plain": {},
    "uses": {"uses": 1},
    "size": {"size": (4, 7)},
    "cost": {"cost": 5.0, "cost_per_member": 0.5, "budget": 30.0},
    "noise": {"noise_std": 0.4, "noise_std_per_member": 0.1},
    "effect": {"effect": True},
    "mean": {"weights": "mean", "noise_std": 0.2},
    "weights": {"weights": (-1.0, 2.0), "size": (1, 6)},
    "targets": {"targets": np.full((5, 3), 0.3), "target_weights": [1, 2, 3, 4, 5]},
}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(scanning, "BATCH_ROWS", 37)
    monkeypatch.setattr(scanning, "PART_ROWS", 100)


def people(n=N, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 3))
    return pd.DataFrame(x, columns=INPUTS).assign(id=[f"p{row}" for row in range(n)])


def scan_of(frame, place, *, x=INPUTS, by="id", cuts=(90,), row_group_size=41):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    folder = parquet.write(table, place, cuts=cuts, row_group_size=row_group_size)
    return sw.Sets.scan_parquet(folder, by=by, x=x)


@cache
def model_of(kind):
    """A model that knows the totals of other individuals; the prior for "linear"."""
    others = people(40, seed=1).assign(home=np.arange(40) // 5)
    sets = sw.Sets.from_frame(others, by="home", x=INPUTS)
    if kind == "linear":
        return sw.AggregateRegressor("linear").fit(sets[:0], [], pool=sets)
    y_bar = np.add.reduceat(np.sin(sets.x[:, 0]) + sets.x[:, 1], sets.starts[:-1])
    return sw.AggregateRegressor(kind, n_basis=24).fit(sets, y_bar)


def assert_same(found, expected):
    """Members to the row, numbers to 1e-9."""
    assert found.ids == expected.ids
    for mine, theirs in zip(found.rows, expected.rows, strict=True):
        assert mine.tolist() == theirs.tolist()
    for name in ("theta", "x", "members", "effects"):
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9)
    for name in ("value", "bound"):
        mine, theirs = ([getattr(c, name) for c in p.certificates] for p in (found, expected))
        assert_allclose(mine, theirs, rtol=1e-9)
    assert found.costs == expected.costs
    assert found.why == expected.why


# --- the same as in memory ------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "strategy"), each_with_one(RULES, ["AggMI", "IVR", "EPIG"]))
def test_pools_are_those_of_the_same_candidates_in_memory(tmp_path, strategy, rule):
    frame, rules = people(120), RULES[rule]
    model = model_of("auto" if rule in ("plain", "effect") else "fourier")
    found = sw.design_pools(scan_of(frame, tmp_path / "a"), model, 3, strategy=strategy, **rules)
    assert_same(found, sw.design_pools(frame, model, 3, strategy=strategy, **rules))
    names = np.split(found.row_ids, found.starts[1:-1])
    assert [[f"p{row}" for row in rows] for rows in found.rows] == [each.tolist() for each in names]


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_the_size_of_blocks_does_not_matter(tmp_path, monkeypatch, size):
    frame, model = people(70), model_of("auto")
    monkeypatch.setattr(scanning, "BATCH_ROWS", size)
    monkeypatch.setattr(scanning, "PART_ROWS", 3 * size)
    monkeypatch.setattr(design, "BLOCK_NUMBERS", 50 * size)
    scan = scan_of(frame, tmp_path / "a", cuts=[1, 50], row_group_size=size + 3)
    assert_same(sw.design_pools(scan, model, 2, uses=1), sw.design_pools(frame, model, 2, uses=1))


def test_features_by_the_compiled_kernel_lead_to_the_same_pools(tmp_path, monkeypatch):
    pytest.importorskip("numba")
    frame, model = people(), model_of("fourier")
    expected = sw.design_pools(frame, model, 2)
    monkeypatch.setattr(design, "AGAIN_FROM", 1)
    assert_same(sw.design_pools(scan_of(frame, tmp_path / "a"), model, 2), expected)


@pytest.mark.parametrize("n", [1, 5, 60])
def test_few_candidates_are_no_matter(tmp_path, n):
    frame, model = people(n), model_of("linear")
    found = sw.design_pools(scan_of(frame, tmp_path / "a", cuts=()), model, 2)
    assert_same(found, sw.design_pools(frame, model, 2))


@pytest.mark.parametrize("effect", [False, True])
def test_rounds_know_of_pools_that_are_measured_and_that_are_waiting(tmp_path, effect):
    frame, rules = people(), {"uses": 1, "size": (2, 5), "effect": effect}
    scan, everyone = scan_of(frame, tmp_path / "a"), sw.Sets.from_frame(frame, by="id", x=INPUTS)
    first = sw.design_pools(scan, model_of("auto"), 3, **rules)
    totals = dict(zip(first.ids, [3.0, -1.0, 4.0], strict=True))
    model = sw.AggregateRegressor(n_basis=24).fit(first, totals, pool=everyone)
    waiting = sw.design_pools(scan, model, 2, strategy="EPIG", **rules)
    assert_same(waiting, sw.design_pools(frame, model, 2, strategy="EPIG", **rules))
    found = sw.design_pools(scan, model, 2, pending=waiting, **rules)
    assert_same(found, sw.design_pools(frame, model, 2, pending=waiting, **rules))
    used = np.concatenate([first.members, waiting.members, found.members])
    assert len(np.unique(used)) == len(used)


def test_text_and_gaps_are_read_as_in_memory(tmp_path):
    rng = np.random.default_rng(2)
    frame = people().assign(kind=rng.choice(["a", "b", "c"], N), age=rng.normal(50, 9, N))
    frame.loc[::7, "age"] = np.nan
    columns = [*INPUTS, "kind", "age"]
    sets = sw.Sets.from_frame(frame[:60].assign(home=np.arange(60) // 6), by="home", x=columns)
    model = sw.AggregateRegressor(n_basis=24).fit(sets, np.arange(10.0))
    frame.loc[[100, 250], "kind"] = "never seen"
    scan = scan_of(frame, tmp_path / "a", x=columns)
    assert_same(sw.design_pools(scan, model, 2), sw.design_pools(frame, model, 2))


def test_names_may_be_of_several_columns_and_need_not_differ(tmp_path):
    frame = people().assign(home=np.arange(N) // 4, who=np.arange(N) % 4)
    pools = sw.design_pools(scan_of(frame, tmp_path / "a", by=["home", "who"]), model_of("linear"))
    assert pools.row_ids.tolist() == [(row // 4, row % 4) for row in pools.rows[0]]
    alike = sw.design_pools(scan_of(frame, tmp_path / "b", by="home"), model_of("linear"))
    assert alike.rows[0].tolist() == pools.rows[0].tolist()


def test_candidates_are_not_kept_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(scanning, "BATCH_ROWS", 2**11)
    known, k = people(40, seed=1), 256
    sets = sw.Sets.from_frame(known, by="id", x=INPUTS)
    model = sw.AggregateRegressor("fourier", n_basis=k).fit(sets, known["x0"])
    peaks = []
    for n in (500, 5_000, 12_000):  # what is imported and kept by the first is not looked at
        scan = scan_of(people(n), tmp_path / str(n), row_group_size=2**11)
        tracemalloc.start()
        try:
            sw.design_pools(scan, model, 2, uses=1)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[2] - peaks[1] < 0.6 * 8 * k * 7_000  # of the features of all candidates


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"apart": np.zeros(N)}, "apart needs every candidate at once"),
        ({"together": "home"}, "together needs every candidate at once"),
        ({"strata": [0] * N}, "strata needs"),
        ({"within": "home"}, "within needs"),
        ({"neighbours": [(0, 1)]}, "neighbours needs"),
        ({"target_weights": np.ones(N)}, "target_weights without targets would be one for each"),
        ({"size": (1, 20_000)}, "at most 10,000 members"),
        ({"size": 301}, "at least 301 members, and 300 candidates are free"),
        ({"budget": 3.0}, "a budget needs costs"),
        ({"n": 0}, "n is 0"),
        ({"strategy": "MaxN"}, "pools are designed by"),
        ({"pending": people()}, "which candidates are in them"),
    ],
)
def test_what_cannot_be_done_on_disk_is_refused_in_words(tmp_path, options, words):
    scan = scan_of(people(), tmp_path / "a")
    with pytest.raises(sw.SumwiseError, match=words):
        sw.design_pools(scan, model_of("linear"), **options)


def test_other_models_and_other_columns_are_refused(tmp_path):
    frame = people()
    scan = scan_of(frame, tmp_path / "a")
    with pytest.raises(sw.SettingError, match="model is a str; give a fitted AggregateRegressor"):
        sw.design_pools(scan, "auto")
    sets = sw.Sets.from_frame(frame, by="id", x=INPUTS)
    counts = sw.AggregateRegressor(outputs="counts").fit(sets[:3], [1, 2, 3])
    with pytest.raises(sw.SettingError, match="this model is one of counts"):
        sw.design_pools(scan, counts)
    few = scan_of(frame, tmp_path / "b", x=INPUTS[:2])
    with pytest.raises(sw.InvalidSetError, match="the model knows 3"):
        sw.design_pools(few, model_of("linear"))


def test_a_design_on_disk_is_refused_and_its_scan_is_named(tmp_path):
    scan = scan_of(people(), tmp_path / "a")
    made = sw.AggregateRegressor("linear").embed(scan, tmp_path / "a.design")
    with pytest.raises(sw.SettingError, match=r"give the scan .* \(design.scan\)"):
        sw.design_pools(made, model_of("linear"))
    assert len(sw.design_pools(made.scan, model_of("linear"))) == 1


@pytest.mark.parametrize(
    ("value", "words"),
    [(np.inf, "row 251.*'x1' is inf"), (np.nan, "row 251.*'x1'"), (1e308, "row 251 has a feature")],
)
def test_a_number_that_cannot_be_used_is_named_with_file_and_row(tmp_path, value, words):
    frame, model = people(), model_of("linear")
    frame.loc[250, "x1"] = value
    kind = sw.AggregateRegressor("polynomial", standardize=False)
    model = kind.fit(sw.Sets.from_frame(people(9), by="id", x=INPUTS), np.arange(9.0))
    with pytest.raises(sw.SumwiseError, match=r"000.parquet, " + words):
        sw.design_pools(scan_of(frame, tmp_path / "a", cuts=()), model)


def test_a_file_that_changed_or_was_cut_off_is_refused(tmp_path):
    frame, model = people(), model_of("linear")
    scan = scan_of(frame, tmp_path / "a", cuts=())
    (path,) = (tmp_path / "a").iterdir()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(sw.DataError, match=r"000.parquet"):
        sw.design_pools(scan, model)
    other = frame.assign(x0=frame["x1"])
    parquet.write(pa.Table.from_pandas(other, preserve_index=False), tmp_path / "a")
    with pytest.raises(sw.DataError, match="has changed since it was scanned"):
        sw.design_pools(scan, model)
    path.unlink()
    with pytest.raises(sw.DataError, match=r"000.parquet"):
        sw.design_pools(scan, model)
