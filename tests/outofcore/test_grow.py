"""A design that grows with its files is the design of the files as they are."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

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
        pq.write_table(table, path, row_group_size=5)
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
