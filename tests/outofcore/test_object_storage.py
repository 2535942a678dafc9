"""A design in a real S3 server, which is a process of its own, on this machine."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import time
import uuid
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.data import parquet as scanning
from sumwise.outofcore import build, external_sort, place
from sumwise.outofcore.dask import on
from sumwise.util.parted import Parted

MODEL = sw.AggregateRegressor("fourier", n_basis=6, random_state=1)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a server, which the environment names to all stores and to children."""
    if find_spec("moto") is None or find_spec("s3fs") is None:
        reason = "moto and s3fs are not installed: pip install 'moto[server]' s3fs"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    known = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    log = tmp_path_factory.mktemp("s3") / "log"
    with pytest.MonkeyPatch.context() as patch, log.open("wb") as out:
        for name, value in known.items():
            patch.setenv(name, value)
        started = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(started, stdout=out, stderr=out)
        try:
            for _ in range(600):
                if process.poll() is not None or _answers(port):
                    break
                time.sleep(0.1)
            assert process.poll() is None, log.read_text()[-2000:]
            yield log
        finally:
            process.terminate()
            process.wait(30)


def _answers(port):
    try:
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        line.request("GET", "/")
        return line.getresponse().status < 500
    except OSError:
        return False


@pytest.fixture
def bucket(server, monkeypatch):
    import s3fs

    monkeypatch.setattr(scanning, "PART_ROWS", 40)
    monkeypatch.setattr(build, "PART_ROWS", 40)
    monkeypatch.setattr(place, "FETCHED", 300)  # a few rows, so that a part has several regions
    made = f"test-{uuid.uuid4().hex}"
    s3fs.S3FileSystem().mkdir(made)
    return f"s3://{made}"


def requests(log, kind="GET", name="u/"):
    """Requests of one kind so far."""
    lines = log.read_text().splitlines()
    return [line for line in lines if f"{kind} /" in line and f"/{name}" in line]


def write(folder, name, sets):
    rng = np.random.default_rng(len(sets))
    x = rng.normal(size=(2, len(sets)))
    os.makedirs(folder, exist_ok=True)
    pq.write_table(
        pa.table({"set": sets, "x0": x[0], "x1": x[1]}), folder / name, row_group_size=20
    )


def scanned(folder):
    return sw.Sets.scan_parquet(folder, by="set", x=["x0", "x1"], weights="sum")


@pytest.fixture
def pool(tmp_path):
    for number, sets in enumerate(np.array_split(np.repeat(np.arange(30), 7), 3)):
        write(tmp_path / "files", f"{number}.parquet", sets)
    return scanned(tmp_path / "files")


def assert_rows(remote, local):
    assert remote.ids == local.ids
    mine, theirs = remote.own_pool, local.own_pool
    np.testing.assert_array_equal(mine.design.u[:], theirs.design.u[:])
    np.testing.assert_array_equal(mine.design.noise_scale, theirs.design.noise_scale)
    np.testing.assert_array_equal(mine.moment, theirs.moment)
    np.testing.assert_array_equal(mine.targets.x, theirs.targets.x)


def test_a_design_in_a_store_is_the_one_on_a_disk(bucket, pool, tmp_path, server):
    url = f"{bucket}/meters.design"
    made, local = MODEL.embed(pool, url + "/"), MODEL.embed(pool, tmp_path / "d")
    assert isinstance(made.own_pool.design.u, Parted)
    assert_rows(made, local)
    assert_rows(sw.Embedded.open(url), local)
    names = place.listed(url)
    assert not [name for name in names if name.startswith(("parts/", "begun"))]
    assert sum(name.startswith("u/") for name in names) == len(pool.parts()) + 1
    assert MODEL.embed(pool, url).digest == made.digest  # it is there
    told = {name: float(name) for name in made.ids[:5]}
    for strategy in ("IVR", "AggMI", "EMCM"):
        mine, theirs = (
            sw.score(each, sw.AggregateRegressor(**MODEL.get_params()).fit(each, told), strategy)
            for each in (made, local)
        )
        assert_allclose(mine, theirs, rtol=1e-9)


def test_a_study_on_a_store_asks_what_one_on_a_disk_asks(bucket, pool, tmp_path, server):
    url = f"{bucket}/meters.design"
    asked = []
    for number, out in enumerate([url, tmp_path / "d"]):
        with sw.create_study(tmp_path / f"{number}.db", MODEL.embed(pool, out)) as study:
            for _ in range(4):
                study.tell(name := study.ask().set_id, float(name))
        with sw.open_study(tmp_path / f"{number}.db") as study:
            asked.append([answer.set_id for answer in study.answers] + [study.ask().set_id])
    assert asked[0] == asked[1]


