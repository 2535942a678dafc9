"""Parquet files as a pool: looked at lazily, embedded in one pass, gone on with after a stop."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sumwise as sw
from sumwise.data import parquet as scanning
from sumwise.data.targets import Inputs
from sumwise.model.design import embed
from sumwise.outofcore import design_store, scanned_sets
from sumwise.outofcore.build import in_order, in_threads, survey
from sumwise.outofcore.design_store import Embedded
from sumwise.outofcore.index import ids_of, statistics_of
from tests import parquet
from tests.builders import random_sets, seeds, set_sizes


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """So that sets span batches, parts and files."""
    monkeypatch.setattr(scanning, "BATCH_ROWS", 5)
    monkeypatch.setattr(scanning, "PART_ROWS", 12)


def some_sets(seed=0, sizes=(3, 1, 9, 25, 2, 2, 1, 8, 4), ids=None) -> sw.Sets:
    return random_sets(sizes, np.random.default_rng(seed), ids=ids)


def in_turn(job, jobs):
    return map(job, jobs)


MODEL = sw.AggregateRegressor(n_basis=16)


def by_hand(sets: sw.Sets, model=MODEL):
    """The design of sets in memory, by the functions that know nothing of files."""
    prepared = model.config().prepare(sets)
    return prepared, embed(sets, prepared.basis, compiled=False)


def assert_same(made: Embedded, sets: sw.Sets, rtol=1e-10, model=MODEL) -> None:
    prepared, design = by_hand(sets, model)
    assert made.ids == sets.ids
    assert made.sets.sizes.tolist() == sets.sizes.tolist()
    np.testing.assert_allclose(made.prepared.basis.shift, prepared.basis.shift, rtol=1e-12)
    np.testing.assert_allclose(made.prepared.basis.scale, prepared.basis.scale, rtol=1e-12)
    np.testing.assert_allclose(made.own_pool.design.u, design.u, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(made.own_pool.design.noise_scale, design.noise_scale, rtol=1e-12)
    np.testing.assert_allclose(made.own_pool.design.theta_sum, design.theta_sum, atol=1e-12)
    np.testing.assert_allclose(
        made.own_pool.square, (design.u**2).sum(axis=1), rtol=max(rtol, 1e-9)
    )


# --- reading --------------------------------------------------------------------------------------


def test_nothing_is_read_but_footers(tmp_path):
    pool = parquet.scan(parquet.write(parquet.table_of(some_sets()), tmp_path / "d", cuts=[20]))
    assert pool.rows == 55
    assert len(pool.files) == 2
    assert repr(pool) == (
        "Scan: 55 individuals in 2 Parquet files, by set; inputs x0, x1, x2; weights 'theta'"
    )
    assert [part.rows for part in pool.parts()] == [14, 6, 14, 14, 7]
    assert [part.first_individual for part in pool.parts()] == [0, 14, 20, 34, 48]


@pytest.mark.parametrize("gap", [None, np.nan])
def test_a_gap_is_refused_with_its_file_and_row_where_it_cannot_be_filled(tmp_path, gap):
    sets, table = some_sets(), parquet.table_of(some_sets())
    for number, name in ((2, "x1"), (4, "theta")):
        holes = table[name].to_pylist()
        holes[30] = gap
        changed = table.set_column(number, name, pa.array(holes))
        pool = parquet.scan(parquet.write(changed, tmp_path / name, cuts=[20]))
        model = MODEL
        if name == "x1":  # a model that has seen no gaps
            pool = replace(pool, weights="sum")
            whole = parquet.scan(parquet.write(table, tmp_path / "whole"), weights="sum")
            design = MODEL.embed(whole, tmp_path / "whole.design")
            model = sw.AggregateRegressor.from_config(design.config).fit(design, {sets.ids[0]: 1.0})
        with pytest.raises(sw.InvalidSetError, match=rf"001\.parquet, row 11: '{name}' is missing"):
            model.embed(pool, tmp_path / f"{name}.design")


def test_an_infinite_value_is_refused_with_its_file_and_row(tmp_path):
    table = parquet.table_of(some_sets())
    values = table["x2"].to_numpy().copy()
    values[7] = np.inf
    table = table.set_column(3, "x2", pa.array(values))
    pool = parquet.scan(parquet.write(table, tmp_path / "d"))
    with pytest.raises(sw.InvalidSetError, match=r"000\.parquet, row 8: 'x2' is inf"):
        MODEL.embed(pool, tmp_path / "out")


def test_a_row_without_a_group_is_refused_with_its_file_and_row(tmp_path):
    table = parquet.table_of(some_sets())
    ids = table["set"].to_pylist()
    ids[3] = None
    table = table.set_column(0, "set", pa.array(ids))
    pool = parquet.scan(parquet.write(table, tmp_path / "d"))
    with pytest.raises(sw.InvalidSetError, match="row 4: 'set' is missing"):
        MODEL.embed(pool, tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"by": "sett"}, "no column 'sett' .given as by."),
        ({"x": "list"}, "'list' .given as x. holds list<.*, which cannot be an input"),
        ({"weights": "text"}, "holds string, not numbers"),
        ({"weights": "w"}, "no column 'w' .given as weights.*'sum' or 'mean'"),
        ({"by": "list"}, "cannot name a group"),
        ({"x": ()}, "name at least one column"),
        ({"weights": 3}, "give 'sum', 'mean' or a column's name"),
    ],
)
def test_columns_that_cannot_be_used_are_refused_at_once(tmp_path, change, message):
    table = pa.table({"set": [1, 2], "x0": [0.5, 1.0], "text": ["a", "b"], "list": [[1], [2]]})
    pq.write_table(table, tmp_path / "t.parquet")
    given = {"by": "set", "x": "x0", "weights": "sum", **change}
    with pytest.raises(sw.SumwiseError, match=message):
        sw.Sets.scan_parquet(tmp_path / "t.parquet", **given)


def test_files_that_cannot_be_read_are_refused_by_name(tmp_path):
    (tmp_path / "no.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(sw.DataError, match=r"no\.parquet cannot be read as Parquet"):
        parquet.scan(tmp_path)
    with pytest.raises(sw.DataError, match="no file or folder"):
        parquet.scan(tmp_path / "nowhere")
    with pytest.raises(sw.DataError, match=r"no files that end in \.parquet"):
        parquet.scan(_empty(tmp_path))
    with pytest.raises(sw.InvalidSetError, match="no rows"):
        parquet.scan(parquet.write(parquet.table_of(some_sets())[:0], tmp_path / "e"))


def _empty(folder):
    (folder / "empty").mkdir()
    return folder / "empty"


def test_group_columns_of_different_types_are_refused(tmp_path):
    parquet.write(parquet.table_of(some_sets()), tmp_path / "a")
    parquet.write(parquet.table_of(some_sets(ids=list("abcdefghi"))), tmp_path / "b")
    with pytest.raises(sw.InvalidSetError, match="same type in all files"):
        parquet.scan([tmp_path / "a", tmp_path / "b"])


def test_a_file_that_is_cut_off_is_refused_in_words(tmp_path):
    folder = parquet.write(parquet.table_of(some_sets()), tmp_path / "d")
    pool = parquet.scan(folder)
    whole = (folder / "000.parquet").read_bytes()
    (folder / "000.parquet").write_bytes(b"PAR1" + bytes(60) + whole[64:])
    with pytest.raises(sw.DataError, match=r"000\.parquet cannot be read"):
        MODEL.embed(pool, tmp_path / "out")


def test_addresses_are_read_through_fsspec(tmp_path):
    pytest.importorskip("fsspec")
    folder = parquet.write(parquet.table_of(some_sets()), tmp_path / "d", cuts=[20])
    pool = parquet.scan(f"file://{folder}")
    assert pool.rows == 55
    assert len(pool.files) == 2
    assert_same(MODEL.embed(pool, tmp_path / "out"), some_sets())
    with pytest.raises(sw.DataError, match="cannot be opened"):
        parquet.scan("nosuchthing://there")


# --- surveying ------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=5),
    st.sampled_from([1e-150, 1e-3, 1.0, 1e6, 1e150]),
    st.sampled_from([0.0, 1.0, -3.0]),
    seeds,
)
def test_statistics_of_batches_are_those_of_the_whole(sizes, size, level, seed):
    rng = np.random.default_rng(seed)
    x = size * (level + rng.normal(size=(sum(sizes), 3)))
    x[:, 1] = size * level  # a constant column
    bounds = np.cumsum([0, *sizes])
    scan = scanning.Scan((scanning.File("a", 0, (len(x),)),), ("g",), tuple("xyz"), "sum")
    batches = (
        scanning.Batch("a", low, low, (pa.array([low] * (high - low)),), x[low:high].T, None)
        for low, high in pairwise(bounds.tolist())
    )
    found = Inputs.combine([statistics_of(scan, batch) for batch in batches])
    np.testing.assert_array_equal(found.low, x.min(axis=0))
    np.testing.assert_array_equal(found.high, x.max(axis=0))
    whole = Inputs.of(x, bounds)
    np.testing.assert_array_equal(found.sample, whole.sample)
    np.testing.assert_array_equal(found.subsample, whole.subsample)
    np.testing.assert_allclose(found.shift, whole.shift, rtol=1e-12, atol=1e-13 * size)
    np.testing.assert_allclose(found.scale, whole.scale, rtol=1e-10)
    np.testing.assert_allclose(found.alike, whole.alike, rtol=1e-9, atol=1e-9)


def test_inputs_are_scaled_by_their_standard_deviation_or_size():
    size = 2.0**600  # whose square is not a number
    found = Inputs.of(np.array([[1.0, 5.0, 0.0, size], [4.0, 5.0, 0.0, -size]]))
    np.testing.assert_array_equal(found.shift, [2.5, 5.0, 0.0, 0.0])
    np.testing.assert_array_equal(found.scale, [1.5, 5.0, 1.0, size])


def test_sets_that_come_back_are_noticed_wherever_they_do(tmp_path):
    sets = some_sets()
    whole = parquet.table_of(sets)
    cases = {
        "sorted": whole,
        "within a batch": pa.concat_tables([whole[1:3], whole[3:4], whole[0:1], whole[4:]]),
        "at the far end": pa.concat_tables([whole[1:], whole[0:1]]),
    }
    for name, table in cases.items():
        found = survey(parquet.scan(parquet.write(table, tmp_path / name)), inputs=True)
        assert (found.sizes is not None) == (name == "sorted")
        assert set(ids_of(found.keys)) == set(sets.ids)


# --- embedding ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("weights", ["theta", "sum", "mean"])
@pytest.mark.parametrize("ids", [None, list("abcdefghi"), [(n, "x") for n in range(9)]])
def test_sets_across_borders_are_embedded_whole(tmp_path, dtype, weights, ids):
    sets = some_sets(ids=ids)
    table = parquet.table_of(sets)
    by = ["p", "q"] if isinstance(sets.ids[0], tuple) else "set"
    pool = parquet.scan(
        parquet.write(table, tmp_path / "d", cuts=[9, 13, 14, 40]), weights=weights, by=by
    )
    made = MODEL.embed(pool, tmp_path / "out", dtype=dtype)
    expected = sets if weights == "theta" else sw.Sets.from_frame(
        table, by=by, x=["x0", "x1", "x2"], weights=weights
    )  # fmt: skip
    assert made.own_pool.design.u.dtype == dtype
    assert_same(made, expected, 1e-10 if dtype == "float64" else 2e-6)
    assert not any(name in os.listdir(tmp_path / "out") for name in ("parts", "begun.json"))


@pytest.mark.parametrize("basis", ["linear", "polynomial"])
def test_every_fixed_basis_can_be_embedded(tmp_path, basis):
    model = sw.AggregateRegressor(basis)
    pool = parquet.scan(parquet.write(parquet.table_of(some_sets()), tmp_path / "d"))
    assert_same(model.embed(pool, tmp_path / "out"), some_sets(), model=model)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25
)
@given(set_sizes, seeds, st.sampled_from(["theta", "mean"]), st.integers(1, 9))
def test_unsorted_rows_give_what_sorted_rows_give(tmp_path, sizes, seed, weights, group):
    rng = np.random.default_rng(seed)
    sets = random_sets(sizes, rng)
    folder = Path(mkdtemp(dir=tmp_path))
    order = rng.permutation(len(sets.x))
    table = parquet.table_of(sets, order=order)
    mixed = parquet.scan(
        parquet.write(table, folder / "d", cuts=[len(order) // 3], row_group_size=group),
        weights=weights,
    )
    made = MODEL.embed(mixed, folder / "out", memory=1, run=in_turn)
    expected = sw.Sets.from_frame(table, by="set", x=["x0", "x1", "x2"], weights=weights)
    assert_same(made, expected)
    tidy = parquet.scan(parquet.write(parquet.table_of(sets), folder / "e"), weights=weights)
    other = sw.AggregateRegressor(n_basis=16)
    other.prepared_ = made.prepared  # the same basis
    sorted_ = other.embed(tidy, folder / "out2", run=in_turn)
    where = [sorted_.sets.position(name) for name in made.ids]
    np.testing.assert_allclose(
        made.own_pool.design.u, sorted_.own_pool.design.u[where], rtol=1e-10, atol=1e-10
    )


def test_a_fitted_model_embeds_under_its_own_basis(tmp_path):
    sets = some_sets()
    model = sw.AggregateRegressor(n_basis=16).fit(sets[:4], [1.0, 2.0, 3.0, 4.0])
    table = parquet.table_of(sets)
    made = model.embed(parquet.scan(parquet.write(table, tmp_path / "d")), tmp_path / "out")
    np.testing.assert_allclose(
        made.own_pool.design.u, embed(sets, model.fitted().basis).u, rtol=1e-10, atol=1e-10
    )


def test_the_mean_of_products_is_kept(tmp_path):
    sets = some_sets()
    pool = parquet.scan(parquet.write(parquet.table_of(sets), tmp_path / "d"))
    made = MODEL.embed(pool, tmp_path / "out")
    phi = made.prepared.basis(sets.x)
    np.testing.assert_allclose(made.own_pool.moment, phi.T @ phi / len(phi), rtol=1e-9, atol=1e-12)


def test_individuals_are_there_if_somebody_looks(tmp_path, monkeypatch):
    sets = some_sets()
    pool = parquet.scan(parquet.write(parquet.table_of(sets), tmp_path / "d", cuts=[30]))
    made = MODEL.embed(pool, tmp_path / "out")
    assert made.sets[[2]].x.tolist() == sets[[2]].x.tolist()
    assert "not in memory" in repr(made.sets)
    monkeypatch.setattr(scanned_sets, "LARGEST_READ", 100)
    with pytest.raises(sw.SettingError, match="AggMI"):
        _ = Embedded.open(tmp_path / "out").sets.x


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float16"}, "give 'float64' or 'float32'"),
        ({"pool": 3}, "scan files with Sets.scan_parquet"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, change, message):
    pool = parquet.scan(parquet.write(parquet.table_of(some_sets()), tmp_path / "d"))
    with pytest.raises(sw.SumwiseError, match=message):
        MODEL.embed(**{"pool": pool, "out": tmp_path / "out", **change})


def test_weights_that_are_all_zero_are_refused_by_set(tmp_path):
    table = parquet.table_of(some_sets())
    theta = table["theta"].to_numpy().copy()
    theta[4:13] = 0.0
    table = table.set_column(4, "theta", pa.array(theta))
    pool = parquet.scan(parquet.write(table, tmp_path / "d"))
    with pytest.raises(sw.InvalidSetError, match="weights of set 2 are all zero"):
        MODEL.embed(pool, tmp_path / "out")


# --- going on, and damage -------------------------------------------------------------------------


class _Stopped(Exception):
    pass


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path):
    sets = some_sets()
    pool = parquet.scan(parquet.write(parquet.table_of(sets), tmp_path / "d"))

    def stops(job, jobs):
        for number, one in enumerate(jobs):
            if number == 2 and not hasattr(one, "first_row"):  # embedding, not surveying
                raise _Stopped
            yield job(one)

    with pytest.raises(_Stopped):
        MODEL.embed(pool, tmp_path / "out", run=stops)
    with pytest.raises(sw.DataError, match="not finished; embed once more"):
        Embedded.open(tmp_path / "out")
    left = []

    def counts(job, jobs):
        left.append(len(jobs))
        return map(job, jobs)

    made = MODEL.embed(pool, tmp_path / "out", run=counts)
    assert left == [len(pool.parts()) - 2]
    assert_same(made, sets)
    again = MODEL.embed(pool, tmp_path / "out", run=_nobody)
    assert again.digest == made.digest


def _nobody(job, jobs):
    raise AssertionError("there was nothing left to do")


def test_a_part_whose_rows_were_lost_is_done_again(tmp_path):
    sets = some_sets()
    pool = parquet.scan(parquet.write(parquet.table_of(sets), tmp_path / "d"))

    def stops(job, jobs):
        for number, one in enumerate(jobs):
            if number == 3 and not hasattr(one, "first_row"):
                raise _Stopped
            yield job(one)

    with pytest.raises(_Stopped):
        MODEL.embed(pool, tmp_path / "out", run=stops)
    with open(tmp_path / "out" / "u.npy", "r+b") as file:  # a power cut
        file.seek(128)
        file.write(bytes(16 * 8 * len(sets)))
    assert_same(MODEL.embed(pool, tmp_path / "out"), sets)


def test_a_folder_of_something_else_is_not_touched(tmp_path):
    pool = parquet.scan(parquet.write(parquet.table_of(some_sets()), tmp_path / "d"))
    MODEL.embed(pool, tmp_path / "out")
    with pytest.raises(sw.SettingError, match="other files, or with other settings"):
        sw.AggregateRegressor(n_basis=8).embed(pool, tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(sw.SettingError, match="other files in it"):
        MODEL.embed(pool, tmp_path / "mine")
    assert os.listdir(tmp_path / "mine") == ["thesis.tex"]


@pytest.mark.parametrize("name", ["u.npy", "sums.npy", "sizes.npy", "ids.arrow", "basis.npz"])
def test_damage_is_refused_in_words(tmp_path, name):
    pool = parquet.scan(parquet.write(parquet.table_of(some_sets()), tmp_path / "d"))
    MODEL.embed(pool, tmp_path / "out")
    path = tmp_path / "out" / name
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    with pytest.raises(sw.DataError, match=f"{name} has changed since"):
        Embedded.open(tmp_path / "out")


def test_a_design_that_is_cut_short_or_of_another_kind_is_refused(tmp_path):
    pool = parquet.scan(parquet.write(parquet.table_of(some_sets()), tmp_path / "d"))
    MODEL.embed(pool, tmp_path / "out")
    with pytest.raises(sw.DataError, match="holds no design"):
        Embedded.open(tmp_path)
    manifest = tmp_path / "out" / "manifest.json"
    known = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**known, "format": "sumwise design 9"}))
    with pytest.raises(sw.DataError, match="design 9"):
        Embedded.open(tmp_path / "out")
    manifest.write_text("{")
    with pytest.raises(sw.DataError, match="cannot be read"):
        Embedded.open(tmp_path / "out")


def test_threads_pass_a_refusal_on():
    def refuses(job):
        raise sw.DataError(f"number {job}")

    with pytest.raises(sw.DataError, match="number"):
        list(in_threads(refuses, range(20)))


def test_a_basis_that_learns_is_refused(tmp_path):
    pytest.importorskip("jax")
    pool = parquet.scan(parquet.write(parquet.table_of(some_sets()), tmp_path / "d"))
    with pytest.raises(sw.SettingError, match="reads the individuals again"):
        sw.AggregateRegressor("neural").embed(pool, tmp_path / "out")


def test_pieces_are_taken_in_order_and_as_soon_as_they_are_there():
    taken: list[int] = []

    def pieces():
        for number in (0, 2, 1, 3):
            taken.append(number)
            yield number, f"piece {number}"

    counted: list[int] = []
    found = in_order(pieces(), counted.append)
    assert next(found) == "piece 0"
    assert taken == [0]  # nobody waits for the others
    assert list(found) == ["piece 1", "piece 2", "piece 3"]
    assert counted == [1, 2, 3, 4]


def test_threads_begin_few_jobs_before_results_are_taken():
    begun: list[int] = []
    results = in_threads(lambda job: begun.append(job) or job, list(range(100)))
    first = [next(results)]
    assert len(begun) <= 3 * (os.cpu_count() or 1) + 1
    assert sorted(first + list(results)) == list(range(100))


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("contiguous", [False, True])
def test_ids_that_do_not_ascend_stay_with_their_sets(tmp_path, monkeypatch, several, contiguous):
    monkeypatch.setattr(scanning, "BATCH_ROWS", 10_000)  # Arrow's grouping shuffles large tables
    monkeypatch.setattr(scanning, "PART_ROWS", 10_000)
    rng = np.random.default_rng(0)
    names, kinds = rng.integers(0, 200, 4_000), rng.integers(0, 3, 4_000)
    if contiguous:
        names = np.repeat(rng.permutation(1_000), 4)
        kinds = names % 3
    table = pa.table({"g": [f"s{n}" for n in names], "h": kinds, "x": rng.normal(size=4_000)})
    pq.write_table(table, tmp_path / "a.parquet")
    by = ["g", "h"] if several else "g"
    in_memory = sw.Sets.from_frame(table, by=by, x="x")
    made = MODEL.embed(sw.Sets.scan_parquet(tmp_path / "a.parquet", by=by, x="x"), tmp_path / "out")
    assert made.ids == in_memory.ids  # in order of first appearance
    u = embed(in_memory, made.prepared.basis, compiled=False).u
    np.testing.assert_allclose(made.own_pool.design.u, u, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(made.sets.x, in_memory.x)
    other = in_memory.ids[::-1]  # a former version did not keep the order of unsorted files
    whole = design_store.read_whole(made.scan, other)
    assert whole.ids == other
    np.testing.assert_array_equal(whole[other[5]].x, in_memory[other[5]].x)
