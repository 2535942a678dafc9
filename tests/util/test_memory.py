"""Parquet that would fill the memory is refused, however small its file is; the rest is read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sumwise as sw
from sumwise.data.dialect import Reading
from sumwise.data.tables import read_table
from sumwise.util.memory import COPIES, TEXTS, read_parquet
from tests.parquet import with_other_rows

LIMIT = 10**7


def written(place, table, **options):
    path = place / "t.parquet"
    pq.write_table(table, path, **options)
    return path


ONES = pa.chunked_array([pa.array([0.0] * 10**6)])
BOMBS = {
    "a number, a million times": lambda: {"x": ONES},
    "a list of a million numbers": lambda: {"x": [[0.0] * 10**6]},
    "long text that is repeated": lambda: {"x": ["a" * 10**4] * 1000, "y": [1.0] * 1000},
    "a field of a million numbers": lambda: {"x": pa.StructArray.from_arrays([ONES.chunk(0)], "y")},
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_small_file_that_would_fill_the_memory_is_refused_in_words(kind, tmp_path):
    path = written(tmp_path, pa.table(BOMBS[kind]()), compression="zstd")
    assert path.stat().st_size < LIMIT / 100
    with pytest.raises(sw.DataError, match=r"t.parquet needs over .* GB of memory"):
        read_table(path, str.islower, Reading(memory=LIMIT))


def test_the_number_of_values_is_known_before_any_is_read(tmp_path):
    class Footer:  # of a file whose values must not be read
        def __init__(self, file):
            self.metadata, self.schema_arrow = file.metadata, file.schema_arrow

    path = written(tmp_path, pa.table({"x": ONES}))
    with pq.ParquetFile(path) as file, pytest.raises(sw.DataError):
        read_parquet(Footer(file), "t", LIMIT)


@pytest.mark.parametrize("rows", [0, 1, TEXTS - 1, TEXTS, TEXTS + 1, 3 * TEXTS])
def test_what_fits_is_read_as_arrow_reads_it(rows, tmp_path):
    text = pa.array([f"s{n % 7}" for n in range(rows)])
    columns = {"a": text, "b": text.dictionary_encode(), "c": [[n, n] for n in range(rows)]}
    table = pa.table(columns).replace_schema_metadata({"geo": "kept"})
    path = written(tmp_path, table, row_group_size=1500)
    with pq.ParquetFile(path) as file:
        found = read_parquet(file, "t", max(COPIES * 8 * 4 * rows, COPIES * table.nbytes * 4))
        assert found.equals(file.read(), check_metadata=True)


def test_a_footer_that_contradicts_the_rows_is_refused(tmp_path):
    path = written(tmp_path, pa.table({"g": [1.0, 2.0] * 30}), row_group_size=20)
    lying = with_other_rows(path)
    assert {*lying} == {"file", "group"}
    for content in lying.values():
        path.write_bytes(content)
        with pytest.raises(sw.DataError, match=r"t.parquet is damaged: it says that it has"):
            read_table(path, str.islower, Reading())
        with pytest.raises(sw.DataError, match=r"t.parquet is damaged: it says that it has"):
            sw.Sets.scan_parquet(path, by="g", x="g")
