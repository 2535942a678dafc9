"""Files beyond memory and clusters, from the shell."""

from __future__ import annotations

import json
import os
import warnings
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import sumwise as sw
from sumwise.cli import main
from sumwise.cli.init import size
from sumwise.outofcore import dask
from tests import parquet
from tests.builders import random_sets
from tests.datasets import data_folder
from tests.marks import slow
from tests.tables import write_csv

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


def run(*arguments):
    return CliRunner(env={"COLUMNS": "80"}).invoke(main, [str(a) for a in arguments])


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def one_line(text):
    return " ".join(text.replace("│", " ").split())


@contextmanager
def cluster_of_two(**options):
    """Its address."""
    pytest.importorskip("distributed")
    from distributed import LocalCluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50, **options
        ) as cluster:
            yield cluster.scheduler_address


@pytest.fixture
def sets():
    rng = np.random.default_rng(2)
    return random_sets(rng.integers(1, 9, 30).tolist(), rng, ids=[f"m{a}" for a in range(30)])


@pytest.fixture
def folder(sets, tmp_path):
    return parquet.write(parquet.table_of(sets), tmp_path / "devices", cuts=[40, 41])


def test_a_folder_of_parquet_files_becomes_a_study(sets, folder, tmp_path):
    url = tmp_path / "m.db"
    said = done("init", url, folder, "--by", "set", "--weights", "theta")
    assert "30 sets of" in one_line(said.stdout)
    assert "inputs x0, x1, x2" in one_line(said.stderr)
    assert (tmp_path / "m.design" / "manifest.json").exists()
    asked = json.loads(done("ask", url, "--json").stdout)
    expected = sw.ActiveLearner(sets).ask()
    assert asked["questions"][0]["set"] == expected.set_id
    done("tell", url, expected.set_id, "12.5")
    out = tmp_path / "all.parquet"
    assert "written to" in done("predict", url, "-o", out).stdout
    found = pq.read_table(out)
    with sw.open_study(url) as study:
        np.testing.assert_allclose(found["mean"].to_numpy(), study.model.predict(sets.x), rtol=1e-9)
    assert f"All {len(sets.x)} rows" in one_line(done("predict", url).output)
    out.write_bytes(b"mine")
    refused = run("predict", url, "-o", out)
    assert (refused.exit_code, out.read_bytes()) == (1, b"mine")
    done("predict", url, "-o", out, "--force")
    assert pq.read_table(out).equals(found)
    done("predict", url, "-o", tmp_path / "ALL.PARQUET")
    assert pq.read_table(tmp_path / "ALL.PARQUET").equals(found)


def test_a_file_beyond_the_limit_stays_where_it_is(sets, tmp_path):
    pq.write_table(parquet.table_of(sets), tmp_path / "d.parquet")
    given = ("--by", "set", "--x", "x0", "--x", "x1", "--weights", "theta")
    done("init", tmp_path / "a.db", tmp_path / "d.parquet", *given)
    assert not (tmp_path / "a.design").exists()
    done("init", tmp_path / "b.db", tmp_path / "d.parquet", *given, "--memory-limit", "1KB")
    made = sw.Embedded.open(tmp_path / "b.design")
    assert made.own_pool.design.u.dtype == np.float32
    assert made.ids == sets.ids
    done("init", tmp_path / "c.db", tmp_path / "d.parquet", *given, "--memory-limit", "20 KB",
         "--preset", "paper")  # fmt: skip
    with sw.open_study(tmp_path / "c.db") as study:
        assert study.model.hyperparameters == "adam"