def test_what_is_scanned_is_read_once_and_single_rows_by_ranges(bucket, pool, server):
    made = MODEL.embed(pool, f"{bucket}/once.design")
    design = made.own_pool.design
    place.REGIONS.clear()
    before = len(requests(server))
    for low in range(0, len(design), 4):
        assert np.isfinite(design.u[low : low + 4]).all()
    n_regions = len(made.manifest.regions)
    assert len(requests(server)) - before == n_regions
    design.u[:], design.u[[0, 3]]
    assert len(requests(server)) - before == n_regions  # they are kept
    place.REGIONS.clear()
    before = len(requests(server))
    assert design.u[[9]].shape == (1, design.u.shape[1])
    assert len(requests(server)) - before == 1


def test_few_regions_are_kept(bucket, pool, server, monkeypatch):
    made = MODEL.embed(pool, f"{bucket}/few.design")
    u = made.own_pool.design.u
    monkeypatch.setattr(place, "KEPT", 700)
    place.REGIONS.clear()
    np.testing.assert_array_equal(u[:], u[:])
    assert place.REGIONS.n_bytes <= 700


def test_damaged_rows_are_refused_when_they_are_read(bucket, pool, server):
    url = f"{bucket}/damaged.design"
    made = MODEL.embed(pool, url)
    store, root = place.store_of(url)
    name = next(name for name in place.listed(url) if name.startswith("u/000001"))
    content = bytearray(store.cat_file(f"{root}/{name}"))
    content[3] ^= 1
    store.pipe_file(f"{root}/{name}", bytes(content))
    opened = sw.Embedded.open(url)  # rows are compared when they are read
    place.REGIONS.clear()
    with pytest.raises(sw.DataError, match=r"u/000001\.rows has changed since"):
        opened.own_pool.design.u[:]
    store.rm_file(f"{root}/{name}")
    with pytest.raises(sw.DataError, match=r"cannot be reached|has changed"):
        made.own_pool.design.u[:]
    store.pipe_file(f"{root}/sums.npy", b"other")
    with pytest.raises(sw.DataError, match=r"sums\.npy has changed"):
        sw.Embedded.open(url)


def test_unsorted_files_and_a_run_that_was_stopped(bucket, tmp_path, server, monkeypatch):
    rng = np.random.default_rng(1)
    monkeypatch.setattr(external_sort, "PART_ROWS", 40)
    write(tmp_path / "shuffled", "a.parquet", rng.permutation(np.repeat(np.arange(30), 7)))
    pool, url = scanned(tmp_path / "shuffled"), f"{bucket}/shuffled.design"

    def stop(job, jobs):
        done = 0
        for one in jobs:
            yield job(one)
            done += job.func is build.embed_part
            if done == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        MODEL.embed(pool, url, run=stop)
    with pytest.raises(sw.DataError, match="it was not finished"):
        sw.Embedded.open(url)
    before = len(requests(server, "PUT"))
    made = MODEL.embed(pool, url)
    written = len(requests(server, "PUT")) - before
    assert_rows(made, MODEL.embed(pool, tmp_path / "d"))
    assert written == sum(name.startswith("u/") for name in place.listed(url)) - 2
    assert not [name for name in place.listed(url) if name.startswith("_sorted")]


def test_a_design_in_a_store_grows_and_studies_switch_to_it(bucket, pool, tmp_path, server):
    url = f"{bucket}/grown.design"
    made = MODEL.embed(pool, url)
    local = MODEL.embed(pool, tmp_path / "d")
    with sw.create_study(tmp_path / "s.db", made) as study:
        study.tell(3, 1.0)
        write(tmp_path / "files", "9.parquet", np.array([3, 3, 50, 51]))
        said = study.refresh_pool()
        assert "4 individuals joined, 1 set grew, 2 sets new" in said
        assert len(study.ids) == 32
    with sw.open_study(tmp_path / "s.db") as study:
        assert study.ask() is not None
    assert_rows(made.update(), local.update())
    assert_rows(sw.Embedded.open(url), sw.Embedded.open(tmp_path / "d"))


def test_counts_stay_on_a_disk_and_an_unknown_store_is_refused(bucket, pool, tmp_path):
    with pytest.raises(sw.SettingError, match="name a folder on a disk"):
        sw.AggregateRegressor("linear", outputs="counts").embed(pool, f"{bucket}/counts.design")
    with pytest.raises(sw.DataError, match="cannot be opened"):
        MODEL.embed(pool, "nowhere://a/b.design")
    with pytest.raises(sw.DataError, match="bucket does not exist"):
        MODEL.embed(pool, "s3://there-is-no-such-bucket/b.design")
    place.write(f"{bucket}/other", "mine.txt", b"x")
    with pytest.raises(sw.SettingError, match="other files in it"):
        MODEL.embed(pool, f"{bucket}/other")


@pytest.mark.slow
def test_workers_write_their_parts_to_the_store(bucket, pool, tmp_path):
    from dask.distributed import Client

    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        made = MODEL.embed(pool, f"{bucket}/dask.design", run=on(client))
    assert_rows(made, MODEL.embed(pool, tmp_path / "d"))
