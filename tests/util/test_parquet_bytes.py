"""Bytes of Parquet files are read without threads that could outlive the interpreter."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sumwise.util.files import parquet_table

ALIVE = """
import sys
from pathlib import Path
from pathlib import Path
from sumwise.util.files import parquet_table
content = sys.stdin.buffer.read()
import pyarrow.parquet
before = {task.name for task in Path("/proc/self/task").iterdir()}
parquet_table(content)
print(len({task.name for task in Path("/proc/self/task").iterdir()} - before))
"""


def stored(table):
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=100)
    return file.getvalue()


def test_the_table_is_read_whole():
    table = pa.table({"a": range(1000), "b": [str(n) for n in range(1000)]})
    assert parquet_table(stored(table)).equals(table)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")
def test_no_thread_of_arrow_is_started():
    """One that still holds the bytes while the interpreter exits aborts the program."""
    content = stored(pa.table({f"x{d}": range(1000) for d in range(4)}))
    command = [sys.executable, "-c", ALIVE]
    done = subprocess.run(command, input=content, capture_output=True, check=True)
    assert int(done.stdout) == 0