def test_raw_columns_in_files_are_chosen_read_and_predicted_as_in_memory(tmp_path):
    rng, n = np.random.default_rng(0), 120
    columns = {
        "set": [f"s{a}" for a in np.sort(rng.integers(0, 8, n))],
        "number": np.arange(1, n + 1),
        "same": ["x"] * n,
        "name": [f"name {i}" for i in range(n)],
        "kind": [None if i % 9 == 0 else "abc"[i % 3] for i in range(n)],
        "size": [None if i % 7 == 0 else float(v) for i, v in enumerate(rng.normal(size=n))],
        "day": (np.datetime64("2024-01-01") + rng.integers(0, 99, n)).astype("datetime64[D]"),
        "list": [[1]] * n,
    }
    pq.write_table(pa.table(columns), tmp_path / "d.parquet", row_group_size=17)
    given = ("--by", "set", "--period", "day=year", "--json", "--basis", "linear")
    told = []
    for name, more in (("a", ()), ("b", ("--memory-limit", "1KB"))):
        made = done("init", tmp_path / f"{name}.db", tmp_path / "d.parquet", *given, *more)
        about = json.loads(made.stdout)
        told.append((about["inputs"], about["left_out"]))
        done("tell", tmp_path / f"{name}.db", "s3", "12.5")
        assert "kind" in done("predict", tmp_path / f"{name}.db").output
    assert told[0] == told[1]
    assert told[0][0] == ["kind", "size", "day"]
    new = {"kind": ["never seen", "a"], "size": [1.5, None], "day": columns["day"][:2]}
    with sw.open_study(tmp_path / "a.db") as one, sw.open_study(tmp_path / "b.db") as other:
        one_recipe = one.sets.recipe.sources
        assert other.scan.recipe.sources == one_recipe
        mine, theirs = (each.predict(pa.table(new)) for each in (one, other))
        np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-5)  # single precision
        assert theirs.std[0] > 0
        other.export(tmp_path / "out")
    with sw.import_study(tmp_path / "out", tmp_path / "c.db") as again:
        assert again.sets.recipe.sources == one_recipe
    done("predict", tmp_path / "b.db", "-o", tmp_path / "p.parquet")
    assert pq.read_table(tmp_path / "p.parquet").num_rows == n


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--memory-limit", "much"), "'much' is not a size; write 500MB or 2GB"),
        (("--memory-limit", "9" * 400 + "GB"), "is not a size; write 500MB or 2GB"),
        (("--sets-file", "s.parquet"), "leave --sets-file out"),
        (("--basis", "neural"), "basis='auto'"),
        (("--basis", "linear", "--preset", "paper"), "a preset brings its own model and strategy"),
        (("--strategy", "MI", "--preset", "paper"), "a preset brings its own model and strategy"),
        (("--dask", "tcp://127.0.0.1:1"), "no Dask scheduler answers"),
    ],
)
def test_options_that_make_no_sense_are_refused(folder, tmp_path, monkeypatch, more, message):
    monkeypatch.setattr(dask, "PATIENCE", 1)
    result = run("init", tmp_path / "m.db", folder, "--by", "set", *more)
    assert result.exit_code in (1, 2)
    assert message in one_line(result.stderr)
    assert not (tmp_path / "m.db").exists()


def test_an_address_is_kept_as_it_is(sets, folder, tmp_path):
    pytest.importorskip("fsspec")
    done("init", tmp_path / "m.db", folder.as_uri(), "--by", "set", "--weights", "theta")
    with sw.open_study(tmp_path / "m.db") as study:
        assert study.ids == sets.ids
        assert all(file.path.startswith("file://") for file in study.scan.files)


def test_a_study_that_is_there_is_refused_before_any_work(folder, tmp_path, monkeypatch):
    url, given = tmp_path / "m.db", ("--by", "set", "--x", "x0")
    done("init", url, folder, *given)
    kept = (tmp_path / "m.design" / "manifest.json").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(sw.AggregateRegressor, "embed", None)
        refused = run("init", url, folder, *given, "--x", "x1")
    assert "there is a study called 'study' already" in one_line(refused.stderr)
    done("init", url, folder, *given, "--x", "x1", "--name", "with two")
    assert (tmp_path / "m-with two.design").is_dir()
    assert (tmp_path / "m.design" / "manifest.json").read_bytes() == kept
    for name in ("study", "with two"):
        done("ask", url, "--study", name)
    (tmp_path / "m.design").rename(tmp_path / "n.design")
    other = run("init", tmp_path / "n.db", folder, *given, "--x", "x2")
    assert "another study with --name" in one_line(other.stderr)


def test_whoever_stops_it_learns_that_nothing_is_lost(folder, tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sw.AggregateRegressor, "embed", stopped)
    result = run("init", tmp_path / "m.db", folder, "--by", "set")
    assert result.exit_code == 1
    assert "m.design; the same command continues" in one_line(result.stderr)


