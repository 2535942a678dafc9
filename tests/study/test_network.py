"""Studies on network drives: where they lie is read from the system's table of mounts."""

from __future__ import annotations

import warnings

import pytest

import sumwise as sw
from sumwise.study.storage import network
from tests.studies import small_study

LINES = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:50 / {}/far rw shared:2 - nfs4 server:/export rw,vers=4.2
41 22 0:51 / {}/with\\040blank rw - cifs //server/share rw
42 22 0:52 / {}/ssh rw,nosuid - fuse.sshfs ann@host:/home rw
43 40 8:2 / {}/far/disk rw master:1 propagate_from:2 - xfs /dev/sdb1 rw
44 22 8:3 / {}/covered rw - ext4 /dev/sdc1 rw
45 22 0:53 / {}/covered rw - 9p share rw
nonsense
"""


@pytest.fixture
def mounts(tmp_path, monkeypatch):
    table = tmp_path / "mountinfo"
    place = str(tmp_path).replace(" ", "\\040")
    table.write_text(LINES.replace("{}", place))
    monkeypatch.setattr(network, "MOUNTS", str(table))
    return tmp_path


@pytest.mark.parametrize(
    ("place", "kind"),
    [("far/s.db", "nfs4"), ("with blank/s.db", "cifs"), ("ssh/s.db", "sshfs"), ("s.db", None),
     ("far/disk/s.db", None), ("farther/s.db", None), ("covered/a/s.db", "9p")],
)  # fmt: skip
def test_the_drive_of_a_file_is_the_innermost_and_the_last_mounted(mounts, place, kind):
    assert network.kind_of(str(mounts / place)) == kind


def test_without_a_table_of_mounts_no_drive_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(network, "MOUNTS", str(tmp_path / "none"))
    assert network.kind_of(str(tmp_path)) is None


def test_a_study_on_a_network_drive_warns_and_works(mounts):
    (mounts / "far").mkdir()
    with pytest.warns(UserWarning, match=r"network drive \(nfs4\).*local disk"):
        small_study(mounts / "far" / "s.db")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sw.open_study(small_study(mounts / "s.db")).close()


@pytest.mark.parametrize(
    "kind",
    ["9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "gpfs", "lustre", "ncpfs",
     "nfs", "nfs4", "ocfs2", "orangefs", "smb2", "smb3", "smbfs", "fuse.curlftpfs", "fuse.gcsfuse",
     "fuse.gvfsd-fuse", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "ext4", "xfs", "btrfs", "tmpfs",
     "overlay", "fuse.ntfs"],
)  # fmt: skip
def test_network_drives_are_told_from_local_disks_by_their_kind(kind, tmp_path, monkeypatch):
    table = tmp_path / "mountinfo"
    table.write_text(f"22 1 8:1 / / rw,relatime shared:1 - {kind} there rw\n")
    monkeypatch.setattr(network, "MOUNTS", str(table))
    local = kind in ("ext4", "xfs", "btrfs", "tmpfs", "overlay", "fuse.ntfs")
    assert network.kind_of("/s.db") == (None if local else kind.removeprefix("fuse."))
