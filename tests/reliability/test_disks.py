"""Disks that are full, files and folders that may not be written: words, and nothing lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import sumwise as sw
from tests.reliability import children, invariants
from tests.reliability.children import MOUNTING, run
from tests.reliability.scale import sized
from tests.studies import change, small_study

mounting = pytest.mark.skipif(
    not children.may_mount(), reason="this system lets nobody mount a file system"
)
somebody_else = pytest.mark.skipif(
    os.geteuid() != 0, reason="a reader who is not the owner: only root can become one"
)


@pytest.fixture
def shared():
    """A folder that others may look into: pytest's own are closed to them."""
    folder = Path(tempfile.mkdtemp(prefix="sumwise-shared-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def path(shared):
    return small_study(shared / "a.db")


def allow(path, file, folder):
    path.chmod(file)
    path.parent.chmod(folder)


# --- no room --------------------------------------------------------------------------------------


@mounting
def test_a_full_disk_is_named_and_nothing_is_lost(tmp_path):
    run(children.survives_a_small_disk, tmp_path, within=MOUNTING)


@mounting
def test_a_study_is_read_on_a_full_disk(tmp_path):
    run(children.reads_on_a_full_disk, tmp_path, within=MOUNTING)


@pytest.mark.slow
def test_a_file_that_may_not_grow_is_named_and_nothing_is_lost(tmp_path):
    run(children.survives_a_limit_on_files, tmp_path)


@pytest.mark.slow
@mounting
def test_a_study_is_made_whole_or_not_at_all_on_a_disk_that_is_nearly_full(tmp_path):
    run(children.makes_a_study_whole_or_not_at_all, tmp_path, within=MOUNTING)


@pytest.mark.slow
@mounting
def test_what_does_not_fit_on_a_full_disk_is_refused_and_leaves_nothing(tmp_path):
    """Exports, copies, imports, new studies, predictions and reports, full at any page of each."""
    run(
        children.writes_all_or_nothing_with_less_and_less_room,
        tmp_path,
        min(100, sized(12)),
        within=MOUNTING,
    )


@pytest.mark.slow
@mounting
@pytest.mark.skipif(os.geteuid() != 0, reason="the server's user gets a disk from root")
def test_a_server_whose_disk_is_full_loses_nothing(shared, postgres_server):
    run(children.survives_a_full_server, shared, within=MOUNTING)


# --- no permission --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "folder"), [(0o444, 0o777), (0o444, 0o555), (0o666, 0o555)], ids=oct
)
def test_a_study_that_may_only_be_read_can_be_read(path, file, folder):
    allow(path, file, folder)
    run(children.reads_and_is_refused, path)


@pytest.mark.slow
def test_a_model_that_keeps_what_it_learns_can_be_read(shared):
    """It is worked out anew each time, as it cannot be kept."""
    allow(small_study(shared / "a.db", "adam"), 0o444, 0o555)
    run(children.reads_and_is_refused, shared / "a.db", "adam")


@somebody_else
def test_a_reader_does_not_lock_out_the_owner(path):
    """Files that SQLite would leave beside the study would be the reader's, not the owner's."""
    allow(path, 0o644, 0o777)
    run(children.reads_and_is_refused, path)
    assert os.listdir(path.parent) == ["a.db"]


@somebody_else
def test_a_reader_sees_what_the_owner_has_just_written(path):
    allow(path, 0o644, 0o755)
    with sw.open_study(path) as owner:
        owner.tell(3, 1.0)
        run(children.reads_what_others_write, path, "1,3")
        owner.tell(0, 1.0)
        run(children.reads_what_others_write, path, "1,3,0")
    run(children.reads_and_is_refused, path)
    invariants.check(path)


@pytest.mark.slow
def test_an_older_file_that_is_not_in_wal_mode_can_be_read(path):
    change(path, "PRAGMA journal_mode = DELETE")
    allow(path, 0o444, 0o555)
    run(children.reads_and_is_refused, path)


def test_a_copy_with_its_log_says_what_to_do(path):
    """Somebody has copied the files of a study in use to a place that cannot be written."""
    copy = path.parent / "copy"
    copy.mkdir()
    with sw.open_study(path) as study:
        study.tell(3, 1.0)
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", copy / f"a.db{end}")
    allow(copy / "a.db", 0o444, 0o555)
    run(children.is_told_to_copy, copy / "a.db")
    copy.chmod(0o755)
    (copy / "a.db").chmod(0o644)
    with sw.open_study(copy / "a.db") as study:  # as root or its owner, it is all there
        assert [answer.set_id for answer in study.answers] == [1, 3]


def test_what_may_not_be_read_is_refused_in_words(path):
    allow(path, 0o000, 0o755)
    run(children.is_refused_where_nothing_may_be_read, path)


def test_a_folder_that_may_not_be_written_takes_no_new_study(path):
    allow(path, 0o644, 0o555)
    run(children.is_refused_a_new_file, path.parent / "b.db")
    assert os.listdir(path.parent) == ["a.db"]


@pytest.mark.slow
@mounting
def test_a_study_on_a_read_only_disk_can_be_read(path):
    run(children.reads_on_a_read_only_disk, path, within=MOUNTING)


@pytest.mark.slow
def test_a_file_that_nobody_may_change_can_be_read(path):
    """Immutable even for root, where the file system knows such a thing."""
    if os.geteuid() or subprocess.run(["chattr", "+i", path], capture_output=True).returncode:
        pytest.skip("files cannot be made immutable here")
    try:
        run(children.reads_where_nobody_writes, path)
    finally:
        subprocess.run(["chattr", "-i", path], check=True)