def test_a_scheduler_without_workers_is_refused(folder, tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(dask, "PATIENCE", 3)  # in which the scheduler itself has to answer
    from distributed import LocalCluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with LocalCluster(
            n_workers=0, processes=False, dashboard_address=None, silence_logs=50,
            protocol="tcp", host="127.0.0.1",
        ) as cluster:  # fmt: skip
            given = ("--by", "set", "--dask", cluster.scheduler_address)
            result = run("init", tmp_path / "m.db", folder, *given)
    assert "has no workers; start some" in one_line(result.stderr)


def test_folders_without_numbers_or_files_are_refused(tmp_path):
    (tmp_path / "none").mkdir()
    result = run("init", tmp_path / "m.db", tmp_path / "none", "--by", "set")
    assert "no files that end in .parquet" in one_line(result.stderr)
    table = parquet.table_of(random_sets([2], np.random.default_rng(0))).select(["set"])
    parquet.write(table, tmp_path / "bare")
    result = run("init", tmp_path / "m.db", tmp_path / "bare", "--by", "set")
    assert "has no input columns" in one_line(result.stderr)


@pytest.mark.parametrize("url", [".", "..", "", "/"])
def test_a_study_in_a_folder_is_refused_before_anything_is_embedded(folder, monkeypatch, url):
    monkeypatch.chdir(folder)
    before = sorted(os.listdir(folder.parent))
    result = run("init", url, folder, "--by", "set")
    assert result.exit_code == 1
    said = one_line(result.stderr)
    assert "is a folder; give the path of a file" in said or "cannot hold a study" in said
    assert sorted(os.listdir(folder.parent)) == before


def test_two_studies_in_one_database_have_their_own_designs(sets, folder, tmp_path):
    given = ("--by", "set", "--x", "x0")
    done("init", tmp_path / "m.db", folder, *given)
    other = parquet.write(parquet.table_of(sets[:5]), tmp_path / "other")
    result = run("init", tmp_path / "m.db", other, *given)
    assert "give another name with --name" in one_line(result.stderr)
    done("init", tmp_path / "m.db", other, *given, "--name", "a/b")
    for name, expected in (("study", sets.ids), ("a/b", sets.ids[:5])):
        with sw.open_study(tmp_path / "m.db", name) as study:
            assert study.ids == expected


def test_addresses_are_taken_as_they_are(sets, folder, tmp_path):
    pytest.importorskip("fsspec")
    done("init", tmp_path / "m.db", f"file://{folder}", "--by", "set", "--x", "x0")
    with sw.open_study(tmp_path / "m.db") as study:
        assert study.ids == sets.ids


def test_sizes_are_read_as_people_write_them():
    read = [size(text) for text in ("17", "2GB", "1.5 mb", "3KiB")]
    assert read == [17, 2_000_000_000, 1_500_000, 3000]


@pytest.mark.parametrize("processes", [False, *slow(True)])
def test_init_works_on_a_cluster(sets, folder, processes, tmp_path):
    given = ("--by", "set", "--weights", "theta")
    with cluster_of_two(processes=processes, protocol="tcp", host="127.0.0.1") as address:
        done("init", tmp_path / "m.db", folder, *given, "--dask", address)
    with sw.open_study(tmp_path / "m.db") as study:
        assert study.ids == sets.ids


@pytest.mark.slow  # `init` on one stays quick, and `simulate` without one
def test_simulating_on_a_cluster_gives_the_same_figures(cluster, tmp_path):
    data = write_csv(tmp_path / "data.csv")
    short = ("--splits", 3, "--queries", 3, "--methods", "AggMI", "--json")
    given = ("simulate", data, "--by", "g", "--y", "y", *short)
    here = json.loads(done(*given, "--jobs", 1, "--out", tmp_path / "a.html").stdout)
    there = json.loads(done(*given, "--dask", cluster, "--out", tmp_path / "b.html").stdout)
    assert here["errors"] == there["errors"]


@pytest.mark.slow
def test_reproducing_on_a_cluster_gives_the_same_figures(cluster, tmp_path):
    data = ("--data", data_folder(), "--datasets", "Housing", "--methods", "AggMI,Rand")
    short = ("--splits", 2, "--queries", 3, "--no-figures", "--json")
    given = ("reproduce", "rff", *data, *short)
    here = json.loads(done(*given, "--jobs", 1, "--out", tmp_path / "a").stdout)
    there = json.loads(done(*given, "--dask", cluster, "--out", tmp_path / "b").stdout)
    assert here == there
