"""A design that grows with its files is the design of the files as they are."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.data import parquet as scanning
from sumwise.outofcore import build, grow
from sumwise.util.parted import Parted

MODEL = sw.AggregateRegressor("fourier", n_basis=6, random_state=1)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(scanning, "BATCH_ROWS", 5)
    monkeypatch.setattr(scanning, "PART_ROWS", 12)
    monkeypatch.setattr(build, "PART_ROWS", 12)
    monkeypatch.setattr(grow, "BLOCK", 3)
    monkeypatch.setattr(grow, "GAP", 2)


@dataclass
class Folder:
    """Parquet files of rows (set, x0, x1, theta), in memory and on the disk."""

    path: str
    rng: np.random.Generator
    files: dict[str, pa.Table]
    written: int = 0

    def write(self, name, table):
        self.written += 1
        self.files[name] = table
        path = os.path.join(self.path, name)
        plain = {"compression": "none", "use_dictionary": False}
        pq.write_table(table, path, row_group_size=5, **plain)
        os.utime(path, ns=(self.written, self.written))  # whatever the clock of the disk is

    def remove(self, name):
        del self.files[name]
        os.unlink(os.path.join(self.path, name))

    def rows(self, sets, *, ordered=True):
        sets = np.sort(sets) if ordered else self.rng.permutation(sets)
        theta = self.rng.choice([-1.5, 0.5, 1.0, 2.0], len(sets))
        x = self.rng.normal(size=(2, len(sets)))
        return pa.table({"set": sets, "x0": x[0], "x1": x[1], "theta": theta})

    def scan(self, weights):
        return sw.Sets.scan_parquet(self.path, by="set", x=["x0", "x1"], weights=weights)

    @property
    def table(self):
        return pa.concat_tables(self.files[name] for name in sorted(self.files))


def random_folder(path, rng, *, ordered):
    os.makedirs(path)
    made = Folder(path, rng, {})
    sets = rng.integers(0, 25, 90)
    sets = np.sort(sets) if ordered else sets
    for number, some in enumerate(np.array_split(sets, 4)):
        made.write(f"{number}.parquet", made.rows(some, ordered=ordered))
    return made


def edit_at_random(folder, *, ordered):
    rng = folder.rng
    for name in sorted(folder.files):
        table = folder.files[name]
        sets = table["set"].to_numpy()
        kind = rng.choice(["same", "same", "correct", "leave", "join", "gone"])
        if kind == "correct":
            folder.write(name, folder.rows(sets, ordered=ordered))
        elif kind == "leave":
            folder.write(name, table.take(np.flatnonzero(rng.random(len(sets)) < 0.6)))
        elif kind == "join":
            more = np.append(sets, rng.choice(sets, 3)) if len(sets) else sets
            folder.write(name, folder.rows(more, ordered=ordered))
        elif kind == "gone" and len(folder.files) > 1:
            folder.remove(name)
    for number in range(rng.integers(0, 3)):
        sets = rng.integers(20, 40, rng.integers(1, 15))
        folder.write(f"new {number}.parquet", folder.rows(sets, ordered=ordered))


def embedded(scan, out, prepared=None, dtype="float64"):
    return build.embed_scan(scan, MODEL.config(), out, prepared=prepared, dtype=dtype)


def by_id(made):
    design = made.own_pool.design
    columns = design.noise_scale, design.theta_sum, made.own_pool.square, made.sets.sizes
    rows = np.column_stack([design.u[:], *columns])
    return dict(zip(made.ids, rows, strict=True))


def assert_same(grown, scratch, **tolerance):
    mine, theirs = by_id(grown), by_id(scratch)
    assert mine.keys() == theirs.keys()
    for name, row in theirs.items():
        assert_allclose(mine[name], row, **tolerance, err_msg=str(name))
    assert_allclose(grown.own_pool.moment, scratch.own_pool.moment, rtol=1e-9, atol=1e-12)
    ours, wanted = grown.own_pool.targets, scratch.own_pool.targets
    assert_allclose(ours.weight, wanted.weight)
    assert ours.everyone == wanted.everyone
    assert_allclose(ours.x[np.lexsort(ours.x.T)], wanted.x[np.lexsort(wanted.x.T)])


EXACT = {"rtol": 1e-9, "atol": 1e-9}


@given(
    seed=st.integers(0, 10**6),
    ordered=st.booleans(),
    weights=st.sampled_from(["sum", "mean", "theta"]),
)
def test_a_grown_design_is_the_design_of_the_new_files(tmp_path_factory, seed, ordered, weights):
    rng, home = np.random.default_rng(seed), tmp_path_factory.mktemp("grow")
    folder = random_folder(str(home / "files"), rng, ordered=ordered)
    made = embedded(folder.scan(weights), home / "design")
    for step in range(3):  # a design that has grown grows again
        edit_at_random(folder, ordered=ordered)
        if not folder.table.num_rows:
            return
        made = made.update()
        scratch = embedded(folder.scan(weights), home / f"scratch {step}", made.prepared)
        assert_same(made, scratch, **EXACT)
        again = sw.Embedded.open(home / "design")  # with all checksums
        assert again.digest == made.digest
        assert_allclose(again.sets.sizes, made.sets.sizes)
        assert_allclose(
            [again.sets[name].x.sum() for name in again.ids],
            [scratch.sets[name].x.sum() for name in again.ids],
        )
    shutil.rmtree(home)


def test_some_sets_of_files_have_rows_of_their_own(tmp_path):
    folder = random_folder(str(tmp_path / "files"), np.random.default_rng(0), ordered=False)
    sets = embedded(folder.scan("theta"), tmp_path / "design").sets
    some, each = sets.take([3, 1]), [sets.take([at]) for at in (3, 1)]
    x, theta = some.rows_at(np.arange(some.starts[-1]))
    assert_allclose(x, np.concatenate([one.x for one in each]))
    assert_allclose(theta, np.concatenate([one.theta for one in each]))
    above, below = some.weight_sums()
    assert_allclose(above, [np.maximum(one.theta, 0.0).sum() for one in each])
    assert_allclose(below, [np.minimum(one.theta, 0.0).sum() for one in each])
    assert_allclose(some.take([1]).x, each[1].x)


def test_single_precision_grows_as_exactly_as_it_is_stored(tmp_path):
    rng = np.random.default_rng(4)
    folder = random_folder(str(tmp_path / "files"), rng, ordered=True)
    made = embedded(folder.scan("mean"), tmp_path / "design", dtype="float32")
    for step in range(3):
        edit_at_random(folder, ordered=True)
        made = made.update()
        scratch = embedded(folder.scan("mean"), tmp_path / f"{step}", made.prepared)
        mine, theirs = by_id(made), by_id(scratch)
        assert mine.keys() == theirs.keys()
        assert_allclose([mine[name] for name in theirs], [*theirs.values()], rtol=1e-5, atol=1e-5)


def sorted_folder(path, n_files=6):
    """Files sorted by set, of which each shares a set with the next one."""
    os.makedirs(path)
    made = Folder(str(path), np.random.default_rng(3), {})
    for number, sets in enumerate(np.array_split(np.repeat(np.arange(45), 7), n_files)):
        made.write(f"{number}.parquet", made.rows(sets))
    return made


@pytest.fixture
def read_parts(monkeypatch):
    """The parts that are read whole or in part: file, first row, and whether inputs are read."""
    seen: list[tuple[str, int]] = []
    plain = scanning.raw_batches

    def recorded(scan, part, columns):
        seen.append((os.path.basename(part.path), part.first_row))
        yield from plain(scan, part, columns)

    monkeypatch.setattr(scanning, "raw_batches", recorded)
    return seen


def test_only_changed_files_are_read_and_parts_that_share_a_set_with_them(tmp_path, read_parts):
    folder = sorted_folder(tmp_path / "files")
    made = embedded(folder.scan("sum"), tmp_path / "design")
    folder.write("2.parquet", folder.rows(folder.files["2.parquet"]["set"].to_numpy()))
    folder.write("9.parquet", folder.rows(np.array([44, 90, 91])))
    read_parts.clear()
    rows = {name: table.num_rows for name, table in folder.files.items()}
    grown = made.update()
    read = sorted({*read_parts})
    assert len(read) == len(read_parts)  # once
    assert [part for part in read if part[0] == "2.parquet"] == [("2.parquet", n) for n in range(0, rows["2.parquet"], 15)]  # fmt: skip # noqa: E501
    last = max(n for n in range(0, rows["1.parquet"], 15))
    beside = [part for part in read if part[0] not in ("2.parquet", "9.parquet")]
    assert beside == [("1.parquet", last), ("3.parquet", 0)]
    written = sorted(name.name for name in (tmp_path / "design").glob("u*"))
    assert written == ["u-2.rows", "u.npy"]
    changed = {*folder.files["2.parquet"]["set"].to_pylist(), 44, 90, 91}
    size = os.path.getsize(tmp_path / "design" / "u-2.rows")
    assert size == 8 * grown.manifest.features * len(changed)


def test_a_file_that_is_as_it_was_elsewhere_is_not_read(tmp_path, read_parts):
    folder = sorted_folder(tmp_path / "files")
    made = embedded(folder.scan("sum"), tmp_path / "design")
    before = by_id(made)
    (tmp_path / "files" / "3.parquet").rename(tmp_path / "files" / "33.parquet")
    read_parts.clear()
    grown = made.update()
    assert not read_parts
    assert by_id(grown).keys() == before.keys()
    assert all((row == before[name]).all() for name, row in by_id(grown).items())
    assert grown.update().digest == grown.digest  # nothing has changed


def test_a_value_that_was_corrected_is_found_though_the_footer_is_the_same(tmp_path):
    """Neither the extremes of a column nor its length in the file change."""
    folder = sorted_folder(tmp_path / "files")
    made = embedded(folder.scan("sum"), tmp_path / "design")
    table = folder.files["2.parquet"]
    x = table["x0"].to_numpy().copy()
    x[np.argsort(x[:5])[2]] += 1e-6
    folder.write("2.parquet", table.set_column(1, "x0", pa.array(x)))
    then, now = made.scan.files[2], folder.scan("sum").files[2]
    assert then.footer == now.footer
    grown = made.update()
    scratch = embedded(folder.scan("sum"), tmp_path / "scratch", made.prepared)
    assert_same(grown, scratch, rtol=1e-13, atol=1e-13)


def test_the_former_design_stays_as_it_was_and_opens_by_its_manifest(tmp_path):
    folder = sorted_folder(tmp_path / "files")
    made = embedded(folder.scan("mean"), tmp_path / "design")
    sw.create_study(tmp_path / "s.db", made).close()
    before = by_id(made)
    folder.write("2.parquet", folder.rows(np.arange(15, 40)))
    grown = made.update()
    assert by_id(grown).keys() == before.keys()
    assert any((row != before[name]).any() for name, row in by_id(grown).items())
    assert all((row == before[name]).all() for name, row in by_id(made).items())
    with sw.open_study(tmp_path / "s.db") as study:  # which goes on with what it was made with
        known = by_id(study.state.record.embedded)
        assert all((row == before[name]).all() for name, row in known.items())
    again = build.embed_scan(folder.scan("mean"), MODEL.config(), tmp_path / "design")
    assert again.digest == grown.digest


def test_what_cannot_grow_is_refused_and_nothing_has_happened(tmp_path):
    folder = sorted_folder(tmp_path / "files")
    made = embedded(folder.scan("theta"), tmp_path / "design")
    before = sorted(os.listdir(tmp_path / "design"))
    with pytest.raises(sw.SettingError, match=r"weights='theta'.*scanned with 'sum'"):
        made.update(folder.scan("sum"))
    bad = folder.rows(np.array([100, 101, 102])).set_column(3, "theta", pa.array([1.0, 0.0, 2.0]))
    folder.write("2.parquet", bad)
    with pytest.raises(sw.InvalidSetError, match="weights of set 101"):
        made.update()
    names = sorted(os.listdir(tmp_path / "design"))
    assert [name for name in names if not name.endswith("-2.rows")] == before
    counts = sw.AggregateRegressor("linear", outputs="counts")
    folder.write("2.parquet", folder.rows(np.arange(3)))
    held = counts.embed(folder.scan("sum"), tmp_path / "counts")
    folder.write("2.parquet", folder.rows(np.arange(4)))
    with pytest.raises(sw.SettingError, match="such a design cannot grow"):
        held.update()
    known = json.loads((tmp_path / "design" / "manifest.json").read_text())
    del known["pieces"]["runs.npy"]
    (tmp_path / "design" / "manifest.json").write_text(json.dumps(known))
    with pytest.raises(sw.SettingError, match="made by a former version"):
        sw.Embedded.open(tmp_path / "design").update()


def test_rows_that_were_damaged_are_not_given_a_new_checksum(tmp_path, monkeypatch):
    monkeypatch.setattr(scanning, "PART_ROWS", 1000)
    folder = sorted_folder(tmp_path / "files")
    made = embedded(folder.scan("sum"), tmp_path / "design")
    with open(tmp_path / "design" / "u.npy", "r+b") as file:
        file.seek(made.manifest.regions[0].offset)  # of one part, of which the last row changes
        file.write(b"\1")
    folder.write("9.parquet", folder.rows(np.array([6])))
    with pytest.raises(sw.DataError, match=r"u\.npy has changed since"):
        made.update()


# --- rows in several places -----------------------------------------------------------------------


@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    seed=st.integers(0, 100),
    data=st.data(),
)
def test_rows_in_several_places_are_chosen_as_those_of_one_array(lengths, seed, data):
    whole = np.random.default_rng(seed).normal(size=(sum(lengths), 3))
    parted = Parted(np.split(whole, np.cumsum(lengths)[:-1]))
    n = len(whole)
    at = st.integers(-n, n - 1)
    edge = st.none() | st.integers(-n - 1, n + 1)
    index = data.draw(
        st.one_of(
            at,
            st.lists(at, max_size=2 * n),
            st.lists(at, min_size=1, max_size=2 * n).map(np.array),
            st.lists(st.booleans(), min_size=n, max_size=n).map(np.array),
            st.builds(slice, edge, edge, st.none() | st.integers(1, 3) | st.integers(-3, -1)),
        )
    )
    wanted = whole[np.array(index, dtype=int)] if isinstance(index, list) else whole[index]
    np.testing.assert_array_equal(parted[index], wanted)
    assert parted[index].shape == wanted.shape
    assert (parted.shape, len(parted), parted.dtype) == (whole.shape, n, whole.dtype)
    np.testing.assert_array_equal(np.asarray(parted), whole)
    assert_allclose(parted @ whole[0], whole @ whole[0])
    for wrong in (n, [-n - 1], np.ones(n + 1, dtype=bool), [0.5]):
        with pytest.raises(IndexError):
            parted[wrong]


@pytest.mark.parametrize("strategy", ["IVR", "AggMI", "EPIG", "QBC", "EMCM", "AggEnt", "MaxN"])
def test_a_design_in_pieces_is_asked_as_one_in_a_single_file(tmp_path, strategy):
    folder = sorted_folder(tmp_path / "files")
    made = embedded(folder.scan("sum"), tmp_path / "design")
    for number in (1, 4):
        folder.write(f"{number}.parquet", folder.files[f"{number}.parquet"])
    grown = made.update()
    assert isinstance(grown.own_pool.design.u, Parted)
    assert isinstance(made.own_pool.design.u, np.ndarray)
    told = {name: float(name) for name in made.ids[:6]}
    mine, theirs = (
        sw.AggregateRegressor("fourier", n_basis=6, random_state=1).fit(each, told)
        for each in (grown, made)
    )
    grown, made = (
        replace(each, own_pool=replace(each.own_pool, targets=made.own_pool.targets))
        for each in (grown, made)
    )
    found, wanted = sw.score(grown, mine, strategy), sw.score(made, theirs, strategy)
    assert_allclose(found, wanted, rtol=1e-7, atol=1e-12)
    assert_allclose(
        mine.predict_sets(grown, return_std=True), theirs.predict_sets(made, return_std=True)
    )
