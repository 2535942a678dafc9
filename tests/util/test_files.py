"""Files that are written whole or not at all, locks between processes, checksums."""

import hashlib
import mmap
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sumwise.errors import DataError
from sumwise.util import files
from sumwise.util.files import atomic_write, let_go, lock, sha256_of, write_file


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    write_file(path, "first", durable=True)
    with pytest.raises(TypeError), atomic_write(path) as file:
        file.write(b"half" + "no bytes")
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_nothing_is_overwritten_that_must_not_be(tmp_path):
    path = tmp_path / "a.txt"
    write_file(path, "first")
    with pytest.raises(FileExistsError), atomic_write(path, overwrite=False) as file:
        file.write(b"second")
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_link_is_replaced_and_not_followed(tmp_path):
    outside, path = tmp_path / "outside", tmp_path / "a.txt"
    outside.write_text("not ours")
    path.symlink_to(outside)
    write_file(path, "ours")
    assert (outside.read_text(), path.read_text()) == ("not ours", "ours")


def test_permissions_hold_from_the_first_moment(tmp_path):
    with atomic_write(tmp_path / "secret", mode=0o600) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_a_lock_keeps_other_processes_out_until_it_is_released(tmp_path):
    path = tmp_path / "lock"
    code = f"from sumwise.util.files import lock\nwith lock({str(path)!r}, 'wait'): pass"
    with lock(path, "wait"):
        with pytest.raises(DataError, match="wait"), lock(path, "wait"):
            pass
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "DataError: wait" in other.stderr
    assert not path.exists()
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_lock_on_a_file_that_was_removed_does_not_count(tmp_path, monkeypatch):
    path, opened = tmp_path / "lock", []

    def removed_once(*args):
        opened.append(os_open(*args))
        if len(opened) == 1:  # its holder releases it between our opening and locking it
            os.unlink(path)
        return opened[-1]

    os_open = os.open
    monkeypatch.setattr(os, "open", removed_once)
    with lock(path, "wait"):
        assert os.path.samestat(os.fstat(opened[-1]), path.stat())
    assert len(opened) == 2


def test_a_checksum_of_a_missing_file_is_empty(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256_of(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()
    assert sha256_of(tmp_path / "b") == sha256_of(tmp_path) == ""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is counted on Linux")
def test_rows_of_a_mapped_file_take_no_memory_once_they_are_let_go(tmp_path):
    rows = np.arange(2**22, dtype=np.float64).reshape(2**12, 2**10)  # 32 MB
    np.save(tmp_path / "u.npy", rows)
    mapped = np.load(tmp_path / "u.npy", mmap_mode="r").view(np.ndarray)

    def shared():
        return int(Path("/proc/self/statm").read_text().split()[2]) * mmap.PAGESIZE

    assert mapped.sum() == rows.sum()
    before = shared()
    let_go(mapped[7:-7])
    assert before - shared() > 0.9 * rows.nbytes
    np.testing.assert_array_equal(mapped, rows)
    let_go(rows)  # nothing is mapped: nothing happens
    assert rows[-1, -1] == 2**22 - 1


def test_no_writer_opens_a_file_that_may_be_a_link():
    """All go through `atomic_write`, but for those that go on with a file of their own."""
    source = Path(files.__file__).parents[1]
    direct = re.compile(r"""(write_text|write_bytes|shutil\.copy|mkstemp)\(|open\([^)]*"w[b+]*\"""")
    found = {
        f"{path.name}: {line.strip()}"
        for path in source.rglob("*.py")
        for line in path.read_text().splitlines()
        if direct.search(line)
    }
    assert found == {
        'pool.py: file.write_bytes(body.csv.encode("utf-8", "surrogatepass"))',  # its own folder
        'grow.py: with files.open(f"{root}/{name}", "wb") as file:',  # in object storage
    }
