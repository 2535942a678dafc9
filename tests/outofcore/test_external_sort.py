"""Unsorted files are sorted by set in bounded memory, whatever the sizes of sets."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sumwise as sw
from sumwise.data import parquet as scanning
from sumwise.outofcore import external_sort
from tests import parquet
from tests.builders import random_sets


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(scanning, "BATCH_ROWS", 11)
    monkeypatch.setattr(scanning, "PART_ROWS", 40)


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    n_bytes=st.integers(500, 20_000),
    seed=st.integers(0, 99),
)
def test_rows_come_by_set_in_their_order(tmp_path_factory, sizes, n_bytes, seed):
    rng, place = np.random.default_rng(seed), tmp_path_factory.mktemp("sort")
    sets = random_sets(sizes, rng, ids=[f"set {a}" for a in range(len(sizes))])
    table = parquet.table_of(sets, order=rng.permutation(len(sets.x)))
    scan = parquet.scan(parquet.write(table, place / "data"))
    ids = tuple(dict.fromkeys(table["set"].to_pylist()))
    made, _ = external_sort.sorted_copy(scan, str(place / "sorted"), ids, n_bytes)
    found = [row for file in made.files for row in pq.read_table(file.path).to_pylist()]
    rows = table.select(["set", "x0", "x1", "x2", "theta"]).to_pylist()
    assert found == sorted(rows, key=lambda row: ids.index(row["set"]))  # which is stable


def test_a_set_that_is_larger_than_a_bucket_is_not_held(tmp_path, monkeypatch):
    sets = random_sets([3, 2000, 4], np.random.default_rng(0), ids=["a", "b", "c"])
    order = np.random.default_rng(1).permutation(len(sets.x))
    scan = parquet.scan(parquet.write(parquet.table_of(sets, order=order), tmp_path / "data"))
    held = []
    plain = np.argsort
    monkeypatch.setattr(np, "argsort", lambda x, **how: held.append(len(x)) or plain(x, **how))
    made, _ = external_sort.sorted_copy(scan, str(tmp_path / "sorted"), ("b", "a", "c"), 5_000)
    assert max(held) < 100
    assert isinstance(made, sw.Scan)
